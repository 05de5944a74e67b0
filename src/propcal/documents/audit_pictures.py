"""Overall performance in four pictures, what each group adds to them, and the curves of
groups.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from propcal.auditing.audit import Audit
from propcal.auditing.audit_tables import row_dicts
from propcal.auditing.names import MEASURE_NAMES
from propcal.core.grid import FloatArray
from propcal.documents.audit_charts import chosen_groups
from propcal.documents.charts import Axis, Mark, Plot, round_axis
from propcal.documents.words import all_words, words
from propcal.numbers import ON_PAGE, Limit, known, trimmed, without_limits

ENDS = (
    0.01,
    0.02,
    0.05,
    0.1,
    0.2,
    0.3,
    0.4,
    0.5,
    0.6,
    0.8,
)  # of axes that hold rare risks
FEWEST_POINTS = 5  # a line through fewer looks like a worse score than it is
AT_ONCE = 12  # panels
BELOW = 0.15  # of the height of a picture, for the distribution of predicted risks
POINT = ("threshold", "net_benefit", "treat_all", "sensitivity", "specificity")
BAR = ("score_from", "score_to", "people", "positives")
CURVE = ("score", "outcome_rate", "low", "high")


@dataclass(frozen=True, eq=False)
class GroupCurves:
    """One group: its row, its numbers by threshold (columns of `POINT`), its smooth
    curve, its histogram.

    `bars` has numbers or limits (objects), `density` numbers to draw, with half of a
    limit.
    """

    row: Any
    points: FloatArray
    curve: FloatArray
    bars: Any
    density: FloatArray


@dataclass(frozen=True)
class GroupPictures:
    """What one group draws into the four pictures, its tables and its sentences.

    The part of the key of a mark before "-" is the key of its picture.
    """

    name: str
    marks: dict[str, Mark]
    tables: dict[str, list[list[str]]]
    captions: dict[str, str]

    def marks_in(self, plot: Plot) -> dict[str, Mark]:
        """The marks of one picture."""
        return {
            key: mark
            for key, mark in self.marks.items()
            if key.split("-")[0] == plot.key
        }


@dataclass(frozen=True)
class PerformancePictures:
    """Pictures of everybody, and every group's marks."""

    plots: list[Plot]
    headings: dict[str, list[str]]
    groups: list[GroupPictures]
    bars: Any  # of the distribution of everybody
    risk_end: str  # of both axes of the calibration curves, in percent


def performance_pictures(audit: Audit) -> PerformancePictures:
    """The pictures of everybody, and the groups ready for the reader to pick."""
    found = _group_curves(audit)
    unit = audit.identity.unit
    certain = any(
        region.low == 1.0 for claim in audit.verdict.claims for region in claim.where
    )
    # what the verdict says of a score of 1 is in the picture
    if certain:
        end = 1.0
    else:
        end = _risk_end(found)
    densest = max([1e-9, *(each.density.max(initial=0.0) for each in found)])
    plots = _frames(_benefit_axis(found), end, unit)
    groups = [_group(each, densest, plots[2].y.low, end, unit) for each in found]
    for i, plot in enumerate(plots):
        marks = groups[0].marks_in(plot)
        picked = [
            Mark(mark.kind, mark.look.replace("all", "one"), [], [], key=key)
            for key, mark in marks.items()
        ]
        plots[i] = replace(plot, marks=[*plot.marks, *marks.values(), *picked])
    headings = all_words("picture_columns", unit=unit)
    return PerformancePictures(
        plots, headings, groups, found[0].bars, f"{100 * end:g} %"
    )


def main_curve(audit: Audit, drawn: PerformancePictures) -> Plot:
    """The curve of everybody, with the observed rate and the number of people of each
    range of scores.
    """
    plot = drawn.plots[1]
    row = audit.groups.iloc[0]
    marks, (low, high, people, events) = drawn.groups[0].marks, drawn.bars.T
    bars = marks["distribution"]
    end = plot.x.high
    inside = np.asarray(bars.x) < end
    gaps = np.full(len(low), np.nan)
    with np.errstate(invalid="ignore"):  # of ranges without people
        rate = np.array(without_limits(events)) / np.array(without_limits(people))
    ranges = [np.minimum(x.astype(np.float64), end) for x in (low, high)]
    segments = np.transpose([*ranges, gaps]).ravel()
    x, height, right = (
        np.asarray(of, dtype=np.float64)[inside] for of in (bars.x, bars.y, bars.high)
    )
    measures = {
        name: MEASURE_NAMES[name].digits for name in ("intercept", "slope", "auroc")
    }
    texts = {
        name: ON_PAGE.estimate(
            row[name], row[f"{name}_low"], row[f"{name}_high"], digits
        )
        for name, digits in measures.items()
    }
    shown = [
        plot.marks[0],
        Mark("bars", "all-fill", x, BELOW * end * height, np.minimum(right, end)),
        *(
            marks[name]
            for name in ("calibration-band", "calibration", "calibration-ends")
        ),
        Mark(
            "line",
            "one-thin",
            segments,
            np.where(segments <= end, np.repeat(rate, 3), np.nan),
        ),
    ]
    text = words("pictures", "main", unit=audit.identity.unit, **texts)
    return replace(
        plot, key="main", marks=shown, description=text, width=480, height=384
    )


def curve_panels(
    audit: Audit, drawn: Sequence[GroupPictures], look_of: Callable[[Any], str]
) -> list[dict[str, Any]]:
    """Groups that have a curve: those named, then those that are off, then the others,
    the largest first.
    """
    curves = {group.name: group for group in drawn if len(group.marks["calibration"].y)}
    order = chosen_groups(audit, most=len(audit.groups), by_ratio=False).rows.iloc[1:]
    rows = [row for row in row_dicts(order) if row["label"] in curves]
    return [
        {
            "group": curves[row["label"]],
            "look": look_of(row),
            "finding": row["finding"],
            "at_once": i < AT_ONCE,
        }
        for i, row in enumerate(rows)
    ]


def _group_curves(audit: Audit) -> list[GroupCurves]:
    """The curves of everybody and of every group that counts."""
    points = _by_group(audit.net_benefit, POINT)
    curves = _by_group(audit.curves, CURVE)
    bars = _by_group(audit.distribution, BAR)
    found = []
    for i, row in enumerate(row_dicts(audit.groups)):
        if i and not row["kept"]:
            continue
        name = row["group"]
        histogram = bars.get(name, np.empty((0, len(BAR)), dtype=object))
        low, high = histogram[:, :2].astype(np.float64).T
        people = np.array(
            [float(n) / (2 if isinstance(n, Limit) else 1) for n in histogram[:, 2]]
        )
        people = np.nan_to_num(people)  # no bar where the number is withheld
        density = people / max(float(people.sum()), 1e-9) / (high - low)
        thresholds = points.get(name, np.empty((0, len(POINT)))).astype(np.float64)
        curve = curves.get(name, np.empty((0, len(CURVE)))).astype(np.float64)
        found.append(GroupCurves(row, thresholds, curve, histogram, density))
    return found


def _by_group(table: pd.DataFrame, columns: tuple[str, ...]) -> dict[str, Any]:
    """The rows of each group as an array, in the order of the columns."""
    if not len(table):
        return {}
    values = table[list(columns)].astype(object).to_numpy()
    return {
        str(name): values[places]
        for name, places in table.groupby("group", sort=False).indices.items()
    }


def _risk_end(curves: list[GroupCurves]) -> float:
    """Where calibration curves end: at 1, or earlier if everything is rare."""
    inner = [_inner(each.curve)[:, :2] for each in curves]
    highest = max(
        [0.0, *(float(np.nanmax(curve, initial=0.0)) for curve in inner if len(curve))]
    )
    if highest > 0:
        return next((end for end in ENDS if highest <= end), 1.0)
    return 1.0


def _inner(curve: FloatArray) -> FloatArray:
    """The curve without points of scores that are exactly 0 or 1."""
    inside = (curve[:, 0] > 0) & (curve[:, 0] < 1)
    return curve[inside] if inside.any() else curve


def _benefit_axis(curves: list[GroupCurves]) -> Axis:
    tops = [float(np.nanmax(each.points[:, 1], initial=0.0)) for each in curves]
    rates = [
        float(each.row["outcome_rate"])
        for each in curves
        if known(each.row["outcome_rate"])
    ]
    high = max([0.02, *tops, *rates]) * 1.05
    return round_axis("net benefit, per person", -0.25 * high, high)


def _frames(benefit: Axis, end: float, unit: str) -> list[Plot]:
    """The pictures without people: words, axes and guides."""
    treated = round_axis("threshold from which people are treated")
    relative = Axis(f"{unit}, relative", 0, 1)
    risk = round_axis("predicted risk", 0.0, end)
    rate = round_axis("observed rate", 0.0, end)
    axes = {
        "roc": (round_axis("1 − specificity"), round_axis("sensitivity")),
        "calibration": (risk, rate),
        "benefit": (treated, benefit),
        "distribution": (round_axis("score"), relative),
    }
    headings = all_words("picture_questions", unit=unit)
    diagonals = {"roc": 1.0, "calibration": end}
    return [
        Plot(key, headings[key], words("pictures", key, unit=unit), x, y, [guide])
        for key, (x, y) in axes.items()
        for guide in [
            Mark("line", "guide", [0, x.high], [0, diagonals.get(key, 0)])
        ]  # or a line at zero
    ]


def _group(
    curves: GroupCurves, densest: float, lowest: float, end: float, unit: str
) -> GroupPictures:
    threshold, benefit, treat_all, sensitivity, specificity = curves.points.T
    false = np.concatenate([[1.0], 1 - specificity, [0.0]])
    right = np.concatenate([[1.0], sensitivity, [0.0]])
    there = np.isfinite(false + right)  # others rest on few people
    enough = int(there.sum()) >= FEWEST_POINTS + 2 and known(curves.row["outcome_rate"])
    there &= enough
    score, rate, low, high = np.clip(_thinned(_inner(curves.curve), 60), 0.0, end).T
    ends = curves.curve[
        np.isin(curves.curve[:, 0], [0.0, 1.0])
        & (curves.curve[:, :2] <= end).all(axis=1)
    ]
    # far below zero there is nothing to see
    treated = treat_all >= lowest
    shown = benefit >= lowest
    bars = curves.bars[curves.density > 0]
    height = curves.density[curves.density > 0] / densest
    marks = {
        "roc": Mark("line", "all-line", false[there], right[there]),
        "calibration-band": Mark("band", "all-band", score, low, high),
        "calibration": Mark("line", "all-line", score, rate),
        "calibration-ends": Mark("points", "all-line", ends[:, 0], ends[:, 1]),
        "benefit-all": Mark("line", "all-thin", threshold[treated], treat_all[treated]),
        "benefit": Mark("line", "all-line", threshold[shown], benefit[shown]),
        "distribution": Mark("bars", "all-fill", bars[:, 0], height, bars[:, 1]),
    }
    captions = all_words("captions", row=curves.row, enough=enough, unit=unit)
    return GroupPictures(curves.row["label"], marks, _tables(curves), captions)


def _tables(curves: GroupCurves) -> dict[str, list[list[str]]]:
    """The numbers behind the pictures."""
    points = _thinned(curves.points)
    decimal = ON_PAGE.decimal
    return {
        "roc": [
            [trimmed(t), decimal(yes, 3), decimal(1 - no, 3)]
            for t, _, _, yes, no in points
        ],
        "calibration": [
            [
                trimmed(s),
                ON_PAGE.percent(rate),
                ON_PAGE.interval(100 * low, 100 * high, 1),
            ]
            for s, rate, low, high in _thinned(curves.curve)
        ],
        "benefit": [
            [trimmed(t), decimal(net, 4), decimal(treat, 4)]
            for t, net, treat, _, _ in points
        ],
        "distribution": [
            [
                trimmed(low),
                trimmed(high),
                ON_PAGE.count(people),
                ON_PAGE.count(positives),
            ]
            for low, high, people, positives in curves.bars
        ],
    }


def _thinned(rows: Any, most: int = 25) -> Any:
    """Every row, every second, every third ...: as many as are read."""
    return rows[:: max(1, -(-len(rows) // most))]

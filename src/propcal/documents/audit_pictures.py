"""Overall performance in four pictures, onto which a page draws any group.

Each group has its marks, tables and sentences for them; its calibration curve is also a
small picture of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from propcal.auditing.audit import Audit
from propcal.auditing.audit_tables import row_dicts
from propcal.auditing.names import MEASURE_NAMES
from propcal.core.grid import FloatArray
from propcal.documents.charts import Axis, Mark, Plot, round_axis
from propcal.documents.chosen_groups import chosen_groups
from propcal.documents.group_curves import Columns, GroupCurves, group_curves, where
from propcal.documents.words import all_words, words
from propcal.numbers import ON_PAGE, known, trimmed, without_limits

# of axes that hold rare risks
ENDS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8)
FEWEST_POINTS = 5  # a line through fewer looks like a worse score than it is
MOST_POINTS = 60  # of a curve
MOST_ROWS = 25  # of a table of numbers behind a picture
AT_ONCE = 12  # panels
BELOW = 0.15  # of the height of a picture, for the distribution of predicted risks
LEAST_BENEFIT = 0.02  # that the axis of net benefit reaches, per person


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
    histogram: Columns  # of the scores of everybody
    risk_end: str  # of both axes of the calibration curves, in percent


@dataclass(frozen=True)
class Frame:
    """What the pictures of all groups share: where the calibration curves end, the
    lowest net benefit, and the highest density of scores.
    """

    risk_end: float
    lowest_benefit: float
    densest: float
    unit: str


def performance_pictures(audit: Audit) -> PerformancePictures:
    """The pictures of everybody, and the groups ready for the reader to pick."""
    everybody, *others = row_dicts(audit.groups)
    tested = [row for row in others if row["kept"]]
    curves = group_curves(audit, [everybody, *tested])
    unit = audit.identity.unit
    end = _risk_end(audit, curves)
    benefit = _benefit_axis(curves)
    densest = max(each.density.max(initial=1e-9) for each in curves)
    frame = Frame(end, benefit.low, densest, unit)
    groups = [_group_pictures(each, frame) for each in curves]
    return PerformancePictures(
        [_with_everybody(plot, groups[0]) for plot in _frames(benefit, end, unit)],
        all_words("picture_columns", unit=unit),
        groups,
        curves[0].histogram,
        f"{100 * end:g} %",
    )


def _with_everybody(plot: Plot, everybody: GroupPictures) -> Plot:
    """A picture with the marks of everybody, and places for those of a group that a
    reader picks.
    """
    marks = everybody.marks_in(plot)
    picked = []
    for key, mark in marks.items():
        look = mark.look.replace("all", "one")
        picked.append(Mark(mark.kind, look, [], [], key=key))
    return replace(plot, marks=[*plot.marks, *marks.values(), *picked])


def main_curve(audit: Audit, drawn: PerformancePictures) -> Plot:
    """The curve of everybody, with the observed rate and the number of people of each
    range of scores.
    """
    plot = drawn.plots[1]
    guide = plot.marks[0]
    marks = drawn.groups[0].marks
    curve = [
        marks[name] for name in ("calibration-band", "calibration", "calibration-ends")
    ]
    end = plot.x.high
    shown = [
        guide,
        _low_bars(marks["distribution"], end),
        *curve,
        _observed_rates(drawn.histogram, end),
    ]

    row = audit.groups.iloc[0]
    numbers = {}
    for name in ("intercept", "slope", "auroc"):
        low = row[f"{name}_low"]
        high = row[f"{name}_high"]
        digits = MEASURE_NAMES[name].digits
        numbers[name] = ON_PAGE.estimate(row[name], low, high, digits)
    text = words("pictures", "main", unit=audit.identity.unit, **numbers)
    return replace(
        plot, key="main", marks=shown, description=text, width=480, height=384
    )


def _low_bars(bars: Mark, end: float) -> Mark:
    """The distribution of predicted risks at the foot of a picture that ends there."""
    left = np.asarray(bars.x, dtype=np.float64)
    height = np.asarray(bars.y, dtype=np.float64)
    right = np.asarray(bars.high, dtype=np.float64)
    inside = left < end
    low = BELOW * end * height[inside]
    return Mark("bars", "all-fill", left[inside], low, np.minimum(right[inside], end))


def _observed_rates(histogram: Columns, end: float) -> Mark:
    """The observed rate of each range of scores, as a dash."""
    with np.errstate(invalid="ignore"):  # of ranges without people
        events = np.array(without_limits(histogram["positives"]))
        rate = events / np.array(without_limits(histogram["people"]))
    low = np.minimum(histogram["score_from"].astype(np.float64), end)
    high = np.minimum(histogram["score_to"].astype(np.float64), end)
    gaps = np.full(len(low), np.nan)
    x = np.transpose([low, high, gaps]).ravel()
    y = np.where(x <= end, np.repeat(rate, 3), np.nan)
    return Mark("line", "one-thin", x, y)


def curve_panels(
    audit: Audit, drawn: Sequence[GroupPictures], look_of: Callable[[Any], str]
) -> list[dict[str, Any]]:
    """Groups that have a curve: those named, then those that are off, then the others,
    the largest first.
    """
    with_curve = {
        group.name: group for group in drawn if len(group.marks["calibration"].y)
    }
    order = chosen_groups(audit, most=len(audit.groups), by_ratio=False).rows.iloc[1:]
    panels: list[dict[str, Any]] = []
    for row in row_dicts(order):
        if row["label"] in with_curve:
            panel = {
                "group": with_curve[row["label"]],
                "look": look_of(row),
                "finding": row["finding"],
                "at_once": len(panels) < AT_ONCE,
            }
            panels.append(panel)
    return panels


def _risk_end(audit: Audit, curves: list[GroupCurves]) -> float:
    """Where calibration curves end: at 1, or earlier if everything is rare and the
    verdict says nothing of a score of 1.
    """
    for claim in audit.verdict.claims:
        for region in claim.where:
            if region.low == 1.0:
                return 1.0

    highest = 0.0
    for each in curves:
        line = _line(each)
        for values in (line["score"], line["outcome_rate"]):
            highest = max(highest, float(np.nanmax(values, initial=0.0)))
    if highest > 0:
        return next((end for end in ENDS if highest <= end), 1.0)
    return 1.0


def _line(curves: GroupCurves) -> Columns:
    """The calibration curve without scores of exactly 0 or 1, unless there are no
    others.
    """
    inside = curves.inside
    if len(inside["score"]):
        return inside
    return curves.curve


def _benefit_axis(curves: list[GroupCurves]) -> Axis:
    highest = LEAST_BENEFIT
    for each in curves:
        top = float(np.nanmax(each.by_threshold["net_benefit"], initial=0.0))
        highest = max(highest, top)
        if known(each.row["outcome_rate"]):
            highest = max(highest, float(each.row["outcome_rate"]))
    high = 1.05 * highest
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
    diagonals = {"roc": 1.0, "calibration": end}  # others have a line at zero
    plots = []
    for key, (x, y) in axes.items():
        guide = Mark("line", "guide", [0, x.high], [0, diagonals.get(key, 0)])
        description = words("pictures", key, unit=unit)
        plots.append(Plot(key, headings[key], description, x, y, [guide]))
    return plots


def _group_pictures(curves: GroupCurves, frame: Frame) -> GroupPictures:
    roc, enough = _roc(curves)
    marks = {
        "roc": roc,
        **_calibration_marks(curves, frame.risk_end),
        **_benefit_marks(curves, frame.lowest_benefit),
        "distribution": _distribution_mark(curves, frame.densest),
    }
    row = curves.row
    captions = all_words("captions", row=row, enough=enough, unit=frame.unit)
    return GroupPictures(row["label"], marks, _tables(curves), captions)


def _roc(curves: GroupCurves) -> tuple[Mark, bool]:
    """The ROC curve, and whether there are enough points for one."""
    sensitivity = curves.by_threshold["sensitivity"]
    specificity = curves.by_threshold["specificity"]
    false_positives = np.concatenate([[1.0], 1 - specificity, [0.0]])
    true_positives = np.concatenate([[1.0], sensitivity, [0.0]])
    # others rest on few people
    there = np.isfinite(false_positives + true_positives)
    enough = int(there.sum()) >= FEWEST_POINTS + 2
    enough = enough and known(curves.row["outcome_rate"])
    there &= enough
    line = Mark("line", "all-line", false_positives[there], true_positives[there])
    return line, enough


def _calibration_marks(curves: GroupCurves, end: float) -> dict[str, Mark]:
    """The calibration curve with its band, and points at scores of exactly 0 or 1."""
    line = _thinned(_line(curves), MOST_POINTS)
    score, rate, low, high = (
        np.clip(line[name], 0.0, end)
        for name in ("score", "outcome_rate", "low", "high")
    )
    ends = curves.at_ends
    ends = where(ends, (ends["score"] <= end) & (ends["outcome_rate"] <= end))
    points = ends["score"], ends["outcome_rate"]
    return {
        "calibration-band": Mark("band", "all-band", score, low, high),
        "calibration": Mark("line", "all-line", score, rate),
        "calibration-ends": Mark("points", "all-line", *points),
    }


def _benefit_marks(curves: GroupCurves, lowest: float) -> dict[str, Mark]:
    """Net benefit of the score and of treating everybody; far below zero there is
    nothing to see.
    """
    threshold = curves.by_threshold["threshold"]
    benefit = curves.by_threshold["net_benefit"]
    treat_all = curves.by_threshold["treat_all"]
    treated = treat_all >= lowest
    shown = benefit >= lowest
    return {
        "benefit-all": Mark("line", "all-thin", threshold[treated], treat_all[treated]),
        "benefit": Mark("line", "all-line", threshold[shown], benefit[shown]),
    }


def _distribution_mark(curves: GroupCurves, densest: float) -> Mark:
    density = curves.density
    there = density > 0
    bars = where(curves.histogram, there)
    height = density[there] / densest
    return Mark("bars", "all-fill", bars["score_from"], height, bars["score_to"])


def _tables(curves: GroupCurves) -> dict[str, list[list[str]]]:
    """The numbers behind the pictures."""
    points = _thinned(curves.by_threshold)
    curve = _thinned(curves.curve)
    bars = curves.histogram
    false_positives = 1 - points["specificity"]
    thresholds = _printed(trimmed, points["threshold"])
    limits = zip(100 * curve["low"], 100 * curve["high"])
    return {
        "roc": _rows(
            thresholds,
            _decimals(points["sensitivity"], 3),
            _decimals(false_positives, 3),
        ),
        "calibration": _rows(
            _printed(trimmed, curve["score"]),
            _printed(ON_PAGE.percent, curve["outcome_rate"]),
            [ON_PAGE.interval(low, high, 1) for low, high in limits],
        ),
        "benefit": _rows(
            thresholds,
            _decimals(points["net_benefit"], 4),
            _decimals(points["treat_all"], 4),
        ),
        "distribution": _rows(
            _printed(trimmed, bars["score_from"]),
            _printed(trimmed, bars["score_to"]),
            _printed(ON_PAGE.count, bars["people"]),
            _printed(ON_PAGE.count, bars["positives"]),
        ),
    }


def _printed(text: Callable[[Any], str], values: Any) -> list[str]:
    return [text(value) for value in values]


def _decimals(values: FloatArray, digits: int) -> list[str]:
    return [ON_PAGE.decimal(value, digits) for value in values]


def _rows(*columns: list[str]) -> list[list[str]]:
    return [list(row) for row in zip(*columns)]


def _thinned(columns: Columns, most: int = MOST_ROWS) -> Columns:
    """Every row, every second, every third ...: as many as are read."""
    n_rows = len(next(iter(columns.values())))
    step = max(1, -(-n_rows // most))
    return where(columns, slice(None, None, step))

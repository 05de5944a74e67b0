"""The four pictures of clinical practice for everybody, and the lines that a chosen group adds to them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from propcal.core.grid import FloatArray
from propcal.numbers import IN_SENTENCE, ON_PAGE, known, trimmed
from propcal.output.report.group_curves import GroupCurves
from propcal.output.report.svg import (
    BOTTOM,
    LEFT,
    RIGHT,
    TOP,
    Axis,
    Line,
    Picture,
    area,
    bar,
    path,
    ring,
    round_steps,
    ticks,
)

TENTHS = (0, 0.2, 0.4, 0.6, 0.8, 1.0)
ENDS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8)  # of axes that hold rare risks
FEWEST_POINTS = 5  # a line through fewer looks like a worse score than it is
X = Axis(0, 1, LEFT, RIGHT)
Y = Axis(0, 1, BOTTOM, TOP)


@dataclass(frozen=True)
class GroupPictures:
    """What one group draws into the four pictures, its tables and its sentences."""

    name: str
    lines: dict[str, str]
    tables: dict[str, list[list[str]]]
    told: dict[str, str]


@dataclass(frozen=True)
class Four:
    """Four pictures of everybody, and every group's lines."""

    pictures: list[Picture]
    headings: dict[str, list[str]]
    groups: list[GroupPictures]
    risk_end: str  # of both axes of the calibration curves


def four_pictures(found: list[GroupCurves], unit: str = "people") -> Four:
    """Draw everybody, and keep the groups ready for the reader to pick."""
    benefit, most, end = _benefit_axis(found), _most_dense(found), _risk_end(found)
    groups = [_group(each, benefit, most, end, unit) for each in found]
    first, shown = groups[0], _frames(benefit, end, unit)
    for picture in shown:
        look = "fill" if picture.key == "distribution" else "line"
        own = [key for key in first.lines if key.split("-")[0] == picture.key]
        for key in own:
            kind = {"band": "band", "all": "thin"}.get(key.partition("-")[2], look)
            picture.lines.append(Line(f"all-{kind}", first.lines[key]))
        for key in own:
            kind = {"band": "band", "all": "thin"}.get(key.partition("-")[2], look)
            picture.lines.append(Line(f"one-{kind}", "", key))
    return Four(shown, _headings(unit), groups, trimmed(end))


def _risk_end(found: list[GroupCurves]) -> float:
    """Where calibration curves end: at 1, or earlier if everything is rare."""
    most = [float(np.nanmax(curve[:, :2], initial=0.0)) for each in found if len(curve := _inner(each.curve))]
    highest = max([*most, 0.0])
    return next((end for end in ENDS if highest <= end), 1.0) if highest > 0 else 1.0


def _inner(curve: FloatArray) -> FloatArray:
    """The curve without points of scores that are exactly 0 or 1."""
    inside = (curve[:, 0] > 0) & (curve[:, 0] < 1)
    return curve[inside] if inside.any() else curve


def _frames(benefit: Axis, end: float, unit: str) -> list[Picture]:
    """The pictures without people: words, axes and guides."""
    steps, digits = round_steps(benefit.low, benefit.high)
    across, up = _risk_axes(end)
    risks, risk_digits = round_steps(0.0, end)
    return [
        Picture(
            "roc",
            "Does it tell people apart?",
            "ROC curve: sensitivity against 1 − specificity, over all thresholds. A useless score lies on "
            "the dotted diagonal.",
            "1 − specificity",
            "sensitivity",
            ticks(X, TENTHS),
            ticks(Y, TENTHS),
            [Line("guide", path(X([0, 1]), Y([0, 1])))],
        ),
        Picture(
            "calibration",
            "Is a score of 30 % right 30 % of the time?",
            "Calibration curve: observed rate by predicted risk, smoothed, with a 95 % band. A calibrated "
            "score lies on the dotted diagonal; below it the score is too high.",
            "predicted risk",
            "observed rate",
            ticks(across, risks, risk_digits),
            ticks(up, risks, risk_digits),
            [Line("guide", path(X([0, 1]), Y([0, 1])))],
        ),
        Picture(
            "benefit",
            "Would acting on it help?",
            "Net benefit: true positives minus false positives weighted by the odds of the threshold, per "
            "person. The score should lie above treating everybody (thin line) and nobody (zero).",
            "threshold from which people are treated",
            "net benefit, per person",
            ticks(X, TENTHS),
            ticks(benefit, steps, digits),
            [Line("guide", path(X([0, 1]), benefit(np.zeros(2))))],
        ),
        Picture(
            "distribution",
            "How are the scores spread?",
            f"Distribution: share of the {unit} in each range of scores. Bars of everybody are filled; those "
            "of the group are outlined.",
            "score",
            f"{unit}, relative",
            ticks(X, TENTHS),
            [],
            [Line("guide", path(X([0, 1]), Y([0, 0])))],
        ),
    ]


def _headings(unit: str) -> dict[str, list[str]]:
    """Of the table of numbers behind each picture."""
    return {
        "roc": ["threshold", "sensitivity", "1 − specificity"],
        "calibration": ["predicted risk", "observed rate", "95 % band, %"],
        "benefit": ["threshold", "net benefit", "treat everybody"],
        "distribution": ["scores from", "to", unit, "events"],
    }


def _group(found: GroupCurves, benefit: Axis, most: float, end: float, unit: str) -> GroupPictures:
    row, t = found.row, found.thresholds
    false = np.concatenate([[1.0], 1 - t.specificity, [0.0]])
    right = np.concatenate([[1.0], t.sensitivity, [0.0]])
    enough = (
        len(t.threshold) >= FEWEST_POINTS and known(row["outcome_rate"]) and np.isfinite(false + right).all()
    )
    curve, band = _calibration(found, end)
    shown = t.net_benefit >= benefit.low  # far below zero there is nothing to see
    treated = t.treat_all >= benefit.low
    lines = {
        "roc": path(X(false), Y(right)) if enough else "",
        "calibration-band": band,
        "calibration": curve,
        "benefit-all": path(X(t.threshold[treated]), benefit(t.treat_all[treated])),
        "benefit": path(X(t.threshold[shown]), benefit(t.net_benefit[shown])),
        "distribution": _bars(found, most),
    }
    return GroupPictures(row["label"], lines, _tables(found), _told(found, bool(enough), unit))


def _risk_axes(end: float) -> tuple[Axis, Axis]:
    return Axis(0, end, LEFT, RIGHT), Axis(0, end, BOTTOM, TOP)


def _calibration(found: GroupCurves, end: float) -> tuple[str, str]:
    """The curve and its band; a ring where many scores are exactly 0 or 1."""
    if not len(found.curve):
        return "", ""
    across, up = _risk_axes(end)
    curve = _inner(found.curve)
    rings = "".join(
        ring(float(across(score)), float(up(rate)))
        for score, rate in found.curve[:, :2]
        if score in (0.0, 1.0) and score <= end and rate <= end
    )
    curve = _thinned(curve, 60)
    places, rates, low, high = across(curve[:, 0]), *(np.minimum(up(curve[:, i]), BOTTOM) for i in (1, 2, 3))
    line = path(places, rates) + rings
    if len(curve) < 2:
        return line, ""
    return line, area(list(places), list(low), list(np.maximum(high, TOP)))


def _density(found: GroupCurves) -> FloatArray:
    """Share of the group's people for each unit of the score."""
    low, high = found.bars[:, :2].astype(np.float64).T
    return np.asarray(found.heights / max(float(found.heights.sum()), 1e-9) / (high - low))


def _most_dense(found: list[GroupCurves]) -> float:
    densest = [np.nanmax(_density(each), initial=0.0) for each in found if len(each.bars)]
    return max([*map(float, densest), 1e-9])


def _bars(found: GroupCurves, most: float) -> str:
    bars = found.bars
    if not len(bars):
        return ""
    heights = _density(found) / most
    return "".join(
        bar(float(X(float(low))), float(X(float(high))), float(Y(0)), float(Y(height)))
        for low, high, height in zip(bars[:, 0], bars[:, 1], heights)
        if height > 0
    )


def _benefit_axis(found: list[GroupCurves]) -> Axis:
    tops = [float(np.nanmax(each.thresholds.net_benefit, initial=0.0)) for each in found]
    rates = [float(each.row["outcome_rate"]) for each in found if known(each.row["outcome_rate"])]
    high = max([0.02, *tops, *rates]) * 1.05
    return Axis(-0.25 * high, high, BOTTOM, TOP)


def _tables(found: GroupCurves) -> dict[str, list[list[str]]]:
    """The numbers behind the pictures."""
    t = found.thresholds
    chosen = _thinned(np.arange(len(t.threshold)))
    return {
        "roc": [
            [
                trimmed(t.threshold[i]),
                ON_PAGE.decimal(t.sensitivity[i], 3),
                ON_PAGE.decimal(1 - t.specificity[i], 3),
            ]
            for i in chosen
        ],
        "calibration": [
            [trimmed(s), ON_PAGE.percent(rate), ON_PAGE.interval(100 * low, 100 * high, 1)]
            for s, rate, low, high in _thinned(found.curve)
        ],
        "benefit": [
            [
                trimmed(t.threshold[i]),
                ON_PAGE.decimal(t.net_benefit[i], 4),
                ON_PAGE.decimal(t.treat_all[i], 4),
            ]
            for i in chosen
        ],
        "distribution": [
            [trimmed(low), trimmed(high), ON_PAGE.count(people), ON_PAGE.count(positives)]
            for low, high, people, positives in found.bars
        ],
    }


def _thinned(rows: Any, most: int = 25) -> Any:
    """Every row, every second, every third ...: as many as are read."""
    return rows[:: max(1, -(-len(rows) // most))]


def _told(found: GroupCurves, enough: bool, unit: str) -> dict[str, str]:
    """A sentence under each picture."""
    row = found.row
    limits = ON_PAGE.interval(row["auroc_low"], row["auroc_high"], 3)
    auroc = f"AUROC {ON_PAGE.decimal(row['auroc'], 3)} (95 % CI {limits})"
    off = f"Mean distance from the diagonal (ICI) {ON_PAGE.decimal(100 * row['ici'], 1)} percentage points"
    people, rate = IN_SENTENCE.count(row["people"]), IN_SENTENCE.percent(row["outcome_rate"])
    return {
        "roc": (auroc + "." if known(row["auroc"]) else "AUROC is not known.")
        + ("" if enough else " There are not enough data for a curve."),
        "calibration": f"{off}; calibration slope {ON_PAGE.decimal(row['slope'])}."
        if known(row["ici"])
        else "Not enough data for a curve.",
        "benefit": f"Observed rate {rate}." if known(row["outcome_rate"]) else "Not enough data.",
        "distribution": f"{people[0].upper()}{people[1:]} {unit}.",
    }

"""Pictures over time: the evidence of every group, and the observed and predicted rate of one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from propcal.auditing.distributions import normal_quantile
from propcal.auditing.intervals import CONFIDENCE, wilson_interval
from propcal.core.grid import FloatArray
from propcal.monitoring.course import ALARM
from propcal.numbers import ON_PAGE, without_limits
from propcal.output.report.svg import Axis, Line, Tick, area, path, round_steps

if TYPE_CHECKING:
    from propcal.monitoring.course import Course

MOST_LINES = 6  # colours that can be told apart
LOWEST, HIGHEST = 0.0, 3.0  # of the evidence drawn, as powers of ten
MOST_TICKS = 7


@dataclass(frozen=True)
class TimePicture:
    """A picture as data: size, axes, paths and their names."""

    key: str
    heading: str
    description: str
    width: int
    height: int
    left: int
    bottom: int
    x_ticks: list[Tick]
    y_ticks: list[Tick]
    lines: list[Line] = field(default_factory=list)
    names: list[tuple[str, str]] = field(default_factory=list)


def evidence_picture(course: Course, order: Sequence[str]) -> TimePicture:
    """The adjusted evidence of groups in this order over time, on a log scale, with the alarm line."""
    width, height, left, right, top, bottom = 720, 300, 64, 708, 12, 262
    periods = [str(period) for period in course.settings["periods"]]
    x = _time_axis(len(periods), left, right)
    y = Axis(LOWEST, HIGHEST, bottom, top)
    places = x(np.arange(len(periods)))
    best = (
        course.evidence.groupby(["group", "period"], sort=False)["evidence"].max().unstack("period")[periods]
    )
    labels = dict(zip(course.groups["group"], course.groups["label"]))
    lines, names = [], []
    banded = bool(course.settings.get("evidence_bands"))

    def drawn(name: str) -> str:
        heights = y(_powers(best.loc[name]))
        return _steps(places, heights) if banded else _line_or_dot(places, heights)

    for name in reversed(list(order)):
        if name not in order[:MOST_LINES]:
            lines.append(Line("all-thin", drawn(name)))
    for colour, name in enumerate(order[:MOST_LINES]):
        lines.append(Line(f"series series-{colour}", drawn(name)))
        names.append((f"series series-{colour}", labels[name]))
    lines.append(Line("alarm", path([left, right], [float(y(np.log10(ALARM)))] * 2)))
    marks = {1: "≤ 1", 5: "5", ALARM: f"{ALARM:g}", 100: "100", 10**HIGHEST: f"≥ {10**HIGHEST:,.0f}"}
    ticks = [Tick(f"{float(y(np.log10(mark))):.1f}", told) for mark, told in marks.items()]
    return TimePicture(
        "evidence",
        "Evidence over time",
        "Evidence of miscalibration of each group after each period, on a logarithmic scale. Above the "
        "line at "
        f"{ALARM:g} an alarm is raised. Values below 1 do not point to an error."
        + (" Each step is drawn at the lower end of the band that is known." if banded else ""),
        width,
        height,
        left,
        bottom,
        _ticks(periods, places),
        ticks,
        lines,
        names,
    )


def _powers(evidence: pd.Series | pd.DataFrame) -> FloatArray:
    """Evidence as powers of ten, as far as it is drawn."""
    values = np.maximum(evidence.to_numpy(dtype=np.float64), 10.0**LOWEST)
    return np.asarray(np.minimum(np.log10(values), HIGHEST))


def has_rates(course: Course, group: str) -> bool:
    """Whether there are rates to draw: a group of few people may have none that can be told."""
    rates = without_limits(course.periods["outcome_rate"][course.periods["group"] == group])
    return bool(np.isfinite(rates).any())


def rate_picture(course: Course, group: str) -> TimePicture:
    """Observed rate with its 95 % band, and the predicted rate, of one group."""
    width, height, left, right, top, bottom = 360, 200, 48, 350, 10, 164
    own = course.periods[course.periods["group"] == group]
    periods = [str(period) for period in own["period"]]
    people, observed, predicted = (
        np.array(without_limits(own[c])) for c in ("people", "outcome_rate", "mean_score")
    )
    with np.errstate(invalid="ignore", divide="ignore"):
        low, high = wilson_interval(observed, people, normal_quantile((1 + CONFIDENCE) / 2))
    known = [value for part in (low, high, predicted) for value in part if np.isfinite(value)] or [0.0, 1.0]
    margin = max(0.1 * (max(known) - min(known)), 0.005)
    y = Axis(max(min(known) - margin, 0.0), min(max(known) + margin, 1.0), bottom, top)
    places = _time_axis(len(periods), left, right)(np.arange(len(periods)))
    steps, _ = round_steps(y.low, y.high, 4)
    label = str(own["label"].iloc[0])
    return TimePicture(
        "rates",
        label,
        f"{label}: observed rate (solid, with 95 % band) and predicted rate (dashed) in each period.",
        width,
        height,
        left,
        bottom,
        _ticks(periods, places, 4),
        [Tick(f"{float(y(v)):.1f}", ON_PAGE.percent(v)) for v in steps],
        [
            Line("all-band", _bands(places, y(low), y(high))),
            Line("all-line", _line_or_dot(places, y(observed))),
            Line("one-line", _line_or_dot(places, y(predicted))),
        ],
    )


def _time_axis(n: int, left: float, right: float) -> Axis:
    return Axis(-0.5, n - 0.5, left, right)


def _ticks(periods: list[str], places: FloatArray, most: int = MOST_TICKS) -> list[Tick]:
    step = max(1, -(-len(periods) // most))
    return [Tick(f"{places[i]:.1f}", periods[i]) for i in range(0, len(periods), step)]


def _steps(xs: FloatArray, ys: FloatArray) -> str:
    """A level stroke for each period."""
    half = (xs[1] - xs[0]) / 2 if len(xs) > 1 else 8.0
    return path(np.column_stack([xs - half, xs + half]).ravel(), np.repeat(ys, 2))


def _line_or_dot(xs: FloatArray, ys: FloatArray) -> str:
    """A line, with a short stroke for a point that has no neighbour."""
    known = np.isfinite(ys)
    dots = [
        path([xs[i] - 2, xs[i] + 2], [ys[i], ys[i]])
        for i in np.flatnonzero(known)
        if not (i and known[i - 1]) and not (i + 1 < len(ys) and known[i + 1])
    ]
    return path(xs, ys) + "".join(dots)


def _bands(xs: FloatArray, low: FloatArray, high: FloatArray) -> str:
    """A band, in pieces between unknown points."""
    known = np.isfinite(low) & np.isfinite(high)
    cuts = np.flatnonzero(np.diff(known.astype(np.int8))) + 1
    pieces = [piece for piece in np.split(np.arange(len(xs)), cuts) if len(piece) and known[piece[0]]]
    return "".join(area(list(xs[p]), list(low[p]), list(high[p])) for p in pieces)

"""O/E ratios on a logarithmic axis: a point, its interval, and where these lie on paper."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from propcal.numbers import ON_PAGE, Limit, known
from propcal.output.report.svg import Axis, Tick

REACHES = ((1.25, "0.8", "1.25"), (2.0, "0.5", "2"), (4.0, "0.25", "4"), (8.0, "0.125", "8"))
WIDTH, MARGIN = 200, 10


@dataclass(frozen=True)
class ForestBar:
    """A point and its interval on the axis of O/E ratios; a limit has no point.

    `beyond` names the sides on which it leaves the axis.
    """

    low: str
    high: str
    point: str
    beyond: str
    told: str


@dataclass(frozen=True)
class ForestAxis:
    """The axis, and its marks; half and double lie alike."""

    axis: Axis
    ticks: list[Tick]

    @classmethod
    def holding(cls, ratios: Iterable[float]) -> ForestAxis:
        """The narrowest axis that holds all ratios, as far as axes go."""
        logs = np.abs(np.log(np.maximum(np.asarray(list(ratios), dtype=np.float64), 1e-6)))
        furthest = float(np.exp(np.nanmax(logs, initial=0.0)))
        reach, *labels = next((found for found in REACHES if found[0] >= furthest), REACHES[-1])
        axis = Axis(-np.log(reach), np.log(reach), MARGIN, WIDTH - MARGIN)
        values = {1 / reach: labels[0], 1.0: "1", reach: labels[1]}
        if reach > 2:
            values |= {0.5: "0.5", 2.0: "2"}
        return cls(axis, [Tick(f"{axis(np.log(v)):.1f}", values[v]) for v in sorted(values)])

    def bar(self, ratio: float, low: float, high: float) -> ForestBar | None:
        """Where a ratio and its interval lie; None if it is not known."""
        if not known(ratio):
            return None
        axis = self.axis
        if isinstance(ratio, Limit):  # all that is on its side
            low, high = (1e-6, ratio) if ratio.side == "below" else (ratio, 1e6)
            places = axis(np.clip(np.log([low, high]), axis.low, axis.high))
            beyond = "left" if ratio.side == "below" else "right"
            ends = [f"{place:.1f}" for place in places]
            told = f"{ratio.side} {ON_PAGE.decimal(float(ratio))}"
            return ForestBar(ends[0], ends[1], "", beyond, told)
        low, high = (low, high) if known(low) and known(high) else (ratio, ratio)
        logs = np.log(np.maximum([low, high, ratio], 1e-6))
        low_end, high_end, point = (f"{place:.1f}" for place in axis(np.clip(logs, axis.low, axis.high)))
        beyond = ("left " if logs[0] < axis.low else "") + ("right" if logs[1] > axis.high else "")
        told = f"{ON_PAGE.decimal(ratio)}, {ON_PAGE.interval(low, high)}"
        return ForestBar(low_end, high_end, point, beyond, told)

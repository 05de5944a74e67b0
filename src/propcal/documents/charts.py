"""Charts as data: axes and marks. `render.html` and `render.matplotlib` draw them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from propcal.auditing.names import CHANCE, NOT_ENOUGH, TOO_HIGH, TOO_LOW
from propcal.core.grid import FloatArray
from propcal.numbers import ON_PAGE, Style

if TYPE_CHECKING:
    import numpy.typing as npt
    import pandas as pd

    Numbers = Sequence[float] | npt.NDArray[Any] | pd.Series


@dataclass(frozen=True)
class Axis:
    """A scale with its marks; `log` scales hold the values themselves, not their
    logarithms.

    The marks of an axis with `rows` are the names of rows, from top to bottom: see
    `row_axis`.
    """

    label: str
    low: float
    high: float
    ticks: Sequence[tuple[float, str]] = ()
    log: bool = False
    rows: bool = False

    def share(self, value: object) -> FloatArray:
        """Where values lie between the two ends: 0 at `low`, 1 at `high`."""
        numbers = np.asarray(value, dtype=np.float64)
        if not self.log:
            return np.asarray((numbers - self.low) / (self.high - self.low))
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(np.log(numbers / self.low) / np.log(self.high / self.low))


@dataclass(frozen=True)
class Mark:
    """Something that is drawn; with no places, an entry of the key and no more.

    `kind` is "line" (x, y), "band" (x from y to high), "points" (x, y), "bars" (from x
    to `high`, as tall as y) or "steps" (as high as y between neighbours of x); in
    pictures with rows also "ranges" and "row-bars" (in row y, from x to `high`),
    "cells" (as tall as row y, with `names` in them), "rows" (all of row y) and "texts"
    (`names` in row y at x, or beside the picture). `look` names the style in one or
    more words: "all-line", "guide", "alarm", "series-0 hollow", ...; `names` stand
    beside points or, in the key, after `name`. Scripts of a page know it by its `key`.
    """

    kind: str
    look: str
    x: Numbers = ()
    y: Numbers = ()
    high: Numbers = ()
    names: Sequence[str] = ()
    name: str = ""
    key: str = ""


@dataclass(frozen=True)
class Plot:
    """A picture with two axes, a square one if it is as high as wide.

    `ends` say what lies at the left and at the right of rows, or below and above the
    diagonal of a square; `note` is the title of the key.
    """

    key: str
    heading: str
    description: str
    x: Axis
    y: Axis
    marks: Sequence[Mark]
    width: int = 320
    height: int = 256
    ends: tuple[str, str] = ("", "")
    note: str = ""


@dataclass(frozen=True)
class Plots:
    """Small pictures side by side, with one key."""

    plots: Sequence[Plot]


@dataclass(frozen=True)
class ForestRow:
    """A number with its interval in a forest, or an interval without a number.

    `before` is what the number was before a correction; `text` stands in the place of
    the numbers.
    """

    name: str
    value: float
    low: float
    high: float
    look: str = "noise"
    before: Any = None
    finding: str = ""
    text: str = ""

    def printed(self, style: Style) -> str:
        """What stands at the end of the row."""
        if self.before is None:
            was = ""
        else:
            was = f"{style.decimal(self.before)} → "
        return self.text or was + style.estimate(self.value, self.low, self.high)


@dataclass(frozen=True)
class Forest:
    """Numbers with their intervals on one axis; `right` is where a score that is right
    lies.
    """

    key: str
    heading: str
    description: str
    axis: Axis
    rows: Sequence[ForestRow]
    right: float = 1.0
    ends: tuple[str, str] = ("", "")
    note: str = ""


Chart = (
    Plot | Forest | str
)  # a sentence stands in the place of a picture that cannot be drawn
SIDES = ("score too high", "score too low")  # of O/E ratios
INTERVAL_KEY = Mark("line", "grey", name="95 % CI")
FEW_KEY = Mark("rows", "hatch", name="not enough data for a ratio")
LOOKS = {
    TOO_HIGH: "high",
    TOO_LOW: "low",
    CHANCE: "noise",
    NOT_ENOUGH: "few",
}  # of findings
RATIO_LABEL = "O/E ratio: observed over\nexpected events (log scale)"
RATIO_REACHES = (1.25, 2.0, 4.0, 8.0)


def ratio_axis(ratios: Sequence[float] | FloatArray, label: str = RATIO_LABEL) -> Axis:
    """The narrowest of a few logarithmic axes around 1 that holds all ratios, or else
    the widest.

    >>> ratio_axis([0.9, 1.1]).ticks
    ((0.8, '0.8'), (1.0, '1'), (1.25, '1.25'))
    """
    logs = np.abs(np.log(np.maximum(np.asarray(ratios, dtype=np.float64), 1e-6)))
    furthest = float(np.exp(np.nanmax(logs, initial=0.0)))
    reach = next(
        (reach for reach in RATIO_REACHES if reach >= furthest), RATIO_REACHES[-1]
    )
    marks = sorted({1 / reach, 1.0, reach, *((0.5, 2.0) if reach > 2 else ())})
    return Axis(
        label, 1 / reach, reach, tuple((mark, f"{mark:g}") for mark in marks), log=True
    )


def row_axis(names: Sequence[str]) -> Axis:
    """An axis with a row for each name, at 0, 1, ... from top to bottom."""
    return Axis(
        "",
        len(names) - 0.4,
        -0.6,
        [(float(y), name) for y, name in enumerate(names)],
        rows=True,
    )


def round_steps(low: float, high: float, most: int = 5) -> tuple[list[float], int]:
    """Round values between two numbers, and the digits they need.

    >>> round_steps(0.0, 0.33)
    ([0.0, 0.1, 0.2, 0.3], 1)
    """
    size = (high - low) / most
    power = 10 ** np.floor(np.log10(max(size, 1e-9)))
    step = next(power * m for m in (1, 2, 5, 10) if power * m >= size * 0.999)
    digits = max(0, int(-np.floor(np.log10(step) + 1e-9)))
    first = np.ceil(low / step - 1e-9)
    values = [
        float(round(step * i, 10)) + 0.0 for i in np.arange(first, high / step + 1e-9)
    ]
    return values, digits


def round_axis(
    label: str, low: float = 0.0, high: float = 1.0, *, most: int = 5, log: bool = False
) -> Axis:
    """An axis with round marks between two numbers.

    >>> round_axis("score", 0.0, 0.4, most=4).ticks
    ((0.0, '0.0'), (0.1, '0.1'), (0.2, '0.2'), (0.3, '0.3'), (0.4, '0.4'))
    """
    values, digits = round_steps(min(low, high), max(low, high), most)
    ticks = tuple(
        (value, ON_PAGE.decimal(value, digits))
        for value in values
        if value > 0 or not log
    )
    return Axis(label, low, high, ticks, log)


def axis_around(
    values: Sequence[float] | FloatArray,
    label: str,
    *,
    margin: float = 0.05,
    most: int = 5,
) -> Axis:
    """A linear axis with round marks that holds all known values and a margin.

    >>> axis_around([0.5, float("nan"), 1.5], "slope").ticks
    ((0.5, '0.5'), (1.0, '1.0'), (1.5, '1.5'))
    """
    numbers = np.asarray(values, dtype=np.float64)
    numbers = numbers[np.isfinite(numbers)]
    low, high = (
        (float(numbers.min()), float(numbers.max())) if len(numbers) else (0.0, 1.0)
    )
    room = margin * max(high - low, 0.1)
    return round_axis(label, low - room, high + room, most=most)

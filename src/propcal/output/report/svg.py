"""Geometry of the pictures: numbers to places on paper."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from propcal.numbers import ON_PAGE

LEFT, RIGHT, TOP, BOTTOM = 44, 312, 12, 214  # of the plot within a picture of 320 x 256


@dataclass(frozen=True)
class Axis:
    """A linear scale."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: Any) -> Any:
        return self.start + (np.asarray(value, dtype=np.float64) - self.low) / (self.high - self.low) * (
            self.end - self.start
        )


@dataclass(frozen=True)
class Line:
    """A path with the class that gives it its look, and a name for scripts."""

    look: str
    path: str
    name: str = ""


@dataclass(frozen=True)
class Tick:
    """A mark on an axis."""

    place: str
    label: str


@dataclass(frozen=True)
class Picture:
    """A picture as data: axes and paths."""

    key: str
    heading: str
    description: str
    x_label: str
    y_label: str
    x_ticks: list[Tick]
    y_ticks: list[Tick]
    lines: list[Line] = field(default_factory=list)


def point(x: float, y: float) -> str:
    """A place, to a tenth of a pixel."""
    return f"{x:.1f},{y:.1f}".replace(".0", "")


def path(xs: Iterable[float], ys: Iterable[float]) -> str:
    """A line through points, to a tenth of a pixel; it breaks where one is not known.

    >>> path([0, 1, 2, 3.5], [5, float("nan"), 5, 4])
    'M0,5M2,5l1.5,-1'
    """
    parts: list[str] = []
    last: tuple[int, int] | None = None
    for x, y in zip(xs, ys):
        if not (math.isfinite(x) and math.isfinite(y)):
            last = None
            continue
        here = (round(10 * x), round(10 * y))
        if last is None:
            parts.append(f"M{here[0] / 10:g},{here[1] / 10:g}")
        elif here != last:
            parts.append(f"l{(here[0] - last[0]) / 10:g},{(here[1] - last[1]) / 10:g}")
        last = here
    return "".join(parts)


def area(xs: Sequence[float], low: Sequence[float], high: Sequence[float]) -> str:
    """A band between two lines.

    >>> area([0, 1], [5, 5], [4, 3])
    'M0,4l1,-1l0,2l-1,0Z'
    """
    if len(xs) < 2 or not np.isfinite([*low, *high]).all():
        return ""
    return path([*xs, *reversed(xs)], [*high, *reversed(low)]) + "Z"


def bar(x0: float, x1: float, y0: float, y1: float) -> str:
    """A rectangle.

    >>> bar(0, 2, 0, 1)
    'M0,0H2V1H0Z'
    """
    return f"M{point(x0, y0)}H{x1:.1f}V{y1:.1f}H{x0:.1f}Z".replace(".0", "")


def ring(x: float, y: float, radius: float = 3.5) -> str:
    """A circle as a path.

    >>> ring(10, 20, 3)
    'M7,20a3,3 0 1 0 6,0a3,3 0 1 0 -6,0'
    """
    r = f"{radius:g},{radius:g}"
    return f"M{point(x - radius, y)}a{r} 0 1 0 {2 * radius:g},0a{r} 0 1 0 -{2 * radius:g},0"


def ticks(axis: Axis, values: Iterable[float], digits: int = 1) -> list[Tick]:
    """Marks at values."""
    return [Tick(f"{float(axis(v)):.1f}", ON_PAGE.decimal(v + 0.0, digits)) for v in values]


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
    values = [float(round(step * i, 10)) + 0.0 for i in np.arange(first, high / step + 1e-9)]
    return values, digits

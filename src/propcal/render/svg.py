"""Charts as SVG: marks become paths, and numbers places on paper."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from propcal.core.grid import FloatArray
from propcal.documents.audit_pictures import GroupPictures, PerformancePictures
from propcal.documents.blocks import Column, Table
from propcal.documents.charts import Axis, ForestRow, Mark, Plot, ratio_axis
from propcal.numbers import Limit, known

Numbers = Sequence[float] | FloatArray
# margins of a plot
LEFT = 44
TOP = 12
RIGHT = 8
BOTTOM = 42
# room of a letter and of a line of names, in pixels
LETTER = 6.2
LINE = 12
ENDS = ("low", "high")
# of a row of a forest
BAR_WIDTH = 200
BAR_MARGIN = 10


@dataclass(frozen=True)
class Scale:
    """An axis on paper."""

    axis: Axis
    start: float
    end: float

    def __call__(self, value: Any) -> FloatArray:
        return self.start + self.axis.share(value) * (self.end - self.start)

    @property
    def ticks(self) -> list[tuple[str, str]]:
        """Places of the marks, and their labels."""
        return [
            (f"{float(self(value)):.1f}", label) for value, label in self.axis.ticks
        ]


@dataclass(frozen=True)
class Path:
    """A path, its look, names beside places, and the name that scripts use."""

    look: str
    path: str
    names: Sequence[tuple[str, str, str]] = ()
    key: str = ""


def scales(plot: Plot) -> tuple[Scale, Scale]:
    """Both axes of a plot."""
    x = Scale(plot.x, LEFT if plot.width < 500 else LEFT + 20, plot.width - RIGHT)
    return x, Scale(plot.y, plot.height - BOTTOM, TOP)


def paths(plot: Plot) -> list[Path]:
    """The marks of a plot as paths."""
    x, y = scales(plot)
    return [replace(_path(mark, x, y), key=mark.key) for mark in plot.marks]


def group_lines(group: GroupPictures, plots: Sequence[Plot]) -> dict[str, str]:
    """The marks of a group in these pictures as paths, by their keys."""
    return {
        key: _path(mark, *scales(plot)).path
        for plot in plots
        for key, mark in group.marks_in(plot).items()
    }


def group_data(drawn: PerformancePictures) -> list[dict[str, Any]]:
    """What a page needs to draw the group that a reader picks."""
    return [
        {
            "name": g.name,
            "lines": group_lines(g, drawn.plots),
            "tables": g.tables,
            "told": g.captions,
        }
        for g in drawn.groups
    ]


def _path(mark: Mark, x: Scale, y: Scale) -> Path:
    xs = x(mark.x)
    ys = y(mark.y)
    if mark.kind == "band":
        return Path(mark.look, bands(xs, ys, y(mark.high)))
    if mark.kind == "bars":
        return Path(
            mark.look,
            "".join(map(bar, xs, x(mark.high), np.full(len(ys), y.start), ys)),
        )
    if mark.kind == "points":
        return Path(
            mark.look,
            "".join(map(ring, xs, ys)),
            _names_beside(xs, ys, mark.names, x.end),
        )
    return Path(mark.look, _line_or_dash(xs, ys))


def _names_beside(
    xs: FloatArray, ys: FloatArray, names: Sequence[str], right: float
) -> list[tuple[str, str, str]]:
    """Where names of points begin: to the right, or to the left at the edge; above or
    below what is there.

    >>> _names_beside(np.array([10.0, 20.0, 95.0]), np.array([5.0, 5.0, 5.0]), ["A1", "B1", "C1"], 100.0)
    [('17.0', '21.0', 'A1'), ('27.0', '9.0', 'B1'), ('75.6', '9.0', 'C1')]
    >>> _names_beside(np.array([10.0]), np.array([5.0]), [], 100.0)  # points without names
    []
    """
    order = np.argsort(xs)[: len(names)]
    taken = [(x - 5, x + 5, y + 4) for x, y in zip(xs, ys)]
    for i in order:
        width = LETTER * len(names[i])
        start = xs[i] + 7 if xs[i] + 7 + width <= right else xs[i] - 7 - width
        near = [y for a, b, y in taken if a < start + width and start < b]
        steps = (
            sign * LINE * n / 2 for n in range(2 * len(taken) + 2) for sign in (1, -1)
        )
        low = next(
            y
            for y in (ys[i] + 4 + step for step in steps)
            if all(abs(y - other) >= LINE for other in near)
        )
        taken.append((start, start + width, low))
    return [
        (f"{a:.1f}", f"{y:.1f}", names[i])
        for (a, _, y), i in zip(taken[len(xs) :], order)
    ]


def _line_or_dash(xs: FloatArray, ys: FloatArray) -> str:
    """A line, with a short stroke for a point that has no neighbour."""
    known = np.isfinite(ys)
    dashes = [
        path([xs[i] - 2, xs[i] + 2], [ys[i], ys[i]])
        for i in np.flatnonzero(known)
        if not (i and known[i - 1]) and not (i + 1 < len(ys) and known[i + 1])
    ]
    return path(xs, ys) + "".join(dashes)


@dataclass(frozen=True)
class ForestBar:
    """A row of a forest on paper; a limit has no point, and `beyond` names the sides on
    which it leaves.
    """

    low: str
    high: str
    point: str
    before: str
    beyond: str


def forest_scale(axis: Axis) -> Scale:
    """The axis of a forest on paper."""
    return Scale(axis, BAR_MARGIN, BAR_WIDTH - BAR_MARGIN)


def forest_bar(row: ForestRow, axis: Axis) -> ForestBar:
    """Where a number and its interval lie; what is not known is empty."""
    scale = forest_scale(axis)

    def place(value: Any) -> str:
        if not known(value):
            return ""
        return f"{float(np.clip(scale(max(value, 1e-9) if axis.log else value), scale.start, scale.end)):.1f}"

    value = row.value
    low = row.low
    high = row.high
    if isinstance(value, Limit):  # all that is on its side
        low, high = (
            (axis.low, float(value))
            if value.side == "below"
            else (float(value), axis.high)
        )
        beyond = "left" if value.side == "below" else "right"
        return ForestBar(place(low), place(high), "", place(row.before), beyond)
    low, high = (
        (low, high) if math.isfinite(low) and math.isfinite(high) else (value, value)
    )
    beyond = ("left " if low < axis.low else "") + ("right" if high > axis.high else "")
    return ForestBar(place(low), place(high), place(value), place(row.before), beyond)


def table_axis(table: Table) -> Axis:
    """The axis of the ratios that are drawn in a column of a table."""
    keys = [
        f"{column.key}_{end}"
        for column in table.columns
        if column.kind == "forest"
        for end in ENDS
    ]
    return ratio_axis([float(row[key]) for row in table.rows for key in keys])


def table_bar(column: Column, row: Mapping[str, Any], axis: Axis) -> ForestBar:
    """A ratio of a table, drawn."""
    value, low, high = (row[f"{column.key}{end}"] for end in ("", "_low", "_high"))
    return forest_bar(ForestRow("", value, low, high), axis)


def point(x: float, y: float) -> str:
    """A place, to a tenth of a pixel."""
    return f"{x:.1f},{y:.1f}".replace(".0", "")


def path(xs: Numbers, ys: Numbers) -> str:
    """A line through points, to a tenth of a pixel; it breaks where one is not known.

    >>> path([0, 1, 2, 3.5], [5, float("nan"), 5, 4])
    'M0,5M2,5l1.5,-1'
    """
    places = np.rint(10 * np.array([xs, ys], dtype=np.float64)) + 0.0  # no -0
    parts: list[str] = []
    last: list[float] | None = None
    for x, y in places.T.tolist():
        here = [x, y] if math.isfinite(x + y) else None
        if here and not last:
            parts.append(f"M{_tenth(x)},{_tenth(y)}")
        elif here and last and here != last:
            parts.append(f"l{_tenth(x - last[0])},{_tenth(y - last[1])}")
        last = here
    return "".join(parts)


@lru_cache(maxsize=10_000)  # a page has a hundred thousand of a few thousand places
def _tenth(n: float) -> str:
    return f"{n / 10:g}"


def bands(xs: FloatArray, low: FloatArray, high: FloatArray) -> str:
    """A band between two lines, in pieces between points that are not known.

    >>> bands(*np.array([[0, 1, 2], [5, 5, float("nan")], [4, 3, 3]]))
    'M0,4l1,-1l0,2l-1,0Z'
    """
    known = np.isfinite(low) & np.isfinite(high)
    pieces = np.split(np.arange(len(xs)), np.flatnonzero(np.diff(known)) + 1)
    shown = [piece for piece in pieces if len(piece) > 1 and known[piece[0]]]
    around = [
        (np.append(xs[p], xs[p][::-1]), np.append(high[p], low[p][::-1])) for p in shown
    ]
    return "".join(f"{path(*both)}Z" for both in around)


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

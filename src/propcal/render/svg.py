"""Charts as SVG: marks become paths, and numbers places on paper."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

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
TINY = 1e-9  # zero has no place on a log axis
# of a row of a forest
BAR_WIDTH = 200
BAR_MARGIN = 10


@dataclass(frozen=True)
class DrawnAxis:
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


def scales(plot: Plot) -> tuple[DrawnAxis, DrawnAxis]:
    """Both axes of a plot."""
    left = LEFT if plot.width < 500 else LEFT + 20
    x = DrawnAxis(plot.x, left, plot.width - RIGHT)
    y = DrawnAxis(plot.y, plot.height - BOTTOM, TOP)
    return x, y


def paths(plot: Plot) -> list[Path]:
    """The marks of a plot as paths."""
    x, y = scales(plot)
    return [replace(_path(mark, x, y), key=mark.key) for mark in plot.marks]


def group_lines(group: GroupPictures, plots: Sequence[Plot]) -> dict[str, str]:
    """The marks of a group in these pictures as paths, by their keys."""
    lines = {}
    for plot in plots:
        x, y = scales(plot)
        for key, mark in group.marks_in(plot).items():
            lines[key] = _path(mark, x, y).path
    return lines


def group_data(drawn: PerformancePictures) -> list[dict[str, Any]]:
    """What a page needs to draw the group that a reader picks."""
    data = []
    for group in drawn.groups:
        of_group = {
            "name": group.name,
            "lines": group_lines(group, drawn.plots),
            "tables": group.tables,
            "told": group.captions,
        }
        data.append(of_group)
    return data


def _path(mark: Mark, x: DrawnAxis, y: DrawnAxis) -> Path:
    xs = x(mark.x)
    ys = y(mark.y)
    if mark.kind == "band":
        return Path(mark.look, bands(xs, ys, y(mark.high)))
    if mark.kind == "bars":
        feet = np.full(len(ys), y.start)
        return Path(mark.look, "".join(map(bar, xs, x(mark.high), feet, ys)))
    if mark.kind == "points":
        names = _names_beside(xs, ys, mark.names, x.end)
        return Path(mark.look, "".join(map(ring, xs, ys)), names)
    return Path(mark.look, _line_or_dash(xs, ys))


class Room(NamedTuple):
    """What a line of text or a point takes on paper."""

    start: float
    end: float
    line: float

    def is_near(self, start: float, end: float) -> bool:
        """Whether it shares its width with a text between these places."""
        return bool(self.start < end and start < self.end)


def _names_beside(
    xs: FloatArray, ys: FloatArray, names: Sequence[str], right: float
) -> list[tuple[str, str, str]]:
    """Where names of points begin: to the right, or to the left at the edge; above or
    below what is there.

    >>> points = np.array([10.0, 20.0, 95.0]), np.array([5.0, 5.0, 5.0])
    >>> _names_beside(*points, ["A1", "B1", "C1"], 100.0)
    [('17.0', '21.0', 'A1'), ('27.0', '9.0', 'B1'), ('75.6', '9.0', 'C1')]
    >>> _names_beside(*points, [], 100.0)  # points without names
    []
    """
    taken = [Room(x - 5, x + 5, y + 4) for x, y in zip(xs, ys)]
    places = []
    for i in np.argsort(xs)[: len(names)]:
        width = LETTER * len(names[i])
        start = xs[i] + 7
        if start + width > right:
            start = xs[i] - 7 - width
        near = [room.line for room in taken if room.is_near(start, start + width)]
        line = _free_line(ys[i] + 4, near, 2 * len(taken) + 2)
        taken.append(Room(start, start + width, line))
        places.append((f"{start:.1f}", f"{line:.1f}", names[i]))
    return places


def _free_line(first: float, taken: Sequence[float], most: int) -> float:
    """The line nearest to the first one that is a line's height from all others."""
    for step in range(most):
        for sign in (1, -1):
            line = first + sign * LINE * step / 2
            if all(abs(line - other) >= LINE for other in taken):
                return line
    raise AssertionError("there are more lines than names")


def _line_or_dash(xs: FloatArray, ys: FloatArray) -> str:
    """A line, with a short stroke for a point that has no neighbour."""
    known = np.isfinite(ys)
    with_ends = np.concatenate([[False], known, [False]])
    alone = known & ~with_ends[:-2] & ~with_ends[2:]
    drawn = path(xs, ys)
    for x, y in zip(xs[alone], ys[alone]):
        drawn += path([x - 2, x + 2], [y, y])
    return drawn


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


def forest_scale(axis: Axis) -> DrawnAxis:
    """The axis of a forest on paper."""
    return DrawnAxis(axis, BAR_MARGIN, BAR_WIDTH - BAR_MARGIN)


def forest_bar(row: ForestRow, axis: Axis) -> ForestBar:
    """Where a number and its interval lie; what is not known is empty."""
    scale = forest_scale(axis)
    before = _place(row.before, scale)
    value = row.value
    if isinstance(value, Limit):  # all that is on its side
        limit = _place(float(value), scale)
        if value.side == "below":
            return ForestBar(_place(axis.low, scale), limit, "", before, "left")
        return ForestBar(limit, _place(axis.high, scale), "", before, "right")

    low = row.low
    high = row.high
    if not math.isfinite(low) or not math.isfinite(high):
        low = value
        high = value
    beyond = ""
    if low < axis.low:
        beyond += "left "
    if high > axis.high:
        beyond += "right"
    ends = _place(low, scale), _place(high, scale)
    return ForestBar(*ends, _place(value, scale), before, beyond)


def _place(value: Any, scale: DrawnAxis) -> str:
    """Where a number lies, at the edge if it is beyond; nothing if it is not known."""
    if not known(value):
        return ""
    if scale.axis.log:
        value = max(value, TINY)
    return f"{float(np.clip(scale(value), scale.start, scale.end)):.1f}"


def table_axis(table: Table) -> Axis:
    """The axis of the ratios that are drawn in a column of a table."""
    keys = []
    for column in table.columns:
        if column.kind == "forest":
            keys += [f"{column.key}_low", f"{column.key}_high"]
    return ratio_axis([float(row[key]) for row in table.rows for key in keys])


def table_bar(column: Column, row: Mapping[str, Any], axis: Axis) -> ForestBar:
    """A ratio of a table, drawn."""
    key = column.key
    ratio = ForestRow("", row[key], row[f"{key}_low"], row[f"{key}_high"])
    return forest_bar(ratio, axis)


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
        if not math.isfinite(x + y):
            last = None
            continue
        if last is None:
            parts.append(f"M{_tenth(x)},{_tenth(y)}")
        elif last != [x, y]:
            parts.append(f"l{_tenth(x - last[0])},{_tenth(y - last[1])}")
        last = [x, y]
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
    areas = []
    for piece in pieces:
        if len(piece) > 1 and known[piece[0]]:
            there_and_back = np.append(xs[piece], xs[piece][::-1])
            above_and_below = np.append(high[piece], low[piece][::-1])
            areas.append(f"{path(there_and_back, above_and_below)}Z")
    return "".join(areas)


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
    arc = f"a{radius:g},{radius:g} 0 1 0"
    across = f"{2 * radius:g}"
    return f"M{point(x - radius, y)}{arc} {across},0{arc} -{across},0"

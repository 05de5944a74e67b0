"""Charts drawn with matplotlib."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from propcal.core.arguments import Axes
from propcal.core.grid import FloatArray
from propcal.documents.charts import (
    FEW_KEY,
    INTERVAL_KEY,
    Axis,
    Chart,
    Forest,
    ForestRow,
    Mark,
    Plot,
    row_axis,
)
from propcal.numbers import IN_TEXT, known
from propcal.render import matplotlib_style as figure

# inches that a cell must be wide for its number, and for a bold one
NUMBER = 0.18
BOLD = 0.26
LEGEND_LINE = 0.155  # inches
# of cells; the palest is not white
SHADES = {"s1": 0.2, "s2": 0.35, "s3": 0.55, "s4": 0.75}
TINY = 1e-9  # zero has no place on a log axis
LOOKS: dict[str, dict[str, Any]] = figure.drawn_as("looks")
FINDINGS: dict[str, tuple[str, str]] = figure.drawn_as("findings")
SMALL: dict[str, Any] = {"fontsize": figure.SMALL, "va": "center"}  # texts beside rows


def draw(chart: Chart, ax: Any = None, width: float = 6.4) -> Axes:
    """Draw a chart on the given axes, or in a new figure `width` inches wide; returns
    the axes.
    """
    figure.require_matplotlib()
    with figure.plain_letters():
        if isinstance(chart, str):
            said: Axes = figure.say(figure.axes(ax, width, 1.5), chart)
            return said
        if isinstance(chart, Forest):
            plot = _in_rows(chart)
        else:
            plot = chart
        room = width
        if ax is not None:
            room = figure.inches(ax)
        legend = _legend(plot, room)
        height = _height(plot, width) + 0.65 + LEGEND_LINE * legend.lines
        new = ax is None
        ax = figure.axes(ax, width, height)
        handles = _draw_marks(ax, plot, legend.names)
        _scales(ax, plot, room)
        if plot.width == plot.height and new:  # given axes keep their shape
            ax.set_box_aspect(1)
            ax.set_anchor("S")  # the room for the legend is counted from below
        _say_ends(ax, plot, room)
        if handles:
            figure.legend_below(
                ax,
                handles,
                title=plot.note,
                drop=30 + 12 * plot.x.label.count("\n"),
                columns=legend.columns,
                wide=plot.y.rows or room < figure.WIDE,
            )
    drawn: Axes = ax
    return drawn


class Legend(NamedTuple):
    """The names of a legend, cut to its room, and how it is set."""

    names: list[str]
    columns: int
    lines: int


def _legend(plot: Plot, room: float) -> Legend:
    """The names of the marks that have any, in one column or two."""
    keys = [mark.name for mark in plot.marks if mark.name]
    letters = int(room / figure.LETTER) - 19
    names = figure.labels(keys, min(60, max(16, letters)))
    longest = max(map(len, names), default=0) + 10
    columns = 1
    if len(keys) > 3 and 2 * longest * figure.LETTER < room:
        columns = 2
    lines = -(-len(keys) // columns)
    if plot.note:
        lines += len(plot.note.split("\n"))
    return Legend(names, columns, lines)


def _draw_marks(ax: Any, plot: Plot, names: Sequence[str]) -> list[Any]:
    """Draw all marks; returns the entries of the legend."""
    handles = []
    unused = iter(names)
    for mark in plot.marks:
        if mark.name:
            label = next(unused)
            handles.append(_key(mark, label))
        else:
            label = f"_{mark.kind}"
        _draw(ax, plot, mark, label)
    return handles


def _height(plot: Plot, width: float) -> float:
    """Inches of the picture without its key."""
    if plot.y.rows:
        return plot.height / 100
    if plot.width == plot.height:
        return min(width, 4.8) - 0.7
    return min(width, 6.4) * plot.height / plot.width


def _look(words: str) -> dict[str, Any]:
    """How a mark is drawn, from the words of its look."""
    look: dict[str, Any] = {"color": "black", "ls": "-", "lw": 1.0, "marker": ""}
    for word in words.split():
        series = re.match(r"series-(\d+)", word)
        if series:
            look |= _series_look(int(series[1]))
        look |= LOOKS.get(word, {})
    if isinstance(look["ls"], list):  # lengths of dashes
        look["ls"] = (0, tuple(look["ls"]))
    return look


def _series_look(number: int) -> dict[str, Any]:
    """The colour, line and marker of one of several series; only the first is solid."""
    style = "-"
    if number:
        others = figure.STYLES[1:]
        style = others[(number + number // len(figure.COLORS)) % len(others)]
    return {
        "color": figure.COLORS[number % 6],
        "ls": style,
        "marker": figure.MARKERS[number % len(figure.MARKERS)],
        "lw": 1.4,
    }


class Places(NamedTuple):
    """Where a mark is, as arrays; `high` is the other end of what has two."""

    x: FloatArray
    y: FloatArray
    high: FloatArray


def _draw(ax: Any, plot: Plot, mark: Mark, label: str) -> None:
    """One mark; those with no name of their own are labelled by their kind."""
    x, y, high = (
        np.asarray(part, dtype=np.float64) for part in (mark.x, mark.y, mark.high)
    )
    if not len(y):
        return
    if plot.x.log:
        x = np.maximum(x, TINY)
        high = np.maximum(high, TINY)
    places = Places(x, y, high)
    look = _look(mark.look)
    color = look["color"]
    if mark.kind == "line":
        ax.plot(x, y, label=label, **(look | _markers_of_line(mark)))
    elif mark.kind == "band":
        ax.fill_between(x, y, high, color=color, alpha=0.13, lw=0, label=label)
    elif mark.kind == "bars":
        ax.bar(x, y, high - x, align="edge", color=color, lw=0, zorder=0, label=label)
    elif mark.kind == "steps":
        _draw_steps(ax, places, look, label)
    elif mark.kind == "points":
        _draw_points(ax, plot, places, look, label)
    elif mark.kind == "row-bars":
        ax.barh(y, high - x, left=x, color=color, height=0.6, label=label)
    elif mark.kind == "cells":
        _draw_cells(ax, plot, mark, places, label)
    elif mark.kind == "ranges":
        line = {name: look[name] for name in ("color", "lw", "ls")}
        for low, end, row in zip(x, high, y):
            ax.plot([low, end], [row, row], label=label, **line)
    elif mark.kind == "rows":
        _draw_rows(ax, mark, y, look)
    elif mark.kind == "texts" and len(x):
        _draw_texts(ax, mark, places, look)
    elif mark.kind == "texts" and figure.inches(ax) > figure.WIDE:
        beside = ax.get_yaxis_transform()
        for row, text in zip(y, mark.names):
            ax.text(1.02, row, _lines(text), transform=beside, **SMALL)


def _markers_of_line(mark: Mark) -> dict[str, Any]:
    """A few markers on a line that is `marked`, and none on others."""
    if "marked" in mark.look:
        return {"markevery": (7, 15), "ms": 4}
    return {"marker": ""}


def _dots(look: dict[str, Any]) -> dict[str, Any]:
    return {**look, "marker": look["marker"] or "o", "ls": "", "zorder": 3}


def _draw_steps(ax: Any, places: Places, look: dict[str, Any], label: str) -> None:
    """Steps, with a marker on each if the look has one."""
    edges, height, _ = places
    line = {"color": look["color"], "ls": look["ls"], "lw": 1.1}
    ax.stairs(height, edges, label=label, baseline=None, **line)
    if look["marker"]:
        middle = (edges[1:] + edges[:-1]) / 2
        ax.plot(middle, height, label="_points", **(_dots(look) | {"ms": 3.5}))


def _draw_points(
    ax: Any, plot: Plot, places: Places, look: dict[str, Any], label: str
) -> None:
    """Points; in a picture with rows, an arrow at the edge for those beyond it."""
    x, y, _ = places
    in_rows = plot.y.rows
    dots = _dots(look)
    if not in_rows:
        ax.plot(x, y, label=label, clip_on=False, **(dots | {"ms": 4.5}))
        return
    ax.plot(x, y, label=label, clip_on=True, **(dots | {"ms": 5.0}))
    low = plot.x.low
    high = plot.x.high
    for beyond, end, arrow in ((x < low, low, "<"), (x > high, high, ">")):
        if beyond.any():
            at_edge = np.full(int(beyond.sum()), end)
            arrows = dots | {"marker": arrow, "ms": 6, "clip_on": False}
            ax.plot(at_edge, y[beyond], label="_beyond", **arrows)


def _draw_cells(ax: Any, plot: Plot, mark: Mark, places: Places, label: str) -> None:
    """Cells of a heat map, with their numbers where there is room."""
    x, y, high = places
    ax.barh(y, high - x, left=x, height=1.0, label=label, **_fill(mark))
    room = 0.55 * figure.inches(ax) / (plot.x.high - plot.x.low)
    if room < NUMBER:
        return
    wrong = mark.look.startswith(("high", "low"))
    weight = "bold" if wrong and room > BOLD else "normal"
    style = {"ha": "center", "va": "center", "fontsize": figure.SMALL}
    for place, row, text in zip((x + high) / 2, y, mark.names):
        shown = "".join(map(figure.symbol, text))
        ax.text(place, row, shown, weight=weight, **style)


def _draw_rows(ax: Any, mark: Mark, rows: FloatArray, look: dict[str, Any]) -> None:
    """Whole rows: shaded, or hatched where there are not enough data."""
    if mark.look == "hatch":
        half = 0.3
        fill = figure.HATCH
    else:
        half = 0.5
        fill = {"color": look["color"], "lw": 0}
    for row in rows:
        ax.axhspan(row - half, row + half, zorder=0, **fill)


def _draw_texts(ax: Any, mark: Mark, places: Places, look: dict[str, Any]) -> None:
    """Texts within a picture."""
    words = mark.look.split()
    style = SMALL | {
        "color": look["color"],
        "weight": "bold" if "bold" in words else "normal",
        "ha": "right" if "flush" in words else "left",
    }
    most = max(16, int((figure.inches(ax) - 1.5) / figure.LETTER))
    for place, row, text in zip(places.x, places.y, mark.names):
        ax.text(place, row, f" {figure.short(text, most)}", **style)


def _fill(mark: Mark) -> dict[str, Any]:
    """The fill of a cell: darker where the gap is larger, and hatched without enough
    data.
    """
    side, *shade = mark.look.split()
    if side == "few":
        return figure.HATCH
    color = "white"
    if side in ("high", "low"):
        color = LOOKS[side]["color"]
    strength = SHADES.get("".join(shade), 1.0)
    line = {"edgecolor": "0.85", "linewidth": 0.5}
    if side == "nobody":
        line["linewidth"] = 0.0
    return line | {"facecolor": (color, strength)}


def _key(mark: Mark, label: str) -> Any:
    """The entry of a mark in the legend."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    if not len(mark.y):
        label = ": ".join([label, *mark.names])
    look = _look(mark.look)
    if mark.kind == "cells":
        return Patch(label=label, **_fill(mark))
    if mark.kind in ("rows", "bars"):
        if mark.look == "hatch":
            return Patch(label=label, **figure.HATCH)
        return Patch(label=label, color=look["color"])
    if mark.kind == "points":
        look |= {"marker": look["marker"] or "o", "ls": ""}
    elif mark.kind == "line" and not {"marked", "keyed"} & set(mark.look.split()):
        look["marker"] = ""
    return Line2D([], [], markersize=4.5, label=label, **look)


def _in_rows(forest: Forest) -> Plot:
    """A forest as points and ranges in rows, with the key of what was found."""
    y = row_axis([row.name for row in forest.rows])
    marks = [Mark("line", "guide", [forest.right, forest.right], [y.low, y.high])]
    for place, row in enumerate(forest.rows):
        marks += _row_marks(row, place)
    keys = _forest_keys(forest, {mark.kind for mark in marks})
    texts = []
    for row in forest.rows:
        text = ""
        if known(row.value):
            text = row.printed(IN_TEXT)
        texts.append(text)
    marks.append(Mark("texts", "", y=range(len(texts)), names=texts))
    return Plot(
        forest.key,
        forest.heading,
        forest.description,
        forest.axis,
        y,
        [*marks, *keys],
        height=29 * len(forest.rows),
        ends=forest.ends,
        note=forest.note,
    )


def _row_marks(row: ForestRow, place: int) -> list[Mark]:
    """A number with its interval and what it was before; hatched if there is none."""
    if not np.isfinite(row.value):
        return [Mark("rows", "hatch", [], [place])]
    look = row.look
    if row.finding in FINDINGS:
        look = FINDINGS[row.finding][0]
    marks = []
    if np.isfinite(row.low) and np.isfinite(row.high):
        marks.append(Mark("ranges", f"grey {look}", [row.low], [place], [row.high]))
    if known(row.before):
        marks.append(Mark("points", "noise", [row.before], [place]))
    return [*marks, Mark("points", look, [row.value], [place])]


def _forest_keys(forest: Forest, kinds: set[str]) -> list[Mark]:
    """The key: findings that there are, and what a line and a hatched row mean."""
    found = {row.finding for row in forest.rows if np.isfinite(row.value)}
    keys = []
    for name, (look, text) in FINDINGS.items():
        if name in found:
            keys.append(Mark("points", look, [], [], name=text))
    if "ranges" in kinds:
        keys.append(INTERVAL_KEY)
    if "rows" in kinds:
        keys.append(FEW_KEY)
    return keys


def _scales(ax: Any, plot: Plot, room: float) -> None:
    """Both axes with their labels and marks."""
    figure.tidy(ax, xlabel=_lines(plot.x.label), ylabel=_lines(plot.y.label))
    _scale(ax, "x", plot.x)
    if not plot.y.rows:
        _scale(ax, "y", plot.y)
        return
    names = [name for _, name in plot.y.ticks]
    lines = max(2, int(plot.height / max(len(names), 1) / 13))
    shown = figure.labels(names, max(14, int(0.42 * room / figure.LETTER)), lines=lines)
    ax.set_yticks(range(len(names)), shown, fontsize=figure.SMALL, linespacing=0.95)
    ax.set_ylim(plot.y.low, plot.y.high)
    ax.tick_params(axis="y", length=0)  # the names of rows stand alone
    ax.spines["left"].set_visible(False)


def _scale(ax: Any, side: str, axis: Axis) -> None:
    from matplotlib.ticker import NullFormatter, NullLocator

    on = getattr(ax, f"{side}axis")
    if axis.log:
        ax.set(**{f"{side}scale": "log"})
        on.set_minor_locator(NullLocator())
        on.set_minor_formatter(NullFormatter())
    if axis.ticks:
        on.set_ticks(
            [place for place, _ in axis.ticks],
            labels=[_lines(text) for _, text in axis.ticks],
        )
    ax.set(**{f"{side}lim": (axis.low, axis.high)})


def _say_ends(ax: Any, plot: Plot, room: float) -> None:
    """On which side the score is too high."""
    low, high = plot.ends
    look = {
        "fontsize": figure.SMALL,
        "color": "0.3",
        "style": "italic",
        "transform": ax.transAxes,
    }
    if not plot.y.rows:
        ax.text(0.97, 0.03, _lines(low), ha="right", va="bottom", **look)
        ax.text(0.03, 0.97, _lines(high), ha="left", va="top", **look)
        return
    if not low:
        return
    if room < figure.WIDE:  # one word a line
        low = low.replace(" ", "\n", 1)
        high = high.replace(" ", " →\n", 1)
    else:
        high = f"{high} →"
    ax.text(0, 1.01, _lines(f"← {low}"), ha="left", va="bottom", **look)
    ax.text(1, 1.01, _lines(high), ha="right", va="bottom", **look)


def _lines(text: str) -> str:
    return "\n".join(figure.literal(figure.letters(line)) for line in text.split("\n"))

"""Charts drawn with matplotlib."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from propcal.core.arguments import Axes
from propcal.documents.charts import (
    FEW_KEY,
    INTERVAL_KEY,
    Axis,
    Chart,
    Forest,
    Mark,
    Plot,
    row_axis,
)
from propcal.numbers import IN_TEXT, known
from propcal.render import matplotlib_style as figure

# inches that a cell must be wide for its number, and for a bold one
NUMBER = 0.18
BOLD = 0.26
SHADES = {
    "s1": 0.2,
    "s2": 0.35,
    "s3": 0.55,
    "s4": 0.75,
}  # of cells; the palest is not white
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
        plot = _in_rows(chart) if isinstance(chart, Forest) else chart
        room = width if ax is None else figure.inches(ax)
        keys = [mark for mark in plot.marks if mark.name]
        names = figure.labels(
            [mark.name for mark in keys],
            min(60, max(16, int(room / figure.LETTER) - 19)),
        )
        longest = max(map(len, names), default=0) + 10
        if len(keys) > 3 and 2 * longest * figure.LETTER < room:
            columns = 2
        else:
            columns = 1
        lines = -(-len(keys) // columns) + (
            len(plot.note.split("\n")) if plot.note else 0
        )
        new = ax is None
        ax = figure.axes(ax, width, _height(plot, width) + 0.65 + 0.155 * lines)
        handles = []
        named = iter(names)
        for mark in plot.marks:
            label = next(named) if mark.name else f"_{mark.kind}"
            _draw(ax, plot, mark, label)
            if mark.name:
                handles.append(_key(mark, label))
        _scales(ax, plot, room)
        if (
            plot.width == plot.height and new
        ):  # other axes keep the shape that they were given
            ax.set_box_aspect(1)
            ax.set_anchor("S")  # the room for the legend is counted from below
        _say_ends(ax, plot, room)
        drop = 30 + 12 * plot.x.label.count("\n")
        wide = plot.y.rows or room < figure.WIDE
        if handles:
            figure.legend_below(
                ax, handles, title=plot.note, drop=drop, columns=columns, wide=wide
            )
    drawn: Axes = ax
    return drawn


def _height(plot: Plot, width: float) -> float:
    """Inches of the picture without its key."""
    if plot.y.rows:
        return plot.height / 100
    if plot.width == plot.height:
        return min(width, 4.8) - 0.7
    return min(width, 6.4) * plot.height / plot.width


def _look(words: str) -> dict[str, Any]:
    found: dict[str, Any] = {"color": "black", "ls": "-", "lw": 1.0, "marker": ""}
    for word in words.split():
        series = re.match(r"series-(\d+)", word)
        if series:
            i = int(series[1])
            if i:
                style = figure.STYLES[1:][(i + i // len(figure.COLORS)) % 3]
            else:
                style = "-"
            found |= {
                "color": figure.COLORS[i % 6],
                "ls": style,
                "marker": figure.MARKERS[i % 7],
                "lw": 1.4,
            }
        found |= LOOKS.get(word, {})
    if isinstance(found["ls"], list):  # lengths of dashes
        found["ls"] = (0, tuple(found["ls"]))
    return found


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
    look = _look(mark.look)
    color = look["color"]
    dots = {**look, "marker": look["marker"] or "o", "ls": "", "zorder": 3}
    if mark.kind == "line":
        marked: dict[str, Any] = (
            {"markevery": (7, 15), "ms": 4} if "marked" in mark.look else {"marker": ""}
        )
        ax.plot(x, y, label=label, **(look | marked))
    elif mark.kind == "band":
        ax.fill_between(x, y, high, color=color, alpha=0.13, lw=0, label=label)
    elif mark.kind == "bars":
        ax.bar(x, y, high - x, align="edge", color=color, lw=0, zorder=0, label=label)
    elif mark.kind == "steps":
        ax.stairs(y, x, label=label, baseline=None, color=color, ls=look["ls"], lw=1.1)
        if look["marker"]:
            ax.plot((x[1:] + x[:-1]) / 2, y, label="_points", **(dots | {"ms": 3.5}))
    elif mark.kind == "points":
        ax.plot(
            x,
            y,
            label=label,
            clip_on=plot.y.rows,
            **(dots | {"ms": 5.0 if plot.y.rows else 4.5}),
        )
        for beyond, end, arrow in (
            (x < plot.x.low, plot.x.low, "<"),
            (x > plot.x.high, plot.x.high, ">"),
        ):
            at = dots | {"marker": arrow, "ms": 6, "clip_on": False}
            if plot.y.rows and beyond.any():
                ax.plot(
                    np.full(int(beyond.sum()), end), y[beyond], label="_beyond", **at
                )
    elif mark.kind == "row-bars":
        ax.barh(y, high - x, left=x, color=color, height=0.6, label=label)
    elif mark.kind == "cells":
        ax.barh(y, high - x, left=x, height=1.0, label=label, **_fill(mark))
        room = 0.55 * figure.inches(ax) / (plot.x.high - plot.x.low)
        if mark.look.startswith(("high", "low")) and room > BOLD:
            weight = "bold"
        else:
            weight = "normal"
        for place, row, text in zip(
            (x + high) / 2, y, mark.names if room >= NUMBER else ()
        ):
            shown = "".join(map(figure.symbol, text))
            ax.text(
                place,
                row,
                shown,
                ha="center",
                va="center",
                fontsize=figure.SMALL,
                weight=weight,
            )
    else:
        _draw_in_rows(ax, mark, (x, y, high), look, label)


def _fill(mark: Mark) -> dict[str, Any]:
    """The fill of a cell: darker where the gap is larger, and hatched without enough
    data.
    """
    side, *shade = mark.look.split()
    if side == "few":
        return figure.HATCH
    color = LOOKS[side]["color"] if side in ("high", "low") else "white"
    strength = SHADES.get("".join(shade), 1.0)
    line = {"edgecolor": "0.85", "linewidth": 0.0 if side == "nobody" else 0.5}
    return line | {"facecolor": (color, strength)}


def _draw_in_rows(
    ax: Any, mark: Mark, places: Sequence[Any], look: dict[str, Any], label: str
) -> None:
    x, y, high = places
    if mark.kind == "ranges":
        line = {key: look[key] for key in ("color", "lw", "ls")}
        for low, end, row in zip(x, high, y):
            ax.plot([low, end], [row, row], label=label, **line)
    elif mark.kind == "rows":
        for row in y:
            hatch = mark.look == "hatch"
            half, fill = (
                (0.3, figure.HATCH)
                if hatch
                else (0.5, {"color": look["color"], "lw": 0})
            )
            ax.axhspan(row - half, row + half, zorder=0, **fill)
    elif mark.kind == "texts" and len(x):
        words = mark.look.split()
        most = max(16, int((figure.inches(ax) - 1.5) / figure.LETTER))
        style = SMALL | {
            "color": look["color"],
            "weight": "bold" if "bold" in words else "normal",
        }
        style["ha"] = "right" if "flush" in words else "left"
        for place, row, text in zip(x, y, mark.names):
            ax.text(place, row, f" {figure.short(text, most)}", **style)
    elif mark.kind == "texts" and figure.inches(ax) > figure.WIDE:
        for row, text in zip(y, mark.names):
            ax.text(
                1.02, row, _lines(text), transform=ax.get_yaxis_transform(), **SMALL
            )


def _key(mark: Mark, label: str) -> Any:
    """The entry of a mark in the legend."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    label = ": ".join([label, *(mark.names if not len(mark.y) else ())])
    look = _look(mark.look)
    if mark.kind == "cells":
        return Patch(label=label, **_fill(mark))
    if mark.kind in ("rows", "bars"):
        return Patch(
            label=label,
            **(figure.HATCH if mark.look == "hatch" else {"color": look["color"]}),
        )
    if mark.kind == "points":
        look |= {"marker": look["marker"] or "o", "ls": ""}
    elif mark.kind == "line" and not {"marked", "keyed"} & set(mark.look.split()):
        look["marker"] = ""
    return Line2D([], [], markersize=4.5, label=label, **look)


def _in_rows(forest: Forest) -> Plot:
    """A forest as points and ranges in rows, with the key of what was found."""
    y = row_axis([row.name for row in forest.rows])
    marks = [Mark("line", "guide", [forest.right, forest.right], [y.low, y.high])]
    used = set()
    texts = [row.printed(IN_TEXT) if known(row.value) else "" for row in forest.rows]
    for place, row in enumerate(forest.rows):
        if not np.isfinite(row.value):
            marks.append(Mark("rows", "hatch", [], [place]))
            continue
        used.add(row.finding)
        if row.finding in FINDINGS:
            look = FINDINGS[row.finding][0]
        else:
            look = row.look
        if np.isfinite(row.low) and np.isfinite(row.high):
            marks.append(Mark("ranges", f"grey {look}", [row.low], [place], [row.high]))
        if known(row.before):
            marks.append(Mark("points", "noise", [row.before], [place]))
        marks.append(Mark("points", look, [row.value], [place]))
    keys = [
        Mark("points", look, [], [], name=text)
        for name, (look, text) in FINDINGS.items()
        if name in used
    ]
    keys += [INTERVAL_KEY] if any(mark.kind == "ranges" for mark in marks) else []
    keys += [FEW_KEY] if any(mark.kind == "rows" for mark in marks) else []
    marks += [Mark("texts", "", y=range(len(texts)), names=texts), *keys]
    named = forest.key, forest.heading, forest.description, forest.axis
    return Plot(
        *named,
        y,
        marks,
        height=29 * len(forest.rows),
        ends=forest.ends,
        note=forest.note,
    )


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
    elif low:
        narrow = room < figure.WIDE  # one word a line
        low, high = (end.replace(" ", "\n", 1) if narrow else end for end in plot.ends)
        high = high.replace("\n", " →\n") if narrow else f"{high} →"
        ax.text(0, 1.01, _lines(f"← {low}"), ha="left", va="bottom", **look)
        ax.text(1, 1.01, _lines(high), ha="right", va="bottom", **look)


def _lines(text: str) -> str:
    return "\n".join(figure.literal(figure.letters(line)) for line in text.split("\n"))

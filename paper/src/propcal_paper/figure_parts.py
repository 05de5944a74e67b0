"""Shared parts of the figures: files, looks of methods, axes, legends, notes."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from propcal.building_blocks import tidy, whole_file
from propcal_paper.settings import toml_file

# widths in inches: one column of a journal page, or the whole page
COLUMN = 3.4
PAGE = 7.0
DPI = 200
DRAWN_AS = toml_file("looks.toml")
SMALL: float = DRAWN_AS["text"]["small"]
TEXT: float = DRAWN_AS["text"]["normal"]
LETTER: float = DRAWN_AS["text"]["letter"]
LOOKS: dict[str, dict[str, Any]] = DRAWN_AS["methods"]
NAMES: dict[str, str] = DRAWN_AS["names"]  # in a legend
# Letters stay letters in vector files, and the same figure gives the same file.
_VECTORS: Any = {"svg.fonttype": "none", "pdf.fonttype": 42, "svg.hashsalt": "propcal"}


@dataclass(frozen=True)
class PaperFigure:
    """A figure with its name, title and numbers (one frame for each CSV file)."""

    name: str
    title: str
    figure: Any
    data: Mapping[str, pd.DataFrame]


def words_of(name: str) -> Any:
    """The title of a figure, its note, and why it may be missing."""
    part = "over_alpha" if name.endswith("over_alpha") else name
    return toml_file("words.toml")["figures"][part]


def new_figure(width: float, height: float) -> Any:
    """A new figure without a window."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def panels(
    width: float, height: float, rows: int = 1, columns: int = 1, **how: Any
) -> tuple[Any, Any]:
    """A new figure and its rows of panels."""
    figure = new_figure(width, height)
    return figure, figure.subplots(rows, columns, squeeze=False, **how)


def labelled(ax: Any, title: str, xlabel: str, ylabel: str = "") -> None:
    """The title and labels of a panel."""
    ax.set_title(title, fontsize=TEXT)
    tidy(ax, xlabel=xlabel, ylabel=ylabel)


def save(content: Any, path: str | PathLike[str]) -> None:
    """Write a text, a frame as CSV with six digits, or a figure in the format of the
    file's ending.
    """
    kind = Path(path).suffix.lstrip(".").lower()
    with whole_file(path) as part:
        if isinstance(content, str):
            part.write_text(content, encoding="utf-8", newline="\n")
        elif kind == "csv":
            content.to_csv(part, index=False, float_format="%.6g")
        else:
            from matplotlib import rc_context

            dated = {"pdf": {"CreationDate": None}, "svg": {"Date": None}}.get(kind, {})
            with rc_context(_VECTORS):
                content.savefig(part, format=kind, dpi=DPI, metadata=dated)


def entry(label: str, **look: Any) -> Any:
    """An entry of a legend."""
    from matplotlib.lines import Line2D

    return Line2D([], [], label=label, **look)


def handles(methods: Iterable[str], **look: Any) -> list[Any]:
    """The entries of methods in a legend."""
    entries = []
    for method in methods:
        drawn = {"ms": 4.5, "lw": 0} | LOOKS[method] | look
        entries.append(entry(NAMES.get(method, method), **drawn))
    return entries


def legend_above(figure: Any, entries: list[Any]) -> None:
    """A legend in one line above the panels."""
    figure.legend(
        handles=entries,
        fontsize=SMALL,
        ncols=len(entries),
        **DRAWN_AS["parts"]["legend_above"],
    )


def note_below(figure: Any, text: str) -> None:
    """A note in small print below the panels."""
    width = int(figure.get_figwidth() / (0.88 * LETTER))
    lines = "\n".join(textwrap.fill(line, width) for line in text.splitlines())
    figure.supxlabel(
        lines, fontsize=SMALL, x=0.01, ha="left", color="0.25", parse_math=False
    )


def count_axis(ax: Any, counts: Any) -> None:
    """A logarithmic axis of counts in plain numbers, including 0 for fits without
    updates.
    """
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    if np.asarray(counts).min() > 0:
        log_value_axis(ax)
    else:
        ax.set_yscale("symlog", linthresh=10)
        ax.yaxis.set_major_locator(FixedLocator([0, *(10.0**k for k in range(1, 10))]))
        ax.yaxis.set_minor_locator(NullLocator())
    ax.yaxis.set_major_formatter(FuncFormatter(lambda count, _: f"{count:,.0f}"))


def log_value_axis(ax: Any) -> None:
    """A logarithmic axis with plain numbers at 1, 2, 5, 10 and so on."""
    from matplotlib.ticker import LogLocator, NullLocator

    ax.set_yscale("log")
    ax.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    ax.yaxis.set_minor_locator(NullLocator())
    ax.yaxis.set_major_formatter("{x:g}")


def alpha_axis(ax: Any, alphas: pd.Series) -> None:
    """A logarithmic axis with a mark for each alpha."""
    ax.set_xscale("log")
    ticks = sorted(alphas.dropna().unique())
    ax.set_xticks(ticks, [f"{alpha:g}" for alpha in ticks])
    ax.set_xticks([], minor=True)


def reach(rows: Any, column: str) -> Any:
    """The lengths of error bars from a column to both limits; 0 if there is no
    interval.
    """
    names = (column, "low", "high")
    middle, low, high = (np.atleast_1d(np.asarray(rows[n], float)) for n in names)
    lengths = np.array([middle - low, high - middle])
    return np.nan_to_num(np.maximum(lengths, 0.0))


def light_grid(ax: Any, axis: Any) -> None:
    """Light lines behind the points."""
    ax.grid(axis=axis, color="0.92", lw=0.6)
    ax.set_axisbelow(True)


GAP = 0.8  # between two blocks of rows


def point_rows(
    ax: Any, points: pd.DataFrame, shown: Mapping[str, Any], n_places: int
) -> list[float]:
    """Points with intervals: a block of rows for each `place`, a row in it for each
    `name` that is shown.

    `shown` has the look of each name. Returns the middle of each block.
    """
    names = list(shown)
    block = len(shown) + GAP
    for point in points[points["name"].isin(names)].to_dict("records"):
        name = point["name"]
        row = block * point["place"] + names.index(name)
        look = {"ls": "", "lw": 1.2, "ms": 4.5, **shown[name]}
        ax.errorbar([point["value"]], [row], xerr=reach(point, "value"), **look)
    for i in range(1, n_places):
        ax.axhline(block * i - (1 + GAP) / 2, color="0.88", lw=0.6)
    ax.tick_params(axis="y", length=0)
    ax.set_ylim(block * n_places - GAP - 0.2, -0.8)
    light_grid(ax, "x")
    middle = (len(names) - 1) / 2
    return [block * i + middle for i in range(n_places)]

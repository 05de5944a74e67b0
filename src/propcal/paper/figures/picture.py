"""Shared parts of the figures: the appearance of each method, legends and notes."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from propcal.output.plots.axes import LETTER, SMALL, literal
from propcal.paper.experiment.settings import BASE, MC, MC_FOR_PMC, OURS, PMC
from propcal.paper.method_colors import BASE_COLOR, MC_COLOR, OURS_COLOR, PMC_COLOR

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class PaperFigure:
    """A figure with its name, title, caption and numbers (one frame for each CSV file)."""

    name: str
    title: str
    caption: str
    figure: Any
    data: Mapping[str, pd.DataFrame]


# Methods differ in both colour and marker.
LOOKS: dict[str, dict[str, Any]] = {
    BASE: {"color": BASE_COLOR, "marker": "o"},
    MC: {"color": MC_COLOR, "marker": "s"},
    MC_FOR_PMC: {"color": MC_COLOR, "marker": "s"},
    PMC: {"color": PMC_COLOR, "marker": "^"},
    OURS: {"color": OURS_COLOR, "marker": "D"},
}
NAMES = {OURS: "propcal (ours)", MC_FOR_PMC: "MCBoost at α·ρ"}
SHORT = {OURS: "ours"}


def name_of(method: str) -> str:
    """The name of a method in a legend."""
    return NAMES.get(method, method)


def handles(methods: tuple[str, ...], **look: Any) -> list[Any]:
    """The entries of a legend."""
    from matplotlib.lines import Line2D

    return [Line2D([], [], label=name_of(m), ms=4.5, **({"lw": 0} | LOOKS[m] | look)) for m in methods]


def legend_above(figure: Any, entries: list[Any]) -> None:
    """A legend in one line above the panels."""
    figure.legend(
        handles=entries,
        loc="outside upper center",
        ncols=len(entries),
        fontsize=SMALL,
        frameon=False,
        handletextpad=0.4,
        columnspacing=1.5,
    )


def note_below(figure: Any, text: str) -> None:
    """A note in small print below the panels."""
    width = int(figure.get_figwidth() / (0.88 * LETTER))
    lines = "\n".join(textwrap.fill(line, width) for line in text.splitlines())
    figure.supxlabel(literal(lines), fontsize=SMALL, x=0.01, ha="left", color="0.25")


def count_axis(ax: Any, counts: Any) -> None:
    """A logarithmic axis of counts in plain numbers, including 0 for fits without updates."""
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


def reach(median: Any, low: Any, high: Any) -> Any:
    """The lengths of error bars to both sides; 0 if there is no interval."""
    middle, ends = np.asarray(median, float), [np.asarray(low, float), np.asarray(high, float)]
    lengths = np.array([middle - ends[0], ends[1] - middle])
    return np.nan_to_num(np.maximum(lengths, 0.0))

"""Draws who gains and who loses by post-processing: change of the errors, and O/E ratios of subgroups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from propcal.output.plots.axes import SMALL, TEXT, labels, short, tidy
from propcal.paper.experiment.settings import BASE, MC, MODEL_NAMES, OURS, PMC
from propcal.paper.figure_file import PAGE, new_figure
from propcal.paper.figures.picture import LOOKS, legend_above, note_below
from propcal.paper.results.benefit import FINE, MEASURES, SETTING
from propcal.paper.results.calibration_by_group import subgroup

COMPARED = (PMC, FINE, OURS)  # MCBoost changes little at this alpha; its numbers are in the tables
SUBGROUPS = (BASE, MC, PMC, OURS)
_LOOKS = {**LOOKS, FINE: {**LOOKS[PMC], "markerfacecolor": "white"}}
_ALPHA = f", alpha {SETTING['alpha']:g}"
NAMES = {BASE: "before", MC: f"{MC}{_ALPHA}", PMC: f"{PMC}{_ALPHA}", OURS: "propcal's default"}
GAP = 0.8  # between the rows of two base models or subgroups


def draw_benefit(found: Mapping[str, pd.DataFrame], note: str) -> Any:
    """A row of panels for each outcome, a column for each measure; points are changes of the error."""
    every = pd.concat(list(found.values()))
    shown = tuple(method for method in COMPARED if (every["method"] == method).any())
    places = list(dict.fromkeys(zip(every["groups"], every["model"])))
    figure = new_figure(PAGE, 1.3 + len(found) * (0.5 + 0.125 * len(places) * (len(shown) + GAP)))
    panels = figure.subplots(len(found), len(MEASURES), sharex="col", sharey=True, squeeze=False)
    block = len(shown) + GAP
    for i, (outcome, frame) in enumerate(found.items()):
        axes = panels[i]
        for ax, measure in zip(axes, MEASURES):
            rows = frame[(frame["measure"] == measure) & frame["method"].isin(shown)]
            for row in rows.to_dict("records"):
                y = block * places.index((row["groups"], row["model"])) + shown.index(row["method"])
                _point(ax, row["change"], (row["low"], row["high"]), y, row["method"])
            _rows(ax, len(places), block)
            ax.axvline(0, color="0.3", lw=0.9)
            ax.tick_params(labelbottom=True)
            label = "change, %\n← better   worse →" if i == len(found) - 1 else ""
            tidy(ax, xlabel=label)
            ax.set_title(measure, fontsize=TEXT)
        axes[0].set_ylabel(short(outcome), fontsize=TEXT, fontweight="bold")
        names = [f"{short(MODEL_NAMES.get(m, m))}\n{short(_words(g))}" for g, m in places]
        _row_names(axes[0], names, len(shown), block)
    legend_above(figure, _entries(shown))
    note_below(figure, note)
    return figure


def draw_observed_to_expected(found: Mapping[str, pd.DataFrame], attributes: Sequence[str], note: str) -> Any:
    """A panel for each outcome: the O/E ratio of each subgroup, before and after."""
    methods = tuple(m for m in SUBGROUPS if any((f["method"] == m).any() for f in found.values()))
    groups = list(dict.fromkeys(group for frame in found.values() for group in frame["group"]))
    figure = new_figure(PAGE, 1.4 + 0.15 * len(groups) * len(methods))
    axes = figure.subplots(1, len(found), sharex=True, sharey=True, squeeze=False)[0]
    block = len(methods) + GAP
    for ax, (outcome, frame) in zip(axes, found.items()):
        for row in frame[frame["method"].isin(methods)].to_dict("records"):
            y = block * groups.index(row["group"]) + methods.index(row["method"])
            _point(ax, row["ratio"], (row["low"], row["high"]), y, row["method"])
        _rows(ax, len(groups), block)
        ax.axvline(1, color="0.3", lw=0.9)
        ax.set_title(short(outcome), fontsize=TEXT)
        tidy(ax, xlabel="O/E ratio\n← predicts too high   too low →")
    names = labels([subgroup(group, attributes) for group in groups], 48, 2)
    _row_names(axes[0], names, len(methods), block)
    legend_above(figure, _entries(methods))
    note_below(figure, note)
    return figure


def _point(ax: Any, value: float, ends: tuple[float, float], y: float, method: str) -> None:
    look = {"ms": 4, "lw": 0, **_LOOKS[method]}
    if not pd.isna(ends[0]):
        ax.plot(ends, [y, y], color=look["color"], lw=1.1)
    ax.plot([value], [y], **look)


def _rows(ax: Any, n: int, block: float) -> None:
    """Lines between the rows, and a light grid."""
    for i in range(1, n):
        ax.axhline(block * i - (1 + GAP) / 2, color="0.88", lw=0.6)
    ax.tick_params(axis="y", length=0)
    ax.grid(axis="x", color="0.92", lw=0.6)
    ax.set_axisbelow(True)


def _row_names(ax: Any, names: list[str], n_methods: int, block: float) -> None:
    middles = [block * i + (n_methods - 1) / 2 for i in range(len(names))]
    ax.set_yticks(middles, names, fontsize=SMALL)
    ax.set_ylim(block * len(names) - GAP - 0.2, -0.9)


def _entries(methods: tuple[str, ...]) -> list[Any]:
    from matplotlib.lines import Line2D

    return [Line2D([], [], label=NAMES.get(m, m), ms=4.5, lw=0, **_LOOKS[m]) for m in methods]


def _words(groups: str) -> str:
    return groups.replace(" x ", " × ").replace("_", " ")

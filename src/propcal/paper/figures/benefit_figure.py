"""Draws who gains and who loses by post-processing: change of the errors, and O/E ratios of subgroups."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from propcal.output.plots.axes import SMALL, TEXT, tidy
from propcal.paper.experiment.settings import BASE
from propcal.paper.figure_file import PAGE, new_figure
from propcal.paper.figures.picture import LOOKS, handles, legend_above, note_below
from propcal.paper.results.benefit import METHODS


def draw_benefit(found: Mapping[str, pd.DataFrame], measure: str, note: str) -> Any:
    """A panel for each outcome: the change of an error, a row for each base model, grouping and method."""
    panels = {name: frame[frame["measure"] == measure] for name, frame in found.items()}
    shown = tuple(m for m in METHODS if any((frame["method"] == m).any() for frame in panels.values()))
    places = _places(panels)
    figure = new_figure(PAGE, 1.6 + 0.2 * len(places) * len(shown))
    axes = figure.subplots(1, len(panels), sharex=True, sharey=True, squeeze=False)[0]
    for ax, (name, frame) in zip(axes, panels.items()):
        _changes(ax, frame, places, shown)
        ax.set_title(name, fontsize=TEXT)
        tidy(ax, xlabel="change of the error, %\n← better      worse →")
    block = len(shown) + 0.8
    middles = [block * i + (len(shown) - 1) / 2 for i in range(len(places))]
    labels = [f"{model}\n{groups.replace(' x ', ' × ')}" for groups, model in places]
    axes[0].set_yticks(middles, labels, fontsize=SMALL)
    axes[0].set_ylim(block * len(places) - 1.1, -0.9)
    legend_above(figure, handles(shown))
    note_below(figure, note)
    return figure


def _places(panels: Mapping[str, pd.DataFrame]) -> list[tuple[str, str]]:
    """The groupings and base models, in the order of the stores."""
    every = pd.concat(list(panels.values()))
    return list(dict.fromkeys(zip(every["groups"], every["model"])))


def _changes(ax: Any, frame: pd.DataFrame, places: list[tuple[str, str]], shown: tuple[str, ...]) -> None:
    block = len(shown) + 0.8
    for _, row in frame.iterrows():
        y = block * places.index((row["groups"], row["model"])) + shown.index(row["method"])
        look = {"ms": 4.5, "lw": 1.2, **LOOKS[row["method"]]}
        if not pd.isna(row["low"]):
            ax.plot([row["low"], row["high"]], [y, y], color=look["color"], lw=1.2)
        ax.plot([row["change"]], [y], **look)
    ax.axvline(0, color="0.3", lw=0.9)
    for i in range(1, len(places)):
        ax.axhline(block * i - 0.9, color="0.88", lw=0.6)
    ax.tick_params(axis="y", length=0)
    ax.grid(axis="x", color="0.92", lw=0.6)
    ax.set_axisbelow(True)


def draw_observed_to_expected(found: Mapping[str, pd.DataFrame], note: str) -> Any:
    """A panel for each outcome: the O/E ratio of each subgroup, before and after."""
    methods = tuple(m for m in (BASE, *METHODS) if any((f["method"] == m).any() for f in found.values()))
    groups = list(dict.fromkeys(group for frame in found.values() for group in frame["group"]))
    figure = new_figure(PAGE, 1.4 + 0.15 * len(groups) * len(methods))
    axes = figure.subplots(1, len(found), sharex=True, sharey=True, squeeze=False)[0]
    block = len(methods) + 0.8
    for ax, (name, frame) in zip(axes, found.items()):
        for _, row in frame.iterrows():
            if row["method"] not in methods:
                continue
            y = block * groups.index(row["group"]) + methods.index(row["method"])
            look = {"ms": 4, "lw": 1.2, **LOOKS[row["method"]]}
            ax.plot([row["low"], row["high"]], [y, y], color=look["color"], lw=1.0)
            ax.plot([row["ratio"]], [y], **look)
        ax.axvline(1, color="0.3", lw=0.9)
        ax.set_title(name, fontsize=TEXT)
        ax.tick_params(axis="y", length=0)
        ax.grid(axis="x", color="0.92", lw=0.6)
        ax.set_axisbelow(True)
        tidy(ax, xlabel="O/E ratio\n← score too high      too low →")
    middles = [block * i + (len(methods) - 1) / 2 for i in range(len(groups))]
    axes[0].set_yticks(middles, [_label(group) for group in groups], fontsize=SMALL)
    axes[0].set_ylim(block * len(groups) - 1.1, -0.9)
    legend_above(figure, handles(methods))
    note_below(figure, note)
    return figure


def _label(group: str) -> str:
    """A subgroup as people read it: its levels, with the attribute where the level does not say it.

    >>> _label("age_band=under 50 & payer=Medicare"), _label("race=Other & payer=not recorded")
    ('under 50, Medicare', 'race: Other, payer: not recorded')
    """
    parts = [part.split("=", 1) for part in group.split(" & ")]
    vague = ("other", "not recorded", "unknown", "missing")
    return ", ".join(f"{name}: {level}" if level.lower() in vague else level for name, level in parts)

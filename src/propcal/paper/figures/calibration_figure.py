"""Draws calibration curves of three intersectional groups, with and without PMCBoost."""

from __future__ import annotations

from typing import Any

import pandas as pd

from propcal.numbers import IN_TEXT
from propcal.output.plots.axes import SMALL, TEXT, labels, tidy
from propcal.paper.figure_file import PAGE, new_figure
from propcal.paper.figures.picture import LOOKS, PaperFigure, handles, legend_above, name_of, note_below
from propcal.paper.results.calibration_by_group import METHODS, MIN_PEOPLE, RULE_IN_WORDS, curves, subgroup
from propcal.paper.results.evidence import Evidence


def draw_curves(evidence: Evidence, model: str = "RF") -> PaperFigure | None:
    """One panel for each group; None if the store has no curves of the base model."""
    found = curves(evidence, model)
    if found is None or found.errors.empty:
        return None
    groups = list(found.errors["group"])
    methods = tuple(m for m in METHODS if m in found.errors)
    figure = new_figure(PAGE, 3.5)
    names = [subgroup(group, found.attributes) for group in groups]
    panels = figure.subplots(1, len(groups), sharex=True, sharey=True, squeeze=False)[0]
    for ax, group, title in zip(panels, groups, labels(names, 30, 3)):
        points = found.points[found.points["group"] == group]
        error = found.errors.set_index("group").loc[group]
        _panel(ax, points, methods)
        ax.set_title(title, fontsize=TEXT)
        off = "\n".join(f"{name_of(m)}: {IN_TEXT.percent(error[m])}" for m in methods)
        ax.text(0.03, 0.97, f"off by\n{off}", transform=ax.transAxes, va="top", fontsize=SMALL)
        tidy(ax, xlabel="mean score", ylabel="outcome rate" if ax is panels[0] else "")
    legend_above(figure, handles(methods, lw=1.2))
    seeds = "1 seed" if found.n_seeds == 1 else f"{found.n_seeds} seeds combined"
    notes = (
        f"{evidence.caption()} Set-up {evidence.setup.name}. Base model {model}, {seeds}; {found.setting}."
    )
    off = '"Off by": sum over ten bins of |observed - expected events|, as a share of observed events.'
    off += f" Bins with fewer than {MIN_PEOPLE} people per seed are not drawn."
    note_below(figure, f"{notes}\n{off}")
    return PaperFigure(
        "calibration_curves",
        f"Calibration curves of {model} with and without PMCBoost",
        f"{RULE_IN_WORDS} {notes}",
        figure,
        {"calibration_curves": found.points, "calibration_curves_groups": found.errors},
    )


def _panel(ax: Any, points: pd.DataFrame, methods: tuple[str, ...]) -> None:
    ax.plot([0, 1], [0, 1], color="0.75", lw=0.8, zorder=0)
    for method in methods:
        own = points[points["method"] == method].sort_values("bin_index")
        if own.empty:
            continue  # no bin with enough people
        look = {"lw": 1.2, "ms": 4, **LOOKS[method]}
        # do not clip points at 0 or 1
        ax.plot(own["mean_score"], own["outcome_rate"], clip_on=False, in_layout=False, **look)
    ax.set(xlim=(0, 1), ylim=(0, 1))
    ax.set_box_aspect(1)

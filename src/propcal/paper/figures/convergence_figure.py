"""Draws how many updates PMCBoost and MCBoost need to reach the same PMC."""

from __future__ import annotations

from typing import Any

import pandas as pd

from propcal.output.plots.axes import SMALL, TEXT, tidy
from propcal.paper.experiment.settings import MC_FOR_PMC, PMC
from propcal.paper.figure_file import PAGE, new_figure
from propcal.paper.figures.picture import (
    LOOKS,
    PaperFigure,
    count_axis,
    handles,
    legend_above,
    note_below,
    reach,
)
from propcal.paper.results.evidence import Evidence
from propcal.paper.results.updates_time import convergence

METHODS = (MC_FOR_PMC, PMC)


def draw_convergence(evidence: Evidence) -> PaperFigure | None:
    """One panel for each base model; None if there are no trials that aim at the same PMC yet."""
    found = convergence(evidence.trials)
    if found.empty:
        return None
    models = [model for model in evidence.models if model in {*found["model"]}]
    figure = new_figure(PAGE, 2.8)
    panels = figure.subplots(1, len(models), sharey=True, squeeze=False)[0]
    places = found[["alpha", "rho"]].drop_duplicates().sort_values(["alpha", "rho"])
    order = [*places.itertuples(index=False, name=None)]
    for ax, model in zip(panels, models):
        _panel(ax, found[found["model"] == model], order)
        count_axis(ax, found["updates"])
        ax.set_title(model, fontsize=TEXT)
        tidy(ax, xlabel="target PMC (α) and ρ", ylabel="updates" if ax is panels[0] else "")
    legend_above(figure, handles(METHODS))
    notes = (
        f"{evidence.caption()} Set-up {evidence.setup.name}. Medians over seeds, groupings and gamma. "
        f"{evidence.how_sure()} "
        "MCBoost is run at α·ρ, which reaches a PMC of α; 5.0x: it needs 5 times as many updates as PMCBoost."
    )
    note_below(figure, notes)
    return PaperFigure(
        "convergence",
        "Updates to reach the same PMC",
        notes,
        figure,
        {"convergence": found},
    )


def _ratios(ax: Any, found: pd.DataFrame, order: list[tuple[float, float]]) -> None:
    """The ratio of MCBoost's to PMCBoost's updates, written above each pair."""
    table = found.pivot(index=["alpha", "rho"], columns="method", values="updates")
    key: Any
    for key, row in table.iterrows():
        if row[PMC] > 0:
            ax.annotate(
                f"{row[MC_FOR_PMC] / row[PMC]:.1f}x",
                (order.index(key), max(row)),
                xytext=(6, 0),
                textcoords="offset points",
                va="center",
                fontsize=SMALL,
            )


def _panel(ax: Any, found: pd.DataFrame, order: list[tuple[float, float]]) -> None:
    for shift, method in zip((-0.13, 0.13), METHODS):
        own = found[found["method"] == method]
        x = [order.index(key) + shift for key in zip(own["alpha"], own["rho"])]
        tall = reach(own["updates"], own["low"], own["high"])
        ax.errorbar(x, own["updates"], yerr=tall, ls="", lw=1.2, ms=4.5, **LOOKS[method])
    ax.set_xticks(range(len(order)), [f"{alpha:g}\nρ {rho:g}" for alpha, rho in order])
    ax.set_xlim(-0.5, len(order) - 0.5)
    _ratios(ax, found, order)
    ax.margins(y=0.12)
    ax.grid(axis="y", color="0.92", lw=0.6)
    ax.set_axisbelow(True)

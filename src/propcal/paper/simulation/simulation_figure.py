"""Draws the figure of the simulation study: PMC loss of each group by its outcome rate."""

from __future__ import annotations

from typing import Any

import numpy as np

from propcal.output.plots.axes import COLORS, SMALL, tidy
from propcal.paper.figure_file import COLUMN, new_figure
from propcal.paper.simulation.simulation import Simulation

# each scenario has its own colour, line style and marker; the colours are not those of methods
LOOKS = {
    "Fixed": (COLORS[6], "-", "o"),
    "Increasing": (COLORS[5], "--", "^"),
    "Decreasing": (COLORS[4], "-.", "s"),
}


def plot_simulation(simulation: Simulation, *, width: float = COLUMN) -> Any:
    """Gray points for each group of each data set, and lines for the three scenarios."""
    figure = new_figure(width, 0.85 * width)
    ax = figure.subplots()
    points, n_data_sets = simulation.to_frame(), len(simulation.delta)
    # rates are 0.01 apart; spread the points sideways to avoid stripes
    aside = np.random.default_rng([2023, 61]).uniform(-0.005, 0.005, len(points))
    ax.plot(
        points["outcome_rate"] + aside,
        points["pmc_loss"],
        ls="",
        marker=".",
        ms=2.5,
        mew=0,
        color="0.55",
        alpha=min(1.0, max(0.1, 100 / n_data_sets)),
        rasterized=True,  # tens of thousands of vector points would make a large file
    )
    for name, rows in simulation.scenarios().groupby("scenario", sort=False):
        color, line, marker = LOOKS[str(name)]
        rate, pmc = rows["outcome_rate"], rows["pmc"]
        ax.plot(
            rate, pmc, color=color, ls=line, lw=1.8, marker=marker, ms=4, markevery=10, mec="white", mew=0.5
        )
    tidy(ax, xlabel="outcome rate of the group", ylabel="PMC loss of the group")
    ax.set_xlim(simulation.rate[0] - 0.01, simulation.rate[-1] + 0.01)
    ax.set_ylim(0, 1.02 * max(points["pmc_loss"].max(), simulation.alpha / simulation.rate[0]))
    ax.legend(
        handles=_handles(n_data_sets),
        fontsize=SMALL,
        frameon=False,
        loc="upper right",
        title=f"every model is {simulation.alpha:g}-MC",
        title_fontsize=SMALL,
        alignment="left",
        handlelength=2.8,
    )
    return figure


def _handles(n_data_sets: int) -> list[Any]:
    from matplotlib.lines import Line2D

    words = {name: f"{name.lower()} error |Δ|" for name in LOOKS}
    points = Line2D([], [], ls="", marker=".", color="0.55", ms=5, label=f"{n_data_sets:,} random data sets")
    lines = [
        Line2D(
            [], [], color=color, ls=line, lw=1.8, marker=marker, ms=4, mec="white", mew=0.5, label=words[name]
        )
        for name, (color, line, marker) in LOOKS.items()
    ]
    return [points, *lines]

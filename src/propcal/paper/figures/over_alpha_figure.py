"""Draws AUROC, losses and updates by alpha, with a row for each base model and a column for each grouping."""

from __future__ import annotations

from typing import Any

import pandas as pd

from propcal.output.plots.axes import SMALL, TEXT, short, tidy
from propcal.paper.experiment.settings import BASE, MC, OURS, PMC
from propcal.paper.figure_file import PAGE, new_figure
from propcal.paper.figures.picture import (
    LOOKS,
    PaperFigure,
    count_axis,
    handles,
    legend_above,
    log_value_axis,
    note_below,
    reach,
)
from propcal.paper.results.evidence import METRICS, Evidence
from propcal.paper.results.over_alpha import READING, over_alpha

UPDATES = "n_updates"
LABELS = {**METRICS, UPDATES: "updates"}
WIDE = 20  # values that differ by more than this factor are drawn on a logarithmic axis
DRAWN = ("auroc", "mc_loss", "pmc_loss", UPDATES)


def draw_over_alpha(evidence: Evidence, column: str) -> PaperFigure | None:
    """The figure for one column of the trials; None if no method has an alpha."""
    found = over_alpha(evidence.trials, column)
    if found["alpha"].isna().all():
        return None
    if column == UPDATES:
        found = _with_losses(found[found["method"] != BASE], evidence.trials)
    groupings = [name for name in evidence.grouping_names if name in {*found["groups"]}]
    models = evidence.models
    figure = new_figure(PAGE, 1.2 + 1.6 * len(models))
    panels = figure.subplots(len(models), len(groupings), sharex=True, sharey="row", squeeze=False)
    for row, model in zip(panels, models):
        for ax, groups in zip(row, groupings):
            chosen = (found["model"] == model) & (found["groups"] == groups)
            _panel(ax, found[chosen], column, found[column])
            first, last = ax is row[0], model == models[-1]
            label = f"{model}: {LABELS[column]}" if first else ""
            tidy(ax, xlabel="α" if last else "", ylabel=label)
            if model == models[0]:
                ax.set_title(short(groups.replace(" x ", " × ")), fontsize=TEXT)
    _legend(figure, column, evidence.methods)
    notes = (
        f"{evidence.caption()} {evidence.by_which()} Medians over seeds, gamma and rho. {evidence.how_sure()}"
    )
    lowest = " Numbers: median PMC loss; the ring marks the lowest of each method."
    more = lowest if column == UPDATES else ""
    note_below(figure, notes + more)
    name = "updates" if column == UPDATES else column
    return PaperFigure(
        f"{name}_over_alpha",
        f"{LABELS[column][0].upper()}{LABELS[column][1:]} over alpha",
        f"{READING} {evidence.how_sure()} {evidence.caption()}{more}",
        figure,
        {f"{name}_over_alpha": found},
    )


def _with_losses(found: pd.DataFrame, trials: pd.DataFrame) -> pd.DataFrame:
    keys = ["model", "groups", "method", "alpha"]
    losses = over_alpha(trials, "pmc_loss")[[*keys, "pmc_loss"]]
    return found.merge(losses, on=keys, how="left").rename(columns={"pmc_loss": "median_pmc_loss"})


def _legend(figure: Any, column: str, methods: tuple[str, ...]) -> None:
    lines = () if column == UPDATES else (BASE,)
    entries = handles(lines, marker="", lw=1.2) + handles((MC, PMC), lw=1.2)
    ours = handles((OURS,), marker="", lw=1.2, ls="--") if OURS in methods else []
    legend_above(figure, entries + ours)


def _panel(ax: Any, found: pd.DataFrame, column: str, counts: pd.Series) -> None:
    ax.set_xscale("log")
    for _, row in found[found["alpha"].isna()].iterrows():
        look = {"color": LOOKS[row["method"]]["color"], "ls": "--" if row["method"] == OURS else "-"}
        ax.axhline(row[column], lw=1.2, **look)
        if not pd.isna(row["low"]):
            ax.axhspan(row["low"], row["high"], color=look["color"], alpha=0.12, lw=0)
    base = found[(found["method"] == BASE) & found["alpha"].notna()].sort_values("alpha")
    if len(base):  # judged by the rule of each alpha
        ax.plot(base["alpha"], base[column], lw=1.2, color=LOOKS[BASE]["color"])
    for shift, method in ((0.93, MC), (1.07, PMC)):
        own = found[found["method"] == method].sort_values("alpha")
        tall = reach(own[column], own["low"], own["high"])
        ax.errorbar(own["alpha"] * shift, own[column], yerr=tall, lw=1.2, ms=4, **LOOKS[method])
        if column == UPDATES:
            _annotate(ax, own, shift, above=method == PMC)
            _ring(ax, own, shift, method)
    ticks = sorted(found["alpha"].dropna().unique())
    ax.set_xticks(ticks, [f"{alpha:g}" for alpha in ticks])
    ax.set_xticks([], minor=True)
    if column == UPDATES:
        count_axis(ax, counts)
    elif counts.min() > 0 and counts.max() > WIDE * counts.min():
        log_value_axis(ax)
    # space for the numbers next to the first and lowest points
    ax.margins(x=0.2 if column == UPDATES else 0.12, y=0.3 if column == UPDATES else None)
    ax.grid(axis="y", color="0.92", lw=0.6)
    ax.set_axisbelow(True)


def _ring(ax: Any, own: pd.DataFrame, shift: float, method: str) -> None:
    """A ring around the point with the method's lowest median PMC loss; among equals, the largest alpha."""
    there = own.dropna(subset=["median_pmc_loss"]).sort_values(["median_pmc_loss", "alpha"])
    if len(there):
        best = there[there["median_pmc_loss"] == there["median_pmc_loss"].iloc[0]].iloc[-1]
        look = {"marker": "o", "ms": 10, "mfc": "none", "mec": LOOKS[method]["color"], "mew": 1.2}
        ax.plot([best["alpha"] * shift], [best[UPDATES]], ls="", **look)


def _annotate(ax: Any, own: pd.DataFrame, shift: float, *, above: bool) -> None:
    """The median PMC loss at each point, above right or below left of it because lines fall."""
    from matplotlib.patheffects import withStroke

    halo = [withStroke(linewidth=2.5, foreground="white")]  # keep numbers legible where lines cross them
    for _, row in own.iterrows():
        ax.annotate(
            f"{row['median_pmc_loss']:.2f}",
            (row["alpha"] * shift, row[UPDATES]),
            xytext=(4, 3) if above else (-4, -3),
            textcoords="offset points",
            ha="left" if above else "right",
            va="bottom" if above else "top",
            fontsize=SMALL,
            color=LOOKS[PMC if above else MC]["color"],
            path_effects=halo,
            zorder=4,
        )

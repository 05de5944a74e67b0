"""Draws AUROC, MC, PMC and DC loss of every base model and method in four panels."""

from __future__ import annotations

from typing import Any

import pandas as pd

from propcal.output.plots.axes import SMALL, TEXT, tidy
from propcal.paper.experiment.settings import BASE, MC, PMC
from propcal.paper.figure_file import PAGE, new_figure
from propcal.paper.figures.picture import LOOKS, PaperFigure, handles, legend_above, note_below, reach
from propcal.paper.results.comparison import METHODS, READING, method_medians
from propcal.paper.results.evidence import HIGHER_IS_BETTER, METRICS, Evidence
from propcal.paper.results.seed_intervals import LEGEND, tests, too_few

BLOCK = len(METHODS) + 0.6  # rows of a base model, and the space below it
# Which pairs get a bracket, and in which column beside the panel.
BRACKETS = {(BASE, MC): 0, (MC, PMC): 0, (BASE, PMC): 1}


def draw_comparison(evidence: Evidence) -> PaperFigure:
    """Medians with intervals, and brackets with the significance marks of the published caption."""
    found, tested = method_medians(evidence.trials), tests(evidence.trials)
    models = evidence.models
    figure = new_figure(PAGE, 1.5 + 0.85 * len(models))
    panels = figure.subplots(1, len(METRICS), sharey=True)
    shown = evidence.methods
    for ax, metric in zip(panels, METRICS):
        _panel(ax, found[found["metric"] == metric], tested[tested["metric"] == metric], models)
        better = "higher is better" if metric in HIGHER_IS_BETTER else "lower is better"
        tidy(ax, xlabel=f"{METRICS[metric]}\n({better})")
    middles = [BLOCK * i + (len(METHODS) - 1) / 2 for i in range(len(models))]
    panels[0].set_yticks(middles, models, fontsize=TEXT)
    panels[0].set_ylim(BLOCK * len(models) - 1.1, -0.6)
    legend_above(figure, handles(shown))
    notes = [f"{evidence.caption()} {evidence.by_which()} Points: medians. {evidence.how_sure()}"]
    notes += [f"Rank-sum tests with Bonferroni correction. {LEGEND}.", too_few(tested)]
    note_below(figure, "\n".join(filter(None, notes)))
    return PaperFigure(
        "comparison",
        "AUROC and losses of every base model and method",
        f"{READING} {' '.join(notes)}".strip(),
        figure,
        {"comparison": found, "comparison_tests": tested},
    )


def _panel(ax: Any, found: pd.DataFrame, tested: pd.DataFrame, models: tuple[str, ...]) -> None:
    for block, model in enumerate(models):
        rows = found[found["model"] == model].set_index("method")
        for place, method in enumerate(METHODS):
            if method in rows.index:
                row = rows.loc[method]
                wide = reach([row["median"]], [row["low"]], [row["high"]])
                y = BLOCK * block + place
                ax.errorbar([row["median"]], [y], xerr=wide, ms=4.5, lw=1.2, **LOOKS[method])
        for _, pair in tested[tested["model"] == model].iterrows():
            key = (pair["method_a"], pair["method_b"])
            if key in BRACKETS:
                _bracket(ax, block, key, str(pair["mark"]))
        if block:
            ax.axhline(BLOCK * block - 0.8, color="0.85", lw=0.6)
    ax.tick_params(axis="y", length=0)
    ax.locator_params(axis="x", nbins=4)
    ax.margins(x=0.08)
    ax.grid(axis="x", color="0.92", lw=0.6)
    ax.set_axisbelow(True)


def _bracket(ax: Any, block: int, pair: tuple[str, str], sign: str) -> None:
    """A bracket beside the panel from one method to the other, with its mark."""
    x = 1.04 + 0.15 * BRACKETS[pair]
    ends = [BLOCK * block + METHODS.index(method) + nudge for method, nudge in zip(pair, (0.12, -0.12))]
    place = ax.get_yaxis_transform()
    ax.plot([x, x], ends, transform=place, color="0.5", lw=0.8, clip_on=False)
    middle = sum(ends) / 2
    style = {"rotation": 90, "ha": "left", "va": "center", "fontsize": SMALL}
    ax.text(x + 0.015, middle, sign, transform=place, color="0.25", clip_on=False, **style)

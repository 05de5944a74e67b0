"""All figures that can be drawn from a store, and a sentence for each that cannot."""

from __future__ import annotations

from collections.abc import Sequence

from propcal.paper.figures.calibration_figure import draw_curves
from propcal.paper.figures.comparison_figure import draw_comparison
from propcal.paper.figures.convergence_figure import draw_convergence
from propcal.paper.figures.over_alpha_figure import DRAWN, draw_over_alpha
from propcal.paper.figures.picture import PaperFigure
from propcal.paper.results.evidence import Evidence

ALPHA_FILES = ("auroc_over_alpha", "mc_loss_over_alpha", "pmc_loss_over_alpha", "updates_over_alpha")
PICTURES = ("comparison", "calibration_curves", "convergence", *ALPHA_FILES)
TABLES = (*PICTURES, "comparison_tests", "calibration_curves_groups")


def files(kinds: Sequence[str] = ("png",)) -> list[str]:
    """All files that the figures may write."""
    return [*(f"{name}.{kind}" for kind in kinds for name in PICTURES), *(f"{name}.csv" for name in TABLES)]


def pictures(evidence: Evidence) -> tuple[list[PaperFigure], list[str]]:
    """The figures that can be drawn by the rule of the set-up, and a sentence for each that cannot yet."""
    evidence = evidence.by(evidence.setup.rule)
    drawn: list[PaperFigure | None] = [
        draw_comparison(evidence),
        draw_curves(evidence),
        draw_convergence(evidence),
        *(draw_over_alpha(evidence, column) for column in DRAWN),
    ]
    lacking = {
        "calibration_curves": "calibration_curves: the store has no curves for RF yet.",
        "convergence": "convergence: there are no trials of MCBoost at alpha*rho with PMCBoost yet.",
    } | {name: f"{name}: there are no trials of MCBoost or PMCBoost yet." for name in ALPHA_FILES}
    missing = [lacking[name] for name, picture in zip(PICTURES, drawn) if picture is None]
    return [picture for picture in drawn if picture is not None], missing

"""``propcal paper theory``: the pictures that relate MC, PMC and DC."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Annotated, Any

import typer

from propcal.cli.paper.folder import (
    FOLDER,
    PICTURE_FORMATS,
    Folder,
    ForceFiles,
    PictureFormats,
    formats,
    new_folders,
    planned,
    said,
)
from propcal.cli.screen import working

PICTURES = ("constraints", "relations", "discretisation")


def theory(
    output: Folder = FOLDER,
    alpha: Annotated[float, typer.Option(help="Tolerance in the picture of the constraints.")] = 0.2,
    rho: Annotated[float, typer.Option(help="Floor on the outcome rate in that picture.")] = 0.1,
    format_: PictureFormats = "png",
    force: ForceFiles = False,
) -> None:
    """The pictures of the theory, from propcal.bounds.

    Constraints: how far a score may be from the outcome rate under MC and
    under PMC. Relations: what MC, PMC and DC imply for each other.
    Discretisation: what PMC in bins implies. Writes each as a figure and as
    numbers.

    For example:

      propcal paper theory -o figures
    """
    from propcal.output.files.transaction import outputs
    from propcal.paper.figure_file import new_figure, save_figure, save_table
    from propcal.paper.theory import theory as numbers
    from propcal.paper.theory.theory_figures import plot_constraints, plot_discretisation, plot_relations

    endings = [*formats(format_, PICTURE_FORMATS), "csv"]
    names = [f"theory_{name}.{ending}" for name in PICTURES for ending in endings]
    files = planned(output, names, force=force)
    new_figure(1, 1)  # without matplotlib, say so before the work
    with working("Drawing..."):
        frames = (numbers.constraints(alpha, rho), numbers.relations(), numbers.discretisation())
        constraints = partial(plot_constraints, alpha=alpha, rho=rho)
        plots: tuple[Callable[[Any], Any], ...] = (constraints, plot_relations, plot_discretisation)
        with new_folders(output), outputs(force=force):
            for first, frame, plot in zip(range(0, len(files), len(endings)), frames, plots):
                *pictures, table = files[first : first + len(endings)]
                figure = plot(frame)
                for picture in pictures:
                    save_figure(figure, picture)
                save_table(frame, table)
    said(theory_sentences(alpha, rho), files)


def theory_sentences(alpha: float, rho: float) -> list[str]:
    """What the pictures show, in words with numbers."""
    from propcal import bounds
    from propcal.paper.theory.theory import FEASIBLE_ALPHA, crossing

    low, binned = bounds.mc_alpha_for_pmc(alpha, rho), bounds.pmc_from_binned
    return [
        f"Constraints: {alpha:g}-MC lets a score be {alpha:g} from the outcome rate, whatever the rate; "
        f"{alpha:g}-PMC lets it be {alpha:g} times the rate, but {low:g} where the rate is below {rho:g}.",
        f"Relations: 0.1-PMC implies a DC of {bounds.dc_from_pmc(0.1):.2f}; 0.1-MC implies "
        f"{bounds.dc_from_mc(0.1, 0.3):.2f} if no score is below 0.3, "
        f"{bounds.dc_from_mc(0.1, 0.15):.2f} if none is below 0.15, and nothing if some are at 0.1.",
        "At the same tolerance PMC implies a smaller MC than DC with overall calibration delta does up to "
        f"{crossing(0.05):.2f} (delta 0.05), {crossing(0.17):.2f} (0.17), {crossing(0.5):.2f} (0.5); "
        f"from {FEASIBLE_ALPHA:g} on it implies none.",
        "Discretisation: 0.1-PMC in 10 bins with rates of at least 0.1 implies "
        f"{binned(0.1, 10, 0.1, 'geometric'):.2f}-PMC with geometric bins, "
        f"{binned(0.1, 10, 0.1):.2f}-PMC with uniform ones.",
    ]

"""``propcal paper simulation``: the same multicalibration, other proportional errors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

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

if TYPE_CHECKING:
    from propcal.paper.simulation.simulation import Simulation

TABLES = ("simulation.csv", "simulation_scenarios.csv", "simulation_claim.csv")
ROW = "{:<20} {:>12} {:>13} {:>14} {:>12}"


def simulation(
    output: Folder = FOLDER,
    groups: Annotated[
        int, typer.Option(help="Number of groups; outcome rates start at 0.2 and rise by 0.01.")
    ] = 61,
    alpha: Annotated[float, typer.Option(help="Multicalibration of the simulated models.")] = 0.1,
    data_sets: Annotated[int, typer.Option(help="Data sets to draw.")] = 1000,
    people: Annotated[int, typer.Option(help="People of each group in a data set.")] = 1000,
    seed: Annotated[int, typer.Option(help="Random seed.")] = 0,
    format_: PictureFormats = "png",
    force: ForceFiles = False,
) -> None:
    """The simulation study: equal MC loss, unequal PMC loss.

    Draws models that are alpha-multicalibrated, with errors at random,
    the same, increasing or decreasing with the group's outcome rate.
    Writes the figure and its numbers.

    For example:

      propcal paper simulation -o figures
    """
    from propcal.output.files.transaction import outputs
    from propcal.paper.figure_file import new_figure, save_figure, save_table
    from propcal.paper.simulation.simulation import simulate
    from propcal.paper.simulation.simulation_figure import plot_simulation

    names = [f"simulation.{kind}" for kind in formats(format_, PICTURE_FORMATS)]
    files = planned(output, [*names, *TABLES], force=force)
    new_figure(1, 1)  # without matplotlib, say so before the work
    with working("Drawing data sets..."):
        found = simulate(groups, alpha, data_sets, people, seed)
        frames = (found.to_frame(), found.scenarios(), found.claim().reset_index())
        with new_folders(output), outputs(force=force):
            figure = plot_simulation(found)
            for path in files[: len(names)]:
                save_figure(figure, path)
            for path, frame in zip(files[len(names) :], frames):
                save_table(frame, path)
    said(simulation_sentences(found), files)


def simulation_sentences(found: Simulation) -> list[str]:
    """The claim of the figure, in words with numbers."""
    claim = found.claim()
    lines = [
        f"{len(found.delta):,} data sets of {len(found.rate)} groups of {found.n_people:,} people; "
        f"outcome rates {found.rate[0]:.2f} to {found.rate[-1]:.2f}.",
        f"MC is {found.alpha:g} in every data set and every scenario. PMC is not the same:",
        "",
        ROW.format("error of the groups", "largest PMC", "lowest rates", "highest rates", "correlation"),
    ]
    for name, row in claim.iterrows():
        numbers = (row["pmc"], row["lowest_fifth"], row["highest_fifth"], row["rank_correlation"])
        lines.append(ROW.format(str(name).lower(), *(f"{value:.2f}" for value in numbers)))
    return [
        *lines,
        "",
        "Largest PMC: median over data sets. Lowest, highest rates: mean PMC loss of the fifth of",
        "the groups with the lowest, highest outcome rates. Correlation: rank correlation of PMC loss",
        "and outcome rate; below 0, groups with low rates bear the larger proportional error.",
        _verdict({str(name): float(value) for name, value in claim["rank_correlation"].items()}),
    ]


def _verdict(correlation: dict[str, float]) -> str:
    falls = all(correlation[name] < 0 for name in ("Random", "Fixed", "Decreasing"))
    agrees = falls and correlation["Increasing"] > 0
    return (
        f"{'Agrees' if agrees else 'Differs'}: the paper finds PMC loss higher where outcome rates are "
        "lower, unless errors increase with the rate."
    )

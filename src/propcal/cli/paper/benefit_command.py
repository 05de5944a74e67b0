"""``propcal paper benefit``: a page on whom post-processing helps and whom it harms."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from propcal.cli.paper.folder import ForceFiles, new_folders, planned, said
from propcal.cli.screen import working
from propcal.errors import InputError


def benefit(
    stores: Annotated[
        list[Path],
        typer.Argument(
            metavar="STORE...", help="Files of trials, one for each outcome of the same patients."
        ),
    ],
    name: Annotated[
        list[str] | None,
        typer.Option(metavar="TEXT", help="Name of the outcome; once for each store, in order."),
    ] = None,
    about: Annotated[str, typer.Option(metavar="TEXT", help="A paragraph about the data.")] = "",
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="The page, in Markdown.")
    ] = Path("benefit.md"),
    images: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Folder for the pictures. [dim]Default: images beside the page[/dim]",
            show_default=False,
        ),
    ] = None,
    force: ForceFiles = False,
) -> None:
    """A page for clinicians: whom do the methods help, and whom do they harm?

    From stores of propcal paper experiment: the change of the errors with
    their intervals, O/E ratios of subgroups before and after, and at which
    alpha the paper's method does harm.

    For example:

      propcal paper benefit month.sqlite ever.sqlite -o benefit.md
    """
    from propcal.output.files.transaction import outputs
    from propcal.output.files.whole_file import check_target, whole_file
    from propcal.paper.benefit_page import PICTURES, BenefitPage, outcome_names
    from propcal.paper.figure_file import new_figure, save_figure
    from propcal.paper.reproduction import images_from
    from propcal.paper.results.evidence import Evidence

    _refuse_twice(stores)
    found = [Evidence.from_store(store) for store in stores]
    names = outcome_names(name or [], found)
    if output.parent.exists():
        check_target(output, force=force, reads=list(stores))
    folder = output.parent / "images" if images is None else images
    files = planned(folder, [f"{picture}.png" for picture in PICTURES], force=force, reads=list(stores))
    new_figure(1, 1)  # without matplotlib, say so before the work
    with working("Computing and drawing..."):
        page = BenefitPage(dict(zip(names, found)), about)
        figures = page.figures()
        with new_folders(folder, output.parent), outputs(force=force):
            for path, picture in zip(files, PICTURES):
                save_figure(figures[picture], path)
            with whole_file(output) as part:
                text = page.markdown(images_from(output, folder))
                part.write_text(text, encoding="utf-8", newline="\n")
    said([], [output, *files])


def _refuse_twice(stores: Sequence[Path]) -> None:
    """Each file of trials may be named once, by whatever path."""
    real = [store.resolve() for store in stores]
    for i, store in enumerate(stores):
        if real[i] in real[:i]:
            raise InputError(f"the store {store} is listed twice", next_step="Name each outcome's store once")

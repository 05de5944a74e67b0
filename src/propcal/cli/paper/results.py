"""``propcal paper tables``, ``figures`` and ``reproduction``: what the trials of a store say."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from propcal.cli.paper.folder import (
    FOLDER,
    PICTURE_FORMATS,
    TABLE_FORMATS,
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
    from propcal.paper.figures import PaperFigure
    from propcal.paper.results.evidence import Evidence
    from propcal.paper.results.paper_tables import Table

TrialsFile = Annotated[
    Path,
    typer.Argument(metavar="STORE", help="File of trials that propcal paper admissions or experiment wrote."),
]


CohortFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="The visits that the trials were run on, for Table 1; generated visits are regenerated.",
    ),
]
WithoutOurs = Annotated[
    bool,
    typer.Option("--without-ours", help="Leave out propcal's default method, which is not in the paper."),
]


def tables(
    store: TrialsFile,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FOLDER", help="Write all tables there.")
    ] = None,
    format_: Annotated[
        str, typer.Option("--format", metavar="NAMES", help="Formats to write: csv, md, tex, or several.")
    ] = "csv,md",
    cohort: CohortFile = None,
    without_ours: WithoutOurs = False,
    force: ForceFiles = False,
) -> None:
    """Tables 1, 4, 5 and 6 beside the published numbers, and the paper's claims.

    Works at any stage of a run: the output lists what is missing.
    With -o it also writes each table by alpha, each method at its best
    alpha, and the tests.

    For example:

      propcal paper tables admissions.sqlite -o tables
    """
    from rich.console import Console

    from propcal.output.files.transaction import outputs
    from propcal.paper.all_tables import NAMES, PRINTED, all_tables

    kinds = formats(format_, TABLE_FORMATS)
    evidence = _read(store, without_ours=without_ours)
    names = [f"{name}.{kind}" for name in NAMES for kind in kinds]
    if output is not None:
        planned(output, names, force=force, reads=[store, cohort])  # before the work
    with working("Computing medians and intervals..."):
        found, lacking = all_tables(evidence, cohort)
    files: list[Path] = []
    if output is not None:
        with new_folders(output), outputs(force=force):
            files = _write_tables(found, output, kinds)
    _say_about(evidence, *lacking)
    console = Console()
    for table in found:
        if table.name in PRINTED:
            console.print(table.to_rich(), markup=False)
            for note in table.notes:
                console.print(note, style="dim", markup=False, highlight=False)
            console.print()
    said([], files)


def figures(
    store: TrialsFile,
    output: Folder = FOLDER,
    format_: PictureFormats = "png",
    without_ours: WithoutOurs = False,
    force: ForceFiles = False,
) -> None:
    """The figures of an experiment, with their numbers as CSV.

    The comparison of base models and methods, calibration curves of three
    groups, convergence, and AUROC, losses and updates over alpha. Works at
    any stage of a run: the output lists what is missing.

    For example:

      propcal paper figures admissions.sqlite -o figures

      propcal paper figures admissions.sqlite --format pdf,svg --without-ours
    """
    from propcal.output.files.transaction import outputs
    from propcal.paper.figure_file import new_figure, save_table
    from propcal.paper.figures import files as files_of
    from propcal.paper.figures import pictures

    kinds = formats(format_, PICTURE_FORMATS)
    evidence = _read(store, without_ours=without_ours)
    planned(output, files_of(kinds), force=force, reads=[store])
    new_figure(1, 1)  # without matplotlib, say so before the work
    with working("Drawing..."):
        drawn, lacking = pictures(evidence)
        with new_folders(output), outputs(force=force):
            files = _write_pictures(drawn, output, kinds)
            for picture in drawn:
                for name, frame in picture.data.items():
                    files.append(output / f"{name}.csv")
                    save_table(frame, files[-1])
    _say_about(evidence)
    said([f"Not drawn: {sentence}" for sentence in lacking], files)


def reproduction(
    store: TrialsFile,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="The page, in Markdown.")
    ] = Path("reproduction.md"),
    images: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Folder for the pictures. [dim]Default: images/reproduction beside the page[/dim]",
            show_default=False,
        ),
    ] = None,
    cohort: CohortFile = None,
    about: Annotated[str, typer.Option(metavar="TEXT", help="A paragraph about the data.")] = "",
    force: ForceFiles = False,
) -> None:
    """A page with tables, figures and a verdict on each published claim.

    All numbers come from the store; each verdict (agrees, differs,
    undecided, vacuous, ...) follows from a rule that is printed with it, and
    from how many resamples of the seeds agree.

    For example:

      propcal paper reproduction admissions.sqlite -o docs/reproduction.md
    """
    from propcal.output.files.transaction import outputs
    from propcal.output.files.whole_file import check_target
    from propcal.paper.claims.claims_table import by_rules, verdict_counts
    from propcal.paper.figure_file import new_figure
    from propcal.paper.figures import files as files_of
    from propcal.paper.reproduction import IMAGES, Reproduction, images_from

    evidence = _read(store)
    if output.parent.exists():
        check_target(output, force=force, reads=[store, cohort])
    folder = output.parent / IMAGES if images is None else images
    planned(
        folder, [name for name in files_of() if name.endswith(".png")], force=force, reads=[store, cohort]
    )
    new_figure(1, 1)
    with working("Computing and drawing..."):
        page = Reproduction.of(evidence, cohort, about)
        with new_folders(folder, output.parent), outputs(force=force):
            files = _write_pictures(page.drawn, folder, ["png"])
            _write_text(output, page.markdown(images_from(output, folder)))
    _say_about(evidence, *filter(None, [page.no_table_1]))
    said([verdict_counts(page.judged), by_rules(page.judged)], [output, *files])


def _read(store: Path, *, without_ours: bool = False) -> Evidence:
    from propcal.paper.results.evidence import Evidence

    found = Evidence.from_store(store)
    return found.without_ours() if without_ours else found


def _say_about(evidence: Evidence, *more: str) -> None:
    said([f"{evidence.caption()} {len(evidence.stored):,} trials.", *evidence.missing(), *more, ""])


def _write_tables(found: Sequence[Table], folder: Path, kinds: Sequence[str]) -> list[Path]:
    from propcal.paper.figure_file import save_table

    files: list[Path] = []
    for table in found:
        for kind in kinds:
            files.append(folder / f"{table.name}.{kind}")
            if kind == "csv":
                save_table(table.frame, files[-1])
            else:
                _write_text(files[-1], table.markdown() if kind == "md" else table.latex())
    return files


def _write_text(path: Path, text: str) -> None:
    from propcal.output.files.whole_file import whole_file

    with whole_file(path) as part:
        part.write_text(text, encoding="utf-8", newline="\n")


def _write_pictures(drawn: Sequence[PaperFigure], folder: Path, kinds: Sequence[str]) -> list[Path]:
    from propcal.paper.figure_file import save_figure

    files = []
    for picture in drawn:
        for kind in kinds:
            files.append(folder / f"{picture.name}.{kind}")
            save_figure(picture.figure, files[-1])
    return files

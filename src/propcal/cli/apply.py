"""``propcal apply``: a file with corrected scores."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from propcal.cli import options as o
from propcal.cli.screen import progress, warnings_as_lines
from propcal.errors import InputError


def apply(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A correction that propcal fit wrote.")],
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="CSV (also .gz, .zst) or Parquet with a row for each person."),
    ],
    *,
    score: Annotated[
        str,
        typer.Option(metavar="COLUMN", rich_help_panel="Your data", help="Column with the score to correct."),
    ],
    na: o.Na = None,
    unseen: o.Unseen = None,
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            rich_help_panel="Output",
            help="Where to write: .csv, .csv.gz, .csv.zst, .tsv or .parquet.",
        ),
    ],
    column: Annotated[
        str, typer.Option(metavar="NAME", rich_help_panel="Output", help="Name of the new column.")
    ] = "corrected",
    force: o.Force = False,
    config: o.Config = None,  # noqa: ARG001  # its callback has done the work
) -> None:
    """Write a file of people again, with one more column: their corrected score.

    Rows and columns stay as they are and in order; files of any length take little memory.

    For example:

      propcal apply model.json new.csv --score risk -o corrected.csv

      propcal apply model.json lake.parquet --score risk -o out.parquet
    """
    from propcal import Atoms, Correction
    from propcal.core.grid import check_choice
    from propcal.data.files import open_file
    from propcal.output.scored import score_file
    from propcal.output.storage import check_target
    from propcal.output.tables import writes_text

    check_choice("--unseen", unseen or "replay", ("replay", "keep", "error"))
    writes_text(output)  # refuses an ending that it does not know
    check_target(output, force=force)
    correction = Correction.load(model)
    people = open_file(file, missing=na or [])
    if isinstance(people, Atoms):
        raise InputError(f"{file} holds atoms, not people; apply needs a file with a row for each person")
    with warnings_as_lines(), progress("Correcting", people.count()) as advance:
        rows = score_file(
            correction, people, output, score=score, column=column, unseen=unseen, advance=advance
        )
    typer.echo(f"{rows:,} rows with their corrected score in column {column!r}: {output}")

"""``propcal apply``: write files with corrected scores."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated

import typer

from propcal.cli import options as o
from propcal.cli.input import some_names
from propcal.cli.screen import progress, say, warnings_as_lines
from propcal.errors import InputError


def apply(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="Correction from propcal fit.")],
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILES",
            help="CSV (also .gz, .zst), Parquet or Excel files with one row per person, or a quoted pattern "
            'such as "visits/*.parquet".',
        ),
    ],
    *,
    score: Annotated[
        str,
        typer.Option(metavar="COLUMN", rich_help_panel="Your data", help="Score column to correct."),
    ],
    na: o.Na = None,
    unseen: o.Unseen = None,
    invalid: o.Invalid = "error",
    output: Annotated[
        str,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE|FOLDER/",
            rich_help_panel="Output",
            help="Write all rows to one .csv, .csv.gz, .csv.zst, .tsv or .parquet file, or each file to this "
            "folder under its own name.",
        ),
    ],
    column: Annotated[
        str, typer.Option(metavar="NAME", rich_help_panel="Output", help="Name of the new column.")
    ] = "corrected",
    force: o.Force = False,
    config: o.Config = None,
) -> None:
    """Copy files and add a column with the corrected score.

    Rows and columns keep their order and content. Files of any length take little memory.

    For example:

      propcal apply model.json new.csv --score risk -o corrected.csv

      propcal apply model.json "lake/*.parquet" --score risk -o corrected/
    """
    from propcal import Correction
    from propcal.core.grid import check_choice
    from propcal.data.checks import INVALID
    from propcal.data.files.file_sets import check_same_columns, find_files, open_people
    from propcal.output.files.scored_files import score_files
    from propcal.output.files.table_files import writes_text
    from propcal.output.files.transaction import outputs
    from propcal.output.files.whole_file import check_target

    check_choice("--unseen", unseen or "replay", ("replay", "keep", "error"))
    check_choice("--invalid", invalid, INVALID)
    folder = Path(output) if output.endswith(("/", "\\")) or Path(output).is_dir() else None
    paths = find_files(files)
    reads = [*paths, model, config]
    if folder is None:
        writes_text(output)  # refuses an ending that it does not know
        check_target(output, force=force, reads=reads)
    with _made(folder), outputs(force=force):
        targets = [Path(output)] if folder is None else _targets(folder, paths, reads, force=force)
        correction = Correction.load(model)
        sources = open_people(paths, missing=na or [], advice="apply needs a row for each person")
        lacking = [name for name in correction.reads if name not in sources[0].names]
        if lacking:
            raise InputError(
                f"{model} reads the columns {list(correction.reads)}, and {paths[0]} has no column "
                f"{lacking[0]!r}",
                argument="MODEL",
                next_step=f"Its columns are {some_names(sources[0].names)}",
            )
        check_same_columns(
            [people for people in sources if people.count()],
            as_text=writes_text(targets[0]),
            only=None if folder is None else [score, *correction.reads],
        )
        jobs = [(sources, targets[0])] if folder is None else [([s], t) for s, t in zip(sources, targets)]
        total = sum(people.count() for people in sources)
        with warnings_as_lines(), progress("Correcting", total) as advance:
            rows = score_files(
                correction,
                jobs,
                score=score,
                column=column,
                unseen=unseen,
                invalid=invalid,
                advance=advance,
            )
    say(f"{rows:,} rows with their corrected score in column {column!r}: {output}")


def _targets(folder: Path, paths: Sequence[Path], reads: Sequence[Path | None], *, force: bool) -> list[Path]:
    """The output file for each input, under the same name; refused if one may not be written."""
    from propcal.output.files.table_files import writes_text
    from propcal.output.files.whole_file import check_target

    names = [path.name for path in paths]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InputError(f"several files are named {twice[0]} and cannot be written to one folder")
    for path in paths:
        writes_text(path)
        check_target(folder / path.name, force=force, reads=reads)
    return [folder / name for name in names]


@contextmanager
def _made(folder: Path | None) -> Iterator[None]:
    """Create the folder if needed; remove it again if nothing is written to it."""
    if folder is None or folder.is_dir():
        yield
        return
    if not folder.parent.is_dir():
        raise InputError(f"cannot write to {folder}: there is no folder {folder.parent}")
    try:
        folder.mkdir()
    except FileExistsError:  # created by another program in the meantime
        if not folder.is_dir():
            raise InputError(f"cannot write to {folder}: it is not a folder") from None
        yield
        return
    try:
        yield
    except BaseException:
        with suppress(OSError):  # after a late interruption it holds the files
            folder.rmdir()
        raise

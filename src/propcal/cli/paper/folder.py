"""Where the commands of ``propcal paper`` write: files in a folder, none replaced unasked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated

import typer

from propcal.cli.screen import say
from propcal.errors import InputError

Folder = Annotated[Path, typer.Option("--output", "-o", metavar="FOLDER", help="Folder for the files.")]
ForceFiles = Annotated[bool, typer.Option("--force", help="Replace files that exist.")]
FOLDER = Path("propcal-paper")
PictureFormats = Annotated[
    str, typer.Option("--format", metavar="NAMES", help="Formats of the pictures: png, pdf, svg, or several.")
]
PICTURE_FORMATS, TABLE_FORMATS = ("png", "pdf", "svg"), ("csv", "md", "tex")


def formats(text: str, known: Sequence[str]) -> list[str]:
    """The formats of a list such as pdf,svg, each once.

    >>> formats("pdf, svg", PICTURE_FORMATS)
    ['pdf', 'svg']
    """
    found = list(dict.fromkeys(name.strip().lower().lstrip(".") for name in text.split(",") if name.strip()))
    strange = [name for name in found if name not in known]
    if strange or not found:
        raise InputError(
            f"--format: there is no {strange[0]!r}" if strange else "--format names no format",
            argument="--format",
            next_step=f"The formats are {', '.join(known)}",
        )
    return found


def planned(
    folder: Path, names: Sequence[str], *, force: bool, reads: Sequence[Path | None] = ()
) -> list[Path]:
    """The files to write, checked before the work begins; the folder is made later."""
    from propcal.output.files.whole_file import check_target

    if folder.exists() and not folder.is_dir():
        raise InputError(f"--output {folder} is a file", argument="--output", next_step="name a folder")
    paths = [folder / name for name in names]
    if folder.is_dir():
        for path in paths:
            check_target(path, force=force, reads=reads)
    return paths


@contextmanager
def new_folders(*folders: Path) -> Iterator[None]:
    """Make folders; if the work fails, those that were not there before are removed again."""
    made = {path for folder in folders for path in (folder, *folder.parents) if not path.exists()}
    try:
        for folder in folders:
            folder.mkdir(parents=True, exist_ok=True)
        yield
    except BaseException:
        for path in sorted(made, key=lambda path: len(path.parts), reverse=True):
            with suppress(OSError):  # another program may have put something there
                path.rmdir()
        raise


def said(sentences: Sequence[str], files: Sequence[Path] = ()) -> None:
    """What was found, then the files; lines as they are, so that names of files stay whole."""
    for sentence in sentences:
        typer.echo(sentence)
    if files:
        typer.echo("Written:")
        for path in files:
            say(f"  {path}")

"""Options of ``propcal paper``, and where its commands write: files in a folder, none replaced unasked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from propcal.cli.log import echo, say
from propcal.errors import refused
from propcal.files.transaction import check_target, new_folders, outputs

if TYPE_CHECKING:
    from propcal.paper.figure_parts import PaperFigure


def option(text: str, metavar: str | None = None, *names: str, **more: Any) -> Any:
    """An option with its help and the name of its value."""
    return typer.Option(*names, metavar=metavar, help=text, **more)


FOLDER = Path("propcal-paper")
Folder = Annotated[Path, option("Folder for the files.", "FOLDER", "--output", "-o")]
ForceFiles = Annotated[bool, option("Replace files that exist.", None, "--force")]
FORMATS = "Formats of the pictures: png, pdf, svg, or several."
PictureFormats = Annotated[str, option(FORMATS, "NAMES", "--format")]
PICTURE_FORMATS, TABLE_FORMATS = ("png", "pdf", "svg"), ("csv", "md", "tex")


def formats(text: str, known: Sequence[str] = PICTURE_FORMATS) -> list[str]:
    """The formats of a list such as pdf,svg, each once.

    >>> formats("pdf, svg")
    ['pdf', 'svg']
    """
    found = list(dict.fromkeys(name.strip().lower().lstrip(".") for name in text.split(",") if name.strip()))
    strange = [name for name in found if name not in known]
    if strange or not found:
        wrong = f": there is no {strange[0]!r}" if strange else " names no format"
        raise refused("paper format", wrong=wrong, known=", ".join(known))
    return found


def planned(
    *files: tuple[Path, Iterable[str]], force: bool, reads: Sequence[Path | None] = (), draws: bool = True
) -> None:
    """Refuse files of folders that cannot be written, and figures without matplotlib, before the work."""
    from propcal.paper.figure_parts import new_figure

    for folder, names in files:
        if folder.exists() and not folder.is_dir():
            raise refused("paper output", folder=folder)
        for name in names if folder.is_dir() else ():
            check_target(folder / name, force=force, reads=reads)
    if draws:
        new_figure(1, 1)


def named(pictures: Iterable[str], kinds: Sequence[str], tables: Iterable[str] = ()) -> list[str]:
    """The names of the files of pictures in every format, and of tables as CSV."""
    return [f"{name}.{kind}" for name in pictures for kind in kinds] + [f"{name}.csv" for name in tables]


def files_of(pictures: Sequence[PaperFigure], folder: Path, kinds: Sequence[str]) -> dict[Path, Any]:
    """The files of pictures: each in every format, and its numbers."""
    files = {folder / f"{picture.name}.{kind}": picture.figure for picture in pictures for kind in kinds}
    numbers = [item for picture in pictures for item in picture.data.items()]
    return files | {folder / f"{name}.csv": frame for name, frame in numbers}


def write(files: Mapping[Path, Any], *, force: bool) -> None:
    """Write texts, figures, and frames as CSV, either all or none; folders are made."""
    from propcal.paper.figure_parts import save

    with new_folders(*{path.parent for path in files}), outputs(force=force):
        for path, content in files.items():
            save(content, path)


def said(sentences: Sequence[str], files: Iterable[Path] = ()) -> None:
    """What was found, then the files; lines as they are, so that names of files stay whole."""
    for sentence in [*sentences, *(["Written:"] if files else [])]:
        echo(sentence)
    for path in files:
        say(f"  {path}")

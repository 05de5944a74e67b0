"""Writes a file completely or not at all, and checks beforehand whether it may be written."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from os import PathLike
from pathlib import Path

from propcal.errors import InputError
from propcal.files.transaction import outputs
from propcal.regular_file import refuse_circular


@contextmanager
def whole_file(path: str | PathLike[str]) -> Iterator[Path]:
    """A new file beside `path` that replaces it when complete.

    In a transaction (`propcal.files.transaction.outputs`), it appears together with the other files.
    """
    with outputs() as out:
        part = out.file(path)
        try:
            yield part
        except BaseException:
            out.drop(part)
            raise


def write_whole(path: str | PathLike[str], write: Callable[[Path], None]) -> None:
    """Let `write` fill a new file, then move it into place."""
    with whole_file(path) as part:
        write(part)


def check_target(
    path: str | PathLike[str], *, force: bool, reads: Sequence[str | PathLike[str] | None] = ()
) -> None:
    """Refuse a file that cannot be written, before the work begins; never overwrite an input file."""
    refuse_circular(path)
    target = Path(os.path.realpath(path))
    if target.exists() and not (target.is_file() or target.is_dir()):
        raise InputError(f"cannot write {path}: it is not a regular file")
    for source in reads:
        if source is not None and target.exists() and Path(source).exists() and target.samefile(source):
            same = "" if Path(source) == Path(path) else f" (it is the same file as {source})"
            raise InputError(
                f"{path} is also an input file{same}", next_step="Choose another name for the output"
            )
    if target.is_dir():
        raise InputError(f"cannot write {path}: it is a folder", next_step="Name a file in it")
    if not target.parent.is_dir():
        raise InputError(f"cannot write {path}: there is no folder {target.parent}")
    if not os.access(target.parent, os.W_OK | os.X_OK):
        raise InputError(f"cannot write {path}: the folder {target.parent} is not writable")
    if target.exists() and not force:
        raise InputError(f"{path} already exists", next_step="Use --force to replace it")

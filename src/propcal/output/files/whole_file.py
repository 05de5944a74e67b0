"""Files written whole or not at all, and whether one may be written."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from os import PathLike
from pathlib import Path

from propcal.errors import InputError
from propcal.interrupts import settling


@contextmanager
def whole_file(path: str | PathLike[str]) -> Iterator[Path]:
    """A new file beside `path` that takes its place when it is complete: all of it or nothing."""
    target = Path(os.path.realpath(path))  # through a link, not over it
    if target.is_dir():
        raise IsADirectoryError(f"cannot write {target}: it is a folder")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"cannot write {target}: there is no folder {target.parent}")
    if target.exists() and not target.is_file():
        raise InputError(f"cannot write {target}: it is no ordinary file")
    try:
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=".propcal-", suffix=".part")
    except OSError as error:  # about the file that was named, not about one that nobody knows
        told = f"{error.strerror}; no file can be made in {target.parent}"
        raise OSError(error.errno, told, str(target)) from error
    os.close(handle)
    part = Path(name)
    try:
        yield part
        part.chmod(_mode(target))
        with open(part, "rb") as written:
            os.fsync(written.fileno())  # a power cut must not leave an empty file in the old one's place
        with settling():
            part.replace(target)
    except BaseException:
        with suppress(OSError):
            part.unlink()
        raise


def _mode(target: Path) -> int:
    """Who may read a file: as before if it replaces one, or as any new file; mkstemp's are private."""
    if target.exists():
        return target.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


def write_whole(path: str | PathLike[str], write: Callable[[Path], None]) -> None:
    """Let `write` fill a new file, then put it in place."""
    with whole_file(path) as part:
        write(part)


def check_target(
    path: str | PathLike[str], *, force: bool, reads: Sequence[str | PathLike[str] | None] = ()
) -> None:
    """Whether a file may be written, asked before the work begins; never over one that is read."""
    target = Path(os.path.realpath(path))
    if target.exists() and not (target.is_file() or target.is_dir()):
        raise InputError(f"cannot write {path}: it is no ordinary file")
    for source in reads:
        if source is not None and target.exists() and Path(source).exists() and target.samefile(source):
            raise InputError(f"{path} is what is read", next_step="name another file to write")
    if target.is_dir():
        raise InputError(f"cannot write {path}: it is a folder", next_step="name a file in it")
    if not target.parent.is_dir():
        raise InputError(f"cannot write {path}: there is no folder {target.parent}")
    if not os.access(target.parent, os.W_OK | os.X_OK):
        raise InputError(f"cannot write {path}: the folder {target.parent} is not writable")
    if target.exists() and not force:
        raise InputError(f"{path} exists", next_step="--force replaces it")

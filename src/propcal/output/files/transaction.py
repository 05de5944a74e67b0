"""The files of a command as one transaction: all are written first, then all are put in place.

A file is written under a name of its own beside its target. When everything is written, signals are held and
every file takes its place. So a command that is stopped has replaced all of its files or none, and can say
which.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from os import PathLike
from pathlib import Path
from secrets import token_hex

from propcal.errors import InputError
from propcal.interrupts import check as check_stop
from propcal.interrupts import settling

# what a file system says that knows no links (FAT, some network drives); any other trouble is told as it is
NO_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV}

_written: list[Path] = []  # by the command that is running


def written() -> tuple[Path, ...]:
    """The files that this command has put in place so far."""
    return tuple(_written)


def forget_written() -> None:
    """A new command: nothing is written yet."""
    _written.clear()


class Outputs:
    """Files that appear together, or not at all.

    With `force` they replace what is there. Otherwise a target that was made in the meantime, by another
    command or a person, stays as it is and none of the files appears.
    """

    def __init__(self, *, force: bool) -> None:
        self._force = force
        self._parts: dict[Path, Path] = {}  # by target
        self._names: dict[Path, Path] = {}  # as they were given, by target

    def file(self, path: str | PathLike[str]) -> Path:
        """An empty file beside `path`, to be filled; it takes its place at the end of the transaction."""
        target = Path(os.path.realpath(path))  # through a link, not over it
        if target in self._parts:
            raise InputError(f"{path} would be written twice", next_step="name different files")
        _refuse_no_file(target)
        self._parts[target] = _new_part(target)
        self._names[target] = Path(path)
        return self._parts[target]

    def drop(self, part: Path) -> None:
        """Take a file out again, because writing it failed."""
        for target, other in [*self._parts.items()]:
            if other == part:
                del self._parts[target], self._names[target]
        with suppress(OSError):
            part.unlink()

    def settle(self) -> None:
        """Put every file in place; a stop that is asked for meanwhile comes afterwards."""
        for target, part in self._parts.items():
            _complete(part, target)
        with settling():
            if self._force:
                self._replace_all()
            else:
                self._claim_all()
            _written.extend(self._names.values())
            self._parts.clear()
        check_stop()

    def name(self, error: OSError) -> None:
        """Give an error of writing, which often knows no file, the name of the file that was written last."""
        if error.filename is None and error.errno is not None and self._names:
            error.filename = str([*self._names.values()][-1])

    def discard(self) -> None:
        """Remove whatever has not taken its place."""
        for part in self._parts.values():
            with suppress(OSError):
                part.unlink()

    def _replace_all(self) -> None:
        """Put files in the places of others; if one cannot be, say exactly what has become of each."""
        done: list[Path] = []
        for target, part in self._parts.items():
            try:
                part.replace(target)
            except OSError as error:
                if not done:
                    raise OSError(error.errno, error.strerror, str(self._names[target])) from error
                _written.extend(self._names[t] for t in done)
                raise _half_done(error, done, [t for t in self._parts if t not in done]) from error
            done.append(target)

    def _claim_all(self) -> None:
        """Put files where none are; if one is there by now, those already put are taken back."""
        done: list[Path] = []
        try:
            for target, part in self._parts.items():
                _claim(part, target)
                done.append(target)
        except OSError as error:
            target = next(t for t in self._parts if t not in done)
            for other in done:
                _take_back(self._parts[other], other)
            if isinstance(error, FileExistsError):
                raise InputError(
                    f"{self._names[target]} exists: it was created while this command ran. Nothing was "
                    "written",
                    next_step="--force replaces it",
                ) from None
            raise OSError(error.errno, error.strerror, str(self._names[target])) from error
        for part in self._parts.values():
            with suppress(OSError):
                part.unlink()  # its second name, if it has one


_open: ContextVar[Outputs | None] = ContextVar("open_outputs", default=None)


@contextmanager
def outputs(*, force: bool = True) -> Iterator[Outputs]:
    """Files that are written in this block and appear together at its end; inside another block, at its end.

    Everything that writes a file of propcal joins the block that it is called in.
    """
    outer = _open.get()
    if outer is not None:
        yield outer
        return
    made = Outputs(force=force)
    token = _open.set(made)
    try:
        yield made
        made.settle()
    except OSError as error:
        made.name(error)
        raise
    finally:
        _open.reset(token)
        made.discard()


def _refuse_no_file(target: Path) -> None:
    if target.is_dir():
        raise IsADirectoryError(f"cannot write {target}: it is a folder")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"cannot write {target}: there is no folder {target.parent}")
    if target.exists() and not target.is_file():
        raise InputError(f"cannot write {target}: it is no ordinary file")


def _new_part(target: Path) -> Path:
    """A new file beside a target, as readable as any new file; private if it replaces one that may be."""
    part = target.parent / f".propcal-{token_hex(8)}.part"
    flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | getattr(os, "O_CLOEXEC", 0)
    try:
        os.close(os.open(part, flags, 0o600 if target.exists() else 0o666))  # less what the umask takes
    except OSError as error:  # about the file that was named, not about one that nobody knows
        told = f"{error.strerror}; no file can be made in {target.parent}"
        raise OSError(error.errno, told, str(target)) from error
    return part


def _complete(part: Path, target: Path) -> None:
    """Finish a written file: the rights of the one it replaces, and its content on the disk."""
    with suppress(FileNotFoundError):
        part.chmod(target.stat().st_mode & 0o777)
    with open(part, "rb") as file:
        os.fsync(file.fileno())  # a power cut must not leave an empty file in the old one's place


def _claim(part: Path, target: Path) -> None:
    """Give a file the name of its target, unless another has it; that is one step of the file system."""
    try:
        os.link(part, target)
    except FileExistsError:
        raise
    except OSError as error:
        if error.errno not in NO_LINKS:
            raise
        # without links: an empty file claims the name, and is then replaced by ours
        os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
        try:
            part.replace(target)
        except OSError:
            target.unlink()
            raise


def _take_back(part: Path, target: Path) -> None:
    """Remove a file that was just put in place, if it is still ours."""
    with suppress(OSError):
        if not part.exists() or part.samefile(target):
            target.unlink()


def _half_done(error: OSError, done: list[Path], left: list[Path]) -> InputError:
    """What is true when some files were replaced and the next could not be."""
    return InputError(
        f"{left[0]}: {error.strerror or error}. Replaced: {_listed(done)}. As before: {_listed(left)}",
        next_step="Mend that, and run the command again",
    )


def _listed(paths: list[Path]) -> str:
    return ", ".join(map(str, paths))

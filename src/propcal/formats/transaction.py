"""Writes all output files of a command together: all of them appear, or none.

Each file is first written under a temporary name beside its target. When all are
complete, signals are held back while the files are moved into place. A command that is
interrupted has therefore replaced all of its files or none, and can report which.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from os import PathLike
from pathlib import Path
from secrets import token_hex

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

from propcal.core.arguments import refuse_circular
from propcal.errors import InputError, refused
from propcal.interrupts import check as check_stop
from propcal.interrupts import settling

# errors of file systems without links (FAT, some network drives); any other error is
# passed on
NO_LINKS = {
    errno.EPERM,
    errno.ENOTSUP,
    errno.EOPNOTSUPP,
    errno.ENOSYS,
    errno.EMLINK,
    errno.EXDEV,
}

_written: list[Path] = []  # by the current command


def written() -> tuple[Path, ...]:
    """The files that this command has put in place so far."""
    return tuple(_written)


def forget_written() -> None:
    """Forget written files before a new command."""
    _written.clear()


Look = tuple[int, ...]


def look_of(path: str | PathLike[str]) -> Look | None:
    """What distinguishes a file from one that replaced it; None if there is no file."""
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


@contextmanager
def _locked(targets: Iterable[Path]) -> Iterator[None]:
    """Let one run at a time look at these files and replace them, by locks on their
    folders.

    Where folders cannot be locked (Windows, some network drives), two runs could still
    do so at once.
    """
    held = []
    try:
        if fcntl is not None:
            for folder in sorted({target.parent for target in targets}):
                with suppress(OSError):
                    held.append(os.open(folder, os.O_RDONLY))
                    fcntl.flock(held[-1], fcntl.LOCK_EX)
        yield
    finally:
        for descriptor in held:
            os.close(descriptor)  # which unlocks it


class Outputs:
    """Files that appear together or not at all.

    With `force` they replace existing files. Otherwise, if a target was created in the
    meantime, it is left alone and none of the files appears.
    """

    def __init__(self, *, force: bool) -> None:
        self._force = force
        self._parts: dict[Path, Path] = {}  # by target
        self._names: dict[Path, Path] = {}  # paths as given by the user, by target
        # what targets must look like still, even with force
        self._looks: dict[Path, Look | None] = {}

    def file(self, path: str | PathLike[str]) -> Path:
        """An empty file beside `path`, to be filled; it is moved to `path` at the end
        of the transaction.
        """
        target = Path(os.path.realpath(path))  # follow a link instead of replacing it
        if target in self._parts:
            raise InputError(
                f"{path} would be written twice", next_step="Choose different files"
            )
        _refuse_no_file(target)
        self._parts[target] = _new_part(target)
        self._names[target] = Path(path)
        return self._parts[target]

    def unless_changed(self, path: str | PathLike[str], look: Look | None) -> None:
        """Leave everything as it is if this file looks different by now (None: if it
        exists by now).
        """
        self._looks[Path(os.path.realpath(path))] = look

    def drop(self, part: Path) -> None:
        """Remove a file from the transaction because writing it failed."""
        for target, other in list(self._parts.items()):
            if other == part:
                del self._parts[target]
                del self._names[target]
        with suppress(OSError):
            part.unlink()

    def settle(self) -> None:
        """Move every file into place; a signal in the meantime takes effect
        afterwards.
        """
        for target, part in self._parts.items():
            _complete(part, target)
        with settling(), _locked(self._looks):
            self._refuse_changed()
            if self._force:
                self._replace_all()
            else:
                self._claim_all()
            _written.extend(self._names.values())
            self._parts.clear()
        check_stop()

    @property
    def names(self) -> list[Path]:
        """The files that are not in place yet, as the user named them."""
        return [self._names[target] for target in self._parts]

    def discard(self) -> None:
        """Remove all files that have not been moved into place."""
        for part in self._parts.values():
            with suppress(OSError):
                part.unlink()

    def _refuse_changed(self) -> None:
        for target, before in self._looks.items():
            if target in self._parts and look_of(target) != before:
                what = "changed" if before else "created"
                raise refused("changed meanwhile", path=self._names[target], what=what)

    def _replace_all(self) -> None:
        """Replace existing files; if one cannot be replaced, the error lists what
        happened to each.
        """
        done: list[Path] = []
        for target, part in self._parts.items():
            try:
                part.replace(target)
            except OSError as error:
                if not done:
                    raise OSError(
                        error.errno, error.strerror, str(self._names[target])
                    ) from error
                _written.extend(self._names[t] for t in done)
                unchanged = [t for t in self._parts if t not in done]
                raise refused(
                    "replaced some",
                    path=unchanged[0],
                    why=error.strerror or error,
                    replaced=", ".join(map(str, done)),
                    unchanged=", ".join(map(str, unchanged)),
                ) from error
            done.append(target)

    def _claim_all(self) -> None:
        """Move files to new names; if one exists by now, those already moved are
        removed again.
        """
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
                if target.is_dir():
                    name = "folder created meanwhile"
                else:
                    name = "created meanwhile"
                if self._force:
                    again = "Run the command again"
                else:
                    again = "Use --force to replace it"
                raise refused(name, path=self._names[target], again=again) from None
            raise OSError(
                error.errno, error.strerror, str(self._names[target])
            ) from error
        for part in self._parts.values():
            with suppress(OSError):
                part.unlink()  # remove its second name, if it has one


_open: ContextVar[Outputs | None] = ContextVar("open_outputs", default=None)


@contextmanager
def outputs(*, force: bool = True) -> Iterator[Outputs]:
    """Files written in this block appear together at its end, or at the end of an
    enclosing block.

    Every function of propcal that writes a file joins the block in which it is called.
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
        unnamed = error.filename is None and error.errno is not None
        if unnamed and made.names:  # name the last file
            error.filename = str(made.names[-1])
        raise
    finally:
        _open.reset(token)
        made.discard()


@contextmanager
def whole_file(path: str | PathLike[str]) -> Iterator[Path]:
    """A new file beside `path` that replaces it when complete, together with others of
    a transaction.
    """
    with outputs() as out:
        part = out.file(path)
        try:
            yield part
        except BaseException as error:
            out.drop(part)
            if (
                isinstance(error, OSError)
                and error.filename is None
                and error.errno is not None
            ):
                error.filename = str(path)
            raise


@contextmanager
def new_folders(*folders: Path) -> Iterator[None]:
    """Make folders; if the work fails, those that were not there before are removed
    again.
    """
    made: set[Path] = set()
    for folder in folders:
        made |= {path for path in (folder, *folder.parents) if not path.exists()}
    try:
        for folder in folders:
            folder.mkdir(parents=True, exist_ok=True)
        yield
    except BaseException:
        for path in sorted(made, key=lambda path: len(path.parts), reverse=True):
            with suppress(OSError):  # another program may have put something there
                path.rmdir()
        raise


def write_text(text: str, path: str | PathLike[str] | None) -> None:
    """Write a text to a file, if one is named, whole or not at all."""
    if path is not None:
        with whole_file(path) as part:
            part.write_text(text, encoding="utf-8", newline="\n")


def check_target(
    path: str | PathLike[str],
    *,
    force: bool,
    reads: Sequence[str | PathLike[str] | None] = (),
) -> None:
    """Refuse a file that cannot be written, before the work begins; never overwrite an
    input file.
    """
    refuse_circular(path)
    target = Path(os.path.realpath(path))
    for source in reads:
        if source is None or not target.exists() or not Path(source).exists():
            continue
        if target.samefile(source):
            same = ""
            if Path(source) != Path(path):
                same = f" (it is the same file as {source})"
            raise refused("output is input", path=path, same=same)

    step = None
    if target.is_dir():
        problem = "it is a folder"
        step = "Name a file in it"
    elif target.exists() and not target.is_file():
        problem = "it is not a regular file"
    elif not target.parent.is_dir():
        problem = f"there is no folder {target.parent}"
    elif not os.access(target.parent, os.W_OK | os.X_OK):
        problem = f"the folder {target.parent} is not writable"
    elif target.exists() and not force:
        raise InputError(
            f"{path} already exists", next_step="Use --force to replace it"
        )
    else:
        return
    raise InputError(f"cannot write {path}: {problem}", next_step=step)


def _refuse_no_file(target: Path) -> None:
    if target.is_dir():
        raise IsADirectoryError(f"cannot write {target}: it is a folder")
    if not target.parent.is_dir():
        raise FileNotFoundError(
            f"cannot write {target}: there is no folder {target.parent}"
        )
    if target.exists() and not target.is_file():
        raise InputError(f"cannot write {target}: it is not a regular file")


def _new_part(target: Path) -> Path:
    """A new file beside a target with the usual permissions; private if it replaces an
    existing file.
    """
    part = target.parent / f".propcal-{token_hex(8)}.part"
    flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | getattr(os, "O_CLOEXEC", 0)
    permissions = 0o600 if target.exists() else 0o666  # minus the umask
    try:
        os.close(os.open(part, flags, permissions))
    except OSError as error:  # name the user's file, not the temporary one
        problem = f"{error.strerror}; cannot create a file in {target.parent}"
        raise OSError(error.errno, problem, str(target)) from error
    return part


def _complete(part: Path, target: Path) -> None:
    """Finish a file: copy the permissions of the one it replaces, and flush it to
    disk.
    """
    with suppress(FileNotFoundError):
        part.chmod(target.stat().st_mode & 0o777)
    with open(part, "rb") as file:
        # a power cut must not leave an empty file in place of the old one
        os.fsync(file.fileno())


def _claim(part: Path, target: Path) -> None:
    """Rename a file to its target in one atomic step, unless the target exists."""
    try:
        os.link(part, target)
    except FileExistsError:
        raise
    except OSError as error:
        if error.errno not in NO_LINKS:
            raise
        # without links: reserve the name with an empty file, then replace it
        os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
        try:
            part.replace(target)
        except OSError:
            target.unlink()
            raise


def _take_back(part: Path, target: Path) -> None:
    """Remove a file that was just moved into place, if it is still ours."""
    with suppress(OSError):
        if not part.exists() or part.samefile(target):
            target.unlink()

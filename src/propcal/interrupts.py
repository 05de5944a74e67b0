"""A stop that was asked for: remembered, because an exception that a signal raises can get lost.

Python drops what is raised in a callback, an import or a ``__del__``. So the command line also notes the
signal here, and the work looks for it after each batch and before a file takes its place.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Stopped(SystemExit):
    """The end of a command that a signal asked for; its code is that of the signal."""


_asked: int | None = None
_settling = False


def ask(number: int, frame: Any = None) -> None:  # noqa: ARG001
    """Note a signal, and stop at once unless files are just taking their places."""
    global _asked  # noqa: PLW0603
    _asked = number
    if not _settling:
        check()


def asked() -> int | None:
    """The signal that asked for a stop, if any."""
    return _asked


def forget() -> None:
    """A new command: nobody has asked it to stop."""
    global _asked  # noqa: PLW0603
    _asked = None


def check() -> None:
    """Stop here if that was asked for."""
    if _asked == signal.SIGINT:
        raise KeyboardInterrupt
    if _asked is not None:
        raise Stopped(128 + _asked)


@contextmanager
def settling() -> Iterator[None]:
    """The last moment to stop is the beginning of this block; a stop during it comes too late."""
    global _settling  # noqa: PLW0603
    if _settling:
        yield
        return
    try:
        _settling = True  # before the look: what comes in between is noted only, and seen
        check()
        yield
    finally:
        _settling = False

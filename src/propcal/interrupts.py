"""Stops a command cleanly after Ctrl-C, even if the exception itself gets lost.

Python discards exceptions raised in a callback, an import or a ``__del__``. The command
line therefore records the signal here as well, and long operations check for it after
each batch and before they replace a file.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Any


class Interrupted(KeyboardInterrupt):
    """Raised to end a command after Ctrl-C.

    If a plain KeyboardInterrupt passes through code that a C library runs, Python ends
    the program by the signal itself, whatever its exit code is, even if the exception
    is caught.
    """


class Stopped(SystemExit):
    """Raised to end a command after a signal; its exit code is that of the signal."""


PATIENCE = 2.0  # seconds in which further signals are ignored while a command stops

_asked: int | None = None
_when = 0.0
_settling = False
_finished = False


def ask(number: int, frame: Any = None) -> None:  # noqa: ARG001
    """Record a signal, and stop at once unless files are just being put in place.

    Signals often come in pairs. A second one would interrupt the cleanup after the
    first, so it is ignored for two seconds, and altogether once the command has
    finished.
    """
    global _asked, _when  # noqa: PLW0603
    if _finished or (_asked is not None and monotonic() - _when < PATIENCE):
        return
    _when = monotonic()
    _asked = number
    if not _settling:
        check()


def asked() -> int | None:
    """The signal that was received, if any."""
    return _asked


def forget() -> None:
    """Forget a recorded signal before a new command."""
    global _asked, _finished  # noqa: PLW0603
    _asked = None
    _finished = False


def finish() -> None:
    """Ignore signals from now on: only the last line is still to be printed."""
    global _finished  # noqa: PLW0603
    _finished = True


def check() -> None:
    """Stop here if a signal was received."""
    if _asked == signal.SIGINT:
        raise Interrupted
    if _asked is not None:
        raise Stopped(128 + _asked)


@contextmanager
def settling() -> Iterator[None]:
    """A block that cannot be interrupted: it stops only at its beginning, not once it
    has started.
    """
    global _settling  # noqa: PLW0603
    if _settling:
        yield
        return
    try:
        # set before the check, so that a signal in between is recorded and then seen
        _settling = True
        check()
        yield
    finally:
        _settling = False

"""Stops a command cleanly after Ctrl-C or another signal, even if the exception itself gets lost.

Python discards exceptions raised in a callback, an import or a ``__del__``. The command line therefore
records the signal here as well, and long operations check for it after each batch and before they replace a
file.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Stopped(SystemExit):
    """Raised to end a command after a signal; its exit code is that of the signal."""


_asked: int | None = None
_settling = False


def ask(number: int, frame: Any = None) -> None:  # noqa: ARG001
    """Record a signal, and stop at once unless files are just being put in place."""
    global _asked  # noqa: PLW0603
    _asked = number
    if not _settling:
        check()


def asked() -> int | None:
    """The signal that was received, if any."""
    return _asked


def forget() -> None:
    """Forget a recorded signal before a new command."""
    global _asked  # noqa: PLW0603
    _asked = None


def check() -> None:
    """Stop here if a signal was received."""
    if _asked == signal.SIGINT:
        raise KeyboardInterrupt
    if _asked is not None:
        raise Stopped(128 + _asked)


@contextmanager
def settling() -> Iterator[None]:
    """A block that cannot be interrupted: it stops only at its beginning, not once it has started."""
    global _settling  # noqa: PLW0603
    if _settling:
        yield
        return
    try:
        _settling = True  # set before the check, so that a signal in between is recorded and then seen
        check()
        yield
    finally:
        _settling = False

"""What a command says beside its result: lines for people or JSON for machines, or only errors.

``--quiet`` and ``--log json`` work with every command, wherever they stand, and for wrong use as well: they
are taken from the command line before a command sees it.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter

import typer

from propcal.errors import InputError
from propcal.plain_text import plain

LEVELS = {"note": "warning", "failed": "error"}  # how lines on standard error begin, after "propcal: "
HOW = "Every command also takes --quiet and --log json: see propcal --help."


@dataclass
class Voice:
    """How this command talks."""

    quiet: bool = False
    as_json: bool = False
    command: str = ""

    @property
    def may_draw(self) -> bool:
        """Whether progress may be drawn."""
        return not (self.quiet or self.as_json)


voice = Voice()


def say(text: str, *, err: bool = False) -> None:
    """Print one line, without control characters that a name in it may have."""
    if not err:
        if not voice.quiet:
            typer.echo(plain(text))
        return
    line = text.removeprefix("propcal: ")
    kind, colon, rest = line.partition(": ")
    level = LEVELS.get(kind, "error") if text != line else "info"
    if voice.quiet and level != "error":
        return
    if voice.as_json:
        record(level, rest if colon and kind in LEVELS else line)
    else:
        typer.echo(plain(text), err=True)


def echo(text: str) -> None:
    """Print lines as they are."""
    if not voice.quiet:
        typer.echo(text)


def record(level: str, message: str, **more: object) -> None:
    """Write one line of JSON on standard error."""
    time = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    about = {"time": time, "level": level, "command": voice.command, "message": plain(message)}
    with suppress(OSError, ValueError):  # standard error may be closed
        typer.echo(json.dumps(about | more, ensure_ascii=False), err=True)


def listen(arguments: Sequence[str], commands: Sequence[str]) -> list[str]:
    """Set how this command talks, and return its arguments without ``--quiet`` and ``--log``."""
    voice.quiet = voice.as_json = False
    voice.command = next((word for word in arguments if word in commands), "")
    rest: list[str] = []
    words = iter(arguments)
    for word in words:
        if word == "--":
            return [*rest, word, *words]
        if word == "--quiet":
            voice.quiet = True
        elif word == "--log" or word.startswith("--log="):
            form = word.partition("=")[2] or next(words, "")
            if form not in ("text", "json"):
                raise InputError(f"--log {form!r} must be text or json")
            voice.as_json = form == "json"
        else:
            rest.append(word)
    return rest


class _Lines(logging.Handler):
    """Says what the library logs."""

    def emit(self, record: logging.LogRecord) -> None:
        """Say one line."""
        say(f"propcal: note: {record.getMessage()}", err=True)


@contextmanager
def logging_as_lines() -> Iterator[None]:
    """Say what the library logs, if it is not for people to read as it is."""
    logger, lines = logging.getLogger("propcal"), _Lines()
    if not voice.may_draw:
        logger.addHandler(lines)
    try:
        yield
    finally:
        logger.removeHandler(lines)


def logged(run: Callable[[], int], written: Callable[[], Sequence[Path]]) -> int:
    """The exit code of a command; in JSON, the last line tells it, and which files were written."""
    began = perf_counter()
    with logging_as_lines():
        code = run()
    if voice.as_json:
        more = {"exit_code": code, "seconds": round(perf_counter() - began, 3)}
        files = [str(path) for path in written()]
        record("error" if code else "info", "ended", **more, written=files)
    return code

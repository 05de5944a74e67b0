"""Progress of a command: shown on a terminal only, and never on standard output."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import typer
from rich.console import Console

from propcal.cli.flags import told
from propcal.plain_text import plain


def say(text: str, *, err: bool = False) -> None:
    """Print one line, without control characters that a name in it may have."""
    typer.echo(plain(text), err=err)


@contextmanager
def working(text: str) -> Iterator[Callable[[str], None]]:
    """A status line; yields a function that changes it."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda _: None
        return
    with console.status(text) as status:
        yield status.update


@contextmanager
def progress(text: str, total: int) -> Iterator[Callable[[int], None]]:
    """A progress bar; yields a function that takes the number of rows done."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda _: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(text, total=total)
        yield lambda rows: bar.advance(task, rows)


@contextmanager
def percentage(text: str) -> Iterator[Callable[[float], None] | None]:
    """A progress bar; yields a function that takes the percentage done, or None without a terminal."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield None
        return
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(text, total=100)
        yield lambda percent: bar.update(task, completed=percent)


@contextmanager
def warnings_as_lines() -> Iterator[None]:
    """Print each warning as one line on standard error, without Python's file names."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always", UserWarning)
        yield
    found = [warning.message for warning in seen if issubclass(warning.category, UserWarning)]
    for text in dict.fromkeys(_note(message) for message in found):
        say(f"propcal: note: {text}", err=True)


def _note(warning: Warning | str) -> str:
    """The text of a warning, with options of the command line where the library wrote it."""
    first = warning.args[0] if isinstance(warning, Warning) and len(warning.args) == 1 else warning
    return told(first) if isinstance(first, str) else str(warning)

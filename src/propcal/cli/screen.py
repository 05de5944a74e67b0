"""What is shown while a command works: on a terminal only, and never on standard output."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import typer
from rich.console import Console


def in_flags(message: str) -> str:
    """What the library says in Python, in the words of the command line.

    >>> in_flags("Give cut points, Groups(cuts={'age': [...]})")
    'Give cut points, --cut age=...'
    >>> in_flags('missing="level" makes them a group')
    '--missing level makes them a group'
    >>> in_flags("n_data_sets must be at least 1")
    '--data-sets must be at least 1'
    >>> in_flags("resolution=2**-15 would; or raise memory_limit")
    '--resolution 2^-15 would; or raise --memory'
    >>> in_flags("columns names 'rase'; this correction reads ['race']")
    "--rename names 'rase'; this correction reads ['race']"
    """
    message = re.sub(r"Groups\(cuts=\{['\"](.+?)['\"]: \[\.\.\.\]\}\)", r"--cut \1=...", message)
    message = message.replace("Groups(columns=[...])", "--groups")
    message = re.sub(r"\bresolution=2\*\*-(\d+)", r"--resolution 2^-\1", message)
    names = {
        "max_updates": "--max-updates",
        "n_draws": "--draws",
        "random_state": "--seed",
        "memory_limit": "--memory",
    }
    for name, flag in names.items():
        message = re.sub(rf"\b{name}\b", flag, message)
    # of propcal paper; such short words are options only where a message begins with them
    begins = re.match(r"(?:n_)?(groups|data_sets|people|rows|models|trials)(?= must|:)", message)
    if begins:
        message = f"--{begins[1].replace('_', '-')}{message[begins.end() :]}"
    message = re.sub(r"^columns names (?=['\"])", "--rename names ", message)  # of propcal export
    message = re.sub(r"^types(?= names|: the type)", "--type", message)
    message = message.replace("write one with Atoms.save", "propcal atoms makes one of people")
    message = message.replace("weight_kind", "--weight-kind")
    return re.sub(r'\b(missing|unseen|intersections|form)="?(\w+)"?', r"--\1 \2", message)


@contextmanager
def working(text: str) -> Iterator[Callable[[str], None]]:
    """A line that says what is being done; call what it gives to change it."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda _: None
        return
    with console.status(text) as status:
        yield status.update


@contextmanager
def progress(text: str, total: int) -> Iterator[Callable[[int], None]]:
    """A progress bar; call what it gives with the number of rows that were done."""
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
    """A progress bar; call what it gives with the percentage that is done. None where nobody looks."""
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
    """Say what is warned of in a line each on standard error, without Python's file names."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always", UserWarning)
        yield
    for text in dict.fromkeys(str(w.message) for w in seen if issubclass(w.category, UserWarning)):
        typer.echo(f"propcal: note: {in_flags(text)}", err=True)

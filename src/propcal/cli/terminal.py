"""What a command prints, and where its result goes: lines, progress, checked files.

``--quiet`` and ``--log json`` work with every command, wherever they stand, and for
wrong use as well: they are taken from the command line before a command sees it.
"""

from __future__ import annotations

import gc
import json
import logging
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, Literal

import typer
from rich.console import Console

from propcal.cli.commands_from_records import CONFIG, FORCE, LISTS, with_flags
from propcal.core.arguments import FEWEST_SHOWN
from propcal.errors import InputError, plain
from propcal.formats.transaction import check_target, outputs, write_text
from propcal.numbers import listed
from propcal.options import OUTPUT

if TYPE_CHECKING:
    from propcal.documents.blocks import Document

# the kinds of lines on standard error: how they begin, and their level in JSON
KINDS = {
    "info": ("", "info"),
    "note": ("propcal: note: ", "warning"),
    "failed": ("propcal: failed: ", "error"),
    "error": ("propcal: ", "error"),
}
Reads = Path | list[Path] | None  # a file that a command reads, or files and patterns


@dataclass
class Voice:
    """How this command talks."""

    quiet: bool = False
    as_json: bool = False
    command: str = ""
    # what to print if it is interrupted, instead of the files that it wrote
    interrupted: str = ""

    @property
    def may_draw(self) -> bool:
        """Whether progress may be drawn."""
        return not (self.quiet or self.as_json)


voice = Voice()


def say(text: str) -> None:
    """Print one line, without control characters that a name in it may have."""
    if not voice.quiet:
        typer.echo(plain(text))


def log(kind: Literal["info", "note", "failed", "error"], text: str) -> None:
    """Print one line on standard error; only errors if the command is to be quiet."""
    beginning, level = KINDS[kind]
    if voice.quiet and level != "error":
        return
    if voice.as_json:
        record(level, text)
    else:
        typer.echo(plain(beginning + text), err=True)


def echo(text: str) -> None:
    """Print lines as they are."""
    if not voice.quiet:
        typer.echo(text)


def record(level: str, message: str, **more: object) -> None:
    """Write one line of JSON on standard error."""
    time = datetime.now(UTC).isoformat(timespec="milliseconds")
    entry = {
        "time": time.replace("+00:00", "Z"),
        "level": level,
        "command": voice.command,
        "message": plain(message),
    }
    with suppress(OSError, ValueError):  # standard error may be closed
        typer.echo(json.dumps(entry | more, ensure_ascii=False), err=True)


def listen(arguments: Sequence[str], commands: Sequence[str]) -> list[str]:
    """Set how this command talks, and return its arguments without ``--quiet`` and
    ``--log``.
    """
    voice.quiet = False
    voice.as_json = False
    voice.interrupted = ""
    named_commands = [word for word in arguments if word in commands]
    voice.command = named_commands[0] if named_commands else ""
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
    """Prints what the library logs."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print one line."""
        text = record.getMessage()
        log("info" if voice.may_draw else "note", text)


def logged(run: Callable[[], int], written: Callable[[], Sequence[Path]]) -> int:
    """The exit code of a command; in JSON, the last line has it, and which files were
    written.
    """
    began = perf_counter()
    logger = logging.getLogger("propcal")
    lines = _Lines()
    logger.addHandler(lines)
    try:
        code = run()
    finally:
        logger.removeHandler(lines)
    if voice.as_json:
        level = "error" if code else "info"
        seconds = round(perf_counter() - began, 3)
        files = [str(path) for path in written()]
        record(level, "ended", exit_code=code, seconds=seconds, written=files)
    return code


@dataclass(frozen=True)
class Output:
    """What is printed, which files are written, and which counts they show.

    Attributes
    ----------
    format
        Print text or JSON.
    output
        Also write JSON to this file.
    html
        Write a page for any reader to this file.
    markdown
        Write a short Markdown report to this file.
    metrics
        Write OpenMetrics text, for the textfile collector of Prometheus (a name in
        .prom).
    suppress
        Protect counts of people below this in all that is printed or written; 0 shows
        everything. Default: 11 on pages and metrics, which are meant to be handed on;
        the terminal and JSON show everything
    """

    format: Literal["text", "json"] = OUTPUT.option("text|json", default="text")
    output: Path | None = OUTPUT.option("--output -o FILE")
    html: Path | None = OUTPUT.option("FILE")
    markdown: Path | None = OUTPUT.option("--md FILE")
    metrics: Path | None = OUTPUT.option("FILE")
    suppress: int | None = OUTPUT.option("N", least=0)
    force: bool = FORCE
    config: Path | None = CONFIG

    @property
    def files(self) -> dict[str, Path]:
        """The files to write, by their options."""
        named = {
            "--html": self.html,
            "--md": self.markdown,
            "--output": self.output,
            "--metrics": self.metrics,
        }
        return {flag: path for flag, path in named.items() if path is not None}

    @property
    def as_json(self) -> bool:
        """Whether JSON is printed."""
        return self.format == "json"

    def check(self, *reads: Reads) -> None:
        """Refuse files that may not be written, that are one file, or that are named
        for something else.
        """
        for path in self.files.values():
            check_file(path, *reads, self.config, force=self.force)
        for flag, path in self.files.items():
            _check_ending(flag, path)
        different = {path.resolve() for path in self.files.values()}
        if len(different) < len(self.files):
            raise InputError(f"{listed(list(self.files))} must be different files")

    def write(self, **forms: Callable[[int], str]) -> str:
        """Write the files that were asked for, all or none; returns the JSON if it is
        to be printed.

        `forms` make the text of each file, by the name of its field, with counts below
        a number protected.
        """
        content = ""
        if self.output or self.as_json:
            content = forms["output"](self.suppress or 0)
        below = FEWEST_SHOWN if self.suppress is None else self.suppress
        with outputs(force=self.force):
            write_text(f"{content}\n", self.output)
            for name in ("html", "markdown", "metrics"):
                path = getattr(self, name)
                text = "" if path is None else forms[name](below)
                write_text(text, path)
        return content

    def show(
        self, content: str, *documents: Callable[[int], Document], full: bool = True
    ) -> None:
        """Print documents, the first of them in full or in brief, and name the files;
        or print the JSON.
        """
        from propcal.render.text import text

        if self.as_json:
            typer.echo(content)
            return
        for i, document in enumerate(documents):
            in_full = full or i > 0
            draw(text(document(self.suppress or 0), full=in_full))
        if self.files:
            say(f"Written: {', '.join(map(str, self.files.values()))}")


def _check_ending(flag: str, path: Path) -> None:
    """Refuse a file that is named for something else than the option writes."""
    if flag not in LISTS["endings"]:
        return
    content, *endings = LISTS["endings"][flag]
    if not path.suffix or path.suffix.lower() in endings:
        return
    step = None
    if path.suffix == ".pdf":
        step = "Print the page from a browser to get a PDF"
    rule = f"{flag} writes {content}, so the name must end in {endings[0]}"
    raise InputError(f"{flag} {path}: {rule}", next_step=step)


def draw(shown: Any, **look: Any) -> None:
    """Print text with colours, as wide as the terminal is."""
    if not voice.quiet:
        Console(highlight=False).print(shown, **look)


def terminal() -> Console | None:
    """Standard error, if it is a terminal on which progress may be drawn."""
    console = Console(stderr=True)
    if console.is_terminal and voice.may_draw:
        return console
    return None


def check_file(path: Path | str, *reads: Reads, force: bool) -> None:
    """Refuse an output file that may not be written, or that is one of the files or
    patterns to be read.
    """
    from propcal.reading.file_source import find_files

    paths: list[Path | None] = []
    for one in reads:
        if isinstance(one, list) and one:
            paths += find_files(one)
    paths += [one for one in reads if not isinstance(one, list)]
    check_target(path, force=force, reads=paths)


@contextmanager
def first_imports() -> Iterator[None]:
    """Import large libraries without looking for garbage among their objects, which
    live until the process ends.
    """
    if "pandas" in sys.modules or not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


@contextmanager
def working(text: str) -> Iterator[Callable[[str], None]]:
    """A status line; yields a function that changes it."""
    console = terminal()
    if console is None:
        yield lambda _: None
        return
    with console.status(text) as status:
        yield status.update


@contextmanager
def progress(
    text: str, total: float = 100, *, by_parts: bool = False
) -> Iterator[Callable[[float], None] | None]:
    """A progress bar; yields a function that takes how much, or which further part, is
    done.

    Without a terminal, there is no such function.
    """
    console = terminal()
    if console is None:
        yield None
        return
    from rich import progress as rich_progress

    columns = (
        rich_progress.TextColumn("{task.description}"),
        rich_progress.BarColumn(),
        rich_progress.TaskProgressColumn(),
        rich_progress.TimeRemainingColumn(),
    )
    with rich_progress.Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(text, total=total)

        def show(done: float) -> None:
            if by_parts:
                bar.advance(task, done)
            else:
                bar.update(task, completed=done)

        yield show


@contextmanager
def warnings_as_lines() -> Iterator[None]:
    """Print each warning as one line on standard error, without Python's file names."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always", UserWarning)
        yield
    notes = [
        _note(warning.message)
        for warning in seen
        if issubclass(warning.category, UserWarning)
    ]
    for text in dict.fromkeys(notes):
        log("note", text)


def _note(warning: Warning | str) -> str:
    """The text of a warning, with options of the command line where the library wrote
    it.
    """
    text: Any = warning
    if isinstance(warning, Warning) and len(warning.args) == 1:
        text = warning.args[0]
    if isinstance(text, str):
        return with_flags(text)
    return str(warning)

"""The command line: one short function per command."""

from __future__ import annotations

import io
import os
import re
import signal
import sys
import threading
from contextlib import suppress
from errno import EDQUOT, EFBIG, EIO, ENOSPC
from importlib.metadata import EntryPoint, entry_points
from typing import Annotated, Any, Literal

import typer

from propcal import __version__
from propcal import interrupts as stopping
from propcal.cli.atoms import atoms, merge
from propcal.cli.audit import audit, discover, sites
from propcal.cli.commands_from_records import LISTS, Commands, add_command, as_flag
from propcal.cli.corrections import apply, export, fit, show
from propcal.cli.demo import demo
from propcal.cli.monitor import monitor
from propcal.cli.terminal import listen, log, logged, voice
from propcal.errors import PropcalError, TooManyUnseenError, plain, refused
from propcal.formats.transaction import forget_written, written

NO_MORE = (ENOSPC, EDQUOT, EFBIG, EIO)  # errors of a device that is full or gone
# an option that is wrong or missing: UsageError, which versions of typer keep in
# different places
WRONG_USAGE: Any = typer.BadParameter.__base__
# longer words of an error, such as a number of 5,000 digits, are cut
LONGEST_WORD = 500

ADDED = "propcal.commands"  # entry points of other distributions that add commands
PAPER = "paper"  # the command that propcal-paper adds

EVERY = (demo, audit, fit, show, apply, discover, monitor, sites, atoms, merge, export)


def _added_commands() -> dict[str, EntryPoint]:
    """The commands that other installed distributions add, by name.

    Each is a typer app, or a function that returns one.
    """
    return {entry.name: entry for entry in entry_points(group=ADDED)}


class EveryCommand(Commands):
    """The commands of propcal, then those that other distributions add.

    The latter are imported when one of them, or the list of all commands, is asked for.
    """

    def list_commands(self, ctx: Any) -> list[str]:
        """Names of all commands, in the order of the help."""
        own = super().list_commands(ctx)
        return [*own, *(name for name in _added_commands() if name not in own)]

    def get_command(self, ctx: Any, name: str) -> Any:
        """A command by its name; None if there is none."""
        own = super().get_command(ctx, name)
        if own is not None:
            return own

        entry = _added_commands().get(name)
        if entry is not None:
            added = entry.load()
            added_app = added if isinstance(added, typer.Typer) else added()
            command = typer.main.get_command(added_app)
            command.name = name
            return command
        if name == PAPER:
            raise refused("no paper")
        return None


HELP = "\n\n".join(
    [
        "Example: propcal audit visits.csv --score risk --outcome died "
        "--groups race,sex",
        "propcal finds the groups for whom a risk score is miscalibrated, and corrects "
        "the score.",
        "Start with [bold]propcal demo[/bold], or with your own data: "
        "[bold]propcal audit --help[/bold].",
        "The experiments of the paper are [bold]propcal paper[/bold], after "
        "[bold]pip install ./paper[/bold] in a copy of the repository.",
    ]
)

app = typer.Typer(
    name="propcal",
    cls=EveryCommand,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
for command in EVERY:
    add_command(app, command)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"propcal {__version__}")
        raise typer.Exit


@app.callback(help=HELP)
def options(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=_version,
            is_eager=True,
            help="Print the version and exit.",
        ),
    ] = False,
    # this and --log are taken from the command line before it is read
    quiet: Annotated[
        bool,
        typer.Option(
            "--quiet",
            help="Print errors and failed conditions only, and results as JSON.",
        ),
    ] = False,
    log: Annotated[
        str,
        typer.Option(
            metavar="text|json",
            help="How to write notes and errors, on standard error.",
        ),
    ] = "text",
) -> None:
    """Options of every command."""


def main(arguments: list[str] | None = None) -> None:
    """Run a command; an error that the user can fix is one line, with exit code 2."""
    as_program = arguments is None  # and not called from Python
    if arguments is None:
        arguments = sys.argv[1:]
        _buffer_stdout()
    stopping.forget()
    signals = _signals()
    for number in signals:
        signal.signal(number, stopping.ask)
    forget_written()
    hook = sys.unraisablehook
    # where Python could only print the exception of an interruption, print nothing: one
    # line follows
    sys.unraisablehook = lambda lost: hook(lost) if stopping.asked() is None else None
    try:
        code = logged(lambda: _run(arguments), written)
        if as_program:
            # all is done: ignore an interruption during Python's own cleanup
            for number in signals:
                signal.signal(number, signal.SIG_IGN)
    finally:
        sys.unraisablehook = hook
        stopping.forget()
    sys.exit(code)


def _buffer_stdout() -> None:
    """Give standard output a buffer if it has none, as with PYTHONUNBUFFERED: Python
    would drop what a pipe or a full disk does not take at once.
    """
    raw = getattr(sys.stdout, "buffer", None)
    if isinstance(raw, io.RawIOBase):
        buffered = io.BufferedWriter(raw)
        sys.stdout = io.TextIOWrapper(buffered, sys.stdout.encoding, sys.stdout.errors)


def _signals() -> list[signal.Signals]:
    """The signals after which a command cleans up: Ctrl-C, a scheduler's, and that of a
    closed session.
    """
    if threading.current_thread() is not threading.main_thread():
        return []
    signals = []
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        # one that is ignored stays so, as nohup asks
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
            signals.append(number)
    return signals


def _call(arguments: list[str]) -> int:
    """The exit code of a command; any error after an interruption counts as the
    interruption.
    """
    try:
        commands = [*(command.__name__ for command in EVERY), PAPER]
        rest = listen(arguments, commands) or ["--help"]
        code = app(rest, prog_name="propcal", standalone_mode=False)
        sys.stdout.flush()  # fail if the result cannot be printed
        return int(code or 0)
    except KeyboardInterrupt:  # also before typer handles it
        return 130
    except (Exception, SystemExit) as error:
        number = stopping.asked()
        if number is not None:
            return 128 + number
        if isinstance(error, SystemExit):
            # how typer ends a command: with 1 if nobody reads our output
            if error.code == 1:
                raise BrokenPipeError from None
            return int(error.code or 0)
        raise
    finally:
        stopping.finish()


def _run(arguments: list[str]) -> int:
    if sys.stdout is None:
        # as by >&-; the next file that is opened would take its place
        _tell(
            "standard output is closed; redirect it instead, for example to /dev/null"
        )
        return 2
    text = ""
    try:
        code = _call(arguments)
        if code == 130 or code - 128 == stopping.asked():
            text = _interrupted()
    except BrokenPipeError:  # the reader of our output closed it
        _give_up_stdout()
        sys.stderr.close()
        return 141
    except Exception as error:
        code, text = _ended_by(error)
    if text:
        _tell(text, "failed" if code == 1 else "error")
    return code


def _ended_by(error: Exception) -> tuple[int, str]:
    """The exit code of a command that an error ended, and the line that says why."""
    if isinstance(error, TooManyUnseenError):  # a gate, and no wrong use
        return 1, error.render(as_flag)
    if isinstance(error, WRONG_USAGE):
        text = _usage_trouble(error)
    elif isinstance(error, PropcalError):
        text = error.render(as_flag)
    elif isinstance(error, OSError):
        text = _system_trouble(error)
    elif isinstance(error, MemoryError):
        text = (
            "there is not enough memory for these files; use fewer groups, or smaller "
            "files"
        )
    elif "interrupt" in str(error).lower():  # DuckDB, in the middle of a query
        return 130, _interrupted()
    elif "PROPCAL_DEBUG" in os.environ:
        raise error
    else:  # the text is not shown: it may quote a row
        kind = type(error).__name__
        return 70, f"unexpected {kind}; PROPCAL_DEBUG=1 shows where{_so_far()}"
    return 2, " ".join(plain(word, LONGEST_WORD) for word in text.split())


def _usage_trouble(error: Any) -> str:
    """A wrong option; an unknown one with the nearest of those that exist."""
    message = str(error.format_message()).replace("Value error, ", "")
    no_command = re.match(r"No such command '(\w+)'", message)
    if no_command and no_command[1] in LISTS["elsewhere"]:
        name = no_command[1]
        return f"There is no command {name}: {LISTS['elsewhere'][name]}"
    if re.search("valid (number|float)", message):  # versions of Click differ
        return f"{message}; write 0.2 for 20 %"
    unknown = getattr(error, "option_name", None)
    if not hasattr(error, "possibilities") or unknown is None:
        return message
    nearest = ""
    if error.possibilities:
        nearest = f" Did you mean {error.possibilities[0]}?"
    return f"No such option {unknown}.{nearest}"


def _system_trouble(error: OSError) -> str:
    """An error of the operating system, while writing to standard output or to a
    file.
    """
    if error.errno in NO_MORE and error.filename is None:
        # for a file, the name would be known
        _give_up_stdout()
        return f"cannot write to standard output: {error.strerror}{_so_far()}"
    if error.errno == ENOSPC:
        step = "free some space, or use another disk"
        return f"there is no space left to write {error.filename}; {step}"
    if error.filename and error.strerror:
        return f"{error.filename}: {error.strerror}"
    return str(error)


def _give_up_stdout() -> None:
    """Discard output that could not be printed, so that Python does not try again when
    it exits.
    """
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _so_far() -> str:
    """The files that were written before the error."""
    files = ", ".join(map(str, written()))
    if files:
        return f"; these files were written nevertheless: {files}"
    return ""


def _interrupted() -> str:
    """Whether an interrupted command wrote its files, or what it says itself."""
    if voice.interrupted:
        return f"interrupted; {voice.interrupted}"
    files = ", ".join(map(str, written()))
    if files:
        return f"interrupted after all files were written: {files}"
    return "interrupted; no file was changed"


def _tell(text: str, kind: Literal["failed", "error"] = "error") -> None:
    """Print one line on standard error, if it is still open."""
    with suppress(OSError):
        log(kind, text)

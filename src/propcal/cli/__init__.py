"""The command line: one short function per command."""

from __future__ import annotations

import os
import signal
import sys
import threading
from contextlib import suppress
from errno import EDQUOT, EFBIG, EIO, ENOSPC
from typing import Annotated

import typer

from propcal import __version__
from propcal import interrupts as stopping
from propcal.cli.apply import apply
from propcal.cli.atoms import atoms, merge
from propcal.cli.audit import audit
from propcal.cli.demo import demo
from propcal.cli.export import export
from propcal.cli.fit import fit
from propcal.cli.flags import as_flag
from propcal.cli.paper import app as paper
from propcal.errors import PropcalError
from propcal.output.files.transaction import forget_written, written
from propcal.plain_text import plain

NO_MORE = (ENOSPC, EDQUOT, EFBIG, EIO)  # what a device says that takes nothing more
LONGEST_WORD = 500  # of an error: whoever gives a number of 5,000 digits need not see them again

app = typer.Typer(
    name="propcal",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
for command in (demo, audit, fit, apply, atoms, merge, export):
    app.command()(command)
app.add_typer(paper)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"propcal {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit."),
    ] = False,
) -> None:
    """For whom is a risk score wrong, and how is it put right?

    Start with [bold]propcal demo[/bold]; with data of your own, with [bold]propcal audit --help[/bold].
    """


def main(arguments: list[str] | None = None) -> None:
    """Run a command; what a user can mend is told in one line and ends with exit code 2."""
    alone = arguments is None  # a process of its own, not a call within another
    arguments = sys.argv[1:] if arguments is None else arguments
    if threading.current_thread() is threading.main_thread():
        # Ctrl-C, a scheduler or a closed session: clean up before the end
        for number in [getattr(signal, name, None) for name in ("SIGINT", "SIGTERM", "SIGHUP")]:
            if number is not None and signal.getsignal(number) is not signal.SIG_IGN:  # as nohup asks
                signal.signal(number, stopping.ask)
    stopping.forget()
    forget_written()
    hook = sys.unraisablehook
    # the exception of a stop may get lost where Python can only print it: one line is told, no trace
    sys.unraisablehook = lambda lost: hook(lost) if stopping.asked() is None else None
    try:
        code = _run(arguments or ["--help"])
    finally:
        sys.unraisablehook = hook
        stopping.forget()
    if alone and signal.getsignal(signal.SIGTERM) is stopping.ask:
        # all is done: a stop while Python tidies up comes too late
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(code)


def _call(arguments: list[str]) -> int:
    """The exit code of a command; whatever goes wrong after a stop was asked for is that stop."""
    try:
        code = int(app(arguments, prog_name="propcal", standalone_mode=False) or 0)
        sys.stdout.flush()  # a result that cannot be printed is no success
        return code
    except KeyboardInterrupt:  # also before typer looks out for it
        return 130
    except (Exception, stopping.Stopped):
        number = stopping.asked()
        if number is None:
            raise
        return 128 + number


def _run(arguments: list[str]) -> int:
    try:
        code = _call(arguments)
    except typer.TyperException as error:  # an option that is wrong or missing
        trouble = _usage_trouble(error)
    except PropcalError as error:
        trouble = error.render(as_flag)
    except BrokenPipeError:  # whoever reads our output has enough of it
        _give_up_stdout()
        sys.stderr.close()
        return 141
    except OSError as error:
        trouble = _system_trouble(error)
    except MemoryError:
        trouble = "there is not enough memory for this file; name fewer groups, or split the file"
    except Exception as error:
        if "interrupt" in str(error).lower():  # DuckDB, in the middle of a query
            code = 130
        elif "PROPCAL_DEBUG" in os.environ:
            raise
        else:  # not even the text: it may quote a row
            _tell(f"unexpected {type(error).__name__}; PROPCAL_DEBUG=1 shows where{_so_far()}")
            return 70
        _tell(_interrupted())
        return code
    else:
        if code == 130 or code - 128 == stopping.asked():
            _tell(_interrupted())
        return code
    _tell(" ".join(plain(word, LONGEST_WORD) for word in trouble.split()))
    return 2


def _usage_trouble(error: typer.TyperException) -> str:
    """A wrong option; an unknown one with the nearest of those that exist."""
    unknown = getattr(error, "option_name", None)
    if not hasattr(error, "possibilities") or unknown is None:
        return error.format_message()
    nearest = f" Did you mean {error.possibilities[0]}?" if error.possibilities else ""
    return f"No such option {unknown}.{nearest}"


def _system_trouble(error: OSError) -> str:
    """What the operating system refused: to write to standard output, or a file."""
    if error.errno in NO_MORE and error.filename is None:  # of files the name is known
        _give_up_stdout()
        return f"cannot write to standard output: {error.strerror}{_so_far()}"
    if error.errno == ENOSPC:
        return "there is no space left to write the file; free some, or name a file on another disk"
    return f"{error.filename}: {error.strerror}" if error.filename and error.strerror else str(error)


def _give_up_stdout() -> None:
    """Let what could not be printed go nowhere, so that Python does not try again at its end."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _so_far() -> str:
    """What was written before something went wrong."""
    files = ", ".join(map(str, written()))
    return f"; the files were written all the same: {files}" if files else ""


def _interrupted() -> str:
    """What became of the files of a command that was stopped."""
    files = ", ".join(map(str, written()))
    return (
        f"interrupted after all files were written: {files}"
        if files
        else "interrupted; files are as they were"
    )


def _tell(text: str) -> None:
    """One line on standard error, as long as there is one."""
    with suppress(OSError):
        typer.echo(f"propcal: {text}", err=True)

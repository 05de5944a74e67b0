"""The command line: one short function per command."""

from __future__ import annotations

import os
import signal
import sys
import threading
from errno import ENOSPC
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
        return int(app(arguments, prog_name="propcal", standalone_mode=False) or 0)
    except (Exception, stopping.Stopped):
        number = stopping.asked()
        if number is None:
            raise
        return 128 + number


def _run(arguments: list[str]) -> int:
    try:
        code = _call(arguments)
    except typer.TyperException as error:  # an option that is wrong or missing
        trouble = error.format_message()
    except PropcalError as error:
        trouble = error.render(as_flag)
    except BrokenPipeError:  # whoever reads our output has enough of it
        sys.stderr.close()
        return 141
    except OSError as error:
        trouble = f"{error.filename}: {error.strerror}" if error.filename and error.strerror else str(error)
        if error.errno == ENOSPC:
            trouble = "there is no space left to write the file; free some, or name a file on another disk"
    except MemoryError:
        trouble = "there is not enough memory for this file; name fewer groups, or split the file"
    except Exception as error:
        if "interrupt" in str(error).lower():  # DuckDB, in the middle of a query
            code = 130
        elif "PROPCAL_DEBUG" in os.environ:
            raise
        else:  # not even the text: it may quote a row
            typer.echo(f"propcal: unexpected {type(error).__name__}; PROPCAL_DEBUG=1 shows where", err=True)
            return 70
        typer.echo("propcal: interrupted; files are as they were", err=True)
        return code
    else:
        if code == 130 or code - 128 == stopping.asked():
            typer.echo("propcal: interrupted; files are as they were", err=True)
        return code
    typer.echo(f"propcal: {' '.join(trouble.split())}", err=True)
    return 2

"""The command line: one short function per command."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from propcal import __version__
from propcal.cli.demo import demo
from propcal.errors import FileFormatError, InputError

app = typer.Typer(
    name="propcal",
    help="For whom is a risk score wrong, and how is it put right?",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
app.command()(demo)


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

    Start with [bold]propcal demo[/bold].
    """


def main() -> None:
    """Run a command; what a user can mend is told in one line and ends with exit code 2."""
    try:
        app()
    except (InputError, FileFormatError, OSError) as error:
        typer.echo(f"propcal: {error}", err=True)
        sys.exit(2)

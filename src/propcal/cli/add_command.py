"""Adds a function to an app as a command whose help begins with an example."""

from __future__ import annotations

from collections.abc import Callable
from inspect import cleandoc
from typing import Any

import typer


def add_command(app: typer.Typer, command: Callable[..., Any]) -> None:
    """Add a command; its help is its docstring, with the first of its examples moved to the top."""
    text = cleandoc(command.__doc__ or "")
    about, _, examples = text.partition("\n\nFor example:\n\n")
    first, _, others = examples.partition("\n\n")
    parts = [f"Example: {' '.join(first.split())}", about, f"More examples:\n\n{others}" if others else ""]
    app.command(help="\n\n".join(filter(None, parts)), short_help=text.split("\n")[0])(command)

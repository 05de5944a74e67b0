"""``propcal paper``: the paper's tables and figures, one command each."""

from __future__ import annotations

import typer

from propcal.cli.options import Commands, add_command
from propcal.cli.paper import result_commands as show
from propcal.cli.paper.run_commands import admissions, all_, experiment

HELP = "Reproduce the paper's tables and figures."
app = typer.Typer(name="paper", cls=Commands, no_args_is_help=True, help=HELP, rich_markup_mode="rich")
before = (show.simulation, show.theory, show.cohort)
after = (show.tables, show.figures, show.reproduction, show.benefit)
for command in (*before, admissions, experiment, *after, all_):
    add_command(app, command)

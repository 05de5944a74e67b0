"""``propcal paper``: the paper's tables and figures, one command each."""

from __future__ import annotations

import typer

from propcal.cli.add_command import add_command
from propcal.cli.paper.admissions import admissions
from propcal.cli.paper.benefit_command import benefit
from propcal.cli.paper.cohort import cohort
from propcal.cli.paper.experiment_command import experiment
from propcal.cli.paper.results import figures, reproduction, tables
from propcal.cli.paper.simulation import simulation
from propcal.cli.paper.theory import theory

app = typer.Typer(
    name="paper",
    no_args_is_help=True,
    help="Reproduce the paper's tables and figures.",
    rich_markup_mode="rich",
)
for command in (simulation, theory, cohort, admissions, experiment, tables, figures, reproduction, benefit):
    add_command(app, command)

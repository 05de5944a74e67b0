"""``propcal paper admissions``: the hospital-admission experiment."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from propcal.cli.paper.running import Jobs, Scheduler, SetupName, run_experiment
from propcal.paper.experiment.settings import MODELS, N_SEEDS


def admissions(
    cohort: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Visits from propcal paper cohort. [dim]Default: generated visits, no patients[/dim]",
        ),
    ] = None,
    trials: Annotated[int, typer.Option(min=1, help="Shuffles of the visits.")] = N_SEEDS,
    rows: Annotated[
        int | None, typer.Option(metavar="N", help="Number of visits to use. [dim]Default: all[/dim]")
    ] = None,
    models: Annotated[str, typer.Option(metavar="NAMES", help="Base models.")] = ",".join(MODELS),
    setup: SetupName = "printed",
    jobs: Jobs = None,
    scheduler: Scheduler = None,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="Store of the trials.")
    ] = Path("admissions.sqlite"),
) -> None:
    """Run the hospital-admission experiment, or continue it.

    For each shuffle of the visits trains LR, RF and DNN, post-processes
    each with MCBoost and PMCBoost with every setting of Table 3, and stores
    what comes out on the test set. An existing store is extended: you can
    stop at any time and resume with the same command.

    For example:

      propcal paper admissions --trials 3 -o admissions.sqlite

      propcal paper admissions --setup public --cohort cohort.parquet
    """
    from propcal.paper.experiment.experiment import Experiment

    run_experiment(Experiment(output, cohort, trials, rows, models.split(","), setup=setup), jobs, scheduler)

"""``propcal paper experiment``: the paper's experiment on any cohort file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from propcal.cli import options as o
from propcal.cli.paper.running import Jobs, Scheduler, SetupName, run_experiment
from propcal.paper.experiment.settings import MODELS, N_SEEDS


def experiment(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="The cohort: CSV or Parquet, a row for each stay.")
    ],
    outcome: Annotated[str, typer.Option(metavar="COLUMN", help="Column of the event.")],
    groups: Annotated[
        list[str],
        typer.Option(
            metavar="NAMES",
            help="Columns that define the groups, such as race,gender; repeat it for a second grouping.",
        ),
    ],
    features: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAMES",
            help="Columns that the base models use. [dim]Default: all but the outcome and the cluster[/dim]",
        ),
    ] = None,
    text: Annotated[
        list[str] | None,
        typer.Option(metavar="NAMES", help="Features that are free text, used by their frequent words."),
    ] = None,
    cluster: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Patient ID, if patients recur: splits are then by patient."),
    ] = None,
    positive: Annotated[
        str | None, typer.Option(metavar="VALUE", help="Value of the outcome that means the event.")
    ] = None,
    na: Annotated[
        list[str] | None, typer.Option(metavar="TEXT", help="Text that means a missing value in a CSV file.")
    ] = None,
    trials: Annotated[int, typer.Option(min=1, help="Shuffles of the data.")] = N_SEEDS,
    rows: Annotated[
        int | None, typer.Option(metavar="N", help="Number of rows to use. [dim]Default: all[/dim]")
    ] = None,
    models: Annotated[str, typer.Option(metavar="NAMES", help="Base models.")] = ",".join(MODELS),
    setup: SetupName = "public",
    unit: Annotated[str, typer.Option(metavar="NOUN", help="What a row is, in the plural.")] = "stays",
    jobs: Jobs = None,
    scheduler: Scheduler = None,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="Store of the trials.")
    ] = Path("experiment.sqlite"),
) -> None:
    """Run the paper's experiment on a cohort of your own.

    Trains LR, RF and DNN on each shuffle, post-processes each with MCBoost
    and PMCBoost with every setting of Table 3 and with propcal's default
    method, and stores what comes out on the test set. Features that are
    text become levels, others numbers. Then propcal paper tables, figures,
    reproduction and benefit read the store.

    For example:

      propcal paper experiment stays.parquet --outcome readmitted
      --groups race,gender --groups age_band,payer --cluster patient -o stays.sqlite
    """
    from propcal.paper.experiment.choose_columns import cohort_file
    from propcal.paper.experiment.experiment import Experiment

    cohort = cohort_file(
        file,
        outcome=outcome,
        groups=[o.names([names]) for names in groups],
        features=o.names(features, "--features") if features else (),
        text=o.names(text, "--text") if text else (),
        cluster=cluster,
        positive=positive,
        na=na or (),
        rows=rows,
        unit=unit,
    )
    run_experiment(Experiment(output, cohort, trials, models=models.split(","), setup=setup), jobs, scheduler)

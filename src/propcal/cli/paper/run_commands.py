"""``propcal paper admissions`` and ``experiment``: run trials, show progress, and go on after a stop."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shlex import quote
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from propcal.cli import texts as o
from propcal.cli.log import echo, say, voice
from propcal.cli.paper.folder import option
from propcal.cli.screen import working
from propcal.errors import refused
from propcal.extras import how_to_install
from propcal.files.transaction import new_folders
from propcal.interrupts import Stopped
from propcal.numbers import plural
from propcal.paper.settings import GRIDS, MODELS, N_SEEDS, SETUPS, SURROGATES

if TYPE_CHECKING:
    from propcal.paper.experiment import Experiment
    from propcal.paper.trials import Unit

ALL_MODELS = ",".join(MODELS)
SETUP = (
    "As the paper describes it; with post-processing on half of the training data, in steps of 0.25; or as "
    "the paper's public code does it."
)
SURROGATE = "How easily the admission of simulated visits is predicted; calibrated: as LR and RF do in MIMIC."
GRID = "The settings of Table 3, or alpha by the smallest cell that is corrected."
SPLIT = "Whether all visits of a patient are in the same part of a split."
GROUPS = "Columns that define the groups, such as race,gender; repeat it for a second grouping."
FEATURES = "Columns that the base models use. [dim]Default: all but the outcome and the cluster[/dim]"
COHORT = "The cohort: CSV or Parquet, a row for each stay."
TEXT = "Features that are free text, used by their frequent words."
CLUSTER = "Patient ID, if patients recur: splits are then by patient."
VISITS = "Visits from propcal paper cohort. [dim]Default: generated visits, no patients[/dim]"
Trials = Annotated[int, option("Shuffles of the data.", min=1)]
Rows = Annotated[int | None, option("Number of rows to use. [dim]Default: all[/dim]", "N")]
Models = Annotated[str, option("Base models.", "NAMES")]
SetupName = Annotated[str, option(SETUP, "|".join(SETUPS), "--setup")]
Grid = Annotated[str, option(GRID, "|".join(GRIDS), "--grid")]
Split = Annotated[str, option(SPLIT, "visit|patient", "--split")]
Jobs = Annotated[int | None, option("Processes at once. [dim]Default: one for each core[/dim]", min=1)]
Scheduler = Annotated[str | None, option("A Dask scheduler to run on, such as tcp://host:8786.", "ADDRESS")]
StoreFile = Annotated[Path, option("Store of the trials.", "FILE", "--output", "-o")]


def admissions(
    cohort: Annotated[Path | None, option(VISITS, "FILE")] = None,
    trials: Trials = N_SEEDS,
    rows: Rows = None,
    models: Models = ALL_MODELS,
    setup: SetupName = "printed",
    surrogate: Annotated[str, option(SURROGATE, "|".join(SURROGATES))] = "calibrated",
    grid: Grid = GRIDS[0],
    split: Split = "visit",
    jobs: Jobs = None,
    scheduler: Scheduler = None,
    output: StoreFile = Path("admissions.sqlite"),
) -> None:
    """Run the hospital-admission experiment, or continue it.

    For each shuffle of the visits trains LR, RF and DNN, post-processes
    each with MCBoost and PMCBoost with every setting of Table 3, and stores
    what comes out on the test set. An existing store is extended: you can
    stop at any time and resume with the same command.

    For example:

      propcal paper admissions --trials 3 -o admissions.sqlite

      propcal paper admissions --setup authors-code --cohort cohort.parquet
    """
    from propcal.paper.experiment import Experiment

    how: Any = {"setup": setup, "surrogate": surrogate, "grid": grid, "split": split}
    _run_experiment(Experiment(output, cohort, trials, rows, models.split(","), **how), jobs, scheduler)


def all_(
    mimic_iv: Annotated[Path, option("Folder of MIMIC-IV (core/ or hosp/).", "FOLDER")],
    mimic_iv_ed: Annotated[Path, option("Folder of MIMIC-IV-ED (ed/).", "FOLDER")],
    output: Annotated[Path, option("Folder for everything.", "FOLDER", "--output", "-o")],
    shuffles: Trials = N_SEEDS,
    models: Models = ALL_MODELS,
    split: Split = "visit",
    jobs: Jobs = None,
) -> None:
    """From the files of MIMIC to the tables, figures and pages.

    Makes the cohort by both rules, runs the experiment in every set-up, and
    writes a page for each, with all tables and figures beside it. The same
    command goes on after a stop; finished parts are not repeated.

    For example:

      propcal paper all --mimic-iv mimiciv/1.0 --mimic-iv-ed mimic-iv-ed/1.0 -o paper
    """
    from propcal.cli.paper import result_commands as make
    from propcal.paper.experiment import Experiment
    from propcal.paper.mimic_cohort import RULES

    folders = list(dict.fromkeys([mimic_iv_ed, mimic_iv]))
    with new_folders(output):
        for rule in RULES:
            visits = output / f"cohort-{rule}.parquet"
            if not visits.exists():
                make.cohort(folders, visits, rule)
            for setup in SETUPS:
                store = output / f"{rule}-{setup}.sqlite"
                page = store.with_suffix("") / "reproduction.md"
                echo(f"\nCohort by the rule {rule}, set-up {setup}")
                how: Any = {"models": models.split(","), "setup": setup, "split": split}
                _run_experiment(Experiment(store, visits, shuffles, **how), jobs, None)
                beside = page.parent / "images", page.parent / "tables"
                make.reproduction(store, page, *beside, visits, force=True)


def experiment(
    file: Annotated[Path, typer.Argument(metavar="FILE", help=COHORT)],
    outcome: Annotated[str, option("Column of the event.", "COLUMN")],
    groups: Annotated[list[str], option(GROUPS, "NAMES")],
    features: Annotated[list[str] | None, option(FEATURES, "NAMES")] = None,
    text: Annotated[list[str] | None, option(TEXT, "NAMES")] = None,
    cluster: Annotated[str | None, option(CLUSTER, "COLUMN")] = None,
    positive: Annotated[str | None, option("Value of the outcome that means the event.", "VALUE")] = None,
    na: Annotated[list[str] | None, option("Text that means a missing value in a CSV file.", "TEXT")] = None,
    trials: Trials = N_SEEDS,
    rows: Rows = None,
    models: Models = ALL_MODELS,
    setup: SetupName = "held-out",
    grid: Grid = GRIDS[0],
    unit: Annotated[str, option("What a row is, in the plural.", "NOUN")] = "stays",
    jobs: Jobs = None,
    scheduler: Scheduler = None,
    output: StoreFile = Path("experiment.sqlite"),
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
    from propcal.paper.cohort_files import cohort_file
    from propcal.paper.experiment import Experiment

    columns: Any = {"outcome": outcome, "groups": [o.names([names]) for names in groups], "cluster": cluster}
    columns["features"] = o.names(features, "--features") if features else ()
    columns["text"] = o.names(text, "--text") if text else ()
    cohort = cohort_file(file, **columns, positive=positive, na=na or (), rows=rows, unit=unit)
    how: Any = {"models": models.split(","), "setup": setup, "grid": grid}
    _run_experiment(Experiment(output, cohort, trials, **how), jobs, scheduler)


def _run_experiment(experiment: Experiment, jobs: int | None, scheduler: str | None) -> None:
    """Run what is left of an experiment, here or on a cluster."""
    from joblib import cpu_count

    if scheduler is not None and jobs is not None:
        raise refused("paper jobs")
    with _cluster(scheduler):  # before the store is made: nothing is left behind if nobody answers
        _run(experiment, None if scheduler else jobs or cpu_count())
    path = quote(str(experiment.path))
    say(f"Tables and figures of it: propcal paper tables {path}; propcal paper figures {path}")


@contextmanager
def _cluster(scheduler: str | None) -> Iterator[Any]:
    """Workers of a Dask cluster, or processes of this machine."""
    if scheduler is None:
        yield
        return
    try:
        from distributed import Client
    except ImportError:
        raise refused("paper needs", what="--scheduler needs Dask", how=how_to_install("dask")) from None
    from joblib import parallel_config

    try:
        client: Any = Client(scheduler, timeout=10)  # type: ignore[no-untyped-call]
    except (OSError, ValueError) as error:
        raise refused("paper scheduler", scheduler=scheduler, error=error) from None
    with client, parallel_config(backend="dask"):
        yield


def _run(experiment: Experiment, jobs: int | None) -> None:
    """Run what is left, and show how far it is: a status line on a terminal, lines in a log."""
    units = experiment.units()
    total, left = experiment.n_trials, sum(len(unit.settings) for unit in units)
    echo(_begin(experiment, left))
    if not units:
        return
    for note in experiment.notes():
        say(f"propcal: note: {note}", err=True)
    began, n_units, trials = perf_counter(), 0, total - left
    with working("Running trials...") as status:

        def told(unit: Unit) -> None:
            nonlocal n_units, trials
            n_units, trials = n_units + 1, trials + len(unit.settings)
            minutes = (perf_counter() - began) / n_units * (len(units) - n_units) / 60
            done = f"{trials:,} of {total:,} trials are done, about {minutes:.0f} min left"
            line = f"{unit.model}, shuffle {unit.seed + 1}: {done}"
            if Console(stderr=True).is_terminal and voice.may_draw:
                status(line)
            else:
                say(line, err=True)

        try:
            experiment.run(jobs=jobs, told=told)
        except (KeyboardInterrupt, Stopped) as stop:
            stored = f"{len(experiment.store.done()):,} trials are in {experiment.path}"
            say(f"propcal: interrupted; {stored}, and the same command goes on", err=True)
            raise SystemExit(stop.code if isinstance(stop, Stopped) else 130) from None


def _begin(experiment: Experiment, left: int) -> str:
    """How much there is, and how much of it is done."""
    n, plan = experiment.n_trials, experiment.plan
    models = f"{plural(len(experiment.models), 'base model')} ({', '.join(experiment.models)})"
    parts = [plural(experiment.trials, "shuffle"), models, plural(len(experiment.settings), "setting")]
    rows = f"{len(experiment.visits.frame):,} {plan.columns.unit} ({experiment.store.about['cohort']})"
    what = f"{n:,} trials: {' x '.join(parts)}, on {rows}.\nSet-up {plan.setup.name}: {plan.setup.in_words()}"
    some = f"{n - left:,} are in {experiment.path} already, {left:,} are to be run."
    return f"{what}\n{some if left else f'All are in {experiment.path} already.'}"

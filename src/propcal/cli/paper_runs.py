"""``propcal paper admissions``, ``experiment`` and ``all``: run trials, and go on after a stop."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from shlex import quote
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from propcal.cli import paper_results
from propcal.cli.commands_from_records import Only, Without
from propcal.cli.screen import echo, say, terminal, voice, working
from propcal.cli.texts import names
from propcal.core.arguments import check_choice
from propcal.errors import refused
from propcal.extras import how_to_install
from propcal.files.transaction import new_folders
from propcal.numbers import plural
from propcal.option_records import DATA, GROUPS, METHOD, OUTPUT, Roles
from propcal.paper.settings import GRIDS, MODELS, N_SEEDS, SETUPS, SURROGATES

if TYPE_CHECKING:
    from propcal.paper.experiment import Experiment
    from propcal.paper.trials import Unit

COHORT = "The cohort: CSV or Parquet, a row for each stay."
HELD_OUT = METHOD.option("|".join(SETUPS), default="held-out")
SHUFFLES = METHOD.option("--shuffles N", default=N_SEEDS, least=1)


@dataclass(frozen=True)
class Trials:
    """Which trials are run, and where.

    Attributes
    ----------
    trials
        Shuffles of the data.
    rows
        Number of rows to use. Default: all
    models
        Base models.
    setup
        As the paper describes it; with post-processing on half of the training data, in steps of 0.25; or as
        the paper's public code does it.
    grid
        The settings of Table 3, or alpha by the smallest cell that is corrected.
    split
        Whether all visits of a patient are in the same part of a split.
    jobs
        Processes at once. Default: one for each core
    scheduler
        A Dask scheduler to run on, such as tcp://host:8786.
    """

    trials: int = METHOD.option("N", default=N_SEEDS, least=1)
    rows: int | None = DATA.option("N")
    models: str = METHOD.option("NAMES", default=",".join(MODELS))
    setup: str = METHOD.option("|".join(SETUPS), default="printed")
    grid: str = METHOD.option("|".join(GRIDS), default=GRIDS[0])
    split: str = METHOD.option("visit|patient", default="visit")
    jobs: int | None = OUTPUT.option("N", least=1)
    scheduler: str | None = OUTPUT.option("ADDRESS")

    def run(self, store: Path, cohort: Any, **how: Any) -> None:
        """Run what is left of an experiment, here or on a cluster."""
        from joblib import cpu_count

        from propcal.paper.experiment import Experiment

        how |= {"setup": self.setup, "grid": self.grid, "split": self.split}
        experiment = Experiment(store, cohort, self.trials, self.rows, self.models.split(","), **how)
        if self.scheduler is not None and self.jobs is not None:
            raise refused("paper jobs")
        with _cluster(self.scheduler):  # before the store is made: nothing is left behind if nobody answers
            run_trials(experiment, None if self.scheduler else self.jobs or cpu_count())
        path = quote(str(store))
        say(f"Tables and figures of it: propcal paper tables {path}; propcal paper figures {path}")


def admissions(
    trials: Trials,
    cohort: Path | None = DATA.option("FILE"),
    surrogate: str = METHOD.option("|".join(SURROGATES), default="calibrated"),
    output: Path = OUTPUT.option("--output -o FILE", default=Path("admissions.sqlite")),
) -> None:
    """Run the hospital-admission experiment, or continue it.

    For each shuffle of the visits trains LR, RF and DNN, post-processes
    each with MCBoost and PMCBoost with every setting of Table 3, and stores
    what comes out on the test set. An existing store is extended: you can
    stop at any time and resume with the same command.

    For example:

      propcal paper admissions --trials 3 -o admissions.sqlite

      propcal paper admissions --setup authors-code --cohort cohort.parquet

    Parameters
    ----------
    cohort
        Visits from propcal paper cohort. Default: generated visits, no patients
    surrogate
        How easily the admission of simulated visits is predicted; calibrated: as LR and RF do in MIMIC.
    output
        Store of the trials.
    """
    trials.run(output, cohort, surrogate=surrogate)


def all_(
    trials: Annotated[Trials, Only("models", "split", "jobs", trials=SHUFFLES)],
    mimic_iv: Path = DATA.required("FOLDER"),
    mimic_iv_ed: Path = DATA.required("FOLDER"),
    output: Path = OUTPUT.required("--output -o FOLDER"),
) -> None:
    """From the files of MIMIC to the tables, figures and pages.

    Makes the cohort by both rules, runs the experiment in every set-up, and
    writes a page for each, with all tables and figures beside it, and one
    page with all verdicts side by side. The same command goes on after a
    stop; finished parts are not repeated.

    For example:

      propcal paper all --mimic-iv mimiciv/1.0 --mimic-iv-ed mimic-iv-ed/1.0 -o paper

    Parameters
    ----------
    mimic_iv
        Folder of MIMIC-IV (core/ or hosp/).
    mimic_iv_ed
        Folder of MIMIC-IV-ED (ed/).
    output
        Folder for everything.
    """
    from pyarrow.parquet import read_table

    from propcal.paper.base_models import check_models
    from propcal.paper.experiment import SPLITS
    from propcal.paper.figure_parts import new_figure
    from propcal.paper.mimic_cohort import RULES, mimic_cohort

    check_choice("split", trials.split, tuple(SPLITS))  # first of all: the trials take time
    check_models(trials.models.split(","))
    new_figure(1, 1)
    if output.exists() and not output.is_dir():
        raise refused("paper output", folder=output)
    folders, stores = list(dict.fromkeys([mimic_iv_ed, mimic_iv])), dict[Path, Path]()
    voice.interrupted = "what is finished stays, and the same command goes on"
    with new_folders(output):
        for rule in RULES:
            visits = output / f"cohort-{rule}.parquet"
            if not visits.exists():
                paper_results.cohort(folders, visits, rule, force=False)
            elif not mimic_cohort(*folders, rule=rule).table.equals(read_table(visits)):
                raise refused("paper other cohort", path=visits)
            for setup in SETUPS:
                store = output / f"{rule}-{setup}.sqlite"
                echo(f"\nCohort by the rule {rule}, set-up {setup}")
                replace(trials, setup=setup).run(store, visits)
                _page(store.with_suffix(""), store, visits)
                stores[store] = visits
        echo("\nAll of them side by side")
        first, *others = stores
        _page(output, first, stores[first], others)


def _page(folder: Path, store: Path, visits: Path, others: list[Path] | None = None) -> None:
    """The page of a store with everything beside it, and the verdicts of other stores."""
    page, beside = folder / "reproduction.md", (folder / "images", folder / "tables")
    paper_results.reproduction(store, page, *beside, visits, others, "", force=True)


def experiment(
    file: Annotated[Path, typer.Argument(metavar="FILE", help=COHORT)],
    roles: Annotated[Roles, Only("cluster", "positive", "na")],
    trials: Annotated[Trials, Without("split", setup=HELD_OUT)],
    outcome: str = DATA.required("COLUMN"),
    groups: list[str] = GROUPS.required("NAMES"),
    features: list[str] | None = DATA.option("COLUMNS"),
    text: list[str] | None = DATA.option("COLUMNS"),
    unit: str = OUTPUT.option("NOUN", default="stays"),
    output: Path = OUTPUT.option("--output -o FILE", default=Path("experiment.sqlite")),
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

    Parameters
    ----------
    outcome
        Column of the event.
    groups
        Columns that define the groups, such as race,gender; repeat it for a second grouping.
    features
        Columns that the base models use. Default: all but the outcome and the cluster
    text
        Features that are free text, used by their frequent words.
    unit
        What a row is, in the plural.
    output
        Store of the trials.
    """
    from propcal.paper.cohort_files import cohort_file

    columns: Any = {"outcome": outcome, "groups": [names([texts]) for texts in groups], "unit": unit}
    columns |= {"features": features or (), "text": text or (), "na": roles.na or ()}
    cohort = cohort_file(file, cluster=roles.cluster, positive=roles.positive, rows=trials.rows, **columns)
    replace(trials, rows=None).run(output, cohort)


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


def run_trials(experiment: Experiment, jobs: int | None) -> None:
    """Run what is left, and show how far it is: a status line on a terminal, lines in a log."""
    units = experiment.units()
    total, left = experiment.n_trials, sum(len(unit.settings) for unit in units)
    echo(_begin(experiment, left))
    if not units:
        return
    for note in experiment.notes():
        say(f"propcal: note: {note}", err=True)
    began, n_units, trials = perf_counter(), 0, total - left
    there = f"trials are in {experiment.path}, and the same command goes on"
    with working("Running trials...") as status:

        def told(unit: Unit) -> None:
            nonlocal n_units, trials
            n_units, trials = n_units + 1, trials + len(unit.settings)
            voice.interrupted = f"{trials:,} {there}"
            minutes = (perf_counter() - began) / n_units * (len(units) - n_units) / 60
            done = f"{trials:,} of {total:,} trials are done, about {minutes:.0f} min left"
            line = f"{unit.model}, shuffle {unit.seed + 1}: {done}"
            if terminal():
                status(line)
            else:
                say(line, err=True)

        voice.interrupted = f"{trials:,} {there}"
        experiment.run(jobs=jobs, told=told)


def _begin(experiment: Experiment, left: int) -> str:
    """How much there is, and how much of it is done."""
    n, plan = experiment.n_trials, experiment.plan
    models = f"{plural(len(experiment.models), 'base model')} ({', '.join(experiment.models)})"
    parts = [plural(experiment.trials, "shuffle"), models, plural(len(experiment.settings), "setting")]
    rows = f"{len(experiment.visits.frame):,} {plan.columns.unit} ({experiment.store.about['cohort']})"
    what = f"{n:,} trials: {' x '.join(parts)}, on {rows}.\nSet-up {plan.setup.name}: {plan.setup.in_words()}"
    some = f"{n - left:,} are in {experiment.path} already, {left:,} are to be run."
    return f"{what}\n{some if left else f'All are in {experiment.path} already.'}"

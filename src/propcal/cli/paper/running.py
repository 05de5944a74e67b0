"""Runs an experiment from the command line: how much there is, progress, and how to go on after a stop."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from shlex import quote
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from propcal.cli.screen import say
from propcal.errors import InputError
from propcal.extras import how_to_install
from propcal.interrupts import Stopped
from propcal.numbers import plural

if TYPE_CHECKING:
    from propcal.paper.experiment.experiment import Experiment
    from propcal.paper.experiment.trials import Unit

Jobs = Annotated[
    int | None, typer.Option(min=1, help="Processes at once. [dim]Default: one for each core[/dim]")
]
Scheduler = Annotated[
    str | None,
    typer.Option(metavar="ADDRESS", help="A Dask scheduler to run on, such as tcp://host:8786."),
]
SetupName = Annotated[
    str,
    typer.Option(
        "--setup",
        metavar="printed|public",
        help="As the paper describes it, or with the settings of its public code: post-processing on half of "
        "the training data, with steps of 0.25.",
    ),
]


def run_experiment(experiment: Experiment, jobs: int | None, scheduler: str | None) -> None:
    """Run what is left of an experiment, here or on a cluster."""
    from joblib import cpu_count

    if scheduler is not None and jobs is not None:
        raise InputError(
            "--jobs: the workers of the --scheduler say how many run at once",
            argument="--jobs",
            next_step="leave it out",
        )
    with _cluster(scheduler):  # before the store is made: nothing is left behind if nobody answers
        _run(experiment, None if scheduler else jobs or cpu_count())
    path = quote(str(experiment.path))
    say(f"Tables and figures of it: propcal paper tables {path}; propcal paper figures {path}")


def _run(experiment: Experiment, jobs: int | None) -> None:
    """Do what is left to do, and say how it goes."""
    from propcal.paper.experiment.visits import FEW

    units = experiment.units()
    left = sum(len(unit.settings) for unit in units)
    typer.echo(_begin(experiment, left))
    if not units:
        return
    notes = list(experiment.visits.notes)
    n_visits = len(experiment.visits.frame)
    if n_visits < FEW:
        notes.append(
            f"on {n_visits:,} {experiment.plan.columns.unit} nothing can be judged, as most groups have a "
            "handful of people; this shows that the commands run"
        )
    for note in notes:
        say(f"propcal: note: {note}", err=True)
    with _progress(len(units), left, experiment.n_trials) as told:
        try:
            experiment.run(jobs=jobs, told=told)
        except (KeyboardInterrupt, Stopped) as stop:
            stored = len(experiment.store.done())
            typer.echo(
                f"propcal: interrupted; {stored:,} trials are in {experiment.path}, and the same command "
                "goes on",
                err=True,
            )
            raise SystemExit(stop.code if isinstance(stop, Stopped) else 130) from None


def _begin(experiment: Experiment, left: int) -> str:
    """How much there is, and how much of it is done."""
    n, about = experiment.n_trials, experiment.store.about
    plan = experiment.plan
    what = (
        f"{n:,} trials: {plural(experiment.trials, 'shuffle')} x "
        f"{plural(len(experiment.models), 'base model')} ({', '.join(experiment.models)}) x "
        f"{plural(len(experiment.settings), 'setting')}, on {len(experiment.visits.frame):,} "
        f"{plan.columns.unit} "
        f"({about['cohort']}).\n"
        f"Set-up {plan.setup.name}: {plan.setup.in_words()}"
    )
    if not left:
        return f"{what}\nAll are in {experiment.path} already."
    return f"{what}\n{n - left:,} are in {experiment.path} already, {left:,} are to be run."


@contextmanager
def _cluster(scheduler: str | None) -> Iterator[Any]:
    """Workers of a Dask cluster, or processes of this machine."""
    if scheduler is None:
        yield
        return
    try:
        from distributed import Client
    except ImportError:
        raise InputError(
            "--scheduler needs Dask",
            argument="--scheduler",
            next_step=how_to_install("dask"),
            between=": ",
        ) from None
    from joblib import parallel_config

    try:
        client: Any = Client(scheduler, timeout=10)  # type: ignore[no-untyped-call]
    except (OSError, ValueError) as error:
        raise InputError(
            f"--scheduler {scheduler}: nobody answers there ({error})", argument="--scheduler"
        ) from None
    with client, parallel_config(backend="dask"):
        yield


@contextmanager
def _progress(n_units: int, left: int, n_trials: int) -> Iterator[Callable[[Unit], None]]:
    """A bar on a terminal; elsewhere, as in a log of a long run, a line for each base model trained."""
    console = Console(stderr=True)
    began, units, trials = perf_counter(), 0, n_trials - left

    if not console.is_terminal:

        def told(unit: Unit) -> None:
            nonlocal units, trials
            units, trials = units + 1, trials + len(unit.settings)
            minutes = (perf_counter() - began) / units * (n_units - units) / 60
            typer.echo(
                f"{unit.model}, shuffle {unit.seed + 1}: {trials:,} of {n_trials:,} trials are done, "
                f"about {minutes:.0f} min left",
                err=True,
            )

        yield told
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("Trials"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    # units take half a minute each: speed is that of the last hour
    with Progress(*columns, console=console, transient=True, speed_estimate_period=3600) as bar:
        task = bar.add_task("", total=n_trials, completed=trials)
        yield lambda unit: bar.advance(task, len(unit.settings))

"""The hospital-admission experiment: every shuffle, base model and setting, into a store, in parallel."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from propcal.core.grid import check_number
from propcal.errors import InputError
from propcal.output.files.whole_file import check_target
from propcal.paper.admissions import base_models, features
from propcal.paper.admissions.settings import MODELS, N_SEEDS, RULE, Setting, grid
from propcal.paper.admissions.trial_store import Store
from propcal.paper.admissions.trials import SPLIT, Row, Unit, run_unit, split
from propcal.paper.admissions.visits import Visits, visits_of

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Experiment:
    """What is to be run, and how far it is.

    Parameters
    ----------
    path : path
        The store, an SQLite file. One that is there is gone on with, if it is of the same visits, rule
        and settings; otherwise an error says what differs.
    cohort : path, optional
        A file that ``propcal paper cohort`` wrote; None generates visits.
    trials : int, default=100
        Shuffles of the visits: seeds 0, 1, ...
    rows : int, optional
        How many visits; None takes all.
    models : list of str, default=("LR", "RF", "DNN")
    settings : list of Setting, optional
        None takes those of Table 3.
    """

    path: str | PathLike[str]
    cohort: str | PathLike[str] | None = None
    trials: int = N_SEEDS
    rows: int | None = None
    models: Sequence[str] = MODELS
    settings: Sequence[Setting] = field(default_factory=grid)

    def __post_init__(self) -> None:
        check_number("trials", self.trials, at_least=1, whole=True)
        object.__setattr__(self, "models", base_models.check_models(self.models))
        _ = self.visits

    @cached_property
    def visits(self) -> Visits:
        """Whose visits."""
        return visits_of(self.cohort, self.rows)

    @cached_property
    def store(self) -> Store:
        """The file of trials, made if it is not there and the visits are sound."""
        check_target(self.path, force=True, reads=[self.cohort])
        if not Path(self.path).exists():
            _check_outcomes(self.visits.frame, range(self.trials))
        return Store(self.path, self.about())

    def about(self) -> dict[str, Any]:
        """What all trials of the store have in common."""
        keys = "\n".join(sorted(setting.key() for setting in self.settings))
        return {
            **self.visits.about(),
            "rule": RULE,
            "grid": f"{len(self.settings)} settings, {hashlib.sha256(keys.encode()).hexdigest()[:12]}",
            "features": features.VERSION,
            "base_models": base_models.VERSION,
            "split": SPLIT,
        }

    @property
    def n_trials(self) -> int:
        """Trials of the whole experiment."""
        return self.trials * len(self.models) * len(self.settings)

    def units(self) -> list[Unit]:
        """What is still to be done, seed by seed."""
        done, found = self.store.done(), []
        for seed in range(self.trials):
            for model in self.models:
                left = tuple(s for s in self.settings if (seed, model, s.key()) not in done)
                if left:
                    found.append(Unit(seed, model, left))
        return found

    def run(
        self,
        *,
        jobs: int | None = None,
        told: Callable[[Unit], object] = lambda unit: None,  # noqa: ARG005
    ) -> Store:
        """Do what is still to be done.

        Parameters
        ----------
        jobs : int, optional
            Processes at once, as joblib's `n_jobs`; None takes what `joblib.parallel_config` says. Its
            backend is used as well: ``parallel_config(backend="dask")`` runs the experiment on a cluster.
        told : callable
            Called with each unit when its trials are stored.
        """
        units = {(unit.seed, unit.model): unit for unit in self.units()}
        if not units:
            return self.store
        _check_outcomes(self.visits.frame, {unit.seed for unit in units.values()})
        with warnings.catch_warnings():
            # joblib's word on an interrupted run, to which the caller has something better to say
            warnings.filterwarnings("ignore", message=r".*tasks which were still being processed")
            for trials, curves in _results(self.visits.frame, list(units.values()), jobs):
                self.store.add(trials, curves)
                told(units[trials[0]["seed"], trials[0]["model"]])
        return self.store


def _check_outcomes(visits: pd.DataFrame, seeds: Iterable[int]) -> None:
    """Whether every training part has both outcomes, twice at least: the DNN holds some of it out."""
    outcome = visits[features.OUTCOME].to_numpy()
    counts = (np.bincount(outcome[split(len(outcome), seed)[0]], minlength=2) for seed in seeds)
    n_bad = sum(int(count.min() < 2) for count in counts)
    if n_bad:
        rare = np.bincount(outcome, minlength=2)
        raise InputError(
            f"{rare.min():,} of {len(outcome):,} visits have {features.OUTCOME} = {rare.argmin()}, too few: "
            f"in {n_bad:,} of the shuffles hardly any of them are in the training part",
            next_step="Take more visits",
        )


def run(path: str | PathLike[str], *, jobs: int | None = None, **what: Any) -> Store:
    """Run the experiment or go on with it; arguments as those of `Experiment`.

    On a cluster of Dask, from Python::

        with Client("tcp://scheduler:8786"), joblib.parallel_config(backend="dask"):
            run("admissions.sqlite", trials=100)
    """
    return Experiment(path, **what).run(jobs=jobs)


def _results(
    visits: pd.DataFrame, units: Sequence[Unit], jobs: int | None
) -> Iterator[tuple[list[Row], list[Row]]]:
    """Rows of each unit as soon as it is done; workers need no disk, only the parent writes."""
    from joblib import Parallel, delayed, effective_n_jobs

    def tasks(some: Iterable[Unit]) -> Iterator[Any]:
        return (delayed(run_unit)(visits, unit) for unit in some)

    try:
        parallel = Parallel(n_jobs=jobs, batch_size=1, return_as="generator_unordered")
    except ValueError:  # a backend that hands results back all at once: as many as work at the same time
        parallel = Parallel(n_jobs=jobs, batch_size=1)
        at_once = max(1, effective_n_jobs(parallel.n_jobs))
        for first in range(0, len(units), at_once):
            yield from parallel(tasks(units[first : first + at_once]))
        return
    yield from parallel(tasks(units))

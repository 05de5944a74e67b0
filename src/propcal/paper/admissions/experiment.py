"""Runs every shuffle, base model and setting of the experiment in parallel, and stores the trials."""

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
    """What to run, and what remains to be run.

    Parameters
    ----------
    path : path
        The store, an SQLite file. An existing store is continued if it has the same visits, rule and
        settings; otherwise an error says what differs.
    cohort : path, optional
        A file written by ``propcal paper cohort``; by default visits are simulated.
    trials : int, default=100
        The number of shuffles of the visits (seeds 0, 1, ...).
    rows : int, optional
        The number of visits; by default all.
    models : list of str, default=("LR", "RF", "DNN")
    settings : list of Setting, optional
        By default those of Table 3.
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
        """The source of the visits."""
        return visits_of(self.cohort, self.rows)

    @cached_property
    def store(self) -> Store:
        """The store of trials; it is created if it does not exist and the visits are valid."""
        check_target(self.path, force=True, reads=[self.cohort])
        if not Path(self.path).exists():
            _check_outcomes(self.visits.frame, range(self.trials))
        return Store(self.path, self.about())

    def about(self) -> dict[str, Any]:
        """What all trials in the store have in common."""
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
        """The number of trials in the whole experiment."""
        return self.trials * len(self.models) * len(self.settings)

    def units(self) -> list[Unit]:
        """The units that remain to be run, seed by seed."""
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
        """Run what remains.

        Parameters
        ----------
        jobs : int, optional
            The number of parallel processes, as joblib's `n_jobs`; by default that of
            `joblib.parallel_config`, whose backend is used as well: ``parallel_config(backend="dask")`` runs
            the experiment on a cluster.
        told : callable
            Called with each unit after its trials have been stored.
        """
        units = {(unit.seed, unit.model): unit for unit in self.units()}
        if not units:
            return self.store
        _check_outcomes(self.visits.frame, {unit.seed for unit in units.values()})
        with warnings.catch_warnings():
            # joblib's warning about an interrupted run, for which the caller has a better message
            warnings.filterwarnings("ignore", message=r".*tasks which were still being processed")
            for trials, curves in _results(self.visits.frame, list(units.values()), jobs):
                self.store.add(trials, curves)
                told(units[trials[0]["seed"], trials[0]["model"]])
        return self.store


def _check_outcomes(visits: pd.DataFrame, seeds: Iterable[int]) -> None:
    """Refuse data if a training part has fewer than two visits with each outcome (the DNN holds some out)."""
    outcome = visits[features.OUTCOME].to_numpy()
    counts = (np.bincount(outcome[split(len(outcome), seed)[0]], minlength=2) for seed in seeds)
    n_bad = sum(int(count.min() < 2) for count in counts)
    if n_bad:
        rare = np.bincount(outcome, minlength=2)
        raise InputError(
            f"only {rare.min():,} of {len(outcome):,} visits have {features.OUTCOME} = {rare.argmin()}: "
            f"in {n_bad:,} of the shuffles the training part has fewer than two of them",
            next_step="Use more visits",
        )


def run(path: str | PathLike[str], *, jobs: int | None = None, **what: Any) -> Store:
    """Run or continue the experiment; the arguments are those of `Experiment`.

    On a Dask cluster, from Python::

        with Client("tcp://scheduler:8786"), joblib.parallel_config(backend="dask"):
            run("admissions.sqlite", trials=100)
    """
    return Experiment(path, **what).run(jobs=jobs)


def _results(
    visits: pd.DataFrame, units: Sequence[Unit], jobs: int | None
) -> Iterator[tuple[list[Row], list[Row]]]:
    """The rows of each unit as soon as it is finished; only the parent process writes to disk."""
    from joblib import Parallel, delayed, effective_n_jobs

    def tasks(some: Iterable[Unit]) -> Iterator[Any]:
        return (delayed(run_unit)(visits, unit) for unit in some)

    try:
        parallel = Parallel(n_jobs=jobs, batch_size=1, return_as="generator_unordered")
    except ValueError:  # the backend returns all results at once, so run as many as work in parallel
        parallel = Parallel(n_jobs=jobs, batch_size=1)
        at_once = max(1, effective_n_jobs(parallel.n_jobs))
        for first in range(0, len(units), at_once):
            yield from parallel(tasks(units[first : first + at_once]))
        return
    yield from parallel(tasks(units))

"""Runs all shuffles, base models and settings in parallel, and stores the trials."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from propcal.building_blocks import (
    InputError,
    check_choice,
    check_number,
    check_target,
    checked_rows,
)
from propcal_paper import settings as s
from propcal_paper.errors import refused
from propcal_paper.running.base_models import (
    FEATURES_VERSION,
    MODELS_VERSION,
    check_models,
)
from propcal_paper.running.bench import Row
from propcal_paper.running.cohort_files import FEW, Cohort, visits_of
from propcal_paper.running.splits import SPLIT, split_rows
from propcal_paper.running.trial_store import Store
from propcal_paper.running.trials import Plan, Unit, run_unit
from propcal_paper.settings import GRIDS, MODELS, N_SEEDS, Setting
from propcal_paper.setups import Setup, setup_of

# Whether all visits of a patient are in the same part: the column of the patient in a
# cohort from MIMIC.
SPLITS = {"visit": None, "patient": "subject_id"}


@dataclass(frozen=True)
class Experiment:
    """What to run, and what remains to be run.

    Parameters
    ----------
    path : path
        The store, an SQLite file. An existing store is continued if it has the same
        cohort, set-up, rule and settings; otherwise an error says what differs.
    cohort : path or cohort, optional
        A file written by ``propcal paper cohort``, or any other from `cohort_file`; by
        default visits are simulated.
    trials : int, default=100
        The number of shuffles of the rows (seeds 0, 1, ...).
    rows : int, optional
        The number of visits; by default all.
    models : list of str, default=("LR", "RF", "DNN")
    settings : list of Setting, optional
        By default those of Table 3, for each grouping of the cohort.
    setup : str or Setup, default="printed"
        How the training data are used, and how large a step is.
    grid : "table-3" or "cells", default="table-3"
        The settings of Table 3, or alpha by the smallest cell that is corrected.
    surrogate : "calibrated", "weak" or "strong"
        How easy it is to predict the admission of simulated visits.
    split : "visit" or "patient"
        Whether all visits of a patient of MIMIC are in the same part of a split.
    """

    path: str | PathLike[str]
    cohort: str | PathLike[str] | Cohort | None = None
    trials: int = N_SEEDS
    rows: int | None = None
    models: Sequence[str] = MODELS
    settings: Sequence[Setting] = ()
    setup: str | Setup = "printed"
    grid: str = GRIDS[0]
    surrogate: str = "calibrated"
    split: str = "visit"

    def __post_init__(self) -> None:
        check_choice("split", self.split, tuple(SPLITS))
        if self.split == "patient" and self.cohort is None:
            raise refused("no patients")
        if self.surrogate != "calibrated" and self.cohort is not None:
            raise refused("surrogate", surrogate=self.surrogate)
        check_number("trials", self.trials, at_least=1, whole=True)
        object.__setattr__(self, "models", check_models(self.models))
        object.__setattr__(self, "setup", setup_of(self.setup))
        if not self.settings:
            object.__setattr__(
                self, "settings", s.grid(self.visits.columns.groupings, self.grid)
            )

    @cached_property
    def visits(self) -> Cohort:
        """The source of the rows."""
        if isinstance(self.cohort, Cohort):
            return self.cohort
        age = setup_of(self.setup).age
        person = SPLITS[self.split]
        return visits_of(
            self.cohort, self.rows, surrogate=self.surrogate, age=age, person=person
        )

    @cached_property
    def plan(self) -> Plan:
        """The columns and the set-up."""
        return Plan(self.visits.columns, setup_of(self.setup), self.grid)

    @cached_property
    def store(self) -> Store:
        """The store of trials; it is created if it does not exist and the cohort is
        valid.
        """
        check_target(self.path, force=True, reads=[self.visits.path])
        if not Path(self.path).exists():
            self._check_outcomes(range(self.trials))
            self._check_groups()
        return Store(self.path, self.about())

    def about(self) -> dict[str, Any]:
        """What all trials in the store have in common."""
        keys = sorted(setting.key() for setting in self.settings)
        digest = hashlib.sha256("\n".join(keys).encode()).hexdigest()
        about = dict(self.visits.about)
        about["setup"] = self.plan.setup.about()
        about["columns"] = self.plan.columns.about()
        about["rule"] = s.RULE
        about["grid"] = f"{len(keys)} settings, {digest[:12]}"
        about["features"] = FEATURES_VERSION
        about["base_models"] = MODELS_VERSION
        about["split"] = SPLIT
        return about

    @property
    def n_trials(self) -> int:
        """The number of trials in the whole experiment."""
        return self.trials * len(self.models) * len(self.settings)

    def units(self) -> list[Unit]:
        """The units that remain to be run, seed by seed."""
        done = self.store.done()
        units = []
        for seed, model in product(range(self.trials), self.models):
            left = []
            for setting in self.settings:
                if (seed, model, setting.key()) not in done:
                    left.append(setting)
            if left:
                units.append(Unit(seed, model, tuple(left)))
        return units

    def run(
        self,
        *,
        jobs: int | None = None,
        told: Callable[[Unit], object] = lambda _: None,
    ) -> Store:
        """Run what remains.

        Parameters
        ----------
        jobs : int, optional
            The number of parallel processes, as joblib's `n_jobs`; by default that of
            `joblib.parallel_config`, whose backend is used as well:
            ``parallel_config(backend="dask")`` runs the experiment on a cluster.
        told : callable
            Called with each unit after its trials have been stored.
        """
        units = {(unit.seed, unit.model): unit for unit in self.units()}
        if not units:
            return self.store
        self._check_outcomes({unit.seed for unit in units.values()})
        with warnings.catch_warnings():
            # joblib's warning about an interrupted run, for which the caller has a
            # better message
            warnings.filterwarnings(
                "ignore", message=r".*tasks which were still being processed"
            )
            for trials, curves in _results(
                self.visits.frame, self.plan, list(units.values()), jobs
            ):
                self.store.add(trials, curves)
                told(units[trials[0]["seed"], trials[0]["model"]])
        return self.store

    def notes(self) -> list[str]:
        """Sentences on what a user may not expect."""
        n_people = len(self.visits.frame)
        notes = [*self.visits.notes]
        if n_people < FEW:
            few = s.toml_file("words.toml")["experiment"]["few"]
            notes.append(few.format(n=n_people, unit=self.plan.columns.unit))
        return notes

    def _check_outcomes(self, seeds: Iterable[int]) -> None:
        """Refuse data if a part has fewer than two rows with each outcome (the DNN
        holds some out).
        """
        rows = self.visits.frame
        columns, setup, _ = self.plan
        outcome = rows[columns.outcome].to_numpy()
        n_bad = 0
        for seed in seeds:
            learn, post, _ = split_rows(rows, seed, columns, setup)
            in_learn = np.bincount(outcome[learn], minlength=2)
            in_post = np.bincount(outcome[post], minlength=2)
            n_bad += int(min(in_learn.min(), in_post.min()) < 2)
        if not n_bad:
            return

        counts = np.bincount(outcome, minlength=2)
        known = {"n": counts.min(), "value": counts.argmin(), "all": len(outcome)}
        known |= {"unit": columns.unit, "outcome": columns.outcome}
        raise refused("rare", n_bad=n_bad, **known)

    def _check_groups(self) -> None:
        """Refuse columns that cannot define groups, before any model is trained."""
        rows = self.visits.frame
        columns = self.plan.columns
        any_score = np.full(len(rows), 0.5)
        outcome = rows[columns.outcome].to_numpy()
        for groups in columns.groupings:
            try:
                checked_rows(any_score, outcome, rows[list(groups)])
            except InputError as error:
                raise refused("no groups", problem=error.problem) from None


def run(path: str | PathLike[str], *, jobs: int | None = None, **what: Any) -> Store:
    """Run or continue the experiment; the arguments are those of `Experiment`.

    On a Dask cluster, from Python::

        with Client("tcp://scheduler:8786"), joblib.parallel_config(backend="dask"):
            run("admissions.sqlite", trials=100)
    """
    return Experiment(path, **what).run(jobs=jobs)


def _results(
    rows: pd.DataFrame, plan: Plan, units: Sequence[Unit], jobs: int | None
) -> Iterator[tuple[list[Row], list[Row]]]:
    """The rows of each unit as soon as it is finished; only the parent process writes
    to disk.
    """
    from joblib import Parallel, delayed, effective_n_jobs

    def tasks(some: Iterable[Unit]) -> Iterator[Any]:
        return (delayed(run_unit)(rows, plan, unit) for unit in some)

    try:
        parallel = Parallel(n_jobs=jobs, batch_size=1, return_as="generator_unordered")
    except (
        ValueError
    ):  # the backend returns all results at once, so run as many as work in parallel
        parallel = Parallel(n_jobs=jobs, batch_size=1)
        at_once = max(1, effective_n_jobs(parallel.n_jobs))
        for first in range(0, len(units), at_once):
            yield from parallel(tasks(units[first : first + at_once]))
        return
    yield from parallel(tasks(units))

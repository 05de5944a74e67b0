"""Reads a store of trials, describes its content, and lists what is still missing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any

import pandas as pd

from propcal.auditing.measure_names import MEASURE_NAMES
from propcal.errors import InputError
from propcal.numbers import noun, plural
from propcal.paper.admissions.settings import BASE, MODELS, grid
from propcal.paper.admissions.trial_store import Store

_KEYS = {"auroc": "auroc", "mc_loss": "mc", "pmc_loss": "pmc", "dc_loss": "dc"}
METRICS = {column: MEASURE_NAMES[key].name for column, key in _KEYS.items()}
HIGHER_IS_BETTER = ("auroc",)
LOSSES = tuple(name for name in METRICS if name not in HIGHER_IS_BETTER)


@dataclass(frozen=True)
class Evidence:
    """The trials of a store, the counts of their calibration curves, and what all trials have in common."""

    trials: pd.DataFrame
    curves: pd.DataFrame
    about: Mapping[str, Any]

    @classmethod
    def from_store(cls, path: str | PathLike[str]) -> Evidence:
        """Read a store; refuse one without trials."""
        store = Store(path)
        trials = store.trials()
        if trials.empty:
            raise InputError(
                f"{path} has no trials yet", next_step=f"Add some with propcal paper admissions -o {path}"
            )
        by_paper = [f"paper_{loss}" for loss in LOSSES]
        # pandas reads a column of NULLs as objects
        numbers = ["alpha", "gamma", "rho", "fit_alpha", *METRICS, *by_paper]
        return cls(trials.astype(dict.fromkeys(numbers, float)), store.curves(), store.about)

    def by_the_papers_sizes(self) -> Evidence:
        """The same trials with the losses as the paper defines them, for larger categories only."""
        losses = {loss: self.trials[f"paper_{loss}"] for loss in LOSSES}
        return replace(self, trials=self.trials.assign(**losses))

    @property
    def models(self) -> tuple[str, ...]:
        """The base models, in the paper's order."""
        there = {*self.trials["model"]}
        return (*(m for m in MODELS if m in there), *sorted(there - {*MODELS}))

    @property
    def n_seeds(self) -> int:
        """The number of shuffles of the data with at least one trial."""
        return int(self.trials["seed"].nunique())

    def seeds_of(self, model: str) -> int:
        """The number of shuffles with at least one trial of a base model."""
        return int(self.trials.loc[self.trials["model"] == model, "seed"].nunique())

    @property
    def generated(self) -> bool:
        """Whether the visits are simulated."""
        return "generated" in self.cohort.lower()

    @property
    def cohort(self) -> str:
        """The store's description of its visits."""
        said = self.about.get("cohort", "a cohort that the store does not name")
        if isinstance(said, Mapping):
            return ", ".join(f"{key}: {value}" for key, value in said.items())
        return str(said)

    def caption(self) -> str:
        """The line below every figure: which visits, and how many shuffles."""
        whose = "Simulated visits, no patients" if self.generated else f"Visits: {self.cohort}"
        counts = {model: self.seeds_of(model) for model in self.models}
        absent = [model for model in MODELS if model not in counts]
        more = f" No {' and '.join(absent)} yet." if absent else ""
        if len({*counts.values()}) == 1:
            return f"{whose}. {_shuffles(self.n_seeds)} ({noun(self.n_seeds, 'seed')}) for each model.{more}"
        listed = ", ".join(f"{model} {n}" for model, n in counts.items())
        return f"{whose}. Shuffles of the data (seeds): {listed}.{more}"

    def how_sure(self) -> str:
        """The sentence about intervals below a figure."""
        if self.n_seeds == 1:
            return "There are no intervals with one seed."
        return "Intervals: 99 % bootstrap intervals over seeds."

    def missing(self) -> list[str]:
        """Sentences on what is missing compared with a finished run of the seeds begun so far."""
        said = [f"There are no trials of {model} yet." for model in MODELS if model not in self.models]
        wanted = {setting.key() for setting in grid()}
        for model in self.models:
            rows = self.trials[self.trials["model"] == model]
            lacking = [f"{self.n_seeds - self.seeds_of(model)} of {self.n_seeds} shuffles"]
            lacking = lacking if self.seeds_of(model) < self.n_seeds else []
            partial = int((rows.groupby("seed")["setting"].nunique() < len(wanted)).sum())
            lacking += [f"some settings of {_shuffles(partial).lower()}"] if partial else []
            if lacking:
                said.append(f"{model}: {' and '.join(lacking)} are still missing.")
        fits = self.trials[self.trials["method"] != BASE]
        failed = int((fits["converged"] == 0).sum())
        if failed:
            said.append(f"{failed:,} of {len(fits):,} fits stopped at the update limit.")
        undefined = {name: int(self.trials[key].isna().sum()) for key, name in METRICS.items()}
        said += [f"{name} could not be computed in {n:,} trials." for name, n in undefined.items() if n]
        return said


def _shuffles(n: int) -> str:
    return f"{plural(n, 'shuffle')} of the data"

"""Reads a store of trials, describes its content, and lists what is still missing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from os import PathLike
from shlex import quote
from typing import Any

import pandas as pd

from propcal.auditing.measure_names import MEASURE_NAMES
from propcal.errors import InputError
from propcal.numbers import noun, plural
from propcal.paper.experiment.cohort_columns import ADMISSIONS, GROUPINGS
from propcal.paper.experiment.settings import BASE, MC, MODELS, OURS, PMC, grid
from propcal.paper.experiment.setups import FIXED, OWN, RULES, SIZES, Setup, setup_of
from propcal.paper.experiment.trial_store import Store

_KEYS = {"auroc": "auroc", "mc_loss": "mc", "pmc_loss": "pmc", "dc_loss": "dc"}
METRICS = {column: MEASURE_NAMES[key].name for column, key in _KEYS.items()}
HIGHER_IS_BETTER = ("auroc",)
LOSSES = tuple(name for name in METRICS if name not in HIGHER_IS_BETTER)


# Where a store keeps the losses of each rule.
_PREFIX = {FIXED: "", SIZES: "sizes_", OWN: "own_"}
_KEYS_OF_BASE = ["seed", "model", "groups"]


@dataclass(frozen=True)
class Evidence:
    """The trials of a store, the counts of their calibration curves, and what all trials have in common.

    `trials` has the losses by one rule (`rule`), and beside each metric that of the base model by the same
    rule, as `base_auroc`, `base_mc_loss` and so on. `stored` is what the store holds.
    """

    stored: pd.DataFrame
    curves: pd.DataFrame
    about: Mapping[str, Any]
    rule: str = FIXED

    @classmethod
    def from_store(cls, path: str | PathLike[str]) -> Evidence:
        """Read a store; refuse one without trials."""
        store = Store(path)
        trials = store.trials()
        if trials.empty:
            raise InputError(
                f"{path} has no trials yet",
                next_step="Add some with propcal paper admissions or propcal paper experiment, -o "
                f"{quote(str(path))}",
            )
        prefixes = ("", "sizes_", "own_", "base_own_")
        losses = [f"{prefix}{loss}" for prefix in prefixes for loss in LOSSES]
        # pandas reads a column of NULLs as objects
        numbers = ["alpha", "gamma", "rho", "fit_alpha", "auroc", *losses, "train_mc_loss", "train_pmc_loss"]
        return cls(trials.astype(dict.fromkeys(numbers, float)), store.curves(), store.about)

    def by(self, rule: str) -> Evidence:
        """The same trials with their losses by another rule."""
        return replace(self, rule=rule)

    def without_ours(self) -> Evidence:
        """The same without our default method, which is not in the paper."""
        stored, curves = (frame[frame["method"] != OURS] for frame in (self.stored, self.curves))
        return replace(self, stored=stored, curves=curves)

    @property
    def methods(self) -> tuple[str, ...]:
        """The base model, MCBoost, PMCBoost and our method, as far as there are trials of them."""
        return tuple(m for m in (BASE, MC, PMC, OURS) if m in {*self.stored["method"]})

    @cached_property
    def trials(self) -> pd.DataFrame:
        """All trials, with the losses by the rule, and those of their base model."""
        found = self.stored.assign(**{loss: self.stored[f"{_PREFIX[self.rule]}{loss}"] for loss in LOSSES})
        base = found[found["method"] == BASE].set_index(_KEYS_OF_BASE)[[*METRICS]].add_prefix("base_")
        found = found.join(base, on=_KEYS_OF_BASE)
        if self.rule == OWN:
            found = found.assign(**{f"base_{loss}": found[f"base_own_{loss}"] for loss in LOSSES})
            return _with_base_of_every_setting(found)
        return found

    @property
    def setup(self) -> Setup:
        """The set-up of the experiment."""
        return setup_of(self.about.get("setup"))

    @property
    def in_rule(self) -> str:
        """The rule in words."""
        return RULES[self.rule]

    @property
    def of_admissions(self) -> bool:
        """Whether the rows are visits to the emergency department with the paper's outcome and groups."""
        columns = self.about.get("columns")
        return columns is None or columns["outcome"] == ADMISSIONS.outcome

    @property
    def unit(self) -> str:
        """What a row is, in the plural."""
        return str(self.about.get("columns", {}).get("unit", ADMISSIONS.unit))

    @property
    def groupings(self) -> tuple[tuple[str, ...], ...]:
        """The groupings, each a list of attributes."""
        columns = self.about.get("columns")
        return GROUPINGS if columns is None else tuple(tuple(names) for names in columns["groupings"])

    @property
    def grouping_names(self) -> list[str]:
        """The groupings as they are named in the trials."""
        return [" x ".join(names) for names in self.groupings]

    @property
    def attributes(self) -> dict[str, tuple[str, ...]]:
        """The attributes of each grouping, by its name in the trials."""
        return dict(zip(self.grouping_names, self.groupings))

    @property
    def models(self) -> tuple[str, ...]:
        """The base models, in the paper's order."""
        there = {*self.stored["model"]}
        return (*(m for m in MODELS if m in there), *sorted(there - {*MODELS}))

    @property
    def n_seeds(self) -> int:
        """The number of shuffles of the data with at least one trial."""
        return int(self.stored["seed"].nunique())

    def seeds_of(self, model: str) -> int:
        """The number of shuffles with at least one trial of a base model."""
        return int(self.stored.loc[self.stored["model"] == model, "seed"].nunique())

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

    @property
    def n_rows(self) -> int:
        """The number of rows of a shuffle (with splits by person it may differ a little between shuffles)."""
        row = self.stored.iloc[0]
        apart = row["n_post"] if self.setup.kept_apart else 0
        return int(row["n_train"] + apart + row["n_test"])

    def processor_seconds(self) -> dict[str, float]:
        """Processor time of the whole run: training, post-processing, and evaluation."""
        base = self.stored["method"] == BASE
        trained = self.stored[base].drop_duplicates(["seed", "model"])  # once for all groupings
        # settings of MCBoost that differ in rho alone share a fit
        floor = self.stored["rho"].where(self.stored["method"] == PMC)
        same = ["seed", "model", "groups", "method", "fit_alpha", "gamma", "floor"]
        fits = self.stored[~base].assign(floor=floor)
        fits = fits.assign(method=fits["method"].where(fits["method"].isin((PMC, OURS)), MC))
        return {
            "training": float(trained["fit_seconds"].sum()),
            "post-processing": float(fits.drop_duplicates(same)["fit_seconds"].sum()),
            "evaluation": float(self.stored["evaluation_seconds"].sum()),
        }

    def caption(self) -> str:
        """The line below every figure: which visits, and how many shuffles."""
        whose = "Simulated visits, no patients" if self.generated else f"Data: {self.cohort}"
        counts = {model: self.seeds_of(model) for model in self.models}
        absent = [model for model in MODELS if model not in counts]
        more = f" No {' and '.join(absent)} yet." if absent else ""
        if len({*counts.values()}) == 1:
            return f"{whose}. {_shuffles(self.n_seeds)} ({noun(self.n_seeds, 'seed')}) for each model.{more}"
        listed = ", ".join(f"{model} {n}" for model, n in counts.items())
        return f"{whose}. Shuffles of the data (seeds): {listed}.{more}"

    def by_which(self) -> str:
        """The sentence about the rule of the losses below a figure."""
        return f"Set-up {self.setup.name}; losses by {self.in_rule}."

    def how_sure(self) -> str:
        """The sentence about intervals below a figure."""
        if self.n_seeds == 1:
            return "There are no intervals with one seed."
        return "Intervals: 99 % bootstrap intervals over seeds."

    def missing(self) -> list[str]:
        """Sentences on what is missing compared with a finished run of the seeds begun so far."""
        said = [f"There are no trials of {model} yet." for model in MODELS if model not in self.models]
        wanted = {setting.key() for setting in grid(self.groupings)}
        for model in self.models:
            rows = self.stored[self.stored["model"] == model]
            lacking = [f"{self.n_seeds - self.seeds_of(model)} of {self.n_seeds} shuffles"]
            lacking = lacking if self.seeds_of(model) < self.n_seeds else []
            partial = int((rows.groupby("seed")["setting"].nunique() < len(wanted)).sum())
            lacking += [f"some settings of {_shuffles(partial).lower()}"] if partial else []
            if lacking:
                said.append(f"{model}: {' and '.join(lacking)} are still missing.")
        fits = self.stored[self.stored["method"] != BASE]
        failed = int((fits["converged"] == 0).sum())
        if failed:
            said.append(f"{failed:,} of {len(fits):,} fits stopped at the update limit.")
        undefined = {name: int(self.trials[key].isna().sum()) for key, name in METRICS.items()}
        said += [f"{name} could not be computed in {n:,} trials." for name, n in undefined.items() if n]
        return said


def _with_base_of_every_setting(trials: pd.DataFrame) -> pd.DataFrame:
    """The trials, with a row of the base model for each setting, judged by the rule of that setting."""
    settings = trials.loc[
        trials["method"] == PMC,
        [*_KEYS_OF_BASE, "alpha", "gamma", "rho", *(f"base_{loss}" for loss in LOSSES)],
    ]
    base = trials[trials["method"] == BASE].drop(
        columns=["alpha", "gamma", "rho", *(f"base_{loss}" for loss in LOSSES)]
    )
    repeated = base.merge(settings, on=_KEYS_OF_BASE)
    repeated = repeated.assign(**{loss: repeated[f"base_{loss}"] for loss in LOSSES})
    others = trials[trials["method"] != BASE]
    return pd.concat([others, repeated[others.columns]], ignore_index=True) if len(repeated) else trials


def _shuffles(n: int) -> str:
    return f"{plural(n, 'shuffle')} of the data"

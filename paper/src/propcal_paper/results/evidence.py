"""What a store holds: trials, counts of curves, and what all have in common."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from os import PathLike
from shlex import quote
from typing import Any

import pandas as pd

from propcal.building_blocks import noun, plural
from propcal_paper import settings as s
from propcal_paper.errors import refused
from propcal_paper.running.trial_store import Store
from propcal_paper.settings import BASE, MC, MODELS, OURS, OWN, PMC, CohortColumns
from propcal_paper.setups import Setup, setup_of

KEYS = ["seed", "model", "setting"]  # of a trial
METRICS = {
    "auroc": "AUROC",
    "mc_loss": "MC loss",
    "pmc_loss": "PMC loss",
    "dc_loss": "DC loss",
}
HIGHER_IS_BETTER = ("auroc",)
LOSSES = tuple(name for name in METRICS if name not in HIGHER_IS_BETTER)
_SETTING = ["groups", "alpha", "gamma", "rho", "min_share", "n_test"]
_KEYS_OF_BASE = ["seed", "model", "groups"]
_PREFIX = {s.FIXED: "", s.SIZES: "sizes_", OWN: "own_"}  # of the losses by each rule


@dataclass(frozen=True)
class Evidence:
    """The trials of a store, the counts of their calibration curves, and what all
    trials have in common.

    `trials` has the losses by one rule (`rule`), and beside each metric that of the
    base model by the same rule, as `base_auroc`, `base_mc_loss` and so on. `stored` is
    what the store holds, or that without our method (`ours` is false).
    """

    stored: pd.DataFrame
    curves: pd.DataFrame
    about: Mapping[str, Any]
    rule: str = s.FIXED
    ours: bool = True

    @classmethod
    def from_store(cls, path: str | PathLike[str], *, cells: bool = True) -> Evidence:
        """Read a store; refuse one without trials, and unless `cells` one that varies
        the smallest cell.
        """
        store = Store(path)
        trials = store.trials()
        if trials.empty:
            raise refused("no trials", path=path, quoted=quote(str(path)))
        smallest = trials["setting"].str.extract(r"; min_share=([^;]+)")[0]
        smallest = smallest.astype(float)
        if not cells and smallest.notna().any():
            raise refused("other cells", path=path)
        return cls(trials.assign(min_share=smallest), store.curves(), store.about)

    def by(self, rule: str) -> Evidence:
        """These trials with their losses by another rule."""
        return replace(self, rule=rule)

    def without_ours(self) -> Evidence:
        """These trials without our default method, which is not in the paper."""
        stored = self.stored[self.stored["method"] != OURS]
        curves = self.curves[self.curves["method"] != OURS]
        return replace(self, stored=stored, curves=curves, ours=False)

    @cached_property
    def trials(self) -> pd.DataFrame:
        """All trials, with the losses by the rule, and those of their base model."""
        losses = {}
        for loss in LOSSES:
            losses[loss] = self.stored[f"{_PREFIX[self.rule]}{loss}"]
        trials = self.stored.assign(**losses)
        of_base = trials[trials["method"] == BASE].set_index(_KEYS_OF_BASE)
        metrics_of_base = of_base[[*METRICS]].add_prefix("base_")
        trials = trials.join(metrics_of_base, on=_KEYS_OF_BASE)
        if self.rule != OWN:
            return trials
        for loss in LOSSES:
            trials = trials.assign(**{f"base_{loss}": trials[f"base_own_{loss}"]})
        return _with_base_of_every_setting(trials)

    @cached_property
    def counts(self) -> pd.DataFrame:
        """The counts of the calibration curves, with the settings of their trials."""
        return self.curves.merge(self.stored[[*KEYS, *_SETTING]], on=KEYS)

    @cached_property
    def group_sums(self) -> pd.DataFrame:
        """People, outcomes and scores of each group in each trial with curves, with the
        setting of the trial.

        `off` is the sum over bins of the differences between outcomes and scores.
        """
        difference = self.counts["positives"] - self.counts["score_sum"]
        counts = self.counts.assign(off=difference.abs())
        whose = [*KEYS, "method", *_SETTING, "group_name"]
        each = counts.groupby(whose, dropna=False)
        return each[["people", "positives", "score_sum", "off"]].sum().reset_index()

    @cached_property
    def columns(self) -> CohortColumns:
        """The columns of the cohort."""
        return CohortColumns.of(self.about.get("columns", {}))

    @property
    def setup(self) -> Setup:
        """The set-up of the experiment."""
        return setup_of(self.about.get("setup"))

    @property
    def of_admissions(self) -> bool:
        """Whether the rows are visits to the emergency department with the paper's
        outcome and groups.
        """
        return self.columns.outcome == s.ADMISSIONS.outcome

    @property
    def of_cells(self) -> bool:
        """Whether the trials vary the smallest cell, and are not those of Table 3."""
        return bool(self.stored["min_share"].notna().any())

    @property
    def attributes(self) -> dict[str, tuple[str, ...]]:
        """The attributes of each grouping, by its name in the trials."""
        return {" x ".join(names): names for names in self.columns.groupings}

    @property
    def grouping_names(self) -> list[str]:
        """The groupings as they are named in the trials."""
        return list(self.attributes)

    @property
    def methods(self) -> tuple[str, ...]:
        """The base model, MCBoost, PMCBoost and our method, as far as there are trials
        of them.
        """
        there = {*self.stored["method"]}
        return tuple(method for method in (BASE, MC, PMC, OURS) if method in there)

    @property
    def models(self) -> tuple[str, ...]:
        """The base models, in the paper's order."""
        there = {*self.stored["model"]}
        return tuple(model for model in MODELS if model in there)

    @cached_property
    def seeds(self) -> list[int]:
        """The shuffles of the data with at least one trial."""
        return sorted(self.stored["seed"].unique().tolist())

    @property
    def n_seeds(self) -> int:
        """The number of shuffles of the data with at least one trial."""
        return len(self.seeds)

    def seeds_of(self, model: str) -> int:
        """The number of shuffles with at least one trial of a base model."""
        return int(self.stored.loc[self.stored["model"] == model, "seed"].nunique())

    @property
    def cohort(self) -> str:
        """The store's description of its visits."""
        return str(self.about.get("cohort", "a cohort that the store does not name"))

    @property
    def name(self) -> str:
        """The run in a few words: the simulated visits, or the file and the outcome;
        and the set-up.
        """
        if self.generated:
            visits = f"{self.about.get('surrogate', 'weak')} visits"
        else:
            file = self.cohort.removeprefix("a file of ")
            visits = f"{file}, {self.columns.outcome}"
        return f"{visits}, {self.setup.name}"

    @property
    def generated(self) -> bool:
        """Whether the visits are simulated."""
        return "generated" in self.cohort.lower()

    @property
    def n_rows(self) -> int:
        """The number of rows of a shuffle (with splits by person it may differ a little
        between shuffles).
        """
        parts = ["n_train", "n_test"]
        if self.setup.kept_apart:
            parts.append("n_post")
        return int(self.stored[parts].iloc[0].sum())

    def processor_seconds(self) -> float:
        """Processor time of the whole run: training, post-processing, and
        evaluation.
        """
        trials = self.stored
        of_base = trials["method"] == BASE
        # once for all groupings
        trained = trials[of_base].drop_duplicates(["seed", "model"])

        # settings of MCBoost that differ in rho alone share a fit
        has_own_rho = trials["method"].isin((PMC, OURS))
        algorithm = trials["method"].where(has_own_rho, MC)
        rho = trials["rho"].where(algorithm == PMC)
        fits = trials.assign(method=algorithm, rho=rho)[~of_base]
        whose = [*_KEYS_OF_BASE, "method", "fit_alpha", "gamma", "rho", "min_share"]
        fits = fits.drop_duplicates(whose)

        fitting = trained["fit_seconds"].sum() + fits["fit_seconds"].sum()
        return float(fitting + trials["evaluation_seconds"].sum())

    def caption(self) -> str:
        """The line below every figure: which visits, and how many shuffles."""
        visits = f"Data: {self.cohort}"
        if self.generated:
            visits = "Simulated visits, no patients"
        n_of = {model: self.seeds_of(model) for model in self.models}
        if len({*n_of.values()}) == 1:
            seeds = noun(self.n_seeds, "seed")
            shuffles = f"{_shuffles(self.n_seeds)} ({seeds}) for each model"
        else:
            of_models = ", ".join(f"{model} {n}" for model, n in n_of.items())
            shuffles = f"Shuffles of the data (seeds): {of_models}"
        said = f"{visits}. {shuffles}."
        absent = [model for model in MODELS if model not in n_of]
        if absent:
            said += f" No {' and '.join(absent)} yet."
        return said

    def by_which(self) -> str:
        """The sentence about the rule of the losses below a figure."""
        return f"Set-up {self.setup.name}; losses by {s.RULES[self.rule]}."

    def how_sure(self) -> str:
        """The sentence about intervals below a figure."""
        several = "Intervals: 99 % bootstrap intervals over seeds."
        if self.n_seeds > 1:
            return several
        return "There are no intervals with one seed."

    def missing(self) -> list[str]:
        """Sentences on what is missing compared with a finished run of the seeds begun
        so far.
        """
        absent = [model for model in MODELS if model not in self.models]
        sentences = [f"There are no trials of {model} yet." for model in absent]
        for model in self.models:
            lacking = self._missing_of(model)
            if lacking:
                missing = " and ".join(lacking)
                sentences.append(f"{model}: {missing} are still missing.")

        fits = self.stored[self.stored["method"] != BASE]
        n_stopped = int((fits["converged"] == 0).sum())
        if n_stopped:
            of_fits = f"{n_stopped:,} of {len(fits):,} fits"
            sentences.append(f"{of_fits} stopped at their limit.")
        for metric, name in METRICS.items():
            n = int(self.trials[metric].isna().sum())
            if n:
                sentences.append(f"{name} could not be computed in {n:,} trials.")
        return sentences

    def _missing_of(self, model: str) -> list[str]:
        """What is missing of a base model."""
        lacking = []
        n_absent = self.n_seeds - self.seeds_of(model)
        if n_absent:
            lacking.append(f"{n_absent} of {self.n_seeds} shuffles")
        grid = s.grid([*self.attributes.values()], s.GRIDS[self.of_cells])
        n_settings = sum(self.ours or setting.method != OURS for setting in grid)
        trials = self.stored[self.stored["model"] == model]
        n_of_seeds = trials.groupby("seed")["setting"].nunique()
        n_partial = int((n_of_seeds < n_settings).sum())
        if n_partial:
            lacking.append(f"some settings of {_shuffles(n_partial)}")
        return lacking


def _with_base_of_every_setting(trials: pd.DataFrame) -> pd.DataFrame:
    """The trials, with a row of the base model for each setting, judged by the rule of
    that setting.
    """
    losses_of_base = {loss: f"base_{loss}" for loss in LOSSES}
    columns = ["alpha", "gamma", "rho", *losses_of_base.values()]
    settings = trials.loc[trials["method"] == PMC, [*_KEYS_OF_BASE, *columns]]
    of_base = trials["method"] == BASE
    repeated = trials[of_base].drop(columns=columns).merge(settings, on=_KEYS_OF_BASE)
    if repeated.empty:
        return trials
    for loss, column in losses_of_base.items():
        repeated[loss] = repeated[column]
    others = trials[~of_base]
    return pd.concat([others, repeated[others.columns]], ignore_index=True)


def _shuffles(n: int) -> str:
    return f"{plural(n, 'shuffle')} of the data"

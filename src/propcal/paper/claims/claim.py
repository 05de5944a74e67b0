"""A claim of the paper, the rule that decides it, and the verdict from the trials."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from propcal.numbers import plural
from propcal.paper.admissions.settings import ALPHAS, BASE, GROUPINGS, MC, MODELS, PMC
from propcal.paper.results.evidence import METRICS, Evidence
from propcal.paper.results.over_alpha import PANEL, best_alpha, medians
from propcal.paper.results.percent_change import trial_changes
from propcal.paper.results.wins import wins

AGREES, DIFFERS, NOT_YET = "agrees", "differs", "cannot be judged yet"
LEAST_SEEDS = 3  # fewer shuffles give no verdict


_GROUPINGS = [" x ".join(groups) for groups in GROUPINGS]


class NotYetError(Exception):
    """The store does not yet contain something that a rule needs."""


@dataclass
class Case:
    """The trials in the form that rules need; shared results are computed once."""

    evidence: Evidence
    _medians: dict[str, pd.DataFrame] = field(default_factory=dict)
    _best: dict[str, pd.DataFrame] = field(default_factory=dict)

    @property
    def trials(self) -> pd.DataFrame:
        """All trials."""
        return self.evidence.trials

    @cached_property
    def _changes(self) -> pd.DataFrame:
        found = trial_changes(self.trials)
        columns = [f"{metric}_change" for metric in METRICS]
        return found.groupby(["method", "model"])[columns].median()

    def change(self, method: str, model: str, metric: str) -> float:
        """The median percent change from the base model (Table 4)."""
        try:
            found: Any = self._changes.at[(method, model), f"{metric}_change"]
            return defined(float(found), metric)
        except KeyError:
            raise NotYetError(f"there are no trials of {method} with {model} and its base model") from None

    def medians(self, column: str, models: tuple[str, ...] = MODELS) -> pd.DataFrame:
        """Medians of a column by model, grouping and alpha (rows), for base model, MCBoost and PMCBoost."""
        if column not in self._medians:
            self._medians[column] = medians(self.trials, column)
        wanted = pd.MultiIndex.from_product([models, _GROUPINGS, ALPHAS], names=[*PANEL, "alpha"])
        table = self._medians[column].reindex(index=wanted, columns=[BASE, MC, PMC])
        if table.isna().to_numpy().any():
            raise NotYetError(f"{column} is not available for every base model, grouping and alpha")
        return table

    def best(self, metric: str) -> pd.DataFrame:
        """The alpha of each method's best median, for each base model and grouping."""
        if metric not in self._best:
            self._best[metric] = best_alpha(self.trials, metric)
        if len(self._best[metric]) < len(MODELS) * len(_GROUPINGS) * 2:
            raise NotYetError(f"{metric} is not available for every base model and grouping")
        return self._best[metric]

    @cached_property
    def wins(self) -> pd.DataFrame:
        """Table 6."""
        return wins(self.trials)

    def need(self, models: tuple[str, ...], methods: tuple[str, ...]) -> int:
        """The number of seeds behind a rule: the fewest of the base models and methods that it uses."""
        rows = self.trials[self.trials["model"].isin(models) & self.trials["method"].isin(methods)]
        counts = rows.groupby(["model", "method"])["seed"].nunique()
        fewest = self.evidence.n_seeds
        for model in models:
            for method in methods:
                n = int(counts.get((model, method), 0))
                if n < LEAST_SEEDS:
                    there = plural(n, "seed") if n else "no trials"
                    raise NotYetError(f"{there} of {method} with {model}; {LEAST_SEEDS} seeds are needed")
                fewest = min(fewest, n)
        return fewest


Check = Callable[[Case], tuple[bool, str]]


@dataclass(frozen=True)
class Claim:
    """A statement of the paper, its place, and the rule by which trials agree or differ.

    `check` returns whether they agree, and the numbers. `odd` points out an inconsistency in the paper
    itself; `why` gives possible reasons for a difference. `models` and `methods` are needed for a verdict.
    `by_losses` is true if the claim depends on losses, so that the size rule for categories may affect the
    verdict.
    """

    name: str
    place: str
    says: str
    rule: str
    check: Check
    odd: str = ""
    why: str = ""
    models: tuple[str, ...] = MODELS
    methods: tuple[str, ...] = (BASE, MC, PMC)
    by_losses: bool = True


@dataclass(frozen=True)
class Judgement:
    """A claim with its verdict, the numbers behind it and the number of seeds.

    For claims that depend on losses, `by_paper` is the verdict with the losses as the paper defines them.
    """

    claim: Claim
    verdict: str
    numbers: str
    n_seeds: int
    by_paper: Judgement | None = None

    @property
    def depends_on_sizes(self) -> bool:
        """Whether the paper's size rule gives a different verdict."""
        return self.by_paper is not None and self.by_paper.verdict != self.verdict

    def second_opinion(self) -> str:
        """The verdict by the paper's size rule; empty if the claim does not depend on losses."""
        if self.by_paper is None:
            return ""
        return f"by the paper's size rule: {self.by_paper.verdict} ({self.by_paper.numbers})"


def judge(claim: Claim, case: Case) -> Judgement:
    """Decide one claim."""
    try:
        n_seeds = case.need(claim.models, claim.methods)
        agrees, numbers = claim.check(case)
    except NotYetError as missing:
        return Judgement(claim, NOT_YET, str(missing), 0)
    return Judgement(claim, AGREES if agrees else DIFFERS, numbers, n_seeds)


def defined(value: float, name: str) -> float:
    """The number itself; there is no verdict if it could not be computed."""
    if np.isnan(value):
        raise NotYetError(f"{name} could not be computed")
    return value


def about(value: float, published: float) -> bool:
    """Whether a number is "about" a published one: from half to twice its size, with the same sign.

    >>> about(7, 5), about(11, 5), about(-5, 5)
    (True, False, False)
    """
    return bool(0.5 <= value / published <= 2.0)


def most(flags: pd.Series | list[bool]) -> bool:
    """Whether more than half are true."""
    return bool(np.mean([bool(flag) for flag in flags]) > 0.5)

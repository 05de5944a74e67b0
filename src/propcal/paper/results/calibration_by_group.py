"""Calibration curves of three intersectional groups, for the base model, PMCBoost and our method."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from propcal.core.grid import FloatArray
from propcal.paper.experiment.settings import BASE, N_BINS, OURS, PMC, RULE
from propcal.paper.results.evidence import Evidence

METHODS = (BASE, PMC, OURS)
N_GROUPS, MIN_PEOPLE = 3, 30
RULE_IN_WORDS = (
    "The three groups with the largest error of the base model, among the groups by all attributes of the "
    "finest grouping with at least a share gamma of the test set. The error is the sum over ten bins of "
    "|observed - expected events|, as a share of observed events. Because the groups were chosen where the "
    "base model is worst, they look better afterwards partly by chance (regression to the mean). Counts are "
    "added over seeds; a visit may be in several test sets. Bins with fewer than "
    f"{MIN_PEOPLE} people per seed are left out."
)


@dataclass(frozen=True)
class Curves:
    """The points of the curves, the error of each group, and the setting."""

    points: pd.DataFrame  # group, method, bin_index, people (per seed), mean_score, outcome_rate
    errors: pd.DataFrame  # group, share of people, then each method's error; largest error first
    attributes: tuple[str, ...]  # of the grouping
    setting: str
    n_seeds: int


@dataclass(frozen=True, eq=False)
class CurveCounts:
    """People, outcomes and scores by seed, group, method and bin: what the curves are made of."""

    groups: list[str]
    methods: list[str]
    sums: FloatArray  # (people, positives, scores) x seeds x groups x methods x bins
    seeds: list[int]
    attributes: tuple[str, ...]
    setting: str
    gamma: float
    n_test: float

    @classmethod
    def of(cls, evidence: Evidence, model: str = "RF") -> CurveCounts | None:
        """The counts of a base model; None if the store has none of it."""
        counts = evidence.curves[evidence.curves["model"] == model]
        keys = ["seed", "model", "setting"]
        known = evidence.stored[[*keys, "groups", "alpha", "gamma", "rho", "n_test"]]
        counts = counts.merge(known, on=keys)
        attributes = evidence.attributes
        chosen = _finest(counts[counts["method"].isin(METHODS)], attributes)
        if chosen.empty:
            return None
        treated = chosen[chosen["method"] == PMC]
        seeds = sorted({*chosen.loc[chosen["method"] == BASE, "seed"]} & {*treated["seed"]})
        chosen = chosen[chosen["seed"].isin(seeds)]
        groups = sorted(chosen["group_name"].unique())
        methods = [method for method in METHODS if method in {*chosen["method"]}]
        axes: list[Any] = [seeds, groups, methods, range(N_BINS)]
        names = ("seed", "group_name", "method", "bin_index")
        where = tuple(pd.Index(axis).get_indexer(chosen[name]) for name, axis in zip(names, axes))
        sums = np.zeros((3, *(len(axis) for axis in axes)))
        for place, name in enumerate(("people", "positives", "score_sum")):
            sums[(place, *where)] = chosen[name]
        first = treated.iloc[0]
        return cls(
            groups,
            methods,
            sums,
            seeds,
            attributes[first["groups"]],
            str(first["setting"]),
            float(first["gamma"]),
            chosen["n_test"].mean(),
        )

    def curves(self, seeds: Sequence[int] | None = None) -> Curves:
        """The curves of the three groups with the largest error, of all seeds or of a resample of them."""
        places = list(range(len(self.seeds)))
        if seeds is not None:
            known = {seed: place for place, seed in enumerate(self.seeds)}
            places = [known[seed] for seed in seeds if seed in known]
        n = len(places)
        people, positives, scores = self.sums[:, places].sum(axis=1)
        total = positives.sum(axis=2)
        error = np.divide(
            np.abs(positives - scores).sum(axis=2), total, out=np.full(total.shape, np.nan), where=total > 0
        )
        base, treated = (self.methods.index(method) for method in (BASE, PMC))
        share = people[:, base].sum(axis=1) / max(n, 1) / self.n_test
        there = (share >= self.gamma) & ~np.isnan(error[:, [base, treated]]).any(axis=1)
        order = [g for g in np.argsort(-error[:, base], kind="stable") if there[g]][:N_GROUPS]
        errors = pd.DataFrame({"group": [self.groups[g] for g in order], "share": share[order]})
        errors = errors.assign(**{method: error[order, m] for m, method in enumerate(self.methods)})
        rows = [
            {
                "group": self.groups[g],
                "method": method,
                "bin_index": j,
                "people": people[g, m, j] / n,
                "mean_score": scores[g, m, j] / people[g, m, j],
                "outcome_rate": positives[g, m, j] / people[g, m, j],
            }
            for g in sorted(order)
            for m, method in enumerate(self.methods)
            for j in range(N_BINS)
            if people[g, m, j] and people[g, m, j] / n >= MIN_PEOPLE
        ]
        columns = ["group", "method", "bin_index", "people", "mean_score", "outcome_rate"]
        return Curves(pd.DataFrame(rows, columns=columns), errors, self.attributes, self.setting, n)


def curves(evidence: Evidence, model: str = "RF") -> Curves | None:
    """The curves of a base model; None if the store has none of it."""
    counts = CurveCounts.of(evidence, model)
    return None if counts is None else counts.curves()


def _finest(counts: pd.DataFrame, attributes: Mapping[str, Sequence[str]]) -> Any:
    """The setting of PMCBoost with the finest grouping that is closest to the rule of the losses."""
    treated = counts[counts["method"] == PMC]
    treated = treated[treated["groups"].isin(counts.loc[counts["method"] == BASE, "groups"])]
    if treated.empty:
        return treated
    options = treated[["groups", "setting", "alpha", "gamma", "rho"]].drop_duplicates("setting")
    far = sum((np.log(options[name] / RULE[name]).abs() for name in ("alpha", "gamma", "rho")), start=0.0)
    fineness = -options["groups"].map({name: len(names) for name, names in attributes.items()})
    first = options.assign(fineness=fineness, far=far).sort_values(["fineness", "far"]).iloc[0]
    same = counts["groups"] == first["groups"]
    return counts[same & ((counts["method"] != PMC) | (counts["setting"] == first["setting"]))]


def subgroup(group: str, attributes: Sequence[str]) -> str:
    """A subgroup as people read it: its levels, with the attribute where the level does not say it.

    `attributes` are those of its grouping, because levels and names of columns may contain any text.

    >>> subgroup("age_band=under 50 & payer=Medicare", ["age_band", "payer"])
    'under 50, Medicare'
    >>> subgroup("race=Other & payer=not recorded", ["race", "payer"])
    'race: Other, payer: not recorded'
    >>> subgroup("race=Black & African & language missing & not elderly", ["race", "language", "elderly"])
    'Black & African, language missing, not elderly'
    """
    names = [re.escape(name) for name in attributes]
    pattern = " & ".join(f"({name}=.*?|{name} missing|{name}|not {name})" for name in names)
    found = re.fullmatch(pattern, group, re.DOTALL)
    return ", ".join(map(_condition, attributes, found.groups())) if found else group


def _condition(attribute: str, part: str) -> str:
    level = part.removeprefix(f"{attribute}=")
    vague = level.lower() in ("other", "not recorded", "unknown", "missing")
    return f"{attribute}: {level}" if vague and level != part else level

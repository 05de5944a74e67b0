"""Trials, and the counts of calibration curves, as arrays by seed, so that seeds can be
resampled quickly.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from propcal.building_blocks import FloatArray, IntArray
from propcal_paper.settings import (
    ALPHAS,
    BASE,
    GAMMAS,
    MC,
    MC_FOR_PMC,
    N_BINS,
    OURS,
    PMC,
    RHOS,
    RULE,
)
from propcal_paper.trial_store import HIGHER_IS_BETTER, METRICS, Evidence

METHODS = (MC, PMC, MC_FOR_PMC)
COLUMNS = [
    *METRICS,
    *(f"base_{metric}" for metric in METRICS),
    "own_mc_loss",
    "train_mc_loss",
]
COLUMNS += ["n_sweeps", "n_updates", "fit_seconds", "converged"]
CURVE_MODEL = "RF"
CURVE_METHODS = (BASE, PMC, OURS)
N_GROUPS = 3
MIN_PEOPLE = 30


def _arranged(
    frame: pd.DataFrame,
    axes: Mapping[str, Sequence[Any]],
    columns: Sequence[str],
    missing: float,
) -> dict[str, FloatArray]:
    """Columns as arrays with an axis for each key; rows that are on none of the places
    are left out.
    """
    places = pd.MultiIndex.from_product([*axes.values()], names=[*axes])
    found = (
        places.to_frame(index=False)
        .merge(frame, how="left", on=[*axes])[[*columns]]
        .fillna(missing)
    )
    return {
        name: found[name].to_numpy(dtype=float).reshape(places.levshape)
        for name in columns
    }


@dataclass(frozen=True, eq=False)
class TrialCube:
    """Arrays of seeds, models, methods, groupings, alphas, gammas, rhos; NaN where a
    trial is missing.
    """

    models: tuple[str, ...]
    groupings: tuple[str, ...]
    values: Mapping[str, FloatArray]

    @classmethod
    def of(cls, evidence: Evidence, models: Sequence[str]) -> TrialCube:
        """Arrange the trials of some base models; others than those of Table 3 are left
        out.
        """
        axes: dict[str, Sequence[Any]] = {
            "seed": evidence.seeds,
            "model": models,
            "method": METHODS,
        }
        axes |= {
            "groups": evidence.grouping_names,
            "alpha": ALPHAS,
            "gamma": GAMMAS,
            "rho": RHOS,
        }
        values = _arranged(evidence.trials, axes, COLUMNS, np.nan)
        for metric in METRICS:
            base = np.where(
                values[f"base_{metric}"] == 0, np.nan, values[f"base_{metric}"]
            )
            values[f"{metric}_change"] = 100 * (values[metric] - base) / base
        return cls(tuple(models), tuple(evidence.grouping_names), values)

    def drawn(self, places: IntArray) -> TrialCube:
        """The trials of some seeds, each as often as it was drawn."""
        return replace(
            self, values={name: array[places] for name, array in self.values.items()}
        )

    def of_method(
        self, column: str, method: str, model: str | None = None
    ) -> FloatArray:
        """The values of a method, of one base model or of all: (seeds, [models],
        groupings, alphas, ...).
        """
        chosen = self.values[column][:, :, METHODS.index(method)]
        if model is None:
            return chosen
        return chosen[:, self.models.index(model)]

    def by_alpha(self, column: str, method: str) -> FloatArray:
        """Medians over seeds, gamma and rho, by base model, grouping and alpha."""
        return np.asarray(median(self.of_method(column, method), axis=(0, 4, 5)))

    def best(self, metric: str, method: str) -> tuple[IntArray, dict[str, FloatArray]]:
        """The alpha of the best median for each base model and grouping, and the
        medians there.

        Among equals it is the largest alpha, which needs the fewest updates. Updates
        and seconds are those of fits that did not stop at their limit.
        """
        found = self.by_alpha(metric, method)
        sign = -1 if metric in HIGHER_IS_BETTER else 1
        worst_if_missing = np.where(np.isnan(found), np.inf, sign * found)
        place = found.shape[-1] - 1 - np.argmin(worst_if_missing[..., ::-1], axis=-1)
        ended = self.of_method("converged", method) == 1
        there = {metric: found}
        for name in ("n_updates", "fit_seconds"):
            there[name] = median(
                np.where(ended, self.of_method(name, method), np.nan), axis=(0, 4, 5)
            )
        where = place[..., None]
        return place, {
            name: np.take_along_axis(v, where, axis=-1)[..., 0]
            for name, v in there.items()
        }


def median(values: FloatArray, axis: Any = None) -> Any:
    """The median of what is there; NaN if nothing is."""
    if not np.isnan(values).any():
        return np.median(values, axis=axis)  # much faster
    with warnings.catch_warnings():
        warnings.filterwarnings(
            "ignore", "All-NaN slice|Mean of empty slice", RuntimeWarning
        )
        return np.nanmedian(values, axis=axis)


@dataclass(frozen=True, eq=False)
class CurveCounts:
    """People, outcomes and scores by seed, group, method and bin: what the curves are
    made of.
    """

    groups: list[str]
    methods: list[str]
    sums: FloatArray  # (people, positives, scores) x seeds x groups x methods x bins
    there: Any  # which seeds have the base model and PMCBoost
    attributes: tuple[str, ...]
    setting: str
    gamma: float
    n_test: float

    @classmethod
    def of(cls, evidence: Evidence) -> CurveCounts | None:
        """The counts of one base model; None if the store has none of it."""
        counts = evidence.counts[evidence.counts["model"] == CURVE_MODEL]
        chosen = _finest(
            counts[counts["method"].isin(CURVE_METHODS)], evidence.attributes
        )
        if chosen.empty:
            return None
        treated = chosen[chosen["method"] == PMC]
        seeds = {*chosen.loc[chosen["method"] == BASE, "seed"]} & {*treated["seed"]}
        chosen = chosen[chosen["seed"].isin(seeds)]
        groups = sorted(chosen["group_name"].unique())
        methods = [method for method in CURVE_METHODS if method in {*chosen["method"]}]
        axes: dict[str, Sequence[Any]] = {
            "seed": evidence.seeds,
            "group_name": groups,
            "method": methods,
        }
        axes["bin_index"] = range(N_BINS)
        sums = np.stack(
            [
                *_arranged(
                    chosen, axes, ("people", "positives", "score_sum"), 0.0
                ).values()
            ]
        )
        first = treated.iloc[0]
        there = np.isin(evidence.seeds, [*seeds])
        what = (
            evidence.attributes[first["groups"]],
            str(first["setting"]),
            float(first["gamma"]),
        )
        return cls(groups, methods, sums, there, *what, chosen["n_test"].mean())

    def drawn(self, places: IntArray) -> CurveCounts:
        """The counts of some seeds, each as often as it was drawn."""
        return replace(self, sums=self.sums[:, places], there=self.there[places])

    @property
    def n_seeds(self) -> int:
        """The number of seeds with curves."""
        return int(self.there.sum())

    @cached_property
    def errors(self) -> pd.DataFrame:
        """The groups with the largest error, that first: group, share of people, and
        each method's error.
        """
        people, positives, scores = self.sums.sum(axis=1)
        events = positives.sum(axis=2)
        n_people = people.sum(axis=2)[:, self.methods.index(BASE)]
        with np.errstate(divide="ignore", invalid="ignore"):  # groups without outcomes
            error = np.where(
                events > 0, np.abs(positives - scores).sum(axis=2) / events, np.nan
            )
        share = n_people / max(self.n_seeds, 1) / self.n_test
        found = pd.DataFrame(
            {"group": self.groups, "share": share, **dict(zip(self.methods, error.T))}
        )
        found = found[found["share"] >= self.gamma].dropna(subset=[BASE, PMC])
        return found.sort_values(BASE, ascending=False, kind="stable").head(N_GROUPS)

    def points(self) -> pd.DataFrame:
        """Their curves: group, method, bin_index, people (per seed), mean_score,
        outcome_rate.
        """
        people, positives, scores = self.sums.sum(axis=1)
        shown = {*self.errors["group"]}
        rows = []
        for (g, m, j), each in np.ndenumerate(people):
            if self.groups[g] in shown and each and each / self.n_seeds >= MIN_PEOPLE:
                rates = (scores[g, m, j] / each, positives[g, m, j] / each)
                rows.append(
                    (self.groups[g], self.methods[m], j, each / self.n_seeds, *rates)
                )
        columns = [
            "group",
            "method",
            "bin_index",
            "people",
            "mean_score",
            "outcome_rate",
        ]
        return pd.DataFrame(rows, columns=columns)


def _finest(counts: pd.DataFrame, attributes: Mapping[str, Sequence[str]]) -> Any:
    """The setting of PMCBoost with the finest grouping that is closest to the rule of
    the losses.
    """
    treated = counts[counts["method"] == PMC]
    treated = treated[
        treated["groups"].isin(counts.loc[counts["method"] == BASE, "groups"])
    ]
    if treated.empty:
        return treated
    options = treated[["groups", "setting", "alpha", "gamma", "rho"]].drop_duplicates(
        "setting"
    )
    far = sum(
        (
            np.log(options[name] / RULE[name]).abs()
            for name in ("alpha", "gamma", "rho")
        ),
        start=0.0,
    )
    fineness = -options["groups"].map(
        {name: len(names) for name, names in attributes.items()}
    )
    first = (
        options.assign(fineness=fineness, far=far)
        .sort_values(["fineness", "far"])
        .iloc[0]
    )
    same = counts["groups"] == first["groups"]
    return counts[
        same & ((counts["method"] != PMC) | (counts["setting"] == first["setting"]))
    ]


def subgroup(group: str, attributes: Sequence[str]) -> str:
    """A subgroup as people read it: its levels, with the attribute where the level does
    not say it.

    `attributes` are those of its grouping, because levels and names of columns may
    contain any text.

    >>> subgroup("age_band=under 50 & payer=Medicare", ["age_band", "payer"])
    'under 50, Medicare'
    >>> subgroup("race=Other & payer=not recorded", ["race", "payer"])
    'race: Other, payer: not recorded'
    >>> subgroup("race=Black & African & language missing & not elderly", ["race", "language", "elderly"])
    'Black & African, language missing, not elderly'
    """
    names = [re.escape(name) for name in attributes]
    pattern = " & ".join(
        f"({name}=.*?|{name} missing|{name}|not {name})" for name in names
    )
    found = re.fullmatch(pattern, group, re.DOTALL)
    if found:
        return ", ".join(map(_condition, attributes, found.groups()))
    return group


def _condition(attribute: str, part: str) -> str:
    level = part.removeprefix(f"{attribute}=")
    vague = level.lower() in ("other", "not recorded", "unknown", "missing")
    if vague and level != part:
        return f"{attribute}: {level}"
    return level

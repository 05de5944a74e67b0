"""Calibration curves of three intersectional groups, for the base model, PMCBoost and our method."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from propcal.paper.admissions.settings import BASE, OURS, PMC, RULE
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
    setting: str
    n_seeds: int


def curves(evidence: Evidence, model: str = "RF") -> Curves | None:
    """The curves of a base model; None if the store has none of it."""
    counts = evidence.curves[evidence.curves["model"] == model]
    keys = ["seed", "model", "setting"]
    known = evidence.trials[[*keys, "groups", "alpha", "gamma", "rho", "n_test"]]
    counts = counts.merge(known, on=keys)
    counts = counts[counts["method"].isin(METHODS)]
    chosen = _finest(counts)
    if chosen.empty:
        return None
    seeds = {*chosen.loc[chosen["method"] == BASE, "seed"]} & {*chosen.loc[chosen["method"] == PMC, "seed"]}
    chosen = chosen[chosen["seed"].isin(seeds)]
    treated = chosen[chosen["method"] == PMC]
    errors = _errors(chosen, float(treated["gamma"].iloc[0]), len(seeds))
    points = _points(chosen[chosen["group_name"].isin(errors["group"])], len(seeds))
    return Curves(points, errors, str(treated["setting"].iloc[0]), len(seeds))


def _finest(counts: pd.DataFrame) -> Any:
    """The setting of PMCBoost with the finest grouping that is closest to the rule of the losses."""
    treated = counts[counts["method"] == PMC]
    treated = treated[treated["groups"].isin(counts.loc[counts["method"] == BASE, "groups"])]
    if treated.empty:
        return treated
    options = treated[["groups", "setting", "alpha", "gamma", "rho"]].drop_duplicates("setting")
    far = sum((np.log(options[name] / RULE[name]).abs() for name in ("alpha", "gamma", "rho")), start=0.0)
    fineness = -options["groups"].str.count(" x ")
    first = options.assign(fineness=fineness, far=far).sort_values(["fineness", "far"]).iloc[0]
    same = counts["groups"] == first["groups"]
    return counts[same & ((counts["method"] != PMC) | (counts["setting"] == first["setting"]))]


def _errors(counts: pd.DataFrame, gamma: float, n_seeds: int) -> Any:
    """The error of each large intersectional group before and after, beginning with the largest before."""
    depth = counts["groups"].iloc[0].count(" x ")
    summed = counts[counts["group_name"].str.count(" & ") == depth]
    bins = summed.groupby(["group_name", "method", "bin_index"])[["people", "positives", "score_sum"]].sum()
    off = (bins["positives"] - bins["score_sum"]).abs()
    groups = bins.assign(off=off).groupby(level=["group_name", "method"]).sum()
    table = (groups["off"] / groups["positives"]).unstack("method").dropna(subset=[BASE, PMC])
    size = groups["people"].unstack("method")[BASE] / n_seeds / counts["n_test"].mean()
    table = table.assign(share=size)
    table = table[table["share"] >= gamma].sort_values(BASE, ascending=False).head(N_GROUPS)
    return (
        table.rename_axis("group")
        .rename_axis(None, axis=1)
        .reset_index()[["group", "share", *(method for method in METHODS if method in table)]]
    )


def _points(counts: pd.DataFrame, n_seeds: int) -> pd.DataFrame:
    names = ["group_name", "method", "bin_index"]
    bins = counts.groupby(names)[["people", "positives", "score_sum"]].sum().reset_index()
    bins["mean_score"] = bins["score_sum"] / bins["people"]
    bins["outcome_rate"] = bins["positives"] / bins["people"]
    bins["people"] = bins["people"] / n_seeds
    kept = bins[bins["people"] >= MIN_PEOPLE].rename(columns={"group_name": "group"})
    columns = ["group", "method", "bin_index", "people", "mean_score", "outcome_rate"]
    return kept[columns].reset_index(drop=True)

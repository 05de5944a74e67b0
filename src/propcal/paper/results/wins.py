"""Table 6: how often each method is best, by three interpretations of the published caption."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from propcal.paper.experiment.settings import BASE, MC, OURS, PMC
from propcal.paper.experiment.setups import READINGS
from propcal.paper.published import WINS
from propcal.paper.results.evidence import HIGHER_IS_BETTER, METRICS

PUBLISHED = (BASE, MC, PMC)
SETTING = ["groups", "alpha", "gamma", "rho"]
# What a "trial" in the caption may mean, and the columns that identify one.
KEYS = dict(zip(READINGS, (["seed"], ["seed", "model"], ["seed", "model", *SETTING])))
IN_WORDS = {
    "seed": "the best value of any base model and setting of a method; one winner for each seed",
    "seed and model": "the same for each base model separately",
    "seed, model, setting": "methods compared at the same setting, with the base model of that "
    "grouping; one winner for each seed, base model, grouping, alpha, gamma and rho",
}
READING = (
    'The caption says "out of 100 trials"; the appendix says "A single trial consisted of a method, a '
    'parameter setting [...], and a random seed". It is not clear which trials compete, so there are three '
    "interpretations. Equal best values share the win. In the first two, the best of many settings is "
    "chosen on the test set itself, so that a method with more settings has more chances (the base model "
    "has none; the fits of MCBoost do not depend on rho, so it has half as many as PMCBoost)."
)


def wins_of_seeds(trials: pd.DataFrame, methods: Sequence[str] = PUBLISHED) -> pd.DataFrame:
    """The wins of each method and the number of comparisons, by interpretation, metric and seed.

    Only comparisons that include all methods count; equal best values share a win.
    """
    chosen = _at_every_setting(trials[trials["method"].isin([*methods])], methods)
    parts = []
    for reading, keys in KEYS.items():
        for metric in METRICS:
            sign = -1 if metric in HIGHER_IS_BETTER else 1
            best = (sign * chosen.set_index([*keys, "method"])[metric]).groupby(level=[*keys, "method"]).min()
            table = best.unstack("method").reindex(columns=[*methods]).dropna()
            first = table.eq(table.min(axis=1), axis=0)
            shares = first.div(first.sum(axis=1), axis=0).assign(comparisons=1)
            found = shares.groupby(level="seed").sum().reset_index()
            parts.append(found.assign(reading=reading, metric=metric))
    return pd.concat(parts, ignore_index=True)


def wins(trials: pd.DataFrame, methods: Sequence[str] = PUBLISHED) -> pd.DataFrame:
    """The share of comparisons that each method wins, for each interpretation and metric.

    Returns
    -------
    frame
        reading (the interpretation), metric, method, wins (ties shared), comparisons, percent, published
        (NaN if not).
    """
    each = wins_of_seeds(trials, methods)
    total: Any = each.groupby(["reading", "metric"])[[*methods, "comparisons"]].sum()
    rows = []
    for reading in KEYS:
        for metric in METRICS:
            there = (reading, metric) in total.index
            n = int(total.at[(reading, metric), "comparisons"]) if there else 0
            for method in methods:
                won = float(total.at[(reading, metric), method]) if there else 0.0
                rows.append(
                    {"reading": reading, "metric": metric, "method": method, "wins": won}
                    | {"comparisons": n, "percent": 100 * won / n if n else np.nan}
                    | {"published": _published(metric, method) if tuple(methods) == PUBLISHED else np.nan}
                )
    return pd.DataFrame(rows)


def _published(metric: str, method: str) -> float:
    return float(WINS[metric][PUBLISHED.index(method)])


def _at_every_setting(trials: pd.DataFrame, methods: Sequence[str]) -> pd.DataFrame:
    """The trials, with the base model and our method repeated for each setting of their grouping."""
    keys = ["seed", "model"]
    fixed = trials["method"].isin((BASE, OURS)) & trials["alpha"].isna()
    settings = trials.loc[~fixed, [*keys, *SETTING]].drop_duplicates()
    columns = [*keys, "groups", "method", *METRICS]
    repeated = trials.loc[fixed, columns].merge(settings, on=[*keys, "groups"])
    everything = pd.concat([trials.loc[~fixed, [*columns, *SETTING[1:]]], repeated], ignore_index=True)
    return everything[everything["method"].isin([*methods])]

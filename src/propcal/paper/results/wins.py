"""Table 6: how often each method is best, by three interpretations of the published caption."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from propcal.paper.admissions.settings import BASE, MC, OURS, PMC
from propcal.paper.published import WINS
from propcal.paper.results.evidence import HIGHER_IS_BETTER, METRICS

PUBLISHED = (BASE, MC, PMC)
SETTING = ["groups", "alpha", "gamma", "rho"]
# What a "trial" in the caption may mean, and the columns that identify one.
READINGS = {
    "seed": ["seed"],
    "seed and model": ["seed", "model"],
    "seed, model, setting": ["seed", "model", *SETTING],
}
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


def wins(trials: pd.DataFrame, methods: Sequence[str] = PUBLISHED) -> pd.DataFrame:
    """The share of comparisons that each method wins, for each interpretation and metric.

    Returns
    -------
    frame
        reading (the interpretation), metric, method, wins (ties shared), comparisons, percent, published
        (NaN if not).
    """
    chosen = _at_every_setting(trials[trials["method"].isin([*methods])], methods)
    rows = []
    for reading, keys in READINGS.items():
        for metric in METRICS:
            won, n = _won(chosen, keys, metric, methods)
            for method in methods:
                rows.append(
                    {"reading": reading, "metric": metric, "method": method, "wins": won.get(method, 0.0)}
                    | {"comparisons": n, "percent": 100 * won.get(method, 0.0) / n if n else np.nan}
                    | {"published": _published(metric, method) if tuple(methods) == PUBLISHED else np.nan}
                )
    return pd.DataFrame(rows)


def _published(metric: str, method: str) -> float:
    return float(WINS[metric][PUBLISHED.index(method)])


def _at_every_setting(trials: pd.DataFrame, methods: Sequence[str]) -> pd.DataFrame:
    """The trials, with the base model and our method repeated for each setting of their grouping."""
    keys = ["seed", "model"]
    fixed = trials["method"].isin((BASE, OURS))
    settings = trials.loc[~fixed, [*keys, *SETTING]].drop_duplicates()
    columns = [*keys, "groups", "method", *METRICS]
    repeated = trials.loc[fixed, columns].merge(settings, on=[*keys, "groups"])
    everything = pd.concat([trials.loc[~fixed, [*columns, *SETTING[1:]]], repeated], ignore_index=True)
    return everything[everything["method"].isin([*methods])]


def _won(
    trials: pd.DataFrame, keys: list[str], metric: str, methods: Sequence[str]
) -> tuple[dict[str, float], int]:
    """The wins of each method, and the number of comparisons that include all methods."""
    sign = -1 if metric in HIGHER_IS_BETTER else 1
    best = (sign * trials.set_index([*keys, "method"])[metric]).groupby(level=[*keys, "method"]).min()
    table = best.unstack("method").reindex(columns=[*methods]).dropna()
    if table.empty:
        return {}, 0
    first = table.eq(table.min(axis=1), axis=0)
    shares = first.div(first.sum(axis=1), axis=0).sum()
    return {str(method): float(share) for method, share in shares.items()}, len(table)

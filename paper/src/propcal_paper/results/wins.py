"""Table 6: which method is best, by each interpretation of a trial."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np
import pandas as pd

from propcal_paper.results.evidence import HIGHER_IS_BETTER, METRICS
from propcal_paper.settings import BASE, MC, OURS, PMC, PUBLISHED, READINGS

THREE = (BASE, MC, PMC)  # the methods of Table 6
SETTING = ["groups", "alpha", "gamma", "rho"]
# The columns that identify a "trial" in the caption of Table 6, by interpretation.
TRIAL_KEYS = dict(
    zip(READINGS, (["seed"], ["seed", "model"], ["seed", "model", *SETTING]))
)


def wins_of_seeds(trials: pd.DataFrame, methods: Sequence[str] = THREE) -> pd.DataFrame:
    """The wins of each method and the number of comparisons, by interpretation, metric
    and seed.

    Only comparisons that include all methods count; equal best values share a win.
    """
    chosen = at_every_setting(trials[trials["method"].isin([*methods])])
    frames = []
    for reading, keys in TRIAL_KEYS.items():
        for metric in METRICS:
            shares = _shares_of_wins(chosen, metric, keys, methods)
            of_seeds = shares.assign(comparisons=1).groupby(level="seed").sum()
            of_seeds = of_seeds.reset_index()
            frames.append(of_seeds.assign(reading=reading, metric=metric))
    return pd.concat(frames, ignore_index=True)


def _shares_of_wins(
    trials: pd.DataFrame, metric: str, keys: list[str], methods: Sequence[str]
) -> pd.DataFrame:
    """A row for each comparison, with the share of the win that each method has."""
    whose = [*keys, "method"]
    values = trials.set_index(whose)[metric]
    badness = -values if metric in HIGHER_IS_BETTER else values
    best = badness.groupby(level=whose).min()
    table = best.unstack("method").reindex(columns=[*methods]).dropna()
    is_best = table.eq(table.min(axis=1), axis=0)
    return is_best.div(is_best.sum(axis=1), axis=0)


def wins(trials: pd.DataFrame, methods: Sequence[str] = THREE) -> pd.DataFrame:
    """Table 6: the share of comparisons that each method wins, for each interpretation
    and metric.

    Returns
    -------
    frame
        reading (the interpretation), metric, method, wins (ties shared), comparisons,
        percent, published (NaN if not).
    """
    by = ["reading", "metric"]
    printed = PUBLISHED["table_6"]
    of_seeds = wins_of_seeds(trials, methods)
    total = of_seeds.groupby(by)[[*methods, "comparisons"]].sum()
    rows = []
    for reading, metric in product(READINGS, printed):
        won = total.reindex([(reading, metric)], fill_value=0).iloc[0]
        n = int(won["comparisons"])
        published = [np.nan] * len(methods)
        if tuple(methods) == THREE:
            published = printed[metric]
        for method, number in zip(methods, published):
            percent = 100 * float(won[method]) / n if n else np.nan
            counts = (float(won[method]), n, percent, float(number))
            rows.append((reading, metric, method, *counts))
    columns = ["method", "wins", "comparisons", "percent", "published"]
    return pd.DataFrame(rows, columns=[*by, *columns])


def at_every_setting(trials: pd.DataFrame) -> pd.DataFrame:
    """The trials, with the base model and our method repeated for each setting of their
    grouping.
    """
    whose = ["seed", "model", "groups"]
    parameters = ["alpha", "gamma", "rho"]
    fixed = trials["method"].isin((BASE, OURS)) & trials["alpha"].isna()
    varied = trials.loc[~fixed, [*whose, "method", *METRICS, *parameters]]
    settings = varied[[*whose, *parameters]].drop_duplicates()
    of_fixed = trials.loc[fixed, [*whose, "method", *METRICS]]
    repeated = of_fixed.merge(settings, on=whose)
    return pd.concat([varied, repeated], ignore_index=True)

"""Metrics and updates by alpha, and the alpha at which each method is best."""

from __future__ import annotations

import pandas as pd

from propcal.paper.admissions.settings import BASE, MC, OURS, PMC
from propcal.paper.results.evidence import HIGHER_IS_BETTER, METRICS
from propcal.paper.results.seed_intervals import by_seed, median_interval

PANEL = ["model", "groups"]
READING = "Medians over seeds, gamma and rho. The base model and our method do not use the alphas of Table 3."


def over_alpha(trials: pd.DataFrame, column: str) -> pd.DataFrame:
    """Medians of a column for each base model, grouping, method and alpha (NaN: base model and ours)."""
    chosen = trials[trials["method"].isin((BASE, MC, PMC, OURS))]
    names = [*PANEL, "method", "alpha"]
    rows = []
    for values, part in chosen.groupby(names, sort=False, dropna=False):
        found = median_interval(by_seed(part, column))
        rows.append(
            dict(zip(names, values))
            | {column: found.median, "low": found.low, "high": found.high, "n_seeds": found.n_seeds}
        )
    return pd.DataFrame(rows, columns=[*names, column, "low", "high", "n_seeds"])


def medians(trials: pd.DataFrame, column: str) -> pd.DataFrame:
    """Medians without intervals: one row for each panel and alpha, one column for each method."""
    chosen = trials[trials["method"].isin((MC, PMC))]
    table = chosen.groupby([*PANEL, "alpha", "method"])[column].median().unstack("method")
    base = trials[trials["method"] == BASE].groupby(PANEL)[column].median().rename(BASE)
    return table.join(base, on=PANEL)


def best_alpha(trials: pd.DataFrame, metric: str) -> pd.DataFrame:
    """The alpha with the best median for each panel and method, with its median updates and seconds.

    The best alpha is chosen on the test sets, like the paper's "lowest loss on test". Among equals it is the
    largest alpha, which needs the fewest updates.
    """
    chosen = trials[trials["method"].isin((MC, PMC))]
    names = [*PANEL, "method"]
    middle = chosen.groupby([*names, "alpha"])[[metric, "n_updates", "fit_seconds"]].median().reset_index()
    middle = middle.dropna(subset=[metric])
    order = middle.sort_values([metric, "alpha"], ascending=[metric not in HIGHER_IS_BETTER, False])
    return order.groupby(names).head(1).sort_values(names).reset_index(drop=True)


def best_alphas(trials: pd.DataFrame) -> pd.DataFrame:
    """`best_alpha` for every metric in one frame."""
    parts = [
        best_alpha(trials, metric).rename(columns={metric: "median"}).assign(metric=metric)
        for metric in METRICS
    ]
    columns = ["metric", *PANEL, "method", "alpha", "median", "n_updates", "fit_seconds"]
    return pd.concat(parts, ignore_index=True)[columns]

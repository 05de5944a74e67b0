"""Bootstrap intervals of medians over seeds, and tests of whether two methods differ."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from math import comb
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from propcal.numbers import plural
from propcal.paper.experiment.settings import BASE, MC, OURS, PMC
from propcal.paper.results.evidence import METRICS

CONFIDENCE, N_DRAWS = 0.99, 1000
# From the caption of the published figure, which has no mark for 0.01 < p <= 0.05.
MARKS = ((1e-4, "****"), (1e-3, "***"), (1e-2, "**"), (1.0, "ns"))
LEGEND = "ns: p > 1e-2; **: 1e-3 < p <= 1e-2; ***: 1e-4 < p <= 1e-3; ****: p <= 1e-4"


@dataclass(frozen=True)
class Interval:
    """A median with its interval; the limits are NaN with a single seed."""

    median: float
    low: float
    high: float
    n_seeds: int


def median_interval(values: ArrayLike, *, confidence: float = CONFIDENCE, n_draws: int = N_DRAWS) -> Interval:
    """The median of all values, with a percentile bootstrap interval over seeds.

    Parameters
    ----------
    values : array of shape (n_seeds,) or (n_seeds, n_settings)
        The settings of a seed share a split of the data, so they are resampled together; NaN is ignored.
    confidence : float
        The share of bootstrap medians within the interval.
    n_draws : int
        The number of bootstrap samples.

    Examples
    --------
    >>> median_interval([3.0, 1.0, 2.0])
    Interval(median=2.0, low=1.0, high=3.0, n_seeds=3)
    """
    table = np.asarray(values, dtype=np.float64)
    table = table.reshape(len(table), -1) if len(table) else np.empty((0, 1))
    table = table[~np.isnan(table).all(axis=1)]
    n = len(table)
    if n == 0:
        return Interval(np.nan, np.nan, np.nan, 0)
    if n == 1:
        return Interval(_median(table), np.nan, np.nan, 1)
    drawn = np.random.default_rng(0).integers(n, size=(n_draws, n))
    several = np.nanmedian if np.isnan(table).any() else np.median  # the first is much slower
    medians = several(table[drawn].reshape(n_draws, -1), axis=1)
    low, high = np.quantile(medians, [(1 - confidence) / 2, (1 + confidence) / 2])
    return Interval(_median(table), float(low), float(high), n)


def _median(table: Any) -> float:
    return float(np.median(table[~np.isnan(table)]))


def by_seed(trials: pd.DataFrame, column: str) -> Any:
    """One row for each seed with the values of its trials; missing ones are NaN."""
    place = trials.groupby("seed").cumcount()
    return trials.assign(place=place).pivot(index="seed", columns="place", values=column).to_numpy()


def rank_sum(a: ArrayLike, b: ArrayLike) -> float:
    """The p-value of the two-sided Wilcoxon rank-sum test, exact for few values without ties."""
    from scipy.stats import mannwhitneyu

    return float(mannwhitneyu(a, b, alternative="two-sided").pvalue)


def signed_rank(a: ArrayLike, b: ArrayLike) -> float:
    """The p-value of the two-sided signed-rank test for pairs; 1 if no pair differs."""
    from scipy.stats import wilcoxon

    difference = np.asarray(a, dtype=np.float64) - np.asarray(b, dtype=np.float64)
    if not difference.any():
        return 1.0
    # pairs without a difference carry no information about its direction
    return float(wilcoxon(difference[difference != 0]).pvalue)


def smallest_rank_sum(n: int) -> float:
    """The smallest p-value that a rank-sum test of n values against n values can give.

    >>> smallest_rank_sum(3)
    0.1
    """
    return min(1.0, 2 / comb(2 * n, n))


def mark(p: float) -> str:
    """The mark for a p-value in the published figure."""
    return next(sign for most, sign in MARKS if p <= most)


def tests(trials: pd.DataFrame) -> pd.DataFrame:
    """Both tests for every pair of methods of a base model and every metric, with Bonferroni correction.

    A method's value for a seed is the median over its settings. The p-values of a metric are multiplied by
    the number of pairs compared; pairs with our method are counted separately from the published ones.
    """
    middle = trials.groupby(["model", "method", "seed"])[[*METRICS]].median().reset_index()
    rows = []
    for metric in METRICS:
        published = _pairs(middle, metric, [*combinations((BASE, MC, PMC), 2)])
        ours = _pairs(middle, metric, [(method, OURS) for method in (BASE, MC, PMC)])
        for family in (published, ours):
            rows += [_corrected(row, len(family)) for row in family]
    return pd.DataFrame(rows, columns=TEST_COLUMNS)


TEST_COLUMNS = [
    "metric",
    "model",
    "method_a",
    "method_b",
    "n_seeds",
    "comparisons",
    "rank_sum_p",
    "rank_sum_corrected",
    "mark",
    "signed_rank_p",
    "signed_rank_corrected",
    "smallest_possible_corrected",
]


def _pairs(middle: pd.DataFrame, metric: str, pairs: list[tuple[str, str]]) -> list[dict[str, Any]]:
    found = []
    for model, rows in middle.groupby("model", sort=False):
        table = rows.pivot(index="seed", columns="method", values=metric)
        for a, b in pairs:
            if a not in table or b not in table:
                continue
            both = table[[a, b]].dropna()
            if both.empty:
                continue
            found.append(
                {"metric": metric, "model": model, "method_a": a, "method_b": b, "n_seeds": len(both)}
                | {"rank_sum_p": rank_sum(both[a], both[b]), "signed_rank_p": signed_rank(both[a], both[b])}
            )
    return found


def _corrected(row: dict[str, Any], comparisons: int) -> dict[str, Any]:
    corrected = min(1.0, row["rank_sum_p"] * comparisons)
    return row | {
        "comparisons": comparisons,
        "rank_sum_corrected": corrected,
        "mark": mark(corrected),
        "signed_rank_corrected": min(1.0, row["signed_rank_p"] * comparisons),
        "smallest_possible_corrected": min(1.0, smallest_rank_sum(row["n_seeds"]) * comparisons),
    }


def too_few(found: pd.DataFrame) -> str:
    """A sentence if there are too few seeds for a significant result; otherwise an empty text."""
    if found.empty:
        return "There are no two methods to compare yet."
    hopeless = found["smallest_possible_corrected"] > MARKS[-2][0]
    if not hopeless.any():
        return ""
    fewest, comparisons = int(found["n_seeds"].min()), int(found["comparisons"].max())
    whose = "no test" if hopeless.all() else "some tests"
    can = "can" if hopeless.all() else "cannot"
    return (
        f"With {plural(fewest, 'seed')} and Bonferroni correction for {comparisons} "
        f"comparisons, {whose} {can} be significant, whatever the data: "
        f'"ns" is not informative there.'
    )

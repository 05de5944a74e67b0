"""Medians with their bootstrap intervals over seeds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

CONFIDENCE = 0.99
N_DRAWS = 1000


def median_interval(
    values: ArrayLike, *, confidence: float = CONFIDENCE, n_draws: int = N_DRAWS
) -> tuple[float, float, float, int]:
    """The median of all values, its percentile bootstrap interval over seeds, and the
    number of seeds.

    The limits are NaN with a single seed.

    Parameters
    ----------
    values : array of shape (n_seeds,) or (n_seeds, n_settings)
        The settings of a seed share a split of the data, so they are resampled
        together; NaN is ignored.
    confidence : float
        The share of bootstrap medians within the interval.
    n_draws : int
        The number of bootstrap samples.

    Examples
    --------
    >>> median_interval([3.0, 1.0, 2.0])
    (2.0, 1.0, 3.0, 3)
    """
    table = np.asarray(values, dtype=np.float64)
    if not len(table):
        return np.nan, np.nan, np.nan, 0
    table = table.reshape(len(table), -1)
    table = table[~np.isnan(table).all(axis=1)]
    n_seeds = len(table)
    if n_seeds == 0:
        return np.nan, np.nan, np.nan, 0
    middle = float(np.nanmedian(table))
    if n_seeds == 1:
        return middle, np.nan, np.nan, 1

    drawn = np.random.default_rng(0).integers(n_seeds, size=(n_draws, n_seeds))
    resamples = table[drawn].reshape(n_draws, -1)
    some_missing = np.isnan(table).any()
    # nanmedian is much slower
    of_rows = np.nanmedian if some_missing else np.median
    medians = of_rows(resamples, axis=1)
    outside = (1 - confidence) / 2
    low, high = np.quantile(medians, [outside, (1 + confidence) / 2])
    return middle, float(low), float(high), n_seeds


def by_seed(trials: pd.DataFrame, column: str) -> Any:
    """One row for each seed with the values of its trials; missing ones are NaN."""
    placed = trials.assign(place=trials.groupby("seed").cumcount())
    wide = placed.pivot(index="seed", columns="place", values=column)
    return wide.to_numpy()

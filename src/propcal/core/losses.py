"""MC, PMC and DC loss of a category table (Definitions of MC loss, PMC loss and DC loss)."""

from __future__ import annotations

import numpy as np

from propcal.core.categories import Categories
from propcal.core.criterion import Criterion, multicalibration, proportional
from propcal.core.grid import FloatArray


def loss_of(table: Categories, criterion: Criterion) -> float:
    """The tolerance that the worst eligible category needs."""
    chosen = table.eligible
    return float(criterion.loss(table.gap[chosen], table.outcome_rate[chosen]))


def mc_of(table: Categories) -> float:
    """MC loss: the largest |outcome rate - mean score| of any category."""
    return loss_of(table, multicalibration())


def pmc_of(table: Categories, rho: float) -> float:
    """PMC loss: the largest gap of any category as a share of its outcome rate, or of `rho` below it."""
    return loss_of(table, proportional(rho))


def dc_of(table: Categories, rho: float) -> float:
    """DC loss: the largest log-ratio of two groups' outcome rates in the same bin."""
    return float(largest_log_ratio(np.where(table.eligible, table.outcome_rate, np.nan), rho=rho))


def largest_log_ratio(outcome_rate: FloatArray, *, rho: float) -> FloatArray:
    """Over the bins, and all pairs of groups, the largest |log rate_a - log rate_b|.

    Parameters
    ----------
    outcome_rate : array of shape (..., n_groups, n_bins)
        NaN where a category does not count.
    rho : float
        Floor on the rates.

    Notes
    -----
    Of all pairs within a bin the one that matters is the highest and the lowest rate. A bin with
    a single group contributes 0, the pair of a group with itself.

    >>> rates = np.array([[0.2, 0.5], [0.1, np.nan], [0.15, 0.6]])
    >>> round(float(np.exp(largest_log_ratio(rates, rho=0.01))), 6)
    2.0
    """
    counted = ~np.isnan(outcome_rate)
    floored = np.log(np.maximum(outcome_rate, rho, where=counted, out=np.ones_like(outcome_rate)))
    highest = np.max(floored, axis=-2, where=counted, initial=-np.inf)
    lowest = np.min(floored, axis=-2, where=counted, initial=np.inf)
    some = counted.any(axis=-2)
    apart = np.max(np.subtract(highest, lowest, where=some, out=np.zeros_like(highest)), axis=-1)
    return np.asarray(np.where(some.any(axis=-1), apart, np.nan))

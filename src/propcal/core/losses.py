"""MC, PMC and DC loss of a table of categories, as the paper defines them."""

from __future__ import annotations

import numpy as np

from propcal.core.categories import Categories
from propcal.core.criterion import Criterion, multicalibration, proportional
from propcal.core.grid import FloatArray


def loss_of(table: Categories, criterion: Criterion) -> float:
    """The tolerance that the worst eligible category would need."""
    chosen = table.eligible
    return float(criterion.loss(table.gap[chosen], table.outcome_rate[chosen]))


def mc_of(table: Categories) -> float:
    """MC loss: the largest |outcome rate - mean score| of any category."""
    return loss_of(table, multicalibration())


def pmc_of(table: Categories, rho: float) -> float:
    """PMC loss: the largest gap as a share of the category's outcome rate (or of `rho` if larger)."""
    return loss_of(table, proportional(rho))


def smallest_alpha_of(table: Categories, criterion: Criterion, gamma: float | None = None) -> float:
    """The smallest alpha for which a score is (alpha, lambda)-multicalibrated by a criterion.

    A larger alpha allows larger gaps and asks for larger categories. So each category needs its own loss, or
    else an alpha above which it is too small to count; the score needs the largest of these.

    Parameters
    ----------
    table : Categories
        All categories, whether eligible or not.
    criterion : Criterion
        MC or PMC.
    gamma : float, optional
        With it, a category counts if its share of all people is at least alpha * lambda * gamma (Algorithm
        1); without it, if its share of its group is at least alpha * lambda (the paper's definitions).
    """
    there = table.people > 0
    if not there.any():
        return float("nan")
    weight = np.asarray(table.weight, dtype=np.float64)
    share = weight / weight.sum(axis=1, keepdims=True) if gamma is None else table.share / gamma
    counts_up_to = share[there] * table.bins.divisor
    needs = np.abs(table.gap[there]) / criterion.allowance(table.outcome_rate[there])
    return float(np.max(np.minimum(needs, counts_up_to)))


def dc_of(table: Categories, rho: float) -> float:
    """DC loss: the largest log-ratio of two groups' outcome rates in the same bin."""
    return float(largest_log_ratio(np.where(table.eligible, table.outcome_rate, np.nan), rho=rho))


def largest_log_ratio(outcome_rate: FloatArray, *, rho: float) -> FloatArray:
    """The largest |log rate_a - log rate_b| over all bins and all pairs of groups.

    Parameters
    ----------
    outcome_rate : array of shape (..., n_groups, n_bins)
        NaN where a category is too small to be included.
    rho : float
        Rates below this value are replaced by it.

    Notes
    -----
    Within a bin, only the highest and the lowest rate matter. A bin with a single group contributes 0.

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

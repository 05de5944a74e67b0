"""MC, PMC and DC loss of a category table (Definitions of MC loss, PMC loss and DC loss)."""

from __future__ import annotations

import numpy as np

from propcal.core.grid import FloatArray


def largest_gap(gap: FloatArray) -> FloatArray:
    """MC loss: the largest |outcome rate - mean score| of any category (last axis); NaN if there is none.

    >>> largest_gap(np.array([-0.1, 0.05])).item()
    0.1
    """
    return np.asarray(np.max(np.abs(gap), axis=-1) if gap.shape[-1] else np.full(gap.shape[:-1], np.nan))


def largest_proportional_gap(gap: FloatArray, outcome_rate: FloatArray, *, rho: float) -> FloatArray:
    """PMC loss: the largest gap of any category as a share of its outcome rate.

    Parameters
    ----------
    gap, outcome_rate : arrays of shape (..., n_categories)
    rho : float
        Floor on the rate we divide by. The paper assumes that every rate is at least `rho`; below
        it we divide by `rho`, as PMCBoost does.

    >>> largest_proportional_gap(np.array([-0.1, 0.1]), np.array([0.4, 0.8]), rho=0.1).item()
    0.25
    """
    return largest_gap(gap / np.maximum(outcome_rate, rho))


def largest_log_ratio(outcome_rate: FloatArray, *, rho: float) -> FloatArray:
    """DC loss: over the bins, and all pairs of groups, the largest |log rate_a - log rate_b|.

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

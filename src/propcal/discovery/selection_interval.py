"""Intervals after selection: a statistic that was looked at because it is large overstates the error."""

from __future__ import annotations

import numpy as np
from scipy import special

LEAST = 0.2  # of a statistic beyond its limit; its description may have lost a little
WIDEST = 40.0  # standard errors on either side


def after_selection(statistic: float, limit: float, confidence: float = 0.95) -> tuple[float, float]:
    """An interval of the mean of a normal statistic that was reported because it is beyond +-limit.

    >>> [round(end, 2) for end in after_selection(10.0, 5.0)]
    [8.04, 11.96]
    >>> [round(end, 2) for end in after_selection(5.2, 5.0)]
    [-0.24, 6.66]
    >>> [round(end, 2) for end in after_selection(-10.0, 5.0)]
    [-11.96, -8.04]
    """
    if statistic < 0:
        low, high = after_selection(-statistic, limit, confidence)
        return -high, -low
    tail = (1 - confidence) / 2
    limit = min(limit, statistic - LEAST)
    return _solve(statistic, limit, tail), _solve(statistic, limit, 1 - tail)


def _solve(statistic: float, limit: float, wanted: float) -> float:
    """The mean for which a selected statistic is at least this large with the wanted probability."""
    low, high = statistic - WIDEST, statistic + WIDEST
    for _ in range(80):
        middle = (low + high) / 2
        if _beyond(statistic, limit, middle) < wanted:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _beyond(statistic: float, limit: float, mean: float) -> float:
    """The probability of at least the statistic, given that it is beyond the limit on either side."""
    upper, selected = special.log_ndtr(mean - statistic), special.log_ndtr(mean - limit)
    below = special.log_ndtr(-limit - mean)
    return float(np.exp(upper - np.logaddexp(selected, below)))

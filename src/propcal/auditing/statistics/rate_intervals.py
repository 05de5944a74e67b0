"""Quantiles and tails of usual distributions, and intervals of rates and of distances.

Quantiles come from scipy.special: scipy.stats takes a second to import.

A distance is never negative, so noise alone makes it positive, and value plus or minus
something misses a true zero. Test inversion tries possible truths instead, from "no
error" on through the error found and beyond: each gives the distances that it would
show under noise, and those at which the distance found would not be surprising make the
interval.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import special

from propcal.core.grid import FloatArray


def normal_quantile(p: float) -> float:
    """Value that a standard normal variable stays below with probability `p`.

    >>> round(normal_quantile(0.975), 4)
    1.96
    """
    return float(special.ndtri(p))


def normal_tail(z: float) -> float:
    """Probability that a standard normal variable exceeds `z`; precise far out, too."""
    return float(special.ndtr(-z))


def normal_density(z: float) -> float:
    """Density of the standard normal distribution."""
    return math.exp(-z * z / 2) / math.sqrt(2 * math.pi)


def t_quantile(p: float, df: float) -> float:
    """Value that Student's t with `df` degrees of freedom stays below with probability
    `p`.

    >>> round(t_quantile(0.975, 10), 3)
    2.228
    """
    return float(special.stdtrit(df, p))


def t_tail(t: float, df: float) -> float:
    """Probability that Student's t exceeds `t`."""
    return float(special.stdtr(df, -t))


def most_of_none(p: float) -> float:
    """Largest expected count under which a count of 0 still has probability 1 - `p`
    (Poisson).

    >>> round(most_of_none(0.95), 2)
    3.0
    """
    return -math.log1p(-p)


Limits = tuple[float, float]
CONFIDENCE = 0.95
TAIL = (1 - CONFIDENCE) / 2
# standard errors that a 95 % interval reaches to either side
NORMAL_REACH = normal_quantile((1 + CONFIDENCE) / 2)
N_TRUTHS = 17  # tried, of each error found
REACH = 4  # how many times the noise they reach around it


def possible_truths(error: FloatArray, noise: FloatArray) -> FloatArray:
    """Multiples of the error found, from 0 or well below 1 to well above it, as far as
    the noise reaches.
    """
    mean_square = np.mean(error**2)
    size = max(float(np.sqrt(mean_square)), 1e-9)
    noise_size = np.sqrt(np.mean(noise**2))
    relative_noise = noise_size / size
    lowest = max(0.0, 1 - REACH * relative_noise)
    highest = 1 + REACH * relative_noise
    return np.linspace(lowest, highest, N_TRUTHS)


def accepted(
    path: FloatArray, values: FloatArray, drawn: FloatArray, observed: float
) -> Limits:
    """Smallest and largest of the true values under which the observed one lies in the
    middle 95 %.

    Parameters
    ----------
    path : array of shape (n_truths,)
        Multiples of the error found.
    values : array of shape (n_truths,)
        The distance of each truth.
    drawn : array of shape (n_truths, n_draws)
        Distances that each truth shows under noise.
    observed : float
    """
    at_least = np.mean(drawn >= observed, axis=1)
    at_most = np.mean(drawn <= observed, axis=1)
    return accepted_range(path, values, at_least, at_most)


def accepted_range(
    path: FloatArray, values: FloatArray, at_least: FloatArray, at_most: FloatArray
) -> Limits:
    """`accepted`, from the shares of draws at least, and at most, as large as the
    observed distance.
    """
    rises = np.maximum.accumulate(at_least)
    falls = np.minimum.accumulate(at_most)
    first_accepted = np.interp(TAIL, rises, path)
    last_accepted = np.interp(-TAIL, -falls, path)
    low = np.interp(first_accepted, path, values)
    high = np.interp(last_accepted, path, values)
    return float(low), float(high)


def bisected(
    is_below: Callable[[Any], Any], low: Any, high: Any, steps: int
) -> tuple[FloatArray, FloatArray]:
    """The two ends between which a condition stops holding, for one number or several,
    after some halvings.

    >>> low, high = bisected(lambda x: x**2 < 2, 0.0, 2.0, 40)
    >>> float(low.round(6)), float(high.round(6))
    (1.414214, 1.414214)
    """
    for _ in range(steps):
        middle = (low + high) / 2
        below = is_below(middle)
        low = np.where(below, middle, low)
        high = np.where(below, high, middle)
    return low, high


def exact_interval(
    rate: FloatArray, n: FloatArray, error: float
) -> tuple[FloatArray, FloatArray]:
    """Clopper and Pearson's interval of a rate among `n` people, each tail `error` / 2.

    >>> low, high = exact_interval(np.array([0.0, 0.5]), np.array([10.0, 10.0]), 0.05)
    >>> low.round(4).tolist(), high.round(4).tolist()
    ([0.0, 0.1871], [0.3085, 0.8129])
    """
    positives = rate * n
    negatives = n - positives
    with np.errstate(invalid="ignore"):
        low = special.betaincinv(positives, negatives + 1, error / 2)
        high = special.betaincinv(positives + 1, negatives, 1 - error / 2)
    low = np.where(positives <= 0, 0.0, low)
    high = np.where(negatives <= 0, 1.0, high)
    unknown = np.isnan(rate)
    return np.where(unknown, np.nan, low), np.where(unknown, np.nan, high)


def wilson_interval(
    rate: FloatArray, n: FloatArray, quantile: float
) -> tuple[FloatArray, FloatArray]:
    """Wilson's interval of a rate among `n` people.

    >>> low, high = wilson_interval(np.array([0.0]), np.array([10.0]), 1.96)
    >>> low.round(4).tolist(), high.round(4).tolist()
    ([0.0], [0.2775])
    """
    shrink = quantile**2 / n
    middle = (rate + shrink / 2) / (1 + shrink)
    binomial = rate * (1 - rate) / n
    variance = binomial + shrink / (4 * n)
    width = quantile / (1 + shrink)
    reach = width * np.sqrt(variance)
    low = np.maximum(middle - reach, 0.0)
    high = np.minimum(middle + reach, 1.0)
    return low, high

"""Random effects: the mean over sites, how much sites differ, and what to expect at a new one.

The variance between sites (tau squared) is Paule and Mandel's: the value at which the weighted squares of the
sites' distances from their mean are as large as expected. The interval of the mean is Hartung and Knapp's.

The prediction interval allows for tau squared being known only roughly, which the usual formula does not:
with few sites, or sites that differ little, that one is too narrow. Every value of tau squared counts as much
as the data support it (the confidence distribution of Nagashima, Noma and Furukawa); for each, a new site
follows a t distribution around the mean. The interval is the middle 95 % of all of these together.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import special

from propcal.auditing.distributions import t_quantile
from propcal.auditing.intervals import CONFIDENCE
from propcal.core.grid import FloatArray
from propcal.errors import InputError

FEWEST_SITES = 3
STEPS = 200  # of bisection
PLAUSIBLE = 100  # values of tau squared, each as plausible as the others


@dataclass(frozen=True)
class RandomEffects:
    """What sites have in common; NaN where there are too few of them.

    Attributes
    ----------
    mean, low, high : float
        Mean over sites with its 95 % interval (Hartung-Knapp).
    error : float
        Standard error of the mean.
    tau2, i2 : float
        Variance between sites, and its share of the variance of the sites' estimates (Higgins and Thompson).
    p_alike : float
        p-value of the test that sites do not differ (Cochran's Q).
    prediction_low, prediction_high : float
        Between these, 95 % of new sites are expected.
    n_sites : int
    """

    mean: float
    low: float
    high: float
    error: float
    tau2: float
    i2: float
    p_alike: float
    prediction_low: float
    prediction_high: float
    n_sites: int


def random_effects(estimate: FloatArray, variance: FloatArray) -> RandomEffects:
    """Summarise the estimates of several sites.

    >>> found = random_effects(np.array([0.1, 0.3, -0.1, 0.25]), np.array([0.01, 0.02, 0.015, 0.01]))
    >>> round(found.mean, 3), round(found.tau2, 4), round(found.i2, 2)
    (0.136, 0.017, 0.54)
    """
    estimate, variance = np.asarray(estimate, dtype=np.float64), np.asarray(variance, dtype=np.float64)
    known = np.isfinite(estimate) & np.isfinite(variance) & (variance > 0)
    estimate, variance = estimate[known], variance[known]
    n = len(estimate)
    if n == 0:
        raise InputError("no site has enough people")
    tau2 = paule_mandel(estimate, variance)
    weight = 1 / (variance + tau2)
    mean = float(np.sum(weight * estimate) / weight.sum())
    nan = float("nan")
    if n < FEWEST_SITES:
        return RandomEffects(mean, nan, nan, nan, tau2, nan, nan, nan, nan, n)
    scale = float(np.sum(weight * (estimate - mean) ** 2)) / (n - 1)
    error = float(np.sqrt(scale / weight.sum()))
    reach = t_quantile((1 + CONFIDENCE) / 2, n - 1) * error
    low, high = prediction_interval(estimate, variance)
    q = _cochran_q(estimate, variance)
    i2, p = (max(1 - (n - 1) / q, 0.0) if q > 0 else 0.0), float(special.chdtrc(n - 1, q))
    return RandomEffects(mean, mean - reach, mean + reach, error, tau2, i2, p, low, high, n)


def prediction_interval(estimate: FloatArray, variance: FloatArray) -> tuple[float, float]:
    """Between which values 95 % of new sites are expected."""
    n = len(estimate)
    target = special.chdtri(n - 1, 1 - (np.arange(PLAUSIBLE) + 0.5) / PLAUSIBLE)
    low, high = np.zeros(PLAUSIBLE), np.full(PLAUSIBLE, 4 * float(np.var(estimate, ddof=1)) + 1e-12)
    while np.any(grown := _squares(estimate, variance, high)[0] > target):
        high[grown] *= 2
    for _ in range(STEPS // 3):
        middle = (low + high) / 2
        more = _squares(estimate, variance, middle)[0] > target
        low, high = np.where(more, middle, low), np.where(more, high, middle)
    tau2 = (low + high) / 2
    squares, mean, weight = _squares(estimate, variance, tau2)
    spread = np.sqrt(tau2 + squares / (n - 1) / weight)
    ends = []
    for share in ((1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2):
        left, right = float(np.min(mean - 60 * spread)), float(np.max(mean + 60 * spread))
        for _ in range(STEPS // 2):
            place = (left + right) / 2
            below = float(np.mean(special.stdtr(n - 1, (place - mean) / spread))) < share
            left, right = (place, right) if below else (left, place)
        ends.append((left + right) / 2)
    return ends[0], ends[1]


def _squares(
    estimate: FloatArray, variance: FloatArray, tau2: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Weighted squares around the weighted mean, that mean, and the sum of weights, for each tau squared."""
    weight = 1 / (variance + tau2[:, None])
    total = weight.sum(axis=1)
    mean = (weight * estimate).sum(axis=1) / total
    return (weight * (estimate - mean[:, None]) ** 2).sum(axis=1), mean, total


def paule_mandel(estimate: FloatArray, variance: FloatArray) -> float:
    """The variance between sites, by bisection; 0 if sites differ no more than chance explains."""
    n = len(estimate)

    def excess(tau2: float) -> float:
        weight = 1 / (variance + tau2)
        mean = np.sum(weight * estimate) / weight.sum()
        return float(np.sum(weight * (estimate - mean) ** 2)) - (n - 1)

    if n < 2 or excess(0.0) <= 0:
        return 0.0
    low, high = 0.0, float(np.var(estimate, ddof=1)) + 1e-12
    while excess(high) > 0:
        high *= 2
    for _ in range(STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if excess(middle) > 0 else (low, middle)
    return (low + high) / 2


def _cochran_q(estimate: FloatArray, variance: FloatArray) -> float:
    """Weighted squares of the sites' distances from their mean, if all sites are the same."""
    weight = 1 / variance
    mean = np.sum(weight * estimate) / weight.sum()
    return float(np.sum(weight * (estimate - mean) ** 2))

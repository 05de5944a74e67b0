"""Random effects: the mean over sites, how much sites differ, and what to expect at a new one.

The variance between sites (tau squared) is Paule and Mandel's: the value at which the weighted squares of the
sites' distances from their mean are as large as expected. The interval of the mean is Hartung and Knapp's.

O/E ratios are summarised as they are, without logarithms, so that a site without events counts as well. The
variance of each comes from the events that its scores expect, not from those observed, which would give more
weight to sites with few events by chance. The square of a small count varies more than that of a large one,
so where squares are added up, a small site counts as less than one. Sites of any size can be in the model.

The prediction interval allows for tau squared being known only roughly, which the usual formula does not:
with few sites, or sites that differ little, that one is too narrow. Every value of tau squared counts as much
as the data support it (the confidence distribution of Nagashima, Noma and Furukawa); for each, a new site
follows a t distribution around the mean. The interval is the middle 95 % of all of these together.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy import special

from propcal.auditing.intervals import CONFIDENCE, t_quantile
from propcal.core.grid import FloatArray
from propcal.errors import InputError

FEWEST_SITES = 3
STEPS = 200  # of bisection
PLAUSIBLE = 100  # values of tau squared, each as plausible as the others
ROUNDS = 20  # of the mean O/E ratio, on which the variances depend
LEAST_SPREAD = 0.05  # variance of a count in relation to its expectation


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
    prediction_low: float
    prediction_high: float
    n_sites: int


def random_effects(
    estimate: FloatArray, variance: FloatArray, count: FloatArray | None = None
) -> RandomEffects:
    """Summarise the estimates of several sites; `count` is as how many sites each counts in sums of squares.

    >>> found = random_effects(np.array([0.1, 0.3, -0.1, 0.25]), np.array([0.01, 0.02, 0.015, 0.01]))
    >>> round(found.mean, 3), round(found.tau2, 4), round(found.i2, 2)
    (0.136, 0.017, 0.54)
    """
    estimate, variance = np.asarray(estimate, dtype=np.float64), np.asarray(variance, dtype=np.float64)
    count = np.ones(len(estimate)) if count is None else count
    known = np.isfinite(estimate) & np.isfinite(variance) & (variance > 0)
    estimate, variance, count = estimate[known], variance[known], count[known]
    n, freedom = len(estimate), float(count.sum()) - 1
    if n == 0:
        raise InputError("no site has enough people")
    tau2 = float(plausible_tau2(estimate, variance, count, np.array([freedom]))[0])
    squares, mean, weight = (float(x[0]) for x in _squares(estimate, variance, count, np.array([tau2])))
    nan = float("nan")
    if n < FEWEST_SITES or freedom < 1:
        return RandomEffects(mean, nan, nan, nan, tau2, nan, nan, nan, n)
    error = float(np.sqrt(squares / freedom / weight))
    reach = t_quantile((1 + CONFIDENCE) / 2, freedom) * error
    low, high = prediction_interval(estimate, variance, count)
    q = float(_squares(estimate, variance, count, np.zeros(1))[0][0])
    i2 = max(1 - freedom / q, 0.0) if q > 0 else 0.0
    return RandomEffects(mean, mean - reach, mean + reach, error, tau2, i2, low, high, n)


def ratio_effects(
    observed: FloatArray, expected: FloatArray, squared: FloatArray, effect: FloatArray
) -> RandomEffects:
    """The same of O/E ratios, with any number of events at each site.

    `squared` are the sums of the squared scores, and `effect` is how many times larger the variance of each
    number of events is than that of independent people. Tau squared is the variance of the O/E ratio in
    relation to its mean, nearly that of its logarithm.
    """
    count = 1 / (1 + effect / (2 * expected))  # the square of a small count varies so much more
    mean = float(np.sum(observed / effect) / np.sum(expected / effect))
    for _ in range(ROUNDS):  # the variances depend on the mean
        spread = np.maximum(1 - mean * squared / expected, LEAST_SPREAD)
        ratio, variance = observed / expected / mean, effect * spread / (expected * mean)
        tau2 = plausible_tau2(ratio, variance, count, np.array([count.sum() - 1]))
        step = float(_squares(ratio, variance, count, tau2)[1][0])
        mean *= step
        if abs(step - 1) < 1e-9:
            break
    found = random_effects(observed / expected / mean, variance, count)
    new = (found.prediction_low, found.prediction_high)  # around the median, which is below the mean
    ends = (found.low - 1, found.high - 1, *(end - 1 - found.tau2 / 2 for end in new))
    low, high, new_low, new_high = (mean * float(np.exp(end)) for end in ends)
    new_low, new_high = min(new_low, low), max(new_high, high)  # a new site is no surer than the mean
    return replace(found, mean=mean, low=low, high=high, prediction_low=new_low, prediction_high=new_high)


def prediction_interval(estimate: FloatArray, variance: FloatArray, count: FloatArray) -> tuple[float, float]:
    """Between which values 95 % of new sites are expected."""
    freedom = float(count.sum()) - 1
    target = special.chdtri(freedom, 1 - (np.arange(PLAUSIBLE) + 0.5) / PLAUSIBLE)
    tau2 = plausible_tau2(estimate, variance, count, target)
    squares, mean, weight = _squares(estimate, variance, count, tau2)
    spread = np.sqrt(tau2 + squares / freedom / weight)
    ends = []
    for share in ((1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2):
        left, right = float(np.min(mean - 60 * spread)), float(np.max(mean + 60 * spread))
        for _ in range(STEPS // 2):
            place = (left + right) / 2
            below = float(np.mean(special.stdtr(freedom, (place - mean) / spread))) < share
            left, right = (place, right) if below else (left, place)
        ends.append((left + right) / 2)
    return ends[0], ends[1]


def plausible_tau2(
    estimate: FloatArray, variance: FloatArray, count: FloatArray, target: FloatArray
) -> FloatArray:
    """The tau squared at which squares add up to each target, by bisection; 0 if they never do."""
    low, high = np.zeros(len(target)), np.full(len(target), 4 * float(np.var(estimate)) + 1e-12)
    while np.any(grown := _squares(estimate, variance, count, high)[0] > target):
        high[grown] *= 2
    for _ in range(STEPS // 3):
        middle = (low + high) / 2
        more = _squares(estimate, variance, count, middle)[0] > target
        low, high = np.where(more, middle, low), np.where(more, high, middle)
    return np.where(
        _squares(estimate, variance, count, np.zeros(len(target)))[0] > target, (low + high) / 2, 0.0
    )


def _squares(
    estimate: FloatArray, variance: FloatArray, count: FloatArray, tau2: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Weighted squares around the weighted mean, that mean, and the sum of weights, for each tau squared."""
    weight = 1 / (variance + tau2[:, None])
    total = weight.sum(axis=1)
    mean = (weight * estimate).sum(axis=1) / total
    return (count * weight * (estimate - mean[:, None]) ** 2).sum(axis=1), mean, total

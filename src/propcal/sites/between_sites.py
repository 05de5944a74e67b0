"""Between sites: do they differ, by how much, what is their mean, and what to expect at
a new one?

The variance between sites (tau squared) is Paule and Mandel's: the value at which the
weighted squares of the sites' distances from their mean are as large as expected. The
interval of the mean is Hartung and Knapp's.

O/E ratios are summarised as they are, without logarithms, so that a site without events
counts as well. The variance of each comes from the events that its scores expect, not
from those observed, which would give more weight to sites with few events by chance.
The square of a small count varies more than that of a large one, so where squares are
added up, a small site counts as less than one. Sites of any size can be in the model.

The prediction interval allows for tau squared being known only roughly, which the usual
formula does not: with few sites, or sites that differ little, that one is too narrow.
Every value of tau squared counts as much as the data support it (the confidence
distribution of Nagashima, Noma and Furukawa); for each, a new site follows a t
distribution around the mean. The interval is the middle 95 % of all of these together.

For the test of differences, one calibration curve is fitted to the people of all sites,
so that a common error is not taken for a difference. What is left at each site is the
number of events in excess of the curve. Its variance is known from the curve (a score
test), so the test is right for sites with few events, too, and for any number of sites.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy import special

from propcal.auditing.statistics.rate_intervals import (
    CONFIDENCE,
    bisected,
    normal_tail,
    t_quantile,
)
from propcal.auditing.statistics.sample import Sample
from propcal.core.grid import BoolArray, FloatArray
from propcal.core.logistic import fit_logistic, spline_basis
from propcal.errors import InputError

FEWEST_SITES = 3
STEPS = 80  # of bisection
PLAUSIBLE = 100  # values of tau squared, each as plausible as the others
ROUNDS = 20  # of the mean O/E ratio, on which the variances depend
LEAST_SPREAD = 0.05  # variance of a count in relation to its expectation
KNOTS = (
    0.05,
    0.35,
    0.65,
    0.95,
)  # of the common curve, as quantiles of the events and non-events expected
NEARLY_NORMAL = 1e-3  # skewness


@dataclass(frozen=True, eq=False)
class SiteCounts:
    """For each site: events observed and expected, sum of squared scores, and the
    effect of the design.

    The effect is how many times larger the variance of the number of events is than
    with independent people of equal weight. Repeat visits are taken to have the same
    effect at all sites.
    """

    observed: FloatArray
    expected: FloatArray
    squared: FloatArray
    effect: FloatArray

    @classmethod
    def of(cls, samples: Sequence[Sample], everybody: Sample) -> SiteCounts:
        """Count, from the people of each site and those of all."""
        if everybody.cluster is None:
            repeats = 1.0
        else:
            repeats = np.fmax(everybody.variance_ratio, 1.0)
        spread = [one.score * (1 - one.score) for one in samples]
        with np.errstate(invalid="ignore"):
            weights = [
                (one.weight_sq @ var) / (one.weight @ var)
                for one, var in zip(samples, spread)
            ]
        return cls(
            np.array([one.observed for one in samples]),
            np.array([one.expected for one in samples]),
            np.array([one.weight @ one.score**2 for one in samples]),
            repeats * np.nan_to_num(weights, nan=1.0),
        )

    @property
    def error(self) -> FloatArray:
        """Standard error of log(O/E) at each site if the score is right."""
        with np.errstate(invalid="ignore", divide="ignore"):
            error = (
                np.sqrt(self.effect * (self.expected - self.squared)) / self.expected
            )
        return np.where(error > 0, error, np.nan)


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
        Variance between sites, and its share of the variance of the sites' estimates
        (Higgins and Thompson).
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


class _Estimates(NamedTuple):
    """Estimates of sites, their variances, and as how many sites each counts in sums of
    squares.
    """

    estimate: FloatArray
    variance: FloatArray
    counts_as: FloatArray

    @property
    def freedom(self) -> float:
        """Degrees of freedom."""
        return float(self.counts_as.sum()) - 1

    def squares(self, tau2: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """For each tau squared: weighted squares around the weighted mean, that mean,
        the sum of weights.
        """
        weight = 1 / (self.variance + tau2[:, None])
        total = weight.sum(axis=1)
        mean = (weight * self.estimate).sum(axis=1) / total
        return (
            (self.counts_as * weight * (self.estimate - mean[:, None]) ** 2).sum(
                axis=1
            ),
            mean,
            total,
        )

    def tau2(self, target: FloatArray) -> FloatArray:
        """The tau squared at which squares add up to each target, by bisection; 0 if
        they never do.
        """
        low = np.zeros(len(target))
        high = np.full(len(target), 4 * float(np.var(self.estimate)) + 1e-12)
        while np.any(grown := (self.squares(high)[0] > target) & (target > 0)):
            high[grown] *= 2
        low, high = bisected(
            lambda tau2: self.squares(tau2)[0] > target, low, high, STEPS
        )
        never = (self.squares(np.zeros(len(target)))[0] <= target) | (target <= 0)
        return np.where(never, 0.0, (low + high) / 2)


def random_effects(
    estimate: FloatArray, variance: FloatArray, count: FloatArray | None = None
) -> RandomEffects:
    """Summarise the estimates of several sites; `count` is as how many sites each
    counts in sums of squares.

    >>> found = random_effects(np.array([0.1, 0.3, -0.1, 0.25]), np.array([0.01, 0.02, 0.015, 0.01]))
    >>> round(found.mean, 3), round(found.tau2, 4), round(found.i2, 2)
    (0.136, 0.017, 0.54)
    """
    known = np.isfinite(estimate) & np.isfinite(variance) & (variance > 0)
    columns = (estimate, variance, np.ones(len(estimate)) if count is None else count)
    sites = _Estimates(*(column[known] for column in columns))
    n = int(known.sum())
    freedom = sites.freedom
    nan = float("nan")
    if n == 0:
        raise InputError("no site has enough people")
    tau2 = sites.tau2(np.array([freedom]))
    squares, mean, weight = (float(x[0]) for x in sites.squares(tau2))
    if n < FEWEST_SITES or freedom < 1:
        return RandomEffects(mean, nan, nan, nan, float(tau2[0]), nan, nan, nan, n)
    error = float(np.sqrt(squares / freedom / weight))
    reach = t_quantile((1 + CONFIDENCE) / 2, freedom) * error
    q = float(sites.squares(np.zeros(1))[0][0])
    i2 = max(1 - freedom / q, 0.0) if q > 0 else 0.0
    ends = prediction_interval(*sites)
    return RandomEffects(
        mean, mean - reach, mean + reach, error, float(tau2[0]), i2, *ends, n
    )


def ratio_effects(counts: SiteCounts) -> RandomEffects:
    """Summarise the O/E ratios of several sites, with any number of events at each.

    Tau squared is the variance of the O/E ratio in relation to its mean, nearly that of
    its logarithm.
    """
    some = counts.expected > 0  # not every score of a site is 0
    observed, expected, squared, effect = (
        column[some] for column in vars(counts).values()
    )
    count = 1 / (
        1 + effect / (2 * expected)
    )  # the square of a small count varies so much more
    mean = float(np.sum(observed / effect) / np.sum(expected / effect))
    for _ in range(ROUNDS):  # the variances depend on the mean
        spread = np.maximum(1 - mean * squared / expected, LEAST_SPREAD)
        sites = _Estimates(
            observed / expected / mean, effect * spread / (expected * mean), count
        )
        step = float(sites.squares(sites.tau2(np.array([sites.freedom])))[1][0])
        mean *= step
        if abs(step - 1) < 1e-9:
            break
    found = random_effects(observed / expected / mean, sites.variance, count)
    new = (
        found.prediction_low,
        found.prediction_high,
    )  # around the median, which is below the mean
    ends = (found.low - 1, found.high - 1, *(end - 1 - found.tau2 / 2 for end in new))
    low, high, new_low, new_high = (mean * float(np.exp(end)) for end in ends)
    # a new site is no surer than the mean
    new_low = min(new_low, low)
    new_high = max(new_high, high)
    return replace(
        found,
        mean=mean,
        low=low,
        high=high,
        prediction_low=new_low,
        prediction_high=new_high,
    )


def prediction_interval(
    estimate: FloatArray, variance: FloatArray, count: FloatArray
) -> tuple[float, float]:
    """Between which values 95 % of new sites are expected."""
    sites = _Estimates(estimate, variance, count)
    tau2 = sites.tau2(
        special.chdtri(sites.freedom, 1 - (np.arange(PLAUSIBLE) + 0.5) / PLAUSIBLE)
    )
    squares, mean, weight = sites.squares(tau2)
    spread = np.sqrt(tau2 + squares / sites.freedom / weight)
    shares = np.array([(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])

    def too_low(ends: FloatArray) -> BoolArray:
        below = special.stdtr(sites.freedom, (ends[:, None] - mean) / spread).mean(
            axis=1
        )
        return np.asarray(below < shares)

    low, high = (
        np.full(2, end)
        for end in (np.min(mean - 60 * spread), np.max(mean + 60 * spread))
    )
    low, high = bisected(too_low, low, high, STEPS)
    return float(low[0] + high[0]) / 2, float(low[1] + high[1]) / 2


@dataclass(frozen=True, eq=False)
class Differences:
    """The test of all sites, and of each: events beyond the common curve in standard
    errors, and p-values.
    """

    statistic: float
    p_value: float
    excess: FloatArray
    p_values: FloatArray


def site_differences(
    samples: Sequence[Sample], effect: FloatArray
) -> Differences | None:
    """Test the sites; None if no common curve can be fitted."""
    cells = [one.cells for one in samples]
    site = np.repeat(np.arange(len(cells)), [len(one.score) for one in cells])
    score, x = (
        np.concatenate([getattr(one, name) for one in cells]) for name in ("score", "x")
    )
    inside = (score > 0) & (score < 1)
    weight, positives = (
        np.concatenate([getattr(one, name) / by for one, by in zip(cells, effect)])[
            inside
        ]
        for name in ("weight", "positives")
    )
    site = site[inside]
    score = score[inside]
    x = x[inside]
    if not 0 < positives.sum() < weight.sum():
        return None
    knots = _knots(x, weight * score * (1 - score))
    for own in (
        knots,
        knots[:2],
    ):  # a straight line if few events leave the curve without a maximum
        design = spline_basis(x, own)
        start = np.eye(design.shape[1])[min(1, design.shape[1] - 1)]
        curve = fit_logistic(design, np.zeros(len(x)), weight, positives, start)
        if curve is not None:
            break
    if curve is None:
        return None
    risk = curve.fitted
    n = len(cells)

    def total(column: FloatArray) -> FloatArray:
        return np.bincount(site, weights=column, minlength=n).astype(np.float64)

    spread = weight * risk * (1 - risk)
    excess = total(positives - weight * risk)
    variance = total(spread)
    across = np.stack([total(spread * column) for column in design.T], axis=1)
    left = variance - np.einsum(
        "ij,ji->i", across, np.linalg.solve(curve.information, across.T)
    )
    some = left > 1e-9 * variance.sum()
    excess = excess[some]
    variance = variance[some]
    left = left[some]
    skewness = total(spread * (1 - 2 * risk))[some] / left**1.5
    peaked = (
        np.maximum(total(spread * (1 - 6 * risk * (1 - risk)))[some], 0.0) / variance**2
    )
    count = 1 / (
        1 + peaked / 2
    )  # the square of a small count varies more than that of a large one
    squares = float(np.sum(count * excess**2 / variance))
    freedom = float(np.sum(count * left / variance))
    z = np.full(n, np.nan)
    p = np.full(n, np.nan)
    z[some] = excess / np.sqrt(left)
    p[some] = [
        2 * skewed_tail(abs(a), b * np.sign(a)) for a, b in zip(z[some], skewness)
    ]
    return Differences(
        squares / freedom,
        float(special.chdtrc(freedom, squares)),
        z,
        np.minimum(p, 1.0),
    )


def _knots(x: FloatArray, weight: FloatArray) -> FloatArray:
    """Places of the knots of the common curve; fewer if there are few different
    scores.
    """
    order = np.argsort(x)
    share = (np.cumsum(weight[order]) - weight[order] / 2) / weight.sum()
    return np.unique(np.interp(KNOTS, share, x[order]))


def skewed_tail(z: float, skewness: float) -> float:
    """Chance that a count exceeds its mean by more than `z` standard errors (Pearson's
    type III curve).

    >>> round(skewed_tail(1.96, 0.0), 3), round(skewed_tail(1.96, 0.3), 3), round(skewed_tail(1.96, -0.3), 3)
    (0.025, 0.033, 0.016)
    """
    if abs(skewness) < NEARLY_NORMAL:
        return normal_tail(z)
    shape = 4 / skewness**2
    place = shape + np.sign(skewness) * z * np.sqrt(shape)
    tail = special.gammaincc if skewness > 0 else special.gammainc
    return float(tail(shape, max(place, 0.0)))

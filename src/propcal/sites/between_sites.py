"""Between sites: do they differ, by how much, and what to expect at a new one?

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

from propcal.auditing.claims import NAN
from propcal.auditing.statistics.rate_intervals import (
    CONFIDENCE,
    bisected,
    normal_tail,
    t_quantile,
)
from propcal.auditing.statistics.sample import Sample
from propcal.core.grid import BoolArray, FloatArray, IntArray
from propcal.core.logistic import LogisticFit, fit_logistic, spline_basis
from propcal.errors import InputError

FEWEST_SITES = 3
HALVINGS = 80
N_PLAUSIBLE = 100  # values of tau squared, each as plausible as the others
MOST_ROUNDS = 20  # of the mean O/E ratio, on which the variances depend
NEGLIGIBLE_STEP = 1e-9  # of that mean, relative
LEAST_VARIANCE = 0.05  # of a count, in relation to its expectation
FURTHEST_SD = 60  # ends of prediction intervals are sought this far from the mean
# knots of the common curve, as quantiles of the events and non-events expected
KNOT_QUANTILES = (0.05, 0.35, 0.65, 0.95)
LEAST_SKEWNESS = 1e-3  # below it, a count is taken as normal
LEAST_SHARE_LEFT = 1e-9  # of the variance that the common curve leaves a site


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
            of_repeats = 1.0
        else:
            of_repeats = np.fmax(everybody.variance_ratio, 1.0)
        of_weights = []
        for sample in samples:
            variance = sample.score * (1 - sample.score)
            with np.errstate(invalid="ignore"):
                of_squares = sample.weight_sq @ variance
                effect = of_squares / (sample.weight @ variance)
            of_weights.append(effect)
        observed = np.array([sample.observed for sample in samples])
        expected = np.array([sample.expected for sample in samples])
        squared = np.array([each.weight @ each.score**2 for each in samples])
        known_weights = np.nan_to_num(of_weights, nan=1.0)
        return cls(
            observed=observed,
            expected=expected,
            squared=squared,
            effect=of_repeats * known_weights,
        )

    @property
    def error(self) -> FloatArray:
        """Standard error of log(O/E) at each site if the score is right."""
        with np.errstate(invalid="ignore", divide="ignore"):
            variance = self.effect * (self.expected - self.squared)
            error = np.sqrt(variance) / self.expected
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
    low: float = NAN
    high: float = NAN
    error: float = NAN
    tau2: float = NAN
    i2: float = NAN
    prediction_low: float = NAN
    prediction_high: float = NAN
    n_sites: int = 0


class WeightedSquares(NamedTuple):
    """Squares of the distances of sites from their weighted mean, for each of several
    tau squared.
    """

    squares: FloatArray
    mean: FloatArray
    weight: FloatArray


class SiteEstimates(NamedTuple):
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

    def squares(self, tau2: FloatArray) -> WeightedSquares:
        """For each tau squared: weighted squares around the weighted mean, that mean,
        the sum of weights.
        """
        weight = 1 / (self.variance + tau2[:, None])
        total = weight.sum(axis=1)
        mean = (weight * self.estimate).sum(axis=1) / total
        distance = self.estimate - mean[:, None]
        squares = self.counts_as * weight * distance**2
        return WeightedSquares(squares.sum(axis=1), mean, total)

    def tau2(self, target: FloatArray) -> FloatArray:
        """The tau squared at which squares add up to each target, by bisection; 0 if
        they never do.
        """

        def too_small(tau2: FloatArray) -> BoolArray:
            return self.squares(tau2).squares > target

        zero = np.zeros(len(target))
        high = np.full(len(target), 4 * float(np.var(self.estimate)) + 1e-12)
        while True:
            beyond = too_small(high) & (target > 0)
            if not beyond.any():
                break
            high[beyond] *= 2
        never = (self.squares(zero).squares <= target) | (target <= 0)
        low, high = bisected(too_small, zero, high, HALVINGS)
        return np.where(never, 0.0, (low + high) / 2)


def random_effects(
    estimate: FloatArray, variance: FloatArray, count: FloatArray | None = None
) -> RandomEffects:
    """Summarise the estimates of several sites; `count` is as how many sites each
    counts in sums of squares.

    >>> variance = np.array([0.01, 0.02, 0.015, 0.01])
    >>> found = random_effects(np.array([0.1, 0.3, -0.1, 0.25]), variance)
    >>> round(found.mean, 3), round(found.tau2, 4), round(found.i2, 2)
    (0.136, 0.017, 0.54)
    """
    if count is None:
        count = np.ones(len(estimate))
    known = np.isfinite(estimate) & np.isfinite(variance) & (variance > 0)
    sites = SiteEstimates(estimate[known], variance[known], count[known])
    n = int(known.sum())
    if n == 0:
        raise InputError("no site has enough people")

    freedom = sites.freedom
    tau2 = sites.tau2(np.array([freedom]))
    squares, mean, weight = (float(x[0]) for x in sites.squares(tau2))
    effects = RandomEffects(mean=mean, tau2=float(tau2[0]), n_sites=n)
    if n < FEWEST_SITES or freedom < 1:
        return effects

    error = float(np.sqrt(squares / freedom / weight))
    quantile = t_quantile((1 + CONFIDENCE) / 2, freedom)
    reach = quantile * error
    no_variance = sites.squares(np.zeros(1))
    q = float(no_variance.squares[0])  # Cochran's Q
    i2 = 0.0
    if q > 0:
        i2 = max(1 - freedom / q, 0.0)
    new_low, new_high = prediction_interval(*sites)
    return replace(
        effects,
        low=mean - reach,
        high=mean + reach,
        error=error,
        i2=i2,
        prediction_low=new_low,
        prediction_high=new_high,
    )


def ratio_effects(counts: SiteCounts) -> RandomEffects:
    """Summarise the O/E ratios of several sites, with any number of events at each.

    Tau squared is the variance of the O/E ratio in relation to its mean, nearly that of
    its logarithm.
    """
    expects_events = counts.expected > 0  # not every score of a site is 0
    observed = counts.observed[expects_events]
    expected = counts.expected[expects_events]
    squared = counts.squared[expects_events]
    effect = counts.effect[expects_events]
    # the square of a small count varies so much more
    count = 1 / (1 + effect / (2 * expected))

    sum_observed = np.sum(observed / effect)
    sum_expected = np.sum(expected / effect)
    mean = float(sum_observed / sum_expected)
    for _ in range(MOST_ROUNDS):  # the variances depend on the mean
        spread = np.maximum(1 - mean * squared / expected, LEAST_VARIANCE)
        variance = effect * spread / (expected * mean)
        sites = SiteEstimates(observed / expected / mean, variance, count)
        tau2 = sites.tau2(np.array([sites.freedom]))
        step = float(sites.squares(tau2).mean[0])
        mean *= step
        if abs(step - 1) < NEGLIGIBLE_STEP:
            break

    relative_ratio = observed / expected / mean
    relative = random_effects(relative_ratio, variance, count)

    def end(distance: float) -> float:
        return mean * float(np.exp(distance))

    low = end(relative.low - 1)
    high = end(relative.high - 1)
    # around the median of sites, which is below their mean
    new_low = end(relative.prediction_low - 1 - relative.tau2 / 2)
    new_high = end(relative.prediction_high - 1 - relative.tau2 / 2)
    # what is known of a new site is never more than what is known of the mean
    return replace(
        relative,
        mean=mean,
        low=low,
        high=high,
        prediction_low=min(new_low, low),
        prediction_high=max(new_high, high),
    )


def prediction_interval(
    estimate: FloatArray, variance: FloatArray, count: FloatArray
) -> tuple[float, float]:
    """Between which values 95 % of new sites are expected."""
    sites = SiteEstimates(estimate, variance, count)
    quantiles = (np.arange(N_PLAUSIBLE) + 0.5) / N_PLAUSIBLE
    squares_of_quantiles = special.chdtri(sites.freedom, 1 - quantiles)
    tau2 = sites.tau2(squares_of_quantiles)
    squares, mean, weight = sites.squares(tau2)
    spread = np.sqrt(tau2 + squares / sites.freedom / weight)
    if not spread.any():  # all sites are exactly alike
        return float(mean[0]), float(mean[0])
    shares = np.array([(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])

    def too_low(ends: FloatArray) -> BoolArray:
        distance = (ends[:, None] - mean) / spread
        below = special.stdtr(sites.freedom, distance).mean(axis=1)
        return np.asarray(below < shares)

    lowest = np.full(2, np.min(mean - FURTHEST_SD * spread))
    highest = np.full(2, np.max(mean + FURTHEST_SD * spread))
    low, high = bisected(too_low, lowest, highest, HALVINGS)
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
    cells = [sample.cells for sample in samples]
    score = np.concatenate([own.score for own in cells])
    x = np.concatenate([own.x for own in cells])
    # divided by the effect of the design, people count as if they were independent
    weight = np.concatenate([own.weight / by for own, by in zip(cells, effect)])
    positives = np.concatenate([own.positives / by for own, by in zip(cells, effect)])
    site = np.repeat(np.arange(len(cells)), [len(own.score) for own in cells])

    inside = (score > 0) & (score < 1)
    columns = (score, x, weight, positives)
    score, x, weight, positives = (column[inside] for column in columns)
    if not 0 < positives.sum() < weight.sum():
        return None
    common = _common_curve(score, x, weight, positives)
    if common is None:
        return None
    excess = SiteExcess.of(*common, site[inside], weight, positives, len(cells))
    return excess.tested()


def _common_curve(
    score: FloatArray, x: FloatArray, weight: FloatArray, positives: FloatArray
) -> tuple[FloatArray, LogisticFit] | None:
    """The calibration curve of all sites: its columns and the fit; a straight line if
    few events leave the curve without a maximum, and None if that has none either.
    """
    knots = _knots(x, weight * score * (1 - score))
    for used in (knots, knots[:2]):
        design = spline_basis(x, used)
        n_columns = design.shape[1]
        start = np.eye(n_columns)[min(1, n_columns - 1)]
        curve = fit_logistic(design, np.zeros(len(x)), weight, positives, start)
        if curve is not None:
            return design, curve
    return None


@dataclass(frozen=True, eq=False)
class SiteExcess:
    """Events of each site beyond those of the common curve.

    `variance` is theirs if the curve were known, and `left` what remains of it since
    the curve was fitted to these people; `third` and `fourth` are their cumulants.
    """

    events: FloatArray
    variance: FloatArray
    left: FloatArray
    third: FloatArray
    fourth: FloatArray

    @classmethod
    def of(
        cls,
        design: FloatArray,
        curve: LogisticFit,
        site: IntArray,
        weight: FloatArray,
        positives: FloatArray,
        n_sites: int,
    ) -> SiteExcess:
        """Add up cells of people; `site` has the number of the site of each."""

        def of_site(column: FloatArray) -> FloatArray:
            sums = np.bincount(site, weights=column, minlength=n_sites)
            return sums.astype(np.float64)

        risk = curve.fitted
        spread = weight * risk * (1 - risk)
        variance = of_site(spread)
        across = np.stack([of_site(spread * column) for column in design.T], axis=1)
        explained = np.linalg.solve(curve.information, across.T)
        excess = positives - weight * risk
        explained_variance = np.einsum("ij,ji->i", across, explained)
        third_moment = spread * (1 - 2 * risk)
        fourth_moment = spread * (1 - 6 * risk * (1 - risk))
        return cls(
            events=of_site(excess),
            variance=variance,
            left=variance - explained_variance,
            third=of_site(third_moment),
            fourth=of_site(fourth_moment),
        )

    def tested(self) -> Differences:
        """The test of all sites together, and of each."""
        n = len(self.events)
        known = self.left > LEAST_SHARE_LEFT * self.variance.sum()
        events = self.events[known]
        variance = self.variance[known]
        left = self.left[known]

        kurtosis = np.maximum(self.fourth[known], 0.0) / variance**2
        # the square of a small count varies more than that of a large one
        count = 1 / (1 + kurtosis / 2)
        squares = float(np.sum(count * events**2 / variance))
        freedom = float(np.sum(count * left / variance))

        z = np.full(n, np.nan)
        z[known] = events / np.sqrt(left)
        skewness = self.third[known] / left**1.5
        tails = []
        for distance, skew in zip(z[known], skewness):
            tails.append(2 * skewed_tail(abs(distance), skew * np.sign(distance)))
        p_values = np.full(n, np.nan)
        p_values[known] = tails
        p_value = special.chdtrc(freedom, squares)
        at_most_one = np.minimum(p_values, 1.0)
        return Differences(
            statistic=squares / freedom,
            p_value=float(p_value),
            excess=z,
            p_values=at_most_one,
        )


def _knots(x: FloatArray, weight: FloatArray) -> FloatArray:
    """Places of the knots of the common curve; fewer if there are few different
    scores.
    """
    order = np.argsort(x)
    middle = np.cumsum(weight[order]) - weight[order] / 2
    share = middle / weight.sum()
    return np.unique(np.interp(KNOT_QUANTILES, share, x[order]))


def skewed_tail(z: float, skewness: float) -> float:
    """Chance that a count exceeds its mean by more than `z` standard errors (Pearson's
    type III curve).

    >>> [round(skewed_tail(1.96, skewness), 3) for skewness in (0.0, 0.3, -0.3)]
    [0.025, 0.033, 0.016]
    """
    if abs(skewness) < LEAST_SKEWNESS:
        return normal_tail(z)
    shape = 4 / skewness**2
    place = shape + np.sign(skewness) * z * np.sqrt(shape)
    tail = special.gammaincc if skewness > 0 else special.gammainc
    return float(tail(shape, max(place, 0.0)))

"""Do sites differ by more than a calibration curve common to all of them, and chance, would give?

The curve is fitted to the people of all sites, so that a common error is not taken for a difference.
What is left at each site is the number of events in excess of the curve. Its variance is known from the curve
(a score test), so the test is right for sites with few events, too, and for any number of sites.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

from propcal.auditing.intervals import normal_tail
from propcal.auditing.profile import event_effect
from propcal.auditing.sample import Sample
from propcal.core.grid import FloatArray
from propcal.core.logistic import fit_logistic, spline_basis

KNOTS = (0.05, 0.35, 0.65, 0.95)  # of the common curve, as quantiles of the events and non-events expected
NEARLY_NORMAL = 1e-3  # skewness


@dataclass(frozen=True, eq=False)
class SiteCounts:
    """For each site: events observed and expected, sum of squared scores, and the effect of the design.

    The effect is how many times larger the variance of the number of events is than with independent people
    of equal weight. Repeat visits are taken to have the same effect at all sites.
    """

    observed: FloatArray
    expected: FloatArray
    squared: FloatArray
    effect: FloatArray

    @classmethod
    def of(cls, samples: Sequence[Sample], everybody: Sample) -> SiteCounts:
        """Count, from the people of each site and those of all."""
        repeats = 1.0 if everybody.cluster is None else np.fmax(event_effect(everybody), 1.0)
        spread = [one.score * (1 - one.score) for one in samples]
        with np.errstate(invalid="ignore"):
            weights = [(one.weight_sq @ var) / (one.weight @ var) for one, var in zip(samples, spread)]
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
            error = np.sqrt(self.effect * (self.expected - self.squared)) / self.expected
        return np.where(error > 0, error, np.nan)


@dataclass(frozen=True, eq=False)
class Differences:
    """The test of all sites, and of each: events beyond the common curve in standard errors, and p-values."""

    statistic: float
    p_value: float
    excess: FloatArray
    p_values: FloatArray


def site_differences(samples: Sequence[Sample], effect: FloatArray) -> Differences | None:
    """Test the sites; None if no common curve can be fitted."""
    cells = [one.cells for one in samples]
    site = np.repeat(np.arange(len(cells)), [len(one.score) for one in cells])
    score, x = (np.concatenate([getattr(one, name) for one in cells]) for name in ("score", "x"))
    inside = (score > 0) & (score < 1)
    weight, positives = (
        np.concatenate([getattr(one, name) / by for one, by in zip(cells, effect)])[inside]
        for name in ("weight", "positives")
    )
    site, score, x = site[inside], score[inside], x[inside]
    if not 0 < positives.sum() < weight.sum():
        return None
    knots = _knots(x, weight * score * (1 - score))
    for own in (knots, knots[:2]):  # a straight line if few events leave the curve without a maximum
        design = spline_basis(x, own)
        start = np.eye(design.shape[1])[min(1, design.shape[1] - 1)]
        curve = fit_logistic(design, np.zeros(len(x)), weight, positives, start)
        if curve is not None:
            break
    if curve is None:
        return None
    risk, n = curve.fitted, len(cells)

    def total(column: FloatArray) -> FloatArray:
        return np.bincount(site, weights=column, minlength=n).astype(np.float64)

    spread = weight * risk * (1 - risk)
    excess, variance = total(positives - weight * risk), total(spread)
    across = np.stack([total(spread * column) for column in design.T], axis=1)
    left = variance - np.einsum("ij,ji->i", across, np.linalg.solve(curve.information, across.T))
    some = left > 1e-9 * variance.sum()
    excess, variance, left = excess[some], variance[some], left[some]
    skewness = total(spread * (1 - 2 * risk))[some] / left**1.5
    peaked = np.maximum(total(spread * (1 - 6 * risk * (1 - risk)))[some], 0.0) / variance**2
    count = 1 / (1 + peaked / 2)  # the square of a small count varies more than that of a large one
    squares, freedom = float(np.sum(count * excess**2 / variance)), float(np.sum(count * left / variance))
    z, p = np.full(n, np.nan), np.full(n, np.nan)
    z[some] = excess / np.sqrt(left)
    p[some] = [2 * skewed_tail(abs(a), b * np.sign(a)) for a, b in zip(z[some], skewness)]
    return Differences(squares / freedom, float(special.chdtrc(freedom, squares)), z, np.minimum(p, 1.0))


def _knots(x: FloatArray, weight: FloatArray) -> FloatArray:
    """Places of the knots of the common curve; fewer if there are few different scores."""
    order = np.argsort(x)
    share = (np.cumsum(weight[order]) - weight[order] / 2) / weight.sum()
    return np.unique(np.interp(KNOTS, share, x[order]))


def skewed_tail(z: float, skewness: float) -> float:
    """Chance that a count exceeds its mean by more than `z` standard errors (Pearson's type III curve).

    >>> round(skewed_tail(1.96, 0.0), 3), round(skewed_tail(1.96, 0.3), 3), round(skewed_tail(1.96, -0.3), 3)
    (0.025, 0.033, 0.016)
    """
    if abs(skewness) < NEARLY_NORMAL:
        return normal_tail(z)
    shape = 4 / skewness**2
    place = shape + np.sign(skewness) * z * np.sqrt(shape)
    tail = special.gammaincc if skewness > 0 else special.gammainc
    return float(tail(shape, max(place, 0.0)))

"""Tests of whether the score is calibrated, adjusted so that at most 5 % of calibrated scores fail.

Each group's number of events is compared with the number that its scores expect, the calibration slope of
everybody with 1, and the largest gap of all cells, in standard errors, with what chance gives. The groups and
the slope form one family of tests (Holm's adjustment), the cells another. Each family is tested at 2.5 %; if
one of them rejects, the other is tested at 5 %.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from propcal.auditing.chance import Chance, ScoreCells
from propcal.auditing.distributions import normal_density, normal_tail, t_tail
from propcal.auditing.sample import FEWEST_CLUSTERS, Sample
from propcal.core.categories import Categories
from propcal.core.grid import BoolArray, FloatArray
from propcal.core.logistic import expit

SIGNIFICANCE = 0.05
SMALL_VARIANCE = 25.0  # of the number of outcomes, below which its distribution is computed exactly
CATEGORIES = "largest gap of all categories"
SLOPE = "calibration slope of everybody"


@dataclass(frozen=True)
class CalibrationTest:
    """One test: of a group's observed against expected, or of the largest gap of all categories."""

    test: str
    statistic: float
    p_value: float
    adjusted_p: float
    rejected: bool


def group_p_value(cells: ScoreCells, inside: BoolArray, observed: float) -> tuple[float, float]:
    """Standardised excess of outcomes over the score's expectation, and its two-sided p-value.

    The number of outcomes is a sum of unequal coin tosses. Its tails (half of the point itself
    counted: mid-p) are exact where it varies little, and otherwise a saddlepoint approximation
    (Lugannani and Rice): a normal one raises false alarms in small groups, for rare outcomes and
    under uneven weights.
    """
    sure = inside & (cells.score >= 1)  # a score of 0 or 1 leaves nothing to chance
    observed = observed - float(np.sum(cells.weight[sure]))
    inside = inside & (cells.score > 0) & (cells.score < 1)
    n, score, typical = (column[inside] for column in (cells.n, cells.score, cells.typical))
    mean = float(np.sum(n * score * typical))
    variance = float(np.sum(n * score * (1 - score) * typical**2))
    most = float(np.sum(n * typical))
    if not -1e-9 * (1 + most) <= observed <= most + 1e-9 * (1 + most):
        return float(np.inf * np.sign(observed - mean)), 0.0  # the score ruled this out
    if variance <= 0:
        return 0.0, 1.0
    z = (observed - mean) / np.sqrt(variance)
    if z < 0:  # the same for those without the outcome: a small tail is computed, never 1 less a large one
        score, observed, mean = 1 - score, most - observed, most - mean
    if np.all(typical == 1) and variance < SMALL_VARIANCE:
        tail = _exact_tail(n, score, observed, mean, np.sqrt(variance))
    elif abs(z) < 1e-3:
        tail = 0.5
    elif observed >= (1 - 1e-9) * most:
        tail = float(np.exp(np.sum(n * np.log(score)))) / 2
    else:
        tail = _saddlepoint_tail(n, score, typical, observed, abs(z))
    return float(z), float(np.clip(2 * min(tail, 1 - tail), 0.0, 1.0))


def _exact_tail(n: FloatArray, score: FloatArray, observed: float, mean: float, deviation: float) -> float:
    """Chance of more outcomes than observed, and half of as many: by a Fourier transform around the mean."""
    first = int(np.floor(mean - 12 * deviation - 30))
    size = int(np.ceil(24 * deviation + 60))
    if not first <= observed < first + size:
        return 0.0
    angle = 2j * np.pi * np.arange(size) / size
    grown = np.log1p(score[:, None] * np.expm1(angle))
    mass = np.fft.fft(np.exp(n @ grown - angle * first)).real / size
    place = round(observed) - first
    return float(np.clip(mass[place + 1 :].sum() + mass[place] / 2, 0.0, 1.0))


def _saddlepoint_tail(
    n: FloatArray, score: FloatArray, typical: FloatArray, observed: float, z: float
) -> float:
    """Chance of more outcomes than observed, which are more than expected."""
    low, high = 0.0, 1.0

    def tilted(tilt: float) -> FloatArray:
        grown = score * np.exp(np.minimum(tilt * typical, 700.0))
        return np.asarray(grown / (1 - score + grown))

    def mean(tilt: float) -> float:
        return float(np.sum(n * typical * tilted(tilt)))

    for _ in range(60):  # widen until the tilt that makes the observed number the mean lies between
        if mean(high / typical.max()) >= observed:
            break
        high *= 2
    high = high / typical.max()
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if mean(middle) < observed else (low, middle)
    tilt = (low + high) / 2
    share = tilted(tilt)
    grown = np.logaddexp(np.log1p(-score), np.log(score) + tilt * typical)
    distance = np.sqrt(max(2 * (tilt * observed - float(np.sum(n * grown))), 0.0))
    curvature = tilt * np.sqrt(float(np.sum(n * typical**2 * share * (1 - share))))
    if distance < 1e-6 or not np.isfinite(curvature) or curvature == 0:
        return normal_tail(z)
    return float(normal_tail(distance) + normal_density(distance) * (1 / curvature - 1 / distance))


def clustered_p_value(sample: Sample) -> tuple[float, float]:
    """The same where people occur several times: from the spread of the clusters."""
    if sample.n_clusters < FEWEST_CLUSTERS:
        return float("nan"), float("nan")
    error = sample.error(1 - sample.score, -sample.score)
    z = (sample.observed - sample.expected) / error if error > 0 else 0.0
    return float(z), 2 * t_tail(abs(z), sample.n_clusters - 1)


def slope_test(sample: Sample, intercept: float) -> tuple[float, float]:
    """Score test of a calibration slope of 1, allowing for an error of the level (`intercept`, in log-odds).

    Returns the statistic in standard errors, negative if predictions are too extreme, and its p-value.
    People with a score of exactly 0 or 1 are left out: they have no log-odds.
    """
    inside = (sample.score > 0) & (sample.score < 1)
    if not np.isfinite(intercept) or not inside.any():
        return float("nan"), float("nan")
    expected = np.where(inside, expit(sample.x + intercept), 0.0)
    spread = expected * (1 - expected)
    centre = float(np.sum(sample.weight * spread * sample.x) / np.sum(sample.weight * spread))
    distance = np.where(inside, sample.x - centre, 0.0)
    one, zero = distance * (1 - expected), -distance * expected
    total = float(np.sum(sample.positives * one + sample.negatives * zero))
    if sample.cluster is None:
        error = float(np.sqrt(np.sum(sample.weight_sq * spread * distance**2)))
        z = total / error if error > 0 else 0.0
        return z, 2 * normal_tail(abs(z))
    if sample.n_clusters < FEWEST_CLUSTERS:
        return float("nan"), float("nan")
    error = sample.error(one, zero)
    z = total / error if error > 0 else 0.0
    return z, 2 * t_tail(abs(z), sample.n_clusters - 1)


def category_p_value(table: Categories, noise: Chance) -> tuple[float, float]:
    """The largest gap in standard errors, and how often a perfect score has one as large."""
    chosen = table.eligible
    if not chosen.any() or not len(noise.rates):
        return float("nan"), float("nan")
    error = noise.error[chosen]
    found = float(np.max(np.abs(table.gap[chosen]) / error))
    drawn = np.max(np.abs(noise.rates[:, chosen] - table.mean_score[chosen]) / error, axis=1)
    return found, float((1 + np.sum(drawn >= found)) / (1 + len(drawn)))


def combine(
    names: Sequence[str], group_tests: Sequence[tuple[float, float]], categories: tuple[float, float]
) -> list[CalibrationTest]:
    """Adjusted p-values; at most 5 % of perfect scores have one below 0.05."""
    adjusted = holm(np.array([p for _, p in group_tests]))
    smallest = float(np.min(adjusted, initial=1.0))
    gap, chance = categories[0], 1.0 if np.isnan(categories[1]) else categories[1]
    # Holm's way with two families: the smaller p-value counts double, the other one at least as much
    if chance <= smallest:
        category_p, adjusted = 2 * chance, np.maximum(adjusted, 2 * chance)
    else:
        category_p, adjusted = max(chance, 2 * smallest), 2 * adjusted
    found = [*zip(names, group_tests, adjusted), (CATEGORIES, (gap, chance), category_p)]
    return [
        CalibrationTest(name, z, float(p), float(min(final, 1.0)), bool(final <= SIGNIFICANCE))
        for name, (z, p), final in found
    ]


def holm(p_values: FloatArray) -> FloatArray:
    """Holm's adjusted p-values.

    >>> holm(np.array([0.01, 0.04, 0.03])).round(2).tolist()
    [0.03, 0.06, 0.06]
    """
    order = np.argsort(p_values)
    factors = np.arange(len(p_values), 0, -1)
    adjusted = np.empty(len(p_values))
    adjusted[order] = np.minimum(np.maximum.accumulate(factors * p_values[order]), 1.0)
    return adjusted

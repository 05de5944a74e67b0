"""Measures of one group that need no model: observed/expected, Brier score, log loss, AUROC."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from propcal.auditing.intervals import CONFIDENCE
from propcal.auditing.ratio_interval import ratio_interval
from propcal.auditing.sample import Sample
from propcal.core.grid import FloatArray

SMALLEST = np.finfo(np.float64).eps  # as scikit-learn's log loss, for scores of exactly 0 or 1


class Estimate(NamedTuple):
    """A number and its interval; NaN where there is none."""

    value: float
    low: float = float("nan")
    high: float = float("nan")


UNKNOWN = Estimate(float("nan"))


def observed_expected(sample: Sample) -> Estimate:
    """People with the outcome for each one that the score expects: above 1 the score is too low."""
    if sample.expected <= 0:
        return UNKNOWN
    return Estimate(sample.observed / sample.expected, *ratio_interval(sample, CONFIDENCE))


def _mean_loss(sample: Sample, if_positive: FloatArray, if_negative: FloatArray) -> Estimate:
    mean = sample.mean(if_positive, if_negative)
    error = sample.error((if_positive - mean) / sample.total, (if_negative - mean) / sample.total)
    reach = sample.quantile * error
    return Estimate(mean, max(mean - reach, 0.0), mean + reach)


def brier(sample: Sample) -> Estimate:
    """Mean squared difference of score and outcome."""
    return _mean_loss(sample, (1 - sample.score) ** 2, sample.score**2)


def log_loss(sample: Sample) -> Estimate:
    """Mean of minus the logarithm of the probability that the score gave to what happened."""
    return _mean_loss(
        sample,
        -np.log(np.maximum(sample.score, SMALLEST)),
        -np.log(np.maximum(1 - sample.score, SMALLEST)),
    )


def auroc_influence(sample: Sample) -> tuple[float, FloatArray, FloatArray]:
    """AUROC, and what each atom's people with and without the outcome contribute to its error.

    A person with the outcome contributes by the share of people without it whose score is lower
    (ties count half), and the other way round: DeLong's components, with his m - 1 and n - 1.
    """
    order = np.argsort(sample.score, kind="stable")
    score, positives, negatives = (x[order] for x in (sample.score, sample.positives, sample.negatives))
    new = score[1:] != score[:-1]
    one, zero = positives, negatives
    tie: Any = slice(None)
    if not new.all():
        first = np.flatnonzero(np.concatenate([[True], new]))
        tie = np.repeat(np.arange(len(first)), np.diff(np.append(first, len(score))))
        one, zero = np.add.reduceat(positives, first), np.add.reduceat(negatives, first)
    n_one, n_zero = one.sum(), zero.sum()
    lower = (np.cumsum(zero) - zero / 2) / n_zero
    higher = (n_one - np.cumsum(one) + one / 2) / n_one
    area = float(one @ lower / n_one)
    if_positive, if_negative = np.empty(len(order)), np.empty(len(order))
    if_positive[order] = ((lower - area) / n_one * _unbiased(n_one, sample))[tie]
    if_negative[order] = ((higher - area) / n_zero * _unbiased(n_zero, sample))[tie]
    return area, if_positive, if_negative


def _unbiased(total: float, sample: Sample) -> float:
    """Square root of m / (m - 1), m being the number of people behind a weight."""
    people = total * sample.n_people / sample.total
    return float(np.sqrt(people / (people - 1))) if people > 1 else float("nan")


def auroc(sample: Sample) -> Estimate:
    """Chance that of two people the one with the outcome has the higher score, with DeLong's interval."""
    if not 0 < sample.observed < sample.total:
        return UNKNOWN
    area, if_positive, if_negative = auroc_influence(sample)
    error = sample.error(if_positive, if_negative)
    if not 0 < area < 1 or not error > 0:
        return Estimate(area)
    # on the log-odds scale the interval stays within 0 and 1
    reach = np.exp(sample.quantile * error / (area * (1 - area)))
    odds = area / (1 - area)
    return Estimate(area, float(odds / reach / (1 + odds / reach)), float(odds * reach / (1 + odds * reach)))

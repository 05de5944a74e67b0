"""Differences between two scores of the same people, with intervals that use that they are the same."""

from __future__ import annotations

from typing import Any

import numpy as np

from propcal.auditing.debiased import debiased
from propcal.auditing.findings import Findings
from propcal.auditing.intervals import CONFIDENCE
from propcal.auditing.loss_intervals import losses
from propcal.auditing.measures import SMALLEST, auroc_influence
from propcal.auditing.sample import Sample
from propcal.core.atoms import Atoms
from propcal.core.categories import Categories
from propcal.core.criterion import Criterion, multicalibration, proportional
from propcal.core.grid import FloatArray, to_grid
from propcal.core.groups.collection import membership

Difference = tuple[float, float, float, float, float]  # base, value, difference, low, high


def loss_difference(i: int, a: Findings, b: Findings) -> Difference:
    """Of MC, PMC or DC loss: from the limits of both, each at half the error."""
    first, second = (losses(f.table, f.noise, f.rule.rho, confidence=(1 + CONFIDENCE) / 2)[i] for f in (a, b))
    return (
        first.value,
        second.value,
        second.value - first.value,
        second.low - first.high,
        second.high - first.low,
    )


def person_differences(a: Sample, b: Sample) -> dict[str, Difference]:
    """Each person's contribution to a measure of the one score less that of the other."""
    return {
        "observed_expected": _ratio_difference(a, b),
        "brier": _mean_difference(a, b, lambda s: ((1 - s) ** 2, s**2)),
        "log_loss": _mean_difference(
            a, b, lambda s: (-np.log(np.maximum(s, SMALLEST)), -np.log(np.maximum(1 - s, SMALLEST)))
        ),
        "auroc": _auroc_difference(a, b),
    }


def _interval(sample: Sample, first: float, second: float, error: float) -> Difference:
    gained, reach = second - first, sample.quantile * error
    return first, second, gained, gained - reach, gained + reach


def _ratio_difference(a: Sample, b: Sample) -> Difference:
    if min(a.expected, b.expected) <= 0:
        return (float("nan"),) * 5
    first, second = a.observed / a.expected, b.observed / b.expected
    shared = second * b.score / b.expected - first * a.score / a.expected
    return _interval(a, first, second, a.error(1 / b.expected - 1 / a.expected - shared, -shared))


def _mean_difference(a: Sample, b: Sample, loss: Any) -> Difference:
    before, after = loss(a.score), loss(b.score)
    first, second = a.mean(*before), a.mean(*after)
    influence = [(y - x - (second - first)) / a.total for x, y in zip(before, after)]
    return _interval(a, first, second, a.error(*influence))


def _auroc_difference(a: Sample, b: Sample) -> Difference:
    if not 0 < a.observed < a.total:
        return (float("nan"),) * 5
    (first, *before), (second, *after) = auroc_influence(a), auroc_influence(b)
    return _interval(a, first, second, a.error(*(y - x for x, y in zip(before, after))))


def mean_square_difference(
    place: int, joint: Atoms, scores: tuple[FloatArray, FloatArray], found: tuple[Findings, Findings]
) -> Difference:
    """Of the debiased mean squared gap (0), or gap as a share of the rate (1).

    Its error has two parts: gaps that exist, which each outcome makes a little larger or smaller
    (paired, as both scores see the same outcomes), and the squares of noise, which are taken as
    independent.
    """
    criterion = (multicalibration(), proportional(found[0].rule.rho))[place]
    same = np.array_equal(*scores)  # then the noise is the same too
    first, second = (debiased(f.table, f.noise, f.rule.rho)[place].mean_square for f in found)
    sample = Sample.of(joint)
    before, after = (_pull(f.table, joint, score, criterion) for f, score in zip(found, scores))
    paired = sample.error(after[0] - before[0], after[1] - before[1])
    squares = 0.0 if same else sum(_chance_square(f, criterion) for f in found)
    return _interval(sample, first, second, float(np.sqrt(paired**2 + squares)))


def _pull(
    table: Categories, joint: Atoms, score: FloatArray, criterion: Criterion
) -> tuple[FloatArray, FloatArray]:
    """How much a person with and without the outcome pulls at the mean squared gap, for each atom."""
    rate, gap, chosen = table.outcome_rate, table.gap, table.eligible
    with np.errstate(invalid="ignore", divide="ignore"):
        allowed = criterion.allowance(rate)
        at_score = criterion.offset + criterion.slope * table.mean_score
        slope = 2 * gap / allowed**2  # of the squared gap in the rate, which the allowance follows above rho
        slope = slope * np.where(rate > criterion.rho, at_score / allowed, 1.0)
        pull = np.where(chosen, slope / table.weight, 0.0) / max(int(chosen.sum()), 1)
    inside = membership(table.collection.groups, joint.patterns).astype(np.float64)
    positive, negative = (inside.T @ np.where(chosen, pull * part, 0.0) for part in (1 - rate, -rate))
    where = joint.pattern_index(), table.bins.index(to_grid(score))
    return positive[where], negative[where]


def _chance_square(found: Findings, criterion: Criterion) -> float:
    """Variance of the mean square that a perfect score shows."""
    chosen, rates = found.table.eligible, found.noise.rates
    if not chosen.any() or not len(rates):
        return float("nan")
    score = found.table.mean_score[chosen]
    gap = (rates[:, chosen] - score) / criterion.allowance(rates[:, chosen])
    return float(np.var(np.mean(gap**2, axis=1)))

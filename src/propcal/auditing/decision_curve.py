"""What acting on a score would do, threshold by threshold, and how the scores are spread."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from propcal.auditing.sample import FEWEST_CLUSTERS, Sample
from propcal.core.grid import FloatArray, IntArray, check_number, to_grid

THRESHOLDS = np.round(np.arange(0.01, 1.0, 0.01), 2)
BARS = np.round(np.arange(0, 1.025, 0.05), 2)


def checked_thresholds(values: Any) -> tuple[float, ...]:
    """Thresholds that the user gave, in order: one number or several, between 0 and 1.

    >>> checked_thresholds([0.3, 0.075]), checked_thresholds(0.2)
    ((0.075, 0.3), (0.2,))
    """
    given = tuple(np.atleast_1d(np.asarray(values, dtype=object)).tolist())
    for value in given:
        check_number("thresholds", value, above=0, at_most=0.999999)
    return tuple(sorted({float(value) for value in given}))


def odds_of(threshold: FloatArray) -> FloatArray:
    """How many people treated wrongly weigh as much as one treated rightly."""
    with np.errstate(divide="ignore"):
        return np.asarray(threshold / (1 - threshold))


def net_benefit(right: Any, wrong: Any, total: float, threshold: FloatArray) -> FloatArray:
    """People treated rightly less people treated wrongly, by the odds of the threshold, for each of all.

    >>> float(net_benefit(30, 10, 100, np.array(0.5)))
    0.2
    """
    with np.errstate(invalid="ignore"):
        return np.asarray((right - odds_of(threshold) * wrong) / total)


def threshold_columns(
    threshold: FloatArray,
    right: FloatArray,
    wrong: FloatArray,
    positives: float,
    total: float,
    reach: Any,
) -> dict[str, FloatArray]:
    """What it does to treat everybody scored at least as high as each threshold.

    `right` and `wrong` are the people treated who have the outcome, and who have not; `positives` those of
    all the `total`; `reach` is how far the interval of the net benefit goes.
    """
    negatives = total - positives
    benefit = net_benefit(right, wrong, total, threshold)
    with np.errstate(invalid="ignore", divide="ignore"):
        return {
            "threshold": threshold,
            "net_benefit": benefit,
            "low": benefit - reach,
            "high": benefit + reach,
            "treat_all": net_benefit(positives, negatives, total, threshold),
            "sensitivity": np.divide(right, positives),
            "specificity": 1 - np.divide(wrong, negatives),
            "treated": (right + wrong) / total,
        }


class ThresholdCells(NamedTuple):
    """People between neighbouring thresholds: the cell of each atom, and the weights in each cell."""

    thresholds: FloatArray
    part: IntArray
    positives: FloatArray
    negatives: FloatArray

    @classmethod
    def of(cls, sample: Sample, more: Sequence[float] = ()) -> ThresholdCells:
        """Place scores between whole percents and `more` thresholds, on the grid: 0.7 reaches 0.7."""
        thresholds = np.union1d(THRESHOLDS, more)
        part = np.searchsorted(to_grid(thresholds), to_grid(sample.score), side="right")
        sums = (_sums(part, column, thresholds) for column in (sample.positives, sample.negatives))
        return cls(thresholds, part, *sums)


def decision_curve(sample: Sample, cells: ThresholdCells) -> dict[str, FloatArray]:
    """Columns over the thresholds, with intervals of the net benefit."""
    right, wrong = _at_least(cells.positives), _at_least(cells.negatives)
    benefit = net_benefit(right, wrong, sample.total, cells.thresholds)
    reach = sample.quantile * np.sqrt(_variance(sample, cells, benefit)) / sample.total
    return threshold_columns(cells.thresholds, right, wrong, sample.observed, sample.total, reach)


def distribution(cells: ThresholdCells) -> dict[str, FloatArray]:
    """Columns over twentieths of the score: people, and people with the outcome (weighted)."""
    begin = np.searchsorted(cells.thresholds, BARS[:-1], side="right")
    positives, negatives = (np.add.reduceat(column, begin) for column in (cells.positives, cells.negatives))
    people = positives + negatives
    return {"score_from": BARS[:-1], "score_to": BARS[1:], "people": people, "positives": positives}


def _sums(part: IntArray, column: FloatArray, thresholds: FloatArray) -> FloatArray:
    """Sum of a column over the people of each cell."""
    return np.asarray(np.bincount(part, weights=column, minlength=len(thresholds) + 1), dtype=np.float64)


def _at_least(sums: FloatArray) -> FloatArray:
    """Sum over the people at or above each threshold."""
    return np.asarray(np.cumsum(sums[::-1])[::-1][1:])


def net_benefit_variance(
    threshold: FloatArray, right: FloatArray, wrong: FloatArray, total: float
) -> FloatArray:
    """Variance of `total` times the net benefit, if people are independent."""
    benefit = net_benefit(right, wrong, total, threshold)
    return _independent_variance(odds_of(threshold), right, wrong, benefit, total)


def _independent_variance(
    odds: FloatArray, right: FloatArray, wrong: FloatArray, benefit: FloatArray, total: float
) -> FloatArray:
    square = right + odds**2 * wrong - 2 * benefit * (right - odds * wrong)
    return np.asarray(np.maximum(square + benefit**2 * total, 0.0))  # rounding


def _variance(sample: Sample, cells: ThresholdCells, benefit: FloatArray) -> FloatArray:
    """Variance of the sum over people of what each contributes beyond the mean."""
    odds = odds_of(cells.thresholds)
    if sample.cluster is None:
        squares = [cells.positives, cells.negatives]
        if not np.array_equal(sample.weight_sq, sample.weight):  # some people weigh more than others
            columns = (sample.positives_sq, sample.negatives_sq)
            squares = [_sums(cells.part, column, cells.thresholds) for column in columns]
        right, wrong = (_at_least(column) for column in squares)
        return _independent_variance(odds, right, wrong, benefit, float(sample.weight_sq.sum()))
    if sample.n_clusters < FEWEST_CLUSTERS:
        return np.full(len(odds), np.nan)
    _, index = np.unique(sample.cluster, return_inverse=True)
    sums = []
    for cluster in range(sample.n_clusters):
        rows = index == cluster
        right, wrong = (
            _at_least(_sums(cells.part[rows], column[rows], cells.thresholds))
            for column in (sample.positives, sample.negatives)
        )
        sums.append(right - odds * wrong - benefit * sample.weight[rows].sum())
    return np.asarray(np.var(sums, axis=0, ddof=1) * sample.n_clusters)

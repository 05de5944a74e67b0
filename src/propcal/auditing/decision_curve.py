"""What acting on a score would do, threshold by threshold, and how the scores are spread."""

from __future__ import annotations

from typing import Any

import numpy as np

from propcal.auditing.sample import FEWEST_CLUSTERS, Sample
from propcal.core.grid import FloatArray, to_grid

THRESHOLDS = np.round(np.arange(0.01, 1.0, 0.01), 2)
BARS = np.round(np.arange(0, 1.025, 0.05), 2)


def net_benefit(sample: Sample) -> dict[str, FloatArray]:
    """Columns over the thresholds: treat everybody scored at least that high.

    Net benefit is people treated rightly less people treated wrongly, who count by the odds of the
    threshold, for each person of the group.
    """
    part = _place(sample.score, THRESHOLDS)
    odds = THRESHOLDS / (1 - THRESHOLDS)
    right, wrong = (_at_least(part, column) for column in (sample.positives, sample.negatives))
    benefit = (right - odds * wrong) / sample.total
    reach = sample.quantile * np.sqrt(_variance(sample, part, odds, benefit)) / sample.total
    nobody = sample.total - sample.observed
    with np.errstate(invalid="ignore", divide="ignore"):
        return {
            "threshold": THRESHOLDS,
            "net_benefit": benefit,
            "low": benefit - reach,
            "high": benefit + reach,
            "treat_all": (sample.observed - odds * nobody) / sample.total,
            "sensitivity": right / sample.observed,
            "specificity": 1 - wrong / np.float64(nobody),
            "treated": (right + wrong) / sample.total,
        }


def _place(score: FloatArray, edges: FloatArray) -> Any:
    """How many edges each score has reached, on the grid: 0.7 is a threshold that a score of 0.7 reaches."""
    return np.searchsorted(to_grid(edges), to_grid(score), side="right")


def _at_least(part: Any, column: FloatArray) -> FloatArray:
    """Sum of a column over the people at or above each threshold."""
    sums = np.bincount(part, weights=column, minlength=len(THRESHOLDS) + 1)
    return np.asarray(np.cumsum(sums[::-1])[::-1][1:])


def _variance(sample: Sample, part: Any, odds: FloatArray, benefit: FloatArray) -> FloatArray:
    """Variance of the sum over people of what each contributes beyond the mean."""
    if sample.cluster is None:
        right, wrong = (_at_least(part, column) for column in (sample.positives_sq, sample.negatives_sq))
        square = right + odds**2 * wrong - 2 * benefit * (right - odds * wrong)
        return np.asarray(np.maximum(square + benefit**2 * sample.weight_sq.sum(), 0.0))  # rounding
    if sample.n_clusters < FEWEST_CLUSTERS:
        return np.full(len(odds), np.nan)
    _, index = np.unique(sample.cluster, return_inverse=True)
    sums = []
    for cluster in range(sample.n_clusters):
        rows = index == cluster
        right = _at_least(part[rows], sample.positives[rows])
        wrong = _at_least(part[rows], sample.negatives[rows])
        sums.append(right - odds * wrong - benefit * sample.weight[rows].sum())
    return np.asarray(np.var(sums, axis=0, ddof=1) * sample.n_clusters)


def distribution(sample: Sample) -> dict[str, FloatArray]:
    """Columns over twentieths of the score: people, and people with the outcome (weighted)."""
    part = _place(sample.score, BARS[1:-1])
    people, positives = (
        np.bincount(part, weights=column, minlength=len(BARS) - 1)
        for column in (sample.weight, sample.positives)
    )
    return {"score_from": BARS[:-1], "score_to": BARS[1:], "people": people, "positives": positives}

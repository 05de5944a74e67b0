"""The noise guard: how large a gap, in standard errors, chance alone could produce in a perfect score."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from propcal.core.atoms import Atoms
from propcal.core.bins import Bins
from propcal.core.boosting.null import affordable_draws, draw_outcomes, whole_people
from propcal.core.categories import bucket_sums
from propcal.core.grid import UNIT, FloatArray, SumArray
from propcal.core.groups.collection import Collection, membership

SIGNIFICANCE = 0.02  # how often a perfect score is adjusted by chance
DRAWS, BLOCK = 4000, 1_000_000  # simulated data sets; random numbers drawn at once


def noise_limit(
    atoms: Atoms, collection: Collection, bins: Bins, *, min_share: float, rng: np.random.Generator
) -> float:
    """The 98th percentile of the largest |gap| / standard error under perfect calibration.

    Outcomes are simulated from the scores for each (pattern, bin), so that overlapping groups share the
    outcomes of the people they have in common. Categories below `min_share` are left out.
    """
    inside = membership(collection.groups, atoms.patterns).astype(np.float64)
    columns = (atoms.weight, atoms.weight_sq, atoms.weight * (atoms.score / UNIT))
    weight, squares, score = (bucket_sums(atoms, bins, column).astype(np.float64) for column in columns)
    total = inside @ weight
    eligible = (total > 0) & (total / float(atoms.weight.sum()) >= min_share)
    if not eligible.any():
        return 0.0
    sizes, spreads, expected = ((inside @ table)[eligible] for table in (weight, squares, score))
    largest = [
        studentised(sizes, spreads, expected, (inside @ positives)[:, eligible]).max(axis=1)
        for positives in _drawn(weight, squares, score, rng)
    ]
    return float(np.quantile(np.concatenate(largest), 1 - SIGNIFICANCE, method="higher"))


def _drawn(
    weight: SumArray, squares: SumArray, score: SumArray, rng: np.random.Generator
) -> Iterator[FloatArray]:
    """Blocks of simulated outcomes, of shape (draws, n_patterns, n_bins)."""
    used = weight > 0
    people = whole_people(weight[used] ** 2 / squares[used])
    risk = np.clip(score[used] / weight[used], 0.0, 1.0)
    n_draws = affordable_draws(len(people), DRAWS)
    for drawn in draw_outcomes(people, risk, n_draws, rng, block=BLOCK // len(people)):
        positives = np.zeros((len(drawn), *weight.shape))
        positives[:, used] = drawn * (weight[used] / people)
        yield positives


def studentised(
    weight: FloatArray, squares: FloatArray, score: FloatArray, positives: FloatArray
) -> FloatArray:
    """The |gap| / standard error of each category."""
    return np.asarray(np.abs(positives - score) / weight / standard_errors(weight, squares, positives, score))


def standard_errors(
    weight: FloatArray, squares: FloatArray, positives: FloatArray, score: FloatArray
) -> FloatArray:
    """Standard errors of gaps if the score is calibrated; `kernel.standard_error` for arrays of sums."""
    people = weight**2 / squares
    mean = score / weight
    rate = (positives / weight * people + 1) / (people + 2)
    return np.asarray(np.sqrt(np.maximum(mean * (1 - mean), rate * (1 - rate)) / people))

"""Tests of how errors vary: between groups, in their slopes and curves, and along the curve of everybody.

Level and slope of everybody have tests of their own, and are taken out first, so that an overall error does
not look like differences. What is left is compared with chance by score tests of variance components: the
gain in log-likelihood that effects of a typical size would bring. Under the null hypothesis it is a sum of
squares of normal numbers with different weights, whose tail is approximated from three moments (Hall,
Buckley, Eagleson).
"""

from __future__ import annotations

import numpy as np
from scipy.special import chdtrc

from propcal.core.atoms import Atoms
from propcal.core.boosting.log_odds_cells import COARSE, CONSTANT, CURVE, Basis, count_cells
from propcal.core.boosting.random_effects import GUESS, Effects, derivatives_at
from propcal.core.boosting.smooth_terms import FEWEST_PEOPLE, smooth_terms
from propcal.core.grid import BoolArray, FloatArray, IntArray
from propcal.core.groups.collection import Collection

DIFFERENCES = "differences between groups"
GROUP_SLOPES = "slopes and curves of groups"
BENDS = "calibration curve of everybody"


def shape_tests(atoms: Atoms, collection: Collection) -> list[tuple[str, tuple[float, float]]]:
    """The statistic (in units of its expectation by chance) and p-value of each test that can be made."""
    terms, _ = smooth_terms(collection)
    cells = count_cells(atoms, terms, COARSE)
    if cells.n.sum() < FEWEST_PEOPLE:
        return []
    basis = Basis(cells)
    columns = basis(cells.log_odds)
    effects = Effects.full(len(terms), columns.shape[1])
    everybody, kind = _places(len(terms), basis.kinds)
    overall = everybody & (kind != CURVE)
    gradient, information = derivatives_at(cells, columns, effects, free=overall)
    chosen = {
        DIFFERENCES: ~everybody & (kind == CONSTANT),
        GROUP_SLOPES: ~everybody & (kind != CONSTANT),
        BENDS: everybody & (kind == CURVE),
    }
    return [
        (name, _quadratic(gradient, information, some, overall))
        for name, some in chosen.items()
        if some.any()
    ]


def _places(n_terms: int, kinds: IntArray) -> tuple[BoolArray, IntArray]:
    """Of each effect: whether it is one of everybody (the first term), and its kind."""
    return np.repeat(np.arange(n_terms) == 0, len(kinds)), np.tile(kinds, n_terms)


def _quadratic(
    gradient: FloatArray, information: FloatArray, some: BoolArray, overall: BoolArray
) -> tuple[float, float]:
    """The gain of some effects beyond the overall ones, divided by its expectation, and its p-value."""
    across = information[np.ix_(some, overall)]
    inner = np.linalg.pinv(information[np.ix_(overall, overall)])
    left = gradient[some] - across @ inner @ gradient[overall]
    covariance = information[np.ix_(some, some)] - across @ inner @ across.T
    size = 1 / np.sqrt(np.diag(information)[some] + 1 / GUESS)
    matrix = covariance * size[:, None] * size
    squared = matrix @ matrix
    first, second, third = np.trace(matrix), np.trace(squared), float(np.sum(squared * matrix))
    if not first > 0 or not third > 0:
        return 0.0, 1.0
    value = float(np.sum((left * size) ** 2))
    freedom = second**3 / third**2
    place = freedom + (value - first) * np.sqrt(freedom / second)
    return value / first, float(chdtrc(freedom, max(place, 0.0)))

"""Tests of how errors vary: between groups, in their slopes and curves, and along the curve of everybody.

Level and slope of everybody have tests of their own, and are taken out first. So is the whole curve of
everybody before groups are compared, so that an error that all share does not look like differences, and the
level of each group before slopes are. What is left is compared with chance by score tests of variance
components: the gain in log-likelihood that effects of a typical size would bring. Under the null hypothesis
it is a sum of squares of normal numbers with different weights, whose tail is approximated from three moments
(Hall, Buckley, Eagleson).
"""

from __future__ import annotations

import numpy as np
from scipy.special import chdtrc

from propcal.core.atoms import Atoms
from propcal.core.fit.log_odds_cells import (
    COARSE,
    CONSTANT,
    CURVE,
    FEWEST_PEOPLE,
    TYPICAL,
    Basis,
    LogOddsCells,
    count_cells,
    smooth_terms,
)
from propcal.core.grid import BoolArray, FloatArray
from propcal.core.groups.collection import Collection
from propcal.core.logistic import fit_logistic

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
    everybody, kind = (
        np.repeat(np.arange(len(terms)) == 0, len(basis.kinds)),
        np.tile(basis.kinds, len(terms)),
    )
    overall, constants = everybody & (kind != CURVE), kind == CONSTANT
    tests = [
        (BENDS, everybody & (kind == CURVE), overall),
        (DIFFERENCES, ~everybody & constants, everybody),
        (GROUP_SLOPES, ~everybody & ~constants, everybody | constants),
    ]
    fits = [
        fit_logistic(own, cells.log_odds, cells.n, cells.positives)
        for own in (columns[:, basis.kinds != CURVE], columns)
    ]
    straight, curved = (fit and _derivatives(cells, columns, fit.fitted) for fit in fits)
    return [
        (name, _quadratic(*derivatives, some, taken_out))
        for name, some, taken_out in tests
        if some.any() and (derivatives := straight if name == BENDS else curved)  # else data are separated
    ]


def _derivatives(cells: LogOddsCells, columns: FloatArray, risk: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Gradient and information of the log-likelihood, for an effect of each term on each column."""
    n_terms, n_columns = cells.members.shape[1], columns.shape[1]
    starts = cells.starts[:-1]
    by_row = np.add.reduceat((cells.positives - cells.n * risk)[:, None] * columns, starts)
    gradient = cells.members.T.astype(np.float64) @ by_row
    row, term = np.nonzero(cells.members)
    # every pair of terms that apply to the same row: each row has only a few
    count = np.bincount(row, minlength=len(starts))[row]
    first = np.repeat(np.arange(len(row)), count)
    begin = np.searchsorted(row, row)
    second = np.repeat(begin, count) + np.arange(len(first)) - np.repeat(np.cumsum(count) - count, count)
    place = term[first] * n_terms + term[second]
    information = np.empty((n_terms, n_columns, n_terms, n_columns))
    spread = cells.n * risk * (1 - risk)
    for j in range(n_columns):
        for k in range(j + 1):
            bend = np.add.reduceat(spread * columns[:, j] * columns[:, k], starts)[row[first]]
            block = np.bincount(place, bend, n_terms**2).reshape(n_terms, n_terms)
            information[:, j, :, k] = information[:, k, :, j] = block
    size = n_terms * n_columns
    return gradient.reshape(size), information.reshape(size, size)


def _quadratic(
    gradient: FloatArray, information: FloatArray, some: BoolArray, overall: BoolArray
) -> tuple[float, float]:
    """The gain of some effects beyond the overall ones, divided by its expectation, and its p-value."""
    across = information[np.ix_(some, overall)]
    inner = np.linalg.pinv(information[np.ix_(overall, overall)])
    left = gradient[some] - across @ inner @ gradient[overall]
    covariance = information[np.ix_(some, some)] - across @ inner @ across.T
    size = 1 / np.sqrt(np.diag(information)[some] + 1 / TYPICAL)
    matrix = covariance * size[:, None] * size
    squared = matrix @ matrix
    first, second, third = np.trace(matrix), np.trace(squared), float(np.sum(squared * matrix))
    if not first > 0 or not third > 0:
        return 0.0, 1.0
    value = float(np.sum((left * size) ** 2))
    freedom = second**3 / third**2
    place = freedom + (value - first) * np.sqrt(freedom / second)
    return value / first, float(chdtrc(freedom, max(place, 0.0)))

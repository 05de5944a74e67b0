"""Cells: people counted by groups and fine steps of log-odds, and the basis of curves over them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from propcal.core.atoms import Atoms
from propcal.core.bins import Bins
from propcal.core.categories import bucket_sums
from propcal.core.correction.smooth_map import TABLE_PER_UNIT, logistic_table
from propcal.core.grid import UNIT, BoolArray, FloatArray, IntArray
from propcal.core.groups.collection import Group, membership
from propcal.core.logistic import log_odds, spline_columns

REACH = 12  # cells run from log-odds -12 to 12, as the knots of the start do; the ends hold what lies beyond
CONSTANT, SLOPE, CURVE, N_KINDS = 0, 1, 2, 3
CURVE_KNOTS = np.array([0.05, 0.275, 0.5, 0.725, 0.95])  # shares of the people below each


@dataclass(frozen=True, eq=False)
class LogOddsCells:
    """People counted by the terms that apply to them and by score.

    Patterns to which the same terms apply are one row. People with scores of exactly 0 or 1, whose
    log-odds are infinite, are in no cell.

    Attributes
    ----------
    members : array of bool, shape (n_rows, n_terms)
        Which terms apply to each row.
    starts : array of int64, shape (n_rows + 1,)
        LogOddsCells ``starts[r]:starts[r + 1]`` belong to row r.
    n, positives : arrays of shape (n_cells,)
        People and outcomes; under survey weights, the effective numbers.
    log_odds : array of shape (n_cells,)
        Of each cell's mean score.
    """

    members: BoolArray
    starts: IntArray
    n: FloatArray
    positives: FloatArray
    log_odds: FloatArray

    def __len__(self) -> int:
        return len(self.n)


def count_cells(atoms: Atoms, terms: tuple[Group, ...], per_unit: int) -> LogOddsCells:
    """Count people in cells of 1 / `per_unit` of log-odds."""
    members, row = np.unique(membership(terms, atoms.patterns).T, axis=0, return_inverse=True)
    bins = _steps(per_unit)
    tables = []
    for column in (atoms.weight, atoms.positives, atoms.weight * (atoms.score / UNIT)):
        table = np.zeros((len(members), len(bins)))
        np.add.at(table, row.reshape(-1), bucket_sums(atoms, bins, column))
        tables.append(table[:, 1:-1])
    filled = np.any(tables[0] > 0, axis=1)  # all of a row's people may have scores of 0 or 1
    members, tables = members[filled], [table[filled] for table in tables]
    used = tables[0] > 0
    weight, positives, score = (table[used] for table in tables)
    # weights that vary count for fewer people than there are (Kish); frequencies for all of them
    effective = float(atoms.weight.sum()) / float(atoms.weight_sq.sum())
    mean = np.clip(score / weight, 1 / UNIT, 1 - 1 / UNIT)  # rounding apart, it lies inside anyway
    starts = np.concatenate([[0], np.cumsum(used.sum(axis=1))])
    return LogOddsCells(members, starts, weight * effective, positives * effective, log_odds(mean))


def _steps(per_unit: int) -> Bins:
    """Bins of equal width in log-odds; scores of exactly 0 and exactly 1 have bins of their own."""
    table = logistic_table()
    middle, half = len(table) // 2, TABLE_PER_UNIT * REACH
    inner = table[middle - half : middle + half + 1 : TABLE_PER_UNIT // per_unit]
    edges = np.concatenate([[0, 1], inner, [UNIT, UNIT + 1]]).astype(np.int64)
    return Bins(edges, "explicit", len(edges) - 1)


class Basis:
    """A constant, a slope and a curve in log-odds, uncorrelated and of variance 1 over the people.

    Beyond the middle 99 % of the people every column stays constant: nothing is extrapolated. The
    slope is left out where all scores are alike, the curve where too few different ones are.
    """

    def __init__(self, cells: LogOddsCells) -> None:
        order = np.argsort(cells.log_odds, kind="stable")
        ranked, share = cells.log_odds[order], np.cumsum(cells.n[order]) / cells.n.sum()

        def quantile(part: FloatArray) -> FloatArray:
            # rounding in sums of weights must not decide between two cells
            return np.asarray(ranked[np.searchsorted(share, part - 1e-9)])

        self.low, self.high = quantile(np.array([0.005, 0.995]))
        self.knots = np.unique(quantile(CURVE_KNOTS))
        if len(self.knots) < 3:
            self.knots = np.empty(0)
        self.kinds = np.array([CONSTANT, SLOPE, *[CURVE] * max(len(self.knots) - 2, 0)])
        root = np.sqrt(cells.n / cells.n.sum())[:, None]
        columns = self._columns(cells.log_odds) * root
        # rows of zeros: there may be fewer cells than columns
        _, mixing = np.linalg.qr(np.concatenate([columns, np.zeros((columns.shape[1],) * 2)]))
        useful = np.abs(np.diag(mixing)) > 1e-4  # a column that the ones before it nearly give is none
        useful &= np.logical_and.accumulate(useful)
        self.kinds, size = self.kinds[useful], int(useful.sum())
        self.turn = np.linalg.inv(mixing[:size, :size])

    def _columns(self, values: FloatArray) -> FloatArray:
        x = np.clip(values, self.low, self.high)
        curves = list(spline_columns(x, self.knots))[2:]
        return np.stack([np.ones_like(x), x, *curves], axis=1)

    def __call__(self, values: FloatArray) -> FloatArray:
        """The columns at the given log-odds."""
        return np.asarray(self._columns(values)[:, : len(self.turn)] @ self.turn)

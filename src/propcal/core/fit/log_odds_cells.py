"""Counts of people by group and narrow range of log-odds, from which tests and the smooth curve learn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from propcal.core.atoms import Atoms
from propcal.core.bins import Bins
from propcal.core.categories import bucket_sums
from propcal.core.grid import TABLE_PER_UNIT, UNIT, BoolArray, FloatArray, IntArray, logistic_table
from propcal.core.groups.collection import MISSING, Collection, Group, membership
from propcal.core.logistic import log_odds, spline_columns

MOST_CELLS_PER_UNIT = 8000  # rows of cells times cells per unit of log-odds, from which cells become wider
REACH = 12  # cells run from log-odds -12 to 12, like the knots of the curve; the last ones are open-ended
COARSE, FINE = 2, 16  # cells per unit of log-odds: for tests, and for a fit
CONSTANT, SLOPE, CURVE, BUMPS = 0, 1, 2, 3  # kinds of columns; each level of bumps is one more kind
CURVE_KNOTS = np.array([0.05, 0.275, 0.5, 0.725, 0.95])  # quantiles of the scores
# columns are constant beyond the scores of so many people at either end, within these shares of all people
PEOPLE_OUTSIDE, SHARE_OUTSIDE = 10, (0.0005, 0.005)
FEWEST_PEOPLE = 50  # in total
FEWEST_OF_A_TERM = 11  # people of a group that gets a term of its own
MOST_TERMS = 120
TYPICAL = 0.0625  # the variance of effects that tests look for and a fit begins with: 0.25 in log-odds


@dataclass(frozen=True, eq=False)
class LogOddsCells:
    """Counts of people by the terms that apply to them (a term is a group, or everybody) and by score.

    Patterns to which the same terms apply share a row. People with scores of exactly 0 or 1 have
    infinite log-odds and are left out.

    Attributes
    ----------
    members : array of bool, shape (n_rows, n_terms)
        Which terms apply to each row.
    starts : array of int64, shape (n_rows + 1,)
        Cells ``starts[r]:starts[r + 1]`` belong to row r.
    n, positives : arrays of shape (n_cells,)
        People and outcomes; with survey weights, effective numbers.
    log_odds : array of shape (n_cells,)
        The log-odds of each cell's mean score.
    """

    members: BoolArray
    starts: IntArray
    n: FloatArray
    positives: FloatArray
    log_odds: FloatArray

    def __len__(self) -> int:
        return len(self.n)


def smooth_terms(collection: Collection) -> tuple[tuple[Group, ...], tuple[str, ...]]:
    """Everybody, and the groups that are large enough; only the largest if there are many, with a note.

    They include groups below gamma: effects of small groups are shrunk according to their size.
    """
    sizes = [
        size
        for size in (*collection.kept, *collection.left_out)
        if size.people >= FEWEST_OF_A_TERM and size.group.conditions and size.left_out != MISSING
    ]
    notes: tuple[str, ...] = ()
    if len(sizes) >= MOST_TERMS:
        notes = (f"the recalibration uses only the {MOST_TERMS - 1} largest of {len(sizes):,} groups",)
        smallest = sorted((size.people for size in sizes), reverse=True)[MOST_TERMS - 2]
        sizes = [size for size in sizes if size.people >= smallest][: MOST_TERMS - 1]
    return (Group(()), *(size.group for size in sizes)), notes


def fine_cells(atoms: Atoms, terms: tuple[Group, ...]) -> LogOddsCells:
    """Count people in the cells of a fit: narrow ones, unless there would be very many."""
    rows = _distinct_rows(membership(terms, atoms.patterns).T)
    per_unit = FINE
    while per_unit > COARSE and len(rows[0]) * per_unit > MOST_CELLS_PER_UNIT:
        per_unit //= 2
    return _counted(atoms, *rows, per_unit)


def count_cells(atoms: Atoms, terms: tuple[Group, ...], per_unit: int) -> LogOddsCells:
    """Count people in cells of width 1 / `per_unit` in log-odds."""
    return _counted(atoms, *_distinct_rows(membership(terms, atoms.patterns).T), per_unit)


def _distinct_rows(members: BoolArray) -> tuple[BoolArray, IntArray]:
    """The distinct rows of a table in order, and the place of each row among them; quicker than np.unique."""
    packed = np.packbits(members, axis=1)
    keys = np.ascontiguousarray(packed).view(np.dtype((np.void, packed.shape[1]))).reshape(-1)
    _, first, row = np.unique(keys, return_index=True, return_inverse=True)
    return members[first], row.reshape(-1)


def _counted(atoms: Atoms, members: BoolArray, row: IntArray, per_unit: int) -> LogOddsCells:
    bins = _steps(per_unit)
    tables = []
    for column in (atoms.weight, atoms.positives, atoms.weight * (atoms.score / UNIT)):
        table = np.zeros((len(members), len(bins)))
        np.add.at(table, row, bucket_sums(atoms, bins, column))
        tables.append(table[:, 1:-1])
    filled = np.any(tables[0] > 0, axis=1)  # a row may have only scores of 0 or 1
    members, tables = members[filled], [table[filled] for table in tables]
    used = tables[0] > 0
    weight, positives, score = (table[used] for table in tables)
    # the effective number of people is smaller with varying weights (Kish); frequencies count fully
    effective = float(atoms.weight.sum()) / float(atoms.weight_sq.sum())
    mean = np.clip(score / weight, 1 / UNIT, 1 - 1 / UNIT)  # only rounding could leave this range
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
    """A constant, a slope and a curve in log-odds, and local bumps at several resolutions.

    Constant, slope and curve (a restricted cubic spline) are uncorrelated and have variance 1 over the
    people. Each level of `bumps` adds that many triangular bumps, whose knots are quantiles of the scores and
    the two ends: the ends of a curve often need more room than its middle, and a score may be off by a step.
    Beyond the outermost knots every column is constant, so that nothing is extrapolated. The slope is left
    out if all scores are equal, and everything else if there are too few distinct scores.
    """

    def __init__(self, cells: LogOddsCells, bumps: tuple[int, ...] = ()) -> None:
        order = np.argsort(cells.log_odds, kind="stable")
        ranked, share = cells.log_odds[order], np.cumsum(cells.n[order]) / cells.n.sum()

        def quantile(part: FloatArray) -> FloatArray:
            # rounding in sums of weights must not decide which cell is chosen
            return np.asarray(ranked[np.minimum(np.searchsorted(share, part - 1e-9), len(ranked) - 1)])

        outside = float(np.clip(PEOPLE_OUTSIDE / cells.n.sum(), *SHARE_OUTSIDE))
        self.low, self.high = quantile(np.array([outside, 1 - outside]))
        self.knots = np.unique(quantile(CURVE_KNOTS))
        if len(self.knots) < 3:
            self.knots = np.empty(0)
        kinds = np.array([CONSTANT, SLOPE, *[CURVE] * max(len(self.knots) - 2, 0)])
        root = np.sqrt(cells.n / cells.n.sum())[:, None]
        columns = self._columns(cells.log_odds) * root
        # add rows of zeros, because there may be fewer cells than columns
        _, mixing = np.linalg.qr(np.concatenate([columns, np.zeros((columns.shape[1],) * 2)]))
        useful = np.abs(np.diag(mixing)) > 1e-4  # drop nearly collinear columns
        useful &= np.logical_and.accumulate(useful)
        self.n_smooth = int(useful.sum())
        self.turn = np.linalg.inv(mixing[: self.n_smooth, : self.n_smooth])
        self.bumps = [] if CURVE not in kinds[useful] else [self._bump_knots(n, quantile) for n in bumps]
        self.bumps = [knots for knots in self.bumps if len(knots) > len(self.knots)]
        levels = [np.full(len(knots), BUMPS + level) for level, knots in enumerate(self.bumps)]
        self.kinds = np.concatenate([kinds[useful], *levels])

    def _bump_knots(self, n: int, quantile: Callable[[FloatArray], FloatArray]) -> FloatArray:
        """The ends, and the middles of n equal parts of the people, at least two cells apart."""
        inner = quantile((np.arange(n) + 0.5) / n)
        found = np.unique(np.clip([self.low, *inner, self.high], self.low, self.high))
        kept = found[:1]
        for knot in found[1:]:
            if knot - kept[-1] >= 2 / FINE:
                kept = np.append(kept, knot)
        return kept

    def _columns(self, values: FloatArray) -> FloatArray:
        x = np.clip(values, self.low, self.high)
        curves = list(spline_columns(x, self.knots))[2:]
        return np.stack([np.ones_like(x), x, *curves], axis=1)

    def __call__(self, values: FloatArray) -> FloatArray:
        """The columns at the given log-odds."""
        smooth = self._columns(values)[:, : self.n_smooth] @ self.turn
        return np.concatenate([smooth, *(_triangles(values, knots) for knots in self.bumps)], axis=1)


def _triangles(values: FloatArray, knots: FloatArray) -> FloatArray:
    """For each knot a column that is 1 at it and falls to 0 at its neighbours; constant beyond the ends."""
    place = np.interp(values, knots, np.arange(len(knots)))
    return np.asarray(np.maximum(1 - np.abs(place[:, None] - np.arange(len(knots))), 0.0))

"""Counts of people by group and narrow range of log-odds, from which tests and the
smooth curve learn.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from propcal.core.atoms import Atoms
from propcal.core.bins import Bins
from propcal.core.categories import bucket_sums
from propcal.core.grid import (
    TABLE_PER_UNIT,
    UNIT,
    BoolArray,
    FloatArray,
    IntArray,
    logistic_table,
)
from propcal.core.groups import MISSING, Collection, Group, membership
from propcal.core.logistic import log_odds, spline_columns

# rows of cells times cells per unit of log-odds, from which cells become wider
MOST_CELLS_PER_UNIT = 8000
# cells run from log-odds -12 to 12, like the knots of the curve; the last ones are
# open-ended
REACH = 12
END = (
    REACH + 0.125
)  # what scores of exactly 0 and 1 count as: one knot of the curve further out
# cells per unit of log-odds: for tests, and for a fit
COARSE = 2
FINE = 16
CONSTANT, SLOPE, CURVE, BUMPS, LEVEL = range(5)  # kinds of columns
CURVE_KNOTS = (0.05, 0.275, 0.5, 0.725, 0.95)  # quantiles of the scores
# columns are constant beyond the scores of so many people at either end, within these
# shares of all people
PEOPLE_OUTSIDE = 10
SHARE_OUTSIDE = (0.0005, 0.005)
FEWEST_PEOPLE = 50  # in total
# standard errors by which scores of exactly 0 or 1 must be on the wrong side of the
# next ones
POOLED = 2.0
FEWEST_OF_A_TERM = 11  # people of a group that gets a term of its own
MOST_TERMS = 120
# the variance of effects that tests look for and a fit begins with: 0.25 in log-odds
TYPICAL = 0.0625


@dataclass(frozen=True, eq=False)
class LogOddsCells:
    """Counts of people by the terms that apply to them (a term is a group, or
    everybody) and by score.

    Patterns to which the same terms apply share a row. People with scores of exactly 0
    or 1 have infinite log-odds and are left out, unless a fit needs them
    (`fine_cells`).

    Attributes
    ----------
    members : array of bool, shape (n_rows, n_terms)
        Which terms apply to each row.
    starts : array of int64, shape (n_rows + 1,)
        Cells ``starts[r]:starts[r + 1]`` belong to row r.
    n, positives : arrays of shape (n_cells,)
        People and outcomes; with survey weights, effective numbers.
    log_odds : array of shape (n_cells,)
        The log-odds of each cell's mean score; -END and END for scores of exactly 0 and
        1.
    """

    members: BoolArray
    starts: IntArray
    n: FloatArray
    positives: FloatArray
    log_odds: FloatArray

    def __len__(self) -> int:
        return len(self.n)


def smooth_terms(collection: Collection) -> tuple[tuple[Group, ...], tuple[str, ...]]:
    """Everybody, and the groups that are large enough; only the largest if there are
    many, with a note.

    They include groups below gamma: effects of small groups are shrunk according to
    their size.
    """
    sizes = [
        size
        for size in (*collection.kept, *collection.left_out)
        if size.people >= FEWEST_OF_A_TERM
        and size.group.conditions
        and size.left_out != MISSING
    ]
    notes: tuple[str, ...] = ()
    if len(sizes) >= MOST_TERMS:
        of_all = f"the {len(sizes):,} groups with at least {FEWEST_OF_A_TERM} people"
        notes = (
            f"the recalibration uses only the {MOST_TERMS - 1} largest of {of_all}",
        )
        smallest = sorted((size.people for size in sizes), reverse=True)[MOST_TERMS - 2]
        sizes = [size for size in sizes if size.people >= smallest][: MOST_TERMS - 1]
    return (Group(()), *(size.group for size in sizes)), notes


def fine_cells(
    atoms: Atoms, terms: tuple[Group, ...], *, ends: bool = False
) -> LogOddsCells:
    """Count people in the cells of a fit: narrow ones, unless there would be very many.

    With `ends`, this includes people with a score of exactly 0, or exactly 1, if there
    are enough of them.
    """
    rows = _distinct_rows(membership(terms, atoms.patterns).T)
    per_unit = FINE
    while per_unit > COARSE and len(rows[0]) * per_unit > MOST_CELLS_PER_UNIT:
        per_unit //= 2
    return _counted(atoms, *rows, per_unit, ends=ends)


def count_cells(atoms: Atoms, terms: tuple[Group, ...], per_unit: int) -> LogOddsCells:
    """Count people in cells of width 1 / `per_unit` in log-odds."""
    return _counted(
        atoms, *_distinct_rows(membership(terms, atoms.patterns).T), per_unit
    )


def _distinct_rows(members: BoolArray) -> tuple[BoolArray, IntArray]:
    """The distinct rows of a table in order, and the place of each row among them;
    quicker than np.unique.
    """
    packed = np.packbits(members, axis=1)
    keys = (
        np.ascontiguousarray(packed)
        .view(np.dtype((np.void, packed.shape[1])))
        .reshape(-1)
    )
    _, first, row = np.unique(keys, return_index=True, return_inverse=True)
    return members[first], row.reshape(-1)


def _counted(
    atoms: Atoms,
    members: BoolArray,
    row: IntArray,
    per_unit: int,
    *,
    ends: bool = False,
) -> LogOddsCells:
    bins = _steps(per_unit)
    tables = []
    for column in (atoms.weight, atoms.positives, atoms.weight * (atoms.score / UNIT)):
        table = np.zeros((len(members), len(bins)))
        np.add.at(table, row, bucket_sums(atoms, bins, column))
        tables.append(table)
    # the effective number of people is smaller with varying weights (Kish); frequencies
    # count fully
    effective = float(atoms.weight.sum()) / float(atoms.weight_sq.sum())
    weight, positives, score = tables
    used = weight > 0
    for end in (0, -1):
        used[:, end] &= ends and weight[:, end].sum() * effective >= FEWEST_OF_A_TERM
    filled = used.any(axis=1)  # a row may have only scores of 0 or 1
    n = used[filled].sum(axis=1)
    weight, positives, score = (table[used] for table in tables)
    mean = np.clip(
        score / weight, 1 / UNIT, 1 - 1 / UNIT
    )  # only rounding could leave this range
    place = np.broadcast_to(np.arange(len(bins)), used.shape)[used]
    value = np.select([place == 0, place == len(bins) - 1], [-END, END], log_odds(mean))
    starts = np.concatenate([[0], np.cumsum(n)])
    return LogOddsCells(
        members[filled], starts, weight * effective, positives * effective, value
    )


def _steps(per_unit: int) -> Bins:
    """Bins of equal width in log-odds; scores of exactly 0 and exactly 1 have bins of
    their own.
    """
    table = logistic_table()
    middle = len(table) // 2
    half = TABLE_PER_UNIT * REACH
    inner = table[middle - half : middle + half + 1 : TABLE_PER_UNIT // per_unit]
    edges = np.concatenate([[0, 1], inner, [UNIT, UNIT + 1]]).astype(np.int64)
    return Bins(edges, "explicit", len(edges) - 1)


class Basis:
    """A constant, a slope and a curve in log-odds, local bumps, and levels of scores of
    exactly 0 and 1.

    Constant, slope and curve (a restricted cubic spline) are uncorrelated and have
    variance 1 over the people. `n_bumps` adds triangular bumps, whose knots are
    quantiles of the scores and the two ends: the ends of a curve often need more room
    than its middle, and a score may be off by a step. Beyond the outermost knots every
    column is constant, so that nothing is extrapolated. The slope is left out if all
    scores are equal, and everything else if there are too few distinct scores.

    If the cells include scores of exactly 0 or 1, `offset` takes them to the end of the
    curve, from where a column takes them further.
    """

    def __init__(
        self,
        cells: LogOddsCells,
        n_bumps: int = 0,
        knots: tuple[float, ...] = CURVE_KNOTS,
    ) -> None:
        inside = np.abs(cells.log_odds) < END
        values = cells.log_odds[inside]
        n = cells.n[inside]
        order = np.argsort(values, kind="stable")
        ranked = values[order]
        share = np.cumsum(n[order]) / n.sum()

        def quantile(part: FloatArray) -> FloatArray:
            # rounding in sums of weights must not decide which cell is chosen
            return np.asarray(
                ranked[np.minimum(np.searchsorted(share, part - 1e-9), len(ranked) - 1)]
            )

        outside = float(np.clip(PEOPLE_OUTSIDE / n.sum(), *SHARE_OUTSIDE))
        self.low, self.high = quantile(np.array([outside, 1 - outside]))
        self.ends = np.array(
            [end for end in (-END, END) if np.any(cells.log_odds == end)]
        )
        middle = quantile(np.array([0.25, 0.75]))
        self.levels = np.array(
            [end for end in self.ends if not self._pooled(cells, end, *middle)]
        )
        self.knots = np.unique(quantile(np.array(knots)))
        if len(self.knots) < 3:
            self.knots = np.empty(0)
        kinds = np.array([CONSTANT, SLOPE, *[CURVE] * max(len(self.knots) - 2, 0)])
        root = np.sqrt(n / n.sum())[:, None]
        columns = self._columns(values) * root
        # add rows of zeros, because there may be fewer cells than columns
        _, mixing = np.linalg.qr(
            np.concatenate([columns, np.zeros((columns.shape[1],) * 2)])
        )
        useful = np.abs(np.diag(mixing)) > 1e-4  # drop nearly collinear columns
        useful &= np.logical_and.accumulate(useful)
        self.n_smooth = int(useful.sum())
        self.turn = np.linalg.inv(mixing[: self.n_smooth, : self.n_smooth])
        if n_bumps and CURVE in kinds[useful]:
            bumps = self._bump_knots(n_bumps, quantile)
        else:
            bumps = np.empty(0)
        self.bumps = bumps if len(bumps) > len(self.knots) else np.empty(0)
        others = np.repeat([BUMPS, LEVEL], [len(self.bumps), len(self.levels)])
        self.kinds = np.concatenate([kinds[useful], others]).astype(np.int64)

    def _pooled(self, cells: LogOddsCells, end: float, low: float, high: float) -> bool:
        """Whether isotonic regression would pool people with those whose score is 0 or
        1, not by chance.

        Then the curve ends where their pool begins, and there is no level beyond it: a
        pile of scores of 1 of whom few have the outcome takes the people just below
        along. The middle half always has the curve.
        """
        values, place = np.unique(-np.sign(end) * cells.log_odds, return_inverse=True)
        right = cells.positives if end > 0 else cells.n - cells.positives
        events, people = (
            np.cumsum(np.bincount(place, column)) for column in (right, cells.n)
        )
        last = int(np.argmax(np.round(events / people, 12)))
        others = people[last] - people[0]
        rate = events[last] / people[last]
        error = np.sqrt(rate * (1 - rate) * (1 / people[0] + 1 / max(others, 1.0)))
        if (
            others == 0
            or (events[last] - events[0]) / others - events[0] / people[0]
            < POOLED * error
        ):
            return False
        first = -np.sign(end) * values[last]
        if end > 0:
            self.high = max(min(first, self.high), high)
        else:
            self.low = min(max(first, self.low), low)
        return True

    def _bump_knots(
        self, n: int, quantile: Callable[[FloatArray], FloatArray]
    ) -> FloatArray:
        """The ends, and the middles of n equal parts of the people, at least two cells
        apart.
        """
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
        levels = [
            np.interp(values * np.sign(end), [self._edge(end), END], [0.0, 1.0])
            for end in self.levels
        ]
        return np.concatenate(
            [smooth, _triangles(values, self.bumps), *(c[:, None] for c in levels)],
            axis=1,
        )

    def offset(self, values: FloatArray) -> FloatArray:
        """The log-odds to which the columns add; beyond an end of the curve that has a
        level, those of it.
        """
        for end in self.ends:
            sign = np.sign(end)
            values = sign * np.minimum(sign * values, self._edge(end))
        return values

    def _edge(self, end: float) -> float:
        """How far the curve goes towards an end."""
        return float(self.high if end > 0 else -self.low)


def _triangles(values: FloatArray, knots: FloatArray) -> FloatArray:
    """For each knot a column that is 1 at it and falls to 0 at its neighbours; constant
    beyond the ends.
    """
    if not len(knots):
        return np.empty((len(values), 0))
    place = np.interp(values, knots, np.arange(len(knots)))
    return np.asarray(
        np.maximum(1 - np.abs(place[:, None] - np.arange(len(knots))), 0.0)
    )

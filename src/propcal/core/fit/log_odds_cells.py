"""Counts of people by group and narrow range of log-odds, for tests and fits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from propcal.core.atoms import Atoms
from propcal.core.bins import Bins
from propcal.core.categories import bucket_starts
from propcal.core.grid import (
    TABLE_PER_UNIT,
    UNIT,
    BoolArray,
    FloatArray,
    IntArray,
    SumArray,
    logistic_table,
    run_sums,
)
from propcal.core.groups import MISSING, Collection, Group, GroupSize, membership
from propcal.core.logistic import UncorrelatedSpline, log_odds

# rows of cells times cells per unit of log-odds, from which cells become wider
MOST_CELLS_PER_UNIT = 8000
# cells run from log-odds -12 to 12, like the knots of the curve; the last ones are
# open-ended
REACH = 12
# what scores of exactly 0 and 1 count as: one knot of the curve further out
END = REACH + 0.125
# cells per unit of log-odds: for tests, and for a fit
COARSE = 2
FINE = 16
CONSTANT, SLOPE, CURVE, BUMPS, LEVEL = range(5)  # kinds of columns
CURVE_KNOTS = (0.05, 0.275, 0.5, 0.725, 0.95)  # quantiles of the scores
# columns are constant beyond the scores of so many people at either end, within these
# shares of all people
PEOPLE_OUTSIDE = 10
SHARE_OUTSIDE = (0.0005, 0.005)
MIN_CELLS_BETWEEN_BUMPS = 2
FEWEST_PEOPLE = 50  # in total
# standard errors by which scores of exactly 0 or 1 must be on the wrong side of the
# next ones
POOLED_Z = 2.0
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
        size for size in (*collection.kept, *collection.left_out) if _gets_a_term(size)
    ]
    notes: tuple[str, ...] = ()
    most_groups = MOST_TERMS - 1  # everybody has a term too
    if len(sizes) > most_groups:
        notes = (
            f"the recalibration uses only the {most_groups} largest of the "
            f"{len(sizes):,} groups with at least {FEWEST_OF_A_TERM} people",
        )
        by_size = sorted((size.people for size in sizes), reverse=True)
        smallest = by_size[most_groups - 1]
        sizes = [size for size in sizes if size.people >= smallest][:most_groups]
    return (Group(()), *(size.group for size in sizes)), notes


def _gets_a_term(size: GroupSize) -> bool:
    """Whether a group is large enough to have effects of its own."""
    defined = bool(size.group.conditions) and size.left_out != MISSING
    return defined and size.people >= FEWEST_OF_A_TERM


def fine_cells(
    atoms: Atoms, terms: tuple[Group, ...], *, ends: bool = False
) -> LogOddsCells:
    """Count people in the cells of a fit: narrow ones, unless there would be very many.

    With `ends`, this includes people with a score of exactly 0, or exactly 1, if there
    are enough of them.
    """
    members, row = _distinct_rows(membership(terms, atoms.patterns).T)
    per_unit = FINE
    while per_unit > COARSE and len(members) * per_unit > MOST_CELLS_PER_UNIT:
        per_unit //= 2
    return _counted(atoms, members, row, per_unit, ends=ends)


def count_cells(atoms: Atoms, terms: tuple[Group, ...], per_unit: int) -> LogOddsCells:
    """Count people in cells of width 1 / `per_unit` in log-odds."""
    members, row = _distinct_rows(membership(terms, atoms.patterns).T)
    return _counted(atoms, members, row, per_unit)


def _distinct_rows(members: BoolArray) -> tuple[BoolArray, IntArray]:
    """The distinct rows of a table in order, and the place of each row among them.

    Quicker than `np.unique` of rows, because each is packed into one value.
    """
    packed = np.ascontiguousarray(np.packbits(members, axis=1))
    one_value = np.dtype((np.void, packed.shape[1]))
    values = packed.view(one_value).reshape(-1)
    _, first, row = np.unique(values, return_index=True, return_inverse=True)
    return members[first], row.reshape(-1)


def _counted(
    atoms: Atoms,
    members: BoolArray,
    row: IntArray,
    per_unit: int,
    *,
    ends: bool = False,
) -> LogOddsCells:
    bins = _equal_steps(per_unit)
    starts = bucket_starts(atoms, bins)

    def table(column: SumArray) -> FloatArray:
        """Sums of a column by row and bin."""
        by_bucket = run_sums(column, starts).reshape(len(row), len(bins))
        by_row = np.zeros((len(members), len(bins)))
        np.add.at(by_row, row, by_bucket)
        return by_row

    weight = table(atoms.weight)
    positives = table(atoms.positives)
    score = table(atoms.weight * (atoms.score / UNIT))
    # the effective number of people is smaller with varying weights (Kish); frequencies
    # count fully
    effective = float(atoms.weight.sum()) / float(atoms.weight_sq.sum())
    used = weight > 0
    for end in (0, -1):
        n_at_end = weight[:, end].sum() * effective
        used[:, end] &= ends and n_at_end >= FEWEST_OF_A_TERM

    filled = used.any(axis=1)  # a row may have only scores of 0 or 1
    cells_of_row = used[filled].sum(axis=1)
    _, bin_index = np.nonzero(used)
    # only rounding could leave this range
    mean = np.clip(score[used] / weight[used], 1 / UNIT, 1 - 1 / UNIT)
    value = log_odds(mean)
    value[bin_index == 0] = -END
    value[bin_index == len(bins) - 1] = END
    return LogOddsCells(
        members[filled],
        np.concatenate([[0], np.cumsum(cells_of_row)]),
        weight[used] * effective,
        positives[used] * effective,
        value,
    )


def _equal_steps(per_unit: int) -> Bins:
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
        between = np.abs(cells.log_odds) < END
        values = cells.log_odds[between]
        n = cells.n[between]
        ranking = _Ranking(values, n)
        outside = float(np.clip(PEOPLE_OUTSIDE / n.sum(), *SHARE_OUTSIDE))
        self.low, self.high = ranking.quantiles([outside, 1 - outside])
        self.ends = np.array([e for e in (-END, END) if np.any(cells.log_odds == e)])
        self.levels = self._levels(cells, *ranking.quantiles([0.25, 0.75]))

        self.knots = np.unique(ranking.quantiles(knots))
        if len(self.knots) < 3:
            self.knots = np.array([self.low, self.high])  # a straight line
        self._spline = UncorrelatedSpline(values, n, self.knots, self.low, self.high)
        self.n_smooth = self._spline.n_columns
        smooth = [CONSTANT, SLOPE, *[CURVE] * (len(self.knots) - 2)][: self.n_smooth]

        self.bumps = np.empty(0)
        if n_bumps and CURVE in smooth:
            bumps = self._bump_knots(n_bumps, ranking)
            if len(bumps) > len(self.knots):
                self.bumps = bumps
        others = np.repeat([BUMPS, LEVEL], [len(self.bumps), len(self.levels)])
        self.kinds = np.concatenate([smooth, others]).astype(np.int64)

    def _levels(self, cells: LogOddsCells, low: float, high: float) -> FloatArray:
        """The ends that have a level of their own, beyond the end of the curve.

        Where isotonic regression would pool an end with other scores, the curve ends
        where the pool begins, and there is no level beyond it. The middle half of the
        people, from `low` to `high`, always has the curve.
        """
        levels = []
        for end in self.ends:
            pool = _beginning_of_pool(cells, end)
            if pool is None:
                levels.append(end)
            elif end > 0:
                self.high = max(min(pool, self.high), high)
            else:
                self.low = min(max(pool, self.low), low)
        return np.array(levels)

    def _bump_knots(self, n: int, ranking: _Ranking) -> FloatArray:
        """The ends, and the middles of n equal parts of the people, at least two cells
        apart.
        """
        middles = ranking.quantiles((np.arange(n) + 0.5) / n)
        candidates = np.clip([self.low, *middles, self.high], self.low, self.high)
        knots: list[float] = []
        for knot in np.unique(candidates):
            if not knots or knot - knots[-1] >= MIN_CELLS_BETWEEN_BUMPS / FINE:
                knots.append(knot)
        return np.array(knots)

    def __call__(self, values: FloatArray) -> FloatArray:
        """The columns at the given log-odds."""
        columns = [self._spline(values), _triangles(values, self.bumps)]
        for end in self.levels:
            beyond = np.sign(end) * values
            level = np.interp(beyond, [self._edge(end), END], [0.0, 1.0])
            columns.append(level[:, None])
        return np.concatenate(columns, axis=1)

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


class _Ranking:
    """People in the order of their values, for quantiles."""

    def __init__(self, values: FloatArray, n: FloatArray) -> None:
        order = np.argsort(values, kind="stable")
        self.values = values[order]
        self.shares = np.cumsum(n[order]) / n.sum()

    def quantiles(self, shares: Sequence[float] | FloatArray) -> FloatArray:
        """The value below which each share of the people is."""
        # rounding in sums of weights must not decide which cell is chosen
        place = np.searchsorted(self.shares, np.asarray(shares) - 1e-9)
        return np.asarray(self.values[np.minimum(place, len(self.values) - 1)])


def _beginning_of_pool(cells: LogOddsCells, end: float) -> float | None:
    """The log-odds where the people begin whom isotonic regression would pool with
    those whose score is 0 or 1; None if there are none, or perhaps by chance.

    If few people scored 1 have the outcome, isotonic regression pools them with the
    next lower scores.
    """
    sign = np.sign(end)
    distance, place = np.unique(-sign * cells.log_odds, return_inverse=True)
    if end > 0:
        right = cells.positives
    else:
        right = cells.n - cells.positives
    events = np.cumsum(np.bincount(place, right))
    people = np.cumsum(np.bincount(place, cells.n))
    last = int(np.argmax(np.round(events / people, 12)))
    others = people[last] - people[0]
    if others == 0:
        return None
    rate = events[last] / people[last]
    error = np.sqrt(rate * (1 - rate) * (1 / people[0] + 1 / max(others, 1.0)))
    difference = (events[last] - events[0]) / others - events[0] / people[0]
    if difference < POOLED_Z * error:
        return None
    return float(-sign * distance[last])


def _triangles(values: FloatArray, knots: FloatArray) -> FloatArray:
    """For each knot a column that is 1 at it and falls to 0 at its neighbours; constant
    beyond the ends.
    """
    if not len(knots):
        return np.empty((len(values), 0))
    numbers = np.arange(len(knots))
    place = np.interp(values, knots, numbers)
    distance = np.abs(place[:, None] - numbers)
    return np.asarray(np.maximum(1 - distance, 0.0))

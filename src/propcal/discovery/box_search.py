"""The search: the strongest boxes of one, two and three conditions, by a coarse pass and then a fine one.

Tables of all pairs of features are counted once. The strongest pairs are extended by a third condition, and
the cut points of the strongest boxes are then moved to the finest codes. Data sets that are simulated to see
what chance would show take the same steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np

from propcal.core.grid import FloatArray, IntArray
from propcal.discovery import box_kernels as kernels
from propcal.discovery.binned_features import Codes, Condition, Feature
from propcal.discovery.box_kernels import LEVEL, N_KINDS, N_SUMS, SLOPE

BEAM = (24, 12)  # boxes that are extended, for level and slope
SINGLES = 8  # single conditions that are extended where not all pairs are counted
MOST_PAIRED = 40  # of more features than this, pairs are counted only of the strongest
STRONGEST = 24  # this many
SWEEPS = 2

Box = tuple[Condition, ...]


@dataclass(frozen=True)
class Candidate:
    """A box with its evidence (see `box_kernels`)."""

    box: Box
    kind: int
    evidence: float

    @property
    def depth(self) -> int:
        """The number of conditions."""
        return len(self.box)


@dataclass(frozen=True, eq=False)
class Space:
    """What can be searched: the features, and the conditions of the coarse pass as arrays.

    The last "feature" has one code for everybody, so that a single condition is a pair with it.
    """

    features: tuple[Feature, ...]
    has_missing: tuple[bool, ...]

    @cached_property
    def conditions(self) -> list[list[Condition]]:
        """The conditions of each feature, on coarse codes; the last is everybody."""
        found = [
            feature.coarse_conditions(k, has_missing=missing)
            for k, (feature, missing) in enumerate(zip(self.features, self.has_missing))
        ]
        return [*found, [Condition(len(self.features), 0, 1)]]

    @cached_property
    def arrays(self) -> tuple[Any, ...]:
        """Codes, recorded codes and conditions of all features, as the kernels take them."""
        coarse = [feature.coarse_codes() for feature in self.features]
        n_codes = np.array([*(int(codes[-1]) + 1 for codes in coarse), 1])
        recorded = np.array([*(int(codes[-1]) for codes in coarse), 1])
        begin = np.cumsum([0, *map(len, self.conditions)])
        flat = [condition for own in self.conditions for condition in own]
        low, high = (np.array([getattr(c, end) for c in flat]) for end in ("low", "high"))
        return n_codes, recorded, begin, low, high, np.array([c.negated for c in flat])

    def coarse(self, codes: Codes) -> Codes:
        """Coarse codes of rows, with a last row of zeros for everybody."""
        made = np.zeros((len(codes) + 1, codes.shape[1]), dtype=np.uint8)
        for k, feature in enumerate(self.features):
            np.take(feature.coarse_codes(), codes[k], out=made[k])
        return made

    def fine(self, box: Sequence[Condition]) -> Box:
        """A box of coarse conditions on the finest codes, without the condition of everybody."""
        real = [c for c in box if c.feature < len(self.features)]
        return tuple(self.features[c.feature].fine(c) for c in sorted(real, key=lambda c: c.feature))

    def pairs(self, paired: Sequence[int] | None = None) -> Pairs:
        """Every feature with everybody, and all pairs of features (or of some)."""
        n = len(self.features)
        chosen = range(n) if paired is None else sorted(paired)
        both = [*((k, n) for k in range(n)), *combinations(chosen, 2)]
        first, second = np.array([a for a, _ in both]), np.array([b for _, b in both])
        n_codes = self.arrays[0]
        size = n_codes[first] * n_codes[second]
        return Pairs(first, second, n_codes[second], np.cumsum(size) - size, int(size.sum()))


@dataclass(frozen=True, eq=False)
class Pairs:
    """Pairs of features, and where the table of each begins."""

    first: IntArray
    second: IntArray
    width: IntArray
    offset: IntArray
    n_cells: int

    @property
    def arrays(self) -> tuple[Any, ...]:
        """As the kernels take them."""
        return self.first, self.second, self.width, self.offset


@dataclass(eq=False)
class Data:
    """Rows to be searched: their codes, fine and coarse, and the six sums of each."""

    space: Space
    codes: Codes
    coarse: Codes
    sums: Any
    smallest: float

    def rows_in(self, box: Sequence[Condition], *, coarse: bool = False) -> IntArray:
        """The rows inside a box."""
        if not coarse:
            return rows_inside(self.space.features, self.codes, box)
        return _rows_inside(self.coarse, box, self.space.arrays[1])

    def totals(self, rows: IntArray) -> FloatArray:
        """The six sums of some rows."""
        return np.asarray(kernels.sum_rows(rows, self.sums))

    def evidence(self, box: Sequence[Condition], kind: int) -> float:
        """The evidence of a box."""
        return float(kernels.box_evidence(self.totals(self.rows_in(box)), self.smallest, kind))

    def part(self, rows: IntArray) -> Data:
        """Some of the rows, with the smallest size in proportion."""
        sums = self.sums[rows]
        share = float(sums[:, kernels.VARIANCE].sum() / self.sums[:, kernels.VARIANCE].sum())
        codes = np.ascontiguousarray(self.codes[:, rows])
        return Data(self.space, codes, self.space.coarse(codes), sums, self.smallest * share)


def rows_inside(features: Sequence[Feature], codes: Codes, box: Sequence[Condition]) -> IntArray:
    """The rows whose codes are inside a box."""
    return _rows_inside(codes, box, [feature.recorded for feature in features])


def _rows_inside(codes: Codes, box: Sequence[Condition], recorded: Sequence[int] | IntArray) -> IntArray:
    inside = np.ones(codes.shape[1], dtype=np.bool_)
    for c in box:
        own = codes[c.feature]
        found = own < c.high
        if c.low:
            found &= own >= c.low
        if c.negated:
            found = ~found & (own < recorded[c.feature])
        inside &= found
    return np.flatnonzero(inside).astype(np.int32)


@dataclass(frozen=True, eq=False)
class PairScan:
    """The strongest box of each pair of features, for each data set."""

    pairs: Pairs
    best: FloatArray  # (pairs, kinds, data sets)
    where: IntArray

    def order(self, kind: int, draw: int, n_single: int) -> tuple[IntArray, IntArray]:
        """The strongest single conditions, and the strongest pairs, of one data set."""
        found = self.best[:, kind, draw]
        return np.argsort(-found[:n_single]), n_single + np.argsort(-found[n_single:])

    def box(self, space: Space, pair: int, kind: int, draw: int) -> tuple[Condition, Condition]:
        """The strongest box of a pair, on coarse codes."""
        a, b = int(self.pairs.first[pair]), int(self.pairs.second[pair])
        ca, cb = divmod(int(self.where[pair, kind, draw]), len(space.conditions[b]))
        return space.conditions[a][ca], space.conditions[b][cb]


def pair_table(data: Data, pairs: Pairs) -> FloatArray:
    """The six sums of every cell of every pair."""
    table = np.zeros((pairs.n_cells, N_SUMS))
    kernels.add_pairs(data.coarse, data.sums, *pairs.arrays, table)
    return table


def scan(
    space: Space, pairs: Pairs, residuals: Any, moments: FloatArray, smallest: float, *, skewed: bool
) -> PairScan:
    """Find the strongest box of each pair."""
    n_draws = residuals.shape[1] // 2
    shape = (len(pairs.first), N_KINDS, n_draws)
    best, where = np.full(shape, -1.0), np.zeros(shape, dtype=np.int64)
    kernels.scan_pairs(residuals, moments, *pairs.arrays, *space.arrays, smallest, skewed, best, where)
    return PairScan(pairs, best, where)


def scan_table(data: Data, pairs: Pairs, table: FloatArray) -> PairScan:
    """The strongest box of each pair, from the table of one data set."""
    residuals = np.ascontiguousarray(table[:, [kernels.RESIDUAL, kernels.SLOPED]])
    moments = np.ascontiguousarray(
        table[:, [kernels.VARIANCE, kernels.MIXED, kernels.SQUARED, kernels.THIRD]]
    )
    return scan(data.space, pairs, residuals, moments, data.smallest, skewed=True)


def deepen(data: Data, found: PairScan, *, draw: int = 0, depth: int = 3) -> list[Candidate]:
    """From the strongest pairs to the strongest boxes of up to three conditions."""
    n = len(data.space.features)
    made: list[Candidate] = []
    for kind in (LEVEL, SLOPE):
        singles, pairs = found.order(kind, draw, n)
        by_depth: dict[int, list[Candidate]] = {1: [], 2: [], 3: []}

        def add(pair: int, kind: int = kind, to: dict[int, list[Candidate]] = by_depth) -> tuple[Any, ...]:
            box = found.box(data.space, pair, kind, draw)
            made_box = data.space.fine(box)
            to[len(made_box)].append(Candidate(made_box, kind, float(found.best[pair, kind, draw])))
            return tuple(c for c in box if c.feature < n)

        starts = [add(k) for k in singles[:SINGLES] if found.best[k, kind, draw] > 0]
        beam = [add(k) for k in pairs[: BEAM[kind]] if found.best[k, kind, draw] > 0] if depth > 1 else []
        if depth > 1 and n > MOST_PAIRED:
            longer = _extensions(data, starts, kind)
            by_depth[2] += [candidate for candidate, _ in longer]
            beam += [box for _, box in longer[:SINGLES]]
        if depth > 2:
            by_depth[3] = [candidate for candidate, _ in _extensions(data, beam, kind)]
        for some in by_depth.values():
            made += sorted(some, key=lambda candidate: -candidate.evidence)[: BEAM[kind]]
    return made


def _extensions(data: Data, boxes: Sequence[Box], kind: int) -> list[tuple[Candidate, Box]]:
    """The strongest boxes that have one condition more than some boxes of coarse conditions."""
    n = len(data.space.features)
    best, where = np.empty((len(boxes), n)), np.zeros((len(boxes), n), dtype=np.int64)
    for box, own, at in zip(boxes, best, where):
        used = np.zeros(n, dtype=np.bool_)
        used[[c.feature for c in box]] = True
        rows = data.rows_in(box, coarse=True)
        kernels.extend(
            data.coarse[:n], rows, data.sums, used, *data.space.arrays, data.smallest, kind, own, at
        )
    found = best.ravel()
    begin = data.space.arrays[2]
    made = []
    for place in np.argsort(-found)[: BEAM[kind]]:
        if found[place] > 0:
            k, feature = divmod(int(place), n)
            condition = data.space.conditions[feature][where[k, feature] - begin[feature]]
            whole = (*boxes[k], condition)
            made.append((Candidate(data.space.fine(whole), kind, float(found[place])), whole))
    return made


def refine(data: Data, candidate: Candidate, *, everywhere: bool = False, new_ends: bool = True) -> Candidate:
    """Move the cut points of a box, one condition at a time, to where the evidence is strongest.

    Each end of a range moves within the neighbouring coarse ranges, or `everywhere`; without `new_ends`, a
    range that is open on one side stays so.
    """
    box, strongest = list(candidate.box), data.evidence(candidate.box, candidate.kind)
    for _ in range(SWEEPS):
        before = strongest
        for place, c in enumerate(box):
            feature = data.space.features[c.feature]
            if not feature.is_number or c.low == feature.recorded:
                continue
            rows = data.rows_in([other for other in box if other is not c])
            run = kernels.sums_by_code(
                data.codes[c.feature], rows, data.sums, feature.recorded + 1, candidate.kind
            )
            ends = [
                np.array([end])
                if not new_ends and end in (0, feature.recorded)
                else _around(feature, end, everywhere=everywhere)
                for end in (c.low, c.high)
            ]
            found, low, high = kernels.best_range(run, *ends, data.smallest, candidate.kind)
            if found > strongest and not (low == 0 and high == feature.recorded):
                strongest, box[place] = float(found), Condition(c.feature, int(low), int(high))
        if strongest <= before * (1 + 1e-9):
            break
    return Candidate(tuple(box), candidate.kind, strongest)


def _around(feature: Feature, end: int, *, everywhere: bool) -> IntArray:
    """Codes near the end of a range, up to the next coarse ends on either side."""
    if everywhere:
        return np.arange(feature.recorded + 1)
    ends = np.array([*feature.coarse, feature.recorded])
    at = int(np.searchsorted(ends, end))
    return np.arange(ends[max(at - 1, 0)], ends[min(at + 1, len(ends) - 1)] + 1)


def strongest(candidates: Sequence[Candidate], depth: int) -> FloatArray:
    """The largest statistic (not squared) of each kind and depth; shape (kinds, depth)."""
    found = np.zeros((N_KINDS, depth))
    for c in candidates:
        found[c.kind, c.depth - 1] = max(found[c.kind, c.depth - 1], np.sqrt(max(c.evidence, 0.0)))
    return found

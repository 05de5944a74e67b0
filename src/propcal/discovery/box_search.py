"""The search: the strongest boxes of one, two and three conditions, on coarse codes;
and what chance shows.

Tables of all pairs of features are counted once, and the strongest pairs are extended
by a third condition.

Data sets for which the score is right are simulated and searched by the same steps: the
largest statistic of a whole search is compared with theirs. Up to a number of rows,
outcomes are drawn from the score itself. Beyond it, sums are as good as normal: a
sample of the rows shows how boxes overlap, and residuals are drawn from a normal
distribution. With repeat visits, the residuals of each person are multiplied by one
random number, so that they stay alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from propcal import options
from propcal.core.grid import FloatArray, IntArray
from propcal.discovery import box_kernels as kernels
from propcal.discovery.binned_features import Box, Codes, Condition, FeatureTable
from propcal.discovery.box_kernels import (
    LEVEL,
    N_KINDS,
    N_SUMS,
    SLOPE,
    Conditions,
    Pairs,
)
from propcal.discovery.people import People
from propcal.options import check_limits

BEAM = (24, 12)  # boxes that are extended, for level and slope
SINGLES = 8  # single conditions that are extended where not all pairs are counted
MOST_PAIRED = 40  # of more features than this, pairs are counted only of the strongest
STRONGEST = 24  # this many
MOST_SIMULATED = 12_288  # rows; of more, a sample is simulated
BATCH = 32  # data sets counted at once
MARGIN = 1.6  # on p-values: a few dozen simulated searches know the tail only roughly
EULER = 0.5772156649015329
WHOLE_SHARE = 0.1  # share of the level that tests the score as a whole


@dataclass(frozen=True)
class Search(options.Searching):
    """How to search: checked arguments of `discover`."""

    def __post_init__(self) -> None:
        check_limits(self)

    @property
    def whole_level(self) -> float:
        """The level at which the score as a whole is tested."""
        return self.level * WHOLE_SHARE

    @property
    def group_level(self) -> float:
        """The level of the search for groups."""
        return self.level * (1 - WHOLE_SHARE)


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

    @property
    def statistic(self) -> float:
        """The root of the evidence."""
        return float(np.sqrt(max(self.evidence, 0.0)))


class Space:
    """What can be searched: the features, and the conditions of the coarse pass.

    The last "feature" has one code for everybody, so that a single condition is a pair
    with it.

    Attributes
    ----------
    features : tuple of Feature
    conditions : list of lists
        The conditions of each feature, on coarse codes; the last is everybody.
    arrays : Conditions
        All of this as the kernels take it.
    """

    def __init__(self, table: FeatureTable) -> None:
        self.features = table.features
        conditions = [
            feature.coarse_conditions(
                k, has_missing=bool(np.any(codes == feature.recorded))
            )
            for k, (feature, codes) in enumerate(zip(table.features, table.codes))
        ]
        conditions.append([Condition(len(self.features), 0, 1)])
        self.conditions = conditions
        recorded = [int(feature.coarse_codes()[-1]) for feature in self.features]
        _, low, high, negated = np.array(
            [condition for own in conditions for condition in own]
        ).T.copy()
        n_codes = np.array([*recorded, 0]) + 1
        begin = np.cumsum([0, *map(len, conditions)])
        ends = (low, high, negated.astype(np.bool_))
        self.arrays = Conditions(n_codes, np.array([*recorded, 1]), begin, *ends)

    def coarse(self, codes: Codes) -> Codes:
        """Coarse codes of rows, with a last row of zeros for everybody."""
        coarse = np.zeros((len(codes) + 1, codes.shape[1]), dtype=np.uint8)
        for k, feature in enumerate(self.features):
            np.take(feature.coarse_codes(), codes[k], out=coarse[k])
        return coarse

    def fine(self, box: Iterable[Condition]) -> Box:
        """A box of coarse conditions on the finest codes."""
        return tuple(
            self.features[c.feature].fine(c)
            for c in sorted(box, key=lambda c: c.feature)
        )

    def pairs(self, paired: Iterable[int]) -> Pairs:
        """Every feature with everybody, and all pairs of some."""
        n = len(self.features)
        n_codes = self.arrays.n_codes
        both = np.array([*((k, n) for k in range(n)), *combinations(sorted(paired), 2)])
        first = both[:, 0].copy()
        second = both[:, 1].copy()
        size = n_codes[first] * n_codes[second]
        return Pairs(
            first, second, n_codes[second], np.cumsum(size) - size, int(size.sum())
        )


class Data:
    """Rows to be searched: their codes, fine and coarse, and the six sums of each.

    Groups have at least the `smallest` variance.
    """

    def __init__(self, space: Space, codes: Codes, sums: Any, smallest: float) -> None:
        self.space = space
        self.codes = codes
        self.sums = sums
        self.smallest = smallest
        self.coarse = space.coarse(codes)

    def rows_in(self, box: Iterable[Condition], *, coarse: bool = False) -> IntArray:
        """The rows inside a box."""
        inside = np.ones(self.codes.shape[1], dtype=np.bool_)
        for c in box:
            codes = self.coarse[c.feature] if coarse else self.codes[c.feature]
            within = codes < c.high
            if c.low:
                within &= codes >= c.low
            if c.negated:  # on levels, whose coarse codes are the same
                within = ~within & (codes < self.space.features[c.feature].recorded)
            inside &= within
        return np.flatnonzero(inside).astype(np.int32)

    def totals(self, rows: IntArray) -> FloatArray:
        """The six sums of some rows."""
        return np.asarray(kernels.sum_rows(rows, self.sums))

    def statistic(self, rows: IntArray, kind: int) -> float:
        """The standardised statistic of some rows, with its sign."""
        return float(kernels.box_statistic(self.totals(rows), self.smallest, kind))

    def candidate(self, box: Box, kind: int) -> Candidate:
        """A box with its evidence in these rows."""
        totals = self.totals(self.rows_in(box))
        return Candidate(
            box, kind, float(kernels.box_evidence(totals, self.smallest, kind))
        )

    def running_sums(self, box: Box, place: int, kind: int) -> FloatArray:
        """Sums by codes of one condition's feature, added up, of the people in the
        box's other conditions.
        """
        feature = box[place].feature
        rows = self.rows_in([*box[:place], *box[place + 1 :]])
        n_codes = self.space.features[feature].recorded + 1
        return np.asarray(
            kernels.sums_by_code(self.codes[feature], rows, self.sums, n_codes, kind)
        )

    def part(self, rows: IntArray, information: float) -> Data:
        """Some of the rows, with the smallest size in proportion to the information of
        all of them.
        """
        sums = self.sums[rows]
        codes = np.ascontiguousarray(self.codes[:, rows])
        smallest = self.smallest * float(sums[:, kernels.VARIANCE].sum()) / information
        return Data(self.space, codes, sums, smallest)

    def counted(self, paired: Iterable[int]) -> tuple[Pairs, FloatArray]:
        """Single conditions of all features and pairs of some, with the six sums of
        every cell.
        """
        pairs = self.space.pairs(paired)
        table = np.zeros((pairs.n_cells, N_SUMS))
        kernels.add_rows(self.coarse, self.sums, pairs, table, kernels.BLOCK)
        return pairs, table

    @cached_property
    def all_pairs(self) -> tuple[Pairs, FloatArray] | None:
        """All pairs of features, counted; None if there are too many."""
        n = len(self.space.features)
        return self.counted(range(n)) if n <= MOST_PAIRED else None

    def update(self, rows: IntArray, sums: FloatArray) -> None:
        """Replace the sums of some rows, in the tables as well."""
        if self.all_pairs is not None:
            pairs, table = self.all_pairs
            coarse = np.ascontiguousarray(self.coarse[:, rows])
            kernels.add_rows(
                coarse, sums - self.sums[rows], pairs, table, kernels.BLOCK
            )
        self.sums[rows] = sums


class PairScan(NamedTuple):
    """The strongest box of each pair of features: its evidence and number, by kind and
    data set.
    """

    pairs: Pairs
    best: FloatArray
    where: IntArray

    def strongest(
        self, space: Space, among: IntArray, kind: int, draw: int
    ) -> list[tuple[Box, float]]:
        """The strongest boxes among those of some pairs, on coarse codes, with their
        evidence.
        """
        made = []
        best = self.best[:, kind, draw]
        for pair in among[np.argsort(-best[among])][: BEAM[kind]]:
            a = int(self.pairs.first[pair])
            b = int(self.pairs.second[pair])
            at_a, at_b = divmod(
                int(self.where[pair, kind, draw]), len(space.conditions[b])
            )
            box = space.conditions[a][at_a], space.conditions[b][at_b]
            if best[pair] > 0:
                made.append(
                    (
                        tuple(c for c in box if c.feature < len(space.features)),
                        float(best[pair]),
                    )
                )
        return made


def scan(data: Data) -> PairScan:
    """The strongest box of each pair of features, or of the strongest features if there
    are many.
    """
    if data.all_pairs is not None:
        return scan_table(data, *data.all_pairs)
    best = scan_table(data, *data.counted(())).best[:, :, 0].max(axis=1)
    return scan_table(data, *data.counted(np.argsort(-best)[:STRONGEST].tolist()))


def scan_table(
    data: Data,
    pairs: Pairs,
    table: FloatArray,
    residuals: Any = None,
    *,
    skewed: bool = True,
) -> PairScan:
    """The strongest box of each pair from the sums of its cells.

    `residuals` are those of several data sets, in place of the ones in the table.
    """
    if residuals is None:
        residuals = np.ascontiguousarray(table[:, [kernels.RESIDUAL, kernels.SLOPED]])
    moments = table[
        :, [kernels.VARIANCE, kernels.MIXED, kernels.SQUARED, kernels.THIRD]
    ]
    shape = (len(pairs.first), N_KINDS, residuals.shape[1] // 2)
    best = np.full(shape, -1.0)
    where = np.zeros(shape, dtype=np.int64)
    moments = np.ascontiguousarray(moments)
    kernels.scan_pairs(
        residuals, moments, pairs, data.space.arrays, data.smallest, skewed, best, where
    )
    return PairScan(pairs, best, where)


def deepen(
    data: Data, found: PairScan, *, draw: int = 0, depth: int = 3
) -> list[Candidate]:
    """From the strongest pairs to the strongest boxes of up to three conditions."""
    candidates: list[Candidate] = []
    n = len(data.space.features)
    places = np.arange(len(found.best))
    for kind in (LEVEL, SLOPE):
        singles = found.strongest(data.space, places[:n], kind, draw)[:SINGLES]
        if depth > 1:
            pairs = found.strongest(data.space, places[n:], kind, draw)
        else:
            pairs = []
        beam = [box for box, _ in pairs]
        if depth > 1 and n > MOST_PAIRED:
            longer = _extensions(data, [box for box, _ in singles], kind)
            pairs = [*pairs, *longer]
            beam = [*beam, *(box for box, _ in longer[:SINGLES])]
        triples = _extensions(data, beam, kind) if depth > 2 else []
        for boxes in (singles, pairs, triples):
            strongest = sorted(boxes, key=lambda one: -one[1])[: BEAM[kind]]
            candidates += [
                Candidate(data.space.fine(box), kind, evidence)
                for box, evidence in strongest
            ]
    return candidates


def _extensions(data: Data, boxes: Sequence[Box], kind: int) -> list[tuple[Box, float]]:
    """The strongest boxes that have one condition more than some boxes of coarse
    conditions.
    """
    n = len(data.space.features)
    begin = data.space.arrays.begin
    best = np.empty((len(boxes), n))
    where = np.zeros((len(boxes), n), dtype=np.int64)
    for box, evidence, at in zip(boxes, best, where):
        used = np.zeros(n, dtype=np.bool_)
        used[[c.feature for c in box]] = True
        rows = data.rows_in(box, coarse=True)
        space = data.space.arrays
        kernels.extend(
            data.coarse[:n],
            rows,
            data.sums,
            used,
            space,
            data.smallest,
            kind,
            evidence,
            at,
        )
    longer = []
    for place in np.argsort(-best.ravel())[: BEAM[kind]]:
        k, feature = divmod(int(place), n)
        if best[k, feature] > 0:
            condition = data.space.conditions[feature][
                where[k, feature] - begin[feature]
            ]
            longer.append(((*boxes[k], condition), float(best[k, feature])))
    return longer


@dataclass(frozen=True, eq=False)
class ChanceMaximum:
    """The largest statistics of a whole search if the score were right.

    Attributes
    ----------
    centre, scale : arrays of shape (kinds, depth)
        Location and scale of each largest statistic (Gumbel).
    overall : tuple of float
        Location and scale of the largest of these, each standardised.
    level, slope : arrays of shape (rows, draws)
        Simulated residuals, and those times the log-odds, of the rows of `data`.
    data : Data
        The rows that were used, with the sums that all simulated data sets share.
    """

    centre: FloatArray
    scale: FloatArray
    overall: tuple[float, float]
    level: Any
    slope: Any
    data: Data

    def p_value(self, candidate: Candidate) -> float:
        """The probability that the whole search finds as much as this if the score is
        right.
        """
        centre, scale = self.overall
        tail = -np.expm1(-np.exp(-(self.standardised(candidate) - centre) / scale))
        return float(min(MARGIN * tail, 1.0))

    def beyond(self, candidate: Candidate) -> float:
        """By how much the statistic exceeds the typical largest one of its kind and
        depth by chance.

        It ranks what is significant. The standardised statistic would not do: its scale
        is known roughly, and far out a tenth more or less decides between boxes of
        different kinds.
        """
        return float(
            candidate.statistic - self.centre[candidate.kind, candidate.depth - 1]
        )

    def standardised(self, candidate: Candidate) -> float:
        """The statistic in comparison with the largest of its kind and depth by
        chance.
        """
        return self.beyond(candidate) / float(
            self.scale[candidate.kind, candidate.depth - 1]
        )

    def limit(self, level: float, candidate: Candidate) -> float:
        """The smallest statistic of this kind and depth that is significant."""
        centre, scale = self.overall
        beyond = centre - scale * np.log(-np.log1p(-min(level / MARGIN, 0.999)))
        at = candidate.kind, candidate.depth - 1
        return float(self.centre[at] + beyond * self.scale[at])


def simulate_searches(
    data: Data,
    people: People,
    how: Search,
    rng: np.random.Generator,
    progress: Callable[[float], None],
) -> ChanceMaximum:
    """Search simulated data sets for which the score is right."""
    rows = _chosen_rows(people, rng)
    n_draws = how.n_draws
    exact = len(rows) == len(people) and people.cluster is None
    part = data.part(rows, people.information)
    level = _residuals(people, rows, n_draws, rng, exact=exact)
    slope = level * people.x[rows].astype(np.float32)[:, None]
    largest = np.zeros((n_draws, N_KINDS, how.depth))
    for draw in range(n_draws):
        progress(draw / n_draws)
        if draw % BATCH == 0:
            some = slice(draw, draw + BATCH)
            scans = _scans(
                part,
                np.concatenate([level[:, some], slope[:, some]], axis=1),
                skewed=exact,
            )
        part.sums[:, kernels.RESIDUAL] = level[:, draw]
        part.sums[:, kernels.SLOPED] = slope[:, draw]
        found, at = (scan(part), 0) if scans is None else (scans, draw % BATCH)
        for c in deepen(part, found, draw=at, depth=how.depth):
            largest[draw, c.kind, c.depth - 1] = max(
                largest[draw, c.kind, c.depth - 1], c.statistic
            )
    centre, scale = _gumbel(largest)
    overall = _gumbel(((largest - centre) / scale).max(axis=(1, 2)))
    return ChanceMaximum(
        centre, scale, (float(overall[0]), float(overall[1])), level, slope, part
    )


def _chosen_rows(people: People, rng: np.random.Generator) -> IntArray:
    """All rows, or a random part of them; all rows of a person are in it or none."""
    n = len(people)
    if n <= MOST_SIMULATED:
        return np.arange(n, dtype=np.int64)
    if people.cluster is None:
        return np.sort(rng.choice(n, MOST_SIMULATED, replace=False))
    chosen = rng.random(int(people.cluster.max()) + 1) < MOST_SIMULATED / n
    return np.flatnonzero(chosen[people.cluster])


def _residuals(
    people: People,
    rows: IntArray,
    n_draws: int,
    rng: np.random.Generator,
    *,
    exact: bool,
) -> Any:
    """Residuals of simulated data sets, in columns."""
    p = people.score[rows]
    w = people.weight[rows]
    shape = (len(rows), n_draws)
    if people.cluster is not None:
        _, person = np.unique(people.cluster[rows], return_inverse=True)
        drawn = rng.standard_normal((int(person.max()) + 1, n_draws), dtype=np.float32)
        own = (w * (people.outcome[rows] - p)).astype(np.float32)
        return drawn[person] * own[:, None]
    unit = w if people.survey else np.sqrt(w)
    if exact:
        events = rng.random(shape, dtype=np.float32) < p[:, None]
        return ((events - p[:, None]) * unit[:, None]).astype(np.float32)
    spread = (np.sqrt(p * (1 - p)) * unit).astype(np.float32)
    return rng.standard_normal(shape, dtype=np.float32) * spread[:, None]


def _scans(data: Data, drawn: Any, *, skewed: bool) -> PairScan | None:
    """The pairs of several data sets; None if there are too many features for all
    pairs.
    """
    if data.all_pairs is None:
        return None
    pairs, table = data.all_pairs
    residuals = np.zeros((pairs.n_cells, drawn.shape[1]), dtype=np.float32)
    kernels.add_rows(data.coarse, drawn, pairs, residuals, kernels.DRAWN)
    return scan_table(data, pairs, table, residuals, skewed=skewed)


def _gumbel(largest: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Location and scale of maxima, by moments, along the first axis."""
    scale = np.maximum(largest.std(axis=0, ddof=1) * np.sqrt(6) / np.pi, 0.02)
    return np.asarray(largest.mean(axis=0) - EULER * scale), np.asarray(scale)

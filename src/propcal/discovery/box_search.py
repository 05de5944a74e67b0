"""Search for the strongest boxes of one to three conditions, and what chance shows.

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
from itertools import chain, combinations
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

BOXES_EXTENDED = {LEVEL: 24, SLOPE: 12}  # by a further condition
SINGLES_EXTENDED = 8  # single conditions, where not all pairs are counted
MOST_PAIRED = 40  # of more features than this, pairs are counted only of the strongest
STRONGEST_PAIRED = 24  # features
MOST_SIMULATED = 12_288  # rows; of more, a sample is simulated
DRAWS_AT_ONCE = 32
MARGIN = 1.6  # on p-values: a few dozen simulated searches know the tail only roughly
LEAST_SCALE = 0.02  # of maxima by chance
HIGHEST_LEVEL = 0.999
EULER = 0.5772156649015329
WHOLE_SHARE = 0.1  # share of the level that tests the score as a whole


@dataclass(frozen=True)
class SearchRule(options.Searching):
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
        self.conditions = []
        for k, (feature, codes) in enumerate(zip(table.features, table.codes)):
            has_missing = bool(np.any(codes == feature.recorded))
            conditions = feature.coarse_conditions(k, has_missing=has_missing)
            self.conditions.append(conditions)
        self.conditions.append([Condition(len(self.features), 0, 1)])

        recorded = [int(feature.coarse_codes()[-1]) for feature in self.features]
        rows = np.array([*chain.from_iterable(self.conditions)])
        _, low, high, negated = rows.T.copy()
        begin = np.cumsum([0, *map(len, self.conditions)])
        n_codes = np.array([*recorded, 0]) + 1
        recorded_codes = np.array([*recorded, 1])
        is_negated = negated.astype(np.bool_)
        self.arrays = Conditions(n_codes, recorded_codes, begin, low, high, is_negated)

    def coarse(self, codes: Codes) -> Codes:
        """Coarse codes of rows, with a last row of zeros for everybody."""
        coarse = np.zeros((len(codes) + 1, codes.shape[1]), dtype=np.uint8)
        for k, feature in enumerate(self.features):
            np.take(feature.coarse_codes(), codes[k], out=coarse[k])
        return coarse

    def fine(self, box: Iterable[Condition]) -> Box:
        """A box of coarse conditions on the finest codes."""
        in_order = sorted(box, key=lambda condition: condition.feature)
        return tuple(self.features[c.feature].fine(c) for c in in_order)

    def pairs(self, paired: Iterable[int]) -> Pairs:
        """Every feature with everybody, and all pairs of some."""
        everybody = len(self.features)
        singles = [(k, everybody) for k in range(everybody)]
        both = np.array([*singles, *combinations(sorted(paired), 2)])
        first = both[:, 0].copy()
        second = both[:, 1].copy()

        n_codes = self.arrays.n_codes
        width = n_codes[second]
        size = n_codes[first] * width
        begin = np.cumsum(size) - size
        return Pairs(first, second, width, begin, int(size.sum()))


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
        evidence = float(kernels.box_evidence(totals, self.smallest, kind))
        return Candidate(box, kind, evidence)

    def running_sums(self, box: Box, place: int, kind: int) -> FloatArray:
        """Sums by codes of one condition's feature, added up, of the people in the
        box's other conditions.
        """
        feature = box[place].feature
        rows = self.rows_in([*box[:place], *box[place + 1 :]])
        n_codes = self.space.features[feature].recorded + 1
        codes = self.codes[feature]
        return np.asarray(kernels.sums_by_code(codes, rows, self.sums, n_codes, kind))

    def part(self, rows: IntArray, information: float) -> Data:
        """Some of the rows, with the smallest size in proportion to the information of
        all of them.
        """
        sums = self.sums[rows]
        codes = np.ascontiguousarray(self.codes[:, rows])
        variance = float(sums[:, kernels.VARIANCE].sum())
        smallest = self.smallest * variance / information
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
        if n > MOST_PAIRED:
            return None
        return self.counted(range(n))

    def update(self, rows: IntArray, sums: FloatArray) -> None:
        """Replace the sums of some rows, in the tables as well."""
        if self.all_pairs is not None:
            pairs, table = self.all_pairs
            coarse = np.ascontiguousarray(self.coarse[:, rows])
            change = sums - self.sums[rows]
            kernels.add_rows(coarse, change, pairs, table, kernels.BLOCK)
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
        boxes = []
        best = self.best[:, kind, draw]
        everybody = len(space.features)
        for pair in among[np.argsort(-best[among])][: BOXES_EXTENDED[kind]]:
            if best[pair] <= 0:
                continue
            first = space.conditions[int(self.pairs.first[pair])]
            second = space.conditions[int(self.pairs.second[pair])]
            number = int(self.where[pair, kind, draw])
            i, j = divmod(number, len(second))
            box = tuple(c for c in (first[i], second[j]) if c.feature != everybody)
            boxes.append((box, float(best[pair])))
        return boxes


def scan(data: Data) -> PairScan:
    """The strongest box of each pair of features, or of the strongest features if there
    are many.
    """
    if data.all_pairs is not None:
        return scan_table(data, *data.all_pairs)
    singles = scan_table(data, *data.counted(()))
    best = singles.best[:, :, 0].max(axis=1)
    strongest = np.argsort(-best)[:STRONGEST_PAIRED].tolist()
    return scan_table(data, *data.counted(strongest))


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
    columns = [kernels.VARIANCE, kernels.MIXED, kernels.SQUARED, kernels.THIRD]
    moments = np.ascontiguousarray(table[:, columns])
    n_draws = residuals.shape[1] // 2
    shape = (len(pairs.first), N_KINDS, n_draws)
    best = np.full(shape, -1.0)
    where = np.zeros(shape, dtype=np.int64)
    kernels.scan_pairs(
        residuals, moments, pairs, data.space.arrays, data.smallest, skewed, best, where
    )
    return PairScan(pairs, best, where)


def deepen(
    data: Data, scanned: PairScan, *, draw: int = 0, depth: int = 3
) -> list[Candidate]:
    """From the strongest pairs to the strongest boxes of up to three conditions."""
    candidates: list[Candidate] = []
    n = len(data.space.features)
    places = np.arange(len(scanned.best))
    for kind in (LEVEL, SLOPE):
        singles = scanned.strongest(data.space, places[:n], kind, draw)
        by_depth = [singles[:SINGLES_EXTENDED]]
        if depth > 1:
            pairs = scanned.strongest(data.space, places[n:], kind, draw)
            extended = [*pairs]
            if n > MOST_PAIRED:
                longer = _extensions(data, by_depth[0], kind)
                pairs += longer
                extended += longer[:SINGLES_EXTENDED]
            by_depth.append(pairs)
        if depth > 2:
            by_depth.append(_extensions(data, extended, kind))
        for boxes in by_depth:
            strongest = sorted(boxes, key=lambda pair: -pair[1])
            for box, evidence in strongest[: BOXES_EXTENDED[kind]]:
                candidates.append(Candidate(data.space.fine(box), kind, evidence))
    return candidates


def _extensions(
    data: Data, scored: Sequence[tuple[Box, float]], kind: int
) -> list[tuple[Box, float]]:
    """The strongest boxes that have one condition more than some boxes of coarse
    conditions, which have their evidence with them.
    """
    boxes = [box for box, _ in scored]
    n = len(data.space.features)
    conditions = data.space.arrays
    best = np.empty((len(boxes), n))
    where = np.zeros((len(boxes), n), dtype=np.int64)
    for box, evidence, number in zip(boxes, best, where):
        used = np.zeros(n, dtype=np.bool_)
        used[[c.feature for c in box]] = True
        rows = data.rows_in(box, coarse=True)
        codes = data.coarse[:n]
        size = data.smallest
        kernels.extend(
            codes, rows, data.sums, used, conditions, size, kind, evidence, number
        )
    longer = []
    for place in np.argsort(-best.ravel())[: BOXES_EXTENDED[kind]]:
        k, feature = divmod(int(place), n)
        if best[k, feature] > 0:
            number = where[k, feature] - conditions.begin[feature]
            condition = data.space.conditions[feature][number]
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
        z = (self.standardised(candidate) - centre) / scale
        tail = -np.expm1(-np.exp(-z))
        return float(min(MARGIN * tail, 1.0))

    def beyond(self, candidate: Candidate) -> float:
        """By how much the statistic exceeds the typical largest one of its kind and
        depth by chance.

        It ranks what is significant. The standardised statistic would not do: its scale
        is known roughly, and far out a tenth more or less decides between boxes of
        different kinds.
        """
        centre = self.centre[candidate.kind, candidate.depth - 1]
        return float(candidate.statistic - centre)

    def standardised(self, candidate: Candidate) -> float:
        """The statistic in comparison with the largest of its kind and depth by
        chance.
        """
        scale = self.scale[candidate.kind, candidate.depth - 1]
        return self.beyond(candidate) / float(scale)

    def limit(self, level: float, candidate: Candidate) -> float:
        """The smallest statistic of this kind and depth that is significant."""
        centre, scale = self.overall
        tail = min(level / MARGIN, HIGHEST_LEVEL)
        standardised = centre - scale * np.log(-np.log1p(-tail))
        cell = candidate.kind, candidate.depth - 1
        return float(self.centre[cell] + standardised * self.scale[cell])


def simulate_searches(
    data: Data,
    people: People,
    rule: SearchRule,
    rng: np.random.Generator,
    progress: Callable[[float], None],
) -> ChanceMaximum:
    """Search simulated data sets for which the score is right."""
    rows = _chosen_rows(people, rng)
    exact = len(rows) == len(people) and people.cluster is None
    part = data.part(rows, people.information)
    n_draws = rule.n_draws
    level = _residuals(people, rows, n_draws, rng, exact=exact)
    slope = level * people.x[rows].astype(np.float32)[:, None]

    largest = np.zeros((n_draws, N_KINDS, rule.depth))
    for draw in range(n_draws):
        progress(draw / n_draws)
        place = draw % DRAWS_AT_ONCE
        if place == 0:
            batch = slice(draw, draw + DRAWS_AT_ONCE)
            drawn = np.concatenate([level[:, batch], slope[:, batch]], axis=1)
            scans = _scans(part, drawn, skewed=exact)
        part.sums[:, kernels.RESIDUAL] = level[:, draw]
        part.sums[:, kernels.SLOPED] = slope[:, draw]
        if scans is None:
            candidates = deepen(part, scan(part), depth=rule.depth)
        else:
            candidates = deepen(part, scans, draw=place, depth=rule.depth)
        for c in candidates:
            cell = draw, c.kind, c.depth - 1
            largest[cell] = max(largest[cell], c.statistic)

    centre, scale = _gumbel(largest)
    largest_of_all = ((largest - centre) / scale).max(axis=(1, 2))
    overall_centre, overall_scale = _gumbel(largest_of_all)
    overall = float(overall_centre), float(overall_scale)
    return ChanceMaximum(centre, scale, overall, level, slope, part)


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
        n_persons = int(person.max()) + 1
        drawn = rng.standard_normal((n_persons, n_draws), dtype=np.float32)
        residual = (w * (people.outcome[rows] - p)).astype(np.float32)
        return drawn[person] * residual[:, None]
    unit = w if people.survey else np.sqrt(w)
    if exact:
        chance = p[:, None]
        events = rng.random(shape, dtype=np.float32) < chance
        return ((events - chance) * unit[:, None]).astype(np.float32)
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
    spread = largest.std(axis=0, ddof=1)
    scale = np.maximum(spread * np.sqrt(6) / np.pi, LEAST_SCALE)
    centre = largest.mean(axis=0) - EULER * scale
    return np.asarray(centre), np.asarray(scale)

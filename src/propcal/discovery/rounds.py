"""Rounds of a search: find the strongest box, compare it with chance, correct for it, and go on.

Errors of the score as a whole come first: where one smooth curve for everybody improves the score, groups are
searched for errors beyond it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from propcal.core.compiled import say_if_compiling
from propcal.core.grid import FloatArray, IntArray
from propcal.discovery import box_kernels as kernels
from propcal.discovery.binned_features import Condition, FeatureTable
from propcal.discovery.box_kernels import LEVEL, SLOPE
from propcal.discovery.box_search import (
    MOST_PAIRED,
    Box,
    Candidate,
    Data,
    Pairs,
    Space,
    deepen,
    pair_table,
    scan_table,
)
from propcal.discovery.chance_maximum import ChanceMaximum, narrow_scan, simulate_searches
from propcal.discovery.descriptions import describe
from propcal.discovery.people import OWN_STREAM, People, correct_for, recalibrate_overall

SAME_PEOPLE = 0.5  # share of the people of two groups together who are in both
SMALLEST = 8.0  # least variance of the number of events in a group: about ten expected events
WHOLE_SHARE = 0.1  # share of the level that tests the score as a whole
MOST_ROUNDS = 3  # times the number of findings
MOST_ROWS = 131_072  # of more rows than this, third conditions are looked for in a sample
MEASURED = 8  # boxes of each depth that are then measured on all rows
UNCHANGED = 1e-7  # smaller changes of a score do not count
NOTHING = ""
WHOLE = "recalibration of the whole score"
ERRORS_ABOVE = "correction for the errors above"  # earlier groups, and the whole if it is off


@dataclass(frozen=True, eq=False)
class Found:
    """One finding: the rows of a box, which statistic, and how sure.

    Attributes
    ----------
    box : tuple of Condition
    kind : LEVEL or SLOPE
    statistic : float
        Standardised; positive if there are more events than predicted, or the slope is too flat.
    limit : float
        The smallest statistic that would have been significant.
    p_value : float
        Adjusted for the whole search.
    rows : array
    predicted : float
        Expected events by the score after correction for earlier findings.
    corrected_for : NOTHING, WHOLE or ERRORS_ABOVE
        What the score of these people was corrected for when they were found; the statistic is of that score.
    slopes : tuple of two pairs, or None
        Of a finding of kind SLOPE: calibration slope and standard error of that score, and of the raw score.
    again : float
        Share of resampled data sets in which mostly the same people were found.
    added : float
        What the choice of the strongest box adds to its statistic, on average.
    """

    box: Box
    kind: int
    statistic: float
    limit: float
    p_value: float
    rows: IntArray
    predicted: float
    corrected_for: str
    slopes: tuple[tuple[float, float], tuple[float, float]] | None
    again: float
    added: float
    also: tuple[Box, ...] = ()


@dataclass(frozen=True)
class Search:
    """How to search."""

    level: float = 0.05
    most: int = 10
    depth: int = 3
    min_share: float = 0.02
    n_draws: int = 64
    seed: int = 0


@dataclass(eq=False)
class Outcome:
    """What a search found: the score as a whole, then groups, and what chance would have shown."""

    whole_p: float = 1.0
    whole_found: bool = False
    groups: list[Found] = field(default_factory=list)
    chance: ChanceMaximum | None = None
    smallest: float = 0.0


Chooser = Callable[[Data, Sequence[Candidate], ChanceMaximum, FloatArray], Candidate | None]


def search_rounds(
    table: FeatureTable,
    people: People,
    how: Search,
    progress: Callable[[float], None],
    choose: Chooser | None = None,
) -> Outcome:
    """Search until nothing is left that chance would not show.

    `choose` picks among significant candidates; by default the strongest is taken. It is told the residuals
    that the groups found so far leave, without the curve for everybody.
    """
    say_if_compiling(kernels.scan_pairs)
    result = Outcome()
    result.whole_p, better = recalibrate_overall(people)
    if result.whole_p < how.level * WHOLE_SHARE:
        result.whole_found, people.score = True, better
    missing = tuple(bool(np.any(own == f.recorded)) for own, f in zip(table.codes, table.features))
    space = Space(table.features, missing)
    result.smallest = smallest = max(how.min_share * people.information, SMALLEST)
    if smallest > people.information / 2:
        return result
    rng = np.random.default_rng([OWN_STREAM, how.seed])
    chance = result.chance = simulate_searches(
        space,
        table.codes,
        people,
        smallest,
        depth=how.depth,
        n_draws=how.n_draws,
        rng=rng,
        progress=lambda done: progress(0.8 * done),
    )
    counted = _Counted(Data(space, table.codes, space.coarse(table.codes), people.sums(), smallest), rng)
    own_level = how.level * (1 - WHOLE_SHARE)
    corrected: list[Found] = []
    apart = people.raw  # the score corrected for groups alone
    for _ in range(MOST_ROUNDS * how.most):
        if len(result.groups) >= how.most:
            break
        progress(0.8 + 0.2 * len(result.groups) / how.most)
        candidates = counted.candidates(how.depth)
        significant = [c for c in candidates if chance.p_value(c) <= own_level]
        best = max(significant, key=chance.beyond, default=None)
        if choose is not None:
            best = choose(counted.data, significant, chance, people.weight * (people.outcome - apart))
        if best is None:
            break
        alike = [c for c in candidates if choose is None or c is best]
        before = ERRORS_ABOVE if corrected else WHOLE
        found = _finding(counted, people, best, alike, chance, how, before)
        if any(found.box == earlier.box and found.kind == earlier.kind for earlier in corrected):
            break  # what is left of it is within rounding
        corrected.append(found)
        _record(result.groups, found)
        groups = [f.rows for f in corrected]
        p_value, score = correct_for(people, groups, whole=result.whole_found)
        result.whole_p = p_value if result.whole_found else result.whole_p
        if result.whole_found and p_value >= how.level * WHOLE_SHARE:  # the groups explain it
            result.whole_found = False
            _, score = correct_for(people, groups, whole=False)
        apart = score
        if choose is not None and result.whole_found:
            _, apart = correct_for(people, groups, whole=False)
        changed = np.flatnonzero(np.abs(score - people.score) > UNCHANGED)
        people.score[changed] = score[changed]
        counted.update(changed, people.sums(changed))
    progress(1.0)
    return result


class _Counted:
    """The table of pairs, kept up to date as scores are corrected, and the rows that are searched further.

    Third conditions are looked for in a part of the rows, if there are very many.
    """

    def __init__(self, data: Data, rng: np.random.Generator) -> None:
        self.data, n = data, data.codes.shape[1]
        self.rows = np.sort(rng.choice(n, MOST_ROWS, replace=False)) if n > MOST_ROWS else None
        self.part = data if self.rows is None else data.part(self.rows)
        self.pairs: Pairs | None = None
        if len(data.space.features) <= MOST_PAIRED:
            self.pairs = data.space.pairs()
            self.table = pair_table(data, self.pairs)

    def candidates(self, depth: int) -> list[Candidate]:
        """The strongest boxes of this round."""
        if self.pairs is None:
            found = narrow_scan(self.data)
        else:
            found = scan_table(self.data, self.pairs, self.table)
        made = deepen(self.part, found, depth=depth)
        if self.rows is None:
            return made
        kept: list[Candidate] = []
        for kind in (LEVEL, SLOPE):
            for size in range(1, depth + 1):
                own = [c for c in made if c.kind == kind and c.depth == size][:MEASURED]
                kept += [replace(c, evidence=self.data.evidence(c.box, kind)) for c in own]
        return kept

    def update(self, rows: IntArray, sums: FloatArray) -> None:
        """Replace the sums of some rows."""
        change = sums - self.data.sums[rows]
        self.data.sums[rows] = sums
        if self.rows is not None:
            self.part.sums[:] = self.data.sums[self.rows]
        if self.pairs is not None:
            own = np.ascontiguousarray(self.data.coarse[:, rows])
            kernels.add_pairs(own, change, *self.pairs.arrays, self.table)


def _finding(
    counted: _Counted,
    people: People,
    best: Candidate,
    candidates: Sequence[Candidate],
    chance: ChanceMaximum,
    how: Search,
    before: str,
) -> Found:
    data = counted.data
    simple = describe(data, candidates, best)
    rows = data.rows_in(simple.box)
    statistic = float(kernels.box_statistic(data.totals(rows), data.smallest, best.kind))
    size = 2 * np.log(data.totals(data.rows_in(best.box))[kernels.VARIANCE] / data.smallest)
    limit = chance.limit(how.level * (1 - WHOLE_SHARE), best.kind, best.depth)
    score, raw = people.score[rows], people.raw[rows]
    predicted = float(np.sum(people.weight[rows] * score))
    again, added = _resampled(data, candidates, simple, chance, limit)
    return Found(
        simple.box,
        best.kind,
        statistic,
        float(np.sqrt(max(limit**2 - size, 1.0))),
        chance.p_value(best),
        rows,
        predicted,
        before if np.any(np.abs(score - raw) > UNCHANGED) else NOTHING,
        None if best.kind == LEVEL else (people.slope(rows, score), people.slope(rows, raw)),
        again,
        added,
    )


def _resampled(
    data: Data, candidates: Sequence[Candidate], simple: Candidate, chance: ChanceMaximum, limit: float
) -> tuple[float, float]:
    """How often mostly the same people are the strongest in resamples, and by how much a search overstates.

    A resample is the data with chance added once more: simulated residuals on top of the observed ones. In it
    the observed statistics are the truth, so that the strongest statistic less the observed one of the same
    box is what the choice of the strongest adds.
    """
    part = chance.data
    inside = np.zeros(len(part.sums), dtype=np.bool_)
    inside[part.rows_in(simple.box)] = True
    n_draws = chance.level.shape[1]
    best, added = np.full(n_draws, -np.inf), np.zeros(n_draws)
    same = np.zeros(n_draws, dtype=np.bool_)
    boxes = [c.box for c in candidates if c.kind == simple.kind]
    for box in dict.fromkeys([simple.box, *boxes, *_neighbours(data, simple.box)]):
        total = data.totals(data.rows_in(box))
        rows = part.rows_in(box)
        own = part.totals(rows)
        if total[kernels.VARIANCE] < data.smallest or own[kernels.VARIANCE] <= 0:
            continue
        observed = kernels.box_statistic(total, data.smallest, simple.kind)
        noise = chance.level[rows].sum(axis=0, dtype=np.float64)
        scale = 1 / np.sqrt(own[kernels.VARIANCE])
        if simple.kind != LEVEL:
            v = own[kernels.VARIANCE], own[kernels.MIXED], own[kernels.SQUARED]
            share, scale = kernels.slope_parts(*v, 0.0)
            noise = chance.slope[rows].sum(axis=0, dtype=np.float64) - share * noise
        size = 2 * np.log(total[kernels.VARIANCE] / data.smallest)
        drawn = observed + noise * scale
        both = np.count_nonzero(inside[rows])
        alike = both >= SAME_PEOPLE * (len(rows) + np.count_nonzero(inside) - both)
        stronger = drawn**2 + size > best
        best[stronger], same[stronger] = (drawn**2 + size)[stronger], alike
        added[stronger] = (np.abs(drawn) - abs(observed))[stronger]
    return float(np.mean(same & (best > limit**2))), max(float(added.mean()), 0.0)


def _neighbours(data: Data, box: Box) -> Iterator[Box]:
    """The box with one cut point moved by a few percent of the codes."""
    for place, c in enumerate(box):
        feature = data.space.features[c.feature]
        if not feature.is_number or c.low == feature.recorded:
            continue
        for step in (-8, -4, -2, -1, 1, 2, 4, 8):
            by = round(step * max(feature.recorded / 100, 1))
            for low, high in ((c.low + by, c.high), (c.low, c.high + by)):
                moved = (low != c.low and c.low > 0) or (high != c.high and c.high < feature.recorded)
                if moved and 0 <= low < high <= feature.recorded:
                    yield (*box[:place], Condition(c.feature, low, high), *box[place + 1 :])


def _record(groups: list[Found], found: Found) -> None:
    """Add a finding, or note it as another description of people who were found already."""
    for place, earlier in enumerate(groups):
        both = len(np.intersect1d(earlier.rows, found.rows, assume_unique=True))
        alike = both >= SAME_PEOPLE * (len(earlier.rows) + len(found.rows) - both)
        if alike:
            groups[place] = replace(earlier, also=(*earlier.also, found.box))
            return
    groups.append(found)

"""Rounds of a search: find the strongest box, compare it with chance, correct for it, and go on.

Errors of the score as a whole come first: where one smooth curve for everybody improves the score, groups are
searched for errors beyond it.

A box is found on a coarse grid. Its description is the simplest that is nearly as strong: its cut points move
to where the evidence is strongest; then conditions and ends of ranges that add little are dropped, and cut
points become round.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import product

import numpy as np

from propcal.core.compiled import say_if_compiling
from propcal.core.grid import FloatArray, IntArray
from propcal.discovery import box_kernels as kernels
from propcal.discovery.binned_features import Box, Condition, Feature, FeatureTable, digits
from propcal.discovery.box_kernels import LEVEL, SLOPE
from propcal.discovery.box_search import (
    Candidate,
    ChanceMaximum,
    Data,
    Search,
    Space,
    deepen,
    scan,
    simulate_searches,
)
from propcal.discovery.people import OWN_STREAM, People, correct_for

SAME_PEOPLE = 0.5  # share of the people of two groups together who are in both
SMALLEST = 8.0  # least variance of the number of events in a group: about ten expected events
MOST_ROUNDS = 3  # times the number of findings
MOST_ROWS = 131_072  # of more rows than this, third conditions are looked for in a sample
MEASURED = 8  # boxes of each depth that are then measured on all rows
UNCHANGED = 1e-7  # smaller changes of a score do not count
WHOLE = "recalibration of the whole score"
ERRORS_ABOVE = "correction for the errors above"  # earlier groups, and the whole if it is off
SWEEPS = 2  # over the conditions of a box, to move their cut points
CONDITION = 12.0  # evidence that a further condition must add; chance adds nearly as much
END = 4.0  # and that the second end of a range must add
MUCH = 1000.0  # with this much evidence, both are doubled
ROUNDING = 4.0  # evidence that a round cut point may cost
ENOUGH = 0.7  # share of the tested evidence that a description must have
STARTS = 3  # sets of features of each depth from which a description may start


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
    corrected_for : "", WHOLE or ERRORS_ABOVE
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


@dataclass(eq=False)
class Outcome:
    """What a search found: the score as a whole, then groups, and what chance would have shown."""

    whole_p: float = 1.0
    whole_found: bool = False
    groups: list[Found] = field(default_factory=list)
    chance: ChanceMaximum | None = None


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
    result.whole_p, better = correct_for(people, [], whole=True)
    if result.whole_p < how.whole_level:
        result.whole_found, people.score = True, better
    smallest = max(how.min_share * people.information, SMALLEST)
    if smallest > people.information / 2:
        return result
    rng = np.random.default_rng([OWN_STREAM, how.random_state])
    data = Data(Space(table), table.codes, people.sums(), smallest)
    chance = simulate_searches(data, people, how, rng, lambda done: progress(0.8 * done))
    result.chance = chance
    searched = _Sampled(data, people, rng)
    corrected: list[Found] = []
    apart = people.raw  # the score corrected for groups alone
    for _ in range(MOST_ROUNDS * how.max_groups):
        if len(result.groups) >= how.max_groups:
            break
        progress(0.8 + 0.2 * len(result.groups) / how.max_groups)
        candidates = searched.candidates(how.depth)
        significant = [c for c in candidates if chance.p_value(c) <= how.group_level]
        best = max(significant, key=chance.beyond, default=None)
        if choose is not None:
            best = choose(data, significant, chance, people.weight * (people.outcome - apart))
        if best is None:
            break
        similar = [c for c in candidates if choose is None or c is best]
        before = ERRORS_ABOVE if corrected else WHOLE
        limit = chance.limit(how.group_level, best)
        found = _finding(data, people, best, similar, chance, limit, before)
        if any(found.box == earlier.box and found.kind == earlier.kind for earlier in corrected):
            break  # what is left of it is within rounding
        corrected.append(found)
        _record(result.groups, found)
        groups = [f.rows for f in corrected]
        _, apart = correct_for(people, groups, whole=False)
        score = apart
        if result.whole_found:
            result.whole_p, score = correct_for(people, groups, whole=True)
            if result.whole_p >= how.whole_level:  # the groups explain it
                result.whole_found, score = False, apart
        changed = np.flatnonzero(np.abs(score - people.score) > UNCHANGED)
        people.score[changed] = score[changed]
        data.update(changed, people.sums(changed))
    progress(1.0)
    return result


class _Sampled:
    """Data to be searched; of very many rows, third conditions are looked for in a sample."""

    def __init__(self, data: Data, people: People, rng: np.random.Generator) -> None:
        self.data, n = data, len(people)
        self.rows = np.sort(rng.choice(n, MOST_ROWS, replace=False)) if n > MOST_ROWS else None
        self.sample = data if self.rows is None else data.part(self.rows, people.information)

    def candidates(self, depth: int) -> list[Candidate]:
        """The strongest boxes of this round."""
        if self.rows is None:
            return deepen(self.data, scan(self.data), depth=depth)
        self.sample.sums[:] = self.data.sums[self.rows]
        sampled = deepen(self.sample, scan(self.data), depth=depth)
        kept: list[Candidate] = []
        for kind in (LEVEL, SLOPE):
            for size in range(1, depth + 1):
                boxes = [c.box for c in sampled if c.kind == kind and c.depth == size]
                kept += [self.data.candidate(box, kind) for box in boxes[:MEASURED]]
        return kept


def _finding(
    data: Data,
    people: People,
    best: Candidate,
    candidates: Sequence[Candidate],
    chance: ChanceMaximum,
    limit: float,
    before: str,
) -> Found:
    simple = describe(data, candidates, best)
    rows = data.rows_in(simple.box)
    size = 2 * np.log(data.totals(data.rows_in(best.box))[kernels.VARIANCE] / data.smallest)
    score, raw = people.score[rows], people.raw[rows]
    again, added = _resampled(data, candidates, simple, chance, limit)
    return Found(
        box=simple.box,
        kind=best.kind,
        statistic=data.statistic(rows, best.kind),
        limit=float(np.sqrt(max(limit**2 - size, 1.0))),
        p_value=chance.p_value(best),
        rows=rows,
        predicted=float(np.sum(people.weight[rows] * score)),
        corrected_for=before if np.any(np.abs(score - raw) > UNCHANGED) else "",
        slopes=None if best.kind == LEVEL else (people.slope(rows, score), people.slope(rows, raw)),
        again=again,
        added=added,
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
    described = part.rows_in(simple.box)
    n_draws = chance.level.shape[1]
    best, added = np.full(n_draws, -np.inf), np.zeros(n_draws)
    same = np.zeros(n_draws, dtype=np.bool_)
    boxes = [c.box for c in candidates if c.kind == simple.kind]
    for box in dict.fromkeys([simple.box, *boxes, *_neighbours(data, simple.box)]):
        total, rows = data.totals(data.rows_in(box)), part.rows_in(box)
        _, variance, _, mixed, squared, _ = part.totals(rows)
        if total[kernels.VARIANCE] < data.smallest or variance <= 0:
            continue
        observed = kernels.box_statistic(total, data.smallest, simple.kind)
        noise, scale = chance.level[rows].sum(axis=0, dtype=np.float64), 1 / np.sqrt(variance)
        if simple.kind != LEVEL:
            share, scale = kernels.slope_parts(variance, mixed, squared, 0.0)
            noise = chance.slope[rows].sum(axis=0, dtype=np.float64) - share * noise
        drawn = observed + noise * scale
        evidence = drawn**2 + 2 * np.log(total[kernels.VARIANCE] / data.smallest)
        stronger = evidence > best
        best[stronger], same[stronger] = evidence[stronger], mostly_same(rows, described)
        added[stronger] = (np.abs(drawn) - abs(observed))[stronger]
    return float(np.mean(same & (best > limit**2))), max(float(added.mean()), 0.0)


def _neighbours(data: Data, box: Box) -> Iterator[Box]:
    """The box with one cut point moved by a few percent of the codes."""
    for place, c in enumerate(box):
        feature = data.space.features[c.feature]
        if not feature.is_range(c):
            continue
        for step in (-8, -4, -2, -1, 1, 2, 4, 8):
            by = round(step * max(feature.recorded / 100, 1))
            for low, high in ((c.low + by, c.high), (c.low, c.high + by)):
                moved = (low != c.low and c.low > 0) or (high != c.high and c.high < feature.recorded)
                if moved and 0 <= low < high <= feature.recorded:
                    yield (*box[:place], Condition(c.feature, low, high), *box[place + 1 :])


def mostly_same(rows: IntArray, others: IntArray) -> bool:
    """Whether two groups, given by their rows, are mostly of the same people."""
    both = len(np.intersect1d(rows, others, assume_unique=True))
    return both >= SAME_PEOPLE * (len(rows) + len(others) - both)


def _record(groups: list[Found], found: Found) -> None:
    """Add a finding, or note it as another description of people who were found already."""
    for place, earlier in enumerate(groups):
        if mostly_same(earlier.rows, found.rows):
            groups[place] = replace(earlier, also=(*earlier.also, found.box))
            return
    groups.append(found)


def describe(data: Data, candidates: Sequence[Candidate], tested: Candidate) -> Candidate:
    """The simplest description that has most of the evidence of the tested candidate."""
    starts: dict[tuple[int, ...], Candidate] = {}
    for c in sorted(candidates, key=lambda c: -c.evidence):
        features = tuple(condition.feature for condition in c.box)
        if c.kind == tested.kind and sum(len(f) == len(features) for f in starts) < STARTS:
            starts.setdefault(features, c)
    refined = [_refined(data, start, everywhere=True) for start in starts.values()]
    strongest = max(c.evidence for c in refined)
    best = max(refined, key=lambda c: _worth(data, c, strongest))
    simple = _with_round_cuts(data, _simpler(data, best))
    if simple.evidence >= ENOUGH * tested.evidence:
        return simple
    return _with_round_cuts(data, _refined(data, tested))


def _worth(data: Data, candidate: Candidate, strongest: float) -> float:
    """The evidence less what the length of a description must be worth: more where there is much of it."""
    both = sum(data.space.features[c.feature].n_ends(c) == 2 for c in candidate.box)
    return candidate.evidence - (CONDITION * candidate.depth + END * both) * (1 + strongest / MUCH)


def _simpler(data: Data, start: Candidate) -> Candidate:
    """Drop conditions and ends of ranges as long as the description is worth more without them."""
    best, worth = start, _worth(data, start, start.evidence)
    while True:
        shorter = [data.candidate(box, start.kind) for box in _shorter(data, best.box)]
        tried = [_refined(data, candidate, new_ends=False) for candidate in shorter]
        better = max(tried, key=lambda c: _worth(data, c, start.evidence), default=best)
        if _worth(data, better, start.evidence) <= worth:
            return best
        best, worth = better, _worth(data, better, start.evidence)


def _shorter(data: Data, box: Box) -> Iterator[Box]:
    """The box without one condition, or without one end of a range."""
    for place, c in enumerate(box):
        before, after = box[:place], box[place + 1 :]
        if len(box) > 1:
            yield (*before, *after)
        feature = data.space.features[c.feature]
        if feature.n_ends(c) == 2:
            yield (*before, c._replace(low=0), *after)
            yield (*before, c._replace(high=feature.recorded), *after)


def _refined(
    data: Data, candidate: Candidate, *, everywhere: bool = False, new_ends: bool = True
) -> Candidate:
    """Move the cut points of a box, one condition at a time, to where the evidence is strongest.

    Each end of a range moves within the neighbouring coarse ranges, or `everywhere`; without `new_ends`, a
    range that is open on one side stays so.
    """
    best = data.candidate(candidate.box, candidate.kind)
    for _ in range(SWEEPS):
        before = best.evidence
        for place, c in enumerate(best.box):
            feature = data.space.features[c.feature]
            if not feature.is_range(c):
                continue
            run = data.running_sums(best.box, place, best.kind)
            ends = [
                np.array([end])
                if not new_ends and end in (0, feature.recorded)
                else _around(feature, end, everywhere=everywhere)
                for end in (c.low, c.high)
            ]
            evidence, low, high = kernels.best_range(run, *ends, data.smallest, best.kind)
            if evidence > best.evidence and not (low == 0 and high == feature.recorded):
                moved = Condition(c.feature, int(low), int(high))
                best = Candidate(
                    (*best.box[:place], moved, *best.box[place + 1 :]), best.kind, float(evidence)
                )
        if best.evidence <= before * (1 + 1e-9):
            break
    return best


def _around(feature: Feature, end: int, *, everywhere: bool) -> IntArray:
    """Codes near the end of a range, up to the next coarse ends on either side."""
    if everywhere:
        return np.arange(feature.recorded + 1)
    ends = np.array([*feature.coarse, feature.recorded])
    at = int(np.searchsorted(ends, end))
    return np.arange(ends[max(at - 1, 0)], ends[min(at + 1, len(ends) - 1)] + 1)


def _with_round_cuts(data: Data, candidate: Candidate) -> Candidate:
    """Move each cut point to the roundest that is nearly as strong."""
    box, lowest = candidate.box, candidate.evidence * (1 - 1 / MUCH) - ROUNDING
    for place, lower in product(range(len(box)), (True, False)):
        c, feature = box[place], data.space.features[box[place].feature]
        at = c.low if lower else c.high
        if not feature.is_range(c) or not 0 < at < feature.recorded:
            continue
        run = data.running_sums(box, place, candidate.kind)
        places = range(1, c.high) if lower else range(c.low + 1, feature.recorded)
        moved = {k: c._replace(low=k) if lower else c._replace(high=k) for k in places}
        nearly = [
            k
            for k, m in moved.items()
            if kernels.box_evidence(run[m.high] - run[m.low], data.smallest, candidate.kind) >= lowest
        ]
        if nearly:
            roundest = min(nearly, key=lambda k: (digits(feature.cuts[k - 1]), abs(k - at)))
            box = (*box[:place], moved[roundest], *box[place + 1 :])
    return data.candidate(box, candidate.kind)

"""Rounds of a search: find the strongest box, compare it with chance, correct for it,
and go on.

Errors of the score as a whole come first: where one smooth curve for everybody improves
the score, groups are searched for errors beyond it.

A box is found on a coarse grid. Its description is the simplest that is nearly as
strong: its cut points move to where the evidence is strongest; then conditions and ends
of ranges that add little are dropped, and cut points become round.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product

import numpy as np

from propcal.auditing.named_errors import errors_to_name
from propcal.core.compiled import say_if_compiling
from propcal.core.grid import FloatArray, IntArray
from propcal.discovery import box_kernels as kernels
from propcal.discovery import box_search
from propcal.discovery.binned_features import (
    Box,
    Condition,
    Feature,
    FeatureTable,
    digits,
)
from propcal.discovery.box_kernels import LEVEL, SLOPE
from propcal.discovery.box_search import Candidate, ChanceMaximum, Data, Search, Space
from propcal.discovery.finding_rows import Found
from propcal.discovery.people import OWN_STREAM, People, correct_for

SAME_PEOPLE = 0.5  # share of the people of two groups together who are in both
SMALLEST = (
    8.0  # least variance of the number of events in a group: about ten expected events
)
MOST_ROUNDS = 3  # times the number of findings
MOST_ROWS = (
    131_072  # of more rows than this, third conditions are looked for in a sample
)
MEASURED = 8  # boxes of each depth that are then measured on all rows
UNCHANGED = 1e-7  # smaller changes of a score do not count
WHOLE = "recalibration of the whole score"
ERRORS_ABOVE = (
    "correction for the errors above"  # earlier groups, and the whole if it is off
)
SWEEPS = 2  # over the conditions of a box, to move their cut points
CONDITION = (
    12.0  # evidence that a further condition must add; chance adds nearly as much
)
END = 4.0  # and that the second end of a range must add
MUCH = 1000.0  # with this much evidence, both are doubled
ROUNDING = 4.0  # evidence that a round cut point may cost
ENOUGH = 0.7  # share of the tested evidence that a description must have
LEFT = 3.0  # standard errors of an error that the other groups named must leave
STARTS = 3  # sets of features of each depth from which a description may start


@dataclass(eq=False)
class Outcome:
    """What a search found: the score as a whole, then groups, and what chance would
    have shown.
    """

    whole_p: float = 1.0
    whole_found: bool = False
    groups: list[Found] = field(default_factory=list)
    chance: ChanceMaximum | None = None


Chooser = Callable[
    [Data, Sequence[Candidate], ChanceMaximum, FloatArray], Candidate | None
]


class Boxes:
    """What the rule for naming groups (`propcal.auditing.named_errors`) asks of boxes.

    Those named are corrected for together, and the score as a `whole` if it is wrong.
    """

    def __init__(self, people: People, *, whole: bool) -> None:
        self.people = people
        self.whole = whole

    def corrected(self, named: Sequence[Found]) -> FloatArray:
        """The score with the boxes named corrected for."""
        if not (named or self.whole):
            return self.people.raw
        return correct_for(self.people, [one.rows for one in named], whole=self.whole)[
            1
        ]

    def whole_of(self, part: Found, others: Sequence[Found]) -> None:
        """None: `describe` drops conditions without which a box is nearly as wrong."""

    def remains(self, one: Found, others: Sequence[Found]) -> bool:
        """Whether an error of several standard errors is left once the others are
        corrected for.
        """
        sums = self.people.sums(one.rows, self.corrected(others)).sum(
            axis=0, dtype=np.float64
        )
        limit = LEFT * np.sqrt(self.people.inflation())
        return bool(abs(kernels.box_statistic(sums, 0.0, one.kind)) >= limit)

    def size(self, one: Found) -> float:
        """Its people."""
        return float(self.people.weight[one.rows].sum())


def search_rounds(
    table: FeatureTable,
    people: People,
    how: Search,
    progress: Callable[[float], None],
    choose: Chooser | None = None,
) -> Outcome:
    """Search until nothing is left that chance would not show.

    `choose` picks among significant candidates; by default the strongest is taken. It
    is told the residuals that the groups found so far leave, without the curve for
    everybody.
    """
    say_if_compiling(kernels.scan_pairs)
    whole_p, better = correct_for(people, [], whole=True)
    if whole := whole_p < how.whole_level:
        people.score = better
    smallest = max(how.min_share * people.information, SMALLEST)
    if smallest > people.information / 2:
        return Outcome(whole_p, whole)
    rng = np.random.default_rng([OWN_STREAM, how.random_state])
    data = Data(Space(table), table.codes, people.sums(), smallest)
    chance = box_search.simulate_searches(
        data, people, how, rng, lambda done: progress(0.8 * done)
    )
    rounds = _Rounds(people, data, Outcome(whole_p, whole, [], chance), how, rng)
    rounds.choose = choose
    rounds.progress = progress
    return rounds.outcome()


class _Rounds(Boxes):
    """Rounds of a search: each finds the strongest box of what is left, and corrects
    for it.
    """

    choose: Chooser | None
    progress: Callable[[float], None]

    def __init__(
        self,
        people: People,
        data: Data,
        result: Outcome,
        how: Search,
        rng: np.random.Generator,
    ) -> None:
        super().__init__(people, whole=result.whole_found)
        assert result.chance is not None
        self.data = data
        self.result = result
        self.chance = result.chance
        self.how = how
        # rounds; corrected for groups alone
        self.left = MOST_ROUNDS * how.max_groups
        self.apart = people.raw
        self.found: list[Found] = []  # other descriptions of the same people included
        # of very many rows, third conditions are looked for in a sample
        n = len(people)
        if n > MOST_ROWS:
            self.rows = np.sort(rng.choice(n, MOST_ROWS, replace=False))
        else:
            self.rows = None
        if self.rows is None:
            self.sample = data
        else:
            self.sample = data.part(self.rows, people.information)

    def outcome(self) -> Outcome:
        """Search, and name what was found; each group is measured with those above it
        corrected for.
        """
        named = errors_to_name(self, self.how.max_groups)
        if named != self.result.groups:
            for place, one in enumerate(named):
                self.people.score = self.corrected(named[:place])
                self.data.sums[:] = self.people.sums()
                self._measure(one, ERRORS_ABOVE if place else WHOLE)
        self.progress(1.0)
        self.result.groups = named
        self.result.whole_found = self.whole
        return self.result

    def clearest(self, named: Sequence[Found]) -> Found | None:
        """The strongest box of what is left, of people who are not named yet."""
        while self.left:
            self.left -= 1
            self.progress(0.8 + 0.2 * len(named) / self.how.max_groups)
            found = self._strongest()
            if found is None:
                return None
            self._correct_for(found)
            same = next(
                (one for one in named if mostly_same(one.rows, found.rows)), None
            )
            if same is None:
                self.result.groups.append(found)
                return found
            same.also.append(found.box)
        return None

    def _strongest(self) -> Found | None:
        data = self.data
        chance = self.chance
        candidates = self._candidates(self.how.depth)
        significant = [
            c for c in candidates if chance.p_value(c) <= self.how.group_level
        ]
        best = max(significant, key=chance.beyond, default=None)
        if self.choose is not None:
            residual = self.people.weight * (self.people.outcome - self.apart)
            best = self.choose(data, significant, chance, residual)
            candidates = [] if best is None else [best]
        if best is None:
            return None
        simple = describe(data, candidates, best)
        found = Found(
            simple.box,
            best.kind,
            data.rows_in(simple.box),
            p_value=chance.p_value(best),
        )
        if any(
            found.box == earlier.box and found.kind == earlier.kind
            for earlier in self.found
        ):
            return None  # what is left of it is within rounding
        limit = chance.limit(self.how.group_level, best)
        size = 2 * np.log(
            data.totals(data.rows_in(best.box))[kernels.VARIANCE] / data.smallest
        )
        found.limit = float(np.sqrt(max(limit**2 - size, 1.0)))
        found.again, found.added = _resampled(data, candidates, simple, chance, limit)
        self._measure(found, ERRORS_ABOVE if self.found else WHOLE)
        return found

    def _candidates(self, depth: int) -> list[Candidate]:
        """The strongest boxes of this round."""
        if self.rows is None:
            return box_search.deepen(self.data, box_search.scan(self.data), depth=depth)
        self.sample.sums[:] = self.data.sums[self.rows]
        sampled = box_search.deepen(
            self.sample, box_search.scan(self.data), depth=depth
        )
        kept: list[Candidate] = []
        for kind, size in product((LEVEL, SLOPE), range(1, depth + 1)):
            boxes = [c.box for c in sampled if c.kind == kind and c.depth == size]
            kept += [self.data.candidate(box, kind) for box in boxes[:MEASURED]]
        return kept

    def _measure(self, found: Found, before: str) -> None:
        """Measure a group by the score as corrected so far."""
        rows = found.rows
        people = self.people
        score = people.score[rows]
        raw = people.raw[rows]
        found.statistic = self.data.statistic(rows, found.kind)
        found.predicted = float(np.sum(people.weight[rows] * score))
        found.corrected_for = before if np.any(np.abs(score - raw) > UNCHANGED) else ""
        if found.kind == SLOPE:
            found.slopes = people.slope(rows, score), people.slope(rows, raw)

    def _correct_for(self, found: Found) -> None:
        """Correct for everything found, and for the whole score unless the groups
        explain its error.
        """
        self.found.append(found)
        groups = [one.rows for one in self.found]
        score = self.apart = correct_for(self.people, groups, whole=False)[1]
        if self.whole:
            self.result.whole_p, score = correct_for(self.people, groups, whole=True)
            if self.result.whole_p >= self.how.whole_level:
                self.whole = False
                score = self.apart
        changed = np.flatnonzero(np.abs(score - self.people.score) > UNCHANGED)
        self.people.score[changed] = score[changed]
        self.data.update(changed, self.people.sums(changed))


def _resampled(
    data: Data,
    candidates: Sequence[Candidate],
    simple: Candidate,
    chance: ChanceMaximum,
    limit: float,
) -> tuple[float, float]:
    """How often mostly the same people are the strongest in resamples, and by how much
    a search overstates.

    A resample is the data with chance added once more: simulated residuals on top of
    the observed ones. In it the observed statistics are the truth, so that the
    strongest statistic less the observed one of the same box is what the choice of the
    strongest adds.
    """
    part = chance.data
    described = part.rows_in(simple.box)
    n_draws = chance.level.shape[1]
    best = np.full(n_draws, -np.inf)
    added = np.zeros(n_draws)
    same = np.zeros(n_draws, dtype=np.bool_)
    boxes = [c.box for c in candidates if c.kind == simple.kind]
    for box in dict.fromkeys([simple.box, *boxes, *_neighbours(data, simple.box)]):
        total = data.totals(data.rows_in(box))
        rows = part.rows_in(box)
        _, variance, _, mixed, squared, _ = part.totals(rows)
        if total[kernels.VARIANCE] < data.smallest or variance <= 0:
            continue
        observed = kernels.box_statistic(total, data.smallest, simple.kind)
        noise = chance.level[rows].sum(axis=0, dtype=np.float64)
        scale = 1 / np.sqrt(variance)
        if simple.kind != LEVEL:
            share, scale = kernels.slope_parts(variance, mixed, squared, 0.0)
            noise = chance.slope[rows].sum(axis=0, dtype=np.float64) - share * noise
        drawn = observed + noise * scale
        evidence = drawn**2 + 2 * np.log(total[kernels.VARIANCE] / data.smallest)
        stronger = evidence > best
        best[stronger] = evidence[stronger]
        same[stronger] = mostly_same(rows, described)
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
                moved = (low != c.low and c.low > 0) or (
                    high != c.high and c.high < feature.recorded
                )
                if moved and 0 <= low < high <= feature.recorded:
                    yield (
                        *box[:place],
                        Condition(c.feature, low, high),
                        *box[place + 1 :],
                    )


def mostly_same(rows: IntArray, others: IntArray) -> bool:
    """Whether two groups, given by their rows, are mostly of the same people."""
    both = len(np.intersect1d(rows, others, assume_unique=True))
    return both >= SAME_PEOPLE * (len(rows) + len(others) - both)


def describe(
    data: Data, candidates: Sequence[Candidate], tested: Candidate
) -> Candidate:
    """The simplest description that has most of the evidence of the tested
    candidate.
    """
    starts: dict[tuple[int, ...], Candidate] = {}
    for c in sorted(candidates, key=lambda c: -c.evidence):
        features = tuple(condition.feature for condition in c.box)
        if (
            c.kind == tested.kind
            and sum(len(f) == len(features) for f in starts) < STARTS
        ):
            starts.setdefault(features, c)
    refined = [_refined(data, start, everywhere=True) for start in starts.values()]
    strongest = max(c.evidence for c in refined)
    best = max(refined, key=lambda c: _worth(data, c, strongest))
    simple = _with_round_cuts(data, _simpler(data, best))
    if simple.evidence >= ENOUGH * tested.evidence:
        return simple
    return _with_round_cuts(data, _refined(data, tested))


def _worth(data: Data, candidate: Candidate, strongest: float) -> float:
    """The evidence less what the length of a description must be worth: more where
    there is much of it.
    """
    both = sum(data.space.features[c.feature].n_ends(c) == 2 for c in candidate.box)
    return candidate.evidence - (CONDITION * candidate.depth + END * both) * (
        1 + strongest / MUCH
    )


def _simpler(data: Data, start: Candidate) -> Candidate:
    """Drop conditions and ends of ranges as long as the description is worth more
    without them.
    """
    best = start
    worth = _worth(data, start, start.evidence)
    while True:
        shorter = [data.candidate(box, start.kind) for box in _shorter(data, best.box)]
        tried = [_refined(data, candidate, new_ends=False) for candidate in shorter]
        better = max(tried, key=lambda c: _worth(data, c, start.evidence), default=best)
        if _worth(data, better, start.evidence) <= worth:
            return best
        best = better
        worth = _worth(data, better, start.evidence)


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
    """Move the cut points of a box, one condition at a time, to where the evidence is
    strongest.

    Each end of a range moves within the neighbouring coarse ranges, or `everywhere`;
    without `new_ends`, a range that is open on one side stays so.
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
            evidence, low, high = kernels.best_range(
                run, *ends, data.smallest, best.kind
            )
            if evidence > best.evidence and not (low == 0 and high == feature.recorded):
                box = (
                    *best.box[:place],
                    Condition(c.feature, int(low), int(high)),
                    *best.box[place + 1 :],
                )
                best = Candidate(box, best.kind, float(evidence))
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
    box = candidate.box
    lowest = candidate.evidence * (1 - 1 / MUCH) - ROUNDING
    for place, lower in product(range(len(box)), (True, False)):
        c = box[place]
        feature = data.space.features[box[place].feature]
        at = c.low if lower else c.high
        if not feature.is_range(c) or not 0 < at < feature.recorded:
            continue
        run = data.running_sums(box, place, candidate.kind)
        if lower:
            places = range(1, c.high)
        else:
            places = range(c.low + 1, feature.recorded)
        moved = {k: c._replace(low=k) if lower else c._replace(high=k) for k in places}
        nearly = [
            k
            for k, m in moved.items()
            if kernels.box_evidence(
                run[m.high] - run[m.low], data.smallest, candidate.kind
            )
            >= lowest
        ]
        if nearly:
            roundest = min(
                nearly, key=lambda k: (digits(feature.cuts[k - 1]), abs(k - at))
            )
            box = (*box[:place], moved[roundest], *box[place + 1 :])
    return data.candidate(box, candidate.kind)

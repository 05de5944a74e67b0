"""Rounds of a search: the strongest box, compared with chance and corrected for.

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
from propcal.discovery.box_search import (
    Candidate,
    ChanceMaximum,
    Data,
    SearchRule,
    Space,
)
from propcal.discovery.finding_rows import Found
from propcal.discovery.people import OWN_STREAM, People, correct_for

SAME_PEOPLE = 0.5  # share of the people of two groups together who are in both
# least variance of the number of events in a group: about ten expected events
LEAST_VARIANCE = 8.0
ROUNDS_PER_GROUP = 3  # at most so many rounds for each group to be found
MOST_ROWS = 131_072  # of more, third conditions are looked for in a sample
MOST_MEASURED = 8  # boxes of each depth that are then measured on all rows
UNCHANGED = 1e-7  # smaller changes of a score do not count
SEARCHED = 0.8  # share of the time that the search of simulated data takes
WHOLE = "recalibration of the whole score"
ERRORS_ABOVE = (
    "correction for the errors above"  # earlier groups, and the whole if it is off
)
SWEEPS = 2  # over the conditions of a box, to move their cut points
SWEEP_GAIN = 1e-9  # smaller relative gains of evidence end the sweeps
# evidence that a further condition must add (chance adds nearly as much), and that the
# second end of a range must add; with much evidence, both are doubled
CONDITION_EVIDENCE = 12.0
END_EVIDENCE = 4.0
MUCH_EVIDENCE = 1000.0
ROUNDING_EVIDENCE = 4.0  # that a round cut point may cost
SHARE_KEPT = 0.7  # of the tested evidence, which a description must have
LEAST_LEFT_SD = 3.0  # of an error that the other groups named must leave
STARTS = 3  # sets of features of each depth from which a description may start
STEPS = (-8, -4, -2, -1, 1, 2, 4, 8)  # of a cut point, in percent of the codes


@dataclass(eq=False)
class Outcome:
    """What a search found: the score as a whole, then groups, and what chance would
    have shown.
    """

    whole_p: float = 1.0
    whole_found: bool = False
    groups: list[Found] = field(default_factory=list)
    chance: ChanceMaximum | None = None


# picks one of the significant candidates, given the residuals that are left
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
        groups = [found.rows for found in named]
        _, score = correct_for(self.people, groups, whole=self.whole)
        return score

    def whole_of(self, part: Found, others: Sequence[Found]) -> None:
        """None: `describe` drops conditions without which a box is nearly as wrong."""

    def remains(self, one: Found, others: Sequence[Found]) -> bool:
        """Whether an error of several standard errors is left once the others are
        corrected for.
        """
        of_rows = self.people.sums(one.rows, self.corrected(others))
        totals = of_rows.sum(axis=0, dtype=np.float64)
        statistic = kernels.box_statistic(totals, 0.0, one.kind)
        limit = LEAST_LEFT_SD * np.sqrt(self.people.inflation())
        return bool(abs(statistic) >= limit)

    def size(self, one: Found) -> float:
        """Its people."""
        return float(self.people.weight[one.rows].sum())


def search_rounds(
    table: FeatureTable,
    people: People,
    rule: SearchRule,
    progress: Callable[[float], None],
    choose: Chooser | None = None,
) -> Outcome:
    """Search until nothing is left that chance would not show.

    `choose` picks among significant candidates; by default the strongest is taken. The
    residuals that it gets are those that the groups found so far leave, without the
    curve for everybody.
    """
    say_if_compiling(kernels.scan_pairs)
    whole_p, recalibrated = correct_for(people, [], whole=True)
    whole_found = whole_p < rule.whole_level
    if whole_found:
        people.score = recalibrated
    smallest = max(rule.min_share * people.information, LEAST_VARIANCE)
    if smallest > people.information / 2:
        return Outcome(whole_p, whole_found)

    rng = np.random.default_rng([OWN_STREAM, rule.random_state])
    data = Data(Space(table), table.codes, people.sums(), smallest)

    def simulated(share: float) -> None:
        progress(SEARCHED * share)

    chance = box_search.simulate_searches(data, people, rule, rng, simulated)
    outcome = Outcome(whole_p, whole_found, [], chance)
    rounds = _Rounds(people, data, outcome, rule, rng)
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
        rule: SearchRule,
        rng: np.random.Generator,
    ) -> None:
        super().__init__(people, whole=result.whole_found)
        assert result.chance is not None
        self.data = data
        self.result = result
        self.chance = result.chance
        self.rule = rule
        self.rounds_left = ROUNDS_PER_GROUP * rule.max_groups
        self.by_groups = people.raw  # the score with only groups corrected for
        self.found: list[Found] = []  # other descriptions of the same people included
        # of very many rows, third conditions are looked for in a sample
        self.sampled_rows: IntArray | None = None
        self.sample = data
        n = len(people)
        if n > MOST_ROWS:
            self.sampled_rows = np.sort(rng.choice(n, MOST_ROWS, replace=False))
            self.sample = data.part(self.sampled_rows, people.information)

    def outcome(self) -> Outcome:
        """Search, and name what was found; each group is measured with those above it
        corrected for.
        """
        named = errors_to_name(self, self.rule.max_groups)
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
        while self.rounds_left:
            self.rounds_left -= 1
            share = len(named) / self.rule.max_groups
            self.progress(SEARCHED + (1 - SEARCHED) * share)
            found = self._strongest()
            if found is None:
                return None
            self._correct_for(found)
            same = [one for one in named if mostly_same(one.rows, found.rows)]
            if not same:
                self.result.groups.append(found)
                return found
            same[0].also.append(found.box)
        return None

    def _strongest(self) -> Found | None:
        """The strongest box, in a simple description; None if there is none that chance
        would not show.
        """
        data = self.data
        chance = self.chance
        level = self.rule.group_level
        candidates = self._candidates(self.rule.depth)
        significant = [c for c in candidates if chance.p_value(c) <= level]
        if self.choose is None:
            best = max(significant, key=chance.beyond, default=None)
        else:
            residual = self.people.weight * (self.people.outcome - self.by_groups)
            best = self.choose(data, significant, chance, residual)
            candidates = [] if best is None else [best]
        if best is None:
            return None

        simple = describe(data, candidates, best)
        for earlier in self.found:
            if (earlier.box, earlier.kind) == (simple.box, best.kind):
                return None  # what is left of it is within rounding
        rows = data.rows_in(simple.box)
        found = Found(simple.box, best.kind, rows, p_value=chance.p_value(best))
        limit = chance.limit(level, best)
        variance = data.totals(data.rows_in(best.box))[kernels.VARIANCE]
        of_size = 2 * np.log(variance / data.smallest)
        found.limit = float(np.sqrt(max(limit**2 - of_size, 1.0)))
        found.again, found.added = _resampled(data, candidates, simple, chance, limit)
        self._measure(found, ERRORS_ABOVE if self.found else WHOLE)
        return found

    def _candidates(self, depth: int) -> list[Candidate]:
        """The strongest boxes of this round."""
        scanned = box_search.scan(self.data)
        if self.sampled_rows is None:
            return box_search.deepen(self.data, scanned, depth=depth)
        self.sample.sums[:] = self.data.sums[self.sampled_rows]
        of_sample = box_search.deepen(self.sample, scanned, depth=depth)
        measured: list[Candidate] = []
        for kind, size in product((LEVEL, SLOPE), range(1, depth + 1)):
            boxes = [c.box for c in of_sample if c.kind == kind and c.depth == size]
            for box in boxes[:MOST_MEASURED]:
                measured.append(self.data.candidate(box, kind))
        return measured

    def _measure(self, found: Found, before: str) -> None:
        """Measure a group by the score as corrected so far."""
        rows = found.rows
        people = self.people
        score = people.score[rows]
        raw = people.raw[rows]
        found.statistic = self.data.statistic(rows, found.kind)
        found.predicted = float(np.sum(people.weight[rows] * score))
        has_changed = bool(np.any(np.abs(score - raw) > UNCHANGED))
        found.corrected_for = before if has_changed else ""
        if found.kind == SLOPE:
            found.slopes = people.slope(rows, score), people.slope(rows, raw)

    def _correct_for(self, found: Found) -> None:
        """Correct for everything found, and for the whole score unless the groups
        explain its error.
        """
        self.found.append(found)
        groups = [one.rows for one in self.found]
        _, self.by_groups = correct_for(self.people, groups, whole=False)
        score = self.by_groups
        if self.whole:
            self.result.whole_p, score = correct_for(self.people, groups, whole=True)
            if self.result.whole_p >= self.rule.whole_level:
                self.whole = False
                score = self.by_groups
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
    a search exaggerates.

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
        totals = data.totals(data.rows_in(box))
        rows = part.rows_in(box)
        _, variance, _, mixed, squared, _ = part.totals(rows)
        size = totals[kernels.VARIANCE]
        if size < data.smallest or variance <= 0:
            continue
        observed = kernels.box_statistic(totals, data.smallest, simple.kind)
        noise = chance.level[rows].sum(axis=0, dtype=np.float64)
        scale = 1 / np.sqrt(variance)
        if simple.kind != LEVEL:
            share, scale = kernels.slope_parts(variance, mixed, squared, 0.0)
            noise = chance.slope[rows].sum(axis=0, dtype=np.float64) - share * noise
        drawn = observed + noise * scale
        evidence = drawn**2 + 2 * np.log(size / data.smallest)
        stronger = evidence > best
        best[stronger] = evidence[stronger]
        same[stronger] = mostly_same(rows, described)
        added[stronger] = (np.abs(drawn) - abs(observed))[stronger]
    again = float(np.mean(same & (best > limit**2)))
    return again, max(float(added.mean()), 0.0)


def _neighbours(data: Data, box: Box) -> Iterator[Box]:
    """The box with one cut point moved by a few percent of the codes."""
    for place, c in enumerate(box):
        feature = data.space.features[c.feature]
        if not feature.is_range(c):
            continue
        last = feature.recorded
        for step in STEPS:
            by = round(step * max(last / 100, 1))
            moved = []
            if c.low > 0:
                moved.append((c.low + by, c.high))
            if c.high < last:
                moved.append((c.low, c.high + by))
            for low, high in moved:
                if 0 <= low < high <= last:
                    yield _replaced(box, place, Condition(c.feature, low, high))


def _with_end(condition: Condition, end: str, code: int) -> Condition:
    """A condition whose range has another "low" or "high" end."""
    if end == "low":
        return condition._replace(low=code)
    return condition._replace(high=code)


def _replaced(box: Box, place: int, condition: Condition) -> Box:
    """A box with another condition in one place."""
    return (*box[:place], condition, *box[place + 1 :])


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
        n_of_depth = sum(len(other) == len(features) for other in starts)
        if c.kind == tested.kind and n_of_depth < STARTS:
            starts.setdefault(features, c)
    refined = [_refined(data, start, everywhere=True) for start in starts.values()]
    strongest = max(c.evidence for c in refined)
    best = max(refined, key=lambda c: _worth(data, c, strongest))
    simple = _with_round_cuts(data, _simpler(data, best))
    if simple.evidence >= SHARE_KEPT * tested.evidence:
        return simple
    return _with_round_cuts(data, _refined(data, tested))


def _worth(data: Data, candidate: Candidate, strongest: float) -> float:
    """The evidence less what the length of a description must be worth: more where
    there is much of it.
    """
    features = data.space.features
    two_ended = sum(features[c.feature].n_ends(c) == 2 for c in candidate.box)
    length = CONDITION_EVIDENCE * candidate.depth + END_EVIDENCE * two_ended
    return candidate.evidence - length * (1 + strongest / MUCH_EVIDENCE)


def _simpler(data: Data, start: Candidate) -> Candidate:
    """Drop conditions and ends of ranges as long as the description is worth more
    without them.
    """
    best = start
    worth = _worth(data, start, start.evidence)
    while True:
        tried = []
        for box in _shorter(data, best.box):
            candidate = data.candidate(box, start.kind)
            tried.append(_refined(data, candidate, new_ends=False))
        better = max(tried, key=lambda c: _worth(data, c, start.evidence), default=best)
        worth_of_better = _worth(data, better, start.evidence)
        if worth_of_better <= worth:
            return best
        best = better
        worth = worth_of_better


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
            ends = []
            for end in (c.low, c.high):
                is_open = end in (0, feature.recorded)
                if is_open and not new_ends:
                    ends.append(np.array([end]))
                else:
                    ends.append(_around(feature, end, everywhere=everywhere))
            run = data.running_sums(best.box, place, best.kind)
            evidence, low, high = kernels.best_range(
                run, *ends, data.smallest, best.kind
            )
            is_everybody = low == 0 and high == feature.recorded
            if evidence > best.evidence and not is_everybody:
                moved = Condition(c.feature, int(low), int(high))
                box = _replaced(best.box, place, moved)
                best = Candidate(box, best.kind, float(evidence))
        if best.evidence <= before * (1 + SWEEP_GAIN):
            break
    return best


def _around(feature: Feature, end: int, *, everywhere: bool) -> IntArray:
    """Codes near the end of a range, up to the next coarse ends on either side."""
    if everywhere:
        return np.arange(feature.recorded + 1)
    ends = np.array([*feature.coarse, feature.recorded])
    place = int(np.searchsorted(ends, end))
    first = ends[max(place - 1, 0)]
    last = ends[min(place + 1, len(ends) - 1)]
    return np.arange(first, last + 1)


def _with_round_cuts(data: Data, candidate: Candidate) -> Candidate:
    """Move each cut point to the roundest that is nearly as strong."""
    box = candidate.box
    least = candidate.evidence * (1 - 1 / MUCH_EVIDENCE) - ROUNDING_EVIDENCE
    for place, end in product(range(len(box)), ("low", "high")):
        c = box[place]
        feature = data.space.features[c.feature]
        cut = getattr(c, end)
        if not feature.is_range(c) or not 0 < cut < feature.recorded:
            continue
        if end == "low":
            cuts = range(1, c.high)
        else:
            cuts = range(c.low + 1, feature.recorded)

        run = data.running_sums(box, place, candidate.kind)
        nearly_as_strong = []
        for k in cuts:
            moved = _with_end(c, end, k)
            sums = run[moved.high] - run[moved.low]
            evidence = kernels.box_evidence(sums, data.smallest, candidate.kind)
            if evidence >= least:
                nearly_as_strong.append(k)

        if nearly_as_strong:
            roundest = min(
                nearly_as_strong,
                key=lambda k: (digits(feature.cuts[k - 1]), abs(k - cut)),
            )
            box = _replaced(box, place, _with_end(c, end, roundest))
    return data.candidate(box, candidate.kind)

"""Descriptions: the simplest box that is nearly as strong as the strongest.

The search finds a box on a coarse grid. Here its cut points move to where the evidence is strongest; then
conditions and ends of ranges that add little are dropped, and cut points become round.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np

from propcal.core.grid import IntArray
from propcal.discovery import box_kernels as kernels
from propcal.discovery.binned_features import Box, Condition, Feature, digits
from propcal.discovery.box_search import Candidate, Data

SWEEPS = 2  # over the conditions of a box, to move their cut points
CONDITION = 12.0  # evidence that a further condition must add; chance adds nearly as much
END = 4.0  # and that the second end of a range must add
MUCH = 1000.0  # with this much evidence, both are doubled
ROUNDING = 4.0  # evidence that a round cut point may cost
ENOUGH = 0.7  # share of the tested evidence that a description must have
STARTS = 3  # sets of features of each depth from which a description may start


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

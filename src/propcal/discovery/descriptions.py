"""Descriptions: the simplest box that is nearly as strong as the strongest, and what it is called.

The search finds a box on a coarse grid. Here its cut points move to where the evidence is strongest; then
conditions and ends of ranges that add little are dropped, and cut points become round.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from propcal.core.groups.conditions import ColumnTest, Combined, Not
from propcal.core.groups.conditions import Condition as Clause
from propcal.discovery import box_kernels as kernels
from propcal.discovery.binned_features import (
    Condition,
    Feature,
    condition_label,
    cut_text,
    digits,
)
from propcal.discovery.box_search import Box, Candidate, Data, refine

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
    found = [refine(data, start, everywhere=True) for start in starts.values()]
    strongest = max(c.evidence for c in found)
    best = max(found, key=lambda c: c.evidence - cost(data, c.box, strongest))
    simple = with_round_cuts(data, _simpler(data, best))
    if simple.evidence >= ENOUGH * tested.evidence:
        return simple
    return with_round_cuts(data, refine(data, tested))


def cost(data: Data, box: Box, strongest: float) -> float:
    """The evidence that the length of a description must be worth: more where there is much of it."""
    ends = sum(_n_ends(data.space.features[c.feature], c) == 2 for c in box)
    return (CONDITION * len(box) + END * ends) * (1 + strongest / MUCH)


def _n_ends(feature: Feature, c: Condition) -> int:
    return (c.low > 0) + (c.high < feature.recorded) if feature.is_number else 0


def _simpler(data: Data, start: Candidate) -> Candidate:
    """Drop conditions and ends of ranges as long as the description is worth more without them."""

    def worth(c: Candidate) -> float:
        return c.evidence - cost(data, c.box, start.evidence)

    best = start
    while True:
        shorter = [_tested(data, box, start.kind) for box in _shorter(data, best.box)]
        tried = [refine(data, candidate, new_ends=False) for candidate in shorter]
        better = max(tried, key=worth, default=best)
        if worth(better) <= worth(best):
            return best
        best = better


def _shorter(data: Data, box: Box) -> Iterator[Box]:
    """The box without one condition, or without one end of a range."""
    for place, c in enumerate(box):
        others = box[:place], box[place + 1 :]
        if len(box) > 1:
            yield (*others[0], *others[1])
        feature = data.space.features[c.feature]
        if _n_ends(feature, c) == 2:
            yield (*others[0], Condition(c.feature, 0, c.high), *others[1])
            yield (*others[0], Condition(c.feature, c.low, feature.recorded), *others[1])


def _tested(data: Data, box: Box, kind: int) -> Candidate:
    return Candidate(box, kind, data.evidence(box, kind))


def with_round_cuts(data: Data, candidate: Candidate) -> Candidate:
    """Move each cut point to the roundest that is nearly as strong."""
    box, lowest = list(candidate.box), candidate.evidence * (1 - 1 / MUCH) - ROUNDING
    for place, c in enumerate(candidate.box):
        feature = data.space.features[c.feature]
        if not feature.is_number or c.low == feature.recorded:
            continue
        rows = data.rows_in([other for k, other in enumerate(box) if k != place])
        run = kernels.sums_by_code(
            data.codes[c.feature], rows, data.sums, feature.recorded + 1, candidate.kind
        )
        low, high = c.low, c.high
        for end in ("low", "high"):
            at = low if end == "low" else high
            if not 0 < at < feature.recorded:
                continue
            places = range(1, high) if end == "low" else range(low + 1, feature.recorded)
            nearly = [
                k
                for k in places
                if _evidence(run, (k, high) if end == "low" else (low, k), data, candidate.kind) >= lowest
            ]
            if nearly:
                at = min(nearly, key=lambda k: (digits(feature.cuts[k - 1]), abs(k - at)))
            low, high = (at, high) if end == "low" else (low, at)
        box[place] = Condition(c.feature, low, high)
    return _tested(data, tuple(box), candidate.kind)


def _evidence(run: np.ndarray, ends: tuple[int, int], data: Data, kind: int) -> float:
    return float(kernels.box_evidence(run[ends[1]] - run[ends[0]], data.smallest, kind))


def clause(features: Sequence[Feature], box: Box) -> Clause:
    """A box as a condition on columns.

    >>> age = Feature("age", cuts=np.array([40.0, 60.0]))
    >>> print(clause([age, Feature("sex", ("F", "M"))], (Condition(0, 2, 3), Condition(1, 0, 1))))
    age >= 60 and sex = 'F'
    """
    parts = [part for c in box for part in _clauses(features[c.feature], c)]
    return parts[0] if len(parts) == 1 else Combined("and", tuple(parts))


def _clauses(feature: Feature, c: Condition) -> list[Clause]:
    name, last = feature.name, feature.recorded
    if c.low == last:
        return [ColumnTest(name, "missing")]
    if not feature.is_number:
        return [ColumnTest(name, "!=" if c.negated else "=", (feature.levels[c.low],))]
    found: list[Clause] = []
    if c.low > 0:
        found.append(ColumnTest(name, ">=", (cut_text(feature.cuts[c.low - 1]),)))
    if c.high < last:
        found.append(ColumnTest(name, "<", (cut_text(feature.cuts[c.high - 1]),)))
    return found or [Not(ColumnTest(name, "missing"))]


def label(features: Sequence[Feature], box: Box, labels: Mapping[str, Mapping[str, str]]) -> str:
    """A box in words, such as "age 60 or over, sex F".

    >>> label([Feature("diabetic", ("false", "true"))], (Condition(0, 1, 2),), {})  # not the column itself
    'diabetic true'
    """
    own = [(features[c.feature], c) for c in box]
    words = ", ".join(condition_label(feature, c, labels.get(feature.name, {})) for feature, c in own)
    return f"{words} true" if words == own[0][0].name else words

"""Follows people's scores step by step, for an explanation of what moved them.

A step is what one reason (a term of the smooth curve, a feature with points, or an
update) does to the score of one person. The last reason is that higher scores may not
become lower ones. The steps of a person lead to the score that the map gives, exactly.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from propcal.core.bins import Bins
from propcal.core.correction.explain import (
    FEATURE,
    LOG_ODDS,
    PERSON,
    Explanation,
    Reason,
    is_feature,
)
from propcal.core.correction.points_table import PER_UNIT, PointsTable, multiply
from propcal.core.correction.smooth_map import SmoothStart, whole_parts
from propcal.core.grid import UNIT, BoolArray, FloatArray, IntArray, to_grid
from propcal.core.groups import Group, Labels, group_labels, membership
from propcal.core.patterns import Patterns, as_listed
from propcal.errors import refused

if TYPE_CHECKING:
    from propcal.core.correction.definition import Definition, ScoringRows

PEOPLE_AT_ONCE = 4096
MAX_TRACED = 1 << 34  # people times reasons, in an explanation; about half a minute
MAX_TRACED_STEPS = 1 << 24  # steps of an explanation; 500 MB


def explained(
    correction: Definition, rows: ScoringRows, unit: str, labels: Labels | None
) -> Explanation:
    """Trace what a correction does to some people, step by step."""
    code = rows.code.astype(np.int64)
    corrected = correction.apply_to_rows(rows)
    patterns = as_listed(rows.patterns, correction.folded)
    is_unseen = correction.known(patterns) < 0
    is_kept = is_unseen & (correction.unseen == "keep")
    inside = membership(correction.groups, patterns) & ~is_kept

    reasons = _reasons(correction)
    last_reason = len(reasons) - 1
    first_update = last_reason - len(correction.updates)
    steps = _Steps(to_grid(rows.score), last_reason)
    if correction.start is not None:
        steps.add_start(correction.start, code, patterns, is_kept[code])
    if correction.points is not None:
        steps.add_points(correction.points, rows.codes, is_kept[code])
    updates = correction.updates
    edges = correction.bins.edges
    for u, people, before, after in traced_updates(
        steps.score, code, inside, updates, edges
    ):
        steps.add(people, np.full(len(people), first_update + u), before, after)

    # some are held at what lower scores have
    everybody = np.arange(len(code))
    held = np.full(len(code), last_reason)
    steps.add(everybody, held, steps.score, to_grid(corrected))
    return Explanation(
        rows.score,
        corrected,
        steps.by_person(),
        reasons,
        is_unseen[code],
        _group_names(correction, reasons, unit, labels),
        unit,
    )


def _reasons(correction: Definition) -> tuple[Reason, ...]:
    """What can move a score: terms of the smooth start, points, updates, and what keeps
    either in order.
    """
    reasons = []
    number = 1
    if correction.start is not None:
        reasons += [Reason(number, group) for group in correction.start.groups]
        reasons.append(Reason(number, None))
        number += 1

    for feature in correction.features:
        for label, points in zip(feature.labels, feature.pieces):
            group = Group(((f"{FEATURE}{feature.column}", label),))
            log_odds = (points or 0) / PER_UNIT
            reasons.append(Reason(number, group, f"{log_odds:+.3f} {LOG_ODDS}"))
    if correction.points is not None:
        number += 1

    bins = correction.bins.labels
    for i, (g, j) in enumerate(correction.updates[:, :2].tolist()):
        reasons.append(Reason(number + i, correction.groups[g], bins[j]))
    return (*reasons, Reason(correction.n_updates, None))


def _group_names(
    correction: Definition,
    reasons: Sequence[Reason],
    unit: str,
    labels: Labels | None,
) -> dict[Group, str]:
    """What sentences call the group of each reason."""
    groups = dict.fromkeys(r.group for r in reasons if r.group is not None)
    own = [group for group in groups if not is_feature(group)]
    own_names = group_labels(own, correction.patterns, labels, everyone=f"All {unit}")
    names = dict(zip(own, own_names))
    for group in groups:
        if is_feature(group):
            names[group] = _feature_label(group, labels)
    return names


def _feature_label(group: Group, labels: Labels | None) -> str:
    """What sentences call a level or range of a feature."""
    name, level = group.conditions[0]
    column = name.removeprefix(FEATURE)
    given = (labels or {}).get(column, {}).get(str(level))
    return given or f"{column} {level}"


class _Steps:
    """The scores of some people (in units) on the way, and the steps so far: rows as in
    `Explanation`.

    Reasons are numbered as they are added; `n_reasons` is how many there are besides
    the order of scores.
    """

    def __init__(self, score: IntArray, n_reasons: int) -> None:
        self.score = score.copy()
        self._rows = [np.empty((0, 4), dtype=np.int64)]
        self._n_steps = 0
        self._next_reason = 0
        self._n_reasons = n_reasons
        self._refuse_if(len(score) * n_reasons > MAX_TRACED)

    def _refuse_if(self, too_many: bool) -> None:
        if too_many:
            raise refused(
                "many explained", people=len(self.score), updates=self._n_reasons
            )

    def add(
        self, people: IntArray, reason: IntArray, before: IntArray, after: IntArray
    ) -> None:
        """Steps of people by their reasons, but for those that change nothing."""
        steps = np.stack([people, reason, before, after], axis=1)
        moved = steps[before != after]
        self._rows.append(moved)
        self._n_steps += len(moved)
        self._refuse_if(self._n_steps > MAX_TRACED_STEPS)

    def add_start(
        self, start: SmoothStart, code: IntArray, patterns: Patterns, is_kept: BoolArray
    ) -> None:
        """Steps of the smooth start, the broadest terms first, and then what keeps it
        from falling.
        """
        n_terms = len(start.groups)
        broadest_first = sorted(
            range(n_terms), key=lambda t: len(start.groups[t].conditions)
        )
        order = np.array([*broadest_first, n_terms])
        for low in range(0, len(code), PEOPLE_AT_ONCE):
            some = slice(low, low + PEOPLE_AT_ONCE)
            parts = start.parts(self.score[some], code[some], patterns)[:, order]
            self._add_parts(some, parts, order, is_kept[some])
        self._next_reason += len(order)

    def add_points(
        self, points: PointsTable, codes: Sequence[Any], is_kept: BoolArray
    ) -> None:
        """A step for each feature that moves a score.

        A feature's part of the change is its points times the mean slope of the
        logistic curve on the way.
        """
        columns = []
        reasons = []
        next_reason = self._next_reason
        for feature, code in zip(points.features, codes):
            points_of_code = np.array([piece or 0 for piece in feature.pieces])
            columns.append(points_of_code[code])
            reasons.append(next_reason + code)
            next_reason += len(feature.pieces)
        own_points = np.stack(columns, axis=1)

        change = multiply(self.score, points.odds(codes)) - self.score
        slope = _mean_slope(self.score, change, own_points.sum(axis=1))
        exact = own_points * slope[:, None]
        parts = whole_parts(exact, own_points != 0, change)
        self._add_parts(slice(0, None), parts, np.stack(reasons, axis=1), is_kept)
        self._next_reason = next_reason

    def _add_parts(
        self, some: slice, parts: IntArray, reason: IntArray, is_kept: BoolArray
    ) -> None:
        """Parts of a change (a column for each reason) of some people, one after
        another; none for those whose scores are kept.
        """
        parts[is_kept] = 0
        after = self.score[some, None] + np.cumsum(parts, axis=1)
        people = np.arange(some.start, some.start + len(parts))[:, None]
        self.add(
            np.broadcast_to(people, parts.shape).ravel(),
            np.broadcast_to(reason, parts.shape).ravel(),
            (after - parts).ravel(),
            after.ravel(),
        )
        self.score[some] = after[:, -1]

    def by_person(self) -> IntArray:
        """All steps, person by person, each person's in order."""
        steps = np.concatenate(self._rows)
        return np.asarray(steps[np.argsort(steps[:, PERSON], kind="stable")])


def _mean_slope(score: IntArray, change: IntArray, points: IntArray) -> FloatArray:
    """Units of score for each point, on average over the way that all points lead."""
    no_points = points == 0
    risk = score / UNIT
    slope_at_score = risk * (1 - risk) * UNIT / PER_UNIT
    return np.where(no_points, slope_at_score, change / np.where(no_points, 1, points))


def traced_updates(
    score: IntArray,
    code: IntArray,
    inside: BoolArray,
    updates: IntArray,
    edges: IntArray,
) -> Iterator[tuple[int, IntArray, IntArray, IntArray]]:
    """Apply the updates to scores (in units, in place) of people whose pattern is
    `code`, in order.

    For each update that can apply to any of them: its index, whom it applies to, and
    their scores before and after it. `move_segments` does the same to runs of scores.
    """
    bins = Bins(edges, "explicit", 1)
    bin_of_person = bins.index(score).astype(np.int16)
    has_people = np.any(inside[:, np.unique(code)], axis=1)
    for u in np.flatnonzero(has_people[updates[:, 0]]).tolist():
        group, j, shift = updates[u, :3]
        in_bin = np.flatnonzero(bin_of_person == j)
        people = in_bin[inside[group, code[in_bin]]]
        before = score[people]
        after = np.clip(before + shift, 0, UNIT)
        score[people] = after
        bin_of_person[people] = bins.index(after)
        yield u, people, before, after

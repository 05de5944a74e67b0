"""Alarms: for whom, when a change began, and how large it is since; and what a verdict
claims of them.

A verdict names few groups, by the rule of `propcal.auditing.named_errors`: their errors
are taken out of the score one after the other, the first alarm first, and a group is
named if an alarm is left in it. A named group is given up if the others leave neither
an alarm nor an O/E ratio whose interval excludes 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from propcal.auditing.claims import NAN, Claim, Kind, Region
from propcal.auditing.named_errors import errors_to_name
from propcal.auditing.statistics.measures import UNKNOWN, Estimate, observed_expected
from propcal.auditing.statistics.rate_intervals import CONFIDENCE, NORMAL_REACH
from propcal.auditing.statistics.sample import Sample
from propcal.core.atoms import Atoms
from propcal.core.bins import Bins
from propcal.core.grid import BoolArray, FloatArray, IntArray, from_grid, to_grid
from propcal.core.groups import EVERYBODY, Group, membership
from propcal.core.logistic import expit, log_odds
from propcal.core.patterns import PERIOD
from propcal.core.reduction import rescored
from propcal.monitoring import e_processes as ep
from propcal.monitoring.e_processes import ALARM, NEAREST, CourseEvidence
from propcal.monitoring.watched_groups import PeriodCounts, evidence_ranges
from propcal.numbers import excludes_one, known, listed, risk_range

# predicted risks
TOO_EXTREME = "too extreme"
TOO_NARROW = "not extreme enough"
# the O/E ratio since the reference
RISEN = "has risen"
FALLEN = "has fallen"
KINDS: dict[str, Kind] = {
    "level": "group",
    "slope": "shape",
    "cells": "cell",
}  # of claims
# what a claim takes from its alarm as it is
ALIKE = (
    "label",
    "low",
    "high",
    "test",
    "people",
    "events",
    "predicted",
    "since",
    "raised",
)
Names = tuple[
    Sequence[str], Bins, Sequence[str]
]  # labels of groups, bins, periods of the reference
LARGEST = 690.0  # logarithm of the largest evidence that is printed


@dataclass(frozen=True)
class Alarm:
    """A group, the test that raised the alarm, when, since when, and how large the
    error is.

    Each test of a group has its own date, `raised`; sentences and tables have the first
    of them. `onset` is the most plausible beginning of the error, and `since` is the
    same if the data show that the error was not there from the start: an error of one
    size all the time is excluded, and before the onset there were as many events as
    expected. Otherwise `since` is empty, and `onset_low` is the first period. `value`,
    `low` and `high` are the O/E ratio since then, or over the whole time if `since` is
    empty, of the group or (for cells) of its risk range `where`; for the slope they are
    missing, and `direction` says whether scores are too extreme. `people`, `events` and
    `predicted` (the mean score) belong to them. If an earlier period is the reference,
    `reference_value` is the O/E ratio at that time, and `direction` says whether it has
    risen or fallen since. `explained_by` names other groups: if the score were
    corrected for them, there would be no alarm for this one. `left`, `left_low` and
    `left_high` are then the O/E ratio of what is left, of `left_people` with
    `left_events`: its people who are in none of the named groups or, if these are fewer
    than a tenth, all its people with corrected scores.
    """

    group: str
    label: str
    test: str
    raised: str
    evidence: float
    onset: str
    onset_low: str
    onset_high: str
    value: float
    low: float
    high: float
    direction: str
    people: float
    events: float
    predicted: float
    where: str = ""
    since: str = ""
    explained_by: str = ""
    left: float = NAN
    left_low: float = NAN
    left_high: float = NAN
    left_people: float = NAN
    left_events: float = NAN
    reference_value: float = NAN


@dataclass(frozen=True)
class CourseClaim(Claim):
    """A claim about time: supported by an alarm of the group that no other named group
    explains.

    The O/E ratio is that since the beginning of the error or, if the data do not show
    when it began (`since` is empty), over the whole time. `p_value` is one over the
    highest evidence, which is adjusted for the number of tests; `test` is "level",
    "slope" or "cells", each an e-process.

    Attributes
    ----------
    raised : str
        The period whose data raised the alarm.
    since_low, since_high : str
        95 % interval of `since`.
    reference : float
        O/E ratio at the baseline, if there is one; `direction` is then "has risen" or
        "has fallen".
    """

    raised: str = ""
    since_low: str = ""
    since_high: str = ""
    reference: float = NAN


@dataclass(frozen=True)
class Onset:
    """The period (by number) in which a change most likely began, and the first and
    last plausible one.

    `shown` is whether the error was not there from the start. If it is not shown, `low`
    is the first period.
    """

    place: int
    low: int
    high: int
    shown: bool = False

    def later(self, first: int) -> Onset:
        """An onset with periods counted from an earlier one."""
        return replace(
            self, place=self.place + first, low=self.low + first, high=self.high + first
        )


def onset_of(gain: FloatArray, always: float, line: float) -> Onset:
    """The beginning of a change, from log-likelihood ratios of (periods, shifts) up to
    now.

    Beginnings are weighed like the stakes on them, and shifts equally; the interval
    holds 95 % of that weight. `always` is the log-likelihood ratio of the error that
    fits best if it was the same all the time. The start is excluded if later beginnings
    together are `line` times as likely: such a ratio is an e-process, so that it
    happens to at most 1 of `line` errors that were there from the start, however often
    one looks.

    >>> gain = np.array([[-2.0], [-3.0], [4.0], [5.0]])
    >>> onset_of(gain, 4.0, 20)
    Onset(place=2, low=0, high=2, shown=False)
    >>> onset_of(gain, 0.1, 20)
    Onset(place=2, low=1, high=2, shown=True)
    """
    after = np.cumsum(gain[::-1], axis=0)[::-1]
    stakes = ep.onset_stakes(len(gain)) / gain.shape[1]
    weight = np.log(stakes) + np.logaddexp.reduce(after, axis=1)
    shown = bool(np.logaddexp.reduce(weight[1:]) - always >= np.log(line))
    weight[0] = -np.inf if shown else weight[0]
    part = np.exp(weight - np.logaddexp.reduce(weight))
    order = np.argsort(-part, kind="stable")
    enough = int(np.searchsorted(np.cumsum(part[order]), CONFIDENCE - 1e-12)) + 1
    chosen = order[:enough]
    return Onset(
        int(order[0]), int(chosen.min()) if shown else 0, int(chosen.max()), shown
    )


def ratio_of(people: FloatArray, positives: FloatArray, score: FloatArray) -> Estimate:
    """The O/E ratio of people in narrow ranges of the score, with the interval of an
    audit.
    """
    some = people > 0
    n = people[some]
    events = positives[some]
    mean = np.clip(score[some] / n, 0.0, 1.0)
    return observed_expected(
        Sample(mean, n.astype(np.int64), n, n, events, events, None)
    )


def ratio_since(
    sums: PeriodCounts, group: int, onset: Onset, inside: Any = slice(None)
) -> Estimate:
    """O/E ratio of a group since the onset, in some ranges; its interval allows for
    every plausible onset.
    """
    own = [
        part[:, group][:, inside] for part in (sums.people, sums.positives, sums.score)
    ]
    beginnings = range(onset.low, onset.high + 1)
    found = np.array(
        [ratio_of(*(part[first:].sum(axis=0) for part in own)) for first in beginnings]
    )
    value = found[onset.place - onset.low, 0]
    return Estimate(float(value), float(found[:, 1].min()), float(found[:, 2].max()))


def printed_evidence(log_evidence: FloatArray) -> FloatArray:
    """Evidence as numbers that can be printed."""
    return np.asarray(np.exp(np.minimum(log_evidence, LARGEST)))


def alarms_of(
    sums: PeriodCounts,
    evidence: CourseEvidence,
    labels: Sequence[str],
    bins: Bins,
    reference: Sequence[str],
) -> tuple[Alarm, ...]:
    """The alarms of each test and group, the one with the most evidence first."""
    raised = np.argwhere(evidence.adjusted.max(axis=0) >= np.log(ALARM)).tolist()
    alarms = [
        _alarm(sums, evidence, k, g, (labels, bins, reference)) for k, g in raised
    ]
    return tuple(sorted(alarms, key=lambda alarm: (-alarm.evidence, alarm.group)))


def _alarm(
    sums: PeriodCounts, evidence: CourseEvidence, test: int, group: int, names: Names
) -> Alarm:
    """The alarm of one test of one group; `names` are labels, bins and the
    reference.
    """
    labels, bins, reference = names
    periods = sums.periods
    kind = evidence.kinds[test]
    course = evidence.adjusted[:, test, group]
    gain = evidence.gains[kind][:, group]
    where = ""
    b = 0
    inside = np.full(len(sums.bin_of), True)
    if kind == "cells":
        b = int(np.argmax(evidence.cells[:, group].max(axis=0)))
        gain = gain[:, b]
        where = risk_range(bins.labels[b])
        inside = sums.bin_of == b
    past = np.array([period in reference for period in periods])
    after = int(np.flatnonzero(past)[-1]) + 1 if past.any() else 0
    always = ep.best_always(sums.one(group, after), kind, evidence.shift[[group]], b)
    onset = onset_of(gain[after:], always, ALARM * len(labels)).later(after)
    if onset.shown and not _right_before(
        sums.one(group), inside, after, onset.place, evidence.shift[group]
    ):
        onset = Onset(onset.place, after, onset.high)
    span = onset if onset.shown else Onset(after, after, after)
    people, events, expected = (
        part[:, group][:, inside].sum(axis=1)
        for part in (sums.people, sums.positives, sums.score)
    )
    if kind == "slope":
        half = gain.shape[1] // 2
        total = gain[span.place :].sum(axis=0)
        extreme = np.logaddexp.reduce(total[:half]) > np.logaddexp.reduce(total[half:])
        size = UNKNOWN
        direction = TOO_EXTREME if extreme else TOO_NARROW
    else:
        size = ratio_since(sums, group, span, inside)
        direction = "too high" if size.value < 1 else "too low"
    then = NAN
    if reference:
        if expected[past].sum() > 0:
            then = float(events[past].sum() / expected[past].sum())
        else:
            then = NAN
        direction = FALLEN if size.value < then else RISEN
    n, n_events, n_expected = (
        float(part[span.place :].sum()) for part in (people, events, expected)
    )
    return Alarm(
        group=sums.groups[group].name,
        label=labels[group],
        test=kind,
        raised=periods[int(np.argmax(course >= np.log(ALARM)))],
        evidence=float(printed_evidence(course.max())),
        onset=periods[onset.place],
        onset_low=periods[onset.low],
        onset_high=periods[onset.high],
        value=size.value,
        low=size.low,
        high=size.high,
        direction=direction,
        people=n,
        events=n_events,
        predicted=n_expected / n,
        where=where,
        since=periods[onset.place] if onset.shown else "",
        reference_value=then,
    )


def _right_before(
    own: PeriodCounts, inside: BoolArray, first: int, onset: int, shift: float
) -> bool:
    """Whether some ranges of a group have as many events as expected in the periods
    before an onset.
    """
    people, positives, mean = (
        part[first:onset, 0][:, inside]
        for part in (own.people, own.positives, own.mean)
    )
    rate = mean * np.exp(shift) / (1 - mean + mean * np.exp(shift))
    spread = np.sqrt((people * rate * (1 - rate)).sum())
    return bool(abs((positives - people * rate).sum()) <= NORMAL_REACH * spread)


def claims_of(alarms: Sequence[Alarm], bins: Bins) -> tuple[CourseClaim, ...]:
    """A claim for each group with alarms that others do not explain, in the order of
    the alarms.

    It is the group's first alarm whose numbers show a direction; of several in one
    period, the level's.
    """
    own: dict[str, list[Alarm]] = {}
    for alarm in alarms:
        if not alarm.explained_by:
            own.setdefault(alarm.group, []).append(alarm)

    def order(alarm: Alarm) -> tuple[bool, str, int]:
        return not _has_direction(alarm), alarm.raised, [*KINDS].index(alarm.test)

    chosen = [min(found, key=order) for found in own.values()]
    return tuple(
        claim_of(one, bins, one.direction if _has_direction(one) else "")
        for one in chosen
    )


def _has_direction(alarm: Alarm) -> bool:
    """Whether the numbers show which way the score is wrong, not only that it was wrong
    at some time.
    """
    return known(alarm.reference_value) or not alarm.low <= 1 <= alarm.high


def claim_of(alarm: Alarm, bins: Bins, direction: str) -> CourseClaim:
    """The claim that an alarm supports; its numbers may be protected, its direction is
    that of exact ones.
    """
    kind = KINDS[alarm.test]
    edges = from_grid(bins.edges).round(6).tolist()
    return CourseClaim(
        kind="overall" if kind == "group" and alarm.group == EVERYBODY.name else kind,
        who=alarm.group,
        direction=direction,
        estimate=alarm.value,
        p_value=min(1 / alarm.evidence, 1.0),
        observed=alarm.events / alarm.people,
        where=tuple(
            Region(*ends, direction)
            for ends, label in zip(pairwise(edges), bins.labels)
            if alarm.where == risk_range(label)
        ),
        since_low=alarm.onset_low if alarm.since else "",
        since_high=alarm.onset_high if alarm.since else "",
        reference=alarm.reference_value,
        **{name: getattr(alarm, name) for name in ALIKE},
    )


MOST_CORRECTED = 20  # groups whose errors are taken out
ROUNDS = 60
WIDEST = 1.0  # longest step, in log-odds
ENOUGH = 1e-3  # steps shorter than this end the rounds
# share of a group from which on its people outside of other groups are judged by
# themselves
APART = 0.1


class Left(NamedTuple):
    """What is left of a group's error: alarms, and what an explained alarm says of it
    (see `Alarm`).
    """

    alarms: tuple[Alarm, ...]
    left: float = NAN
    left_low: float = NAN
    left_high: float = NAN
    left_people: float = NAN
    left_events: float = NAN


class ExplainedAlarms:
    """Groups with alarms as errors to name, by their names; the first alarm comes
    first.

    An alarm counts as still there if it has the same direction: a group may be too low
    only because the correction of others was too much. `names` are labels, bins and the
    reference.
    """

    def __init__(
        self,
        alarms: Sequence[Alarm],
        atoms: Atoms,
        groups: Sequence[Group],
        stakes: FloatArray,
        names: Names,
    ) -> None:
        found: dict[str, list[Alarm]] = {}
        for alarm in alarms:
            found.setdefault(alarm.group, []).append(alarm)
        first = sorted(
            found, key=lambda name: min(alarm.raised for alarm in found[name])
        )
        self.of_group = {name: found[name] for name in first}
        self.inside = dict(
            zip((group.name for group in groups), membership(groups, atoms.patterns))
        )
        self.groups = groups
        self.stakes = stakes
        self.names = names
        self.count = atoms.pattern_sums(atoms.people)
        parts = {name: (self.inside[name], own) for name, own in self.of_group.items()}
        self.corrected = cache(_Errors(atoms, names[1], parts).corrected)
        self.known: dict[tuple[str, ...], Left] = {}

    def in_order(self) -> tuple[Alarm, ...]:
        """The alarms of groups to name, then others, which say in `explained_by` whose
        errors explain them.

        Within each part, the order is that of a group's first alarm.
        """
        named = errors_to_name(self, len(self.of_group))
        ordered = [
            alarm
            for name in self.of_group
            if name in named
            for alarm in self.of_group[name]
        ]
        for name, own in self.of_group.items():
            if name not in named:
                _, *rest = self.left(name, named)
                cause = listed(
                    [
                        self.of_group[other][0].label
                        for other in self.overlapping(name, named)
                    ]
                )
                more: dict[str, Any] = dict(zip(Left._fields[1:], rest))
                ordered += [replace(alarm, explained_by=cause, **more) for alarm in own]
        return tuple(ordered)

    def overlapping(self, name: str, others: Iterable[str]) -> list[str]:
        """Those of the others that share people with a group."""
        return [
            other for other in others if (self.inside[name] & self.inside[other]).any()
        ]

    def left(self, name: str, others: Sequence[str]) -> Left:
        """What is left of a group's error once those of the others are taken out."""
        key = name, *others
        if key not in self.known:
            apart = self.inside[name] & ~np.any(
                [self.inside[other] for other in others], axis=0
            )
            enough = (
                self.count[apart].sum() >= APART * self.count[self.inside[name]].sum()
            )
            corrected = self.corrected(tuple(others[:MOST_CORRECTED]))
            self.known[key] = self._left_of(
                corrected, name, apart if enough else self.inside[name]
            )
        return self.known[key]

    def _left_of(self, corrected: Atoms, name: str, inside: BoolArray) -> Left:
        """The alarms of some people of a group with other scores, if no other group had
        any evidence.
        """
        place, (labels, bins, reference) = [*self.inside].index(name), self.names
        own = PeriodCounts.of(corrected, [self.groups[place]], bins, inside[None])
        alone = ep.evidence_over_time(own, [self.stakes[place]], reference)
        alarms = alarms_of(own, alone, [labels[place]], bins, reference)
        if reference:  # the O/E ratio may have been off all the time
            return Left(alarms)
        since = self.of_group[name][0].since
        first = own.periods.index(since) if since else 0
        counts = (float(part[first:].sum()) for part in (own.people, own.positives))
        return Left(alarms, *ratio_since(own, 0, Onset(first, first, first)), *counts)

    def _alarm_left(self, name: str, others: Sequence[str]) -> bool:
        if not self.overlapping(name, others):
            return True
        directions = {alarm.direction for alarm in self.of_group[name]}
        return any(
            alarm.direction in directions for alarm in self.left(name, others).alarms
        )

    def clearest(self, named: Sequence[str]) -> str | None:
        """The first alarm of what is left."""
        others = (name for name in self.of_group if name not in named)
        return next((name for name in others if self._alarm_left(name, named)), None)

    def whole_of(self, part: str, others: Sequence[str]) -> str | None:
        """A broader group with an alarm whose error, once taken out, leaves none in the
        part.
        """
        for whole in sorted(self.of_group, key=self.size, reverse=True):
            inside, beyond = self.inside[whole], self.inside[whole] & ~self.inside[part]
            if (
                whole in others
                or not beyond.any()
                or (self.inside[part] & ~inside).any()
            ):
                continue
            apart = [other for other in others if (self.inside[other] & ~inside).any()]
            directions = [
                {alarm.direction for alarm in self.of_group[name]}
                for name in (whole, part)
            ]
            if directions[0] & directions[1] and not self._error_left(
                part, [*apart, whole]
            ):
                return whole
        return None

    def _error_left(self, name: str, others: Sequence[str]) -> bool:
        """Whether there is still an alarm, or an O/E ratio other than 1."""
        if self._alarm_left(name, others):
            return True
        found = self.left(name, others)
        return excludes_one(found.left_low, found.left_high)

    def remains(self, one: str, others: Sequence[str]) -> bool:
        """Whether an error is left, or an alarm that only this group explains."""
        unnamed = (name for name in self.of_group if name != one and name not in others)
        return self._error_left(one, others) or any(
            self._alarm_left(name, others) for name in self.overlapping(one, unnamed)
        )

    def size(self, one: str) -> float:
        """Its people."""
        return float(self.count[self.inside[one]].sum())


class _Errors:
    """A logistic model of the errors of groups, fitted to all of them together.

    Each group shifts the log-odds of its people by an amount for each period, and by
    another for each narrow range of scores before and since the beginning of each of
    its errors. So other groups are compared with it at the same time, whatever the
    shape of its error.
    """

    def __init__(
        self, atoms: Atoms, bins: Bins, groups: dict[str, tuple[BoolArray, list[Alarm]]]
    ) -> None:
        self.atoms = atoms
        self.start = log_odds(np.clip(from_grid(atoms.score), NEAREST, 1 - NEAREST))
        pattern = atoms.pattern_index()
        place = atoms.patterns.attributes.index(PERIOD)
        levels = [str(level) for level in atoms.patterns.levels[place]]
        ranges = evidence_ranges(bins)
        period = atoms.patterns.table[pattern, place]
        risk_range = ranges.index(atoms.score)
        self.parts: dict[str, tuple[IntArray, list[IntArray]]] = {}
        for name, (members, alarms) in groups.items():
            rows = np.flatnonzero(members[pattern])
            onsets = sorted({levels.index(alarm.onset) for alarm in alarms})
            stretch = np.searchsorted(onsets, period[rows], side="right")
            self.parts[name] = (
                rows,
                [period[rows], stretch * len(ranges) + risk_range[rows]],
            )

    def corrected(self, names: Sequence[str]) -> Atoms:
        """The people, with the errors of these groups taken out of their scores."""
        value = self.start.copy()
        for _ in range(ROUNDS):
            longest = 0.0
            for name in names:
                rows, keys = self.parts[name]
                for key in keys:
                    step = self._step(value[rows], rows, key)
                    value[rows] += step[key]
                    longest = max(longest, float(np.abs(step).max()))
            if longest < ENOUGH:
                break
        changed = value != self.start
        score = np.where(changed, to_grid(expit(value)), self.atoms.score)
        return rescored(self.atoms, score.astype(np.int64))

    def _step(self, value: FloatArray, rows: IntArray, key: IntArray) -> FloatArray:
        """Newton's step of the shift of each key."""
        rate = expit(value)
        people = self.atoms.people[rows]
        left = np.bincount(key, self.atoms.positives[rows] - people * rate)
        spread = np.bincount(key, people * rate * (1 - rate))
        return np.clip(left / np.maximum(spread, 1e-9), -WIDEST, WIDEST)

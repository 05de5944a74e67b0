"""Alarms: for whom, when a change began, and how large it is since; and what a verdict claims of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from propcal.auditing.claims import NAN, Claim, Kind, Region
from propcal.auditing.measures import UNKNOWN, Estimate, observed_expected
from propcal.auditing.rate_intervals import CONFIDENCE, NORMAL_REACH
from propcal.auditing.sample import Sample
from propcal.core.bins import Bins
from propcal.core.grid import BoolArray, FloatArray, from_grid
from propcal.core.groups import EVERYBODY
from propcal.monitoring import e_processes as ep
from propcal.monitoring.e_processes import ALARM, CourseEvidence
from propcal.monitoring.watched_groups import PeriodCounts
from propcal.numbers import known, risk_range

TOO_EXTREME, TOO_NARROW = "too extreme", "not extreme enough"  # predicted risks
RISEN, FALLEN = "has risen", "has fallen"  # the O/E ratio since the reference
KINDS: dict[str, Kind] = {"level": "group", "slope": "shape", "cells": "cell"}  # of claims
# what a claim takes from its alarm as it is
ALIKE = ("label", "low", "high", "test", "people", "events", "predicted", "since", "raised")
Names = tuple[Sequence[str], Bins, Sequence[str]]  # labels of groups, bins, periods of the reference
LARGEST = 690.0  # logarithm of the largest evidence that is printed


@dataclass(frozen=True)
class Alarm:
    """A group, the test that raised the alarm, when, since when, and how large the error is.

    Each test of a group has its own date, `raised`; sentences and tables have the first of them. `onset` is
    the most plausible beginning of the error, and `since` is the same if the data show that the error was not
    there from the start: an error of one size all the time is excluded, and before the onset there were as
    many events as expected. Otherwise `since` is empty, and `onset_low` is the first period.
    `value`, `low` and `high` are the O/E ratio since then, or over the whole time if `since` is empty, of the
    group or (for cells) of its risk range `where`; for the slope they are missing, and `direction` says
    whether scores are too extreme. `people`, `events` and `predicted` (the mean score) belong to them. If an
    earlier period is the reference, `reference_value` is the O/E ratio at that time, and `direction` says
    whether it has risen or fallen since.
    `explained_by` names other groups: if the score were corrected for them, there would be no alarm for this
    one. `left`, `left_low` and `left_high` are then the O/E ratio of what is left, of `left_people` with
    `left_events`: its people who are in none of the named groups or, if these are fewer than a tenth, all its
    people with corrected scores.
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
    """A claim about time: supported by an alarm of the group that no other named group explains.

    The O/E ratio is that since the beginning of the error or, if the data do not show when it began (`since`
    is empty), over the whole time. `p_value` is one over the highest evidence, which is adjusted for the
    number of tests; `test` is "level", "slope" or "cells", each an e-process.

    Attributes
    ----------
    raised : str
        The period whose data raised the alarm.
    since_low, since_high : str
        95 % interval of `since`.
    reference : float
        O/E ratio at the baseline, if there is one; `direction` is then "has risen" or "has fallen".
    """

    raised: str = ""
    since_low: str = ""
    since_high: str = ""
    reference: float = NAN


@dataclass(frozen=True)
class Onset:
    """The period (by number) in which a change most likely began, and the first and last plausible one.

    `shown` is whether the error was not there from the start. If it is not shown, `low` is the first period.
    """

    place: int
    low: int
    high: int
    shown: bool = False

    def later(self, first: int) -> Onset:
        """The same if periods are counted from an earlier one."""
        return replace(self, place=self.place + first, low=self.low + first, high=self.high + first)


def onset_of(gain: FloatArray, always: float, line: float) -> Onset:
    """The beginning of a change, from log-likelihood ratios of (periods, shifts) up to now.

    Beginnings are weighed like the stakes on them, and shifts equally; the interval holds 95 % of that
    weight. `always` is the log-likelihood ratio of the error that fits best if it was the same all the time.
    The start is excluded if later beginnings together are `line` times as likely: such a ratio is an
    e-process, so that it happens to at most 1 of `line` errors that were there from the start, however often
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
    return Onset(int(order[0]), int(chosen.min()) if shown else 0, int(chosen.max()), shown)


def ratio_of(people: FloatArray, positives: FloatArray, score: FloatArray) -> Estimate:
    """The O/E ratio of people in narrow ranges of the score, with the interval of an audit."""
    some = people > 0
    n, events = people[some], positives[some]
    mean = np.clip(score[some] / n, 0.0, 1.0)
    return observed_expected(Sample(mean, n.astype(np.int64), n, n, events, events, None))


def ratio_since(sums: PeriodCounts, group: int, onset: Onset, inside: Any = slice(None)) -> Estimate:
    """O/E ratio of a group since the onset, in some ranges; its interval allows for every plausible onset."""
    own = [part[:, group][:, inside] for part in (sums.people, sums.positives, sums.score)]
    found = np.array(
        [ratio_of(*(part[first:].sum(axis=0) for part in own)) for first in range(onset.low, onset.high + 1)]
    )
    value = found[onset.place - onset.low, 0]
    return Estimate(float(value), float(found[:, 1].min()), float(found[:, 2].max()))


def printed_evidence(log_evidence: FloatArray) -> FloatArray:
    """Evidence as numbers that can be printed."""
    return np.asarray(np.exp(np.minimum(log_evidence, LARGEST)))


def alarms_of(
    sums: PeriodCounts, evidence: CourseEvidence, labels: Sequence[str], bins: Bins, reference: Sequence[str]
) -> tuple[Alarm, ...]:
    """The alarms of each test and group, the one with the most evidence first."""
    raised = np.argwhere(evidence.adjusted.max(axis=0) >= np.log(ALARM)).tolist()
    alarms = [_alarm(sums, evidence, k, g, (labels, bins, reference)) for k, g in raised]
    return tuple(sorted(alarms, key=lambda alarm: (-alarm.evidence, alarm.group)))


def _alarm(sums: PeriodCounts, evidence: CourseEvidence, test: int, group: int, names: Names) -> Alarm:
    """The alarm of one test of one group; `names` are labels, bins and the reference."""
    labels, bins, reference = names
    periods, kind, course = sums.periods, evidence.kinds[test], evidence.adjusted[:, test, group]
    gain, where, b, inside = evidence.gains[kind][:, group], "", 0, np.full(len(sums.bin_of), True)
    if kind == "cells":
        b = int(np.argmax(evidence.cells[:, group].max(axis=0)))
        gain, where, inside = gain[:, b], risk_range(bins.label(b)), sums.bin_of == b
    past = np.array([period in reference for period in periods])
    after = int(np.flatnonzero(past)[-1]) + 1 if past.any() else 0
    always = ep.best_always(sums.one(group, after), kind, evidence.shift[[group]], b)
    onset = onset_of(gain[after:], always, ALARM * len(labels)).later(after)
    if onset.shown and not _right_before(sums.one(group), inside, after, onset.place, evidence.shift[group]):
        onset = Onset(onset.place, after, onset.high)
    span = onset if onset.shown else Onset(after, after, after)
    people, events, expected = (
        part[:, group][:, inside].sum(axis=1) for part in (sums.people, sums.positives, sums.score)
    )
    if kind == "slope":
        half, total = gain.shape[1] // 2, gain[span.place :].sum(axis=0)
        extreme = np.logaddexp.reduce(total[:half]) > np.logaddexp.reduce(total[half:])
        size, direction = UNKNOWN, TOO_EXTREME if extreme else TOO_NARROW
    else:
        size = ratio_since(sums, group, span, inside)
        direction = "too high" if size.value < 1 else "too low"
    then = NAN
    if reference:
        then = float(events[past].sum() / expected[past].sum()) if expected[past].sum() > 0 else NAN
        direction = FALLEN if size.value < then else RISEN
    n, n_events, n_expected = (float(part[span.place :].sum()) for part in (people, events, expected))
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


def _right_before(own: PeriodCounts, inside: BoolArray, first: int, onset: int, shift: float) -> bool:
    """Whether some ranges of a group have as many events as expected in the periods before an onset."""
    people, positives, mean = (
        part[first:onset, 0][:, inside] for part in (own.people, own.positives, own.mean)
    )
    rate = mean * np.exp(shift) / (1 - mean + mean * np.exp(shift))
    spread = np.sqrt((people * rate * (1 - rate)).sum())
    return bool(abs((positives - people * rate).sum()) <= NORMAL_REACH * spread)


def claims_of(alarms: Sequence[Alarm], bins: Bins) -> tuple[CourseClaim, ...]:
    """A claim for each group with alarms that others do not explain, in the order of the alarms.

    It is the group's first alarm whose numbers show a direction; of several in one period, the level's.
    """
    own: dict[str, list[Alarm]] = {}
    for alarm in alarms:
        if not alarm.explained_by:
            own.setdefault(alarm.group, []).append(alarm)

    def order(alarm: Alarm) -> tuple[bool, str, int]:
        return not _has_direction(alarm), alarm.raised, [*KINDS].index(alarm.test)

    return tuple(_claim(min(found, key=order), bins) for found in own.values())


def _has_direction(alarm: Alarm) -> bool:
    """Whether the numbers show which way the score is wrong, not only that it was wrong at some time."""
    return known(alarm.reference_value) or not alarm.low <= 1 <= alarm.high


def _claim(alarm: Alarm, bins: Bins) -> CourseClaim:
    kind = KINDS[alarm.test]
    direction = alarm.direction if _has_direction(alarm) else ""
    edges = from_grid(bins.edges).round(6)
    where = tuple(
        Region(float(edges[b]), float(edges[b + 1]), direction)
        for b in range(len(bins))
        if alarm.where == risk_range(bins.label(b))
    )
    return CourseClaim(
        kind="overall" if kind == "group" and alarm.group == EVERYBODY.name else kind,
        who=alarm.group,
        direction=direction,
        where=where,
        since_low=alarm.onset_low if alarm.since else "",
        since_high=alarm.onset_high if alarm.since else "",
        **claim_numbers(alarm),
    )


def claim_numbers(alarm: Alarm) -> dict[str, Any]:
    """What a claim takes from its alarm, whose numbers may be protected."""
    return {
        "estimate": alarm.value,
        "p_value": min(1 / alarm.evidence, 1.0),
        "observed": alarm.events / alarm.people,
        "reference": alarm.reference_value,
        **{name: getattr(alarm, name) for name in ALIKE},
    }

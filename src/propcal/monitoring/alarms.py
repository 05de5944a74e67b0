"""Alarms: for whom, when a change began, and how large it is since."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from propcal.auditing.claims import NAN
from propcal.auditing.statistics.measures import UNKNOWN, Estimate, observed_expected
from propcal.auditing.statistics.rate_intervals import CONFIDENCE, NORMAL_REACH
from propcal.auditing.statistics.sample import Sample
from propcal.core.grid import BoolArray, FloatArray
from propcal.monitoring import e_processes as ep
from propcal.monitoring.e_processes import ALARM, CourseEvidence
from propcal.monitoring.watched_groups import PeriodCounts, Watching
from propcal.numbers import risk_range

# directions of predicted risks
TOO_EXTREME = "too extreme"
TOO_NARROW = "not extreme enough"
# directions of the O/E ratio since the reference
RISEN = "has risen"
FALLEN = "has fallen"
LARGEST_LOG_EVIDENCE = 690.0  # that is printed


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

    Beginnings are weighted like the stakes on them, and shifts equally; the interval
    holds 95 % of that weight. `always` is the log-likelihood ratio of the error that
    fits best if it was the same all the time. The start is excluded if later beginnings
    together are `line` times as likely: such a ratio is an e-process, so that it
    happens to at most 1 of `line` errors that were there from the start, at whatever
    time one looks.

    >>> gain = np.array([[-2.0], [-3.0], [4.0], [5.0]])
    >>> onset_of(gain, 4.0, 20)
    Onset(place=2, low=0, high=2, shown=False)
    >>> onset_of(gain, 0.1, 20)
    Onset(place=2, low=1, high=2, shown=True)
    """
    gain_since = np.cumsum(gain[::-1], axis=0)[::-1]
    stakes = ep.onset_stakes(len(gain)) / gain.shape[1]
    log_weight = np.log(stakes) + np.logaddexp.reduce(gain_since, axis=1)

    later_beginnings = np.logaddexp.reduce(log_weight[1:])
    shown = bool(later_beginnings - always >= np.log(line))
    if shown:
        log_weight[0] = -np.inf

    share = np.exp(log_weight - np.logaddexp.reduce(log_weight))
    order = np.argsort(-share, kind="stable")
    covered = np.cumsum(share[order])
    n_plausible = int(np.searchsorted(covered, CONFIDENCE - 1e-12)) + 1
    plausible = order[:n_plausible]

    low = int(plausible.min()) if shown else 0
    return Onset(int(order[0]), low, int(plausible.max()), shown)


def ratio_of(people: FloatArray, positives: FloatArray, score: FloatArray) -> Estimate:
    """The O/E ratio of people in narrow ranges of the score, with the interval of an
    audit.
    """
    occupied = people > 0
    n = people[occupied]
    events = positives[occupied]
    mean = np.clip(score[occupied] / n, 0.0, 1.0)
    return observed_expected(
        Sample(mean, n.astype(np.int64), n, n, events, events, None)
    )


def ratio_since(
    sums: PeriodCounts, group: int, onset: Onset, inside: Any = slice(None)
) -> Estimate:
    """O/E ratio of a group since the onset, in some ranges; its interval allows for
    every plausible onset.
    """
    counts = sums.of_group(group, inside)
    ratios = []
    for first in range(onset.low, onset.high + 1):
        totals = [part[first:].sum(axis=0) for part in counts]
        ratios.append(ratio_of(*totals))

    value = ratios[onset.place - onset.low].value
    low = np.min([ratio.low for ratio in ratios])
    high = np.max([ratio.high for ratio in ratios])
    return Estimate(float(value), float(low), float(high))


def printed_evidence(log_evidence: FloatArray) -> FloatArray:
    """Evidence as numbers that can be printed."""
    return np.asarray(np.exp(np.minimum(log_evidence, LARGEST_LOG_EVIDENCE)))


def alarms_of(
    sums: PeriodCounts, evidence: CourseEvidence, watching: Watching
) -> tuple[Alarm, ...]:
    """The alarms of each test and group, the one with the most evidence first."""
    strongest = evidence.adjusted.max(axis=0)
    raised = np.argwhere(strongest >= np.log(ALARM)).tolist()
    alarms = [_alarm(sums, evidence, test, group, watching) for test, group in raised]
    return tuple(sorted(alarms, key=lambda alarm: (-alarm.evidence, alarm.group)))


def _alarm(
    sums: PeriodCounts,
    evidence: CourseEvidence,
    test: int,
    group: int,
    watching: Watching,
) -> Alarm:
    """The alarm of one test of one group."""
    periods = sums.periods
    kind = evidence.kinds[test]
    log_evidence = evidence.adjusted[:, test, group]
    gain = evidence.gains[kind][:, group]
    inside = np.full(len(sums.bin_of), True)
    bin_index = 0
    where = ""
    if kind == "cells":
        bin_index = int(np.argmax(evidence.cells[:, group].max(axis=0)))
        gain = gain[:, bin_index]
        inside = sums.bin_of == bin_index
        where = risk_range(watching.bins.labels[bin_index])

    in_reference = sums.among(watching.reference)
    if in_reference.any():
        first = int(np.flatnonzero(in_reference)[-1]) + 1
    else:
        first = 0

    shift = evidence.shift[[group]]
    always = ep.best_always(sums.one(group, first), kind, shift, bin_index)
    line = ALARM * len(watching.groups)
    onset = onset_of(gain[first:], always, line).later(first)
    if onset.shown:
        own = sums.one(group)
        own_shift = evidence.shift[group]
        if not _right_before(own, inside, first, onset.place, own_shift):
            onset = Onset(onset.place, first, onset.high)
    # the O/E ratio is that since the onset, if the data show it
    measured = onset if onset.shown else Onset(first, first, first)

    counts = sums.of_group(group, inside)
    people = counts.people.sum(axis=1)
    events = counts.positives.sum(axis=1)
    expected = counts.score.sum(axis=1)
    if kind == "slope":
        ratio = UNKNOWN
        direction = _slope_direction(gain[measured.place :])
    else:
        ratio = ratio_since(sums, group, measured, inside)
        direction = "too high" if ratio.value < 1 else "too low"

    reference_ratio = NAN
    if watching.reference:
        expected_then = expected[in_reference].sum()
        if expected_then > 0:
            reference_ratio = float(events[in_reference].sum() / expected_then)
        direction = FALLEN if ratio.value < reference_ratio else RISEN

    n_people = float(people[measured.place :].sum())
    n_events = float(events[measured.place :].sum())
    n_expected = float(expected[measured.place :].sum())
    is_raised = log_evidence >= np.log(ALARM)
    highest = float(printed_evidence(log_evidence.max()))
    return Alarm(
        group=sums.groups[group].name,
        label=watching.labels[group],
        test=kind,
        raised=periods[int(np.argmax(is_raised))],
        evidence=highest,
        onset=periods[onset.place],
        onset_low=periods[onset.low],
        onset_high=periods[onset.high],
        value=ratio.value,
        low=ratio.low,
        high=ratio.high,
        direction=direction,
        people=n_people,
        events=n_events,
        predicted=n_expected / n_people,
        where=where,
        since=periods[onset.place] if onset.shown else "",
        reference_value=reference_ratio,
    )


def _slope_direction(gain: FloatArray) -> str:
    """Whether scores are too extreme, from the gains of tilts of (periods, tilts)."""
    total = gain.sum(axis=0)
    n_flatter = gain.shape[1] // 2
    flatter = np.logaddexp.reduce(total[:n_flatter])
    steeper = np.logaddexp.reduce(total[n_flatter:])
    return TOO_EXTREME if flatter > steeper else TOO_NARROW


def _right_before(
    own: PeriodCounts, inside: BoolArray, first: int, onset: int, shift: float
) -> bool:
    """Whether some ranges of a group have as many events as expected in the periods
    before an onset.
    """
    before = slice(first, onset)
    people = own.people[before, 0][:, inside]
    positives = own.positives[before, 0][:, inside]
    mean = own.mean[before, 0][:, inside]

    factor = np.exp(shift)
    rate = mean * factor / (1 - mean + mean * factor)
    excess = (positives - people * rate).sum()
    spread = np.sqrt((people * rate * (1 - rate)).sum())
    return bool(abs(excess) <= NORMAL_REACH * spread)

"""Alarms: for whom, when a change began, and how large it is since, with intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from propcal.auditing.claims import NAN
from propcal.auditing.intervals import CONFIDENCE, normal_quantile
from propcal.auditing.measures import Estimate, observed_expected
from propcal.auditing.sample import Sample
from propcal.core.bins import Bins
from propcal.core.grid import FloatArray
from propcal.monitoring import e_processes as ep
from propcal.monitoring.e_processes import ALARM, CourseEvidence
from propcal.monitoring.watched_groups import PeriodCounts
from propcal.numbers import risk_range

TOO_EXTREME, TOO_NARROW = "too extreme", "not extreme enough"  # predicted risks
RISEN, FALLEN = "has risen", "has fallen"  # the O/E ratio since the reference
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


def ratio_since(sums: PeriodCounts, group: int, onset: Onset, bin_index: int | None = None) -> Estimate:
    """O/E ratio of a group (in one bin) since the onset; its interval allows for every plausible onset."""
    inside = np.full(len(sums.bin_of), True) if bin_index is None else sums.bin_of == bin_index
    own = [part[:, group][:, inside] for part in (sums.people, sums.positives, sums.score)]
    found = np.array(
        [ratio_of(*(part[first:].sum(axis=0) for part in own)) for first in range(onset.low, onset.high + 1)]
    )
    value = found[onset.place - onset.low, 0]
    return Estimate(float(value), float(found[:, 1].min()), float(found[:, 2].max()))


def reference_ratio(sums: PeriodCounts, group: int, inside: Any, reference: Sequence[str]) -> float:
    """O/E ratio of some ranges (`inside`) of a group in the reference periods; missing without people."""
    then = [period in reference for period in sums.periods]
    observed, expected = (float(part[then, group][:, inside].sum()) for part in (sums.positives, sums.score))
    return observed / expected if expected > 0 else float("nan")


def printed_evidence(log_evidence: float) -> float:
    """Evidence as a number that can be printed."""
    return float(np.exp(min(log_evidence, LARGEST)))


def alarms_of(
    sums: PeriodCounts, found: CourseEvidence, labels: Sequence[str], bins: Bins, reference: Sequence[str]
) -> tuple[Alarm, ...]:
    """The alarms of each test and group, the one with the most evidence first."""
    line, made = np.log(ALARM), []
    after = 0
    if reference:
        after = max(i for i, period in enumerate(sums.periods) if period in reference) + 1
    for k, kind in enumerate(found.kinds):
        for g, label in enumerate(labels):
            course = found.adjusted[:, k, g]
            if course.max() < line:
                continue
            raised = int(np.argmax(course >= line))
            gain, where, b = found.gains[kind][:, g], "", 0
            if kind == "cells":
                b = int(np.argmax(found.cells[:, g].max(axis=0)))
                gain, where = gain[:, b], risk_range(bins.label(b))
            always = ep.best_always(sums.one(g, after), kind, found.shift[[g]], b)
            inside: Any = sums.bin_of == b if kind == "cells" else slice(None)
            onset = onset_of(gain[after:], always, ALARM * len(labels)).later(after)
            if onset.shown and not _right_before(
                sums.one(g), inside, slice(after, onset.place), found.shift[g]
            ):
                onset = Onset(onset.place, after, onset.high)
            span = onset if onset.shown else Onset(after, after, after)
            size, direction = _size(sums, kind, g, b, span, gain)
            people, events, expected = (
                float(part[span.place :, g][:, inside].sum())
                for part in (sums.people, sums.positives, sums.score)
            )
            then = np.nan
            if reference:
                then = reference_ratio(sums, g, inside, reference)
                direction = RISEN if not size[0] < then else FALLEN
            name = sums.groups[g].name
            made.append(
                Alarm(
                    name,
                    label,
                    kind,
                    sums.periods[raised],
                    printed_evidence(float(course.max())),
                    sums.periods[onset.place],
                    sums.periods[onset.low],
                    sums.periods[onset.high],
                    size[0],
                    size[1],
                    size[2],
                    direction,
                    people,
                    events,
                    expected / people,
                    where,
                    sums.periods[onset.place] if onset.shown else "",
                    reference_value=then,
                )
            )
    return tuple(sorted(made, key=lambda alarm: (-alarm.evidence, alarm.group)))


def _right_before(own: PeriodCounts, inside: Any, before: slice, shift: float) -> bool:
    """Whether some ranges of a group have as many events as expected in the periods before an onset."""
    people, positives, mean = (part[before, 0][:, inside] for part in (own.people, own.positives, own.mean))
    rate = mean * np.exp(shift) / (1 - mean + mean * np.exp(shift))
    spread = np.sqrt((people * rate * (1 - rate)).sum())
    return bool(abs((positives - people * rate).sum()) <= normal_quantile((1 + CONFIDENCE) / 2) * spread)


def _size(
    sums: PeriodCounts, kind: str, group: int, bin_index: int, onset: Onset, gain: FloatArray
) -> tuple[tuple[float, float, float], str]:
    if kind == "slope":
        total = gain[onset.place :].sum(axis=0)
        half = len(total) // 2
        extreme = np.logaddexp.reduce(total[:half]) > np.logaddexp.reduce(total[half:])
        return (np.nan, np.nan, np.nan), TOO_EXTREME if extreme else TOO_NARROW
    size = ratio_since(sums, group, onset, None if kind == "level" else bin_index)
    return size, "too high" if size[0] < 1 else "too low"

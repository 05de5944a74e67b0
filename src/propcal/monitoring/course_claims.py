"""Claims of a verdict over time: each group whose alarm no other group explains."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from propcal.auditing.claims import NAN, Claim, Kind, Region
from propcal.core.bins import Bins
from propcal.core.grid import from_grid
from propcal.core.groups import EVERYBODY
from propcal.monitoring.alarms import Alarm
from propcal.numbers import known, risk_range

KIND_OF_TEST: dict[str, Kind] = {"level": "group", "slope": "shape", "cells": "cell"}
TESTS = tuple(KIND_OF_TEST)
EDGE_DIGITS = 6


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


class StatedAlarm(NamedTuple):
    """The alarm that the verdict states for a group, by its group and test.

    `direction` is empty if the numbers do not show which way the score is wrong, only
    that it was wrong at some time.
    """

    group: str
    test: str
    direction: str


def stated_alarms(alarms: Sequence[Alarm]) -> tuple[StatedAlarm, ...]:
    """One alarm of each group whose alarms others do not explain, in the order of the
    alarms.

    It is the group's first alarm whose numbers show a direction; of several in one
    period, the level's. They must be exact numbers.
    """
    of_group: dict[str, list[Alarm]] = {}
    for alarm in alarms:
        if not alarm.explained_by:
            of_group.setdefault(alarm.group, []).append(alarm)

    stated = []
    for name, own in of_group.items():
        first = min(own, key=_order)
        direction = first.direction if _has_direction(first) else ""
        stated.append(StatedAlarm(name, first.test, direction))
    return tuple(stated)


def _order(alarm: Alarm) -> tuple[bool, str, int]:
    return not _has_direction(alarm), alarm.raised, TESTS.index(alarm.test)


def _has_direction(alarm: Alarm) -> bool:
    """Whether the numbers show which way the score is wrong."""
    return known(alarm.reference_value) or not alarm.low <= 1 <= alarm.high


def course_claim(alarm: Alarm, bins: Bins, direction: str) -> CourseClaim:
    """The claim that an alarm supports, with its numbers."""
    kind = KIND_OF_TEST[alarm.test]
    if kind == "group" and alarm.group == EVERYBODY.name:
        kind = "overall"
    return CourseClaim(
        kind=kind,
        who=alarm.group,
        label=alarm.label,
        direction=direction,
        estimate=alarm.value,
        low=alarm.low,
        high=alarm.high,
        test=alarm.test,
        p_value=min(1 / alarm.evidence, 1.0),
        people=alarm.people,
        events=alarm.events,
        observed=alarm.events / alarm.people,
        predicted=alarm.predicted,
        where=_regions(alarm, bins, direction),
        since=alarm.since,
        raised=alarm.raised,
        since_low=alarm.onset_low if alarm.since else "",
        since_high=alarm.onset_high if alarm.since else "",
        reference=alarm.reference_value,
    )


def _regions(alarm: Alarm, bins: Bins, direction: str) -> tuple[Region, ...]:
    """The risk range of an alarm of cells."""
    edges = from_grid(bins.edges).round(EDGE_DIGITS).tolist()
    regions = []
    for (low, high), label in zip(pairwise(edges), bins.labels):
        if alarm.where == risk_range(label):
            regions.append(Region(low, high, direction))
    return tuple(regions)

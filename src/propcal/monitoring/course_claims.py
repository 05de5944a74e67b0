"""What a monitor claims: one claim for each group that the verdict names, the first alarm first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from propcal.auditing.claims import NAN, Claim, Kind, Region
from propcal.core.bins import Bins
from propcal.core.grid import from_grid
from propcal.core.groups.collection import Group
from propcal.numbers import known, risk_range

if TYPE_CHECKING:
    from propcal.monitoring.alarms import Alarm

KINDS: dict[str, Kind] = {"level": "group", "slope": "shape", "cells": "cell"}


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


def claims_of(alarms: Sequence[Alarm], bins: Bins) -> tuple[CourseClaim, ...]:
    """A claim for each group with alarms that others do not explain, in the order of the alarms.

    It is the group's first alarm whose numbers show a direction; of several in one period, the level's.
    """
    own: dict[str, list[Alarm]] = {}
    for alarm in alarms:
        if not alarm.explained_by:
            own.setdefault(alarm.group, []).append(alarm)
    return tuple(
        _claim(
            min(
                found, key=lambda alarm: (not _has_direction(alarm), alarm.raised, [*KINDS].index(alarm.test))
            ),
            bins,
        )
        for found in own.values()
    )


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
        "overall" if kind == "group" and alarm.group == Group(()).name else kind,
        alarm.group,
        alarm.label,
        direction,
        alarm.value,
        alarm.low,
        alarm.high,
        alarm.test,
        min(1 / alarm.evidence, 1.0),
        alarm.people,
        alarm.events,
        alarm.predicted,
        where=where,
        since=alarm.since,
        raised=alarm.raised,
        since_low=alarm.onset_low if alarm.since else "",
        since_high=alarm.onset_high if alarm.since else "",
        reference=alarm.reference_value,
    )

"""Explained alarms: a few groups whose errors, once corrected, leave no alarm for any other group.

A score that is too high for everyone is too high for every subgroup, and one that is too high for a large
group is a little too high for everybody. So the errors of groups are taken out of the score one after the
other, the first alarm first, and a group is named if an alarm is left in it. In the end, the broadest first,
a named group is given up if the others leave neither an alarm nor an O/E ratio whose interval excludes 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from propcal.auditing.claims import NAN
from propcal.core.atoms import Atoms
from propcal.core.bins import Bins
from propcal.core.grid import BoolArray, FloatArray, IntArray, from_grid, to_grid
from propcal.core.groups.collection import Group, membership
from propcal.core.logistic import expit, log_odds
from propcal.core.patterns import PERIOD
from propcal.core.reduction import rescored
from propcal.monitoring.alarms import Alarm
from propcal.monitoring.e_processes import NEAREST
from propcal.monitoring.watched_groups import evidence_ranges
from propcal.numbers import excludes_one, listed

MOST_CORRECTED = 20  # groups whose errors are taken out
ROUNDS = 60
WIDEST = 1.0  # longest step, in log-odds
ENOUGH = 1e-3  # steps shorter than this end the rounds
APART = 0.1  # share of a group from which on its people outside of other groups are judged by themselves


class Left(NamedTuple):
    """What is left of a group's error: alarms, and what an explained alarm says of it (see `Alarm`)."""

    alarms: tuple[Alarm, ...]
    left: float = NAN
    left_low: float = NAN
    left_high: float = NAN
    left_people: float = NAN
    left_events: float = NAN


def with_explanations(
    alarms: Sequence[Alarm],
    atoms: Atoms,
    groups: Sequence[Group],
    bins: Bins,
    left_of: Callable[[Atoms, str, BoolArray], Left],
) -> tuple[Alarm, ...]:
    """The alarms, those of groups to name first; the others say in `explained_by` whose errors explain them.

    Within each part, the order is that of a group's first alarm. `left_of` judges a group (by its name) with
    other scores and some of its patterns. An alarm counts as still there if it has the same direction: a
    group may be too low only because the correction of others was too much.
    """
    if not alarms:
        return ()
    found_in: dict[str, list[Alarm]] = {}
    for alarm in alarms:
        found_in.setdefault(alarm.group, []).append(alarm)
    first = sorted(found_in, key=lambda name: min(alarm.raised for alarm in found_in[name]))
    of_group = {name: found_in[name] for name in first}
    inside = dict(zip((group.name for group in groups), membership(groups, atoms.patterns)))
    errors = _Errors(atoms, bins, {name: (inside[name], of_group[name]) for name in of_group})
    count = atoms.pattern_sums(atoms.people)

    def overlapping(name: str, others: Iterable[str]) -> list[str]:
        return [other for other in others if (inside[name] & inside[other]).any()]

    known: dict[tuple[str, ...], Left] = {}

    def left(name: str, corrected_for: Sequence[str], corrected: Atoms) -> Left:
        key = name, *corrected_for
        if key not in known:
            apart = inside[name] & ~np.any([inside[other] for other in corrected_for], axis=0)
            enough = count[apart].sum() >= APART * count[inside[name]].sum()
            known[key] = left_of(corrected, name, apart if enough else inside[name])
        return known[key]

    def alarm_in(found: Left, name: str) -> bool:
        directions = {alarm.direction for alarm in of_group[name]}
        return any(alarm.direction in directions for alarm in found.alarms)

    def remains(name: str, corrected_for: Sequence[str], corrected: Atoms) -> bool:
        if not overlapping(name, corrected_for):
            return True
        return alarm_in(left(name, corrected_for, corrected), name)

    named: list[str] = []
    corrected = atoms
    for name in of_group:
        if remains(name, named, corrected):
            named.append(name)
            if len(named) < MOST_CORRECTED:
                corrected = errors.corrected(named)
    for name in sorted(named, key=lambda name: -int(count[inside[name]].sum())):
        others = [other for other in named if other != name]
        if not overlapping(name, others):
            continue
        corrected = errors.corrected(others[:MOST_CORRECTED])
        found = left(name, others, corrected)
        if alarm_in(found, name) or excludes_one(found.left_low, found.left_high):
            continue
        alike = overlapping(name, (other for other in of_group if other not in named))
        if not any(remains(other, others, corrected) for other in alike):
            named = others
    told = [alarm for name in named for alarm in of_group[name]]
    corrected = errors.corrected(named[:MOST_CORRECTED])
    for name, own in of_group.items():
        if name not in named:
            found = left(name, named, corrected)
            cause = listed([of_group[other][0].label for other in overlapping(name, named)])
            rest = {name: getattr(found, name) for name in Left._fields[1:]}
            told += [replace(alarm, explained_by=cause, **rest) for alarm in own]
    return tuple(told)


class _Errors:
    """A logistic model of the errors of groups, fitted to all of them together.

    Each group shifts the log-odds of its people by an amount for each period, and by another for each narrow
    range of scores before and since the beginning of each of its errors. So other groups are compared with it
    at the same time, whatever the shape of its error.
    """

    def __init__(self, atoms: Atoms, bins: Bins, groups: dict[str, tuple[BoolArray, list[Alarm]]]) -> None:
        self.atoms = atoms
        self.start = log_odds(np.clip(from_grid(atoms.score), NEAREST, 1 - NEAREST))
        pattern, place = atoms.pattern_index(), atoms.patterns.attributes.index(PERIOD)
        levels = [str(level) for level in atoms.patterns.levels[place]]
        ranges = evidence_ranges(bins)
        period, risk_range = atoms.patterns.table[pattern, place], ranges.index(atoms.score)
        self.parts: dict[str, tuple[IntArray, list[IntArray]]] = {}
        for name, (members, alarms) in groups.items():
            rows = np.flatnonzero(members[pattern])
            onsets = sorted({levels.index(alarm.onset) for alarm in alarms})
            stretch = np.searchsorted(onsets, period[rows], side="right")
            self.parts[name] = rows, [period[rows], stretch * len(ranges) + risk_range[rows]]

    def corrected(self, names: Sequence[str]) -> Atoms:
        """The same people with the errors of these groups taken out of their scores."""
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
        rate, people = expit(value), self.atoms.people[rows]
        left = np.bincount(key, self.atoms.positives[rows] - people * rate)
        spread = np.bincount(key, people * rate * (1 - rate))
        return np.clip(left / np.maximum(spread, 1e-9), -WIDEST, WIDEST)

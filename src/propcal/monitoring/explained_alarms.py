"""Explained alarms: a few groups whose errors, once corrected, leave no alarm for any other group.

A score that is too high for everyone is too high for every subgroup, and one that is too high for a large
group is a little too high for everybody. So the errors of groups are taken out of the score one after the
other, the clearest first, and a group is named if its alarm is still there. In the end, a group whose error
the others explain as well is not named; the broadest group is tried first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import numpy as np

from propcal.core.atoms import Atoms
from propcal.core.bins import Bins
from propcal.core.grid import BoolArray, FloatArray, IntArray, from_grid, to_grid
from propcal.core.groups.collection import Group, membership
from propcal.core.logistic import expit, log_odds
from propcal.core.patterns import PERIOD
from propcal.core.reduction import rescored
from propcal.monitoring.course import Alarm
from propcal.monitoring.e_processes import NEAREST
from propcal.monitoring.group_months import evidence_ranges
from propcal.numbers import listed

MOST_CORRECTED = 20  # groups whose errors are taken out
ROUNDS = 60
WIDEST = 1.0  # longest step, in log-odds
ENOUGH = 1e-3  # steps shorter than this end the rounds


def with_explanations(
    alarms: Sequence[Alarm],
    atoms: Atoms,
    groups: Sequence[Group],
    bins: Bins,
    alarms_of: Callable[[Atoms, str], Iterable[Alarm]],
) -> tuple[Alarm, ...]:
    """The alarms, those of groups to name first; the others say in `explained_by` whose errors explain them.

    `alarms_of` has the alarms of a group (by its name) with other scores. An alarm counts as still there if
    it has the same direction: a group may be too low only because the correction of others was too much.
    """
    of_group: dict[str, list[Alarm]] = {}
    for alarm in alarms:
        of_group.setdefault(alarm.group, []).append(alarm)
    inside = dict(zip((group.name for group in groups), membership(groups, atoms.patterns)))
    errors = _Errors(atoms, bins, {name: (inside[name], of_group[name]) for name in of_group})

    def overlapping(name: str, others: Iterable[str]) -> list[str]:
        return [other for other in others if (inside[name] & inside[other]).any()]

    def remains(name: str, corrected_for: Sequence[str], corrected: Atoms) -> bool:
        if not overlapping(name, corrected_for):
            return True
        directions = {alarm.direction for alarm in of_group[name]}
        return any(alarm.direction in directions for alarm in alarms_of(corrected, name))

    named: list[str] = []
    corrected = atoms
    for name in of_group:
        if remains(name, named, corrected):
            named.append(name)
            if len(named) < MOST_CORRECTED:
                corrected = errors.corrected(named)
    people = {name: int(atoms.pattern_sums(atoms.people)[inside[name]].sum()) for name in named}
    for name in sorted(named, key=lambda name: -people[name]):
        others = [other for other in named if other != name]
        if not overlapping(name, others):
            continue
        corrected = errors.corrected(others[:MOST_CORRECTED])
        alike = overlapping(name, (other for other in of_group if other not in named))
        if not any(remains(other, others, corrected) for other in [name, *alike]):
            named = others
    labels = {name: own[0].label for name, own in of_group.items()}
    causes = {
        name: "" if name in named else listed([labels[other] for other in overlapping(name, named)])
        for name in of_group
    }
    told = [replace(alarm, explained_by=causes[alarm.group]) for alarm in alarms]
    return tuple(sorted(told, key=lambda alarm: bool(alarm.explained_by)))


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

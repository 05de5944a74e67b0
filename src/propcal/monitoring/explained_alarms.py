"""Explained alarms: a few groups whose errors, once corrected, leave no alarm for any other group.

Groups are named by the rule of `propcal.auditing.named_errors`: their errors are taken out of the score one
after the other, the first alarm first, and a group is named if an alarm is left in it. A named group is given
up if the others leave neither an alarm nor an O/E ratio whose interval excludes 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from propcal.auditing.claims import NAN
from propcal.auditing.named_errors import errors_to_name
from propcal.core.atoms import Atoms
from propcal.core.bins import Bins
from propcal.core.grid import BoolArray, FloatArray, IntArray, from_grid, to_grid
from propcal.core.groups import Group, membership
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


Judge = Callable[[Atoms, str, BoolArray], Left]


class ExplainedAlarms:
    """Groups with alarms as errors to name, by their names; the first alarm comes first.

    `left_of` judges a group (by its name) with other scores and some of its patterns. An alarm counts as
    still there if it has the same direction: a group may be too low only because the correction of others was
    too much.
    """

    def __init__(
        self, alarms: Sequence[Alarm], atoms: Atoms, groups: Sequence[Group], bins: Bins, left_of: Judge
    ) -> None:
        found: dict[str, list[Alarm]] = {}
        for alarm in alarms:
            found.setdefault(alarm.group, []).append(alarm)
        first = sorted(found, key=lambda name: min(alarm.raised for alarm in found[name]))
        self.of_group = {name: found[name] for name in first}
        self.inside = dict(zip((group.name for group in groups), membership(groups, atoms.patterns)))
        self.count, self.left_of = atoms.pattern_sums(atoms.people), left_of
        parts = {name: (self.inside[name], own) for name, own in self.of_group.items()}
        self.corrected = cache(_Errors(atoms, bins, parts).corrected)
        self.known: dict[tuple[str, ...], Left] = {}

    def in_order(self) -> tuple[Alarm, ...]:
        """The alarms of groups to name, then others, which say in `explained_by` whose errors explain them.

        Within each part, the order is that of a group's first alarm.
        """
        named = errors_to_name(self, len(self.of_group))
        ordered = [alarm for name in self.of_group if name in named for alarm in self.of_group[name]]
        for name, own in self.of_group.items():
            if name not in named:
                _, *rest = self.left(name, named)
                cause = listed([self.of_group[other][0].label for other in self.overlapping(name, named)])
                more: dict[str, Any] = dict(zip(Left._fields[1:], rest))
                ordered += [replace(alarm, explained_by=cause, **more) for alarm in own]
        return tuple(ordered)

    def overlapping(self, name: str, others: Iterable[str]) -> list[str]:
        """Those of the others that share people with a group."""
        return [other for other in others if (self.inside[name] & self.inside[other]).any()]

    def left(self, name: str, others: Sequence[str]) -> Left:
        """What is left of a group's error once those of the others are taken out."""
        key = name, *others
        if key not in self.known:
            apart = self.inside[name] & ~np.any([self.inside[other] for other in others], axis=0)
            enough = self.count[apart].sum() >= APART * self.count[self.inside[name]].sum()
            corrected = self.corrected(tuple(others[:MOST_CORRECTED]))
            self.known[key] = self.left_of(corrected, name, apart if enough else self.inside[name])
        return self.known[key]

    def _alarm_left(self, name: str, others: Sequence[str]) -> bool:
        if not self.overlapping(name, others):
            return True
        directions = {alarm.direction for alarm in self.of_group[name]}
        return any(alarm.direction in directions for alarm in self.left(name, others).alarms)

    def clearest(self, named: Sequence[str]) -> str | None:
        """The first alarm of what is left."""
        others = (name for name in self.of_group if name not in named)
        return next((name for name in others if self._alarm_left(name, named)), None)

    def whole_of(self, part: str, others: Sequence[str]) -> str | None:
        """A broader group with an alarm whose error, once taken out, leaves none in the part."""
        for whole in sorted(self.of_group, key=self.size, reverse=True):
            inside, beyond = self.inside[whole], self.inside[whole] & ~self.inside[part]
            if whole in others or not beyond.any() or (self.inside[part] & ~inside).any():
                continue
            apart = [other for other in others if (self.inside[other] & ~inside).any()]
            directions = [{alarm.direction for alarm in self.of_group[name]} for name in (whole, part)]
            if directions[0] & directions[1] and not self._error_left(part, [*apart, whole]):
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

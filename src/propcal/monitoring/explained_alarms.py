"""Explained alarms: which groups a verdict names, and which alarms they explain.

A verdict names few groups, by the rule of `propcal.auditing.named_errors`: their errors
are taken out of the score one after the other, the first alarm first, and a group is
named if an alarm is left in it. A named group is given up if the others leave neither
an alarm nor an O/E ratio whose interval excludes 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from propcal.auditing.claims import NAN
from propcal.auditing.named_errors import errors_to_name
from propcal.core.atoms import Atoms
from propcal.core.bins import Bins
from propcal.core.grid import BoolArray, FloatArray, IntArray, from_grid, to_grid
from propcal.core.groups import membership
from propcal.core.logistic import expit, log_odds
from propcal.core.patterns import PERIOD
from propcal.core.reduction import rescored
from propcal.monitoring.alarms import Alarm, Onset, alarms_of, ratio_since
from propcal.monitoring.e_processes import NEAREST, evidence_over_time
from propcal.monitoring.watched_groups import PeriodCounts, Watching, evidence_ranges
from propcal.numbers import excludes_one, listed

MOST_CORRECTED = 20  # groups whose errors are taken out
MOST_ROUNDS = 60
LONGEST_STEP = 1.0  # in log-odds
NEGLIGIBLE_STEP = 1e-3  # shorter steps end the rounds
# share of a group from which on its people outside of other groups are judged by
# themselves
ENOUGH_OUTSIDE = 0.1


class RemainingError(NamedTuple):
    """What remains of a group's error: alarms, and what an explained alarm says of it
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
    only because the correction of others was too much.
    """

    def __init__(
        self, alarms: Sequence[Alarm], atoms: Atoms, watching: Watching
    ) -> None:
        self.watching = watching
        self.of_group = _by_group(alarms)
        names = [group.name for group in watching.groups]
        self.number = {name: number for number, name in enumerate(names)}
        self.inside = dict(zip(names, membership(watching.groups, atoms.patterns)))
        self.people = atoms.pattern_sums(atoms.people)
        members = {name: self.inside[name] for name in self.of_group}
        model = ErrorModel(atoms, watching.bins, members, self.of_group)
        self.corrected = cache(model.corrected)
        self.known: dict[tuple[str, ...], RemainingError] = {}

    def in_order(self) -> tuple[Alarm, ...]:
        """The alarms of groups to name, then others, which say in `explained_by` whose
        errors explain them.

        Within each part, the order is that of a group's first alarm.
        """
        named = errors_to_name(self, len(self.of_group))
        of_named = []
        of_others = []
        for name, alarms in self.of_group.items():
            if name in named:
                of_named += alarms
            else:
                of_others += self._explained(name, named)
        return (*of_named, *of_others)

    def _explained(self, name: str, named: Sequence[str]) -> list[Alarm]:
        """The alarms of a group, with the named groups that explain them."""
        causes = []
        for other in self.overlapping(name, named):
            causes.append(self.of_group[other][0].label)
        remaining = self.remaining(name, named)._asdict()
        del remaining["alarms"]
        explained_by = listed(causes)
        explained = []
        for alarm in self.of_group[name]:
            explained.append(replace(alarm, explained_by=explained_by, **remaining))
        return explained

    def overlapping(self, name: str, others: Iterable[str]) -> list[str]:
        """Those of the others that share people with a group."""
        members = self.inside[name]
        overlapping = []
        for other in others:
            in_both = members & self.inside[other]
            if in_both.any():
                overlapping.append(other)
        return overlapping

    def remaining(self, name: str, others: Sequence[str]) -> RemainingError:
        """What remains of a group's error once those of the others are taken out."""
        key = name, *others
        if key not in self.known:
            members = self.inside[name]
            in_others = np.any([self.inside[each] for each in others], axis=0)
            outside = members & ~in_others
            n_outside = self.people[outside].sum()
            if n_outside >= ENOUGH_OUTSIDE * self.people[members].sum():
                judged = outside
            else:
                judged = members
            corrected = self.corrected(tuple(others[:MOST_CORRECTED]))
            self.known[key] = self._remaining_among(judged, name, corrected)
        return self.known[key]

    def _remaining_among(
        self, judged: BoolArray, name: str, corrected: Atoms
    ) -> RemainingError:
        """The alarms of some people of a group with corrected scores, if no other group
        had any evidence.
        """
        alone = self.watching.only(self.number[name])
        counts = PeriodCounts.of(corrected, alone.groups, alone.bins, judged[None])
        evidence = evidence_over_time(counts, alone.stakes, alone.reference)
        alarms = alarms_of(counts, evidence, alone)
        if alone.reference:  # the O/E ratio may have been off all the time
            return RemainingError(alarms)

        since = self.of_group[name][0].since
        first = counts.periods.index(since) if since else 0
        ratio = ratio_since(counts, 0, Onset(first, first, first))
        people = float(counts.people[first:].sum())
        events = float(counts.positives[first:].sum())
        return RemainingError(alarms, *ratio, people, events)

    def _directions(self, name: str) -> set[str]:
        """The directions of a group's alarms."""
        return {alarm.direction for alarm in self.of_group[name]}

    def _alarm_remains(self, name: str, others: Sequence[str]) -> bool:
        """Whether an alarm of a group is left once the others are taken out."""
        if not self.overlapping(name, others):
            return True
        directions = self._directions(name)
        remaining = self.remaining(name, others).alarms
        return any(alarm.direction in directions for alarm in remaining)

    def _error_remains(self, name: str, others: Sequence[str]) -> bool:
        """Whether there is still an alarm, or an O/E ratio other than 1."""
        if self._alarm_remains(name, others):
            return True
        remaining = self.remaining(name, others)
        return excludes_one(remaining.left_low, remaining.left_high)

    def clearest(self, named: Sequence[str]) -> str | None:
        """The first alarm of what is left."""
        for name in self.of_group:
            if name not in named and self._alarm_remains(name, named):
                return name
        return None

    def whole_of(self, part: str, others: Sequence[str]) -> str | None:
        """A broader group with an alarm whose error, once taken out, leaves none in the
        part.
        """
        for whole in sorted(self.of_group, key=self.size, reverse=True):
            if whole in others or not self._is_part(part, whole):
                continue
            if not self._directions(whole) & self._directions(part):
                continue
            beyond = ~self.inside[whole]
            further = []
            for each in others:
                if (self.inside[each] & beyond).any():
                    further.append(each)
            if not self._error_remains(part, [*further, whole]):
                return whole
        return None

    def _is_part(self, part: str, whole: str) -> bool:
        """Whether all people of a group, and not only they, are in another group."""
        inside = self.inside[part]
        of_whole = self.inside[whole]
        return bool((of_whole & ~inside).any() and not (inside & ~of_whole).any())

    def remains(self, one: str, others: Sequence[str]) -> bool:
        """Whether an error is left, or an alarm that only this group explains."""
        if self._error_remains(one, others):
            return True
        unnamed = [each for each in self.of_group if each not in (one, *others)]
        for each in self.overlapping(one, unnamed):
            if self._alarm_remains(each, others):
                return True
        return False

    def size(self, one: str) -> float:
        """Its people."""
        return float(self.people[self.inside[one]].sum())


def _by_group(alarms: Sequence[Alarm]) -> dict[str, list[Alarm]]:
    """The alarms of each group; the group with the first alarm comes first."""
    of_group: dict[str, list[Alarm]] = {}
    for alarm in alarms:
        of_group.setdefault(alarm.group, []).append(alarm)

    def first_raised(name: str) -> str:
        return min(alarm.raised for alarm in of_group[name])

    return {name: of_group[name] for name in sorted(of_group, key=first_raised)}


class ErrorModel:
    """A logistic model of the errors of groups, fitted to all of them together.

    Each group shifts the log-odds of its people by an amount for each period, and by
    another for each narrow range of scores before and since the beginning of each of
    its errors. So other groups are compared with it at the same time, whatever the
    shape of its error.

    `members` has the patterns of each group. `shifts` has its rows of the atoms, and
    twice the number of the shift of each row: of its period, and of its range.
    """

    def __init__(
        self,
        atoms: Atoms,
        bins: Bins,
        members: Mapping[str, BoolArray],
        alarms: Mapping[str, Sequence[Alarm]],
    ) -> None:
        self.atoms = atoms
        score = np.clip(from_grid(atoms.score), NEAREST, 1 - NEAREST)
        self.start: FloatArray = log_odds(score)

        place = atoms.patterns.attributes.index(PERIOD)
        periods = [str(level) for level in atoms.patterns.levels[place]]
        pattern = atoms.pattern_index()
        period = atoms.patterns.table[pattern, place]
        ranges = evidence_ranges(bins)
        score_range = ranges.index(atoms.score)

        self.shifts: dict[str, tuple[IntArray, list[IntArray]]] = {}
        for name, inside in members.items():
            rows = np.flatnonzero(inside[pattern])
            onsets = sorted({periods.index(alarm.onset) for alarm in alarms[name]})
            stretch = np.searchsorted(onsets, period[rows], side="right")
            of_range = stretch * len(ranges) + score_range[rows]
            self.shifts[name] = rows, [period[rows], of_range]

    def corrected(self, names: Sequence[str]) -> Atoms:
        """The people, with the errors of these groups taken out of their scores."""
        value = self.start.copy()
        for _ in range(MOST_ROUNDS):
            longest = 0.0
            for name in names:
                rows, shifts = self.shifts[name]
                for shift in shifts:
                    step = self._step(value[rows], rows, shift)
                    value[rows] += step[shift]
                    longest = max(longest, float(np.abs(step).max()))
            if longest < NEGLIGIBLE_STEP:
                break
        changed = value != self.start
        score: Any = np.where(changed, to_grid(expit(value)), self.atoms.score)
        return rescored(self.atoms, score.astype(np.int64))

    def _step(self, value: FloatArray, rows: IntArray, shift: IntArray) -> FloatArray:
        """Newton's step of each shift."""
        rate = expit(value)
        people = self.atoms.people[rows]
        excess = np.bincount(shift, self.atoms.positives[rows] - people * rate)
        spread = np.bincount(shift, people * rate * (1 - rate))
        step = excess / np.maximum(spread, 1e-9)
        return np.clip(step, -LONGEST_STEP, LONGEST_STEP)

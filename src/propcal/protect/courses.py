"""What a monitor found, as it may be handed on: its own alarms and evidence, and
protected counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import repeat
from typing import Any

import numpy as np
import pandas as pd

from propcal.auditing.claims import NAN
from propcal.auditing.headcount import Headcount, ScoreValues, everybody, score_values
from propcal.core.atoms import Atoms
from propcal.core.grid import BoolArray, IntArray, from_grid
from propcal.core.groups import membership
from propcal.core.patterns import PERIOD, Patterns
from propcal.core.reduction import by_key
from propcal.monitoring.alarms import Alarm, CourseClaim, claim_of
from propcal.monitoring.course import (
    LEFT,
    LIMITS,
    Course,
    left_out_notes,
    with_last_periods,
)
from propcal.monitoring.e_processes import ALARM
from propcal.numbers import RATIO_DIGITS, Limit, risk_range
from propcal.protect.audits import protection_note
from propcal.protect.disclosure_rule import FEWEST_MEASURED, Rule
from propcal.protect.results import protected_comparison
from propcal.protect.shown_counts import Sets, printed, shown_table, sums_of_groups

BANDS = (
    1.0,
    5.0,
    ALARM,
    100.0,
    1000.0,
)  # evidence on few people is shown as the band it lies in


def protected_course(course: Course, fewest: int | None) -> Course:
    """A course with protected counts; 0 or None protects nothing."""
    rule = Rule.asked(fewest)
    if rule is None or course._source is None:
        return course
    return _ProtectedCourse(course, rule).course()


class _ProtectedCourse:
    """The counts of a course as they are shown.

    Sets are all people, each group in each period, and the people of each alarm: those
    of its group, or of a risk range of it, since the error began; and those of the
    reference.
    """

    def __init__(self, course: Course, rule: Rule) -> None:
        assert course._source is not None
        self.exact = course
        self.rule = rule
        self.source = course._source
        self.names = course.settings["periods"]
        self.groups = [group.name for group in course.watched]
        atoms = self.source.atoms
        sets = Sets()
        whole = sets.add(Headcount.of(atoms, everybody))
        parts = by_key(atoms, PERIOD)
        places = [
            sets.add(
                Headcount.of(part, self._members),
                score_values(part, self._members(part.patterns)),
            )
            for part in map(parts.__getitem__, self.names)
        ]
        self.periods = np.concatenate(places, axis=1)  # of each group, in each period
        sets.add_sums(whole, self.periods[:1].T)
        for total, of_group in sums_of_groups(course.watched):
            sets.add_sums(self.periods[total], self.periods[of_group])
        self.of_alarm: dict[tuple[str, str, bool], int] = {}
        for alarm in course.alarms:
            for past in (False, True)[: 1 + bool(course.settings["reference"])]:
                periods = self._periods_of(alarm, past)
                ((place,),) = sets.add(*self._people_of(alarm, periods))
                self.of_alarm[alarm.group, alarm.test, past] = place
                if not alarm.where:
                    of_group = self.periods[self.groups.index(alarm.group)]
                    sets.add_sums(
                        place, of_group[np.isin(self.names, periods)][:, None]
                    )
        self.shown = sets.shown(rule)
        # evidence grows from period to period by what the events of each add: with few
        # in one, it tells them
        people = self.shown.headcount.people[:, self.periods]
        few = (rule.small(people) & (people.sum(axis=0) > 0)).any(axis=(0, 2))
        large = (people.sum(axis=(0, 2)) >= FEWEST_MEASURED) & ~few
        self.large = dict(
            zip(self.groups, large.tolist())
        )  # groups whose evidence rests on many people

    def _members(self, patterns: Patterns) -> BoolArray:
        return membership(self.exact.watched, patterns)

    def _periods_of(self, alarm: Alarm, past: bool) -> list[str]:
        """The periods that the O/E ratio of an alarm is of, or that of its
        reference.
        """
        reference = self.exact.settings["reference"]
        if past:
            return [name for name in self.names if name in reference]
        first = alarm.since or next(
            name for name in self.names if not reference or name > max(reference)
        )
        return [name for name in self.names if name >= first]

    def _people_of(
        self, alarm: Alarm, periods: Sequence[str]
    ) -> tuple[Headcount, list[ScoreValues]]:
        """The people of an alarm in some periods, and their scores if many have the
        same one.
        """
        atoms = self.source.atoms
        bins = self.source.bins
        group = self.groups.index(alarm.group)
        ranges = [
            j
            for j, label in enumerate(bins.labels)
            if alarm.where in ("", risk_range(label))
        ]

        def members(patterns: Patterns) -> BoolArray:
            place = patterns.attributes.index(PERIOD)
            inside = np.array(
                [str(level) in periods for level in patterns.levels[place]]
            )
            return np.asarray(
                self._members(patterns)[[group]] & inside[patterns.table[:, place]]
            )

        def outside(some: Atoms) -> IntArray:
            return (~np.isin(bins.index(some.score), ranges)).astype(np.int64)

        people = Headcount.of(atoms, members, outside, 2).part([0])
        edges = np.append(from_grid(bins.edges[:-1]), np.inf)
        scores = score_values(atoms, members(atoms.patterns)) or []
        return people, [
            one.between(edges[ranges[0]], edges[ranges[-1] + 1]) for one in scores
        ]

    def course(self) -> Course:
        """The course with everything replaced that counts give away."""
        exact, source, identity = self.exact, self.source, self.exact.identity
        periods = shown_table(exact.periods, self.shown, self.periods.T.ravel())
        alarms = tuple(self._alarm(alarm) for alarm in exact.alarms)
        left_out = left_out_notes(self.rule.alone(source.left_out), identity)
        evidence = self._strengths(exact.evidence, "evidence")
        strengths = [0.0 if getattr(x, "side", "") == "below" else x for x in evidence]
        again = exact.recalibration
        if again is not None:
            again = replace(
                again,
                comparison=protected_comparison(again.comparison, self.rule.fewest),
            )
        return replace(
            exact,
            alarms=alarms,
            claims=tuple(self._claim(claim, alarms) for claim in exact.claims),
            periods=periods,
            # of few people, the lower ends of bands
            evidence=exact.evidence.assign(
                evidence=np.array(strengths, dtype=np.float64)
            ),
            groups=self._groups(periods, alarms),
            people=self.shown.people_at(0),
            notes=(*source.notes, *left_out, protection_note(self.rule, identity.unit)),
            recalibration=again,
            _source=None,
        )

    def _strength(self, evidence: float, group: str) -> float:
        """Evidence as it is shown: with two digits, or its band if it rests on few
        people.
        """
        if self.large[group]:
            return float(f"{evidence:.2g}")
        return band(evidence)

    def _strengths(self, table: pd.DataFrame, column: str) -> list[float]:
        return [*map(self._strength, table[column], table["group"])]

    def _groups(self, periods: pd.DataFrame, alarms: Sequence[Alarm]) -> pd.DataFrame:
        """The table of groups: the last period and the one before are those of the
        table of periods.
        """
        table = self.exact.groups.loc[:, : LIMITS[-1]].copy()
        of_group = {a.group: a for a in alarms}
        for name in ("evidence", "highest"):
            table[name] = pd.Series(self._strengths(table, name), dtype=object)
        for name in LEFT:
            table[name] = [
                getattr(of_group.get(group), name, NAN) for group in table["group"]
            ]
        for name, outwards in zip(LIMITS, (np.floor, np.ceil)):
            table[name] = (outwards(100 * table[name]) / 100).where(
                table["group"].map(self.large)
            )
        return with_last_periods(table, periods)

    def _alarm(self, alarm: Alarm) -> Alarm:
        """An alarm whose O/E ratios follow from shown counts, without those of few
        people.

        What is left of an error once others are taken out is an estimate of a model, as
        the evidence is.
        """
        exact = (alarm.value, alarm.low, alarm.high)
        value, low, high = self.shown.ratio(
            self.of_alarm[alarm.group, alarm.test, False], exact
        )
        then = NAN
        past = self.of_alarm.get((alarm.group, alarm.test, True))
        if past is not None:
            then, *_ = self.shown.ratio(past, [alarm.reference_value] * 3)
            rose = alarm.value > alarm.reference_value
            if (value > then) != rose:
                then = NAN
        left = np.array([alarm.left_events, alarm.left_people - alarm.left_events])
        few = alarm.left_people < FEWEST_MEASURED or self.rule.small(left).any()
        rest: Any = zip(
            LEFT,
            printed(
                [getattr(alarm, name) for name in LEFT], RATIO_DIGITS, repeat(not few)
            ),
        )
        unknown: Any = dict.fromkeys(
            ("people", "events", "predicted", "left_people", "left_events"), NAN
        )
        return replace(
            alarm,
            evidence=self._strength(alarm.evidence, alarm.group),
            value=value,
            low=low,
            high=high,
            reference_value=then,
            **dict(rest),
            **unknown,
        )

    def _claim(self, claim: CourseClaim, alarms: Sequence[Alarm]) -> CourseClaim:
        """A claim with the numbers of its alarm, as they are shown."""
        (alarm,) = (
            alarm
            for alarm in alarms
            if (alarm.group, alarm.test) == (claim.who, claim.test)
        )
        return claim_of(alarm, self.source.bins, claim.direction)


def band(evidence: float) -> Limit:
    """Evidence that rests on few people, as a limit.

    >>> band(0.3), band(7.0)
    (< 1, ≥ 5)
    """
    reached = [end for end in BANDS if evidence >= end]
    if reached:
        return Limit(reached[-1], "at least")
    return Limit(BANDS[0], "below")

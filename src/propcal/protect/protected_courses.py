"""What a monitor found, for release: its alarms and evidence with protected counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import compress

import numpy as np
import pandas as pd

from propcal.auditing.audit import protection_note
from propcal.auditing.claims import NAN
from propcal.auditing.headcount import Headcount, ScoreValues, everybody, score_values
from propcal.core.atoms import Atoms
from propcal.core.grid import BoolArray, IntArray, from_grid
from propcal.core.groups import membership
from propcal.core.patterns import PERIOD, Patterns
from propcal.core.reduction import split_by
from propcal.monitoring.alarms import Alarm
from propcal.monitoring.course import Course, assembled
from propcal.monitoring.e_processes import ALARM
from propcal.monitoring.findings import CourseFindings
from propcal.monitoring.held_out import Recalibration
from propcal.numbers import RATIO_DIGITS, Limit, risk_range
from propcal.protect.disclosure_rule import FEWEST_MEASURED, Rule
from propcal.protect.protected_comparisons import protected_comparison
from propcal.protect.shown_counts import (
    Sets,
    ShownCounts,
    printed,
    shown_table,
    sums_of_groups,
)

# evidence of groups of few people is shown as the band that it lies in
BANDS = (1.0, 5.0, ALARM, 100.0, 1000.0)


def protected_course(course: Course, fewest: int | None) -> Course:
    """A course with protected counts; 0 or None protects nothing."""
    rule = Rule.asked(fewest)
    if rule is None or not course._findings.exact:
        return course
    return assembled(protected_findings(course._findings, rule))


def protected_findings(findings: CourseFindings, rule: Rule) -> CourseFindings:
    """Findings with everything replaced that reveals counts."""
    sets = _CourseSets(findings)
    shown = sets.sets.shown(rule)
    withheld = sets.groups_of_few(shown)
    alarms = []
    for alarm in findings.alarms:
        alarms.append(_protected_alarm(alarm, sets, shown, withheld))
    places = sets.of_periods.T.ravel()
    periods = shown_table(findings.periods, shown, places)
    evidence = _protected_evidence(findings.evidence, withheld)
    strengths = _protected_strengths(findings.strengths, withheld)
    people = shown.people_at(sets.whole)
    left_out = rule.to_nearest_five(findings.left_out)
    recalibration = _protected_recalibration(findings.recalibration, rule)
    note = protection_note(rule.fewest, findings.identity.unit)
    return replace(
        findings,
        periods=periods,
        evidence=evidence,
        strengths=strengths,
        alarms=tuple(alarms),
        people=people,
        events=NAN,
        left_out=left_out,
        recalibration=recalibration,
        atoms=None,
        withheld=withheld,
        protection=(note,),
    )


class _CourseSets:
    """The sets of people whose counts are behind findings.

    These are all people, each group in each period, and the people of each alarm: those
    of its group, or of a risk range of it, since the error began; and those of the
    reference.

    `of_periods` has the set of each group in each period; `of_alarm` that of the group
    and test of an alarm, or of its reference.
    """

    def __init__(self, findings: CourseFindings) -> None:
        assert findings.atoms is not None
        self.findings = findings
        self.atoms: Atoms = findings.atoms
        self.periods: list[str] = findings.settings["periods"]
        self.reference: list[str] = findings.settings["reference"]
        self.groups = [group.name for group in findings.groups]
        self.sets = Sets()
        everybody_counts = Headcount.of(self.atoms, everybody)
        self.whole = int(self.sets.add(everybody_counts).item())
        self.of_periods = self._add_periods()
        self.of_alarm: dict[tuple[str, str], int] = {}
        self.of_reference: dict[tuple[str, str], int] = {}
        for alarm in findings.alarms:
            key = alarm.group, alarm.test
            since_alarm = self._periods_since(alarm)
            self.of_alarm[key] = self._add_alarm(alarm, since_alarm)
            if self.reference:
                past = [name for name in self.periods if name in self.reference]
                self.of_reference[key] = self._add_alarm(alarm, past)

    def _add_periods(self) -> IntArray:
        """Add each group in each period; returns their places, of shape (groups,
        periods).
        """
        parts = split_by(self.atoms, PERIOD)
        places = []
        for name in self.periods:
            part = parts[name]
            counts = Headcount.of(part, self._members)
            inside = self._members(part.patterns)
            scores = score_values(part, inside)
            places.append(self.sets.add(counts, scores))
        of_periods: IntArray = np.concatenate(places, axis=1)

        self.sets.add_sums(self.whole, of_periods[:1].T)
        for total, parts_of_group in sums_of_groups(self.findings.groups):
            self.sets.add_sums(of_periods[total], of_periods[parts_of_group])
        return of_periods

    def _members(self, patterns: Patterns) -> BoolArray:
        return membership(self.findings.groups, patterns)

    def _periods_since(self, alarm: Alarm) -> list[str]:
        """The periods that the O/E ratio of an alarm is of."""
        first = alarm.since
        if not first and self.reference:
            last = max(self.reference)
            first = next(name for name in self.periods if name > last)
        return [name for name in self.periods if name >= first]

    def _add_alarm(self, alarm: Alarm, periods: Sequence[str]) -> int:
        """Add the people of an alarm in some periods; returns their place."""
        counts, scores = self._people_of(alarm, periods)
        place = int(self.sets.add(counts, scores).item())
        if not alarm.where:
            of_group = self.of_periods[self.groups.index(alarm.group)]
            periods_of_group = of_group[np.isin(self.periods, periods)]
            self.sets.add_sums(place, periods_of_group[:, None])
        return place

    def _people_of(
        self, alarm: Alarm, periods: Sequence[str]
    ) -> tuple[Headcount, list[ScoreValues]]:
        """The people of an alarm in some periods, and their scores if many have the
        same one.
        """
        atoms = self.atoms
        bins = self.findings.bins
        group = self.groups.index(alarm.group)
        ranges = list(range(len(bins.labels)))
        if alarm.where:
            ranges = [j for j in ranges if alarm.where == risk_range(bins.labels[j])]

        def members(patterns: Patterns) -> BoolArray:
            place = patterns.attributes.index(PERIOD)
            levels = [str(level) for level in patterns.levels[place]]
            inside = np.array([level in periods for level in levels])
            of_group = self._members(patterns)[[group]]
            inside_periods = inside[patterns.table[:, place]]
            return np.asarray(of_group & inside_periods)

        def outside(part: Atoms) -> IntArray:
            in_ranges = np.isin(bins.index(part.score), ranges)
            return (~in_ranges).astype(np.int64)

        counts = Headcount.of(atoms, members, outside, 2).part([0])
        lower_edges = from_grid(bins.edges[:-1])
        edges = np.append(lower_edges, np.inf)
        low = edges[ranges[0]]
        high = edges[ranges[-1] + 1]
        inside_alarm = members(atoms.patterns)
        scores = score_values(atoms, inside_alarm) or []
        return counts, [values.between(low, high) for values in scores]

    def groups_of_few(self, shown: ShownCounts) -> frozenset[str]:
        """The groups whose evidence rests on few people, in all periods or in one.

        Evidence grows from period to period by what the events of each add: with few
        events in one, it reveals them.
        """
        people = shown.headcount.people[:, self.of_periods]
        anybody = people.sum(axis=0) > 0
        small = shown.rule.small(people) & anybody
        few_in_a_period = small.any(axis=(0, 2))
        few_in_all = people.sum(axis=(0, 2)) < FEWEST_MEASURED
        few = few_in_all | few_in_a_period
        return frozenset(compress(self.groups, few))


def _shown_evidence(evidence: float, group: str, withheld: frozenset[str]) -> float:
    """Evidence with two digits, or its band if it rests on few people."""
    if group in withheld:
        return band(evidence)
    return float(f"{evidence:.2g}")


def _protected_evidence(table: pd.DataFrame, withheld: frozenset[str]) -> pd.DataFrame:
    """Evidence after each period; of few people, the lower ends of bands."""
    values = []
    for evidence, group in zip(table["evidence"], table["group"]):
        shown = _shown_evidence(evidence, group, withheld)
        is_lowest_band = getattr(shown, "side", "") == "below"
        values.append(0.0 if is_lowest_band else float(shown))
    as_array = np.array(values, dtype=np.float64)
    return table.assign(evidence=as_array)


def _protected_strengths(table: pd.DataFrame, withheld: frozenset[str]) -> pd.DataFrame:
    """Evidence as it is shown, and limits of large groups, rounded outwards."""
    table = table.copy()
    for name in ("evidence", "highest"):
        pairs = zip(table[name], table["group"])
        shown = [_shown_evidence(x, group, withheld) for x, group in pairs]
        table[name] = pd.Series(shown, dtype=object)
    large = ~table["group"].isin(withheld)
    hundredths_low = 100 * table["ratio_low"]
    low = np.floor(hundredths_low) / 100
    hundredths_high = 100 * table["ratio_high"]
    high = np.ceil(hundredths_high) / 100
    shown_low = low.where(large)
    shown_high = high.where(large)
    return table.assign(ratio_low=shown_low, ratio_high=shown_high)


def _protected_alarm(
    alarm: Alarm, sets: _CourseSets, shown: ShownCounts, withheld: frozenset[str]
) -> Alarm:
    """An alarm whose O/E ratios follow from shown counts, without those of few people.

    What is left of an error once others are taken out is an estimate of a model, as the
    evidence is.
    """
    place = sets.of_alarm[alarm.group, alarm.test]
    exact = (alarm.value, alarm.low, alarm.high)
    value, low, high = shown.ratio(place, exact)

    left_others = alarm.left_people - alarm.left_events
    left_counts = [alarm.left_events, left_others]
    few_left = (
        alarm.left_people < FEWEST_MEASURED
        or shown.rule.small(np.array(left_counts)).any()
    )
    exact_left = (alarm.left, alarm.left_low, alarm.left_high)
    are_shown = [not few_left] * len(exact_left)
    left, left_low, left_high = printed(exact_left, RATIO_DIGITS, are_shown)
    evidence = _shown_evidence(alarm.evidence, alarm.group, withheld)
    reference_value = _shown_reference(alarm, value, sets, shown)
    return replace(
        alarm,
        evidence=evidence,
        value=value,
        low=low,
        high=high,
        reference_value=reference_value,
        left=left,
        left_low=left_low,
        left_high=left_high,
        people=NAN,
        events=NAN,
        predicted=NAN,
        left_people=NAN,
        left_events=NAN,
    )


def _shown_reference(
    alarm: Alarm, shown_value: float, sets: _CourseSets, shown: ShownCounts
) -> float:
    """The O/E ratio at the reference; NaN if moved counts reverse the change since."""
    place = sets.of_reference.get((alarm.group, alarm.test))
    if place is None:
        return NAN
    exact = alarm.reference_value
    shown_reference = shown.ratio(place, [exact] * 3)[0]
    has_risen = alarm.value > exact
    if (shown_value > shown_reference) != has_risen:
        return NAN
    return shown_reference


def _protected_recalibration(
    recalibration: Recalibration | None, rule: Rule
) -> Recalibration | None:
    """Whether recalibrating would help, with protected counts."""
    if recalibration is None:
        return None
    comparison = protected_comparison(recalibration.comparison, rule.fewest)
    return replace(recalibration, comparison=comparison)


def band(evidence: float) -> Limit:
    """Evidence that rests on few people, as a limit.

    >>> band(0.3), band(7.0)
    (< 1, ≥ 5)
    """
    reached = [end for end in BANDS if evidence >= end]
    if reached:
        return Limit(reached[-1], "at least")
    return Limit(BANDS[0], "below")

"""What a monitor found, as it may be handed on: its own alarms and evidence, and protected counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import repeat
from typing import Any

import numpy as np
import pandas as pd

from propcal.auditing.audit_tables import ENDS
from propcal.auditing.claims import NAN
from propcal.auditing.headcount import Headcount, everybody, score_values
from propcal.core.grid import BoolArray
from propcal.core.groups.collection import membership
from propcal.core.patterns import PERIOD, Patterns
from propcal.core.periods_and_sites import by_key
from propcal.monitoring.alarms import Alarm, CourseClaim
from propcal.monitoring.course import LEFT, LIMITS, Course, left_out_notes
from propcal.monitoring.e_processes import ALARM
from propcal.monitoring.held_out import Recalibration
from propcal.numbers import RATIO_DIGITS, Limit, known
from propcal.protect.audits import protection_note
from propcal.protect.comparisons import protected_comparison
from propcal.protect.rule import FEWEST_MEASURED, Rule
from propcal.protect.shown_counts import ShownCounts, printed, sums_of_groups, with_shown_rates

BANDS = (1.0, 5.0, ALARM, 100.0, 1000.0)  # evidence on few people is told as the band it lies in
OF_A_PERIOD = ("people", "outcome_rate", "mean_score", *(f"observed_expected{end}" for end in ENDS))


def protected_course(course: Course, fewest: int | None) -> Course:
    """A course with protected counts; 0 or None protects nothing."""
    rule = Rule.asked(fewest)
    return course if rule is None or course._source is None else _ProtectedCourse(course, rule).course()


class _ProtectedCourse:
    """The counts of a course as they are shown; sets are all people, then each group in each period."""

    def __init__(self, course: Course, rule: Rule) -> None:
        assert course._source is not None
        self.exact, self.rule, self.source = course, rule, course._source
        self.names, self.n = course.settings["periods"], len(course.watched)
        parts = by_key(self.source.atoms, PERIOD)
        headcounts, values = [Headcount.of(self.source.atoms, everybody)], []
        sums = [(0, [1 + t * self.n for t in range(len(self.names))])]
        for t, name in enumerate(self.names):
            first = 1 + t * self.n
            headcounts.append(Headcount.of(parts[name], self._members))
            scores = score_values(parts[name], self._members(parts[name].patterns)) or []
            values += [(first + g, one) for g, one in enumerate(scores)]
            sums += [
                (first + total, [first + g for g in groups])
                for total, groups in sums_of_groups(course.watched)
            ]
        self.shown = ShownCounts.of(Headcount.joined(headcounts), rule, sums, values)
        people = self.shown.headcount.people[:, 1:].reshape(2, -1, self.n).sum(axis=1)
        large = (people.sum(axis=0) >= FEWEST_MEASURED) & ~rule.small(people).any(axis=0)
        # groups whose evidence rests on many people
        self.large = {group.name: bool(one) for group, one in zip(course.watched, large)}

    def _members(self, patterns: Patterns) -> BoolArray:
        return membership(self.exact.watched, patterns)

    def course(self) -> Course:
        """The course with everything replaced that counts give away."""
        exact, source = self.exact, self.source
        periods = with_shown_rates(exact.periods, self.shown, 1)
        alarms = tuple(self._alarm(alarm, periods) for alarm in exact.alarms)
        claims = tuple(_shown_claim(claim, alarms) for claim in exact.claims)
        groups, identity = self._groups(periods, alarms), exact.identity
        left_out = left_out_notes(self.rule.alone(source.left_out), identity)
        return replace(
            exact,
            alarms=alarms,
            claims=claims,
            periods=periods,
            evidence=self._evidence(exact.evidence, ["evidence"], limits=False),
            groups=groups,
            people=self.shown.people_at(0),
            notes=(*source.notes, *left_out, protection_note(self.rule, identity.unit)),
            recalibration=_recalibration(exact.recalibration, periods, self.rule.fewest),
            _source=None,
        )

    def _strength(self, evidence: float, group: str, limits: bool = True) -> float:
        """Evidence as it is shown: with two digits, or its band if it rests on few people."""
        return float(f"{evidence:.2g}") if self.large[group] else band(evidence, limits)

    def _evidence(self, table: pd.DataFrame, columns: Sequence[str], *, limits: bool) -> pd.DataFrame:
        table, kind = table.copy(), object if limits else np.float64
        for column in columns:
            shown = [self._strength(x, who, limits) for x, who in zip(table[column], table["group"])]
            table[column] = pd.Series(shown, dtype=kind, index=table.index)
        return table

    def _groups(self, periods: pd.DataFrame, alarms: Sequence[Alarm]) -> pd.DataFrame:
        """The table of groups: the last period and the one before are those of the table of periods."""
        table = self._evidence(self.exact.groups, ["evidence", "highest"], limits=True)
        told = {alarm.group: alarm for alarm in alarms}
        table[list(LIMITS)] = np.stack(
            [np.floor(100 * table["ratio_low"]) / 100, np.ceil(100 * table["ratio_high"]) / 100], axis=1
        )
        table.loc[[not self.large[group] for group in table["group"]], list(LIMITS)] = np.nan
        for name in LEFT:
            table[name] = [getattr(told[group], name) if group in told else NAN for group in table["group"]]
        for start, place in (("", -1), ("before_", -2)):
            if len(self.names) < -place:
                continue
            own = periods[periods["period"] == self.names[place]].set_index("group")
            for name in OF_A_PERIOD:
                values = [own.at[group, name] for group in table["group"]]
                table[f"{start}{name}"] = pd.Series(values, dtype=object, index=table.index)
        return table

    def _alarm(self, alarm: Alarm, periods: pd.DataFrame) -> Alarm:
        """An alarm without O/E ratios of few people; those of the last period are the table's."""
        own = periods[(periods["group"] == alarm.group) & (periods["period"] == self.names[-1])].iloc[0]
        names = ("value", "low", "high", "reference_value")
        told = self._ratio(alarm, names, alarm.people, alarm.events)
        if known(told["low"]) and alarm.onset == alarm.onset_low == self.names[-1] and alarm.test == "level":
            told |= {name: own[f"observed_expected{end}"] for name, end in zip(told, ENDS)}
        told |= self._ratio(alarm, LEFT, alarm.left_people, alarm.left_events)
        told |= dict.fromkeys(("people", "events", "predicted", "left_people", "left_events"), NAN)
        return replace(alarm, evidence=self._strength(alarm.evidence, alarm.group), **told)

    def _ratio(self, alarm: Alarm, names: Sequence[str], people: float, events: float) -> dict[str, Any]:
        """O/E ratios as they are printed, if they are not those of few people."""
        few = people < FEWEST_MEASURED or self.rule.small(np.array([events, people - events])).any()
        values = [getattr(alarm, name) for name in names]
        return dict(zip(names, printed(values, RATIO_DIGITS, repeat(not few))))


def _shown_claim(claim: CourseClaim, alarms: Sequence[Alarm]) -> CourseClaim:
    """A claim with the numbers of its alarm, as they are shown."""
    (alarm,) = (alarm for alarm in alarms if (alarm.group, alarm.test) == (claim.who, claim.test))
    names = {"estimate": "value", "low": "low", "high": "high", "reference": "reference_value"}
    numbers: dict[str, Any] = {name: getattr(alarm, of) for name, of in names.items()}
    numbers |= dict.fromkeys(("people", "events", "observed", "predicted"), NAN)
    return replace(claim, p_value=min(1 / alarm.evidence, 1.0), **numbers)


def band(evidence: float, limits: bool = True) -> float:
    """Evidence that rests on few people, as a limit or as the lower end of its band.

    >>> band(0.3), band(7.0), band(7.0, limits=False)
    (< 1, ≥ 5, 5.0)
    """
    reached = [end for end in BANDS if evidence >= end]
    if not reached:
        return Limit(BANDS[0], "below") if limits else 0.0
    return Limit(reached[-1], "at least") if limits else reached[-1]


def _recalibration(found: Recalibration | None, periods: pd.DataFrame, fewest: int) -> Recalibration | None:
    """O/E ratios before, if judged on one period, are those of the table of periods."""
    if found is None:
        return None
    comparison = protected_comparison(found.comparison, fewest)
    if len(found.judged) == 1:
        own = periods[periods["period"] == found.judged[0]].set_index("group")["observed_expected"]
        differences = comparison.differences.copy()
        known = (differences["measure"] == "observed_expected") & differences["group"].isin(own.index)
        differences.loc[known, "base"] = differences["group"][known].map(own)
        comparison = replace(comparison, differences=differences)
    return replace(found, comparison=comparison)

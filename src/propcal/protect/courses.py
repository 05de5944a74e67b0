"""What a monitor found, as it may be handed on: its own alarms and evidence, and protected counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import repeat
from typing import Any

import numpy as np
import pandas as pd

from propcal.auditing.claims import NAN
from propcal.auditing.headcount import Headcount, score_values
from propcal.core.groups.collection import membership
from propcal.core.patterns import PERIOD
from propcal.core.periods_and_sites import by_key
from propcal.monitoring.alarms import Alarm, CourseClaim
from propcal.monitoring.course import LEFT, LIMITS, Course, left_out_notes
from propcal.monitoring.e_processes import ALARM
from propcal.monitoring.held_out import Recalibration
from propcal.numbers import RATIO_DIGITS, Limit, known
from propcal.protect.audits import protection_note
from propcal.protect.comparisons import protected_comparison
from propcal.protect.rates import ENDS, printed, with_shown_rates
from propcal.protect.rule import FEWEST_MEASURED, Rule
from propcal.protect.shown_counts import ShownCounts, sums_of_groups

BANDS = (1.0, 5.0, ALARM, 100.0, 1000.0)  # evidence on few people is told as the band it lies in
OF_A_PERIOD = ("people", "outcome_rate", "mean_score", *(f"observed_expected{end}" for end in ENDS))


def protected_course(course: Course, fewest: int | None) -> Course:
    """A course with protected counts; 0 or None protects nothing."""
    if fewest is None or Rule(fewest).fewest <= 1 or course._source is None:
        return course
    return _ProtectedCourse(course, Rule(fewest)).course()


class _ProtectedCourse:
    """The counts of a course as they are shown; sets are all people, then each group in each period."""

    def __init__(self, course: Course, rule: Rule) -> None:
        assert course._source is not None
        self.exact, self.rule, self.atoms = course, rule, course._source.atoms
        self.names = course.settings["periods"]
        parts = by_key(self.atoms, PERIOD)
        headcounts, values = [], []
        for t, name in enumerate(self.names):
            inside = membership(course.watched, parts[name].patterns)
            headcounts.append(
                Headcount.of(parts[name], lambda patterns: membership(course.watched, patterns))
            )
            found = score_values(parts[name], inside) or []
            values += [(1 + t * len(inside) + g, own) for g, own in enumerate(found)]
        self.n = len(course.watched)
        everybody = Headcount.of(self.atoms, lambda patterns: np.ones((1, len(patterns)), dtype=np.bool_))
        sums: list[Any] = [(0, [1 + t * self.n for t in range(len(self.names))])]
        for t in range(len(self.names)):
            sums += [
                (1 + t * self.n + total, [1 + t * self.n + g for g in own])
                for total, own in sums_of_groups(course.watched)
            ]
        self.shown = ShownCounts.of(Headcount.joined([everybody, *headcounts]), rule, sums, values)

    def course(self) -> Course:
        """The course with everything replaced that counts give away."""
        exact, source = self.exact, self.exact._source
        assert source is not None
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

    def _large(self) -> dict[str, bool]:
        """Groups whose evidence rests on many people."""
        people = self.shown.headcount.people[:, 1:].reshape(2, -1, self.n).sum(axis=1)
        large = (people.sum(axis=0) >= FEWEST_MEASURED) & ~self.rule.small(people).any(axis=0)
        return {group.name: bool(one) for group, one in zip(self.exact.watched, large)}

    def _evidence(self, table: pd.DataFrame, columns: Sequence[str], *, limits: bool) -> pd.DataFrame:
        large, table = self._large(), table.copy()
        for column in columns:
            told = [
                float(f"{value:.2g}") if large[group] else band(value, limits)
                for value, group in zip(table[column], table["group"])
            ]
            table[column] = pd.Series(told, dtype=object if limits else np.float64, index=table.index)
        return table

    def _groups(self, periods: pd.DataFrame, alarms: Sequence[Alarm]) -> pd.DataFrame:
        """The table of groups: the last period and the one before are those of the table of periods."""
        table = self._evidence(self.exact.groups, ["evidence", "highest"], limits=True)
        large, told = self._large(), {alarm.group: alarm for alarm in alarms}
        table[list(LIMITS)] = np.stack(
            [np.floor(100 * table["ratio_low"]) / 100, np.ceil(100 * table["ratio_high"]) / 100], axis=1
        )
        table.loc[[not large[group] for group in table["group"]], list(LIMITS)] = np.nan
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
        """The same alarm; O/E ratios of few people are not told, and those of the last period the table's."""
        own = periods[(periods["group"] == alarm.group) & (periods["period"] == self.names[-1])].iloc[0]
        names = ("value", "low", "high", "reference_value")
        told = self._ratio(alarm, names, alarm.people, alarm.events)
        if known(told["low"]) and alarm.onset == alarm.onset_low == self.names[-1] and alarm.test == "level":
            told |= {name: own[f"observed_expected{end}"] for name, end in zip(told, ENDS)}
        told |= self._ratio(alarm, LEFT, alarm.left_people, alarm.left_events)
        evidence = float(f"{alarm.evidence:.2g}") if self._large()[alarm.group] else band(alarm.evidence)
        counts: dict[str, Any] = dict.fromkeys(
            ("people", "events", "predicted", "left_people", "left_events"), NAN
        )
        return replace(alarm, evidence=evidence, **counts, **told)

    def _ratio(self, alarm: Alarm, names: Sequence[str], people: float, events: float) -> dict[str, Any]:
        """O/E ratios as they are printed, if they are not those of few people."""
        few = people < FEWEST_MEASURED or self.rule.small(np.array([events, people - events])).any()
        return dict(
            zip(names, printed([getattr(alarm, name) for name in names], RATIO_DIGITS, repeat(not few)))
        )


def _shown_claim(claim: CourseClaim, alarms: Sequence[Alarm]) -> CourseClaim:
    """The same claim with the numbers of its alarm, as they are shown."""
    (alarm,) = (alarm for alarm in alarms if (alarm.group, alarm.test) == (claim.who, claim.test))
    return replace(
        claim,
        estimate=alarm.value,
        low=alarm.low,
        high=alarm.high,
        reference=alarm.reference_value,
        p_value=min(1 / alarm.evidence, 1.0),
        people=NAN,
        events=NAN,
        observed=NAN,
        predicted=NAN,
    )


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

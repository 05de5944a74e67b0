"""What a monitor found, as numbers, exact or protected.

Tables and claims are assembled from them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from propcal.core.atoms import Atoms
from propcal.core.bins import Bins
from propcal.core.grid import FloatArray, ratio
from propcal.core.groups import Group, group_labels
from propcal.monitoring.alarms import Alarm, alarms_of, printed_evidence, ratio_of
from propcal.monitoring.course_claims import StatedAlarm, stated_alarms
from propcal.monitoring.e_processes import (
    ALARM,
    CourseEvidence,
    evidence_over_time,
    true_events,
)
from propcal.monitoring.explained_alarms import ExplainedAlarms
from propcal.monitoring.watched_groups import (
    PeriodCounts,
    WatchedGroup,
    Watching,
    stakes_of,
)
from propcal.options import Identity

if TYPE_CHECKING:
    from propcal.monitoring.held_out import Recalibration


@dataclass(frozen=True, eq=False)
class CourseFindings:
    """What a monitor found.

    Decisions are always those of the exact numbers: alarms, their dates and directions,
    and which of them the verdict states.

    Attributes
    ----------
    groups : tuple of Group
    bins : Bins
        Risk ranges.
    periods : DataFrame
        Counts, rates and the O/E ratio of each group in each period.
    evidence : DataFrame
        Each test of each group after each period, and whether its alarm was raised.
    strengths : DataFrame
        Each group: its evidence now and at its highest, when its first alarm was
        raised, and limits of its O/E ratio over the whole time.
    alarms : tuple of Alarm
    stated : tuple of StatedAlarm
        The alarms that the verdict states.
    people, events : int, or what can be said of them
        Of all periods; `left_out` are people without a score or an outcome.
    notes : tuple of str
        About the data, and about their protection.
    settings : dict
    identity : Identity
    recalibration : Recalibration, optional
    atoms : Atoms, optional
        What the findings were computed from; none if they are protected.
    withheld : frozenset of str
        Groups of few people: their limits are withheld, and their evidence is known
        only as a band. A maximum or a count over groups that leaves them out says
        nothing about them.
    """

    groups: tuple[Group, ...]
    bins: Bins
    periods: pd.DataFrame
    evidence: pd.DataFrame
    strengths: pd.DataFrame
    alarms: tuple[Alarm, ...]
    stated: tuple[StatedAlarm, ...]
    people: Any
    events: Any
    left_out: Any
    notes: tuple[str, ...]
    settings: dict[str, Any]
    identity: Identity
    recalibration: Recalibration | None = None
    atoms: Atoms | None = None
    withheld: frozenset[str] = frozenset()
    protection: tuple[str, ...] = ()

    @property
    def exact(self) -> bool:
        """Whether nothing is protected."""
        return self.atoms is not None


def course_findings(
    atoms: Atoms,
    watched: Sequence[WatchedGroup],
    bins: Bins,
    identity: Identity,
    *,
    reference: Sequence[str],
    settings: Mapping[str, Any],
    facts: Mapping[str, Any] = MappingProxyType({}),
    left_out: int = 0,
) -> CourseFindings:
    """Evidence, alarms and ratios from counts over time; `facts` are for notes on the
    data.
    """
    from propcal.documents.sentences.course import data_notes

    groups = tuple(each.group for each in watched)
    labels = group_labels(
        groups, atoms.patterns, identity.labels, everyone=identity.everyone
    )
    stakes = stakes_of(watched)
    watching = Watching(groups, tuple(labels), stakes, bins, tuple(reference))
    counts = PeriodCounts.of(atoms, groups, bins)
    evidence = evidence_over_time(counts, watching.stakes, reference)

    alarms = alarms_of(counts, evidence, watching)
    if alarms:
        alarms = ExplainedAlarms(alarms, atoms, watching).in_order()

    found_with = {
        "reference": list(reference),
        "periods": list(counts.periods),
        "alarm": ALARM,
        "tests": list(evidence.kinds),
    }
    periods = _periods(counts, labels)
    evidence_table = _evidence(counts, evidence, labels)
    strengths = _strengths(counts, evidence, watching)
    n_people = int(counts.people[:, 0].sum())
    n_events = float(counts.positives[:, 0].sum())
    notes = data_notes(identity, settings, **facts)
    return CourseFindings(
        groups=groups,
        bins=bins,
        periods=periods,
        evidence=evidence_table,
        strengths=strengths,
        alarms=alarms,
        stated=stated_alarms(alarms),
        people=n_people,
        events=n_events,
        left_out=left_out,
        notes=tuple(notes),
        settings={**settings, **found_with},
        identity=identity,
        atoms=atoms,
    )


def _row_names(
    counts: PeriodCounts, labels: Sequence[str], tests: Sequence[str]
) -> dict[str, Any]:
    """The columns that name a row: periods first, then tests, then groups."""
    names = [group.name for group in counts.groups]
    n_groups = len(names)
    n_tests = len(tests)
    n_periods = len(counts.periods)
    n_rows_of_period = n_tests * n_groups
    tests_of_period = np.repeat(tests, n_groups)
    label_array = np.array(labels, dtype=object)
    return {
        "period": np.repeat(counts.periods, n_rows_of_period),
        "test": np.tile(tests_of_period, n_periods),
        "group": np.tile(names, n_periods * n_tests),
        "label": np.tile(label_array, n_periods * n_tests),
    }


def _periods(counts: PeriodCounts, labels: Sequence[str]) -> pd.DataFrame:
    """Each group in each period."""
    n_ranges = counts.people.shape[2]
    people = counts.people.reshape(-1, n_ranges)
    positives = counts.positives.reshape(-1, n_ranges)
    score = counts.score.reshape(-1, n_ranges)
    ratios = [ratio_of(*row) for row in zip(people, positives, score)]
    value, low, high = np.array(ratios).T

    n = people.sum(axis=1)
    n_positives = positives.sum(axis=1)
    outcome_rate = ratio(n_positives, n)
    mean_score = ratio(score.sum(axis=1), n)
    numbers = {
        "people": n.astype(np.int64),
        "positives": n_positives.astype(np.int64),
        "outcome_rate": outcome_rate,
        "mean_score": mean_score,
        "observed_expected": value,
        "observed_expected_low": low,
        "observed_expected_high": high,
    }
    names = _row_names(counts, labels, [""])
    del names["test"]
    return pd.DataFrame(names | numbers)


def _evidence(
    counts: PeriodCounts, evidence: CourseEvidence, labels: Sequence[str]
) -> pd.DataFrame:
    """Each test of each group after each period."""
    value = printed_evidence(evidence.adjusted)
    highest_so_far = np.maximum.accumulate(value, axis=0)
    alarm = highest_so_far >= ALARM
    numbers = {"evidence": value.ravel(), "alarm": alarm.ravel()}
    names = _row_names(counts, labels, evidence.kinds)
    return pd.DataFrame(names | numbers)


def _strengths(
    counts: PeriodCounts, evidence: CourseEvidence, watching: Watching
) -> pd.DataFrame:
    """The evidence of each group, and limits of its O/E ratio over the whole time."""
    kinds = np.array(evidence.kinds)
    strongest = evidence.adjusted.max(axis=1)
    highest_of_test = evidence.adjusted.max(axis=0)
    above_line = strongest >= np.log(ALARM)
    raised = above_line.any(axis=0)
    first_above = above_line.argmax(axis=0)
    first_raised = np.array(counts.periods)[first_above]
    low, high = _ratio_limits(counts, watching.stakes)
    names = np.array([group.name for group in counts.groups])
    labels = np.array(watching.labels, dtype=object)
    evidence_now = printed_evidence(strongest[-1])
    test_now = evidence.adjusted[-1].argmax(axis=0)
    highest = printed_evidence(strongest.max(axis=0))
    highest_test = highest_of_test.argmax(axis=0)
    period_raised = np.where(raised, first_raised, "")
    return pd.DataFrame(
        {
            "group": names,
            "label": labels,
            "evidence": evidence_now,
            "test": kinds[test_now],
            "highest": highest,
            "highest_test": kinds[highest_test],
            "alarm": raised,
            "raised": period_raised,
            "ratio_low": low,
            "ratio_high": high,
        }
    )


def _ratio_limits(
    counts: PeriodCounts, stakes: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Limits of each group's O/E ratio that hold for all groups, at every look."""
    events = counts.positives.sum(axis=(0, 2))
    expected = counts.score.sum(axis=(0, 2))
    limits = [true_events(n, ALARM / stake) for n, stake in zip(events, stakes)]
    low, high = np.array(limits).T
    return ratio(low, expected), ratio(high, expected)

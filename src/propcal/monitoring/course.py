"""Course: what a monitor found over time, as tables, alarms and claims, made from
counts over time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from propcal.auditing.claims import NAN
from propcal.auditing.printable_results import Drawn
from propcal.core.arguments import FEWEST_SHOWN, check_choice
from propcal.core.atoms import Atoms
from propcal.core.bins import Bins
from propcal.core.grid import FloatArray, ratio
from propcal.core.groups import Group, group_labels
from propcal.monitoring.alarms import (
    Alarm,
    CourseClaim,
    ExplainedAlarms,
    alarms_of,
    claims_of,
    printed_evidence,
    ratio_of,
)
from propcal.monitoring.e_processes import (
    ALARM,
    CourseEvidence,
    evidence_over_time,
    true_events,
)
from propcal.monitoring.watched_groups import PeriodCounts, WatchedGroup, stakes_of
from propcal.options import Identity

if TYPE_CHECKING:
    from propcal.documents.blocks import Document
    from propcal.monitoring.held_out import Recalibration

ALARM_RAISED = "alarm"
NO_ALARM = "no alarm"
LEFT = ("left", "left_low", "left_high")
LIMITS = ("ratio_low", "ratio_high")


@dataclass(frozen=True, eq=False)
class CourseSource:
    """What a course was computed from: pages that are handed on protect its counts.

    `left_out` is the number of people without a score or an outcome, `notes` are the
    notes without theirs.
    """

    atoms: Atoms
    bins: Bins
    notes: tuple[str, ...] = ()
    left_out: int = 0


@dataclass(frozen=True, eq=False, repr=False)
class Course(Drawn):
    """What was found over time.

    Attributes
    ----------
    conclusion : str
        "alarm" or "no alarm".
    alarms : tuple of Alarm
        Those of groups that the verdict names come first, and among them the first that
        were raised.
    claims : tuple of CourseClaim
        What the verdict states, one claim for each group that it names, in the order of
        the alarms.
    periods : DataFrame
        The ordinary picture: each group in each period, with its O/E ratio and 95 %
        interval, which is not adjusted for the number of groups nor of looks.
    evidence : DataFrame
        Each test of each group after each period, adjusted for the number of tests. An
        alarm is raised at 20.
    groups : DataFrame
        Each group: its evidence now and at its highest, whether the verdict names it or
        what is left of its alarm (see `Alarm`), 95 % limits of its O/E ratio over the
        whole time that hold for all groups at once and at every look, and the last
        period beside the one before.
    people : int, or a limit
        All people of all periods.
    sentences : tuple of str
        The claims in words, the verdict first.
    notes : tuple of str
    settings : dict
    identity : Identity
    recalibration : Recalibration, optional
        Whether recalibrating would help, if that was asked.
    watched : tuple of Group
        The groups, in the order of `groups`.

    Examples
    --------
    >>> from propcal import Monitor
    >>> from propcal.datasets import make_ed_visits
    >>> visits = make_ed_visits(2000, seed=1).assign(day="2025-01-15")
    >>> monitor = Monitor(score="true_risk", outcome="admitted", time="day")
    >>> added = monitor.add(visits)
    >>> course = monitor.course()
    >>> course.conclusion, course.periods.people.tolist()
    ('no alarm', [2000])
    """

    conclusion: str
    alarms: tuple[Alarm, ...]
    claims: tuple[CourseClaim, ...]
    periods: pd.DataFrame
    evidence: pd.DataFrame
    groups: pd.DataFrame
    people: float
    notes: tuple[str, ...]
    settings: dict[str, Any]
    identity: Identity = field(default_factory=Identity)
    recalibration: Recalibration | None = None
    watched: tuple[Group, ...] = field(default=(), repr=False)
    _source: CourseSource | None = field(default=None, repr=False)

    @property
    def sentences(self) -> tuple[str, ...]:
        from propcal.documents.course import course_sentences

        return course_sentences(self)

    @property
    def last(self) -> str:
        """The last period that has people."""
        return str(self.settings["periods"][-1])

    @property
    def ranked(self) -> pd.DataFrame:
        """The groups as tables list them: those that the verdict names, other alarms,
        then by evidence.
        """
        place = {alarm.group: -i for i, alarm in reversed(list(enumerate(self.alarms)))}
        order = [place.get(name, -len(self.alarms)) for name in self.groups["group"]]
        by = ["_place", "highest", "group"]
        rising = [False, False, True]
        ranked = self.groups.assign(_place=order).sort_values(
            by, ascending=rising, kind="stable"
        )
        return ranked.drop(columns="_place")

    def new_alarms(self, periods: Sequence[str]) -> tuple[Alarm, ...]:
        """The alarms that were raised by one of these periods."""
        return tuple(alarm for alarm in self.alarms if alarm.raised in periods)

    def to_frame(self, kind: str = "groups") -> pd.DataFrame:
        """One of the tables: "groups", "periods", "evidence" or "alarms"."""
        check_choice("kind", kind, ("groups", "periods", "evidence", "alarms"))
        if kind == "alarms":
            return pd.DataFrame(
                [vars(alarm) for alarm in self.alarms],
                columns=list(Alarm.__annotations__),
            )
        table: pd.DataFrame = getattr(self, kind)
        return table.copy()

    def _charts(self) -> Mapping[str, Callable[..., Any]]:
        from propcal.documents.course import COURSE_CHARTS

        return COURSE_CHARTS

    def to_json(self, suppress: int | None = None) -> str:
        """Everything as JSON; with `suppress=11`, counts are protected: see the guide
        to the report.
        """
        from propcal.documents.data import course_content, json_text, rounded
        from propcal.protect.courses import protected_course

        return json_text(rounded(course_content(protected_course(self, suppress))))

    def _document(self, suppress: int = 0, title: str | None = None) -> Document:
        from propcal.documents.course import course_document
        from propcal.protect.courses import protected_course
        from propcal.protect.disclosure_rule import Rule

        return course_document(protected_course(self, Rule(suppress).fewest), title)

    def to_metrics(
        self,
        path: str | PathLike[str] | None = None,
        *,
        suppress: int = FEWEST_SHOWN,
        state: str = "",
    ) -> str:
        """The newest numbers as OpenMetrics text, for the textfile collector of
        Prometheus.

        Numbers of few people are left out, and other counts changed by up to 2, unless
        `suppress` is 0. Every number has the labels `score` and `state`, if one is
        given: the command line takes the name of the state file, so that several
        monitors can write to one folder.
        """
        from propcal.documents.data import openmetrics
        from propcal.protect.courses import protected_course
        from propcal.protect.disclosure_rule import Rule
        from propcal.render.html import write_page

        return write_page(
            openmetrics(protected_course(self, Rule(suppress).fewest), state), path
        )


def course_of(
    atoms: Atoms,
    watched: Sequence[WatchedGroup],
    bins: Bins,
    identity: Identity,
    *,
    reference: Sequence[str],
    settings: dict[str, Any],
    facts: Mapping[str, Any] = MappingProxyType({}),
    left_out: int = 0,
) -> Course:
    """Put counts over time into evidence, alarms, tables and claims; `facts` are for
    notes on the data.
    """
    groups = [one.group for one in watched]
    stakes = stakes_of(watched)
    sums = PeriodCounts.of(atoms, groups, bins)
    labels = group_labels(
        groups, atoms.patterns, identity.labels, everyone=identity.everyone
    )
    found = evidence_over_time(sums, stakes, reference)

    from propcal.documents.words import sentences

    raised = alarms_of(sums, found, labels, bins, reference)
    names = (labels, bins, reference)
    if raised:
        alarms = ExplainedAlarms(raised, atoms, groups, stakes, names).in_order()
    else:
        alarms = ()
    periods = _periods(sums, labels)
    people = int(sums.people[:, 0].sum())
    notes = sentences("course", "of_data", identity, settings, **facts)
    alike = sentences("notes", "alike", float(sums.positives[:, 0].sum()), people)
    more = {"reference": list(reference), "periods": list(sums.periods), "alarm": ALARM}
    return Course(
        conclusion=ALARM_RAISED if alarms else NO_ALARM,
        alarms=alarms,
        claims=claims_of(alarms, bins),
        periods=periods,
        evidence=_evidence(sums, found, labels),
        groups=_groups(sums, found, periods, alarms, stakes),
        people=people,
        notes=(*notes, *alike, *left_out_notes(left_out, identity)),
        settings=settings | more | {"tests": list(found.kinds)},
        identity=identity,
        watched=tuple(groups),
        _source=CourseSource(atoms, bins, tuple(notes), left_out),
    )


def left_out_notes(people: Any, identity: Identity) -> list[str]:
    """How many people could not be counted, if there were any."""
    if people:
        return [
            f"{identity.count(people)} without a score or an outcome were left out."
        ]
    return []


def _rows(
    sums: PeriodCounts, labels: Sequence[str], tests: Sequence[str]
) -> dict[str, Any]:
    """The columns that name a row: periods first, then tests, then groups."""
    n = len(sums.periods) * len(tests)
    names = [group.name for group in sums.groups]
    return {
        "period": np.repeat(sums.periods, len(tests) * len(names)),
        "test": np.tile(np.repeat(tests, len(names)), len(sums.periods)),
        "group": np.tile(names, n),
        "label": np.tile(np.array(labels, dtype=object), n),
    }


def _periods(sums: PeriodCounts, labels: Sequence[str]) -> pd.DataFrame:
    """Each group in each period."""
    counts = [
        part.reshape(-1, part.shape[2])
        for part in (sums.people, sums.positives, sums.score)
    ]
    people, positives, score = (part.sum(axis=1) for part in counts)
    value, low, high = np.array([ratio_of(*parts) for parts in zip(*counts)]).T
    numbers = {
        "people": people.astype(np.int64),
        "positives": positives.astype(np.int64),
        "outcome_rate": ratio(positives, people),
        "mean_score": ratio(score, people),
        "observed_expected": value,
        "observed_expected_low": low,
        "observed_expected_high": high,
    }
    return pd.DataFrame(_rows(sums, labels, [""]) | numbers).drop(columns="test")


def _evidence(
    sums: PeriodCounts, evidence: CourseEvidence, labels: Sequence[str]
) -> pd.DataFrame:
    """Each test of each group after each period."""
    value = printed_evidence(evidence.adjusted)
    alarm = np.maximum.accumulate(value, axis=0) >= ALARM
    found = {"evidence": value.ravel(), "alarm": alarm.ravel()}
    return pd.DataFrame(_rows(sums, labels, evidence.kinds) | found)


def _groups(
    sums: PeriodCounts,
    evidence: CourseEvidence,
    periods: pd.DataFrame,
    alarms: Sequence[Alarm],
    stakes: FloatArray,
) -> pd.DataFrame:
    """One row for each group: evidence, the verdict, and the last period beside the one
    before.
    """
    n = len(sums.groups)
    kinds = np.array(evidence.kinds)
    best = evidence.adjusted.max(axis=1)
    raised = best >= np.log(ALARM)
    last = periods[-n:].reset_index(drop=True)
    first = np.array(sums.periods)[raised.argmax(axis=0)]
    of_group = {alarm.group: alarm for alarm in alarms}
    alarm_of = [of_group.get(group.name) for group in sums.groups]
    events, expected = (part.sum(axis=(0, 2)) for part in (sums.positives, sums.score))
    limits = np.array(
        [true_events(n, ALARM / stake) for n, stake in zip(events, stakes)]
    )
    table = {
        "group": last["group"],
        "label": last["label"],
        "evidence": printed_evidence(best[-1]),
        "test": kinds[evidence.adjusted[-1].argmax(axis=0)],
        "highest": printed_evidence(best.max(axis=0)),
        "highest_test": kinds[evidence.adjusted.max(axis=0).argmax(axis=0)],
        "alarm": raised.any(axis=0),
        "raised": np.where(raised.any(axis=0), first, ""),
        "named": [alarm is not None and not alarm.explained_by for alarm in alarm_of],
        "explained_by": [
            "" if alarm is None else alarm.explained_by for alarm in alarm_of
        ],
        **{
            name: [NAN if alarm is None else getattr(alarm, name) for alarm in alarm_of]
            for name in LEFT
        },
        **{name: ratio(end, expected) for name, end in zip(LIMITS, limits.T)},
    }
    return with_last_periods(pd.DataFrame(table), periods)


def with_last_periods(table: pd.DataFrame, periods: pd.DataFrame) -> pd.DataFrame:
    """A table of all groups with the numbers of the last period and the one before."""
    n = len(table)
    numbers = ["people", *periods.columns[5:]]
    last = periods[numbers][-n:].reset_index(drop=True)
    before = (
        periods[numbers][-2 * n : -n]
        .reset_index(drop=True)
        .reindex(range(n))
        .add_prefix("before_")
    )
    return pd.concat([table, last, before], axis=1)

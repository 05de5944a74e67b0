"""Course: what a monitor found over time, as tables, alarms and claims."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Any

import pandas as pd

from propcal.auditing.claims import NAN
from propcal.auditing.printable_results import Drawn
from propcal.core.arguments import FEWEST_SHOWN, check_choice
from propcal.core.groups import Group
from propcal.monitoring.alarms import Alarm
from propcal.monitoring.course_claims import CourseClaim, course_claim
from propcal.monitoring.findings import CourseFindings
from propcal.options import Identity

if TYPE_CHECKING:
    from propcal.documents.blocks import Document
    from propcal.monitoring.held_out import Recalibration

ALARM_RAISED = "alarm"
NO_ALARM = "no alarm"


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
        period with the one before.
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
    identity: Identity
    recalibration: Recalibration | None
    watched: tuple[Group, ...]
    _findings: CourseFindings

    @property
    def sentences(self) -> tuple[str, ...]:
        from propcal.documents.course import course_sentences

        return course_sentences(self)

    @property
    def withheld(self) -> frozenset[str]:
        """The groups of few people, whose limits and evidence are protected."""
        return self._findings.withheld

    @property
    def last(self) -> str:
        """The last period that has people."""
        return str(self.settings["periods"][-1])

    @property
    def ranked(self) -> pd.DataFrame:
        """The groups as tables list them: those that the verdict names, other alarms,
        then by evidence.
        """
        place: dict[str, int] = {}
        for i, alarm in enumerate(self.alarms):
            place.setdefault(alarm.group, i)
        places = [place.get(name, len(self.alarms)) for name in self.groups["group"]]
        ranked = self.groups.assign(_place=places).sort_values(
            ["_place", "highest", "group"], ascending=[True, False, True], kind="stable"
        )
        return ranked.drop(columns="_place")

    def new_alarms(self, periods: Sequence[str]) -> tuple[Alarm, ...]:
        """The alarms that were raised by one of these periods."""
        return tuple(alarm for alarm in self.alarms if alarm.raised in periods)

    def to_frame(self, kind: str = "groups") -> pd.DataFrame:
        """One of the tables: "groups", "periods", "evidence" or "alarms"."""
        check_choice("kind", kind, ("groups", "periods", "evidence", "alarms"))
        if kind == "alarms":
            rows = [vars(alarm) for alarm in self.alarms]
            return pd.DataFrame(rows, columns=list(Alarm.__annotations__))
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
        from propcal.protect.protected_courses import protected_course

        return json_text(rounded(course_content(protected_course(self, suppress))))

    def _document(self, suppress: int = 0, title: str | None = None) -> Document:
        from propcal.documents.course import course_document
        from propcal.protect.disclosure_rule import Rule
        from propcal.protect.protected_courses import protected_course

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
        from propcal.protect.disclosure_rule import Rule
        from propcal.protect.protected_courses import protected_course
        from propcal.render.html import write_page

        course = protected_course(self, Rule(suppress).fewest)
        return write_page(openmetrics(course, state), path)


def assembled(findings: CourseFindings) -> Course:
    """The course of findings, exact or protected: tables, claims and notes."""
    return Course(
        conclusion=ALARM_RAISED if findings.alarms else NO_ALARM,
        alarms=findings.alarms,
        claims=_claims(findings),
        periods=findings.periods,
        evidence=findings.evidence,
        groups=_groups(findings),
        people=findings.people,
        notes=_notes(findings),
        settings=findings.settings,
        identity=findings.identity,
        recalibration=findings.recalibration,
        watched=findings.groups,
        _findings=findings,
    )


def _claims(findings: CourseFindings) -> tuple[CourseClaim, ...]:
    """A claim for each alarm that the verdict states."""
    alarms = {(alarm.group, alarm.test): alarm for alarm in findings.alarms}
    return tuple(
        course_claim(alarms[group, test], findings.bins, direction)
        for group, test, direction in findings.stated
    )


def _notes(findings: CourseFindings) -> tuple[str, ...]:
    """What a reader must know of the data, and of their protection."""
    from propcal.documents.sentences.notes import all_alike_notes

    notes = list(findings.notes)
    notes += all_alike_notes(findings.events, findings.people)
    if findings.left_out:
        people = findings.identity.count(findings.left_out)
        notes.append(f"{people} without a score or an outcome were left out.")
    return (*notes, *findings.protection)


def _groups(findings: CourseFindings) -> pd.DataFrame:
    """One row for each group: evidence, the verdict, and the last period with the one
    before.
    """
    of_group = {alarm.group: alarm for alarm in findings.alarms}
    alarms = [of_group.get(name) for name in findings.strengths["group"]]
    verdict = pd.DataFrame([_row_of_verdict(alarm) for alarm in alarms])
    strengths = findings.strengths.drop(columns=["ratio_low", "ratio_high"])
    limits = findings.strengths[["ratio_low", "ratio_high"]]
    last, before = _last_periods(findings.periods, len(alarms))
    parts = [strengths, verdict, limits, last, before.add_prefix("before_")]
    return pd.concat(parts, axis=1)


def _row_of_verdict(alarm: Alarm | None) -> dict[str, Any]:
    """Whether the verdict names a group, or what explains its alarm and what is left of
    it.
    """
    if alarm is None:
        unknown = {"left": NAN, "left_low": NAN, "left_high": NAN}
        return {"named": False, "explained_by": "", **unknown}
    return {
        "named": not alarm.explained_by,
        "explained_by": alarm.explained_by,
        "left": alarm.left,
        "left_low": alarm.left_low,
        "left_high": alarm.left_high,
    }


def _last_periods(
    periods: pd.DataFrame, n_groups: int
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """People, rates and ratios of each group in the last period, and in the one before;
    without numbers if there is none.
    """
    names = ["period", "group", "label", "positives"]
    numbers = periods.drop(columns=names)
    last = numbers[-n_groups:].reset_index(drop=True)
    before = numbers[-2 * n_groups : -n_groups].reset_index(drop=True)
    return last, before.reindex(range(n_groups))

"""Course: what a monitor found over time, as tables, alarms and sentences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from os import PathLike
from typing import TYPE_CHECKING, Any

import pandas as pd

from propcal.core.atoms import Atoms
from propcal.core.groups.collection import Group
from propcal.identity import Identity

if TYPE_CHECKING:
    from propcal.core.bins import Bins
    from propcal.monitoring.recalibration import Recalibration

ALARM = 20.0  # evidence at which an alarm is raised: in at most 1 of 20 monitors of calibrated scores
ALARM_RAISED, NO_ALARM = "alarm", "no alarm"
RISEN, FALLEN = "has risen", "has fallen"  # the O/E ratio since the reference


@dataclass(frozen=True)
class Alarm:
    """A group, the test that raised the alarm, when, since when, and how large the error is.

    Each test of a group has its own date, `raised`; sentences and tables have the first of them.
    `value`, `low` and `high` are the O/E ratio since the onset, of the group or (for cells) of its risk range
    `where`; for the slope they are missing, and `direction` says whether scores are too extreme. If an
    earlier period is the reference, `reference_value` is the O/E ratio at that time, and `direction` says
    whether it has risen or fallen since.
    `explained_by` names other groups: if the score were corrected for them, there would be no alarm for this
    one.
    """

    group: str
    label: str
    test: str
    raised: str
    evidence: float
    onset: str
    onset_low: str
    onset_high: str
    value: float
    low: float
    high: float
    direction: str
    where: str = ""
    explained_by: str = ""
    reference_value: float = float("nan")


@dataclass(frozen=True, eq=False)
class CourseSource:
    """What a course was computed from: a page that is handed on is computed again, from protected counts.

    `left_out` is the number of people without a score or an outcome.
    """

    atoms: Atoms
    bins: Bins
    left_out: int = 0


@dataclass(frozen=True, eq=False)
class Course:
    """What was found over time.

    Attributes
    ----------
    conclusion : str
        "alarm" or "no alarm".
    alarms : tuple of Alarm
        Those of groups that the verdict names come first, and among them the clearest.
    periods : DataFrame
        The ordinary picture: each group in each period, with its O/E ratio and 95 % interval, which is not
        adjusted for the number of groups nor of looks.
    evidence : DataFrame
        Each test of each group after each period, adjusted for the number of tests. An alarm is raised at 20.
    groups : DataFrame
        Each group: its evidence now and at its highest, and the last period beside the one before.
    sentences, notes : tuple of str
    settings : dict
    identity : Identity
    recalibration : Recalibration, optional
        Whether recalibrating would help, if that was asked.
    watched : tuple of Group
        The groups, in the order of `groups`.
    """

    conclusion: str
    alarms: tuple[Alarm, ...]
    periods: pd.DataFrame
    evidence: pd.DataFrame
    groups: pd.DataFrame
    sentences: tuple[str, ...]
    notes: tuple[str, ...]
    settings: dict[str, Any]
    identity: Identity = field(default_factory=Identity)
    recalibration: Recalibration | None = None
    watched: tuple[Group, ...] = field(default=(), repr=False)
    _source: CourseSource | None = field(default=None, repr=False)

    @property
    def last(self) -> str:
        """The last period that has people."""
        return str(self.settings["periods"][-1])

    def new_alarms(self, periods: Sequence[str]) -> tuple[Alarm, ...]:
        """The alarms that were raised by one of these periods."""
        return tuple(alarm for alarm in self.alarms if alarm.raised in periods)

    def to_frame(self, kind: str = "groups") -> pd.DataFrame:
        """One of the tables: "groups", "periods", "evidence" or "alarms"."""
        from propcal.core.grid import check_choice

        check_choice("kind", kind, ("groups", "periods", "evidence", "alarms"))
        if kind == "alarms":
            return pd.DataFrame([vars(alarm) for alarm in self.alarms], columns=list(Alarm.__annotations__))
        table: pd.DataFrame = getattr(self, kind)
        return table.copy()

    def plot(self, kind: str = "evidence", groups: Any = None, *, ax: Any = None, width: float = 6.4) -> Any:
        """Draw what was found with matplotlib (extra `plots`).

        Parameters
        ----------
        kind : {"evidence", "ratios"}
            The evidence of groups over time, with the alarm line; or the O/E ratio of each period, with its
            ordinary 95 % interval if one or two groups are drawn.
        groups : list of str, optional
            Names or labels of the groups to draw; by default the six with the most evidence.
        ax : matplotlib axes, optional
        width : float, default=6.4
            Inches of a new figure.

        Returns
        -------
        The axes.
        """
        from propcal.output.plots.course_plots import plot_course

        return plot_course(self, kind, groups, ax=ax, width=width)

    def to_json(self, suppress: int | None = None) -> str:
        """Everything as JSON; with `suppress=11` from protected counts: see the guide to the report."""
        from propcal.output.monitor.monitor_json import course_to_json

        return course_to_json(self, suppress)

    def to_html(
        self, path: str | PathLike[str] | None = None, *, suppress: int = 11, title: str | None = None
    ) -> str:
        """One page for everyone who must decide; it is one file that needs nothing else."""
        from propcal.output.monitor.monitor_page import write_monitor_page

        return write_monitor_page(self, path, suppress=suppress, title=title)

    def to_metrics(self, path: str | PathLike[str] | None = None, *, suppress: int = 11) -> str:
        """The newest numbers as OpenMetrics text, for the textfile collector of Prometheus."""
        from propcal.output.monitor.openmetrics import write_metrics

        return write_metrics(self, path, suppress=suppress)

    def __repr__(self) -> str:
        from propcal.output.monitor.monitor_text import course_text
        from propcal.output.text_blocks import as_text

        return as_text(course_text(self))

    def _repr_html_(self) -> str:
        from propcal.output.monitor.monitor_text import course_card

        return course_card(self)

"""The monitor: adds new periods to a state and tests the score for every group."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import date
from os import PathLike
from typing import Any

import numpy as np

from propcal.core.arguments import Table, check_number
from propcal.core.atoms import Atoms
from propcal.core.bins import explicit, make_bins
from propcal.core.grid import from_grid, significant
from propcal.core.groups import Groups, group_labels
from propcal.core.patterns import PERIOD
from propcal.core.reduction import replace_parts, rescored, split_by, stack
from propcal.errors import Argument, InputError, refused, shown
from propcal.monitoring.course import Course, assembled
from propcal.monitoring.findings import course_findings
from propcal.monitoring.held_out import Recalibration, would_recalibrating_help
from propcal.monitoring.watched_groups import WatchedGroup, not_watched, watch
from propcal.options import Identity
from propcal.reading.dated_people import DatedAtoms, Dating, dated_atoms
from propcal.reading.file_source import are_paths, source_of
from propcal.reading.levels import warn_of_new_levels
from propcal.reading.periods import Calendar, days, span_of
from propcal.reading.source import NamedColumns

NAMES_OF_SETTINGS = {
    "groups": "groups",
    "every": "the length of a period",
    "n_bins": "the number of risk ranges",
    "binning": "the risk ranges",
}
# what later runs may change: the atoms of earlier periods stay as they are
CHANGEABLE = ("delay", "drop_missing")
SCORE_BITS = 7  # binary digits of a score that are kept, so that the state stays small


@dataclass(kw_only=True, eq=False, repr=False)
class MonitorSettings:
    """All settings; see `propcal.Monitor` for what each of them means."""

    score: str
    outcome: str
    time: str
    groups: Sequence[str] | str | Groups = ()
    every: str = "month"
    timezone: str = "UTC"
    delay: str | int = 0
    outcome_time: str | None = None
    positive: str | float | None = None
    drop_missing: bool = False
    baseline: str | None = None
    gamma: float = 0.05
    rho: float = 0.1
    n_bins: int = 10
    binning: str | Sequence[float] = "uniform"

    def __post_init__(self) -> None:
        for name in ("score", "outcome", "time"):
            if not isinstance(getattr(self, name), str):
                raise InputError(Argument(name) + " must be the name of a column")
        self.delay = days(self.delay)
        self.groups = _definition(self.groups)
        check_number("gamma", self.gamma, above=0, at_most=1)
        check_number("rho", self.rho, above=0, at_most=1)
        if not isinstance(self.binning, str):
            edges = np.asarray(self.binning).ravel()
            self.binning = tuple(float(edge) for edge in edges)
        positive: object = self.positive
        if positive is not None and not isinstance(positive, (str, int, float, bool)):
            problem = f" must be a single value; got {shown(positive)}"
            raise InputError(Argument("positive") + problem)
        _ = self.calendar, self.reference, self.columns  # checks them

    @property
    def calendar(self) -> Calendar:
        """How time is divided."""
        return Calendar(self.every, self.timezone)

    @property
    def columns(self) -> NamedColumns:
        """What the columns are taken for."""
        return NamedColumns(
            self.score,
            self.outcome,
            groups=self.groups,
            positive=self.positive,
            drop_missing=self.drop_missing,
        )

    @property
    def reference(self) -> list[str]:
        """The periods that later ones are compared with; none if the reference is
        perfect calibration.
        """
        if self.baseline is None:
            return []
        first, dots, last = str(self.baseline).partition("..")
        if not dots:
            last = first
        try:
            periods = self.calendar.span(first, last)
        except InputError as error:
            raise InputError(Argument("baseline") + ": " + error.message) from None
        if not periods:
            problem = f": {shown(self.baseline)} ends before it begins"
            raise InputError(Argument("baseline") + problem)
        return periods

    @property
    def settings(self) -> dict[str, Any]:
        """The settings as they are written in the state."""
        return {
            f.name: _jsonable(getattr(self, f.name)) for f in fields(MonitorSettings)
        }

    def change(self, given: Mapping[str, Any]) -> None:
        """Change the settings that may change; refuse the others, and say what
        differs.
        """
        own = self.settings
        changed = {}
        for name, setting in given.items():
            value: Any = days(setting) if name == "delay" else _jsonable(setting)
            if isinstance(setting, Groups):
                columns = own[name]["columns"]
                if {*value["columns"]} == {*columns}:
                    value["columns"] = columns  # their order does not matter
            if own[name] == value:
                continue
            if name not in CHANGEABLE:
                before, now = _differing(own[name], value)
                what = NAMES_OF_SETTINGS.get(name, "the setting")
                raise refused(
                    "fixed setting", name=name, what=what, before=before, now=now
                )
            changed[name] = value
        vars(self).update(changed)


def _definition(groups: Any) -> Groups:
    """Groups by columns, or a definition that lists its columns, or one that a state
    has.
    """
    if isinstance(groups, Mapping):
        return Groups(**groups)
    if isinstance(groups, Groups):
        if groups.columns is not None:
            return groups
        return replace(groups, columns=[])
    if isinstance(groups, str):
        return Groups(columns=[groups])
    return Groups(columns=list(groups))


def _jsonable(value: Any) -> Any:
    if isinstance(value, Groups):
        return {f.name: _jsonable(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _jsonable(part) for key, part in value.items()}
    if isinstance(value, (list, tuple, np.ndarray)):
        return [_jsonable(part) for part in value]
    if isinstance(value, np.generic):
        return value.item()
    return value


def _differing(own: Any, given: Any) -> tuple[str, str]:
    """The parts that differ, in words."""
    if isinstance(own, dict) and isinstance(given, dict):
        names = [*own, *given]
        name = next(name for name in names if own.get(name) != given.get(name))
        return f"{name} {shown(own.get(name))}", f"{name} {shown(given.get(name))}"
    return shown(own), shown(given)


@dataclass(frozen=True)
class PeriodRecord:
    """What the state knows of a period in addition to its atoms: enough to notice the
    same people again.
    """

    people: int
    fingerprint: str
    left_out: int = 0
    late: bool = False


@dataclass(frozen=True)
class Added:
    """What a run changed: periods that are new, replaced, already there and the same,
    or held back.

    `replaced_people` has, for each replaced period, how many people it had and has now.
    """

    new: tuple[str, ...] = ()
    replaced: tuple[str, ...] = ()
    unchanged: tuple[str, ...] = ()
    held_back: Mapping[str, int] = field(default_factory=dict)
    undated: int = 0
    replaced_people: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    @property
    def changed(self) -> tuple[str, ...]:
        """The periods that the state did not have, or had otherwise."""
        return (*self.new, *self.replaced)


@dataclass(kw_only=True, eq=False, repr=False)
class Monitor(MonitorSettings):
    """Watch a score over time, group by group, with tests that may be checked at any
    time.

    Parameters
    ----------
    score, outcome, time : str
        Columns with the risk score, the outcome, and the date or time at which a person
        was scored. Times with an offset are converted to `timezone`; others are taken
        as they are.
    groups : list of str, or Groups
        Columns that define the groups.
    every : {"month", "day", "week", "quarter", "year"}
    timezone : str, default="UTC"
    delay : str or int, default=0
        How long after the end of a period its outcomes are known: "30d", "6w" or days.
        Younger periods are held back.
    outcome_time : str, optional
        Column with the time of the outcome, which must not be before `time`.
    baseline : str, optional
        A period, or a range such as "2025-01..2025-06", that later periods are compared
        with; by default the reference is perfect calibration.
    positive, drop_missing, gamma, rho, n_bins, binning
        As for `propcal.audit`. A group is watched from the run on in which its share of
        all people is at least `gamma`.
    labels, unit, score_name, outcome_name, title, source
        What things are called in words, as for `propcal.audit`.

    Examples
    --------
    >>> import pandas as pd
    >>> from propcal.datasets import make_ed_visits
    >>> visits = make_ed_visits(6000, seed=1)
    >>> days = pd.to_timedelta(visits.index % 90, unit="D")
    >>> visits["arrived"] = pd.to_datetime("2025-01-01") + days
    >>> columns = {"score": "true_risk", "outcome": "admitted", "time": "arrived"}
    >>> monitor = Monitor(**columns, groups=["gender"])
    >>> monitor.add(visits).new
    ('2025-01', '2025-02', '2025-03')
    >>> monitor.course().conclusion
    'no alarm'
    """

    labels: Mapping[str, Mapping[str, str]] | None = None
    unit: str = "people"
    score_name: str = ""
    outcome_name: str = ""
    title: str = ""
    source: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.identity  # checks the names
        self.atoms: Atoms | None = None
        self.records: dict[str, PeriodRecord] = {}
        self.watched: list[WatchedGroup] = []
        self.edges: list[float] = []

    @property
    def identity(self) -> Identity:
        """What things are called."""
        unit = self.unit or "people"
        labels = self.labels or {}
        return Identity(
            self.title, self.score_name, self.outcome_name, unit, labels, self.source
        )

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Monitor:
        """Read a state that `save` wrote."""
        from propcal.formats.monitor_file import load_monitor

        return load_monitor(path)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the state, whole or not at all. An existing file is replaced."""
        from propcal.formats.monitor_file import save_monitor

        save_monitor(self, path)

    @property
    def periods(self) -> tuple[str, ...]:
        """The periods of the state, in order."""
        return tuple(sorted(self.records))

    def add(
        self,
        people: Table,
        *,
        replace: Sequence[str] = (),
        as_of: date | None = None,
        na: Sequence[str] = (),
        memory_limit: str | int | None = None,
        progress: Callable[[float], None] | None = None,
    ) -> Added:
        """Add the periods of a data frame or of files.

        Periods that the state has already are left alone if their people are the same,
        and refused if they differ, unless `replace` names them. If anything is refused,
        the state does not change.

        Parameters
        ----------
        people : data frame, path, or list of these
            A path may be a pattern such as ``visits/*.parquet``.
        replace : list of str
            Periods to be replaced, because outcomes came late or rows were corrected.
        as_of : date, optional
            The day on which it is decided which periods are complete; today by default.
        na, memory_limit, progress
            As for `Atoms.from_files`.

        Returns
        -------
        Added
        """
        for period in replace:
            self.calendar.start(period)
        delay = days(self.delay)
        dating = Dating(self.time, self.calendar, self.outcome_time, delay, as_of)
        source = source_of(people, na=na, memory_limit=memory_limit, progress=progress)
        dated = dated_atoms(source, self.columns, dating)
        if not (dated.periods or dated.held_back or dated.undated):
            where = source.title if are_paths(people) else "people"
            raise InputError(f"{where}: there are no rows", argument="people")
        return self._take(dated, replace)

    def _take(self, dated: DatedAtoms, replaced: Sequence[str]) -> Added:
        """Add what was read; nothing changes before all of it is checked."""
        _refuse_missing(dated, replaced)
        before = self.records
        records = dict(before)
        changed: dict[str, Atoms] = {}
        unchanged = []
        for period, atoms in dated.periods.items():
            refuse_unmonitored(atoms)
            fingerprint = atoms.people_fingerprint()
            record = PeriodRecord(atoms.n_people, fingerprint, atoms.left_out.people)
            if period in before and period not in replaced:
                _refuse_different(period, before[period], record)
                unchanged.append(period)
                continue
            late = bool(before) and period < max(before)
            records[period] = replace(record, late=late)
            changed[period] = _coarse(atoms)

        if changed:
            self._rebuild(changed, records)
        replaced_people = {}
        for period in changed:
            if period in before:
                people_before = before[period].people
                replaced_people[period] = (people_before, records[period].people)
        return Added(
            new=tuple(period for period in changed if period not in before),
            replaced=tuple(replaced_people),
            unchanged=tuple(unchanged),
            held_back=dated.held_back,
            undated=dated.undated,
            replaced_people=replaced_people,
        )

    def _rebuild(
        self, changed: dict[str, Atoms], records: dict[str, PeriodRecord]
    ) -> None:
        try:
            atoms = replace_parts(self.atoms, changed, PERIOD)
        except InputError as error:
            raise InputError(
                "the new periods have other groups than the state: " + error.message
            ) from None
        if self.atoms is not None:
            patterns = self.atoms.patterns
            known = dict(zip(patterns.attributes, patterns.levels))
            new = stack(changed, PERIOD)
            people = new.pattern_sums(new.people)
            warn_of_new_levels(known, new.patterns, people, self.gamma)
        edges = self.edges or self._first_edges(atoms)
        watched = watch(atoms, self.columns.definition, self.gamma, self.watched)
        self.atoms = atoms
        self.records = records
        self.edges = edges
        self.watched = watched

    def _first_edges(self, atoms: Atoms) -> list[float]:
        """Edges of the risk ranges; quantiles are those of the people of the first
        run.
        """
        people: dict[str, Any] = {"score": atoms.score, "weight": atoms.weight}
        bins = make_bins(self.binning, self.n_bins, rho=self.rho, **people)
        edges: list[float] = from_grid(bins.edges).tolist()
        return edges

    def course(
        self, *, recalibrate: bool = False, held_out: int | None = None
    ) -> Course:
        """What was found so far: the evidence for each group, alarms, and the ordinary
        picture.

        Parameters
        ----------
        recalibrate : bool, default=False
            Also find out whether recalibrating on recent periods would help (this takes
            a few seconds).
        held_out : int, optional
            On how many of the last periods that is judged; by default a quarter of
            those since the onset.
        """
        from propcal import __version__

        atoms = self._atoms()
        reference = [period for period in self.reference if period in self.records]
        if self.reference and not reference:
            raise refused("empty baseline", baseline=self.baseline)
        settings = {"version": __version__, **self.settings}
        del settings["groups"]
        left_out = sum(record.left_out for record in self.records.values())
        findings = course_findings(
            atoms,
            self.watched,
            explicit(self.edges),
            self.identity,
            reference=reference,
            settings=settings,
            facts=self._facts(reference),
            left_out=left_out,
        )
        course = assembled(findings)
        if not recalibrate:
            return course
        recalibration = self.recalibration(course, held_out=held_out)
        return assembled(replace(findings, recalibration=recalibration))

    def recalibration(
        self, course: Course | None = None, *, held_out: int | None = None
    ) -> Recalibration:
        """Would recalibrating help? Fitted on recent periods except the last, and
        judged on those.
        """
        if course is None:
            course = self.course()
        return would_recalibrating_help(
            split_by(self._atoms(), PERIOD),
            since=course.claims[0].since if course.claims else "",
            held_out=held_out,
            gamma=self.gamma,
            groups=self.columns.definition,
            identity=self.identity,
        )

    def _atoms(self) -> Atoms:
        if self.atoms is None:
            raise InputError(
                "the monitor has no people yet", next_step="Add some with Monitor.add"
            )
        return self.atoms

    def _facts(self, reference: Sequence[str]) -> dict[str, Any]:
        """What a reader should know of the data; "of_data" in course.jinja says it."""
        atoms = self._atoms()
        identity = self.identity
        periods = self.periods
        all_periods = self.calendar.span(periods[0], periods[-1])
        gaps = [period for period in all_periods if period not in self.records]
        late = [period for period in periods if self.records[period].late]
        small = not_watched(atoms, self.columns.definition, self.gamma, self.watched)
        labels = group_labels(
            small, atoms.patterns, identity.labels, everyone=identity.everyone
        )
        return {
            "reference": span_of(reference) if reference else "",
            "gaps": gaps,
            "small": sorted(labels, key=lambda label: label.count(", ")),
            "late": late,
        }


def _refuse_missing(dated: DatedAtoms, replaced: Sequence[str]) -> None:
    """Refuse to replace periods without people whose outcomes are known."""
    missing = [period for period in replaced if period not in dated.periods]
    if not missing:
        return
    held_back = [period for period in missing if period in dated.held_back]
    if held_back:
        raise refused("outcomes not known", period=held_back[0])
    raise refused("nobody to replace", period=missing[0])


def _refuse_different(period: str, known: PeriodRecord, now: PeriodRecord) -> None:
    """Refuse other people, or other scores, for a period that the state has."""
    if known.fingerprint == now.fingerprint:
        return
    problem = "other people" if known.people != now.people else "other scores"
    raise refused(problem, period=period, people=known.people, now=now.people)


def refuse_unmonitored(atoms: Atoms) -> None:
    """Refuse outcomes and weights whose noise is not known."""
    if not atoms.frequencies:
        problem = "there are survey weights"
    elif atoms.soft:
        problem = "the outcomes are soft labels"
    else:
        return
    raise InputError(f"{problem}; a monitor needs outcomes of 0 and 1 without weights")


def _coarse(atoms: Atoms) -> Atoms:
    """People with scores of few digits, so that the size of a state does not grow with
    their number.
    """
    return rescored(atoms, significant(atoms.score, SCORE_BITS, decimals=2))

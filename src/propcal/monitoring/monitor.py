"""Monitor: adds new periods to a state, and says whether the score is still right for
every group.
"""

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
from propcal.core.reduction import by_key, keyed, rescored, with_parts
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

NAMES = {
    "groups": "groups",
    "every": "the length of a period",
    "n_bins": "the number of risk ranges",
    "binning": "the risk ranges",
}
FREE = (
    "delay",
    "drop_missing",
)  # what later runs may change: the atoms of earlier periods stay as they are


@dataclass(kw_only=True, eq=False, repr=False)
class MonitorSettings:
    """The one list of settings; see `propcal.Monitor` for what each of them means."""

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
        self.delay, self.groups = days(self.delay), _definition(self.groups)
        check_number("gamma", self.gamma, above=0, at_most=1)
        check_number("rho", self.rho, above=0, at_most=1)
        if not isinstance(self.binning, str):
            self.binning = tuple(
                float(edge) for edge in np.asarray(self.binning).ravel()
            )
        if self.positive is not None and not isinstance(
            self.positive, (str, int, float, bool)
        ):
            raise InputError(
                Argument("positive")
                + f" must be a single value; got {shown(self.positive)}"
            )
        _ = self.calendar, self.reference, self.columns  # checks them

    @property
    def calendar(self) -> Calendar:
        """How time is divided."""
        return Calendar(self.every, self.timezone)

    @property
    def columns(self) -> NamedColumns:
        """What the columns are taken for."""
        own = {
            name: getattr(self, name) for name in ("groups", "positive", "drop_missing")
        }
        return NamedColumns(self.score, self.outcome, **own)

    @property
    def reference(self) -> list[str]:
        """The periods that later ones are compared with; none if the reference is
        perfect calibration.
        """
        if self.baseline is None:
            return []
        first, dots, last = str(self.baseline).partition("..")
        try:
            found = self.calendar.span(first, last if dots else first)
        except InputError as error:
            raise InputError(Argument("baseline") + ": " + error.message) from None
        if not found:
            raise InputError(
                Argument("baseline") + f": {shown(self.baseline)} ends before it begins"
            )
        return found

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
        free = {}
        for name, setting in given.items():
            value: Any = days(setting) if name == "delay" else _jsonable(setting)
            if isinstance(setting, Groups) and {*value["columns"]} == {
                *own[name]["columns"]
            }:
                value["columns"] = own[name]["columns"]
            if own[name] == value:
                continue
            if name not in FREE:
                before, now = _differing(own[name], value)
                what = NAMES.get(name, "the setting")
                raise refused(
                    "fixed setting", name=name, what=what, before=before, now=now
                )
            free[name] = value
        vars(self).update(free)


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
    return Groups(columns=[groups] if isinstance(groups, str) else list(groups))


def _jsonable(value: Any) -> Any:
    if isinstance(value, Groups):
        return {f.name: _jsonable(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _jsonable(part) for key, part in value.items()}
    if isinstance(value, (list, tuple, np.ndarray)):
        return [_jsonable(part) for part in value]
    return value.item() if isinstance(value, np.generic) else value


def _differing(own: Any, given: Any) -> tuple[str, str]:
    """The parts that differ."""
    if isinstance(own, dict) and isinstance(given, dict):
        name = next(key for key in [*own, *given] if own.get(key) != given.get(key))
        return f"{name} {shown(own.get(name))}", f"{name} {shown(given.get(name))}"
    return shown(own), shown(given)


SCORE_BITS = 7  # binary digits of a score that are kept, so that the state stays small


@dataclass(frozen=True)
class PeriodRecord:
    """What the state knows of a period beside its atoms: enough to notice the same
    people again.
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
    """Watch a score over time, group by group, with tests that may be looked at as
    often as one likes.

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
        from propcal.formats.atoms_file import load_monitor

        return load_monitor(path)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the state, whole or not at all. An existing file is replaced."""
        from propcal.formats.atoms_file import save_monitor

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
        dating = Dating(
            self.time, self.calendar, self.outcome_time, days(self.delay), as_of
        )
        source = source_of(people, na=na, memory_limit=memory_limit, progress=progress)
        found = dated_atoms(source, self.columns, dating)
        if not (found.periods or found.held_back or found.undated):
            where = source.title if are_paths(people) else "people"
            raise InputError(f"{where}: there are no rows", argument="people")
        return self._take(found, replace)

    def _take(self, dated: DatedAtoms, replaced: Sequence[str]) -> Added:
        """Add what was read; nothing changes before all of it is checked."""
        missing = [period for period in replaced if period not in dated.periods]
        if missing:
            held = [period for period in missing if period in dated.held_back]
            key = "outcomes not known" if held else "nobody to replace"
            raise refused(key, period=(held or missing)[0])
        records, same, before = dict(self.records), [], self.records
        for period, atoms in dated.periods.items():
            refuse_unmonitored(atoms)
            record = PeriodRecord(
                atoms.n_people, atoms.people_fingerprint(), atoms.left_out.people
            )
            known = before.get(period)
            if known is not None and period not in replaced:
                if known.fingerprint != record.fingerprint:
                    if known.people != record.people:
                        key = "other people"
                    else:
                        key = "other scores"
                    raise refused(
                        key, period=period, people=known.people, now=record.people
                    )
                same.append(period)
                continue
            records[period] = replace(
                record, late=bool(before) and period < max(before)
            )
        changed = [period for period in dated.periods if period not in same]
        again = [period for period in changed if period in before]
        replaced_people = {
            period: (before[period].people, records[period].people) for period in again
        }
        if changed:
            self._rebuild(
                {period: _small(dated.periods[period]) for period in changed}, records
            )
        new = tuple(period for period in changed if period not in again)
        return Added(
            new,
            tuple(again),
            tuple(same),
            dated.held_back,
            dated.undated,
            replaced_people,
        )

    def _rebuild(
        self, changed: dict[str, Atoms], records: dict[str, PeriodRecord]
    ) -> None:
        try:
            atoms = with_parts(self.atoms, changed, PERIOD)
        except InputError as error:
            raise InputError(
                "the new periods have other groups than the state: " + error.message
            ) from None
        if self.atoms is not None:
            known = dict(
                zip(self.atoms.patterns.attributes, self.atoms.patterns.levels)
            )
            new = keyed(changed, PERIOD)
            warn_of_new_levels(
                known, new.patterns, new.pattern_sums(new.people), self.gamma
            )
        edges = self.edges
        if not edges:  # quantiles are those of these people
            people: dict[str, Any] = {"score": atoms.score, "weight": atoms.weight}
            edges = from_grid(
                make_bins(self.binning, self.n_bins, rho=self.rho, **people).edges
            ).tolist()
        watched = watch(atoms, self.columns.words, self.gamma, self.watched)
        self.atoms = atoms
        self.records = records
        self.edges = edges
        self.watched = watched

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
        atoms = self._atoms()
        reference = self.reference
        known = [period for period in reference if period in self.records]
        if reference and not known:
            raise refused("empty baseline", baseline=self.baseline)
        from propcal import __version__

        about = {
            name: value for name, value in self.settings.items() if name != "groups"
        }
        findings = course_findings(
            atoms,
            self.watched,
            explicit(self.edges),
            self.identity,
            reference=known,
            settings={"version": __version__, **about},
            facts=self._facts(known),
            left_out=sum(record.left_out for record in self.records.values()),
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
        course = self.course() if course is None else course
        return would_recalibrating_help(
            by_key(self._atoms(), PERIOD),
            since=course.claims[0].since if course.claims else "",
            held_out=held_out,
            gamma=self.gamma,
            groups=self.columns.words,
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
        every = self.calendar.span(periods[0], periods[-1])
        small = not_watched(atoms, self.columns.words, self.gamma, self.watched)
        labels = group_labels(
            small, atoms.patterns, identity.labels, everyone=identity.everyone
        )
        return {
            "reference": span_of(reference) if reference else "",
            "gaps": [period for period in every if period not in self.records],
            "small": sorted(labels, key=lambda label: label.count(", ")),
            "late": [period for period in periods if self.records[period].late],
        }


def refuse_unmonitored(atoms: Atoms) -> None:
    """Refuse outcomes and weights whose noise is not known."""
    if not atoms.frequencies or atoms.soft:
        if atoms.frequencies:
            what = "the outcomes are soft labels"
        else:
            what = "there are survey weights"
        raise InputError(f"{what}; a monitor needs outcomes of 0 and 1 without weights")


def _small(atoms: Atoms) -> Atoms:
    """People with scores of few digits, so that the size of a state does not grow with
    their number.
    """
    return rescored(atoms, significant(atoms.score, SCORE_BITS, decimals=2))

"""Reading people with dates: atoms of each period whose outcomes are known by now."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa

from propcal.core.atoms import Atoms
from propcal.core.patterns import PERIOD
from propcal.core.reduction import split_by
from propcal.errors import named, quoted, refused
from propcal.numbers import agreeing
from propcal.reading.duckdb_setup import fewer_threads, limited
from propcal.reading.engine_frames import atoms_of_totals, totals, with_events
from propcal.reading.file_source import (
    FileSource,
    count_file_values,
    people_relation,
    refuse_identifiers,
    refuse_same_content,
)
from propcal.reading.frames import NOT_ARROW, require
from propcal.reading.levels import level_key
from propcal.reading.patient_ids import warn_of_undeclared
from propcal.reading.periods import Calendar
from propcal.reading.source import EngineSource, NamedColumns, Source

ISO = r"\d{4}-\d\d-\d\d([ T]\d\d:\d\d(:\d\d(\.\d+)?)?)?"
OFFSET = (
    r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d(\.\d+)?)? ?(Z|[+-](0\d|1[0-4])(:?[0-5]\d)?)"
)


# days before all other dates, and the share of people that makes them suspect
LONG_BEFORE = 3653
FEW = 0.01


@dataclass(frozen=True)
class Dating:
    """When people were scored: the column, the calendar, and which periods are
    complete.

    Attributes
    ----------
    time : str
        Column with a date or a time for each person. Times without an offset count as
        local; others are converted to the time zone of the calendar.
    calendar : Calendar
    outcome_time : str, optional
        Column with the time of the outcome, which must not be before the time of the
        score.
    delay : int
        Days after the end of a period until its outcomes are known; younger periods are
        held back.
    as_of : date, optional
        The day on which it is decided which periods are complete; today if None.
    """

    time: str
    calendar: Calendar = field(default_factory=Calendar)
    outcome_time: str | None = None
    delay: int = 0
    as_of: date | None = None

    @property
    def today(self) -> date:
        """Today, in the time zone of the calendar."""
        return datetime.now(ZoneInfo(self.calendar.timezone)).date()

    @property
    def columns(self) -> list[str]:
        """The columns that hold times."""
        if self.outcome_time is None:
            return [self.time]
        return [self.time, self.outcome_time]

    def complete(self, period: str) -> bool:
        """Whether the outcomes of a period should be known."""
        end = self.calendar.end(period)
        day = self.as_of or self.today
        return end < date.max and end + timedelta(days=self.delay) <= day


@dataclass(frozen=True, eq=False)
class DatedAtoms:
    """The atoms of each complete period, the people of periods held back, and how many
    have no date.
    """

    periods: dict[str, Atoms]
    held_back: dict[str, int]
    undated: int = 0


def dated_atoms(source: Source, columns: NamedColumns, dating: Dating) -> DatedAtoms:
    """Reduce files of any size, or a frame in memory, to the atoms of each period, in
    one aggregation.
    """
    wanted = list(dict.fromkeys([*columns.wanted, *dating.columns]))
    if isinstance(source, FileSource):
        refuse_same_content(source.paths)
        with source.opened(wanted, lambda _: refused("atoms too large")) as opened:
            engine, files = opened
            require(files.names, dating.columns)
            warn_of_undeclared(
                files.names,
                wanted,
                lambda name: count_file_values(engine, files, name),
                "repeats watched",
            )
            rows = fewer_threads(
                engine, lambda: people_relation(engine, files, columns, dating.columns)
            )
            return _dated_atoms(rows, columns, dating)
    if isinstance(source, EngineSource):
        raise refused("engine monitored")
    in_arrow = {name: _arrow(column) for name, column in source.columns(wanted).items()}
    with limited(None, None) as engine:
        return _dated_atoms(engine.from_arrow(pa.table(in_arrow)), columns, dating)


def _arrow(column: Any) -> Any:
    """A column as Arrow has it; values of mixed kinds as the text of their levels."""
    if isinstance(column, (pa.Array, pa.ChunkedArray)):
        return column
    try:
        return pa.array(column, from_pandas=True)
    except NOT_ARROW:
        return pa.array([level_key(value) for value in column], pa.string())


def _dated_atoms(rows: Any, columns: NamedColumns, dating: Dating) -> DatedAtoms:
    when = _local(rows, dating.time, dating.calendar)
    undated = _check_times(rows, when, columns, dating)
    chosen = []
    for name in rows.columns:
        if name in columns.wanted or name not in dating.columns:
            chosen.append(named(name))
    chosen.append(f"{dating.calendar.sql(when)} AS {named(PERIOD)}")
    rows = rows.project(", ".join(chosen))

    rows, columns = with_events(rows, columns)
    counts = rows.aggregate(f"{named(PERIOD)}, count(*)", named(PERIOD)).fetchall()
    people = {str(name): int(n) for name, n in counts if name is not None}
    _refuse_lone_dates(people, dating)
    complete = [name for name in sorted(people) if dating.complete(name)]
    held_back = {name: people[name] for name in sorted(people) if name not in complete}
    if not complete:
        return DatedAtoms({}, held_back, undated)

    listed = ", ".join(map(quoted, complete))
    rows = rows.filter(f"{named(PERIOD)} IN ({listed})")
    refuse_identifiers(rows, columns)
    by_period = replace(columns, beside={**columns.beside, PERIOD: PERIOD})
    atoms = atoms_of_totals(*totals(rows, by_period))
    return DatedAtoms(split_by(atoms, PERIOD), held_back, undated)


def _check_times(rows: Any, when: str, columns: NamedColumns, dating: Dating) -> int:
    """Refuse unreadable dates, future ones, and those after the outcome; count missing
    ones.
    """
    time = named(dating.time)
    last_day = max(dating.today, dating.as_of or date.min)
    conditions = [
        f"{time} IS NULL",
        f"{time} IS NOT NULL AND {when} IS NULL",
        f"CAST({when} AS DATE) > DATE {quoted(last_day.isoformat())}",
    ]
    n, missing, unread, future = _counts(rows, conditions)
    if unread:
        raise refused("no dates", name=dating.time, unread=unread, n=n)
    if missing and not columns.drop_missing:
        raise refused("date missing", name=dating.time, missing=missing, n=n)
    if future:
        raise refused("future dates", name=dating.time, future=future, n=n)
    if dating.outcome_time is not None:
        _check_outcome_times(rows, when, dating.outcome_time, dating)
    return missing


def _check_outcome_times(rows: Any, when: str, name: str, dating: Dating) -> None:
    """Refuse times of outcomes that cannot be read, or are before those of scores."""
    outcome = named(name)
    then = _local(rows, name, dating.calendar)
    # a date without a time is compared by day
    is_midnight = f"{then} = date_trunc('day', {then})"
    day = f"date_trunc('day', {when})"
    scored = f"CASE WHEN {is_midnight} THEN {day} ELSE {when} END"
    conditions = [f"{outcome} IS NOT NULL AND {then} IS NULL", f"{then} < {scored}"]
    n, unread, early = _counts(rows, conditions)
    if unread:
        raise refused("no dates", name=name, unread=unread, n=n)
    if early:
        raise refused(
            "outcome before score", name=name, early=early, n=n, time=dating.time
        )


def _counts(rows: Any, conditions: list[str]) -> list[int]:
    """The number of rows, and of those that meet each condition."""
    counts = ", ".join(f"count(*) FILTER ({condition})" for condition in conditions)
    row = rows.aggregate(f"count(*), {counts}").fetchall()[0]
    return list(map(int, row))


def _refuse_lone_dates(people: dict[str, int], dating: Dating) -> None:
    """Refuse a few dates long before all others: most likely they stand for a missing
    date (1900-01-01).
    """
    names = sorted(people)
    total = sum(people.values())
    for before, after in pairwise(names):
        n = sum(count for name, count in people.items() if name <= before)
        apart = dating.calendar.start(after) - dating.calendar.start(before)
        if apart.days > LONG_BEFORE and n <= FEW * total:
            raise refused(
                "lone dates",
                name=dating.time,
                n=n,
                total=total,
                are=agreeing(n, "date is", "dates are"),
                before=before,
            )


def _local(rows: Any, name: str, calendar: Calendar) -> str:
    """The local time of a column, in DuckDB's SQL; NULL where a text is not a date."""
    kind = str(rows.types[rows.columns.index(name)]).upper()
    column = named(name)
    zone = quoted(calendar.timezone)
    # the latter in nanoseconds
    if kind == "TIMESTAMP WITH TIME ZONE" or kind.startswith("TIMESTAMPTZ"):
        return f"timezone({zone}, {column})"
    if kind == "DATE" or kind.startswith("TIMESTAMP"):
        return f"CAST({column} AS TIMESTAMP)"
    if kind == "VARCHAR" or kind.startswith("ENUM"):
        text = f"trim(CAST({column} AS VARCHAR))"
        moment = f"timezone({zone}, TRY_CAST({text} AS TIMESTAMPTZ))"
        local = f"TRY_CAST({text} AS TIMESTAMP)"
        return (
            f"CASE WHEN regexp_full_match({text}, {quoted(ISO)}) THEN {local} "
            f"WHEN regexp_full_match({text}, {quoted(OFFSET)}) THEN {moment} END"
        )
    n = int(rows.aggregate(f"count({column})").fetchall()[0][0])
    if not n:  # nobody has a date
        return "CAST(NULL AS TIMESTAMP)"
    raise refused("no dates", name=name, unread=n, n=n)

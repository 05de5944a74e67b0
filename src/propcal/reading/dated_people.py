"""People with dates: reduces files or frames to the atoms of each period whose outcomes
are known by now.
"""

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
        with source.opened(wanted, lambda _: refused("atoms too large")) as (
            engine,
            files,
        ):
            require(files.names, dating.columns)
            unused = [name for name in files.names if name not in wanted]
            warn_of_undeclared(
                unused,
                lambda name: count_file_values(engine, files, name),
                "repeats watched",
            )
            rows = fewer_threads(
                engine, lambda: people_relation(engine, files, columns, dating.columns)
            )
            return _dated_atoms(rows, columns, dating)
    if isinstance(source, EngineSource):
        raise refused("engine monitored")
    found = {name: _arrow(column) for name, column in source.columns(wanted).items()}
    with limited(None, None) as engine:
        return _dated_atoms(engine.from_arrow(pa.table(found)), columns, dating)


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
    kept = [
        name
        for name in rows.columns
        if name in columns.wanted or name not in dating.columns
    ]
    rows = rows.project(
        ", ".join(
            [*map(named, kept), f"{dating.calendar.sql(when)} AS {named(PERIOD)}"]
        )
    )
    rows, columns = with_events(rows, columns)
    found = rows.aggregate(f"{named(PERIOD)}, count(*)", named(PERIOD)).fetchall()
    people = {str(name): int(n) for name, n in found if name is not None}
    _refuse_lone_dates(people, dating)
    ready = [name for name in sorted(people) if dating.complete(name)]
    held_back = {name: people[name] for name in sorted(people) if name not in ready}
    if not ready:
        return DatedAtoms({}, held_back, undated)
    listed = ", ".join(quoted(name) for name in ready)
    chosen = rows.filter(f"{named(PERIOD)} IN ({listed})")
    refuse_identifiers(chosen, columns)
    keyed = replace(columns, beside={**columns.beside, PERIOD: PERIOD})
    return DatedAtoms(
        split_by(atoms_of_totals(*totals(chosen, keyed)), PERIOD), held_back, undated
    )


def _check_times(rows: Any, when: str, columns: NamedColumns, dating: Dating) -> int:
    """Refuse unreadable dates, future ones, and those after the outcome; count missing
    ones.
    """
    given = named(dating.time)
    day = max(dating.today, dating.as_of or date.min)
    later = f"CAST({when} AS DATE) > DATE {quoted(day.isoformat())}"
    counts = [f"{given} IS NULL", f"{given} IS NOT NULL AND {when} IS NULL", later]
    other = dating.outcome_time
    if other is not None:
        then = _local(rows, other, dating.calendar)
        known = named(other)
        # a date without a time is compared by day
        midnight = f"date_trunc('day', {then})"
        scored = f"CASE WHEN {then} = {midnight} THEN date_trunc('day', {when}) ELSE {when} END"
        counts += [f"{known} IS NOT NULL AND {then} IS NULL", f"{then} < {scored}"]
    told = ", ".join(f"count(*) FILTER ({condition})" for condition in counts)
    n, missing, unread, future, *outcome = (
        int(x) for x in rows.aggregate(f"count(*), {told}").fetchall()[0]
    )
    if unread:
        raise refused("no dates", name=dating.time, unread=unread, n=n)
    if missing and not columns.drop_missing:
        raise refused("date missing", name=dating.time, missing=missing, n=n)
    if future:
        raise refused("future dates", name=dating.time, future=future, n=n)
    if outcome and outcome[0]:
        raise refused("no dates", name=other, unread=outcome[0], n=n)
    if outcome and outcome[1]:
        raise refused(
            "outcome before score", name=other, early=outcome[1], n=n, time=dating.time
        )
    return missing


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
            are = "date is" if n == 1 else "dates are"
            raise refused(
                "lone dates", name=dating.time, n=n, total=total, are=are, before=before
            )


def _local(rows: Any, name: str, calendar: Calendar) -> str:
    """The local time of a column, in DuckDB's SQL; NULL where a text is not a date."""
    kind = str(dict(zip(rows.columns, map(str, rows.types)))[name]).upper()
    column = named(name)
    zone = quoted(calendar.timezone)
    if kind == "TIMESTAMP WITH TIME ZONE" or kind.startswith(
        "TIMESTAMPTZ"
    ):  # the latter in nanoseconds
        return f"timezone({zone}, {column})"
    if kind == "DATE" or kind.startswith("TIMESTAMP"):
        return f"CAST({column} AS TIMESTAMP)"
    if kind == "VARCHAR" or kind.startswith("ENUM"):
        text = f"trim(CAST({column} AS VARCHAR))"
        moment = f"timezone({zone}, TRY_CAST({text} AS TIMESTAMPTZ))"
        return (
            f"CASE WHEN regexp_full_match({text}, {quoted(ISO)}) THEN TRY_CAST({text} AS TIMESTAMP) "
            f"WHEN regexp_full_match({text}, {quoted(OFFSET)}) THEN {moment} END"
        )
    n = int(rows.aggregate(f"count({column})").fetchall()[0][0])
    if not n:  # nobody has a date
        return "CAST(NULL AS TIMESTAMP)"
    raise refused("no dates", name=name, unread=n, n=n)

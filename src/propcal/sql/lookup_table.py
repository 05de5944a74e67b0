"""Writes a correction as a lookup table, one row for each line of each map, and the query that reads it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from propcal.core.grid import IntArray
from propcal.sql.dialects import TWO_32, Dialect
from propcal.sql.map_lines import Lines

COLUMNS = ("pattern", "score_from", "score_to", "keeps", "rise", "base", "width")


def lookup_rows(lines: Lines, numbers: IntArray) -> IntArray:
    """The lookup table."""
    rest = lines.score_from, lines.score_to, lines.keeps, lines.rise, lines.base, lines.width
    return np.stack([numbers[lines.owner], *rest], axis=1)


def qualified(d: Dialect, name: str | Sequence[str]) -> str:
    """A quoted table name; dots separate the schema, unless the parts are given as a list."""
    parts = name.split(".") if isinstance(name, str) else name
    return ".".join(d.identifier(part) for part in parts)


def make_table(d: Dialect, lookup: str, rows: IntArray) -> tuple[str, ...]:
    """Statements that create and fill the lookup table."""
    if d.temporary_view:
        return (_view_of_text(d, lookup, rows),)
    values = [f"({', '.join(map(str, row))})" for row in rows.tolist()]
    columns = [f"{name} {d.whole} NOT NULL" for name in COLUMNS]
    if d.indexed:
        columns.append("PRIMARY KEY (pattern, score_from)")
    chunks = [values[i : i + d.rows_at_once] for i in range(0, len(values), d.rows_at_once)]
    create = f"CREATE TABLE {lookup} ({', '.join(columns)})"
    return (create, *(f"INSERT INTO {lookup} VALUES\n{_lines_of(chunk)}" for chunk in chunks))


def _view_of_text(d: Dialect, lookup: str, rows: IntArray) -> str:
    """The table as one text that Spark splits again, which is twenty times faster than rows of numbers."""
    text = "\n".join(" ".join(map(str, row)) for row in rows.tolist())
    listed = ", ".join(f"CAST(n[{i}] AS {d.whole}) AS {name}" for i, name in enumerate(COLUMNS))
    return (
        f"CREATE OR REPLACE TEMPORARY VIEW {lookup} AS SELECT {listed}\n"
        f"FROM (SELECT split(line, ' ') AS n FROM (SELECT explode(split('{text}', '[\n]')) AS line))"
    )


def _lines_of(values: list[str]) -> str:
    """Rows of a table as text, eight on a line."""
    return ",\n".join(", ".join(values[i : i + 8]) for i in range(0, len(values), 8))


def _raw(d: Dialect, score: str) -> str:
    """The score in units; NULL if it is outside [0, 1], so that it cannot overflow."""
    return f"CASE WHEN {score} >= 0 AND {score} <= 1 THEN {d.floor.format(x=f'{score} * {TWO_32} + 0.5')} END"


def _value(d: Dialect, score: str) -> str:
    """SQL for the result of the line found in the lookup table."""
    line = d.divide.format(n=f"(l.rise * ({_raw(d, score)} - l.score_from) + l.base)", d="l.width")
    return f"WHEN l.keeps = 1 THEN {score}\n  WHEN l.keeps = 0 THEN CAST({line} AS {d.double}) / {TWO_32}"


@dataclass(frozen=True)
class Kept:
    """Which scores a query returns unchanged instead of as NULL."""

    unseen: bool = False
    invalid: bool = False

    def value(self, score: str) -> str:
        """The result for a row without a line in the lookup table."""
        if self.unseen and self.invalid:
            return score
        known = f"CASE WHEN {score} >= 0 AND {score} <= 1"
        if self.unseen:
            return f"{known} THEN {score} END"
        return f"{known} THEN NULL ELSE {score} END" if self.invalid else "NULL"


def lookup_query(
    d: Dialect, people: str, lookup: str, column: str, pattern: str, score: str, *, kept: Kept
) -> str:
    """A query for the people with their corrected scores, using the lookup table."""
    query = _search if d.searches else _join
    return query(d, people, lookup, column, pattern, score, kept.value(score))


def _join(d: Dialect, people: str, lookup: str, column: str, pattern: str, score: str, other: str) -> str:
    """The query as a join with the matching line."""
    return (
        f"SELECT p.*, CASE\n  {_value(d, score)}\n  ELSE {other} END AS {column}\n"
        f"FROM {people} AS p LEFT JOIN {lookup} AS l\n"
        f"ON l.pattern = {pattern}\nAND {_raw(d, score)} BETWEEN l.score_from AND l.score_to"
    )


def _search(d: Dialect, people: str, lookup: str, column: str, pattern: str, score: str, other: str) -> str:
    """The query as an index search for the last line that begins at or below the score."""
    found = (
        f"(SELECT CASE\n  {_value(d, score)}\n  END FROM {lookup} AS l\n"
        f"WHERE l.pattern = {pattern}\nAND l.score_from <= {_raw(d, score)}\n"
        "ORDER BY l.score_from DESC LIMIT 1)"
    )
    found = found if other == "NULL" else f"COALESCE({found}, {other})"
    return f"SELECT p.*, {found} AS {column}\nFROM {people} AS p"

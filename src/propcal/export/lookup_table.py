"""The lookup table of the SQL: the lines of each map, by pattern and bucket of scores.

A database that looked for the line of a score by its limits alone would compare it with
every line of the pattern, so scores are divided into *buckets*, narrower near 0 and 1
as the lines are, and a line has a row for each bucket that it reaches into: the
database finds pattern and bucket by equality (a hash, or an index), and compares the
few lines there with the score. The rows are in a table that is created once, or in the
query itself.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from propcal.core.grid import UNIT, IntArray
from propcal.export.dialects import Dialect
from propcal.export.map_lines import Lines

COLUMNS = (
    "pattern",
    "bucket",
    "score_from",
    "score_to",
    "keeps",
    "rise",
    "base",
    "width",
)
EDGE = 1 << 27  # the smaller, the narrower are the buckets near 0 and 1
MEAN_LINES_IN_BUCKET = 2
ROWS_ON_A_LINE = 8


@dataclass(frozen=True)
class Buckets:
    """Divides scores by whole numbers alone, so that Python and every database agree.

    A score in units belongs to the bucket scale // (UNIT + EDGE - score) - scale //
    (score + EDGE), where `scale` is EDGE times half the number of buckets. The bucket
    never falls as the score rises.
    """

    scale: int

    @classmethod
    def of_lines(cls, lines: Lines) -> Buckets:
        """As many as leave about `MEAN_LINES_IN_BUCKET` lines of a map, or some more,
        in each.
        """
        n_maps = int(lines.owner[-1] + 1)
        wanted = len(lines) // (MEAN_LINES_IN_BUCKET * n_maps)
        power_of_two = 1 << max(wanted.bit_length() - 1, 0)
        return cls(EDGE * power_of_two // 2)

    def numbers(self, raw: IntArray) -> IntArray:
        """The buckets of scores in units."""
        above = self.scale // (UNIT + EDGE - raw)
        below = self.scale // (raw + EDGE)
        return np.asarray(above - below)

    @property
    def span(self) -> int:
        """More than the difference of any two buckets."""
        return 2 * (self.scale // EDGE) + 1

    def sql(self, d: Dialect, raw: str) -> str:
        """SQL for the bucket of a score in units."""
        above = d.divide.format(n=self.scale, d=f"({UNIT + EDGE} - {raw})")
        below = d.divide.format(n=self.scale, d=f"({raw} + {EDGE})")
        return f"{above} - {below}"


def lookup_rows(lines: Lines, numbers: IntArray) -> IntArray:
    """The lookup table, sorted by pattern, bucket and score."""
    buckets = Buckets.of_lines(lines)
    first_bucket = buckets.numbers(lines.score_from)
    n_buckets = buckets.numbers(lines.score_to) - first_bucket + 1

    line = np.repeat(np.arange(len(lines)), n_buckets)
    first_row = np.cumsum(n_buckets) - n_buckets
    bucket = np.arange(len(line)) - np.repeat(first_row - first_bucket, n_buckets)
    columns = [numbers[lines.owner[line]], bucket]
    columns += [getattr(lines, name)[line] for name in COLUMNS[2:]]
    return np.stack(columns, axis=1)


def make_table(d: Dialect, lookup: str, rows: IntArray) -> tuple[str, ...]:
    """Statements that create and fill the lookup table."""
    if d.temporary_view:
        return (f"CREATE OR REPLACE TEMPORARY VIEW {lookup} AS {select_rows(d, rows)}",)
    columns = [f"{name} {d.whole} NOT NULL" for name in COLUMNS]
    if d.indexed:
        columns.append("PRIMARY KEY (pattern, bucket, score_from)")
    statements = [f"CREATE TABLE {lookup} ({', '.join(columns)})"]

    for first_row in range(0, len(rows), d.rows_at_once):
        inserted = _tuples(rows[first_row : first_row + d.rows_at_once])
        statements.append(f"INSERT INTO {lookup} VALUES\n{inserted}")
    return tuple(statements)


def select_rows(d: Dialect, rows: IntArray) -> str:
    """A query that returns the rows of the lookup table and reads no table."""
    casts = []
    elements = []
    for i, name in enumerate(COLUMNS, start=d.first_element):
        casts.append(f"CAST({name} AS {d.whole}) AS {name}")
        elements.append(f"CAST(n[{i}] AS {d.whole}) AS {name}")
    return d.select_rows.format(
        rows=_tuples(rows),
        names=", ".join(COLUMNS),
        casts=", ".join(casts),
        fields=", ".join(f"{name} {d.whole}" for name in COLUMNS),
        text="\n".join(" ".join(map(str, row)) for row in rows.tolist()),
        elements=", ".join(elements),
    )


def _tuples(rows: IntArray) -> str:
    """Rows in parentheses, several on a line of text."""
    values = [f"({', '.join(map(str, row))})" for row in rows.tolist()]
    lines = []
    for first_row in range(0, len(values), ROWS_ON_A_LINE):
        lines.append(", ".join(values[first_row : first_row + ROWS_ON_A_LINE]))
    return ",\n".join(lines)

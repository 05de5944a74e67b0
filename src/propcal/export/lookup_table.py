"""The lookup table of the SQL: the lines of each map, by pattern and bucket of scores.

A database that looked for the line of a score by its limits alone would compare it with
every line of the pattern, so scores are divided into *buckets*, narrower near 0 and 1
as the lines are, and a line has a row for each bucket that it reaches into: the
database finds pattern and bucket by equality (a hash, or an index), and compares the
few lines there with the score.
"""

from __future__ import annotations

from collections.abc import Sequence
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
        return (_view_of_text(d, lookup, rows),)
    columns = [f"{name} {d.whole} NOT NULL" for name in COLUMNS]
    if d.indexed:
        columns.append("PRIMARY KEY (pattern, bucket, score_from)")
    create = f"CREATE TABLE {lookup} ({', '.join(columns)})"

    values = [f"({', '.join(map(str, row))})" for row in rows.tolist()]
    statements = [create]
    for inserted in _divided(values, d.rows_at_once):
        texts = [", ".join(line) for line in _divided(inserted, ROWS_ON_A_LINE)]
        statements.append(f"INSERT INTO {lookup} VALUES\n" + ",\n".join(texts))
    return tuple(statements)


def _divided(items: Sequence[str], n: int) -> list[Sequence[str]]:
    """Consecutive parts of n items."""
    return [items[begin : begin + n] for begin in range(0, len(items), n)]


def _view_of_text(d: Dialect, lookup: str, rows: IntArray) -> str:
    """The table as one text that Spark splits again, which is twenty times faster than
    rows of numbers.
    """
    text = "\n".join(" ".join(map(str, row)) for row in rows.tolist())
    columns = [f"CAST(n[{i}] AS {d.whole}) AS {name}" for i, name in enumerate(COLUMNS)]
    view = f"CREATE OR REPLACE TEMPORARY VIEW {lookup} AS SELECT {', '.join(columns)}"
    lines = f"SELECT explode(split('{text}', '[\n]')) AS line"
    return f"{view}\nFROM (SELECT split(line, ' ') AS n FROM ({lines}))"

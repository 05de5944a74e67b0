"""SQL for a corrected score: by a lookup table, or as an expression of nested CASE.

Databases limit the depth of nested expressions (SQL Server: ten levels of CASE) and are
slow with long lists of WHEN. In the expression, a list is therefore divided into parts
of at most `MAX_ARMS`, and each part again as often as needed.

Points are a CASE for each feature that gives a factor; their product multiplies the
odds of a score. The lines are then those of the recalibration and, under numbers of
patterns that no person has, those of the updates, which come after the points. Every
operation on doubles is written as `points_table` computes it, in the same order, so
that the result is the same to the last bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from propcal.core.grid import IntArray
from propcal.export.dialects import TWO_32, Dialect
from propcal.export.lookup_table import Buckets
from propcal.export.map_lines import Lines

MAX_ARMS = 16  # of one CASE
PATTERN = "propcal_pattern"  # of a column for the number of the pattern
# columns of subqueries
UNITS = "propcal_units"
SHIFTED = "propcal_shifted"


@dataclass(frozen=True)
class ScoreSql:
    """Writes both forms of the SQL for one correction.

    Attributes
    ----------
    d : Dialect
    lines : Lines
    numbers : array of int64
        The numbers of the patterns to which the maps belong.
    score, pattern : str
        SQL for a person's score, and for the number of their pattern.
    odds : str
        SQL for what points multiply a person's odds by; empty without points.
    added : int or None
        What leads from the number of a pattern to that of its updates after the points,
        if there are any.
    keeps_unseen, keeps_invalid : bool
        Whether such scores are returned unchanged instead of as NULL.
    """

    d: Dialect
    lines: Lines
    numbers: IntArray
    score: str
    pattern: str
    odds: str = ""
    added: int | None = None
    keeps_unseen: bool = False
    keeps_invalid: bool = False

    @property
    def _number(self) -> str:
        """The score as a double."""
        return self.d.number.format(c=self.score)

    @property
    def _is_valid(self) -> str:
        return f"{self._number} >= 0 AND {self._number} <= 1"

    # the form with a lookup table

    def lookup_query(self, people: str, lookup: str, column: str) -> str:
        """A query for the people with their corrected scores; updates after points are
        a second join.
        """
        d = self.d
        score = self._number
        # NULL if the score is outside [0, 1], so that it cannot overflow
        units = d.floor.format(x=f"{score} * {TWO_32} + 0.5")
        raw = f"CASE WHEN {self._is_valid} THEN {units} END"
        joined = f"{lookup} AS l\n{self._on_line('l', self.pattern, raw)}"

        if not self.odds:
            cases = f"\n  WHEN l.keeps = 1 THEN {score}\n  WHEN l.keeps = 0 THEN"
            corrected = self._value_of_line("l", raw)
        else:
            cases = " WHEN l.width IS NOT NULL\n  THEN"
            recalibrated = self._value_of_line("l", f"({raw})")
            corrected = self._with_odds_multiplied(f"({recalibrated})")
            if self.added is not None:
                shifted = f"({corrected})"
                updates = f"{self.added} + {self.pattern}"
                on_updates = self._on_line("m", updates, shifted)
                joined += f"\nLEFT JOIN {lookup} AS m {on_updates}"
                corrected = self._value_of_line("m", shifted)

        scaled = f"CAST({corrected} AS {d.double}) / {TWO_32}"
        return (
            f"SELECT p.*, CASE{cases} {scaled}"
            f"\n  ELSE {self._without_line()} END AS {column}"
            f"\nFROM {people} AS p LEFT JOIN {joined}"
        )

    def _without_line(self) -> str:
        """The result for a row without a line in the lookup table."""
        score = self._number
        if self.keeps_unseen and self.keeps_invalid:
            return score
        if self.keeps_unseen:
            return f"CASE WHEN {self._is_valid} THEN {score} END"
        if self.keeps_invalid:
            return f"CASE WHEN {self._is_valid} THEN NULL ELSE {score} END"
        return "NULL"

    def _value_of_line(self, table: str, units: str) -> str:
        """What the line found in the lookup table makes of units."""
        above = f"({units} - {table}.score_from)"
        numerator = f"({table}.rise * {above} + {table}.base)"
        return self.d.divide.format(n=numerator, d=f"{table}.width")

    def _on_line(self, table: str, pattern: str, units: str) -> str:
        """The condition that finds a line of the lookup table."""
        buckets = Buckets.of_lines(self.lines)
        bucket = buckets.sql(self.d, units)
        if self.d.one_key:
            n = buckets.span
            theirs = f"{n} * {table}.pattern + {table}.bucket"
            same_key = f"{theirs} = {n} * ({pattern}) + {bucket}"
        else:
            same_pattern = f"{table}.pattern = {pattern}"
            same_key = f"{same_pattern}\nAND {table}.bucket = {bucket}"
        in_line = f"{units} BETWEEN {table}.score_from AND {table}.score_to"
        return f"ON {same_key}\nAND {in_line}"

    def _with_odds_multiplied(self, units: str) -> str:
        """A score in units with its odds multiplied, as `points_table.multiply`."""
        d = self.d
        above = f"CAST({units} AS {d.double})"
        below = f"CAST({TWO_32} - {units} AS {d.double})"
        one = f"CAST(1 AS {d.double})"
        risk = f"({one} - {one} / ({one} + {self.odds} * ({above} / {below})))"
        rounded = d.floor.format(x=f"{risk} * {TWO_32} + 0.5")
        value = d.within.format(x=rounded, low=1, high=TWO_32 - 1)
        is_inner = f"{units} > 0 AND {units} < {TWO_32}"
        return f"CASE WHEN {is_inner} THEN {value} ELSE {units} END"

    # the form that is one expression

    def case_query(self, people: str, column: str) -> str:
        """A query for the people with their corrected scores, by the expression."""
        d = self.d
        if not d.without or self.pattern == "0":
            return f"SELECT p.*, {self.expression()} AS {column}\nFROM {people} AS p"
        number = d.identifier(PATTERN)
        corrected = replace(self, pattern=number).expression()
        numbered = f"(SELECT p.*, {self.pattern} AS {number}\nFROM {people} AS p) AS p"
        others = d.without.format(x=number)
        return f"SELECT {others}, {corrected} AS {column}\nFROM {numbered}"

    def expression(self) -> str:
        """SQL for the corrected score."""
        corrected = self._with_points() if self.odds else self._without_points()
        invalid = f" ELSE {self._number}" if self.keeps_invalid else ""
        return f"CASE WHEN {self._is_valid}\nTHEN {corrected}{invalid} END"

    @property
    def _scaled(self) -> str:
        """The score times 2**32, which loses no bits when it is divided again."""
        return f"CAST({self.score} AS {self.d.double}) * {TWO_32}"

    def _without_points(self) -> str:
        """The corrected score: units of 2**-32, divided."""
        scaled = self._scaled
        other = scaled if self.keeps_unseen else "NULL"
        units = self._of_pattern(f"{scaled} + 0.5", scaled=scaled, other=other)
        return f"CAST({units}\nAS {self.d.double}) / {TWO_32}"

    def _with_points(self) -> str:
        """The corrected score with points between recalibration and updates, which need
        subqueries.
        """
        d = self.d
        units = self._of_pattern(f"{self._scaled} + 0.5")
        corrected = f"y.{SHIFTED}"
        if self.added is not None:
            corrected = self._of_pattern(corrected, updates=True)
        shifted = self._with_odds_multiplied(f"x.{UNITS}")
        query = (
            f"(SELECT CAST({corrected} AS {d.double}) / {TWO_32}\n"
            f"FROM (SELECT {shifted} AS {SHIFTED}\n"
            f"FROM (SELECT {units} AS {UNITS}{d.fence}) AS x{d.fence}) AS y)"
        )
        if self.keeps_unseen:
            return f"COALESCE({query}, {self._number})"
        return query

    def _of_pattern(
        self,
        value: str,
        *,
        scaled: str = "",
        other: str = "NULL",
        updates: bool = False,
    ) -> str:
        """What a person's map, or their updates after the points, make of a value in
        units.
        """
        lines = self.lines
        numbers = self.numbers
        if self.added is not None:
            numbers = numbers[: len(numbers) // 2]
        first_map = len(numbers) if updates else 0
        owners = first_map + np.arange(len(numbers) + 1)
        starts = np.searchsorted(lines.owner, owners)

        maps = []
        for start, end in pairwise(starts.tolist()):
            begins = lines.score_from[start:end].tolist()
            values = [self._line(i, value, scaled) for i in range(start, end)]
            maps.append(value_at(value, begins, values))
        if self.pattern == "0":
            return maps[0]
        return value_of(f"({self.pattern})", numbers.tolist(), maps, other)

    def _line(self, i: int, rounded: str, scaled: str) -> str:
        """What one line makes of a score in units; `scaled`, if given, where it keeps
        the score.
        """
        lines = self.lines
        if scaled and lines.keeps[i]:
            return scaled
        begin = int(lines.score_from[i])
        rise = int(lines.rise[i])
        base = int(lines.base[i])
        width = int(lines.width[i])
        if rise == 0:
            return str(base // width)

        raw = self.d.floor.format(x=rounded)
        if rise == width == 1:
            if base >= begin:
                return f"{raw} + {base - begin}"
            return f"{raw} - {begin - base}"
        above = f"({raw} - {begin})" if begin else raw
        return self.d.divide.format(n=f"({rise} * {above} + {base})", d=width)


def value_at(x: str, begins: Sequence[int], values: Sequence[str]) -> str:
    """The value for the last beginning that x has reached; rounding x down would not
    change it.
    """
    if len(values) == 1:
        return values[0]
    arms = []
    for first, end in _parts(len(values)):
        part = value_at(x, begins[first:end], values[first:end])
        if end < len(values):
            arms.append(f"\nWHEN {x} < {begins[end]} THEN {part}")
        else:
            arms.append(f"\nELSE {part} END")
    return f"CASE{''.join(arms)}"


def value_of(x: str, numbers: Sequence[int], values: Sequence[str], other: str) -> str:
    """The value for the number x; `other` for one that is not in `numbers`."""
    arms = []
    if len(values) <= MAX_ARMS:
        for number, value in zip(numbers, values):
            arms.append(f"\nWHEN {number} THEN {value}")
        return f"CASE {x}{''.join(arms)}\nELSE {other} END"

    for first, end in _parts(len(values)):
        part = value_of(x, numbers[first:end], values[first:end], other)
        limit = numbers[end] if end < len(numbers) else numbers[-1] + 1
        arms.append(f"\nWHEN {x} < {limit} THEN {part}")
    return f"CASE{''.join(arms)}\nELSE {other} END"


def _parts(n: int) -> list[tuple[int, int]]:
    """Divide n items into at most `MAX_ARMS` parts of nearly equal size."""
    n_parts = min(n, MAX_ARMS)
    return list(pairwise(n * i // n_parts for i in range(n_parts + 1)))

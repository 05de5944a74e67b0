"""SQL that finds the line of a score among the rows of the lookup table.

Points are a CASE for each feature that gives a factor; their product multiplies the
odds of a score. The lines are then those of the recalibration and, under numbers of
patterns that no person has, those of the updates, which come after the points. Every
operation on doubles is written as `points_table` computes it, in the same order, so
that the result is the same to the last bit.
"""

from __future__ import annotations

from dataclasses import dataclass

from propcal.core.grid import IntArray
from propcal.export.dialects import TWO_32, Dialect
from propcal.export.lookup_table import Buckets
from propcal.export.map_lines import Lines


@dataclass(frozen=True)
class ScoreSql:
    """Writes the query for one correction.

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

    def query(self, people: str, lookup: str, column: str) -> str:
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

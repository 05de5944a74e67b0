"""The two forms of the SQL: a lookup table with a query, and one expression of nested
CASE.

The table has the lines of each map. A database that looked for the line of a score by
its limits alone would compare it with every line of the pattern, so scores are divided
into *buckets*, narrower near 0 and 1 as the lines are, and a line has a row for each
bucket that it reaches into: the database finds pattern and bucket by equality (a hash,
or an index), and compares the few lines there with the score.

Databases limit the depth of nested expressions (SQL Server: ten levels of CASE) and are
slow with long lists of WHEN. In the expression, a list is therefore divided into parts
of at most `FAN`, and each part again as often as needed.

Points are a CASE for each feature that gives a factor; their product multiplies the
odds of a score. The lines are then those of the recalibration and, under numbers of
patterns that no person has, those of the updates, which come after the points. Every
operation on doubles is written as `points_table` computes it, in the same order, so
that the result is the same to the last bit.

The lines are those of the maps, in integers, which any database can evaluate exactly. A
line applies from one raw score to another, in units of 2**-32, and gives

    (rise * (raw - score_from) + base) / width     rounded down

This equals the recalibration followed by the updates, to the last unit. No number is
negative, so that division rounding down and division rounding towards zero agree, and
the largest product stays below 2**62 (see `_reduced`). Lines that leave scores
unchanged are marked, so that such a score is returned with all its bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import prod

import numpy as np

from propcal.core.correction.maps import PatternMaps
from propcal.core.correction.smooth_map import knots
from propcal.core.grid import UNIT, IntArray
from propcal.core.patterns import Patterns
from propcal.export.column_levels import Reader
from propcal.export.dialects import TWO_32, Dialect
from propcal.scoring.places import feature_finder

FAN = 16
PATTERN = "propcal_pattern"  # of a column for the number of the pattern
# columns of subqueries
UNITS = "propcal_units"
SHIFTED = "propcal_shifted"
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
LINES_IN_BUCKET = 2


@dataclass(frozen=True, eq=False)
class Lines:
    """The lines of several maps; `owner` is the map to which each line belongs."""

    owner: IntArray
    score_from: IntArray
    score_to: IntArray  # the last raw score of the line
    keeps: IntArray  # 1 if the score stays unchanged
    rise: IntArray
    base: IntArray
    width: IntArray

    def __len__(self) -> int:
        return len(self.owner)

    @classmethod
    def of_maps(cls, maps: PatternMaps) -> Lines:
        """The lines of every map, in order of score, from 0 to 1."""
        tables = [_composed(maps, p) for p in range(len(maps))]
        owner = np.repeat(np.arange(len(tables)), [table.shape[1] for table in tables])
        table = _cut_where_unchanged(
            _joined(np.vstack([owner, _reduced(np.concatenate(tables, axis=1))]))
        )
        owner, begin, rise, base, width = table
        keeps = ((rise == 1) & (width == 1) & (base == begin)).astype(np.int64)
        return cls(owner, begin, _last(table), keeps, rise, base, width)

    def __add__(self, other: Lines) -> Lines:
        """Both; the maps of the other are numbered from behind those of this one."""
        columns = {
            name: np.append(column, getattr(other, name))
            for name, column in vars(self).items()
        }
        columns["owner"] = np.append(self.owner, other.owner + self.owner[-1] + 1)
        return Lines(**columns)


def _composed(maps: PatternMaps, pattern: int) -> IntArray:
    """Rows begin, rise, base, width of one map; lines begin where the recalibration
    enters another piece.
    """
    if not maps.smooth.shape[1]:
        begin, slope, offset = maps.table(pattern)
        return np.stack([begin, slope, slope * begin + offset, np.ones_like(slope)])
    at = knots()
    values = maps.smooth[pattern]
    begin, k, piece = maps.lines(pattern)
    # the recalibration with its rounding is one floor: (2 rise x + width + 2 width low)
    # // (2 width)
    width = at[k + 1] - at[k]
    low = values[k]
    rise = 2 * (values[k + 1] - low)
    base = rise * (begin - at[k]) + width + 2 * width * low
    base = maps.slope[piece] * base + 2 * width * maps.offset[piece]
    return np.stack([begin, maps.slope[piece] * rise, base, 2 * width])


def _reduced(table: IntArray) -> IntArray:
    """The same lines with smaller numbers; a rise in whole units gets the width 1.

    With g dividing rise and width, floor((rise x + base) / width) is floor((rise/g x +
    floor(base/g)) / (width/g)): the terms in x are whole. Knots are at most 2**27 apart
    and values at most 2**32, so rise x <= 2**33 * 2**27 and base <= 2**28 * 2**32:
    below 2**62 together.
    """
    begin, rise, base, width = table
    shared = np.gcd(rise, width)
    return np.stack([begin, rise // shared, base // shared, width // shared])


def _joined(table: IntArray) -> IntArray:
    """The lines (rows owner, begin, rise, base, width) without those that merely
    continue the one before.
    """
    _, begin, rise, base, _ = table
    same = np.all(table[[0, 2, 4], 1:] == table[[0, 2, 4], :-1], axis=0)
    goes_on = same & (base[1:] == base[:-1] + rise[:-1] * (begin[1:] - begin[:-1]))
    return np.asarray(table[:, np.append(True, ~goes_on)])


def _last(table: IntArray) -> IntArray:
    """The last raw score of each line; the last line of a map ends at 1."""
    owner, begin = table[:2]
    ends = np.append(owner[1:] != owner[:-1], True)
    return np.where(ends, UNIT, np.append(begin[1:], 0) - 1)


def _cut_where_unchanged(table: IntArray) -> IntArray:
    """Cut lines so that each changes either every score or none.

    The difference between a line and the score never rises if its slope is at most 1,
    and never falls otherwise. It is therefore 0 on a single interval of scores, which
    two binary searches find.
    """
    owner, begin, rise, base, width = table
    last = _last(table)
    falls = np.where(rise <= width, 1, -1)

    def first(limit: int) -> IntArray:
        """The first score where the difference, in its direction, is below `limit`."""
        low, high = begin.copy(), last + 1
        while np.any(low < high):
            middle = (low + high) // 2
            added = (rise * (np.minimum(middle, last) - begin) + base) // width - middle
            below = falls * added < limit
            high = np.where((low < high) & below, middle, high)
            low = np.where((low < high) & ~below, middle + 1, low)
        return np.asarray(low)

    # the second is not included
    unchanged_from = first(1)
    unchanged_to = first(0)
    one = np.ones_like(rise)
    parts = [
        (unchanged_from, [owner, begin, rise, base, width]),
        (unchanged_to, [owner, unchanged_from, one, unchanged_from, one]),
        (
            last + 1,
            [owner, unchanged_to, rise, base + rise * (unchanged_to - begin), width],
        ),
    ]
    cut = np.concatenate(
        [np.stack(part)[:, part[1] < end] for end, part in parts], axis=1
    )
    return _joined(cut[:, np.lexsort((cut[1], cut[0]))])


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
        """As many as leave about `LINES_IN_BUCKET` lines of a map, or some more, in
        each.
        """
        mean = len(lines) // (LINES_IN_BUCKET * int(lines.owner[-1] + 1))
        return cls(EDGE * (1 << max(mean.bit_length() - 1, 0)) // 2)

    def numbers(self, raw: IntArray) -> IntArray:
        """The buckets of scores in units."""
        return np.asarray(
            self.scale // (UNIT + EDGE - raw) - self.scale // (raw + EDGE)
        )

    @property
    def span(self) -> int:
        """More than the difference of any two buckets."""
        return 2 * (self.scale // EDGE) + 1

    def sql(self, d: Dialect, raw: str) -> str:
        """SQL for the bucket of a score in units."""
        above = d.divide.format(n=self.scale, d=f"({UNIT + EDGE} - {raw})")
        return f"{above} - {d.divide.format(n=self.scale, d=f'({raw} + {EDGE})')}"


def lookup_rows(lines: Lines, numbers: IntArray) -> IntArray:
    """The lookup table, sorted by pattern, bucket and score."""
    buckets = Buckets.of_lines(lines)
    first = buckets.numbers(lines.score_from)
    repeats = buckets.numbers(lines.score_to) - first + 1
    line = np.repeat(np.arange(len(lines)), repeats)
    bucket = np.arange(len(line)) - np.repeat(
        np.cumsum(repeats) - repeats - first, repeats
    )
    rest = (
        lines.score_from,
        lines.score_to,
        lines.keeps,
        lines.rise,
        lines.base,
        lines.width,
    )
    return np.stack(
        [numbers[lines.owner[line]], bucket, *(column[line] for column in rest)], axis=1
    )


def qualified(d: Dialect, name: str | Sequence[str]) -> str:
    """A quoted table name; dots separate the schema, unless the parts are given as a
    list.
    """
    parts = name.split(".") if isinstance(name, str) else name
    return ".".join(d.identifier(part) for part in parts)


def make_table(d: Dialect, lookup: str, rows: IntArray) -> tuple[str, ...]:
    """Statements that create and fill the lookup table."""
    if d.temporary_view:
        return (_view_of_text(d, lookup, rows),)
    values = [f"({', '.join(map(str, row))})" for row in rows.tolist()]
    columns = [f"{name} {d.whole} NOT NULL" for name in COLUMNS]
    if d.indexed:
        columns.append("PRIMARY KEY (pattern, bucket, score_from)")
    chunks = [
        values[i : i + d.rows_at_once] for i in range(0, len(values), d.rows_at_once)
    ]
    create = f"CREATE TABLE {lookup} ({', '.join(columns)})"
    # eight rows on a line
    texts = [
        ",\n".join(", ".join(chunk[i : i + 8]) for i in range(0, len(chunk), 8))
        for chunk in chunks
    ]
    return (create, *(f"INSERT INTO {lookup} VALUES\n{text}" for text in texts))


def _view_of_text(d: Dialect, lookup: str, rows: IntArray) -> str:
    """The table as one text that Spark splits again, which is twenty times faster than
    rows of numbers.
    """
    text = "\n".join(" ".join(map(str, row)) for row in rows.tolist())
    listed = ", ".join(
        f"CAST(n[{i}] AS {d.whole}) AS {name}" for i, name in enumerate(COLUMNS)
    )
    return (
        f"CREATE OR REPLACE TEMPORARY VIEW {lookup} AS SELECT {listed}\n"
        f"FROM (SELECT split(line, ' ') AS n FROM (SELECT explode(split('{text}', '[\n]')) AS line))"
    )


@dataclass(frozen=True)
class Writer:
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

    def lookup_query(self, people: str, lookup: str, column: str) -> str:
        """A query for the people with their corrected scores; updates after points are
        a second join.
        """
        d, score, buckets = (
            self.d,
            self.d.number.format(c=self.score),
            Buckets.of_lines(self.lines),
        )
        # NULL if it is outside [0, 1], so that it cannot overflow
        units = d.floor.format(x=f"{score} * {TWO_32} + 0.5")
        raw = f"CASE WHEN {score} >= 0 AND {score} <= 1 THEN {units} END"
        joined = f"{lookup} AS l\n{self._on('l', self.pattern, raw, buckets)}"
        if not self.odds:
            value = f"\n  WHEN l.keeps = 1 THEN {score}\n  WHEN l.keeps = 0 THEN"
            found = self._line_of("l", raw)
        else:
            value = " WHEN l.width IS NOT NULL\n  THEN"
            found = shifted = self._with_points(f"({self._line_of('l', f'({raw})')})")
            if self.added is not None:
                found = self._line_of("m", f"({shifted})")
                updates = self._on(
                    "m", f"{self.added} + {self.pattern}", f"({shifted})", buckets
                )
                joined += f"\nLEFT JOIN {lookup} AS m {updates}"
        return (
            f"SELECT p.*, CASE{value} CAST({found} AS {d.double}) / {TWO_32}"
            f"\n  ELSE {self._without_line(score)} END AS {column}\nFROM {people} AS p LEFT JOIN {joined}"
        )

    def _without_line(self, score: str) -> str:
        """The result for a row without a line in the lookup table."""
        if self.keeps_unseen and self.keeps_invalid:
            return score
        known = f"CASE WHEN {score} >= 0 AND {score} <= 1"
        if self.keeps_unseen:
            return f"{known} THEN {score} END"
        if self.keeps_invalid:
            return f"{known} THEN NULL ELSE {score} END"
        return "NULL"

    def _line_of(self, table: str, units: str) -> str:
        """What the line found in the lookup table makes of units."""
        n = f"({table}.rise * ({units} - {table}.score_from) + {table}.base)"
        return self.d.divide.format(n=n, d=f"{table}.width")

    def _on(self, table: str, pattern: str, units: str, buckets: Buckets) -> str:
        """The condition that finds a line of the lookup table."""
        bucket = buckets.sql(self.d, units)
        n = buckets.span
        equal = f"{table}.pattern = {pattern}\nAND {table}.bucket = {bucket}"
        if self.d.one_key:
            equal = (
                f"{n} * {table}.pattern + {table}.bucket = {n} * ({pattern}) + {bucket}"
            )
        return (
            f"ON {equal}\nAND {units} BETWEEN {table}.score_from AND {table}.score_to"
        )

    def _with_points(self, units: str) -> str:
        """A score in units with its odds multiplied, as `points_table.multiply`."""
        d = self.d
        ratio = f"CAST({units} AS {d.double}) / CAST({TWO_32} - {units} AS {d.double})"
        one = f"CAST(1 AS {d.double})"
        risk = f"({one} - {one} / ({one} + {self.odds} * ({ratio})))"
        value = d.within.format(
            x=d.floor.format(x=f"{risk} * {TWO_32} + 0.5"), low=1, high=TWO_32 - 1
        )
        return f"CASE WHEN {units} > 0 AND {units} < {TWO_32} THEN {value} ELSE {units} END"

    def case_query(self, people: str, column: str) -> str:
        """A query for the people with their corrected scores, by the expression."""
        d = self.d
        if not d.without or self.pattern == "0":
            return f"SELECT p.*, {self.expression()} AS {column}\nFROM {people} AS p"
        number = d.identifier(PATTERN)
        corrected = replace(self, pattern=number).expression()
        numbered = f"(SELECT p.*, {self.pattern} AS {number}\nFROM {people} AS p) AS p"
        return f"SELECT {d.without.format(x=number)}, {corrected} AS {column}\nFROM {numbered}"

    def expression(self) -> str:
        """SQL for the corrected score.

        The tree gives the corrected score in units of 2**-32. If nothing changes, that
        is the score times 2**32, which loses no bits when divided again. Points need
        subqueries.
        """
        d, score = self.d, self.d.number.format(c=self.score)
        # the score is from 0 to 1 here
        scaled = f"CAST({self.score} AS {d.double}) * {TWO_32}"
        rounded = f"{scaled} + 0.5"
        if not self.odds:
            other = scaled if self.keeps_unseen else "NULL"
            chosen = self._of_pattern(rounded, scaled=scaled, other=other)
            found = f"CAST({chosen}\nAS {d.double}) / {TWO_32}"
        else:
            units = self._of_pattern(rounded)
            line = f"y.{SHIFTED}"
            if self.added is not None:
                line = self._of_pattern(line, updates=True)
            found = (
                f"(SELECT CAST({line} AS {d.double}) / {TWO_32}\n"
                f"FROM (SELECT {self._with_points(f'x.{UNITS}')} AS {SHIFTED}\n"
                f"FROM (SELECT {units} AS {UNITS}{d.fence}) AS x{d.fence}) AS y)"
            )
            found = f"COALESCE({found}, {score})" if self.keeps_unseen else found
        invalid = f" ELSE {score}" if self.keeps_invalid else ""
        return f"CASE WHEN {score} >= 0 AND {score} <= 1\nTHEN {found}{invalid} END"

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
        first = len(numbers) if updates else 0
        starts = np.searchsorted(lines.owner, first + np.arange(len(numbers) + 1))
        maps = [
            tree(
                value,
                lines.score_from[a:b].tolist(),
                [self._line(i, value, scaled) for i in range(a, b)],
            )
            for a, b in pairwise(starts.tolist())
        ]
        if self.pattern == "0":
            return maps[0]
        return choice(f"({self.pattern})", numbers.tolist(), maps, other)

    def _line(self, i: int, rounded: str, scaled: str) -> str:
        """What one line makes of a score in units; `scaled`, if given, where it keeps
        the score.
        """
        lines = self.lines
        if scaled and lines.keeps[i]:
            return scaled
        begin, rise, base, width = (
            int(column[i])
            for column in (lines.score_from, lines.rise, lines.base, lines.width)
        )
        if rise == 0:
            return str(base // width)
        raw = self.d.floor.format(x=rounded)
        if rise == width == 1:
            if base >= begin:
                return f"{raw} + {base - begin}"
            return f"{raw} - {begin - base}"
        above = f"({raw} - {begin})" if begin else raw
        return self.d.divide.format(n=f"({rise} * {above} + {base})", d=width)


def before_and_after(
    maps: PatternMaps, patterns: Patterns, numbers: IntArray
) -> tuple[Lines, IntArray, int | None]:
    """Lines of the recalibration, then those of the updates if there are any; numbers
    of their patterns.

    Also returns what is added to the number of a pattern to find its updates, or None
    without updates.
    """
    n = len(numbers)
    plain = np.zeros(n, dtype=np.int64)
    before = Lines.of_maps(
        PatternMaps(np.arange(n + 1), plain, plain + 1, plain, maps.smooth)
    )
    if np.all((maps.slope == 1) & (maps.offset == 0)):
        return before, numbers, None
    after = Lines.of_maps(replace(maps, smooth=maps.smooth[:, :0]))
    added = prod(len(levels) + 1 for levels in patterns.levels)
    return before + after, np.append(numbers, numbers + added), added


def odds_of(reader: Reader) -> str:
    """What a person's odds are multiplied by: a factor for each feature; empty without
    features.
    """
    factors = []
    for feature in reader.features:
        literals = [
            reader.dialect.literal(factor) for factor in feature.factors.tolist()
        ]
        factors.append(
            f"({reader.of_place(feature_finder(feature), literals.__getitem__)})"
        )
    return " * ".join(factors)


def tree(x: str, begins: Sequence[int], values: Sequence[str]) -> str:
    """The value for the last beginning that x has reached; rounding x down would not
    change it.
    """
    if len(values) == 1:
        return values[0]
    parts = _parts(len(values), FAN)
    arms = [
        f"\nWHEN {x} < {begins[b]} THEN {tree(x, begins[a:b], values[a:b])}"
        for a, b in parts[:-1]
    ]
    a, b = parts[-1]
    return f"CASE{''.join(arms)}\nELSE {tree(x, begins[a:b], values[a:b])} END"


def choice(x: str, numbers: Sequence[int], values: Sequence[str], other: str) -> str:
    """The value for the number x."""
    if len(values) <= FAN:
        arms = "".join(
            f"\nWHEN {number} THEN {value}" for number, value in zip(numbers, values)
        )
        return f"CASE {x}{arms}\nELSE {other} END"
    parts = _parts(len(values), FAN)
    arms = "".join(
        f"\nWHEN {x} < {numbers[b] if b < len(numbers) else numbers[-1] + 1} "
        f"THEN {choice(x, numbers[a:b], values[a:b], other)}"
        for a, b in parts
    )
    return f"CASE{arms}\nELSE {other} END"


def _parts(n: int, most: int) -> list[tuple[int, int]]:
    """Divide n items into at most `most` parts of nearly equal size."""
    cuts = [n * i // min(n, most) for i in range(min(n, most) + 1)]
    return list(pairwise(cuts))

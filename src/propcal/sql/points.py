"""Points in SQL: each feature is a CASE that gives a factor; their product multiplies the odds of a score.

The lookup table has the lines of the recalibration and, under numbers of patterns that no person has, those
of the updates, which come after the points. Every operation on doubles is written as `points_table`
computes it, in the same order, so that the result is the same to the last bit.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from math import prod

import numpy as np

from propcal.core.correction.maps import PatternMaps
from propcal.core.correction.points_table import FeaturePoints, PointsTable
from propcal.core.grid import IntArray
from propcal.core.patterns import Patterns
from propcal.sql import forms
from propcal.sql.column_levels import Reader
from propcal.sql.dialects import TWO_32, Dialect
from propcal.sql.map_lines import Lines

UNITS, SHIFTED = "propcal_units", "propcal_shifted"  # columns of subqueries
SMALL = 1 << 20  # scales small factors, so that their literals are exact


def before_and_after(
    maps: PatternMaps, patterns: Patterns, numbers: IntArray
) -> tuple[Lines, IntArray, int | None]:
    """Lines of the recalibration, then those of the updates if there are any; numbers of their patterns.

    Also returns what is added to the number of a pattern to find its updates, or None without updates.
    """
    n = len(numbers)
    changed = not np.all((maps.slope == 1) & (maps.offset == 0))
    plain = np.zeros(n, dtype=np.int64)
    ends = np.arange(n + 1)
    before = Lines.of_maps(PatternMaps(ends, plain, plain + 1, plain, maps.smooth))
    if not changed:
        return before, numbers, None
    after = Lines.of_maps(replace(maps, smooth=np.empty((n, 0), dtype=np.int64)))
    added = prod(len(levels) + 1 for levels in patterns.levels)
    columns = {name: np.append(column, getattr(after, name)) for name, column in vars(before).items()}
    columns["owner"] = np.append(before.owner, after.owner + n)
    return Lines(**columns), np.append(numbers, numbers + added), added


def odds_of(reader: Reader, points: PointsTable) -> str:
    """What a person's odds are multiplied by."""
    return " * ".join(_factor(reader, feature) for feature in points.features)


def _factor(reader: Reader, feature: FeaturePoints) -> str:
    """The factor of one feature."""
    d = reader.dialect
    *own, missing, other = (_literal(d, factor) for factor in feature.factors.tolist())
    if feature.is_number:
        x = reader.number(feature.column)
        arms = "".join(f" WHEN {x} < {d.literal(cut)} THEN {value}" for cut, value in zip(feature.cuts, own))
        return f"(CASE WHEN {x} IS NULL THEN {missing}{arms} ELSE {own[-1]} END)"
    key = reader.key(feature.column)
    arms = "".join(f" WHEN {key} = {d.key(level)} THEN {value}" for level, value in zip(feature.levels, own))
    return f"(CASE WHEN {key} IS NULL THEN {missing}{arms} ELSE {other} END)"


def _literal(d: Dialect, factor: float) -> str:
    """A factor as exactly this double."""
    scale = SMALL if factor < 1 / 512 else 1
    over, below = (factor * scale).as_integer_ratio()
    return f"CAST({over} AS {d.double}) / CAST({below} AS {d.double})" + (f" / {SMALL}" if scale > 1 else "")


def _shifted(d: Dialect, units: str, odds: str) -> str:
    """A score in units with its odds multiplied, as `points_table.multiply`."""
    ratio = f"CAST({units} AS {d.double}) / CAST({TWO_32} - {units} AS {d.double})"
    one = f"CAST(1 AS {d.double})"
    risk = f"({one} - {one} / ({one} + {odds} * ({ratio})))"
    value = d.within.format(x=d.floor.format(x=f"{risk} * {TWO_32} + 0.5"), low=1, high=TWO_32 - 1)
    return f"CASE WHEN {units} > 0 AND {units} < {TWO_32} THEN {value} ELSE {units} END"


def _line(d: Dialect, table: str, units: str) -> str:
    """What the line found in the lookup table makes of units."""
    n = f"({table}.rise * (({units}) - {table}.score_from) + {table}.base)"
    return d.divide.format(n=n, d=f"{table}.width")


def points_query(
    d: Dialect,
    people: str,
    lookup: str,
    column: str,
    pattern: str,
    score: str,
    *,
    odds: str,
    added: int | None,
    buckets: forms.Buckets,
    kept: forms.Kept,
) -> str:
    """A query for the people with their corrected scores; updates are a second join of the lookup table."""
    raw = forms.raw_units(d, score)
    found = shifted = _shifted(d, f"({_line(d, 'l', raw)})", odds)
    joined = _on(d, "l", pattern, raw, buckets)
    if added is not None:
        found = _line(d, "m", shifted)
        joined += f"\nLEFT JOIN {lookup} AS m {_on(d, 'm', f'{added} + {pattern}', f'({shifted})', buckets)}"
    return (
        f"SELECT p.*, CASE WHEN l.width IS NOT NULL\n  THEN CAST({found} AS {d.double}) / {TWO_32}"
        f"\n  ELSE {kept.value(score)} END AS {column}\nFROM {people} AS p LEFT JOIN {lookup} AS l\n{joined}"
    )


def _on(d: Dialect, table: str, pattern: str, units: str, buckets: forms.Buckets) -> str:
    """The condition that finds a line of the lookup table."""
    return (
        f"ON {table}.pattern = {pattern}\nAND {table}.bucket = {buckets.sql(d, units)}\n"
        f"AND {units} BETWEEN {table}.score_from AND {table}.score_to"
    )


def points_expression(
    d: Dialect,
    lines: Lines,
    numbers: IntArray,
    added: int | None,
    *,
    pattern: str,
    column: str,
    odds: str,
    kept: forms.Kept,
) -> str:
    """SQL for the corrected score, in subqueries that need no table."""
    score = d.number.format(c=column)
    n = len(numbers) // (1 if added is None else 2)
    units = _tree(d, lines, numbers[:n], 0, f"CAST({column} AS {d.double}) * {TWO_32} + 0.5", pattern)
    line = f"y.{SHIFTED}"
    if added is not None:
        line = _tree(d, lines, numbers[:n], n, line, pattern)
    found = (
        f"(SELECT CAST({line} AS {d.double}) / {TWO_32}\n"
        f"FROM (SELECT {_shifted(d, f'x.{UNITS}', odds)} AS {SHIFTED}\n"
        f"FROM (SELECT {units} AS {UNITS}{d.fence}) AS x{d.fence}) AS y)"
    )
    found = f"COALESCE({found}, {score})" if kept.unseen else found
    invalid = f" ELSE {score}" if kept.invalid else ""
    return f"CASE WHEN {score} >= 0 AND {score} <= 1\nTHEN {found}{invalid} END"


def _tree(d: Dialect, lines: Lines, numbers: IntArray, first: int, value: str, pattern: str) -> str:
    """The lines of the patterns from `first` on, for the number of a pattern and a value in units."""
    exact = replace(lines, keeps=np.zeros_like(lines.keeps))
    starts = np.searchsorted(lines.owner, first + np.arange(len(numbers) + 1))
    maps = [
        forms.tree(
            value, lines.score_from[a:b].tolist(), [forms.line(d, exact, i, value) for i in range(a, b)]
        )
        for a, b in pairwise(starts.tolist())
    ]
    return maps[0] if pattern == "0" else forms.choice(f"({pattern})", numbers.tolist(), maps, "NULL")

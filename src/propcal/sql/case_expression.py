"""Writes a correction as one SQL expression: nested CASE expressions over the pattern and the score.

Databases limit the depth of nested expressions (SQL Server: ten levels of CASE) and are slow with long lists
of WHEN. A list is therefore divided into parts of at most `FAN`, and each part again as often as needed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np

from propcal.core.grid import IntArray
from propcal.sql.dialects import TWO_32, Dialect
from propcal.sql.lookup_table import Kept
from propcal.sql.map_lines import Lines

FAN = 16
PATTERN = "propcal_pattern"  # of a column for the number of the pattern


def case_query(d: Dialect, people: str, column: str, pattern: str, corrected: Callable[[str], str]) -> str:
    """The people with their corrected scores, which `corrected` makes of the number of the pattern."""
    if not d.without or pattern == "0":
        return f"SELECT p.*, {corrected(pattern)} AS {column}\nFROM {people} AS p"
    number = d.identifier(PATTERN)
    numbered = f"(SELECT p.*, {pattern} AS {number}\nFROM {people} AS p) AS p"
    return f"SELECT {d.without.format(x=number)}, {corrected(number)} AS {column}\nFROM {numbered}"


def expression(d: Dialect, lines: Lines, patterns: IntArray, *, pattern: str, column: str, kept: Kept) -> str:
    """SQL for the corrected score, given the column of the score and SQL for the number of the pattern.

    The tree gives the corrected score in units of 2**-32. If nothing changes, that is the score times
    2**32, which loses no bits when divided again. `patterns` are the numbers of the patterns to which the
    lines belong; `kept` says for which other scores there is a result.
    """
    score = d.number.format(c=column)
    scaled = f"CAST({column} AS {d.double}) * {TWO_32}"  # the score is from 0 to 1 here
    rounded = f"{scaled} + 0.5"
    starts = np.searchsorted(lines.owner, np.arange(len(patterns) + 1))
    maps = [
        _tree(
            rounded,
            lines.score_from[a:b].tolist(),
            [_line(d, lines, i, scaled, rounded) for i in range(a, b)],
        )
        for a, b in pairwise(starts.tolist())
    ]
    other = scaled if kept.unseen else "NULL"
    tree = maps[0] if pattern == "0" else _choice(f"({pattern})", patterns.tolist(), maps, other)
    invalid = f" ELSE {score}" if kept.invalid else ""
    return (
        f"CASE WHEN {score} >= 0 AND {score} <= 1\nTHEN CAST({tree}\nAS {d.double}) / {TWO_32}{invalid} END"
    )


def _line(d: Dialect, lines: Lines, i: int, scaled: str, rounded: str) -> str:
    if lines.keeps[i]:
        return scaled
    begin, rise, base, width = (
        int(column[i]) for column in (lines.score_from, lines.rise, lines.base, lines.width)
    )
    if rise == 0:
        return str(base // width)
    raw = d.floor.format(x=rounded)
    if rise == width == 1:
        return f"{raw} + {base - begin}" if base >= begin else f"{raw} - {begin - base}"
    above = f"({raw} - {begin})" if begin else raw
    return d.divide.format(n=f"({rise} * {above} + {base})", d=width)


def _tree(x: str, begins: Sequence[int], values: Sequence[str]) -> str:
    """The value for the last beginning that x has reached; rounding x down would not change it."""
    if len(values) == 1:
        return values[0]
    parts = _parts(len(values), FAN)
    arms = [f"\nWHEN {x} < {begins[b]} THEN {_tree(x, begins[a:b], values[a:b])}" for a, b in parts[:-1]]
    a, b = parts[-1]
    return f"CASE{''.join(arms)}\nELSE {_tree(x, begins[a:b], values[a:b])} END"


def _choice(x: str, numbers: Sequence[int], values: Sequence[str], other: str) -> str:
    """The value for the number x."""
    if len(values) <= FAN:
        arms = "".join(f"\nWHEN {number} THEN {value}" for number, value in zip(numbers, values))
        return f"CASE {x}{arms}\nELSE {other} END"
    parts = _parts(len(values), FAN)
    arms = "".join(
        f"\nWHEN {x} < {numbers[b] if b < len(numbers) else numbers[-1] + 1} "
        f"THEN {_choice(x, numbers[a:b], values[a:b], other)}"
        for a, b in parts
    )
    return f"CASE{arms}\nELSE {other} END"


def _parts(n: int, most: int) -> list[tuple[int, int]]:
    """Divide n items into at most `most` parts of nearly equal size."""
    cuts = [n * i // min(n, most) for i in range(min(n, most) + 1)]
    return list(pairwise(cuts))

"""The correction maps as lines of whole numbers, which any database computes exactly.

A line applies from one raw score to another, in units of 2**-32, and gives

    (rise * (raw - score_from) + base) / width     rounded down

This equals the recalibration followed by the updates, to the last unit. No number is
negative, so that division rounding down and division rounding towards zero agree, and
the largest product stays below 2**62 (see `_reduced`). Lines that leave scores
unchanged are marked, so that such a score is returned with all its bits.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

import numpy as np

from propcal.core.correction.maps import PatternMaps
from propcal.core.correction.smooth_map import knots
from propcal.core.grid import UNIT, IntArray
from propcal.core.patterns import Patterns

# Rows of a table of lines while it is made
OWNER = 0
BEGIN = 1
RISE = 2
BASE = 3
WIDTH = 4
SAME_LINE = [OWNER, RISE, WIDTH]


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
        of_map = [_lines_of_map(maps, p) for p in range(len(maps))]
        owner = np.repeat(np.arange(len(maps)), [lines.shape[1] for lines in of_map])
        every = np.vstack([owner, _reduced(np.concatenate(of_map, axis=1))])
        cut = _cut_where_unchanged(_without_continuations(every))
        owner, begin, rise, base, width = cut
        keeps = (rise == 1) & (width == 1) & (base == begin)
        last = _last_score(cut)
        return cls(owner, begin, last, keeps.astype(np.int64), rise, base, width)

    def __add__(self, other: Lines) -> Lines:
        """Both; the maps of the other are numbered from behind those of this one."""
        columns = {
            name: np.append(column, getattr(other, name))
            for name, column in vars(self).items()
        }
        columns["owner"] = np.append(self.owner, other.owner + self.owner[-1] + 1)
        return Lines(**columns)


def _lines_of_map(maps: PatternMaps, pattern: int) -> IntArray:
    """Rows begin, rise, base, width of one map; lines begin where the recalibration
    enters another piece.
    """
    if not maps.smooth.shape[1]:
        begin, slope, offset = maps.table(pattern)
        return np.stack([begin, slope, slope * begin + offset, np.ones_like(slope)])

    # the recalibration with its rounding is one floor: (2 rise x + width + 2 width low)
    # // (2 width)
    begin, k, piece = maps.lines(pattern)
    at = knots()
    width = at[k + 1] - at[k]
    low, high = maps.smooth[pattern][k], maps.smooth[pattern][k + 1]
    rise = 2 * (high - low)
    base = rise * (begin - at[k]) + width + 2 * width * low

    slope = maps.slope[piece]
    base = slope * base + 2 * width * maps.offset[piece]
    return np.stack([begin, slope * rise, base, 2 * width])


def _reduced(lines: IntArray) -> IntArray:
    """Lines (rows begin, rise, base, width) with smaller numbers; a rise in whole units
    gets the width 1.

    With g dividing rise and width, floor((rise x + base) / width) is floor((rise/g x +
    floor(base/g)) / (width/g)): the terms in x are whole. Knots are at most 2**27 apart
    and values at most 2**32, so rise x <= 2**33 * 2**27 and base <= 2**28 * 2**32:
    below 2**62 together.
    """
    begin, rise, base, width = lines
    shared = np.gcd(rise, width)
    return np.stack([begin, rise // shared, base // shared, width // shared])


def _without_continuations(lines: IntArray) -> IntArray:
    """The lines (rows owner, begin, rise, base, width) without those that merely
    continue the one before.
    """
    before = lines[:, :-1]
    after = lines[:, 1:]
    same_slope = np.all(after[SAME_LINE] == before[SAME_LINE], axis=0)
    reached = before[BASE] + before[RISE] * (after[BEGIN] - before[BEGIN])
    continues = same_slope & (after[BASE] == reached)
    return np.asarray(lines[:, np.append(True, ~continues)])


def _last_score(lines: IntArray) -> IntArray:
    """The last raw score of each line; the last line of a map ends at 1."""
    owner, begin = lines[:2]
    ends_map = np.append(owner[1:] != owner[:-1], True)
    before_next = np.append(begin[1:], 0) - 1
    return np.where(ends_map, UNIT, before_next)


def _cut_where_unchanged(lines: IntArray) -> IntArray:
    """Cut lines so that each changes either every score or none.

    The difference between a line and the score never rises if its slope is at most 1,
    and never falls otherwise. It is therefore 0 on a single interval of scores, which
    two binary searches find.
    """
    owner, begin, rise, base, width = lines
    end = _last_score(lines) + 1
    unchanged_from = _first_with_change_below(1, lines)
    unchanged_to = _first_with_change_below(0, lines)  # not included

    one = np.ones_like(rise)
    base_after = base + rise * (unchanged_to - begin)
    before = np.stack([owner, begin, rise, base, width])
    unchanged = np.stack([owner, unchanged_from, one, unchanged_from, one])
    after = np.stack([owner, unchanged_to, rise, base_after, width])
    parts = [
        before[:, begin < unchanged_from],
        unchanged[:, unchanged_from < unchanged_to],
        after[:, unchanged_to < end],
    ]
    cut = np.concatenate(parts, axis=1)
    in_order = np.lexsort((cut[BEGIN], cut[OWNER]))
    return _without_continuations(cut[:, in_order])


def _first_with_change_below(limit: int, lines: IntArray) -> IntArray:
    """The first score of each line whose change is below `limit`; behind the last if
    there is none.

    The change is counted in the direction in which it falls along the line.
    """
    _, begin, rise, base, width = lines
    last = _last_score(lines)
    direction = np.where(rise <= width, 1, -1)
    low = begin.copy()
    high = last + 1
    while np.any(low < high):
        middle = (low + high) // 2
        value = (rise * (np.minimum(middle, last) - begin) + base) // width
        is_below = direction * (value - middle) < limit
        high = np.where((low < high) & is_below, middle, high)
        low = np.where((low < high) & ~is_below, middle + 1, low)
    return np.asarray(low)


def before_and_after_points(
    maps: PatternMaps, patterns: Patterns, numbers: IntArray
) -> tuple[Lines, IntArray, int | None]:
    """Lines of the recalibration, then those of the updates if there are any; numbers
    of their patterns.

    Also returns what is added to the number of a pattern to find its updates, or None
    without updates.
    """
    n = len(numbers)
    zeros = np.zeros(n, dtype=np.int64)
    no_updates = PatternMaps(np.arange(n + 1), zeros, zeros + 1, zeros, maps.smooth)
    before = Lines.of_maps(no_updates)
    if np.all((maps.slope == 1) & (maps.offset == 0)):
        return before, numbers, None

    after = Lines.of_maps(replace(maps, smooth=maps.smooth[:, :0]))
    added = prod(len(levels) + 1 for levels in patterns.levels)
    return before + after, np.append(numbers, numbers + added), added

"""The maps of a correction as lines in integers, which any database can evaluate exactly.

A line applies from one raw score to another, in units of 2**-32, and gives

    (rise * (raw - score_from) + base) / width     rounded down

This equals the recalibration followed by the updates, to the last unit. No number is negative, so that
division rounding down and division rounding towards zero agree, and the largest product stays below 2**62
(see `_reduce`). Lines that leave scores unchanged are marked, so that such a score is returned with all its
bits.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from propcal.core.correction.maps import PatternMaps
from propcal.core.correction.smooth_map import knots
from propcal.core.grid import UNIT, IntArray


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
        table = _cut_where_unchanged(_joined(np.vstack([owner, _reduced(np.concatenate(tables, axis=1))])))
        owner, begin, rise, base, width = table
        keeps = ((rise == 1) & (width == 1) & (base == begin)).astype(np.int64)
        return cls(owner, begin, _last(table), keeps, rise, base, width)

    def __add__(self, other: Lines) -> Lines:
        """Both; the maps of the other are numbered from behind those of this one."""
        columns = {name: np.append(column, getattr(other, name)) for name, column in vars(self).items()}
        columns["owner"] = np.append(self.owner, other.owner + self.owner[-1] + 1)
        return Lines(**columns)


def _composed(maps: PatternMaps, pattern: int) -> IntArray:
    """Rows begin, rise, base, width of one map; lines begin where the recalibration enters another piece."""
    if not maps.smooth.shape[1]:
        begin, slope, offset = maps.table(pattern)
        return np.stack([begin, slope, slope * begin + offset, np.ones_like(slope)])
    at, values = knots(), maps.smooth[pattern]
    begin, k, piece = maps.lines(pattern)
    # the recalibration with its rounding is one floor: (2 rise x + width + 2 width low) // (2 width)
    width, low = at[k + 1] - at[k], values[k]
    rise = 2 * (values[k + 1] - low)
    base = rise * (begin - at[k]) + width + 2 * width * low
    base = maps.slope[piece] * base + 2 * width * maps.offset[piece]
    return np.stack([begin, maps.slope[piece] * rise, base, 2 * width])


def _reduced(table: IntArray) -> IntArray:
    """The same lines with smaller numbers; a rise in whole units gets the width 1.

    With g dividing rise and width, floor((rise x + base) / width) is floor((rise/g x + floor(base/g)) /
    (width/g)): the terms in x are whole. Knots are at most 2**27 apart and values at most 2**32, so
    rise x <= 2**33 * 2**27 and base <= 2**28 * 2**32: below 2**62 together.
    """
    begin, rise, base, width = table
    shared = np.gcd(rise, width)
    return np.stack([begin, rise // shared, base // shared, width // shared])


def _joined(table: IntArray) -> IntArray:
    """The lines (rows owner, begin, rise, base, width) without those that merely continue the one before."""
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

    The difference between a line and the score never rises if its slope is at most 1, and never falls
    otherwise. It is therefore 0 on a single interval of scores, which two binary searches find.
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

    unchanged_from, unchanged_to = first(1), first(0)  # the second is not included
    one = np.ones_like(rise)
    parts = [
        (unchanged_from, [owner, begin, rise, base, width]),
        (unchanged_to, [owner, unchanged_from, one, unchanged_from, one]),
        (last + 1, [owner, unchanged_to, rise, base + rise * (unchanged_to - begin), width]),
    ]
    cut = np.concatenate([np.stack(part)[:, part[1] < end] for end, part in parts], axis=1)
    return _joined(cut[:, np.lexsort((cut[1], cut[0]))])

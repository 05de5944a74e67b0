"""Piecewise-linear maps from raw to corrected score, one for each pattern, composed from the updates.

An update adds a shift to the scores in one bin and clips. Applied in order to a raw score, the updates of a
pattern's groups give a piecewise-linear function (`propcal.core.correction.composition`). Its breakpoints are
scores (an edge minus an offset), not data points, so that the map is exact for any score.

If there is a smooth recalibration, a raw score first goes through it and then through the pieces.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from propcal.core.compiled import compiled, first_not_below
from propcal.core.correction.composition import compose
from propcal.core.correction.limits import MOST_PIECES, refuse_pieces, refuse_work, steps_by_pattern
from propcal.core.correction.smooth_map import knots, smooth_value
from propcal.core.grid import UNIT, BoolArray, FloatArray, IntArray, from_grid

NO_CHANGE = np.array([[0, 1, 0]], dtype=np.int64)


@dataclass(frozen=True, eq=False)
class PatternMaps:
    """The maps of several patterns: pieces ``starts[p]:starts[p + 1]`` belong to pattern p.

    From score ``begin`` up to the beginning of the next piece, a piece gives ``slope * score + offset``
    (slope 0 or 1), in units of the grid. `smooth` has each pattern's recalibrated scores at the knots, to
    which the pieces then apply; it has no columns if there is no recalibration.
    """

    starts: IntArray
    begin: IntArray
    slope: IntArray
    offset: IntArray
    smooth: IntArray

    def __len__(self) -> int:
        return len(self.starts) - 1

    @classmethod
    def of_updates(
        cls,
        inside: BoolArray,
        updates: IntArray,
        edges: IntArray,
        smooth: IntArray | None = None,
        monotone: bool = False,
    ) -> PatternMaps:
        """The maps of the patterns (columns of `inside`), each from the updates of its groups (rows).

        If `monotone`, a map gives no score less than a lower score: it becomes its own running maximum.
        """
        n = inside.shape[1]
        refuse_work(len(updates), n, int(steps_by_pattern(inside, updates, edges).sum()))
        tables, left = [], MOST_PIECES
        for members in inside.T:
            tables.append(_composed(members, updates, edges, left))
            left -= len(tables[-1])
            if not len(tables[-1]):
                refuse_pieces(len(updates), n)
            if monotone:
                tables[-1] = in_order(tables[-1])
        return cls._of_tables(tables, smooth)

    @classmethod
    def in_parts(
        cls,
        inside: BoolArray,
        updates: IntArray,
        edges: IntArray,
        smooth: IntArray | None = None,
        monotone: bool = False,
    ) -> Iterator[PatternMaps]:
        """Like `of_updates`, in consecutive parts. The limits apply to each pattern by itself."""
        refuse_work(len(updates), 1, int(steps_by_pattern(inside, updates, edges).max(initial=0)))
        tables: list[IntArray] = []
        first = n_pieces = 0
        for p, members in enumerate(inside.T):
            table = _composed(members, updates, edges, MOST_PIECES)
            if not len(table):
                refuse_pieces(len(updates), 1)
            if n_pieces + len(table) > MOST_PIECES:
                yield cls._of_tables(tables, None if smooth is None else smooth[first:p])
                tables, first, n_pieces = [], p, 0
            tables.append(in_order(table) if monotone else table)
            n_pieces += len(table)
        if tables:
            yield cls._of_tables(tables, None if smooth is None else smooth[first:])

    @classmethod
    def _of_tables(cls, tables: Sequence[IntArray], smooth: IntArray | None) -> PatternMaps:
        starts = np.cumsum([0, *map(len, tables)])
        begin, slope, offset = (np.concatenate([table[:, c] for table in tables]) for c in range(3))
        none = np.empty((len(tables), 0), dtype=np.int64)
        return cls(starts, begin, slope, offset, none if smooth is None else smooth)

    def apply(self, score: Any, code: Any) -> Any:
        """Correct each score by the map of its pattern; a negative code leaves the score unchanged."""
        at = knots() if self.smooth.shape[1] else np.empty(0, dtype=np.int64)
        return _apply(score, code, self.starts, self.begin, self.slope, self.offset, at, self.smooth)

    def pieces(self) -> tuple[IntArray, IntArray, FloatArray, FloatArray]:
        """The pieces of recalibration and updates together, as arrays.

        For each piece: its pattern, its first raw score (in units), slope and intercept. Slope and
        intercept are those of the lines, before rounding to units.
        """
        owner = np.repeat(np.arange(len(self)), np.diff(self.starts))
        if not self.smooth.shape[1]:
            return owner, self.begin, self.slope.astype(np.float64), from_grid(self.offset)
        tables = [self._composed(p) for p in range(len(self))]
        owner = np.repeat(np.arange(len(tables)), [len(begin) for begin, *_ in tables])
        begin, slope, intercept = (np.concatenate(column) for column in zip(*tables))
        return owner, begin, slope, intercept

    def _composed(self, pattern: int) -> tuple[IntArray, FloatArray, FloatArray]:
        """The pieces of one pattern's recalibration, cut where it enters another piece of the updates."""
        at, values = knots(), self.smooth[pattern]
        low, high = self.starts[pattern], self.starts[pattern + 1]
        begin = np.union1d(at[:-1], start_reaches(self.begin[low:high], at, values))
        # a score of 1 belongs to the last line
        line = np.minimum(np.searchsorted(at, begin, side="right") - 1, len(at) - 2)
        rise = np.diff(values) / np.diff(at)
        value = _apply_start(begin, at, values)
        piece = low + np.searchsorted(self.begin[low:high], value, side="right") - 1
        slope = self.slope[piece] * rise[line]
        unrounded = values[line] - rise[line] * at[line]
        intercept = (self.slope[piece] * unrounded + self.offset[piece]) / UNIT
        new = np.append(True, (np.abs(np.diff(slope)) > 1e-12) | (np.abs(np.diff(intercept)) > 1e-12))
        return begin[new], slope[new], intercept[new]


def _composed(members: BoolArray, updates: IntArray, edges: IntArray, most: int) -> IntArray:
    """The map of one pattern, given which groups contain it; no rows if there would be more than `most`."""
    own = updates[members[updates[:, 0]]][:, 1:]
    # most fits need no updates: then nothing has to be compiled, which takes seconds
    return np.asarray(compose(np.ascontiguousarray(own), edges, most)) if len(own) else NO_CHANGE


def in_order(table: IntArray) -> IntArray:
    """The running maximum of a map (rows of begin, slope, offset): no score is below that of a lower one."""
    if len(table) == 1:
        return table
    return np.asarray(_running_maximum(table))


@compiled
def _running_maximum(table: Any) -> Any:
    found, n = np.empty((2 * len(table), 3), np.int64), 0
    highest = np.int64(0)
    for k in range(len(table)):
        begin, slope, offset = table[k, 0], table[k, 1], table[k, 2]
        end = table[k + 1, 0] - 1 if k + 1 < len(table) else UNIT  # the last score of this piece
        first, last = slope * begin + offset, slope * end + offset
        if first < highest:  # constant until the piece reaches what lower scores have
            if n == 0 or found[n - 1, 1] != 0 or found[n - 1, 2] != highest:
                found[n, 0], found[n, 1], found[n, 2] = begin, 0, highest
                n += 1
            begin = highest - offset
        if last > highest or first >= highest:
            if n == 0 or found[n - 1, 1] != slope or found[n - 1, 2] != offset:
                found[n, 0], found[n, 1], found[n, 2] = begin, slope, offset
                n += 1
            highest = max(highest, last)
    return found[:n].copy()


def start_reaches(targets: IntArray, at: IntArray, values: IntArray) -> IntArray:
    """The first raw score that the recalibration takes to each target or above it; exact."""
    k = np.searchsorted(values[1:-1], targets) + 1
    width, rise, missing = at[k] - at[k - 1], values[k] - values[k - 1], targets - values[k - 1]
    steps = -((width - 2 * width * missing) // (2 * np.maximum(rise, 1)))  # rounded up
    return np.asarray(np.clip(at[k - 1] + np.maximum(steps, 0), 0, UNIT))


def _apply_start(score: IntArray, at: IntArray, values: IntArray) -> IntArray:
    """`smooth_value` for the scores of one pattern."""
    k = np.clip(np.searchsorted(at, score), 1, len(at) - 1)
    width, low = at[k] - at[k - 1], values[k - 1]
    return np.asarray(low + (2 * (values[k] - low) * (score - at[k - 1]) + width) // (2 * width))


@compiled
def _apply(
    score: Any, code: Any, starts: Any, begin: Any, slope: Any, offset: Any, at: Any, smooth: Any
) -> Any:
    """Look up every score in the map of its pattern.

    A score whose place on the grid does not change is returned unchanged, to the last bit.
    """
    corrected = np.empty(len(score), np.float64)
    for i in range(len(score)):
        corrected[i] = score[i]
        pattern = code[i]
        if pattern < 0:
            continue
        raw = int(np.floor(score[i] * UNIT + 0.5))
        value = smooth_value(raw, at, smooth, pattern) if len(at) else raw
        k = first_not_below(begin, starts[pattern], starts[pattern + 1], value + 1) - 1
        value = slope[k] * value + offset[k]
        if value != raw:
            corrected[i] = value / UNIT
    return corrected

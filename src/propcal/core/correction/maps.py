"""Maps: what a list of updates amounts to, as a piecewise-linear function of the raw score per pattern.

An update adds a shift to the scores in one bin and clips. Applied one after another to a raw score,
the updates of a pattern's groups are a composition of such functions, and it is built here from the
last one to the first: in front of what is to come, an update replaces the pieces over its own bin by
a copy of the pieces that the shift leads to. Breakpoints lie in score space (an edge minus an
offset), not at data points, so that the map is exact for scores never seen.

Where a smooth start comes before the updates, a raw score first goes through it, then through the
pieces.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from propcal.core.bin_search import bin_end, bin_of, first_not_below
from propcal.core.compiled import compiled
from propcal.core.correction.smooth_map import knots, smooth_value
from propcal.core.grid import UNIT, BoolArray, FloatArray, IntArray, from_grid

# Columns of a table of pieces: from raw score BEGIN on, the corrected score is slope * raw + offset.
BEGIN, SLOPE, OFFSET, N_COLUMNS = 0, 1, 2, 3


@dataclass(frozen=True, eq=False)
class PatternMaps:
    """Maps of several patterns, one after another: pieces ``starts[p]:starts[p + 1]`` are p's.

    The piece that begins at score ``begin`` gives ``slope * score + offset`` (slope 0 or 1), in
    units of the grid, up to where the next one begins. `smooth` has each pattern's scores at the
    knots of the smooth start, from which the pieces go on; no columns: there is no start.
    """

    starts: IntArray
    begin: IntArray
    slope: IntArray
    offset: IntArray
    smooth: IntArray

    @classmethod
    def of_updates(
        cls, inside: BoolArray, updates: IntArray, edges: IntArray, smooth: IntArray | None = None
    ) -> PatternMaps:
        """Maps of the patterns (columns of `inside`), each under the updates of its groups (rows)."""
        tables = [_compose(updates[inside[updates[:, 0], p]][:, 1:], edges) for p in range(inside.shape[1])]
        starts = np.cumsum([0, *map(len, tables)])
        begin, slope, offset = (np.concatenate([table[:, c] for table in tables]) for c in range(3))
        none = np.empty((inside.shape[1], 0), dtype=np.int64)
        return cls(starts, begin, slope, offset, none if smooth is None else smooth)

    def apply(self, score: Any, code: Any) -> Any:
        """Correct each score by the map of its pattern; a negative code leaves it as it is."""
        at = knots() if self.smooth.shape[1] else np.empty(0, dtype=np.int64)
        return _apply(score, code, self.starts, self.begin, self.slope, self.offset, at, self.smooth)

    def pieces(self) -> tuple[IntArray, IntArray, FloatArray, FloatArray]:
        """What start and updates amount to: pattern, raw score (in units) from which on, slope, intercept.

        Slope and intercept are those of the straight lines, before rounding to whole units.
        """
        owner = np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts))
        if not self.smooth.shape[1]:
            return owner, self.begin, self.slope.astype(np.float64), from_grid(self.offset)
        tables = [self._composed(p) for p in range(len(self.starts) - 1)]
        owner = np.repeat(np.arange(len(tables)), [len(begin) for begin, *_ in tables])
        begin, slope, intercept = (np.concatenate(column) for column in zip(*tables))
        return owner, begin, slope, intercept

    def _composed(self, pattern: int) -> tuple[IntArray, FloatArray, FloatArray]:
        """Pieces of one pattern's start, cut where it enters another piece of the updates."""
        at, values = knots(), self.smooth[pattern]
        low, high = self.starts[pattern], self.starts[pattern + 1]
        begin = np.union1d(at[:-1], start_reaches(self.begin[low:high], at, values))
        line = np.minimum(np.searchsorted(at, begin, side="right") - 1, len(at) - 2)  # 1 ends the last line
        rise = np.diff(values) / np.diff(at)
        value = _apply_start(begin, at, values)
        piece = low + np.searchsorted(self.begin[low:high], value, side="right") - 1
        slope = self.slope[piece] * rise[line]
        unrounded = values[line] - rise[line] * at[line]
        intercept = (self.slope[piece] * unrounded + self.offset[piece]) / UNIT
        new = np.append(True, (np.abs(np.diff(slope)) > 1e-12) | (np.abs(np.diff(intercept)) > 1e-12))
        return begin[new], slope[new], intercept[new]


def start_reaches(targets: IntArray, at: IntArray, values: IntArray) -> IntArray:
    """The first raw score that the start takes to each target or above it; exact."""
    k = np.searchsorted(values[1:-1], targets) + 1
    width, rise, missing = at[k] - at[k - 1], values[k] - values[k - 1], targets - values[k - 1]
    steps = -((width - 2 * width * missing) // (2 * np.maximum(rise, 1)))  # rounded up
    return np.asarray(np.clip(at[k - 1] + np.maximum(steps, 0), 0, UNIT))


def _apply_start(score: IntArray, at: IntArray, values: IntArray) -> IntArray:
    """What `smooth_value` gives, for one pattern."""
    k = np.clip(np.searchsorted(at, score), 1, len(at) - 1)
    width, low = at[k] - at[k - 1], values[k - 1]
    return np.asarray(low + (2 * (values[k] - low) * (score - at[k - 1]) + width) // (2 * width))


@compiled
def _compose(updates: Any, edges: Any) -> Any:
    """Pieces of the map that applies rows (bin, shift) in order.

    The pieces over bin j are rows place[j] : place[j] + size[j] of a pool that is only appended to;
    when it is full, the pieces in use are copied to a new one.
    """
    n_bins = len(edges) - 1
    pool = np.empty((8 * n_bins + 64, N_COLUMNS), np.int64)
    place, size = np.arange(n_bins), np.ones(n_bins, np.int64)
    for j in range(n_bins):
        pool[j, BEGIN], pool[j, SLOPE], pool[j, OFFSET] = edges[j], 1, 0
    top = in_use = n_bins
    for u in range(len(updates) - 1, -1, -1):
        j = updates[u, 0]
        if top + in_use + 2 > len(pool):
            pool, top = _compact(pool, place, size, in_use), in_use
        n = _put_in_front(pool, place, size, top, edges, j, updates[u, 1])
        in_use += n - size[j]
        place[j], size[j] = top, n
        top += n
    pieces = _compact(pool, place, size, in_use)
    n = 0
    for i in range(in_use):  # join what goes on across bin edges
        n = _append(pieces, 0, n, pieces[i, BEGIN], pieces[i, SLOPE], pieces[i, OFFSET])
    return pieces[:n].copy()


@compiled
def _compact(pool: Any, place: Any, size: Any, in_use: int) -> Any:
    """A pool with the pieces in use, in order, and room for several times as many."""
    larger = np.empty((4 * in_use + 64, N_COLUMNS), np.int64)
    top = 0
    for j in range(len(place)):
        for i in range(size[j]):
            for column in range(N_COLUMNS):
                larger[top + i, column] = pool[place[j] + i, column]
        place[j] = top
        top += size[j]
    return larger


@compiled
def _append(pool: Any, first: int, end: int, begin: int, slope: int, offset: int) -> int:
    """Add a piece after pool[first:end] unless the last of them goes on; the new end."""
    if end > first and pool[end - 1, SLOPE] == slope and pool[end - 1, OFFSET] == offset:
        return end
    pool[end, BEGIN], pool[end, SLOPE], pool[end, OFFSET] = begin, slope, offset
    return end + 1


@compiled
def _put_in_front(pool: Any, place: Any, size: Any, top: int, edges: Any, j: int, shift: int) -> int:
    """Append the pieces over bin j of: add `shift`, clip, then the map so far. Returns their number."""
    begin, end, new = edges[j], bin_end(j, edges), top
    if begin + shift < 0:  # clipped to 0, where the map's first piece begins
        new = _append(pool, top, new, begin, 0, pool[place[0], OFFSET])
        begin = min(end, -shift)
    if begin < end and begin + shift <= UNIT:
        b = bin_of(begin + shift, edges)
        i, last = place[b], place[b] + size[b]
        i = first_not_below(pool[:, BEGIN], i, last, begin + shift + 1) - 1
        while begin < end and begin + shift <= UNIT:
            new = _append(pool, top, new, begin, pool[i, SLOPE], pool[i, OFFSET] + pool[i, SLOPE] * shift)
            i += 1
            if i < last:
                begin = min(end, pool[i, BEGIN] - shift)
            else:  # on to the next bin
                begin = min(end, bin_end(b, edges) - shift)
                b += 1
                if b < len(place):
                    i, last = place[b], place[b] + size[b]
    if begin < end:  # clipped to 1, where the map's last piece ends
        i = place[-1] + size[-1] - 1
        new = _append(pool, top, new, begin, 0, pool[i, OFFSET] + pool[i, SLOPE] * UNIT)
    return new - top


@compiled
def _apply(
    score: Any, code: Any, starts: Any, begin: Any, slope: Any, offset: Any, at: Any, smooth: Any
) -> Any:
    """Look every score up in its pattern's map.

    A score whose place on the grid does not change is returned as it came, to the last bit.
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

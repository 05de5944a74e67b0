"""Compiles updates to pieces: follows a pattern's scores through its updates.

An update adds a shift to the scores in one bin and clips them at 0 and 1. The scores
are followed as *segments*: runs of raw scores that have had the same updates so far, so
that their score is now ``raw + offset`` (slope 1), or a constant after clipping (slope
0). Each bin has a list of the segments whose scores are in it. An update moves these,
and cuts them at the edges of bins and at 0 and 1. In the end, the segments in order of
raw score are the pieces of the map. Cuts are scores (an edge minus an offset), not data
points, so that the map is exact for any score.

Updates can be chosen so that each doubles the number of segments; the kernel therefore
stops at a limit.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from propcal.core.compiled import bin_end, bin_of, compiled
from propcal.core.grid import UNIT, IntArray

NO_CHANGE = np.array([[0, 1, 0]], dtype=np.int64)

# Columns of the segments: raw scores from BEGIN up to, but not including, END. NEXT is
# the next segment in the same bin.
BEGIN = 0
SLOPE = 1
OFFSET = 2
END = 3
NEXT = 4
N_COLUMNS = 5
NONE = -1


@compiled
def move_segments(moves: Any, edges: Any, max_segments: int, max_steps: int) -> Any:
    """The segments after all moves, rows of bin and shift; and the steps they took.

    Stops when there are more than `max_segments`, or after more than `max_steps`.
    """
    n_bins = len(edges) - 1
    first_of_bin = np.full(n_bins, NONE, np.int64)
    segments = np.empty((4 * n_bins, N_COLUMNS), np.int64)
    for j in range(n_bins):
        _put(segments, j, first_of_bin, j, edges[j], bin_end(j, edges), 1, 0)
    count = n_bins
    n_steps = n_bins

    for move in range(len(moves)):
        j = moves[move, 0]
        shift = moves[move, 1]
        k = first_of_bin[j]
        first_of_bin[j] = NONE
        n_steps += 1
        while k != NONE:
            following = segments[k, NEXT]
            segments = _with_room(segments, count + n_bins + 2)
            new_count = _move(segments, k, count, first_of_bin, shift, edges)
            n_steps += 1 + new_count - count
            count = new_count
            k = following
        if count > max_segments or n_steps > max_steps:
            break
    return segments[:count], n_steps


@compiled
def _move(
    segments: Any, k: int, count: int, first_of_bin: Any, shift: int, edges: Any
) -> int:
    """Shift a segment, cut it at edges, and put its parts into their bins.

    The first part replaces the segment; the others follow behind the last segment.
    Returns the number of segments.
    """
    begin = segments[k, BEGIN]
    end = segments[k, END]
    slope = segments[k, SLOPE]
    offset = segments[k, OFFSET] + shift
    place = k
    while begin < end:
        score = slope * begin + offset
        cut = end
        if score < 0:
            if slope == 1:
                cut = min(end, -offset)
            _put(segments, place, first_of_bin, 0, begin, cut, 0, 0)
        elif score > UNIT:
            last_bin = len(edges) - 2
            _put(segments, place, first_of_bin, last_bin, begin, cut, 0, UNIT)
        else:
            j = bin_of(score, edges)
            if slope == 1:
                cut = min(end, bin_end(j, edges) - offset)
            _put(segments, place, first_of_bin, j, begin, cut, slope, offset)
        begin = cut
        if begin < end:
            place = count
            count += 1
    return count


@compiled
def _put(
    segments: Any,
    k: int,
    first_of_bin: Any,
    j: int,
    begin: int,
    end: int,
    slope: int,
    offset: int,
) -> None:
    """Write segment k, and put it in front of the others in bin j."""
    segments[k, BEGIN] = begin
    segments[k, END] = end
    segments[k, SLOPE] = slope
    segments[k, OFFSET] = offset
    segments[k, NEXT] = first_of_bin[j]
    first_of_bin[j] = k


@compiled
def _with_room(segments: Any, needed: int) -> Any:
    """The segments, in a larger table if there is no room for as many as needed."""
    if needed <= len(segments):
        return segments
    larger = np.empty((2 * needed, N_COLUMNS), np.int64)
    # a slice assignment would take seconds longer to compile
    for k in range(len(segments)):
        for column in range(N_COLUMNS):
            larger[k, column] = segments[k, column]
    return larger


def pieces_of_segments(segments: IntArray) -> IntArray:
    """The pieces, rows of begin, slope and offset, in order of raw score."""
    by_score = segments[np.argsort(segments[:, BEGIN])]
    return without_continuations(by_score[:, [BEGIN, SLOPE, OFFSET]])


def without_continuations(pieces: IntArray) -> IntArray:
    """The pieces without those that continue the line of the piece before."""
    line = pieces[:, 1:]
    is_new = np.append(True, np.any(line[1:] != line[:-1], axis=1))
    return np.asarray(pieces[is_new])


def non_decreasing(pieces: IntArray) -> IntArray:
    """The running maximum of a map: no score becomes less than a lower score does.

    Where a piece begins below what lower scores have, the map is held at that until the
    piece reaches it.
    """
    if len(pieces) == 1:
        return pieces
    begin, slope, offset = pieces.T
    last_raw = np.append(begin[1:] - 1, UNIT)
    first_score = slope * begin + offset
    last_score = slope * last_raw + offset
    highest_before = np.maximum.accumulate(np.append(0, last_score[:-1]))

    is_held = first_score < highest_before
    goes_on = ~is_held | (last_score > highest_before)
    held = np.stack([begin, np.zeros_like(begin), highest_before], axis=1)
    goes_on_from = np.where(is_held, highest_before - offset, begin)
    free = np.stack([goes_on_from, slope, offset], axis=1)

    # of each piece, the part that is held comes first
    both_parts = np.stack([held, free], axis=1).reshape(-1, 3)
    is_part = np.stack([is_held, goes_on], axis=1).ravel()
    return without_continuations(both_parts[is_part])

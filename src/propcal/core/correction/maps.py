"""Piecewise-linear maps from raw to corrected score, one for each pattern, composed
from the updates.

An update adds a shift to the scores in one bin and clips. Applied in order to a raw
score, the updates of a pattern's groups give a piecewise-linear function. Its
breakpoints are scores (an edge minus an offset), not data points, so that the map is
exact for any score.

`compose` builds it from the last update to the first: each update replaces the map over
its own bin by the part of the later map to which the shift leads. Nothing is copied:
the map over a bin is a balanced tree whose leaves are the pieces, and trees share
common parts, so that an update creates a few dozen nodes, however many pieces there
are. Updates can be chosen so that each doubles the number of pieces; the number is
therefore checked before the pieces are written out.

If there is a smooth recalibration, a raw score first goes through it and then through
the pieces.

Memory and time are limited, and checked before either is used: a correction can come
from a file, and a file can be malicious. Fitted corrections stay far below the limits.
They apply to all patterns seen in fitting together, and to each other pattern by
itself, so that the rows scored together with a person do not matter.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from propcal.core.compiled import bin_end, bin_of, compiled
from propcal.core.correction.points_table import multiply
from propcal.core.correction.smooth_map import AT_ONCE, knots, smooth_values
from propcal.core.grid import UNIT, BoolArray, FloatArray, IntArray, from_grid
from propcal.errors import InputError, PropcalError, refused
from propcal.numbers import plural

NO_CHANGE = np.array([[0, 1, 0]], dtype=np.int64)
SPAN = 2 * UNIT  # more than any score
STEPS_IN_PYTHON = 1 << 15  # steps that take Python as long as importing numba; 0.3 s
MOST_PIECES = 1 << 22  # pieces of all maps together; 100 MB
MOST_STEPS = 1 << 26  # steps for composing all maps; about a minute
UPDATES_PER_STEP = 64  # updates that can be checked in the time of one step


class TooLargeError(InputError):
    """A correction has too many updates to be composed into maps."""


@dataclass(frozen=True, eq=False)
class PatternMaps:
    """The maps of several patterns: pieces ``starts[p]:starts[p + 1]`` belong to
    pattern p.

    From score ``begin`` up to the beginning of the next piece, a piece gives ``slope *
    score + offset`` (slope 0 or 1), in units of the grid. `smooth` has each pattern's
    recalibrated scores at the knots, to which the pieces then apply; it has no columns
    if there is no recalibration.
    """

    starts: IntArray
    begin: IntArray
    slope: IntArray
    offset: IntArray
    smooth: IntArray

    def __len__(self) -> int:
        return len(self.starts) - 1

    @classmethod
    def of_tables(
        cls, tables: Sequence[IntArray], smooth: IntArray | None
    ) -> PatternMaps:
        """The maps whose pieces are these, rows of begin, slope and offset."""
        starts = np.cumsum([0, *map(len, tables)])
        begin, slope, offset = (
            np.concatenate([table[:, c] for table in tables]) for c in range(3)
        )
        none = np.empty((len(tables), 0), dtype=np.int64)
        return cls(starts, begin, slope, offset, none if smooth is None else smooth)

    def table(self, pattern: int) -> IntArray:
        """The pieces of one pattern's updates: rows of begin, slope and offset."""
        own = slice(self.starts[pattern], self.starts[pattern + 1])
        return np.stack([self.begin[own], self.slope[own], self.offset[own]])

    def apply(
        self, score: Any, code: Any, odds: FloatArray | None = None
    ) -> FloatArray:
        """Correct each score by the map of its pattern; a negative code leaves the
        score unchanged.

        So does a score whose place on the grid does not change: it is returned to the
        last bit. Between recalibration and pieces, `odds` multiply the odds of each
        score, if there are points; then every score is rounded to the grid.
        """
        corrected = np.array(score, dtype=np.float64)
        code = np.asarray(code)
        for begin in range(0, len(corrected), AT_ONCE):
            some = slice(begin, begin + AT_ONCE)
            factor = None if odds is None else odds[some]
            self._correct(corrected[some], code[some].astype(np.int64), factor)
        return corrected

    def _correct(
        self, score: FloatArray, pattern: IntArray, odds: FloatArray | None
    ) -> None:
        """Correct a few scores in place."""
        raw = value = np.floor(score * UNIT + 0.5).astype(np.int64)
        if self.smooth.shape[1]:
            value = smooth_values(raw, pattern, self.smooth)
        if odds is not None:
            value = multiply(value, odds)
        piece = pattern
        if len(self.begin) > len(self):
            piece = (
                np.searchsorted(
                    self._begin_by_pattern, pattern * SPAN + value, side="right"
                )
                - 1
            )
        value = self.slope[piece] * value + self.offset[piece]
        changed = ((value != raw) | (odds is not None)) & (pattern >= 0)
        score[changed] = value[changed] / UNIT

    @cached_property
    def _begin_by_pattern(self) -> IntArray:
        """The beginnings of all pieces as one ascending list: those of a pattern follow
        the one before.
        """
        return np.repeat(np.arange(len(self)), np.diff(self.starts)) * SPAN + self.begin

    def pieces(self) -> tuple[IntArray, IntArray, FloatArray, FloatArray]:
        """The pieces of recalibration and updates together, as arrays.

        For each piece: its pattern, its first raw score (in units), slope and
        intercept. Slope and intercept are those of the lines, before rounding to units.
        """
        owner = np.repeat(np.arange(len(self)), np.diff(self.starts))
        if not self.smooth.shape[1]:
            return (
                owner,
                self.begin,
                self.slope.astype(np.float64),
                from_grid(self.offset),
            )
        tables = [self._composed(p) for p in range(len(self))]
        owner = np.repeat(np.arange(len(tables)), [len(begin) for begin, *_ in tables])
        begin, slope, intercept = (np.concatenate(column) for column in zip(*tables))
        return owner, begin, slope, intercept

    def _composed(self, pattern: int) -> tuple[IntArray, FloatArray, FloatArray]:
        """The pieces of one pattern's recalibration and updates together."""
        at = knots()
        values = self.smooth[pattern]
        begin, line, piece = self.lines(pattern)
        rise = np.diff(values) / np.diff(at)
        slope = self.slope[piece] * rise[line]
        unrounded = values[line] - rise[line] * at[line]
        intercept = (self.slope[piece] * unrounded + self.offset[piece]) / UNIT
        new = np.append(
            True,
            (np.abs(np.diff(slope)) > 1e-12) | (np.abs(np.diff(intercept)) > 1e-12),
        )
        return begin[new], slope[new], intercept[new]

    def lines(self, pattern: int) -> tuple[IntArray, IntArray, IntArray]:
        """One pattern's recalibration, cut at the knots and where it enters another
        piece of the updates.

        For each line: the raw score at which it begins, the knot before it, and the
        index of its piece.
        """
        at = knots()
        low = self.starts[pattern]
        high = self.starts[pattern + 1]
        own = self.begin[low:high]
        begin = np.union1d(at[:-1], start_reaches(own, at, self.smooth[pattern]))
        value = smooth_values(begin, pattern, self.smooth)
        # a score of 1 belongs to the last line
        knot = np.minimum(np.searchsorted(at, begin, side="right") - 1, len(at) - 2)
        return begin, knot, low + np.searchsorted(own, value, side="right") - 1


class Replay(NamedTuple):
    """What the maps of some patterns are composed from.

    Attributes
    ----------
    inside : array of bool, shape (n_groups, n_patterns)
        Which groups contain which patterns.
    updates : array of int64, shape (n_updates, 3)
    edges : array of int64
        Of the bins.
    smooth : array of int64, optional
        Each pattern's recalibrated scores at the knots.
    monotone : bool
        Whether a map gives no score less than a lower score: it becomes its own running
        maximum.
    """

    inside: BoolArray
    updates: IntArray
    edges: IntArray
    smooth: IntArray | None = None
    monotone: bool = False

    def steps(self) -> IntArray:
        """The number of steps for composing the map of each pattern.

        A step is one bin reached by one update. The bins themselves and the search for
        the updates that apply to a pattern also count.
        """
        inside, updates, edges = self[:3]
        begin, end = (
            np.clip(edges[updates[:, 1] + i] + updates[:, 2], 0, UNIT) for i in (0, 1)
        )
        inner = edges[1:-1]
        reached = np.searchsorted(inner, end) - np.searchsorted(
            inner, begin, side="right"
        )
        by_group = np.bincount(
            updates[:, 0], 1 + np.maximum(reached, 0), len(inside)
        ).astype(np.int64)
        steps = np.full(
            inside.shape[1],
            len(inner) + 1 + len(updates) // UPDATES_PER_STEP,
            dtype=np.int64,
        )
        for g in np.flatnonzero(
            by_group
        ):  # a matrix product would take eight times the memory of `inside`
            steps += by_group[g] * inside[g]
        return steps

    def maps(self) -> PatternMaps:
        """The maps of all patterns; the limits apply to them together."""
        n = self.inside.shape[1]
        refuse_work(len(self.updates), n, int(self.steps().sum()))
        maps = next(self.in_parts())
        if len(maps) < n:
            raise _too_large("many pieces", len(self.updates), n, most=MOST_PIECES)
        return maps

    def in_parts(self) -> Iterator[PatternMaps]:
        """Consecutive parts of the maps. The limits apply to each pattern by itself."""
        steps = self.steps()
        smooth = self.smooth
        refuse_work(len(self.updates), 1, int(steps.max(initial=0)))
        tables: list[IntArray] = []
        first = n_pieces = 0
        for p, members in enumerate(self.inside.T):
            table = _composed(members, self.updates, self.edges, int(steps.sum()))
            if not len(table):
                raise _too_large("many pieces", len(self.updates), 1, most=MOST_PIECES)
            if n_pieces + len(table) > MOST_PIECES:
                yield PatternMaps.of_tables(
                    tables, None if smooth is None else smooth[first:p]
                )
                tables = []
                first = p
                n_pieces = 0
            tables.append(in_order(table) if self.monotone else table)
            n_pieces += len(table)
        if tables:
            yield PatternMaps.of_tables(
                tables, None if smooth is None else smooth[first:]
            )


def refuse_work(n_updates: int, n_patterns: int, steps: int) -> None:
    """Refuse to compose maps that would take more than about a minute."""
    if steps > MOST_STEPS:
        raise _too_large(
            "many steps", n_updates, n_patterns, steps=steps, most=MOST_STEPS
        )


def _too_large(key: str, n_updates: int, n_patterns: int, **known: int) -> PropcalError:
    """The error for a correction that would take too many steps, or have too many
    pieces.
    """
    counts = {
        "updates": plural(n_updates, "adjustment"),
        "patterns": plural(n_patterns, "pattern"),
    }
    return refused(key, TooLargeError, **counts, **known)


def _composed(
    members: BoolArray, updates: IntArray, edges: IntArray, steps: int
) -> IntArray:
    """The map of one pattern, given which groups contain it; no rows if there would be
    too many.

    `steps` are those of all patterns that are composed together.
    """
    own = np.ascontiguousarray(updates[members[updates[:, 0]]][:, 1:])
    if not len(own):
        return NO_CHANGE
    run = compose.in_python if steps <= STEPS_IN_PYTHON else compose
    return np.asarray(run(own, edges, MOST_PIECES))


def in_order(table: IntArray) -> IntArray:
    """The running maximum of a map (rows of begin, slope, offset): no score is below
    that of a lower one.
    """
    if len(table) == 1:
        return table
    if len(table) <= STEPS_IN_PYTHON:
        run = _running_maximum.in_python
    else:
        run = _running_maximum
    return np.asarray(run(table))


@compiled
def _running_maximum(table: Any) -> Any:
    found = np.empty((2 * len(table), 3), np.int64)
    n = 0
    highest = np.int64(0)
    for k in range(len(table)):
        begin = table[k, 0]
        slope = table[k, 1]
        offset = table[k, 2]
        # the last score of this piece
        if k + 1 < len(table):
            end = table[k + 1, 0] - 1
        else:
            end = UNIT
        first = slope * begin + offset
        last = slope * end + offset
        if first < highest:  # constant until the piece reaches what lower scores have
            if n == 0 or found[n - 1, 1] != 0 or found[n - 1, 2] != highest:
                found[n, 0] = begin
                found[n, 1] = 0
                found[n, 2] = highest
                n += 1
            begin = highest - offset
        if last > highest or first >= highest:
            if n == 0 or found[n - 1, 1] != slope or found[n - 1, 2] != offset:
                found[n, 0] = begin
                found[n, 1] = slope
                found[n, 2] = offset
                n += 1
            highest = max(highest, last)
    return found[:n].copy()


def start_reaches(targets: IntArray, at: IntArray, values: IntArray) -> IntArray:
    """The first raw score that the recalibration takes to each target or above it;
    exact.
    """
    k = np.searchsorted(values[1:-1], targets) + 1
    width = at[k] - at[k - 1]
    rise = values[k] - values[k - 1]
    missing = targets - values[k - 1]
    steps = -((width - 2 * width * missing) // (2 * np.maximum(rise, 1)))  # rounded up
    return np.asarray(np.clip(at[k - 1] + np.maximum(steps, 0), 0, UNIT))


# A node covers LENGTH raw scores in COUNT pieces and has a HEIGHT. A leaf (height 0)
# has its first corrected SCORE and its SLOPE, 0 or 1; any other node has its two parts,
# LEFT and RIGHT, in the same columns. Leaves do not contain raw scores, so that a part
# of a map can be reused anywhere.
LENGTH = 0
COUNT = 1
HEIGHT = 2
LEFT = 3
RIGHT = 4
N_COLUMNS = 5
SCORE = LEFT
SLOPE = RIGHT
# np.int64(NOTHING) where it begins a variable: numba compiles for each literal number
# anew
NOTHING = -1
MOST_HEIGHT = 48  # height of a balanced tree with one leaf for each possible score


@compiled
def compose(updates: Any, edges: Any, most: int) -> Any:
    """The map that applies rows (bin, shift) in order, as rows (begin, slope, offset).

    From raw score `begin` on, the corrected score is slope * raw + offset. Returns no
    rows if there would be more than `most`.
    """
    n_bins = len(edges) - 1
    room = 8 * MOST_HEIGHT * (n_bins + 4)  # the most nodes that one update can need
    tree = np.empty((4 * room, N_COLUMNS), np.int64)
    top = np.zeros(1, np.int64)  # the number of nodes
    maps = np.empty(n_bins, np.int64)
    for j in range(n_bins):
        maps[j] = _leaf(tree, top, bin_end(j, edges) - edges[j], edges[j], 1)
    for u in range(len(updates) - 1, -1, -1):
        if top[0] + room > len(tree):
            tree = _collected(tree, top, maps, room)
        maps[updates[u, 0]] = _shifted(
            tree, top, maps, edges, updates[u, 0], updates[u, 1]
        )
    total = 0
    for j in range(n_bins):
        total += tree[maps[j], COUNT]
    if total > most:
        return np.empty((0, 3), np.int64)
    return _written(tree, maps, total)


@compiled
def _leaf(tree: Any, top: Any, length: int, score: int, slope: int) -> int:
    k: int = top[0]
    top[0] += 1
    tree[k, LENGTH] = length
    tree[k, COUNT] = 1
    tree[k, HEIGHT] = 0
    tree[k, SCORE] = score
    tree[k, SLOPE] = slope
    return k


@compiled
def _node(tree: Any, top: Any, left: int, right: int) -> int:
    k: int = top[0]
    top[0] += 1
    tree[k, LENGTH] = tree[left, LENGTH] + tree[right, LENGTH]
    tree[k, COUNT] = tree[left, COUNT] + tree[right, COUNT]
    tree[k, HEIGHT] = max(tree[left, HEIGHT], tree[right, HEIGHT]) + 1
    tree[k, LEFT] = left
    tree[k, RIGHT] = right
    return k


@compiled
def _balanced(tree: Any, top: Any, left: int, right: int) -> Any:
    """A balanced node from two parts whose heights differ by at most two."""
    if tree[left, HEIGHT] > tree[right, HEIGHT] + 1:
        outer = tree[left, LEFT]
        inner = tree[left, RIGHT]
        if tree[outer, HEIGHT] >= tree[inner, HEIGHT]:
            return _node(tree, top, outer, _node(tree, top, inner, right))
        first = _node(tree, top, outer, tree[inner, LEFT])
        return _node(tree, top, first, _node(tree, top, tree[inner, RIGHT], right))
    if tree[right, HEIGHT] > tree[left, HEIGHT] + 1:
        inner = tree[right, LEFT]
        outer = tree[right, RIGHT]
        if tree[outer, HEIGHT] >= tree[inner, HEIGHT]:
            return _node(tree, top, _node(tree, top, left, inner), outer)
        first = _node(tree, top, left, tree[inner, LEFT])
        return _node(tree, top, first, _node(tree, top, tree[inner, RIGHT], outer))
    return _node(tree, top, left, right)


@compiled
def _joined(tree: Any, top: Any, left: int, right: int) -> Any:
    """Two maps joined into one; either may be empty."""
    if left == NOTHING or right == NOTHING:
        return right if left == NOTHING else left
    # go down the higher tree to where the other one fits, then balance on the way back
    # up
    path = np.empty(MOST_HEIGHT + 2, np.int64)
    n = 0
    if tree[left, HEIGHT] >= tree[right, HEIGHT]:
        while tree[left, HEIGHT] > tree[right, HEIGHT] + 1:
            path[n] = tree[left, LEFT]
            left = tree[left, RIGHT]
            n += 1
        k = _node(tree, top, left, right)
        while n:
            n -= 1
            k = _balanced(tree, top, path[n], k)
        return k
    while tree[right, HEIGHT] > tree[left, HEIGHT] + 1:
        path[n] = tree[right, RIGHT]
        right = tree[right, LEFT]
        n += 1
    k = _node(tree, top, left, right)
    while n:
        n -= 1
        k = _balanced(tree, top, k, path[n])
    return k


@compiled
def _part(tree: Any, top: Any, k: int, begin: int, end: int) -> Any:
    """The part of a map from position `begin` up to, but not including, position
    `end`.
    """
    if begin >= end:
        return NOTHING
    while True:  # go down to the node where the two ends separate
        if begin == 0 and end == tree[k, LENGTH]:
            return k
        if tree[k, HEIGHT] == 0:
            return _leaf(
                tree,
                top,
                end - begin,
                tree[k, SCORE] + tree[k, SLOPE] * begin,
                tree[k, SLOPE],
            )
        half = tree[tree[k, LEFT], LENGTH]
        if end <= half:
            k = tree[k, LEFT]
        elif begin >= half:
            k = tree[k, RIGHT]
            begin = begin - half
            end = end - half
        else:
            break
    left = _last(tree, top, tree[k, LEFT], half - begin)
    return _joined(tree, top, left, _first(tree, top, tree[k, RIGHT], end - half))


@compiled
def _first(tree: Any, top: Any, k: int, length: int) -> Any:
    """The first `length` scores of a map."""
    found = np.int64(NOTHING)
    while length < tree[k, LENGTH] and tree[k, HEIGHT] > 0:
        half = tree[tree[k, LEFT], LENGTH]
        if length <= half:
            k = tree[k, LEFT]
        else:
            found = _joined(tree, top, found, tree[k, LEFT])
            k = tree[k, RIGHT]
            length = length - half
    if length < tree[k, LENGTH]:
        k = _leaf(tree, top, length, tree[k, SCORE], tree[k, SLOPE])
    return _joined(tree, top, found, k)


@compiled
def _last(tree: Any, top: Any, k: int, length: int) -> Any:
    """The last `length` scores of a map."""
    found = np.int64(NOTHING)
    while length < tree[k, LENGTH] and tree[k, HEIGHT] > 0:
        half = tree[tree[k, RIGHT], LENGTH]
        if length <= half:
            k = tree[k, RIGHT]
        else:
            found = _joined(tree, top, tree[k, RIGHT], found)
            k = tree[k, LEFT]
            length = length - half
    if length < tree[k, LENGTH]:
        begin = tree[k, LENGTH] - length
        k = _leaf(
            tree, top, length, tree[k, SCORE] + tree[k, SLOPE] * begin, tree[k, SLOPE]
        )
    return _joined(tree, top, k, found)


@compiled
def _end_score(tree: Any, k: int, last: bool) -> int:
    """The corrected value of the first or last score of a map."""
    while tree[k, HEIGHT] > 0:
        k = tree[k, RIGHT] if last else tree[k, LEFT]
    score: int = tree[k, SCORE] + (
        tree[k, SLOPE] * (tree[k, LENGTH] - 1) if last else 0
    )
    return score


@compiled
def _shifted(tree: Any, top: Any, maps: Any, edges: Any, j: int, shift: int) -> Any:
    """The map over bin j that adds `shift`, clips, and then applies the maps so far."""
    begin = edges[j] + shift
    end = bin_end(j, edges) + shift
    found = np.int64(NOTHING)
    last = len(maps) - 1
    if begin < 0:  # clipped to 0
        found = _leaf(
            tree, top, min(end, 0) - begin, _end_score(tree, maps[0], False), 0
        )
        begin = min(end, 0)
    if begin < end and begin <= UNIT:
        b = bin_of(begin, edges)
        while begin < end and b <= last:
            stop = min(end, bin_end(b, edges))
            part = _part(tree, top, maps[b], begin - edges[b], stop - edges[b])
            found = _joined(tree, top, found, part)
            begin = stop
            b += 1
    if begin < end:  # clipped to 1
        clipped = _leaf(tree, top, end - begin, _end_score(tree, maps[last], True), 0)
        found = _joined(tree, top, found, clipped)
    return found


@compiled
def _collected(tree: Any, top: Any, maps: Any, room: int) -> Any:
    """A new tree with only the nodes that the maps still need, and room for more."""
    kept = np.zeros(top[0], np.bool_)
    for j in range(len(maps)):
        kept[maps[j]] = True
    n = 0
    for k in range(
        top[0] - 1, -1, -1
    ):  # parts are always older than the nodes that contain them
        if kept[k]:
            n += 1
            if tree[k, HEIGHT] > 0:
                kept[tree[k, LEFT]] = kept[tree[k, RIGHT]] = True
    place = np.empty(top[0], np.int64)
    larger = np.empty((3 * n + 4 * room, N_COLUMNS), np.int64)
    n = 0
    for k in range(top[0]):
        if kept[k]:
            for column in range(N_COLUMNS):
                larger[n, column] = tree[k, column]
            if tree[k, HEIGHT] > 0:
                larger[n, LEFT] = place[tree[k, LEFT]]
                larger[n, RIGHT] = place[tree[k, RIGHT]]
            place[k] = n
            n += 1
    for j in range(len(maps)):
        maps[j] = place[maps[j]]
    top[0] = n
    return larger


@compiled
def _written(tree: Any, maps: Any, total: int) -> Any:
    """The pieces of all maps in order, merging adjacent pieces on the same line."""
    found = np.empty((total, 3), np.int64)
    n = 0
    begin = 0
    stack = np.empty(MOST_HEIGHT + 2, np.int64)
    for j in range(len(maps)):
        stack[0] = maps[j]
        depth = 1
        while depth:
            depth -= 1
            k = stack[depth]
            while tree[k, HEIGHT] > 0:
                stack[depth] = tree[k, RIGHT]
                depth += 1
                k = tree[k, LEFT]
            slope = tree[k, SLOPE]
            offset = tree[k, SCORE] - slope * begin
            if n == 0 or found[n - 1, 1] != slope or found[n - 1, 2] != offset:
                found[n, 0] = begin
                found[n, 1] = slope
                found[n, 2] = offset
                n += 1
            begin += tree[k, LENGTH]
    return found[:n].copy()

"""Composes a list of updates into a piecewise-linear function of the raw score (compiled).

An update adds a shift to the scores in one bin and clips. The map is built from the last update to the first:
each update replaces the map over its own bin by the part of the later map to which the shift leads. Nothing
is copied: the map over a bin is a balanced tree whose leaves are the pieces, and trees share common parts, so
that an update creates a few dozen nodes, however many pieces there are. Updates can be chosen so that each
doubles the number of pieces; the number is therefore checked before the pieces are written out.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from propcal.core.compiled import bin_end, bin_of, compiled
from propcal.core.grid import UNIT

# A node covers LENGTH raw scores in COUNT pieces and has a HEIGHT. A leaf (height 0) has its first corrected
# SCORE and its SLOPE, 0 or 1; any other node has its two parts, LEFT and RIGHT, in the same columns. Leaves
# do not contain raw scores, so that a part of a map can be reused anywhere.
LENGTH, COUNT, HEIGHT, LEFT, RIGHT, N_COLUMNS = 0, 1, 2, 3, 4, 5
SCORE, SLOPE = LEFT, RIGHT
NOTHING = -1  # np.int64(NOTHING) where it begins a variable: numba compiles for each literal number anew
MOST_HEIGHT = 48  # height of a balanced tree with one leaf for each possible score


@compiled
def compose(updates: Any, edges: Any, most: int) -> Any:
    """The map that applies rows (bin, shift) in order, as rows (begin, slope, offset).

    From raw score `begin` on, the corrected score is slope * raw + offset. Returns no rows if there would be
    more than `most`.
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
        maps[updates[u, 0]] = _shifted(tree, top, maps, edges, updates[u, 0], updates[u, 1])
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
    tree[k, LENGTH], tree[k, COUNT], tree[k, HEIGHT] = length, 1, 0
    tree[k, SCORE], tree[k, SLOPE] = score, slope
    return k


@compiled
def _node(tree: Any, top: Any, left: int, right: int) -> int:
    k: int = top[0]
    top[0] += 1
    tree[k, LENGTH] = tree[left, LENGTH] + tree[right, LENGTH]
    tree[k, COUNT] = tree[left, COUNT] + tree[right, COUNT]
    tree[k, HEIGHT] = max(tree[left, HEIGHT], tree[right, HEIGHT]) + 1
    tree[k, LEFT], tree[k, RIGHT] = left, right
    return k


@compiled
def _balanced(tree: Any, top: Any, left: int, right: int) -> Any:
    """A balanced node from two parts whose heights differ by at most two."""
    if tree[left, HEIGHT] > tree[right, HEIGHT] + 1:
        outer, inner = tree[left, LEFT], tree[left, RIGHT]
        if tree[outer, HEIGHT] >= tree[inner, HEIGHT]:
            return _node(tree, top, outer, _node(tree, top, inner, right))
        first = _node(tree, top, outer, tree[inner, LEFT])
        return _node(tree, top, first, _node(tree, top, tree[inner, RIGHT], right))
    if tree[right, HEIGHT] > tree[left, HEIGHT] + 1:
        inner, outer = tree[right, LEFT], tree[right, RIGHT]
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
    # go down the higher tree to where the other one fits, then balance on the way back up
    path, n = np.empty(MOST_HEIGHT + 2, np.int64), 0
    if tree[left, HEIGHT] >= tree[right, HEIGHT]:
        while tree[left, HEIGHT] > tree[right, HEIGHT] + 1:
            path[n], left = tree[left, LEFT], tree[left, RIGHT]
            n += 1
        k = _node(tree, top, left, right)
        while n:
            n -= 1
            k = _balanced(tree, top, path[n], k)
        return k
    while tree[right, HEIGHT] > tree[left, HEIGHT] + 1:
        path[n], right = tree[right, RIGHT], tree[right, LEFT]
        n += 1
    k = _node(tree, top, left, right)
    while n:
        n -= 1
        k = _balanced(tree, top, k, path[n])
    return k


@compiled
def _part(tree: Any, top: Any, k: int, begin: int, end: int) -> Any:
    """The part of a map from position `begin` up to, but not including, position `end`."""
    if begin >= end:
        return NOTHING
    while True:  # go down to the node where the two ends separate
        if begin == 0 and end == tree[k, LENGTH]:
            return k
        if tree[k, HEIGHT] == 0:
            return _leaf(tree, top, end - begin, tree[k, SCORE] + tree[k, SLOPE] * begin, tree[k, SLOPE])
        half = tree[tree[k, LEFT], LENGTH]
        if end <= half:
            k = tree[k, LEFT]
        elif begin >= half:
            k, begin, end = tree[k, RIGHT], begin - half, end - half
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
            k, length = tree[k, RIGHT], length - half
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
            k, length = tree[k, LEFT], length - half
    if length < tree[k, LENGTH]:
        begin = tree[k, LENGTH] - length
        k = _leaf(tree, top, length, tree[k, SCORE] + tree[k, SLOPE] * begin, tree[k, SLOPE])
    return _joined(tree, top, k, found)


@compiled
def _end_score(tree: Any, k: int, last: bool) -> int:
    """The corrected value of the first or last score of a map."""
    while tree[k, HEIGHT] > 0:
        k = tree[k, RIGHT] if last else tree[k, LEFT]
    score: int = tree[k, SCORE] + (tree[k, SLOPE] * (tree[k, LENGTH] - 1) if last else 0)
    return score


@compiled
def _shifted(tree: Any, top: Any, maps: Any, edges: Any, j: int, shift: int) -> Any:
    """The map over bin j that adds `shift`, clips, and then applies the maps so far."""
    begin, end, found = edges[j] + shift, bin_end(j, edges) + shift, np.int64(NOTHING)
    last = len(maps) - 1
    if begin < 0:  # clipped to 0
        found = _leaf(tree, top, min(end, 0) - begin, _end_score(tree, maps[0], False), 0)
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
    for k in range(top[0] - 1, -1, -1):  # parts are always older than the nodes that contain them
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
                larger[n, LEFT], larger[n, RIGHT] = place[tree[k, LEFT]], place[tree[k, RIGHT]]
            place[k] = n
            n += 1
    for j in range(len(maps)):
        maps[j] = place[maps[j]]
    top[0] = n
    return larger


@compiled
def _written(tree: Any, maps: Any, total: int) -> Any:
    """The pieces of all maps in order, merging adjacent pieces on the same line."""
    found, n, begin = np.empty((total, 3), np.int64), 0, 0
    stack = np.empty(MOST_HEIGHT + 2, np.int64)
    for j in range(len(maps)):
        stack[0], depth = maps[j], 1
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
                found[n, 0], found[n, 1], found[n, 2] = begin, slope, offset
                n += 1
            begin += tree[k, LENGTH]
    return found[:n].copy()

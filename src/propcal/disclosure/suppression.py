"""Which numbers to hide, so that no count of 1 to 10 people can be worked out from what is shown.

Every number of an audit adds up from people of a pattern (a combination of levels) in a bin. To hide
the small counts alone is not enough: the others and their totals give them away. So for each small
count we look for a *move*: a few people who could as well be in another bin, or in another group,
without any shown number changing. Whoever sees the page cannot tell the two worlds apart. Numbers
that a move would change are hidden; of all moves we take the one that costs least. Hiding more never
makes a move visible, so that all of them hold at the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from propcal.auditing.cell_counts import Counts
from propcal.core.grid import BoolArray, FloatArray, IntArray

NEVER = 1e15  # the cost of hiding what is known to be nobody
NARROW = 15.0  # the cost of each value that a hidden count cannot have
TOO_NARROW, LEAST_WIDTH = 1e6, 3  # the cost of leaving it hardly any
COST_OF_TOTAL = 20.0  # with the total of a group all that is said of the group is hidden
COST_OF_EVERYBODY = 1000.0  # whose curves everyone looks at
LEFT_OUT_FIRST = 0.1  # a group that is listed only is the first to be hidden
MOST_INSIDE, MOST_OUTSIDE = 5, 24  # patterns that are tried for a move


@dataclass(frozen=True, eq=False)
class Hidden:
    """What is hidden: totals of groups, people with a missing attribute, and cells of each score."""

    totals: BoolArray
    missing: BoolArray
    cells: tuple[BoolArray, ...]


def hidden(counts: Sequence[Counts], fewest: int) -> Hidden:
    """What to hide if counts of 1 to `fewest` - 1 are; of one audit, or of several of the same people."""
    search = _Search(counts, fewest)
    search.protect()
    n = len(counts[0].inside)
    return Hidden(search.totals[:n], search.totals[n:], tuple(table.hidden[:n] for table in search.tables))


class _Table:
    """Groups x bins of one score: people, what is hidden, what hiding costs."""

    def __init__(self, counts: Counts, inside: FloatArray, kept: BoolArray) -> None:
        nobody = np.full((2, 1, counts.people.shape[1]), np.inf)  # a pattern that is always willing to move
        self.people = np.concatenate([np.floor(counts.outcome + 1e-9), nobody], axis=1)
        self.cells = np.stack([inside[:, :-1] @ outcome for outcome in counts.outcome])
        everyone = inside[:, :-1] @ counts.people
        self.shown_at_all = kept[:, None] & (everyone > 0)
        self.hidden: BoolArray = np.repeat(~kept[:, None], everyone.shape[1], axis=1)
        self.cost = np.where(everyone > 0, 1 + np.sqrt(everyone), NEVER)
        self.cost[0] *= COST_OF_EVERYBODY

    def price(self) -> FloatArray:
        """What it costs to hide each cell; nothing if it is hidden already."""
        return np.where(self.hidden, 0.0, self.cost)

    def hide(self, rows: BoolArray, bin_index: int) -> None:
        """Hide a bin of some groups."""
        self.hidden[rows, bin_index] = True


class _Search:
    """Hide small counts, then whatever would give them away."""

    def __init__(self, counts: Sequence[Counts], fewest: int) -> None:
        first = counts[0]
        rows = np.concatenate([first.inside, *(mask[None, :] for mask in first.missing.values())])
        self.inside = np.concatenate([rows, np.zeros((len(rows), 1))], axis=1).astype(np.float64)
        kept = np.concatenate([first.kept, np.zeros(len(first.missing), dtype=np.bool_)])
        self.tables = [_Table(each, self.inside, kept) for each in counts]
        self.levels = first.table
        self.fewest = fewest
        self.sums = self.tables[0].cells.sum(axis=2)
        size = (1 + np.sqrt(self.sums.sum(axis=0))) * np.where(kept, COST_OF_TOTAL, LEFT_OUT_FIRST)
        size[0] *= COST_OF_TOTAL  # everybody
        self.cost = np.where(self.sums.sum(axis=0) > 0, size, NEVER)
        self.totals: BoolArray = np.asarray(self._small(self.sums).any(axis=0))

    def _small(self, number: FloatArray) -> BoolArray:
        return np.asarray((number > 1e-9) & (number < self.fewest - 1e-9))

    def protect(self) -> None:
        """Totals first: what they hide helps the cells."""
        for table in self.tables:
            small = self._small(table.cells).any(axis=0) | self.totals[:, None]
            table.hidden |= table.shown_at_all & small
        for outcome, row in _smallest_first(self.sums, self._small(self.sums)):
            self._protect_total(int(outcome), int(row))
        for table in self.tables:
            small = self._small(table.cells) & table.shown_at_all
            for outcome, row, bin_index in _smallest_first(table.cells, small):
                self._protect_cell(table, int(outcome), int(row), int(bin_index))

    def _protect_cell(self, table: _Table, outcome: int, row: int, bin_index: int) -> None:
        """A move between this bin and another one: no total changes."""
        moves = self._moves(row, table.people[outcome, :-1, bin_index])
        touched, gives, takes = self._touched(moves), *_room(table.people[outcome], moves)
        down = np.minimum(gives[:, [bin_index]], takes)
        up = np.minimum(takes[:, [bin_index]], gives)
        cost = touched.T @ table.price()
        cost = cost + cost[:, [bin_index]] + self._narrow(down + up)
        cost[:, bin_index] = np.inf
        if not self._possible(cost):
            self._hide_all()
            return
        best, other = np.unravel_index(np.argmin(cost), cost.shape)
        for place in (bin_index, int(other)):
            table.hide(touched[:, best] > 0, place)

    def _protect_total(self, outcome: int, row: int) -> None:
        """A move into or out of the data within one bin of each score: totals change."""
        moves = self._moves(row, self.tables[0].people[outcome, :-1].sum(axis=1))
        touched = self._touched(moves)
        cost = touched.T @ np.where(self.totals, 0.0, self.cost)
        bins = []
        for table in self.tables:
            gives, takes = _room(table.people[outcome], moves)
            each = touched.T @ table.price() + self._narrow(gives + takes)
            bins.append(np.argmin(each, axis=1))
            cost = cost + each.min(axis=1)
        if not self._possible(cost):
            self._hide_all()
            return
        best = int(np.argmin(cost))
        self.totals |= touched[:, best] > 0
        for table, chosen in zip(self.tables, bins):
            table.hide(touched[:, best] > 0, int(chosen[best]))

    def _narrow(self, width: FloatArray) -> FloatArray:
        """What it costs that few values are possible; a single one is none."""
        missing = np.maximum(self.fewest - 1 - width, 0) * NARROW + (width < LEAST_WIDTH) * TOO_NARROW
        return np.where(width < 1, np.inf, missing)

    @staticmethod
    def _possible(cost: FloatArray) -> bool:
        return bool(cost.size) and bool(np.min(cost) < NEVER)

    def _touched(self, moves: IntArray) -> FloatArray:
        """Which groups (rows) each move changes."""
        p, q, r, s = (self.inside[:, moves[:, i]] for i in range(4))
        return np.asarray(np.abs(p - q - r + s) > 0, dtype=np.float64)

    def _moves(self, row: int, people: FloatArray) -> IntArray:
        """Patterns p, q, r, s of moves that change a row: one more of p and s, one less of q and r.

        A move of one pattern, of two that swap, or of the four corners of a rectangle, which leaves
        the totals of both attributes as they are. The last index stands for no pattern at all.
        """
        members = np.flatnonzero(self.inside[row, :-1])
        members = members[np.argsort(-people[members], kind="stable")][:MOST_INSIDE]
        none, found = len(self.levels), []
        for p in members:
            found.append((int(p), none, none, none))
            near, apart = self._near(int(p), people)
            found += [(int(p), int(q), none, none) for q in near[:MOST_OUTSIDE]]
            found += self._rectangles(int(p), near[apart == 1], none)
        moves = np.array(found, dtype=np.int64).reshape(-1, 4)
        return np.asarray(moves[self._touched(moves)[row] > 0])

    def _near(self, p: int, people: FloatArray) -> tuple[IntArray, IntArray]:
        """Other patterns, those that differ in few attributes first, then large ones."""
        apart = np.sum(self.levels != self.levels[p], axis=1)
        order = np.lexsort((-people, apart))
        order = order[order != p]
        return order, apart[order]

    def _rectangles(self, p: int, near: IntArray, none: int) -> list[tuple[int, int, int, int]]:
        """The pattern, two neighbours in different attributes, and the one opposite."""
        near, found = near[: MOST_OUTSIDE // 2], []
        for i, q in enumerate(near):
            for r in near[i + 1 :]:
                corner = np.where(self.levels[q] != self.levels[p], self.levels[q], self.levels[r])
                s = self._places.get(corner.tobytes(), none)
                if s not in (p, q, r, none):
                    found.append((p, int(q), int(r), s))
        return found

    @cached_property
    def _places(self) -> dict[bytes, int]:
        return {row.tobytes(): i for i, row in enumerate(self.levels)}

    def _hide_all(self) -> None:
        """No move is left: nothing can be shown."""
        self.totals[:] = True
        for table in self.tables:
            table.hidden[:] = True


def _room(people: FloatArray, moves: IntArray) -> tuple[FloatArray, FloatArray]:
    """How many people can be taken from p and s, and from q and r, in each bin."""
    p, q, r, s = (people[moves[:, i]] for i in range(4))
    return np.minimum(p, s), np.minimum(q, r)


def _smallest_first(number: FloatArray, chosen: BoolArray) -> Any:
    places = np.argwhere(chosen)
    return places[np.argsort(number[chosen], kind="stable")]

"""Neighbours of small counts: other counts that are withheld too, so that sums do not give small ones away.

Sets of people overlap: a group is the sum of its parts, and of its risk ranges. From what is shown, everybody
can work out bounds for what is not. Where these leave too few values for a small count, neighbours of it in
the same sums are withheld: the cheapest that will do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from propcal.core.grid import BoolArray, FloatArray, IntArray
from propcal.protect.rule import MOVED, Rule

WANTED = 5  # values that bounds leave for a small count; integer programming over a whole page can leave 3
MOST_ROUNDS, MOST_STEPS = 50, 3
ENDLESS = 1e9
EVENTS, OTHERS, PEOPLE = 0, 1, 2

Sums = Sequence[tuple[int, Sequence[int]]]  # a set, and sets without common people that are part of it
Bounds = tuple[FloatArray, FloatArray]  # the least and the most events, others and people of each set


@dataclass(frozen=True, eq=False)
class Told:
    """What is told of sets of people in a row.

    Attributes
    ----------
    people, events : array of float64
        Moved by at most 2; NaN where they are not shown.
    small : array of bool, shape (2, n)
        Whether fewer than `rule.fewest` different people have the outcome, and do not have it.
    few : array of bool, shape (2, n)
        Whether the count itself is small, not only the number of different people behind it.
    rule : Rule
    """

    people: FloatArray
    events: FloatArray
    small: BoolArray
    few: BoolArray
    rule: Rule

    def bounds(self, withheld: BoolArray, n_rests: int) -> Bounds:
        """What follows for events, others and people of each set, and of rests, of which nothing is told."""
        n = len(self.people)
        low, high = np.zeros((3, n + n_rests)), np.full((3, n + n_rests), ENDLESS)
        low[:, :n], high[:, :n] = self.bounds_of(slice(None), withheld)
        return low, high

    def bounds_of(self, sets: Any, withheld: BoolArray) -> Bounds:
        """`bounds` of some sets."""
        people, small, withheld = self.people[sets], self.small[:, sets], withheld[sets]
        low, high = np.zeros((3, len(people))), np.full((3, len(people)), ENDLESS)
        for kind, shown in ((PEOPLE, people), (EVENTS, self.events[sets])):
            known = np.isfinite(shown) & ~withheld
            low[kind] = np.where(known, np.maximum(shown - MOVED, 0), 0)
            high[kind] = np.where(known, np.where(people == 0, 0, shown + MOVED), ENDLESS)
        unknown = withheld & ~small.any(axis=0)  # of small sets it is told that they are small
        for kind in (EVENTS, OTHERS):
            high[kind] = np.where(small[kind] & self.few[kind, sets], self.rule.fewest - 1, high[kind])
            large = ~small[kind] & ~unknown & ~(people <= 0)
            low[kind] = np.maximum(low[kind], np.where(large, self.rule.fewest, 0))
        return low, high


def withheld_neighbours(told: Told, count: FloatArray, sums: Sums, cheap: Sequence[int] = ()) -> BoolArray:
    """Which sets are withheld beside small ones; `count` has their exact events, others and people.

    Everybody, who are the first set, are always shown.

    All neighbours are withheld at first. Then they are shown again, the dearest first, as long as bounds
    leave as many values. Parts, and sums that are `cheap`, are cheaper than other sums, and few people are
    cheaper than many.
    """
    n = count.shape[1]
    rest, net = Net.of(sums).with_rests(count)
    count = np.concatenate([count, rest], axis=1)
    small = (count[:2] < told.rule.fewest) & (count[PEOPLE] > 0)
    small[:, :n] &= told.small
    withheld, near = np.zeros(n, dtype=np.bool_), np.empty(0, dtype=np.int64)
    if not small.any():
        return withheld
    needed = np.where(small, WANTED, -np.inf)
    can_be = np.concatenate([[False], told.people[1:] > 0, np.zeros(rest.shape[1], np.bool_)])
    for step in range(MOST_STEPS + 1):
        now = told.bounds(withheld, rest.shape[1])
        unsettled = net.tighten(now)
        width = (now[1] - now[0])[:2] + 1
        narrow = np.flatnonzero((width < needed).any(axis=0))
        if step == MOST_STEPS or not len(narrow):
            break
        near = net.around(near if len(near) else narrow)[2]
        withheld[near[can_be[near]]] = True
    needed = np.where(small, np.where(small, np.minimum(width, WANTED), WANTED).min(axis=0), -np.inf)
    dearest = np.lexsort((count[PEOPLE, :n], np.isin(np.arange(n), np.setdiff1d(net.total, cheap))))[::-1]
    waiting = [dearest[withheld[dearest]]]
    while waiting:  # halves of what could not be shown again together
        some = waiting.pop()
        withheld[some] = False
        (low, high), (least, most) = told.bounds_of(some, withheld), (end.copy() for end in now)
        least[:, some], most[:, some] = np.maximum(low, least[:, some]), np.minimum(high, most[:, some])
        then = net.tighten((least, most), some, unsettled, needed)
        if then is not None:
            now, unsettled = (least, most), then
        else:
            withheld[some] = True
            waiting += [some[len(some) // 2 :], some[: len(some) // 2]] * (len(some) > 1)
    return withheld


@dataclass(frozen=True, eq=False)
class Net:
    """All sums as arrays: each entry is a part of the sum `sum_of`, whose total is `total`."""

    part: IntArray
    sum_of: IntArray
    total: IntArray
    n_sets: int = 0

    @classmethod
    def of(cls, sums: Sums) -> Net:
        """From pairs of a total and its parts."""
        parts = [np.array(own, dtype=np.int64) for _, own in sums]
        part = np.concatenate([np.empty(0, dtype=np.int64), *parts])
        sum_of = np.repeat(np.arange(len(sums)), [len(own) for own in parts])
        return cls(part, sum_of, np.array([total for total, _ in sums], dtype=np.int64))

    def bound_by_totals(self, people: FloatArray, events: FloatArray, count: FloatArray) -> None:
        """Make no part larger than the whole, with the outcome or without it, by moves of at most 2."""
        whole = self.total[self.sum_of]
        for _ in range(MOST_ROUNDS):
            before = people.copy(), events.copy()
            others = np.full(len(people), ENDLESS)
            np.minimum.at(others, self.part, (people - events)[whole])
            np.minimum(people, np.maximum(events + others, count[PEOPLE] - MOVED), out=people)
            np.maximum(events, np.minimum(people - others, count[EVENTS] + MOVED), out=events)
            for shown in (people, events):
                np.minimum.at(shown, self.part, shown[whole])
            if np.array_equal(before[0], people) and np.array_equal(before[1], events):
                return

    def with_rests(self, count: FloatArray) -> tuple[FloatArray, Net]:
        """Counts of people who are in a total and in none of its parts, and the sums with these as parts."""
        n, n_sums = count.shape[1], len(self.total)
        added = [np.bincount(self.sum_of, weights=own[self.part], minlength=n_sums) for own in count]
        rest = np.maximum(count[:, self.total] - np.array(added).reshape(3, -1), 0)
        some = np.flatnonzero(rest[PEOPLE] > 0.5)
        part, sum_of = np.append(self.part, n + np.arange(len(some))), np.append(self.sum_of, some)
        return rest[:, some], Net(part, sum_of, self.total, n + len(some))

    @cached_property
    def places(self) -> tuple[Any, Any]:
        """The entries of each sum, and the sums of each set, as rows of two sparse matrices."""
        n_sums, n = len(self.total), len(self.part)
        entries = csr_array((np.ones(n), (self.sum_of, np.arange(n))), shape=(n_sums, n))
        sets = np.concatenate([self.part, self.total]), np.concatenate([self.sum_of, np.arange(n_sums)])
        return entries, csr_array((np.ones(n + n_sums), sets), shape=(self.n_sets, n_sums))

    def around(self, sets: IntArray) -> tuple[IntArray, IntArray, IntArray]:
        """The sums that some sets are part or total of: their entries, their numbers, and all their sets."""
        sums = np.flatnonzero(np.bincount(_columns(self.places[1], sets)))  # quicker than `np.unique`
        entries = _columns(self.places[0], sums)
        near = np.concatenate([sets, self.part[entries], self.total[sums]])
        return entries, sums, np.flatnonzero(np.bincount(near))

    def tighten(self, bounds: Bounds, changed: Any = None, unsettled: Any = None, needed: Any = None) -> Any:
        """Tighten bounds by others, until nothing changes; at first, only some may have `changed`.

        Returns the sets that are `unsettled` when it gives up: under weights, rounded counts may contradict
        each other. Or it ends early and returns None, if fewer values than `needed` are left for events or
        others.
        """
        low, high = bounds
        changed = np.arange(self.n_sets) if changed is None else changed
        for _ in range(MOST_ROUNDS):
            entries, sums, near = self.around(changed)
            near, unsettled = near if unsettled is None else np.union1d(near, unsettled), None
            before = low[:, near], high[:, near]
            part, own_total = self.part[entries], self.total[sums]
            sum_of, total = np.searchsorted(sums, self.sum_of[entries]), self.total[self.sum_of[entries]]
            # parts bound their total; the total and the other parts bound each part
            for least, most in zip(low, high):
                added = [np.bincount(sum_of, weights=end[part], minlength=len(sums)) for end in (least, most)]
                np.maximum.at(least, own_total, added[0])
                np.minimum.at(most, own_total, added[1])
                np.maximum.at(least, part, least[total] - (added[1][sum_of] - most[part]))
                np.minimum.at(most, part, most[total] - (added[0][sum_of] - least[part]))
            least, most = low[:, near], high[:, near]
            for own, other in ((EVENTS, OTHERS), (OTHERS, EVENTS)):
                np.maximum(least[own], least[PEOPLE] - most[other], out=least[own])
                np.minimum(most[own], most[PEOPLE] - least[other], out=most[own])
            np.maximum(least[PEOPLE], least[EVENTS] + least[OTHERS], out=least[PEOPLE])
            np.minimum(most[PEOPLE], most[EVENTS] + most[OTHERS], out=most[PEOPLE])
            low[:, near], high[:, near] = least, most
            changed = near[((least != before[0]) | (most != before[1])).any(axis=0)]
            if needed is not None and np.any((most - least)[:2] + 1 < needed[:, near]):
                return None
            if not len(changed):
                break
        return changed


def _columns(matrix: Any, rows: IntArray) -> IntArray:
    """The columns of the entries of some rows of a sparse matrix."""
    begin, length = matrix.indptr[rows], np.diff(matrix.indptr)[rows]
    at = np.repeat(begin - np.cumsum(length) + length, length) + np.arange(length.sum())
    return np.asarray(matrix.indices[at])

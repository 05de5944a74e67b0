"""Neighbours of small counts: other counts that are withheld too, so that sums do not give small ones away.

Sets of people overlap: a group is the sum of its parts, and of its risk ranges. From what is shown, everybody
can work out bounds for what is not. Where these leave too few values for a small count, neighbours of it in
the same sums are withheld: the cheapest that will do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

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
        for kind, shown in ((PEOPLE, self.people), (EVENTS, self.events)):
            known = np.isfinite(shown) & ~withheld
            nobody = known & (self.people == 0)
            low[kind, :n] = np.where(known, np.maximum(shown - MOVED, 0), 0)
            high[kind, :n] = np.where(known, np.where(nobody, 0, shown + MOVED), ENDLESS)
        unknown = withheld & ~self.small.any(axis=0)  # of small sets it is told that they are small
        for kind in (EVENTS, OTHERS):
            high[kind, :n] = np.where(self.small[kind] & self.few[kind], self.rule.fewest - 1, high[kind, :n])
            large = ~self.small[kind] & ~unknown & (np.nan_to_num(self.people, nan=1.0) > 0)
            low[kind, :n] = np.maximum(low[kind, :n], np.where(large, self.rule.fewest, 0))
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
    withheld = np.zeros(n, dtype=np.bool_)
    if not small.any():
        return withheld

    def values_left(bounds: Bounds) -> FloatArray:
        """How many values are possible for the small counts of each set; more than wanted do not matter."""
        width = np.minimum(bounds[1] - bounds[0] + 1, WANTED)[:2]
        return np.asarray(np.where(small, width, WANTED).min(axis=0))

    now = net.tightened(told.bounds(withheld, rest.shape[1]))
    near = values_left(now) < WANTED
    can_be = np.isfinite(told.people) & (told.people > 0)
    can_be[:1] = False
    for _ in range(MOST_STEPS):
        if not (values_left(now) < WANTED).any():
            break
        near = net.beside(near)
        withheld |= near[:n] & can_be
        now = net.tightened(told.bounds(withheld, rest.shape[1]))
    wanted = values_left(now)
    dear = np.isin(np.arange(n), np.setdiff1d(net.total, cheap))
    dearest = np.lexsort((count[PEOPLE, :n], dear))[::-1]
    waiting = [dearest[withheld[dearest]]]
    while waiting:  # halves of what could not be shown again together
        some = waiting.pop()
        fewer = withheld.copy()
        fewer[some] = False
        low, high = told.bounds(fewer, rest.shape[1])
        changed = np.isin(np.arange(count.shape[1]), some)
        then = net.tightened((np.maximum(low, now[0]), np.minimum(high, now[1])), changed)
        if (values_left(then) >= wanted).all():
            withheld, now = fewer, then
        elif len(some) > 1:
            waiting += [some[len(some) // 2 :], some[: len(some) // 2]]
    return withheld


@dataclass(frozen=True, eq=False)
class Net:
    """All sums as arrays: each entry is a part of the sum `sum_of`, whose total is `total`."""

    part: IntArray
    sum_of: IntArray
    total: IntArray

    @classmethod
    def of(cls, sums: Sums) -> Net:
        """From pairs of a total and its parts."""
        parts = [np.array(own, dtype=np.int64) for _, own in sums]
        return cls(
            np.concatenate([np.empty(0, dtype=np.int64), *parts]),
            np.repeat(np.arange(len(sums)), [len(own) for own in parts]),
            np.array([total for total, _ in sums], dtype=np.int64),
        )

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
        part = np.concatenate([self.part, n + np.arange(len(some))])
        return rest[:, some], Net(part, np.concatenate([self.sum_of, some]), self.total)

    def beside(self, some: BoolArray) -> BoolArray:
        """These sets, and those in a sum with one of them."""
        sums = self._sums_with(some)
        near = some.copy()
        near[self.part[sums[self.sum_of]]] = True
        near[self.total[sums]] = True
        return near

    def _sums_with(self, some: BoolArray) -> BoolArray:
        sums = some[self.total]
        sums[self.sum_of[some[self.part]]] = True
        return sums

    def tightened(self, bounds: Bounds, changed: BoolArray | None = None) -> Bounds:
        """Bounds that follow from others, until nothing changes; at first, only some may have `changed`."""
        low, high = bounds
        changed = np.ones(low.shape[1], dtype=np.bool_) if changed is None else changed
        for _ in range(MOST_ROUNDS):
            before = low.copy(), high.copy()
            self._add_up(low, high, self._sums_with(changed))
            for own, other in ((EVENTS, OTHERS), (OTHERS, EVENTS)):
                np.maximum(low[own], low[PEOPLE] - high[other], out=low[own])
                np.minimum(high[own], high[PEOPLE] - low[other], out=high[own])
            np.maximum(low[PEOPLE], low[EVENTS] + low[OTHERS], out=low[PEOPLE])
            np.minimum(high[PEOPLE], high[EVENTS] + high[OTHERS], out=high[PEOPLE])
            changed = ((low != before[0]) | (high != before[1])).any(axis=0)
            if not changed.any():
                break
        return low, high

    def _add_up(self, low: FloatArray, high: FloatArray, sums: BoolArray) -> None:
        """Parts bound their total, and the total and the other parts bound each part, in some sums."""
        n, entries, own_total = len(sums), np.flatnonzero(sums[self.sum_of]), self.total[sums]
        part, sum_of = self.part[entries], self.sum_of[entries]
        total = self.total[sum_of]
        for least, most in zip(low, high):
            added = [np.bincount(sum_of, weights=end[part], minlength=n) for end in (least, most)]
            np.maximum.at(least, own_total, added[0][sums])
            np.minimum.at(most, own_total, added[1][sums])
            np.maximum.at(least, part, least[total] - (added[1][sum_of] - most[part]))
            np.minimum.at(most, part, most[total] - (added[0][sum_of] - least[part]))

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
ENOUGH = 4  # where otherwise a large group would be withheld
LARGE = 100  # people
MOST_ROUNDS = 50
ENDLESS = 1e9
EVENTS, OTHERS, PEOPLE = 0, 1, 2

Sums = Sequence[tuple[int, Sequence[int]]]  # a set, and sets without common people that are part of it


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

    def bounds(self, withheld: BoolArray, n_rests: int) -> FloatArray:
        """What follows for events, others and people of each set, and of rests, of which nothing is told.

        The first row has the least of each, the second has minus the most.
        """
        shown = np.array([self.events, np.full(len(self.events), np.nan), self.people])
        shown[:, withheld] = np.nan
        low = np.nan_to_num(np.maximum(shown - MOVED, 0))
        high = np.where(np.isnan(shown), ENDLESS, np.where(self.people == 0, 0, shown + MOVED))
        high[:2][self.small & self.few] = self.rule.fewest - 1
        told_small = self.small.any(axis=0) | ~withheld  # of small sets it is told that they are small
        large = ~self.small & told_small & (self.people != 0)
        low[:2][large] = np.maximum(low[:2][large], self.rule.fewest)
        ends = (low, 0.0), (-high, -ENDLESS)
        rows = [np.pad(x, ((0, 0), (0, n_rests)), constant_values=of_rest).ravel() for x, of_rest in ends]
        return np.array(rows)


def withheld_neighbours(told: Told, count: FloatArray, sums: Sums, cheap: Sequence[int] = ()) -> BoolArray:
    """Which sets are withheld beside small ones; `count` has their exact events, others and people.

    Everybody, who are the first set, are always shown.

    If bounds leave too few values, parts and sums that are `cheap` are withheld at first, and all others
    only if that does not suffice. Then they are shown again, the dearest first, as long as enough values are
    left: large groups, then others, with more people before fewer.
    """
    n = count.shape[1]
    rest, net = Net.of(sums).with_rests(count)
    exact = np.concatenate([count, rest], axis=1)
    small = (exact[:2] < told.rule.fewest) & (exact[PEOPLE] > 0)
    small[:, :n] &= told.small
    withheld, net = np.zeros(n, dtype=np.bool_), net.of_counts(exact.shape[1])
    can_be = np.isfinite(told.people) & (told.people > 0)
    can_be[:1] = False
    dear = np.isin(np.arange(n), np.setdiff1d([total for total, _ in sums], cheap))
    hidden, owner = np.flatnonzero(small), np.tile(np.arange(exact.shape[1]), 3)

    def values(bounds: FloatArray) -> FloatArray:
        """How many values are possible for each small count; more than wanted do not matter."""
        return np.asarray(np.minimum(1 - bounds[:, hidden].sum(axis=0), WANTED))

    shown = told.bounds(withheld, rest.shape[1])
    now = net.tightened(shown.copy())
    for allowed, steps in ((~dear, 1), (~dear, 2), (True, 1), (True, 2), (True, 3)):
        near = np.isin(owner, owner[hidden[values(now) < WANTED]])
        if not near.any():
            break
        for _ in range(steps):
            near = net.beside(near)
        withheld |= near[:n] & can_be & allowed
        now = net.tightened(told.bounds(withheld, rest.shape[1]))
    wanted, large = values(now), dear & (count[PEOPLE] >= LARGE)
    order = np.lexsort((count[PEOPLE], dear))[::-1]
    waiting = [order[withheld[order] & (large[order] == which)] for which in (False, True)]
    while waiting:  # halves of what could not be shown again together
        again = waiting.pop()
        changed = np.isin(owner, again)
        then = np.where(changed, np.maximum(now, shown), now)
        enough = ENOUGH if large[again].any() else WANTED
        if (values(net.tightened(then, changed)) >= np.minimum(wanted, enough)).all():
            withheld[again], now, wanted = False, then, np.minimum(wanted, values(then))
        elif len(again) > 1:
            waiting += [again[len(again) // 2 :], again[: len(again) // 2]]
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

    def of_counts(self, n: int) -> Net:
        """Sums of the events, others and people of `n` sets, and events and others of each as its people."""
        kinds, sets, n_sums = np.arange(3)[:, None], np.arange(n), len(self.total)
        return Net(
            np.concatenate([(self.part + n * kinds).ravel(), sets, sets + n]),
            np.concatenate([(self.sum_of + n_sums * kinds).ravel(), *[3 * n_sums + sets] * 2]),
            np.concatenate([(self.total + n * kinds).ravel(), sets + 2 * n]),
        )

    def beside(self, some: BoolArray) -> BoolArray:
        """These, and those in a sum with one of them."""
        sums, near = self._sums_with(some), some.copy()
        near[self.part[sums[self.sum_of]]] = near[self.total[sums]] = True
        return near

    def _sums_with(self, some: BoolArray) -> BoolArray:
        sums = some[self.total]
        sums[self.sum_of[some[self.part]]] = True
        return sums

    def tightened(self, bounds: FloatArray, changed: BoolArray | None = None) -> FloatArray:
        """Bounds (in place) that follow from others, until nothing changes; at first, some have `changed`.

        Parts bound their total, and the total and the other parts bound each part.
        """
        changed = np.ones(bounds.shape[1], dtype=np.bool_) if changed is None else changed
        for _ in range(MOST_ROUNDS):
            sums = self._sums_with(changed)
            entries = np.flatnonzero(sums[self.sum_of])
            part, sum_of, own_total = self.part[entries], self.sum_of[entries], self.total[sums]
            total, before = self.total[sum_of], bounds.copy()
            added = [np.bincount(sum_of, weights=end[part], minlength=len(sums)) for end in bounds]
            for own, other in ((0, 1), (1, 0)):
                np.maximum.at(bounds[own], own_total, added[own][sums])
                follows = bounds[own][total] + added[other][sum_of] - bounds[other][part]
                np.maximum.at(bounds[own], part, follows)
            changed = (bounds != before).any(axis=0)
            if not changed.any():
                break
        return bounds

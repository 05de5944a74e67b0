"""Which sets are withheld because a small count would follow from them.

Sets of people overlap: a group is the sum of its parts, and of its risk ranges. From
what is shown, everybody can work out bounds for what is not. Where these leave too few
values for a small count, neighbours of it in the same sums are withheld: the cheapest
that will do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from propcal.core.grid import BoolArray, FloatArray, IntArray
from propcal.protect.disclosure_rule import MAX_MOVE, Rule

# values that bounds leave for a small count; integer programming over a whole page can
# leave 3
WANTED = 5
ENOUGH = 4  # values, where otherwise a large group would be withheld
LARGE = 100  # people
MAX_ROUNDS = 50
ENDLESS = 1e9
EVENTS = 0
OTHERS = 1
PEOPLE = 2

# a set, and sets without common people that are part of it
Sums = Sequence[tuple[int, Sequence[int]]]


@dataclass(frozen=True, eq=False)
class Disclosed:
    """What is disclosed of sets of people in a row.

    Attributes
    ----------
    people, events : array of float64
        Moved by at most 2; NaN where they are not shown.
    small : array of bool, shape (2, n)
        Whether fewer than `rule.fewest` different people have the outcome, and do not
        have it.
    few : array of bool, shape (2, n)
        Whether the count itself is small, not only the number of different people
        behind it.
    rule : Rule
    """

    people: FloatArray
    events: FloatArray
    small: BoolArray
    few: BoolArray
    rule: Rule


def withheld_neighbours(
    disclosed: Disclosed,
    count: FloatArray,
    sums: Sums,
    cheap: Sequence[Sequence[int]] = (),
) -> BoolArray:
    """Which sets are withheld beside small ones; `count` has their exact events, others
    and people.

    Everybody, who are the first set, are always shown. All others are withheld at
    first. Then they are shown again, the most valuable first, as long as bounds leave
    enough values for every small count. Where many cannot be shown together, halves of
    them are tried.
    """
    withheld = disclosed.people > 0
    withheld[:1] = False
    nothing_withheld = np.zeros_like(withheld)
    hidden = Hidden(disclosed, count, sums)
    shown = hidden.bounds(nothing_withheld)
    at_risk = hidden.values(hidden.net.tightened(shown.copy())) < WANTED
    if not at_risk.any():
        return nothing_withheld

    hidden.small = hidden.small[at_risk]
    now = hidden.net.tightened(hidden.bounds(withheld))
    values_left = hidden.values(now)
    value = _value(count, sums, cheap)
    large = (value > 0) & (count[PEOPLE] >= LARGE)
    by_value = np.lexsort((count[PEOPLE], value))[::-1]
    others = by_value[(withheld & ~large)[by_value]]
    waiting = [others, by_value[(withheld & large)[by_value]]]
    while waiting:
        tried = waiting.pop()
        enough = ENOUGH if large[tried].any() else WANTED
        needed = np.minimum(values_left, enough)

        def too_few(bounds: FloatArray, needed: FloatArray = needed) -> bool:
            return bool((hidden.values(bounds) < needed).any())

        then = now.copy()
        changed = np.add.outer(hidden.size * np.arange(3), tried).ravel()
        then[:, changed] = np.maximum(now[:, changed], shown[:, changed])
        hidden.net.tightened(then, changed, too_few)
        if not too_few(then):
            withheld[tried] = False
            now = then
            values_left = np.minimum(values_left, hidden.values(then))
        elif len(tried) > 1:
            half = len(tried) // 2
            waiting += [tried[half:], tried[:half]]
    return withheld


def _value(count: FloatArray, sums: Sums, cheap: Sequence[Sequence[int]]) -> IntArray:
    """How valuable it is to show each set: 1 for totals, 0 for parts, less for those
    that are `cheap`, least for the first of these.
    """
    totals = [total for total, _ in sums]
    value = np.isin(np.arange(count.shape[1]), totals).astype(np.int64)
    for tier, places in enumerate(cheap):
        value[list(places)] = tier - len(cheap)
    return value


class Hidden:
    """Small counts, and what everybody can work out of them from sets that are
    disclosed and their sums.

    Counts are the events, others and people of each set, and of the rests of sums:
    people who are in a total and in none of its parts. These are never disclosed.
    """

    def __init__(self, disclosed: Disclosed, count: FloatArray, sums: Sums) -> None:
        n_sets = count.shape[1]
        net = Net.of(sums, n_sets)
        rest = np.maximum(count[:, net.total] - (net.parts @ count.T).T, 0)
        with_rest = rest[PEOPLE] > 0.5
        exact = np.concatenate([count, rest[:, with_rest]], axis=1)
        self.disclosed = disclosed
        self.size = exact.shape[1]
        small = (exact[:PEOPLE] < disclosed.rule.fewest) & (exact[PEOPLE] > 0)
        small[:, :n_sets] &= disclosed.small
        self.small = np.flatnonzero(small)
        self.net = self._net_of_all_kinds(net, with_rest)

    def _net_of_all_kinds(self, net: Net, with_rest: BoolArray) -> Net:
        """Sums of events, others and people; and that events and others are all
        people.
        """
        rests = sparse.eye_array(len(with_rest), format="csc")[:, with_rest]
        parts = sparse.hstack([net.parts, rests])
        of_kinds = sparse.kron(sparse.eye_array(3), parts)
        of_people = sparse.kron([[1, 1, 0]], sparse.eye_array(self.size))
        rows = sparse.vstack([of_kinds, of_people], format="csr")
        rows.eliminate_zeros()  # of which `kron` stores some; a stored number is a part
        totals = np.add.outer(self.size * np.arange(3), net.total)
        people = self.size * PEOPLE + np.arange(self.size)
        return Net(np.append(totals, people), rows)

    def bounds(self, withheld: BoolArray) -> FloatArray:
        """What is disclosed of each count: the first row has the least, the second has
        minus the most.
        """
        disclosed = self.disclosed
        unknown = np.full(len(disclosed.events), np.nan)
        shown = np.array([disclosed.events, unknown, disclosed.people])
        shown[:, withheld] = np.nan
        low = np.nan_to_num(np.maximum(shown - MAX_MOVE, 0))
        high = np.where(disclosed.people == 0, 0, shown + MAX_MOVE)
        high = np.where(np.isnan(shown), ENDLESS, high)

        # small sets are disclosed as small
        fewest = disclosed.rule.fewest
        high[:PEOPLE][disclosed.small & disclosed.few] = fewest - 1
        known = disclosed.small.any(axis=0) | ~withheld
        large = ~disclosed.small & known & (disclosed.people != 0)
        low[:PEOPLE][large] = np.maximum(low[:PEOPLE][large], fewest)
        rests = (0, 0), (0, self.size - len(withheld))
        least = np.pad(low, rests)
        most = np.pad(-high, rests, constant_values=-ENDLESS)
        return np.array([least.ravel(), most.ravel()])

    def values(self, bounds: FloatArray) -> FloatArray:
        """How many values are possible for each small count; more than wanted do not
        matter.
        """
        least, minus_most = bounds[:, self.small]
        return np.asarray(np.minimum(1 - least - minus_most, WANTED))


class Net:
    """All sums: each has a row of `parts`, with a 1 for each part, and the place of its
    `total`.
    """

    def __init__(self, total: IntArray, parts: Any) -> None:
        self.total = total
        self.parts = parts
        n_sums = len(total)
        totals = sparse.csr_array(
            (np.ones(n_sums), (np.arange(n_sums), total)), shape=parts.shape
        )
        self.sums_with = (parts + totals).T.tocsr()

    @classmethod
    def of(cls, sums: Sums, n: int) -> Net:
        """From pairs of a total and its parts, among `n` sets."""
        total = np.array([total for total, _ in sums], dtype=np.int64)
        n_parts = [len(parts) for _, parts in sums]
        sum_of = np.repeat(np.arange(len(sums)), n_parts).astype(np.int64)
        no_parts = np.empty(0, dtype=np.int64)
        part = np.concatenate([no_parts, *(np.asarray(parts) for _, parts in sums)])
        shape = len(sums), n
        matrix = sparse.csr_array((np.ones(len(part)), (sum_of, part)), shape=shape)
        return cls(total, matrix)

    def bound_by_totals(
        self, people: FloatArray, events: FloatArray, count: FloatArray
    ) -> None:
        """Make no part larger than the whole, with the outcome or without it, by moves
        of at most 2.
        """
        sum_of, parts = self.parts.nonzero()
        whole = self.total[sum_of]
        least_people = count[PEOPLE] - MAX_MOVE
        most_events = count[EVENTS] + MAX_MOVE
        for _ in range(MAX_ROUNDS):
            before = people.copy(), events.copy()
            others = np.full(len(people), ENDLESS)  # of the smallest whole
            np.minimum.at(others, parts, (people - events)[whole])
            most_people = np.maximum(events + others, least_people)
            np.minimum(people, most_people, out=people)
            least_events = np.minimum(people - others, most_events)
            np.maximum(events, least_events, out=events)
            for shown in (people, events):
                np.minimum.at(shown, parts, shown[whole])
            if np.array_equal(before[0], people) and np.array_equal(before[1], events):
                return

    def tightened(
        self,
        bounds: FloatArray,
        changed: IntArray | None = None,
        ended: Callable[[FloatArray], bool] = lambda _: False,
    ) -> FloatArray:
        """Bounds (in place) that follow from others, until nothing changes; at first,
        some have `changed`.

        Parts bound their total, and the total and the other parts bound each part.
        """
        if changed is None:
            changed = np.arange(bounds.shape[1])
        for _ in range(MAX_ROUNDS):
            touched = np.zeros(len(self.total), dtype=np.bool_)
            touched[self.sums_with[changed].indices] = True
            rows = self.parts[touched]
            total = self.total[touched]
            part = rows.indices
            sum_of = np.repeat(np.arange(len(total)), np.diff(rows.indptr))
            before = bounds.copy()
            of_parts = [rows @ end for end in bounds]
            for own, other in ((0, 1), (1, 0)):
                np.maximum.at(bounds[own], total, of_parts[own])
                other_parts = of_parts[other][sum_of] - bounds[other, part]
                of_total = bounds[own, total[sum_of]]
                np.maximum.at(bounds[own], part, of_total + other_parts)
            changed = np.flatnonzero((bounds != before).any(axis=0))
            if not len(changed) or ended(bounds):
                break
        return bounds

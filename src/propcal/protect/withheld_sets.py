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
    tightest = hidden.net.tightened(shown.copy())
    at_risk = hidden.values(tightest) < WANTED
    if not at_risk.any():
        return nothing_withheld

    hidden.small = hidden.small[at_risk]
    now = hidden.net.tightened(hidden.bounds(withheld))
    values_left = hidden.values(now)
    value = _value(count, sums, cheap)
    large = (value > 0) & (count[PEOPLE] >= LARGE)
    by_value = np.lexsort((count[PEOPLE], value))[::-1]
    is_other = withheld & ~large
    others = by_value[is_other[by_value]]
    is_large = withheld & large
    waiting = [others, by_value[is_large[by_value]]]
    while waiting:
        tried = waiting.pop()
        enough = ENOUGH if large[tried].any() else WANTED
        needed = np.minimum(values_left, enough)

        def too_few(bounds: FloatArray, needed: FloatArray = needed) -> bool:
            n_values = hidden.values(bounds)
            return bool((n_values < needed).any())

        then = now.copy()
        rows = hidden.size * np.arange(3)
        changed = np.add.outer(rows, tried).ravel()
        then[:, changed] = np.maximum(now[:, changed], shown[:, changed])
        hidden.net.tightened(then, changed, too_few)
        if not too_few(then):
            withheld[tried] = False
            now = then
            values_then = hidden.values(then)
            values_left = np.minimum(values_left, values_then)
        elif len(tried) > 1:
            half = len(tried) // 2
            waiting += [tried[half:], tried[:half]]
    return withheld


def _value(count: FloatArray, sums: Sums, cheap: Sequence[Sequence[int]]) -> IntArray:
    """How valuable it is to show each set: 1 for totals, 0 for parts, less for those
    that are `cheap`, least for the first of these.
    """
    totals = [total for total, _ in sums]
    is_total = np.isin(np.arange(count.shape[1]), totals)
    value = is_total.astype(np.int64)
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
        in_parts = (net.parts @ count.T).T
        rest = np.maximum(count[:, net.total] - in_parts, 0)
        with_rest = rest[PEOPLE] > 0.5
        exact = np.concatenate([count, rest[:, with_rest]], axis=1)
        self.disclosed = disclosed
        self.size = exact.shape[1]
        is_small = exact[:PEOPLE] < disclosed.rule.fewest
        small = is_small & (exact[PEOPLE] > 0)
        small[:, :n_sets] &= disclosed.small
        self.small = np.flatnonzero(small)
        self.net = self._net_of_all_kinds(net, with_rest)

    def _net_of_all_kinds(self, net: Net, with_rest: BoolArray) -> Net:
        """Sums of events, others and people; and that events and others are all
        people.
        """
        identity = sparse.eye_array(len(with_rest), format="csc")
        rests = identity[:, with_rest]
        parts = sparse.hstack([net.parts, rests])
        of_each_kind = sparse.eye_array(3)
        of_kinds = sparse.kron(of_each_kind, parts)
        of_each_set = sparse.eye_array(self.size)
        of_people = sparse.kron([[1, 1, 0]], of_each_set)
        rows = sparse.vstack([of_kinds, of_people], format="csr")
        rows.eliminate_zeros()  # of which `kron` stores some; a stored number is a part
        first_of_kind = self.size * np.arange(3)
        totals = np.add.outer(first_of_kind, net.total)
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
        least_shown = np.maximum(shown - MAX_MOVE, 0)
        low = np.nan_to_num(least_shown)
        high = np.where(disclosed.people == 0, 0, shown + MAX_MOVE)
        high = np.where(np.isnan(shown), ENDLESS, high)

        # small sets are disclosed as small
        fewest = disclosed.rule.fewest
        high[:PEOPLE][disclosed.small & disclosed.few] = fewest - 1
        known = disclosed.small.any(axis=0) | ~withheld
        large = ~disclosed.small & known & (disclosed.people != 0)
        low_if_large = low[:PEOPLE][large]
        low[:PEOPLE][large] = np.maximum(low_if_large, fewest)
        rests = (0, 0), (0, self.size - len(withheld))
        least = np.pad(low, rests)
        most = np.pad(-high, rests, constant_values=-ENDLESS)
        return np.array([least.ravel(), most.ravel()])

    def values(self, bounds: FloatArray) -> FloatArray:
        """How many values are possible for each small count; more than wanted do not
        matter.
        """
        least, minus_most = bounds[:, self.small]
        n_values = 1 - least - minus_most
        return np.asarray(np.minimum(n_values, WANTED))


class Net:
    """All sums: each has a row of `parts`, with a 1 for each part, and the place of its
    `total`.
    """

    def __init__(self, total: IntArray, parts: Any) -> None:
        self.total = total
        self.parts = parts
        n_sums = len(total)
        ones = np.ones(n_sums)
        sum_and_total = (np.arange(n_sums), total)
        totals = sparse.csr_array((ones, sum_and_total), shape=parts.shape)
        self.sums_with = (parts + totals).T.tocsr()

    @classmethod
    def of(cls, sums: Sums, n: int) -> Net:
        """From pairs of a total and its parts, among `n` sets."""
        total = np.array([total for total, _ in sums], dtype=np.int64)
        n_parts = [len(parts) for _, parts in sums]
        place_of_sum = np.arange(len(sums))
        sum_of = np.repeat(place_of_sum, n_parts).astype(np.int64)
        no_parts = np.empty(0, dtype=np.int64)
        parts_of_sums = [np.asarray(parts) for _, parts in sums]
        part = np.concatenate([no_parts, *parts_of_sums])
        shape = len(sums), n
        ones = np.ones(len(part))
        matrix = sparse.csr_array((ones, (sum_of, part)), shape=shape)
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
            people_before = people.copy()
            events_before = events.copy()
            others = np.full(len(people), ENDLESS)  # of the smallest whole
            others_of_total = (people - events)[whole]
            np.minimum.at(others, parts, others_of_total)
            most_people = np.maximum(events + others, least_people)
            np.minimum(people, most_people, out=people)
            least_events = np.minimum(people - others, most_events)
            np.maximum(events, least_events, out=events)
            for shown in (people, events):
                np.minimum.at(shown, parts, shown[whole])
            same_people = np.array_equal(people_before, people)
            if same_people and np.array_equal(events_before, events):
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
                sum_of_part = total[sum_of]
                of_total = bounds[own, sum_of_part]
                np.maximum.at(bounds[own], part, of_total + other_parts)
            is_changed = (bounds != before).any(axis=0)
            changed = np.flatnonzero(is_changed)
            if not len(changed) or ended(bounds):
                break
        return bounds

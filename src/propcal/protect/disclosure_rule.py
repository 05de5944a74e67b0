"""The rule: small counts and neighbours that tell them are withheld, others are moved
by at most 2.

How a count is moved depends on who is in the cell and on nothing else (cell-key method;
Fraser and Wooton 2005; Marley and Leaver 2011): the same people give the same number on
every page, and one person more draws anew, so that two pages cannot be subtracted from
each other. A secret of the institution, in the environment variable PROPCAL_SECRET,
keeps others from working out by how much; it is read here, and written nowhere.

Sets of people overlap: a group is the sum of its parts, and of its risk ranges. From
what is shown, everybody can work out bounds for what is not. Where these leave too few
values for a small count, neighbours of it in the same sums are withheld: the cheapest
that will do.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import blake2b, sha256
from typing import Any

import numpy as np
from scipy import sparse

from propcal.auditing.headcount import ScoreValues
from propcal.core.arguments import FEWEST_SHOWN, check_number
from propcal.core.grid import BoolArray, FloatArray, IntArray, mix
from propcal.errors import refused
from propcal.numbers import SMALLEST_P, About, Limit, known

LEAST = 5  # a lower threshold protects nobody
FEWEST_MEASURED = (
    50  # people, from which on statistics of a group are shown as they are
)
MOVED = 2  # the most, either way
TABLE = np.repeat(np.arange(-MOVED, MOVED + 1.0), [1, 2, 3, 2, 1])  # mean 0
VARIANCE = float(np.var(TABLE))
STAND_IN = 5.0  # for few people with one score
MOST_UNSURE = 0.05  # relative error of a mean that hidden counts may cause
FEW_SCORES = 40  # different ones, from which on a mean does not tell counts
SATURATED = (
    4  # with so few different scores, two or three measures together tell every count
)
SECRET = "PROPCAL_SECRET"
# narrower bands would tell the number of few events to within two
P_BAND = 0.05
P_DIGITS = 3


@dataclass(frozen=True)
class Rule:
    """Which counts are small: those below `fewest`, which is 11 unless the user wants
    another number.
    """

    fewest: int = FEWEST_SHOWN

    def __post_init__(self) -> None:
        check_number("suppress", self.fewest, at_least=0, at_most=1_000_000, whole=True)
        if 0 < self.fewest < LEAST:
            raise refused("threshold protects nobody", least=LEAST, fewest=self.fewest)

    @classmethod
    def asked(cls, fewest: int | None) -> Rule | None:
        """The rule that the user asks for; None if nothing is to be protected."""
        rule = cls(0 if fewest is None else fewest)
        return rule if rule.fewest > 1 else None

    def small(self, different: FloatArray) -> BoolArray:
        """Whether a count is of few different people."""
        return np.asarray(different < self.fewest - 1e-9)

    def to_nearest_five(self, count: int) -> Any:
        """A count that belongs to no table, to the nearest 5; 0 stays 0.

        >>> Rule().to_nearest_five(0), Rule().to_nearest_five(7), Rule().to_nearest_five(1238)
        (0, < 11, 1240)
        """
        if 0 < count < self.fewest:
            return Limit(self.fewest, "below")
        return About(5 * round(count / 5))

    def mean_of_few(self, values: ScoreValues, total: float) -> tuple[float, float]:
        """The mean of scores with few different values, from protected counts, and its
        variance.

        Such a mean tells counts: 565 people with a mean score of 0.00708 are four
        alerts. Neighbouring scores of few people are counted together. What is left
        over counts as a fixed number of people, and many visits of few people as fewer;
        if that could change the mean by more than a twentieth, the mean is not told.
        """
        score, people, kept, cut = self._together(values)
        if not kept.any():
            return float("nan"), 0.0
        left = STAND_IN * float((~kept).sum())
        weight = np.where(kept, np.maximum(people, 1.0), 0.0)
        weight *= max(total - left, 1.0) / weight.sum()
        weight = np.where(kept, weight, STAND_IN)
        mean = float(np.average(score, weights=weight))
        unsure = STAND_IN * float(np.abs(score[~kept] - mean).sum()) + abs(
            float(cut @ (score - mean))
        )
        if unsure > MOST_UNSURE * mean * weight.sum():
            return float("nan"), 0.0
        spread = VARIANCE * float(np.sum((score[kept] - mean) ** 2)) / weight.sum() ** 2
        return mean, spread

    def _together(
        self, values: ScoreValues
    ) -> tuple[FloatArray, FloatArray, BoolArray, FloatArray]:
        """Scores, moved counts of people, which of them are not small, and how many
        visits they leave out.
        """
        rows = []
        first = 0
        few = self.small(values.different)
        for i in range(len(few)):
            run = slice(first, i + 1)
            enough = not self.small(
                values.different[run].sum() if few[i] else values.different[i]
            )
            last = i + 1 == len(few) or few[i + 1] != few[i]
            if not (enough or last):
                continue
            key = np.sum(values.key[run], dtype=np.uint64)
            shown = float(values.people[run].sum() + moved(key, 0))
            # as if all of them were nearly `fewest`; repeat visits of few people can be
            # more
            most = (self.fewest - 1) * (i + 1 - first if enough else 1)
            cut = max(values.people[run].sum() - most, 0.0) if few[i] else 0.0
            rows.append(
                (
                    values.score[run].mean(),
                    min(shown, most) if few[i] else shown,
                    enough,
                    cut,
                )
            )
            first = i + 1
        score, people, kept, left_out = map(np.array, zip(*rows))
        return score, people, kept, left_out


def tells_counts(values: ScoreValues) -> bool:
    """Whether a mean of these scores tells how many people have which."""
    return len(values.score) < FEW_SCORES and values.people.sum() >= 2 * len(
        values.score
    )


def moved(key: Any, what: int) -> Any:
    """By how much a count is moved: `what` is 0 for all people of a cell, 1 for those
    with the outcome.
    """
    key = mix(np.asarray(key, dtype=np.uint64)) + np.uint64(what)
    secret = os.environ.get(SECRET)
    return TABLE[(_keyed(key, secret) if secret else mix(key)) % np.uint64(len(TABLE))]


def _keyed(key: Any, secret: str) -> Any:
    """A number for each key that nobody can tell without the secret (BLAKE2b)."""
    start = blake2b(key=sha256(os.fsencode(secret)).digest(), digest_size=8)
    found = []
    for one in key.astype("<u8").ravel():
        own = start.copy()
        own.update(one.tobytes())
        found.append(own.digest())
    return (
        np.frombuffer(b"".join(found), dtype="<u8").astype(np.uint64).reshape(key.shape)
    )


def shown_p(p: float, large: Any = True) -> float:
    """A p-value with the digits that are printed; of few people as a limit: the exact
    one tells their number.

    >>> shown_p(0.01234), shown_p(0.0008), shown_p(0.004, large=False), shown_p(0.2, large=False)
    (0.012, 0.0, < 0.05, > 0.05)
    """
    if large:
        return 0.0 if p < SMALLEST_P else round(float(p), P_DIGITS)
    if not known(p):
        return float("nan")
    return Limit(P_BAND, "below" if p < P_BAND else "above")


# values that bounds leave for a small count; integer programming over a whole page can
# leave 3
WANTED = 5
ENOUGH = 4  # where otherwise a large group would be withheld
LARGE = 100  # people
MOST_ROUNDS = 50
ENDLESS = 1e9
EVENTS = 0
OTHERS = 1
PEOPLE = 2

Sums = Sequence[
    tuple[int, Sequence[int]]
]  # a set, and sets without common people that are part of it


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
    first. Then they are shown again, the dearest first, as long as bounds leave enough
    values for every small count. Sets that are `cheap` are the last, in reverse order;
    before them come parts, before these sums, and large groups are the first; more
    people come before fewer. Where many cannot be shown together, halves of them are
    tried.
    """
    withheld = disclosed.people > 0
    hidden = Hidden(disclosed, count, sums)
    withheld[:1] = False
    shown = hidden.bounds(np.zeros_like(withheld))
    at_risk = (
        hidden.values(hidden.net.tightened(shown.copy())) < WANTED
    )  # if all sets are shown
    if not at_risk.any():
        return np.zeros_like(withheld)
    hidden.small, now = (
        hidden.small[at_risk],
        hidden.net.tightened(hidden.bounds(withheld)),
    )
    wanted = hidden.values(now)
    dear = np.isin(np.arange(len(withheld)), [total for total, _ in sums]).astype(
        np.int64
    )
    for tier, some in enumerate(cheap):
        dear[list(some)] = tier - len(cheap)
    large = (dear > 0) & (count[PEOPLE] >= LARGE)
    order = np.lexsort((count[PEOPLE], dear))[::-1]
    waiting = [order[(withheld & (large == which))[order]] for which in (False, True)]
    while waiting:
        again = waiting.pop()
        needed = np.minimum(wanted, ENOUGH if large[again].any() else WANTED)

        def too_few(bounds: FloatArray, needed: FloatArray = needed) -> bool:
            return bool((hidden.values(bounds) < needed).any())

        then = now.copy()
        changed = np.add.outer(hidden.size * np.arange(3), again).ravel()
        then[:, changed] = np.maximum(now[:, changed], shown[:, changed])
        hidden.net.tightened(then, changed, too_few)
        if not too_few(then):
            withheld[again] = False
            now = then
            wanted = np.minimum(wanted, hidden.values(then))
        elif len(again) > 1:
            waiting += [again[len(again) // 2 :], again[: len(again) // 2]]
    return withheld


class Hidden:
    """Small counts, and what everybody can work out of them from sets that are
    disclosed and their sums.

    Counts are the events, others and people of each set, and of the rests of sums:
    people who are in a total and in none of its parts. These are never disclosed.
    """

    def __init__(self, disclosed: Disclosed, count: FloatArray, sums: Sums) -> None:
        n = count.shape[1]
        net = Net.of(sums, count.shape[1])
        rest = np.maximum(count[:, net.total] - (net.parts @ count.T).T, 0)
        some = rest[PEOPLE] > 0.5
        exact = np.concatenate([count, rest[:, some]], axis=1)
        self.disclosed = disclosed
        self.size = exact.shape[1]
        small = (exact[:2] < disclosed.rule.fewest) & (exact[PEOPLE] > 0)
        small[:, :n] &= disclosed.small
        self.small = np.flatnonzero(small)
        parts = sparse.hstack(
            [net.parts, sparse.eye_array(len(some), format="csc")[:, some]]
        )
        of_kinds = sparse.kron(sparse.eye_array(3), parts)
        of_people = sparse.kron(
            [[1, 1, 0]], sparse.eye_array(self.size)
        )  # events and others are all people
        totals = np.add.outer(self.size * np.arange(3), net.total)
        people = self.size * PEOPLE + np.arange(self.size)
        rows = sparse.vstack([of_kinds, of_people], format="csr")
        rows.eliminate_zeros()  # of which `kron` stores some; a stored number is a part
        self.net = Net(np.append(totals, people), rows)

    def bounds(self, withheld: BoolArray) -> FloatArray:
        """What is disclosed of each count: the first row has the least, the second has
        minus the most.
        """
        told = self.disclosed
        shown = np.array([told.events, np.full(len(told.events), np.nan), told.people])
        shown[:, withheld] = np.nan
        low = np.nan_to_num(np.maximum(shown - MOVED, 0))
        high = np.where(
            np.isnan(shown), ENDLESS, np.where(told.people == 0, 0, shown + MOVED)
        )
        high[:2][told.small & told.few] = told.rule.fewest - 1
        disclosed = (
            told.small.any(axis=0) | ~withheld
        )  # small sets are disclosed as small
        large = ~told.small & disclosed & (told.people != 0)
        low[:2][large] = np.maximum(low[:2][large], told.rule.fewest)
        rests = (0, 0), (0, self.size - len(withheld))
        ends = np.pad(low, rests), np.pad(-high, rests, constant_values=-ENDLESS)
        return np.array([end.ravel() for end in ends])

    def values(self, bounds: FloatArray) -> FloatArray:
        """How many values are possible for each small count; more than wanted do not
        matter.
        """
        return np.asarray(
            np.minimum(1 - bounds[0, self.small] - bounds[1, self.small], WANTED)
        )


class Net:
    """All sums: each has a row of `parts`, with a 1 for each part, and the place of its
    `total`.
    """

    def __init__(self, total: IntArray, parts: Any) -> None:
        self.total = total
        self.parts = parts
        whole = np.ones(len(total)), (np.arange(len(total)), total)
        self.sums_with = (parts + sparse.csr_array(whole, shape=parts.shape)).T.tocsr()

    @classmethod
    def of(cls, sums: Sums, n: int) -> Net:
        """From pairs of a total and its parts, among `n` sets."""
        sum_of = np.repeat(
            np.arange(len(sums)), [len(parts) for _, parts in sums]
        ).astype(np.int64)
        part = np.concatenate(
            [np.empty(0, dtype=np.int64), *(np.asarray(parts) for _, parts in sums)]
        )
        matrix = sparse.csr_array(
            (np.ones(len(part)), (sum_of, part)), shape=(len(sums), n)
        )
        return cls(np.array([total for total, _ in sums], dtype=np.int64), matrix)

    def bound_by_totals(
        self, people: FloatArray, events: FloatArray, count: FloatArray
    ) -> None:
        """Make no part larger than the whole, with the outcome or without it, by moves
        of at most 2.
        """
        sum_of, parts = self.parts.nonzero()
        whole = self.total[sum_of]
        for _ in range(MOST_ROUNDS):
            before = people.copy(), events.copy()
            others = np.full(len(people), ENDLESS)
            np.minimum.at(others, parts, (people - events)[whole])
            np.minimum(
                people, np.maximum(events + others, count[PEOPLE] - MOVED), out=people
            )
            np.maximum(
                events, np.minimum(people - others, count[EVENTS] + MOVED), out=events
            )
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
        changed = np.arange(bounds.shape[1]) if changed is None else changed
        for _ in range(MOST_ROUNDS):
            touched = np.zeros(len(self.total), dtype=np.bool_)
            touched[self.sums_with[changed].indices] = True
            rows = self.parts[touched]
            total = self.total[touched]
            part = rows.indices
            sum_of = np.repeat(np.arange(len(total)), np.diff(rows.indptr))
            before = bounds.copy()
            added = [rows @ end for end in bounds]
            for own, other in ((0, 1), (1, 0)):
                np.maximum.at(bounds[own], total, added[own])
                follows = (
                    bounds[own, total[sum_of]]
                    + added[other][sum_of]
                    - bounds[other, part]
                )
                np.maximum.at(bounds[own], part, follows)
            changed = np.flatnonzero(
                (bounds[0] != before[0]) | (bounds[1] != before[1])
            )
            if not len(changed) or ended(bounds):
                break
        return bounds

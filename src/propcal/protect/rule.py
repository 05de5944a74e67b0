"""The rule: small counts and neighbours that tell them are withheld, others are moved by at most 2.

How a count is moved depends on who is in the cell and on nothing else (cell-key method; Fraser and Wooton
2005; Marley and Leaver 2011): the same people give the same number on every page, and one person more draws
anew, so that two pages cannot be subtracted from each other. A secret of the institution, in the environment
variable PROPCAL_SECRET, keeps others from working out by how much; it is read here, and written nowhere.

Sets of people overlap: a group is the sum of its parts, and of its risk ranges. From what is shown, everybody
can work out bounds for what is not. Where these leave too few values for a small count, neighbours of it in
the same sums are withheld: the cheapest that will do.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import blake2b, sha256
from typing import Any

import numpy as np

from propcal.auditing.headcount import ScoreValues
from propcal.core.arguments import check_number
from propcal.core.grid import BoolArray, FloatArray, IntArray, mix
from propcal.errors import refused
from propcal.numbers import SMALLEST_P, About, Limit, known

LEAST = 5  # a lower threshold protects nobody
FEWEST_MEASURED = 50  # people, from which on statistics of a group are shown as they are
MOVED = 2  # the most, either way
TABLE = np.repeat(np.arange(-MOVED, MOVED + 1.0), [1, 2, 3, 2, 1])  # mean 0
VARIANCE = float(np.var(TABLE))
STAND_IN = 5.0  # for few people with one score
MOST_UNSURE = 0.05  # relative error of a mean that hidden counts may cause
FEW_SCORES = 40  # different ones, from which on a mean does not tell counts
SATURATED = 4  # with so few different scores, two or three measures together tell every count
SECRET = "PROPCAL_SECRET"
P_BAND, P_DIGITS = 0.05, 3  # narrower bands would tell the number of few events to within two


@dataclass(frozen=True)
class Rule:
    """Which counts are small: those below `fewest`, which is 11 unless the user wants another number."""

    fewest: int = 11

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

    def alone(self, count: int) -> Any:
        """A count that belongs to no table, to the nearest 5; nobody stays nobody.

        >>> Rule().alone(0), Rule().alone(7), Rule().alone(1238)
        (0, < 11, 1240)
        """
        return Limit(self.fewest, "below") if 0 < count < self.fewest else About(5 * round(count / 5))

    def mean_of_few(self, values: ScoreValues, total: float) -> tuple[float, float]:
        """The mean of scores with few different values, from protected counts, and its variance.

        Such a mean tells counts: 565 people with a mean score of 0.00708 are four alerts. Neighbouring scores
        of few people are counted together. What is left over counts as a fixed number of people; if that
        could change the mean by more than a twentieth, the mean is not told.
        """
        score, people, kept = self._together(values)
        if not kept.any():
            return float("nan"), 0.0
        left = STAND_IN * float((~kept).sum())
        weight = np.where(kept, np.maximum(people, 1.0), 0.0)
        weight *= max(total - left, 1.0) / weight.sum()
        weight = np.where(kept, weight, STAND_IN)
        mean = float(np.average(score, weights=weight))
        unsure = STAND_IN * float(np.abs(score[~kept] - mean).sum()) / weight.sum()
        if unsure > MOST_UNSURE * mean:
            return float("nan"), 0.0
        spread = VARIANCE * float(np.sum((score[kept] - mean) ** 2)) / weight.sum() ** 2
        return mean, spread

    def _together(self, values: ScoreValues) -> tuple[FloatArray, FloatArray, BoolArray]:
        """Scores, moved counts of people, and which of the counts are not small."""
        score, people, kept = [], [], []
        first, few = 0, self.small(values.different)
        for i in range(len(few)):
            run = slice(first, i + 1)
            enough = not self.small(values.different[run].sum() if few[i] else values.different[i])
            last = i + 1 == len(few) or few[i + 1] != few[i]
            if not (enough or last):
                continue
            key = np.sum(values.key[run], dtype=np.uint64)
            shown = float(values.people[run].sum() + moved(key, 0))
            most = (self.fewest - 1) * (i + 1 - first)  # as if all of them were nearly `fewest`
            score.append(values.score[run].mean())
            people.append(min(shown, most) if few[i] else shown)
            kept.append(enough)
            first = i + 1
        return np.array(score), np.array(people), np.array(kept, dtype=np.bool_)


def tells_counts(values: ScoreValues) -> bool:
    """Whether a mean of these scores tells how many people have which."""
    return len(values.score) < FEW_SCORES and values.people.sum() >= 2 * len(values.score)


def moved(key: Any, what: int) -> Any:
    """By how much a count is moved: `what` is 0 for all people of a cell, 1 for those with the outcome."""
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
    return np.frombuffer(b"".join(found), dtype="<u8").astype(np.uint64).reshape(key.shape)


def shown_p(p: float, large: Any = True) -> float:
    """A p-value with the digits that are printed; of few people as a limit: the exact one tells their number.

    >>> shown_p(0.01234), shown_p(0.0008), shown_p(0.004, large=False), shown_p(0.2, large=False)
    (0.012, 0.0, < 0.05, > 0.05)
    """
    if large:
        return 0.0 if p < SMALLEST_P else round(float(p), P_DIGITS)
    if not known(p):
        return float("nan")
    return Limit(P_BAND, "below" if p < P_BAND else "above")


WANTED = 5  # values that bounds leave for a small count; integer programming over a whole page can leave 3
ENOUGH = 4  # where otherwise a large group would be withheld
LARGE = 100  # people
MOST_ROUNDS, STEPS = 50, 4
ENDLESS = 1e9
EVENTS, OTHERS, PEOPLE = 0, 1, 2

Sums = Sequence[tuple[int, Sequence[int]]]  # a set, and sets without common people that are part of it


@dataclass(frozen=True, eq=False)
class Disclosed:
    """What is disclosed of sets of people in a row.

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
        """What follows for events, others and people of each set, and of rests, which are never disclosed.

        The first row has the least of each, the second has minus the most.
        """
        shown = np.array([self.events, np.full(len(self.events), np.nan), self.people])
        shown[:, withheld] = np.nan
        low = np.nan_to_num(np.maximum(shown - MOVED, 0))
        high = np.where(np.isnan(shown), ENDLESS, np.where(self.people == 0, 0, shown + MOVED))
        high[:2][self.small & self.few] = self.rule.fewest - 1
        disclosed = self.small.any(axis=0) | ~withheld  # small sets are disclosed as small
        large = ~self.small & disclosed & (self.people != 0)
        low[:2][large] = np.maximum(low[:2][large], self.rule.fewest)
        ends = (low, 0.0), (-high, -ENDLESS)
        rows = [np.pad(x, ((0, 0), (0, n_rests)), constant_values=of_rest).ravel() for x, of_rest in ends]
        return np.array(rows)


def withheld_neighbours(
    disclosed: Disclosed, count: FloatArray, sums: Sums, cheap: Sequence[Sequence[int]] = ()
) -> BoolArray:
    """Which sets are withheld beside small ones; `count` has their exact events, others and people.

    Everybody, who are the first set, are always shown.

    Where bounds leave too few values, the cheapest set is withheld in each sum that they come from, until
    enough are left: first sets that are `cheap`, in their order, then parts, then sums, fewer people before
    more, and large groups only if nothing else will do. Then those that are not needed are shown again, the
    dearest first.
    """
    n = count.shape[1]
    rest, net = Net.of(sums).with_rests(count)
    exact = np.concatenate([count, rest], axis=1)
    size, n_rests = exact.shape[1], rest.shape[1]
    small = (exact[:2] < disclosed.rule.fewest) & (exact[PEOPLE] > 0)
    small[:, :n] &= disclosed.small
    withheld, can_be = np.zeros((2, size), dtype=np.bool_)
    if not small.any():
        return withheld[:n]
    hidden, owner, net = np.flatnonzero(small), np.tile(np.arange(size), 3), net.of_counts(size)
    can_be[1:n] = disclosed.people[1:] > 0
    shown, unknown = (disclosed.bounds(some[:n], n_rests) for some in (withheld, can_be))
    dear = np.isin(np.arange(size), [total for total, _ in sums]).astype(np.int64)
    for tier, some in enumerate(cheap):
        dear[list(some)] = tier - len(cheap)
    large = (dear > 0) & (exact[PEOPLE] >= LARGE)
    order = np.lexsort((exact[PEOPLE], dear))
    price = np.where((shown != unknown).any(axis=0), np.argsort(order)[owner], size)

    def values(bounds: FloatArray) -> FloatArray:
        """How many values are possible for each small count; more than wanted do not matter."""
        return np.asarray(np.minimum(1 - bounds[:, hidden].sum(axis=0), WANTED))

    raw, now = shown, net.tightened(shown.copy())
    for allowed in (~large, large | True):
        for _ in range(MOST_ROUNDS):
            blamed, before = np.isin(np.arange(3 * size), hidden[values(now) < WANTED]), withheld.sum()
            for _ in range(STEPS):  # where a sum has nothing to withhold, what bounds its members is to blame
                lowest = net.lowest(np.where((allowed & ~withheld)[owner], price, size))
                binding = net.binding(now, raw, blamed)
                withheld[order[lowest[binding & (lowest < size)]]] = True
                blamed = net.members(binding & (lowest == size), 3 * size)
            if withheld.sum() == before:
                break
            raw = np.where(withheld[owner], unknown, shown)
            now = net.tightened(raw.copy())
    wanted, dearest = values(now), order[withheld[order]][::-1]
    waiting = [dearest[large[dearest] == which] for which in (False, True)]
    while waiting:  # halves of what could not be shown again together
        again = waiting.pop()
        changed = np.isin(owner, again)
        needed = np.minimum(wanted, ENOUGH if large[again].any() else WANTED)

        def too_few(bounds: FloatArray, needed: FloatArray = needed) -> bool:
            return bool((values(bounds) < needed).any())

        then = net.tightened(np.where(changed, np.maximum(now, shown), now), changed, too_few)
        if not too_few(then):
            withheld[again], now, wanted = False, then, np.minimum(wanted, values(then))
        elif len(again) > 1:
            waiting += [again[len(again) // 2 :], again[: len(again) // 2]]
    return withheld[:n]


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

    def binding(self, bounds: FloatArray, raw: FloatArray, some: BoolArray) -> BoolArray:
        """The sums from which the bounds of some counts come, unless they were disclosed."""
        found, total = np.zeros(len(self.total), dtype=np.bool_), self.total[self.sum_of]
        added = [np.bincount(self.sum_of, weights=end[self.part], minlength=len(found)) for end in bounds]
        for own, other in ((0, 1), (1, 0)):
            closer = some & (bounds[own] > raw[own])
            found |= closer[self.total] & (added[own] >= bounds[own][self.total])
            follows = bounds[own][total] + added[other][self.sum_of] - bounds[other][self.part]
            found[self.sum_of[closer[self.part] & (follows >= bounds[own][self.part])]] = True
        return found

    def lowest(self, price: IntArray) -> IntArray:
        """The lowest price in each sum."""
        found = price[self.total]
        np.minimum.at(found, self.sum_of, price[self.part])
        return found

    def members(self, sums: BoolArray, n: int) -> BoolArray:
        """Which of `n` are in some sums."""
        found = np.zeros(n, dtype=np.bool_)
        found[self.part[sums[self.sum_of]]] = found[self.total[sums]] = True
        return found

    def tightened(
        self,
        bounds: FloatArray,
        changed: BoolArray | None = None,
        ended: Callable[[FloatArray], bool] = lambda _: False,
    ) -> FloatArray:
        """Bounds (in place) that follow from others, until nothing changes; at first, some have `changed`.

        Parts bound their total, and the total and the other parts bound each part.
        """
        sums = np.ones(len(self.total), dtype=np.bool_)
        for _ in range(MOST_ROUNDS):
            if changed is not None:
                sums = changed[self.total]
                sums[self.sum_of[changed[self.part]]] = True
            entries = np.flatnonzero(sums[self.sum_of])
            part, sum_of, own_total = self.part[entries], self.sum_of[entries], self.total[sums]
            total, before = self.total[sum_of], bounds.copy()
            added = [np.bincount(sum_of, weights=end[part], minlength=len(sums)) for end in bounds]
            for own, other in ((0, 1), (1, 0)):
                np.maximum.at(bounds[own], own_total, added[own][sums])
                follows = bounds[own][total] + added[other][sum_of] - bounds[other][part]
                np.maximum.at(bounds[own], part, follows)
            changed = (bounds != before).any(axis=0)
            if not changed.any() or ended(bounds):
                break
        return bounds

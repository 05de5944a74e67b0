"""The rule: small counts and neighbours that reveal them are withheld, others moved.

Counts are moved by at most 2. How one is moved depends on who is in the cell and on
nothing else (cell-key method; Fraser and Wooton 2005; Marley and Leaver 2011): the same
people give the same number on every page, and one person more draws anew, so that two
pages cannot be subtracted from each other. A secret of the institution, in the
environment variable PROPCAL_SECRET, keeps others from working out by how much; it is
read here, and written nowhere.

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
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from propcal.auditing.headcount import ScoreValues
from propcal.core.arguments import FEWEST_SHOWN, check_number
from propcal.core.grid import BoolArray, FloatArray, IntArray, mix
from propcal.errors import refused
from propcal.numbers import SMALLEST_P, About, Limit, known

LEAST = 5  # a lower threshold protects nobody
# people, from which on statistics of a group are shown as they are
FEWEST_MEASURED = 50
MAX_MOVE = 2  # either way
MOVES = np.repeat(np.arange(-MAX_MOVE, MAX_MOVE + 1.0), [1, 2, 3, 2, 1])  # mean 0
VARIANCE = float(np.var(MOVES))
STAND_IN = 5.0  # people, in place of few with one score
MAX_MEAN_ERROR = 0.05  # relative, that hidden counts may cause
MANY_SCORES = 40  # different ones, from which on a mean does not reveal counts
# with so few different scores, two or three measures together reveal every count
SATURATED = 4
SECRET = "PROPCAL_SECRET"
# narrower bands would reveal the number of few events to within two
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

        >>> [Rule().to_nearest_five(count) for count in (0, 7, 1238)]
        [0, < 11, 1240]
        """
        if 0 < count < self.fewest:
            return Limit(self.fewest, "below")
        return About(5 * round(count / 5))

    def mean_of_few(self, values: ScoreValues, total: float) -> tuple[float, float]:
        """The mean of scores with few different values, from protected counts, and its
        variance.

        Such a mean reveals counts: 565 people with a mean score of 0.00708 are four
        alerts. Neighbouring scores of few people are counted together. What is left
        over counts as a fixed number of people, and many visits of few people as fewer;
        if that could change the mean by more than a twentieth, the mean is withheld.
        """
        runs = self._runs(values)
        score, people, left_out = np.array(
            [(run.score, run.people, run.left_out) for run in runs]
        ).T
        kept = np.array([run.enough for run in runs])
        if not kept.any():
            return float("nan"), 0.0
        weight = np.where(kept, np.maximum(people, 1.0), 0.0)
        n_small = float((~kept).sum())
        weight *= max(total - STAND_IN * n_small, 1.0) / weight.sum()
        weight = np.where(kept, weight, STAND_IN)
        mean = float(np.average(score, weights=weight))

        of_small = STAND_IN * float(np.abs(score[~kept] - mean).sum())
        unsure = of_small + abs(float(left_out @ (score - mean)))
        if unsure > MAX_MEAN_ERROR * mean * weight.sum():
            return float("nan"), 0.0
        squares = float(np.sum((score[kept] - mean) ** 2))
        return mean, VARIANCE * squares / weight.sum() ** 2

    def _runs(self, values: ScoreValues) -> list[ScoreRun]:
        """Scores from low to high; neighbouring ones of few people are taken together
        until there are enough.
        """
        few = self.small(values.different)
        runs = []
        first = 0
        for i in range(len(few)):
            different = values.different[i]
            if few[i]:
                different = values.different[first : i + 1].sum()
            enough = not self.small(different)
            last_of_kind = i + 1 == len(few) or few[i + 1] != few[i]
            if enough or last_of_kind:
                run = slice(first, i + 1)
                runs.append(self._run(values, run, few=bool(few[i]), enough=enough))
                first = i + 1
        return runs

    def _run(
        self, values: ScoreValues, run: slice, *, few: bool, enough: bool
    ) -> ScoreRun:
        """Scores that are taken together; repeat visits of few people count as if each
        score had nearly `fewest` of them.
        """
        key = np.sum(values.key[run], dtype=np.uint64)
        score = values.score[run].mean()
        exact = values.people[run].sum()
        people = float(exact + moved(key, 0))
        if not few:
            return ScoreRun(score, people, enough, 0.0)
        n_scores = run.stop - run.start if enough else 1
        most = (self.fewest - 1) * n_scores
        left_out = max(exact - most, 0.0)
        return ScoreRun(score, min(people, most), enough, left_out)


class ScoreRun(NamedTuple):
    """Neighbouring scores that are taken together: their mean, the moved count of
    people, whether these are enough, and how many visits are left out of the count.
    """

    score: float
    people: float
    enough: bool
    left_out: float


def reveals_counts(values: ScoreValues) -> bool:
    """Whether a mean of these scores reveals how many people have which."""
    n_scores = len(values.score)
    return n_scores < MANY_SCORES and values.people.sum() >= 2 * n_scores


def moved(key: Any, what: int) -> Any:
    """By how much a count is moved: `what` is 0 for all people of a cell, 1 for those
    with the outcome.
    """
    key = mix(np.asarray(key, dtype=np.uint64)) + np.uint64(what)
    secret = os.environ.get(SECRET)
    drawn = _secret_hashes(key, secret) if secret else mix(key)
    return MOVES[drawn % np.uint64(len(MOVES))]


def _secret_hashes(keys: Any, secret: str) -> Any:
    """A number for each key that nobody can tell without the secret (BLAKE2b)."""
    start = blake2b(key=sha256(os.fsencode(secret)).digest(), digest_size=8)
    digests = []
    for key in keys.astype("<u8").ravel():
        of_key = start.copy()
        of_key.update(key.tobytes())
        digests.append(of_key.digest())
    hashes = np.frombuffer(b"".join(digests), dtype="<u8").astype(np.uint64)
    return hashes.reshape(keys.shape)


def shown_p(p: float, large: Any = True) -> float:
    """A p-value with the digits that are printed; of few people as a limit: the exact
    one reveals their number.

    >>> shown_p(0.01234), shown_p(0.0008)
    (0.012, 0.0)
    >>> shown_p(0.004, large=False), shown_p(0.2, large=False)
    (< 0.05, > 0.05)
    """
    if large:
        return 0.0 if p < SMALLEST_P else round(float(p), P_DIGITS)
    if not known(p):
        return float("nan")
    return Limit(P_BAND, "below" if p < P_BAND else "above")


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

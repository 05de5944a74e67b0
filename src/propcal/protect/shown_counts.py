"""ShownCounts: the counts of a page as they are shown, and the neighbours that are withheld with small ones.

Sets of people overlap: a group is the sum of its parts, and of its risk ranges. From what is shown, everybody
can work out bounds for what is not. Where these bounds would leave fewer than three values for a small count,
a neighbour of it in the same sum is withheld too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any

import numpy as np
import pandas as pd

from propcal.auditing.audit_tables import ENDS
from propcal.auditing.headcount import Headcount, ScoreValues
from propcal.auditing.intervals import CONFIDENCE, normal_quantile
from propcal.core.grid import BoolArray, FloatArray, IntArray
from propcal.core.groups.collection import Group
from propcal.numbers import RATIO_DIGITS, Limit, beside_one, excludes_one, printed_rate
from propcal.protect.rule import FEWEST_MEASURED, MOVED, VARIANCE, Rule, moved, tells_counts

WANTED = 5  # values that bounds leave for a small count; integer programming over a whole page can leave 3
MOST_ROUNDS = 50
ENDLESS = 1e9
EVENTS, OTHERS, PEOPLE = 0, 1, 2

APART = 0.0051  # from 1, where an interval that excludes it ends

Ratio = tuple[FloatArray, FloatArray, FloatArray]  # O/E ratios and the ends of their intervals
Sums = Sequence[tuple[int, Sequence[int]]]  # a set, and sets without common people that are part of it
Values = Iterable[tuple[int, ScoreValues]]  # the different scores of a set


def sums_of_groups(groups: Sequence[Group]) -> list[tuple[int, list[int]]]:
    """Each group, and its parts by one more attribute; broader groups first."""
    place = {frozenset(group.conditions): i for i, group in enumerate(groups)}
    found: dict[tuple[int, str], list[int]] = {}
    for conditions, i in sorted(place.items(), key=lambda item: len(item[0])):
        for condition in sorted(conditions, key=repr):
            parent = place.get(conditions - {condition})
            if parent is not None:
                found.setdefault((parent, condition[0]), []).append(i)
    return [(total, parts) for (total, _), parts in found.items()]


def sums_by_range(scores: Sequence[tuple[Sequence[Group], int]]) -> list[tuple[int, list[int]]]:
    """The sums of groups, of each group over its ranges, and of groups within each range.

    Each score of the same people has its groups, which may be in another order, and a number of ranges. Whole
    groups come first, in the order of the first score; then the ranges of its first group, and so on; then
    those of the next score.
    """
    groups = scores[0][0]
    place, sums, start = {group: g for g, group in enumerate(groups)}, sums_of_groups(groups), len(groups)
    for own, n in scores:
        cells = start + np.arange(len(own) * n).reshape(len(own), n)
        sums += [(place[group], cells[g].tolist()) for g, group in enumerate(own)]
        for total, parts in sums_of_groups(own):
            sums += [(int(cells[total, j]), cells[parts, j].tolist()) for j in range(n)]
        start += cells.size
    return sums


@dataclass(frozen=True, eq=False)
class ShownCounts:
    """Sets of people in a row, as they may be shown.

    Attributes
    ----------
    people, events : array of float64
        Moved by at most 2; NaN where they are not shown.
    small : array of bool, shape (2, n)
        Whether fewer than `rule.fewest` different people have the outcome, and do not have it.
    few : array of bool, shape (2, n)
        Whether the count itself is small, not only the number of different people behind it.
    mean, mean_variance : array of float64
        Mean score, and the variance that moved counts add to it.
    headcount : Headcount
        The exact counts.
    rule : Rule
    """

    people: FloatArray
    events: FloatArray
    small: BoolArray
    few: BoolArray
    mean: FloatArray
    mean_variance: FloatArray
    headcount: Headcount
    rule: Rule

    @classmethod
    def of(cls, headcount: Headcount, rule: Rule, sums: Sums = (), values: Values = ()) -> ShownCounts:
        """Move, compare and withhold; `values` are the scores of sets in which many have the same one."""
        count = np.rint(np.array([*headcount.people, headcount.people.sum(axis=0)]))
        small, few = rule.small(headcount.different), count[:2] < rule.fewest
        people = count[PEOPLE] + moved(headcount.key, 0)
        events = count[EVENTS] + moved(headcount.key, 1)
        # a count that is shown is never below the threshold
        events = np.where(small[EVENTS], events, np.maximum(events, rule.fewest))
        people = np.where(small.any(axis=0), people, np.maximum(people, events + rule.fewest))
        net = _Net.of(sums)
        net.bound_by_totals(people, events, count)
        mostly = (small & ~few & (count[:2] > count[1::-1])).any(axis=0)  # many visits of few people
        hidden = small.all(axis=0) | mostly
        nobody = count[PEOPLE] <= 0
        people = np.where(nobody, 0.0, np.where(hidden, np.nan, people))
        events = np.where(nobody, 0.0, np.where(small.any(axis=0), np.nan, events))
        nothing = np.zeros(len(people))
        made = cls(people, events, small & ~nobody, few, nothing, nothing, headcount, rule)
        withheld = _withheld(made, count, net)
        made.people[withheld], made.events[withheld] = np.nan, np.nan
        return made.part(slice(None), headcount, values)

    def part(self, sets: Any, headcount: Headcount, values: Values) -> ShownCounts:
        """Some of the sets, whose scores may be others."""
        people, events = self.people[sets], self.events[sets]
        mean, variance = np.where(np.isnan(people), np.nan, headcount.score), np.zeros(len(people))
        for i, own in values:
            if len(own.score) > 1 and tells_counts(own) and np.isfinite(people[i]):
                mean[i], variance[i] = self.rule.mean_of_few(own, people[i])
        small, few = self.small[:, sets], self.few[:, sets]
        return ShownCounts(people, events, small, few, mean, variance, headcount, self.rule)

    @property
    def large(self) -> BoolArray:
        """Whose statistics are those of many people, and shown as they are."""
        many = self.headcount.people.sum(axis=0) >= FEWEST_MEASURED
        return np.asarray(many & ~self.small.any(axis=0))

    @property
    def known(self) -> BoolArray:
        """Where rates and ratios can be computed."""
        return np.isfinite(self.people + self.events) & (self.people > 0)

    def rate_at(self, i: int) -> float:
        """The observed rate; NaN if a count is not shown."""
        people, events = self.people[i], self.events[i]
        return float(events / people) if people > 0 else float("nan")

    def people_at(self, i: int) -> Any:
        """People of a set, or what can be said."""
        if self.small[:, i].all() and self.few[:, i].all():
            return Limit(2 * self.rule.fewest - 1, "below")
        return float("nan") if np.isnan(self.people[i]) else int(self.people[i])

    def events_at(self, i: int) -> Any:
        """People with the outcome, or what can be said."""
        if self.small[0, i]:
            return Limit(self.rule.fewest, "below") if self.few[0, i] else float("nan")
        if self.small[1, i] and self.few[1, i] and np.isfinite(self.people[i]):
            return Limit(max(self.people[i] - MOVED - self.rule.fewest, 0.0), "above")
        return float(self.events[i])


def _withheld(shown: ShownCounts, count: FloatArray, net: _Net) -> BoolArray:
    """Neighbours of small counts that bounds would otherwise give away."""
    n = count.shape[1]
    withheld = np.zeros(n, dtype=np.bool_)
    told = np.isfinite(shown.people) & (shown.people > 0)
    told[:1] = False  # the first set is everybody, who are always shown
    rest, net = net.with_rests(count)
    count = np.concatenate([count, rest], axis=1)
    hidden = (count[:2] < shown.rule.fewest) & (count[PEOPLE] > 0)
    hidden[:, :n] &= shown.small
    for _ in range(MOST_ROUNDS if hidden.any() else 0):
        low, high = net.tightened(*_bounds(shown, withheld, rest.shape[1]))
        narrow = np.flatnonzero(((high - low + 1 < WANTED)[:2] & hidden).any(axis=0)).tolist()
        free = told & ~withheld
        # the number of all people may tell by itself: of 12 there is at most 1 if 11 or more are not small
        alone = {
            i for i in narrow if i < n and free[i] and shown.people[i] + MOVED < shown.rule.fewest + WANTED
        }
        for told_too in (free & np.isfinite(shown.events), free):  # best one whose events are shown
            chosen = alone or {net.neighbour(i, told_too, count[PEOPLE], low, high) for i in narrow} - {-1}
            if chosen:
                break
        if not chosen:
            break
        withheld[list(chosen)] = True
    return withheld


def _bounds(shown: ShownCounts, withheld: BoolArray, n_rests: int) -> tuple[FloatArray, FloatArray]:
    """What is told of events, others and people of each set."""
    n, fewest = len(shown.people), shown.rule.fewest
    low, high = np.zeros((3, n + n_rests)), np.full((3, n + n_rests), ENDLESS)
    for kind, told in ((PEOPLE, shown.people), (EVENTS, shown.events)):
        known = np.isfinite(told) & ~withheld
        nobody = known & (shown.people == 0)
        low[kind, :n] = np.where(known, np.maximum(told - MOVED, 0), 0)
        high[kind, :n] = np.where(known, np.where(nobody, 0, told + MOVED), ENDLESS)
    unknown = withheld & ~shown.small.any(axis=0)  # of small sets it is told that they are small
    for kind in (EVENTS, OTHERS):
        high[kind, :n] = np.where(shown.small[kind] & shown.few[kind], fewest - 1, high[kind, :n])
        large = ~shown.small[kind] & ~unknown & (np.nan_to_num(shown.people, nan=1.0) > 0)
        low[kind, :n] = np.maximum(low[kind, :n], np.where(large, fewest, 0))
    return low, high


@dataclass(frozen=True, eq=False)
class _Net:
    """All sums as arrays: each entry is a part of the sum `sum_of`, whose total is `total`."""

    part: IntArray
    sum_of: IntArray
    total: IntArray

    @classmethod
    def of(cls, sums: Sums) -> _Net:
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

    def with_rests(self, count: FloatArray) -> tuple[FloatArray, _Net]:
        """Counts of people who are in a total and in none of its parts, and the sums with these as parts."""
        n, n_sums = count.shape[1], len(self.total)
        added = [np.bincount(self.sum_of, weights=own[self.part], minlength=n_sums) for own in count]
        rest = np.maximum(count[:, self.total] - np.array(added).reshape(3, -1), 0)
        some = np.flatnonzero(rest[PEOPLE] > 0.5)
        part = np.concatenate([self.part, n + np.arange(len(some))])
        return rest[:, some], _Net(part, np.concatenate([self.sum_of, some]), self.total)

    def tightened(self, low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Bounds that follow from others, until nothing changes."""
        for _ in range(MOST_ROUNDS):
            before = low.copy(), high.copy()
            self._add_up(low, high)
            for own, other in ((EVENTS, OTHERS), (OTHERS, EVENTS)):
                np.maximum(low[own], low[PEOPLE] - high[other], out=low[own])
                np.minimum(high[own], high[PEOPLE] - low[other], out=high[own])
            np.maximum(low[PEOPLE], low[EVENTS] + low[OTHERS], out=low[PEOPLE])
            np.minimum(high[PEOPLE], high[EVENTS] + high[OTHERS], out=high[PEOPLE])
            if np.array_equal(before[0], low) and np.array_equal(before[1], high):
                break
        return low, high

    def _add_up(self, low: FloatArray, high: FloatArray) -> None:
        n = len(self.total)
        for least, most in zip(low, high):
            sums = [np.bincount(self.sum_of, weights=end[self.part], minlength=n) for end in (least, most)]
            np.maximum.at(least, self.total, sums[0])
            np.minimum.at(most, self.total, sums[1])
            own, total = self.sum_of, self.total[self.sum_of]
            np.maximum.at(least, self.part, least[total] - (sums[1][own] - most[self.part]))
            np.minimum.at(most, self.part, most[total] - (sums[0][own] - least[self.part]))

    def neighbour(
        self, i: int, told: BoolArray, people: FloatArray, low: FloatArray, high: FloatArray
    ) -> int:
        """A set that is told in a sum with this one, and lets the bounds be so narrow; or -1.

        It is the smallest in the sum that leaves the fewest values, best one that is no sum itself.
        """
        sums = np.union1d(self.sum_of[self.part == i], np.flatnonzero(self.total == i))
        sets = [np.append(self.part[self.sum_of == k], self.total[k]) for k in sums]
        slack = [(high - low)[:, own[own != i]].sum(axis=1).min() for own in sets]
        for k in np.argsort(slack, kind="stable"):
            near = sets[k][(sets[k] != i) & (sets[k] < len(told))]
            near = near[told[near]]
            if len(near):
                return int(near[np.lexsort((people[near], np.isin(near, self.total)))[0]])
        return -1


def thresholds_of(
    headcount: Headcount, totals: ShownCounts, rule: Rule
) -> Iterator[tuple[FloatArray, FloatArray]]:
    """For each group the people with and without the outcome at or above each threshold; NaN if few.

    A higher threshold never has more people.
    """
    for g in range(headcount.key.shape[0]):
        events, people = totals.events[g], totals.people[g]
        both, key = np.rint(headcount.people[:, g]), headcount.key[g]
        right = np.minimum.accumulate(np.minimum(both[0] + moved(key, 1), events))
        flagged = np.minimum.accumulate(np.minimum(both.sum(axis=0) + moved(key, 0), people))
        wrong = np.minimum.accumulate(np.clip(flagged - right, 0.0, people - events))
        few = rule.small(headcount.different[:, g]).any(axis=0)
        yield np.where(few, np.nan, right), np.where(few, np.nan, wrong)


def with_shown_rates(
    table: pd.DataFrame, shown: ShownCounts, first: int = 0, **others: Sequence[Any]
) -> pd.DataFrame:
    """The table of an audit with people, events, rates and O/E ratios as they are shown, and other columns.

    Its rows are the sets of `shown` from the `first` on. What is known of rates and ratios of small counts is
    among the other columns.
    """
    rows = range(first, first + len(table))
    exact = [table[f"observed_expected{end}"].to_numpy(dtype=np.float64) for end in ENDS]
    ratios = shown_ratios(shown, exact, slice(rows.start, rows.stop))
    columns: dict[str, Any] = {
        "people": [shown.people_at(i) for i in rows],
        "positives": [shown.events_at(i) for i in rows],
        "outcome_rate": [shown.rate_at(i) for i in rows],
        "mean_score": [printed_rate(shown.mean[i]) for i in rows],
        **{f"observed_expected{end}": ratio.tolist() for end, ratio in zip(ENDS, ratios)},
        **others,
    }
    for i, limits in enumerate(columns.pop("limits", ())):
        if limits is not None:
            columns["outcome_rate"][i], columns["observed_expected"][i] = limits
    replaced = {name: pd.Series(values, dtype=object) for name, values in columns.items() if name in table}
    return table.reset_index(drop=True).assign(**replaced)


def printed(values: Iterable[float], digits: int, shown: Iterable[Any] = repeat(True)) -> list[float]:
    """Numbers with so many digits after the point, as they are printed; NaN where they are not shown."""
    return [round(float(value), digits) if some else float("nan") for value, some in zip(values, shown)]


def printed_measure(
    table: pd.DataFrame, name: str, digits: int, shown: Iterable[Any] = repeat(True)
) -> dict[str, list[float]]:
    """The columns of a measure and its interval."""
    both = zip(table[f"{name}_low"], table[f"{name}_high"])
    ends = [beside_one(low, high, digits) for low, high in both]
    columns: Any = (table[name], [low for low, _ in ends], [high for _, high in ends])
    return {f"{name}{end}": printed(values, digits, shown) for end, values in zip(ENDS, columns)}


def shown_ratios(shown: ShownCounts, exact: Sequence[FloatArray], own: Any = slice(None)) -> Ratio:
    """O/E ratios with 95 % intervals, as they are printed; NaN where a count is not shown.

    `exact` are the audit's: how much wider or narrower an interval is than that of independent people with
    equal scores is kept, to one digit. Moved counts make it wider. It excludes 1 if the audit's does.
    """
    ratio, exact_low, exact_high = exact
    people, events, mean = shown.people[own], shown.events[own], shown.mean[own]
    counts, reach = shown.headcount.people[:, own], normal_quantile((1 + CONFIDENCE) / 2)
    with np.errstate(invalid="ignore", divide="ignore"):
        binomial = counts[1] / counts.sum(axis=0) / counts[0]
        spread = (np.log(exact_high / exact_low) / 2 / reach) ** 2
        effect = np.maximum(np.round(spread / binomial, 1), 0.1)
        value = np.where(np.isfinite(ratio), events / (people * mean), np.nan)
        variance = effect * (1 - events / people) / events + shown.mean_variance[own] / mean**2
        variance += VARIANCE * (events**-2.0 + people**-2.0)
        factor = np.exp(reach * np.sqrt(variance))
        return agreeing((value, value / factor, value * factor), exact_low, exact_high)


def agreeing(ratio: Ratio, exact_low: FloatArray, exact_high: FloatArray) -> Ratio:
    """Rounded numbers that say of 1 what the audit says."""
    value, low, high = ratio
    excluded = np.array([excludes_one(*ends) for ends in zip(exact_low, exact_high)], dtype=np.bool_)
    above, below = excluded & (exact_low > 1), excluded & (exact_high < 1)
    unlike = (above & (value <= 1)) | (below & (value >= 1))  # too near to 1 to tell
    low = np.where(above, np.maximum(low, 1 + APART), np.where(excluded, low, np.minimum(low, 1.0)))
    high = np.where(below, np.minimum(high, 1 - APART), np.where(excluded, high, np.maximum(high, 1.0)))
    value = np.where(above, np.maximum(value, 1 + APART), value)
    value = np.where(below, np.minimum(value, 1 - APART), value)
    low, high = (np.where(unlike, np.nan, end).round(RATIO_DIGITS) for end in (low, high))
    return value.round(RATIO_DIGITS), low, high

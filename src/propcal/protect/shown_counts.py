"""ShownCounts: the counts of a page as they are shown, and the rates and ratios that follow from them."""

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
from propcal.core.grid import BoolArray, FloatArray
from propcal.core.groups.collection import Group
from propcal.numbers import RATIO_DIGITS, Limit, beside_one, excludes_one, printed_rate
from propcal.protect.neighbours import EVENTS, PEOPLE, Net, Sums, Told, withheld_neighbours
from propcal.protect.rule import FEWEST_MEASURED, MOVED, VARIANCE, Rule, moved, tells_counts

APART = 0.0051  # from 1, where an interval that excludes it ends

Ratio = tuple[FloatArray, FloatArray, FloatArray]  # O/E ratios and the ends of their intervals
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
        Net.of(sums).bound_by_totals(people, events, count)
        mostly = (small & ~few & (count[:2] > count[1::-1])).any(axis=0)  # many visits of few people
        hidden = small.all(axis=0) | mostly
        nobody = count[PEOPLE] <= 0
        people = np.where(nobody, 0.0, np.where(hidden, np.nan, people))
        events = np.where(nobody, 0.0, np.where(small.any(axis=0), np.nan, events))
        small &= ~nobody
        withheld = withheld_neighbours(Told(people, events, small, few, rule.fewest), count, sums)
        people, events = (np.where(withheld, np.nan, shown) for shown in (people, events))
        nothing = np.zeros(len(people))
        made = cls(people, events, small, few, nothing, nothing, headcount, rule)
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

"""The counts of a page as they are shown, and the rates and ratios that follow."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import repeat
from typing import Any

import numpy as np
import pandas as pd

from propcal.auditing.audit_tables import ENDS
from propcal.auditing.claims import NAN, Claim
from propcal.auditing.headcount import Counts, Headcount, ScoreValues
from propcal.auditing.names import MEASURE_NAMES, TOO_HIGH, WRONG
from propcal.auditing.statistics.rate_intervals import NORMAL_REACH
from propcal.core.grid import BoolArray, FloatArray, IntArray, from_grid
from propcal.core.groups import Group
from propcal.numbers import (
    About,
    Limit,
    beside_one,
    printed_rate,
)
from propcal.protect import disclosure_rule as rules
from propcal.protect.shown_ratios import Ratio, RatioParts, moved_ratios
from propcal.protect.withheld_sets import (
    EVENTS,
    PEOPLE,
    Disclosed,
    Net,
    withheld_neighbours,
)

CURVE_DIGITS = 4
SHARE_DIGITS = 3
NEAR = 1e-9  # edges and thresholds that are the same number

# the different scores of sets, with the places of these
Values = Iterable[tuple[int, ScoreValues]]


def sums_of_groups(groups: Sequence[Group]) -> list[tuple[int, list[int]]]:
    """Each group, and its parts by one more attribute; broader groups first."""
    place = {frozenset(group.conditions): i for i, group in enumerate(groups)}
    broader_first = sorted(place.items(), key=lambda item: len(item[0]))
    parts: dict[tuple[int, str], list[int]] = {}
    for conditions, i in broader_first:
        for condition in sorted(conditions, key=repr):
            whole = place.get(conditions - {condition})
            if whole is not None:
                attribute, _ = condition
                parts.setdefault((whole, attribute), []).append(i)
    return [(whole, own) for (whole, _), own in parts.items()]


@dataclass(frozen=True, eq=False)
class ShownCounts(Disclosed):
    """Sets of people as they may be shown, with their mean scores.

    Attributes
    ----------
    mean, mean_variance : array of float64
        Mean score, and the variance that moved counts add to it.
    headcount : Headcount
        The exact counts.
    """

    mean: FloatArray
    mean_variance: FloatArray
    headcount: Headcount

    @classmethod
    def part_of(
        cls, disclosed: Disclosed, sets: Any, headcount: Headcount, values: Values
    ) -> ShownCounts:
        """Some of the sets, whose scores may be others."""
        people = disclosed.people[sets]
        events = disclosed.events[sets]
        mean = np.where(np.isnan(people), np.nan, headcount.score)
        variance = np.zeros(len(people))
        for i, scores in values:
            reveals_counts = len(scores.score) > 1 and rules.reveals_counts(scores)
            if reveals_counts and np.isfinite(people[i]):
                mean[i], variance[i] = disclosed.rule.mean_of_few(scores, people[i])
        small = disclosed.small[:, sets]
        few = disclosed.few[:, sets]
        return cls(
            people, events, small, few, disclosed.rule, mean, variance, headcount
        )

    @property
    def large(self) -> BoolArray:
        """Whose statistics are those of many people, and shown as they are."""
        many = self.headcount.people.sum(axis=0) >= rules.FEWEST_MEASURED
        return np.asarray(many & ~self.small.any(axis=0))

    @property
    def known(self) -> BoolArray:
        """Where rates and ratios can be computed."""
        return np.isfinite(self.people + self.events) & (self.people > 0)

    def rate_at(self, i: int) -> float:
        """The observed rate; NaN if a count is not shown."""
        if self.people[i] > 0:
            return float(self.events[i] / self.people[i])
        return NAN

    def people_at(self, i: int) -> Any:
        """People of a set, or what can be said."""
        if self.small[:, i].all() and self.few[:, i].all():
            return Limit(2 * self.rule.fewest - 1, "below")
        if np.isnan(self.people[i]):
            return NAN
        return About(self.people[i])

    def events_at(self, i: int) -> Any:
        """People with the outcome, or what can be said."""
        few_events, few_others = self.small[:, i] & self.few[:, i]
        if few_events:
            return Limit(self.rule.fewest, "below")
        if self.small[EVENTS, i]:
            return NAN
        if few_others and np.isfinite(self.people[i]):
            least = self.people[i] - rules.MAX_MOVE - self.rule.fewest
            return Limit(max(least, 0.0), "above")
        if np.isnan(self.events[i]):
            return NAN
        return About(self.events[i])

    def limits_at(
        self, i: int, finding: str, exact_ratio: float = 1.0
    ) -> tuple[Any, Any]:
        """What may be said of a rate and an O/E ratio where a count is small; it
        supports the finding.

        Half or twice the predicted events is only said where several counts are so
        small or large.
        """
        people = self.people[i]
        mean = self.mean[i]
        fewest = self.rule.fewest
        if np.isnan(mean):
            return NAN, NAN
        few_events = bool(self.small[EVENTS, i])  # or else, few without it
        if few_events:
            rate = Limit((fewest - 0.5) / people, "below")
        else:
            rate = Limit(1 - (fewest - 0.5) / people, "above")
        if finding not in WRONG:
            return rate, NAN

        expected = mean * people
        if finding == TOO_HIGH:
            sure = not few_events or expected >= fewest - 1
            half = exact_ratio < 0.5 and sure
            ratio = Limit(0.5 if half else 1.0, "below")
            supports = few_events and rate < mean
        else:
            sure = not few_events or 2 * expected <= fewest - 6
            twice = exact_ratio > 2 and sure
            ratio = Limit(2.0 if twice else 1.0, "above")
            supports = not few_events and rate >= mean
        if not supports:
            rate = Limit(printed_rate(mean), ratio.side)
        return rate, ratio

    @cached_property
    def printable(self) -> Any:
        """People, and people with the outcome, of all sets."""
        sets = range(len(self.people))
        people = [self.people_at(i) for i in sets]
        events = [self.events_at(i) for i in sets]
        return np.array([people, events], dtype=object)

    def numbers_at(self, i: int) -> dict[str, Any]:
        """Counts and rates of a set, as a claim has them."""
        return {
            "people": self.people_at(i),
            "events": self.events_at(i),
            "observed": self.rate_at(i),
            "predicted": printed_rate(self.mean[i]),
        }

    def ratios(self, sets: Any, exact: Sequence[Any], mean: Any = None) -> Ratio:
        """O/E ratios of some sets with their intervals; `mean` is that of another score
        of theirs.
        """
        as_arrays = [np.asarray(end, dtype=np.float64) for end in exact]
        people = self.people[sets]
        events = self.events[sets]
        mean = self.mean[sets] if mean is None else np.asarray(mean)
        shown = RatioParts(people, events, mean, self.mean_variance[sets])
        return moved_ratios(as_arrays, self.headcount.people[:, sets], shown)

    def ratio(
        self, i: int, exact: Sequence[float], mean: float | None = None
    ) -> list[float]:
        """The O/E ratio of one set, with its interval."""
        means = None if mean is None else [mean]
        ends = self.ratios([i], [[end] for end in exact], means)
        return [float(end[0]) for end in ends]

    def others_at(self, i: int, claim: Claim) -> dict[str, Any]:
        """The O/E ratio, with its interval, of everybody (the first set) who is not in
        the set of a claim.
        """
        names = [f"others{end}" for end in ENDS]
        exact_people = self.headcount.people
        counts = exact_people[:, [0]] - exact_people[:, [i]]
        sums = np.array([self.people, self.events, self.people * self.mean])
        people, events, expected = sums[:, [0]] - sums[:, [i]]
        if self.rule.small(counts).any() or not expected > 0:
            return dict.fromkeys(names, NAN)
        exact = [np.array([getattr(claim, name)]) for name in names]
        shown = RatioParts(people, events, expected / people, self.mean_variance[[0]])
        ratio = moved_ratios(exact, counts, shown, moves=2)
        return {name: float(end[0]) for name, end in zip(names, ratio)}


class Sets:
    """Sets of people one after the other, and sums of them, from which shown counts are
    made.

    Sets that are `cheap` are withheld before others: thresholds, then cells.
    """

    def __init__(self, headcounts: Sequence[Headcount] = ()) -> None:
        self.headcounts = [*headcounts]
        self.values: list[tuple[int, ScoreValues]] = []
        self.sums: list[tuple[int, Sequence[int]]] = []
        self.cheap: tuple[list[int], list[int]] = ([], [])

    def add(
        self, headcount: Headcount, scores: Sequence[ScoreValues | None] | None = None
    ) -> IntArray:
        """Add sets, with their scores if many people have the same one; returns their
        places.
        """
        first = sum(each.key.size for each in self.headcounts)
        places = np.arange(first, first + headcount.key.size)
        self.headcounts.append(headcount)
        for place, own in enumerate(scores or (), start=first):
            if own is not None:
                self.values.append((place, own))
        return places.reshape(headcount.key.shape)

    def add_sums(self, total: Any, parts: Any) -> None:
        """Add a sum for each total, whose parts are in the same column."""
        self.sums += zip(np.ravel(total).tolist(), np.transpose(parts).tolist())

    def add_ranges(self, counts: Counts, whole: IntArray) -> IntArray:
        """The groups of a score by risk range, and above each edge; returns the places
        of both, in a row.

        Sums are those of each group (whose places are `whole`) over its ranges, of the
        people above each edge, and of groups, whole, within each range and above each
        edge.
        """
        cells = self.add(counts.ranges)
        above = self.add(_above_edges(counts))
        # above the lower edge of each range
        upwards = np.concatenate([whole, above], axis=1)
        self.add_sums(whole, cells.T)
        range_and_above = [cells[:, :-1].ravel(), upwards[:, 1:].ravel()]
        self.add_sums(upwards[:, :-1], range_and_above)
        self.add_sums(upwards[:, -1], [cells[:, -1]])
        for total, parts in sums_of_groups(counts.groups):
            self.add_sums(cells[total], cells[parts])
            self.add_sums(upwards[total], upwards[parts])
        cheapest, cheap = self.cheap
        cheapest.extend(above.ravel().tolist())
        cheap.extend(cells.ravel().tolist())
        return np.concatenate([cells, above], axis=1)

    def shown(self, rule: rules.Rule) -> ShownCounts:
        """Move, compare and withhold."""
        headcount = Headcount.joined(self.headcounts)
        everybody = headcount.people.sum(axis=0)
        count = np.rint(np.array([*headcount.people, everybody]))
        small = rule.small(headcount.different)
        few = count[:PEOPLE] < rule.fewest
        people, events = self._moved_counts(headcount, count, small, rule)

        nobody = count[PEOPLE] <= 0
        withheld = small.all(axis=0) | _few_in_many_visits(count, small & ~few)
        people = np.where(nobody, 0.0, np.where(withheld, np.nan, people))
        events = np.where(nobody, 0.0, np.where(small.any(axis=0), np.nan, events))
        disclosed = Disclosed(people, events, small & ~nobody, few, rule)

        neighbours = withheld_neighbours(disclosed, count, self.sums, self.cheap)
        people[neighbours] = np.nan
        events[neighbours] = np.nan
        return ShownCounts.part_of(disclosed, slice(None), headcount, self.values)

    def _moved_counts(
        self,
        headcount: Headcount,
        count: FloatArray,
        small: BoolArray,
        rule: rules.Rule,
    ) -> tuple[FloatArray, FloatArray]:
        """Moved counts of people and events; one that is shown is never below the
        threshold, and parts are never larger than their totals.
        """
        people = count[PEOPLE] + rules.moved(headcount.key, 0)
        events = count[EVENTS] + rules.moved(headcount.key, 1)
        enough_events = np.maximum(events, rule.fewest)
        events = np.where(small[EVENTS], events, enough_events)
        enough_people = np.maximum(people, events + rule.fewest)
        people = np.where(small.any(axis=0), people, enough_people)
        Net.of(self.sums, len(people)).bound_by_totals(people, events, count)
        return people, events


def _few_in_many_visits(count: FloatArray, small_of_many: BoolArray) -> BoolArray:
    """Sets where most visits are of few people, with the outcome or without it."""
    with_and_without = count[:PEOPLE]
    most = with_and_without > with_and_without[::-1]
    return np.asarray((small_of_many & most).any(axis=0))


def _above_edges(counts: Counts) -> Headcount:
    """The people of each group above each inner edge of the risk ranges, as thresholds
    near it reveal them.
    """
    inner_edges = from_grid(counts.bins.edges[1:-1]) + NEAR
    nearest = np.searchsorted(counts.thresholds, inner_edges, side="right") - 1
    above = counts.ranges.from_top().part(slice(1, None))
    return replace(above, key=counts.flagged.key[:, np.maximum(nearest, 0)])


def shown_table(
    table: pd.DataFrame,
    shown: ShownCounts,
    sets: Iterable[int],
    large: Any = None,
    **others: Any,
) -> pd.DataFrame:
    """A table of sets with everything replaced that counts reveal.

    People, events, rates and O/E ratios follow from shown counts. P-values and measures
    are the exact ones of large sets, as they are printed. What else is to be replaced
    is among the other columns; with `limits`, what can be said of rates and ratios of
    small counts.
    """
    sets = list(sets)
    if large is None:
        large = shown.large[sets]
    limits = others.pop("limits", ())
    columns = _count_columns(shown, sets)
    if "p_value" in table:
        p_values = zip(table["p_value"], large)
        columns["p_value"] = [rules.shown_p(p, many) for p, many in p_values]
    for name in [str(column) for column in table]:
        if name.endswith("_low"):
            measure = name.removesuffix("_low")
            columns |= _measure_columns(table, measure, shown, sets, large)
        elif name.endswith("_error"):
            errors = table[name].where(large)
            columns[name] = [float(f"{error:.2g}") for error in errors]
    columns |= others
    for i, limit in enumerate(limits):
        if limit is not None:
            columns["outcome_rate"][i], columns["observed_expected"][i] = limit

    replaced: dict[Any, Any] = {}
    for column in table:
        values = columns.get(str(column), table[column].array)
        if str(column) in columns and not isinstance(values, np.ndarray):
            values = np.array(values, dtype=object)
        replaced[column] = values
    return pd.DataFrame(replaced)


def _count_columns(shown: ShownCounts, sets: Sequence[int]) -> dict[str, Any]:
    """Columns of counts and rates."""
    shares = shown.people[sets] / shown.people[0]
    return {
        "people": shown.printable[0, sets],
        "positives": shown.printable[1, sets],
        "share": printed(shares, SHARE_DIGITS),
        "outcome_rate": [shown.rate_at(i) for i in sets],
        "mean_score": [printed_rate(shown.mean[i]) for i in sets],
    }


def _measure_columns(
    table: pd.DataFrame, name: str, shown: ShownCounts, sets: Sequence[int], large: Any
) -> dict[str, Any]:
    """Columns of a measure and the ends of its interval; none of one without a value
    or without ends.
    """
    names = [f"{name}{end}" for end in ENDS]
    present = [column for column in names if column in table]
    exact = [table[column].to_numpy(dtype=np.float64) for column in present]
    ends: Any
    if name == "observed_expected":
        ends = shown.ratios(sets, exact)
    elif len(exact) == len(ENDS):
        digits = CURVE_DIGITS
        if name in MEASURE_NAMES:
            digits = MEASURE_NAMES[name].digits
        if name == "intercept" and "observed_expected" in table:
            change = _moved_intercept(table, shown, sets)
            exact = [end + change for end in exact]
        values, *limits = exact
        intervals = [beside_one(low, high, digits) for low, high in zip(*limits)]
        lows, highs = np.reshape(intervals, (-1, 2)).T
        ends = np.array([values, lows, highs])
        ends = np.where(large, ends.round(digits), np.nan)
    else:
        return {}
    return {column: values.tolist() for column, values in zip(names, ends)}


def _moved_intercept(
    table: pd.DataFrame, shown: ShownCounts, sets: Sequence[int]
) -> FloatArray:
    """By how much intercepts change with the counts: an exact one would reveal how
    these were moved.

    The events that were added, over the information (1 / variance); the intercept of
    everybody stays.
    """

    def column(name: str) -> FloatArray:
        values: FloatArray = table[name].to_numpy(dtype=np.float64)
        return values

    exact = [column(f"observed_expected{end}") for end in ENDS]
    moved_ratio, *_ = shown.ratios(sets, exact)
    reach = (column("intercept_high") - column("intercept_low")) / 2
    with np.errstate(divide="ignore", invalid="ignore"):
        added = column("positives") * (moved_ratio / exact[0] - 1)
    change = added * (reach / NORMAL_REACH) ** 2
    is_moved = np.isfinite(change) & (np.array(sets) > 0)
    return np.asarray(np.where(is_moved, change, 0.0))


def printed(
    values: Iterable[float], digits: int, shown: Iterable[Any] = repeat(True)
) -> list[float]:
    """Numbers rounded as they are printed; NaN where they are not shown."""
    rounded = []
    for value, is_shown in zip(values, shown):
        rounded.append(round(float(value), digits) if is_shown else NAN)
    return rounded

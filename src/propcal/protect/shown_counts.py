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
            several_scores = len(scores.score) > 1
            reveals_counts = several_scores and rules.reveals_counts(scores)
            if reveals_counts and np.isfinite(people[i]):
                mean[i], variance[i] = disclosed.rule.mean_of_few(scores, people[i])
        small = disclosed.small[:, sets]
        few = disclosed.few[:, sets]
        rule = disclosed.rule
        return cls(people, events, small, few, rule, mean, variance, headcount)

    @property
    def large(self) -> BoolArray:
        """Whose statistics are those of many people, and shown as they are."""
        exact_people = self.headcount.people.sum(axis=0)
        many = exact_people >= rules.FEWEST_MEASURED
        any_small = self.small.any(axis=0)
        return np.asarray(many & ~any_small)

    @property
    def known(self) -> BoolArray:
        """Where rates and ratios can be computed."""
        counts_known = np.isfinite(self.people + self.events)
        return counts_known & (self.people > 0)

    def rate_at(self, i: int) -> float:
        """The observed rate; NaN if a count is not shown."""
        if self.people[i] > 0:
            rate = self.events[i] / self.people[i]
            return float(rate)
        return NAN

    def people_at(self, i: int) -> Any:
        """People of a set, or what can be said."""
        small = self.small[:, i]
        few = self.few[:, i]
        if small.all() and few.all():
            most = 2 * self.rule.fewest - 1
            return Limit(most, "below")
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
            at_least = max(least, 0.0)
            return Limit(at_least, "above")
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
        small_share = (fewest - 0.5) / people
        if few_events:
            rate = Limit(small_share, "below")
        else:
            rate = Limit(1 - small_share, "above")
        if finding not in WRONG:
            return rate, NAN

        expected = mean * people
        if finding == TOO_HIGH:
            sure = not few_events or expected >= fewest - 1
            half = exact_ratio < 0.5 and sure
            ratio = Limit(0.5 if half else 1.0, "below")
            supports = few_events and rate < mean
        else:
            twice_expected = 2 * expected
            sure = not few_events or twice_expected <= fewest - 6
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
        exact_people = self.headcount.people[:, sets]
        return moved_ratios(as_arrays, exact_people, shown)

    def ratio(
        self, i: int, exact: Sequence[float], mean: float | None = None
    ) -> list[float]:
        """The O/E ratio of one set, with its interval."""
        means = None if mean is None else [mean]
        exact_ends = [[end] for end in exact]
        ends = self.ratios([i], exact_ends, means)
        return [float(end[0]) for end in ends]

    def others_at(self, i: int, claim: Claim) -> dict[str, Any]:
        """The O/E ratio, with its interval, of everybody (the first set) who is not in
        the set of a claim.
        """
        names = [f"others{end}" for end in ENDS]
        exact_people = self.headcount.people
        counts = exact_people[:, [0]] - exact_people[:, [i]]
        expected_of_sets = self.people * self.mean
        sums = np.array([self.people, self.events, expected_of_sets])
        differences = sums[:, [0]] - sums[:, [i]]
        people, events, expected = differences
        if self.rule.small(counts).any() or not expected > 0:
            return dict.fromkeys(names, NAN)
        exact = []
        for name in names:
            exact.append(np.array([getattr(claim, name)]))
        mean = expected / people
        shown = RatioParts(people, events, mean, self.mean_variance[[0]])
        ratio = moved_ratios(exact, counts, shown, moves=2)
        shown_ends = [float(end[0]) for end in ratio]
        return dict(zip(names, shown_ends))


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
        end = first + headcount.key.size
        places = np.arange(first, end)
        self.headcounts.append(headcount)
        for place, own in enumerate(scores or (), start=first):
            if own is not None:
                self.values.append((place, own))
        return places.reshape(headcount.key.shape)

    def add_sums(self, total: Any, parts: Any) -> None:
        """Add a sum for each total, whose parts are in the same column."""
        totals = np.ravel(total)
        columns = np.transpose(parts)
        self.sums += zip(totals.tolist(), columns.tolist())

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
        in_range = cells[:, :-1].ravel()
        above_upper_edge = upwards[:, 1:].ravel()
        range_and_above = [in_range, above_upper_edge]
        self.add_sums(upwards[:, :-1], range_and_above)
        highest_ranges = cells[:, -1]
        self.add_sums(upwards[:, -1], [highest_ranges])
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
        exact_counts = np.array([*headcount.people, everybody])
        count = np.rint(exact_counts)
        small = rule.small(headcount.different)
        few = count[:PEOPLE] < rule.fewest
        people, events = self._moved_counts(headcount, count, small, rule)

        nobody = count[PEOPLE] <= 0
        few_in_many_visits = _few_in_many_visits(count, small & ~few)
        withheld = small.all(axis=0) | few_in_many_visits
        events_withheld = small.any(axis=0)
        people[withheld] = np.nan
        events[events_withheld] = np.nan
        people[nobody] = 0.0
        events[nobody] = 0.0
        disclosed = Disclosed(people, events, small & ~nobody, few, rule)

        neighbours = withheld_neighbours(disclosed, count, self.sums, self.cheap)
        people[neighbours] = np.nan
        events[neighbours] = np.nan
        all_sets = slice(None)
        return ShownCounts.part_of(disclosed, all_sets, headcount, self.values)

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
        moves_of_people = rules.moved(headcount.key, 0)
        people = count[PEOPLE] + moves_of_people
        moves_of_events = rules.moved(headcount.key, 1)
        events = count[EVENTS] + moves_of_events
        enough_events = np.maximum(events, rule.fewest)
        events = np.where(small[EVENTS], events, enough_events)
        at_least = events + rule.fewest
        enough_people = np.maximum(people, at_least)
        any_small = small.any(axis=0)
        people = np.where(any_small, people, enough_people)
        net = Net.of(self.sums, len(people))
        net.bound_by_totals(people, events, count)
        return people, events


def _few_in_many_visits(count: FloatArray, small_of_many: BoolArray) -> BoolArray:
    """Sets where most visits are of few people, with the outcome or without it."""
    with_and_without = count[:PEOPLE]
    most = with_and_without > with_and_without[::-1]
    few_people = small_of_many & most
    return np.asarray(few_people.any(axis=0))


def _above_edges(counts: Counts) -> Headcount:
    """The people of each group above each inner edge of the risk ranges, as thresholds
    near it reveal them.
    """
    edges = counts.bins.edges[1:-1]
    inner_edges = from_grid(edges) + NEAR
    n_below = np.searchsorted(counts.thresholds, inner_edges, side="right")
    nearest = n_below - 1
    above = counts.ranges.from_top().part(slice(1, None))
    reached = np.maximum(nearest, 0)
    key = counts.flagged.key[:, reached]
    return replace(above, key=key)


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
            columns[name] = []
            for error in errors:
                columns[name].append(float(f"{error:.2g}"))
    columns |= others
    for i, limit in enumerate(limits):
        if limit is not None:
            columns["outcome_rate"][i], columns["observed_expected"][i] = limit

    replaced: dict[Any, Any] = {}
    for column in table:
        name = str(column)
        values = columns.get(name, table[column].array)
        if name in columns and not isinstance(values, np.ndarray):
            values = np.array(values, dtype=object)
        replaced[column] = values
    return pd.DataFrame(replaced)


def _count_columns(shown: ShownCounts, sets: Sequence[int]) -> dict[str, Any]:
    """Columns of counts and rates."""
    shares = shown.people[sets] / shown.people[0]
    outcome_rates = [shown.rate_at(i) for i in sets]
    mean_scores = [printed_rate(shown.mean[i]) for i in sets]
    return {
        "people": shown.printable[0, sets],
        "positives": shown.printable[1, sets],
        "share": printed(shares, SHARE_DIGITS),
        "outcome_rate": outcome_rates,
        "mean_score": mean_scores,
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
        rounded = ends.round(digits)
        ends = np.where(large, rounded, np.nan)
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
    width = column("intercept_high") - column("intercept_low")
    reach = width / 2
    with np.errstate(divide="ignore", invalid="ignore"):
        relative_change = moved_ratio / exact[0] - 1
        added = column("positives") * relative_change
    variance = (reach / NORMAL_REACH) ** 2
    change = added * variance
    not_everybody = np.array(sets) > 0
    is_moved = np.isfinite(change) & not_everybody
    return np.asarray(np.where(is_moved, change, 0.0))


def printed(
    values: Iterable[float], digits: int, shown: Iterable[Any] = repeat(True)
) -> list[float]:
    """Numbers rounded as they are printed; NaN where they are not shown."""
    rounded = []
    for value, is_shown in zip(values, shown):
        rounded.append(round(float(value), digits) if is_shown else NAN)
    return rounded

"""ShownCounts: the counts of a page as they are shown, and the rates and ratios that
follow from them.
"""

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
    RATIO_DIGITS,
    About,
    Limit,
    beside_one,
    excludes_one,
    printed_rate,
)
from propcal.protect import disclosure_rule as rules

CURVE_DIGITS = 4
SHARE_DIGITS = 3
NEAR = 1e-9  # edges and thresholds that are the same number
APART = 0.0051  # from 1, where an interval that excludes it ends

Ratio = tuple[
    FloatArray, FloatArray, FloatArray
]  # O/E ratios and the ends of their intervals
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


@dataclass(frozen=True, eq=False)
class ShownCounts(rules.Disclosed):
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
        cls, disclosed: rules.Disclosed, sets: Any, headcount: Headcount, values: Values
    ) -> ShownCounts:
        """Some of the sets, whose scores may be others."""
        people = disclosed.people[sets]
        events = disclosed.events[sets]
        mean = np.where(np.isnan(people), np.nan, headcount.score)
        variance = np.zeros(len(people))
        for i, own in values:
            if (
                len(own.score) > 1
                and rules.tells_counts(own)
                and np.isfinite(people[i])
            ):
                mean[i], variance[i] = disclosed.rule.mean_of_few(own, people[i])
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
        people = self.people[i]
        events = self.events[i]
        return float(events / people) if people > 0 else float("nan")

    def people_at(self, i: int) -> Any:
        """People of a set, or what can be said."""
        if self.small[:, i].all() and self.few[:, i].all():
            return Limit(2 * self.rule.fewest - 1, "below")
        if np.isnan(self.people[i]):
            return float("nan")
        return About(self.people[i])

    def events_at(self, i: int) -> Any:
        """People with the outcome, or what can be said."""
        if self.small[0, i]:
            if self.few[0, i]:
                return Limit(self.rule.fewest, "below")
            return float("nan")
        if self.small[1, i] and self.few[1, i] and np.isfinite(self.people[i]):
            return Limit(
                max(self.people[i] - rules.MOVED - self.rule.fewest, 0.0), "above"
            )
        if np.isnan(self.events[i]):
            return float("nan")
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
        few_events = bool(self.small[0, i])  # or else, few without the outcome
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
        return np.array(
            [[at(i) for i in sets] for at in (self.people_at, self.events_at)],
            dtype=object,
        )

    def numbers_at(self, i: int) -> dict[str, Any]:
        """Counts and rates of a set, as a claim has them."""
        rates = {"observed": self.rate_at(i), "predicted": printed_rate(self.mean[i])}
        return {"people": self.people_at(i), "events": self.events_at(i), **rates}

    def ratios(self, sets: Any, exact: Sequence[Any], mean: Any = None) -> Ratio:
        """O/E ratios of some sets with their intervals; `mean` is that of another score
        of theirs.
        """
        exact = [np.asarray(end, dtype=np.float64) for end in exact]
        mean = self.mean[sets] if mean is None else np.asarray(mean)
        shown = (self.people[sets], self.events[sets], mean, self.mean_variance[sets])
        return moved_ratios(exact, self.headcount.people[:, sets], shown)

    def ratio(
        self, i: int, exact: Sequence[float], mean: float | None = None
    ) -> list[float]:
        """The O/E ratio of one set, with its interval."""
        found = self.ratios([i], [[x] for x in exact], None if mean is None else [mean])
        return [float(x[0]) for x in found]

    def others_at(self, i: int, claim: Claim) -> dict[str, Any]:
        """The O/E ratio, with its interval, of everybody (the first set) who is not in
        the set of a claim.
        """
        exact = {f"others{end}": getattr(claim, f"others{end}") for end in ENDS}
        counts = (self.headcount.people[:, 0] - self.headcount.people[:, i])[:, None]
        sums = (self.people, self.events, self.people * self.mean)
        people, events, expected = (of[[0]] - of[[i]] for of in sums)
        if self.rule.small(counts).any() or not expected > 0:
            return dict.fromkeys(exact, NAN)
        shown = (people, events, expected / people, self.mean_variance[[0]])
        ratio = moved_ratios(
            [np.array([x]) for x in exact.values()], counts, shown, moves=2
        )
        return {name: float(x[0]) for name, x in zip(exact, ratio)}


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
        self.headcounts.append(headcount)
        self.values += [
            (first + i, own) for i, own in enumerate(scores or ()) if own is not None
        ]
        return np.arange(first, first + headcount.key.size).reshape(headcount.key.shape)

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
        upwards = np.concatenate(
            [whole, above], axis=1
        )  # above the lower edge of each range
        self.add_sums(whole, cells.T)
        self.add_sums(upwards[:, :-1], [cells[:, :-1].ravel(), upwards[:, 1:].ravel()])
        self.add_sums(upwards[:, -1], [cells[:, -1]])
        for total, parts in sums_of_groups(counts.groups):
            for kind in (cells, upwards):
                self.add_sums(kind[total], kind[parts])
        for own, places in zip(self.cheap, (above, cells)):
            own.extend(places.ravel().tolist())
        return np.concatenate([cells, above], axis=1)

    def shown(self, rule: rules.Rule) -> ShownCounts:
        """Move, compare and withhold."""
        headcount = Headcount.joined(self.headcounts)
        count = np.rint(np.array([*headcount.people, headcount.people.sum(axis=0)]))
        small = rule.small(headcount.different)
        few = count[:2] < rule.fewest
        people = count[rules.PEOPLE] + rules.moved(headcount.key, 0)
        events = count[rules.EVENTS] + rules.moved(headcount.key, 1)
        # a count that is shown is never below the threshold
        events = np.where(small[rules.EVENTS], events, np.maximum(events, rule.fewest))
        people = np.where(
            small.any(axis=0), people, np.maximum(people, events + rule.fewest)
        )
        rules.Net.of(self.sums, len(people)).bound_by_totals(people, events, count)
        mostly = (small & ~few & (count[:2] > count[1::-1])).any(
            axis=0
        )  # many visits of few people
        hidden = small.all(axis=0) | mostly
        nobody = count[rules.PEOPLE] <= 0
        people = np.where(nobody, 0.0, np.where(hidden, np.nan, people))
        events = np.where(nobody, 0.0, np.where(small.any(axis=0), np.nan, events))
        disclosed = rules.Disclosed(people, events, small & ~nobody, few, rule)
        withheld = rules.withheld_neighbours(disclosed, count, self.sums, self.cheap)
        people[withheld] = events[withheld] = np.nan
        return ShownCounts.part_of(disclosed, slice(None), headcount, self.values)


def _above_edges(counts: Counts) -> Headcount:
    """The people of each group above each inner edge of the risk ranges, as thresholds
    near it tell them.
    """
    near = (
        np.searchsorted(
            counts.thresholds, from_grid(counts.bins.edges[1:-1]) + NEAR, side="right"
        )
        - 1
    )
    above = counts.ranges.from_top().part(slice(1, None))
    return replace(above, key=counts.flagged.key[:, np.maximum(near, 0)])


def shown_table(
    table: pd.DataFrame,
    shown: ShownCounts,
    sets: Iterable[int],
    large: Any = None,
    **others: Any,
) -> pd.DataFrame:
    """A table of sets with everything replaced that counts give away.

    People, events, rates and O/E ratios follow from shown counts. P-values and measures
    are the exact ones of large sets, as they are printed. What else is to be replaced
    is among the other columns; with `limits`, what can be said of rates and ratios of
    small counts.
    """
    sets = list(sets)
    large = shown.large[sets] if large is None else large
    columns: dict[str, Any] = {
        "people": shown.printable[0, sets],
        "positives": shown.printable[1, sets],
        "share": printed(shown.people[sets] / shown.people[0], SHARE_DIGITS),
        "outcome_rate": [shown.rate_at(i) for i in sets],
        "mean_score": [printed_rate(shown.mean[i]) for i in sets],
    }
    if "p_value" in table:
        columns["p_value"] = [
            rules.shown_p(p, many) for p, many in zip(table["p_value"], large)
        ]
    for name in (
        str(name).removesuffix("_low") for name in table if str(name).endswith("_low")
    ):
        exact = [
            table[f"{name}{end}"].to_numpy(dtype=np.float64)
            for end in ENDS
            if f"{name}{end}" in table
        ]
        ends: Any
        if name == "observed_expected":
            ends = shown.ratios(sets, exact)
        elif len(exact) == len(ENDS):
            if name in MEASURE_NAMES:
                digits = MEASURE_NAMES[name].digits
            else:
                digits = CURVE_DIGITS
            if name == "intercept" and "observed_expected" in table:
                exact = [x + _moved_intercept(table, shown, sets) for x in exact]
            ends = np.array(
                [(x, *beside_one(low, high, digits)) for x, low, high in zip(*exact)]
            ).T
            ends = np.where(large, ends.round(digits), np.nan)
        else:
            continue
        columns |= {f"{name}{end}": values.tolist() for end, values in zip(ENDS, ends)}
    for name in (str(name) for name in table if str(name).endswith("_error")):
        columns[name] = [float(f"{x:.2g}") for x in table[name].where(large)]
    columns |= others
    for i, limits in enumerate(columns.pop("limits", ())):
        if limits is not None:
            columns["outcome_rate"][i], columns["observed_expected"][i] = limits
    columns = {
        name: values
        if isinstance(values, np.ndarray)
        else np.array(values, dtype=object)
        for name, values in columns.items()
    }
    return pd.DataFrame(
        {name: columns.get(str(name), column.array) for name, column in table.items()}
    )


def _moved_intercept(
    table: pd.DataFrame, shown: ShownCounts, sets: Sequence[int]
) -> FloatArray:
    """By how much intercepts change with the counts: an exact one would tell how these
    were moved.

    The events that were added, over the information (1 / variance); the intercept of
    everybody stays.
    """
    ratio, events = (
        table[name].to_numpy(dtype=np.float64)
        for name in ("observed_expected", "positives")
    )
    low, high = (
        table[f"intercept_{end}"].to_numpy(dtype=np.float64) for end in ("low", "high")
    )
    ends = [table[f"observed_expected{end}"].to_numpy(dtype=np.float64) for end in ENDS]
    moved_ratio = shown.ratios(sets, ends)[0]
    with np.errstate(divide="ignore", invalid="ignore"):
        added = events * (moved_ratio / ratio - 1)
    change = added * ((high - low) / (2 * NORMAL_REACH)) ** 2
    return np.where(np.isfinite(change) & (np.array(sets) > 0), change, 0.0)


def printed(
    values: Iterable[float], digits: int, shown: Iterable[Any] = repeat(True)
) -> list[float]:
    """Numbers rounded as they are printed; NaN where they are not shown."""
    return [
        round(float(value), digits) if some else float("nan")
        for value, some in zip(values, shown)
    ]


def moved_ratios(
    exact: Sequence[FloatArray],
    counts: FloatArray,
    shown: Sequence[FloatArray],
    moves: int = 1,
) -> Ratio:
    """O/E ratios with 95 % intervals from shown counts, as they are printed; NaN where
    these are.

    This is where every protected O/E ratio comes from. `exact` is the ratio with its
    interval, `counts` are the people with the outcome and without it, `shown` are
    people, events, mean score and the variance of the mean. How much wider or narrower
    the interval is, on either side, than that of independent people with equal scores
    is kept, to one digit; moved counts make it wider. It excludes 1 if the exact one
    does.
    """
    (ratio, *ends), (people, events, mean, mean_variance) = exact, shown
    with np.errstate(invalid="ignore", divide="ignore"):
        binomial = counts[1] / counts.sum(axis=0) / counts[0]
        value = np.where(np.isfinite(ratio), events / (people * mean), np.nan)
        added = mean_variance / mean**2 + moves * rules.VARIANCE * (
            events**-2.0 + people**-2.0
        )
        around = []
        for sign, end in zip((-1, 1), ends):
            effect = np.maximum(
                np.round((np.log(end / ratio) / NORMAL_REACH) ** 2 / binomial, 1), 0.1
            )
            variance = effect * (1 - events / people) / events + added
            around.append(value * np.exp(sign * NORMAL_REACH * np.sqrt(variance)))
        return _agreeing((value, around[0], around[1]), *ends)


def _agreeing(ratio: Ratio, exact_low: FloatArray, exact_high: FloatArray) -> Ratio:
    """Rounded numbers that say of 1 what the exact interval says."""
    value, low, high = ratio
    excluded = np.array(
        [excludes_one(*ends) for ends in zip(exact_low, exact_high)], dtype=np.bool_
    )
    above = excluded & (exact_low > 1)
    below = excluded & (exact_high < 1)
    unlike = (above & (value <= 1)) | (below & (value >= 1))  # too near to 1 to tell
    low = np.where(
        above, np.maximum(low, 1 + APART), np.where(excluded, low, np.minimum(low, 1.0))
    )
    high = np.where(
        below,
        np.minimum(high, 1 - APART),
        np.where(excluded, high, np.maximum(high, 1.0)),
    )
    value = np.where(above, np.maximum(value, 1 + APART), value)
    value = np.where(below, np.minimum(value, 1 - APART), value)
    low, high = (
        np.where(unlike, np.nan, end).round(RATIO_DIGITS) for end in (low, high)
    )
    return value.round(RATIO_DIGITS), low, high

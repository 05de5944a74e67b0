"""Binned features: columns as small codes, with levels or round cut points, and the
conditions on them.

A feature's codes are its values in order, then one code for levels too rare to be named
(levels only), then one code for missing values. Everything after this module works on
codes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from propcal.core.conditions import ColumnTest, Combined, Not
from propcal.core.conditions import Condition as Clause
from propcal.core.grid import FloatArray, IntArray
from propcal.reading.frames import floats, is_record
from propcal.reading.levels import distinct, is_limit, level_key, numbers_beside_limits
from propcal.reading.source import LazyColumns, chosen

MOST_CUTS = 240  # so that all codes fit into a byte
COARSE = 10  # ranges of a number in the first, coarse pass of the search
MOST_LEVELS = 24  # levels that can be conditions; rarer ones are pooled
RAREST = 0.005  # smallest share of people with a level that can be a condition
FEW_NUMBERS = 2  # up to so many different numbers are levels: 0 and 1
FEWEST_ROWS = 200  # with fewer rows, identifiers cannot be told from measurements
LARGE_NUMBER = (
    100_000  # identifiers that are not consecutive have at least so many digits
)
OWN_SEED = 20_260_418
DIGITS = 12  # of a round cut point, at most
SAMPLE = 100_000  # rows from which cut points and levels are chosen
MOST_VALUES = 20_000_000  # of columns that are read at once

Codes = np.ndarray[Any, np.dtype[np.uint8]]


class Condition(NamedTuple):
    """A condition on one feature: its code is in low:high, or, negated, recorded but
    not in low:high.
    """

    feature: int
    low: int
    high: int
    negated: bool = False


Box = tuple[Condition, ...]  # people for whom all of these hold


@dataclass(frozen=True, eq=False)
class Feature:
    """One column: `levels`, or `cuts` between ranges of numbers; how values become
    codes.

    Attributes
    ----------
    name : str
    levels : tuple of str
        Levels that can be conditions, the most frequent first; empty for numbers.
    cuts : array
        Increasing cut points of numbers; code k means that k cut points are at or below
        the value.
    pooled : bool
        Whether rarer levels share one code.
    coarse : array
        Codes at which the coarse ranges of numbers begin, from 0 on.
    whole : bool
        Whether the numbers are whole, so that a range can be named by its last one.
    """

    name: str
    levels: tuple[str, ...] = ()
    cuts: FloatArray = field(default_factory=lambda: np.empty(0))
    pooled: bool = False
    coarse: tuple[int, ...] = (0,)
    whole: bool = False

    @property
    def is_number(self) -> bool:
        """Whether its conditions are ranges."""
        return not self.levels

    @property
    def recorded(self) -> int:
        """How many codes stand for recorded values; the code of missing values."""
        if self.is_number:
            return len(self.cuts) + 1
        return len(self.levels) + self.pooled

    def codes(self, column: Any) -> Codes:
        """The code of each row."""
        if self.is_number:
            values = floats(column, f"feature {self.name!r}")
            codes = np.searchsorted(self.cuts, values, side="right").astype(np.uint8)
            codes[np.isnan(values)] = self.recorded
            return codes
        code_of: dict[str | None, int] = {
            level: code for code, level in enumerate(self.levels)
        }
        code_of[None] = self.recorded
        levels, place = distinct(column)
        lookup = [code_of.get(level_key(level), len(self.levels)) for level in levels]
        return np.asarray(np.array([*lookup, self.recorded], dtype=np.uint8)[place])

    @property
    def ranges(self) -> Sequence[int]:
        """Codes at which the ranges of the coarse pass begin; every level is one."""
        return self.coarse if self.is_number else range(self.recorded)

    def coarse_codes(self) -> Codes:
        """For each code, its coarse code; missing is last."""
        places = (
            np.searchsorted(self.ranges, np.arange(self.recorded), side="right") - 1
        )
        return np.append(places, len(self.ranges)).astype(np.uint8)

    def fine(self, condition: Condition) -> Condition:
        """A condition on coarse codes as one on codes."""
        starts = [*self.ranges, self.recorded, self.recorded + 1]
        return condition._replace(
            low=starts[condition.low], high=starts[condition.high]
        )

    def is_range(self, condition: Condition) -> bool:
        """Whether a condition has ends that can be moved."""
        return self.is_number and condition.low < self.recorded

    def n_ends(self, condition: Condition) -> int:
        """How many ends of a range are cut points; 0 for levels."""
        if self.is_number:
            return (condition.low > 0) + (condition.high < self.recorded)
        return 0

    def coarse_conditions(self, place: int, *, has_missing: bool) -> list[Condition]:
        """The conditions of the coarse pass: ranges or levels, their negations, and
        missing.
        """
        n = len(self.ranges)
        if self.is_number:
            ends = [*combinations(range(n + 1), 2)]
            conditions = [
                Condition(place, *two) for two in ends if two != (0, n) or has_missing
            ]
        else:
            either = (False, True) if n > FEW_NUMBERS else (False,)
            conditions = [
                Condition(place, k, k + 1, no)
                for no in either
                for k in range(len(self.levels))
            ]
        if has_missing:
            return [*conditions, Condition(place, n, n + 1)]
        return conditions


@dataclass(frozen=True, eq=False)
class FeatureTable:
    """The features that can be searched, the codes of every row, and why other columns
    are left out.
    """

    features: tuple[Feature, ...]
    codes: Codes
    left_out: Mapping[str, str]

    def without(self, reasons: Mapping[str, str]) -> FeatureTable:
        """Leave out some features."""
        keep = [
            k for k, feature in enumerate(self.features) if feature.name not in reasons
        ]
        features = tuple(self.features[k] for k in keep)
        return FeatureTable(features, self.codes[keep], {**self.left_out, **reasons})

    def part(self, rows: IntArray) -> FeatureTable:
        """Only some of the rows."""
        return replace(self, codes=np.ascontiguousarray(self.codes[:, rows]))


def bin_features(
    source: LazyColumns, names: Sequence[str] | None = None
) -> FeatureTable:
    """Turn columns into codes; levels and cut points are chosen from a sample of the
    rows.

    Of very many rows, only a few columns are in memory at a time.
    """
    n = source.n
    names = source.names if names is None else names
    rows = None
    if n > SAMPLE:
        rows = np.sort(np.random.default_rng(OWN_SEED).choice(n, SAMPLE, replace=False))
    features: list[Feature] = []
    left_out: dict[str, str] = {}
    codes = np.empty((len(names), n), dtype=np.uint8)
    at_once = max(MOST_VALUES // max(n, 1), 1)
    for first in range(0, len(names), at_once):
        for name, column in source.columns(names[first : first + at_once]).items():
            learned = _feature(name, column if rows is None else chosen(column, rows))
            if isinstance(learned, str):
                left_out[name] = learned
                continue
            wide = replace(learned, pooled=not learned.is_number)
            own = codes[len(features)]
            own[:] = wide.codes(column)
            if not (
                learned.is_number
                or learned.pooled
                or np.any(own == len(learned.levels))
            ):
                own[own == wide.recorded] = (
                    learned.recorded
                )  # no row has a level that the sample lacks
                wide = learned
            features.append(wide)
    return FeatureTable(tuple(features), codes[: len(features)], left_out)


def _feature(name: str, column: Any) -> Feature | str:
    """A feature, or the reason why a column cannot be one."""
    if "`" in name:
        return (
            "its name has a backquote, which a condition cannot have; rename the column"
        )
    if not isinstance(column, np.ndarray):
        if pa.types.is_dictionary(column.type):
            kind = column.type.value_type
        else:
            kind = column.type
        if pa.types.is_temporal(kind):
            return "it holds dates or times; make a column of periods of it, such as the year or the weekday"
        if is_record(kind):
            return "it holds lists or records"
        if (
            pa.types.is_floating(kind)
            or pa.types.is_integer(kind)
            or pa.types.is_decimal(kind)
        ):
            return _number(name, column)
    return _levels(name, column)


def _levels(name: str, column: Any) -> Feature | str:
    values, codes = distinct(column)
    people: dict[str, int] = {}
    for value, count in zip(
        values, np.bincount(codes + 1, minlength=len(values) + 1)[1:]
    ):
        key = level_key(value)
        if key is not None and count:
            people[key] = people.get(key, 0) + int(count)
    n = len(codes)
    missing = len(codes) - sum(people.values())
    if len(people) + (missing > 0) < 2:
        return _constant(missing, n)
    if numbers_beside_limits(people):
        return 'it holds numbers, and limits such as "> 89" (top-coded ages); recode them, for example to 90'
    order = sorted(people, key=lambda key: (-people[key], key))
    kept = tuple(key for key in order[:MOST_LEVELS] if people[key] >= RAREST * n)
    if len(people) > n / 2 and n >= FEWEST_ROWS:
        return "most of its values are different, so that it looks like an identifier"
    if not kept:
        return f"none of its values is that of {RAREST:.1%} of people, so that it looks like an identifier"
    return Feature(name, kept, pooled=len(kept) < len(people))


def _number(name: str, column: Any) -> Feature | str:
    values = floats(column, f"feature {name!r}")
    known = values[np.isfinite(values)]
    n = len(values)
    found, people = np.unique(known, return_counts=True)
    missing = int(np.count_nonzero(np.isnan(values)))
    if len(found) + (missing > 0) < 2:
        return _constant(missing, n)
    if _identifies(found, n):
        return "nearly all of its values are different whole numbers, so that it looks like an identifier"
    if len(found) <= FEW_NUMBERS:
        order = found[np.argsort(-people, kind="stable")]
        return Feature(name, tuple(str(level_key(value)) for value in order))
    cuts = _cut_points(found, known)
    places = np.searchsorted(np.sort(known), cuts, side="left") / len(known)
    coarse = sorted(
        {0, *(1 + int(np.abs(places - k / COARSE).argmin()) for k in range(1, COARSE))}
    )
    whole = bool(np.all(found == np.floor(found)) and np.all(cuts == np.floor(cuts)))
    return Feature(name, cuts=cuts, coarse=tuple(coarse), whole=whole)


def _constant(missing: int, n: int) -> str:
    if missing == n:
        return "every value is missing"
    return "it has the same value in every row"


def _identifies(found: FloatArray, n: int) -> bool:
    """Whether whole numbers look like identifiers: nearly all different, and
    consecutive or large.
    """
    if n < FEWEST_ROWS or len(found) < 0.95 * n or not np.all(found == np.floor(found)):
        return False
    consecutive = found[-1] - found[0] < 1.5 * len(found)
    return bool(consecutive or np.abs(found).min() >= LARGE_NUMBER)


def _cut_points(found: FloatArray, known: FloatArray) -> FloatArray:
    """Cut points between all different numbers if these are few, else round ones near
    quantiles.
    """
    if len(found) <= MOST_CUTS:
        return np.array([roundest(a, b) for a, b in pairwise(found)])
    n = min(MOST_CUTS, max(len(known) // 20, COARSE))
    edges = np.unique(
        np.quantile(known, (np.arange(n + 1) + 0.5) / (n + 1), method="lower")
    )
    return np.unique([roundest(a, b) for a, b in pairwise(edges)])


def roundest(low: float, high: float) -> float:
    """The number above `low`, up to `high`, with the fewest digits.

    >>> roundest(73.2, 76.1), roundest(0.0123, 0.0141), roundest(59, 60), roundest(-0.3, 0.2)
    (75.0, 0.014, 60.0, 0.0)
    >>> roundest(1e9 + 1e-7, 1e9 + 2e-7)
    1000000000.0000002
    """
    if low < 0 <= high:
        return 0.0
    finest = math.floor(math.log10(max(abs(low), abs(high)))) - DIGITS
    for power in range(math.ceil(math.log10(high - low)), max(finest, -300), -1):
        for step in (5, 2, 1):
            unit = step * 10.0**power
            last = math.floor(high / unit)
            rounded = float(f"{last * unit:.{DIGITS}g}")
            if low < rounded <= high:
                return rounded
    return float(high)


def digits(value: float) -> int:
    """How many digits a number needs, halved steps counting for half: the fewer, the
    rounder.

    >>> [digits(x) for x in (0, 60, 65, 63, 0.5, 62.5)]
    [0, 2, 3, 4, 1, 5]
    """
    if value == 0:
        return 0
    text = f"{abs(value):.12g}".replace(".", "").strip("0")
    return 2 * len(text) - (text[-1] == "5")


def condition_label(
    feature: Feature, condition: Condition, labels: Mapping[str, str]
) -> str:
    """A condition in words.

    >>> age = Feature("age", cuts=np.array([40.0, 60.0, 75.0]))
    >>> [condition_label(age, Condition(0, *ends), {}) for ends in ((2, 4), (0, 1), (1, 3), (4, 5), (0, 4))]
    ['age 60 or over', 'age under 40', 'age 40 to under 75', 'age not recorded', 'age recorded']
    >>> pain = Feature("pain", cuts=np.array([3.0, 4.0, 7.0]), whole=True)
    >>> [condition_label(pain, Condition(0, *ends), {}) for ends in ((1, 2), (1, 3), (0, 1))]
    ['pain 3', 'pain 3 to 6', 'pain under 3']
    """
    name = feature.name
    low = condition.low
    high = condition.high
    last = feature.recorded
    if low == last:
        return labels.get("", f"{name} not recorded")
    if not feature.is_number:
        level = feature.levels[low]
        if level in labels:
            if condition.negated:
                return f"not {labels[level]}"
            return labels[level]
        if level in ("true", "false") and not condition.negated:
            return name if level == "true" else f"not {name}"
        other = "other than " if is_limit(level) else "not "
        return f"{name} {other if condition.negated else ''}{level}"
    if low == 0 and high == last:
        return f"{name} recorded"
    ends = [cut_text(feature.cuts[k - 1]) if 0 < k < last else "" for k in (low, high)]
    if not ends[1]:
        return f"{name} {ends[0]} or over"
    if feature.whole and ends[0]:
        final = cut_text(feature.cuts[high - 1] - 1)
        if final == ends[0]:
            return f"{name} {ends[0]}"
        return f"{name} {ends[0]} to {final}"
    if ends[0]:
        return f"{name} {ends[0]} to under {ends[1]}"
    return f"{name} under {ends[1]}"


def cut_text(value: float) -> str:
    """A cut point in words and conditions.

    >>> cut_text(75.0), cut_text(0.1), cut_text(1000000000.0000019)
    ('75', '0.1', '1000000000.0000019')
    """
    text = f"{value:.{DIGITS}g}"
    return text if float(text) == value else repr(float(value))


def clause(features: Sequence[Feature], box: Box) -> Clause:
    """A box as a condition on columns.

    >>> age = Feature("age", cuts=np.array([40.0, 60.0]))
    >>> print(clause([age, Feature("sex", ("F", "M"))], (Condition(0, 2, 3), Condition(1, 0, 1))))
    age >= 60 and sex = 'F'
    """
    parts = [part for c in box for part in _clauses(features[c.feature], c)]
    if len(parts) == 1:
        return parts[0]
    return Combined("and", tuple(parts))


def _clauses(feature: Feature, c: Condition) -> list[Clause]:
    name = feature.name
    last = feature.recorded
    if c.low == last:
        return [ColumnTest(name, "missing")]
    if not feature.is_number:
        return [ColumnTest(name, "!=" if c.negated else "=", (feature.levels[c.low],))]
    ends = [(">=", c.low), ("<", c.high)]
    tests = [
        ColumnTest(name, sign, (cut_text(feature.cuts[k - 1]),))
        for sign, k in ends
        if 0 < k < last
    ]
    return [*tests] or [Not(ColumnTest(name, "missing"))]


def name_and_condition(
    features: Sequence[Feature],
    box: Box,
    labels: Mapping[str, Mapping[str, str]],
    taken: Sequence[str],
) -> tuple[str, str]:
    """A box in words and as a condition, which is its name as well if the words are
    taken.
    """
    name = label(features, box, labels)
    condition = str(clause(features, box))
    return condition if name in taken else name, condition


def label(
    features: Sequence[Feature], box: Box, labels: Mapping[str, Mapping[str, str]]
) -> str:
    """A box in words, such as "age 60 or over, sex F".

    >>> label([Feature("diabetic", ("false", "true"))], (Condition(0, 1, 2),), {})  # not the column itself
    'diabetic true'
    """
    both = [(features[c.feature], c) for c in box]
    words = ", ".join(
        condition_label(feature, c, labels.get(feature.name, {})) for feature, c in both
    )
    return f"{words} true" if words == both[0][0].name else words

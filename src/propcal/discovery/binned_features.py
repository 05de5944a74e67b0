"""Binned features: columns as small codes, and the conditions on them.

A feature has levels or round cut points.

A feature's codes are its values in order, then one code for levels too rare to be named
(levels only), then one code for missing values. Everything after this module works on
codes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, compress, pairwise
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
COARSE_RANGES = 10  # of a number, in the first pass of the search
MOST_LEVELS = 24  # levels that can be conditions; rarer ones are pooled
LEAST_SHARE = 0.005  # of people with a level that can be a condition
FEW_NUMBERS = 2  # up to so many different numbers are levels: 0 and 1
FEWEST_ROWS = 200  # with fewer rows, identifiers cannot be told from measurements
LARGE_NUMBER = 100_000  # identifiers that are not consecutive are at least so large
SHARE_DIFFERENT = 0.95  # of the values of an identifier, at least
FEWEST_PER_RANGE = 20  # people
OWN_SEED = 20_260_418
DIGITS = 12  # of a round cut point, at most
SAMPLE = 100_000  # rows from which cut points and levels are chosen
MOST_VALUES = 20_000_000  # of columns that are read at once
DATES = (
    "it holds dates or times; make a column of periods of it, such as the year or the "
    "weekday"
)
LIMITS = (
    'it holds numbers, and limits such as "> 89" (top-coded ages); recode them, for '
    "example to 90"
)
DIFFERENT_VALUES = (
    "most of its values are different, so that it looks like an identifier"
)
DIFFERENT_NUMBERS = (
    "nearly all of its values are different whole numbers, so that it looks like an "
    "identifier"
)
RARE_VALUES = (
    f"none of its values is that of {LEAST_SHARE:.1%} of people, so that it looks like "
    "an identifier"
)
BACKQUOTE = "its name has a backquote, which a condition cannot have; rename the column"

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
        missing = self.recorded
        code_of: dict[str | None, int] = {None: missing}
        for code, level in enumerate(self.levels):
            code_of[level] = code
        levels, place = distinct(column)
        pooled = len(self.levels)
        code_of_place = [code_of.get(level_key(level), pooled) for level in levels]
        code_of_place.append(missing)  # the place of missing values is -1
        return np.asarray(np.array(code_of_place, dtype=np.uint8)[place])

    @property
    def ranges(self) -> Sequence[int]:
        """Codes at which the ranges of the coarse pass begin; every level is one."""
        return self.coarse if self.is_number else range(self.recorded)

    def coarse_codes(self) -> Codes:
        """For each code, its coarse code; missing is last."""
        codes = np.arange(self.recorded)
        places = np.searchsorted(self.ranges, codes, side="right") - 1
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
        conditions = []
        if self.is_number:
            for low, high in combinations(range(n + 1), 2):
                is_everybody = (low, high) == (0, n) and not has_missing
                if not is_everybody:
                    conditions.append(Condition(place, low, high))
        else:
            for k in range(len(self.levels)):
                conditions.append(Condition(place, k, k + 1))
            if n > FEW_NUMBERS:  # of two levels, each is the negation of the other
                negated = [condition._replace(negated=True) for condition in conditions]
                conditions += negated
        if has_missing:
            conditions.append(Condition(place, n, n + 1))
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
        kept = [feature.name not in reasons for feature in self.features]
        features = tuple(compress(self.features, kept))
        codes = self.codes[np.flatnonzero(kept)]
        return FeatureTable(features, codes, {**self.left_out, **reasons})

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
    if names is None:
        names = source.names
    sample = None
    if n > SAMPLE:
        rng = np.random.default_rng(OWN_SEED)
        sample = np.sort(rng.choice(n, SAMPLE, replace=False))
    features: list[Feature] = []
    left_out: dict[str, str] = {}
    codes = np.empty((len(names), n), dtype=np.uint8)
    at_once = max(MOST_VALUES // max(n, 1), 1)
    for first in range(0, len(names), at_once):
        for name, column in source.columns(names[first : first + at_once]).items():
            sampled = column if sample is None else chosen(column, sample)
            feature = _feature(name, sampled)
            if isinstance(feature, str):
                left_out[name] = feature
                continue
            own_codes = codes[len(features)]
            features.append(_encoded(feature, column, own_codes))
    return FeatureTable(tuple(features), codes[: len(features)], left_out)


def _encoded(feature: Feature, column: Any, codes: Codes) -> Feature:
    """Fill in the codes of all rows; returns the feature, with a code for levels that
    the sample lacks if any row has one.
    """
    pooling = replace(feature, pooled=not feature.is_number)
    codes[:] = pooling.codes(column)
    if feature.is_number or feature.pooled or np.any(codes == len(feature.levels)):
        return pooling
    codes[codes == pooling.recorded] = feature.recorded
    return feature


def _feature(name: str, column: Any) -> Feature | str:
    """A feature, or the reason why a column cannot be one."""
    if "`" in name:
        return BACKQUOTE
    if isinstance(column, np.ndarray):
        return _levels(name, column)
    kind = column.type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_temporal(kind):
        return DATES
    if is_record(kind):
        return "it holds lists or records"
    is_kind_of_number = (
        pa.types.is_floating,
        pa.types.is_integer,
        pa.types.is_decimal,
    )
    if any(is_number(kind) for is_number in is_kind_of_number):
        return _number(name, column)
    return _levels(name, column)


def _levels(name: str, column: Any) -> Feature | str:
    """A feature with levels, or the reason why a column cannot be one."""
    values, codes = distinct(column)
    n = len(codes)
    counts = np.bincount(codes + 1, minlength=len(values) + 1)[1:]
    people: dict[str, int] = {}
    for value, count in zip(values, counts.tolist()):
        key = level_key(value)
        if key is not None and count:
            people[key] = people.get(key, 0) + count
    missing = n - sum(people.values())
    if len(people) + (missing > 0) < 2:
        return _constant(missing, n)
    if numbers_beside_limits(people):
        return LIMITS
    if len(people) > n / 2 and n >= FEWEST_ROWS:
        return DIFFERENT_VALUES
    frequent = sorted(people, key=lambda key: (-people[key], key))[:MOST_LEVELS]
    kept = tuple(key for key in frequent if people[key] >= LEAST_SHARE * n)
    if not kept:
        return RARE_VALUES
    return Feature(name, kept, pooled=len(kept) < len(people))


def _number(name: str, column: Any) -> Feature | str:
    """A feature of numbers, or the reason why a column cannot be one."""
    values = floats(column, f"feature {name!r}")
    known = values[np.isfinite(values)]
    different, people = np.unique(known, return_counts=True)
    n = len(values)
    missing = int(np.count_nonzero(np.isnan(values)))
    if len(different) + (missing > 0) < 2:
        return _constant(missing, n)
    if _identifies(different, n):
        return DIFFERENT_NUMBERS
    if len(different) <= FEW_NUMBERS:
        order = different[np.argsort(-people, kind="stable")]
        return Feature(name, tuple(str(level_key(value)) for value in order))

    cuts = _cut_points(different, known)
    share_below = np.searchsorted(np.sort(known), cuts, side="left") / len(known)
    coarse = {0}
    for k in range(1, COARSE_RANGES):
        nearest = int(np.abs(share_below - k / COARSE_RANGES).argmin())
        coarse.add(1 + nearest)
    are_whole = [np.all(some == np.floor(some)) for some in (different, cuts)]
    return Feature(name, cuts=cuts, coarse=tuple(sorted(coarse)), whole=all(are_whole))


def _constant(missing: int, n: int) -> str:
    if missing == n:
        return "every value is missing"
    return "it has the same value in every row"


def _identifies(found: FloatArray, n: int) -> bool:
    """Whether whole numbers look like identifiers: nearly all different, and
    consecutive or large.
    """
    if n < FEWEST_ROWS or len(found) < SHARE_DIFFERENT * n:
        return False
    if not np.all(found == np.floor(found)):
        return False
    consecutive = found[-1] - found[0] < 1.5 * len(found)
    return bool(consecutive or np.abs(found).min() >= LARGE_NUMBER)


def _cut_points(found: FloatArray, known: FloatArray) -> FloatArray:
    """Cut points between all different numbers if these are few, else round ones near
    quantiles.
    """
    if len(found) <= MOST_CUTS:
        return np.array([roundest(a, b) for a, b in pairwise(found)])
    n = min(MOST_CUTS, max(len(known) // FEWEST_PER_RANGE, COARSE_RANGES))
    shares = (np.arange(n + 1) + 0.5) / (n + 1)
    edges = np.unique(np.quantile(known, shares, method="lower"))
    return np.unique([roundest(a, b) for a, b in pairwise(edges)])


def roundest(low: float, high: float) -> float:
    """The number above `low`, up to `high`, with the fewest digits.

    >>> roundest(73.2, 76.1), roundest(0.0123, 0.0141), roundest(59, 60)
    (75.0, 0.014, 60.0)
    >>> roundest(-0.3, 0.2)
    0.0
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
    >>> ranges = [Condition(0, 2, 4), Condition(0, 0, 1), Condition(0, 1, 3)]
    >>> [condition_label(age, condition, {}) for condition in ranges]
    ['age 60 or over', 'age under 40', 'age 40 to under 75']
    >>> missing, recorded = Condition(0, 4, 5), Condition(0, 0, 4)
    >>> [condition_label(age, condition, {}) for condition in (missing, recorded)]
    ['age not recorded', 'age recorded']
    >>> pain = Feature("pain", cuts=np.array([3.0, 4.0, 7.0]), whole=True)
    >>> ranges = [Condition(0, 1, 2), Condition(0, 1, 3), Condition(0, 0, 1)]
    >>> [condition_label(pain, condition, {}) for condition in ranges]
    ['pain 3', 'pain 3 to 6', 'pain under 3']
    """
    if condition.low == feature.recorded:
        return labels.get("", f"{feature.name} not recorded")
    if feature.is_number:
        return _range_label(feature, condition.low, condition.high)
    return _level_label(feature, condition, labels)


def _level_label(
    feature: Feature, condition: Condition, labels: Mapping[str, str]
) -> str:
    """A condition on a level in words."""
    name = feature.name
    level = feature.levels[condition.low]
    if level in labels:
        return f"not {labels[level]}" if condition.negated else labels[level]
    if condition.negated:
        other = "other than" if is_limit(level) else "not"
        return f"{name} {other} {level}"
    if level == "true":
        return name
    if level == "false":
        return f"not {name}"
    return f"{name} {level}"


def _range_label(feature: Feature, low: int, high: int) -> str:
    """A range of a number in words."""
    name = feature.name
    if low == 0 and high == feature.recorded:
        return f"{name} recorded"
    if low == 0:
        return f"{name} under {cut_text(feature.cuts[high - 1])}"
    first = cut_text(feature.cuts[low - 1])
    if high == feature.recorded:
        return f"{name} {first} or over"
    end = feature.cuts[high - 1]
    if not feature.whole:
        return f"{name} {first} to under {cut_text(end)}"
    last = cut_text(end - 1)
    if last == first:
        return f"{name} {first}"
    return f"{name} {first} to {last}"


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
    >>> sex = Feature("sex", ("F", "M"))
    >>> print(clause([age, sex], (Condition(0, 2, 3), Condition(1, 0, 1))))
    age >= 60 and sex = 'F'
    """
    parts: list[Clause] = []
    for condition in box:
        parts += _clauses(features[condition.feature], condition)
    if len(parts) == 1:
        return parts[0]
    return Combined("and", tuple(parts))


def _clauses(feature: Feature, c: Condition) -> list[Clause]:
    """The tests of a column that make a condition."""
    name = feature.name
    last = feature.recorded
    if c.low == last:
        return [ColumnTest(name, "missing")]
    if not feature.is_number:
        sign = "!=" if c.negated else "="
        return [ColumnTest(name, sign, (feature.levels[c.low],))]
    tests: list[Clause] = []
    if c.low > 0:
        tests.append(ColumnTest(name, ">=", (cut_text(feature.cuts[c.low - 1]),)))
    if c.high < last:
        tests.append(ColumnTest(name, "<", (cut_text(feature.cuts[c.high - 1]),)))
    return tests or [Not(ColumnTest(name, "missing"))]


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
    if name in taken:
        name = condition
    return name, condition


def label(
    features: Sequence[Feature], box: Box, labels: Mapping[str, Mapping[str, str]]
) -> str:
    """A box in words, such as "age 60 or over, sex F".

    >>> diabetic = Feature("diabetic", ("false", "true"))
    >>> label([diabetic], (Condition(0, 1, 2),), {})  # not the column itself
    'diabetic true'
    """
    parts = []
    for condition in box:
        feature = features[condition.feature]
        of_feature = labels.get(feature.name, {})
        parts.append(condition_label(feature, condition, of_feature))
    words = ", ".join(parts)
    if words == features[box[0].feature].name:
        return f"{words} true"
    return words

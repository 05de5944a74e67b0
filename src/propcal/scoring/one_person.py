"""Scores one person at a time, from keyword arguments to the corrected score.

For services, where the fixed costs of columns and batches would be nearly all of the
time. Plain values take a short way, with dictionaries and bisection in Python.
Everything else (scores that are no probabilities, unusual types of values) goes through
`Correction.apply` as one row, so that there is one rule for it.
"""

from __future__ import annotations

import math
import operator
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from propcal.core.arguments import Invalid, Unseen
from propcal.core.correction.definition import ScoringRows
from propcal.core.correction.smooth_map import knots
from propcal.core.correction.unlisted import Unlisted
from propcal.core.grid import UNIT
from propcal.core.patterns import Level
from propcal.errors import InputError, Message, is_unicode, refused
from propcal.reading.frames import LARGEST
from propcal.reading.levels import level_key
from propcal.reading.rows_to_score import rows_to_score
from propcal.scoring.level_finders import (
    Finder,
    Test,
    attribute_finders,
    canonical_test,
    feature_finders,
)

if TYPE_CHECKING:
    from propcal.core.correction.definition import Definition

MAX_KEPT_PATTERNS = 1024
WHOLE_TYPES = {
    np.int8,
    np.int16,
    np.int32,
    np.int64,
    np.uint8,
    np.uint16,
    np.uint32,
}
SCORE_TYPES = frozenset({float, int, np.float64, np.float32})
NUMBER_TYPES = SCORE_TYPES | {bool, type(None), np.bool_} | WHOLE_TYPES
PLAIN_TYPES = NUMBER_TYPES | {str, np.str_}
# arguments of `score_one`, after which no column can be named
OPTIONS = ("invalid", "unseen", "detail")
COMPARISONS = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
Keys = dict[str, Level]  # the canonical text of each column
Numbers = dict[str, float]  # the columns that are compared by size
PlaceOf = Callable[[Keys, Numbers], int]


class PatternMap(NamedTuple):
    """The map of one pattern as Python numbers: the smooth start at its `knots`, then
    the pieces.
    """

    knots: list[int]
    smooth: list[int]
    begin: list[int]
    slope: list[int]
    offset: list[int]

    def apply(self, score: float, odds: float | None = None) -> float:
        """What `PatternMaps.apply` does to a score of this pattern, to the last bit."""
        raw = math.floor(score * UNIT + 0.5)
        value = self._recalibrated(raw) if self.smooth else raw
        if odds is not None:
            value = _with_odds_multiplied(value, odds)
        piece = bisect_right(self.begin, value) - 1
        value = self.slope[piece] * value + self.offset[piece]
        if value == raw and odds is None:
            return score
        return value / UNIT

    def _recalibrated(self, raw: int) -> int:
        """What `smooth_values` does, for one person."""
        at = self.knots
        k = bisect_left(at, raw, 1, len(at) - 1)
        width = at[k] - at[k - 1]
        low = self.smooth[k - 1]
        rise = self.smooth[k] - low
        return low + (2 * rise * (raw - at[k - 1]) + width) // (2 * width)


def _with_odds_multiplied(units: int, odds: float) -> int:
    """What `points_table.multiply` does, for one person."""
    if units <= 0 or units >= UNIT:
        return units
    risk = 1.0 - 1.0 / (1.0 + odds * (units / (UNIT - units)))
    rounded = math.floor(risk * UNIT + 0.5)
    return min(max(rounded, 1), UNIT - 1)


class Result(NamedTuple):
    """The corrected score of a person, what is unseen of them, and what to warn of."""

    score: float
    unseen: tuple[str, ...] = ()
    warnings: tuple[Message, ...] = ()


class KeptPattern(NamedTuple):
    """What is kept for a pattern: its map (None: scores stay), and which levels are not
    listed.
    """

    map: PatternMap | None
    unlisted: list[int]
    unseen: tuple[str, ...]
    warnings: tuple[Message, ...]


class OnePerson:
    """Scores one person; made once for a correction."""

    def __init__(self, correction: Definition) -> None:
        self._correction = correction
        self._columns = correction.reads
        self._names = frozenset(correction.reads)
        self._not_read = frozenset(correction.not_read) - self._names
        for name in OPTIONS:
            if name in self._names:
                raise refused("score_one argument", name=name)

        self._numeric = frozenset(correction.numeric)
        attributes = attribute_finders(correction)
        features = feature_finders(correction)
        self._attributes = list(map(_place_of, attributes))
        self._features = [
            (_place_of(finder), finder.factors, finder.unseen) for finder in features
        ]
        self._texts = _canonical_texts(correction)
        self._knots = knots().tolist()
        self._kept: dict[Any, KeptPattern] = {}

    def __call__(
        self,
        score: Any,
        values: dict[str, Any],
        invalid: Invalid,
        unseen: Unseen | None,
    ) -> Result:
        """The corrected score of one person with these values."""
        if values.keys() != self._names:
            values = self._without_columns_not_read(values)
        if invalid != "error" or type(score) not in SCORE_TYPES or not 0 <= score <= 1:
            return self._as_a_row(score, values, invalid, unseen)

        keys: Keys = {}
        numbers: Numbers = {}
        for column, value in values.items():
            if type(value) not in PLAIN_TYPES or not _alike_everywhere(value):
                return self._as_a_row(score, values, invalid, unseen)
            keys[column] = value if value in self._texts else level_key(value)
            if column in self._numeric:
                if type(value) not in NUMBER_TYPES:
                    return self._as_a_row(score, values, invalid, unseen)
                numbers[column] = math.nan if value is None else float(value)

        code = tuple([place_of(keys, numbers) for place_of in self._attributes])
        kept_under = code if unseen is None else (unseen, code)
        # one look at the dictionary: another thread may clear it between two
        pattern = self._kept.get(kept_under)
        if pattern is None:
            pattern = self._compiled(code, unseen)
            self._keep(kept_under, pattern)

        odds = None
        new_values = []
        for place_of, factors, unseen_places in self._features:
            place = place_of(keys, numbers)
            factor = factors[place]
            odds = factor if odds is None else odds * factor
            new_values.append(place in unseen_places)

        corrected = float(score)
        if pattern.map is not None:
            corrected = pattern.map.apply(corrected, odds)
        if not any(new_values):
            return Result(corrected, pattern.unseen, pattern.warnings)
        unlisted = Unlisted(self._correction, n=1)
        unlisted.counts[:] = [*pattern.unlisted, *new_values]
        return _result(corrected, unlisted)

    def _compiled(self, code: tuple[int, ...], unseen: Unseen | None) -> KeptPattern:
        """The map of a pattern, and what is unseen of its levels."""
        table = np.array([code], dtype=np.int64).reshape(1, len(code))
        pattern = replace(self._correction.patterns, table=table)
        pattern_map = None
        for maps, place in self._correction.maps_of(pattern, unseen=unseen):
            row = int(place[0])
            if row >= 0:
                smooth = maps.smooth[row].tolist()
                pieces = maps.table(row).tolist()
                pattern_map = PatternMap(self._knots, smooth, *pieces)

        no_score = np.zeros(1)
        first_row = np.zeros(1, dtype=np.int64)
        person = ScoringRows(no_score, pattern, first_row, [])
        unlisted = Unlisted(self._correction).add(person)
        return KeptPattern(
            pattern_map,
            unlisted.counts[: len(code)].tolist(),
            tuple(unlisted.unseen),
            tuple(unlisted.messages()),
        )

    def _keep(self, key: Any, pattern: KeptPattern) -> None:
        """Keep a pattern for the next person."""
        if len(self._kept) >= MAX_KEPT_PATTERNS:
            self._kept.clear()
        self._kept[key] = pattern

    def _as_a_row(
        self,
        score: Any,
        values: dict[str, Any],
        invalid: Invalid,
        unseen: Unseen | None,
    ) -> Result:
        """The corrected score as `Correction.apply` computes it."""
        columns = {column: [value] for column, value in values.items()} or None
        rows = rows_to_score([score], columns, self._correction, invalid=invalid)
        corrected = self._correction.apply_to_rows(rows, unseen=unseen, invalid=invalid)
        return _result(float(corrected[0]), Unlisted(self._correction).add(rows))

    def _without_columns_not_read(self, values: dict[str, Any]) -> dict[str, Any]:
        """The columns that scoring reads; any other but those not read is refused."""
        own = {
            name: value for name, value in values.items() if name not in self._not_read
        }
        if own.keys() != self._names:
            self._refuse_names(own)
        return own

    def _refuse_names(self, values: Mapping[str, Any]) -> None:
        missing = [name for name in self._columns if name not in values]
        unknown = [name for name in values if name not in self._names]
        problems = []
        if missing:
            problems.append(f"{_names_are(missing)} missing")
        if unknown:
            problems.append(f"{_names_are(unknown)} unknown")
        reads = ", ".join(map(repr, self._columns)) or "no columns"
        raise InputError(
            f"{' and '.join(problems)}; this correction reads {reads}",
            argument=(missing or unknown)[0],
            next_step="pass None for a value that is missing" if missing else None,
        )


def _result(corrected: float, unlisted: Unlisted) -> Result:
    return Result(corrected, tuple(unlisted.unseen), tuple(unlisted.messages()))


def _names_are(names: list[str]) -> str:
    verb = "is" if len(names) == 1 else "are"
    return f"{', '.join(map(repr, names))} {verb}"


def _canonical_texts(correction: Definition) -> set[str]:
    """Levels that are their own canonical text: most values can be looked up as they
    are.
    """
    texts: set[str] = set()
    for levels in correction.patterns.levels:
        texts.update(level for level in levels if level is not None)
    for feature in correction.features:
        texts.update(feature.levels)
    return {text for text in texts if level_key(text) == text}


def _alike_everywhere(value: Any) -> bool:
    """Whether a plain value is the same in every type of column: no huge whole number,
    no broken text.
    """
    kind = type(value)
    if kind is str or kind is np.str_:
        return value.isascii() or is_unicode(value)
    return kind is not int or -LARGEST <= value <= LARGEST


def _place_of(finder: Finder) -> PlaceOf:
    """A function that finds the place of a person's level."""
    column = finder.column
    places = finder.places
    missing = finder.missing
    other = finder.other

    if finder.condition is not None:
        holds = _holds(canonical_test(finder.condition))
        no, yes = places
        return lambda keys, numbers: yes if holds(keys, numbers) else no

    if finder.cuts is not None:
        cuts = finder.cuts

        def place_of_number(_: Keys, numbers: Numbers) -> int:
            value = numbers[column]
            if value != value:
                return missing
            return places[bisect_right(cuts, value)]

        return place_of_number

    place_of_text: dict[Level, int] = dict(zip(finder.texts, places))
    place_of_text[None] = missing
    return lambda keys, _: place_of_text.get(keys[column], other)


def _holds(test: Test) -> Callable[[Keys, Numbers], bool]:
    """A function that tells whether a person passes a test of `canonical_test`."""
    kind = test[0]
    if kind in ("and", "or"):
        parts = list(map(_holds, test[1:]))
        decide = all if kind == "and" else any
        return lambda keys, numbers: decide(part(keys, numbers) for part in parts)
    if kind == "not":
        part = _holds(test[1])
        return lambda keys, numbers: not part(keys, numbers)

    column = test[1]
    if kind == "missing":
        return lambda keys, _: keys[column] is None
    if kind in COMPARISONS:
        compare = COMPARISONS[kind]
        limit = test[2]
        return lambda _, numbers: compare(numbers[column], limit)  # NaN passes none
    texts = frozenset(test[2])
    if kind == "in":
        return lambda keys, _: keys[column] in texts
    return lambda keys, _: keys[column] is not None and keys[column] not in texts

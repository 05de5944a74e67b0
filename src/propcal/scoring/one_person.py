"""One person at a time: keyword arguments -> the map of the person's pattern -> the
corrected score.

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
from propcal.core.conditions import ColumnTest, Condition, Not
from propcal.core.correction.definition import ScoringRows
from propcal.core.correction.smooth_map import knots
from propcal.core.correction.unlisted import Unlisted
from propcal.core.grid import UNIT
from propcal.core.patterns import Level
from propcal.errors import InputError, Message, is_unicode, refused
from propcal.reading.frames import LARGEST
from propcal.reading.levels import level_key, wanted_keys
from propcal.reading.rows import rows_to_score
from propcal.scoring.places import Finder, attribute_finders, feature_finder

if TYPE_CHECKING:
    from propcal.core.correction.definition import Definition

MOST_MAPS = 1024  # patterns whose maps are kept
WHOLE = {np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32}
SCORES = frozenset({float, int, np.float64, np.float32})
NUMBERS = frozenset(
    {float, int, bool, type(None), np.float64, np.float32, np.bool_} | WHOLE
)
PLAIN = NUMBERS | {str, np.str_}
OPTIONS = (
    "invalid",
    "unseen",
    "detail",
)  # arguments of `score_one`, which no column can be named like
COMPARED = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
Keys = dict[str, Level]
Numbers = dict[str, float]
Place = Callable[
    [Keys, Numbers], int
]  # of an attribute or feature, from what the columns hold


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
        raw = value = math.floor(score * UNIT + 0.5)
        if self.smooth:
            at = self.knots
            smooth = self.smooth
            k = bisect_left(at, raw, 1, len(at) - 1)
            width = at[k] - at[k - 1]
            low = smooth[k - 1]
            value = low + (2 * (smooth[k] - low) * (raw - at[k - 1]) + width) // (
                2 * width
            )
        if odds is not None:
            value = _multiplied(value, odds)
        k = bisect_right(self.begin, value) - 1
        value = self.slope[k] * value + self.offset[k]
        return score if value == raw and odds is None else value / UNIT


def _multiplied(units: int, odds: float) -> int:
    """What `points_table.multiply` does, for one person."""
    if units <= 0 or units >= UNIT:
        return units
    risk = 1.0 - 1.0 / (1.0 + odds * (units / (UNIT - units)))
    return min(max(math.floor(risk * UNIT + 0.5), 1), UNIT - 1)


class Result(NamedTuple):
    """The corrected score of a person, what is unseen of them, and what to warn of."""

    score: float
    unseen: tuple[str, ...] = ()
    warnings: tuple[Message, ...] = ()


class Known(NamedTuple):
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
        known = correction.patterns
        self._correction = correction
        self._columns = correction.reads
        self._names = frozenset(correction.reads)
        self._features = [
            (
                _place_of(feature_finder(feature)),
                feature.factors.tolist(),
                feature.unseen_codes,
            )
            for feature in correction.features
        ]
        self._not_read = frozenset(correction.not_read) - self._names
        for name in OPTIONS:
            if name in self._names:
                raise refused("score_one argument", name=name)
        self._numeric = frozenset(correction.numeric)
        self._attributes = [_place_of(finder) for finder in attribute_finders(known)]
        texts = {
            level for levels in known.levels for level in levels if level is not None
        }
        texts |= {level for feature in correction.features for level in feature.levels}
        self._texts = {text for text in texts if level_key(text) == text}
        self._knots = knots().tolist()
        self._kept: dict[Any, Known] = {}

    def __call__(
        self,
        score: Any,
        values: dict[str, Any],
        invalid: Invalid,
        unseen: Unseen | None,
    ) -> Result:
        """The corrected score of one person with these values."""
        if values.keys() != self._names:
            values = {
                name: value
                for name, value in values.items()
                if name not in self._not_read
            }
            if values.keys() != self._names:
                self._refuse_names(values)
        if invalid != "error" or type(score) not in SCORES or not 0 <= score <= 1:
            return self._as_a_row(score, values, invalid, unseen)
        keys: Keys = {}
        numbers: Numbers = {}
        for column, value in values.items():
            if type(value) not in PLAIN or not _alike_everywhere(value):
                return self._as_a_row(score, values, invalid, unseen)
            keys[column] = value if value in self._texts else level_key(value)
            if column in self._numeric:
                if type(value) not in NUMBERS:
                    return self._as_a_row(score, values, invalid, unseen)
                numbers[column] = math.nan if value is None else float(value)
        code = tuple([place_of(keys, numbers) for place_of in self._attributes])
        # one look at the dictionary: another thread may clear it between two
        known = self._kept.get(
            code if unseen is None else (unseen, code)
        ) or self._find(code, unseen)
        corrected = float(score)
        odds = 1.0
        new = []
        for place_of, factors, unseen_codes in self._features:
            place = place_of(keys, numbers)
            odds *= factors[place]
            new.append(place in unseen_codes)
        if known.map is not None:
            corrected = known.map.apply(corrected, odds if self._features else None)
        if not any(new):
            return Result(corrected, known.unseen, known.warnings)
        told = Unlisted(self._correction, n=1)
        told.counts[:] = [*known.unlisted, *new]
        return _result(corrected, told)

    def _find(self, code: tuple[int, ...], unseen: Unseen | None) -> Known:
        """What belongs to a pattern; keep it for the next person."""
        known = self._correction.patterns
        table = np.array([code], dtype=np.int64).reshape(1, len(code))
        patterns = replace(known, table=table)
        found = None
        for maps, place in self._correction.maps_of(patterns, unseen=unseen):
            if (p := int(place[0])) >= 0:
                found = PatternMap(
                    self._knots, maps.smooth[p].tolist(), *maps.table(p).tolist()
                )
        if len(self._kept) >= MOST_MAPS:
            self._kept.clear()
        person = ScoringRows(np.zeros(1), patterns, np.zeros(1, dtype=np.int64), [])
        told = Unlisted(self._correction).add(person)
        kept = Known(
            found,
            told.counts[: len(code)].tolist(),
            tuple(told.unseen),
            tuple(told.messages()),
        )
        self._kept[code if unseen is None else (unseen, code)] = kept
        return kept

    def _as_a_row(
        self,
        score: Any,
        values: dict[str, Any],
        invalid: Invalid,
        unseen: Unseen | None,
    ) -> Result:
        columns = {column: [value] for column, value in values.items()} or None
        rows = rows_to_score([score], columns, self._correction, invalid=invalid)
        corrected = self._correction.apply_to_rows(rows, unseen=unseen, invalid=invalid)
        return _result(float(corrected[0]), Unlisted(self._correction).add(rows))

    def _refuse_names(self, values: Mapping[str, Any]) -> None:
        missing = [name for name in self._columns if name not in values]
        unknown = [name for name in values if name not in self._names]
        trouble = [f"{_listed(missing)} missing"] * bool(missing)
        trouble += [f"{_listed(unknown)} unknown"] * bool(unknown)
        reads = ", ".join(map(repr, self._columns)) or "no columns"
        raise InputError(
            f"{' and '.join(trouble)}; this correction reads {reads}",
            argument=(missing or unknown)[0],
            next_step="pass None for a value that is missing" if missing else None,
        )


def _result(corrected: float, unlisted: Unlisted) -> Result:
    return Result(corrected, tuple(unlisted.unseen), tuple(unlisted.messages()))


def _listed(names: list[str]) -> str:
    return f"{', '.join(map(repr, names))} {'is' if len(names) == 1 else 'are'}"


def _alike_everywhere(value: Any) -> bool:
    """Whether a plain value is the same in every type of column: no huge whole number,
    no broken text.
    """
    kind = type(value)
    if kind is str or kind is np.str_:
        return value.isascii() or is_unicode(value)
    return kind is not int or -LARGEST <= value <= LARGEST


def _place_of(finder: Finder) -> Place:
    """A function that finds a person's place."""
    column = finder.column
    places = finder.places
    missing = finder.missing
    other = finder.other
    if finder.condition is not None:
        holds, (no, yes) = _condition(finder.condition), places
        return lambda keys, numbers: yes if holds(keys, numbers) else no
    if finder.cuts is not None:
        cuts = finder.cuts

        def of_number(_: Keys, numbers: Numbers) -> int:
            value = numbers[column]
            if value != value:
                return missing
            return places[bisect_right(cuts, value)]

        return of_number
    known: dict[Level, int] = {None: missing, **dict(zip(finder.texts, places))}
    return lambda keys, _: known.get(keys[column], other)


def _condition(condition: Condition) -> Callable[[Keys, Numbers], bool]:
    """Whether a person meets a condition, as `propcal.reading.derived_columns.evaluate` decides it
    for columns.
    """
    if isinstance(condition, ColumnTest):
        return _test(condition)
    if isinstance(condition, Not):
        part = _condition(condition.part)
        return lambda keys, numbers: not part(keys, numbers)
    parts = [_condition(part) for part in condition.parts]
    decide = all if condition.op == "and" else any
    return lambda keys, numbers: decide(part(keys, numbers) for part in parts)


def _test(test: ColumnTest) -> Callable[[Keys, Numbers], bool]:
    column = test.column
    if test.op in COMPARED:
        compare = COMPARED[test.op]
        limit = float(test.values[0])
        return lambda _, numbers: bool(
            compare(numbers[column], limit)
        )  # NaN passes none
    if test.op == "missing":
        return lambda keys, _: keys[column] is None
    wanted = wanted_keys(test)
    if test.op == "!=":
        return lambda keys, _: keys[column] is not None and keys[column] not in wanted
    return lambda keys, _: keys[column] in wanted

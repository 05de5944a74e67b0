"""People with which a one-file scorer tests itself, and their corrected scores."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

import numpy as np

from propcal.core.conditions import BY_SIZE, ColumnTest, is_numeric, tests_of
from propcal.core.correction.correction import Correction
from propcal.core.correction.maps import start_reaches
from propcal.core.correction.points_table import multiply
from propcal.core.correction.smooth_map import knots
from propcal.core.grid import UNIT, FloatArray, IntArray
from propcal.errors import UnknownLevelWarning, UnseenError
from propcal.reading.levels import TRUTHS
from propcal.reading.rows_to_score import rows_to_score
from propcal.scoring.level_finders import Finder, attribute_finders, feature_finders

N_VECTORS = 300
MAX_TRIED = 3_000
NO_LEVEL = "(a value that is no level)"
Value = str | float | bool | None


def check_vectors(correction: Correction) -> list[list[Any]]:
    """A score, values of the columns in their order, and the corrected score, for many
    people.

    They are random combinations of the values that matter, with scores at breakpoints
    and next to them. A combination that the correction refuses is left out.
    """
    rng = np.random.default_rng(0)
    values = {
        column: values_that_matter(correction, column) for column in correction.reads
    }
    vectors: list[list[Any]] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnknownLevelWarning)
        for _ in range(MAX_TRIED):
            person: dict[str, Any] = {
                column: possible[rng.integers(len(possible))]
                for column, possible in values.items()
            }
            score = float(rng.choice(near_breakpoints(correction, person)))
            with suppress(UnseenError):
                corrected = correction.score_one(score, **person)
                vectors.append([score, list(person.values()), corrected])
            if len(vectors) == N_VECTORS:
                break
    return vectors


def near_breakpoints(correction: Correction, person: Mapping[str, Value]) -> FloatArray:
    """The scores at which one person's map goes on differently, and their neighbours.

    A neighbour is a unit, half a unit or one bit away. Points multiply the odds between
    curve and pieces.
    """
    columns = {column: [value] for column, value in person.items()}
    rows = rows_to_score([0.5], columns, correction)
    maps, place = next(iter(correction.maps_of(rows.patterns, unseen="replay")))
    pattern = int(place[0])

    raw = maps.table(pattern)[0]
    if correction.points is not None:
        raw = _before_points(raw, correction.points.odds(rows.codes)[0])
    curve = maps.smooth[pattern]
    if len(curve):
        raw = np.union1d(knots(), start_reaches(raw, knots(), curve))

    on_grid = np.concatenate([raw, raw - 1, raw + 1, raw - 0.5, raw + 0.5]) / UNIT
    one_bit_away = [np.nextafter(on_grid, -1), np.nextafter(on_grid, 2)]
    near = np.concatenate([on_grid, *one_bit_away])
    return np.unique(near[(near >= 0) & (near <= 1)])


def _before_points(units: IntArray, odds: float) -> IntArray:
    """The first units that points take to each of these units or above it."""
    low = np.zeros_like(units)
    high = np.full_like(units, UNIT)
    while np.any(low < high):
        middle = (low + high) // 2
        reached = multiply(middle, np.full(len(middle), odds)) >= units
        low = np.where(reached, low, middle + 1)
        high = np.where(reached, middle, high)
    return low


def values_that_matter(correction: Correction, column: str) -> list[Value]:
    """A missing value, levels, cut points and what conditions compare with, and values
    next to them.
    """
    finders = [*feature_finders(correction), *attribute_finders(correction)]
    readers = [finder for finder in finders if finder.column == column]
    tests = list(_tests_of_column(finders, column))

    numbers: list[float] = []
    texts: list[str] = []
    for finder in readers:
        numbers += finder.cuts or ()
        texts += finder.texts
    for test in tests:
        if test.op in BY_SIZE:
            numbers.append(float(test.values[0]))
        elif test.op in ("=", "!=", "in"):
            texts += test.values

    is_number = column in correction.numeric
    values: list[Value] = [None]
    if not is_number:
        values += [NO_LEVEL, 12345, True]
    for number in numbers:
        below = math.nextafter(number, -math.inf)
        above = math.nextafter(number, math.inf)
        values += [number, below, above]
    for text in texts:
        if not is_number:
            values += [text, f" {text.upper()} "]
        if text in TRUTHS:
            values.append(text == "true")
        elif is_numeric(text):
            values.append(float(text))
    return values


def _tests_of_column(finders: list[Finder], column: str) -> Iterator[ColumnTest]:
    """The comparisons of conditions that read this column."""
    for finder in finders:
        if finder.condition is not None:
            yield from (t for t in tests_of(finder.condition) if t.column == column)

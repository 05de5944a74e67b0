"""Test vectors of a correction: scores at breakpoints, values that matter to it, and what `apply` gives."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from propcal.core.correction.correction import Correction
from propcal.core.correction.maps import PatternMaps, start_reaches
from propcal.core.correction.points_table import FeaturePoints, multiply
from propcal.core.correction.smooth_map import knots
from propcal.core.grid import UNIT, IntArray
from propcal.core.groups.recipes import BY_SIZE, Ranges, is_numeric, tests_of
from propcal.data.levels import TRUTHS
from propcal.data.rows_to_score import rows_to_score
from propcal.errors import UnknownLevelWarning, UnseenError

N_VECTORS, MOST_TRIED = 300, 3_000
NO_LEVEL = "(a value that is no level)"
Value = str | float | bool | None


class Vector(NamedTuple):
    """A score, the values of the columns in their order, and the corrected score."""

    score: float
    values: list[Value]
    corrected: float


def vectors(correction: Correction, n: int = N_VECTORS, seed: int = 0) -> list[Vector]:
    """Random combinations of the values that matter, with scores at breakpoints and next to them.

    A combination that the correction refuses is left out.
    """
    rng = np.random.default_rng(seed)
    scores = near_breakpoints(correction.maps)
    values: dict[str, list[Any]] = {
        column: values_that_matter(correction, column) for column in correction.reads
    }
    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnknownLevelWarning)
        for drawn in rng.choice(scores, MOST_TRIED).tolist():
            person = {column: some[rng.integers(len(some))] for column, some in values.items()}
            with_points = correction.points is not None
            score = float(rng.choice(near_breakpoints_of(correction, person))) if with_points else drawn
            try:
                found.append(Vector(score, list(person.values()), correction.score_one(score, **person)))
            except UnseenError:
                continue
            if len(found) == n:
                break
    return found


def breakpoints(maps: PatternMaps, pieces: Sequence[IntArray]) -> IntArray:
    """The raw scores, in units, at which a map may go on differently; `pieces` of it begin at these units."""
    if not maps.smooth.shape[1]:
        return np.unique(np.concatenate(pieces))
    at = knots()
    reached = [start_reaches(own, at, curve) for own, curve in zip(pieces, maps.smooth)]
    return np.unique(np.concatenate([at, *reached]))


def near_breakpoints(maps: PatternMaps, odds: float | None = None) -> Any:
    """Breakpoints as scores, and their neighbours: a unit, half a unit or one bit away.

    Between curve and pieces, points may multiply the odds.
    """
    begins = maps.begin if odds is None else _before_points(maps.begin, odds)
    raw = breakpoints(maps, [begins[a:b] for a, b in pairwise(maps.starts.tolist())])
    on = np.concatenate([raw, raw - 1, raw + 1, raw - 0.5, raw + 0.5]) / UNIT
    near = np.concatenate([on, np.nextafter(on, -1), np.nextafter(on, 2)])
    return np.unique(near[(near >= 0) & (near <= 1)])


def near_breakpoints_of(correction: Correction, person: Mapping[str, Value]) -> Any:
    """Breakpoints of one person's own map and points, and their neighbours."""
    columns = {column: [value] for column, value in person.items()}
    rows = rows_to_score([0.5], columns, correction)
    maps, place = next(iter(correction.maps_of(rows.patterns, unseen="replay")))
    p = int(place[0])
    begin, slope, offset = maps.table(p)
    own = PatternMaps(np.array([0, len(begin)]), begin, slope, offset, maps.smooth[p : p + 1])
    return near_breakpoints(own, None if correction.points is None else correction.points.odds(rows.codes)[0])


def _before_points(units: IntArray, odds: float) -> IntArray:
    """The first units that points take to each of these units or above it."""
    low, high = np.zeros_like(units), np.full_like(units, UNIT)
    while np.any(low < high):
        middle = (low + high) // 2
        reached = multiply(middle, np.full(len(middle), odds)) >= units
        low, high = np.where(reached, low, middle + 1), np.where(reached, middle, high)
    return low


def values_that_matter(correction: Correction, column: str) -> list[Value]:
    """A missing value, levels, cut points and what conditions compare with, and values next to them."""
    numeric = column in correction.numeric
    found: list[Value] = [None] if numeric else [None, NO_LEVEL, 12345, True]
    for number in _sizes(correction, column):
        found += [number, math.nextafter(number, -math.inf), math.nextafter(number, math.inf)]
    for text in _texts(correction, column):
        found += [] if numeric else [text, f" {text.upper()} "]
        found += [text == "true"] if text in TRUTHS else [float(text)] if is_numeric(text) else []
    return found


def _sizes(correction: Correction, column: str) -> Iterator[float]:
    """The numbers with which a column is compared by size."""
    for feature in _features(correction, column):
        yield from feature.cuts
    for recipe in correction.patterns.derived.values():
        if isinstance(recipe, Ranges):
            yield from recipe.points if recipe.column == column else ()
            continue
        for test in tests_of(recipe.condition):
            if test.column == column and test.op in BY_SIZE:
                yield float(test.values[0])


def _texts(correction: Correction, column: str) -> Iterator[str]:
    """The texts with which a column is compared for equality."""
    known = correction.patterns
    for feature in _features(correction, column):
        yield from feature.levels
    if column in known.attributes and column not in known.derived:
        yield from filter(None, known.levels[known.attributes.index(column)])
    for recipe in known.derived.values():
        for test in () if isinstance(recipe, Ranges) else tests_of(recipe.condition):
            if test.column == column and test.op in ("=", "!=", "in"):
                yield from test.values


def _features(correction: Correction, column: str) -> list[FeaturePoints]:
    """The features with points that read a column."""
    return [feature for feature in correction.features if feature.column == column]

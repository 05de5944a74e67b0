"""Attributes of rows in memory: values, ranges of a number and conditions, with numpy.

`propcal.reading.engine_expressions` computes the same in an engine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from propcal.core.conditions import (
    ColumnTest,
    Condition,
    Ranges,
    Recipe,
    Where,
    meets,
    tests_of,
)
from propcal.core.grid import BoolArray
from propcal.core.patterns import Level
from propcal.errors import ColumnTitle, refused
from propcal.extras import Later
from propcal.reading import levels
from propcal.reading.frames import Columns, floats, held_type, is_record

pa: Any = Later("pyarrow")


def recipes_of(attributes: Mapping[str, Recipe | str]) -> dict[str, Recipe]:
    """How attributes are made, without those that are columns themselves."""
    return {
        name: made for name, made in attributes.items() if not isinstance(made, str)
    }


def numeric_columns(
    recipes: Mapping[str, Recipe], attributes: Sequence[str]
) -> list[str]:
    """The columns that must be numeric, because they are cut or compared by size and
    are not attributes.
    """
    by_size = [column for recipe in recipes.values() for column in recipe.sized]
    own = [name for name in attributes if name not in recipes]
    return [column for column in dict.fromkeys(by_size) if column not in own]


def fitting_values(
    name: str,
    recipe: Recipe | None,
    columns: Columns,
    counted: BoolArray | None,
    *,
    seen: str = "",
    as_levels: bool = False,
) -> tuple[list[Any], Any]:
    """Like `attribute_values` for the rows in `counted`; refuses dates, identifiers and
    measurements.

    `seen` describes the rows in the error, if they are only some of all rows;
    `as_levels` takes any numbers for codes.
    """
    if recipe is None:
        levels.refuse_dates(name, temporal=_temporal(columns[name]))
    elif isinstance(recipe, Where):
        _refuse_no_truths(recipe, columns, name)

    values, codes = attribute_values(name, recipe, columns)
    if counted is not None:
        codes = codes[counted]

    if recipe is None:
        if len(values) > levels.MAX_NUMERIC_LEVELS:
            occurs = np.bincount(codes + 1, minlength=len(values) + 1)[1:] > 0
            occurring = [values[place] for place in np.flatnonzero(occurs)]
        else:
            occurring = values
        levels.refuse_many(occurring, name, seen, as_levels=as_levels)
    return values, codes


def _refuse_no_truths(recipe: Where, columns: Columns, name: str) -> None:
    """Refuse columns that are a condition by themselves and hold other than truth
    values.
    """
    for test in tests_of(recipe.condition):
        if test.op != "holds":
            continue
        column = columns[test.column]
        levels.refuse_dates(test.column, temporal=_temporal(column))
        values, _ = levels.distinct(column)
        if not {*map(levels.level_key, values)} <= {*levels.TRUTHS, None}:
            raise refused("no truths", name=title_of_test(test, name))


def title_of_test(test: ColumnTest, attribute: str) -> ColumnTitle:
    """What errors call the column of a test."""
    return ColumnTitle(test.column, f"condition {attribute!r}: column {test.column!r}")


def title_of_cuts(ranges: Ranges) -> ColumnTitle:
    """What errors call a column that is cut into ranges."""
    return ColumnTitle(ranges.column, f"cuts: column {ranges.column!r}")


def _temporal(column: Any) -> bool:
    if isinstance(column, np.ndarray):
        return False
    return bool(pa.types.is_temporal(held_type(column.type)))


def attribute_values(
    name: str, recipe: Recipe | None, columns: Columns
) -> tuple[list[Any], Any]:
    """The distinct values of an attribute, and the index of each row's value (-1 if
    missing).
    """
    if recipe is None:
        return _distinct(columns[name], name)
    if isinstance(recipe, Where):
        holds = evaluate(recipe.condition, columns, name)
        return [False, True], holds.astype(np.int8)
    values = floats(columns[recipe.column], title_of_cuts(recipe))
    codes = np.searchsorted(recipe.points, values, side="right").astype(np.int32)
    codes[np.isnan(values)] = -1
    return recipe.labels, codes


def _distinct(column: Any, name: str) -> tuple[list[Any], Any]:
    if not isinstance(column, np.ndarray) and is_record(column.type):
        raise refused("records", name=name)
    return levels.distinct(column, name)


def evaluate(condition: Condition, columns: Columns, title: str) -> BoolArray:
    """Which rows meet a condition, which errors call by its title."""

    def column_of(test: ColumnTest) -> _RowsTested:
        return _RowsTested(test, columns[test.column], title_of_test(test, title))

    return np.asarray(meets(condition, column_of))


class _RowsTested:
    """The column of a test, in memory: a test of levels looks once at each different
    value.
    """

    def __init__(self, test: ColumnTest, column: Any, title: str) -> None:
        self._test = test
        self._column = column
        self._title = title

    @cached_property
    def _levels(self) -> tuple[list[Level], Any]:
        values, codes = _distinct(self._column, self._test.column)
        return list(map(levels.level_key, values)), codes

    def missing(self) -> BoolArray:
        keys, codes = self._levels
        absent = [key is None for key in keys]
        # code -1 looks up the last entry
        return np.asarray(np.array([*absent, True])[codes])

    def compares(self, compare: Callable[[Any, Any], Any], limit: float) -> BoolArray:
        return np.asarray(compare(floats(self._column, self._title), limit))

    def is_wanted(self) -> BoolArray:
        levels.refuse_dates(self._test.column, temporal=_temporal(self._column))
        wanted = levels.wanted_keys(self._test)
        keys, codes = self._levels
        among = [key in wanted for key in keys]
        return np.asarray(np.array([*among, False])[codes])

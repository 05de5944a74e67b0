"""Computes attributes from columns of data: the values themselves, ranges of numbers, or a condition."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import and_, ge, gt, le, lt, or_
from typing import Any

import numpy as np

from propcal.core.grid import BoolArray
from propcal.core.groups.recipes import ColumnTest, Condition, Not, Ranges, Recipe, Where, tests_of
from propcal.data.frames import Columns, floats, held_type, is_record
from propcal.data.levels import (
    MAX_NUMERIC_LEVELS,
    RECORDS,
    TRUTHS,
    distinct,
    level_key,
    refuse_dates,
    refuse_many,
    wanted_keys,
)
from propcal.errors import Column, InputError
from propcal.extras import Later

pa: Any = Later("pyarrow")
COMPARE: dict[str, Callable[[Any, Any], Any]] = {"<": lt, "<=": le, ">": gt, ">=": ge}


def numeric_columns(recipes: Mapping[str, Recipe], attributes: Sequence[str]) -> list[str]:
    """The columns that must be numeric, because they are cut or compared by size and are not attributes."""
    return [c for c in sized_columns(recipes) if c not in attributes or c in recipes]


def sized_columns(recipes: Mapping[str, Recipe]) -> list[str]:
    """The columns that are cut or compared by size."""
    return list(dict.fromkeys(column for how in recipes.values() for column in how.sized))


def fitting_values(
    name: str,
    recipe: Recipe | None,
    columns: Columns,
    counted: BoolArray | None,
    *,
    seen: str = "",
    as_levels: bool = False,
) -> tuple[list[Any], Any]:
    """Like `attribute_values` for the rows in `counted`; refuses dates, identifiers and measurements.

    `seen` describes the rows in the error, if they are only some of all rows; `as_levels` takes any numbers
    for codes.
    """
    if recipe is None:
        refuse_dates(name, temporal=_temporal(columns[name]))
    elif isinstance(recipe, Where):
        for test in tests_of(recipe.condition):
            if test.op == "holds":
                refuse_dates(test.column, temporal=_temporal(columns[test.column]))
                if not {level_key(one) for one in distinct(columns[test.column])[0]} <= {*TRUTHS, None}:
                    raise no_condition(titled(test, name))
    found, codes = attribute_values(name, recipe, columns)
    codes = codes if counted is None else codes[counted]
    if recipe is None:
        some = found
        if len(found) > MAX_NUMERIC_LEVELS:
            present = np.bincount(codes + 1, minlength=len(found) + 1)[1:] > 0
            some = [value for value, occurs in zip(found, present) if occurs]
        refuse_many(some, name, seen, as_levels=as_levels)
    return found, codes


def titled(test: ColumnTest, title: str) -> Column:
    """What errors call the column of a test."""
    return Column(test.column, f"condition {title!r}: column {test.column!r}")


def no_condition(name: str) -> InputError:
    """The error for a column used by itself as a condition that has not only truth values."""
    problem = f"{name} is used by itself but does not contain only true and false"
    return InputError(problem, argument=name, next_step="Compare it with a value, such as column = 1")


def _temporal(column: Any) -> bool:
    return not isinstance(column, np.ndarray) and bool(pa.types.is_temporal(held_type(column.type)))


def attribute_values(name: str, recipe: Recipe | None, columns: Columns) -> tuple[list[Any], Any]:
    """The distinct values of an attribute, and the index of each row's value (-1 if missing)."""
    if recipe is None:
        return _distinct(columns[name])
    if isinstance(recipe, Ranges):
        values = floats(columns[recipe.column], Column(recipe.column, f"cuts: column {recipe.column!r}"))
        codes = np.searchsorted(recipe.points, values, side="right").astype(np.int32)
        codes[np.isnan(values)] = -1
        return recipe.labels, codes
    return [False, True], evaluate(recipe.condition, columns, name).astype(np.int8)


def _distinct(column: Any) -> tuple[list[Any], Any]:
    if not isinstance(column, np.ndarray) and is_record(column.type):
        raise InputError(RECORDS, argument="sensitive_features")
    return distinct(column)


def evaluate(condition: Condition, columns: Columns, title: str) -> BoolArray:
    """Which rows meet a condition. A missing value only passes the test "is missing"."""
    return np.asarray(
        combined(condition, lambda test: _test(test, columns[test.column], titled(test, title)))
    )


def combined(condition: Condition, test: Callable[[ColumnTest], Any]) -> Any:
    """A condition of arrays or expressions, from what `test` makes of each test of a column."""
    if isinstance(condition, ColumnTest):
        return test(condition)
    if isinstance(condition, Not):
        return ~combined(condition.part, test)
    return joined([combined(part, test) for part in condition.parts], and_ if condition.op == "and" else or_)


def joined(parts: Sequence[Any], join: Callable[[Any, Any], Any]) -> Any:
    """Join several expressions in pairs, because engines refuse expressions that are nested too deeply."""
    half = len(parts) // 2
    return join(joined(parts[:half], join), joined(parts[half:], join)) if half else parts[0]


def _test(test: ColumnTest, column: Any, name: str) -> BoolArray:
    if test.op in COMPARE:
        return np.asarray(COMPARE[test.op](floats(column, name), float(test.values[0])), dtype=np.bool_)
    missing = test.op == "missing"
    if not missing:
        refuse_dates(test.column, temporal=_temporal(column))
    values, codes = _distinct(column)
    keys = [level_key(value) for value in values]
    wanted = {None} if missing else wanted_keys(test)
    passes = [(key in wanted) != (test.op == "!=") and (missing or key is not None) for key in keys]
    return np.asarray(np.array([*passes, missing])[codes])  # code -1 (missing) looks up the last entry

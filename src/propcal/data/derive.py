"""Computes attributes from columns of data: the values themselves, ranges of numbers, or a condition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from propcal.core.grid import BoolArray, FloatArray
from propcal.core.groups.conditions import ColumnTest, Condition, Not, tests_of
from propcal.core.groups.recipes import Ranges, Recipe, Where
from propcal.data.levels import (
    DATES,
    LIMIT,
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

Columns = dict[str, Any]  # name -> pyarrow array, or numpy array of objects of mixed kinds
RECODE = "Convert it, for example with astype(float)"
TOP_CODED = 'are limits such as "> 89" (top-coded ages): recode them, for example to 90'
COMPARE = {"<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal}


def numeric_columns(recipes: Mapping[str, Recipe], attributes: Sequence[str]) -> list[str]:
    """The columns that must be numeric, because they are cut or compared by size and are not attributes."""
    return [c for c in sized_columns(recipes) if c not in attributes or c in recipes]


def sized_columns(recipes: Mapping[str, Recipe]) -> list[str]:
    """The columns that are cut or compared by size."""
    found: list[str] = []
    for recipe in recipes.values():
        if isinstance(recipe, Ranges):
            found.append(recipe.column)
        else:
            found += numeric_tests(recipe)
    return list(dict.fromkeys(found))


def numeric_tests(recipe: Where) -> list[str]:
    """The columns that a condition compares by size."""
    return [test.column for test in tests_of(recipe.condition) if test.op in COMPARE]


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
        _refuse_no_truths(recipe, columns, name)
    found, codes = attribute_values(name, recipe, columns)
    codes = codes if counted is None else codes[counted]
    if recipe is None and len(found) > MAX_NUMERIC_LEVELS:
        present = np.bincount(codes + 1, minlength=len(found) + 1)[1:] > 0
        some = [value for value, occurs in zip(found, present) if occurs]
        refuse_many(some, name, seen, as_levels=as_levels)
    elif recipe is None:
        refuse_many(found, name, seen, as_levels=as_levels)
    return found, codes


def refuse_records(column: Any) -> None:
    """Refuse columns of lists or records."""
    if not isinstance(column, np.ndarray) and is_record(column.type):
        raise InputError(RECORDS, argument="sensitive_features")


def is_record(kind: Any) -> bool:
    """Whether an Arrow type holds lists or records, also as a dictionary."""
    return bool(pa.types.is_nested(_held(kind)))


def _held(kind: Any) -> Any:
    """The type of the values, also of a dictionary's."""
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _temporal(column: Any) -> bool:
    return not isinstance(column, np.ndarray) and bool(pa.types.is_temporal(_held(column.type)))


def _refuse_no_truths(recipe: Where, columns: Columns, title: str) -> None:
    """Refuse a column used by itself as a condition, unless it has only truth values."""
    for test in tests_of(recipe.condition):
        if test.op != "holds":
            continue
        refuse_dates(test.column, temporal=_temporal(columns[test.column]))
        keys = {level_key(value) for value in distinct(columns[test.column])[0]}
        if not keys <= {*TRUTHS, None}:
            name = Column(test.column, f"condition {title!r}: column {test.column!r}")
            raise InputError(
                f"{name} is used by itself but does not contain only true and false",
                argument=name,
                next_step="Compare it with a value, such as column = 1",
            )


def attribute_values(name: str, recipe: Recipe | None, columns: Columns) -> tuple[list[Any], Any]:
    """The distinct values of an attribute, and the index of each row's value (-1 if missing)."""
    if recipe is None:
        refuse_records(columns[name])
        return distinct(columns[name])
    if isinstance(recipe, Ranges):
        values = floats(columns[recipe.column], Column(recipe.column, f"cuts: column {recipe.column!r}"))
        codes = np.searchsorted(recipe.points, values, side="right").astype(np.int32)
        codes[np.isnan(values)] = -1
        return recipe.labels, codes
    return [False, True], evaluate(recipe.condition, columns, name).astype(np.int8)


def floats(column: Any, name: str, hint: str | None = None) -> FloatArray:
    """A column of any numeric type as float64; missing values become NaN."""
    if isinstance(column, np.ndarray):
        raise InputError(f"{name} must contain only numbers; it has values of several types", argument=name)
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    kind = column.type
    if pa.types.is_null(kind):
        return np.full(len(column), np.nan)
    if pa.types.is_boolean(kind):
        column = column.cast(pa.int8())
    elif not (pa.types.is_floating(kind) or pa.types.is_integer(kind) or pa.types.is_decimal(kind)):
        text = "string" in str(kind) and not is_record(kind)
        limits = _limits(column) if text else 0
        what = "text" if text else DATES if pa.types.is_temporal(kind) else str(kind)
        raise InputError(
            f"{name} must be numeric; all {len(column):,} values are {what}",
            argument=name,
            next_step=f"{limits:,} of them {TOP_CODED}" if limits else hint,
            between=". ",
        )
    if pa.types.is_decimal(kind):  # via text, because a direct cast depends on the other values in the batch
        column = column.cast(pa.string())
    return np.asarray(column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False))


def _limits(column: Any) -> int:
    """How many texts are limits such as > 89."""
    matches = pc.match_substring_regex(column, f"^\\s*({LIMIT})\\s*$")
    return int(pc.sum(matches).as_py() or 0)


def evaluate(condition: Condition, columns: Columns, title: str) -> BoolArray:
    """Which rows meet a condition. A missing value only passes the test "is missing"."""
    if isinstance(condition, ColumnTest):
        return _test(
            condition, columns, Column(condition.column, f"condition {title!r}: column {condition.column!r}")
        )
    if isinstance(condition, Not):
        return ~evaluate(condition.part, columns, title)
    parts = [evaluate(part, columns, title) for part in condition.parts]
    return np.asarray(np.all(parts, axis=0) if condition.op == "and" else np.any(parts, axis=0))


def _test(test: ColumnTest, columns: Columns, name: str) -> BoolArray:
    column = columns[test.column]
    if test.op in COMPARE:
        found = COMPARE[test.op](floats(column, name), float(test.values[0]))
        return np.asarray(found, dtype=np.bool_)
    if test.op != "missing":
        refuse_dates(test.column, temporal=_temporal(column))
    refuse_records(column)
    values, codes = distinct(column)
    keys = [level_key(value) for value in values]
    wanted = wanted_keys(test)
    if test.op == "holds":
        wanted = {"true"}
    if test.op == "!=":
        passes = [key is not None and key not in wanted for key in keys]
    elif test.op == "missing":
        passes = [key is None for key in keys]
    else:
        passes = [key in wanted for key in keys]
    lookup = np.array([*passes, test.op == "missing"])  # code -1 (missing) looks up the last entry
    return np.asarray(lookup[codes])

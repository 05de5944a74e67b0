"""Attributes from columns: as they are, cut into ranges, or by a condition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from propcal.core.grid import BoolArray, FloatArray
from propcal.core.groups.conditions import ColumnTest, Condition, Not, is_numeric, tests_of
from propcal.core.groups.recipes import Ranges, Recipe
from propcal.data.levels import MAX_NUMERIC_LEVELS, distinct, level_key, refuse_dates, refuse_many
from propcal.errors import Column, InputError

Columns = dict[str, Any]  # name -> pyarrow array, or numpy array of objects of mixed kinds
RECODE = "An outcome is recoded by (y == 'its label'), a score by astype(float)"
COMPARE = {"<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal}


def numeric_columns(recipes: Mapping[str, Recipe], attributes: Sequence[str]) -> list[str]:
    """The columns that are read as numbers: cut or compared by size, and no levels themselves."""
    found: list[str] = []
    for recipe in recipes.values():
        if isinstance(recipe, Ranges):
            found.append(recipe.column)
        else:
            found += [test.column for test in tests_of(recipe.condition) if test.op in COMPARE]
    return [c for c in dict.fromkeys(found) if c not in attributes or c in recipes]


def fitting_values(
    name: str, recipe: Recipe | None, columns: Columns, counted: BoolArray | None, *, seen: str = ""
) -> tuple[list[Any], Any]:
    """As `attribute_values`, of the rows that count; refuses dates, identifiers and measurements.

    `seen` says of which rows this is all, for the error.
    """
    if recipe is None:
        refuse_dates(name, temporal=_temporal(columns[name]))
    found, codes = attribute_values(name, recipe, columns)
    codes = codes if counted is None else codes[counted]
    if recipe is None and len(found) > MAX_NUMERIC_LEVELS:
        present = np.bincount(codes + 1, minlength=len(found) + 1)[1:] > 0
        refuse_many([value for value, occurs in zip(found, present) if occurs], name, seen)
    elif recipe is None:
        refuse_many(found, name, seen)
    return found, codes


def _temporal(column: Any) -> bool:
    return not isinstance(column, np.ndarray) and bool(pa.types.is_temporal(column.type))


def attribute_values(name: str, recipe: Recipe | None, columns: Columns) -> tuple[list[Any], Any]:
    """The different values of an attribute, and for each row which it has (-1: missing)."""
    if recipe is None:
        return distinct(columns[name])
    if isinstance(recipe, Ranges):
        values = floats(columns[recipe.column], Column(recipe.column, f"cuts: column {recipe.column!r}"))
        codes = np.searchsorted(recipe.points, values, side="right").astype(np.int32)
        codes[np.isnan(values)] = -1
        return recipe.labels, codes
    return [False, True], evaluate(recipe.condition, columns, name).astype(np.int8)


def floats(column: Any, name: str, hint: str | None = None) -> FloatArray:
    """A column of any kind of number as float64; missing values become NaN."""
    if isinstance(column, np.ndarray):
        raise InputError(f"{name} must hold numbers; it holds values of several kinds", argument=name)
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    kind = column.type
    if pa.types.is_null(kind):
        return np.full(len(column), np.nan)
    if pa.types.is_boolean(kind):
        column = column.cast(pa.int8())
    elif not (pa.types.is_floating(kind) or pa.types.is_integer(kind) or pa.types.is_decimal(kind)):
        what = "text" if "string" in str(kind) else str(kind)
        raise InputError(
            f"{name} must hold numbers; all {len(column):,} values are {what}.",
            argument=name,
            next_step=hint,
            between=" ",
        )
    return np.asarray(column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False))


def evaluate(condition: Condition, columns: Columns, title: str) -> BoolArray:
    """Who meets a condition. A missing value passes no test but "is missing"."""
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
    values, codes = distinct(column)
    keys = [level_key(value) for value in values]
    wanted = _wanted(test, column)
    if test.op == "holds":
        if not {*keys} <= {"true", "false", None}:
            raise InputError(
                f"{name} alone must hold truth values", argument=name, next_step="compare it with something"
            )
        wanted = {"true"}
    if test.op == "!=":
        passes = [key is not None and key not in wanted for key in keys]
    elif test.op == "missing":
        passes = [key is None for key in keys]
    else:
        passes = [key in wanted for key in keys]
    lookup = np.array([*passes, test.op == "missing"])  # code -1, a missing value, finds the last entry
    return np.asarray(lookup[codes])


def _wanted(test: ColumnTest, column: Any) -> set[str | None]:
    """Keys of the values of a test: as text, and as numbers in the column's own precision.

    They depend on the type of the column and not on the other rows: a person is in the same groups
    alone and in a batch.
    """
    kind = None if isinstance(column, np.ndarray) else column.type
    kind = kind.value_type if kind is not None and pa.types.is_dictionary(kind) else kind
    single = kind is not None and pa.types.is_float32(kind)
    wanted: set[str | None] = set(test.values)
    texts = kind is not None and "string" in str(kind)
    for value in filter(is_numeric, test.values):
        whole = value.lstrip("-").isdigit()
        number = int(value) if whole else float(np.float32(value)) if single else float(value)
        if not texts:  # among texts, 02139 is not 2139
            wanted.add(level_key(number))
        if number in (0, 1):
            wanted.add("true" if number else "false")
    return wanted

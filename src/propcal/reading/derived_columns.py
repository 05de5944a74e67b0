"""Computes what atoms need from columns: attributes (values, ranges, conditions),
scores and outcomes.

With numpy for rows in memory, and as expressions of narwhals, written once for all
engines. Expressions only use operations that behave the same everywhere. Engines
disagree on NaN (DuckDB, Spark and polars sort it above every number, pandas treats it
as missing), on rounding halves, on casts of values out of range and on ``if`` with an
unknown condition. Therefore every test checks for missing values first, halves are
rounded by ``floor(x + 0.5)``, and no value is cast before it is known to be in range.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import inf, isfinite
from operator import and_, ge, gt, le, lt, or_
from typing import Any

import numpy as np

from propcal.core.conditions import (
    ColumnTest,
    Condition,
    Not,
    Ranges,
    Recipe,
    Where,
    tests_of,
)
from propcal.core.grid import BoolArray
from propcal.errors import Column, InputError, refused
from propcal.extras import Later
from propcal.reading import levels
from propcal.reading.frames import Columns, floats, held_type, is_record
from propcal.reading.role_columns import (
    LARGEST_WEIGHT,
    Trouble,
    inside,
    sound,
    troubles,
)

pa: Any = Later("pyarrow")
nw: Any = Later("narwhals.stable.v2")
COMPARE: dict[str, Callable[[Any, Any], Any]] = {"<": lt, "<=": le, ">": gt, ">=": ge}


def numeric_columns(
    recipes: Mapping[str, Recipe], attributes: Sequence[str]
) -> list[str]:
    """The columns that must be numeric, because they are cut or compared by size and
    are not attributes.
    """
    return [c for c in sized_columns(recipes) if c not in attributes or c in recipes]


def sized_columns(recipes: Mapping[str, Recipe]) -> list[str]:
    """The columns that are cut or compared by size."""
    return list(
        dict.fromkeys(column for how in recipes.values() for column in how.sized)
    )


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
        for test in tests_of(recipe.condition):
            if test.op == "holds":
                levels.refuse_dates(
                    test.column, temporal=_temporal(columns[test.column])
                )
                held, _ = levels.distinct(columns[test.column])
                if not {*map(levels.level_key, held)} <= {*levels.TRUTHS, None}:
                    raise refused("no truths", name=titled(test, name))
    found, codes = attribute_values(name, recipe, columns)
    codes = codes if counted is None else codes[counted]
    if recipe is None:
        some = found
        if len(found) > levels.MAX_NUMERIC_LEVELS:
            present = np.bincount(codes + 1, minlength=len(found) + 1)[1:] > 0
            some = [value for value, occurs in zip(found, present) if occurs]
        levels.refuse_many(some, name, seen, as_levels=as_levels)
    return found, codes


def titled(test: ColumnTest, title: str) -> Column:
    """What errors call the column of a test."""
    return Column(test.column, f"condition {title!r}: column {test.column!r}")


def _temporal(column: Any) -> bool:
    return not isinstance(column, np.ndarray) and bool(
        pa.types.is_temporal(held_type(column.type))
    )


def attribute_values(
    name: str, recipe: Recipe | None, columns: Columns
) -> tuple[list[Any], Any]:
    """The distinct values of an attribute, and the index of each row's value (-1 if
    missing).
    """
    if recipe is None:
        return _distinct(columns[name], name)
    if isinstance(recipe, Ranges):
        values = floats(
            columns[recipe.column],
            Column(recipe.column, f"cuts: column {recipe.column!r}"),
        )
        codes = np.searchsorted(recipe.points, values, side="right").astype(np.int32)
        codes[np.isnan(values)] = -1
        return recipe.labels, codes
    return [False, True], evaluate(recipe.condition, columns, name).astype(np.int8)


def _distinct(column: Any, name: str) -> tuple[list[Any], Any]:
    if not isinstance(column, np.ndarray) and is_record(column.type):
        raise refused("records", name=name)
    return levels.distinct(column, name)


def evaluate(condition: Condition, columns: Columns, title: str) -> BoolArray:
    """Which rows meet a condition. A missing value only passes the test "is
    missing".
    """
    return np.asarray(
        combined(
            condition,
            lambda test: _test(test, columns[test.column], titled(test, title)),
        )
    )


def combined(condition: Condition, test: Callable[[ColumnTest], Any]) -> Any:
    """A condition of arrays or expressions, from what `test` makes of each test of a
    column.
    """
    if isinstance(condition, ColumnTest):
        return test(condition)
    if isinstance(condition, Not):
        return ~combined(condition.part, test)
    return joined(
        [combined(part, test) for part in condition.parts],
        and_ if condition.op == "and" else or_,
    )


def joined(parts: Sequence[Any], join: Callable[[Any, Any], Any]) -> Any:
    """Join several expressions in pairs, because engines refuse expressions that are
    nested too deeply.
    """
    half = len(parts) // 2
    if half:
        return join(joined(parts[:half], join), joined(parts[half:], join))
    return parts[0]


def _test(test: ColumnTest, column: Any, name: str) -> BoolArray:
    if test.op in COMPARE:
        return np.asarray(
            COMPARE[test.op](floats(column, name), float(test.values[0])),
            dtype=np.bool_,
        )
    missing = test.op == "missing"
    if not missing:
        levels.refuse_dates(test.column, temporal=_temporal(column))
    values, codes = _distinct(column, test.column)
    keys = [levels.level_key(value) for value in values]
    wanted = {None} if missing else levels.wanted_keys(test)
    passes = [
        (key in wanted) != (test.op == "!=") and (missing or key is not None)
        for key in keys
    ]
    return np.asarray(
        np.array([*passes, missing])[codes]
    )  # code -1 (missing) looks up the last entry


Expr = Any


def is_text(kind: Any) -> bool:
    """Whether a column has a text type."""
    return kind in (nw.String, nw.Categorical, nw.Enum)


def refuse_no_number(kind: Any, name: str, hint: str | None = None) -> None:
    """Refuse a column that must be numeric (or truth values) but is not."""
    if not (kind.is_numeric() or kind == nw.Boolean):
        if is_text(kind):
            what = "text"
        elif kind.is_temporal():
            what = levels.DATES
        else:
            what = str(kind)
        problem = f"{name} must be numeric; all values are {what}."
        raise InputError(problem, argument=name, next_step=hint, between=" ")


def number(column: str, kind: Any) -> Expr:
    """A column as float64; truth values become 0 or 1."""
    value = nw.col(column)
    if kind == nw.Decimal:  # via text, which all engines read the same way
        value = value.cast(nw.String)
    return value if kind == nw.Float64 else value.cast(nw.Float64)


def absent(value: Expr) -> Expr:
    """Whether a float64 is missing: null or NaN."""
    return value.is_null() | value.is_nan()


def null(value: Expr) -> Expr:
    """Whether a value is null. That suffices where a number must be in a range: NaN is
    in none.
    """
    return value.is_null()


def either(condition: Expr, then: Expr | float, otherwise: Expr | float) -> Expr:
    """One value or the other; the condition must not be null."""
    first, other = (
        nw.lit(one) if isinstance(one, (int, float)) else one
        for one in (then, otherwise)
    )
    return nw.when(condition).then(first).otherwise(other)


def first_of(cases: Sequence[tuple[Expr, float]], otherwise: float) -> Expr:
    """The value of the first case that applies."""
    chosen: Expr = nw.lit(float(otherwise))
    for condition, value in reversed(cases):
        chosen = either(condition, float(value), chosen)
    return chosen


def key(bits: int, *, weighted: bool, drop_missing: bool) -> Expr:
    """The score ``s`` on the grid, as float64, if ``s``, ``y`` (and ``w``) are valid;
    else the `Trouble`.
    """
    s = nw.col("s")
    y = nw.col("y")
    w = nw.col("w") if weighted else None
    units = (s * float(1 << bits) + 0.5).floor()
    cases = troubles(
        s, y, w, absent, lambda value: value.floor(), drop_missing=drop_missing
    )
    return either(sound(s, y, w, null), units, first_of(cases, Trouble.SCORE_NEAR))


def outcome_units(unit: int) -> Expr:
    """The outcome ``y`` as an integer in units of 1 / unit; 0 if it is invalid."""
    y = nw.col("y")
    units = y if unit == 1 else (y * float(unit) + 0.5).floor()
    return either(inside(y, null), units, 0.0).cast(nw.Int64)


def soft() -> Expr:
    """1 if the outcome lies strictly between 0 and 1."""
    y = nw.col("y")
    return either(~y.is_null() & (y > 0) & (y < 1), 1.0, 0.0)


def weight_products(unit: int) -> dict[str, Expr]:
    """The products with a weight ``w`` that are summed, given the outcome in units,
    ``outcome``.
    """
    w = nw.col("w")
    w = either(~w.is_null() & (w > 0) & (w <= LARGEST_WEIGHT), w, 0.0)
    y = nw.col("outcome") * (1.0 / unit)  # exact, because unit is a power of two
    return {
        "w": w,
        "ww": w * w,
        "wy": w * y,
        "wwy": w * w * y,
        "parts": either(w == w.floor(), 0.0, 1.0),
    }


def range_code(recipe: Ranges, kind: Any) -> Expr:
    """The range that a number is in, counted from 0; -1 if it is missing."""
    refuse_no_number(kind, Column(recipe.column, f"cuts: column {recipe.column!r}"))
    value = number(recipe.column, kind)
    present = ~absent(value)
    code = either(present, 0.0, -1.0)
    for place, point in enumerate(recipe.points, start=1):
        code = either(present & (value >= point), float(place), code)
    return code.cast(nw.Int64)


def condition_expression(
    condition: Condition,
    title: str,
    kinds: Mapping[str, Any],
    only_truths: Callable[[str], bool],
) -> Expr:
    """Which rows meet a condition; never null. A missing value only passes the test "is
    missing".

    `kinds` has the type of each column. `only_truths` says whether a text column
    contains only "true" and "false", so that it can be a condition by itself; it reads
    the data, so it is only called when needed.
    """

    def expression(test: ColumnTest) -> Expr:
        kind = kinds[test.column]
        name = titled(test, title)
        if test.op in COMPARE:
            refuse_no_number(kind, name)
            value = number(test.column, kind)
            return ~absent(value) & COMPARE[test.op](value, float(test.values[0]))
        if kind.is_float():
            missing = absent(number(test.column, kind))
        else:
            missing = nw.col(test.column).is_null()
        if test.op == "missing":
            return missing
        levels.refuse_dates(test.column, temporal=kind.is_temporal())
        if kind == nw.Binary:
            raise refused("column of bytes", name=name)
        if test.op == "holds" and not (
            kind == nw.Boolean or (is_text(kind) and only_truths(test.column))
        ):
            raise refused("no truths", name=name)
        found = _found(test, kind)
        return ~missing & ~found if test.op == "!=" else ~missing & found

    return combined(condition, expression)


def _found(test: ColumnTest, kind: Any) -> Expr:
    """Whether a value is one of those wanted; undefined for missing values."""
    column = nw.col(test.column)
    wanted = levels.wanted_keys(test)
    if kind == nw.Boolean:
        passes = [column] if "true" in wanted else []
        return _any([*passes, *([~column] if "false" in wanted else [])], column)
    if kind.is_numeric() and test.op != "holds":
        value = number(test.column, kind) if kind == nw.Decimal else column
        return _any([value == one for one in _numbers(kind, wanted)], column)
    text = column if kind == nw.String else column.cast(nw.String)
    spelled = sorted(
        key for key in wanted if key in levels.TRUTHS or levels.DECIMAL.fullmatch(key)
    )
    plain = sorted(wanted.difference(spelled))
    if spelled:
        parts = [text.str.contains(levels.spellings(spelled))]
    else:
        parts = []
    return _any([*parts, *([text.is_in(plain)] if plain else [])], column)


def _any(parts: Sequence[Expr], column: Expr) -> Expr:
    """Whether any of the expressions holds; false if there are none."""
    if parts:
        return joined(parts, or_)
    return column.is_null() & ~column.is_null()


def _numbers(kind: Any, asked: Iterable[str]) -> list[Any]:
    """The wanted levels that a column of this numeric type can contain."""
    endless = {"inf": inf, "-inf": -inf}
    exact = [
        endless[value]
        if value in endless
        else int(value)
        if value.lstrip("-").isdigit()
        else float(value)
        for value in asked
        if levels.DECIMAL.fullmatch(value) or value in endless
    ]
    if kind.is_integer():
        whole = [
            int(value) for value in exact if isfinite(value) and value == int(value)
        ]
        return [value for value in whole if -(1 << 63) <= value < 1 << 63]
    if kind == nw.Float32:  # 0.1 means the nearest number of this precision
        return [float(np.float32(value)) for value in exact]
    return [float(value) for value in exact if float(value) == value]


def coded(column: Expr, values: Mapping[float, Sequence[Any]]) -> Expr:
    """A number for each of some values of a column; any other value is missing."""
    chosen: Expr = None
    for code, some in values.items():
        if some:
            holds = joined([column == value for value in some], or_)
            begun = nw.when(~column.is_null() & holds).then(nw.lit(code))
            chosen = begun if chosen is None else begun.otherwise(chosen)
    return nw.lit(None, nw.Float64) if chosen is None else chosen

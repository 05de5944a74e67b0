"""Scores, outcomes, weights and attributes as expressions that every engine computes.

The expressions are those of narwhals, for DuckDB, Spark, Dask and lazy polars. Each is
written once for all engines, with operations that behave the same everywhere.
Engines disagree on NaN (DuckDB, Spark and polars sort it above every number, pandas
treats it as missing), on rounding halves, on casts of values out of range and on ``if``
with an unknown condition. Therefore every test checks for missing values first, halves
are rounded by ``floor(x + 0.5)``, and no value is cast before it is known to be in
range.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import inf, isfinite
from operator import or_
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np

from propcal.core.conditions import (
    ColumnTest,
    Condition,
    Ranges,
    join_in_pairs,
    meets,
)
from propcal.errors import InputError, refused
from propcal.reading import levels
from propcal.reading.derived_columns import title_of_cuts, title_of_test
from propcal.reading.role_columns import (
    LARGEST_WEIGHT,
    Trouble,
    inside,
    sound,
    troubles,
)

Expr = Any
ENDLESS = {"inf": inf, "-inf": -inf}  # levels of numbers that are not finite


def is_text(kind: Any) -> bool:
    """Whether a column has a text type."""
    return kind in (nw.String, nw.Categorical, nw.Enum)


def refuse_no_number(kind: Any, name: str, hint: str | None = None) -> None:
    """Refuse a column that must be numeric (or truth values) but is not."""
    if kind.is_numeric() or kind == nw.Boolean:
        return
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
    return nw.when(condition).then(_literal(then)).otherwise(_literal(otherwise))


def _literal(value: Expr | float) -> Expr:
    return nw.lit(value) if isinstance(value, (int, float)) else value


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
    refuse_no_number(kind, title_of_cuts(recipe))
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
    """Which rows meet a condition, which errors call by its title; never null.

    `kinds` has the type of each column. `only_truths` says whether a text column
    contains only "true" and "false", so that it can be a condition by itself; it reads
    the data, so it is only called when needed.
    """

    def column_of(test: ColumnTest) -> _ExpressionTested:
        kind = kinds[test.column]
        return _ExpressionTested(test, kind, title_of_test(test, title), only_truths)

    return meets(condition, column_of)


class _ExpressionTested:
    """The column of a test, in an engine."""

    def __init__(
        self,
        test: ColumnTest,
        kind: Any,
        title: str,
        only_truths: Callable[[str], bool],
    ) -> None:
        self._test = test
        self._kind = kind
        self._title = title
        self._only_truths = only_truths
        self._column = nw.col(test.column)

    def missing(self) -> Expr:
        if self._kind.is_float():
            return absent(number(self._test.column, self._kind))
        return self._column.is_null()

    def compares(self, compare: Callable[[Any, Any], Any], limit: float) -> Expr:
        refuse_no_number(self._kind, self._title)
        value = number(self._test.column, self._kind)
        return ~absent(value) & compare(value, limit)

    def is_wanted(self) -> Expr:
        self._refuse_no_levels()
        wanted = levels.wanted_keys(self._test)
        if self._kind == nw.Boolean:
            cases = self._truths(wanted)
        elif self._kind.is_numeric() and self._test.op != "holds":
            cases = self._numbers(wanted)
        else:
            cases = self._texts(wanted)
        if not cases:  # false for every row
            return self._column.is_null() & ~self._column.is_null()
        return join_in_pairs(cases, or_)

    def _refuse_no_levels(self) -> None:
        kind = self._kind
        levels.refuse_dates(self._test.column, temporal=kind.is_temporal())
        if kind == nw.Binary:
            raise refused("column of bytes", name=self._title)
        if self._test.op != "holds" or kind == nw.Boolean:
            return
        if not is_text(kind) or not self._only_truths(self._test.column):
            raise refused("no truths", name=self._title)

    def _truths(self, wanted: set[str]) -> list[Expr]:
        cases = []
        if "true" in wanted:
            cases.append(self._column)
        if "false" in wanted:
            cases.append(~self._column)
        return cases

    def _numbers(self, wanted: set[str]) -> list[Expr]:
        value = self._column
        if self._kind == nw.Decimal:
            value = number(self._test.column, self._kind)
        return [value == level for level in _numbers_of_type(self._kind, wanted)]

    def _texts(self, wanted: set[str]) -> list[Expr]:
        text = self._column
        if self._kind != nw.String:
            text = text.cast(nw.String)
        many_spellings = {
            key
            for key in wanted
            if key in levels.TRUTHS or levels.DECIMAL.fullmatch(key)
        }
        cases = []
        if many_spellings:
            pattern = levels.spellings(sorted(many_spellings))
            cases.append(text.str.contains(pattern))
        if one_spelling := sorted(wanted - many_spellings):
            cases.append(text.is_in(one_spelling))
        return cases


def _numbers_of_type(kind: Any, wanted: Iterable[str]) -> list[Any]:
    """The wanted levels that a column of this numeric type can contain."""
    known = [_number_of_level(level) for level in wanted]
    values = [value for value in known if value is not None]
    if kind.is_integer():
        finite = [value for value in values if isfinite(value)]
        whole = [int(value) for value in finite if value == int(value)]
        return [value for value in whole if -(1 << 63) <= value < 1 << 63]
    if kind == nw.Float32:  # 0.1 means the nearest number of this precision
        return [float(np.float32(value)) for value in values]
    return [float(value) for value in values if float(value) == value]


def _number_of_level(level: str) -> int | float | None:
    """The number that a level is; None if it is a text."""
    if level in ENDLESS:
        return ENDLESS[level]
    if not levels.DECIMAL.fullmatch(level):
        return None
    if level.lstrip("-").isdigit():
        return int(level)
    return float(level)


def coded(column: Expr, values: Mapping[float, Sequence[Any]]) -> Expr:
    """A number for each of some values of a column; any other value is missing."""
    chosen: Expr = None
    for code, coded_values in values.items():
        if not coded_values:
            continue
        equal = join_in_pairs([column == value for value in coded_values], or_)
        case = nw.when(~column.is_null() & equal).then(nw.lit(code))
        chosen = case if chosen is None else case.otherwise(chosen)
    return nw.lit(None, nw.Float64) if chosen is None else chosen

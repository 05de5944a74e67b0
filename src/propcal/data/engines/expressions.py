"""The expressions that an engine computes for each row, written once in narwhals for all engines.

They only use operations that behave the same everywhere. Engines disagree on NaN (DuckDB, Spark and polars
sort it above every number, pandas treats it as missing), on rounding halves, on casts of values out of range
and on ``if`` with an unknown condition. Therefore every test checks for missing values first, halves are
rounded by ``floor(x + 0.5)``, and no value is cast before it is known to be in range.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import inf, isfinite
from operator import or_
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np

from propcal.core.groups.recipes import ColumnTest, Condition, Ranges
from propcal.data.checks import LARGEST_WEIGHT, Trouble, inside, sound, troubles
from propcal.data.derive import COMPARE, combined, joined, no_condition, titled
from propcal.data.levels import DATES, DECIMAL, TRUTHS, refuse_dates, spellings, wanted_keys
from propcal.errors import Column, InputError

Expr = Any


def is_text(kind: Any) -> bool:
    """Whether a column has a text type."""
    return kind in (nw.String, nw.Categorical, nw.Enum)


def refuse_no_number(kind: Any, name: str, hint: str | None = None) -> None:
    """Refuse a column that must be numeric (or truth values) but is not."""
    if not (kind.is_numeric() or kind == nw.Boolean):
        what = "text" if is_text(kind) else DATES if kind.is_temporal() else str(kind)
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
    """Whether a value is null. That suffices where a number must be in a range: NaN is in none."""
    return value.is_null()


def either(condition: Expr, then: Expr | float, otherwise: Expr | float) -> Expr:
    """One value or the other; the condition must not be null."""
    first, other = (nw.lit(one) if isinstance(one, (int, float)) else one for one in (then, otherwise))
    return nw.when(condition).then(first).otherwise(other)


def first_of(cases: Sequence[tuple[Expr, float]], otherwise: float) -> Expr:
    """The value of the first case that applies."""
    chosen: Expr = nw.lit(float(otherwise))
    for condition, value in reversed(cases):
        chosen = either(condition, float(value), chosen)
    return chosen


def key(bits: int, *, weighted: bool, drop_missing: bool) -> Expr:
    """The score ``s`` on the grid, as float64, if ``s``, ``y`` (and ``w``) are valid; else the `Trouble`."""
    s, y, w = nw.col("s"), nw.col("y"), nw.col("w") if weighted else None
    units = (s * float(1 << bits) + 0.5).floor()
    cases = troubles(s, y, w, absent, lambda value: value.floor(), drop_missing=drop_missing)
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
    """The products with a weight ``w`` that are summed, given the outcome in units, ``outcome``."""
    w = nw.col("w")
    w = either(~w.is_null() & (w > 0) & (w <= LARGEST_WEIGHT), w, 0.0)
    y = nw.col("outcome") * (1.0 / unit)  # exact, because unit is a power of two
    return {"w": w, "ww": w * w, "wy": w * y, "wwy": w * w * y, "parts": either(w == w.floor(), 0.0, 1.0)}


def range_code(recipe: Ranges, kind: Any) -> Expr:
    """The range that a number is in, counted from 0; -1 if it is missing."""
    refuse_no_number(kind, Column(recipe.column, f"cuts: column {recipe.column!r}"))
    value = number(recipe.column, kind)
    present = ~absent(value)
    code = either(present, 0.0, -1.0)
    for place, point in enumerate(recipe.points, start=1):
        code = either(present & (value >= point), float(place), code)
    return code.cast(nw.Int64)


class Conditions:
    """Conditions on the columns of one frame.

    Parameters
    ----------
    kinds : dict
        The type of each column.
    only_truths : callable
        Whether a text column contains only "true" and "false", so that it can be a condition by itself. This
        reads the data, so it is only called when needed.
    """

    def __init__(self, kinds: Mapping[str, Any], only_truths: Callable[[str], bool]) -> None:
        self.kinds = kinds
        self.only_truths = only_truths

    def expression(self, condition: Condition, title: str) -> Expr:
        """Which rows meet a condition; never null. A missing value only passes the test "is missing"."""
        return combined(condition, lambda test: self._test(test, titled(test, title)))

    def _test(self, test: ColumnTest, name: str) -> Expr:
        kind = self.kinds[test.column]
        if test.op in COMPARE:
            refuse_no_number(kind, name)
            value = number(test.column, kind)
            return ~absent(value) & COMPARE[test.op](value, float(test.values[0]))
        missing = absent(number(test.column, kind)) if kind.is_float() else nw.col(test.column).is_null()
        if test.op == "missing":
            return missing
        refuse_dates(test.column, temporal=kind.is_temporal())
        found = self._found(test, kind, name)
        return ~missing & ~found if test.op == "!=" else ~missing & found

    def _found(self, test: ColumnTest, kind: Any, name: str) -> Expr:
        """Whether a value is one of those wanted; undefined for missing values."""
        column = nw.col(test.column)
        wanted = wanted_keys(test)
        if kind == nw.Boolean:
            passes = [column] if "true" in wanted else []
            return _any([*passes, *([~column] if "false" in wanted else [])], column)
        if kind.is_numeric() and test.op != "holds":
            value = number(test.column, kind) if kind == nw.Decimal else column
            return _any([value == one for one in _numbers(kind, wanted)], column)
        if kind == nw.Binary:
            step = "Convert it to a text column"
            raise InputError(f"{name} contains bytes, not text", argument=name, next_step=step)
        text = column if kind == nw.String else column.cast(nw.String)
        if test.op == "holds" and not (is_text(kind) and self.only_truths(test.column)):
            raise no_condition(name)
        spelled = sorted(key for key in wanted if key in TRUTHS or DECIMAL.fullmatch(key))
        plain = sorted(wanted.difference(spelled))
        parts = [text.str.contains(spellings(spelled))] if spelled else []
        return _any([*parts, *([text.is_in(plain)] if plain else [])], column)


def _any(parts: Sequence[Expr], column: Expr) -> Expr:
    """Whether any of the expressions holds; false if there are none."""
    return joined(parts, or_) if parts else column.is_null() & ~column.is_null()


def _numbers(kind: Any, asked: Iterable[str]) -> list[Any]:
    """The wanted levels that a column of this numeric type can contain."""
    endless = {"inf": inf, "-inf": -inf}
    exact = [
        endless[value] if value in endless else int(value) if value.lstrip("-").isdigit() else float(value)
        for value in asked
        if DECIMAL.fullmatch(value) or value in endless
    ]
    if kind.is_integer():
        whole = [int(value) for value in exact if isfinite(value) and value == int(value)]
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

"""Expressions: what an engine computes for each row, written once in narwhals for all of them.

They are made of what behaves alike everywhere. Engines disagree on NaN (DuckDB, Spark and polars sort it
above every number, pandas takes it for missing), on rounding of halves, on casts of what is out of range
and on ``if`` with an unknown condition. So every test asks for missing values first, halves are rounded by
``floor(x + 0.5)``, and nothing is cast before it is known to be in range.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import inf, isfinite
from operator import and_, or_
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np

from propcal.core.grid import UNIT
from propcal.core.groups.conditions import ColumnTest, Condition, Not
from propcal.core.groups.recipes import Ranges
from propcal.data.checks import LARGEST_WEIGHT
from propcal.data.derive import wanted_keys
from propcal.data.engines.totals import Trouble
from propcal.data.levels import DECIMAL, TRUTHS, refuse_dates
from propcal.errors import Column, InputError

Expr = Any


def is_text(kind: Any) -> bool:
    """Whether a column holds text."""
    return kind in (nw.String, nw.Categorical, nw.Enum)


def refuse_no_number(kind: Any, name: str, hint: str | None = None) -> None:
    """A column that is compared, cut or added up must hold numbers or truth values."""
    if not (kind.is_numeric() or kind == nw.Boolean):
        what = "text" if is_text(kind) else str(kind)
        raise InputError(
            f"{name} must hold numbers; all values are {what}.", argument=name, next_step=hint, between=" "
        )


def number(column: str, kind: Any) -> Expr:
    """A column as float64; a truth value is 0 or 1."""
    value = nw.col(column)
    if kind == nw.Decimal:  # by its text, which every engine reads alike
        value = value.cast(nw.String)
    return value if kind == nw.Float64 else value.cast(nw.Float64)


def absent(value: Expr) -> Expr:
    """Whether a float64 is missing: null, or NaN."""
    return value.is_null() | value.is_nan()


def either(condition: Expr, then: Expr | float, otherwise: Expr | float) -> Expr:
    """One value or the other; the condition must be known."""
    first = nw.lit(then) if isinstance(then, (int, float)) else then
    return (
        nw.when(condition)
        .then(first)
        .otherwise(nw.lit(otherwise) if isinstance(otherwise, (int, float)) else otherwise)
    )


def first_of(cases: Sequence[tuple[Expr, float]], otherwise: float) -> Expr:
    """The value of the first case that applies."""
    chosen: Expr = nw.lit(float(otherwise))
    for condition, value in reversed(cases):
        chosen = either(condition, float(value), chosen)
    return chosen


def key(bits: int, *, weighted: bool) -> Expr:
    """The score ``s`` on the grid, as float64, if ``s``, ``y`` (and ``w``) are in order; else the trouble."""
    s, y, w = nw.col("s"), nw.col("y"), nw.col("w")
    troubles = [
        (absent(s), Trouble.SCORE_MISSING),
        ((s == inf) | (s == -inf), Trouble.SCORE_INFINITE),
        (s < -0.01, Trouble.SCORE_FAR_BELOW),
        (s < 0, Trouble.SCORE_BELOW),
        (s > 100, Trouble.SCORE_FAR_ABOVE),
        (s > 1.01, Trouble.SCORE_PERCENT),
        (s > 1, Trouble.SCORE_ABOVE),
        (absent(y), Trouble.OUTCOME_MISSING),
    ]
    good = inside(s) & inside(y)
    if weighted:
        troubles = [
            (absent(w), Trouble.WEIGHT_MISSING),
            ((w == inf) | (w == -inf), Trouble.WEIGHT_INFINITE),
            (w < 0, Trouble.WEIGHT_NEGATIVE),
            (w == 0, Trouble.WEIGHT_ZERO),
            (w > LARGEST_WEIGHT, Trouble.WEIGHT_TOO_LARGE),
            *troubles,
        ]
        good = good & counts(w)
    units = (s * float(1 << bits) + 0.5).floor()
    return either(good, units, first_of(troubles, Trouble.OUTCOME_OUTSIDE))


def inside(value: Expr) -> Expr:
    """Whether a number is there and from 0 to 1; NaN is not, wherever an engine sorts it."""
    return ~value.is_null() & (value >= 0) & (value <= 1)


def counts(weight: Expr) -> Expr:
    """Whether a weight is there, above 0 and small enough to be added up."""
    return ~weight.is_null() & (weight > 0) & (weight <= LARGEST_WEIGHT)


def outcome_units(unit: int) -> Expr:
    """The outcome ``y`` in parts of 1 / unit as a whole number; 0 where it is in no order."""
    y = nw.col("y")
    units = y if unit == 1 else (y * float(unit) + 0.5).floor()
    return either(inside(y), units, 0.0).cast(nw.Int64)


def soft() -> Expr:
    """1 if the outcome lies strictly between 0 and 1."""
    y = nw.col("y")
    return either(~y.is_null() & (y > 0) & (y < 1), 1.0, 0.0)


def weight_products(unit: int) -> dict[str, Expr]:
    """What is added up of a weight ``w``, given the outcome in units, ``outcome``."""
    w = either(counts(nw.col("w")), nw.col("w"), 0.0)
    y = nw.col("outcome") * (1.0 / unit)  # a power of two: exact
    return {"w": w, "ww": w * w, "wy": w * y, "wwy": w * w * y, "parts": either(w == w.floor(), 0.0, 1.0)}


def range_code(recipe: Ranges, kind: Any) -> Expr:
    """Which range a number is in, counted from 0; -1 if it is missing."""
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
        Says of a column of text whether nothing but "true" and "false" stands in it: then it may stand
        alone. The data decide; few conditions ask.
    """

    def __init__(self, kinds: Mapping[str, Any], only_truths: Callable[[str], bool]) -> None:
        self.kinds = kinds
        self.only_truths = only_truths

    def expression(self, condition: Condition, title: str) -> Expr:
        """Whom a condition holds for; never unknown. A missing value passes no test but "is missing"."""
        if isinstance(condition, ColumnTest):
            return self._test(
                condition, Column(condition.column, f"condition {title!r}: column {condition.column!r}")
            )
        if isinstance(condition, Not):
            return ~self.expression(condition.part, title)
        parts = [self.expression(part, title) for part in condition.parts]
        return _joined(parts, and_ if condition.op == "and" else or_)

    def _test(self, test: ColumnTest, name: str) -> Expr:
        kind = self.kinds[test.column]
        if test.op in ("<", "<=", ">", ">="):
            refuse_no_number(kind, name)
            return self._compared(test, kind)
        missing = self._missing(test.column, kind)
        if test.op == "missing":
            return missing
        refuse_dates(test.column, temporal=kind.is_temporal())
        found = self._found(test, kind, name)
        return ~missing & ~found if test.op == "!=" else ~missing & found

    def _compared(self, test: ColumnTest, kind: Any) -> Expr:
        value, limit = number(test.column, kind), float(test.values[0])
        sizes = {
            "<": value < limit,
            "<=": value <= limit,
            ">": value > limit,
            ">=": value >= limit,
        }
        return ~absent(value) & sizes[test.op]

    def _missing(self, column: str, kind: Any) -> Expr:
        return absent(number(column, kind)) if kind.is_float() else nw.col(column).is_null()

    def _found(self, test: ColumnTest, kind: Any, name: str) -> Expr:
        """Whether a value is one of those asked for; for a missing value, anything."""
        column = nw.col(test.column)
        wanted = {"true"} if test.op == "holds" else wanted_keys(test)
        if kind == nw.Boolean:
            passes = [column] if "true" in wanted else []
            return _any([*passes, *([~column] if "false" in wanted else [])], column)
        if kind.is_numeric() and test.op != "holds":
            value = number(test.column, kind) if kind == nw.Decimal else column
            return _any([value == one for one in _numbers(kind, wanted)], column)
        if kind == nw.Binary:
            raise InputError(f"{name} holds bytes", argument=name, next_step="make a column of text from it")
        text = column if kind == nw.String else column.cast(nw.String)
        if test.op == "holds" and not (is_text(kind) and self.only_truths(test.column)):
            raise InputError(
                f"{name} alone must hold truth values", argument=name, next_step="compare it with something"
            )
        spelled = sorted(key for key in wanted if key in TRUTHS or DECIMAL.fullmatch(key))
        plain = sorted(wanted.difference(spelled))
        parts = [text.str.contains(spellings(spelled))] if spelled else []
        return _any([*parts, *([text.is_in(plain)] if plain else [])], column)


def _any(parts: Sequence[Expr], column: Expr) -> Expr:
    """Whether one of some expressions holds; of none, never."""
    return _joined(parts, or_) if parts else column.is_null() & ~column.is_null()


def _joined(parts: Sequence[Expr], join: Callable[[Expr, Expr], Expr]) -> Expr:
    """Several expressions as one, joined two by two: engines refuse one that is nested too deeply."""
    half = len(parts) // 2
    return join(_joined(parts[:half], join), _joined(parts[half:], join)) if half else parts[0]


def spellings(keys: Iterable[str]) -> str:
    """Every way to spell some levels that are truth values or numbers, as a regular expression."""
    return f"^ *(?:{'|'.join(map(_spelling, keys))}) *$"


def _spelling(key: str) -> str:
    if key in TRUTHS:
        return "".join(f"[{letter}{letter.upper()}]" for letter in key)
    sign = "-?" if key == "0" else ""
    return sign + (key.replace(".", "[.]") + "0*" if "." in key else f"{key}(?:[.]0*)?")


def _numbers(kind: Any, asked: Iterable[str]) -> list[Any]:
    """Levels asked for that a column of this type of number can hold."""
    endless = {"inf": inf, "-inf": -inf}
    exact = [
        endless[value] if value in endless else int(value) if value.lstrip("-").isdigit() else float(value)
        for value in asked
        if DECIMAL.fullmatch(value) or value in endless
    ]
    if kind.is_integer():
        whole = [int(value) for value in exact if isfinite(value) and value == int(value)]
        return [value for value in whole if -(1 << 63) <= value < 1 << 63]
    if kind == nw.Float32:  # 0.1 means the number of that precision
        return [float(np.float32(value)) for value in exact]
    return [float(value) for value in exact if float(value) == value]


def outcome_unit(kind: Any) -> int:
    """Outcomes that are whole by their type are added up as they are, others in units of the grid."""
    return 1 if kind.is_integer() or kind == nw.Boolean else UNIT

"""Exact arithmetic: scores, bin edges and shifts are integers in units of 2**-32.

On this grid every addition, comparison and sum is exact in 64-bit integers, so that a
result does not depend on the order of the rows, on chunking or on the engine that
computed it. The logistic curve is a table on the grid, so that it is the same on every
machine.
"""

from __future__ import annotations

from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cache, cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]
# Sums of weights: integers for frequencies, floats for survey weights.
SumArray = npt.NDArray[np.int64] | npt.NDArray[np.float64]

UNIT = 1 << 32
# The most people (or frequency weights) whose scores can be added up without
# overflowing 64 bits.
MAX_PEOPLE = (1 << 31) - 1
# 64 values of the logistic curve per unit; at -22 it is one grid unit
TABLE_PER_UNIT = 64
TABLE_REACH = 22


def to_grid(values: FloatArray) -> IntArray:
    """Round to the nearest unit, halves upwards.

    >>> to_grid(np.array([0.0, 0.25, 1.0])).tolist()
    [0, 1073741824, 4294967296]
    """
    units = np.asarray(values, dtype=np.float64) * UNIT
    units += 0.5
    np.floor(units, out=units)
    return units.astype(np.int64)


def from_grid(units: IntArray) -> FloatArray:
    """Convert units back to floating point; exact, because 33 bits fit into 53."""
    return np.asarray(units / UNIT)


def run_sums(values: SumArray, starts: IntArray) -> SumArray:
    """Sums of consecutive runs; `starts` has the beginning of each, and the end of the
    last.

    Runs are added up one by one: differences of running sums would lose small weights
    after a large one.

    >>> run_sums(np.array([1e20, 1.0, 2.0]), np.array([0, 1, 1, 3])).tolist()
    [1e+20, 0.0, 3.0]
    """
    filled = np.flatnonzero(np.diff(starts))  # `reduceat` knows no empty runs
    sums: Any = np.zeros(len(starts) - 1, dtype=values[:0].sum().dtype)
    if len(filled):
        sums[filled] = np.add.reduceat(values, starts[filled])
    return np.asarray(sums)


def significant(score: IntArray, bits: int, *, decimals: int = 3) -> IntArray:
    """Keep so many binary digits of the risk, or of 1 minus the risk if that is
    smaller.

    Small risks thus keep their relative size. Scores of at most so many decimals stay
    as they are.

    >>> scores = to_grid(np.array([0.0001234567, 0.1, 0.345678]))
    >>> from_grid(significant(scores, 6)).round(7).tolist()
    [0.0001221, 0.1, 0.34375]
    """
    small = np.minimum(score, UNIT - score)
    _, n_digits = np.frexp(small.astype(np.float64))
    shift = np.maximum(n_digits.astype(np.int64) - bits, 0)
    half = (np.int64(1) << shift) >> 1
    rounded = ((small + half) >> shift) << shift
    coarse = np.where(score <= UNIT - score, rounded, UNIT - rounded)
    parts = 10**decimals
    nearest_decimal = (2 * parts * score + UNIT) // (2 * UNIT)
    in_units = (2 * UNIT * nearest_decimal + parts) // (2 * parts)
    return np.where(in_units == score, score, coarse)


def mix(values: Any) -> Any:
    """Scramble 64-bit numbers (the finaliser of splitmix64); overflow is intended."""
    with np.errstate(over="ignore"):
        values = values ^ (values >> np.uint64(30))
        values = values * np.uint64(0xBF58476D1CE4E5B9)
        values = values ^ (values >> np.uint64(27))
        values = values * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


@cache
def logistic_table() -> IntArray:
    """The logistic curve from -22 to 22 in units of the grid, computed with 40 decimal
    digits.
    """
    n = TABLE_PER_UNIT * TABLE_REACH
    with localcontext() as context:
        context.prec = 40
        step = (Decimal(1) / TABLE_PER_UNIT).exp()
        odds = Decimal(1)
        upper = [UNIT // 2]
        for _ in range(n):
            odds *= step
            value = UNIT * odds / (1 + odds)
            upper.append(int(value.to_integral_value()))
    lower = [UNIT - value for value in reversed(upper[1:])]
    return np.array(lower + upper, dtype=np.int64)


def exact_fraction(value: float) -> Fraction:
    """Read a parameter as the decimal that was typed: 0.1 is exactly one tenth, not the
    nearest float.
    """
    return Fraction(repr(float(value)))


class WithoutCaches:
    """Base class of objects with cached properties; a copy computes them again when
    needed.
    """

    def __getstate__(self) -> dict[str, Any]:
        state = {}
        for name, value in vars(self).items():
            if not isinstance(getattr(type(self), name, None), cached_property):
                state[name] = value
        return state


def ratio(top: Any, bottom: Any, nothing: float = float("nan")) -> FloatArray:
    """Quotients of arrays; `nothing` where the divisor is 0.

    >>> ratio(np.array([1, 0, 3]), np.array([2, 0, 4]))
    array([0.5 ,  nan, 0.75])
    >>> ratio(1.0, np.array([0.0, 4.0]), 0.0)
    array([0.  , 0.25])
    """
    shape = np.broadcast_shapes(np.shape(top), np.shape(bottom))
    quotient = np.full(shape, nothing)
    np.divide(top, bottom, out=quotient, where=np.asarray(bottom) > 0)
    return quotient

"""Exact arithmetic: scores, bin edges and shifts are integers in units of 2**-32. Also checks of parameters.

On this grid every addition, comparison and sum is exact in 64-bit integers, so that a result does
not depend on the order of the rows, on chunking or on the engine that computed it.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from propcal.errors import Argument, InputError, Text
from propcal.plain_text import shown

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]
# Sums of weights: integers for frequencies, floats for survey weights.
SumArray = npt.NDArray[np.int64] | npt.NDArray[np.float64]

UNIT = 1 << 32
# The most people (or frequency weights) whose scores can be added up without overflowing 64 bits.
MAX_PEOPLE = (1 << 31) - 1


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


def exact_fraction(value: float) -> Fraction:
    """Read a parameter as the decimal that was typed: 0.1 is exactly one tenth, not the nearest float."""
    return Fraction(repr(float(value)))


def check_number(
    name: str | Text,
    value: Any,
    *,
    above: float | None = None,
    at_least: float | None = None,
    at_most: float | None = None,
    whole: bool = False,
) -> None:
    """Refuse a parameter outside its range; the error states the range."""
    kinds: tuple[type, ...] = (int, np.integer) if whole else (int, float, np.integer, np.floating)
    limits = [
        f"{word} {limit:g}"
        for word, limit in (("above", above), ("at least", at_least), ("at most", at_most))
        if limit is not None
    ]
    fine = isinstance(value, kinds) and not isinstance(value, (bool, np.bool_))
    fine = fine and -math.inf < value < math.inf  # also false for NaN
    fine = fine and (above is None or value > above) and (at_least is None or value >= at_least)
    if not (fine and (at_most is None or value <= at_most)):
        wanted = "a whole number" if whole else "a number"
        if limits and not limits[0].startswith("above"):
            wanted += " of"
        # show only single values: anything larger could be people's data passed by mistake
        got = shown(value) if value is None or np.isscalar(value) else f"a {type(value).__name__}"
        raise InputError(_named(name) + f" must be {wanted} {' and '.join(limits)}; got {got}")


def check_choice(name: str | Text, value: Any, choices: tuple[Any, ...]) -> None:
    """Refuse a parameter that is not one of the choices; the error lists them."""
    if not any(value is choice or (isinstance(value, str) and value == choice) for choice in choices):
        listed = ", ".join(repr(choice) for choice in choices)
        got = shown(value) if value is None or np.isscalar(value) else f"a {type(value).__name__}"
        raise InputError(_named(name) + f" must be one of {listed}; got {got}")


def _named(name: str | Text) -> Text:
    """The name of the refused parameter as a mention; a longer text names a part of the parameter."""
    return name if isinstance(name, Text) else Text(Argument(name))

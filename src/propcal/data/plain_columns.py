"""Lists and numpy arrays of plain values as columns, with numpy alone.

Everything else (frames, series, dates, decimals, unusual types) goes through Arrow, which takes longer to
import than a few people take to score. A level depends on its cell alone, so both ways give the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import nan
from typing import Any

import numpy as np

from propcal.core.grid import FloatArray

MISSING = type(None)
NUMBERS = frozenset({float, int, MISSING, np.float64, np.int64, np.int32})
TRUTHS = frozenset({bool, MISSING, np.bool_})
PLAIN = NUMBERS | TRUTHS | {str, np.str_}
LARGEST = 1 << 53  # whole numbers up to here are the same in every type


def plain_columns(given: Any, wanted: Sequence[str]) -> dict[str, Any] | None:
    """The wanted columns of a mapping or an array; None if not all of them are plain."""
    columns = []
    if isinstance(given, Mapping) and len({*map(str, given)}) == len(given):
        named = {str(name): column for name, column in given.items()}
        columns = [named[name] for name in wanted if name in named]
    elif type(given) is np.ndarray and given.ndim in (1, 2):
        columns = [given] if given.ndim == 1 else list(given.T)
    found = {name: plain_column(column) for name, column in zip(wanted, columns)}
    return found if len(columns) == len(wanted) and all(c is not None for c in found.values()) else None


def plain_column(values: Any) -> Any:
    """One column as an array of numbers, or of objects with None for what is missing; None if not plain."""
    if isinstance(values, (list, tuple)):
        values = np.fromiter(values, dtype=object, count=len(values))
    if type(values) is not np.ndarray or values.ndim != 1:
        return None
    if values.dtype.kind in "iub" or values.dtype in (np.float64, np.float32):
        return values
    if values.dtype.kind == "U":
        values = values.astype(object)
    kinds = {*map(type, values)} if values.dtype.kind == "O" else {object}
    texts = values if kinds == {str} else [value for value in values if isinstance(value, str)]
    if not kinds <= PLAIN or not _is_unicode(texts):
        return None
    if kinds & {float, np.float64}:
        cleaned = [None if value != value else value for value in values]
        values = np.fromiter(cleaned, dtype=object, count=len(cleaned))
    return values


def plain_floats(values: Any) -> FloatArray | None:
    """Python objects that are all numbers, or all truth values, as float64; missing ones are NaN."""
    kinds = {*map(type, values)}
    if not (kinds <= NUMBERS or kinds <= TRUTHS):
        return None
    if int in kinds and any(type(value) is int and abs(value) > LARGEST for value in values):
        return None
    return np.array([nan if value is None else value for value in values], dtype=np.float64)


def _is_unicode(texts: Any) -> bool:
    """Whether no text has half of a surrogate pair."""
    try:
        "".join(texts).encode()
    except UnicodeEncodeError:
        return False
    return True

"""Levels: the values of an attribute as canonical text, so that 1, 1.0 and "1" are one level."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from propcal.core.patterns import Level, sort_levels
from propcal.errors import Argument, InputError

RECORDS = "sensitive_features holds lists or records; a group is one value for each person"
MAX_LEVELS = 200
MAX_NUMERIC_LEVELS = 20


def level_key(value: Any) -> Level:
    """Canonical text of a value; None if it is missing.

    >>> [level_key(v) for v in (1, 1.0, "1", True, Decimal("2.50"), float("nan"), None, "nan")]
    ['1', '1', '1', 'true', '2.5', None, None, 'nan']
    """
    if isinstance(value, str):
        return str(value)
    if value is None:
        return None
    if isinstance(value, (bool, np.bool_)):
        return "true" if value else "false"
    if isinstance(value, (int, np.integer)):
        return str(int(value))
    if isinstance(value, (float, np.floating, Decimal)):
        if value != value:
            return None
        if value % 1 == 0:
            return str(int(value))
        return format(value.normalize(), "f") if isinstance(value, Decimal) else str(value)
    if type(value).__name__ in ("NAType", "NaTType"):  # pandas' own missing values
        return None
    if type(value).__name__ == "Interval":  # of pandas.cut
        left, right = ("[" if value.closed_left else "("), ("]" if value.closed_right else ")")
        return f"{left}{level_key(value.left)}, {level_key(value.right)}{right}"
    return str(value)


def is_number(value: Any) -> bool:
    """Whether a value is a number (a truth value is not)."""
    return isinstance(value, (int, float, Decimal, np.number)) and not isinstance(value, (bool, np.bool_))


def distinct(values: Any) -> tuple[list[Any], Any]:
    """The different values of a column, and for each row which it has (-1: missing).

    `values` is a pyarrow array, or a numpy array of Python objects of mixed kinds.
    """
    if isinstance(values, np.ndarray):
        if any(isinstance(value, (list, dict, set, tuple, np.ndarray)) for value in values):
            raise InputError(RECORDS, argument="sensitive_features")
        places: dict[tuple[type, Any], int] = {}
        codes = [-1 if v is None else places.setdefault((type(v), v), len(places)) for v in values]
        return [value for _, value in places], np.array(codes, dtype=np.int32)
    if isinstance(values, pa.ChunkedArray):
        if pa.types.is_dictionary(values.type):
            values = values.unify_dictionaries()
        values = values.combine_chunks()
        if isinstance(values, pa.ChunkedArray):  # several chunks remain where offsets would overflow
            values = pa.chunked_array(values.chunks).cast(pa.large_string()).combine_chunks()
    if not pa.types.is_dictionary(values.type):
        values = values.dictionary_encode()
    indices = values.indices.cast(pa.int32())  # they may be unsigned
    indices = indices.fill_null(-1) if indices.null_count else indices
    return values.dictionary.to_pylist(), indices.to_numpy(zero_copy_only=False)


def encode(found: list[Any], codes: Any) -> tuple[tuple[Level, ...], Any]:
    """Sorted levels of an attribute, and the level of each row, from its `distinct` values."""
    keys = [level_key(value) for value in found]
    # missing values have code -1, the last entry of the lookup
    levels = sort_levels([*{*keys, None}] if np.any(codes < 0) else [*set(keys)])
    return levels, _lookup(keys, levels, absent=0)[codes]


def encode_known(found: list[Any], codes: Any, levels: tuple[Level, ...]) -> Any:
    """Place of each row's level among known ones; len(levels) for any other."""
    keys = [level_key(value) for value in found]
    return _lookup(keys, levels, absent=len(levels))[codes]


def _lookup(keys: list[Level], levels: tuple[Level, ...], *, absent: int) -> Any:
    places = {level: i for i, level in enumerate(levels)}
    found = [places.get(key, absent) for key in [*keys, None]]
    return np.array(found, dtype=np.int16 if len(levels) < 1 << 15 else np.int32)


def refuse_dates(name: str, *, temporal: bool) -> None:
    """Dates and times are no groups."""
    if temporal:
        raise InputError(
            f"attribute {name!r} holds dates or times",
            argument=name,
            next_step="make a column of periods from it, such as the year",
        )


def refuse_many(found: list[Any], name: str, seen: str = "") -> None:
    """Identifiers and measurements are no groups: say so by their number of values (in what was seen)."""
    within = f" in {seen}" if seen else ""
    cuts = Argument("cuts", name, written=f"Groups(cuts={{{name!r}: [...]}})")
    numbers = [value for value in found if is_number(value) and value == value]
    if numbers and len(numbers) == len([v for v in found if level_key(v) is not None]):
        if any(value % 1 != 0 for value in numbers):
            raise InputError(
                f"attribute {name!r} holds {len(numbers):,} different numbers{within}, not all of them whole",
                argument=name,
                next_step="give cut points, " + cuts,
            )
        if len(numbers) > MAX_NUMERIC_LEVELS:
            raise InputError(
                f"attribute {name!r} holds {len(numbers):,} different numbers{within}; up to "
                f"{MAX_NUMERIC_LEVELS} are taken as levels",
                argument=name,
                next_step="Give cut points, "
                + cuts
                + ", or name the columns that are groups, "
                + Argument("groups", written="Groups(columns=[...])")
                + "; if it is an identifier, leave it out",
            )
    if len(found) > MAX_LEVELS:
        raise InputError(
            f"attribute {name!r} has {len(found):,} different values{within}; at most {MAX_LEVELS} can be "
            "levels",
            argument=name,
            next_step="If it is an identifier, leave it out; otherwise merge its values",
        )

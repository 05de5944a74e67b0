"""Levels: the values of an attribute as canonical text, so that 1, 1.0 and "1" are one level.

One rule decides, cell by cell; neither the type of the column nor the other rows matter:

- True and the texts true, TRUE, True, ... are the level "true"; the same holds for "false".
- A number, and a text that spells one in decimals without leading zeros, is the level that spells it
  shortest: 1, 1.0, "1" and "1.00" are "1", and "007" stays the text it is.
- Bytes are the text that they encode in UTF-8.
- Everything else is its text. Spaces around a number or a truth value do not count.

Files, engines and SQL follow the same rule.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from propcal.core.patterns import Level, sort_levels
from propcal.errors import Argument, InputError

DATES = "dates or times"
RECORDS = "sensitive_features holds lists or records; a group is one value for each person"
TRUTHS = ("true", "false")
LIMIT = r"(<|>|<=|>=|≤|≥)\s*[0-9]+([.][0-9]*)?|[0-9]+([.][0-9]*)?\s*[+]"  # > 89, or 90+: not a number
DECIMAL = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]*)?")
MAX_LEVELS = 200
MOST_PLACES = 5_000  # of a number in decimals; 1E+1000000 is not written out
MAX_NUMERIC_LEVELS = 20


def level_key(value: Any) -> Level:
    """Canonical text of a value; None if it is missing.

    >>> [level_key(v) for v in (1, 1.0, "1", "1.00", True, "TRUE", Decimal("2.50"), b"A")]
    ['1', '1', '1', '1', 'true', 'true', '2.5', 'A']
    >>> [level_key(v) for v in (float("nan"), None, "nan", "007", " 7 ", "A ")]
    [None, None, 'nan', '007', '7', 'A ']
    """
    if isinstance(value, str):
        return text_key(str(value))
    if value is None:
        return None
    if isinstance(value, (bool, np.bool_)):
        return "true" if value else "false"
    if isinstance(value, (int, np.integer)):
        return str(int(value))
    if isinstance(value, (float, np.floating, Decimal)):
        exact = Decimal(str(value))  # as many digits as tell the number from its neighbours
        if exact.is_nan():
            return None
        if exact.is_infinite():
            return "inf" if exact > 0 else "-inf"
        far = max(abs(exact.adjusted()), -int(exact.as_tuple().exponent)) > MOST_PLACES
        return str(exact).lower() if far else _shortest(format(exact, "f"))
    if isinstance(value, (bytes, bytearray, memoryview)):
        return text_key(decoded(bytes(value)))
    if type(value).__name__ in ("NAType", "NaTType"):  # pandas' own missing values
        return None
    if type(value).__name__ == "Interval":  # of pandas.cut
        left, right = ("[" if value.closed_left else "("), ("]" if value.closed_right else ")")
        return f"{left}{level_key(value.left)}, {level_key(value.right)}{right}"
    return str(value)


def text_key(text: str) -> str:
    """The level of a text: what truth value or number it spells, or the text itself."""
    bare = text.strip(" ")
    if bare.lower() in TRUTHS:
        return bare.lower()
    return _shortest(bare) if DECIMAL.fullmatch(bare) else text


def _shortest(decimal: str) -> str:
    """A number in decimals without zeros at its end."""
    whole, _, rest = decimal.partition(".")
    rest = rest.rstrip("0")
    if rest:
        return f"{whole}.{rest}"
    return "0" if whole == "-0" else whole


def spellings(keys: Iterable[str]) -> str:
    """A regular expression for every spelling of some levels that are truth values or numbers."""
    return f"^ *(?:{'|'.join(map(_spelling, keys))}) *$"


def _spelling(key: str) -> str:
    if key in TRUTHS:
        return "".join(f"[{letter}{letter.upper()}]" for letter in key)
    sign = "-?" if key == "0" else ""
    return sign + (key.replace(".", "[.]") + "0*" if "." in key else f"{key}(?:[.]0*)?")


def decoded(value: bytes) -> str:
    """Bytes as the text that they encode."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise InputError(
            "an attribute holds bytes that are not UTF-8 text", next_step="make a column of text from it"
        ) from None


def is_number(value: Any) -> bool:
    """Whether a value is a number (a truth value is not)."""
    return isinstance(value, (int, float, Decimal, np.number)) and not isinstance(value, (bool, np.bool_))


def distinct(values: Any) -> tuple[list[Any], Any]:
    """The different values of a column, and for each row which it has (-1: missing).

    `values` is a pyarrow array, or a numpy array of Python objects of mixed kinds.
    """
    if not isinstance(values, np.ndarray) and pa.types.is_float16(values.type):  # not every Arrow codes them
        values = np.array([v if v is None else np.float16(v) for v in values.to_pylist()], dtype=object)
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
    found = values.dictionary
    if pa.types.is_floating(found.type):  # numpy's numbers know how many of their digits count
        return list(found.to_numpy(zero_copy_only=False)), indices.to_numpy(zero_copy_only=False)
    return found.to_pylist(), indices.to_numpy(zero_copy_only=False)


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
            f"attribute {name!r} holds {DATES}",
            argument=name,
            next_step="make a column of periods from it, such as the year",
        )


def refuse_many(found: list[Any], name: str, seen: str = "", *, as_levels: bool = False) -> None:
    """Refuse identifiers and measurements by their number of values (in what was seen)."""
    within = f" in {seen}" if seen else ""
    cuts = Argument("cuts", name, written=f"Groups(cuts={{{name!r}: [...]}})")
    keys = {level_key(value) for value in found} - {None}
    numbers = {level_key(value) for value in found if is_number(value)} - {None}
    if numbers and len(numbers) == len(keys) and not as_levels:
        if not all(str(number).lstrip("-").isdigit() for number in numbers):
            raise InputError(
                f"attribute {name!r} holds {len(numbers):,} different numbers{within}, not all of them whole",
                argument=name,
                next_step="give cut points, " + cuts,
            )
        if len(numbers) > MAX_NUMERIC_LEVELS:
            raise InputError(
                f"attribute {name!r} holds {len(numbers):,} different numbers{within}; up to "
                f"{MAX_NUMERIC_LEVELS} are taken as groups",
                argument=name,
                next_step="Give cut points, "
                + cuts
                + "; if the numbers are codes, ask for them as groups, "
                + Argument("as_levels", name, written=f"Groups(as_levels=[{name!r}])")
                + "; if it is an identifier, leave it out",
            )
    limits = {key for key in keys if key is not None and re.fullmatch(LIMIT, key.strip())}
    spelled = {key for key in keys if key is not None and DECIMAL.fullmatch(key)}
    if limits and len(spelled) > MAX_NUMERIC_LEVELS and keys == limits | spelled and not as_levels:
        raise InputError(
            f"attribute {name!r} holds {len(spelled):,} different numbers{within}, and limits such as "
            f'"> 89" (top-coded ages); up to {MAX_NUMERIC_LEVELS} numbers are taken as groups',
            argument=name,
            next_step="Recode the limits, for example to 90, and give cut points, " + cuts,
        )
    if len(keys) > MAX_LEVELS:
        raise InputError(
            f"attribute {name!r} has {len(keys):,} different values{within}; at most {MAX_LEVELS} can be "
            "levels",
            argument=name,
            next_step="If it is an identifier, leave it out; otherwise merge its values",
        )

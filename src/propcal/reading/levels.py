"""Levels: the values of an attribute as canonical text, so that 1, 1.0 and "1" are one
level.

One rule decides, cell by cell; neither the type of the column nor the other rows
matter:

- True and the texts true, TRUE, True, ... are the level "true"; the same holds for "false".
- A number, and a text that spells one in decimals without leading zeros, is the level that spells it
  shortest: 1, 1.0, "1" and "1.00" are "1", and "007" stays the text it is.
- Bytes are the text that they encode in UTF-8.
- Everything else is its text. Spaces around a number or a truth value do not count.

Files, engines and SQL follow the same rule. Levels that differ only in case or spaces
stay apart: they are warned of among groups, and suggested where a condition fails.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

import numpy as np

from propcal.core.conditions import ColumnTest, Where, is_numeric, tests_of
from propcal.core.grid import SumArray
from propcal.core.patterns import (
    BESIDE,
    CLUSTER,
    KEY,
    Level,
    Patterns,
    level_places,
    sort_levels,
)
from propcal.errors import refused
from propcal.extras import Later

pa: Any = Later("pyarrow")
DATES = "dates or times"
TRUTHS = ("true", "false")
MISSING_SIGNS = set("?-–—._*#/")  # a level of nothing else may mean missing
# > 89, or 90+: not a number
LIMIT = r"(<|>|<=|>=|≤|≥)\s*[0-9]+([.][0-9]*)?|[0-9]+([.][0-9]*)?\s*[+]"
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
        exact = Decimal(
            str(value)
        )  # as many digits as tell the number from its neighbours
        if exact.is_nan():
            return None
        if exact.is_infinite():
            return "inf" if exact > 0 else "-inf"
        far = max(abs(exact.adjusted()), -int(exact.as_tuple().exponent)) > MOST_PLACES
        if far:
            return str(exact).lower()
        return _shortest(format(exact, "f"))
    if isinstance(value, (bytes, bytearray, memoryview)):
        return text_key(decoded(bytes(value)))
    if type(value).__name__ in ("NAType", "NaTType"):  # pandas' own missing values
        return None
    if type(value).__name__ == "Interval":  # of pandas.cut
        left = "[" if value.closed_left else "("
        right = "]" if value.closed_right else ")"
        return f"{left}{level_key(value.left)}, {level_key(value.right)}{right}"
    return str(value)


def text_key(text: str) -> str:
    """The level of a text: what truth value or number it spells, or the text itself."""
    bare = text.strip(" ")
    if bare.lower() in TRUTHS:
        return bare.lower()
    return _shortest(bare) if DECIMAL.fullmatch(bare) else text


def wanted_keys(test: ColumnTest) -> set[str]:
    """The levels that pass a test for equality: its values as text and numbers; 1 and 0
    are truth values too.

    A column that must hold by itself has the level "true".

    >>> sorted(wanted_keys(ColumnTest("flag", "in", ("1.0", "02139", "1e3"))))
    ['02139', '1', '1000', '1e3', 'true']
    """
    if test.op == "holds":
        wanted = {"true"}
    else:
        wanted = {text_key(value) for value in test.values}
    for value in filter(is_numeric, test.values):
        if not re.match(r"-?0[0-9]", value):  # 02139 is a code
            number = str(level_key(Decimal(value)))
            wanted.add(number)
            wanted |= (
                {"true"} if number == "1" else {"false"} if number == "0" else set()
            )
    return wanted


def _shortest(decimal: str) -> str:
    """A number in decimals without zeros at its end."""
    whole, _, rest = decimal.partition(".")
    rest = rest.rstrip("0")
    if rest:
        return f"{whole}.{rest}"
    return "0" if whole == "-0" else whole


def spellings(keys: Iterable[str]) -> str:
    """A regular expression for every spelling of some levels that are truth values or
    numbers.
    """
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
        raise refused("bytes not text") from None


def is_number(value: Any) -> bool:
    """Whether a value is a number (a truth value is not)."""
    return isinstance(value, (int, float, Decimal, np.number)) and not isinstance(
        value, (bool, np.bool_)
    )


def distinct(values: Any, name: str = "sensitive_features") -> tuple[list[Any], Any]:
    """The different values of a column of this name, and for each row which it has (-1:
    missing).

    `values` is a pyarrow array, or a numpy array of numbers or of Python objects.
    """
    if isinstance(values, np.ndarray) and values.dtype.kind != "O":
        different, place = np.unique(values, return_inverse=True)
        return list(different), place.astype(np.int32)
    if not isinstance(values, np.ndarray) and pa.types.is_float16(
        values.type
    ):  # not every Arrow codes them
        values = np.array(
            [v if v is None else np.float16(v) for v in values.to_pylist()],
            dtype=object,
        )
    if isinstance(values, np.ndarray):
        if {*map(type, values)} <= {str, type(None)}:  # usually, and ten times as fast
            texts = [value for value in dict.fromkeys(values) if value is not None]
            index: dict[Any, int] = {text: i for i, text in enumerate(texts)} | {
                None: -1
            }
            return texts, np.fromiter(
                map(index.__getitem__, values), np.int32, len(values)
            )
        if any(
            isinstance(value, (list, dict, set, tuple, np.ndarray)) for value in values
        ):
            raise refused("records", name=name)
        places: dict[tuple[type, Any], int] = {}
        codes = [
            -1 if v is None else places.setdefault((type(v), v), len(places))
            for v in values
        ]
        return [value for _, value in places], np.array(codes, dtype=np.int32)
    if isinstance(values, pa.ChunkedArray):
        if pa.types.is_dictionary(values.type):
            values = values.unify_dictionaries()
        values = values.combine_chunks()
        if isinstance(
            values, pa.ChunkedArray
        ):  # several chunks remain where offsets would overflow
            values = (
                pa.chunked_array(values.chunks).cast(pa.large_string()).combine_chunks()
            )
    if not pa.types.is_dictionary(values.type):
        values = values.dictionary_encode()
    indices = values.indices.cast(pa.int32())  # they may be unsigned
    indices = indices.fill_null(-1) if indices.null_count else indices
    found = values.dictionary
    if pa.types.is_floating(
        found.type
    ):  # numpy's numbers know how many of their digits count
        return list(found.to_numpy(zero_copy_only=False)), indices.to_numpy(
            zero_copy_only=False
        )
    return found.to_pylist(), indices.to_numpy(zero_copy_only=False)


def encode(found: list[Any], codes: Any) -> tuple[tuple[Level, ...], Any]:
    """Sorted levels of an attribute, and the level of each row, from its `distinct`
    values.
    """
    keys = [level_key(value) for value in found]
    # missing values have code -1, the last entry of the lookup
    levels = sort_levels([*{*keys, None}] if np.any(codes < 0) else [*set(keys)])
    return levels, _lookup(
        keys, {level: i for i, level in enumerate(levels)}, absent=0
    )[codes]


def encode_known(found: list[Any], codes: Any, levels: tuple[Level, ...]) -> Any:
    """Place of each row's level among known ones; len(levels) for any other."""
    keys = [level_key(value) for value in found]
    return _lookup(keys, level_places(levels), absent=len(levels))[codes]


def _lookup(keys: list[Level], places: dict[Level, int], *, absent: int) -> Any:
    found = [places.get(key, absent) for key in [*keys, None]]
    return np.array(found, dtype=np.int16 if len(places) < 1 << 15 else np.int32)


def refuse_dates(name: str, *, temporal: bool) -> None:
    """Dates and times are no groups."""
    if temporal:
        raise refused("dates as groups", name=name, dates=DATES)


def numbers_beside_limits(keys: Collection[str]) -> int:
    """How many numbers are spelled beside limits such as "> 89"; 0 if few are, or if
    there are other texts.

    >>> numbers_beside_limits([*map(str, range(20, 90)), "> 89"]), numbers_beside_limits(["60", "> 89"])
    (70, 0)
    """
    rest = {key for key in keys if not DECIMAL.fullmatch(key)}
    spelled = len(set(keys)) - len(rest)
    limits = bool(rest) and all(is_limit(key) for key in rest)
    return spelled if limits and spelled > MAX_NUMERIC_LEVELS else 0


def is_limit(key: str) -> bool:
    """Whether a level is a limit such as "> 89" or "90+"."""
    return re.fullmatch(LIMIT, key.strip()) is not None


def refuse_many(
    found: list[Any], name: str, seen: str = "", *, as_levels: bool = False
) -> None:
    """Refuse identifiers and measurements by their number of values (in what was
    seen).
    """
    within = f" in {seen}" if seen else ""
    keys = {key for key in map(level_key, found) if key is not None}
    numbers = {
        key
        for value in found
        if is_number(value) and (key := level_key(value)) is not None
    }
    known = {"name": name, "within": within, "most": MAX_NUMERIC_LEVELS}
    if numbers and len(numbers) == len(keys) and not as_levels:
        if not all(number.lstrip("-").isdigit() for number in numbers):
            raise refused("measurements", n=len(numbers), **known)
        if len(numbers) > MAX_NUMERIC_LEVELS:
            raise refused("many numbers", n=len(numbers), **known)
    if not as_levels and (spelled := numbers_beside_limits(keys)):
        raise refused("numbers beside limits", n=spelled, **known)
    if len(keys) > MAX_LEVELS:
        raise refused(
            "too many levels", name=name, n=len(keys), within=within, most=MAX_LEVELS
        )


def folded(level: str) -> str:
    """A level without its case, and with single spaces between its words.

    >>> folded(" Not  KNOWN") == folded("not known")
    True
    """
    return " ".join(level.casefold().split())


def warn_of_similar_levels(patterns: Patterns, people: Any) -> None:
    """Count, for each column of groups, the values that are another level but for case
    or spaces.

    `people` counts those of each pattern.
    """
    for a, name in enumerate(patterns.attributes):
        if (
            name in patterns.derived
            or name == CLUSTER
            or name.startswith((BESIDE, KEY))
        ):
            continue
        own = patterns.levels[a]
        counts = np.bincount(
            patterns.table[:, a], weights=people, minlength=len(own)
        ).astype(np.int64)
        signs = [
            place
            for place, level in enumerate(own)
            if level and not any(map(str.isalnum, level))
        ]
        if (
            len(signs) == 1 and not set(own[signs[0]] or "") - MISSING_SIGNS
        ):  # two of them may be + and -
            n = int(counts[signs[0]])
            are, they = ("is", "It forms") if n == 1 else ("are", "They form")
            values = f"{n:,} of {int(counts.sum()):,} values {are}"
            _warn(
                "sign as level", name=name, sign=own[signs[0]], values=values, they=they
            )
        spaced = [
            place
            for place, level in enumerate(own)
            if level is not None and level != level.strip()
        ]
        places: dict[str, list[int]] = {}
        for place, level in enumerate(own):
            if level is not None:
                places.setdefault(folded(level), []).append(place)
        ranked = [
            sorted(same, key=lambda i: -counts[i])
            for same in places.values()
            if len(same) > 1
        ]
        n = int(
            counts[
                [place for same in ranked for place in same[1:]] if ranked else spaced
            ].sum()
        )
        few = f"{n:,} of {int(counts.sum()):,} values"
        if ranked:
            main, rare = ranked[0][:2]
            values = f"{few} {'differs' if n == 1 else 'differ'}"
            _warn(
                "similar levels",
                name=name,
                values=values,
                rare=own[rare],
                main=own[main],
            )
        elif spaced:
            values = f"{few} {'has' if n == 1 else 'have'}"
            _warn("spaced level", name=name, values=values, level=own[spaced[0]])


def _warn(key: str, **known: Any) -> None:
    warnings.warn(refused(key, **known).message, UserWarning, stacklevel=5)


def warn_of_new_levels(
    known: Mapping[str, Sequence[Level]],
    patterns: Patterns,
    people: SumArray,
    share: float,
) -> None:
    """Warn of new levels that are a known one but for case or spaces, and of more than
    a share of others.

    `people` is the number of people with each pattern. This is what a change of an
    export looks like.
    """
    for name, levels, place in zip(
        patterns.attributes, patterns.levels, patterns.table.T
    ):
        if (
            name in patterns.derived
            or name.startswith((BESIDE, KEY))
            or name not in known
        ):
            continue
        before = {folded(level): level for level in known[name] if level is not None}
        new = [level for level in levels if level not in known[name]]
        near = {
            level: before[folded(level)]
            for level in new
            if level is not None and folded(level) in before
        }
        for level, own in near.items():
            _warn("new spelling", name=name, level=level, known=own)
        others = int(
            people[
                np.array([level in new and level not in near for level in levels])[
                    place
                ]
            ].sum()
        )
        if others > share * people.sum():
            _warn("new levels", name=name, new=others, n=int(people.sum()))


def warn_of_failed_conditions(
    conditions: Mapping[str, Where], levels_of: Callable[[str], Iterable[Level]]
) -> None:
    """Suggest other values for conditions that nobody meets; `levels_of` gives the
    levels of a column.
    """
    for name, made in conditions.items():
        for test in tests_of(made.condition):
            if test.op not in ("=", "in"):
                continue
            known = {level for level in levels_of(test.column) if level is not None}
            for value in test.values:
                near = sorted(
                    level for level in known if folded(level) == folded(value)
                )
                if near and not known & wanted_keys(
                    ColumnTest(test.column, "=", (value,))
                ):
                    known_as = {
                        "name": name,
                        "column": test.column,
                        "value": value,
                        "near": near[0],
                    }
                    warnings.warn(
                        refused("nobody meets", **known_as).message,
                        UserWarning,
                        stacklevel=4,
                    )

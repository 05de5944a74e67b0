"""Levels: the values of an attribute as canonical text; 1, 1.0 and "1" are one level.

One rule decides, cell by cell; neither the type of the column nor the other rows
matter:

- True and the texts true, TRUE, True, ... are the level "true"; False and its texts are
  the level "false".
- A number, and a text that spells one in decimals without leading zeros, is the level
  that spells it shortest: 1, 1.0, "1" and "1.00" are "1", and "007" stays the text it
  is.
- Bytes are the text that they encode in UTF-8.
- Everything else is its text. Spaces around a number or a truth value do not count.

Files, engines and SQL follow the same rule. Levels that differ only in case or spaces
stay apart: they are warned of among groups, and suggested where a condition fails.
"""

from __future__ import annotations

import re
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
from propcal.errors import refused, warn_user
from propcal.extras import Later
from propcal.numbers import agreeing

pa: Any = Later("pyarrow")
DATES = "dates or times"
TRUTHS = ("true", "false")
MISSING_SIGNS = set("?-–—._*#/")  # a level of nothing else may mean missing
# > 89, or 90+: not a number
LIMIT = r"(<|>|<=|>=|≤|≥)\s*[0-9]+([.][0-9]*)?|[0-9]+([.][0-9]*)?\s*[+]"
DECIMAL = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]*)?")
RECORDS = (list, dict, set, tuple, np.ndarray)
MAX_LEVELS = 200
MOST_PLACES = 5_000  # of a number in decimals; 1E+1000000 is not written out
MAX_NUMERIC_LEVELS = 20


def level_key(value: Any) -> Level:
    """Canonical text of a value; None if it is missing.

    >>> values = (1, 1.0, "1", "1.00", True, "TRUE", Decimal("2.50"), b"A")
    >>> [level_key(value) for value in values]
    ['1', '1', '1', '1', 'true', 'true', '2.5', 'A']
    >>> values = (float("nan"), None, "nan", "007", " 7 ", "A ")
    >>> [level_key(value) for value in values]
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
        return _real_key(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return text_key(decoded(bytes(value)))
    kind = type(value).__name__
    if kind in ("NAType", "NaTType"):  # pandas' own missing values
        return None
    if kind == "Interval":  # of pandas.cut
        left = "[" if value.closed_left else "("
        right = "]" if value.closed_right else ")"
        return f"{left}{level_key(value.left)}, {level_key(value.right)}{right}"
    return str(value)


def _real_key(value: Any) -> Level:
    """The level of a number that need not be whole."""
    # as many digits as distinguish the number from its neighbours
    exact = Decimal(str(value))
    if exact.is_nan():
        return None
    if exact.is_infinite():
        return "inf" if exact > 0 else "-inf"
    n_places = max(abs(exact.adjusted()), -int(exact.as_tuple().exponent))
    if n_places > MOST_PLACES:
        return str(exact).lower()
    return _shortest(format(exact, "f"))


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
        return {"true"}
    wanted = set(map(text_key, test.values))
    for value in test.values:
        is_code = re.match(r"-?0[0-9]", value)  # such as 02139
        if is_code or not is_numeric(value):
            continue
        number = str(level_key(Decimal(value)))
        wanted.add(number)
        if number == "1":
            wanted.add("true")
        elif number == "0":
            wanted.add("false")
    return wanted


def _shortest(decimal: str) -> str:
    """A number in decimals without zeros at its end."""
    whole, _, fraction = decimal.partition(".")
    fraction = fraction.rstrip("0")
    if fraction:
        return f"{whole}.{fraction}"
    return "0" if whole == "-0" else whole


def spellings(keys: Iterable[str]) -> str:
    """A regular expression for every spelling of some levels that are truth values or
    numbers.
    """
    return f"^ *(?:{'|'.join(map(_spelling, keys))}) *$"


def _spelling(key: str) -> str:
    if key in TRUTHS:
        return "".join(f"[{letter}{letter.upper()}]" for letter in key)
    if key == "0":
        return "-?0(?:[.]0*)?"
    if "." in key:
        return key.replace(".", "[.]") + "0*"
    return f"{key}(?:[.]0*)?"


def decoded(value: bytes) -> str:
    """Bytes as the text that they encode."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise refused("bytes not text") from None


def is_number(value: Any) -> bool:
    """Whether a value is a number (a truth value is not)."""
    if isinstance(value, (bool, np.bool_)):
        return False
    return isinstance(value, (int, float, Decimal, np.number))


def distinct(values: Any, name: str = "sensitive_features") -> tuple[list[Any], Any]:
    """The different values of a column of this name, and for each row which it has (-1:
    missing).

    `values` is a pyarrow array, or a numpy array of numbers or of Python objects.
    """
    if not isinstance(values, np.ndarray):
        if not pa.types.is_float16(values.type):
            return _distinct_in_arrow(values)
        values = _halves_as_objects(values)  # not every Arrow codes them
    if values.dtype.kind != "O":
        different, place = np.unique(values, return_inverse=True)
        return list(different), place.astype(np.int32)
    kinds = {*map(type, values)}
    if kinds <= {str, type(None)}:  # usually, and ten times as fast
        return _distinct_texts(values)
    if any(issubclass(kind, RECORDS) for kind in kinds):
        raise refused("records", name=name)
    places: dict[tuple[type, Any], int] = {}
    codes = np.full(len(values), -1, dtype=np.int32)
    for row, value in enumerate(values):
        if value is not None:
            codes[row] = places.setdefault((type(value), value), len(places))
    return [value for _, value in places], codes


def _halves_as_objects(values: Any) -> Any:
    """A column of half precision as objects that know how many digits count."""
    halves = [v if v is None else np.float16(v) for v in values.to_pylist()]
    return np.array(halves, dtype=object)


def _distinct_texts(values: Any) -> tuple[list[Any], Any]:
    texts = [value for value in dict.fromkeys(values) if value is not None]
    place_of: dict[Any, int] = {text: place for place, text in enumerate(texts)}
    place_of[None] = -1
    codes = np.fromiter(map(place_of.__getitem__, values), np.int32, len(values))
    return texts, codes


def _distinct_in_arrow(values: Any) -> tuple[list[Any], Any]:
    column = _one_chunk(values)
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    indices = column.indices.cast(pa.int32())  # they may be unsigned
    if indices.null_count:
        indices = indices.fill_null(-1)
    codes = indices.to_numpy(zero_copy_only=False)
    different = column.dictionary
    if pa.types.is_floating(different.type):
        # numpy's numbers know how many of their digits count
        return list(different.to_numpy(zero_copy_only=False)), codes
    return different.to_pylist(), codes


def _one_chunk(values: Any) -> Any:
    if not isinstance(values, pa.ChunkedArray):
        return values
    if pa.types.is_dictionary(values.type):
        values = values.unify_dictionaries()
    column = values.combine_chunks()
    if not isinstance(column, pa.ChunkedArray):
        return column
    # several chunks remain where offsets would overflow
    return pa.chunked_array(column.chunks).cast(pa.large_string()).combine_chunks()


def encode(found: list[Any], codes: Any) -> tuple[tuple[Level, ...], Any]:
    """Sorted levels of an attribute, and the level of each row, from its `distinct`
    values.
    """
    keys = list(map(level_key, found))
    occurring = set(keys)
    if np.any(codes < 0):
        occurring.add(None)
    levels = sort_levels(list(occurring))
    places = {level: place for place, level in enumerate(levels)}
    return levels, _places_of(keys, places, otherwise=0)[codes]


def encode_known(found: list[Any], codes: Any, levels: tuple[Level, ...]) -> Any:
    """Place of each row's level among known ones; len(levels) for any other."""
    keys = list(map(level_key, found))
    return _places_of(keys, level_places(levels), otherwise=len(levels))[codes]


def _places_of(keys: list[Level], places: dict[Level, int], *, otherwise: int) -> Any:
    """The place of each level, and at the end that of a missing one, for rows with code
    -1.
    """
    kind = np.int16 if len(places) < 1 << 15 else np.int32
    return np.array([places.get(key, otherwise) for key in [*keys, None]], dtype=kind)


def refuse_dates(name: str, *, temporal: bool) -> None:
    """Dates and times are no groups."""
    if temporal:
        raise refused("dates as groups", name=name, dates=DATES)


def numbers_beside_limits(keys: Collection[str]) -> int:
    """How many numbers are spelled beside limits such as "> 89"; 0 if few are, or if
    there are other texts.

    >>> ages = [str(age) for age in range(20, 90)]
    >>> numbers_beside_limits([*ages, "> 89"]), numbers_beside_limits(["60", "> 89"])
    (70, 0)
    """
    others = {key for key in keys if not DECIMAL.fullmatch(key)}
    n_numbers = len(set(keys)) - len(others)
    beside_limits = bool(others) and all(map(is_limit, others))
    if not beside_limits or n_numbers <= MAX_NUMERIC_LEVELS:
        return 0
    return n_numbers


def is_limit(key: str) -> bool:
    """Whether a level is a limit such as "> 89" or "90+"."""
    return re.fullmatch(LIMIT, key.strip()) is not None


def refuse_many(
    found: list[Any], name: str, seen: str = "", *, as_levels: bool = False
) -> None:
    """Refuse identifiers and measurements by their number of values (in what was
    seen).
    """
    within = ""
    if seen:
        within = f" in {seen}"
    keys = set(map(level_key, found)) - {None}
    if not as_levels:
        _refuse_measurements(found, keys, name, within)
    if len(keys) > MAX_LEVELS:
        raise refused(
            "too many levels", name=name, n=len(keys), within=within, most=MAX_LEVELS
        )


def _refuse_measurements(
    found: list[Any], keys: set[Level], name: str, within: str
) -> None:
    known = {"name": name, "within": within, "most": MAX_NUMERIC_LEVELS}
    numbers = {level_key(value) for value in found if is_number(value)} - {None}
    if numbers and len(numbers) == len(keys):
        whole = all(str(number).lstrip("-").isdigit() for number in numbers)
        if not whole:
            raise refused("measurements", n=len(numbers), **known)
        if len(numbers) > MAX_NUMERIC_LEVELS:
            raise refused("many numbers", n=len(numbers), **known)
    spelled = numbers_beside_limits(list(map(str, keys)))
    if spelled:
        raise refused("numbers beside limits", n=spelled, **known)


def folded(level: str) -> str:
    """A level without its case, and with single spaces between its words.

    >>> folded(" Not  KNOWN") == folded("not known")
    True
    """
    return " ".join(level.casefold().split())


def warn_of_similar_levels(patterns: Patterns, people: Any) -> None:
    """Warn of values of a column of groups that are another level but for case or
    spaces, or a sign that may mean missing.

    `people` counts those of each pattern.
    """
    for a, name in enumerate(patterns.attributes):
        made = name in patterns.derived or name == CLUSTER
        if made or name.startswith((BESIDE, KEY)):
            continue
        levels = patterns.levels[a]
        counts = np.bincount(
            patterns.table[:, a], weights=people, minlength=len(levels)
        ).astype(np.int64)
        _warn_of_sign(name, levels, counts)
        _warn_of_case_and_spaces(name, levels, counts)


def _warn_of_sign(name: str, levels: Sequence[Level], counts: Any) -> None:
    """Warn of a sign such as "?" that is a level; two of them may be + and -."""
    signs = []
    for place, level in enumerate(levels):
        if level and not any(map(str.isalnum, level)):
            signs.append(place)
    if len(signs) != 1:
        return
    sign = str(levels[signs[0]])
    if not set(sign) <= MISSING_SIGNS:
        return
    n = int(counts[signs[0]])
    values = f"{n:,} of {int(counts.sum()):,} values {agreeing(n, 'is', 'are')}"
    they = agreeing(n, "It forms", "They form")
    _warn("sign as level", name=name, sign=sign, values=values, they=they)


def _warn_of_case_and_spaces(name: str, levels: Sequence[Level], counts: Any) -> None:
    """Warn of levels that differ only in case or spaces, or else of spaces around a
    level.
    """
    alike: dict[str, list[int]] = {}
    spaced = []
    for place, level in enumerate(levels):
        if level is None:
            continue
        alike.setdefault(folded(level), []).append(place)
        if level != level.strip():
            spaced.append(place)

    most_frequent_first = [
        sorted(places, key=lambda place: -counts[place])
        for places in alike.values()
        if len(places) > 1
    ]
    if most_frequent_first:
        rarer = [place for places in most_frequent_first for place in places[1:]]
        n = int(counts[rarer].sum())
        verb = agreeing(n, "differs", "differ")
        values = f"{n:,} of {int(counts.sum()):,} values {verb}"
        main, rare = most_frequent_first[0][:2]
        _warn(
            "similar levels",
            name=name,
            values=values,
            rare=levels[rare],
            main=levels[main],
        )
    elif spaced:
        n = int(counts[spaced].sum())
        verb = agreeing(n, "has", "have")
        values = f"{n:,} of {int(counts.sum()):,} values {verb}"
        _warn("spaced level", name=name, values=values, level=levels[spaced[0]])


def _warn(key: str, **known: Any) -> None:
    warn_user(refused(key, **known).message)


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
        made = name in patterns.derived or name.startswith((BESIDE, KEY))
        if made or name not in known:
            continue
        known_by_folded = {}
        for level in known[name]:
            if level is not None:
                known_by_folded[folded(level)] = level
        is_new = np.zeros(len(levels), dtype=np.bool_)
        for i, level in enumerate(levels):
            if level in known[name]:
                continue
            if level is not None and folded(level) in known_by_folded:
                before = known_by_folded[folded(level)]
                _warn("new spelling", name=name, level=level, known=before)
            else:
                is_new[i] = True
        n_new = int(people[is_new[place]].sum())
        if n_new > share * people.sum():
            _warn("new levels", name=name, new=n_new, n=int(people.sum()))


def warn_of_failed_conditions(
    conditions: Mapping[str, Where], levels_of: Callable[[str], Iterable[Level]]
) -> None:
    """Suggest other values for conditions that nobody meets; `levels_of` gives the
    levels of a column.
    """
    for name, made in conditions.items():
        for test in tests_of(made.condition):
            if test.op in ("=", "in"):
                _suggest_values(name, test, set(levels_of(test.column)) - {None})


def _suggest_values(name: str, test: ColumnTest, known: set[Level]) -> None:
    """Warn of values of a test that no row has, if a level differs only in case or
    spaces.
    """
    for value in test.values:
        if known & wanted_keys(ColumnTest(test.column, "=", (value,))):
            continue
        near = sorted(
            str(level) for level in known if folded(str(level)) == folded(value)
        )
        if near:
            _warn(
                "nobody meets", name=name, column=test.column, value=value, near=near[0]
            )

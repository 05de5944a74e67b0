"""JSON that is read strictly, and checks of its content that are put together from smaller ones."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from math import isfinite
from os import PathLike
from typing import Any

from propcal.errors import FileFormatError, refused
from propcal.plain_text import plain

Check = Callable[[Any], object]


def need(condition: object, text: str) -> None:
    if not condition:
        raise FileFormatError(text)


def whole(low: int, high: int) -> Check:
    return lambda value: type(value) is int and low <= value <= high


def list_of(check: Check, least: int = 0, *, each: int | None = None) -> Check:
    """A list of what passes a check; with `each`, all have a different entry at that place."""
    return lambda value: (
        isinstance(value, list)
        and len(value) >= least
        and all(map(check, value))
        and (each is None or distinct([row[each] for row in value]))
    )


def row(*checks: Check) -> Check:
    return lambda value: (
        isinstance(value, list) and len(value) == len(checks) and all(c(v) for c, v in zip(checks, value))
    )


def mapping(check: Check) -> Check:
    return lambda value: isinstance(value, dict) and all(map(check, value.values()))


def record(**checks: Check) -> Check:
    return lambda value: (
        isinstance(value, dict) and {*value} == {*checks} and all(c(value[key]) for key, c in checks.items())
    )


def one_of(*values: Any) -> Check:
    return lambda value: any(type(value) is type(known) and value == known for known in values)


def is_text(value: Any) -> bool:
    return isinstance(value, str)


def is_level(value: Any) -> bool:
    return value is None or isinstance(value, str)


def distinct(values: list[Any]) -> bool:
    return len({*values}) == len(values)


def increasing(values: list[Any]) -> bool:
    return all(a < b for a, b in pairwise(values))


def refuse_newer(path: str | PathLike[str], version: Any, newest: int) -> None:
    """Refuse a file of a version that is not known yet."""
    if type(version) is not int or version > newest:
        raise refused("newer version", FileFormatError, path=path, version=plain(version, 9), newest=newest)


def parsed(text: str) -> Any:
    """The content of a JSON text; an error says what is wrong with it, and where."""
    constants: list[str] = []  # NaN and Infinity, which JSON does not have, and what is as large as these

    def constant(name: str) -> Any:
        constants.append(plain(name, 40))
        return constants

    def number(digits: str) -> Any:
        return value if isfinite(value := float(digits)) else constant(digits)

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        content: dict[str, Any] = {}
        for key, value in pairs:
            need(key not in content, f'"{plain(key, 40)}" occurs twice')
            content[key] = value
        for key, value in pairs if constants else ():
            need(
                not _holds(value, constants),
                f'{constants[0]} in "{plain(key, 40)}" is not a finite number',
            )
        return content

    try:
        content = json.loads(text, object_pairs_hook=unique, parse_constant=constant, parse_float=number)
        if "\\u" in text:  # may be half of a surrogate pair, which only JSON can represent
            json.dumps(content, ensure_ascii=False).encode()
    except json.JSONDecodeError as error:
        if not text.rstrip().endswith("}"):
            raise FileFormatError("it is not complete JSON. Is it truncated?") from error
        where = f"line {error.lineno:,}, column {error.colno:,}"
        raise FileFormatError(f"it is not JSON: {error.msg} ({where})") from error
    except UnicodeEncodeError as error:
        raise FileFormatError("it contains invalid Unicode") from error
    except RecursionError as error:
        raise FileFormatError("it is nested too deeply") from error
    except FileFormatError:
        raise
    except ValueError as error:  # Python refuses to read more than 4,300 digits
        raise FileFormatError("it has a number with thousands of digits") from error
    return content


def _holds(value: Any, wanted: list[str]) -> bool:
    """Whether a value is this very list, or a list that has it somewhere."""
    return value is wanted or (isinstance(value, list) and any(_holds(part, wanted) for part in value))

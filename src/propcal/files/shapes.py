"""What the content of a JSON file must look like: checks that are put together from smaller ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from propcal.errors import FileFormatError

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

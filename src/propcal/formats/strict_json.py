"""JSON that is read strictly, compared with a schema, and known by a hash.

The hash is that of RFC 8785 (JSON Canonicalization Scheme): keys in order, no spaces,
numbers as JavaScript writes them. So a file may be laid out anew by other tools, in any
language, and keeps its hash.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from functools import cache
from math import inf, isfinite
from os import PathLike
from pathlib import Path
from typing import Any

from propcal.errors import FileFormatError, plain, refused

SCHEMAS = Path(__file__).parent.parent / "schemas"
Check = Callable[[Any], bool]
KINDS: dict[str, set[type]] = {
    "string": {str},
    "integer": {int},
    "number": {int, float},
    "boolean": {bool},
    "null": {type(None)},
    "array": {list},
    "object": {dict},
}
# entries of "about": the hash itself, the time and the users' own notes
NOT_HASHED = ("model_id", "created", "user")


def need(condition: object, problem: str) -> None:
    """Refuse a file of which a condition does not hold."""
    if not condition:
        raise FileFormatError(problem)


def distinct(values: list[Any]) -> bool:
    """Whether no value occurs twice."""
    return len({*values}) == len(values)


@cache
def schema_of(name: str) -> dict[str, Any]:
    """A JSON schema of this package."""
    text = (SCHEMAS / f"{name}.schema.json").read_text(encoding="utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema


def check_of(
    schema: dict[str, Any], definitions: dict[str, Any] | None = None
) -> Check:
    """A function that says whether a value of JSON has the shape that a schema
    describes.

    It knows the keywords that the schemas of this package use, with their ``"$defs"``
    as `definitions`. Other than in JSON Schema, 1.0 is no whole number.

    >>> whole = check_of({"type": ["integer", "null"], "minimum": 0})
    >>> [whole(value) for value in (3, None, 1.0, True, -1)]
    [True, True, False, False, False]
    """
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return check_of((definitions or {})[name], definitions)
    if "const" in schema:
        return _one_of([schema["const"]])
    if "enum" in schema:
        return _one_of(schema["enum"])

    names = schema["type"]
    if isinstance(names, str):
        names = [names]
    kinds = set[type]().union(*(KINDS[name] for name in names))
    if list in kinds:
        fits = _list(schema, definitions)
    elif dict in kinds:
        fits = _object(schema, definitions)
    else:
        fits = _range(schema)
    return lambda value: type(value) in kinds and (value is None or fits(value))


def checks_of(
    entries: dict[str, Any], definitions: dict[str, Any] | None = None
) -> dict[str, Check]:
    """The check of each entry by its name."""
    return {name: check_of(schema, definitions) for name, schema in entries.items()}


def _one_of(known: list[Any]) -> Check:
    """Whether a value is one of these; true is not 1."""
    return lambda value: any(
        type(value) is type(other) and value == other for other in known
    )


def _range(schema: dict[str, Any]) -> Check:
    """Whether a number is within limits; texts and truth values have none."""
    low = schema.get("minimum", -inf)
    high = schema.get("maximum", inf)
    above = schema.get("exclusiveMinimum", -inf)
    if low == above == -inf and high == inf:
        return lambda _: True
    return lambda value: low <= value <= high and value > above


def _list(schema: dict[str, Any], definitions: Any) -> Check:
    least = schema.get("minItems", 0)
    most = schema.get("maxItems", inf)
    checks_of_first = [
        check_of(item, definitions) for item in schema.get("prefixItems", ())
    ]
    check_of_each: Check | None = None
    if "items" in schema:
        check_of_each = check_of(schema["items"], definitions)
    unique = "uniqueItems" in schema

    def fits(values: Any) -> bool:
        if not least <= len(values) <= most:
            return False
        if not all(check(value) for check, value in zip(checks_of_first, values)):
            return False
        if check_of_each is not None and not all(map(check_of_each, values)):
            return False
        return not unique or distinct(values)

    return fits


def _object(schema: dict[str, Any], definitions: Any) -> Check:
    required = {*schema.get("required", ())}
    checks = checks_of(schema.get("properties", {}), definitions)
    others = schema.get("additionalProperties", True)
    check_of_others: Check
    if isinstance(others, dict):
        check_of_others = check_of(others, definitions)
    else:
        check_of_others = lambda _: bool(others)  # noqa: E731

    def fits(content: Any) -> bool:
        if not required <= content.keys():
            return False
        return all(
            checks.get(name, check_of_others)(value) for name, value in content.items()
        )

    return fits


def refuse_newer(path: str | PathLike[str], version: Any, newest: int) -> None:
    """Refuse a file of a version that is not known yet."""
    if type(version) is not int or version > newest:
        raise refused(
            "newer version",
            FileFormatError,
            path=path,
            version=plain(version, 9),
            newest=newest,
        )


def parsed(text: str) -> Any:
    """The content of a JSON text; an error says what is wrong with it, and where."""
    # NaN and Infinity, which JSON does not have, and what is as large as these
    constants: list[str] = []

    def constant(name: str) -> Any:
        constants.append(plain(name, 40))
        return constants

    def number(digits: str) -> Any:
        value = float(digits)
        return value if isfinite(value) else constant(digits)

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        content: dict[str, Any] = {}
        for key, value in pairs:
            need(key not in content, f'"{plain(key, 40)}" occurs twice')
            content[key] = value
        if constants:
            for key, value in pairs:
                problem = f'{constants[0]} in "{plain(key, 40)}" is not a finite number'
                need(not _holds(value, constants), problem)
        return content

    try:
        content = json.loads(
            text, object_pairs_hook=unique, parse_constant=constant, parse_float=number
        )
        if "\\u" in text:
            # may be half of a surrogate pair, which only JSON can represent
            json.dumps(content, ensure_ascii=False).encode()
    except json.JSONDecodeError as error:
        if error.msg != "Extra data" and not text.rstrip().endswith("}"):
            raise FileFormatError(
                "it is not complete JSON. Is it truncated?"
            ) from error
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
    if value is wanted:
        return True
    return isinstance(value, list) and any(_holds(part, wanted) for part in value)


def content_hash(content: dict[str, Any]) -> str:
    """The hash of what a file says, but for the time and the notes of its users."""
    about = {
        key: value for key, value in content["about"].items() if key not in NOT_HASHED
    }
    text = canonical({**content, "about": about})
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def canonical(value: Any) -> str:
    """A value as JSON in one form only (RFC 8785).

    >>> canonical({"b": [1.0, 1e-7, 0.00001, 1e30, None], "a": "é"})
    '{"a":"é","b":[1,1e-7,0.00001,1e+30,null]}'
    """
    if isinstance(value, dict):
        keys = sorted(value, key=lambda key: key.encode("utf-16-be", "surrogatepass"))
        entries = [f"{_text(key)}:{canonical(value[key])}" for key in keys]
        return "{" + ",".join(entries) + "}"
    if isinstance(value, (list, tuple)):
        if all(type(part) is int for part in value):
            return _text(value)
        return "[" + ",".join(map(canonical, value)) + "]"
    if isinstance(value, float):
        return _number(value)
    return _text(value)


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _number(value: float) -> str:
    """A number as JavaScript writes it: in full from 1e-6 to 1e21, otherwise with an
    exponent.
    """
    if value == 0 or 1e-6 <= abs(value) < 1e21:
        digits = format(Decimal(repr(value)), "f")
        if "." in digits:
            digits = digits.rstrip("0").rstrip(".")
        return "0" if digits == "-0" else digits
    mantissa, exponent = repr(value).split("e")
    return f"{mantissa.removesuffix('.0')}e{int(exponent):+d}"


def now() -> str:
    """The time in UTC; SOURCE_DATE_EPOCH sets it, so that a build can be repeated to
    the last bit.
    """
    seconds = os.environ.get("SOURCE_DATE_EPOCH")
    try:
        if seconds:
            time = datetime.fromtimestamp(int(seconds), UTC)
        else:
            time = datetime.now(UTC)
    except (ValueError, OverflowError, OSError):
        raise refused("source date") from None
    return time.strftime("%Y-%m-%dT%H:%M:%SZ")

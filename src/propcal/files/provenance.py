"""Who a file is: a hash of its content that does not depend on how the JSON is laid out, and the time.

The hash is that of RFC 8785 (JSON Canonicalization Scheme): keys in order, no spaces, numbers as JavaScript
writes them. So a file may be laid out anew by other tools, in any language, and keeps its hash.
"""

from __future__ import annotations

import hashlib
import json
import os
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from propcal.errors import refused

NOT_HASHED = ("model_id", "created", "user")  # entries of "about": the time and the users' own notes


def content_hash(content: dict[str, Any]) -> str:
    """The hash of what a file says, but for the time and the notes of its users."""
    about = {key: value for key, value in content["about"].items() if key not in NOT_HASHED}
    text = canonical({**content, "about": about})
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def canonical(value: Any) -> str:
    """A value as JSON in one form only (RFC 8785).

    >>> canonical({"b": [1.0, 1e-7, 0.00001, 1e30, None], "a": "é"})
    '{"a":"é","b":[1,1e-7,0.00001,1e+30,null]}'
    """
    if isinstance(value, dict):
        keys = sorted(value, key=lambda key: key.encode("utf-16-be", "surrogatepass"))
        return "{" + ",".join(f"{_text(key)}:{canonical(value[key])}" for key in keys) + "}"
    if isinstance(value, (list, tuple)):
        if all(type(part) is int for part in value):
            return _text(value)
        return "[" + ",".join(map(canonical, value)) + "]"
    return _number(value) if isinstance(value, float) else _text(value)


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _number(value: float) -> str:
    """A number as JavaScript writes it: in full from 1e-6 to 1e21, otherwise with an exponent."""
    if value == 0 or 1e-6 <= abs(value) < 1e21:
        digits = format(Decimal(repr(value)), "f")
        digits = digits.rstrip("0").rstrip(".") if "." in digits else digits
        return "0" if digits == "-0" else digits
    mantissa, exponent = repr(value).split("e")
    return f"{mantissa.removesuffix('.0')}e{int(exponent):+d}"


def now() -> str:
    """The time in UTC; SOURCE_DATE_EPOCH sets it, so that a build can be repeated to the last bit."""
    asked = os.environ.get("SOURCE_DATE_EPOCH")
    try:
        time = datetime.now(UTC) if not asked else datetime.fromtimestamp(int(asked), UTC)
    except (ValueError, OverflowError, OSError):
        raise refused("source date") from None
    return time.strftime("%Y-%m-%dT%H:%M:%SZ")

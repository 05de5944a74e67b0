"""A result as JSON text; pages and small files round its numbers."""

from __future__ import annotations

import json
from typing import Any

# larger numbers stay floating-point: readers in other languages need not have long integers
LARGEST_WHOLE = 1e15


def rounded(value: Any, digits: int = 6) -> Any:
    """Six digits are enough for machines too, and five for points of curves; whole numbers stay whole.

    >>> rounded({"gap": 0.123456789, "curve": [0.123456789, 20_000.0]})
    {'gap': 0.123457, 'curve': [0.12346, 20000]}
    """
    if isinstance(value, dict):
        return {key: rounded(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_rounded_number(part, 5) if type(part) is float else rounded(part, 5) for part in value]
    return _rounded_number(value, digits) if isinstance(value, float) else value


def _rounded_number(value: float, digits: int) -> float:
    if value.is_integer() and abs(value) < LARGEST_WHOLE:
        return int(value)
    return float(f"{value:.{digits}g}")


def json_text(content: dict[str, Any]) -> str:
    """The JSON text of what a result says."""
    return json.dumps(content, ensure_ascii=False, allow_nan=False, indent=1)

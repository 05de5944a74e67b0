"""Numbers as a reader wants them; what is hidden or not known is a dash."""

from __future__ import annotations

import math
from typing import Any

NOTHING = "–"


def known(value: Any) -> bool:
    """Whether there is a number at all.

    >>> known(None), known(float("nan")), known(0.0)
    (False, False, True)
    """
    return value is not None and math.isfinite(float(value))


def count(value: Any) -> str:
    """People.

    >>> count(12345), count(None)
    ('12,345', '–')
    """
    if not known(value):
        return NOTHING
    return f"{float(value):,.0f}" if float(value) == round(float(value)) else f"{float(value):,.1f}"


def per_100(value: Any, digits: int = 1) -> str:
    """A rate as people in 100.

    >>> per_100(0.1234)
    '12.3'
    """
    return f"{100 * float(value):.{digits}f}" if known(value) else NOTHING


def decimal(value: Any, digits: int = 2, sign: str = "") -> str:
    """A number with so many digits; a minus is a minus, not a hyphen.

    >>> decimal(-0.126, 2), decimal(0.5, 1, "+")
    ('−0.13', '+0.5')
    """
    if not known(value):
        return NOTHING
    text = f"{float(value):{sign}.{digits}f}"
    return text.replace("-", "−") if float(text) != 0 else text.replace("-", "")


def interval(low: Any, high: Any, digits: int = 2, sign: str = "") -> str:
    """From one number to another.

    >>> interval(0.25, 0.5), interval(0.25, None)
    ('0.25 to 0.50', '–')
    """
    if not known(low) or not known(high):
        return NOTHING
    return f"{decimal(low, digits, sign)} to {decimal(high, digits, sign)}"


def p_value(value: Any) -> str:
    """A p-value.

    >>> p_value(0.0123), p_value(1e-9)
    ('0.012', '< 0.0001')
    """
    if not known(value):
        return NOTHING
    return f"{float(value):.2g}" if float(value) >= 1e-4 else "< 0.0001"


def sort_key(value: Any) -> str:
    """What a table sorts by; empty where nothing is known."""
    return f"{float(value):.6g}" if known(value) else ""


def rounded(value: Any, digits: int = 6) -> Any:
    """Six digits are enough for machines too, and four for points of curves; whole numbers stay whole.

    >>> rounded({"gap": 0.123456789, "curve": [0.123456789, 20_000.0]})
    {'gap': 0.123457, 'curve': [0.1235, 20000]}
    """
    if isinstance(value, dict):
        return {key: rounded(part) for key, part in value.items()}
    if isinstance(value, list):
        return [rounded(part, 4) for part in value]
    if not isinstance(value, float):
        return value
    return int(value) if value == round(value) else float(f"{value:.{digits}g}")


def plural(n: int, word: str) -> str:
    """A number with its noun.

    >>> plural(1, "group"), plural(2_000, "category")
    ('1 group', '2,000 categories')
    """
    several = f"{word[:-1]}ies" if word.endswith("y") else f"{word}s"
    return f"{n:,} {word if n == 1 else several}"

"""Quote texts and names for SQL, doubling quotation marks inside them."""

from __future__ import annotations

from collections.abc import Callable


def doubled(mark: str) -> Callable[[str], str]:
    """A function that quotes texts with this mark; an opening bracket is closed by its counterpart.

    >>> doubled("[")("a]b")
    '[a]]b]'
    """
    close = {"[": "]"}.get(mark, mark)
    return lambda text: mark + text.replace(close, close * 2) + close


quoted = doubled("'")  # a text
named = doubled('"')  # the name of a column or table

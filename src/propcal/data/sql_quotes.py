"""Texts and names as SQL writes them: in marks that are doubled where they stand inside."""

from __future__ import annotations

from collections.abc import Callable


def doubled(mark: str) -> Callable[[str], str]:
    """Quote by a mark; a bracket is closed by its other half.

    >>> doubled("[")("a]b")
    '[a]]b]'
    """
    close = {"[": "]"}.get(mark, mark)
    return lambda text: mark + text.replace(close, close * 2) + close


quoted = doubled("'")  # a text
named = doubled('"')  # the name of a column or table

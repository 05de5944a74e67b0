"""Make names from data and files safe: to print, without control characters; in SQL, in quotation marks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def plain(text: Any, most: int | None = None) -> str:
    r"""A name on one line, without invisible characters and at most `most` characters long.

    Control characters, escape sequences, line ends, marks that change the direction of writing, and
    halves of surrogate pairs become question marks.

    >>> plain("race=[red]A\x1b[2J\n\u202eB"), plain("0123456789", 6)
    ('race=[red]A?[2J??B', '012...')
    """
    told = str(text)
    if not told.isprintable():
        told = "".join(c if c.isprintable() else "?" for c in told)
    return told if most is None or len(told) <= most else told[: most - 3] + "..."


def shown(value: Any, most: int = 80) -> str:
    """A value as error messages show it, shortened if it is long.

    >>> shown("keep"), shown(10**99, 10), shown(10**5000)
    ("'keep'", '1000000...', 'a number with thousands of digits')
    """
    try:
        return plain(repr(value), most)
    except ValueError:  # Python refuses to write more than 4,300 digits
        return "a number with thousands of digits"


def doubled(mark: str) -> Callable[[str], str]:
    """A function that quotes texts with this mark; an opening bracket is closed by its counterpart.

    >>> doubled("[")("a]b")
    '[a]]b]'
    """
    close = {"[": "]"}.get(mark, mark)
    return lambda text: mark + text.replace(close, close * 2) + close


quoted = doubled("'")  # a text in SQL
named = doubled('"')  # the name of a column or table in SQL

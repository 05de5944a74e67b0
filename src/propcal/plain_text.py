"""Names as plain text: in data and in others' files they may be anything, also what steers a terminal."""

from __future__ import annotations

from typing import Any


def plain(text: Any, most: int | None = None) -> str:
    r"""A name on one line, without characters that cannot be seen; no longer than `most`.

    Control characters and escape sequences, line ends, marks that turn the direction of writing, and
    halves of surrogate pairs become question marks.

    >>> plain("race=[red]A\x1b[2J\n\u202eB"), plain("0123456789", 6)
    ('race=[red]A?[2J??B', '012...')
    """
    told = str(text)
    if not told.isprintable():
        told = "".join(c if c.isprintable() else "?" for c in told)
    return told if most is None or len(told) <= most else told[: most - 3] + "..."


def shown(value: Any, most: int = 80) -> str:
    """A value as an error shows what it got, however long it is.

    >>> shown("keep"), shown(10**99, 10), shown(10**5000)
    ("'keep'", '1000000...', 'a number of thousands of digits')
    """
    try:
        return plain(repr(value), most)
    except ValueError:  # Python writes no more than 4,300 digits
        return "a number of thousands of digits"

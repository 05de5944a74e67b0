"""Numbers as a reader wants them: one way to write each, and what differs between front ends as data."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

SMALLEST_P = 1e-4  # below it no p-value is written out


@dataclass(frozen=True)
class Style:
    """How a front end writes numbers.

    Attributes
    ----------
    unknown, unknown_count : str
        What stands for a number that is hidden or not known, and for such a number of people.
    minus : str
    signed_zero : bool
        Whether a number that is rounded to zero keeps its sign.
    """

    unknown: str = "-"
    unknown_count: str = "hidden"
    minus: str = "-"
    signed_zero: bool = True

    def count(self, value: Any) -> str:
        """A number of people; weights may make it a fraction.

        >>> IN_TEXT.count(12345), IN_TEXT.count(None), ON_PAGE.count(None), ON_PAGE.count(2.5)
        ('12,345', 'hidden', '–', '2.5')
        """
        if not known(value):
            return self.unknown_count
        return f"{float(value):,.0f}" if float(value) == round(float(value)) else f"{float(value):,.1f}"

    def whole(self, value: Any) -> str:
        """A number without its fraction.

        >>> IN_TEXT.whole(1234.5678)
        '1,235'
        """
        return f"{float(value):,.0f}" if known(value) else self.unknown

    def decimal(self, value: Any, digits: int = 2, sign: str = "") -> str:
        """A number with so many digits.

        >>> ON_PAGE.decimal(-0.126), ON_PAGE.decimal(0.5, 1, "+"), IN_TEXT.decimal(-0.0001, 3)
        ('−0.13', '+0.5', '-0.000')
        """
        if not known(value):
            return self.unknown
        text = f"{float(value):{sign}.{digits}f}"
        if float(text) == 0 and not self.signed_zero:
            return text.replace("-", "")
        return text.replace("-", self.minus)

    def interval(self, low: Any, high: Any, digits: int = 2, sign: str = "") -> str:
        """From one number to another.

        >>> IN_TEXT.interval(0.25, 0.5), IN_TEXT.interval(0.25, None)
        ('0.25 to 0.50', '-')
        """
        if not known(low) or not known(high):
            return self.unknown
        return f"{self.decimal(low, digits, sign)} to {self.decimal(high, digits, sign)}"

    def per_100(self, value: Any, digits: int = 1) -> str:
        """A rate as people in 100.

        >>> ON_PAGE.per_100(0.1234)
        '12.3'
        """
        return f"{100 * float(value):.{digits}f}" if known(value) else self.unknown

    def percent(self, value: Any, digits: int = 1) -> str:
        """A share in percent.

        >>> IN_TEXT.percent(0.1234)
        '12.3 %'
        """
        return f"{self.per_100(value, digits)} %" if known(value) else self.unknown

    def p_value(self, value: Any) -> str:
        """A p-value in a table.

        >>> ON_PAGE.p_value(0.0123), ON_PAGE.p_value(1e-9)
        ('0.012', '< 0.0001')
        """
        if not known(value):
            return self.unknown
        return f"{float(value):.2g}" if float(value) >= SMALLEST_P else f"< {SMALLEST_P:.4f}"


IN_TEXT = Style()  # sentences and the terminal
IN_NOTEBOOK = Style(unknown="", unknown_count="")
ON_PAGE = Style(unknown="–", unknown_count="–", minus="−", signed_zero=False)
IN_PAPER = Style(unknown="–", unknown_count="–")


def known(value: Any) -> bool:
    """Whether there is a number at all.

    >>> known(None), known(float("nan")), known(0.0)
    (False, False, True)
    """
    return value is not None and math.isfinite(float(value))


def trimmed(value: Any) -> str:
    """A number of at most three digits after the point, without zeros at its end.

    >>> trimmed(0.25), trimmed(1.0)
    ('0.25', '1')
    """
    return f"{float(value):.3f}".rstrip("0").rstrip(".") or "0"


def percent_of(part: float, total: float, digits: int = 1) -> str:
    """A part of a total in percent.

    >>> percent_of(1, 8)
    '12.5 %'
    """
    return f"{100 * part / total:.{digits}f} %"


def rough_percent(share: float) -> str:
    """A share that is itself an estimate.

    >>> rough_percent(0.123), rough_percent(0.001)
    ('some 12 %', 'less than 1 %')
    """
    return f"some {100 * share:.0f} %" if share >= 0.01 else "less than 1 %"


def p_equals(value: float) -> str:
    """A p-value in a sentence.

    >>> p_equals(0.0123), p_equals(1e-9)
    ('p = 0.012', 'p < 0.0001')
    """
    return f"p {'= ' if value >= SMALLEST_P else ''}{IN_TEXT.p_value(value)}"


def noun(n: int, word: str) -> str:
    """A noun that agrees with a number.

    >>> noun(1, "group"), noun(2, "category")
    ('group', 'categories')
    """
    if n == 1:
        return word
    return f"{word[:-1]}ies" if word.endswith("y") else f"{word}s"


def plural(n: int, word: str) -> str:
    """A number with its noun.

    >>> plural(1, "group"), plural(2_000, "category")
    ('1 group', '2,000 categories')
    """
    return f"{n:,} {noun(n, word)}"


def are(n: int, word: str) -> str:
    """A number with its noun and a verb.

    >>> are(1, "group"), are(1234, "group")
    ('1 group is', '1,234 groups are')
    """
    return f"{plural(n, word)} {'is' if n == 1 else 'are'}"

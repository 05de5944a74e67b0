"""Numbers in print: rounded once, from the exact value, and the same everywhere."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

RATIO_DIGITS = 2
MOST_DIGITS = 6  # of a change that is very small
SMALLEST_P = 0.001  # smaller p-values are written as "< 0.001"


class Limit(float):
    """A number that is known only to lie below another one, above it, or at least
    there.

    It computes and compares as the limit itself does; what is computed from it is a
    plain number.

    >>> IN_TEXT.decimal(Limit(0.6, "below")), IN_SENTENCE.percent(Limit(0.064, "below"))
    ('< 0.60', 'below 6.4 %')
    >>> IN_TEXT.count(Limit(11, "below")), IN_SENTENCE.count(Limit(11, "below"))
    ('< 11', 'fewer than 11')
    """

    side: str

    def __new__(cls, value: float, side: str) -> Limit:
        """`side` is "below", "above" or "at least"."""
        made = super().__new__(cls, value)
        made.side = side
        return made

    def __getnewargs__(self) -> tuple[float, str]:  # type: ignore[override]
        return float(self), self.side

    def __repr__(self) -> str:
        return f"{SIGNS[self.side]} {float(self):g}"


class About(int):
    """A count that was moved a little to protect people: sentences say so, and tables
    say it once.

    >>> IN_TEXT.count(About(6002)), IN_SENTENCE.count(About(6002))
    ('6,002', 'about 6,002')
    """


def without_limits(values: Iterable[Any]) -> list[float]:
    """Numbers for a picture; limits and missing values are NaN.

    >>> without_limits([0.5, Limit(0.6, "below"), None])
    [0.5, nan, nan]
    """
    drawn = []
    for value in values:
        is_exact = known(value) and not isinstance(value, Limit)
        drawn.append(float(value) if is_exact else math.nan)
    return drawn


SIGNS = {"below": "<", "above": ">", "at least": "≥"}
COUNTED = {"below": "fewer than", "above": "more than", "at least": "at least"}


@dataclass(frozen=True)
class Style:
    """What differs between front ends; everything else about a number is the same in
    all of them.

    Attributes
    ----------
    unknown : str
        Stands for a number that is suppressed or not known.
    minus : str
    words : bool
        Whether limits are written as words ("below 0.6") or as signs ("< 0.6").
    """

    unknown: str = "-"
    minus: str = "-"
    words: bool = False

    def _limited(
        self, value: Any, text: str, words: dict[str, str] | None = None
    ) -> str:
        """A number in print, with its sign or word if it is a limit."""
        if not isinstance(value, Limit):
            return text
        if not self.words:
            return f"{SIGNS[value.side]} {text}"
        word = value.side if words is None else words[value.side]
        return f"{word} {text}"

    def count(self, value: Any) -> str:
        """A number of people; weights may make it a fraction.

        >>> IN_TEXT.count(12345), IN_TEXT.count(None), ON_PAGE.count(2.5)
        ('12,345', '-', '2.5')
        """
        if not known(value):
            return self.unknown
        number = float(value)
        digits = 0 if number == round(number) else 1
        text = f"{number:,.{digits}f}"
        if self.words and isinstance(value, About):
            return f"about {text}"
        return self._limited(value, text, COUNTED)

    def whole(self, value: Any) -> str:
        """A number without its fraction.

        >>> IN_TEXT.whole(1234.5678)
        '1,235'
        """
        if not known(value):
            return self.unknown
        return f"{float(value):,.0f}"

    def decimal(self, value: Any, digits: int = 2, sign: str = "") -> str:
        """A number with a fixed number of digits after the point; what rounds to zero
        has no sign.

        >>> ON_PAGE.decimal(-0.126), ON_PAGE.decimal(0.5, 1, "+")
        ('−0.13', '+0.5')
        >>> IN_TEXT.decimal(-0.0001, 3, "+")
        '0.000'
        """
        if not known(value):
            return self.unknown
        text = f"{float(value):{sign}.{digits}f}"
        if float(text) == 0:
            text = text.lstrip("+-")
        else:
            text = text.replace("-", self.minus)
        return self._limited(value, text)

    def interval(self, low: Any, high: Any, digits: int = 2, sign: str = "") -> str:
        """From one number to another.

        An interval of a ratio that excludes 1 and one of a difference that excludes 0
        do so in print, too.

        >>> IN_TEXT.interval(0.25, 0.5), IN_TEXT.interval(0.25, None)
        ('0.25 to 0.50', '-')
        >>> IN_TEXT.interval(0.97, 0.997)
        '0.97 to 0.99'
        >>> IN_TEXT.interval(-11.8, -0.01, 1, "+")
        '-11.8 to -0.1'
        """
        if not known(low) or not known(high):
            return self.unknown
        if not sign:
            low, high = beside_one(low, high, digits)
        elif low > 0 or high < 0:
            low, high = _beside(0.0, low, high, digits)
        first = self.decimal(low, digits, sign)
        last = self.decimal(high, digits, sign)
        return f"{first} to {last}"

    def ci(self, low: Any, high: Any, digits: int = 2) -> str:
        """A confidence interval with its name; nothing if it is not known.

        >>> IN_SENTENCE.ci(0.25, 0.5), IN_SENTENCE.ci(0.25, None)
        ('95 % CI 0.25 to 0.50', '')
        """
        if known(low) and known(high):
            return f"95 % CI {self.interval(low, high, digits)}"
        return ""

    def estimate(self, value: Any, low: Any, high: Any, digits: int = 2) -> str:
        """A number with its interval beside a picture, as far as they are known.

        >>> IN_TEXT.estimate(0.3, 0.25, 0.5), IN_TEXT.estimate(0.3, None, None)
        ('0.30 (0.25 to 0.50)', '0.30')
        >>> IN_TEXT.estimate(None, 0, 2)
        '0.00 to 2.00'
        """
        number = self.decimal(value, digits)
        interval = self.interval(low, high, digits)
        if interval == self.unknown:
            return number
        return interval if number == self.unknown else f"{number} ({interval})"

    def change(self, low: Any, high: Any, digits: int) -> str:
        """The interval of a change, with more digits if it would otherwise round to
        nothing.

        >>> IN_TEXT.change(-0.002, 0.0012, 3), IN_TEXT.change(-0.00021, 0.00004, 3)
        ('-0.002 to +0.001', '-0.0002 to 0.0000')
        >>> IN_TEXT.change(0.0, 0.0, 3)
        '0.000 to 0.000'
        """
        if known(low) and known(high):
            largest = max(abs(float(low)), abs(float(high)))
            while digits < MOST_DIGITS and 0 < largest < 0.95 * 10.0**-digits:
                digits += 1
            alike = self.decimal(low, digits) == self.decimal(high, digits)
            digits += alike and largest > 0 and digits < MOST_DIGITS
        return self.interval(low, high, digits, "+")

    def percent(self, value: Any) -> str:
        """A rate in percent; rates below 1 % have more digits.

        >>> IN_TEXT.percent(0.3649), IN_TEXT.percent(0.00437), IN_TEXT.percent(0)
        ('36.5 %', '0.44 %', '0.0 %')
        """
        if not known(value):
            return self.unknown
        percent = 100 * float(value)
        number = self.decimal(percent, _percent_digits(percent))
        return self._limited(value, f"{number} %")

    def points(self, value: Any, digits: int = 1) -> str:
        """A difference of two rates, in percentage points.

        >>> ON_PAGE.points(-0.0198)
        '−2.0'
        """
        if not known(value):
            return self.unknown
        return self._limited(value, self.decimal(100 * float(value), digits, "+"))

    def p_value(self, value: Any) -> str:
        """A p-value in a table.

        >>> ON_PAGE.p_value(0.0284), ON_PAGE.p_value(1e-9), ON_PAGE.p_value(1)
        ('0.028', '< 0.001', '> 0.999')
        >>> ON_PAGE.p_value(Limit(0.05, "above"))
        '> 0.05'
        """
        if not known(value):
            return self.unknown
        if isinstance(value, Limit):
            return f"{SIGNS[value.side]} {float(value):g}"
        if float(value) < SMALLEST_P:
            return f"< {SMALLEST_P}"
        if float(value) <= 1 - SMALLEST_P:
            return f"{float(value):.3f}"
        return f"> {1 - SMALLEST_P}"


IN_TEXT = Style()  # tables of the terminal
IN_SENTENCE = Style(words=True)
IN_NOTEBOOK = Style(unknown="")
ON_PAGE = Style(unknown="–", minus="−")


def _percent_digits(percent: float) -> int:
    if percent == 0 or abs(percent) >= 0.995:
        return 1
    if abs(percent) >= 0.0995:
        return 2
    return 3


def printed_rate(rate: float) -> float:
    """A rate with the digits that `Style.percent` prints.

    >>> printed_rate(0.36493), printed_rate(0.0043721), printed_rate(math.nan)
    (0.365, 0.0044, nan)
    """
    return round(float(rate), 2 + _percent_digits(100 * float(rate)))


def known(value: Any) -> bool:
    """Whether there is a number at all.

    >>> known(None), known(float("nan")), known(0.0)
    (False, False, True)
    """
    return value is not None and math.isfinite(float(value))


def excludes_one(low: Any, high: Any, digits: int = 4) -> bool:
    """Whether an interval lies above or below 1, rounded to so many digits.

    >>> excludes_one(1.02, 1.8), excludes_one(0.9, 1.1), excludes_one(1.00002, 1.8)
    (True, False, False)
    """
    if not known(low) or not known(high):
        return False
    printed_low = float(f"{float(low):.{digits}f}")
    printed_high = float(f"{float(high):.{digits}f}")
    return printed_low > 1 or printed_high < 1


def beside_one(low: Any, high: Any, digits: int = RATIO_DIGITS) -> tuple[Any, Any]:
    """The ends of an interval; if it is of a ratio and excludes 1, it does so in print.

    >>> beside_one(0.97, 0.997), beside_one(0.996, 0.998), beside_one(0.9, 1.2)
    ((0.97, 0.99), (0.996, 0.996), (0.9, 1.2))
    """
    is_ratio = digits == RATIO_DIGITS
    if is_ratio and excludes_one(low, high):
        return _beside(1.0, low, high, digits)
    return low, high


def _beside(middle: float, low: Any, high: Any, digits: int) -> tuple[Any, Any]:
    """Ends on one side of a number, at least one unit of the last digit away from it if
    there is room.
    """
    step = 10.0**-digits
    if low > middle:
        return max(low, min(middle + step, high)), high
    return low, min(high, max(middle - step, low))


def trimmed(value: Any) -> str:
    """A number with at most three digits after the point, without trailing zeros.

    >>> trimmed(0.25), trimmed(1.0)
    ('0.25', '1')
    """
    return f"{float(value):.3f}".rstrip("0").rstrip(".") or "0"


def risk_range(label: str) -> str:
    """A range of scores, as tables write it, in words.

    >>> risk_range("[0.2, 0.3)"), risk_range("[0.9, 1]"), risk_range("[0.005, 0.01)")
    ('20-30 %', '90-100 %', '0.5-1 %')
    """
    try:
        low, high = (float(part) for part in label.strip("[]()").split(","))
    except ValueError:
        return label
    return f"{100 * low:.12g}-{100 * high:.12g} %"


def percent_of(part: float, total: float) -> str:
    """A part of a total in percent.

    >>> percent_of(1, 8)
    '12.5 %'
    """
    return IN_TEXT.percent(part / total)


def rough_percent(share: float) -> str:
    """A share that is itself an estimate.

    >>> rough_percent(0.123), rough_percent(0.001)
    ('12 %', '1 %')
    """
    return f"{max(100 * share, 1):.0f} %"


def p_equals(value: float) -> str:
    """A p-value in a sentence.

    >>> p_equals(0.0123), p_equals(1e-9)
    ('p = 0.012', 'p < 0.001')
    """
    text = IN_SENTENCE.p_value(value)
    if text[0] in "<>":
        return f"p {text}"
    return f"p = {text}"


def listed(parts: list[str], last: str = "and", *, commas: bool = False) -> str:
    """A list within a sentence; semicolons where the parts have commas of their own,
    unless `commas` is set.

    >>> listed(["a", "b", "c"]), listed(["White, F", "Asian, M"]), listed(["a"])
    ('a, b and c', 'White, F; and Asian, M', 'a')
    >>> listed(["men (O/E 1.49, 95 % CI 1.44 to 1.55)", "women (O/E 1.25)"])
    'men (O/E 1.49, 95 % CI 1.44 to 1.55) and women (O/E 1.25)'
    """
    if len(parts) < 2:
        return "".join(parts)
    *first, final = parts
    without_parentheses = [re.sub(r"\([^()]*\)", "", part) for part in parts]
    if not commas and any("," in part for part in without_parentheses):
        return f"{'; '.join(first)}; {last} {final}"
    return f"{', '.join(first)} {last} {final}"


def listed_some(names: list[str], most: int = 6, other: str = "other group") -> str:
    """A few names within a sentence, and how many others there are.

    >>> listed_some(["a", "b", "c", "d"], 2)
    'a, b and 2 other groups'
    """
    more = len(names) - most
    if more <= 0:
        return listed(names)
    return listed([*names[:most], plural(more, other)])


def unbroken(text: str) -> str:
    """A sentence in which no line ends within a number: before a % sign, or around <
    and =.

    >>> unbroken("13.9 %, p < 0.001") == "13.9\u00a0%, p\u00a0<\u00a00.001"
    True
    """
    return re.sub(r"(?<=\d) (?=%)|(?<=\bp) (?=[<=>])|(?<=[<=>]) (?=\d)", "\u00a0", text)


def in_parentheses(*parts: str) -> str:
    """What is known of a number, after its name; nothing if nothing is.

    >>> in_parentheses("O/E 0.94", "95 % CI 0.90 to 0.97")
    ' (O/E 0.94, 95 % CI 0.90 to 0.97)'
    >>> in_parentheses("O/E 0.94", ""), in_parentheses("")
    (' (O/E 0.94)', '')
    """
    shown = ", ".join(filter(None, parts))
    if not shown:
        return ""
    return f" ({shown})"


def capital(text: str) -> str:
    """A text at the beginning of a sentence.

    >>> capital("fewer than 11 people")
    'Fewer than 11 people'
    """
    return text[:1].upper() + text[1:]


def adding_up(values: Sequence[float], total: int) -> list[int]:
    """Values as whole numbers that add up to `total`, the rounded sum: largest
    remainders are rounded up.

    >>> adding_up([1.4, 2.4, -0.4], 3), adding_up([0.3, 0.3, 0.4], 1), adding_up([], 0)
    ([1, 2, 0], [0, 0, 1], [])
    """
    whole = [math.floor(value) for value in values]
    missing = total - sum(whole)
    largest_remainder_first = sorted(
        range(len(whole)), key=lambda i: whole[i] - values[i]
    )
    for i in largest_remainder_first[: max(missing, 0)]:
        whole[i] += 1
    if whole and missing < 0:
        # the two ends of the sum, halves both, were rounded apart
        largest = max(range(len(whole)), key=lambda i: abs(values[i]))
        whole[largest] += missing
    return whole


def noun(n: int, word: str) -> str:
    """A noun that agrees with a number.

    >>> noun(1, "group"), noun(2, "category"), noun(30, "more day")
    ('group', 'categories', 'more days')
    """
    several = f"{word}s"
    if word.endswith("y") and word[-2] not in "aeou":
        several = f"{word[:-1]}ies"
    return agreeing(n, word, several)


def plural(n: int, word: str) -> str:
    """A number with its noun.

    >>> plural(1, "group"), plural(2_000, "category")
    ('1 group', '2,000 categories')
    """
    return f"{n:,} {noun(n, word)}"


def agreeing(n: int, one: str, several: str) -> str:
    """The form of a word that agrees with a number.

    >>> agreeing(1, "is", "are"), agreeing(2, "is", "are")
    ('is', 'are')
    """
    return one if n == 1 else several


def are(n: int, word: str) -> str:
    """A number with its noun and a verb.

    >>> are(1, "group"), are(1234, "group")
    ('1 group is', '1,234 groups are')
    """
    return f"{plural(n, word)} {agreeing(n, 'is', 'are')}"

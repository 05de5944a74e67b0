"""Periods: days, weeks, months, quarters or years, as names that sort by time."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from zoneinfo import ZoneInfo

from propcal.core.arguments import check_choice
from propcal.errors import InputError, quoted, refused, shown

LONGEST = {"day": 1, "week": 7, "month": 31, "quarter": 92, "year": 366}  # days
KINDS = tuple(LONGEST)
EXAMPLES = {
    "day": "2026-03-31",
    "week": "2026-W13",
    "month": "2026-03",
    "quarter": "2026-Q1",
    "year": "2026",
}
_FORMS = {
    "day": r"(\d{4})-(\d\d)-(\d\d)",
    "week": r"(\d{4})-W(\d\d)",
    "month": r"(\d{4})-(\d\d)",
    "quarter": r"(\d{4})-Q([1-4])",
    "year": r"(\d{4})",
}
MAX_DELAY = 3660  # days
MOST_PERIODS = 20_000


def span_of(periods: Sequence[str]) -> str:
    """The first and the last of some periods.

    >>> span_of(["2025-01"]), span_of(["2025-01", "2025-02", "2025-03"])
    ('2025-01', '2025-01 to 2025-03')
    """
    if len(periods) == 1:
        return periods[0]
    return f"{periods[0]} to {periods[-1]}"


@dataclass(frozen=True)
class Calendar:
    """How time is divided, and in which time zone a day begins.

    Weeks are those of ISO 8601: they begin on Monday, and the year of a week is that of
    its Thursday.

    >>> Calendar("week").name(date(2027, 1, 1)), Calendar("quarter").end("2026-Q4")
    ('2026-W53', datetime.date(2027, 1, 1))
    >>> Calendar("month").span("2025-11", "2026-02")
    ['2025-11', '2025-12', '2026-01', '2026-02']
    """

    every: str = "month"
    timezone: str = "UTC"

    def __post_init__(self) -> None:
        check_choice("every", self.every, KINDS)
        try:
            ZoneInfo(self.timezone)
        except (KeyError, ValueError, OSError, TypeError):
            raise refused("no time zone", zone=shown(self.timezone)) from None

    def name(self, day: date) -> str:
        """The period that a day belongs to."""
        if self.every == "week":
            year, week, _ = day.isocalendar()
            return f"{year:04d}-W{week:02d}"
        if self.every == "day":
            return day.isoformat()
        rest = {
            "month": f"-{day.month:02d}",
            "quarter": f"-Q{(day.month + 2) // 3}",
            "year": "",
        }
        return f"{day.year:04d}{rest[self.every]}"

    def start(self, name: str) -> date:
        """The first day of a period; refuses a text that is not the name of one."""
        found = re.fullmatch(_FORMS[self.every], name)
        try:
            if found is None:
                raise ValueError
            numbers = [int(part) for part in found.groups()]
            if self.every == "week":
                return date.fromisocalendar(numbers[0], numbers[1], 1)
            if self.every == "quarter":
                return date(numbers[0], 3 * numbers[1] - 2, 1)
            return date(*[*numbers, 1, 1][:3])
        except ValueError:
            example = EXAMPLES[self.every]
            raise refused(
                "no period", got=shown(name), kind=self.every, example=example
            ) from None

    def end(self, name: str) -> date:
        """The first day after a period."""
        first = self.start(name)
        try:
            return self.start(self.name(first + timedelta(LONGEST[self.every])))
        except OverflowError:  # the year 9999
            return date.max

    def span(self, first: str, last: str) -> list[str]:
        """Every period from the first to the last, also those without people."""
        names = []
        day = self.start(first)
        stop = self.start(last)
        while day <= stop and day < date.max:
            names.append(self.name(day))
            if len(names) > MOST_PERIODS:
                limit = f"{MOST_PERIODS:,} {self.every}s"
                raise InputError(f"there are more than {limit} from {first} to {last}")
            day = self.end(names[-1])
        return names

    def sql(self, day: str) -> str:
        """The name of the period of a date, in DuckDB's SQL."""
        form = {"day": "%Y-%m-%d", "week": "%G-W%V", "month": "%Y-%m", "year": "%Y"}
        if self.every == "quarter":
            return f"strftime({day}, '%Y') || '-Q' || quarter({day})"
        return f"strftime({day}, {quoted(form[self.every])})"


def days(text: str | int) -> int:
    """A length of time in days, such as 30d or 6w.

    >>> days("30d"), days("6w"), days(7)
    (30, 42, 7)
    """
    found = re.fullmatch(r"\s*(\d{1,5})\s*([dw]?)\s*", str(text))
    if found is None or isinstance(text, bool):
        raise refused("no delay", got=shown(text))
    number = int(found[1])
    if found[2] == "w":
        number *= 7
    if number > MAX_DELAY:
        raise refused("no delay", got=shown(text))
    return number

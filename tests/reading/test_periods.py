"""Periods of a calendar."""

from datetime import date, timedelta

import pytest

from propcal.errors import InputError
from propcal.reading.periods import EXAMPLES, KINDS, Calendar, days


@pytest.mark.parametrize("every", KINDS)
def test_every_day_is_in_one_period_and_names_sort_by_time(every):
    calendar, day, names = Calendar(every), date(2023, 12, 20), []
    while day < date(2026, 1, 15):
        name = calendar.name(day)
        assert calendar.start(name) <= day < calendar.end(name)
        names.append(name)
        day += timedelta(days=1)
    assert names == sorted(names)
    assert calendar.span(names[0], names[-1]) == sorted(set(names))


def test_weeks_are_those_of_the_iso_calendar():
    calendar = Calendar("week")
    assert calendar.name(date(2024, 12, 30)) == "2025-W01"
    assert calendar.start("2026-W53") == date(2026, 12, 28)
    with pytest.raises(InputError, match="is not a week"):
        calendar.start("2025-W53")  # that year has 52


@pytest.mark.parametrize("every", KINDS)
def test_a_text_that_is_no_period_is_refused_with_an_example(every):
    for text in ("", "2026-13", "March", "2026-3", "2026-Q5", "2026-02-30", "0000"):
        with pytest.raises(InputError, match=EXAMPLES[every]):
            Calendar(every).start(text)


def test_settings_are_checked():
    with pytest.raises(InputError, match="every must be one of"):
        Calendar("fortnight")
    with pytest.raises(InputError, match="no time zone 'Berlin'"):
        Calendar("month", "Berlin")
    for text in ("soon", "-3d", "4000d", "1.5d", True):
        with pytest.raises(InputError, match="delay must be"):
            days(text)

"""Files and frames of people with dates: the atoms of each period."""

from datetime import date

import numpy as np
import pandas as pd
import polars as pl
import pytest

from propcal import Atoms
from propcal.errors import InputError
from propcal.reading.dated_people import Dating, dated_atoms
from propcal.reading.file_source import source_of
from propcal.reading.periods import Calendar
from propcal.reading.source import NamedColumns

COLUMNS = NamedColumns("score", "y", ["race", "gender"])
NOW = date(2025, 6, 10)


def dated_atoms_of(people, *how):
    return dated_atoms(source_of(people), *how)


@pytest.fixture(scope="module")
def dated(cohort):
    hours = np.random.default_rng(3).integers(0, 150 * 24, len(cohort))
    when = pd.Timestamp("2025-01-01") + pd.to_timedelta(hours, unit="h")
    return cohort.assign(when=when)


def expected(dated, month):
    return Atoms.from_frame(
        dated[dated.when.dt.strftime("%Y-%m") == month],
        score="score",
        outcome="y",
        groups=["race", "gender"],
    )


def test_frames_and_files_of_every_kind_give_the_atoms_of_each_month(dated):
    dated.to_csv("a.csv", index=False)
    dated.to_parquet("a.parquet")
    dated.assign(when=dated.when.dt.date).to_parquet("days.parquet")
    dated.assign(when=dated.when.dt.strftime("%Y-%m-%dT%H:%M:%SZ")).to_csv(
        "zoned.csv", index=False
    )
    made = [
        dated_atoms_of(dated, COLUMNS, Dating("when", as_of=NOW)),
        dated_atoms_of(pl.from_pandas(dated), COLUMNS, Dating("when", as_of=NOW)),
        dated_atoms_of(
            dated.assign(when=dated.when.dt.tz_localize("UTC")), COLUMNS, Dating("when")
        ),
    ]
    names = ("a.csv", "a.parquet", "days.parquet", "zoned.csv")
    made += [dated_atoms_of(name, COLUMNS, Dating("when", as_of=NOW)) for name in names]
    for found in made:
        assert list(found.periods) == [
            "2025-01",
            "2025-02",
            "2025-03",
            "2025-04",
            "2025-05",
        ]
        for month, atoms in found.periods.items():
            assert atoms.fingerprint() == expected(dated, month).fingerprint()


@pytest.mark.parametrize("unit", ["s", "us", "ns"])
def test_an_hour_before_midnight_in_utc_is_the_next_day_further_east(dated, unit):
    late = dated[:400].assign(
        when=pd.Timestamp("2025-01-31 23:00", tz="UTC").as_unit(unit)
    )
    for zone, month in (
        ("UTC", "2025-01"),
        ("Asia/Tokyo", "2025-02"),
        ("Europe/Berlin", "2025-02"),
    ):
        found = dated_atoms_of(late, COLUMNS, Dating("when", Calendar("month", zone)))
        assert list(found.periods) == [month]
    local = late.assign(when="2025-01-31 23:00")  # without an offset: as it is written
    found = dated_atoms_of(
        local, COLUMNS, Dating("when", Calendar("month", "Asia/Tokyo"))
    )
    assert list(found.periods) == ["2025-01"]


def test_periods_are_held_back_until_they_are_over_and_outcomes_are_known(dated):
    outcomes = dated.assign(y=dated.y.where(dated.when < "2025-05-01"))  # not known yet
    found = dated_atoms_of(
        outcomes, COLUMNS, Dating("when", delay=30, as_of=date(2025, 5, 31))
    )
    assert list(found.periods)[-1] == "2025-04"
    assert found.held_back == {"2025-05": int((dated.when >= "2025-05-01").sum())}
    found = dated_atoms_of(
        outcomes, COLUMNS, Dating("when", delay=30, as_of=date(2025, 5, 30))
    )
    assert list(found.periods)[-1] == "2025-03"
    with pytest.raises(InputError, match="missing"):
        dated_atoms_of(outcomes, COLUMNS, Dating("when", as_of=date(2025, 6, 30)))


def test_nothing_is_complete_yet(dated):
    found = dated_atoms_of(dated, COLUMNS, Dating("when", as_of=date(2025, 1, 31)))
    assert not found.periods
    assert sum(found.held_back.values()) == len(dated)


@pytest.mark.parametrize(
    "text",
    ["2025-02-30", "31.01.2025", "01/31/2025", "yesterday", "2025-01", "20250131"],
)
def test_dates_that_cannot_be_read_are_counted(dated, text):
    some = dated.assign(when=dated.when.astype(str))
    some.loc[some.index[:7], "when"] = text
    some.to_csv("a.csv", index=False)
    for read in (
        lambda: dated_atoms_of(some, COLUMNS, Dating("when")),
        lambda: dated_atoms_of("a.csv", COLUMNS, Dating("when")),
    ):
        with pytest.raises(
            InputError, match=r"column 'when' must hold dates; 7 of 3,000 .*ISO 8601"
        ):
            read()


def test_numbers_are_no_dates(dated):
    with pytest.raises(InputError, match="must hold dates; 3,000 of 3,000"):
        dated_atoms_of(dated.assign(when=45_000), COLUMNS, Dating("when"))


def test_future_and_missing_dates_are_counted(dated):
    some = dated.copy()
    some.loc[some.index[:3], "when"] = pd.Timestamp("2125-01-01")
    with pytest.raises(InputError, match=r"3 of 3,000 dates are in the future.* as_of"):
        dated_atoms_of(some, COLUMNS, Dating("when"))
    some.loc[some.index[:3], "when"] = pd.NaT
    with pytest.raises(
        InputError,
        match="column 'when' is missing for 3 of 3,000 people; drop_missing=True",
    ):
        dated_atoms_of(some, COLUMNS, Dating("when"))
    dropping = NamedColumns("score", "y", ["race", "gender"], drop_missing=True)
    found = dated_atoms_of(some, dropping, Dating("when"))
    assert found.undated == 3
    assert sum(atoms.n_people for atoms in found.periods.values()) == len(some) - 3


def test_shifted_dates_are_read_as_of_a_later_day(dated):
    shifted = dated.assign(when=dated.when + pd.DateOffset(years=100))
    found = dated_atoms_of(shifted, COLUMNS, Dating("when", as_of=date(2215, 1, 1)))
    assert sum(atoms.n_people for atoms in found.periods.values()) == len(dated)
    with pytest.raises(InputError, match="are in the future"):
        dated_atoms_of(shifted, COLUMNS, Dating("when", as_of=date(2026, 1, 1)))


def test_outcomes_before_their_scores_are_counted(dated):
    some = dated.assign(died=dated.when + pd.Timedelta("3h"))
    dated_atoms_of(some, COLUMNS, Dating("when", outcome_time="died"))
    some.loc[some.index[:5], "died"] -= pd.Timedelta("4h")
    with pytest.raises(
        InputError,
        match=r"column 'died': 5 of 3,000 outcomes are dated before the score",
    ):
        dated_atoms_of(some, COLUMNS, Dating("when", outcome_time="died"))


def test_a_missing_column_is_named(dated):
    dated.to_csv("a.csv", index=False)
    with pytest.raises(InputError, match="no column 'date'"):
        dated_atoms_of("a.csv", COLUMNS, Dating("date"))
    with pytest.raises(InputError, match="no column 'date'"):
        dated_atoms_of(dated, COLUMNS, Dating("date"))


def test_an_engine_is_told_to_write_files(dated):
    with pytest.raises(InputError, match="Write them to Parquet files"):
        dated_atoms_of(pl.from_pandas(dated).lazy(), COLUMNS, Dating("when"))

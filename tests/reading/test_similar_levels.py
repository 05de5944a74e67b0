"""Levels that differ only in case or spaces, and values that are limits: pointed out,
never changed.
"""

import warnings

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pytest

from propcal import Atoms, Groups, PMCBoost, audit
from propcal.cli import main
from propcal.errors import InputError

DOORS = ["pandas", "lazy", "duckdb", "csv", "clusters"]


def people(n=1000):
    race = np.array(["White", "Black"] * (n // 2), dtype=object)
    return pd.DataFrame(
        {
            "s": np.linspace(0.01, 0.99, n),
            "y": np.arange(n) // 2 % 2,
            "race": race,
            "id": np.arange(n),
        }
    )


def reduced(frame, door, groups=("race",)):
    columns = {
        "score": "s",
        "outcome": "y",
        "groups": groups if isinstance(groups, Groups) else list(groups),
    }
    if door in ("csv", "clusters"):
        frame.to_csv("people.csv", index=False)
        return Atoms.from_files(
            "people.csv", **columns, **({"cluster": "id"} if door == "clusters" else {})
        )
    made = {"pandas": lambda: frame, "lazy": lambda: pl.from_pandas(frame).lazy()}
    made["duckdb"] = lambda: duckdb.from_df(frame)
    return Atoms.from_frame(made[door](), **columns)


@pytest.mark.parametrize("door", DOORS)
def test_levels_that_differ_in_case_or_spaces_are_counted_once(door):
    frame = people()
    frame.loc[[0, 2], "race"] = "WHITE"
    frame.loc[4, "race"] = "White "
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        atoms = reduced(frame, door)
    assert atoms.patterns.levels[0] == (
        "Black",
        "WHITE",
        "White",
        "White ",
    )  # nothing is changed
    (warning,) = seen
    assert str(warning.message) == (
        'race: 3 of 1,000 values differ from another level only in case or spaces ("WHITE" / "White"). They '
        "are treated as different groups; rename them if that is not intended."
    )


@pytest.mark.parametrize("door", DOORS)
def test_a_level_without_letters_or_digits_may_mean_missing(door):
    frame = people()
    frame.loc[[0, 2], "race"] = "?"
    hint = r'race: 2 of 1,000 values are "\?"\. They form a group; if that means missing, .* na=\[.\?.\]'
    with pytest.warns(UserWarning, match=hint):
        reduced(frame, door)
    frame["race"] = np.where(frame.index % 2, "+", "-")  # results of a test, not codes
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        reduced(frame, door)


def test_an_audit_and_a_fit_warn_too():
    frame = people()
    frame.loc[0, "race"] = "white"
    for call in (
        lambda: audit(
            frame.y, frame.s, sensitive_features=frame[["race"]], n_draws=100
        ),
        lambda: PMCBoost().fit(frame.s, frame.y, sensitive_features=frame[["race"]]),
    ):
        with pytest.warns(
            UserWarning,
            match="race: 1 of 1,000 values differs from another level only in case",
        ):
            call()


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize(
    "condition", ["race = white", "race in [white, purple] and s > 0.5"]
)
def test_a_condition_that_nobody_meets_for_its_case_is_pointed_out(door, condition):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        reduced(people(), door, Groups(columns=[], where={"group": condition}))
    (warning,) = seen
    assert (
        str(warning.message)
        == "condition 'group': no row has race = white; did you mean White?"
    )


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize(
    "condition",
    ["race = green", "race = White and s > 2", "race = White", "race != white"],
)
def test_other_conditions_are_left_alone(door, condition):
    reduced(people(), door, Groups(columns=[], where={"group": condition}))


def test_a_top_coded_age_is_no_number_and_not_silently_missing(capfd):
    frame = people().assign(age=["50"] * 990 + ["> 89"] * 7 + ["90+"] * 3)
    told = '10 of them are limits such as "> 89" \\(top-coded ages\\): recode them, for example to 90'
    for words in (Groups(cuts={"age": [65]}), Groups(where={"old": "age > 70"})):
        with pytest.raises(InputError, match=told):
            audit(frame.y, frame.s, sensitive_features=frame[["age"]], groups=words)
    frame.to_csv("people.csv", index=False)
    with pytest.raises(SystemExit):
        main(
            ["audit", "people.csv", "--score", "s", "--outcome", "y", "--cut", "age=65"]
        )
    assert capfd.readouterr().err == (
        "propcal: column 'age' must hold numbers; 10 of 1,000 values are not numbers. 10 are limits such as "
        '"> 89" (top-coded ages): recode them, for example to 90\n'
    )
    with pytest.raises(SystemExit) as end:
        main(
            [
                "atoms",
                "people.csv",
                "--score",
                "s",
                "--outcome",
                "y",
                "--cut",
                "age=65",
                "-o",
                "a.atoms",
                "--na",
                "> 89",
                "--na",
                "90+",
            ]
        )
    assert end.value.code == 0
    assert None in Atoms.load("a.atoms").patterns.levels[0]


@pytest.mark.parametrize("door", DOORS)
def test_a_top_coded_age_is_no_group(door):
    ages = [str(20 + i % 60) for i in range(990)] + ["> 89"] * 7 + ["90+"] * 3
    frame = people().assign(race=ages)
    told = 'attribute .race. holds 60 different numbers.*, and limits such as "> 89" .*Recode the limits'
    with pytest.raises(InputError, match=told):
        reduced(frame, door, Groups(columns=["race"]))
    few = people().assign(race=[str(i % 5) for i in range(990)] + ["5+"] * 10)
    reduced(few, door, Groups(columns=["race"]))
    reduced(frame, door, Groups(columns=[], as_levels=["race"]))


@pytest.mark.parametrize("door", DOORS)
def test_a_space_at_the_end_is_pointed_out(door):
    frame = people()
    frame.loc[:9, "race"] = "Asian "
    with pytest.warns(
        UserWarning,
        match=r'race: 10 of 1,000 values have a space at the .* \("Asian "\). The',
    ):
        reduced(frame, door)

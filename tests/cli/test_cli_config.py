"""Options from a file, `--config`: the command line wins, and what is wrong in it is
told.
"""

from pathlib import Path

import pytest

from propcal import Atoms, Correction

COLUMNS = ("--score", "risk", "--outcome", "y", "--groups", "race,gender")


def test_options_from_a_file(files, run):
    Path("propcal.toml").write_text(
        'score = "risk"\noutcome = "y"\ngroups = ["race", "gender"]\nn-bins = 5\n'
        '[fit]\nalpha = 0.2\npaper = true\n[fit.cut]\nage = [40, 65]\n[fit.where]\nold = "age >= 75"\n'
        '[apply]\ncolumn = "better"\n'
    )
    run(
        "fit",
        "past.csv",
        "--config",
        "propcal.toml",
        "--alpha",
        "0.3",
        "-o",
        "model.json",
    )
    model = Correction.load("model.json")
    assert (model.about["alpha"], len(model.bins)) == (0.3, 5)  # the command line wins
    assert model.attributes == ("race", "gender", "age", "old")
    run("apply", "model.json", "past.csv", "--config", "propcal.toml", "-o", "out.csv")
    assert Path("out.csv").read_text().splitlines()[0].endswith(",better")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("alhpa = 0.1", "there is no option 'alhpa'. Did you mean 'alpha'?"),
        ("[fit]\ncolumn = 'x'", "[fit]: there is no option 'column'"),
        ("[fitt]\nalpha = 0.1", "there is no option 'fitt'. Did you mean 'fit'?"),
        ("fit = 5", "'fit' is a command; put its options into a table [fit]"),
        ("alpha = [", "propcal.toml is not valid TOML"),
        ("[fit]\npaper = 5", "'paper' must be true or false"),
        ("alpha = 'x'", "Invalid value for '--alpha'"),
        ("#" * 70_000, "too large for a configuration: more than 65,536 bytes"),
        ("a" + ".a" * 1001 + " = 1", "has more than 1,000 dots in one line"),
    ],
)
def test_a_config_that_is_wrong_is_told(files, run, content, message):
    Path("propcal.toml").write_text(content)
    error = run(
        "fit",
        "past.csv",
        *COLUMNS,
        "--config",
        "propcal.toml",
        "-o",
        "model.json",
        code=2,
    )
    assert message in error
    assert error.count("\n") == 1
    assert not Path("model.json").exists()


@pytest.mark.parametrize(
    "groups", ['["race", "gender"]', '"race, gender"', '["gender", "race"]']
)
def test_a_file_lists_groups_in_any_way(files, run, groups):
    Path("propcal.toml").write_text(
        f'score = "risk"\noutcome = "y"\ngroups = {groups}\n'
    )
    run("atoms", "past.csv", "--config", "propcal.toml", "-o", "past.atoms")
    assert sorted(Atoms.load("past.atoms").patterns.attributes) == ["gender", "race"]


def test_a_name_with_a_comma_is_one_name_in_a_list(files, run):
    files.rename(columns={"race": "race, self-reported"}).to_csv(
        "comma.csv", index=False
    )
    Path("propcal.toml").write_text(
        'score = "risk"\noutcome = "y"\ngroups = ["race, self-reported", "gender"]\n'
    )
    run("atoms", "comma.csv", "--config", "propcal.toml", "-o", "comma.atoms")
    assert Atoms.load("comma.atoms").patterns.attributes == (
        "race, self-reported",
        "gender",
    )

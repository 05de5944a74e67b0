"""`propcal fit`: what the library learns, and wrong use in one line."""

import json
from pathlib import Path

import numpy as np
import pytest

from propcal import Atoms, Correction, Groups, MCBoost, PMCBoost
from propcal.cli import main

NAMES = (
    "created",
    "model_id",
    "score",
    "outcome",
)  # arrays have no names, and only files a time


def learned(path="model.json"):
    return without_names(json.loads(Path(path).read_text()))


def fitted(model):
    return without_names(json.loads(model.correction_.to_json()))


def without_names(content):
    return content | {
        "about": {key: v for key, v in content["about"].items() if key not in NAMES}
    }


COLUMNS = ("--score", "risk", "--outcome", "y", "--groups", "race,gender")


@pytest.mark.parametrize("source", ["past.csv", "past.parquet", "past.atoms"])
def test_fit_learns_what_the_library_learns(files, run, source):
    atoms = Atoms.from_frame(
        files, score="risk", outcome="y", groups=["race", "gender"]
    )
    atoms.save("past.atoms")
    columns = () if source.endswith("atoms") else COLUMNS
    said = run("fit", source, *columns, "--alpha", "0.1", "-o", "model.json")
    expected = PMCBoost(alpha=0.1).fit(
        files.risk, files.y, sensitive_features=files[["race", "gender"]]
    )
    assert learned() == fitted(expected)
    assert expected.fit_summary_.sentences()[0] in said
    assert "propcal apply model.json new.csv" in said


def test_every_option_of_fit_reaches_the_method(files, run):
    words = (
        "--cut",
        "age=40,65",
        "--where",
        "elderly=age >= 75 and gender = F",
        "--intersections",
        "2",
    )
    numbers = (
        "--gamma",
        "0.02",
        "--rho",
        "0.2",
        "--n-bins",
        "5",
        "--eta",
        "0.5",
        "--max-updates",
        "20000",
    )
    more = (
        "--binning",
        "geometric",
        "--missing",
        "exclude",
        "--unseen",
        "keep",
        "--seed",
        "1",
    )
    said = run(
        "fit",
        "past.csv",
        *COLUMNS,
        *words,
        *numbers,
        *more,
        "--method",
        "mcboost",
        "-o",
        "model.json",
    )
    assert (
        "--intersections 2 --missing exclude --gamma 0.02 --correction model.json"
        in said
    )  # same groups
    groups = Groups(
        columns=["race", "gender"],
        cuts={"age": [40, 65]},
        where={"elderly": "age >= 75 and gender = F"},
        intersections=2,
        missing="exclude",
    )
    expected = MCBoost(
        gamma=0.02,
        rho=0.2,
        n_bins=5,
        eta=0.5,
        max_updates=20_000,
        binning="geometric",
        unseen="keep",
        groups=groups,
    ).fit(files.risk, files.y, sensitive_features=files)
    assert learned() == fitted(expected)


def test_the_paper_s_settings_and_edges(files, run):
    run(
        "fit",
        "past.csv",
        *COLUMNS,
        "--paper",
        "--binning",
        "0,0.2,1",
        "-o",
        "model.json",
    )
    about = Correction.load("model.json")
    assert (about.about["alpha"], len(about.bins)) == (0.1, 2)


@pytest.mark.parametrize(
    ("typed", "guard"), [("none", None), ("2.5", 2.5), ("noise", "noise")]
)
def test_start_and_guard_reach_the_method(files, run, typed, guard):
    run(
        "fit",
        "past.csv",
        *COLUMNS,
        "--start",
        "identity",
        "--guard",
        typed,
        "-o",
        "model.json",
    )
    expected = PMCBoost(start="identity", guard=guard)
    expected.fit(files.risk, files.y, sensitive_features=files[["race", "gender"]])
    assert learned() == fitted(expected)


def test_fit_weighs_people_and_tells_who_is_left_out(files, run):
    files.assign(w=np.arange(len(files)) % 3 + 1).to_csv("weighted.csv", index=False)
    said = run(
        "fit",
        "weighted.csv",
        *COLUMNS,
        "--weight",
        "w",
        "--gamma",
        "0.2",
        "-o",
        "model.json",
    )
    assert (
        "of the groups have less than 20 % of the people (gamma), so their cells are not adjusted"
        in said
    )
    weight = np.arange(len(files)) % 3 + 1
    expected = PMCBoost(gamma=0.2).fit(
        files.risk,
        files.y,
        sensitive_features=files[["race", "gender"]],
        sample_weight=weight,
    )
    assert learned() == fitted(expected)


def test_a_fit_that_stops_early_says_so_in_a_line(files, run, capfd):
    with pytest.raises(SystemExit):
        main(
            [
                "fit",
                "past.csv",
                *COLUMNS,
                "--paper",
                "--max-updates",
                "1",
                "-o",
                "model.json",
            ]
        )
    err = capfd.readouterr().err
    assert err.startswith(
        "propcal: note: PMCBoost did not converge: it stopped after 1 adjustment"
    )
    assert ".py" not in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("fit", "past.csv", "-o", "m.json"), "name one of them with --score"),
        (
            ("fit", "past.csv", "--score", "risk", "-o", "m.json"),
            "name one of them with --outcome",
        ),
        (("fit", "past.csv", *COLUMNS), "Missing option '--output'"),
        (
            ("fit", "past.csv", *COLUMNS, "-o", "m.json", "--alpha", "3"),
            "alpha must be a number above 0",
        ),
        (
            ("fit", "past.csv", *COLUMNS, "-o", "m.json", "--alfa", "3"),
            "--alfa. Did you mean --alpha?",
        ),
        (
            ("fit", "past.csv", *COLUMNS, "-o", "m.json", "--cut", "age"),
            "write it like age=18,40,65",
        ),
        (
            ("fit", "past.csv", *COLUMNS, "-o", "m.json", "--cut", "age=x"),
            "write it like age=18,40,65",
        ),
        (
            ("fit", "past.csv", *COLUMNS, "-o", "m.json", "--where", "age >= 5"),
            "write it like",
        ),
        (
            ("fit", "past.csv", *COLUMNS, "-o", "m.json", "--where", "old=age >= "),
            "condition 'age >='",
        ),
        (("fit", "past.csv", *COLUMNS, "-o", "m.json", "--cut", "zip=1"), None),
        (
            ("fit", "past.csv", *COLUMNS[:4], "--groups", "id", "-o", "m.json"),
            "3,000 different values",
        ),
        (
            ("fit", "past.csv", *COLUMNS[:4], "--groups", "age", "-o", "m.json"),
            "Give cut points, --cut age=...; if the numbers are codes",
        ),
        (
            ("fit", "past.csv", *COLUMNS, "--missing", "error", "-o", "m.json"),
            "--missing level",
        ),
        (
            ("fit", "past.csv", "--score", "race", "--outcome", "y", "-o", "m.json"),
            "It holds only text; is it the right column",
        ),
        (
            ("fit", "past.csv", "--score", "risk", "--outcome", "age", "-o", "m.json"),
            "must be 0 or 1",
        ),
        (
            ("fit", "nowhere.csv", *COLUMNS, "-o", "m.json"),
            "there is no file nowhere.csv",
        ),
        (("dance",), "No such command 'dance'"),
    ],
)
def test_wrong_use_is_told_in_one_line(files, run, arguments, message):
    if message is None:
        run(*arguments)  # zip 02139 is compared as a number if it is cut
        return
    error = run(*arguments, code=2)
    assert error.startswith("propcal: ")
    assert error.count("\n") == 1
    assert message in error
    assert not Path("m.json").exists()


def test_atoms_files_bring_their_own_columns(files, run):
    Atoms.from_frame(files, score="risk", outcome="y", groups=["race"]).save(
        "past.atoms"
    )
    error = run("fit", "past.atoms", *COLUMNS, "-o", "m.json", code=2)
    assert "is an atoms file" in error
    assert "leave out --score, --outcome, --groups" in error


def test_nothing_is_written_for_a_handful_of_people_unless_forced(files, run, capfd):
    files.head(30).to_csv("few.csv", index=False)
    with pytest.raises(SystemExit, match="2"):
        main(["fit", "few.csv", *COLUMNS, "-o", "few.json"])
    assert (
        "not enough data to judge the score: this takes at least 50 people"
        in capfd.readouterr().err
    )
    assert not Path("few.json").exists()
    run("fit", "few.csv", *COLUMNS, "--guard", "none", "-o", "few.json")
    assert len(Correction.load("few.json").updates) > 0


def test_a_correction_of_everyone_alike_is_said_to_read_no_groups(files, run):
    outcome = (np.random.default_rng(0).random(len(files)) < 0.6 * files.risk).astype(
        int
    )
    files.assign(y=outcome).to_csv("high.csv", index=False)
    said = run("fit", "high.csv", *COLUMNS, "-o", "model.json")
    assert "race and gender: no effect found" in said
    assert "; the correction reads" not in said


def test_a_correction_that_changes_nobody_says_so_and_suggests_no_use(files, run):
    corrected = files.assign(
        y=(np.random.default_rng(0).random(len(files)) < files.risk).astype(int)
    )
    corrected.to_csv("right.csv", index=False)
    said = run("fit", "right.csv", *COLUMNS, "-o", "model.json")
    assert "The correction in model.json changes nobody" in said
    assert "propcal apply" not in said

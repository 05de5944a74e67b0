"""`propcal discover` on files."""

import json
import subprocess

import jsonschema
import numpy as np
import pandas as pd
import pytest

from paths import ROOT


@pytest.fixture
def file(tmp_path):
    rng = np.random.default_rng(0)
    n = 5000
    frame = pd.DataFrame(
        {"age": rng.integers(20, 90, n), "ward": rng.choice(list("AB"), n)}
    )
    frame["risk"] = rng.uniform(0.1, 0.5, n)
    wrong = (frame["age"] >= 70) & (frame["ward"] == "B")
    frame["died"] = np.where(rng.random(n) < frame["risk"] + 0.3 * wrong, "yes", "no")
    frame.to_csv(tmp_path / "visits.csv", index=False)
    return "visits.csv"


ASKED = (
    "--score",
    "risk",
    "--outcome",
    "died",
    "--features",
    "age,ward",
    "--draws",
    "24",
)


def test_groups_are_printed_with_the_command_that_corrects_them(run, file):
    said = run("discover", file, *ASKED)
    assert "age 70 or over, ward B" in said
    assert "propcal fit" in said


def test_the_command_that_is_printed_runs(run, file, tmp_path):
    from shlex import split

    printed = run("discover", file, *ASKED).split("the correction on):\n")[1].strip()
    run(*split(printed)[1:])
    assert "age" in (tmp_path / "model.json").read_text()


def test_the_command_that_is_printed_has_the_options_of_the_search(run, file, tmp_path):
    from shlex import split

    table = pd.read_csv(tmp_path / file)
    table["died"] = table["died"].map({"yes": "EXPIRED", "no": "home"})
    table.loc[:9, "risk"] = np.nan
    table["risk"] = table["risk"].astype(object).where(table["risk"].notna(), "unknown")
    table.assign(patient=np.arange(len(table)) // 2, times=1).to_csv(
        tmp_path / "odd.csv", index=False
    )
    options = {
        "--positive": "EXPIRED",
        "--cluster": "patient",
        "--na": "unknown",
        "--weight": "times",
        "--weight-kind": "frequency",
        "--unit": "stays",
        "--label": "ward.B=surgery",
    }
    given = [part for pair in options.items() for part in pair]
    said = run("discover", "odd.csv", *ASKED, *given, "--drop-missing")
    assert "keep some stays out of the search" in said
    printed = split(said.split("the correction on):\n")[1].strip())
    for flag, value in options.items():
        assert printed[printed.index(flag) + 1] == value
    assert "--drop-missing" in printed
    run(*printed[1:])
    assert "age" in (tmp_path / "model.json").read_text()


@pytest.mark.parametrize(
    ("column", "level"),
    [
        ("diabetic", "True"),
        ("age_band", ">=65"),
        ("a=b", 'x="1, 2"'),
        ("-col", "it's !="),
        ("%s", "\u202eevil\x1b[31m"),
    ],
)
def test_the_command_that_is_printed_runs_whatever_columns_and_levels_are_called(
    run, tmp_path, column, level
):
    rng = np.random.default_rng(0)
    n = 3000
    own, risk = rng.random(n) < 0.3, rng.uniform(0.1, 0.4, n)
    died = (rng.random(n) < risk + 0.3 * own).astype(int)
    people = pd.DataFrame(
        {"risk": risk, "died": died, column: np.where(own, level, "False")}
    )
    people.to_csv(tmp_path / "-a.csv", index=False)
    asked = (
        "--score",
        "risk",
        "--outcome",
        "died",
        "--features",
        column,
        "--draws",
        "24",
    )
    said = run("discover", "./-a.csv", *asked)
    printed = said.split("the correction on):\n")[1].strip()
    assert printed.isprintable()
    words = subprocess.run(
        ["bash", "-c", f"printf '%s\\0' {printed}"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split("\0")[:-1]
    run(*words[1:])
    assert (
        tmp_path / "model.json"
    ).exists()  # a group of nobody would have been refused


def test_a_value_that_no_command_can_have_is_for_python(run, tmp_path):
    rng = np.random.default_rng(0)
    own, risk = rng.random(3000) < 0.3, rng.uniform(0.1, 0.4, 3000)
    died = (rng.random(3000) < risk + 0.3 * own).astype(int)
    people = pd.DataFrame(
        {"risk": risk, "died": died, "ward": np.where(own, "a\0b", "c")}
    )
    people.to_parquet(tmp_path / "a.parquet")
    said = run(
        "discover",
        "a.parquet",
        "--score",
        "risk",
        "--outcome",
        "died",
        "--features",
        "ward",
        "--draws",
        "24",
    )
    assert "propcal fit" not in said
    assert "In Python: propcal.PMCBoost(groups=propcal.discover(...).groups)" in said


def test_a_column_that_no_condition_can_name_is_not_searched(run, file, tmp_path):
    pd.read_csv(tmp_path / file).rename(columns={"ward": "`ward`"}).to_csv(
        tmp_path / "b.csv", index=False
    )
    said = run(
        "discover", "b.csv", *ASKED[:4], "--features", "age,`ward`", "--draws", "24"
    )
    assert "Not searched: `ward` (its name has a backquote" in said


def test_a_page_is_written_with_protected_counts_and_not_over_another_file(
    run, file, tmp_path
):
    run("discover", file, *ASKED, "--html", "found.html")
    page = (tmp_path / "found.html").read_text()
    assert "age 70 or over, ward B" in page
    assert "Counts are changed by up to 2 for privacy" in page
    assert "--force" in run("discover", file, *ASKED, "--html", "found.html", code=2)
    run("discover", file, *ASKED, "--html", "found.html", "--suppress", "0", "--force")
    assert "Counts are moved" not in (tmp_path / "found.html").read_text()


def test_json_goes_to_a_file_and_to_standard_output(run, file, tmp_path):
    said = json.loads(
        run("discover", file, *ASKED, "--format", "json", "-o", "found.json")
    )
    assert said == json.loads((tmp_path / "found.json").read_text())
    assert said["found"][0]["condition"] == "age >= 70 and ward = 'B'"


def test_an_audit_may_search_as_well(run, file, tmp_path):
    asked = (
        "audit",
        file,
        *ASKED[:4],
        "--groups",
        "ward",
        "--draws",
        "100",
        "--discover",
        "age,ward",
    )
    said = run(*asked, "--html", "a.html", "-o", "a.json")
    assert "Verdict:" in said
    assert "age 70 or over, ward B" in said
    page = (tmp_path / "a.html").read_text()
    assert "Groups found by a search" in page
    assert "age 70 or over, ward B" in page
    content = json.loads((tmp_path / "a.json").read_text())
    jsonschema.validate(
        content,
        json.loads((ROOT / "src/propcal/schemas/audit.schema.json").read_text()),
    )
    alone = json.loads(run("discover", file, *ASKED[:6], "--format", "json"))
    assert content["discovery"]["found"] == alone["found"]
    run("fit", file, *ASKED[:4], "--groups", "ward", "-o", "m.json")
    assert "leave out --correction" in run(*asked, "--correction", "m.json", code=2)


def test_counts_are_protected_if_asked(run, file):
    exact, shown = (
        json.loads(run("discover", file, *ASKED, "--format", "json", *more))["found"][0]
        for more in ((), ("--suppress", "11"))
    )
    assert 0 <= abs(shown["people"] - exact["people"]) <= 2
    assert (shown["people"], shown["events"]) != (exact["people"], exact["events"])
    assert f"(about {shown['people']:,.0f} people)" in run(
        "discover", file, *ASKED, "--suppress", "11"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--score", "risk", "--outcome", "died"), "--features"),
        (("--outcome", "died", "--features", "age"), "--score"),
        (
            ("--score", "risk", "--outcome", "died", "--features", "age,died"),
            "--features: column 'died' is the outcome. Remove it from --features",
        ),
        (
            ("--score", "risk", "--outcome", "died", "--features", "age,height"),
            "height",
        ),
    ],
)
def test_wrong_use_is_one_line(run, file, arguments, message):
    assert message in run("discover", file, *arguments, code=2)


def test_messages_name_files_columns_and_options(run, file, tmp_path):
    people = pd.read_csv(tmp_path / file)
    people[:0].to_csv(tmp_path / "head.csv", index=False)
    assert "head.csv: there are no rows" in run("discover", "head.csv", *ASKED, code=2)
    people.assign(died=1).to_csv(tmp_path / "all.csv", index=False)
    said = run("discover", "all.csv", *ASKED, code=2)
    assert "column 'died': everybody had the outcome (5,000 people)" in said
    people.assign(risk=people.risk.round()).to_csv(tmp_path / "whole.csv", index=False)
    assert "column 'risk': every value is 0 or 1" in run(
        "discover", "whole.csv", *ASKED, code=2
    )
    people.assign(age=50, ward="A").to_csv(tmp_path / "same.csv", index=False)
    assert "--features: no column can be searched" in run(
        "discover", "same.csv", *ASKED, code=2
    )
    said = run("discover", file, *ASKED, "--protect", "risk", code=2)
    assert "--protect: column 'risk' is the score" in said

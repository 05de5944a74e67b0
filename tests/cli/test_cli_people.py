"""Whose rows a command takes: outcomes in words, people left out, codes as groups; and
what it refuses.
"""

import json

import numpy as np
import pytest

import propcal
from propcal import Atoms, Correction, Groups
from propcal.cli import main
from propcal.errors import InputError

COLUMNS = ("--score", "risk", "--outcome", "y", "--groups", "race,gender")


@pytest.fixture
def gaps(people):
    """These people in gaps.csv, every fiftieth without a score."""
    frame = people.copy()
    frame.loc[::50, "risk"] = np.nan
    frame.to_csv("gaps.csv", index=False)
    return frame


@pytest.mark.parametrize("command", ["audit", "fit", "atoms"])
def test_a_missing_score_is_refused_with_the_way_out(gaps, run, command):
    output = () if command == "audit" else ("-o", "out.json")
    error = run(command, "gaps.csv", *COLUMNS, *output, code=2)
    assert error == (
        "propcal: column 'risk' must hold probabilities from 0 to 1; 60 of 3,000 values are missing. Exclude "
        "these rows with --drop-missing (the report will say how many), or find out why their score is "
        "missing\n"
    )


def test_people_without_a_score_are_left_out_and_reported(gaps, run):
    told = "60 of 3,000 people (2.0 %) have no score or outcome and were left out: by race, "
    shown = " ".join(run("audit", "gaps.csv", *COLUMNS, "--drop-missing").split())
    assert told in shown
    assert (
        "--drop-missing -o model.json" in shown
    )  # the next command leaves out the same people
    assert told in run(
        "fit", "gaps.csv", *COLUMNS, "--drop-missing", "-o", "model.json"
    )
    assert told in run(
        "atoms", "gaps.csv", *COLUMNS, "--drop-missing", "-o", "gaps.atoms"
    )
    assert told in " ".join(run("audit", "gaps.atoms").split())
    run(
        "atoms",
        "gaps.csv",
        *COLUMNS,
        "--drop-missing",
        "--resolution",
        "2^-10",
        "-o",
        "coarse.atoms",
    )
    run("merge", "gaps.atoms", "coarse.atoms", "--allow-repeated", "-o", "twice.atoms")
    assert "120 of 6,000 people (2.0 %)" in " ".join(
        run("audit", "twice.atoms").split()
    )
    found = json.loads(
        run("audit", "gaps.csv", *COLUMNS, "--drop-missing", "--format", "json")
    )
    assert any(note.startswith(told) for note in found["notes"])
    assert "leave out --drop-missing" in run(
        "audit", "gaps.atoms", "--drop-missing", code=2
    )


def test_few_people_left_out_are_not_counted_out(people, run):
    frame = people.copy()
    frame.loc[:3, "risk"] = np.nan
    frame.to_csv("gaps.csv", index=False)
    told = "Fewer than 11 people have no score or outcome and were left out."
    assert told in run(
        "fit", "gaps.csv", *COLUMNS, "--drop-missing", "-o", "model.json"
    )
    arguments = (
        "gaps.csv",
        *COLUMNS,
        "--drop-missing",
        "--suppress",
        "0",
        "-o",
        "open.json",
    )
    assert "4 of 3,000 people (0.13 %)" in run("fit", *arguments)


def test_repeat_visits_reach_the_fit(people, run):
    again = people.loc[people.index.repeat(3)].assign(
        patient=np.repeat(np.arange(len(people)), 3)
    )
    again.to_csv("visits.csv", index=False)
    out = run("fit", "visits.csv", *COLUMNS, "--cluster", "patient", "-o", "model.json")
    assert "--cluster patient" in out  # in the command that comes next
    assert "Repeat visits were taken into account" in out


def test_a_missing_code_is_named_and_left_out(people, run):
    frame = people.copy()
    frame.loc[::50, "risk"] = -1
    frame.to_csv("gaps.csv", index=False)
    error = run("audit", "gaps.csv", *COLUMNS, code=2)
    assert "usually mean missing. Recode them as missing (--na -1)" in error
    shown = run("audit", "gaps.csv", *COLUMNS, "--na", "-1", "--drop-missing")
    assert "60 of 3,000 people" in shown


@pytest.mark.parametrize(
    "words", [("yes", "no"), ("Y", "N"), ("TRUE", "FALSE"), ("t", "f")]
)
def test_an_outcome_may_be_said_in_words(files, run, words):
    files.assign(y=np.where(files.y == 1, *words)).to_csv("words.csv", index=False)
    run("atoms", "words.csv", *COLUMNS, "-o", "words.atoms")
    run("atoms", "past.csv", *COLUMNS, "-o", "past.atoms")
    assert (
        Atoms.load("words.atoms").fingerprint()
        == Atoms.load("past.atoms").fingerprint()
    )


def test_another_outcome_asks_for_the_event(files, run):
    files.assign(y=np.where(files.y == 1, "EXPIRED", "SENT HOME")).to_csv(
        "status.csv", index=False
    )
    error = run("audit", "status.csv", *COLUMNS, code=2)
    assert error == (
        "propcal: column 'y' must be 0 or 1, or yes or no; it holds 'EXPIRED' and 'SENT HOME'. Say which of "
        "them means the event: --positive EXPIRED or --positive 'SENT HOME'\n"
    )
    run("atoms", "past.csv", *COLUMNS, "-o", "past.atoms")
    run("atoms", "status.csv", *COLUMNS, "--positive", "expired", "-o", "status.atoms")
    assert (
        Atoms.load("status.atoms").fingerprint()
        == Atoms.load("past.atoms").fingerprint()
    )
    shown = run("audit", "status.csv", *COLUMNS, "--positive", "EXPIRED")
    assert "--positive EXPIRED" in shown.splitlines()[-1]
    error = run("audit", "status.csv", *COLUMNS, "--positive", "DIED", code=2)
    assert (
        error
        == "propcal: column 'y': no value is 'DIED'. It holds 'EXPIRED' and 'SENT HOME'.\n"
    )


@pytest.mark.parametrize("source", ["codes.csv", "codes.parquet"])
def test_many_codes_can_be_groups_on_request(people, run, source):
    frame = people.assign(hospital=np.arange(len(people)) % 40)
    frame.to_csv("codes.csv", index=False)
    frame.to_parquet("codes.parquet")
    columns = ("--score", "risk", "--outcome", "y")
    error = run(
        "atoms", source, *columns, "--groups", "hospital", "-o", "codes.atoms", code=2
    )
    assert "40 different numbers" in error
    assert (
        "if the numbers are codes, ask for them as groups, --as-levels hospital"
        in error
    )
    run(
        "atoms",
        source,
        *columns,
        "--groups",
        "race",
        "--as-levels",
        "hospital",
        "-o",
        "codes.atoms",
    )
    found = Atoms.load("codes.atoms")
    assert found.patterns.attributes == ("race", "hospital")
    assert len(found.patterns.levels[1]) == 40
    words = Groups(columns=["race"], as_levels=["hospital"])
    memory = Atoms.from_frame(frame, score="risk", outcome="y", groups=words)
    assert memory.fingerprint() == found.fingerprint()


def test_identifiers_are_no_groups_even_on_request(people):
    frame = people.assign(number=np.arange(len(people)))
    with pytest.raises(InputError, match="3,000 different values; at most 200"):
        Atoms.from_frame(
            frame,
            score="risk",
            outcome="y",
            groups=Groups(columns=[], as_levels=["number"]),
        )
    with pytest.raises(InputError, match="'age' is cut into ranges"):
        Groups(cuts={"age": [40]}, as_levels=["age"])
    with pytest.raises(InputError, match="there is no column 'ward'"):
        propcal.audit(
            frame.y,
            frame.risk,
            sensitive_features=frame[["race"]],
            groups=Groups(as_levels=["ward"]),
        )


def test_a_reversed_score_is_not_fitted_unless_asked_for(people, run):
    people.assign(risk=1 - people.risk).to_csv("survival.csv", index=False)
    error = run("fit", "survival.csv", *COLUMNS, "-o", "model.json", code=2)
    assert "it ranks people the wrong way round" in error
    assert (
        "Check that the right value of the outcome means the event (--positive). If it does, the sc"
        in error
    )
    assert (
        "probably a survival probability; use 1 - score, or --allow-reversed if it is meant"
        in error
    )
    run("fit", "survival.csv", *COLUMNS, "--allow-reversed", "-o", "model.json")
    assert Correction.load("model.json")
    assert "THE SCORE RANKS PEOPLE THE WRONG WAY ROUND" in " ".join(
        run("audit", "survival.csv", *COLUMNS).split()
    )


@pytest.mark.parametrize(("value", "who"), [(0, "nobody"), (1, "everybody")])
def test_an_outcome_that_all_share_is_said_to_be_so(people, run, value, who):
    people.assign(y=value).to_csv("alike.csv", index=False)
    shown = " ".join(run("audit", "alike.csv", *COLUMNS).split())
    assert shown.startswith("Verdict: Miscalibrated")  # as in the monitor
    assert f"predicts too {'high' if value == 0 else 'low'}" in shown
    assert f"{who.capitalize()} had the outcome. Check that the right column" in shown
    assert "if a join of two tables failed" in shown
    assert "propcal fit" not in shown
    error = run("fit", "alike.csv", *COLUMNS, "-o", "model.json", code=2)
    assert error.startswith(
        f"propcal: a correction needs both classes of the outcome: {who} had the outcome"
    )


def test_a_fit_prints_no_small_counts(people, run):
    frame = people.copy()
    frame.loc[:6, "race"] = "rare"
    frame.loc[7:40, "race"] = "less rare"
    frame.to_csv("rare.csv", index=False)
    shown = run("fit", "rare.csv", *COLUMNS, "-o", "model.json")
    assert "  rare: fewer than 11 people\n" in shown
    assert "  less rare: 31 to 40 people\n" in shown
    assert " 7 people" not in shown
    shown = run("fit", "rare.csv", *COLUMNS, "--suppress", "0", "-o", "open.json")
    assert "  rare: 7 people\n" in shown
    assert "  less rare: 34 people\n" in shown


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (
            ("explain", "model.json"),
            "There is no command explain: why a score changed is told in Python",
        ),
        (
            ("report",),
            "There is no command report: propcal audit FILES ... --html report.html writes a report",
        ),
        (
            ("audit", "model.json", *COLUMNS),
            "model.json is a JSON file, perhaps a correction",
        ),
        (
            ("audit", "past.csv", *COLUMNS[:4], "--groups", "race;gender"),
            "If these are 2 columns, separate them with commas: race,gender",
        ),
        (
            ("apply", "model.json", "other.csv", "--score", "risk", "-o", "out.csv"),
            "model.json reads the columns ['race', 'gender'], and other.csv has no column 'gender'",
        ),
        (
            ("fit", "past.csv", *COLUMNS, "--cluster", "gender", "-o", "m.json"),
            "identifies patients, not sites",
        ),
    ],
)
def test_what_is_looked_for_elsewhere_is_told_where_it_is(
    files, model, run, arguments, told
):
    files.drop(columns="gender").to_csv("other.csv", index=False)
    assert told in run(*arguments, code=2)


def test_a_label_that_is_not_used_is_told(files, run, capfd):
    labels = (
        "--label",
        "gender.F=women",
        "--label",
        "sex.F=women",
        "--label",
        "gender.X=others",
    )
    for command, output in (("audit", ()), ("fit", ("-o", "m.json"))):
        with pytest.raises(SystemExit):
            main([command, "past.csv", *COLUMNS, *labels, *output])
        err = capfd.readouterr().err
        assert "--label sex.F: 'sex' is not among the groups, so it is not used" in err
        assert "--label gender.X: 'gender' has no value 'X', so it is not used" in err
        assert "gender.F" not in err


def test_a_score_that_is_the_outcome_is_told_when_it_is_corrected(
    files, model, run, capfd
):
    with pytest.raises(SystemExit):
        main(["apply", "model.json", "past.csv", "--score", "y", "-o", "out.csv"])
    assert (
        "column 'y' holds only 0 and 1; is it the outcome instead of the score?"
        in capfd.readouterr().err
    )


def test_the_next_commands_keep_what_was_said(people, run):
    frame = people.assign(
        w=1.5, risk=people.risk.astype(object).where(people.index % 50 > 0, "-9")
    )
    frame.to_csv("gaps.csv", index=False)
    said = (
        "--weight",
        "w",
        "--weight-kind",
        "survey",
        "--na",
        "-9",
        "--drop-missing",
        "--unit",
        "stays",
    )
    out = run(
        "fit",
        "gaps.csv",
        *COLUMNS,
        *said,
        "--label",
        "gender.F=women",
        "-o",
        "model.json",
    )
    audit, apply = out.splitlines()[-2:]
    for flag in (
        "--weight-kind survey",
        "--na -9",
        "--drop-missing",
        "--unit stays",
        "--label gender.F=women",
    ):
        assert flag in audit
    assert "--na -9 --invalid null -o corrected.csv" in apply
    assert "2,940 stays" in out
    assert "60 of 3,000 stays (2.0 %)" in out
    assert "people" not in out


def test_a_reversed_score_is_the_first_thing_said_and_no_fit_is_suggested(people, run):
    people.assign(risk=1 - people.risk).to_csv("survival.csv", index=False)
    lines = run("audit", "survival.csv", *COLUMNS, "--unit", "patients").splitlines()
    assert (
        lines[1]
        .strip()
        .startswith("THE SCORE RANKS PATIENTS THE WRONG WAY ROUND (AUROC 0.")
    )
    assert (
        lines[-1] == "Before correcting it, find out why it ranks the wrong way round."
    )
    assert "propcal fit" not in "".join(lines)

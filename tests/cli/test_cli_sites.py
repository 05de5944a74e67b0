"""Sites and shared atoms on the command line."""

import json
from pathlib import Path

import jsonschema
import numpy as np
import pytest

from paths import ROOT
from propcal import Atoms
from propcal.cli import main
from propcal.core.patterns import SITE
from propcal.core.reduction import split_by

ROLES = ("--score", "risk", "--outcome", "y", "--groups", "race,gender")


@pytest.fixture
def hospitals(people):
    rng = np.random.default_rng(2)
    whole = people.assign(hospital=rng.choice(["North", "South", "East"], len(people)))
    whole.to_csv("all.csv", index=False)
    for name in ("North", "South", "East"):
        whole[whole.hospital == name].to_csv(f"{name}.csv", index=False)
    return whole


def test_a_column_of_sites_and_a_file_for_each_are_the_same(hospitals, run):
    run("atoms", "all.csv", *ROLES, "--site", "hospital", "-o", "all.atoms")
    for name in ("North", "South", "East"):
        run("atoms", f"{name}.csv", *ROLES, "--site", name, "-o", f"{name}.atoms")
    run("merge", "North.atoms", "South.atoms", "East.atoms", "-o", "merged.atoms")
    assert (
        Atoms.load("merged.atoms").fingerprint()
        == Atoms.load("all.atoms").fingerprint()
    )
    said = run("audit", "merged.atoms", "--html", "a.html", "--draws", "100")
    assert "at a new site, we expect one between" in " ".join(said.split())
    page = Path("a.html").read_text()
    assert page.count('id="sites"') == 1
    assert page.count('href="#sites"') == 2
    assert page.index('href="#sites"') < page.index("</section>")  # in the verdict
    assert "New site (95 % prediction)" in page
    assert "a new site" in run(
        "audit", "all.csv", *ROLES, "--site", "hospital", "--draws", "100"
    )


def test_json_of_an_audit_has_the_sites_that_the_terminal_shows(hospitals, run):
    common = (
        "audit",
        "all.csv",
        *ROLES,
        "--site",
        "hospital",
        "--draws",
        "100",
        "--format",
        "json",
    )
    content = json.loads(run(*common))
    assert content["sites"]["format"] == "propcal-sites"
    assert [row["site"] for row in content["sites"]["sites"]] == [
        "East",
        "North",
        "South",
    ]
    schema = json.loads(
        (ROOT / "src" / "propcal" / "schemas" / "audit.schema.json").read_text()
    )
    jsonschema.validate(content, schema)
    whole = json.loads(
        run("audit", "all.csv", *ROLES, "--draws", "100", "--format", "json")
    )
    assert {**content, "sites": None} == {
        **whole,
        "sites": None,
        "settings": content["settings"],
    }


def test_a_site_in_two_files_under_two_spellings_is_refused(hospitals, run):
    run("atoms", "North.csv", *ROLES, "--site", "North", "-o", "a.atoms")
    run("atoms", "South.csv", *ROLES, "--site", "north ", "-o", "b.atoms")
    told = run("merge", "a.atoms", "b.atoms", "-o", "c.atoms", code=2)
    assert (
        "a site has two spellings, 'North' and 'north', in a.atoms and b.atoms" in told
    )


def test_shared_atoms_say_what_was_merged(hospitals, run):
    said = run(
        "atoms", "North.csv", *ROLES, "--site", "North", "--share", "-o", "a.atoms"
    )
    assert (
        "Every row of this file stands for at least 11 rows with the outcome and 11 without it, so"
        in said
    )
    assert "combinations of race and gender, at 1 site" in said
    shared = Atoms.load("a.atoms")
    assert shared.positives.min() >= 11
    assert list(split_by(shared, SITE)) == ["North"]
    assert "These are shared atoms" in run("audit", "a.atoms", "--draws", "100")
    assert "few different scores" not in said


def test_shared_atoms_of_few_different_scores_say_so(hospitals, run):
    hospitals.round({"risk": 1}).to_csv("tenths.csv", index=False)
    said = run("atoms", "tenths.csv", *ROLES, "--share", "-o", "a.atoms")
    assert (
        "rows with few different scores: mean scores are coarse, so that nobody can work out"
        in said
    )


def test_sites_cannot_travel_alone(hospitals, run):
    told = run("audit", "North.csv", *ROLES, "--travel", "--draws", "100", code=2)
    assert "--travel needs at least two sites, and there are none" in told
    run("atoms", "North.csv", *ROLES, "--site", "North", "-o", "a.atoms")
    assert "leave out --site" in run("audit", "a.atoms", "--site", "North", code=2)
    assert (
        json.loads(run("audit", "a.atoms", "--format", "json", "--draws", "100"))[
            "format"
        ]
        == "propcal-audit"
    )


def test_an_audit_says_that_there_is_no_column_of_sites(hospitals, capfd):
    with pytest.raises(SystemExit) as end:
        main(["audit", "North.csv", *ROLES, "--site", "North", "--draws", "100"])
    assert end.value.code == 0
    told = "propcal: note: --site 'North' is no column, so all rows are one site of that name\n"
    assert capfd.readouterr().err == told


def test_the_command_compares_sites(hospitals, run):
    said = run(
        "sites",
        "all.csv",
        *ROLES,
        "--site",
        "hospital",
        "--html",
        "a.html",
        "-o",
        "a.json",
        "--travel",
    )
    assert said.startswith("Sites: ")
    assert "Written: a.html, a.json" in said
    content = json.loads(Path("a.json").read_text())
    assert content["format"] == "propcal-sites"
    assert len(content["sites"]) == len(content["travel"]) == 3
    assert 'class="verdict ' in Path("a.html").read_text()
    for name in ("North", "South", "East"):
        run(
            "atoms",
            f"{name}.csv",
            *ROLES,
            "--site",
            name,
            "--share",
            "-o",
            f"{name}.atoms",
        )
    said = run("sites", "North.atoms", "South.atoms", "East.atoms")
    assert "These are shared atoms" in said
    assert "exists" in run(
        "sites", "North.atoms", "South.atoms", "-o", "a.json", code=2
    )


def test_the_command_needs_several_sites(hospitals, run):
    run("atoms", "North.csv", *ROLES, "--site", "North", "-o", "a.atoms")
    assert "only one site (North) was found; at least two are needed" in run(
        "sites", "a.atoms", code=2
    )
    assert "these data have no sites. Name their column: --site" in run(
        "sites", "all.csv", *ROLES, code=2
    )
    assert "must end in .html" in run("sites", "a.atoms", "--html", "a.pdf", code=2)
    told = run(
        "atoms", "all.csv", *ROLES, "--site", "hosptial", "-o", "b.atoms", code=2
    )
    assert "there is no column 'hosptial', but there is 'hospital'" in told


def test_exact_and_shared_atoms_are_not_added(hospitals, run):
    run("atoms", "North.csv", *ROLES, "--site", "North", "-o", "a.atoms")
    run("atoms", "South.csv", *ROLES, "--site", "South", "--share", "-o", "b.atoms")
    assert "the second set may be shared and the first is exact" in run(
        "merge", "a.atoms", "b.atoms", "-o", "c.atoms", code=2
    )


def test_an_audit_of_shared_atoms_names_no_cells(hospitals, run):
    run("atoms", "all.csv", *ROLES, "--share", "-o", "a.atoms")
    said = run("audit", "a.atoms", "--draws", "100", "--html", "a.html", "--full")
    assert "clearest gap" not in said
    assert "Losses: the largest gap" not in said
    assert (
        "cells and losses could differ much from the exact ones; rely on the groups"
        in " ".join(said.split())
    )
    assert "clearest gap" not in Path("a.html").read_text().split("</section>")[0]
    assert json.loads(
        run("audit", "a.atoms", "--draws", "100", "--format", "json")
    ) == json.loads(
        run(
            "audit", "a.atoms", "--draws", "100", "--format", "json", "--suppress", "11"
        )
    )

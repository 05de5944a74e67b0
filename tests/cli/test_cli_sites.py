"""Sites and shared atoms on the command line."""

import json
from pathlib import Path

import numpy as np
import pytest

from propcal import Atoms
from propcal.core.keys import by_key
from propcal.core.patterns import SITE

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
    assert Atoms.load("merged.atoms").fingerprint() == Atoms.load("all.atoms").fingerprint()
    said = run("audit", "merged.atoms", "--html", "a.html", "--draws", "100")
    assert "At a new site, an O/E ratio from" in said
    page = Path("a.html").read_text()
    assert page.count('id="sites"') == 1
    assert "New site (95 % prediction)" in page
    assert "At a new site" in run("audit", "all.csv", *ROLES, "--site", "hospital", "--draws", "100")


def test_a_site_in_two_files_under_two_spellings_is_refused(hospitals, run):
    run("atoms", "North.csv", *ROLES, "--site", "North", "-o", "a.atoms")
    run("atoms", "South.csv", *ROLES, "--site", "north ", "-o", "b.atoms")
    told = run("merge", "a.atoms", "b.atoms", "-o", "c.atoms", code=2)
    assert "a site has two spellings, 'North' and 'north', in a.atoms and b.atoms" in told


def test_shared_atoms_say_what_was_merged(hospitals, run):
    said = run("atoms", "North.csv", *ROLES, "--site", "North", "--share", "-o", "a.atoms")
    assert "Every cell has at least 11 people with the outcome and 11 without it." in said
    shared = Atoms.load("a.atoms")
    assert shared.positives.min() >= 11
    assert list(by_key(shared, SITE)) == ["North"]
    assert "These are shared atoms" in run("audit", "a.atoms", "--draws", "100")


def test_sites_cannot_travel_alone(hospitals, run):
    told = run("audit", "North.csv", *ROLES, "--travel", "--draws", "100", code=2)
    assert "--travel needs at least two sites" in told
    run("atoms", "North.csv", *ROLES, "--site", "North", "-o", "a.atoms")
    assert "leave out --site" in run("audit", "a.atoms", "--site", "North", code=2)
    assert (
        json.loads(run("audit", "a.atoms", "--format", "json", "--draws", "100"))["format"] == "propcal-audit"
    )

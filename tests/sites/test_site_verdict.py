"""The verdict on sites: what is said first, and what is not claimed."""

import numpy as np
import pandas as pd
import pytest

from propcal import Atoms, compare_sites
from propcal.disclosure.protected_sites import protected_sites
from propcal.errors import InputError
from propcal.sites.travel import finding_text

COLUMNS = {"score": "risk", "outcome": "y", "groups": ["sex"]}


def site(name, n, factor, seed):
    rng = np.random.default_rng(seed)
    risk = rng.beta(2, 5, n)
    y = (rng.random(n) < np.minimum(risk * factor, 1)).astype(int)
    return pd.DataFrame({"hospital": name, "sex": rng.choice(["F", "M"], n), "risk": risk, "y": y})


def atoms_of(**sites):
    frames = [site(name, *about, seed) for seed, (name, about) in enumerate(sites.items())]
    return Atoms.from_frame(pd.concat(frames), **COLUMNS, site="hospital")


def test_some_too_high_some_too_low():
    found = compare_sites(atoms_of(North=(4000, 0.7), South=(4000, 1.3), East=(4000, 1.0)))
    first, second = found.sentences[:2]
    assert first.startswith("The score predicts too high at 1 of 3 sites (O/E 0.6")
    assert "and too low at 1 of 3 sites (O/E 1.3" in first
    assert second == "At 1 other site, the O/E ratio could differ from 1 by chance."
    assert found.sites.set_index("site").finding.to_dict() == {
        "North": "too high", "South": "too low", "East": "could be chance",
    }  # fmt: skip


def test_nothing_found_is_not_proof():
    found = compare_sites(atoms_of(A=(2000, 1.0), B=(2000, 1.0), C=(2000, 1.0), D=(300, 1.0)), travel=True)
    assert found.conclusion == "no miscalibration found"
    assert found.sentences[0] == "No error in the O/E ratio was found at any of the 4 sites."
    assert found.sentences[1].startswith("This is not proof of calibration: at D, the 95 % CI")
    text = " ".join(found.sentences)
    assert "do not differ by more than chance explains (I² " in text
    assert "with 4 sites this is weak evidence" in text
    assert "At no site did the other sites show an error to correct." in text
    assert set(found.travel.table.finding) == {"not corrected"}


def test_two_sites_have_no_summary():
    found = compare_sites(atoms_of(A=(2000, 0.7), B=(2000, 0.7)))
    assert found.sentences[0].startswith("The score predicts too high at both sites")
    assert "A summary over sites needs at least 3 sites with enough data." in found.sentences
    assert not len(found.summary)
    assert "Over all sites" not in repr(found)
    page = found.to_html()
    assert "New site" not in page
    assert "nan" not in page


def test_a_site_without_events_is_a_finding_and_not_in_the_summary():
    frames = [site(name, 2000, 1.0, i) for i, name in enumerate("ABC")]
    frames.append(site("None", 500, 1.0, 9).assign(y=0))
    found = compare_sites(Atoms.from_frame(pd.concat(frames), **COLUMNS, site="hospital"))
    assert found.sites.set_index("site").finding["None"] == "too high"
    assert "predicts too high at 1 of 4 sites (O/E 0.00 at None)" in found.sentences[0]
    assert any(
        "None has too few people or events, and is not in this summary, which covers 3 of 4" in s
        for s in found.sentences
    )


def test_a_level_after_correction_is_named():
    row = {"finding": "better", "level": "too low", "observed_expected_before": 0.9}
    assert finding_text(row) == "lower log loss; now too low"
    assert finding_text(row | {"observed_expected_before": 1.2}) == "lower log loss; still too low"
    assert finding_text(row | {"level": "", "finding": "no clear change"}) == "no clear change"


def test_a_misspelt_column_or_site_is_refused():
    frame = site("North", 500, 1.0, 1)
    with pytest.raises(InputError, match="no column 'hosptial', but there is 'hospital'"):
        Atoms.from_frame(frame, **COLUMNS, site="hosptial")
    for role in ("risk", "y"):
        with pytest.raises(InputError, match=f"column '{role}' is the (score|outcome), not the site"):
            Atoms.from_frame(frame, **COLUMNS, site=role)
    both = [
        Atoms.from_frame(site("x", 900, 1.0, i), **COLUMNS, site=name) for i, name in enumerate(("Up", "up"))
    ]
    with pytest.raises(InputError, match="two spellings"):
        compare_sites(sum(both))


@pytest.fixture(scope="module")
def shared():
    frames = {name: site(name, 3000, 0.8, i) for i, name in enumerate(("North", "South", "East"))}
    return sum(Atoms.from_frame(f, **COLUMNS, site=name).share() for name, f in frames.items())


def test_shared_atoms_are_not_protected_twice(shared):
    found = compare_sites(shared, travel=True)
    assert protected_sites(found, 11) is found
    assert found.to_json(11) == found.to_json()
    assert protected_sites(found, 20) is not found
    assert "With exact scores, O/E ratios would differ by at most 0.2 %" in found.notes[0]
    assert "slopes" in found.notes[0]


@pytest.mark.slow
def test_small_sites_are_not_judged_and_not_in_the_summary():
    false = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        name = np.r_[
            np.repeat([f"H{i}" for i in range(8)], 500), np.repeat([f"clinic {i}" for i in range(60)], 5)
        ]
        risk = rng.beta(2, 4, len(name))
        frame = pd.DataFrame(
            {"hospital": name, "risk": risk, "y": (rng.random(len(name)) < risk).astype(int)}
        )
        found = compare_sites(Atoms.from_frame(frame, score="risk", outcome="y", site="hospital"))
        small = found.sites["site"].str.startswith("clinic")
        assert set(found.sites.finding[small]) == {"not enough data"}
        assert found.sites.observed_expected[small].isna().all()
        assert found.summary.n_sites["observed_expected"] == 8
        false += found.conclusion != "no miscalibration found"
    assert "There are not enough data to judge 60 sites (fewer than 50 people, or" in " ".join(
        found.sentences
    )
    assert false <= 4  # of 20 perfect scores; 5 % are expected


def test_a_slope_that_is_wrong_at_all_sites_is_told():
    rng = np.random.default_rng(3)
    risk = rng.beta(2, 4, 12_000)
    truth = 1 / (1 + ((1 - risk) / risk) ** 0.7)
    truth *= risk.mean() / truth.mean()
    frame = pd.DataFrame(
        {
            "hospital": rng.choice(list("ABCD"), 12_000),
            "risk": risk,
            "y": (rng.random(12_000) < truth).astype(int),
        }
    )
    found = compare_sites(Atoms.from_frame(frame, score="risk", outcome="y", site="hospital"))
    assert found.conclusion == "no miscalibration found"
    assert repr(found).startswith("Sites: no error in the O/E ratio found")
    assert any(
        s.startswith("Predictions are too extreme: the mean calibration slope") for s in found.sentences
    )

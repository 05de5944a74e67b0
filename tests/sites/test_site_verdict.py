"""The verdict on sites: what is said first, and what is not claimed."""

import json
import re

import numpy as np
import pandas as pd
import pytest

from propcal import Atoms, compare_sites
from propcal.auditing.statistics.measures import Estimate
from propcal.documents.sentences.travel import finding as finding_text
from propcal.documents.sites import sites_document, sites_section
from propcal.errors import InputError
from propcal.monitoring.held_out import Travel, with_findings
from propcal.protect.protected_sites import protected_sites

COLUMNS = {"score": "risk", "outcome": "y", "groups": ["sex"]}


def site(name, n, factor, seed):
    rng = np.random.default_rng(seed)
    risk = rng.beta(2, 5, n)
    y = (rng.random(n) < np.minimum(risk * factor, 1)).astype(int)
    return pd.DataFrame(
        {"hospital": name, "sex": rng.choice(["F", "M"], n), "risk": risk, "y": y}
    )


def atoms_of(**sites):
    frames = [
        site(name, *about, seed) for seed, (name, about) in enumerate(sites.items())
    ]
    return Atoms.from_frame(pd.concat(frames), **COLUMNS, site="hospital")


def kinds(found):
    return [(claim.kind, claim.who, claim.direction) for claim in found.claims]


def test_some_too_high_some_too_low():
    found = compare_sites(
        atoms_of(North=(4000, 0.7), South=(4000, 1.3), East=(4000, 1.0))
    )
    assert kinds(found)[:2] == [
        ("group", "North", "too high"),
        ("group", "South", "too low"),
    ]
    assert kinds(found)[-1] == ("beyond", "", "")
    assert found.headline == "The score predicts too high at North and too low at South"
    first, second, third = found.sentences
    assert re.match(
        r"Over all 3 sites together \(12,000 people\), the O/E ratio is [\d.]+ \(95 % CI ",
        first,
    )
    assert ", but the score predicts too high at North (O/E 0.6" in first
    assert " and too low at South (O/E 1.3" in first
    assert second.startswith(
        "The O/E ratio differs between sites by more than chance explains (I² 99 %)"
    )
    assert third.startswith("What to expect at a new site is not known")
    assert found.sites.set_index("site").finding.to_dict() == {
        "North": "too high", "South": "too low", "East": "could be chance",
    }  # fmt: skip


def test_if_sites_differ_those_that_are_off_come_before_all_of_them_together():
    found = compare_sites(atoms_of(A=(3000, 1.0), B=(3000, 1.5)))
    assert kinds(found)[0] == ("overall", "everybody", "too low")
    assert found.headline == "The score predicts too low at B; the sites differ"
    assert re.match(
        r"The score predicts too low at B \(O/E 1\.\d\d, 95 % CI ", found.sentences[0]
    )
    assert re.match(
        r"Over both sites together \(6,000 people\), the O/E ratio is 1\.",
        found.sentences[1],
    )
    assert "which could be chance" not in found.sentences[1]


def test_the_interval_of_the_mean_over_sites_is_told_apart_from_that_of_all_people():
    sites = {name: (3000, 1.5 if name == "C" else 1.0) for name in "ABCDEF"}
    found = compare_sites(atoms_of(**sites))
    mean, pooled = found.summary.loc["observed_expected"], found.pooled.iloc[0]
    assert (
        pooled.observed_expected_high - pooled.observed_expected_low
        < mean.high - mean.low
    )
    ends = f"{mean.low:.2f} to {mean.high:.2f}"
    assert (
        f"(95 % CI {ends}), allowing for differences between sites;"
        in found.sentences[-1]
    )
    assert "it is higher at C than at the others (O/E 1.0" in found.sentences[2]


def test_an_error_of_all_sites_names_none_of_them():
    found = compare_sites(atoms_of(**dict.fromkeys("ABCDEFGH", (700, 0.75))))
    assert kinds(found)[0] == ("overall", "everybody", "too high")
    assert not any(claim.kind == "beyond" for claim in found.claims)
    assert found.headline == "The score predicts too high at nearly all sites"
    assert found.sentences[0].startswith(
        "Over all 8 sites together (5,600 people), the score predicts too high (O/E 0.7"
    )
    assert found.sentences[1].startswith(
        "No difference between the sites was found (I² "
    )
    named = found.headline + " ".join(found.sentences)
    assert not any(f" {name} " in named for name in "BCDEFGH")


def test_a_site_that_differs_from_the_others_is_compared_with_them():
    found = compare_sites(
        atoms_of(A=(3000, 0.8), B=(3000, 0.8), C=(3000, 0.8), D=(3000, 0.5))
    )
    apart = [claim for claim in found.claims if claim.kind == "beyond"]
    assert [(claim.who, claim.direction) for claim in apart] == [
        ("", ""),
        ("D", "lower"),
    ]
    assert apart[1].others == pytest.approx(0.8, abs=0.03)
    assert apart[1].others_low < apart[1].others < apart[1].others_high
    assert (
        found.headline == "The score predicts too high at all 4 sites; the sites differ"
    )
    assert (
        "it is lower at D (O/E 0.48, 95 % CI 0.44 to 0.53) than at the others (O/E 0.79"
        in found.sentences[1]
    )


def test_nothing_found_says_how_certain_that_is():
    found = compare_sites(
        atoms_of(A=(2000, 1.0), B=(2000, 1.0), C=(2000, 1.0), D=(300, 1.0)), travel=True
    )
    assert found.conclusion == "no miscalibration found"
    assert found.claims == ()
    assert found.headline == "No difference between sites found"
    assert found.sentences[0] == (
        "Over all 4 sites together (6,300 people), the O/E ratio is 1.01 (95 % CI 0.97 to 1.04)."
    )
    assert "No difference between the sites was found (I² " in found.sentences[1]
    assert found.sentences[-1] == "No fit on the other sites found an error to correct."
    assert set(found.travel.table.finding) == {"not corrected"}
    verdict = sites_document(found).blocks[0]
    assert verdict.tone == "few"  # a question mark, not a tick
    assert verdict.sentences[-1] == "Subgroups were not tested here; use propcal audit."
    assert sites_section(found).blocks[0].sentences == [
        *found.sentences
    ]  # the report has that audit


def test_two_sites_have_no_summary():
    found = compare_sites(atoms_of(A=(2000, 0.7), B=(2000, 0.7)))
    assert found.headline == "The score predicts too high at both sites"
    assert (
        ", and at each site by itself (O/E 0.66 at A to 0.72 at B)"
        in found.sentences[0]
    )
    assert len(found.sentences) == 2
    assert not len(found.summary)
    assert "Over all sites" not in repr(found)
    page = found.to_html()
    assert "New site" not in page
    assert "nan" not in page


def test_a_site_without_events_is_a_finding_and_part_of_the_summary():
    frames = [site(name, 2000, 1.0, i) for i, name in enumerate("ABC")]
    frames.append(site("None", 500, 1.0, 9).assign(y=0))
    found = compare_sites(
        Atoms.from_frame(pd.concat(frames), **COLUMNS, site="hospital")
    )
    assert found.sites.set_index("site").finding["None"] == "too high"
    assert "None (O/E 0.00, 95 % CI 0.00 to 0.0" in " ".join(found.sentences)
    assert found.summary.n_sites["observed_expected"] == 4


def test_a_prediction_interval_that_says_nothing_is_not_told():
    frames = [
        site("North", 1500, 1.3, 1),
        site("South", 1500, 1.3, 2),
        site("Tiny", 20, 0.0, 3),
    ]
    found = compare_sites(
        Atoms.from_frame(pd.concat(frames), **COLUMNS, site="hospital")
    )
    row = found.summary.loc["observed_expected"]
    assert row.prediction_high > 30 * row.prediction_low
    assert "What to expect at a new site is not known" in " ".join(found.sentences)
    assert "The mean O/E ratio" not in " ".join(found.sentences)


def test_many_small_sites_have_one_ratio_and_one_line():
    small = {f"clinic {i}": (10, 0.8) for i in range(150)}
    found = compare_sites(atoms_of(**small, Town=(900, 0.8), City=(2000, 0.8)))
    assert kinds(found)[0] == ("overall", "everybody", "too high")
    assert found.summary.n_sites["observed_expected"] == 152
    assert found.summary.high["observed_expected"] < 1
    text, page = repr(found), found.to_html()
    assert re.search(
        r"150 small sites together +1,500 +0\.\d\d +0\.\d\d to 0\.\d\d", text
    )
    assert "clinic" not in text + page
    assert "150 small sites together" in page
    assert "Small sites: fewer than 50 people" in text
    shown = protected_sites(found, 11)
    assert shown.pooled.loc["small sites", "observed_expected"] == pytest.approx(
        found.pooled.loc["small sites", "observed_expected"], rel=0.02
    )


def test_claims_of_a_protected_comparison_are_the_same_with_the_numbers_shown():
    found = compare_sites(
        atoms_of(
            A=(3000, 0.8), B=(3000, 0.8), C=(3000, 0.8), D=(3000, 0.5), E=(60, 0.2)
        )
    )
    shown = protected_sites(found, 11)
    assert kinds(shown) == kinds(found)
    rows = shown.sites.set_index("site")
    for claim in shown.claims:
        if claim.kind == "group":
            assert (
                claim.events is rows.loc[claim.who, "positives"]
                or claim.events == rows.loc[claim.who, "positives"]
            )
            assert np.array_equal(
                [claim.estimate],
                [rows.loc[claim.who, "observed_expected"]],
                equal_nan=True,
            )
    text = " ".join(shown.sentences)
    assert "nan" not in text
    content = json.loads(found.to_json(11))
    assert [claim["kind"] for claim in content["claims"]] == [
        claim.kind for claim in found.claims
    ]
    assert content["headline"] == found.headline


def travel_row(before, after, reach, change=(0.0, -0.001, 0.001)):
    low, high = after / np.exp(reach), after * np.exp(reach)
    ratios = {"observed_expected_before": before, "observed_expected_after": after}
    ends = {"observed_expected_after_low": low, "observed_expected_after_high": high}
    return {
        "site": "S",
        **ratios,
        **ends,
        **dict(zip(("change", "change_low", "change_high"), change)),
    }


def test_the_direction_of_a_correction_is_told_if_it_is_clear():
    rows = [
        travel_row(0.8, 0.99, 0.05, (-0.01, -0.012, -0.008)),
        travel_row(1.0, 1.3, 0.05),
        travel_row(0.98, 1.02, 0.1),
        travel_row(0.6, 0.8, 0.05),
    ]
    table = with_findings(pd.DataFrame(rows), np.array([True] * 4))
    assert [finding_text(row) for _, row in table.iterrows()] == [
        "lower log loss; O/E nearer to 1",
        "O/E further from 1; corrected score too low",
        "neither better nor worse is shown",
        "O/E nearer to 1; corrected score too high",
    ]
    told = Travel(table, Estimate(1.01, 0.98, 1.04), {}).sentence
    assert told == (
        "Corrected by a fit on the other sites, the O/E ratio is shown to be further from 1 than before at S "
        "(O/E from 1.00 to 1.30, 95 % CI 1.24 to 1.37); the score predicts too high at S (O/E from 0.60 to "
        "0.80, 95 % CI 0.76 to 0.84); the O/E ratio of all sites together is 1.01 (95 % CI 0.98 to 1.04); it "
        "is shown to be nearer to 1 than before at 2 of 4 sites."
    )


def test_sites_that_a_correction_harms_or_leaves_as_they_are_come_before_the_mean():
    rows = [
        travel_row(0.9, 0.83, 0.2, (0.005, 0.002, 0.007)),
        travel_row(1.52, 1.52, 0.07),
    ]
    table = with_findings(pd.DataFrame(rows), np.array([True, False]))
    assert [finding_text(row) for _, row in table.iterrows()][1] == (
        "not corrected: no error found at the others"
    )
    told = Travel(table, Estimate(1.0, 0.96, 1.03), {}).sentence
    assert told == (
        "Corrected by a fit on the other site, the log loss is higher than before at S (O/E from 0.90 to "
        "0.83, 95 % CI 0.68 to 1.01); the score stays as it is at S (O/E 1.52, 95 % CI 1.42 to 1.63), "
        "because that fit found no error; the O/E ratio of all sites together is 1.00 (95 % CI 0.96 to 1.03)."
    )


def test_a_site_without_events_is_not_tested():
    none = travel_row(0.0, 0.0, 0.05) | {
        "observed_expected_after_low": 0.0,
        "observed_expected_after_high": 0.3,
    }
    rows = [none, travel_row(0.8, 0.99, 0.05)]
    table = with_findings(pd.DataFrame(rows), np.array([True, True]))
    assert [finding_text(row) for _, row in table.iterrows()] == [
        "neither better nor worse is shown",
        "O/E nearer to 1",
    ]


def test_a_misspelt_column_or_site_is_refused():
    frame = site("North", 500, 1.0, 1)
    with pytest.raises(
        InputError, match="no column 'hosptial', but there is 'hospital'"
    ):
        Atoms.from_frame(frame, **COLUMNS, site="hosptial")
    for role in ("risk", "y"):
        with pytest.raises(
            InputError, match=f"column '{role}' is the (score|outcome), not the site"
        ):
            Atoms.from_frame(frame, **COLUMNS, site=role)
    both = [
        Atoms.from_frame(site("x", 900, 1.0, i), **COLUMNS, site=name)
        for i, name in enumerate(("Up", "up"))
    ]
    with pytest.raises(InputError, match="two spellings"):
        compare_sites(sum(both))


@pytest.fixture(scope="module")
def shared():
    frames = {
        name: site(name, 3000, 0.8, i)
        for i, name in enumerate(("North", "South", "East"))
    }
    return sum(
        Atoms.from_frame(f, **COLUMNS, site=name).share() for name, f in frames.items()
    )


def test_shared_atoms_are_not_protected_twice(shared):
    found = compare_sites(shared, travel=True)
    assert protected_sites(found, 11) is found
    assert found.to_json(11) == found.to_json()
    assert protected_sites(found, 20) is not found
    assert (
        "With exact scores, O/E ratios would differ by at most 0.2 %" in found.notes[0]
    )
    assert "slopes" in found.notes[0]


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [[65] * 30, [500] * 8 + [5] * 60])
def test_few_perfect_scores_have_any_claim(sizes):
    false = 0
    for seed in range(100):
        rng = np.random.default_rng([seed, len(sizes)])
        name = np.repeat([f"H{i}" for i in range(len(sizes))], sizes)
        risk = rng.beta(2, 8, len(name))
        y = (rng.random(len(name)) < risk).astype(int)
        frame = pd.DataFrame({"hospital": name, "risk": risk, "y": y})
        false += bool(
            compare_sites(
                Atoms.from_frame(frame, score="risk", outcome="y", site="hospital")
            ).claims
        )
    assert false <= 10  # at most 5 are expected


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
    found = compare_sites(
        Atoms.from_frame(frame, score="risk", outcome="y", site="hospital")
    )
    assert [claim.kind for claim in found.claims] == ["shape"]
    assert found.conclusion == "miscalibrated"
    assert found.headline == "Predictions are too extreme"
    assert (
        ", but predictions are too extreme (calibration slope 0.6" in found.sentences[0]
    )
    low = frame.assign(y=frame.y * (rng.random(12_000) < 0.8))
    found = compare_sites(
        Atoms.from_frame(low, score="risk", outcome="y", site="hospital")
    )
    assert ", but predictions" not in found.sentences[0]  # no "but" between two errors

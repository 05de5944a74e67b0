"""Sites: a key of the atoms, compared, and whether a correction travels."""

import json
import re

import numpy as np
import pandas as pd
import pytest

import propcal
from propcal import Atoms, audit, compare_sites
from propcal.errors import InputError
from propcal.monitoring.held_out import leave_one_site_out
from propcal.protect.protected_sites import protected_sites

COLUMNS = {"score": "risk", "outcome": "y", "groups": ["sex"]}


def visits(name, n, factor, seed):
    rng = np.random.default_rng(seed)
    risk = rng.beta(2, 5, n)
    sex = rng.choice(["F", "M"], n)
    y = (rng.random(n) < np.minimum(risk * factor, 1)).astype(int)
    return pd.DataFrame({"hospital": name, "sex": sex, "risk": risk, "y": y})


@pytest.fixture(scope="module")
def whole():
    sizes = {
        "North": (3000, 0.8),
        "South": (2500, 0.85),
        "East": (2000, 0.7),
        "West": (1500, 0.75),
        "<b>": (1200, 0.8),
    }
    return pd.concat(
        [visits(name, *about, i) for i, (name, about) in enumerate(sizes.items())],
        ignore_index=True,
    )


@pytest.fixture(scope="module")
def atoms(whole):
    return Atoms.from_frame(whole, **COLUMNS, site="hospital")


@pytest.fixture(scope="module")
def found(atoms):
    return compare_sites(atoms, travel=True)


def test_measures_of_a_site_are_those_of_its_audit(whole, found):
    for _, row in found.sites.iterrows():
        own = whole[whole.hospital == row.site]
        everybody = audit(own.y, own.risk).groups.iloc[0]
        for name in ("observed_expected", "intercept", "slope", "auroc"):
            for end in ("", "_low", "_high"):
                assert row[f"{name}{end}"] == pytest.approx(
                    everybody[f"{name}{end}"], rel=1e-6
                )


def test_the_summary_has_a_prediction_interval_around_the_mean(found):
    row = found.summary.loc["observed_expected"]
    assert row.prediction_low < row.low < row["mean"] < row.high < row.prediction_high
    assert row.n_sites == 5
    assert (
        found.headline == "The score predicts too high at all 5 sites; the sites differ"
    )
    assert "the score predicts too high (O/E 0.76, 95 % CI " in found.sentences[0]
    assert (
        ", and at each site by itself (O/E 0.70 at East to 0.84 at South)"
        in found.sentences[0]
    )
    assert found.conclusion == "miscalibrated"
    assert any(
        "at a new site, we expect one between" in sentence
        for sentence in found.sentences
    )
    assert any(
        "differs between sites by more than chance explains (I²" in sentence
        for sentence in found.sentences
    )


def test_a_correction_from_the_other_sites_helps_where_all_are_wrong_alike(found):
    table = found.travel.table.set_index("site")
    assert (table["finding"] != "worse").all()
    assert (table.finding == "better").sum() >= 2
    assert (table.moved == "nearer to 1").sum() >= 4
    assert found.travel.pooled.value == pytest.approx(1, abs=0.03)
    assert found.travel.sentence.startswith(
        "Corrected by a fit on the other sites, the score predicts too low at South (O/E from 0.84 to 1.14"
    )
    after, before = (
        (table[f"observed_expected_{when}"] - 1).abs().mean()
        for when in ("after", "before")
    )
    assert after < before / 2


def test_sites_make_no_groups_and_are_the_same_from_frames_files_and_parts(
    whole, atoms
):
    whole.to_csv("a.csv", index=False)
    whole.to_parquet("a.parquet")
    for path in ("a.csv", "a.parquet"):
        assert (
            Atoms.from_files(path, **COLUMNS, site="hospital").fingerprint()
            == atoms.fingerprint()
        )
    names = list(whole.hospital.unique())
    parts = [
        Atoms.from_frame(whole[whole.hospital == name], **COLUMNS, site=name)
        for name in names
    ]
    assert sum(parts).fingerprint() == atoms.fingerprint()
    plain = Atoms.from_frame(whole, **COLUMNS)
    with_sites, without = audit(atoms), audit(plain)
    assert with_sites.groups.equals(without.groups)
    assert with_sites.verdict.text == without.verdict.text
    fits = [propcal.PMCBoost().fit_atoms(a).correction_ for a in (atoms, plain)]
    assert fits[0].to_json() == fits[1].to_json()


def test_a_site_has_one_spelling(whole):
    twice = whole.assign(
        hospital=whole.hospital.where(whole.index % 2 > 0, whole.hospital.str.upper())
    )
    with pytest.raises(
        InputError, match=r"a site has two spellings, 'NORTH' and 'North'|two spellings"
    ):
        Atoms.from_frame(twice, **COLUMNS, site="hospital")
    missing = whole.assign(hospital=whole.hospital.where(whole.index > 9))
    with pytest.raises(InputError, match="the site, is missing for 10 of"):
        Atoms.from_frame(missing, **COLUMNS, site="hospital")


def test_two_sites_at_least(whole):
    with pytest.raises(InputError, match="have no sites"):
        compare_sites(Atoms.from_frame(whole, **COLUMNS))
    with pytest.raises(InputError, match=r"only one site \(Everywhere\) was found"):
        compare_sites(Atoms.from_frame(whole, **COLUMNS, site="Everywhere"))


@pytest.mark.parametrize("risk", [0.0, 1e-6])
def test_sites_where_no_or_few_events_are_expected_are_not_judged(whole, risk):
    """No variance between sites explains their counts."""
    found = compare_sites(
        Atoms.from_frame(whole.assign(risk=risk), **COLUMNS, site="hospital")
    )
    assert "not enough data" in found.headline


def test_pages_json_and_text(found):
    page = found.to_html("a.html")
    assert "<b>" not in page
    assert "<script" not in page
    assert all(
        text in page
        for text in (
            "Funnel",
            "New site (95 % prediction)",
            "Does a correction transfer?",
            "What to do next",
        )
    )
    assert '<section id="verdict" class="verdict wrong"' in page
    ids = re.findall(r' id="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    content = json.loads(found.to_json())
    assert content["format"] == "propcal-sites"
    assert len(content["travel"]) == 5
    text = repr(found)
    assert "Mean over sites (random effects, Hartung-Knapp)" in text
    assert "nan" not in text


@pytest.mark.slow
def test_pages_of_sites_protect_counts_and_keep_statistics(whole):
    tiny, few = visits("Tiny", 12, 0.8, 99), visits("Few", 90, 0.1, 98)
    exact = compare_sites(
        Atoms.from_frame(pd.concat([whole, tiny, few]), **COLUMNS, site="hospital"),
        travel=True,
    )
    shown = protected_sites(exact, 11)
    rows, was = (table.sites.set_index("site") for table in (shown, exact))
    assert repr(rows.loc["Tiny", "people"]) == "< 21"
    assert repr(rows.loc["Few", "positives"]) == "< 11"
    assert np.isnan(rows.loc["Few", "observed_expected"])
    for name in ("Tiny", "Few"):
        assert np.isnan(
            rows.loc[name, ["observed_expected_low", "slope", "auroc"]].astype(float)
        ).all()
    for name in whole.hospital.unique():
        assert abs(rows.loc[name, "positives"] - was.loc[name, "positives"]) <= 2
        assert rows.loc[name, "observed_expected"] == pytest.approx(
            was.loc[name, "observed_expected"], rel=0.015
        )
        assert rows.loc[name, "auroc"] == round(was.loc[name, "auroc"], 3)
    assert shown.summary.n_sites.tolist() == [
        7,
        6,
        6,
        6,
    ]  # "Tiny" is part of the O/E ratios only
    assert shown.travel.table.finding.tolist() == exact.travel.table.finding.tolist()
    assert shown.sites["finding"].tolist() == exact.sites["finding"].tolist()
    assert "need not add up" in shown.notes[-1]
    content = {row["site"]: row for row in json.loads(exact.to_json(11))["sites"]}
    assert content["Tiny"]["people"] is None
    page = exact.to_html()
    assert "nan" not in page
    assert "&lt; 21" in page
    assert f"{int(was.loc['North', 'positives']):,}" not in re.findall(
        r"<td class=\"n\">([\d,]+)</td>", page
    )
    assert protected_sites(exact, 0) is exact


def test_leaving_a_site_out_does_not_look_at_it(atoms):
    from propcal.core.patterns import SITE
    from propcal.core.reduction import split_by

    parts = split_by(atoms, SITE)
    table = leave_one_site_out({name: parts[name] for name in ("North", "South")}).table
    other = propcal.PMCBoost().fit_atoms(parts["South"]).correction_
    after = (
        propcal.compare({"a": None, "b": other}, parts["North"], n_draws=100)
        .audits["b"]
        .groups.iloc[0]
    )
    assert table.observed_expected_after[0] == pytest.approx(after.observed_expected)


def test_a_note_that_is_added_stays_if_counts_are_protected(found):
    noted = found.with_note("Compared before the correction.")
    assert noted.notes[0] == "Compared before the correction."
    assert protected_sites(noted, 11).notes[0] == "Compared before the correction."

"""Bundled data: complete, with their licences, and in the state that the documentation describes."""

from importlib.resources import files

import propcal.data.cohorts
import propcal.datasets
from propcal.datasets import load_doctor_visits, load_readmissions, make_ed_visits


def test_a_half_of_the_patients_has_about_half_of_the_stays_and_shares_no_patient():
    stays = load_readmissions()
    past, new = stays[stays.patient < 15_000], stays[stays.patient >= 15_000]
    assert (len(past), len(new)) == (21_240, 21_298)
    assert abs(past.readmitted.mean() - new.readmitted.mean()) < 0.01


def test_the_score_is_a_probability_and_ranks_stays():
    stays = load_readmissions()
    assert stays.risk.between(0, 1).all()
    rate = stays.groupby(stays.risk > 0.5).readmitted.mean()
    assert rate[True] > rate[False] + 0.15


def test_only_race_and_payer_have_missing_values():
    missing = load_readmissions().isna().any()
    assert missing[missing].index.tolist() == ["race", "payer"]
    assert not load_doctor_visits().isna().any().any()


def test_rows_of_a_person_in_the_experiment_agree():
    years = load_doctor_visits()
    facts = years.groupby("person")[["health", "limited", "chronic_diseases", "coinsurance", "deductible"]]
    assert (facts.nunique() == 1).all().all()


def test_every_file_has_its_source_and_licence():
    folder = files("propcal.datasets")
    sources = folder.joinpath("SOURCES.md").read_text()
    data = [file.name for file in folder.iterdir() if file.name.endswith((".parquet", ".toml"))]
    assert len(data) == 3
    for name in data:
        assert f"`{name}`" in sources
    assert sum(folder.joinpath(name).stat().st_size for name in data) < 600_000


def test_simulated_visits_are_found_at_their_former_place_too():
    assert propcal.data.cohorts.make_ed_visits is make_ed_visits
    assert set(propcal.datasets.__all__) == {"load_doctor_visits", "load_readmissions", "make_ed_visits"}

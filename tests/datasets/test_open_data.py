"""Bundled data: complete, with their licences, and in the state that the documentation
describes.
"""

from importlib.resources import files

import propcal.datasets
from propcal.datasets import load_doctor_visits


def test_a_half_of_the_people_has_about_half_of_the_years_and_shares_nobody():
    years = load_doctor_visits()
    past, new = years[years.person < 1765], years[years.person >= 1765]
    assert abs(len(past) - len(new)) < 500
    assert abs(past.frequent.mean() - new.frequent.mean()) < 0.02


def test_the_score_is_a_probability_and_ranks_people():
    years = load_doctor_visits()
    assert years.risk.between(0, 1).all()
    rate = years.groupby(years.risk > 0.25).frequent.mean()
    assert rate[True] > rate[False] + 0.05


def test_nothing_is_missing_and_frequent_means_five_visits():
    years = load_doctor_visits()
    assert not years.isna().any().any()
    assert ((years.visits >= 5) == (years.frequent == 1)).all()


def test_rows_of_a_person_agree():
    years = load_doctor_visits()
    facts = years.groupby("person")[
        ["plan", "health", "limited", "chronic_diseases", "deductible", "risk"]
    ]
    assert (facts.nunique() == 1).all().all()


def test_every_file_has_its_source_and_licence():
    folder = files("propcal.datasets")
    sources = folder.joinpath("SOURCES.md").read_text()
    data = [
        file.name
        for file in folder.iterdir()
        if file.name.endswith((".parquet", ".toml"))
    ]
    assert len(data) == 2
    for name in data:
        assert f"`{name}`" in sources
    assert sum(folder.joinpath(name).stat().st_size for name in data) < 600_000


def test_open_data_and_simulated_visits_are_all_that_is_public():
    assert set(propcal.datasets.__all__) == {"load_doctor_visits", "make_ed_visits"}

"""Generated visits: the shape of the paper's Table 1."""

import numpy as np
import pytest

from propcal.datasets import (
    COMPLAINTS,
    DETAILS,
    N_VISITS,
    SECOND_COMPLAINTS,
    TABLE_1,
    VITAL_SIGNS,
    make_ed_visits,
)
from propcal.errors import InputError


@pytest.fixture(scope="module")
def visits():
    return make_ed_visits(seed=4)


def test_counts_are_those_of_table_1(visits):
    assert len(visits) == N_VISITS == 173_561
    counts = visits.groupby(["race", "gender"]).size()
    for race, cell in TABLE_1.items():
        for gender, (n_visits, _) in zip("FM", cell):
            assert counts[race, gender] == n_visits
    assert sum(admitted for cell in TABLE_1.values() for _, admitted in cell) == 53_589


def test_mean_true_risk_is_the_published_admission_rate(visits):
    risk = visits.groupby(["race", "gender"]).true_risk.mean()
    for race, cell in TABLE_1.items():
        for gender, (n_visits, n_admitted) in zip("FM", cell):
            assert risk[race, gender] == pytest.approx(n_admitted / n_visits, abs=1e-6)


def test_outcomes_are_drawn_from_the_true_risk(visits):
    z = (visits.admitted - visits.true_risk).sum() / np.sqrt(
        (visits.true_risk * (1 - visits.true_risk)).sum()
    )
    assert abs(z) < 4


def test_the_seed_decides_everything():
    assert make_ed_visits(500, seed=1).equals(make_ed_visits(500, seed=1))
    assert not make_ed_visits(500, seed=1).equals(make_ed_visits(500, seed=2))


def test_some_vital_signs_are_missing_and_no_attribute_is(visits):
    share = visits.isna().mean()
    assert 0.02 < share["heartrate"] < 0.15
    assert (
        share[["race", "gender", "age", "insurance", "admitted", "true_risk"]].max()
        == 0
    )


def test_admission_rates_are_the_published_ones_within_sampling_error(visits):
    cells = visits.groupby(["race", "gender"])
    rate, variance = (
        cells.admitted.mean(),
        cells.true_risk.agg(lambda p: (p * (1 - p)).sum() / len(p) ** 2),
    )
    for race, cell in TABLE_1.items():
        for gender, (n_visits, n_admitted) in zip("FM", cell):
            z = (rate[race, gender] - n_admitted / n_visits) / np.sqrt(
                variance[race, gender]
            )
            assert abs(z) < 4


def test_ages_and_vital_signs_are_those_of_living_adults(visits):
    assert visits.age.between(18, 95).all()
    for name, sign in VITAL_SIGNS.items():
        assert visits[name].dropna().between(sign.lowest, sign.highest).all()
    assert visits.acuity.dropna().isin([1, 2, 3, 4, 5]).all()
    assert visits.pain.dropna().between(0, 10).all()
    assert (visits.n_previous_admissions <= visits.n_previous_visits).all()


def test_the_young_are_single_and_the_widowed_old(visits):
    status = visits.groupby("marital_status").age.mean()
    assert status["SINGLE"] < status["MARRIED"] < status["WIDOWED"]
    assert (visits.marital_status[visits.age < 25] == "SINGLE").mean() > 0.8


def test_a_text_names_one_complaint_or_two_and_the_ill_name_graver_ones(visits):
    parts = visits.chief_complaint.str.split(", ", expand=True)
    assert set(parts[0]) == set(COMPLAINTS)
    assert 0.2 < parts[1].notna().mean() < 0.5
    for main, seconds in SECOND_COMPLAINTS.items():
        assert set(parts[1][parts[0] == main].dropna()) == set(seconds)
        assert main not in seconds
    risk = visits.true_risk.groupby(visits.chief_complaint).mean()
    assert risk["chest pain, cough"] < risk["chest pain, syncope"]


def test_details_add_words_and_change_nothing_else(visits):
    detailed = make_ed_visits(seed=4, details=len(DETAILS))
    assert detailed.drop(columns="chief_complaint").equals(
        visits.drop(columns="chief_complaint")
    )
    further = detailed.chief_complaint.str.split(", ").str[-1]
    told = further.isin(DETAILS)
    assert 0.3 < told.mean() < 0.37
    assert (detailed.chief_complaint[~told] == visits.chief_complaint[~told]).all()
    assert {*further[told]} == {*DETAILS}
    risk = visits.true_risk.groupby(further).mean()
    assert risk["refill"] < risk["sepsis"]
    words = {
        word
        for text in detailed.chief_complaint
        for word in text.replace(",", "").split()
    }
    assert len(words) == 100  # as many as the authors use
    with pytest.raises(InputError, match="details"):
        make_ed_visits(100, details=len(DETAILS) + 1)


def test_insurance_differs_by_group(visits):
    share = (visits.insurance == "Medicaid").groupby(visits.race).mean()
    assert share["Hispanic/Latino"] > 1.5 * share["White"]


def test_marital_status_and_language_are_missing_now_and_then(visits):
    assert 0.01 < visits.marital_status.isna().mean() < 0.1
    assert 0 < visits.language.isna().mean() < 0.02
    unknown = visits.race == "Unknown/Unable to Obtain"
    assert (
        visits.marital_status[unknown].isna().mean()
        > visits.marital_status[~unknown].isna().mean()
    )

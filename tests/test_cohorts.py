"""Generated visits: the shape of the paper's Table 1."""

import numpy as np
import pytest

from propcal.data.cohorts import N_VISITS, TABLE_1, make_ed_visits


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
    assert share[["race", "gender", "age", "insurance", "admitted", "true_risk"]].max() == 0

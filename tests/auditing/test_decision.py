"""Audit and fit decide by the same tests: what one calls miscalibrated the other
changes.
"""

import numpy as np
import pandas as pd
import pytest

from propcal import Groups, PMCBoost, audit
from propcal.auditing.decision import errors_found_in, gap_test
from propcal.auditing.statistics.chance import score_cells
from propcal.auditing.statistics.hypothesis_tests import (
    BENDS,
    DIFFERENCES,
    GROUP_SLOPES,
    shape_tests,
)
from propcal.core.criterion import proportional
from propcal.core.fit.boost import FittingData, Settings
from propcal.core.logistic import expit
from propcal.datasets import make_ed_visits
from propcal.metrics import CategoryRule
from propcal.reading.rows import rows_to_atoms


def people(n, seed, wrong=lambda x, frame: x):
    """Two attributes, and a score whose log-odds are `wrong(true log-odds, frame)`."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "race": rng.choice(["a", "b", "c"], n, p=[0.6, 0.3, 0.1]),
            "sex": rng.choice(["F", "M"], n),
        }
    )
    x = rng.normal(-1, 1.2, n)
    frame["score"], frame["y"] = (
        expit(wrong(x, frame)),
        (rng.random(n) < expit(x)).astype(int),
    )
    return frame


ERRORS = {
    "none": lambda x, f: x,
    "level": lambda x, f: x + 0.15,
    "slope": lambda x, f: 1.2 * x,
    "one group": lambda x, f: x + 0.35 * (f.race == "b"),
    "one intersection": lambda x, f: x + 0.8 * ((f.race == "b") & (f.sex == "F")),
    "bend": lambda x, f: x + 0.25 * (np.abs(x + 1) - 0.9),
    "step": lambda x, f: x + 0.5 * (x > 0),
}


@pytest.mark.parametrize("kind", ERRORS)
def test_the_fit_changes_the_score_exactly_if_the_audit_calls_it_miscalibrated(kind):
    verdicts = []
    for seed in range(8):
        frame = people(1200 if seed % 2 else 3000, seed, ERRORS[kind])
        features = frame[["race", "sex"]]
        found = audit(
            frame.y, frame.score, sensitive_features=features, n_draws=100
        ).verdict
        model = PMCBoost().fit(frame.score, frame.y, sensitive_features=features)
        wrong = found.conclusion == "miscalibrated"
        assert (model.n_updates_ > 0) == wrong
        rejected = (
            found.tests[found.tests.rejected.astype(bool)]
            .sort_values("adjusted_p", kind="stable")
            .test
        )
        assert sorted(model.fit_summary_.found) == sorted(rejected)
        said = model.fit_summary_.sentences()
        if wrong:
            first = rejected.iloc[0]
            words = {
                "calibration curve of everybody": "the error depends on the predicted risk"
            } | dict(model.fit_summary_.labels)
            assert words.get(first, first).removesuffix(" of everybody") in said[1]
        else:
            assert "no miscalibration found" in said[0]
            corrected = model.predict(frame.score, sensitive_features=features)
            assert corrected.tobytes() == frame.score.to_numpy().tobytes()
        verdicts.append(wrong)
    assert sum(verdicts) <= 1 if kind == "none" else True in verdicts


def test_what_was_found_becomes_smaller():
    frame = people(4000, 1, ERRORS["one group"])
    features = frame[["race", "sex"]]
    before = audit(frame.y, frame.score, sensitive_features=features, n_draws=100)
    model = PMCBoost().fit(frame.score, frame.y, sensitive_features=features)
    after = audit(
        frame.y, frame.score, sensitive_features=features, n_draws=100, correction=model
    )
    assert "race=b" in model.fit_summary_.found
    first, second = (
        a.groups.set_index("group").observed_expected["race=b"] for a in (before, after)
    )
    assert abs(np.log(second)) < abs(np.log(first)) / 3


def test_repeat_visits_weigh_the_same_in_audit_and_fit():
    """Forty rows of each person are not forty people."""
    rng = np.random.default_rng(4)
    frame = (
        people(150, 2, ERRORS["level"])
        .loc[np.repeat(np.arange(150), 40)]
        .reset_index(drop=True)
    )
    patient = np.repeat(np.arange(150), 40)
    frame["score"] = np.clip(
        frame.score + rng.normal(0, 0.01, len(frame)), 0.001, 0.999
    )
    features = frame[["race", "sex"]]
    alone = PMCBoost().fit(frame.score, frame.y, sensitive_features=features)
    together = PMCBoost().fit(
        frame.score, frame.y, sensitive_features=features, cluster=patient
    )
    verdict = audit(
        frame.y, frame.score, sensitive_features=features, cluster=patient, n_draws=100
    ).verdict
    assert alone.n_updates_ > 0
    assert together.n_updates_ == 0
    assert verdict.conclusion != "miscalibrated"


def settings(**kw):
    return Settings(criterion=proportional(0.1), **kw)


def test_too_few_people_are_not_tested():
    frame = people(40, 0, lambda x, f: x + 3)
    atoms = rows_to_atoms(frame.score, frame.y, frame[["race", "sex"]])
    assert not errors_found_in(FittingData.of(atoms, settings()), settings()).found
    assert (
        "no miscalibration found"
        not in PMCBoost().fit_atoms(atoms).fit_summary_.sentences()[0]
    )


@pytest.mark.filterwarnings("ignore::propcal.errors.UnknownLevelWarning")
def test_cells_too_small_for_a_test_are_left_to_the_smooth_curve():
    rng = np.random.default_rng(0)
    risk = expit(rng.normal(-1, 1.2, 5080))
    y, low = (
        (rng.random(5080) < risk).astype(int),
        expit(np.log(risk / (1 - risk)) - 1.2),
    )
    race = rng.choice([*"abcd"], 5080, p=[0.6, 0.25, 0.1, 0.05])
    fit = PMCBoost().fit(low[:80], y[:80], sensitive_features={"race": race[:80]})
    assert fit.n_updates_ == 1
    corrected = fit.predict(low[80:], sensitive_features={"race": race[80:]})
    assert np.mean((corrected - risk[80:]) ** 2) < 0.5 * np.mean(
        (low[80:] - risk[80:]) ** 2
    )


def test_a_group_of_few_people_with_a_rare_outcome_gives_no_false_alarm():
    """The gap of a cell has an exact p-value, whatever its distribution: 2 events where
    0.5 are expected.
    """
    score = np.r_[np.full(400, 0.00125), np.full(2000, 0.3)]
    y = np.r_[np.ones(2), np.zeros(398), np.ones(600), np.zeros(1400)]
    atoms = rows_to_atoms(score, y, {"g": np.repeat(["a", "b"], [400, 2000])})
    table = CategoryRule(gamma=0.1).table(atoms)
    found = gap_test(score_cells(atoms, table.bins), table, atoms.patterns, np.ones(10))
    from scipy.stats import binom, norm

    tail = binom.sf(2, 400, 0.00125) + binom.pmf(2, 400, 0.00125) / 2
    assert found.statistic == pytest.approx(norm.isf(tail), rel=1e-6)
    assert found.p_value > 0.02


def test_more_cells_need_a_larger_gap():
    visits = make_ed_visits(5000, seed=0)
    atoms = rows_to_atoms(visits.true_risk, visits.admitted, visits[["race", "gender"]])
    limits = [
        errors_found_in(FittingData.of(atoms, chosen), chosen).limit
        for chosen in (settings(gamma=0.3, n_bins=2), settings(gamma=0.01, n_bins=20))
    ]
    assert 2.3 < limits[0] < limits[1] < 4.5


def test_an_overall_error_does_not_look_like_differences():
    """Level and slope are taken out before groups and curves are tested."""
    p_values = []
    for seed in range(20):
        frame = people(4000, seed, lambda x, f: 1.4 * x + 0.4)
        atoms = rows_to_atoms(frame.score, frame.y, frame[["race", "sex"]])
        tests = dict(shape_tests(atoms, atoms.collection(Groups(), gamma=0.05)))
        assert set(tests) == {DIFFERENCES, GROUP_SLOPES, BENDS}
        p_values.append([p for _, p in tests.values()])
    assert (np.array(p_values) < 0.05).mean() < 0.15


def test_p_values_of_shapes_are_uniform_under_the_null():
    p_values = []
    for seed in range(150):
        frame = people(1500, 100 + seed)
        atoms = rows_to_atoms(frame.score, frame.y, frame[["race", "sex"]])
        p_values.append(
            [
                p
                for _, (_, p) in shape_tests(
                    atoms, atoms.collection(Groups(), gamma=0.05)
                )
            ]
        )
    below = (np.array(p_values) < 0.1).mean(axis=0)
    assert np.all((below > 0.02) & (below < 0.2))


def test_the_shape_that_is_wrong_is_the_one_found():
    frame = people(8000, 0, lambda x, f: x * np.where(f.race == "b", 1.6, 0.85))
    atoms = rows_to_atoms(frame.score, frame.y, frame[["race", "sex"]])
    tests = dict(shape_tests(atoms, atoms.collection(Groups(), gamma=0.05)))
    assert tests[GROUP_SLOPES][1] < 1e-4
    bent = people(8000, 0, lambda x, f: x + 0.5 * (np.abs(x + 1) - 0.9))
    atoms = rows_to_atoms(bent.score, bent.y, bent[["race", "sex"]])
    tests = dict(shape_tests(atoms, atoms.collection(Groups(), gamma=0.05)))
    assert tests[BENDS][1] < 1e-4
    assert tests[DIFFERENCES][1] > 0.01

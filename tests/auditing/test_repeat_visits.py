"""Tests and intervals where people occur several times: rows of the same people never
tell more than others.

Figures are printed: pytest -m slow -s tests/auditing/test_repeat_visits.py
"""

import numpy as np
import pandas as pd
import pytest

from propcal import audit
from propcal.auditing.statistics.chance import ScoreCells
from propcal.auditing.statistics.hypothesis_tests import (
    CATEGORIES,
    events_p_value,
    group_p_value,
)
from propcal.auditing.statistics.sample import Sample
from propcal.core.logistic import expit
from propcal.reading.rows import rows_to_atoms

NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(30)


def visits(rng, n, per_patient, spread, wrong=1.0):
    """Visits of patients with effects of their own; the score is right on average, or
    too low for group d.
    """
    n_patients = n // per_patient
    patient = rng.integers(0, n_patients, n)
    x = rng.normal(-1.5, 0.7, n_patients)[patient] + rng.normal(0, 0.5, n)
    risk = expit(x + spread * rng.normal(size=n_patients)[patient])
    score = expit(x[:, None] + spread * NODES) @ WEIGHTS / WEIGHTS.sum()
    group = rng.choice([*"abcd"], n_patients, p=[0.4, 0.3, 0.2, 0.1])[patient]
    sex = rng.choice(["F", "M"], n_patients)[patient]
    factor = np.where(group == "d", wrong, 1.0)
    y = (rng.random(n) < np.minimum(risk * factor, 1.0)).astype(int)
    return y, score, pd.DataFrame({"group": group, "sex": sex}), patient


def wards(rng):
    """A perfect score, 40 wards of about 12 expected events, and nobody who comes
    again.
    """
    score = rng.beta(2.0, 98.0, 24_000)
    ward = np.repeat([f"{i:02d}" for i in range(40)], 600)
    return (
        (rng.random(24_000) < score).astype(int),
        score,
        pd.DataFrame({"ward": ward}),
        np.arange(24_000),
    )


@pytest.mark.parametrize("per_patient", [1, 4, 40])
@pytest.mark.parametrize("seed", range(6))
def test_repeat_visits_never_make_a_p_value_smaller(per_patient, seed):
    rng = np.random.default_rng(seed)
    y, score, frame, patient = visits(
        rng, 1500, per_patient, spread=0.7 * (seed % 2), wrong=1.5
    )
    if per_patient == 1:
        patient = np.arange(1500)
    alone, together = (
        audit(y, score, sensitive_features=frame, n_draws=100, cluster=cluster)
        .verdict.tests.set_index("test")
        .p_value
        for cluster in (None, patient)
    )
    # with repeat visits fewer cells are large enough, so the largest gap is one of
    # fewer
    both = [
        name for name in alone.index if name in together.index and name != CATEGORIES
    ]
    assert len(both) >= 8
    # the slope is fitted to narrow cells of scores or to the scores themselves
    assert (together[both] >= alone[both] * (1 - 1e-3)).all(), (together - alone)[both]


@pytest.mark.parametrize("effect", [1.0001, 1.1, 3.0])
def test_a_design_effect_never_makes_a_p_value_smaller(effect):
    rng = np.random.default_rng(0)
    for mean in (0.01, 0.05, 0.3):
        score = rng.beta(3 * mean, 3 * (1 - mean), 60).clip(1e-4, 0.9999)
        nowhere = np.zeros(60, int)
        cells = ScoreCells(nowhere, nowhere, np.ones(60), np.ones(60), score)
        for observed in range(60):
            alone, heavier = (
                group_p_value(cells, np.ones(60, bool), observed, effect=e)[1]
                for e in (1.0, effect)
            )
            assert heavier >= alone


def test_few_events_do_not_make_the_variance_small():
    """4 events where 12 were expected: a variance from the 4 would give z = -4."""
    score, y = np.full(600, 0.02), np.r_[np.ones(4), np.zeros(596)]
    alone = events_p_value(Sample.of(rows_to_atoms(score, y)))[1]
    sample = Sample.of(rows_to_atoms(score, y, cluster=np.arange(600)))
    assert alone <= events_p_value(sample)[1] < 1.5 * alone


def alarms(people, repeats):
    found = 0
    for seed in range(repeats):
        y, score, frame, patient = people(np.random.default_rng(seed))
        verdict = audit(
            y, score, sensitive_features=frame, n_draws=100, cluster=patient
        ).verdict
        found += verdict.conclusion == "miscalibrated"
    print(f"\nmiscalibrated: {found} of {repeats}")
    return found / repeats


@pytest.mark.slow
def test_wards_with_few_events_raise_no_false_alarms():
    assert alarms(wards, 150) <= 0.07


# benchmarks/truth.py asks for more people and more data sets
@pytest.mark.slow
@pytest.mark.parametrize(
    ("n", "per_patient", "spread"), [(1000, 4, 1.0), (5000, 15, 1.5)]
)
def test_repeat_visits_raise_no_false_alarms(n, per_patient, spread):
    assert alarms(lambda rng: visits(rng, n, per_patient, spread), 100) <= 0.08


@pytest.mark.slow
def test_declaring_patients_who_come_once_loses_little_power():
    named = {True: 0, False: 0}
    for seed in range(40):
        y, score, frame, _ = visits(
            np.random.default_rng(seed), 10_000, 1, 0.0, wrong=1.2
        )
        for declared in named:
            cluster = np.arange(10_000) if declared else None
            groups = audit(
                y, score, sensitive_features=frame, n_draws=100, cluster=cluster
            ).groups
            named[declared] += groups.set_index("group").finding["group=d"] == "too low"
    print(f"\nnamed: {named}")
    assert named[True] >= named[False] - 4

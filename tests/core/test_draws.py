"""Random numbers and results are the same on every machine; the lowest environment runs
these tests too.
"""

import hashlib

import numpy as np
import pandas as pd
import pytest

from propcal import PMCBoost, audit
from propcal.core.draws import Draws, draw_outcomes, symmetric_root


def test_numbers_are_a_function_of_seed_and_place():
    draws, again = Draws(7), Draws(7)
    parts = np.concatenate([draws.uniform((3,)), draws.uniform((2, 2)).ravel()])
    assert np.array_equal(parts, again.uniform((7,)))
    assert (
        hashlib.sha256(Draws(0).uniform((100_000,)).tobytes())
        .hexdigest()
        .startswith("5ae58c3a8ec2")
    )
    assert not np.array_equal(Draws(8).uniform((7,)), parts)
    assert np.array_equal(
        Draws(np.random.default_rng(1)).uniform((3,)),
        Draws(np.random.default_rng(1)).uniform((3,)),
    )


def test_normal_numbers_are_normal():
    x, y = Draws(3).standard_normal((200_000,)), Draws(4).standard_normal((200_000,))
    assert abs(x.mean()) < 0.01
    assert x.std() == pytest.approx(1, abs=0.01)
    assert np.mean(x > 1.959964) == pytest.approx(0.025, abs=0.0015)
    assert abs(np.corrcoef(x, y)[0, 1]) < 0.01
    assert abs(np.corrcoef(x[1:], x[:-1])[0, 1]) < 0.01


def test_outcomes_are_binomial_and_blocks_do_not_matter():
    people, risk = (
        np.array([1, 3, 40, 5000, 10, 10]),
        np.array([0.3, 0.5, 0.01, 0.2, 0.0, 1.0]),
    )
    drawn = np.concatenate([*draw_outcomes(people, risk, 20_000, Draws(0), block=3000)])
    assert np.array_equal(
        drawn, np.concatenate([*draw_outcomes(people, risk, 20_000, Draws(0), block=7)])
    )
    spread = np.sqrt(people * risk * (1 - risk))
    assert np.all(
        np.abs(drawn.mean(axis=0) - people * risk) <= 4 * spread / np.sqrt(20_000)
    )
    assert drawn.std(axis=0) == pytest.approx(spread, rel=0.03)
    assert np.bincount(drawn[:, 1], minlength=4) / 20_000 == pytest.approx(
        [0.125, 0.375, 0.375, 0.125], abs=0.012
    )
    assert set(drawn[:, 4]) == {0}
    assert set(drawn[:, 5]) == {10}


def test_the_root_does_not_depend_on_the_signs_of_eigenvectors(monkeypatch):
    members = np.array(
        [[1, 1, 0, 0], [0, 0, 1, 1], [1, 0, 1, 0], [1, 1, 1, 1]], dtype=float
    )
    covariance = members @ members.T
    root, eigh = symmetric_root(covariance), np.linalg.eigh
    assert root @ root == pytest.approx(covariance, abs=1e-12)

    def turned(matrix):
        values, vectors = eigh(matrix)
        return values, vectors * [1, -1, 1, -1]

    monkeypatch.setattr(np.linalg, "eigh", turned)
    assert symmetric_root(covariance) == pytest.approx(root, abs=1e-14)


def test_a_fit_and_an_audit_are_the_same_with_every_version_of_the_libraries():
    # an intended change of the method changes these numbers; another version of a
    # library must not
    uniform = Draws(1).uniform((6000, 5))
    race, sex = (
        np.array(list("ABCD"))[(uniform[:, 0] * 4).astype(int)],
        np.where(uniform[:, 1] < 0.5, "F", "M"),
    )
    frame, risk = (
        pd.DataFrame({"race": race, "sex": sex}),
        0.3 * (uniform[:, 2] + uniform[:, 3]),
    )
    score, y = (
        np.round(risk * np.where(race == "B", 1.5, 1.0), 6),
        (uniform[:, 4] < risk).astype(int),
    )
    correction = PMCBoost().fit(score, y, sensitive_features=frame).correction_
    assert correction.about["guard"] == 3.622642
    assert (
        hashlib.sha256(correction.start.shifts.tobytes()).hexdigest()[:12]
        == "3b55cb0df508"
    )
    losses = audit(y, score, sensitive_features=frame, n_draws=300).losses
    numbers = (
        losses[["floor_median", "floor_95", "p_value", "low", "high"]]
        .to_numpy()
        .ravel()
    )
    text = " ".join(f"{number:.9g}" for number in numbers)
    assert hashlib.sha256(text.encode()).hexdigest()[:12] == "08fa59126aa2"

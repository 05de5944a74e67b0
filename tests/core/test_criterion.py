"""A third criterion, as docs/extending.md describes it: one short class, and everything
else follows.
"""

import numpy as np
import pandas as pd
import pytest

import oracle
from propcal.auditing.names import LOSSES
from propcal.core.categories import loss_of
from propcal.core.criterion import CRITERIA, Criterion, multicalibration, proportional
from propcal.estimators import Boost
from propcal.metrics import CategoryRule
from propcal.reading.rows import rows_to_atoms


class HalfwayBoost(Boost):
    """Half of the tolerance is absolute, half in proportion to the rate."""

    def _criterion(self):
        return Criterion("HalfwayBoost", offset=0.5, slope=0.5, rho=self.rho)


def test_every_criterion_has_a_loss_with_a_name():
    assert (*CRITERIA, "dc") == LOSSES


def test_the_criteria_of_the_paper_are_two_values():
    rate = np.array([0.0, 0.05, 0.1, 0.4])
    assert multicalibration().cutoff(rate, 0.2).tolist() == [0.2] * 4
    assert proportional(0.1).cutoff(rate, 0.2) == pytest.approx(
        [0.02, 0.02, 0.02, 0.08]
    )


def test_a_loss_is_the_tolerance_at_which_no_category_exceeds_its_cutoff():
    rng = np.random.default_rng(1)
    rate, gap = rng.random(50), rng.normal(0, 0.1, 50)
    for criterion in (
        multicalibration(),
        proportional(0.1),
        Criterion("", 0.5, 0.5, 0.1),
    ):
        loss = float(criterion.loss(gap, rate))
        assert np.all(np.abs(gap) <= criterion.cutoff(rate, loss * (1 + 1e-12)))
        assert np.any(np.abs(gap) > criterion.cutoff(rate, loss * (1 - 1e-9)))
    assert np.isnan(multicalibration().loss(np.empty((2, 0)), np.empty((2, 0)))).all()


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(7)
    n = 4000
    group = rng.choice(["a", "b", "c"], n, p=[0.5, 0.3, 0.2])
    score = rng.beta(1.2, 3, n)
    factor = pd.Series(group).map({"a": 1.0, "b": 0.4, "c": 1.8}).to_numpy()
    return pd.DataFrame(
        {
            "group": group,
            "score": score,
            "y": (rng.random(n) < np.clip(score * factor, 0, 1)).astype(int),
        }
    )


def test_boosting_ends_when_the_new_criterion_is_met(people):
    features = people[["group"]]
    model = HalfwayBoost.paper(alpha=0.1).fit(
        people.score, people.y, sensitive_features=features
    )
    corrected = model.predict(people.score, sensitive_features=features)
    criterion = model._criterion()
    before, after = (
        CategoryRule(alpha=0.1).table(rows_to_atoms(score, people.y, features))
        for score in (people.score, corrected)
    )
    assert loss_of(before, criterion) > 0.1 > loss_of(after, criterion)
    assert model.n_updates_ > 0
    assert model.correction_.about["method"] == "HalfwayBoost"
    frame = model.fit_summary_.to_frame()
    assert frame.cutoff.to_numpy() == pytest.approx(
        0.05 + 0.05 * np.maximum(frame.outcome_rate, 0.1)
    )
    assert set(frame.status) == {"within tolerance"}


def test_every_update_is_one_that_the_rule_in_plain_words_makes(people):
    model = HalfwayBoost.paper(alpha=0.1).fit(
        people.score, people.y, sensitive_features=people[["group"]]
    )
    persons = oracle.people(
        people[["group"]].itertuples(index=False), people.score, people.y, None
    )
    updates, _, _ = oracle.boost(
        persons,
        alpha=0.1,
        gamma=0.05,
        rho=0.1,
        edges=oracle.uniform_edges(10),
        m=10,
        eta=1.0,
        own_cutoff=lambda rate: (
            0.1 * (0.5 * oracle.UNIT + 0.5 * max(rate, 0.1 * oracle.UNIT))
        ),
    )
    number = {
        group: g for g, group in enumerate(model.groups_.groups)
    }  # a correction has only groups in use
    made = [
        (number[model.correction_.groups[g]], j, shift)
        for g, j, shift in model.correction_.updates.tolist()
    ]
    assert made == updates

"""Values that a small change of a formula would change, each worked out in another way."""

import numpy as np
import pytest

from propcal import audit
from propcal.auditing.loss_intervals import DEBIASED_COLUMNS
from propcal.datasets import make_ed_visits
from propcal.protect.rule import shown_p


def test_typical_gaps_are_roots_of_mean_squares():
    visits = make_ed_visits(2_000, seed=1)
    for score in (visits.true_risk, np.sqrt(visits.true_risk)):
        found = audit(visits.admitted, score, sensitive_features=visits[["gender"]], n_draws=100).debiased
        squares, roots = np.split(found[list(DEBIASED_COLUMNS)].to_numpy(), 2, axis=1)
        np.testing.assert_allclose(roots, np.sqrt(np.maximum(squares, 0)), rtol=1e-15)


@pytest.mark.parametrize(
    ("p", "shown"),
    [
        (0.0005, "< 0.001"),
        (0.001, "< 0.01"),
        (0.03, "< 0.05"),
        (0.049999, "< 0.05"),
        (0.05, "> 0.05"),
        (0.9, "> 0.05"),
    ],
)
def test_p_values_of_few_people_are_limits(p, shown):
    assert repr(shown_p(p, large=False)) == shown

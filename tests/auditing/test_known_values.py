"""Values that a small change of a formula would change, each worked out in another way."""

import numpy as np
import pytest

from propcal.auditing.loss_intervals import DEBIASED_COLUMNS, _debiased_table
from propcal.protect.rule import shown_p


def test_typical_gaps_are_roots_of_mean_squares():
    table = _debiased_table([(0.04, 0.01, 0.09), (0.25, -0.01, 0.36)])
    values = table[list(DEBIASED_COLUMNS)].to_numpy()
    np.testing.assert_allclose(
        values, [[0.04, 0.01, 0.09, 0.2, 0.1, 0.3], [0.25, -0.01, 0.36, 0.5, 0.0, 0.6]]
    )


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

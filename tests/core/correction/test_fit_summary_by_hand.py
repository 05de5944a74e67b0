"""Gains and cells of a fit summary, worked out by hand."""

import numpy as np
import pytest

from propcal.core.bins import uniform
from propcal.core.correction.fit_summary import (
    MAX_ROUNDING,
    FitSummary,
    Gains,
    _widest,
)
from propcal.core.grid import UNIT
from propcal.core.groups import EVERYBODY, Collection, GroupSize


def gains(points=0.02, error=0.5, **options):
    return Gains(0.03, 0.01, points, (0.001, 0.002, error), 4, **options)


def test_a_gain_of_points_is_counted_in_its_standard_errors():
    assert gains(error=0.5).points_z == 0.04
    assert gains(error=0.0).points_z == 0.0
    assert gains(points=-0.02, error=0.01).points_z == -2.0


def test_shares_of_gains_add_up_and_losses_count_as_nothing():
    assert gains().shares == pytest.approx((3 / 6, 1 / 6, 2 / 6))
    assert gains(points=-5.0).shares == pytest.approx((3 / 4, 1 / 4, 0.0))
    nothing = Gains(-0.1, 0.0, 0.0, (1.0, 1.0, 1.0), 0)
    assert nothing.shares == (0.0, 0.0, 0.0)


def test_the_largest_share_of_a_feature_is_that_of_its_variance():
    assert gains(spread={"age": 3.0, "height": 4.0}).largest == 16 / 25
    assert gains(spread={}).largest == 0.0
    assert gains(spread={"age": 0.0}).largest == 0.0


def summary(gap, cutoff, z=2.0, no_error_found=False, enough=True):
    """Cells with an observed rate of 0.5, a standard error of 0.125, and these gaps."""
    n = len(gap)
    everybody = GroupSize(EVERYBODY, 100, 1.0)
    collection = Collection(kept=(everybody,), left_out=())
    rate = np.full(n, 0.5)
    return FitSummary(
        collection=collection,
        bins=uniform(4),
        group=np.zeros(n, dtype=np.int64),
        bin=np.arange(n) % 4,
        people=np.full(n, 25.0),
        outcome_rate=rate,
        mean_score=rate - np.array(gap),
        cutoff=np.full(n, cutoff),
        standard_error=np.full(n, 0.125),
        z=z,
        n_people=100,
        why="after 7 adjustments",
        no_error_found=no_error_found,
        enough=enough,
        correction=None,
        patterns=None,
    )


def test_a_cell_is_within_tolerance_could_be_chance_or_exceeds_it():
    gap = [0.1, -0.1, 0.2, -0.2, 0.3, -0.3]
    found = summary(gap, cutoff=0.125)  # 2 standard errors are 0.25
    assert found.status.tolist() == [
        *["within tolerance"] * 2,
        *["could be chance"] * 2,
        *["exceeds tolerance"] * 2,
    ]
    assert found.count("could be chance") == 2
    assert summary([0.0625], 0.03125, z=0.75).count("could be chance") == 1
    assert summary(gap, 0.125, z=0.0).count("exceeds tolerance") == 4
    assert summary(gap, 0.125, no_error_found=True).count("could be chance") == 4
    assert summary(gap, 0.125, enough=False).status.tolist() == [
        *["within tolerance"] * 2,
        *["not enough data"] * 4,
    ]


def test_a_gap_at_its_limit_is_beyond_it_and_rounding_counts_for_the_score():
    step = 1 / UNIT
    for limit, cutoff, below, beyond in (
        (0.125, 0.125, "within tolerance", "could be chance"),
        (0.25, 0.125, "could be chance", "exceeds tolerance"),
    ):
        at = limit + MAX_ROUNDING
        assert summary([at - step], cutoff).status.tolist() == [below]
        assert summary([at], cutoff).status.tolist() == [beyond]


def test_the_table_begins_with_the_cells_that_exceed_the_tolerance():
    found = summary([0.1, -0.2, 0.3, 0.4], cutoff=0.125)
    assert found.worst_first().tolist() == [3, 2, 1, 0]
    table = found.to_frame()
    assert table.gap.tolist() == pytest.approx([0.4, 0.3, -0.2, 0.1])
    assert table.why.tolist() == [
        "after 7 adjustments",
        "after 7 adjustments",
        "less than 2.00 standard errors",
        "",
    ]


def test_a_difference_is_taken_between_rows_that_are_alike():
    values = np.array([[0.1, 0.5], [0.9, 0.9], [0.2, 0.1]])
    assert _widest(values, np.array([0, 1, 0])) == pytest.approx(0.4)
    assert _widest(values, np.array([0, 0, 1])) == pytest.approx(0.8)
    assert _widest(values, np.array([0, 1, 2])) == 0.0

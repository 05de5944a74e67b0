"""Limits of the losses, and what shared scores leave open, worked out by hand."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy.special import betaincinv
from small_samples import rows_of

from propcal.auditing.loss_intervals import (
    DC_COLUMNS,
    LOSS_COLUMNS,
    _brier_limits,
    _estimate,
    _floor,
    _furthest_apart,
    _gap_limits,
    _log_ratio_limits,
    _mean_square,
    _pairs,
    _ratio_error,
    _ratio_limits,
    _row,
    loss_places,
    loss_values,
    losses,
    ranges_unsure,
    rate_limits,
    where_attained,
)
from propcal.auditing.score_changes import _loss_limits
from propcal.auditing.statistics.chance import Chance
from propcal.core.bins import uniform
from propcal.core.categories import categories
from propcal.core.criterion import multicalibration, proportional
from propcal.core.groups import Groups
from propcal.reading.rows import rows_to_atoms

NAN = float("nan")


def table_of(score, outcome, wards=None, min_share=0.0):
    """Categories of two bins; wards are the groups, or everybody is."""
    columns = None if wards is None else {"ward": wards}
    atoms = rows_to_atoms(score, outcome, columns)
    groups = Groups().collect(atoms, gamma=0.0)
    return categories(atoms, groups, uniform(2), min_share=min_share)


def chance_of(table, rates=()):
    """Everybody counts, and these outcome rates were drawn."""
    people = table.people.astype(float)
    rates = np.reshape(rates, (-1, *people.shape))
    return Chance(people, people, rates, people, np.ones(people.shape[1]))


TWO_WARDS = rows_of((0.2, 10, 3), (0.6, 10, 5), (0.4, 10, 1), (0.9, 10, 10))
WARD = np.repeat(["a", "b"], 20)


def test_limits_of_rates_share_the_error_among_the_cells():
    """3 of 10 and 5 of 10 by Clopper and Pearson, each tail 5 % / 2 / 2."""
    score, outcome = rows_of((0.2, 10, 3), (0.6, 10, 5))
    table = table_of(score, outcome)
    low, high = rate_limits(table, chance_of(table))
    tail = 0.05 / 2 / 2
    assert low[0] == pytest.approx([betaincinv(n, 11 - n, tail) for n in (3, 5)])
    assert high[0] == pytest.approx(
        [betaincinv(n + 1, 10 - n, 1 - tail) for n in (3, 5)]
    )


def test_a_cell_that_is_not_eligible_has_no_limits_and_takes_no_error():
    score, outcome = rows_of((0.2, 30, 3), (0.6, 10, 5))
    table = table_of(score, outcome, min_share=0.5)
    low, high = rate_limits(table, chance_of(table))
    assert low[0] == pytest.approx([betaincinv(3, 28, 0.025), NAN], nan_ok=True)
    assert np.isnan(high[0, 1])


def test_a_comparison_takes_limits_at_half_the_error():
    """Of one cell with 5 of 10, at 2.5 %: the gap is 0 at least, as 0.6 is within."""
    score, outcome = rows_of((0.6, 10, 5))
    table = table_of(score, outcome)
    findings = SimpleNamespace(
        table=table, noise=chance_of(table), rule=SimpleNamespace(rho=0.1)
    )
    value, low, high = _loss_limits(findings)["mc"]
    assert (value, low) == pytest.approx((0.1, 0))
    assert high == pytest.approx(0.6 - betaincinv(5, 6, 0.0125))


def test_a_gap_is_limited_by_the_ends_of_its_rate():
    low = np.array([0.1, 0.5, 0.3])
    high = np.array([0.3, 0.6, 0.4])
    score = np.array([0.2, 0.3, 0.45])
    # 0 to 0.1, 0.2 to 0.3, 0.05 to 0.15
    assert _gap_limits(low, high, score, multicalibration()) == pytest.approx(
        (0.2, 0.3)
    )
    # relative to the rate: 0 to 1, 0.4 to 0.5, 0.05 / 0.4 to 0.15 / 0.3
    found = _gap_limits(low, high, score, proportional(rho=0.1))
    assert found == pytest.approx((0.4, 1.0))


@pytest.mark.parametrize("score", [0.1, 0.3])
def test_a_score_at_the_end_of_the_limits_may_be_right(score):
    ends = np.array([0.1]), np.array([0.3])
    found = _gap_limits(*ends, np.array([score]), multicalibration())
    assert found == pytest.approx((0.0, 0.2))


def test_cells_without_limits_do_not_count():
    unknown = np.array([NAN])
    assert np.isnan(_gap_limits(unknown, unknown, unknown, multicalibration())).all()
    assert np.isnan(_ratio_limits(unknown[None], unknown[None], unknown > 0, 0.1)).all()
    low = np.array([0.1, NAN])
    high = np.array([0.2, NAN])
    found = _gap_limits(low, high, np.array([0.5, NAN]), multicalibration())
    assert found == pytest.approx((0.3, 0.4))


def test_limits_of_the_ratio_of_two_rates():
    low = np.array([0.01, 0.4])
    high = np.array([0.2, 0.8])
    # the least from 0.2 to 0.4, the most from 0.05 (the floor) to 0.8
    expected = np.log([2, 16])
    assert _log_ratio_limits(low, high, 0.05) == pytest.approx(expected)
    # limits that overlap: the rates may be equal
    apart = _log_ratio_limits(np.array([0.1, 0.2]), np.array([0.5, 0.4]), 0.05)
    assert apart == pytest.approx((0, np.log(4)))


def test_a_group_does_not_differ_from_itself():
    found = _log_ratio_limits(np.array([0.1]), np.array([0.9]), 0.05)
    assert found == (0.0, 0.0)


def test_ratios_are_compared_within_a_bin_that_has_two_groups():
    low = np.array([[0.1, 0.01], [0.4, 0.5]])
    high = np.array([[0.2, 0.02], [0.8, 0.9]])
    eligible = np.array([[True, False], [True, True]])
    found = _ratio_limits(low, high, eligible, 0.05)
    assert found == pytest.approx(np.log([2, 8]))
    assert _ratio_limits(low, high, np.eye(2, dtype=bool), 0.05) == (0.0, 0.0)


def test_losses_of_four_cells():
    """Rates 0.3, 0.5, 0.1 and 1 at scores of 0.2, 0.6, 0.4 and 0.9."""
    table = table_of(*TWO_WARDS, WARD)
    found = losses(table, chance_of(table), 0.1).value
    # MC: 0.4 - 0.1; PMC: 0.3 / 0.1; DC: 0.3 against 0.1
    assert found.tolist() == pytest.approx([0.3, 3.0, np.log(3)])
    places = loss_places(table, 0.1)
    assert places == {"mc": (2,), "pmc": (2,), "dc": (0, 2)}
    assert where_attained(table, 0.1) == [
        "ward=b, predicted risk 0-50 %",
        "ward=b, predicted risk 0-50 %",
        "ward=a against ward=b, predicted risk 0-50 %",
    ]
    assert where_attained(table, 0.1, {"ward=b": "B"})[0] == "B, predicted risk 0-50 %"


def test_losses_of_drawn_rates():
    rate = np.array([[[0.2, 0.6], [0.4, 0.9]], [[0.3, 0.6], [0.4, 0.5]]])
    score = np.array([[0.2, 0.6], [0.4, 0.9]])
    found = loss_values(rate, score, np.ones((2, 2), dtype=bool), 0.1)
    expected = [[0, 0, np.log(2)], [0.4, 0.8, np.log(4 / 3)]]
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_no_cell_has_no_loss():
    table = table_of(*TWO_WARDS, WARD, min_share=0.9)
    found = losses(table, chance_of(table), 0.1)
    assert found.drop(columns="where").isna().all(axis=None)
    assert set(found["where"]) == {"no cell has enough data"}
    assert tuple(found.columns) == LOSS_COLUMNS
    assert loss_places(table, 0.1) == {}
    assert where_attained(table, 0.1) == ["no cell has enough data"] * 3


@pytest.mark.parametrize(
    ("events", "where"),
    [
        ((1, 1), "all rates are below 10 %"),  # 10 % itself counts as 10 %
        ((2, 2), "no two groups differ"),
    ],
)
def test_groups_with_equal_rates_have_no_place_of_the_dc_loss(events, where):
    first, second = events
    score, outcome = rows_of((0.2, 10, first), (0.2, 10, second))
    table = table_of(score, outcome, np.repeat(["a", "b"], 10))
    assert where_attained(table, 0.1)[-1] == where


def test_one_group_in_each_bin_has_no_dc_loss():
    score, outcome = rows_of((0.2, 10, 3), (0.8, 10, 5))
    table = table_of(score, outcome, np.repeat(["a", "b"], 10))
    assert loss_places(table, 0.1)["dc"] == ()
    assert where_attained(table, 0.1)[-1] == "no risk range has two groups"


def test_the_bin_whose_rates_are_furthest_apart():
    bins = np.array([0, 1, 0, 1, 0, 1])
    log_rate = np.array([0.0, 5.0, 1.0, 3.0, 2.5, 4.0])
    assert _furthest_apart(np.arange(6), bins, log_rate) == (4, 0)
    # without the last group, 5 and 3 of the second bin
    assert _furthest_apart(np.arange(4), bins, log_rate) == (1, 3)
    assert _furthest_apart(np.array([0, 1]), bins, log_rate) == ()
    assert _furthest_apart(np.array([0, 2]), bins, np.zeros(6)) == (0, 0)


def test_what_chance_shows_of_a_loss():
    drawn = np.arange(1.0, 20.0)  # 1 to 19
    # 17, 18 and 19 are as large, and so are the data
    assert _floor(drawn, 17.0) == pytest.approx((10.0, 18.1, 4 / 20))
    assert np.isnan(_floor(np.array([]), 1.0)).all()


def test_the_mean_square_is_relative_to_what_is_allowed():
    rate = np.array([0.05, 0.4])
    score = np.array([0.1, 0.2])
    expected = (0.05**2 + 0.2**2) / 2
    assert _mean_square(rate, score, multicalibration()) == pytest.approx(expected)
    # relative to 0.1, which the first rate is below, and 0.4
    found = _mean_square(rate, score, proportional(rho=0.1))
    assert found == pytest.approx((0.5**2 + 0.5**2) / 2)


def test_noise_is_taken_off_the_mean_square():
    """A gap of 0.1 and noise of +-0.06 in equal parts: 0.01 - 0.0036."""
    score = np.array([0.5])
    gap = np.array([0.1])
    chance = np.array([[0.06], [-0.06]])
    value, low, high = _estimate(score, gap, chance, multicalibration())
    # the noise around a truth of 0.5 + g varies as its outcomes do: by 1 - 4 g²
    expected = (0.01 - 0.0036) / (1 - 4 * 0.0036)
    assert value == pytest.approx(expected, abs=2e-4)
    assert low <= value <= high


def test_a_gap_smaller_than_noise_has_a_negative_mean_square():
    score = np.array([0.5])
    chance = np.array([[0.06], [-0.06]])
    value, low, _ = _estimate(score, np.array([0.01]), chance, multicalibration())
    assert value == pytest.approx(0.01**2 - 0.06**2)
    assert low == value


def cell_rows(*cells):
    """Rows of a table of categories: group, rate, mean score and limits of the gap."""
    names = ["group", "outcome_rate", "mean_score", "low", "high"]
    return pd.DataFrame(cells, columns=names)


def test_a_row_of_dc_by_bin():
    cells = cell_rows(("a", 0.02, 0.2, -0.19, -0.1), ("b", 0.4, 0.3, 0.0, 0.2))
    found = dict(zip(DC_COLUMNS, _row("10-20 %", cells, 0.05)))
    # rates of 0.01 to 0.1 and of 0.3 to 0.5, at least 0.05
    assert found["dc"] == pytest.approx(np.log(0.4 / 0.05))
    assert found["low"] == pytest.approx(np.log(0.3 / 0.1))
    assert found["high"] == pytest.approx(np.log(0.5 / 0.05))
    named = [found[name] for name in DC_COLUMNS if name not in ("dc", "low", "high")]
    assert named == ["10-20 %", 2, "b", 0.4, "a", 0.02]


def test_equal_rates_of_a_bin_are_those_of_two_different_groups():
    cells = cell_rows(("a", 0.3, 0.3, -0.1, 0.1), ("b", 0.3, 0.3, -0.1, 0.1))
    found = dict(zip(DC_COLUMNS, _row("", cells, 0.05)))
    assert (found["dc"], found["highest"], found["lowest"]) == (0.0, "a", "b")
    alone = dict(zip(DC_COLUMNS, _row("", cells[:1], 0.05)))
    assert (alone["groups"], alone["highest"], alone["lowest"]) == (1, "", "")
    assert np.isnan([alone[name] for name in ("dc", "low", "high")]).all()


@pytest.mark.parametrize(("share", "unsure"), [(0.1, False), (0.11, True)])
def test_losses_are_of_no_use_if_the_risk_range_of_a_tenth_is_unsure(share, unsure):
    assert ranges_unsure(SimpleNamespace(people=share)) == unsure
    assert not ranges_unsure(None)


def test_coarse_scores_limit_the_ratio_unless_they_may_explain_it_all():
    """7.5 events are expected; mean scores have ten binary digits."""
    atoms = SimpleNamespace(people=np.array([10, 10]))
    score = np.array([0.25, 0.5])
    assert _ratio_error(atoms, score, 0.0) == 2**-9
    assert _ratio_error(atoms, score, 2.5) == pytest.approx(2**-9 + 2.5 / 5)
    assert _ratio_error(atoms, score, 7.5) == np.inf
    assert _ratio_error(atoms, score, 8.0) == np.inf


def brier_limits(low, high, coarse):
    """Of ten people at 0.5, two of whom have the outcome, and ten at 0.25, none."""
    cells = {"people": np.array([10, 10]), "positives": np.array([2, 0])}
    atoms = SimpleNamespace(n_people=20, **cells)
    score = np.array([0.5, 0.25])
    return _brier_limits(atoms, score, np.array(low), np.array(high), coarse)


def test_the_brier_score_of_exact_scores_is_known_up_to_rounding():
    value = (10 * 0.25 + 10 * 0.0625) / 20
    rounding = 2 * (10 * 0.25 + 10 * 0.1875) / 20 * 2**-10
    found = brier_limits([0.5, 0.25], [0.5, 0.25], 0.0)
    assert found == pytest.approx((value - rounding, value + rounding), rel=1e-12)


def test_scores_within_a_cell_change_the_brier_score_by_their_reach():
    value = (10 * 0.25 + 10 * 0.0625) / 20
    rounding = 2 * (10 * 0.25 + 10 * 0.1875) / 20 * 2**-10
    moved = 2 * 0.125 * 2 / 20  # two pairs of people, who move by 1/8 at most
    spread = (10 * 0.0625 * 0.125 + 10 * 0.125 * 0.25) / 20
    coarse = 0.1
    found_low, found_high = brier_limits([0.375, 0.0], [0.5625, 0.375], coarse)
    shift = moved + rounding + 2 * coarse / 20
    assert found_low == pytest.approx(value - shift, rel=1e-12)
    of_means = coarse * 0.25 / 20  # the largest reach is that of the second cell
    assert found_high == pytest.approx(value + shift + spread + of_means, rel=1e-12)


def test_a_brier_score_is_between_0_and_1():
    assert brier_limits([0.0, 0.0], [1.0, 1.0], 20.0) == (0.0, 1.0)


def test_pairs_are_ranked_right_if_the_person_with_the_outcome_is_higher():
    """The one at 0.4 is above two of five people and as high as one; the two at 0.9
    are above all.
    """
    high = np.array([0.9, 0.4])
    positives = np.array([2.0, 1.0])
    low = np.array([0.7, 0.4, 0.1])
    negatives = np.array([2.0, 1.0, 2.0])
    found = _pairs(high, positives, low, negatives)
    assert found == pytest.approx((2 * 5 + 2.5) / 15)


def test_without_people_on_one_side_there_are_no_pairs():
    one = np.ones(1)
    assert np.isnan(_pairs(one, np.zeros(1), one, one))
    assert np.isnan(_pairs(one, one, one, np.zeros(1)))
    assert _pairs(one, 0.5 * one, one, 0.5 * one) == 0.5

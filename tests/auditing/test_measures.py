"""Measures of one group, worked out by hand."""

import numpy as np
import pytest
from scipy.stats import norm, t
from small_samples import rows_of, sample_of

from propcal.auditing.statistics.measures import (
    THRESHOLDS,
    Estimate,
    _if_reversed,
    _mean_influence,
    _observed_risk,
    _rates_of_an_alert,
    _ThresholdParts,
    auroc,
    auroc_influence,
    brier,
    checked_thresholds,
    decision_curve,
    log_loss,
    net_benefit,
    net_benefit_variance,
    observed_expected,
    ratio_intervals,
    surely_not_reversed,
    threshold_columns,
)
from propcal.errors import InputError
from propcal.reading.rows import rows_to_atoms

NORMAL = norm.ppf(0.975)


def test_the_ratio_is_of_observed_and_expected_events():
    found = observed_expected(sample_of((0.2, 50, 15), (0.4, 50, 15)))
    assert found.value == pytest.approx(30 / 30)
    assert found.low < 1 < found.high
    assert np.isnan(observed_expected(sample_of((0.0, 50, 15)))).all()
    assert observed_expected(sample_of((0.001, 10, 0))).value == 0


def test_limits_of_a_ratio_are_those_of_a_binomial_rate():
    """400 of 1,000 at one score: within a thousandth of Wilson's interval."""
    (low, high), (low_90, _) = ratio_intervals(sample_of((0.5, 1000, 400)), 0.95, 0.9)
    error = np.sqrt(0.4 * 0.6 / 1000)
    assert 0.5 * low == pytest.approx(0.4 - NORMAL * error, abs=1e-3)
    assert 0.5 * high == pytest.approx(0.4 + NORMAL * error, abs=1e-3)
    assert 0.5 * low_90 == pytest.approx(0.4 - norm.ppf(0.95) * error, abs=1e-3)


def test_weights_widen_the_limits_of_a_ratio_without_events():
    """A count of 0 has a limit of three people of typical weight."""
    three = -np.log(0.05)
    (found,) = ratio_intervals(sample_of((0.5, 100, 0), weight=2.0), 0.95)
    assert found == pytest.approx((0, 2 * three / 100))
    (found,) = ratio_intervals(sample_of((0.5, 2, 0)), 0.95)
    assert found == pytest.approx((0, 2 / 1))  # no more than everybody
    (found,) = ratio_intervals(sample_of((0.5, 100, 100), weight=2.0), 0.95)
    assert found == pytest.approx(((200 - 2 * three) / 100, 2))


def test_repeat_visits_of_few_patients_have_no_limits():
    few = sample_of(*[(0.5, 2, 1)] * 9, cluster=range(9))
    assert np.isnan(ratio_intervals(few, 0.95)).all()
    ten = sample_of(*[(0.5, 2, 1)] * 10, cluster=range(10))
    assert not np.isnan(ratio_intervals(ten, 0.95)).any()


def test_the_rates_of_an_alert_are_those_observed():
    sample = sample_of((0.0, 50, 5), (1.0, 10, 4))
    assert _rates_of_an_alert(sample).tolist() == [0.1, 0.4]
    assert _observed_risk(sample).tolist() == [0.1, 0.4]
    # nobody is flagged, or nothing is left to chance
    assert _rates_of_an_alert(sample_of((0.0, 50, 5))) is None
    assert _rates_of_an_alert(sample_of((0.0, 50, 0), (1.0, 10, 10))) is None
    half = _rates_of_an_alert(sample_of((0.0, 50, 0), (1.0, 10, 4)))
    assert half.tolist() == [0, 0.4]


def test_a_mean_has_the_error_of_its_people():
    """Losses of 1 (three people) and 0 (one)."""
    mean, *influence = _mean_influence(
        sample_of((0.5, 4, 3)), (np.ones(1), np.zeros(1))
    )
    assert mean == 0.75
    assert [float(one[0]) for one in influence] == [0.25 / 4, -0.75 / 4]


def test_the_brier_score_and_its_interval():
    """10 of 50 at 0.2: 0.64 for those with the outcome, 0.04 for the others."""
    found = brier(sample_of((0.2, 50, 10)))
    error = np.sqrt(10 * 0.48**2 + 40 * 0.12**2) / 50
    expected = (0.16, 0.16 - NORMAL * error, 0.16 + NORMAL * error)
    assert found == pytest.approx(expected)
    # an interval does not reach below 0
    assert brier(sample_of((0.01, 50, 1))).low == 0


def test_the_log_loss_of_certain_scores_is_finite():
    found = log_loss(sample_of((0.2, 50, 10)))
    assert found.value == pytest.approx(-0.2 * np.log(0.2) - 0.8 * np.log(0.8))
    wrong = log_loss(sample_of((0.0, 4, 1), (1.0, 4, 3)))
    assert wrong.value == pytest.approx(np.log(2**52) / 4)


def test_the_auroc_counts_ties_as_half():
    """Of 4 * 6 pairs: events at 0.6 are above 4 and tied with 2."""
    sample = sample_of((0.2, 5, 1), (0.6, 5, 3))
    area, if_positive, if_negative = auroc_influence(sample)
    assert area == pytest.approx((1 * 2 + 3 * (4 + 1)) / 24)
    lower = np.array([2, 5]) / 6
    higher = np.array([3 + 0.5, 1.5]) / 4
    np.testing.assert_allclose(if_positive, (lower - area) / 4 * np.sqrt(4 / 3))
    np.testing.assert_allclose(if_negative, (higher - area) / 6 * np.sqrt(6 / 5))


def test_the_interval_of_an_auroc_is_delongs_on_the_log_odds():
    sample = sample_of((0.2, 5, 1), (0.6, 5, 3))
    area = 17 / 24
    of_events = np.array([2, 5, 5, 5]) / 6
    of_others = np.array([3.5] * 4 + [1.5] * 2) / 4
    variance = np.var(of_events, ddof=1) / 4 + np.var(of_others, ddof=1) / 6
    reach = NORMAL * np.sqrt(variance) / (area * (1 - area))
    log_odds = np.log(area / (1 - area))
    expected = [1 / (1 + np.exp(-log_odds - side * reach)) for side in (-1, 1)]
    assert auroc(sample) == pytest.approx((area, *expected))


def test_an_auroc_needs_two_events_for_an_interval_and_one_for_a_value():
    one = auroc(sample_of((0.2, 5, 1), (0.6, 5, 0)))
    assert one.value == pytest.approx((4 / 2) / 9)
    assert np.isnan(one[1:]).all()
    assert np.isnan(auroc(sample_of((0.2, 5, 0), (0.6, 5, 0)))).all()
    perfect = auroc(sample_of((0.2, 5, 0), (0.6, 5, 5)))
    assert perfect.value == 1
    assert np.isnan(perfect[1:]).all()


@pytest.mark.parametrize(
    ("area", "fewest", "reversed_"),
    [
        (Estimate(0.39, 0.3, 0.49), 50, True),
        (Estimate(0.4, 0.3, 0.49), 50, False),
        (Estimate(0.39, 0.3, 0.5), 50, False),
        (Estimate(0.39), 50, True),
        (Estimate(0.39, 0.3, 0.49), 49.9, False),
    ],
)
def test_a_ranking_is_reversed_below_four_tenths(area, fewest, reversed_):
    assert (_if_reversed(area, fewest) == area) == reversed_


@pytest.mark.parametrize(
    ("below", "beside", "sure"),
    [(4, 0, False), (4, 1, True), (5, 0, True), (0, 8, False), (0, 9, True)],
)
def test_ranges_show_that_a_ranking_is_not_reversed(below, beside, sure):
    """Ten events in the range from 32/64; of ten others, some at least two ranges lower
    count, and those in the next lower range count half: more than 4 are needed.
    """
    rest = 10 - below - beside
    cells = [(0.1, below, 0), (31.5 / 64, beside, 0), (32.5 / 64, 10, 10)]
    rows = rows_of(*cells, (32.6 / 64, rest, 0))
    assert surely_not_reversed(rows_to_atoms(*rows, None)) == sure


def test_thresholds_are_between_0_and_1():
    assert checked_thresholds([0.3, 0.1, 0.3]) == (0.1, 0.3)
    assert checked_thresholds(0.999999) == (0.999999,)
    for wrong in (0, 1, -0.1, [0.2, 1.0]):
        with pytest.raises(InputError, match="thresholds"):
            checked_thresholds(wrong)


def test_a_false_positive_weighs_as_the_odds_of_the_threshold():
    found = net_benefit(30, 10, 100, np.array([0.2, 0.5, 0.8]))
    assert found == pytest.approx([(30 - 2.5) / 100, 0.2, (30 - 40) / 100])


def test_the_variance_of_a_net_benefit_is_that_of_what_each_person_adds():
    """30 people add 1, 10 take the odds of 1/4 off, 60 change nothing."""
    adds = np.repeat([1, -0.25, 0], [30, 10, 60])
    found = net_benefit_variance(np.array(0.2), 30, 10, 100)
    assert found == pytest.approx(100 * adds.var())


def test_what_happens_at_a_threshold():
    numbers = (np.array([0.2]), np.array([30.0]), np.array([10.0]), 40.0, 100.0, 0.05)
    found = {name: float(one[0]) for name, one in threshold_columns(*numbers).items()}
    assert found == pytest.approx(
        {
            "threshold": 0.2,
            "net_benefit": 0.275,
            "low": 0.225,
            "high": 0.325,
            "treat_all": (40 - 60 / 4) / 100,
            "sensitivity": 30 / 40,
            "specificity": 1 - 10 / 60,
            "treated": 0.4,
        }
    )


def test_a_score_at_a_threshold_is_treated():
    sample = sample_of((0.2, 10, 2), (0.3, 10, 5), (0.7, 10, 9))
    parts = _ThresholdParts.of(sample, np.array([0.2, 0.3, 0.31, 0.7, 0.8]))
    assert parts.at_or_above(sample.positives).tolist() == [16, 14, 9, 9, 0]
    assert parts.sums(sample.positives).tolist() == [0, 2, 5, 0, 9, 0]


def test_a_decision_curve_and_the_spread_of_the_scores():
    sample = sample_of((0.2, 10, 2), (0.305, 10, 5), (0.7, 10, 9), (1.0, 1, 1))
    curve, bars = decision_curve(sample, [0.305])
    assert curve["threshold"].tolist() == sorted([*THRESHOLDS, 0.305])
    at = {round(one, 3): place for place, one in enumerate(curve["threshold"])}
    assert curve["treated"][at[0.305]] == pytest.approx(21 / 31)
    assert curve["treated"][at[0.31]] == pytest.approx(11 / 31)
    adds = np.repeat([1, -0.25, 0], [17, 14, 0])
    benefit = adds.mean()
    reach = NORMAL * adds.std() / np.sqrt(31)
    found = [curve[name][at[0.2]] for name in ("net_benefit", "low", "high")]
    assert found == pytest.approx([benefit, benefit - reach, benefit + reach])
    people = dict(zip(bars["score_from"].round(2), bars["people"]))
    assert {low: n for low, n in people.items() if n} == {
        0.2: 10,
        0.3: 10,
        0.7: 10,
        0.95: 1,
    }
    assert bars["positives"].sum() == 17
    assert bars["score_to"][0] == 0.05


def test_patients_widen_the_interval_of_a_net_benefit():
    """Ten patients with two visits at 0.5, five of whom have the outcome at both: at
    a threshold of 0.2, patients add 2 or take 2 / 4 off.
    """
    cells = [(0.5, 2, 2)] * 5 + [(0.5, 2, 0)] * 5
    curve, _ = decision_curve(sample_of(*cells, cluster=range(10)))
    at = int(np.argmin(np.abs(curve["threshold"] - 0.2)))
    spread = np.std([2, -0.5] * 5, ddof=1) * np.sqrt(10)
    reach = t.ppf(0.975, 9) * spread / 20
    assert curve["high"][at] - curve["net_benefit"][at] == pytest.approx(reach)
    few, _ = decision_curve(sample_of(*cells[:9], cluster=range(9)))
    assert np.isnan(few["low"]).all()

"""Calibration of one group by logistic regression, worked out by hand."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit, logit
from scipy.stats import norm, t
from small_samples import sample_of

from propcal.auditing.statistics.logistic_calibration import (
    N_CELLS,
    _coefficient,
    _covariance,
    _distances,
    _drawn_curve,
    _end_point,
    _estimate,
    _events,
    _fit,
    _knots,
    _quantiles,
    _Regression,
    _share_of_draws,
    calibration,
    weighted_distances,
)
from propcal.core.draws import Draws
from propcal.core.logistic import fit_logistic


def wilson(rate, n, quantile):
    """Wilson's interval: the rates p that are `quantile` errors from the one found."""
    roots = np.roots([1 + quantile**2 / n, -(2 * rate + quantile**2 / n), rate**2])
    return sorted(roots.real)


def test_the_intercept_is_the_difference_of_log_odds():
    """15 of 50 at 0.2 and 45 of 50 at 0.6 have no common shift, but one of 0.2 has."""
    found = calibration(sample_of((0.2, 50, 15)), Draws(0))
    assert found.intercept.value == pytest.approx(logit(0.3) - logit(0.2))


def test_one_event_is_enough_for_an_intercept_and_none_is_not():
    found = calibration(sample_of((0.2, 50, 1)), Draws(0))
    assert found.intercept.value == pytest.approx(logit(1 / 50) - logit(0.2), rel=1e-6)
    nothing = calibration(sample_of((0.2, 50, 0)), Draws(0))
    assert np.isnan(nothing.intercept.value)
    assert nothing.curve is None
    everything = calibration(sample_of((0.2, 50, 50)), Draws(0))
    assert np.isnan(everything.intercept.value)


def test_half_an_event_is_enough_for_an_intercept():
    """Under survey weights, the weight of the events may be below 1."""
    found = calibration(sample_of((0.2, 50, 5), weight=0.1), Draws(0))
    assert found.intercept.value == pytest.approx(logit(0.1) - logit(0.2), rel=1e-6)


def test_the_slope_of_two_scores_is_that_between_their_rates():
    """And the distances are those of the two rates from their scores."""
    sample = sample_of((0.2, 100, 30), (0.6, 100, 50))
    found = calibration(sample, Draws(0))
    slope = (logit(0.5) - logit(0.3)) / (logit(0.6) - logit(0.2))
    assert found.slope.value == pytest.approx(slope, rel=1e-6)
    assert found.ici.value == pytest.approx(0.1, rel=1e-6)
    assert found.e50.value == pytest.approx(0.1, rel=1e-6)
    assert found.emax.value == pytest.approx(0.1, rel=1e-6)


def test_scores_of_exactly_0_or_1_do_not_decide_the_slope():
    inner = [(0.2, 100, 30), (0.6, 100, 50)]
    found = calibration(sample_of((0.0, 20, 1), *inner, (1.0, 20, 19)), Draws(0))
    expected = calibration(sample_of(*inner), Draws(0))
    assert found.slope == pytest.approx(expected.slope, rel=1e-6)
    assert found.intercept == pytest.approx(expected.intercept, rel=1e-6)


def test_one_event_beside_scores_of_0_is_enough_for_an_intercept():
    found = calibration(sample_of((0.0, 20, 3), (0.2, 50, 1)), Draws(0))
    assert found.intercept.value == pytest.approx(logit(1 / 50) - logit(0.2), rel=1e-6)
    nothing = calibration(sample_of((0.0, 20, 3), (0.2, 50, 0)), Draws(0))
    assert np.isnan(nothing.intercept.value)
    assert np.isnan(nothing.slope.value)


def test_the_error_of_an_intercept_is_that_of_the_events():
    """Of a rate of 0.3 of 50 people, on the log-odds, with 50 / 49 for one parameter;
    few events have Student's t.
    """
    sample = sample_of((0.2, 50, 15))
    fit = _fit(sample, None, offset=True)
    error = np.sqrt(1 / (50 * 0.3 * 0.7) * 50 / 49)
    assert np.sqrt(fit.covariance[0, 0]) == pytest.approx(error, rel=1e-6)
    found = _coefficient(sample, fit, 0)
    reach = t.ppf(0.975, 15) * error
    assert found == pytest.approx(
        (found.value, found.value - reach, found.value + reach)
    )
    assert np.isnan(_coefficient(sample, None, 0).value)


def test_an_error_needs_more_people_than_parameters():
    sample = sample_of((0.2, 2, 1))
    design = np.ones((1, 2))
    fit = fit_logistic(np.ones((1, 1)), sample.x, sample.weight, sample.positives)
    two = replace_fit(fit, design)
    assert np.isnan(_covariance(sample, design, two)).all()


def replace_fit(fit, design):
    """A fit whose information has the size of a design."""
    return fit._replace(information=np.eye(design.shape[1]))


def test_events_are_people_of_equal_weight():
    assert _events(sample_of((0.2, 50, 15))) == pytest.approx(15)
    assert _events(sample_of((0.2, 50, 35))) == pytest.approx(15)
    assert _events(sample_of((0.2, 50, 15), weight=3.0)) == pytest.approx(15)


@pytest.mark.parametrize(
    ("events", "shares"),
    [
        (49, (0.1, 0.5, 0.9)),
        (50, (0.05, 0.35, 0.65, 0.95)),
        (99, (0.05, 0.35, 0.65, 0.95)),
        (100, (0.05, 0.275, 0.5, 0.725, 0.95)),
    ],
)
def test_more_events_have_more_knots(events, shares):
    """Of 1,000 people with as many scores, the one at which a share is reached."""
    place = np.arange(1, 1001)
    x = place / 100  # further apart than the cells of a fit
    cells = [(score, 1, 0) for score in expit(x)]
    sample = sample_of(*cells)
    events_of_atoms = (place <= events).astype(float)
    sample = replace(sample, positives=events_of_atoms, positives_sq=events_of_atoms)
    assert _knots(sample) == pytest.approx([10 * share for share in shares])


def test_a_quantile_is_the_first_score_at_which_the_share_is_reached():
    sample = sample_of((0.2, 1, 0), (0.6, 3, 0), (0.4, 4, 0))
    # an eighth, five eighths and all, by ascending score
    at = np.array([0.0, 0.125, 0.126, 0.625, 0.626, 1.0])
    expected = logit([0.2, 0.2, 0.4, 0.4, 0.6, 0.6])
    assert _quantiles(sample, at) == pytest.approx(expected)


def test_distances_of_people_with_weights():
    """Weights 1, 5 and 4, by ascending distance: half of the weight is at 0.2."""
    distance = np.array([0.3, 0.1, 0.2])
    weight = np.array([4.0, 1.0, 5.0])
    expected = [(1.2 + 0.1 + 1.0) / 10, 0.2, 0.3, 0.3]
    assert weighted_distances(distance, weight) == pytest.approx(expected)
    # weights of 5, 4 and 1 reach half and nine tenths exactly
    found = weighted_distances(np.array([0.1, 0.2, 0.3]), np.array([5.0, 4.0, 1.0]))
    assert found == pytest.approx([0.16, 0.1, 0.2, 0.3])


def test_distances_of_people_of_equal_weight_are_those_of_their_ranks():
    distance = np.arange(10, 0, -1) / 100
    expected = [0.055, 0.05, 0.09, 0.1]
    assert weighted_distances(distance, np.full(10, 2.0)) == pytest.approx(expected)
    assert weighted_distances(np.array([0.3]), np.ones(1)) == pytest.approx([0.3] * 4)


def test_simulated_distances_are_those_of_cells():
    """Shifts from 0.5 to rates of 0.5 + k / 100, for 40 cells."""
    k = np.arange(N_CELLS) / 100
    found = _distances(np.zeros(N_CELLS), logit(0.5 + k))
    assert found == pytest.approx([k.mean(), k[19], k[35], k[39]])


@pytest.mark.parametrize(
    ("which", "observed", "at_least", "at_most"),
    [
        # means of the draws are 0.1, 0.2, 0.3 and 0.4
        (0, 0.25, 0.5, 0.5),
        (0, 0.3001, 0.25, 0.75),
        (1, 0.2, 0.75, 0.5),
        (2, 0.3, 0.5, 0.75),
        (3, 0.4, 0.25, 1.0),
    ],
)
def test_shares_of_draws_with_the_same_distance_everywhere(
    which, observed, at_least, at_most
):
    distance = np.tile([0.1, 0.2, 0.3, 0.4], (N_CELLS, 1))
    assert _share_of_draws(distance, which, observed, at_most=False) == at_least
    assert _share_of_draws(distance, which, observed, at_most=True) == at_most


def test_half_of_the_cells_decide_the_median_distance():
    """20 of 40 cells are at 0.1, or only 19."""
    distance = np.full((N_CELLS, 2), 0.5)
    distance[:20, 0] = 0.1
    distance[:19, 1] = 0.1
    assert _share_of_draws(distance, 1, 0.3, at_most=True) == 0.5
    assert _share_of_draws(distance, 1, 0.3, at_most=False) == 0.5


def test_a_distance_is_within_its_range():
    assert _estimate(0.3, 0.1, 0.2) == (0.3, 0.1, 0.3)
    assert _estimate(0.15, 0.1, 0.2) == (0.15, 0.1, 0.2)
    assert np.isnan(_estimate(0.3, np.nan, np.nan)[1:]).all()


def test_many_people_at_a_score_of_0_are_a_point_of_the_curve():
    """Five of 500 are enough, at a rate of 2 / 5; four are not."""
    sample = sample_of((0.0, 5, 2), (0.5, 495, 200))
    ((score, rate, low, high),) = _end_point(sample, 0.0)
    assert (score, rate) == (0, 0.4)
    assert (low, high) == pytest.approx(wilson(0.4, 5, norm.ppf(0.975)))
    assert _end_point(sample_of((0.0, 4, 2), (0.5, 496, 200)), 0.0) == []
    assert _end_point(sample, 1.0) == []


def test_weights_do_not_make_the_people_of_a_point_more():
    """Five people of weight 3."""
    sample = sample_of((0.5, 95, 40), (1.0, 5, 4), weight=3.0)
    ((score, rate, low, high),) = _end_point(sample, 1.0)
    assert (score, rate) == (1, 0.8)
    assert (low, high) == pytest.approx(wilson(0.8, 5, norm.ppf(0.975)))


def test_a_curve_has_a_point_at_0_and_goes_on_between_the_others():
    inner = [(0.2, 100, 30), (0.6, 100, 50)]
    found = calibration(sample_of((0.0, 20, 1), *inner), Draws(0)).curve
    assert found[0, :2] == pytest.approx([0, 0.05])
    assert found[1, :2] == pytest.approx([0.2, 0.3])
    assert found[-1, :2] == pytest.approx([0.6, 0.5])
    assert len(found) == 1 + 41


def test_without_events_between_them_the_curve_is_that_of_everybody():
    sample = sample_of((0.0, 20, 1), (0.3, 20, 0), (1.0, 20, 19))
    knots = np.zeros(2)
    fit = _Regression(np.array([0.0, 1.0]), np.eye(2) / 100)
    found = _drawn_curve(sample, knots, fit)
    assert len(found) == 41
    np.testing.assert_allclose(found[:, 0], found[:, 1])

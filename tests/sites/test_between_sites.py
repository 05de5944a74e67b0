"""Random effects: equal to statsmodels, to an example by hand, and prediction intervals
that hold.
"""

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.meta_analysis import combine_effects

from propcal.errors import InputError
from propcal.sites.between_sites import (
    SiteCounts,
    prediction_interval,
    random_effects,
    ratio_effects,
)


@pytest.mark.parametrize("n", [3, 5, 12, 40])
def test_mean_interval_and_tau_squared_are_those_of_statsmodels(n):
    rng = np.random.default_rng(n)
    for spread in (0.05, 0.3):
        estimate, variance = rng.normal(0.1, spread, n), rng.uniform(0.002, 0.03, n)
        mine = random_effects(estimate, variance)
        theirs = combine_effects(estimate, variance, method_re="iterated", atol=1e-14)
        assert mine.tau2 == pytest.approx(theirs.tau2, abs=1e-8)
        assert mine.mean == pytest.approx(theirs.mean_effect_re, abs=1e-8)
        assert mine.error == pytest.approx(theirs.sd_eff_w_re_hksj, abs=1e-8)
        assert mine.i2 == pytest.approx(max(theirs.i2, 0), abs=1e-8)
        low, high = theirs.conf_int(use_t=True)[3]
        assert [mine.low, mine.high] == pytest.approx([low, high], abs=1e-8)


def test_three_sites_by_hand():
    """Equal variances: the mean is the plain one, and tau squared is the sample
    variance less theirs.
    """
    estimate, variance = np.array([0.0, 0.3, 0.6]), np.full(3, 0.02)
    found = random_effects(estimate, variance)
    assert found.mean == pytest.approx(0.3, abs=1e-12)
    assert found.tau2 == pytest.approx(0.09 - 0.02, abs=1e-10)
    assert found.error == pytest.approx(np.sqrt(0.09 / 3), abs=1e-10)
    assert found.high - found.mean == pytest.approx(
        stats.t.ppf(0.975, 2) * np.sqrt(0.03), abs=1e-8
    )
    assert found.i2 == pytest.approx(1 - 2 / (0.18 / 0.02), abs=1e-10)


def test_the_prediction_interval_of_precise_sites_is_that_of_a_new_one():
    """Without errors of their own, sites are a sample: mean +- t s sqrt(1 + 1/n) is
    exact.
    """
    rng = np.random.default_rng(1)
    estimate = rng.normal(0.2, 0.1, 400)
    low, high = prediction_interval(estimate, np.full(400, 1e-9), np.ones(400))
    reach = stats.t.ppf(0.975, 399) * estimate.std(ddof=1) * np.sqrt(1 + 1 / 400)
    assert [low, high] == pytest.approx(
        [estimate.mean() - reach, estimate.mean() + reach], abs=0.002
    )


def test_sites_that_do_not_differ_have_no_variance_between_them():
    found = random_effects(np.array([0.1, 0.12, 0.09]), np.full(3, 0.01))
    assert (found.i2, found.tau2) == (0, 0)


def test_few_sites_have_no_intervals_and_unknown_ones_are_left_out():
    found = random_effects(np.array([0.1, 0.2, np.nan]), np.array([0.01, 0.01, 0.01]))
    assert found.n_sites == 2
    assert np.isnan([found.low, found.prediction_high]).all()
    with pytest.raises(InputError, match="no site has enough people"):
        random_effects(np.array([np.nan]), np.array([0.1]))


@pytest.mark.slow
@pytest.mark.parametrize("n", [8, 15, 30])
@pytest.mark.parametrize("tau", [0.05, 0.1, 0.2])
def test_prediction_intervals_hold_95_percent_of_new_sites(n, tau):
    rng = np.random.default_rng([n, int(1000 * tau)])
    covered = []
    for _ in range(400):
        variance = 0.7 / (0.3 * rng.integers(300, 5000, n))
        estimate = rng.normal(0, tau, n) + rng.normal(0, np.sqrt(variance))
        low, high = prediction_interval(estimate, variance, np.ones(n))
        covered.append(stats.norm.cdf(high / tau) - stats.norm.cdf(low / tau))
    assert 0.93 <= np.mean(covered) <= 0.975


def of_counts(observed, expected):
    """Rare events: counts vary as Poisson's do."""
    zero = np.zeros(len(expected))
    return ratio_effects(
        SiteCounts(np.asarray(observed, dtype=float), expected, zero, zero + 1)
    )


def test_sites_that_are_alike_have_the_ratio_of_all_their_events():
    expected = np.array([12.0, 30.0, 8.0, 50.0])
    found = of_counts(0.8 * expected, expected)
    assert found.mean == pytest.approx(0.8, abs=1e-8)
    assert found.tau2 == 0
    assert found.n_sites == 4


def test_sites_that_are_exactly_alike_have_one_ratio():
    found = of_counts([50, 50, 50], np.full(3, 50.0))
    assert (found.mean, found.tau2, found.i2) == (1, 0, 0)
    ends = [found.low, found.high, found.prediction_low, found.prediction_high]
    assert ends == [1] * 4


def test_a_site_without_events_is_part_of_the_mean():
    found = of_counts([10, 12, 9, 0], np.array([10.0, 10.0, 10.0, 1.0]))
    assert found.mean == pytest.approx(1.0, abs=1e-8)
    assert 0 < found.low < 1 < found.high


def test_large_sites_are_summarised_as_by_random_effects_of_log_ratios():
    rng = np.random.default_rng(5)
    expected = rng.uniform(2000, 9000, 12)
    observed = rng.poisson(expected * rng.normal(1.1, 0.05, 12))
    mine = of_counts(observed, expected)
    usual = random_effects(np.log(observed / expected), 1 / (1.1 * expected))
    assert [mine.low, mine.high] == pytest.approx(
        np.exp([usual.low, usual.high]), abs=0.003
    )
    assert mine.tau2 == pytest.approx(usual.tau2, rel=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("n", [10, 174])
@pytest.mark.parametrize("tau", [0.0, 0.1, 0.3])
@pytest.mark.parametrize("events", [1.0, 12.0, 100.0])
def test_intervals_of_the_mean_ratio_hold(n, tau, events):
    rng = np.random.default_rng([n, int(10 * tau), int(events)])
    expected, held = rng.uniform(0.5, 1.5, n) * events, []
    for _ in range(300):
        truth = 0.9 * np.exp(rng.normal(-(tau**2) / 2, tau, n))
        observed = rng.poisson(truth * expected)
        if not observed.any():  # there is no summary without events
            continue
        found = of_counts(observed, expected)
        held.append(found.low <= 0.9 <= found.high)
    assert np.mean(held) >= 0.912  # 95 % less three standard errors of 300 data sets

"""Sums over sites, with numbers worked out by hand."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from propcal.auditing.names import NOT_ENOUGH
from propcal.auditing.statistics.measures import Estimate
from propcal.core.logistic import LogisticFit
from propcal.sites.between_sites import (
    SiteCounts,
    SiteEstimates,
    SiteExcess,
    _knots,
    prediction_interval,
    random_effects,
    ratio_effects,
    skewed_tail,
)
from propcal.sites.site_measures import (
    SCALES,
    _measure_effects,
    people_row,
    site_summary,
)


def counts_of(observed, expected, squared=0.0, effect=1.0):
    observed = np.array(observed, dtype=float)
    n = len(observed)
    columns = [np.broadcast_to(float(x), n) for x in (squared, effect)]
    return SiteCounts(observed, np.broadcast_to(float(expected), n), *columns)


def test_the_error_of_a_site_is_that_of_a_right_score():
    """10 events expected, with a variance of (10 - 2), and half as much again."""
    counts = counts_of([9], 10, squared=2, effect=1.5)
    assert counts.error == pytest.approx([np.sqrt(1.5 * 8) / 10])
    assert np.isnan(counts_of([0], 0).error).all()


def sample_of(score, weight, cluster=None, variance_ratio=2.0):
    score = np.array(score)
    weight = np.array(weight, dtype=float)
    return SimpleNamespace(
        score=score,
        weight=weight,
        weight_sq=weight**2,
        observed=3.0,
        expected=float(weight @ score),
        cluster=cluster,
        variance_ratio=variance_ratio,
    )


def test_counts_of_a_site_have_the_effect_of_its_weights():
    """Weights 1 and 3 at scores of 0.5 and 0.2, with variances of 0.25 and 0.16."""
    site = sample_of([0.5, 0.2], [1, 3])
    certain = sample_of([0.0, 1.0], [1, 3])  # without any variance
    counts = SiteCounts.of([site, certain], site)
    assert counts.observed.tolist() == [3, 3]
    assert counts.expected.tolist() == pytest.approx([1.1, 3.0])
    assert counts.squared.tolist() == pytest.approx([0.25 + 3 * 0.04, 3.0])
    effect = (0.25 + 9 * 0.16) / (0.25 + 3 * 0.16)
    assert counts.effect.tolist() == pytest.approx([effect, 1.0])
    for ratio, times in ((2.0, 2.0), (0.5, 1.0)):  # repeat visits never make it smaller
        visits = sample_of([0.5, 0.2], [1, 3], np.array([0, 1]), ratio)
        repeated = SiteCounts.of([site], visits)
        assert repeated.effect.tolist() == pytest.approx([times * effect])


def test_squares_around_the_weighted_mean():
    """Weights 1 / 0.1 and 1 / 0.2, then with 0.3 more; the second counts half."""
    sites = SiteEstimates(
        np.array([0.0, 0.3]), np.array([0.1, 0.2]), np.array([1, 0.5])
    )
    assert sites.freedom == 0.5
    squares, mean, weight = sites.squares(np.array([0.0, 0.3]))
    assert weight.tolist() == pytest.approx([15, 2.5 + 2])
    assert mean.tolist() == pytest.approx([0.1, 0.6 / 4.5])
    second = 2.5 * (0.6 / 4.5) ** 2 + 0.5 * 2 * (0.3 - 0.6 / 4.5) ** 2
    assert squares.tolist() == pytest.approx([10 * 0.01 + 0.5 * 5 * 0.04, second])


def test_tau_squared_gives_the_squares_that_are_asked_for():
    """Equal variances of 0.02 and squares of 0.18: 0.18 / (0.02 + tau squared)."""
    sites = SiteEstimates(np.array([0.0, 0.3, 0.6]), np.full(3, 0.02), np.ones(3))
    found = sites.tau2(np.array([2.0, 0.1, 9.0, 10.0, 0.0]))
    assert found == pytest.approx([0.07, 1.78, 0.0, 0.0, 0.0], abs=1e-9)


def test_three_sites_have_intervals_and_fewer_degrees_of_freedom_have_none():
    estimate = np.array([0.0, 0.3, 0.6])
    variance = np.full(3, 0.02)
    for count, is_known in ((2 / 3, True), (0.66, False)):
        found = random_effects(estimate, variance, np.full(3, count))
        assert np.isfinite(found.low) == is_known
        assert np.isfinite(found.mean)


@pytest.mark.parametrize("effect", [1.0, 2.0])
def test_ratios_of_three_equal_sites(effect):
    """Each expects 50 events, and squared scores are 20: the variance of an O/E ratio
    is (1 - 20 / 50) / 50. The square of a count counts as 1 / (1 + 1 / 100).
    """
    found = ratio_effects(counts_of([40, 50, 60], 50, squared=20, effect=effect))
    variance = effect * 0.6 / 50
    count = 1 / (1 + effect / 100)
    freedom = 3 * count - 1
    total_variance = count * (0.2**2 + 0.2**2) / freedom
    assert found.mean == pytest.approx(1.0, abs=1e-9)
    assert found.tau2 == pytest.approx(total_variance - variance, abs=1e-9)
    reach = stats.t.ppf(0.975, freedom) * np.sqrt(total_variance / 3)
    ends = [np.exp(-reach), np.exp(reach)]
    assert [found.low, found.high] == pytest.approx(ends, abs=1e-6)


def test_new_sites_lie_around_the_median_of_sites():
    """The prediction interval of the ratio is symmetric; in logarithms, its middle is
    half of tau squared below the mean.
    """
    found = ratio_effects(counts_of([30, 40, 50, 60, 70], 50))
    new = np.array([found.prediction_low, found.prediction_high])
    assert np.log(new).mean() == pytest.approx(np.log(found.mean) - found.tau2 / 2)
    count = np.full(5, 1 / 1.01)
    relative = np.array([0.6, 0.8, 1.0, 1.2, 1.4])
    low, high = prediction_interval(relative, np.full(5, 0.02), count)
    assert np.log(new[1] / new[0]) == pytest.approx(high - low, rel=1e-6)


def test_no_more_is_known_of_a_new_site_than_of_the_mean():
    found = ratio_effects(counts_of([49, 50, 51], 50))
    assert found.tau2 == 0
    assert found.prediction_low <= found.low < 1 < found.high <= found.prediction_high


def test_variances_are_at_least_a_twentieth_of_the_expected_events():
    """All scores are 1, and have no variance of their own."""
    found = ratio_effects(counts_of([40, 50, 60], 50, squared=50))
    count = 1 / 1.01
    total_variance = count * 0.08 / (3 * count - 1)
    assert found.tau2 == pytest.approx(total_variance - 0.05 / 50, abs=1e-9)


def test_sites_that_expect_nothing_are_left_out_of_ratios():
    counts = SiteCounts(
        np.array([40.0, 50, 60, 0]),
        np.array([50.0, 50, 50, 0]),
        np.zeros(4),
        np.ones(4),
    )
    found = ratio_effects(counts)
    assert found.n_sites == 3
    assert found.mean == pytest.approx(1.0, abs=1e-9)


def excess(events, variance, left, third=(0, 0), fourth=(0, 0)):
    columns = [
        np.array(x, dtype=float) for x in (events, variance, left, third, fourth)
    ]
    return SiteExcess(*columns)


def test_the_test_of_sites_by_hand():
    """Squares of 3 / 2 and -3 / 3 errors; by its kurtosis of 8 / 16, the first counts
    as 1 / 1.25 sites, and the second as 1 / (1 + 1 / 6).
    """
    found = excess([3, -3], [4, 9], [3, 8], fourth=[8, 27]).tested()
    first, second = 0.8, 6 / 7
    squares = first * 9 / 4 + second
    freedom = first * 3 / 4 + second * 8 / 9
    assert found.statistic == pytest.approx(squares / freedom)
    assert found.p_value == pytest.approx(stats.chi2.sf(squares, freedom))
    z = np.array([3 / np.sqrt(3), -3 / np.sqrt(8)])
    assert found.excess == pytest.approx(z)
    assert found.p_values == pytest.approx(2 * stats.norm.sf(abs(z)))


def test_a_site_that_fixes_the_curve_is_not_tested():
    found = excess([3, 0, -3], [4, 5, 9], [3, 0, 8], [0] * 3, [-8, 0, -27]).tested()
    assert np.isnan([found.excess[1], found.p_values[1]]).all()
    squares = 9 / 4 + 1  # a negative kurtosis counts as none
    freedom = 3 / 4 + 8 / 9
    assert found.statistic == pytest.approx(squares / freedom)


def test_few_events_beyond_the_curve_are_less_surprising_than_few_events_below():
    """A skewness of 3.2 / 4^1.5 = 0.4: the curve is a gamma distribution of shape 25."""
    found = excess([4, -4], [4, 4], [4, 4], third=[3.2, 3.2]).tested()
    above = 2 * stats.gamma.sf(25 + 2 * 5, 25)
    below = 2 * stats.gamma.cdf(25 - 2 * 5, 25)
    assert found.p_values == pytest.approx([above, below])
    assert above > 2 * stats.norm.sf(2) > below


def test_no_p_value_is_above_1():
    """The median of a skewed count is below its mean."""
    found = excess([1e-9, -1e-9], [4, 4], [4, 4], third=[3.2, 3.2]).tested()
    assert found.p_values == pytest.approx([2 * stats.gamma.sf(25, 25), 1.0])


def test_a_count_that_is_hardly_skewed_is_normal():
    assert skewed_tail(1.96, 0.0009) == pytest.approx(stats.norm.sf(1.96), abs=1e-12)
    assert skewed_tail(1.96, 0.4) == pytest.approx(stats.gamma.sf(25 + 1.96 * 5, 25))
    assert skewed_tail(9.0, -0.4) == 0.0  # further than the curve reaches


def test_events_in_excess_are_added_up_by_site():
    """Ten people each, of whom 3, 5 and 4 had the outcome, at risks of 0.2, 0.5 and
    0.5; the second and third cell belong to the second site.
    """
    risk = np.array([0.2, 0.5, 0.5])
    curve = LogisticFit(np.zeros(1), risk, np.array([[6.6]]))
    found = SiteExcess.of(
        np.ones((3, 1)),
        curve,
        np.array([0, 1, 1]),
        np.full(3, 10.0),
        np.array([3.0, 5, 4]),
        3,
    )
    assert found.events.tolist() == pytest.approx([1, -1, 0])
    assert found.variance.tolist() == pytest.approx([1.6, 5, 0])
    assert found.left.tolist() == pytest.approx([1.6 - 1.6**2 / 6.6, 5 - 25 / 6.6, 0])
    assert found.third.tolist() == pytest.approx([1.6 * 0.6, 0, 0])
    assert found.fourth.tolist() == pytest.approx([1.6 * 0.04, 5 * -0.5, 0])


def test_knots_are_quantiles_of_weights_at_the_middle_of_each():
    """Weights 1, 2 and 1 of 4: the middles are at 1/8, 1/2 and 7/8."""
    knots = _knots(np.array([3.0, 1.0, 2.0]), np.array([1.0, 1.0, 2.0]))
    at_35 = 1 + (0.35 - 0.125) / 0.375
    assert knots.tolist() == pytest.approx([1, at_35, 4 - at_35, 3])
    assert _knots(np.ones(3), np.ones(3)).tolist() == [1.0]


def judged(name, values, errors):
    return pd.DataFrame({name: values, f"{name}_error": errors, "finding": ""})


def test_a_measure_is_summarised_with_the_squares_of_its_errors():
    """Slopes 0.9, 1.0 and 1.1 have a variance of 0.01, errors one of 0.0025."""
    table = judged("slope", [0.9, 1.0, 1.1], 0.05)
    found = _measure_effects(table, "slope", SCALES["slope"])
    assert found.mean == pytest.approx(1.0)
    assert found.tau2 == pytest.approx(0.0075, abs=1e-9)
    nothing = judged("slope", [np.nan] * 3, 0.05)
    assert _measure_effects(nothing, "slope", SCALES["slope"]) is None


def test_auroc_is_summarised_as_log_odds():
    values = 1 / (1 + np.exp(-np.array([0.9, 1.0, 1.1])))
    found = _measure_effects(judged("auroc", values, 0.05), "auroc", SCALES["auroc"])
    assert found.mean == pytest.approx(1 / (1 + np.exp(-1)))
    assert found.tau2 == pytest.approx(0.0075, abs=1e-9)


def test_a_row_has_standard_errors_on_the_scale_of_the_summary():
    sample = SimpleNamespace(n_people=200, observed=30.0, quantile=2.0)
    estimates = {
        "slope": Estimate(1.0, 0.8, 1.2),
        "auroc": Estimate(0.8, 0.5, 0.9),
        "intercept": Estimate(0.0, 0.0, 0.0),
    }
    row = people_row(sample, estimates)
    assert (row["people"], row["positives"]) == (200, 30)
    assert [row["slope"], row["slope_low"], row["slope_high"]] == [1.0, 0.8, 1.2]
    assert row["slope_error"] == pytest.approx(0.1)
    assert row["auroc_error"] == pytest.approx(np.log(9) / 4)
    assert np.isnan(row["intercept_error"])


def test_a_summary_has_ratios_of_all_sites_and_measures_of_those_judged():
    table = pd.DataFrame({"finding": ["", "", "", NOT_ENOUGH]})
    for name in ("intercept", "slope", "auroc"):
        table[name] = [0.6, 0.7, 0.8, 0.1]
        table[f"{name}_error"] = 0.05
    counts = counts_of([30, 50, 60, 60], 50)
    summary = site_summary(table, counts, soft=False)
    assert summary["n_sites"].tolist() == [4, 3, 3, 3]
    assert summary.index.tolist() == [
        "observed_expected",
        "intercept",
        "slope",
        "auroc",
    ]
    assert "error" not in summary
    assert "observed_expected" not in site_summary(table, counts, soft=True).index
    no_events = counts_of([0] * 4, 50)
    assert "observed_expected" not in site_summary(table, no_events, soft=False).index
    one_event = counts_of([1, 0, 0, 0], 50)
    assert "observed_expected" in site_summary(table, one_event, soft=False).index


def test_a_right_score_has_a_ratio_and_slope_of_1_and_an_intercept_of_0():
    right = {name: scale.right for name, scale in SCALES.items()}
    assert right == {
        "observed_expected": 1,
        "intercept": 0,
        "slope": 1,
        "auroc": 0.5,  # of a score that says nothing
    }

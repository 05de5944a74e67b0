"""Differences between sites: common errors are none, chance is none, and one site that
differs is found.
"""

import numpy as np
import pytest

from propcal.auditing.statistics.sample import Sample
from propcal.core.logistic import expit, log_odds
from propcal.sites.between_sites import SiteCounts, site_differences, skewed_tail


def site(rng, n, shift=0.0, slope=1.0, shape=(2, 8)):
    score = rng.beta(*shape, n)
    y = (rng.random(n) < expit(shift + slope * log_odds(score))).astype(float)
    one = np.ones(n)
    return Sample(score, one.astype(int), one, one, y, y, None)


def test_a_common_curve_is_no_difference_between_sites_with_other_patients():
    rng = np.random.default_rng(1)
    sites = [site(rng, 4000, -0.5, 0.6, (a, 8)) for a in (1, 2, 4, 6)]
    counts = SiteCounts.of(sites, sites[0])
    assert (
        np.ptp(counts.observed / counts.expected) > 0.1
    )  # O/E ratios differ, because patients do
    assert site_differences(sites, counts.effect).p_value > 0.01


def test_the_site_that_differs_has_the_smallest_p_value_and_the_sign_of_its_excess():
    rng = np.random.default_rng(2)
    sites = [site(rng, 500, 0.6 * (i == 3)) for i in range(12)]
    found = site_differences(sites, np.ones(12))
    assert found.p_value < 0.01
    assert np.argmin(found.p_values) == 3
    assert found.excess[3] > 0


def test_repeat_visits_make_differences_less_certain():
    rng = np.random.default_rng(3)
    sites = [site(rng, 500, 0.5 * (i == 0)) for i in range(5)]
    alone, repeated = (
        site_differences(sites, np.full(5, effect)) for effect in (1.0, 3.0)
    )
    assert alone.p_value < repeated.p_value


def test_no_curve_without_events():
    rng = np.random.default_rng(4)
    assert (
        site_differences([site(rng, 50, -40.0) for _ in range(3)], np.ones(3)) is None
    )


def test_the_tail_of_a_count_is_that_of_a_gamma_variable():
    """With skewness 2 it is the exponential distribution."""
    assert skewed_tail(1.5, 2.0) == pytest.approx(np.exp(-2.5))
    assert skewed_tail(1.5, -2.0) == 0


@pytest.mark.slow
@pytest.mark.parametrize(("n", "people"), [(3, 65), (10, 65), (50, 65), (100, 5)])
def test_sites_that_do_not_differ_are_seldom_found_to(n, people):
    rng = np.random.default_rng(n)
    found = [
        site_differences(
            [site(rng, people, 0.2, 1.2) for _ in range(n)], np.ones(n)
        ).p_value
        for _ in range(600)
    ]
    assert (
        np.mean(np.array(found) < 0.05) < 0.075
    )  # 600 data sets know it to within 1.8 points
    assert np.mean(np.array(found) < 0.01) < 0.022

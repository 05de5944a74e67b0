"""Tails, limits and intervals of numbers of outcomes, against exact sums."""

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import logit
from scipy.stats import binom, norm, poisson, t

from propcal.auditing.statistics.coin_tosses import CoinTosses
from propcal.auditing.statistics.rate_intervals import (
    accepted,
    bisected,
    exact_interval,
    most_of_none,
    normal_density,
    normal_quantile,
    normal_tail,
    possible_truths,
    t_quantile,
    t_tail,
    wilson_interval,
)


def tosses_of(weight, size, probability):
    return CoinTosses(*(np.array(one, float) for one in (weight, size, probability)))


def mid_tail(observed, n, risk):
    """The chance of more, and half of the chance of as many."""
    return binom.sf(observed, n, risk) + binom.pmf(observed, n, risk) / 2


def test_the_exact_tail_of_tosses_of_two_kinds():
    """The sum of 10 at 0.1 and 5 at 0.6, by adding up all pairs of numbers."""
    tosses = tosses_of([10, 5], [1, 1], [0.1, 0.6])
    both = np.convolve(binom.pmf(range(11), 10, 0.1), binom.pmf(range(6), 5, 0.6))
    deviation = np.sqrt(10 * 0.09 + 5 * 0.24)
    for observed in (0, 4, 7, 15):
        expected = both[observed + 1 :].sum() + both[observed] / 2
        found = tosses.exact_tail(observed, 4.0, deviation)
        assert found == pytest.approx(expected, abs=1e-12)
    assert tosses.exact_tail(1000, 4.0, deviation) == 0


def signed_roots(n, observed, risk):
    """Of the likelihood ratio and of Wald's statistic of a binomial count."""
    rate = observed / n
    likelihood = observed * np.log(rate / risk)
    likelihood += (n - observed) * np.log((1 - rate) / (1 - risk))
    wald = (logit(rate) - logit(risk)) * np.sqrt(n * rate * (1 - rate))
    return np.sqrt(2 * likelihood), abs(wald)


@pytest.mark.parametrize("size", [1.0, 3.0])
@pytest.mark.parametrize("observed", [65, 75, 90])
def test_the_tail_is_that_of_lugannani_and_rice(observed, size):
    """And within 5 % of the exact one. A size of 3 multiplies the observed sum as well."""
    tosses = tosses_of([200 * size], [size], [0.3])
    found = tosses.tail(size * observed, (observed - 60) / np.sqrt(42))
    w, u = signed_roots(200, observed, 0.3)
    assert found == pytest.approx(norm.sf(w) + norm.pdf(w) * (1 / u - 1 / w), rel=1e-6)
    assert found == pytest.approx(mid_tail(observed, 200, 0.3), rel=0.05)


@pytest.mark.parametrize(("sign", "beyond"), [(-1.0, 0.001), (1.0, 0.999)])
def test_the_limit_is_that_of_barndorff_nielsen(sign, beyond):
    """20 of 200, whose log-odds are tilted alike: r* is the quantile."""
    quantile = norm.ppf(0.975)

    def too_far(risk):
        w, u = signed_roots(200, 20, risk)
        return w + np.log(u / w) / w - quantile

    expected = 200 * brentq(too_far, beyond, 0.1 + sign * 0.01)
    tosses = tosses_of([200], [1], [0.1])
    found = tosses.limit(20.0, np.sqrt(18.0), quantile, sign)
    assert found == pytest.approx(expected, rel=1e-6)
    heavy = tosses_of([600], [3], [0.1]).limit(60.0, 3 * np.sqrt(18.0), quantile, sign)
    assert heavy == pytest.approx(3 * found, rel=1e-6)


def test_quantiles_and_tails_are_those_of_their_distributions():
    assert normal_quantile(0.9) == pytest.approx(norm.ppf(0.9))
    assert normal_tail(1.3) == pytest.approx(norm.sf(1.3))
    assert normal_tail(30) == pytest.approx(norm.sf(30), rel=1e-9)
    assert normal_density(1.3) == pytest.approx(norm.pdf(1.3))
    assert t_quantile(0.9, 4) == pytest.approx(t.ppf(0.9, 4))
    assert t_tail(1.3, 4) == pytest.approx(t.sf(1.3, 4))


@pytest.mark.parametrize("p", [0.9, 0.95])
def test_the_mid_p_limit_of_a_count_of_0(p):
    assert poisson.pmf(0, most_of_none(p)) == pytest.approx(1 - p)


def test_halving_stops_after_as_many_steps_as_asked_for():
    low, high = bisected(lambda x: x < 0.3, 0.0, 1.0, 3)
    assert (low, high) == (0.25, 0.375)
    low, high = bisected(lambda x: x < np.array([0.3, 0.9]), np.zeros(2), np.ones(2), 1)
    assert (low.tolist(), high.tolist()) == ([0.0, 0.5], [0.5, 1.0])


def test_rates_of_0_and_1_and_unknown_ones_have_exact_limits():
    """Nobody of ten: the rate at which that has a chance of 2.5 %."""
    rate = np.array([0.0, 1.0, np.nan])
    low, high = exact_interval(rate, np.full(3, 10.0), 0.05)
    end = 0.025**0.1
    assert low == pytest.approx([0, end, np.nan], nan_ok=True)
    assert high == pytest.approx([1 - end, 1, np.nan], nan_ok=True)


def test_wilsons_limits_are_the_rates_at_which_the_one_found_is_just_as_likely():
    (low,), (high,) = wilson_interval(np.array([0.3]), np.array([50.0]), 1.96)
    for limit in (low, high):
        error = np.sqrt(limit * (1 - limit) / 50)
        assert abs(0.3 - limit) == pytest.approx(1.96 * error)
    assert low < 0.3 < high


def test_an_error_without_noise_is_the_only_possible_truth():
    path = possible_truths(np.array([0.1]), np.zeros((2, 1)))
    assert set(path.tolist()) == {1.0}
    # noise of half the error: from 1 - 4 / 2, which counts as 0, to 1 + 4 / 2
    path = possible_truths(np.array([0.1]), np.array([[0.05], [-0.05]]))
    assert (path[0], path[-1], len(path)) == (0.0, 3.0, 17)


def test_truths_are_accepted_unless_the_distance_found_is_rare_under_them():
    """Of 40 draws, one is 2.5 %: truths 0 and 1 show 1 and 20 as large as observed,
    truth 3 one as small.
    """
    ranks = np.arange(40.0)
    drawn = np.array([ranks - 39, ranks - 20, ranks - 10, ranks + 0.0])
    path = np.arange(4.0)
    assert accepted(path, path / 10, drawn, 0.0) == pytest.approx((0.0, 0.3))
    # under truth 0 nothing is as large as 0.5: the limit is 1 / 20 of the way to
    # truth 1, which shows 19; under truth 3, one is as small
    low, high = accepted(path, path / 10, drawn, 0.5)
    assert low == pytest.approx(0.1 * 1 / 19)
    assert high == pytest.approx(0.3)

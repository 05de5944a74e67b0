"""The distributions agree with scipy.stats."""

import numpy as np
import pytest
from scipy import stats

from propcal.auditing.statistics import rate_intervals as own

SHARES = [1e-9, 0.0005, 0.025, 0.5, 0.8, 0.975, 0.9999]
CLOSE = {"rel": 1e-12, "abs": 1e-300}


@pytest.mark.parametrize("p", SHARES)
def test_quantiles_are_those_of_scipy_stats(p):
    assert own.normal_quantile(p) == pytest.approx(stats.norm.ppf(p), **CLOSE)
    for df in (1, 2, 9, 255):
        assert own.t_quantile(p, df) == pytest.approx(stats.t.ppf(p, df), **CLOSE)
    assert own.most_of_none(p) == pytest.approx(stats.chi2.ppf(p, 2) / 2, **CLOSE)
    events, others = np.random.default_rng(0).uniform(0.01, 1e5, (2, 500))
    low, high = own.exact_interval(events / (events + others), events + others, p)
    assert low == pytest.approx(stats.beta.ppf(p / 2, events, others + 1), rel=1e-9)
    assert high == pytest.approx(
        stats.beta.ppf(1 - p / 2, events + 1, others), rel=1e-9
    )


@pytest.mark.parametrize("z", [0.0, 0.3, 1.96, 8.0, 30.0])
def test_tails_are_those_of_scipy_stats(z):
    assert own.normal_tail(z) == pytest.approx(stats.norm.sf(z), **CLOSE)
    assert own.normal_density(z) == pytest.approx(stats.norm.pdf(z), **CLOSE)
    for df in (1, 9, 255):
        assert own.t_tail(z, df) == pytest.approx(stats.t.sf(z, df), **CLOSE)


def test_intervals_without_events_or_without_others_end_at_0_and_1():
    low, high = own.exact_interval(np.array([0.0, 1.0, np.nan]), np.full(3, 5.0), 0.05)
    assert (low[0], high[1]) == (0.0, 1.0)
    assert np.isnan([low[2], high[2]]).all()

"""The distributions agree with scipy.stats."""

import numpy as np
import pytest
from scipy import stats

from propcal.auditing import intervals as own

SHARES = [1e-9, 0.0005, 0.025, 0.5, 0.8, 0.975, 0.9999]
CLOSE = {"rel": 1e-12, "abs": 1e-300}


@pytest.mark.parametrize("p", SHARES)
def test_quantiles_are_those_of_scipy_stats(p):
    assert own.normal_quantile(p) == pytest.approx(stats.norm.ppf(p), **CLOSE)
    for df in (1, 2, 9, 255):
        assert own.t_quantile(p, df) == pytest.approx(stats.t.ppf(p, df), **CLOSE)
    assert own.most_of_none(p) == pytest.approx(stats.chi2.ppf(p, 2) / 2, **CLOSE)
    a, b = np.random.default_rng(0).uniform(0.01, 1e5, (2, 500))
    assert own.beta_quantile(p, a, b) == pytest.approx(stats.beta.ppf(p, a, b), **CLOSE)


@pytest.mark.parametrize("z", [0.0, 0.3, 1.96, 8.0, 30.0])
def test_tails_are_those_of_scipy_stats(z):
    assert own.normal_tail(z) == pytest.approx(stats.norm.sf(z), **CLOSE)
    assert own.normal_density(z) == pytest.approx(stats.norm.pdf(z), **CLOSE)
    for df in (1, 9, 255):
        assert own.t_tail(z, df) == pytest.approx(stats.t.sf(z, df), **CLOSE)


def test_a_beta_distribution_without_mass_has_no_quantile():
    assert np.isnan(own.beta_quantile(0.5, np.array([0.0, 5.0]), np.array([5.0, 0.0]))).all()

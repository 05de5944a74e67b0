"""The additive fit against a plain dense one: penalised likelihood by scipy, full rank,
no cleverness.
"""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit

from propcal.core.fit import additive_fit
from propcal.core.fit.additive_fit import (
    AdditiveFit,
    AdditiveModel,
    AdditiveRows,
    Term,
    fit_additive,
    fit_quadratic,
    term_of_levels,
    term_of_ranges,
)


def rows(n=3000, seed=0, effects=True):
    rng = np.random.default_rng(seed)
    codes = np.stack(
        [rng.integers(0, 9, n), rng.integers(0, 4, n), rng.integers(0, 5, n)]
    ).astype(np.uint8)
    offset = rng.normal(-1, 1, n)
    shift = (
        0.5 * np.sin(codes[0] / 2) + np.array([0.4, -0.4, 0.2, 0.0])[codes[1]]
        if effects
        else 0.0
    )
    y = (rng.random(n) < expit(offset + shift)).astype(float)
    return AdditiveRows(codes, offset, y, rng.choice([1.0, 2.0], n))


def terms(data, waves=99):
    people = np.bincount(data.codes[1], minlength=9).astype(float)
    constant = Term(np.ones((5, 1)), np.zeros(1, dtype=np.int64), kept=True)
    return [constant, term_of_ranges(people, [8], waves), term_of_levels(4)]


def ordered(data):
    """Rows with the codes in the order of the terms."""
    return AdditiveRows(data.codes[[2, 0, 1]], data.offset, data.outcome, data.weight)


def dense(data, walk, ridge, spike, constant):
    """The penalised maximum by scipy: first differences of pieces 0 to 7, piece 8
    apart, levels a ridge.
    """
    share = np.bincount(data.codes[1], minlength=9)[:8] / np.sum(data.codes[1] < 8)
    one_hot = np.eye(9)[data.codes[1]], np.eye(4)[data.codes[2]]

    def parts(x):
        steps, apart, levels, level = x[:7], x[7], x[8:12], x[12]
        chain = np.concatenate([[0.0], np.cumsum(steps)])
        return np.append(chain - share @ chain, apart), levels, level

    def loss(x):
        pieces, levels, level = parts(x)
        eta = data.offset + one_hot[0] @ pieces + one_hot[1] @ levels + level
        fit = data.weight @ (np.logaddexp(0, eta) - data.outcome * eta)
        penalty = (
            np.sum(x[:7] ** 2) / walk + x[7] ** 2 / spike + np.sum(x[8:12] ** 2) / ridge
        )
        return fit + 0.5 * (penalty + x[12] ** 2 / constant)

    return parts(
        minimize(
            loss, np.zeros(13), method="BFGS", options={"gtol": 1e-7, "maxiter": 2000}
        ).x
    )


def test_effects_are_those_of_a_dense_penalised_fit_with_the_same_variances():
    data = ordered(rows())
    model = AdditiveModel(terms(data))
    fit = fit_additive(model, data)
    constant, walk, spike, ridge = fit.variance
    scale = scale_of_steps(data)
    pieces, levels, level = dense(data, walk * scale, ridge, spike, constant)
    shifts = model.shifts(fit.effect)
    assert np.allclose(shifts[1], pieces, atol=2e-4)
    assert np.allclose(shifts[2], levels, atol=2e-4)
    assert np.allclose(shifts[0], level, atol=2e-4)


def scale_of_steps(data):
    """The variance of one step if the shapes have variance 1 among people on
    average.
    """
    share = np.bincount(data.codes[1], minlength=9)[:8] / np.sum(data.codes[1] < 8)
    steps = np.tril(np.ones((8, 8)))[:, 1:]
    return 1 / np.sum(share[:, None] * (steps - share @ steps) ** 2)


def test_the_smoothest_shapes_carry_nearly_all_of_a_random_walk():
    data = ordered(rows())
    full, few = (AdditiveModel(terms(data, waves)) for waves in (99, 5))
    one, other = (
        model.shifts(fit_additive(model, data).effect)[1] for model in (full, few)
    )
    assert np.abs(one - other).max() < 0.08


def test_variances_are_a_fixed_point_of_the_update():
    data = ordered(rows())
    model = AdditiveModel(terms(data))
    fit = fit_additive(model, data)
    gradient, information = model.quadratic(data, model.log_odds(data, fit.effect))
    again = fit_quadratic(
        model, gradient + information @ fit.effect, information, fit.variance, hold=True
    )
    assert np.allclose(again.effect, fit.effect, atol=1e-6)
    squares = np.bincount(model.component, fit.effect**2)
    assert np.allclose((squares / (again.free + 0.5))[1:], fit.variance[1:], rtol=0.05)


@pytest.mark.parametrize("seed", range(3))
def test_terms_without_effect_vanish(seed):
    data = ordered(rows(6000, seed, effects=False))
    model = AdditiveModel(terms(data))
    fit = fit_additive(model, data)
    assert np.sum(fit.variance[1:] > 0) <= 1
    assert np.abs(np.concatenate(model.shifts(fit.effect)[1:])).max() < 0.12


def test_all_rows_of_one_outcome_do_not_break_it():
    data = ordered(rows(500))
    data = AdditiveRows(data.codes, data.offset, np.zeros(500), data.weight)
    model = AdditiveModel(terms(data))
    fit = fit_additive(model, data, AdditiveFit.first(model))
    assert np.all(np.isfinite(fit.effect))


def test_a_step_that_overshoots_is_shortened_also_if_a_term_vanishes(monkeypatch):
    constant = Term(np.ones((1, 1)), np.zeros(1, dtype=np.int64), kept=True)
    model = AdditiveModel([constant, term_of_levels(2)])
    outcome = np.tile([0.0, 0.0, 0.0, 1.0], 50)
    codes = np.stack([np.zeros(200), np.arange(200) % 2]).astype(np.uint8)
    rows = AdditiveRows(codes, np.zeros(200), outcome, np.ones(200))
    start = AdditiveFit(np.array([-0.5, 0.1, -0.1]), np.array([9.0, 1.0]), np.zeros(2))
    far = AdditiveFit(np.array([-40.0, 0.0, 0.0]), np.array([9.0, 0.0]), np.zeros(2))
    monkeypatch.setattr(additive_fit, "fit_quadratic", lambda *_, **__: far)
    fit = fit_additive(model, rows, start, passes=1)
    assert not fit.effect[1:].any()
    before = rows.likelihood(np.full(200, -0.5)).sum()
    assert rows.likelihood(model.log_odds(rows, fit.effect)).sum() >= before - 0.1

"""The audit's measures agree with values computed another way."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.stats import binom, binomtest, t
from sklearn import metrics as sk

from propcal.auditing import profile
from propcal.auditing.statistics.chance import ScoreCells
from propcal.auditing.statistics.hypothesis_tests import (
    CELLS,
    OVERALL,
    SHARES,
    SHARES_OF_FEW,
    SUM_OF_SHARES,
    adjust,
    events_p_value,
    group_p_value,
    holm,
    shares_for,
)
from propcal.auditing.statistics.logistic_calibration import (
    calibration,
    weighted_distances,
)
from propcal.auditing.statistics.measures import (
    auroc,
    brier,
    decision_curve,
    log_loss,
    observed_expected,
    ratio_intervals,
)
from propcal.auditing.statistics.rate_intervals import exact_interval, wilson_interval
from propcal.auditing.statistics.sample import Sample
from propcal.core.draws import Draws
from propcal.core.groups import GroupSize
from propcal.core.logistic import expit, fit_logistic, log_odds, spline_basis
from propcal.reading.rows import rows_to_atoms

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import statsmodels.api as sm


def people(n=3000, seed=0, ties=False):
    rng = np.random.default_rng(seed)
    score = rng.beta(1.5, 4, n)
    if ties:
        score = np.round(score, 2)
    y = (
        rng.random(n)
        < 1 / (1 + np.exp(-(0.3 + 0.8 * np.log((score + 1e-3) / (1 - score)))))
    ).astype(int)
    return score, y


def sample_of(score, y, weight=None):
    return Sample.of(rows_to_atoms(score, y, None, weight))


def glm(design, y, **kw):
    return sm.GLM(y, design, family=sm.families.Binomial(), **kw).fit(tol=1e-14)


@pytest.mark.parametrize("n", [400, 30_000])  # as atoms, and by way of cells
def test_intercept_slope_and_curve_are_those_of_statsmodels(n):
    score, y = people(n)
    sample, x = sample_of(score, y), log_odds(score)
    found = calibration(sample, Draws(0))
    shift = glm(np.ones((n, 1)), y, offset=x)
    assert found.intercept.value == pytest.approx(shift.params[0], abs=1e-6)
    line = glm(sm.add_constant(x), y)
    assert found.slope.value == pytest.approx(line.params[1], abs=1e-6)
    spread = (
        sm.GLM(y, sm.add_constant(x), family=sm.families.Binomial())
        .fit(cov_type="HC0")
        .bse[1]
    )
    reach = t.ppf(0.975, min(y.sum(), n - y.sum())) * spread * np.sqrt(n / (n - 2))
    assert (found.slope.high - found.slope.low) / 2 == pytest.approx(reach, rel=1e-4)


@pytest.mark.parametrize("n", [120, 400, 30_000])  # three, four and five knots
def test_distances_are_those_of_a_spline_fitted_by_statsmodels(n):
    score, y = people(n)
    sample, x = sample_of(score, y), log_odds(score)
    found = calibration(sample, Draws(0))
    events = min(y.sum(), n - y.sum())
    at = (0.05, 0.275, 0.5, 0.725, 0.95) if events >= 100 else (0.05, 0.35, 0.65, 0.95)
    at = at if events >= 50 else (0.1, 0.5, 0.9)
    cells = sample.cells
    order = np.argsort(cells.x)
    reached = np.cumsum(cells.weight[order]) / cells.total
    knots = cells.x[order][np.searchsorted(reached, np.array(at) * (1 - 1e-12))]
    fitted = glm(spline_basis(x, knots), y).fittedvalues
    distance = np.sort(np.abs(fitted - score))
    assert found.ici.value == pytest.approx(distance.mean(), abs=1e-6)
    assert found.e50.value == pytest.approx(
        distance[int(np.ceil(0.5 * n)) - 1], abs=1e-6
    )
    assert found.e90.value == pytest.approx(
        distance[int(np.ceil(0.9 * n)) - 1], abs=1e-6
    )
    assert found.emax.value == pytest.approx(distance.max(), abs=1e-6)


def test_brier_log_loss_and_auroc_are_those_of_scikit_learn():
    score, y = people(ties=True)
    sample = sample_of(score, y)
    assert brier(sample).value == pytest.approx(sk.brier_score_loss(y, score), abs=1e-9)
    assert log_loss(sample).value == pytest.approx(sk.log_loss(y, score), abs=1e-9)
    assert auroc(sample).value == pytest.approx(sk.roc_auc_score(y, score), abs=1e-9)


def delong_error(score, y):
    """DeLong's standard error, pair by pair."""
    one, zero = score[y == 1], score[y == 0]
    wins = (one[:, None] > zero[None, :]) + 0.5 * (one[:, None] == zero[None, :])
    return np.sqrt(
        wins.mean(axis=1).var(ddof=1) / len(one)
        + wins.mean(axis=0).var(ddof=1) / len(zero)
    )


def test_narrow_cells_of_very_many_scores_change_next_to_nothing(monkeypatch):
    rng = np.random.default_rng(0)
    score = rng.beta(1.5, 4, 60_000)
    sample = Sample.of(
        rows_to_atoms(score, (rng.random(60_000) < score**1.2).astype(int), None)
    )
    size = GroupSize(profile.EVERYBODY, 60_000, 1.0)
    found = []
    for most in (200_000, 1000):
        monkeypatch.setattr("propcal.auditing.statistics.sample.MOST_SCORES", most)
        made = profile.profile_of(size, sample, "", 30, (), Draws(0))
        found.append(np.array([made.measures[name] for name in profile.MEASURES]))
    assert np.abs(found[0] - found[1]).max() < 5e-5
    assert (found[0] != found[1]).any()


def test_distances_of_equal_weights_need_no_sorting():
    rng = np.random.default_rng(3)
    for n in (1, 2, 9, 10, 11, 1000):
        distance = rng.random(n)
        weight = np.full(n, 2.5)
        uneven = np.concatenate([weight, weight / 3])  # these are sorted
        doubled = weighted_distances(np.concatenate([distance, distance]), uneven)
        assert weighted_distances(distance, weight) == pytest.approx(doubled)
        assert weighted_distances(distance, weight)[3] == distance.max()


def test_the_interval_of_auroc_is_delongs():
    score, y = people(700, ties=True)
    found = auroc(sample_of(score, y))
    error = delong_error(score, y) / (found.value * (1 - found.value))
    reach = (
        np.log(found.high / (1 - found.high)) - np.log(found.low / (1 - found.low))
    ) / 2
    assert reach == pytest.approx(1.959964 * error, rel=1e-6)


def test_observed_expected_by_hand():
    found = observed_expected(
        sample_of([0.5] * 4 + [0.25] * 4, [1, 1, 1, 1, 1, 1, 0, 0])
    )
    assert found.value == 2.0  # six where three were expected
    assert found.low < 2 < found.high
    nobody, everyone = (
        observed_expected(sample_of([0.1] * 40, [y] * 40)) for y in (0, 1)
    )
    assert (nobody.value, nobody.low) == (0, 0)
    assert nobody.high == pytest.approx(
        2.9957 / 4, abs=1e-4
    )  # under 3.0 events, none has a chance of 5 %
    assert (everyone.low, everyone.high) == pytest.approx(
        ((40 - 2.9957) / 4, 10), abs=1e-4
    )


def mid_p(rate, beyond, k, n, confidence):
    return beyond(rate) + binom.pmf(k, n, rate) / 2 - (1 - confidence) / 2


@pytest.mark.parametrize("confidence", [0.8, 0.95, 0.999])
@pytest.mark.parametrize(
    ("k", "n"), [(3, 1000), (20, 1000), (50, 100), (90, 100), (700, 10_000)]
)
def test_the_interval_of_a_ratio_is_that_of_a_binomial_rate_if_scores_are_equal(
    k, n, confidence
):
    beyond = (lambda rate: binom.sf(k, n, rate), lambda rate: binom.cdf(k - 1, n, rate))
    exact = (
        np.array(
            [
                brentq(mid_p, 1e-9, 1 - 1e-9, args=(one, k, n, confidence))
                for one in beyond
            ]
        )
        / 0.1
    )
    found = ratio_intervals(
        sample_of(np.full(n, 0.1), [1] * k + [0] * (n - k)), confidence
    )[0]
    assert found == pytest.approx(exact, abs=0.03 * np.ptp(exact))


def test_test_and_interval_agree():
    """At the level of the p-value, one limit of the ratio is about 1."""
    rng = np.random.default_rng(0)
    compared = 0
    for n in (80, 300, 2000):
        for factor in (0.7, 0.8, 0.9, 1.1, 1.2, 1.3):
            score = rng.beta(1.3, 4, n)
            sample = sample_of(score, rng.random(n) < factor * score)
            p = events_p_value(sample)[1]
            if 1e-6 < p < 0.3:
                compared += 1
                low, high = np.log(ratio_intervals(sample, 1 - p)[0])
                assert min(abs(low), abs(high)) < 0.05 * (high - low)
    assert compared >= 8


def test_intervals_of_ratios_with_clusters_and_weights():
    score, y = people(2000)
    once = ratio_intervals(sample_of(score, y), 0.95)[0]
    four = Sample.of(
        rows_to_atoms(
            np.repeat(score, 4), np.repeat(y, 4), cluster=np.repeat(np.arange(2000), 4)
        )
    )
    assert ratio_intervals(four, 0.95)[0] == pytest.approx(
        once, rel=0.02
    )  # four rows of each are no more people
    few = Sample.of(rows_to_atoms(score, y, cluster=np.arange(2000) % 5))
    assert np.isnan(ratio_intervals(few, 0.95)).all()
    heavy = np.exp(np.random.default_rng(1).normal(0, 1, 2000))
    uneven = ratio_intervals(sample_of(score, y, heavy), 0.95)[0]
    assert np.log(uneven[1] / uneven[0]) > 1.2 * np.log(once[1] / once[0])


def test_weight_two_is_the_row_twice_in_every_measure():
    score, y = people(300)
    weight = np.random.default_rng(1).integers(1, 4, 300).astype(float)
    twice = sample_of(
        np.repeat(score, weight.astype(int)), np.repeat(y, weight.astype(int))
    )
    once = sample_of(score, y, weight)
    for measure in (observed_expected, brier, log_loss, auroc):
        assert measure(once) == pytest.approx(measure(twice), rel=1e-12)


def test_survey_weights_of_one_size_change_nothing():
    score, y = people(300)
    plain, heavy = sample_of(score, y), sample_of(score, y, np.full(300, 2.5))
    for measure in (observed_expected, brier, log_loss, auroc):
        assert measure(heavy) == pytest.approx(measure(plain), rel=1e-9)


def decisions_of(sample):
    return decision_curve(sample)[0]


def test_net_benefit_by_hand():
    found = decisions_of(sample_of([0.1, 0.3, 0.5, 0.7], [0, 0, 1, 1]))
    place = list(found["threshold"]).index(0.25)
    assert found["net_benefit"][place] == pytest.approx(2 / 4 - 1 / 4 * (0.25 / 0.75))
    assert found["treat_all"][place] == pytest.approx(2 / 4 - 2 / 4 * (0.25 / 0.75))
    assert found["sensitivity"][place] == 1
    assert found["specificity"][place] == 0.5
    assert found["treated"][place] == 0.75


def test_the_interval_of_net_benefit_is_that_of_a_mean():
    score, y = people(500)
    found = decisions_of(sample_of(score, y))
    for place in (4, 29, 60):
        t = found["threshold"][place]
        each = np.where(score >= t, np.where(y == 1, 1, -t / (1 - t)), 0)
        assert found["net_benefit"][place] == pytest.approx(each.mean())
        reach = (found["high"][place] - found["low"][place]) / 2
        assert reach == pytest.approx(1.959964 * each.std() / np.sqrt(500), rel=1e-6)


def test_the_distribution_counts_everybody_once():
    _, found = decision_curve(sample_of([0.0, 0.05, 0.049, 0.99, 1.0], [0, 0, 1, 1, 1]))
    assert found["people"].sum() == 5
    assert found["people"][0] == 2
    assert found["people"][1] == 1
    assert found["positives"][-1] == 2


@pytest.mark.parametrize(("k", "n"), [(0, 10), (3, 17), (17, 17), (40, 200)])
def test_intervals_of_a_rate_are_scipys(k, n):
    rate, size = np.array([k / n]), np.array([float(n)])
    exact = binomtest(k, n).proportion_ci(0.98, method="exact")
    assert exact_interval(rate, size, 0.02) == pytest.approx(
        (exact.low, exact.high), abs=1e-9
    )
    wilson = binomtest(k, n).proportion_ci(0.95, method="wilson")
    assert wilson_interval(rate, size, 1.959963985) == pytest.approx(
        (wilson.low, wilson.high), abs=1e-9
    )


def exact_two_sided(chance, observed):
    """Twice the smaller tail of a sum of unequal coin tosses, half of the point itself
    counted.
    """
    mass = np.array([1.0])
    for p in chance:
        mass = np.convolve(mass, [1 - p, p])
    upper = mass[observed + 1 :].sum() + mass[observed] / 2
    return min(1.0, 2 * min(upper, 1 - upper))


@settings(deadline=None, max_examples=60)
@given(
    st.integers(20, 80),
    st.integers(0, 10_000),
    st.floats(0.02, 0.9),
    st.floats(0.1, 0.9),
)
def test_p_values_of_small_groups_are_exact(n, seed, mean, where):
    rng = np.random.default_rng(seed)
    chance = np.clip(rng.beta(5 * mean, 5 * (1 - mean), n), 0.005, 0.995)
    observed = round(
        chance.sum() + (where - 0.5) * 6 * np.sqrt(np.sum(chance * (1 - chance)))
    )
    observed = min(max(observed, 1), n - 1)
    cells = ScoreCells(
        np.zeros(n, int), np.zeros(n, int), np.ones(n), np.ones(n), chance
    )
    _, p = group_p_value(cells, np.ones(n, bool), observed)
    exact = exact_two_sided(chance, observed)
    assert p == pytest.approx(exact, rel=1e-6, abs=1e-9)


def test_p_values_far_out_are_small_on_both_sides():
    chance = np.full(4000, 0.3)
    cells = ScoreCells(
        np.zeros(4000, int), np.zeros(4000, int), np.ones(4000), np.ones(4000), chance
    )
    for observed in (700, 1700):
        assert 1e-120 < group_p_value(cells, np.ones(4000, bool), observed)[1] < 1e-40


@pytest.mark.parametrize("excess", [-90, -40, 0, 25, 60, 110])
def test_p_values_of_large_groups_are_close_to_the_exact_ones(excess):
    chance = np.random.default_rng(3).beta(2, 5, 4000)
    observed = int(chance.sum()) + excess
    cells = ScoreCells(
        np.zeros(4000, int), np.zeros(4000, int), np.ones(4000), np.ones(4000), chance
    )
    _, p = group_p_value(cells, np.ones(4000, bool), observed)
    assert p == pytest.approx(exact_two_sided(chance, observed), rel=0.02)


def test_p_values_where_nobody_or_everybody_had_the_outcome():
    cells = ScoreCells(
        np.zeros(2, int),
        np.zeros(2, int),
        np.full(2, 20.0),
        np.ones(2),
        np.array([0.1, 0.2]),
    )
    assert group_p_value(cells, np.ones(2, bool), 0.0)[1] == pytest.approx(
        0.9**20 * 0.8**20
    )
    assert group_p_value(cells, np.ones(2, bool), 40.0)[1] < 1e-12
    certain = ScoreCells(
        np.zeros(1, int), np.zeros(1, int), np.full(1, 20.0), np.ones(1), np.zeros(1)
    )
    assert group_p_value(certain, np.ones(1, bool), 0.0)[1] == 1.0
    assert group_p_value(certain, np.ones(1, bool), 1.0)[1] == 0.0


def test_families_of_tests_share_the_error():
    assert holm(np.array([0.02])).tolist() == [0.02]
    families = {
        OVERALL: [("a", (3.0, 0.004)), ("b", (1.0, 0.3))],
        CELLS: [("c", (3.2, 0.03))],
    }
    first, second, largest = adjust(families)
    whole = SHARES[OVERALL] + SHARES[CELLS]
    assert first.adjusted_p == pytest.approx(
        2 * 0.004 * whole / SHARES[OVERALL] / SUM_OF_SHARES
    )
    assert second.adjusted_p == pytest.approx(
        0.3 * whole / SHARES[OVERALL] / SUM_OF_SHARES
    )
    assert largest.adjusted_p == pytest.approx(
        0.03 / SUM_OF_SHARES
    )  # the level of the first passes on
    assert (first.rejected, second.rejected, largest.rejected) == (True, False, True)
    assert [
        test.rejected
        for test in adjust(
            {OVERALL: [("a", (1.0, 0.045))], CELLS: [("c", (2.0, 0.03))]}
        )
    ] == [
        False,
        False,
    ]
    assert adjust({}) == []
    assert sum(SHARES.values()) == pytest.approx(SUM_OF_SHARES)


def test_few_people_keep_most_of_the_level_for_errors_of_everybody():
    few, between, many = (
        shares_for(sample_of([0.2] * n, [0] * n)) for n in (1_000, 2_500, 6_000)
    )
    assert few == SHARES_OF_FEW
    assert many == SHARES
    assert SHARES[OVERALL] < between[OVERALL] < SHARES_OF_FEW[OVERALL]
    for shares in (few, between, many):
        assert sum(shares.values()) == pytest.approx(SUM_OF_SHARES)
    tests = {family: [("b", (0.0, 0.9))] for family in SHARES} | {
        OVERALL: [("a", (2.5, 0.012)), ("c", (0.0, 0.9))]
    }
    assert adjust(tests, few)[0].rejected
    assert not adjust(tests, many)[0].rejected


def test_data_that_separate_have_no_slope():
    sample = sample_of([0.1, 0.2, 0.3, 0.7, 0.8, 0.9] * 10, [0, 0, 0, 1, 1, 1] * 10)
    found = calibration(sample, Draws(0))
    assert np.isnan(found.slope.value)
    assert np.isnan(found.ici.value)
    assert np.isfinite(found.intercept.value)
    assert (
        fit_logistic(np.ones((2, 2)), np.zeros(2), np.ones(2), np.array([0.5, 0.5]))
        is None
    )


def test_one_score_for_everybody_has_a_curve_of_one_point():
    sample = sample_of([0.3] * 100, [1] * 50 + [0] * 50)
    found = calibration(sample, Draws(0))
    assert found.ici.value == pytest.approx(0.2)
    assert found.curve.shape == (1, 4)
    assert np.isnan(found.slope.value)


def test_one_class_only_has_no_calibration_measures():
    found = calibration(sample_of(np.linspace(0.1, 0.9, 50), np.ones(50)), Draws(0))
    assert np.isnan(found.intercept.value)
    assert found.curve is None
    assert np.isnan(auroc(sample_of(np.linspace(0.1, 0.9, 50), np.ones(50))).value)


def test_scores_of_exactly_0_and_1_are_points_and_no_hook():
    rng = np.random.default_rng(4)
    score = rng.beta(2, 5, 6000)
    y = (rng.random(6000) < score).astype(int)
    plain = calibration(sample_of(score, y), Draws(0)).curve
    certain = np.concatenate([np.zeros(400), np.ones(300)])
    outcome = np.concatenate([np.arange(400) < 20, np.arange(300) < 240]).astype(int)
    found = calibration(
        sample_of(np.concatenate([score, certain]), np.concatenate([y, outcome])),
        np.random.default_rng(0),
    ).curve
    assert found[0, :2].tolist() == [0.0, 0.05]
    assert found[-1, :2].tolist() == [1.0, 0.8]
    assert found[0, 2] < 0.05 < found[0, 3]
    np.testing.assert_allclose(found[1:-1], plain)  # the line is that of all others


def test_slopes_under_survey_weights_cover():
    """Few people carry much of the weight: 500 are worth about 270."""
    covered, n = [], 500
    for seed in range(400):
        rng = np.random.default_rng(seed)
        score = expit(rng.normal(-1, 1, n))
        y, weight = (rng.random(n) < score).astype(float), np.exp(rng.normal(0, 0.8, n))
        sample = Sample.of(rows_to_atoms(score, y, sample_weight=weight))
        slope = calibration(sample, Draws(0)).slope
        covered.append(slope.low <= 1 <= slope.high)
    assert 0.925 <= np.mean(covered) <= 0.975

"""P-values of few people, and how they are adjusted, worked out by hand."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom, chi2, norm, t
from small_samples import sample_of

from propcal.auditing.statistics.chance import ScoreCells
from propcal.auditing.statistics.hypothesis_tests import (
    DIFFERENCES,
    GROUP_SLOPES,
    SITE_DIFFERENCES,
    _only_0_and_1,
    _quadratic,
    adjust,
    clustered_p_value,
    events_p_value,
    group_p_value,
    holm,
    shares_for,
    slope_test,
)
from propcal.auditing.statistics.sample import Sample
from propcal.core.fit.log_odds_cells import TYPICAL


def cells_of(weight, typical, score):
    nowhere = np.zeros(len(score), dtype=np.int64)
    columns = (np.array(column, float) for column in (weight, typical, score))
    return ScoreCells(nowhere, nowhere, *columns)


def p_value(weight, typical, score, observed, **options):
    cells = cells_of(weight, typical, score)
    return group_p_value(cells, np.ones(len(score), bool), observed, **options)


def mid_p(observed, n, risk):
    """Twice the smaller tail, with half of the point itself."""
    above = binom.sf(observed, n, risk) + binom.pmf(observed, n, risk) / 2
    return 2 * min(above, 1 - above)


@pytest.mark.parametrize("observed", [0, 1, 3, 5, 9, 10])
def test_few_people_have_exact_p_values(observed):
    z, p = p_value([10], [1], [0.3], observed)
    assert z == pytest.approx((observed - 3) / np.sqrt(2.1))
    assert p == pytest.approx(mid_p(observed, 10, 0.3))


@pytest.mark.parametrize("observed", [0, 8])
def test_all_or_nobody_of_four_heavy_people(observed):
    """Four people of weight 2 at 1/2: all have the outcome with a chance of 1/16."""
    z, p = p_value([8], [2], [0.5], observed)
    assert z == (observed - 4) / 2
    assert p == pytest.approx(1 / 16)


def test_all_of_different_people():
    """Two heavy people at 0.2 and one at 0.4."""
    _, p = p_value([4, 2], [2, 2], [0.2, 0.4], 6)
    assert p == pytest.approx(0.2**2 * 0.4)


def test_many_people_have_nearly_exact_p_values():
    """The variance is 30, above the limit of 25."""
    for observed in (105, 120, 140, 160):
        z, p = p_value([400], [1], [0.3], observed)
        assert z == pytest.approx((observed - 120) / np.sqrt(84))
        assert p == pytest.approx(mid_p(observed, 400, 0.3), rel=0.02)


def test_as_many_events_as_expected_have_a_p_value_of_one():
    assert p_value([400], [1], [0.3], 120) == pytest.approx((0, 1))
    assert p_value([8], [2], [0.5], 4) == (0, 1)


def test_less_than_a_standard_error_may_have_a_normal_p_value():
    z, p = p_value([10], [1], [0.3], 4, exact=False)
    assert p == pytest.approx(2 * norm.sf(abs(z)))
    z, p = p_value([10], [1], [0.3], 5, exact=False)
    assert z > 1
    assert p == pytest.approx(mid_p(5, 10, 0.3))


def test_a_score_of_0_or_1_leaves_nothing_to_chance():
    """Of two people at 1 and two at 0, two events are certain."""
    z, p = p_value([10, 2, 2], [1, 1, 1], [0.3, 1.0, 0.0], 7)
    assert z == pytest.approx((5 - 3) / np.sqrt(2.1))
    assert p == pytest.approx(mid_p(5, 10, 0.3))
    assert p_value([10, 2], [1, 1], [0.3, 1.0], 1) == (-np.inf, 0)
    assert p_value([10, 2], [1, 1], [0.3, 0.0], 11) == (np.inf, 0)
    assert p_value([5], [1], [0.0], 0) == (0, 1)


def test_a_design_effect_makes_the_tosses_fewer_and_heavier():
    """Of 16 people with an effect of 4, four heavy ones count."""
    z, p = p_value([16], [1], [0.5], 16, effect=4.0)
    assert z == pytest.approx(8 / np.sqrt(16))
    assert p == pytest.approx(1 / 16)
    assert p_value([16], [1], [0.5], 16, effect=1.0) == p_value([16], [1], [0.5], 16)


def test_an_alert_is_one_whose_scores_are_all_0_or_1_and_both():
    assert _only_0_and_1(np.array([0.0, 1.0]))
    for other in ([0.0, 0.0], [1.0], [0.0, 0.5, 1.0], []):
        assert not _only_0_and_1(np.array(other))


def test_an_alert_with_its_expected_events_is_not_wrong():
    assert p_value([10, 10], [1, 1], [0.0, 1.0], 10) == (0, 1)
    z, p = p_value([30, 10], [2, 2], [0.0, 1.0], 20)
    assert z == pytest.approx(10 / np.sqrt(20 * 0.5 * 2))
    assert p == pytest.approx(2 * norm.sf(z))
    # everybody has the outcome: nothing varies
    assert p_value([30, 10], [1, 1], [0.0, 1.0], 40) == (np.inf, 0)


def visits(score, n_alike, n_patients, n_events):
    """Patients with two visits each, of whom the first have both events or none."""
    alike = [(score, 2, 2)] * (n_alike // 2) + [(score, 2, 0)] * (n_alike // 2)
    others = [(score, 2, 1)] * n_events
    rest = n_patients - len(alike) - len(others)
    return sample_of(
        *alike, *others, *[(score, 2, 0)] * rest, cluster=range(n_patients)
    )


def expected_p(sample, effect):
    """Of a normal number of tosses of the same size, with Student's t."""
    cells = cells_of(sample.weight, np.ones(len(sample.weight)), sample.score)
    inside = np.ones(len(sample.weight), bool)
    z, p = group_p_value(cells, inside, sample.observed, effect=effect)
    return z, 2 * t.sf(norm.isf(p / 2), sample.n_clusters - 1)


@pytest.mark.parametrize(
    ("score", "n_patients", "own"),
    [
        (0.125, 80, True),  # 20 expected events
        (0.875, 80, True),  # 20 expected non-events
        (0.124, 80, False),
        (0.876, 80, False),
        (0.4, 50, True),
        (0.4, 49, False),
    ],
)
def test_few_events_or_patients_have_at_least_the_design_effect_of_everybody(
    score, n_patients, own
):
    sample = visits(score, 10, n_patients, 20)
    everybody = sample_of(*[(0.3, 2, 2)] * 10, *[(0.3, 2, 0)] * 10, cluster=range(20))
    assert everybody.repeat_effect > sample.repeat_effect > 1
    inside = np.ones(n_patients, bool)
    cells = cells_of(sample.weight, np.ones(n_patients), sample.score)
    found = clustered_p_value(cells, inside, sample, everybody)
    effect = sample.repeat_effect if own else everybody.repeat_effect
    assert found == pytest.approx(expected_p(sample, effect))


def test_fewer_than_ten_patients_have_no_p_value():
    sample = visits(0.4, 4, 9, 2)
    assert np.isnan(events_p_value(sample)).all()
    ten = visits(0.4, 4, 10, 2)
    assert events_p_value(ten) == pytest.approx(expected_p(ten, ten.repeat_effect))


def test_weights_make_the_events_of_a_sample_heavier():
    light = events_p_value(sample_of((0.3, 10, 6)))
    assert light == pytest.approx(p_value([10], [1], [0.3], 6))
    heavy = events_p_value(sample_of((0.3, 10, 6), weight=2.0))
    assert heavy == pytest.approx(p_value([20], [2], [0.3], 12))


def test_the_slope_test_of_repeat_visits_has_students_t():
    """Visits that are alike make it as many times less certain as the events are."""
    cells = [(0.2, 2, 2), (0.2, 2, 0), (0.6, 2, 2), (0.6, 2, 0), (0.2, 2, 0)] * 4
    clustered = sample_of(*cells, cluster=range(20))
    z, p = slope_test(clustered)
    rows = replace(clustered, cluster=None)
    z_of_rows, p_of_rows = slope_test(rows)
    assert p == pytest.approx(2 * t.sf(abs(z), 19))
    assert p_of_rows == pytest.approx(2 * norm.sf(abs(z_of_rows)))
    # sums of two visits vary about twice as much as single ones
    assert (z_of_rows / z) ** 2 == pytest.approx(2, rel=0.05)


def test_a_slope_needs_events_patients_and_scores_between_0_and_1():
    assert np.isnan(slope_test(sample_of((0.2, 10, 0), (0.6, 10, 0)))).all()
    assert np.isnan(slope_test(sample_of((0.2, 10, 10), (0.6, 10, 10)))).all()
    assert np.isnan(slope_test(sample_of((0.0, 10, 1), (1.0, 10, 9)))).all()
    few = sample_of(*[(0.2, 2, 1), (0.6, 2, 1), (0.4, 2, 0)] * 3, cluster=range(9))
    assert np.isnan(slope_test(few)).all()
    one_event = slope_test(sample_of((0.2, 10, 1), (0.6, 10, 0)))
    assert np.isfinite(one_event).all()
    assert slope_test(sample_of((0.3, 20, 5))) == (0, 1)


def spread_sample(variance):
    """People at 1/2, whose number of events has this variance."""
    return sample_of((0.5, 4 * variance, 2 * variance))


@pytest.mark.parametrize(
    ("variance", "overall", "groups"),
    [(240, 0.56, 0.14), (100, 0.56, 0.14), (800, 0.26, 0.34), (5000, 0.26, 0.34)],
)
def test_few_people_keep_most_of_the_level_for_errors_of_everybody(
    variance, overall, groups
):
    shares = shares_for(spread_sample(variance))
    assert shares["overall"] == pytest.approx(overall)
    assert shares["groups"] == pytest.approx(groups)
    assert sum(shares.values()) == pytest.approx(0.8)


def test_between_few_and_many_people_shares_change_with_the_logarithm():
    between = round(np.sqrt(240 * 800))
    shares = shares_for(spread_sample(between))
    assert shares["overall"] == pytest.approx((0.56 + 0.26) / 2, abs=1e-3)
    # weights do not make them more
    heavy = replace(
        spread_sample(240), weight=np.array([9600.0]), weight_sq=np.array([96_000.0])
    )
    assert isinstance(heavy, Sample)
    assert shares_for(heavy)["overall"] == pytest.approx(0.56)


def test_holm_multiplies_the_smallest_by_their_number():
    assert holm(np.array([0.4, 0.01, 0.02])).tolist() == [0.4, 0.03, 0.04]
    assert holm(np.array([0.6, 0.7])).tolist() == [1.0, 1.0]


def test_each_family_has_its_share_of_the_level():
    """The family whose p-value is smallest in relation to its share comes first; then
    the other one has all of the 4 %.
    """
    families = {"overall": [("a", (1.0, 0.01))], "groups": [("b", (2.0, 0.002))]}
    shares = {"overall": 0.5, "groups": 0.3, "shape": 0.2}
    of_overall, of_groups = adjust(families, shares)
    assert of_groups.adjusted_p == pytest.approx(0.002 * 0.8 / 0.3 / 0.8)
    assert of_overall.adjusted_p == pytest.approx(0.01 / 0.8)
    assert (of_overall.test, of_overall.statistic, of_overall.p_value) == ("a", 1, 0.01)
    assert of_overall.rejected
    assert of_groups.rejected


def test_an_adjusted_p_value_is_never_below_that_of_an_earlier_family():
    families = {"overall": [("a", (0.0, 0.09))], "groups": [("b", (0.0, 0.05))]}
    found = adjust(families, {"overall": 0.6, "groups": 0.2})
    # 0.09 / 0.6 comes first: 0.09 * 0.8 / 0.6 / 0.8; then 0.05 / 0.8 is raised to it
    assert [one.adjusted_p for one in found] == pytest.approx([0.15, 0.15])
    assert not any(one.rejected for one in found)


@pytest.mark.parametrize(
    ("name", "level"),
    [(DIFFERENCES, 0.0075), (GROUP_SLOPES, 0.0075), (SITE_DIFFERENCES, 0.03)],
)
def test_approximate_p_values_have_a_level_of_their_own(name, level):
    """However much of the level is left to them."""
    for factor, rejected in ((0.99, True), (1.01, False)):
        (found,) = adjust({"shape": [(name, (0.0, factor * level))]}, {"shape": 0.8})
        assert found.adjusted_p == pytest.approx(0.05 * factor)
        assert found.rejected == rejected


def test_an_adjusted_p_value_of_5_percent_rejects():
    (found,) = adjust({"groups": [("a", (0.0, 0.04))]}, {"groups": 0.5})
    assert found.adjusted_p == pytest.approx(0.05)
    (found,) = adjust({"groups": [("a", (0.0, 0.9))]}, {"groups": 0.5})
    assert found.adjusted_p == 1


def gain_of(gradient, information, tested):
    tested = np.array(tested)
    return _quadratic(np.array(gradient), np.array(information), tested, ~tested)


def test_the_gain_of_one_effect_is_its_squared_score():
    """In units of its variance, chi-squared with one degree of freedom."""
    found = gain_of([3.0, 5.0], [[4.0, 0.0], [0.0, 2.0]], [True, False])
    assert found == pytest.approx((9 / 4, chi2.sf(9 / 4, 1)))


def test_what_the_effects_taken_out_explain_does_not_count():
    """The score 3 - 2 / 4 * 1, of variance 5 - 2 * 2 / 4."""
    found = gain_of([3.0, 1.0], [[5.0, 2.0], [2.0, 4.0]], [True, False])
    assert found == pytest.approx((2.5**2 / 4, chi2.sf(2.5**2 / 4, 1)))


def test_the_gain_of_two_alike_effects_has_two_degrees_of_freedom():
    found = gain_of([3.0, -1.0], np.eye(2) * 4.0, [True, True])
    assert found == pytest.approx((10 / 4 / 2, chi2.sf(10 / 4, 2)))


def test_the_gain_of_unlike_effects_has_the_three_moments_of_its_distribution():
    """A sum of chi-squared numbers with weights v / (v + 1 / TYPICAL)."""
    variance = np.array([1.0, 9.0])
    scale = 1 / (variance + 1 / TYPICAL)
    moments = [np.sum((variance * scale) ** k) for k in (1, 2, 3)]
    gain = 4 * scale[0] + 36 * scale[1]
    freedom = moments[1] ** 3 / moments[2] ** 2
    z = (gain - moments[0]) / np.sqrt(2 * moments[1])
    expected = chi2.sf(freedom + z * np.sqrt(2 * freedom), freedom)
    found = gain_of([2.0, 6.0], np.diag(variance), [True, True])
    assert found == pytest.approx((gain / moments[0], expected))


def test_effects_that_nobody_shows_are_no_error():
    assert gain_of([0.0, 1.0], np.diag([0.0, 4.0]), [True, False]) == (0, 1)

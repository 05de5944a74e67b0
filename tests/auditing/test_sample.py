"""Sums, errors and design effects of a few people, worked out by hand."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm, t
from small_samples import sample_of

from propcal.auditing.statistics.sample import Sample, filled_clusters
from propcal.core.logistic import log_odds
from propcal.reading.rows import rows_to_atoms

# ten patients with two visits: two have the outcome at both, and eight at none
PAIRS = [(2, 2)] * 2 + [(2, 0)] * 8


def pairs_at(score, n=10):
    """The first patients of `PAIRS`."""
    cells = [(score, *cell) for cell in PAIRS[:n]]
    return sample_of(*cells, cluster=range(n))


def test_sums_of_three_cells():
    sample = sample_of((0.1, 10, 2), (0.5, 4, 1), (0.9, 6, 6), weight=2.0)
    assert (sample.n_people, sample.total, sample.observed) == (20, 40, 18)
    assert sample.expected == pytest.approx(2 * (1 + 2 + 5.4))
    assert sample.negatives.tolist() == [16, 6, 0]
    assert sample.negatives_sq.tolist() == [32, 12, 0]
    # one for each with the outcome, and 3 for each without it
    assert sample.mean(1.0, 3.0) == pytest.approx((9 + 3 * 11) / 20)
    assert sample.effective == 20


def test_unequal_weights_are_worth_fewer_people():
    """Ten people of weight 1 and ten of weight 3: 40² / (10 + 90)."""
    one = np.ones(2)
    sums = {"weight": np.array([10.0, 30.0]), "weight_sq": np.array([10.0, 90.0])}
    sample = Sample(
        0.5 * one,
        np.array([10, 10]),
        **sums,
        positives=one,
        positives_sq=one,
        cluster=None,
    )
    assert sample.effective == 16
    fewer = replace(sample, people=np.array([5, 6]))
    assert fewer.effective == 11


def test_people_without_weight_are_worth_nobody():
    nobody = sample_of((0.5, 3, 1), weight=0.0)
    assert nobody.effective == 0
    assert nobody.variance_ratio == 1


def test_influences_of_independent_people_are_added_as_squares():
    sample = sample_of((0.1, 10, 2), (0.5, 4, 1), weight=3.0)
    if_positive = np.array([[1.0, 2.0], [3.0, -1.0]])
    if_negative = np.array([[0.0, 1.0], [1.0, 1.0]])
    # squares and products: 2 and 1 people with the outcome, 8 and 3 without it
    first = 2 * 1 + 1 * 9 + 8 * 0 + 3 * 1
    product = 2 * 2 - 1 * 3 + 8 * 0 + 3 * 1
    second = 2 * 4 + 1 * 1 + 8 * 1 + 3 * 1
    expected = 9 * np.array([[first, product], [product, second]])
    np.testing.assert_allclose(sample.covariance(if_positive, if_negative), expected)
    error = sample.error(if_positive[:, 0], if_negative[:, 0])
    assert error == pytest.approx(3 * np.sqrt(first))


def test_influences_of_repeat_visits_are_added_by_patient():
    """Sums are 2 * 0.8 for two patients and -2 * 0.2 for eight."""
    sample = pairs_at(0.2)
    variance = (2 * 1.6**2 + 8 * 0.4**2) * 10 / 9
    assert sample.error(1 - sample.score, -sample.score) ** 2 == pytest.approx(variance)
    # a constant added to all does not change the spread of patients with two visits
    shifted = sample.error(1.5 - sample.score, 0.5 - sample.score)
    assert shifted**2 == pytest.approx(variance)


def test_fewer_than_ten_patients_say_too_little():
    assert np.isnan(pairs_at(0.2, 9).error(np.ones(9), np.zeros(9)))
    assert pairs_at(0.2, 9).n_clusters == 9
    assert not np.isnan(pairs_at(0.2, 10).error(np.ones(10), np.zeros(10)))
    assert sample_of((0.2, 9, 3)).n_clusters == 0


@pytest.mark.parametrize("score", [0.2, 0.02, 0.7])
def test_the_design_effect_is_that_of_a_score_scaled_to_the_events(score):
    """4 of 20 visits: the residuals are 0.8 and -0.2 whatever the score expects."""
    independent = 4 * 0.8**2 + 16 * 0.2**2
    clustered = (2 * 1.6**2 + 8 * 0.4**2) * 10 / 9
    assert pairs_at(score).repeat_effect == pytest.approx(clustered / independent)


def test_the_design_effect_of_a_score_of_0_is_that_of_the_events():
    clustered = (2 * 1.6**2 + 8 * 0.4**2) * 10 / 9
    assert pairs_at(0.0).repeat_effect == pytest.approx(clustered / 4)


def test_a_design_effect_is_at_least_1():
    opposite = sample_of(*[(0.5, 2, 1)] * 10, cluster=range(10))
    assert opposite.repeat_effect == 1
    assert sample_of((0.5, 20, 5)).repeat_effect == 1
    nothing = sample_of(*[(0.0, 2, 0)] * 10, cluster=range(10))
    assert nothing.repeat_effect == 1


def test_the_variance_of_the_events_in_variances_of_independent_people():
    assert sample_of((0.2, 20, 4)).variance_ratio == pytest.approx(1)
    assert sample_of((0.2, 20, 4), weight=3.0).variance_ratio == pytest.approx(1)
    independent = 4 * 0.8**2 + 16 * 0.2**2
    clustered = (2 * 1.6**2 + 8 * 0.4**2) * 10 / 9
    expected = clustered / independent
    assert pairs_at(0.2).variance_ratio == pytest.approx(expected)
    certain = sample_of((0.0, 5, 0), (1.0, 5, 5))
    assert certain.variance_ratio == 1


def test_intervals_reach_as_far_as_the_patients_allow():
    assert sample_of((0.5, 20, 5)).quantile == pytest.approx(norm.ppf(0.975))
    assert pairs_at(0.2).quantile == pytest.approx(t.ppf(0.975, 9))
    assert pairs_at(0.2).quantile_of(0.9) == pytest.approx(t.ppf(0.9, 9))
    assert pairs_at(0.2, 2).quantile_of(0.9) == pytest.approx(t.ppf(0.9, 1))
    assert pairs_at(0.2, 1).quantile_of(0.9) == pytest.approx(t.ppf(0.9, 1))
    assert np.isnan(replace(sample_of((0.5, 20, 5)), soft=True).quantile)


def test_scores_that_hardly_differ_share_a_cell_at_their_mean():
    """Log-odds of 0 to 1/256 are one cell; its place is the weighted mean."""
    x = np.array([0.001, 0.002, 0.003, 0.0045])
    score = 1 / (1 + np.exp(-x))
    sample = sample_of(*zip(score, [1, 2, 1, 4], [0, 1, 1, 2]))
    cells = sample.cells
    assert cells.people.tolist() == [4, 4]
    assert cells.positives.tolist() == [2, 2]
    assert log_odds(cells.score) == pytest.approx([0.002, 0.0045])


def test_scores_that_are_further_apart_than_cells_keep_their_places():
    x = np.array([0.001, 0.002, 0.0125])  # the first and the fourth cell
    sample = sample_of(*zip(1 / (1 + np.exp(-x)), [1] * 3, [0] * 3))
    assert sample.cells is sample
    more = sample_of(*zip(1 / (1 + np.exp(-np.r_[x, 0.003])), [1] * 4, [0] * 4))
    assert len(more.cells.score) == 2
    assert pairs_at(0.2).cells.n_clusters == 10


def test_scores_of_0_and_1_are_a_millionth_from_the_end():
    x = sample_of((0.0, 1, 0), (0.5, 1, 0), (1.0, 1, 1)).x
    assert x == pytest.approx([-np.log(999_999), 0, np.log(999_999)])


def test_some_people_keep_their_patients():
    chosen = pairs_at(0.2).where(np.arange(10) < 3)
    assert (chosen.n_people, chosen.observed, chosen.n_clusters) == (6, 4, 3)


def test_patients_fill_the_parts_that_they_visit():
    """Twelve patients with two visits each; those of ward b have one visit in each
    part.
    """
    person = np.repeat(np.arange(12), 2)
    ward = np.where(person < 8, "a", "b")
    part = np.where((ward == "a") | (np.arange(24) % 2 == 0), 0, 1)
    atoms = rows_to_atoms(
        np.where(part == 0, 0.2, 0.8), np.zeros(24), {"ward": ward}, cluster=person
    )
    patterns = atoms.patterns
    inside = np.ones((1, len(patterns)))
    place = (atoms.score > 2**31).astype(int)
    there = np.zeros((len(patterns), 2))
    np.add.at(there, (atoms.pattern_index(), place), atoms.people)
    filled = filled_clusters(atoms, inside, there)[0]
    assert filled[0] == Sample.of(atoms).n_clusters
    assert filled[1] == len(np.unique(Sample.of(atoms).cluster[place == 1]))

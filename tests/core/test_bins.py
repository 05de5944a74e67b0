"""Which bin a score is in."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracle
from propcal.core import bins
from propcal.core.grid import UNIT, to_grid
from propcal.errors import InputError


@given(st.integers(1, 500))
def test_uniform_edges_are_the_nearest_units(m):
    assert bins.uniform(m).edges.tolist() == oracle.uniform_edges(m)


@given(st.integers(1, 40), st.floats(0, 1))
def test_every_score_is_in_exactly_one_uniform_bin(m, score):
    units = int(to_grid(np.array([score]))[0])
    edges = oracle.uniform_edges(m)
    inside = [j for j in range(m) if oracle.in_bin(units, edges, j)]
    assert inside == [int(bins.uniform(m).index(np.array([units]))[0])]


def test_a_score_at_an_edge_belongs_to_the_bin_above_and_one_to_the_last():
    scores = to_grid(np.array([0.0, 0.1, 0.2, 0.3, 0.7, 0.9, 1.0]))
    assert bins.uniform(10).index(scores).tolist() == [0, 1, 2, 3, 7, 9, 9]
    assert bins.uniform(10).index(scores[1:-1] - 1).tolist() == [0, 1, 2, 6, 8]


def test_geometric_bins_have_equal_ratios_and_one_bin_below_rho():
    found = bins.geometric(4, 0.0001)
    assert len(found) == 5
    assert found.divisor == 4
    assert found.edges / UNIT == pytest.approx(
        [0, 0.0001, 0.001, 0.01, 0.1, 1], abs=1e-9
    )


def test_quantile_bins_have_equally_many_people():
    rng = np.random.default_rng(1)
    score = to_grid(rng.beta(1, 5, 1000))
    found = bins.quantile(10, score, np.ones(1000, dtype=np.int64))
    assert np.bincount(found.index(score)).tolist() == [100] * 10


def test_quantile_bins_of_ties_keep_equal_scores_together():
    score = to_grid(np.array([0.1, 0.5, 0.9]))
    found = bins.quantile(4, score, np.array([90, 5, 5]))
    assert found.edges.tolist() == [0, score[0], UNIT]
    assert found.divisor == 4


def test_quantile_bins_of_survey_weights_are_those_of_the_frequencies():
    rng = np.random.default_rng(2)
    score, weight = np.sort(to_grid(rng.random(50))), rng.integers(1, 5, 50)
    assert np.array_equal(
        bins.quantile(4, score, weight).edges,
        bins.quantile(4, score, weight * 0.5).edges,
    )


@pytest.mark.parametrize(
    ("edges", "message"),
    [
        ([0, 0.5, 0.4, 1], "larger than the one before it"),
        ([0, 0.5, 0.5, 1], "larger than the one before it"),
        ([0.1, 1], "must run from 0 to 1"),
        ([0, 0.5], "must run from 0 to 1"),
        ([0], "at least two"),
        ([0, float("nan"), 1], "at least two finite"),
        (["a", "b"], "list of numbers"),
    ],
)
def test_edges_that_are_no_bins_are_refused(edges, message):
    with pytest.raises(InputError, match=message):
        bins.explicit(edges)


def test_bins_that_cannot_be_told_apart_are_refused():
    with pytest.raises(InputError, match="rho must be below 1"):
        bins.geometric(5, 1.0)
    with pytest.raises(InputError, match="Use fewer bins"):
        bins.geometric(1000, 1 - 1e-9)


def test_labels_show_which_end_is_closed():
    assert bins.uniform(2).labels == ["[0, 0.5)", "[0.5, 1]"]

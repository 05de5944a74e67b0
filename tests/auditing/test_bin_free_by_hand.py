"""Each step of the measures without bins, on numbers worked out by hand."""

import numpy as np
import pytest
from scipy.integrate import trapezoid
from scipy.optimize import brentq
from scipy.stats import norm
from small_samples import sample_of

from propcal.auditing.bin_free import (
    WIDTHS,
    _at_width,
    _cells,
    _drawn_residuals,
    _ecce,
    _error_of_mean,
    _PatternCells,
    _smoothed,
    _tail_share,
    _where_equal,
    bin_free_measures,
    range_tail,
    smooth_ece,
    worst_interval,
)
from propcal.auditing.statistics.sample import Sample
from propcal.core.draws import Draws
from propcal.errors import InputError
from propcal.reading.rows import rows_to_atoms

SCORE = np.array([0.1, 0.3, 0.6, 0.905])
WEIGHT = np.array([10.0, 20.0, 10.0, 10.0])
POSITIVES = np.array([2.0, 1.0, 9.0, 9.0])


def reflected(points, at, width):
    """A normal density, reflected at 0 and 1."""
    places = (at, -at, 2 - at)
    return sum(norm.pdf(points[:, None], place, width) for place in places)


def smooth_error(score, weight, residual, width):
    """The mean absolute smoothed residual at 200 places, weighted by how many people
    are there.
    """
    kernel = reflected(np.linspace(0, 1, 200), score, width)
    return np.sum(np.abs(kernel @ residual)) / np.sum(kernel @ weight)


def test_a_score_without_any_error_has_no_worst_interval():
    found = worst_interval(np.array([0.5, 0.5]), np.full(2, 2.0), np.full(2, 1.0))
    assert (found.ecce, found.sum) == (0, 0)
    assert np.isnan([found.low, found.high]).all()


def test_the_worst_interval_may_be_one_where_the_score_is_too_high():
    score = np.array([0.2, 0.4, 0.5])
    # residuals 0.8 (one of 1), -4 and -5 of ten each
    found = worst_interval(score, np.array([1.0, 10, 10]), np.array([1.0, 0, 0]))
    assert found == pytest.approx((9 / 21, 0.4, 0.5, -9 / 21))


def test_scores_that_are_tied_are_added_up_before_the_interval_is_chosen():
    score = np.array([0.5, 0.5, 0.7])
    found = worst_interval(score, np.ones(3), np.array([1.0, 0.0, 1.0]))
    assert found == pytest.approx((0.1, 0.7, 0.7, 0.1))


def test_the_range_of_a_brownian_motion_has_its_known_moments():
    """Its mean is the root of 8 / pi, and its mean square 4 log 2 (Feller, 1951)."""
    x = np.linspace(0, 12, 12_001)
    tail = range_tail(x)
    assert trapezoid(tail, x) == pytest.approx(np.sqrt(8 / np.pi), abs=1e-5)
    assert trapezoid(2 * x * tail, x) == pytest.approx(4 * np.log(2), abs=1e-5)


@pytest.mark.parametrize("width", [0.05, 0.08])
def test_the_smooth_error_is_that_of_a_reflected_normal_kernel(width):
    residual = WEIGHT * SCORE - POSITIVES
    expected = smooth_error(SCORE, WEIGHT, residual, width)
    found = _at_width(SCORE, WEIGHT, residual, width)
    assert found == pytest.approx(expected, rel=2e-5)


def test_a_score_between_two_points_of_the_grid_counts_at_both():
    """The grid has steps of 0.001: two thirds of 0.30033 are at 0.3."""
    one = np.ones(1)
    other = np.full(1, -1.0)
    score = np.array([0.3 + 0.001 / 3, 0.5])
    parts = np.array([0.3, 0.301, 0.5])
    found = _at_width(score, np.ones(2), np.r_[one, other], 0.05)
    residual = np.array([2 / 3, 1 / 3, -1.0])
    expected = _at_width(parts, np.abs(residual), residual, 0.05)
    assert found == pytest.approx(expected, rel=1e-9)


def test_the_smooth_ece_is_where_the_error_equals_the_width_of_the_kernel():
    residual = WEIGHT * SCORE - POSITIVES

    def too_wide(width):
        return width - smooth_error(SCORE, WEIGHT, residual, width)

    expected = brentq(too_wide, 0.02, 0.9)
    found = smooth_ece(SCORE, WEIGHT, POSITIVES)
    assert found == pytest.approx(expected, abs=0.001)


def test_the_smooth_ece_of_one_score_is_its_error():
    assert smooth_ece(np.array([0.5]), np.full(1, 8.0), np.full(1, 6.0)) == (
        pytest.approx(0.25, rel=1e-4)
    )


def test_256_people_are_cut_into_128_cells_of_two():
    place = np.arange(256)
    atoms = rows_to_atoms((place + 0.5) / 256, place % 2, None)
    cells = _cells(atoms)
    mean = (2 * np.arange(128) + 1) / 256
    assert cells.cell.tolist() == list(range(128))
    assert set(cells.pattern) == {0}
    assert set(cells.people) == {2}
    assert set(cells.weight) == {2.0}
    np.testing.assert_allclose(cells.mean, mean, rtol=1e-12)
    np.testing.assert_allclose(cells.excess, 1 - 2 * mean, atol=1e-12)


def test_people_of_a_cell_with_weights_are_as_many_as_their_weights_are_worth():
    """Weights of 3 and 1 are worth 16 / 10 people: two."""
    score = np.full(4, 0.5)
    weight = np.array([3.5, 1.5, 3.5, 1.5])
    atoms = rows_to_atoms(score, [1, 0, 1, 0], None, weight)
    cells = _cells(atoms)
    assert cells.people.tolist() == [round(10**2 / (2 * 3.5**2 + 2 * 1.5**2))]
    assert cells.excess == pytest.approx([7 - 5])


def test_the_largest_sum_of_each_draw_may_be_above_or_below_zero():
    sums = np.array([[1, 1, -1], [-3, 1, -1], [1, 2, 0]], dtype=np.float32)
    # running sums 1, -2, -1; 1, 2, 4; -1, -2, -2
    assert _ecce(sums, 4.0).tolist() == [0.75, 1.0, 0.5]


def test_draws_of_one_person_of_weight_two_are_off_by_one():
    one = np.array([0])
    half = np.array([0.5])
    cells = _PatternCells(one, one, np.array([2.0]), np.array([1]), half, half)
    found = _drawn_residuals(cells, 100, Draws(0))
    assert set(found[0, :100].tolist()) == {-1.0, 1.0}
    assert found[0, 100] == 0.5  # the data themselves come last


@pytest.mark.parametrize("width", [0.05, 0.2])
def test_simulated_residuals_are_smoothed_by_the_reflected_kernel(width):
    at = np.array([0.1, 0.7])
    sums = np.array([[3, 1], [-2, 1]], dtype=np.float32)
    kernel = reflected(np.linspace(0, 1, 100), at, width)
    expected = np.abs(kernel @ sums).mean(axis=0) / 10
    np.testing.assert_allclose(_smoothed(at, sums, 10.0, width), expected, rtol=1e-5)


def test_an_error_that_does_not_depend_on_the_width_is_found():
    """And one beyond all widths that are tried has the nearest of them."""
    size = np.array([0.0, 0.01, 0.05, 0.11, 0.25, 0.9])
    by_width = np.tile(size, (len(WIDTHS), 1))
    expected = [WIDTHS[0], 0.01, 0.05, 0.11, 0.25, WIDTHS[-1]]
    np.testing.assert_allclose(_where_equal(by_width), expected, rtol=1e-12)


def test_an_error_that_falls_with_the_width_is_interpolated():
    """The straight line 0.2 - width / 2 equals the width at 0.2 / 1.5."""
    by_width = (0.2 - WIDTHS / 2)[:, None]
    np.testing.assert_allclose(_where_equal(by_width), 0.2 / 1.5, rtol=1e-12)


def test_the_error_of_the_mean_residual_is_that_of_a_perfect_score():
    """Two people of weight 3 at 1/2 and one at 1/5: 9 / 4 * 2 + 9 * 0.16 of a total
    of 9.
    """
    sample = sample_of((0.5, 2, 0), (0.2, 1, 1), weight=3.0)
    assert isinstance(sample, Sample)
    assert _error_of_mean(sample) == pytest.approx(np.sqrt(4.5 + 1.44) / 9)


def test_the_data_count_as_one_of_the_draws():
    assert _tail_share(np.array([True, False, False])) == 0.5
    assert _tail_share(np.zeros(99, dtype=bool)) == 0.01


def test_at_least_100_draws_are_asked_for():
    y = np.arange(400) % 2
    assert len(bin_free_measures(y, np.full(400, 0.5), n_draws=100)) == 3
    with pytest.raises(InputError, match="n_draws"):
        bin_free_measures(y, np.full(400, 0.5), n_draws=99)

"""Intervals of the distances: the quick way gives what trying every truth and sorting
every draw gives.
"""

import numpy as np
import pytest

from propcal.auditing.statistics import logistic_calibration as calibration
from propcal.auditing.statistics.rate_intervals import accepted, possible_truths


def plainly(cells, bend, noise, observed):
    """Every truth and every draw, sorted."""
    path = possible_truths(bend, noise)
    values = np.array([calibration._distances(cells, share * bend) for share in path])
    drawn = np.array(
        [calibration._distances(cells, share * bend + noise) for share in path]
    )
    return np.array(
        [accepted(path, values[:, i], drawn[:, :, i], observed[i]) for i in range(4)]
    )


@pytest.mark.parametrize("error", [0.0, 0.01, 0.3, 2.0])
@pytest.mark.parametrize("loudness", [1e-4, 0.05, 0.5, 300.0])
def test_ranges_of_distances_are_those_of_the_plain_way(error, loudness):
    rng = np.random.default_rng(7)
    cells = np.sort(rng.normal(-1, 1.5, calibration.N_CELLS))
    design = np.stack([np.ones_like(cells), cells, cells**2])
    for _ in range(5):
        bend = error * rng.standard_normal(3) @ design
        noise = loudness * rng.standard_normal((calibration.N_DRAWS, 3)) @ design
        observed = calibration._distances(cells, bend)
        found = calibration._accepted(cells, bend, noise, observed)
        assert found == pytest.approx(
            plainly(cells, bend, noise, observed), rel=1e-9, abs=1e-12
        )
        assert np.all(found[:, 0] <= found[:, 1])


def test_distances_that_are_equal_count_on_both_sides():
    distance = np.full((calibration.N_CELLS, 8), 0.125)
    for which in range(len(calibration.DISTANCES)):
        for at_most in (False, True):
            assert (
                calibration._share_of_draws(distance, which, 0.125, at_most=at_most)
                == 1.0
            )

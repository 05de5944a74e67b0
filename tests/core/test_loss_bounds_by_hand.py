"""Bounds for rounded scores, worked out by hand from a few people."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from propcal import Atoms, Groups
from propcal.core import loss_bounds as lb
from propcal.core.bins import uniform
from propcal.core.categories import categories
from propcal.core.grid import UNIT, to_grid


def bounds(rows, n_bins, min_people=1, **options):
    """The bounds of rows (score, people, events, group), rounded to eighths."""
    people = []
    for score, n, events, group in rows:
        people += [(score, int(i < events), group) for i in range(n)]
    frame = pd.DataFrame(people, columns=["s", "y", "g"])
    atoms = Atoms.from_frame(
        frame, score="s", outcome="y", groups=["g"], resolution=2**-3
    )
    collection = atoms.collection(Groups(), gamma=0.01)
    table = categories(
        atoms, collection, uniform(n_bins), min_share=0.0, min_people=min_people
    )
    return lb.loss_bounds(
        atoms, table, rho=0.1, min_share=0.0, min_people=min_people, **options
    )


def test_the_bounds_of_two_ranges_with_people_at_their_edge():
    rows = [(0.25, 10, 8, "a"), (0.5, 2, 1, "a"), (0.75, 10, 6, "a")]
    found = bounds(rows, 2)
    assert found.resolution == 1 / 8
    assert found.people == pytest.approx(2 / 22)
    # below 0.5: 10 people, 2 may come; above: 12 people, of whom 2 may leave
    below_gap, below_off = 0.8 - 0.25, 0.2 * (1 + 0.55) + 1 / 16
    above_gap, above_off = 8.5 / 12 - 7 / 12, 0.2 * (1 + 1.5 / 12) + 1 / 16
    assert found.mc == pytest.approx((below_gap - below_off, below_gap + below_off))
    below_pmc = below_gap / 0.8
    below_pmc_off = (below_off + below_gap * 0.2 / 0.8) / (0.8 - 0.2)
    above_rate = 7 / 12
    above_pmc = above_gap / above_rate
    above_pmc_off = (above_off + above_gap * 0.2 / above_rate) / (above_rate - 0.2)
    assert found.pmc == pytest.approx(
        (
            max(0.0, below_pmc - below_pmc_off),
            max(below_pmc + below_pmc_off, above_pmc + above_pmc_off),
        )
    )
    assert found.dc == (0.0, 0.0)  # there is one group


def test_bounds_stay_within_what_a_loss_can_be():
    rows = [(0.0, 10, 10, "a"), (0.125, 6, 0, "a")]
    found = bounds(rows, 10, min_people=7)  # 6 people between 0.1 and 0.2 are too few
    # 10 people, 6 may come; the gap of 1 may be off by 0.6 * 2 + 1/16, so by anything
    assert found.mc == (0.0, 1.0)
    # rate 1 - 0.6 at the lowest, pmc 1 + (1 + 1 * 0.6) / 0.4
    assert found.pmc == pytest.approx((0.0, 5.0))
    everybody_may_leave = bounds(rows, 10)
    assert everybody_may_leave.pmc == (0.0, pytest.approx(1 / 0.1))


def test_the_ratio_of_two_groups_is_bounded_from_both_sides():
    rows = [(0.25, 40, 8, "a"), (0.25, 40, 32, "b"), (0.5, 2, 1, "a")]
    found = bounds(rows, 2, min_people=10)
    # only a may get 2 more people, so its rate of 0.2 may be off by 2 / 40
    off_a = np.log1p(0.05 / 0.15)
    log_ratio = np.log(0.8 / 0.2)
    assert found.dc == pytest.approx((log_ratio - off_a, log_ratio + off_a))


def test_a_widest_difference_needs_two_values():
    value = np.array([[1.0, 5.0], [3.0, 9.0], [4.0, 0.0]])
    off = np.full((3, 2), 0.25)
    certain = np.array([[True, True], [True, False], [False, False]])
    possible = np.array([[True, True], [True, False], [True, False]])
    assert lb._widest(value, off, certain, possible, most=10.0) == (1.5, 3.5)
    assert lb._widest(value, off, certain, possible, most=3.0) == (1.5, 3.0)
    alone = np.array([[True, True], [False, False], [False, False]])
    assert lb._widest(value, off, alone, alone, most=9.0) == (0.0, 0.0)


def test_a_largest_value_is_bounded_by_what_is_certain_and_what_is_possible():
    value = np.array([0.5, 0.75])
    off = np.array([0.125, 0.125])
    certain, possible = np.array([True, False]), np.array([True, True])
    assert lb._largest(value, off, certain, possible, most=1.0) == (0.375, 0.875)
    assert lb._largest(value, off, certain, possible, most=0.8) == (0.375, 0.8)
    nothing = ~possible
    assert lb._largest(value, off, nothing, nothing, most=0.8) == (0.0, 0.0)


def test_a_category_counts_people_by_their_average_weight():
    # 10 people of weight 2 each; an empty one, whose people would have weight 1
    table = SimpleNamespace(people=np.array([10, 0]), weight=np.array([20.0, 0.0]))

    def large_enough(change, min_share, min_people):
        change = np.array([change, change])
        found = lb._large_enough(table, change, 100.0, min_share, min_people)
        return found.tolist()

    assert large_enough(4.0, 0.0, 12) == [True, False]  # 12 people, and 4
    assert large_enough(4.0, 0.0, 13) == [False, False]
    assert large_enough(-4.0, 0.0, 8) == [True, False]
    assert large_enough(-4.0, 0.0, 9) == [False, False]
    assert large_enough(4.0, 0.24, 1) == [True, False]  # shares of 24 and 4 %
    assert large_enough(4.0, 0.25, 1) == [False, False]
    assert large_enough(1.0, 0.0, 0) == [True, True]
    assert large_enough(0.5, 0.0, 0) == [True, False]  # half a person is nobody


def test_a_rounded_score_may_have_been_half_a_step_away():
    score = to_grid(np.array([0.0, 0.5, 1.0]))
    atoms = SimpleNamespace(shared=None, resolution_bits=3, score=score)
    lowest, highest = lb._possible_scores(atoms)
    assert lowest.tolist() == to_grid(np.array([0.0, 7 / 16, 15 / 16])).tolist()
    assert highest.tolist() == to_grid(np.array([1 / 16, 9 / 16, 1.0])).tolist()


def shared_cells(scores, people, starts):
    return SimpleNamespace(
        score=to_grid(np.array(scores)),
        people=np.array(people, dtype=float),
        starts=np.array(starts),
    )


def test_people_of_a_shared_cell_lie_between_its_neighbours():
    atoms = shared_cells([0.25, 0.5, 0.75, 0.125], [20, 20, 20, 20], [0, 3, 4])
    low, high = lb.score_ranges(atoms)
    # means have 10 binary digits: one part in 512 of the smaller risk, and a unit
    slack = [(UNIT // part >> 9) + 1 for part in (4, 2, 4, 8)]
    middle, quarter = UNIT // 2, UNIT // 4
    assert low.tolist() == [
        0,
        quarter - slack[1],
        middle - slack[2],
        0,
    ]
    assert high.tolist() == [
        middle + slack[0],
        3 * quarter + slack[1],
        UNIT,
        UNIT,
    ]


def test_a_sum_of_scores_is_off_by_one_block_of_each_coarse_cell():
    coarse = (UNIT // 4 + 1) / UNIT  # a unit more than a rounded mean
    fine = 0.5
    exact = shared_cells([0.25, fine], [60, 60], [0, 2])
    assert lb.are_coarse(exact).tolist() == [False, False]
    assert lb.sum_off(exact) == 0.0

    one = shared_cells([coarse, fine], [10, 60], [0, 2])
    assert lb.are_coarse(one).tolist() == [True, False]
    low, high = lb.score_ranges(one)
    below = (one.score[0] - low[0]) / UNIT
    above = (high[0] - one.score[0]) / UNIT
    assert lb.sum_off(one) == pytest.approx(10 * (below + above))
    # 104 people: 4 blocks of 16 at least beyond the first 40, so 20 people at most
    many = shared_cells([coarse, fine], [104, 60], [0, 2])
    assert lb.sum_off(many) == pytest.approx(20 * (below + above))
    # 50 people: one block, of up to 32
    some = shared_cells([coarse, fine], [50, 60], [0, 2])
    assert lb.sum_off(some) == pytest.approx(32 * (below + above))


def test_a_gap_between_two_coarse_cells_counts_once():
    first, second = (UNIT // 4 + 1) / UNIT, (UNIT // 2 + 1) / UNIT
    both = shared_cells([first, second], [10, 12], [0, 2])
    assert lb.are_coarse(both).tolist() == [True, True]
    low, high = lb.score_ranges(both)
    below = (both.score[0] - low[0]) / UNIT
    between, above = (high - both.score) / UNIT
    assert lb.sum_off(both) == pytest.approx(10 * below + 12 * between + 12 * above)
    # cells of two patterns are no neighbours
    apart = shared_cells([first, second], [10, 12], [0, 1, 2])
    expected = 10 * 1.0 + 12 * 1.0  # each from 0 to 1
    assert lb.sum_off(apart) == pytest.approx(expected)


def test_people_of_little_weight_are_as_many_as_they_are():
    # 10 people of weight 1/20 each: a weight of 1/4 more is 5 people more
    table = SimpleNamespace(people=np.array([10]), weight=np.array([0.5]))

    def large_enough(min_people):
        return lb._large_enough(table, np.array([0.25]), 1.0, 0.0, min_people)

    assert large_enough(15).tolist() == [True]
    assert large_enough(16).tolist() == [False]

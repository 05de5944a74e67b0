"""Categories, patterns, groups and bins of a few people, worked out by hand."""

import math
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from propcal import Atoms, Groups
from propcal.core.arguments import check_number
from propcal.core.bins import category_min_share, explicit, quantile, uniform
from propcal.core.bounds import (
    dc_from_pmc,
    generalization_gap,
    max_steps,
    max_updates,
    privacy_from_pmc,
)
from propcal.core.categories import (
    _wrong_guesses,
    bucket_sums,
    categories,
    largest_log_ratio,
    outcome_alike,
    smallest_alpha_of,
    tells_outcome,
)
from propcal.core.correction.maps import start_reaches
from propcal.core.correction.points_table import multiply
from propcal.core.criterion import multicalibration, proportional
from propcal.core.fit.update_loop import bootstrap
from propcal.core.grid import UNIT, from_grid, run_sums, to_grid
from propcal.core.groups import EVERYBODY, Group, membership
from propcal.core.patterns import (
    OTHER,
    Patterns,
    as_listed,
    combinations_present,
    patterns_of,
    with_unlisted,
)
from propcal.core.reduction import _sorted
from propcal.errors import InputError

PEOPLE = pd.DataFrame(
    {
        "s": [0.25] * 4 + [0.75] * 4 + [0.25] * 2,
        "y": [1, 0, 0, 0, 1, 1, 1, 1, 0, 0],
        "g": ["a"] * 8 + ["b"] * 2,
    }
)


def table(rows=PEOPLE, **options):
    atoms = Atoms.from_frame(rows, score="s", outcome="y", groups=["g"])
    collection = atoms.collection(Groups(), gamma=0.01)
    options = {"min_share": 0.0, **options}
    return categories(atoms, collection, uniform(2), **options)


def test_each_group_is_counted_in_each_range():
    found = table()
    assert [group.name for group in found.collection.groups] == ["g=a", "g=b"]
    assert found.people.tolist() == [[4, 4], [2, 0]]
    assert found.positives.tolist() == [[1, 4], [0, 0]]
    assert found.gap[0].tolist() == [0.0, 0.25]
    assert found.gap[1, 0] == -0.25
    assert math.isnan(found.gap[1, 1])
    assert found.share.tolist() == [[0.4, 0.4], [0.2, 0.0]]


def test_a_category_at_its_limits_is_eligible():
    assert table(min_share=0.2).eligible.tolist() == [[True, True], [True, False]]
    assert table(min_share=0.21).eligible.tolist() == [[True, True], [False, False]]
    assert table(min_people=2).eligible.tolist() == [[True, True], [True, False]]
    assert table(min_people=3).eligible.tolist() == [[True, True], [False, False]]
    assert table(min_people=0).eligible.tolist() == [[True, True], [True, False]]


def test_a_gap_is_listed_as_a_share_of_the_rate_or_of_rho():
    listed = table().to_frame(rho=0.5)
    assert listed.group.tolist() == ["g=a", "g=a", "g=b"]
    assert listed.bin.tolist() == ["[0, 0.5)", "[0.5, 1]", "[0, 0.5)"]
    assert listed.outcome_rate.tolist() == [0.25, 1.0, 0.0]
    assert listed.gap.tolist() == [0.0, 0.25, -0.25]
    assert listed.proportional_gap.tolist() == [0.0, 0.25, -0.5]


def test_the_smallest_alpha_is_that_of_the_worst_category_or_of_its_size():
    # gaps of 0.25; b is all in one range, and the shares of a are 1/2 each
    found = table()
    assert smallest_alpha_of(found, multicalibration()) == 0.25
    # shares of all people, times 2 ranges, over gamma: 0.8 / 2 and 0.4 / 2
    assert smallest_alpha_of(found, multicalibration(), gamma=1.0) == 0.25
    assert smallest_alpha_of(found, proportional(0.5), gamma=1.0) == 0.4
    assert smallest_alpha_of(found, proportional(0.5), gamma=0.5) == 0.5


def test_a_log_ratio_compares_groups_within_a_range_and_floors_rates():
    nan = math.nan
    ratio = largest_log_ratio(np.array([[0.1, 0.5], [0.4, nan]]), rho=0.01)
    assert ratio == pytest.approx(math.log(4))
    floored = largest_log_ratio(np.array([[0.1, 0.5], [0.4, nan]]), rho=0.2)
    assert floored == pytest.approx(math.log(2))
    assert largest_log_ratio(np.array([[nan, 0.5], [0.4, nan]]), rho=0.01) == 0.0
    assert math.isnan(largest_log_ratio(np.array([[nan], [nan]]), rho=0.01))


def test_sums_of_ranges_are_those_of_each_pattern():
    atoms = Atoms.from_frame(PEOPLE, score="s", outcome="y", groups=["g"])
    assert bucket_sums(atoms, uniform(2), atoms.people).tolist() == [[4, 4], [2, 0]]


def sums(people, events):
    people = np.array(people, dtype=float)
    return people, np.array(events, dtype=float), people


def test_levels_tell_the_outcome_if_guessing_by_them_is_nearly_always_right():
    assert _wrong_guesses(np.array([10.0, 20.0]), np.array([3.0, 18.0])) == 5.0
    assert tells_outcome(*sums([100, 100], [0, 100]))
    assert tells_outcome(*sums([100, 100], [0, 91]))  # 9 wrong guesses, 91 without
    assert not tells_outcome(*sums([100, 100], [0, 90]))  # 10 of 90
    assert tells_outcome(*sums([110, 90], [10, 90]))  # 10 of 100
    assert not tells_outcome(*sums([111, 89], [11, 89]))
    # levels of one person each have one outcome anyway
    assert not tells_outcome(*sums([1, 1, 1, 1], [0, 1, 0, 1]))
    assert not tells_outcome(*sums([100, 100], [0, 0]))
    assert not tells_outcome(*sums([100, 100], [100, 100]))


def test_outcomes_that_are_all_alike_are_said():
    def alike(events):
        return outcome_alike(
            SimpleNamespace(positives=np.array([events]), weight=np.array([8.0]))
        )

    assert alike(4.0) == alike(0.5) == ""
    assert alike(0.0).startswith("nobody had the outcome; check")
    assert alike(8.0).startswith("everybody had the outcome; check")


def test_a_loss_without_categories_is_missing():
    nothing = np.zeros((3, 0))
    found = multicalibration().loss(nothing, nothing)
    assert found.shape == (3,)
    assert np.isnan(found).all()
    gap = np.array([[0.1, -0.3], [0.2, 0.0]])
    loss = proportional(0.5).loss(gap, np.array([[0.1, 0.6], [0.9, 0.1]]))
    assert loss == pytest.approx([0.5, 0.2 / 0.9])


def test_privacy_has_no_bound_where_a_group_may_always_have_the_event():
    assert privacy_from_pmc(0.25, r_max=0.75) == math.inf
    assert privacy_from_pmc(0.3, r_max=0.7) == math.inf  # 0.3 + 0.7 may be rounded
    assert privacy_from_pmc(0.0, r_max=1.0) == 0.0
    # (1 - 0.5 / 1.25) / (1 - 0.5 / 0.75) is 1.8, and 1.25 / 0.75 less
    assert privacy_from_pmc(0.25, r_max=0.5) == pytest.approx(math.log(1.8))
    assert privacy_from_pmc(0.25, r_max=0.1) == pytest.approx(math.log(5 / 3))
    assert dc_from_pmc(1.0) == math.inf


def test_the_most_updates_and_visits():
    assert max_updates(0.5, 10, gamma=0.25, rho=0.5) == 10 / (1 / 8 / 4 / 4)
    assert max_steps(0.5, 10, 0.25, 0.5, n_groups=3) == 1280 * 30


def test_a_number_is_accepted_up_to_its_limits():
    check_number("x", 1, at_least=1, at_most=1)
    check_number("x", 2**-60, above=0)
    for value, options in (
        (0, {"above": 0}),
        (0.99, {"at_least": 1}),
        (1.01, {"at_most": 1}),
        (1.0, {"whole": True}),
        (True, {}),
        (math.nan, {}),
        (math.inf, {}),
        ("1", {}),
    ):
        with pytest.raises(InputError, match="must be a"):
            check_number("x", value, **options)


def test_quantiles_have_as_many_people_each_as_ties_allow():
    score = to_grid(np.array([0.8, 0.1, 0.4, 0.2]))
    weight = np.array([1, 1, 1, 1])
    halves = quantile(2, score, weight)
    assert from_grid(halves.edges).round(6).tolist() == [0.0, 0.4, 1.0]
    # 3 of 6 people are in the first: the fourth begins the second half
    three_at_lowest = quantile(2, score, np.array([1, 3, 1, 1]))
    assert from_grid(three_at_lowest.edges).round(6).tolist() == [0.0, 0.2, 1.0]
    survey = quantile(2, score, weight * 0.5)
    assert survey.edges.tolist() == halves.edges.tolist()


def test_a_largest_loss_is_a_gap_of_1_where_least_is_allowed():
    assert multicalibration().largest_loss() == 1.0
    assert proportional(0.25).largest_loss() == 4.0
    assert generalization_gap(0.25) == 1.5


def test_edges_run_from_0_to_1():
    assert explicit([0, 0.5, 1]).edges.tolist() == [0, UNIT // 2, UNIT]
    assert explicit([0, 0.5, 1]).divisor == 2
    for edges in ([0], [0.1, 1], [0, 0.9], [0, 0.5, 0.5, 1], [0, math.nan, 1], "x"):
        with pytest.raises(InputError):
            explicit(edges)
    assert category_min_share(0.1, 0.5, uniform(4)) == 0.0125


def test_bins_are_cut_into_parts_of_the_same_width():
    assert uniform(2).cut(2).edges.tolist() == [
        0,
        *(i * UNIT // 4 for i in (1, 2, 3, 4)),
    ]
    assert uniform(1).cut(1, at=[5]).edges.tolist() == [0, 5, UNIT]
    assert uniform(1).cut(1, at=[5]).divisor == 1


def test_combinations_are_listed_once_and_in_order():
    codes = [np.array([1, 0, 1, 1]), np.array([2, 0, 2, 1])]
    for radix in (
        [2, 3],
        [1 << 20, 1 << 20],
        [1 << 40, 1 << 40],
    ):  # few, many, too many
        found, place = combinations_present([c.copy() for c in codes], radix, 4)
        assert found.tolist() == [[0, 0], [1, 1], [1, 2]]
        assert place.tolist() == [2, 0, 2, 1]
    nothing, place = combinations_present([], [], 3)
    assert nothing.shape == (1, 0)
    assert place.tolist() == [0, 0, 0]


def test_levels_that_do_not_occur_are_dropped():
    found, place = patterns_of(
        ("g", "h"),
        (("a", "b", "c"), ("x", None)),
        [np.array([2, 0, 2]), np.array([0, 0, 0])],
        3,
        {},
    )
    assert found.levels == (("a", "c"), ("x",))
    assert found.table.tolist() == [[0, 0], [1, 0]]
    assert place.tolist() == [1, 0, 1]


FOLDED = Patterns(("g", "h"), (("a", OTHER), ("x",)), np.array([[0, 0], [1, 0]]))


def test_where_levels_were_folded_those_not_listed_are_read_as_others():
    asked = Patterns(
        FOLDED.attributes, FOLDED.levels, np.array([[2, 0], [0, 1], [1, 0]])
    )
    assert as_listed(asked, ["g"]).table.tolist() == [[1, 0], [0, 1], [1, 0]]
    assert as_listed(asked, []).table.tolist() == asked.table.tolist()
    assert asked.table[0, 0] == 2  # unchanged


def test_others_also_stand_for_a_level_that_is_not_listed():
    levels = (("a", OTHER), ("x", "y"))
    patterns = Patterns(("g", "h"), levels, np.array([[0, 0], [1, 1]]))
    assert with_unlisted(patterns, ["g"]).table.tolist() == [[0, 0], [1, 1], [2, 1]]
    assert with_unlisted(patterns, ["h"]).table.tolist() == [[0, 0], [1, 1]]
    assert with_unlisted(patterns, []) is patterns


def test_a_group_contains_the_patterns_that_meet_all_of_its_conditions():
    patterns = Patterns(
        ("g", "h"),
        (("a", "b"), ("x", None)),
        np.array([[0, 0], [0, 1], [1, 0], [2, 0]]),
    )
    groups = [
        EVERYBODY,
        Group((("g", "a"),)),
        Group((("g", "a"), ("h", None))),
        Group((("g", "unknown"),)),
    ]
    assert membership(groups, patterns).astype(int).tolist() == [
        [1, 1, 1, 1],
        [1, 1, 0, 0],
        [0, 1, 0, 0],
        [0, 0, 0, 0],
    ]


def test_without_attributes_everybody_is_the_only_group():
    atoms = Atoms.from_frame(PEOPLE[["s", "y"]], score="s", outcome="y")
    (size,) = atoms.collection(Groups(), gamma=0.5)
    assert size.group == EVERYBODY
    assert (size.people, size.share) == (10, 1.0)


def test_integers_of_any_size_are_sorted_and_equal_ones_keep_their_order():
    for values in (
        [3, 1, 3, 2, 1],
        [24, 8, 24, 16, 8],  # trailing zero bits are left out
        [2**62 + 1, 5, 2**62, 5, 2**62 + 1],  # too large to be packed
        [0, 0, 0],
        [7],
    ):
        order, in_order = _sorted(np.array(values, dtype=np.int64))
        expected = sorted(range(len(values)), key=lambda i: (values[i], i))
        assert order.tolist() == expected
        assert in_order.tolist() == sorted(values)
    wide = np.array([2**61, 1] + [0] * 6, dtype=np.int64)  # 62 bits, and 3 of a place
    assert _sorted(wide)[1].tolist() == [0] * 6 + [1, 2**61]
    narrow = np.array([2**59, 1] + [0] * 6, dtype=np.int64)
    assert _sorted(narrow)[1].tolist() == [0] * 6 + [1, 2**59]


def test_runs_are_added_up_and_empty_ones_are_0():
    values = np.array([1, 2, 3, 4])
    assert run_sums(values, np.array([0, 2, 2, 3, 4])).tolist() == [3, 0, 3, 4]
    assert run_sums(values, np.array([0, 0, 0])).tolist() == [0, 0]


def test_multiplied_odds_keep_0_and_1_and_reach_neither():
    units = np.array([0, 1, UNIT // 2, UNIT - 1, UNIT])
    assert multiply(units, np.full(5, 3.0)).tolist() == [
        0,
        3,
        3 * UNIT // 4,
        UNIT - 1,
        UNIT,
    ]
    assert multiply(units[:3], np.full(3, 0.25)).tolist() == [0, 1, UNIT // 5]


def test_the_first_score_that_a_line_takes_to_a_target_is_exact():
    at = np.array([0, 10, 20, UNIT])
    values = np.array([0, 5, 25, UNIT])  # half a unit, then two for each
    reached = start_reaches(np.array([0, 1, 5, 6, 7, 25]), at, values).tolist()
    # halves round up: 0.5 counts as 1, and 5 + 2 as 7
    assert reached == [0, 1, 9, 11, 11, 20]


def test_a_bootstrap_sample_has_as_many_people():
    atoms = Atoms.from_frame(PEOPLE, score="s", outcome="y")
    weight, outcome, score, squares = bootstrap(atoms, np.random.default_rng(0))
    assert weight.sum() == 10
    assert squares.tolist() == weight.tolist()
    assert score.tolist() == atoms.score.tolist()
    assert np.all(outcome <= weight * UNIT)
    assert np.all(weight >= 0)

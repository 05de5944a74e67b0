"""Small steps of a correction, each worked out by hand."""

from fractions import Fraction
from math import floor
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from propcal import Correction, PMCBoost
from propcal.core.bins import uniform
from propcal.core.correction.explain import Explanation
from propcal.core.correction.points_table import FeaturePoints, PointsTable
from propcal.core.correction.smooth_map import (
    MOST_SHIFT,
    MOST_WITH_ENDS,
    N_KNOTS,
    SHIFT_UNIT,
    SmoothStart,
    knots,
    smooth_values,
    whole_parts,
)
from propcal.core.correction.traced_steps import _mean_slope, traced_updates
from propcal.core.correction.update_pieces import (
    non_decreasing,
    without_continuations,
)
from propcal.core.grid import UNIT
from propcal.core.groups import EVERYBODY, Group
from propcal.core.patterns import Patterns
from propcal.errors import InputError, UnknownLevelWarning

NOBODY = Patterns((), (), np.zeros((1, 0), dtype=np.int64))
WOMEN = Group((("sex", "F"),))


def parts(parts, inside, total):
    found = whole_parts(np.array([parts]), np.array([inside]), np.array([total]))
    return found[0].tolist()


def test_the_last_units_go_to_the_parts_with_the_largest_remainders():
    everyone = [True] * 3
    assert parts([0.5, 0.3, 1.2], everyone, 1) == [0, 0, 1]
    assert parts([0.5, 0.3, 1.2], everyone, 2) == [1, 0, 1]
    assert parts([0.5, 0.3, 1.2], everyone, 3) == [1, 1, 1]
    assert parts([3.5, 0.6, 0.9], everyone, 5) == [3, 1, 1]
    assert parts([-0.5, 0.75, -0.25], everyone, 0) == [-1, 1, 0]
    assert parts([0.5, 0.5, 0.0], everyone, 1) == [1, 0, 0]  # the first of equal ones


def test_a_term_that_does_not_apply_gets_no_unit():
    assert parts([0.5, 0.0, 0.25], [True, False, True], 2) == [1, 0, 1]
    assert parts([0.25, 0.0, 0.0], [True, False, False], 1) == [1, 0, 0]
    # what rounding in floating point leaves goes to the largest
    assert parts([0.5, -7.0, 0.0], [True, True, True], -5) == [1, -6, 0]
    nothing = whole_parts(np.zeros((2, 0)), np.zeros((2, 0), dtype=bool), np.zeros(2))
    assert nothing.shape == (2, 0)


def shifts(n=1, **places):
    units = np.zeros((n, N_KNOTS), dtype=np.int64)
    for place, units_at in places.items():
        units[0, int(place.removeprefix("at"))] = units_at
    return units


def test_ends_move_only_if_the_first_or_the_last_shift_does():
    for place, moves in ((0, True), (1, False), (N_KNOTS - 2, False)):
        start = SmoothStart((EVERYBODY,), shifts(**{f"at{place}": 5}))
        assert start.moves_ends is moves
        assert start.most == (MOST_WITH_ENDS if moves else MOST_SHIFT)
    assert SmoothStart((EVERYBODY,), shifts(**{f"at{N_KNOTS - 1}": -5})).moves_ends


def test_terms_without_a_shift_are_left_out_and_shifts_are_limited():
    rough = np.zeros((3, N_KNOTS))
    rough[1, 7] = 0.25
    rough[2, 8] = -30.0
    rough[0, 9] = 0.4 / SHIFT_UNIT  # less than half a unit
    names = tuple(Group((("g", name),)) for name in "abc")
    start = SmoothStart.of_shifts(names, rough, with_ends=False)
    assert start.groups == names[1:]
    assert start.shifts[0, 7] == SHIFT_UNIT // 4
    assert start.shifts[1, 8] == -MOST_SHIFT
    with_ends = SmoothStart.of_shifts(names, rough, with_ends=True)
    assert with_ends.shifts[1, 8] == -MOST_WITH_ENDS


def test_the_values_at_all_knots_of_all_patterns_are_limited():
    one_term = SmoothStart((EVERYBODY,), shifts())
    one_term.refuse_overgrown(344_148)  # times 195 knots: less than 2**26
    with pytest.raises(InputError):
        one_term.refuse_overgrown(344_149)
    many_terms = SmoothStart((EVERYBODY,) * 256, shifts(256))
    many_terms.refuse_overgrown(1 << 18)  # exactly 2**26
    with pytest.raises(InputError):
        many_terms.refuse_overgrown((1 << 18) + 1)


def test_scores_between_knots_are_on_a_line_and_halves_round_up():
    at = knots()
    values = at.copy()
    values[101] += 9  # ends a line 9 units higher
    low, high = int(at[100]), int(at[101])

    def value_at(raw):
        return smooth_values(np.array([raw]), np.array([0]), values[None, :])[0]

    assert value_at(low) == low
    assert value_at(high) == high + 9
    for raw in (low + 1, (low + high) // 2, high - 1):
        exact = low + Fraction((high + 9 - low) * (raw - low), high - low)
        assert value_at(raw) == floor(exact + Fraction(1, 2))
    assert value_at(0) == 0
    assert value_at(UNIT) == UNIT


def test_a_line_that_goes_on_is_one_piece():
    pieces = np.array([[0, 1, 5], [10, 1, 5], [20, 0, 5], [30, 0, 7]])
    assert without_continuations(pieces).tolist() == [[0, 1, 5], [20, 0, 5], [30, 0, 7]]


def test_a_piece_below_what_lower_scores_have_is_held_until_it_reaches_that():
    # to 199 with raw scores below 100; then 100 lower
    pieces = np.array([[0, 1, 100], [100, 1, 0]])
    held = non_decreasing(pieces)
    assert held.tolist() == [[0, 1, 100], [100, 0, 199], [199, 1, 0]]
    # a piece that never reaches it is held throughout
    low_end = np.array([[0, 1, 100], [100, 0, 50], [200, 1, 0]])
    assert non_decreasing(low_end).tolist() == [[0, 1, 100], [100, 0, 199], [200, 1, 0]]
    rising = np.array([[0, 1, 0], [100, 1, 50]])
    assert non_decreasing(rising).tolist() == rising.tolist()
    # one unit higher is not held, and the same value is not either
    equal = np.array([[0, 1, 0], [100, 1, -1]])
    assert non_decreasing(equal).tolist() == equal.tolist()


def test_updates_move_people_of_the_group_in_the_range_and_stop_at_0_and_1():
    score = np.array([UNIT // 8, UNIT // 4, 7 * UNIT // 8, UNIT])
    code = np.array([0, 1, 0, 1])
    inside = np.array([[True, True], [True, False]])
    updates = np.array(
        [[0, 0, -UNIT // 2], [1, 1, UNIT // 2], [0, 0, UNIT // 8]], dtype=np.int64
    )
    found = [
        (u, people.tolist(), (before / UNIT).tolist(), (after / UNIT).tolist())
        for u, people, before, after in traced_updates(
            score, code, inside, updates, uniform(2).edges
        )
    ]
    assert found == [
        (0, [0, 1], [0.125, 0.25], [0.0, 0.0]),
        (1, [2], [0.875], [1.0]),
        (2, [0, 1], [0.0, 0.0], [0.125, 0.125]),
    ]


def test_a_point_counts_by_the_mean_slope_of_the_way():
    score = np.array([UNIT // 2, UNIT // 2])
    slope = _mean_slope(score, np.array([300, 0]), np.array([60, 0]))
    assert slope.tolist() == [5.0, 0.25 * UNIT / 1000]


def corrected_by(**parts):
    """A correction of everybody and of women, with these parts."""
    levels = Patterns(("sex",), (("F", "M"),), np.array([[0], [1]]))
    return Correction(
        patterns=levels,
        groups=(EVERYBODY, WOMEN),
        bins=uniform(2),
        **{"updates": np.zeros((0, 3), dtype=np.int64), **parts},
    )


def test_a_correction_prints_its_largest_update():
    updates = np.array(
        [[0, 0, UNIT // 8], [1, 1, -UNIT // 4], [1, 0, UNIT // 16]], dtype=np.int64
    )
    assert "largest  sex=F, scores in [0.5, 1]: -0.2500" in repr(
        corrected_by(updates=updates)
    )
    start = SmoothStart((EVERYBODY,), shifts(at50=1 << 20))
    after_start = repr(corrected_by(updates=updates, start=start))
    assert "largest  sex=F, scores in [0.5, 1]: -0.2500" in after_start
    assert "start    smooth, 1 terms" in after_start


def test_values_that_are_no_scores_are_left_as_they_are_or_become_missing():
    correction = corrected_by(updates=np.array([[0, 0, UNIT // 8]], dtype=np.int64))
    score = np.array([0.25, 1.5, -0.25, 1.0, 0.0, 0.75])
    rows = SimpleNamespace(
        score=score,
        patterns=correction.patterns,
        code=np.array([0, 1, 0, 1, 0, 1]),
        codes=[],
    )
    kept = correction.apply_to_rows(rows, invalid="keep")
    assert kept.tolist() == [0.375, 1.5, -0.25, 1.0, 0.125, 0.75]
    missing = correction.apply_to_rows(rows, invalid="null")
    assert np.flatnonzero(np.isnan(missing)).tolist() == [1, 2]
    assert missing[[0, 3, 4, 5]].tolist() == [0.375, 1.0, 0.125, 0.75]


def test_patterns_are_known_by_their_place_among_those_of_the_fit():
    correction = corrected_by(updates=np.array([[0, 0, UNIT // 8]], dtype=np.int64))
    asked = Patterns(("sex",), (("F", "M"),), np.array([[1], [2], [0]]))
    assert correction.known(asked).tolist() == [1, -1, 0]
    parts = list(correction.maps_of(asked, unseen="keep"))
    assert [part.place.tolist() for part in parts] == [[1, -1, 0]]
    first_alone = Patterns(("sex",), (("F", "M"),), np.array([[0]]))
    alone = correction.maps_of(first_alone, unseen="keep")
    assert [part.place.tolist() for part in alone] == [[0]]


def test_memory_limits_the_unseen_patterns_compiled_at_once():
    start = SmoothStart((EVERYBODY,) * 3, shifts(3))

    def at_once(n_groups, start):
        correction = SimpleNamespace(groups=(EVERYBODY,) * n_groups, start=start)
        return Correction._max_patterns_at_once(correction)

    assert at_once(2, None) == 4096
    assert at_once(1 << 14, None) == 4096  # 2**26 memberships of 2**14 groups
    assert at_once(1 << 15, None) == 2048
    assert at_once(0, start) == 4096
    many_terms = SimpleNamespace(groups=(EVERYBODY,) * (1 << 16))
    assert at_once(2, many_terms) == 1024


def test_an_explanation_prints_five_people_and_counts_the_others():
    correction = corrected_by(updates=np.array([[0, 0, UNIT // 8]], dtype=np.int64))
    for n, last in ((5, "4: "), (6, "... and 1 more"), (1008, "... and 1,003 more")):
        rows = pd.DataFrame({"sex": ["F", "M"] * (n // 2) + ["F"] * (n % 2)})
        explained = correction.explain([0.25] * n, rows)
        assert isinstance(explained, Explanation)
        lines = repr(explained).splitlines()
        assert lines[-1].startswith(last)
        assert len(lines) == min(n, 6)


def test_values_without_points_of_their_own_move_nothing():
    ward = FeaturePoints("ward", (250, 0), levels=("A", "B"))  # none if missing
    correction = corrected_by(points=PointsTable((ward,)), unseen="replay")
    rows = pd.DataFrame({"sex": ["F", "F"], "ward": ["A", "B"]})
    explained = correction.explain([0.5, 0.5], rows)
    steps = explained.to_frame()
    assert steps.group.tolist() == ["points: ward=A"]
    assert steps.bin.tolist() == ["+0.250 in log-odds"]
    assert steps.score_after.tolist() == pytest.approx([1 / (1 + np.exp(-0.25))])
    unseen = rows.assign(ward=[None, "C"])
    with pytest.warns(UnknownLevelWarning):
        explained = correction.explain([0.5, 0.5], unseen)
    assert len(explained.to_frame()) == 0
    assert [reason.bin for reason in explained.reasons[:4]] == [
        "+0.250 in log-odds",
        "+0.000 in log-odds",
        "+0.000 in log-odds",
        "+0.000 in log-odds",
    ]


def test_a_level_without_points_takes_no_part_in_what_others_change():
    ward = FeaturePoints("ward", (250, 0), levels=("A", "B"))
    stay = FeaturePoints("stay", (0, 3), cuts=(2.0,))
    correction = corrected_by(points=PointsTable((ward, stay)), unseen="replay")
    rows = pd.DataFrame({"sex": ["F"], "ward": ["C"], "stay": [5.0]})
    with pytest.warns(UnknownLevelWarning):
        steps = correction.explain([0.5], rows).to_frame()
    assert steps.group.tolist() == ["points: stay=2 or over"]
    assert steps.score_after.tolist() == pytest.approx([1 / (1 + np.exp(-0.003))])


def test_a_fit_without_data_for_a_test_changes_nothing():
    model = PMCBoost().fit([0.5] * 4, [1, 0, 0, 0])
    assert model.correction_.n_updates == 0
    assert model.fit_summary_.effects == {}


def test_points_are_the_first_update_where_there_is_no_curve():
    ward = FeaturePoints("ward", (250, 0), levels=("A", "B"))
    updates = np.array([[0, 0, UNIT // 8]], dtype=np.int64)
    correction = corrected_by(points=PointsTable((ward,)), updates=updates)
    rows = pd.DataFrame({"sex": ["F"], "ward": ["B"]})  # without points
    scores = [correction.apply([0.25], rows, n_updates=n)[0] for n in (0, 1, 2)]
    assert scores == pytest.approx([0.25, 0.25, 0.375])

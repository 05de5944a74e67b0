"""Rounded numbers of shared corrections, and the people behind them, worked out by
hand.
"""

import numpy as np
import pandas as pd
import pytest

from propcal import Atoms
from propcal.core.bins import Bins, uniform
from propcal.core.correction.smooth_map import N_KNOTS, SHIFT_UNIT, SmoothStart
from propcal.core.grid import UNIT
from propcal.core.groups import Group
from propcal.core.patterns import patterns_of
from propcal.protect.shared_corrections import (
    PeopleBehind,
    Sharing,
    _common_patterns,
    _round,
    _rounded_bins,
    _rounded_start,
    _rounded_updates,
    sharing_of,
)

EVERYBODY = Group(())
WOMEN = Group((("sex", "F"),))
MEN = Group((("sex", "M"),))


def test_numbers_are_rounded_to_multiples_and_halves_upwards():
    values = np.array([11, 12, 13, -11, -12, -13])
    # in units of 1/64, to multiples of 1/8
    assert _round(values, np.int64(3), 6).tolist() == [8, 16, 16, -8, -8, -16]
    # and to whole numbers
    assert _round(np.array([31, 32]), np.int64(0), 6).tolist() == [0, 64]
    # a number that is left out has -1 digits
    assert _round(np.array([31, 32]), np.int64(-1), 6).tolist() == [0, 64]


def sharing(*, groups=(True,), update_bits=()):
    return Sharing(
        patterns=np.array([True]),
        groups=np.array(groups),
        update_bits=np.array(update_bits),
        start_bits=np.array([]),
    )


def test_updates_are_rounded_left_out_and_renumbered():
    eighth = UNIT // 8
    updates = np.array(
        [
            [0, 3, eighth + 1, 50],
            [1, 4, eighth, 5],  # of few people, in a group of few
            [2, 5, -eighth - 9, 20],
            [2, 6, eighth // 4, 20],  # rounds to nothing
        ]
    )
    kept = sharing(groups=(True, False, True), update_bits=[3, -1, 4, 3])
    found = _rounded_updates(updates, kept)
    assert found.tolist() == [[0, 3, eighth], [1, 5, -eighth]]
    nothing = _rounded_updates(updates[:1], sharing(update_bits=[-1]))
    assert nothing.shape == (0, 3)


def test_terms_of_few_people_are_left_out_and_others_rounded():
    shifts = np.zeros((3, N_KNOTS), dtype=np.int64)
    shifts[:, 7] = SHIFT_UNIT // 4 + 1, SHIFT_UNIT // 4, SHIFT_UNIT // 100
    start = SmoothStart((EVERYBODY, WOMEN, MEN), shifts)
    found = _rounded_start(start, np.array([3, -1, 3]))
    assert found.groups == (EVERYBODY,)
    assert found.shifts[0, 7] == SHIFT_UNIT // 4
    assert np.count_nonzero(found.shifts) == 1
    assert _rounded_start(start, np.array([-1, -1, 3])) is None
    assert _rounded_start(None, np.array([])) is None


def quantile_bins(*edges):
    return Bins(np.array([0, *edges, UNIT]), "quantile", len(edges) + 1)


def test_edges_of_quantile_bins_are_rounded_while_they_stay_apart():
    unit = UNIT >> 10
    found = _rounded_bins(quantile_bins(300 * unit + 5, 301 * unit - 7))
    assert found.edges.tolist() == [0, 300 * unit, 301 * unit, UNIT]
    assert (found.kind, found.divisor) == ("quantile", 3)
    # these two would be one edge with 10 binary digits, and are not with 11
    found = _rounded_bins(quantile_bins(300 * unit, 300 * unit + unit // 2 - 3))
    assert found.edges.tolist() == [0, 300 * unit, 300 * unit + unit // 2, UNIT]
    # the finest rounding is to even numbers, of which there are two for these three
    close = quantile_bins(300 * unit + 1, 300 * unit + 2, 300 * unit + 3)
    assert _rounded_bins(close) is close
    assert _rounded_bins(uniform(3)).edges.tolist() == uniform(3).edges.tolist()


def patterns_with(rows):
    """Patterns of race and sex; `rows` have the places of levels."""
    levels = ("A", "B", "C"), ("F", "M")
    codes = [np.array(column) for column in zip(*rows)]
    found, _ = patterns_of(("race", "sex"), levels, codes, len(rows), {})
    return found


def listed(patterns):
    return [patterns.key(p) for p in range(len(patterns))]


def test_only_patterns_of_many_people_are_listed():
    patterns = patterns_with([(0, 0), (1, 0), (2, 1)])
    common = np.array([True, True, False])
    found = _common_patterns(patterns, common, (WOMEN,))
    assert listed(found) == [("A", "F"), ("B", "F")]


def test_a_level_that_a_group_needs_is_listed_with_levels_that_are_shown_anyway():
    patterns = patterns_with([(0, 0), (1, 0), (2, 1)])
    common = np.array([False, True, False])
    found = _common_patterns(patterns, common, (MEN, WOMEN))
    assert listed(found) == [("B", "F"), ("B", "M")]
    nobody = np.array([False, False, False])
    race = Group((("race", "C"),))
    found = _common_patterns(patterns, nobody, (MEN, race))
    assert listed(found) == [("C", "M")]


def visits(**columns):
    """Three women (two of them at 0.2), and two men; scores and outcomes by hand."""
    frame = pd.DataFrame(
        {
            "score": [0.2, 0.2, 0.7, 0.2, 1.0],
            "y": [0, 0, 1, 1, 1],
            "sex": ["F", "F", "F", "M", "M"],
        }
    )
    return frame.assign(**columns)


def atoms_of(frame, **names):
    return Atoms.from_frame(frame, score="score", outcome="y", groups=["sex"], **names)


def test_people_behind_patterns_groups_and_updates_are_counted():
    behind = PeopleBehind(atoms_of(visits()))
    assert behind.in_patterns().tolist() == [3, 2]
    assert behind.in_groups([EVERYBODY, WOMEN, MEN]).tolist() == [5, 3, 2]
    updates = np.array([[0, 2, UNIT // 10 + 1], [1, 3, 5], [2, 9, 5]])
    # everybody scored 0.2 moves to 0.3, where the second update finds two women
    groups = [EVERYBODY, WOMEN, MEN]
    assert behind.in_updates(groups, uniform(10), updates, None).tolist() == [3, 2, 1]


def test_repeat_visits_are_one_person():
    atoms = atoms_of(visits(id=["a", "a", "a", "b", "b"]), cluster="id")
    behind = PeopleBehind(atoms)
    assert behind.in_patterns().tolist() == [1, 1]
    assert behind.in_groups([EVERYBODY, WOMEN, MEN]).tolist() == [2, 1, 1]
    updates = np.array([[0, 2, 5], [1, 7, 5]])
    groups = [EVERYBODY, WOMEN]
    assert behind.in_updates(groups, uniform(10), updates, None).tolist() == [2, 1]


def test_a_patient_with_two_patterns_is_in_a_group_once():
    frame = visits(id=["a", "b", "c", "a", "d"])
    behind = PeopleBehind(atoms_of(frame, cluster="id"))
    assert behind.in_patterns().tolist() == [3, 2]
    assert behind.in_groups([EVERYBODY]).tolist() == [4]


def test_rows_that_count_several_times_are_one_person_of_each_score_and_outcome():
    behind = PeopleBehind(atoms_of(visits(n=[30, 40, 50, 60, 70]), weight="n"))
    # women at 0.2 without the outcome and at 0.7 with it; men at 0.2 and 1
    assert behind.in_patterns().tolist() == [2, 2]
    both = visits(y=[0, 1, 1, 1, 1], n=[30, 40, 50, 60, 70])
    behind = PeopleBehind(atoms_of(both, weight="n"))
    assert behind.in_patterns().tolist() == [3, 2]


def test_levels_of_everybody_at_0_and_1_are_those_of_the_people_scored_so():
    shifts = np.zeros((3, N_KNOTS), dtype=np.int64)
    shifts[0, 0] = shifts[1, 1] = 5
    shifts[2, -1] = 5
    behind = PeopleBehind(atoms_of(visits()))
    terms = [
        (SmoothStart((EVERYBODY, EVERYBODY, EVERYBODY), shifts), [0, 5, 1]),
        (SmoothStart((WOMEN, WOMEN, WOMEN), shifts), [3, 3, 3]),
        (None, []),
    ]
    for start, people in terms:
        assert behind.in_terms(start).tolist() == people


@pytest.mark.parametrize(("n", "bits"), [(10, -1), (11, 3), (16, 4)])
def test_an_update_keeps_the_digits_of_the_people_that_it_moved(n, bits):
    frame = pd.DataFrame({"score": 0.2, "y": [0, 1] * (n // 2) + [1] * (n % 2)})
    atoms = Atoms.from_frame(frame, score="score", outcome="y")
    updates = np.array([[0, 2, UNIT // 7, n]])
    found = sharing_of(atoms, [EVERYBODY], uniform(10), None, updates)
    assert found.update_bits.tolist() == [bits]
    assert found.groups.tolist() == found.patterns.tolist() == [n >= 11]
    again = frame.assign(id=[*range(10), *[0] * (n - 10)])  # ten patients
    atoms = Atoms.from_frame(again, score="score", outcome="y", cluster="id")
    found = sharing_of(atoms, [EVERYBODY], uniform(10), None, updates)
    assert found.update_bits.tolist() == [-1]

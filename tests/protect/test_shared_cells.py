"""Cells of atoms that may be shared, with numbers worked out by hand."""

import numpy as np
import pandas as pd
import pytest

from propcal import Atoms
from propcal.core.grid import from_grid, to_grid
from propcal.core.loss_bounds import are_coarse
from propcal.errors import InputError
from propcal.protect.shared_atoms import (
    _coarse,
    _information_lost,
    _People,
    _reveals_rest,
    are_shared,
)


def atoms_of(counts, **columns):
    """Atoms of people with the outcome and without it, at each score."""
    rows = [
        (score, outcome)
        for score, numbers in counts.items()
        for outcome, n in zip((1, 0), numbers)
        for _ in range(n)
    ]
    frame = pd.DataFrame(rows, columns=["score", "y"]).assign(**columns)
    return Atoms.from_frame(frame, score="score", outcome="y", groups=list(columns))


def people_of_cells(counts):
    """Half of the people at each score have the outcome."""
    halves = {score: (n // 2, n // 2) for score, n in counts.items()}
    return atoms_of(halves).share().people.tolist()


def test_a_cell_ends_where_it_has_11_people_of_either_outcome():
    apart = atoms_of({0.11: (11, 20), 0.15: (20, 11)})
    assert apart.share().people.tolist() == [31, 31]
    together = atoms_of({0.11: (10, 20), 0.15: (20, 11)})
    assert together.share().people.tolist() == [61]


def test_what_is_left_over_in_a_tenth_joins_the_cell_before_it_in_that_tenth():
    assert people_of_cells({0.11: 40, 0.17: 10, 0.25: 40}) == [50, 40]


def test_what_is_left_over_in_another_tenth_begins_the_next_cell():
    assert people_of_cells({0.11: 40, 0.25: 10, 0.35: 40}) == [40, 50]


def test_what_is_left_over_at_the_end_joins_the_last_cell():
    assert people_of_cells({0.11: 40, 0.35: 40, 0.95: 10}) == [40, 50]


def test_two_cells_are_joined_if_the_last_reveals_the_rest():
    # 28 + 10 people of two scores: 36 beyond one each, below 2 * 11 + 16
    assert people_of_cells({0.35: 40, 0.38: 28, 0.45: 10}) == [78]
    assert people_of_cells({0.35: 40, 0.38: 30, 0.45: 10}) == [40, 40]


@pytest.mark.parametrize(
    ("bins", "reveals"),
    [([3, 3, 4], True), ([2, 3, 4], False), ([3, 3, 3], False), ([2, 3, 3], False)],
)
def test_a_last_cell_reveals_the_rest_if_it_begins_where_the_one_before_ends(
    bins, reveals
):
    assert _reveals_rest(np.array([20, 10]), np.array(bins), 11) == reveals


def test_a_cell_of_one_score_has_that_score():
    shared = atoms_of({0.123: (20, 20)}).share()
    assert from_grid(shared.score) == pytest.approx([0.123])
    assert are_coarse(shared).tolist() == [False]


@pytest.mark.parametrize(("n_others", "coarse"), [(1, True), (38, True), (39, False)])
def test_a_cell_of_fewer_than_40_scores_is_coarse(n_others, coarse):
    """Nobody has the outcome but 11 people at the last score."""
    counts = {0.5 + i / 1000: (0, 2) for i in range(n_others)}
    shared = atoms_of(counts | {0.59: (11, 11)}).share()
    assert shared.people.tolist() == [2 * n_others + 22]
    assert are_coarse(shared).tolist() == [coarse]


@pytest.mark.parametrize(
    ("people", "counted"),
    [
        # 15 people beyond one at each score are one block, cut in half
        ([5, 12], [8.5, 8.5]),
        # 31 are one block as well
        ([20, 13], [16.5, 16.5]),
        # 39 are two blocks: an end in the first is spread over its outer 8 people
        ([11, 30], [5, 36]),
        ([30, 11], [36, 5]),
        # 48 are three blocks of 16: an end in the middle one is at its middle
        ([21, 29], [25, 25]),
        # two ends in the first block divide its outer 8 people in three
        ([3, 4, 44], [1 + 8 / 3, 1 + 8 / 3, 1 + 48 - 16 / 3]),
        # nobody beyond one at each score
        ([1, 1], [1, 1]),
    ],
)
def test_people_of_few_scores_are_counted_by_blocks(people, counted):
    assert _coarse(np.array(people)).tolist() == pytest.approx(counted)


def test_joining_levels_loses_least_where_one_is_small():
    by_hand = 10 * np.log(40 / 10) + 30 * np.log(40 / 30)
    assert _information_lost(10, 30) == pytest.approx(by_hand)
    assert _information_lost(30, 10) == pytest.approx(by_hand)
    assert _information_lost(0, 30) == 0


def test_atoms_are_shared_with_a_threshold():
    atoms = atoms_of({0.1: (20, 20), 0.2: (20, 20)})
    shared = atoms.share()
    assert are_shared(shared, 11)
    assert are_shared(shared, 5)
    assert not are_shared(shared, 12)
    assert not are_shared(atoms, 11)
    assert not are_shared(None, 11)
    exactly = atoms_of({0.1: (11, 20), 0.2: (20, 11)}).share()
    assert exactly.people.tolist() == [31, 31]
    assert are_shared(exactly, 11)


def test_the_fewest_people_of_a_pattern_are_counted():
    atoms = atoms_of({0.1: (5, 20), 0.2: (20, 3)})
    assert _People.of(atoms).of_patterns().tolist() == [23]
    assert _People.of(atoms_of({0.1: (5, 20)})).of_patterns().tolist() == [5]


def test_rows_that_count_several_times_may_be_one_person():
    frame = pd.DataFrame({"score": [0.1, 0.1, 0.2], "y": [1, 0, 1], "n": [30, 40, 50]})
    atoms = Atoms.from_frame(frame, score="score", outcome="y", weight="n")
    assert _People.of(atoms).behind == [[1, 1], [1, 0]]
    with pytest.raises(InputError):
        atoms.share()


def test_a_patient_with_visits_at_two_scores_is_counted_once():
    frame = pd.DataFrame(
        {"score": [0.1, 0.2, 0.2, 0.1], "y": [1, 1, 1, 0], "id": ["a", "a", "b", "c"]}
    )
    atoms = Atoms.from_frame(frame, score="score", outcome="y", cluster="id")
    people = _People.of(atoms)
    sizes = [[people.size(n) for n in pair] for pair in people.behind]
    assert sizes == [[1, 1], [2, 0]]
    assert [people.size(n) for n in people.joined(people.behind[0], 1)] == [2, 1]


def test_the_smallest_other_level_is_folded_with_a_rare_one():
    race = ["A"] * 100 + ["B"] * 60 + ["C"] * 30 + ["D"] * 10
    frame = pd.DataFrame({"score": 0.5, "y": [0, 1] * 100, "race": race})
    columns = {"score": "score", "outcome": "y", "groups": ["race"]}
    atoms = Atoms.from_frame(frame, **columns)
    shared = atoms.share()
    assert shared.shared.folded == {"race": 2}
    people = dict(zip(shared.patterns.levels[0], shared.pattern_sums(shared.people)))
    assert people == {"A": 100, "B": 60, "other levels": 40}


@pytest.mark.parametrize("fewest", [1, 0, 1_000_001])
def test_a_threshold_is_at_least_2_and_at_most_a_million(fewest):
    atoms = atoms_of({0.1: (20, 20)})
    with pytest.raises(InputError, match="fewest"):
        atoms.share(fewest=fewest)


def test_two_people_of_either_outcome_may_be_asked_for():
    shared = atoms_of({0.1: (2, 3), 0.2: (3, 2), 0.3: (1, 2)}).share(fewest=2)
    assert shared.people.sum() == 13
    assert min(shared.positives.min(), (shared.people - shared.positives).min()) >= 2


def test_a_shared_score_keeps_ten_binary_digits():
    score = 1 / 3 / 16  # of a continuous score, in the tenth from 0
    shared = atoms_of({score: (20, 20)}).share()
    (found,) = from_grid(shared.score)
    assert found == pytest.approx(score, rel=2.0**-10)
    assert found != pytest.approx(score, rel=2.0**-14)
    assert to_grid(np.array([found]))[0] == shared.score[0]

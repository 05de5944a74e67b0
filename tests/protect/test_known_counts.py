"""Rules of protected counts, with numbers worked out by hand: docs/reference/atoms-file.md has the rules."""

import numpy as np
import pandas as pd
import pytest

from propcal import Atoms
from propcal.errors import InputError
from propcal.protect.rule import Disclosed, Rule
from propcal.protect.shared_atoms import _few_scores, _tells_rest


@pytest.mark.parametrize(
    ("people", "few"),
    [
        ([20] + [1] * 11, True),  # 12 different scores, 31 people
        ([20] + [1] * 12, False),  # 13: fewer than a fifth belong to two people or more
        ([20, 20] + [1] * 11, False),  # 2 of 13 are fewer than a fifth
        ([20, 20, 20] + [1] * 12, True),  # 3 of 15 are a fifth
        ([1] * 6 + [2] * 6, True),  # 18 people: 1.5 each
        ([1] * 7 + [2] * 5, False),
    ],
)
def test_a_pattern_has_few_scores_from_one_and_a_half_people_each(people, few):
    assert _few_scores(np.array(people)) == few


@pytest.mark.parametrize(("people", "tells"), [([20, 19], True), ([20, 20], False), ([20, 10, 10], True)])
def test_a_last_row_tells_the_rest_with_fewer_than_38_people_beyond_one_at_each_score(people, tells):
    bins = np.array([3, 3, *[4] * (len(people) - 1)])
    assert _tells_rest(np.array(people), bins, 11) == tells


def merged(counts):
    """Numbers of people of shared rows; half of the people at each score have the outcome."""
    rows = [(score, outcome) for score, n in counts.items() for outcome in (0, 1) for _ in range(n // 2)]
    frame = pd.DataFrame(rows, columns=["score", "y"])
    return Atoms.from_frame(frame, score="score", outcome="y").share().people.tolist()


def test_only_the_last_two_rows_are_joined_if_the_last_tells_the_rest():
    # the fourth row begins at 0.38, in the tenth in which the third ends, and reaches into the next tenth
    assert merged({0.1: 40, 0.2: 40, 0.35: 40, 0.38: 28, 0.45: 10}) == [40, 40, 78]  # 36 beyond one each
    assert merged({0.1: 40, 0.2: 40, 0.35: 40, 0.38: 30, 0.45: 10}) == [40, 40, 40, 40]  # 38


def test_a_patient_counts_for_the_outcome_that_the_rows_have():
    # 30 patients with the outcome and 5 without it: too few to share, however many patients there are
    frame = pd.DataFrame({"score": 0.5, "y": [1] * 30 + [0] * 5, "id": np.arange(35)})
    with pytest.raises(InputError):
        Atoms.from_frame(frame, score="score", outcome="y", cluster="id").share()


def test_of_a_rest_nothing_is_known():
    events = people = np.array([20.0])
    no = np.zeros((2, 1), dtype=bool)
    low, high = Disclosed(people, events, no, no, Rule(11)).bounds(np.array([False]), 1)
    assert low.reshape(3, 2)[:, 1].tolist() == [0, 0, 0]
    assert (-high.reshape(3, 2)[:, 1]).tolist() == [1e9, 1e9, 1e9]

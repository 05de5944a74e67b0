"""Rules of protected counts, with numbers worked out by hand:
docs/reference/atoms-file.md has the rules.
"""

import numpy as np
import pandas as pd
import pytest

from propcal import Atoms
from propcal.auditing.headcount import ScoreValues
from propcal.errors import InputError
from propcal.protect.disclosure_rule import VARIANCE, Rule, reveals_counts
from propcal.protect.shared_atoms import _few_scores, _reveals_rest
from propcal.protect.shown_ratios import moved_ratios
from propcal.protect.withheld_sets import Disclosed, Hidden, withheld_neighbours


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


@pytest.mark.parametrize(
    ("people", "tells"), [([20, 19], True), ([20, 20], False), ([20, 10, 10], True)]
)
def test_a_last_row_tells_the_rest_with_fewer_than_38_people_beyond_one_at_each_score(
    people, tells
):
    bins = np.array([3, 3, *[4] * (len(people) - 1)])
    assert _reveals_rest(np.array(people), bins, 11) == tells


def merged(counts):
    """Numbers of people of shared rows; half of the people at each score have the
    outcome.
    """
    rows = [
        (score, outcome)
        for score, n in counts.items()
        for outcome in (0, 1)
        for _ in range(n // 2)
    ]
    frame = pd.DataFrame(rows, columns=["score", "y"])
    return Atoms.from_frame(frame, score="score", outcome="y").share().people.tolist()


def test_only_the_last_two_rows_are_joined_if_the_last_tells_the_rest():
    # the fourth row begins at 0.38, in the tenth in which the third ends, and reaches
    # into the next tenth
    assert merged({0.1: 40, 0.2: 40, 0.35: 40, 0.38: 28, 0.45: 10}) == [
        40,
        40,
        78,
    ]  # 36 beyond one each
    assert merged({0.1: 40, 0.2: 40, 0.35: 40, 0.38: 30, 0.45: 10}) == [
        40,
        40,
        40,
        40,
    ]  # 38


def test_a_patient_counts_for_the_outcome_that_the_rows_have():
    # 30 patients with the outcome and 5 without it: too few to share, however many
    # patients there are
    frame = pd.DataFrame({"score": 0.5, "y": [1] * 30 + [0] * 5, "id": np.arange(35)})
    with pytest.raises(InputError):
        Atoms.from_frame(frame, score="score", outcome="y", cluster="id").share()


def test_of_a_rest_nothing_is_known():
    events, people, no = (
        np.array([30.0, 20.0]),
        np.array([60.0, 40.0]),
        np.zeros((2, 2), dtype=bool),
    )
    count = np.array([events, people - events, people])
    hidden = Hidden(Disclosed(people, events, no, no, Rule(11)), count, [(0, [1])])
    low, high = hidden.bounds(np.array([False, False])).reshape(2, 3, 3)[:, :, 2]
    assert low.tolist() == [0, 0, 0]
    assert (-high).tolist() == [1e9, 1e9, 1e9]


@pytest.mark.parametrize(("people", "few"), [(19, False), (20, True), (400, True)])
def test_the_mean_of_ten_scores_reveals_counts_if_two_people_or_more_share_each(
    people, few
):
    ones = np.full(10, people / 10)
    assert (
        reveals_counts(ScoreValues(np.arange(10) / 10, ones, ones, ones, ones)) == few
    )


def test_a_shown_ratio_is_as_uncertain_as_the_exact_one_its_mean_score_and_its_moved_counts():
    """100 of 1,000 had the outcome: a binomial count has a variance of 0.9 % of its
    square.

    Half of that and a tenth of it are kept below and above; the mean score of 0.2 is
    known to within 0.01."""
    low, high = (
        0.5 * np.exp(sign * 1.959964 * np.sqrt(part * 0.009))
        for sign, part in ((-1, 0.5), (1, 0.1))
    )
    exact = [np.array([value]) for value in (0.5, low, high)]
    shown = [np.array([value]) for value in (1000.0, 100.0, 0.2, 0.01**2)]
    added = (0.01 / 0.2) ** 2 + VARIANCE * (1 / 100**2 + 1 / 1000**2)
    ratio = moved_ratios(exact, np.array([[100.0], [900.0]]), shown)
    ends = [
        0.5 * np.exp(sign * 1.96 * np.sqrt(part * 0.009 + added))
        for sign, part in ((-1, 0.5), (1, 0.1))
    ]
    assert [float(value[0]) for value in ratio] == pytest.approx(
        [0.5, *ends], abs=0.005
    )


def test_a_sum_of_many_small_parts_may_be_shown_beside_them():
    # 150 clinics of 5 people, of whom 1 has the outcome, a city of 2,000, and all of
    # them: each clinic can have 0 to 10 with the outcome and without it, whatever the
    # clinics have together
    events, people = (
        np.r_[550.0, 400, [1.0] * 150, 150],
        np.r_[2750.0, 2000, [5.0] * 150, 750],
    )
    small = np.zeros((2, 153), dtype=bool)
    small[:, 2:152] = True
    shown = np.where(small[0], np.nan, people), np.where(small[0], np.nan, events)
    told = Disclosed(*shown, small, small, Rule(11))
    count, clinics = np.array([events, people - events, people]), range(2, 152)
    sums = [(0, range(1, 152)), (152, clinics)]
    assert not withheld_neighbours(told, count, sums).any()
    hidden = Hidden(told, count, sums)
    assert (hidden.net.parts.data == 1).all()  # a stored zero would count as a part

"""The rule of small and moved counts, with numbers worked out by hand."""

import numpy as np
import pytest

from propcal.auditing.headcount import ScoreValues
from propcal.errors import InputError
from propcal.numbers import About, Limit
from propcal.protect.disclosure_rule import (
    MOVES,
    VARIANCE,
    Rule,
    moved,
    reveals_counts,
)

UNMOVED = next(k for k in range(100) if moved(np.uint64(k), 0) == 0)


def values(score, people, different=None):
    """Different scores, whose counts are not moved."""
    people = np.array(people, dtype=float)
    different = people if different is None else np.array(different, dtype=float)
    key = np.full(len(people), UNMOVED, dtype=np.uint64)
    return ScoreValues(np.array(score), people, people / 2, different, key)


def test_moves_are_at_most_2_and_0_on_average():
    assert MOVES.tolist() == [-2, -1, -1, 0, 0, 0, 1, 1, 2]
    assert pytest.approx(12 / 9) == VARIANCE


def test_the_threshold_is_off_or_at_least_5():
    assert Rule.asked(None) is None
    assert Rule.asked(0) is None
    assert Rule.asked(5) == Rule(5)
    for fewest in (1, 4, -1, 1_000_001):
        with pytest.raises(InputError):
            Rule.asked(fewest)
    assert Rule(1_000_000).fewest == 1_000_000


def test_ten_are_few_and_eleven_are_not():
    assert Rule(11).small(np.array([0, 10, 10.99, 11, 12])).tolist() == [
        *[True] * 3,
        *[False] * 2,
    ]


@pytest.mark.parametrize(("count", "shown"), [(0, 0), (11, 10), (13, 15), (1238, 1240)])
def test_counts_of_no_table_are_rounded_to_five(count, shown):
    found = Rule(11).to_nearest_five(count)
    assert isinstance(found, About)
    assert found == shown


@pytest.mark.parametrize("count", [1, 10])
def test_few_people_of_no_table_are_fewer_than_11(count):
    found = Rule(11).to_nearest_five(count)
    assert isinstance(found, Limit)
    assert (float(found), found.side) == (11, "below")


def test_scores_of_few_people_are_taken_with_their_neighbours():
    """The second and third score have 6 people each, who come again: as few people can
    have made the visits, each score counts as 10. The last has 4, who come again.
    """
    scores = values([0.0, 0.1, 0.3, 0.5], [20, 60, 60, 30], [20, 6, 6, 4])
    large, together, last = Rule(11)._runs(scores)
    assert large.score == 0.0
    assert large.people == 20 + moved(np.uint64(UNMOVED), 0)
    assert (large.enough, large.left_out) == (True, 0.0)
    assert together.score == pytest.approx(0.2)
    assert (together.people, together.enough, together.left_out) == (20, True, 100)
    assert last.score == 0.5
    assert (last.people, last.enough, last.left_out) == (10, False, 20)


def test_eleven_different_people_of_neighbouring_scores_are_enough():
    scores = values([0.1, 0.3, 0.5], [5, 6, 20])
    first, second = Rule(11)._runs(scores)
    assert (first.enough, second.enough) == (True, True)
    assert first.left_out == 0
    few, _ = Rule(11)._runs(values([0.1, 0.3, 0.5], [5, 5, 20]))
    assert not few.enough


def test_a_mean_of_large_counts_has_the_variance_of_their_moves():
    mean, variance = Rule(11).mean_of_few(values([0.0, 1.0], [500, 100]), 600.0)
    assert mean == pytest.approx(100 / 600)
    squares = (1 / 6) ** 2 + (5 / 6) ** 2
    assert variance == pytest.approx(12 / 9 * squares / 600**2)


def test_a_score_of_few_people_counts_as_five():
    mean, variance = Rule(11).mean_of_few(values([0.5, 0.6], [590, 4]), 594.0)
    assert mean == pytest.approx((589 * 0.5 + 5 * 0.6) / 594)
    assert variance == pytest.approx(12 / 9 * (0.5 - mean) ** 2 / 594**2)


def test_a_mean_that_few_people_decide_is_withheld():
    rule = Rule(11)
    assert np.isnan(rule.mean_of_few(values([0.0, 1.0], [590, 4]), 594.0)[0])
    assert np.isnan(rule.mean_of_few(values([0.5], [4]), 4.0)[0])  # nothing else


@pytest.mark.parametrize(("few_score", "is_shown"), [(0.7, True), (0.8, False)])
def test_five_people_may_change_a_mean_by_a_twentieth(few_score, is_shown):
    """Of 50 people 45 score 0.5 and 5 others 0.7 or 0.8, around means of 0.52 and 0.53.

    The 5 could change the sum of scores by 5 x 0.18 or 5 x 0.27; a twentieth of it is
    1.3 and 1.325.
    """
    mean, _ = Rule(11).mean_of_few(values([0.5, few_score], [46, 4]), 50.0)
    assert np.isfinite(mean) == is_shown


@pytest.mark.parametrize(("n_scores", "reveals"), [(39, True), (40, False)])
def test_a_mean_of_forty_scores_does_not_reveal_counts(n_scores, reveals):
    scores = np.arange(n_scores) / 100
    assert reveals_counts(values(scores, np.full(n_scores, 2.0))) == reveals


def test_a_secret_moves_counts_by_other_numbers(monkeypatch):
    keys = np.arange(200, dtype=np.uint64).reshape(2, 100)
    openly = moved(keys, 0)
    monkeypatch.setenv("PROPCAL_SECRET", "of the institution")
    secretly = moved(keys, 0)
    assert secretly.shape == (2, 100)
    assert (openly != secretly).mean() > 0.5
    assert (secretly == moved(keys, 0)).all()
    assert (secretly != moved(keys, 1)).any()
    assert moved(keys[1, 7], 0) == secretly[1, 7]  # of this cell alone

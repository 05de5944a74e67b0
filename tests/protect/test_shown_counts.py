"""Shown counts, with numbers worked out by hand."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from propcal.auditing.headcount import Headcount, ScoreValues
from propcal.auditing.names import CHANCE, TOO_HIGH, TOO_LOW
from propcal.core.groups import Group
from propcal.numbers import About, Limit
from propcal.protect.disclosure_rule import Rule, moved, shown_p
from propcal.protect.shown_counts import (
    Sets,
    ShownCounts,
    _few_in_many_visits,
    _moved_intercept,
    printed,
    shown_table,
    sums_of_groups,
)

FEW_EVENTS = (True, False)
FEW_OTHERS = (False, True)
LARGE = (False, False)


def headcount(events, others, score=0.2, different=None, keys=None):
    people = np.array([events, others], dtype=float)
    n = people.shape[1]
    if keys is None:
        keys = np.arange(1, n + 1)
    return Headcount(
        people=people,
        different=people if different is None else np.array(different, dtype=float),
        score=np.broadcast_to(np.asarray(score, dtype=float), n).copy(),
        key=np.asarray(keys, dtype=np.uint64),
    )


def shown(people, events, *, small=None, few=None, mean=0.2, exact=None):
    """Counts that are shown; `small` and `few` have a pair for each set."""
    n = len(people)
    small = np.array([LARGE] * n if small is None else small).T
    people = np.array(people, dtype=float)
    events = np.array(events, dtype=float)
    return ShownCounts(
        people=people,
        events=events,
        small=small,
        few=small if few is None else np.array(few).T,
        rule=Rule(11),
        mean=np.broadcast_to(np.asarray(mean, dtype=float), n),
        mean_variance=np.zeros(n),
        headcount=exact or headcount(events, people - events),
    )


def is_limit(value, number, side):
    return isinstance(value, Limit) and (float(value), value.side) == (number, side)


def test_a_group_is_the_sum_of_its_parts_by_one_more_attribute():
    groups = [
        Group(()),
        Group((("race", "A"),)),
        Group((("race", "B"),)),
        Group((("sex", "F"),)),
        Group((("race", "A"), ("sex", "F"))),
    ]
    assert sums_of_groups(groups) == [(0, [1, 2]), (0, [3]), (3, [4]), (1, [4])]


@pytest.mark.parametrize(
    ("people", "events", "rate"), [(0, 0, np.nan), (1, 1, 1.0), (40, 10, 0.25)]
)
def test_a_rate_needs_people(people, events, rate):
    counts = shown([people], [events])
    assert counts.rate_at(0) == pytest.approx(rate, nan_ok=True)
    assert counts.known.tolist() == [people > 0]


def test_people_of_two_small_counts_are_fewer_than_21():
    counts = shown(
        [np.nan, np.nan, 50],
        [np.nan, np.nan, 20],
        small=[(True, True), (True, True), LARGE],
        few=[(True, True), (True, False), LARGE],
    )
    assert is_limit(counts.people_at(0), 21, "below")
    assert np.isnan(counts.people_at(1))  # many visits of few people
    assert isinstance(counts.people_at(2), About)
    assert counts.people_at(2) == 50


def test_events_are_few_many_or_not_shown():
    counts = shown(
        [100, 100, 100, np.nan, 60],
        [np.nan, np.nan, np.nan, np.nan, 30],
        small=[FEW_EVENTS, FEW_EVENTS, FEW_OTHERS, FEW_OTHERS, LARGE],
        few=[FEW_EVENTS, LARGE, FEW_OTHERS, FEW_OTHERS, LARGE],
    )
    assert is_limit(counts.events_at(0), 11, "below")
    assert np.isnan(counts.events_at(1))  # many visits of few people
    # at most 10 of at least 98 people do not have the outcome
    assert is_limit(counts.events_at(2), 87, "above")
    assert np.isnan(counts.events_at(3))
    assert isinstance(counts.events_at(4), About)
    assert counts.events_at(4) == 30


def test_more_than_a_negative_number_of_events_is_said_of_nobody():
    counts = shown([12], [np.nan], small=[FEW_OTHERS])
    assert is_limit(counts.events_at(0), 0, "above")


def limits(counts, people, mean, finding, exact_ratio=1.0):
    set_of_people = shown([people], [np.nan], small=[counts], mean=mean)
    return set_of_people.limits_at(0, finding, exact_ratio)


def test_a_rate_of_few_events_is_below_ten_and_a_half_events():
    rate, ratio = limits(FEW_EVENTS, 200, 0.1, CHANCE)
    assert is_limit(rate, 10.5 / 200, "below")
    assert np.isnan(ratio)
    rate, ratio = limits(FEW_OTHERS, 200, 0.1, CHANCE)
    assert is_limit(rate, 1 - 10.5 / 200, "above")
    assert np.isnan(ratio)
    assert np.isnan(limits(FEW_EVENTS, 200, np.nan, TOO_HIGH)).all()


@pytest.mark.parametrize(
    ("people", "exact_ratio", "limit"),
    [
        (200, 0.49, 0.5),
        (200, 0.5, 1.0),
        (80, 0.49, 0.5),  # 10 events are expected
        (79, 0.49, 1.0),
    ],
)
def test_half_the_events_are_said_where_ten_are_expected(people, exact_ratio, limit):
    rate, ratio = limits(FEW_EVENTS, people, 0.125, TOO_HIGH, exact_ratio)
    assert is_limit(ratio, limit, "below")
    # 10.5 of 80 people are more than the predicted 12.5 %
    if people == 200:
        assert is_limit(rate, 10.5 / 200, "below")
    else:
        assert is_limit(rate, 0.125, "below")


def test_a_rate_that_equals_the_prediction_does_not_support_too_high():
    rate, _ = limits(FEW_EVENTS, 84, 10.5 / 84, TOO_HIGH)
    assert is_limit(rate, 0.125, "below")


@pytest.mark.parametrize(
    ("people", "exact_ratio", "limit"),
    [
        (20, 2.01, 2.0),  # 2.5 events are expected
        (20, 2.0, 1.0),
        (21, 2.01, 1.0),
    ],
)
def test_twice_the_events_are_said_where_two_and_a_half_are_expected(
    people, exact_ratio, limit
):
    rate, ratio = limits(FEW_EVENTS, people, 0.125, TOO_LOW, exact_ratio)
    assert is_limit(ratio, limit, "above")
    assert is_limit(rate, 0.125, "above")


def test_few_without_the_outcome_support_too_low_and_not_too_high():
    rate, ratio = limits(FEW_OTHERS, 84, 0.3, TOO_LOW, exact_ratio=2.5)
    assert is_limit(rate, 0.875, "above")
    assert is_limit(ratio, 2.0, "above")
    rate, ratio = limits(FEW_OTHERS, 84, 0.875, TOO_LOW)  # a rate at the prediction
    assert is_limit(rate, 0.875, "above")
    assert is_limit(ratio, 1.0, "above")
    rate, ratio = limits(FEW_OTHERS, 84, 0.9, TOO_LOW)
    assert is_limit(rate, 0.9, "above")
    rate, ratio = limits(FEW_OTHERS, 84, 0.97, TOO_HIGH, exact_ratio=0.4)
    assert is_limit(rate, 0.97, "below")
    assert is_limit(ratio, 0.5, "below")


def test_the_ratio_of_all_others_is_that_of_the_difference_of_shown_counts():
    counts = shown([1000, 400], [100, 60], mean=[0.1, 0.2])
    # 40 of 600 people, where 100 - 80 were expected; a binomial interval
    reach = 1.959964 * np.sqrt(560 / 600 / 40)
    claim = SimpleNamespace(
        others=2.0, others_low=2 * np.exp(-reach), others_high=2 * np.exp(reach)
    )
    two_moves = 2 * 4 / 3 * (1 / 40**2 + 1 / 600**2)
    wider = 1.959964 * np.sqrt(560 / 600 / 40 + two_moves)
    others = counts.others_at(1, claim)
    assert list(others) == ["others", "others_low", "others_high"]
    assert list(others.values()) == pytest.approx(
        [2.0, 2 * np.exp(-wider), 2 * np.exp(wider)], abs=0.0051
    )


@pytest.mark.parametrize(("n_others", "is_shown"), [(10, False), (11, True)])
def test_the_ratio_of_few_others_is_not_shown(n_others, is_shown):
    counts = shown([1000, 400], [100, 100 - n_others])
    claim = SimpleNamespace(others=0.1, others_low=0.05, others_high=0.2)
    others = counts.others_at(1, claim)
    assert np.isfinite(list(others.values())).all() == is_shown


def test_statistics_are_shown_of_50_people_none_of_whose_counts_is_small():
    counts = shown(
        [49, 50, 50], [20, 20, 20], small=[LARGE, LARGE, FEW_EVENTS], mean=0.4
    )
    assert counts.large.tolist() == [False, True, False]


def test_sets_are_withheld_where_most_visits_are_of_few_people():
    events = np.array([60.0, 50.0, 40.0, 60.0])
    others = np.array([40.0, 50.0, 60.0, 40.0])
    count = np.array([events, others, events + others])
    of_few_people = np.array([[True] * 3 + [False], [False] * 3 + [True]])
    withheld = _few_in_many_visits(count, of_few_people)
    assert withheld.tolist() == [True, False, False, False]
    mirrored = _few_in_many_visits(count[[1, 0, 2]], of_few_people[::-1])
    assert mirrored.tolist() == [True, False, False, False]


def test_a_count_is_moved_by_its_own_key_and_never_below_11():
    keys = np.arange(1, 61)
    n = len(keys)
    counts = Sets([headcount([11] * n, [11] * n, keys=keys)]).shown(Rule(11))
    key = keys.astype(np.uint64)
    events = np.maximum(11 + moved(key, 1), 11)
    people = np.maximum(22 + moved(key, 0), events + 11)
    assert counts.events.tolist() == events.tolist()
    assert counts.people.tolist() == people.tolist()
    assert set(events) == {11, 12, 13}


def test_nobody_is_shown_as_nobody():
    counts = Sets([headcount([100, 0, 3], [200, 0, 300])]).shown(Rule(11))
    assert counts.people[1] == 0
    assert counts.events[1] == 0
    assert counts.small.T.tolist() == [[False, False], [False, False], [True, False]]
    assert np.isnan(counts.events[2])  # 3 people with the outcome
    assert counts.people[2] == 303 + moved(np.uint64(3), 0)


def test_a_mean_of_two_scores_comes_from_shown_counts():
    """At scores of 0 and 1, an exact mean would reveal how many people have each."""
    everybody = headcount([30], [570], score=0.04, keys=[7])
    unmoved = next(k for k in range(100) if moved(np.uint64(k), 0) == 0)
    key = np.full(2, unmoved, dtype=np.uint64)
    people = np.array([500.0, 100.0])
    scores = ScoreValues(np.array([0.0, 1.0]), people, people / 20, people, key)
    sets = Sets()
    sets.add(everybody, [scores])
    counts = sets.shown(Rule(11))
    assert counts.mean[0] == pytest.approx(1 / 6)
    squares = (1 / 6) ** 2 + (5 / 6) ** 2
    total = counts.people[0]
    assert counts.mean_variance[0] == pytest.approx(4 / 3 * squares / total**2)
    one_score = scores.where(np.array([True, False]))
    sets = Sets()
    sets.add(everybody, [one_score])  # one score reveals nothing
    assert sets.shown(Rule(11)).mean[0] == 0.04


def test_sets_have_their_places_one_after_the_other():
    sets = Sets()
    assert sets.add(headcount([30, 40], [50, 60])).tolist() == [0, 1]
    assert sets.add(headcount([30], [50])).tolist() == [2]
    sets.add_sums([0, 1], [[2, 3], [4, 5]])
    assert sets.sums == [(0, [2, 4]), (1, [3, 5])]


def test_numbers_are_rounded_and_left_out_where_they_are_not_shown():
    values = printed([0.126, 0.124, 5.0], 2, [True, True, False])
    assert values == pytest.approx([0.13, 0.12, np.nan], nan_ok=True)


def test_an_intercept_moves_with_the_events_that_were_added():
    """The O/E ratio of the second group goes from 1 to 1.1: 10 of 100 events more.

    The standard error of the intercept is 0.1, so that its information is 100.
    """
    counts = shown([2000, 1000], [210, 110], mean=0.1)
    reach = 0.1 * 1.959964
    table = pd.DataFrame(
        {
            "positives": [200.0, 100.0],
            "observed_expected": 1.0,
            "observed_expected_low": 0.8,
            "observed_expected_high": 1.2,
            "intercept_low": -reach,
            "intercept_high": reach,
        }
    )
    change = _moved_intercept(table, counts, [0, 1])
    assert change.tolist() == pytest.approx([0.0, 10 / 100], rel=1e-6)


def test_a_table_has_shown_counts_and_p_values_of_large_groups():
    counts = shown(
        [200, 40, 60],
        [100, 20, np.nan],
        small=[LARGE, LARGE, FEW_EVENTS],
        mean=[0.4, 0.25, 0.123456],
    )
    table = pd.DataFrame(
        {
            "group": ["all", "a", "b"],
            "people": [201, 41, 61],
            "positives": [99, 19, 3],
            "share": [1.0, 0.21, 0.31],
            "outcome_rate": 0.5,
            "mean_score": 0.5,
            "p_value": [0.01234, 0.2, 0.004],
            "gap_error": [0.01234, 0.02, 0.03],
        }
    )
    found = shown_table(table, counts, range(3))
    assert found["group"].tolist() == ["all", "a", "b"]
    assert found["people"].tolist() == [200, 40, 60]
    assert found["positives"].tolist()[:2] == [100, 20]
    assert is_limit(found["positives"][2], 11, "below")
    assert found["share"].tolist() == [1.0, 0.2, 0.3]
    assert found["outcome_rate"].tolist()[:2] == [0.5, 0.5]
    assert found["mean_score"].tolist() == [0.4, 0.25, 0.123]
    assert found["p_value"][0] == 0.012
    assert is_limit(found["p_value"][1], 0.05, "above")
    assert is_limit(found["p_value"][2], 0.05, "below")
    errors = found["gap_error"].tolist()
    assert errors == pytest.approx([0.012, np.nan, np.nan], nan_ok=True)


def test_a_p_value_at_the_limit_is_above_it():
    assert is_limit(shown_p(0.05, large=False), 0.05, "above")
    assert is_limit(shown_p(0.0499, large=False), 0.05, "below")
    assert shown_p(0.001) == 0.001
    assert shown_p(0.00099) == 0.0
    assert np.isnan(shown_p(np.nan, large=False))

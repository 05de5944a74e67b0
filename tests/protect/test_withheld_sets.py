"""Bounds that everybody can work out from what is shown, with numbers worked out by
hand.
"""

import numpy as np
import pytest

from propcal.protect.disclosure_rule import Rule
from propcal.protect.withheld_sets import (
    Disclosed,
    Hidden,
    Net,
    _value,
    withheld_neighbours,
)


def count_of(events, people):
    events = np.array(events, dtype=float)
    people = np.array(people, dtype=float)
    return np.array([events, people - events, people])


def disclosed(people, events, *, few_events=(), few_others=()):
    n = len(people)
    small = np.zeros((2, n), dtype=bool)
    small[0, list(few_events)] = True
    small[1, list(few_others)] = True
    return Disclosed(
        np.array(people, dtype=float),
        np.array(events, dtype=float),
        small,
        small,
        Rule(11),
    )


@pytest.mark.parametrize(("rest", "is_small"), [(10, True), (11, False)])
def test_a_rest_of_ten_people_with_the_outcome_is_small(rest, is_small):
    """Everybody and one part of them; the rest is in no part and never shown."""
    count = count_of([50 + rest, 50], [150 + rest, 100])
    hidden = Hidden(disclosed([150 + rest, 100], [50 + rest, 50]), count, [(0, [1])])
    # of three sets, events of the rest are the third count
    assert hidden.small.tolist() == ([2] if is_small else [])


def test_no_small_count_is_of_nobody():
    count = count_of([50, 50, 0], [150, 150, 0])
    shown = disclosed([150, 150, 0], [50, 50, 0])
    hidden = Hidden(shown, count, [(0, [1, 2])])
    assert hidden.size == 3  # without a rest
    assert hidden.small.tolist() == []


def test_what_is_shown_may_be_two_more_or_less_and_small_counts_are_below_11():
    shown = disclosed([200, 1, 150], [np.nan, np.nan, 60], few_events=[0, 1])
    count = count_of([5, 1, 60], [200, 1, 150])
    hidden = Hidden(shown, count, [])
    low, minus_high = hidden.bounds(np.array([False, False, False]))
    events, others, people = low.reshape(3, 3).tolist()
    assert (events, others, people) == ([0, 0, 58], [11, 11, 11], [198, 0, 148])
    events, others, people = (-minus_high).reshape(3, 3).tolist()
    assert (events, people) == ([10, 10, 62], [202, 3, 152])
    assert others == [1e9] * 3


def test_of_a_withheld_set_nothing_is_known():
    shown = disclosed([200, 150], [80, 60])
    hidden = Hidden(shown, count_of([80, 60], [200, 150]), [])
    low, minus_high = hidden.bounds(np.array([False, True])).reshape(2, 3, 2)
    assert low[:, 1].tolist() == [0, 0, 0]
    assert (-minus_high[:, 1]).tolist() == [1e9] * 3
    assert low[:, 0].tolist() == [78, 11, 198]


def test_five_values_are_enough_whatever_more_there_are():
    shown = disclosed([200, 150], [80, 60], few_events=[0, 1])
    hidden = Hidden(shown, count_of([5, 5], [200, 150]), [])
    bounds = np.zeros((2, 6))
    bounds[:, 0] = 3, -6  # 3, 4, 5 or 6
    bounds[:, 1] = 0, -10
    assert hidden.values(bounds).tolist() == [4, 5]


def test_bounds_follow_from_a_total_and_its_other_parts():
    net = Net.of([(0, [1, 2])], 3)
    low = [50.0, 10.0, 20.0]
    high = [100.0, 30.0, 25.0]
    bounds = net.tightened(np.array([low, np.negative(high)]))
    # 10 + 20 to 30 + 25 in all; of at least 50, the parts have 50 - 25 and 50 - 30
    assert bounds[0].tolist() == [50, 25, 20]
    assert (-bounds[1]).tolist() == [55, 30, 25]


def test_a_total_of_at_most_40_leaves_each_part_what_the_other_must_not_have():
    net = Net.of([(0, [1, 2])], 3)
    bounds = net.tightened(np.array([[0.0, 15, 5], [-40.0, -90, -90]]))
    assert bounds[0].tolist() == [20, 15, 5]
    assert (-bounds[1]).tolist() == [40, 35, 25]


def bounded(people, events, count):
    """Moved counts of a total and of one part, made to fit."""
    people = np.array(people, dtype=float)
    events = np.array(events, dtype=float)
    Net.of([(0, [1])], 2).bound_by_totals(people, events, count)
    return people.tolist(), events.tolist()


def test_no_part_has_more_people_without_the_outcome_than_the_total():
    """The total has 50 without the outcome; the part has 9 and 51, before it moves."""
    count = count_of([50, 9], [100, 60])
    # 61 - 10 is one more than the total has: 60 - 10 is right
    assert bounded([100, 61], [50, 10], count) == ([100, 60], [50, 10])
    # 58 - 7 is too many, and people are already two fewer: 58 - 8
    assert bounded([100, 58], [50, 7], count) == ([100, 58], [50, 8])


def test_no_part_has_more_people_or_events_than_the_total():
    count = count_of([50, 50], [100, 99])
    assert bounded([100, 101], [50, 52], count) == ([100, 100], [50, 50])


def test_counts_that_fit_stay():
    count = count_of([50, 20], [100, 40])
    assert bounded([101, 39], [49, 21], count) == ([101, 39], [49, 21])


def test_totals_are_shown_before_parts_and_these_before_cheap_sets():
    count = count_of([1] * 5, [2] * 5)
    value = _value(count, [(0, [1, 2, 3, 4])], ([3], [4]))
    assert value.tolist() == [1, 0, 0, -2, -1]


def test_a_neighbour_is_withheld_where_fewer_than_five_values_are_left():
    """Everybody has 100 with the outcome as shown, that is, 98 to 102. If the large
    part has 100, the small one has 0 to 4: five values. If it has 101, four are left.
    """
    count = count_of([101, 100, 1], [400, 300, 100])
    sums = [(0, [1, 2])]
    five = disclosed([400, 300, 100], [100, 100, np.nan], few_events=[2])
    assert not withheld_neighbours(five, count, sums).any()
    four = disclosed([400, 300, 100], [100, 101, np.nan], few_events=[2])
    withheld = withheld_neighbours(four, count, sums)
    assert not withheld[0]
    assert withheld.any()

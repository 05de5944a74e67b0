"""Counts by period and the shares of groups, worked out by hand."""

import numpy as np
import pandas as pd
import pytest

from propcal import Atoms, Groups, Monitor
from propcal.core.bins import uniform
from propcal.core.grid import UNIT
from propcal.core.groups import Group
from propcal.core.patterns import PERIOD
from propcal.core.reduction import stack
from propcal.errors import InputError
from propcal.monitoring.watched_groups import (
    TAIL_CUTS,
    PeriodCounts,
    WatchedGroup,
    evidence_ranges,
    not_watched,
    stakes_of,
    watch,
)

EVERYBODY = Group(())
WOMEN = Group((("sex", "F"),))
MEN = Group((("sex", "M"),))


def people(scores, outcomes, sexes):
    return pd.DataFrame({"s": scores, "y": outcomes, "sex": list(sexes)})


def atoms_of(frame):
    return Atoms.from_frame(frame, score="s", outcome="y", groups=["sex"])


@pytest.fixture
def counts():
    """Two months: scores of 0.3 and 0.325 are in neighbouring ranges of one bin."""
    parts = {
        "2025-01": atoms_of(people([0.3, 0.31, 0.325, 0.9], [0, 1, 1, 1], "FFMM")),
        "2025-02": atoms_of(people([0.3, 0.9], [1, 0], "FF")),
    }
    return PeriodCounts.of(stack(parts, PERIOD), [EVERYBODY, WOMEN], uniform(10))


def nonzero(values):
    return values[values != 0].tolist()


def test_people_are_added_up_by_period_group_and_range(counts):
    assert counts.periods == ("2025-01", "2025-02")
    assert nonzero(counts.people[0, 0]) == [2, 1, 1]
    assert nonzero(counts.people[0, 1]) == [2]
    assert nonzero(counts.people[1, 0]) == [1, 1]
    assert nonzero(counts.positives[0, 0]) == [1, 1, 1]
    assert nonzero(counts.score[0, 0]) == pytest.approx([0.61, 0.325, 0.9])
    assert nonzero(counts.mean[0, 0]) == pytest.approx([0.305, 0.325, 0.9])
    by_bin = counts.by_bin(counts.people)
    assert by_bin[0, 0].tolist() == [0, 0, 0, 3, 0, 0, 0, 0, 0, 1]
    assert counts.n_bins == 10
    assert counts.among(["2025-02", "2024-01"]).tolist() == [False, True]


def test_counts_of_one_group_from_a_period_on(counts):
    own = counts.one(1, 1)
    assert (own.periods, own.groups) == (("2025-02",), (WOMEN,))
    assert own.people.shape[:2] == own.positives.shape[:2] == own.score.shape[:2]
    assert nonzero(own.people) == [1, 1]
    assert nonzero(own.positives) == [1]
    assert nonzero(own.score) == pytest.approx([0.3, 0.9])
    everything = counts.one(1)
    assert everything.periods == counts.periods


def test_counts_of_a_group_in_some_ranges(counts):
    found = counts.of_group(0, counts.bin_of == 3)
    assert found.people.sum(axis=1).tolist() == [3, 1]
    assert found.positives.sum(axis=1).tolist() == [2, 1]
    assert found.score.sum(axis=1).tolist() == pytest.approx([0.935, 0.3])


def test_a_tenth_is_kept_for_groups_that_come_later():
    """The founders share 90 %; the n-th later group has a tenth of 1 / n (n + 1)."""
    later = [WatchedGroup(MEN, n) for n in (1, 2, 3)]
    stakes = stakes_of([WatchedGroup(EVERYBODY), WatchedGroup(WOMEN), *later])
    assert stakes.tolist() == pytest.approx([0.45, 0.45, 0.1 / 2, 0.1 / 6, 0.1 / 12])
    assert stakes_of([]).tolist() == []


def test_large_groups_are_watched_and_numbered_when_they_come_later():
    def month(n_men):
        n = 100
        sexes = "M" * n_men + "F" * (n - n_men)
        return atoms_of(people(np.full(n, 0.5), [0, 1] * (n // 2), sexes))

    definition = Groups(["sex"])
    founders = watch(month(5), definition, 0.1, [])
    assert founders == [WatchedGroup(EVERYBODY), WatchedGroup(WOMEN)]
    assert not_watched(month(5), definition, 0.1, founders) == [MEN]
    later = watch(month(10), definition, 0.1, founders)
    assert later == [*founders, WatchedGroup(MEN, 1)]
    assert not_watched(month(10), definition, 0.1, later) == []
    # a group that has become small is still watched
    assert watch(month(5), definition, 0.1, later) == later


def test_bins_are_cut_in_four_and_more_often_near_0_and_1():
    cuts = np.array(TAIL_CUTS)
    quarters = np.arange(41) / 40
    tenths_of_per_mille = 10_000 * np.concatenate([quarters, cuts, 1 - cuts])
    expected = np.unique(tenths_of_per_mille.round().astype(int)) / 10_000
    edges = evidence_ranges(uniform(10)).edges / UNIT
    apart = np.abs(edges[:, None] - expected)
    assert apart.min(axis=0).max() < 1e-9
    assert apart.min(axis=1).max() < 1e-9


ROLES = {"score": "risk", "outcome": "died", "time": "day", "groups": ["ward"]}


def visits(days):
    died = [0, 1] * (len(days) // 2)
    return pd.DataFrame({"day": days, "ward": "A", "risk": 0.5, "died": died})


def test_rows_without_a_date_are_counted_and_no_rows_are_refused():
    monitor = Monitor(**ROLES, drop_missing=True)
    frame = visits(pd.to_datetime(["2024-01-05", "2024-01-06"] * 3))
    undated = frame.assign(day=pd.NaT)
    assert monitor.add(undated).undated == 6
    with pytest.raises(InputError, match="there are no rows"):
        monitor.add(frame[:0])


def test_a_delay_may_be_given_in_words_and_changed():
    monitor = Monitor(**ROLES, delay="30d")
    before = monitor.settings
    monitor.change({"delay": "30d", "score": "risk"})  # no change
    assert monitor.settings == before
    monitor.change({"delay": "6w"})
    assert monitor.delay == 42
    with pytest.raises(InputError):
        monitor.change({"score": "another"})

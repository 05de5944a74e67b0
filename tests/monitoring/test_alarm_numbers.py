"""Numbers behind alarms, worked out by hand."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from propcal import Atoms
from propcal.auditing.statistics.rate_intervals import NORMAL_REACH
from propcal.core.bins import uniform
from propcal.core.groups import Group
from propcal.core.patterns import PERIOD
from propcal.core.reduction import stack
from propcal.monitoring import e_processes as ep
from propcal.monitoring.alarms import (
    Alarm,
    Onset,
    _right_before,
    _slope_direction,
    alarms_of,
    onset_of,
    printed_evidence,
    ratio_since,
)
from propcal.monitoring.course import Course
from propcal.monitoring.course_claims import (
    _has_direction,
    _order,
    _regions,
    course_claim,
    stated_alarms,
)
from propcal.monitoring.e_processes import evidence_over_time
from propcal.monitoring.explained_alarms import ExplainedAlarms
from propcal.monitoring.held_out import HARMS, HELPS, UNCLEAR, _answer, _error
from propcal.monitoring.watched_groups import PeriodCounts, Watching

EVERYBODY = Group(())


def month(n, events, score=0.3):
    return pd.DataFrame({"s": score, "y": [1] * events + [0] * (n - events)})


def counts_of(frames):
    parts = {
        f"2025-{i + 1:02d}": Atoms.from_frame(frame, score="s", outcome="y")
        for i, frame in enumerate(frames)
    }
    return PeriodCounts.of(stack(parts, PERIOD), [EVERYBODY], uniform(10))


def alarms(frames, reference=()):
    sums = counts_of(frames)
    watching = Watching(
        groups=(EVERYBODY,),
        labels=("All people",),
        stakes=np.full(1, 0.9),
        bins=uniform(10),
        reference=reference,
    )
    evidence = evidence_over_time(sums, watching.stakes, reference)
    found = alarms_of(sums, evidence, watching)
    return {alarm.test: alarm for alarm in found}


def test_an_alarm_from_the_start_has_the_numbers_of_the_whole_time():
    alarm = alarms([month(1000, 400), month(500, 200)])["level"]
    assert (alarm.people, alarm.events) == (1500, 600)
    assert alarm.predicted == pytest.approx(0.3)
    assert alarm.value == pytest.approx(600 / 450)
    assert alarm.low < 600 / 450 < alarm.high
    assert (alarm.direction, alarm.since) == ("too low", "")
    assert (alarm.onset_low, alarm.raised) == ("2025-01", "2025-01")
    assert np.isnan(alarm.reference_value)
    assert alarm.evidence > 20


def test_a_change_since_the_reference_begins_in_the_month_after_it():
    frames = [month(1000, 360), month(1000, 200), month(500, 100)]
    alarm = alarms(frames, reference=("2025-01",))["level"]
    assert alarm.reference_value == pytest.approx(360 / 300)
    assert alarm.direction == "has fallen"
    assert alarm.onset_low == alarm.onset == "2025-02"
    assert (alarm.people, alarm.events) == (1500, 300)
    assert alarm.value == pytest.approx(300 / 450)
    assert alarm.predicted == pytest.approx(0.3)
    # the interval of a ratio that is the same all the time
    risen = alarms([month(1000, 200), month(1000, 330)], reference=("2025-01",))
    assert risen["level"].direction == "has risen"


def test_an_alarm_of_cells_is_of_the_risk_range():
    both = pd.concat([month(2000, 1200, score=0.3), month(2000, 1400, score=0.7)])
    alarm = alarms([both])["cells"]
    assert alarm.where == "30-40 %"
    assert (alarm.people, alarm.events) == (2000, 1200)
    assert alarm.value == pytest.approx(2.0)


def test_an_onset_counted_from_a_later_period():
    assert Onset(2, 1, 3, shown=True).later(5) == Onset(7, 6, 8, shown=True)


def test_the_start_is_excluded_where_later_beginnings_are_20_times_as_likely():
    """The first beginning has no gain; the second has a stake and a gain of its own."""
    gain = np.array([[-9.0], [6.0]])
    stake = 25 / (26 * 27)
    later = np.log(stake) + 6.0
    line = later - np.log(20)
    assert onset_of(gain, line - 1e-9, 20) == Onset(1, 1, 1, shown=True)
    assert onset_of(gain, line + 1e-9, 20) == Onset(1, 0, 1, shown=False)


def test_plausible_beginnings_have_95_percent_of_the_weight():
    """Of three beginnings, the weights are in proportion to these shares."""
    for shares, last in (((0.90, 0.06, 0.04), 1), ((0.90, 0.04, 0.06), 2)):
        since = np.log(np.array(shares) / ep.onset_stakes(3))
        gain = (since - np.append(since[1:], 0.0))[:, None]
        assert onset_of(gain, 50.0, 20) == Onset(0, 0, last, shown=False)
    since = np.log(np.array([0.96, 0.03, 0.01]) / ep.onset_stakes(3))
    gain = (since - np.append(since[1:], 0.0))[:, None]
    assert onset_of(gain, 50.0, 20) == Onset(0, 0, 0, shown=False)


def test_a_ratio_since_an_onset_allows_for_each_plausible_one():
    sums = counts_of([month(100, 30), month(100, 60), month(100, 90)])
    found = ratio_since(sums, 0, Onset(1, 0, 2))
    assert found.value == pytest.approx(150 / 60)
    alone = [ratio_since(sums, 0, Onset(i, i, i)) for i in range(3)]
    assert [each.value for each in alone] == pytest.approx([180 / 90, 150 / 60, 3.0])
    assert found.low == alone[0].low
    assert found.high == alone[2].high


@pytest.mark.parametrize(
    ("events", "is_right"), [(38, True), (39, False), (22, True), (21, False)]
)
def test_events_before_an_onset_are_as_expected_within_1_96_errors(events, is_right):
    """30 of 100 are expected, with a standard error of sqrt(21): up to 8.98 apart."""
    assert NORMAL_REACH * np.sqrt(21) == pytest.approx(8.98, abs=0.005)
    own = counts_of([month(50, 50), month(100, events), month(50, 50)])
    everywhere = np.full(len(own.bin_of), True)
    assert _right_before(own, everywhere, 1, 2, 0.0) == is_right


def test_events_before_an_onset_are_compared_with_shifted_scores():
    """Odds of 3/7 that are doubled are a risk of 6/13: 46 of 100."""
    own = counts_of([month(100, 46), month(50, 50)])
    everywhere = np.full(len(own.bin_of), True)
    assert _right_before(own, everywhere, 0, 1, np.log(2))
    assert not _right_before(own, everywhere, 0, 1, 0.0)


def test_scores_are_too_extreme_if_flatter_ones_gain_more():
    gain = np.array([[1.0, 0.0, 0.0, 0.5], [1.0, 0.0, 0.0, 1.0]])
    assert _slope_direction(gain) == "too extreme"
    assert _slope_direction(gain[:, ::-1]) == "not extreme enough"
    assert _slope_direction(np.zeros((2, 4))) == "not extreme enough"


def test_evidence_that_is_printed_is_finite():
    log_evidence = np.array([np.log(20), 690.0, 5000.0])
    assert printed_evidence(log_evidence) == pytest.approx(
        [20, np.exp(690), np.exp(690)]
    )


def alarm(**values):
    usual = {
        "group": "everybody",
        "label": "All people",
        "test": "level",
        "raised": "2025-03",
        "evidence": 40.0,
        "onset": "2025-02",
        "onset_low": "2025-01",
        "onset_high": "2025-03",
        "value": 1.5,
        "low": 1.2,
        "high": 1.8,
        "direction": "too low",
        "people": 200.0,
        "events": 60.0,
        "predicted": 0.2,
    }
    return Alarm(**usual | values)


@pytest.mark.parametrize(
    ("low", "high", "shows"),
    [(1.001, 1.2, True), (1.0, 1.2, False), (0.8, 1.0, False), (0.8, 0.999, True)],
)
def test_an_interval_that_reaches_1_shows_no_direction(low, high, shows):
    assert _has_direction(alarm(low=low, high=high)) == shows
    assert _has_direction(alarm(low=low, high=high, reference_value=1.1))


def test_the_first_alarm_with_a_direction_is_stated_and_the_level_before_others():
    unclear = alarm(raised="2025-01", low=0.9)
    cells = alarm(raised="2025-02", test="cells", direction="too high")
    level = alarm(raised="2025-02")
    assert sorted([unclear, cells, level], key=_order) == [level, cells, unclear]
    (stated,) = stated_alarms([cells, unclear, level])
    assert (stated.test, stated.direction) == ("level", "too low")
    (stated,) = stated_alarms([unclear])
    assert stated.direction == ""
    assert stated_alarms([alarm(explained_by="B")]) == ()


def test_a_claim_has_the_numbers_of_its_alarm():
    claim = course_claim(alarm(), uniform(10), "too low")
    assert (claim.kind, claim.p_value) == ("overall", 1 / 40)
    assert (claim.observed, claim.predicted) == (0.3, 0.2)
    assert (claim.since, claim.since_low, claim.since_high) == ("", "", "")
    dated = course_claim(
        alarm(group="ward=B", since="2025-02", evidence=0.5), uniform(10), "too low"
    )
    assert (dated.kind, dated.p_value) == ("group", 1)
    assert (dated.since_low, dated.since_high) == ("2025-01", "2025-03")


def test_the_region_of_an_alarm_of_cells():
    (region,) = _regions(alarm(where="30-40 %"), uniform(10), "too low")
    assert (region.low, region.high) == (0.3, 0.4)
    assert _regions(alarm(), uniform(10), "too low") == ()


def test_alarms_are_a_table_as_well():
    course = SimpleNamespace(
        alarms=(alarm(),),
        groups=pd.DataFrame({"group": ["a"]}),
    )
    table = Course.to_frame(course, "alarms")
    assert table["group"].tolist() == ["everybody"]
    assert table["predicted"].tolist() == [0.2]
    assert Course.to_frame(course, "groups")["group"].tolist() == ["a"]
    course.alarms = ()
    assert "reference_value" in Course.to_frame(course, "alarms")


@pytest.mark.parametrize(
    ("low", "high", "answer"),
    [
        (-0.2, -0.1, HELPS),
        (-0.2, 0.0, UNCLEAR),
        (-0.1, 0.1, UNCLEAR),
        (0.0, 0.2, UNCLEAR),
        (0.1, 0.2, HARMS),
        (np.nan, -0.1, UNCLEAR),
    ],
)
def test_a_loss_changes_if_its_interval_excludes_0(low, high, answer):
    assert _answer(low, high) == answer


def test_a_standard_error_is_half_the_interval():
    assert _error(1.0, 1.0 + 2 * 1.959964) == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize(("n_outside", "alone"), [(10, True), (9, False)])
def test_a_tenth_outside_of_other_groups_is_judged_alone(n_outside, alone):
    """Women are 100 people, of whom 10 or 9 are not in ward B."""
    judged = []
    group = SimpleNamespace(
        known={},
        inside={
            "sex=F": np.array([True, True, False]),
            "ward=B": np.array([True, False, True]),
        },
        people=np.array([100 - n_outside, n_outside, 300]),
        corrected=lambda others: others,
        _remaining_among=lambda members, name, corrected: judged.append(
            (members.tolist(), name, corrected)
        ),
    )
    ExplainedAlarms.remaining(group, "sex=F", ["ward=B"])
    members = [False, True, False] if alone else [True, True, False]
    assert judged == [(members, "sex=F", ("ward=B",))]
    ExplainedAlarms.remaining(group, "sex=F", ["ward=B"])
    assert len(judged) == 1  # once


def test_stakes_are_divided_once():
    """Otherwise, evidence would be more than 1 on average."""
    assert ep.SHIFT_STAKES.sum() == pytest.approx(1)
    assert ep.BET_STAKES.sum() == pytest.approx(1)
    assert sum(ep.TEST_SHARES.values()) == pytest.approx(1)
    assert sum(ep.CHANGE_TEST_SHARES.values()) == pytest.approx(1)
    # half of each stake on either direction
    assert pytest.approx(-ep.BETS[::-1]) == ep.BETS
    assert pytest.approx(ep.BET_STAKES[::-1]) == ep.BET_STAKES
    assert ep.ALARM == 20


def test_odds_are_shifted():
    """Even odds times 3 are a risk of 3/4; odds of 1/4 times 4 are even."""
    mean = np.array([[[0.5, 0.2], [0.2, 0.0]]])
    found = ep._shifted(mean, np.log([3.0, 4.0]))
    assert found[0, 0].tolist() == pytest.approx([0.75, 3 / 7])
    assert found[0, 1].tolist() == pytest.approx([0.5, 0.0])


def test_what_the_first_period_wins_beyond_the_cap_raises_the_rest():
    """All numbers of events that 30 people scored 0.3 can have, as groups."""
    n = 30
    events = np.arange(n + 1.0)
    everybody = np.full((1, n + 1, 1), float(n))
    sums = PeriodCounts(
        periods=("1",),
        groups=(EVERYBODY,) * (n + 1),
        bin_of=np.zeros(1, dtype=int),
        ends=np.array([0.3, 0.31]),
        people=everybody,
        positives=events[None, :, None],
        score=everybody * 0.3,
    )
    chance = stats.binom.pmf(events, n, 0.3)
    gains = ep.shift_gains(sums, ep.BETS).sum(axis=2)
    plain = np.exp(ep.mixture(gains, ep.BET_STAKES))[0]
    cap = 1.02
    found = np.exp(ep.level_evidence(sums, gains, np.full(n + 1, np.log(cap))))[0]
    assert chance @ plain == pytest.approx(1, abs=1e-9)
    assert chance @ np.minimum(plain, cap) < chance @ found <= 1
    assert np.all(found >= np.minimum(plain, cap) - 1e-12)
    assert found.max() == pytest.approx(cap)


@pytest.mark.parametrize("cap", [3.06, 3.3])
def test_evidence_is_raised_by_no_more_than_reaches_the_cap(cap):
    """Evidence of 3, all of it on bets on 3,000 people; nothing waits."""
    everybody = np.full((1, 1, 1), 3000.0)
    sums = PeriodCounts(
        periods=("1",),
        groups=(EVERYBODY,),
        bin_of=np.zeros(1, dtype=int),
        ends=np.array([0.3, 0.31]),
        people=everybody,
        positives=everybody * 0.3,
        score=everybody * 0.3,
    )
    bets = ep.Bets(np.log(3 * ep.BET_STAKES), -np.inf, np.log(3))
    raised = ep._log_boost(sums, 0, 0, bets, np.log(cap))
    assert np.exp(raised) == pytest.approx(cap / 3)

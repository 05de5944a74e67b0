"""Which groups an alarm names: everybody, a few subgroups, or both; never the same
error twice.
"""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from propcal import Monitor


def course(error, n=24_000, months=8, seed=1, **settings):
    """A course of people whose log-odds are `error(people, log-odds of the score)`."""
    rng = np.random.default_rng(seed)
    made = pd.DataFrame(
        {
            "ward": rng.choice(["A", "B", "C", "D"], n),
            "sex": rng.choice(["F", "M"], n),
            "risk": 1 / (1 + np.exp(-rng.normal(-1, 1.2, n))),
            "month": rng.integers(0, months, n),
        }
    )
    odds = error(made, np.log(made.risk / (1 - made.risk)))
    made["died"] = (rng.random(n) < 1 / (1 + np.exp(-odds))).astype(int)
    made["day"] = pd.Timestamp("2025-01-15") + pd.to_timedelta(
        30 * made.month, unit="D"
    )
    monitor = Monitor(
        score="risk", outcome="died", time="day", groups=["ward", "sex"], **settings
    )
    monitor.add(made)
    return monitor.course()


def named(found):
    return {alarm.label for alarm in found.alarms if not alarm.explained_by}


def explained(found):
    return {
        alarm.label: alarm.explained_by for alarm in found.alarms if alarm.explained_by
    }


def test_two_opposite_errors_are_named_and_everybody_is_explained_by_both():
    found = course(
        lambda people, x: np.where(
            people.ward == "A", 0.3 * x - 0.75, x + 0.3 * (people.ward == "B")
        )
    )
    assert named(found) == {"A", "B"}
    assert found.sentences[0] == "Alarm: the score is miscalibrated for A and B."
    assert explained(found)["All people"] == "A and B"
    assert found.alarms[0].label == "A"


def test_an_error_for_everybody_alike_is_one_finding():
    for error in (
        lambda people, x: x - 0.4,
        lambda people, x: x - 0.1 * people.month,
        lambda people, x: np.where(people.month >= 4, 0.5 * x - 0.5, x),
    ):
        found = course(error)
        assert named(found) == {"All people"}
        assert {*explained(found).values()} == {"All people"}
        assert {"A", "B", "C", "D", "F", "M"} <= {*explained(found)}


def test_a_subgroup_with_a_larger_error_than_everybody_is_named_too():
    found = course(lambda people, x: x - 0.3 - 0.6 * (people.ward == "C"))
    assert named(found) == {"All people", "C"}
    assert explained(found)["A"] == "All people"


def test_a_part_of_a_group_with_a_larger_error_is_named_too():
    found = course(
        lambda people, x: (
            x
            - 0.4 * (people.sex == "F")
            - 0.6 * ((people.sex == "F") & (people.ward == "A"))
        )
    )
    assert named(found) == {"F", "A, F"}


def test_scores_of_exactly_0_and_1_are_corrected_as_well():
    """The same error as any other: their log-odds have no bound."""

    def clipped(people, x):
        people["risk"] = np.where(
            people.ward == "A", np.clip(1.6 * people.risk, 0, 1), people.risk
        )
        return x

    found = course(clipped)
    assert named(found) == {"A"}
    assert (found.alarms[0].direction, {*explained(found).values()}) == (
        "too extreme",
        {"A"},
    )


def test_with_a_baseline_a_common_change_is_one_finding():
    found = course(
        lambda people, x: x - 0.5 * (people.month >= 4), baseline="2025-01..2025-03"
    )
    assert named(found) == {"All people"}
    assert {*explained(found).values()} == {"All people"}


def test_other_alarms_are_told_with_the_ratio_that_is_left_of_them():
    found = course(lambda people, x: x + 0.8 * (people.ward == "B"), n=6000, months=4)
    table = found.groups.set_index("label")
    assert named(found) == {*table.index[table.named]} == {"B"}
    others = table[table.alarm & ~table.named]
    assert len(others) > 1
    assert {*others.explained_by} == {"B"}
    assert (others.left_low < 1).all()
    assert (others.left_high > 1).all()
    assert found.sentences[-1] == (
        f"Alarms were also raised for {len(others)} other groups; the table shows the O/E ratio that "
        "remains in them."
    )
    row = others.loc["All people"]
    told = f"O/E {row.left:.2f} (95 % CI {row.left_low:.2f} to {row.left_high:.2f}) without the error of B"
    assert f"<bdi>{told}</bdi>" in found.to_html()
    only = found.groups[found.groups.label.isin(["All people", "B"])]
    assert (
        replace(found, groups=only).sentences[-1]
        == f"An alarm was also raised for All people: {told}."
    )


def test_what_is_left_is_that_of_people_outside_of_the_named_groups():
    found = course(lambda people, x: x + 0.8 * (people.ward == "B"), n=6000, months=4)
    row = found.groups.set_index("label").loc["All people"]
    alarm = next(alarm for alarm in found.alarms if alarm.label == "All people")
    periods = found.periods.assign(
        expected=lambda table: table.people * table.mean_score
    )
    if alarm.since:
        periods = periods[periods.period >= alarm.since]
    sums = periods.groupby("group")[["people", "positives", "expected"]].sum()
    rest = sums.loc["everybody"] - sums.loc["ward=B"]
    assert row.left == pytest.approx(rest.positives / rest.expected)
    assert (alarm.left_people, alarm.left_events) == (rest.people, rest.positives)


def test_the_first_alarm_comes_first():
    """A small error of everybody from the start, and a large one of a group later
    on.
    """
    found = course(
        lambda people, x: x - 0.2 - 2.0 * ((people.ward == "D") & (people.month >= 6)),
        months=12,
        n=36_000,
    )
    assert [claim.label for claim in found.claims] == ["All people", "D"]
    assert found.claims[0].raised < found.claims[1].raised
    assert found.alarms[0].label == "All people"
    assert found.alarms[0].evidence < max(
        alarm.evidence for alarm in found.alarms if alarm.label == "D"
    )
    assert (
        found.sentences[0] == "Alarm: the score is miscalibrated for All people and D."
    )
    assert found.ranked.label.tolist()[:2] == ["All people", "D"]
    assert len(found.sentences) <= 4


def test_an_error_from_the_start_has_no_onset():
    for seed in range(3):
        found = course(lambda people, x: x - 0.3, seed=seed)
        (claim,) = found.claims
        whole = found.periods[found.periods.group == "everybody"]
        ratio = whole.positives.sum() / (whole.people * whole.mean_score).sum()
        assert (claim.kind, claim.direction, claim.since) == ("overall", "too high", "")
        assert claim.estimate == pytest.approx(ratio)
        assert found.alarms[0].onset_low == found.settings["periods"][0]
        assert "too high, possibly from the start: O/E" in found.sentences[1]
        assert "what changed" not in found.to_html()


def test_a_group_that_was_wrong_before_has_no_onset_when_its_error_grows():
    found = course(
        lambda people, x: x + 0.5 + 0.7 * ((people.ward == "B") & (people.month >= 4))
    )
    assert {claim.label: claim.since for claim in found.claims} == {
        "All people": "",
        "B": "",
    }


def test_a_claim_is_the_first_alarm_of_its_group():
    found = course(lambda people, x: np.where(people.ward == "A", 0.3 * x - 0.75, x))
    tests = {alarm.test: alarm.raised for alarm in found.alarms if alarm.label == "A"}
    assert tests["slope"] < tests["level"]
    (claim,) = found.claims
    assert (claim.kind, claim.test, claim.direction) == (
        "shape",
        "slope",
        "too extreme",
    )
    (row,) = found.groups[found.groups.label == "A"].raised
    assert claim.raised == row
    assert found.sentences[1].startswith(
        f"A (alarm in {row}): predicted risks are too extreme"
    )


def test_an_alarm_that_the_numbers_no_longer_show_has_no_direction():
    """An error of two months among many right ones."""
    found = course(
        lambda people, x: x + 0.8 * (people.month < 1) - 0.05 * (people.month >= 1),
        months=16,
        n=32_000,
    )
    claim = found.claims[0]
    assert (claim.label, claim.raised) == ("All people", "2025-01")
    assert claim.low < 1 < claim.high
    assert claim.direction == ""
    assert (
        found.sentences[0]
        == "Alarm: the score was for a time miscalibrated for All people."
    )
    assert "the O/E ratio shows no error: O/E" in found.sentences[1]

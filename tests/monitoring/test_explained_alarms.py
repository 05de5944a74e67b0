"""Which groups an alarm names: everybody, a few subgroups, or both; never the same error twice."""

from dataclasses import replace

import numpy as np
import pandas as pd

from propcal import Monitor
from propcal.identity import Identity
from propcal.monitoring.course_sentences import course_sentences


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
    made["day"] = pd.Timestamp("2025-01-15") + pd.to_timedelta(30 * made.month, unit="D")
    monitor = Monitor(score="risk", outcome="died", time="day", groups=["ward", "sex"], **settings)
    monitor.add(made)
    return monitor.course()


def named(found):
    return {alarm.label for alarm in found.alarms if not alarm.explained_by}


def explained(found):
    return {alarm.label: alarm.explained_by for alarm in found.alarms if alarm.explained_by}


def test_two_opposite_errors_are_named_and_everybody_is_explained_by_both():
    found = course(
        lambda people, x: np.where(people.ward == "A", 0.3 * x - 0.75, x + 0.3 * (people.ward == "B"))
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
        lambda people, x: x - 0.4 * (people.sex == "F") - 0.6 * ((people.sex == "F") & (people.ward == "A"))
    )
    assert named(found) == {"F", "A, F"}


def test_scores_of_exactly_0_and_1_are_corrected_as_well():
    """The same error as any other: their log-odds have no bound."""

    def clipped(people, x):
        people["risk"] = np.where(people.ward == "A", np.clip(1.6 * people.risk, 0, 1), people.risk)
        return x

    found = course(clipped)
    assert named(found) == {"A"}
    assert (found.alarms[0].direction, {*explained(found).values()}) == ("too extreme", {"A"})


def test_with_a_baseline_a_common_change_is_one_finding():
    found = course(lambda people, x: x - 0.5 * (people.month >= 4), baseline="2025-01..2025-03")
    assert named(found) == {"All people"}
    assert {*explained(found).values()} == {"All people"}


def test_one_alarm_is_not_told_as_several():
    own = course(lambda people, x: x + 0.8 * (people.ward == "B"), n=6000, months=2).alarms[0]
    one, two = (replace(own, label=label, explained_by="B") for label in ("All people", "F"))
    for others, said in (
        ([one], "An alarm was also raised for All people"),
        ([one, two], "Alarms were also raised for All people and F"),
    ):
        told = course_sentences([own, *others], ["2025-01", "2025-02"], 6000, 15, Identity(), ())
        assert f"{said}. If the score were corrected for B, there would be none." in told


def test_sentences_and_tables_have_the_same_date():
    found = course(lambda people, x: np.where(people.ward == "A", 0.3 * x - 0.75, x))
    tests = {alarm.test: alarm.raised for alarm in found.alarms if alarm.label == "A"}
    assert tests["slope"] < tests["level"]
    said = found.sentences[1]
    assert "A: since" in said
    assert "O/E" in said
    (row,) = found.groups[found.groups.label == "A"].raised
    assert said.endswith(f"The alarm was raised with the data of {row}.")

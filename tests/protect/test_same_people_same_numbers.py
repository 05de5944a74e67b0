"""The same people have the same numbers on every page: audit, comparison, search,
monitor and sites.
"""

import json
import re

import numpy as np
import pandas as pd
import pytest

from propcal import Atoms, Monitor, audit, compare, compare_sites, discover
from propcal.numbers import IN_TEXT

NAMES = ("people", "outcome_rate", "mean_score", "observed_expected")


def visits(seed, n=5000):
    """Scores of 7 binary digits, as a monitor keeps them; they are too high in ward
    B.
    """
    rng = np.random.default_rng(seed)
    risk = np.round(rng.beta(1.5, 6, n) * 128) / 128
    ward = rng.choice(list("ABC"), n, p=[0.55, 0.3, 0.15])
    y = rng.random(n) < np.clip(risk * np.where(ward == "B", 0.6, 1), 0, 1)
    return pd.DataFrame(
        {
            "risk": risk,
            "ward": ward,
            "at": ward,
            "day": "2026-03-05",
            "died": y.astype(int),
        }
    )


def of_rows(rows, key):
    """Rates are printed with fewer digits, and some JSON is rounded."""
    return {
        str(row[key]).removeprefix("ward="): tuple(
            round(row[name], 6) for name in NAMES
        )
        for row in rows
    }


@pytest.mark.parametrize("seed", range(3))
def test_a_ward_has_the_same_numbers_in_an_audit_a_monitor_and_as_a_site(seed):
    frame = visits(seed)
    roles = {"score": "risk", "outcome": "died", "groups": ["ward"]}
    audited = json.loads(audit(frame, **roles, n_draws=100).to_json(suppress=11))
    wards = of_rows(audited["groups"], "group")
    monitor = Monitor(**roles, time="day")
    monitor.add(frame)
    course = monitor.course()
    shown = json.loads(course.to_json(suppress=11))
    assert of_rows(shown["periods"], "group") == wards
    assert of_rows(shown["groups"], "group") == wards
    two = compare(
        frame,
        scores={"risk": "risk", "other": "risk"},
        outcome="died",
        groups=["ward"],
        n_draws=100,
    )
    for one in json.loads(two.to_json(suppress=11))["audits"].values():
        assert of_rows(one["groups"], "group") == wards
    sites = Atoms.from_frame(frame, score="risk", outcome="died", groups=[], site="at")
    found = json.loads(compare_sites(sites).to_json(suppress=11))
    assert f"{wards['everybody'][0]:,} people" in " ".join(found["sentences"])
    for row in found["sites"]:
        assert (row["people"], row["observed_expected"]) == (
            wards[row["site"]][0],
            wards[row["site"]][3],
        )
    metrics = dict(
        re.findall(
            r'propcal_oe_ratio{group="(?:ward=)?(\w+)".*} ([\d.]+)', course.to_metrics()
        )
    )
    assert {name: float(ratio) for name, ratio in metrics.items()} == {
        name: numbers[3] for name, numbers in wards.items()
    }


@pytest.mark.parametrize("seed", range(3))
def test_an_alarm_and_a_group_that_was_found_have_the_ratio_of_the_audit(seed):
    """The exact ratio differs from the one that follows from moved counts, and is
    nowhere on a page.
    """
    frame = visits(seed)
    exact = audit(frame, score="risk", outcome="died", groups=["ward"], n_draws=100)
    groups = json.loads(exact.to_json(suppress=11))["groups"]
    ward = next(row for row in groups if row["group"] == "ward=B")
    monitor = Monitor(score="risk", outcome="died", time="day", groups=["ward"])
    monitor.add(frame)
    course = json.loads(monitor.course().to_json(suppress=11))
    ends = [ward[f"observed_expected{end}"] for end in ("", "_low", "_high")]
    levels = [
        alarm
        for alarm in course["alarms"]
        if alarm["test"] == "level" and alarm["group"] == "ward=B"
    ]
    assert [[alarm[name] for name in ("value", "low", "high")] for alarm in levels] == [
        ends
    ]
    assert f"O/E {IN_TEXT.decimal(ends[0])}" in " ".join(course["sentences"])
    found = discover(frame["died"], frame["risk"], features=frame[["ward"]], n_draws=20)
    (group,) = json.loads(found.to_json(suppress=11))["found"]
    assert (group["people"], group["events"], group["raw_value"]) == (
        ward["people"],
        ward["positives"],
        ward["observed_expected"],
    )


def test_a_ratio_since_an_error_began_follows_from_moved_counts():
    """Two frames whose people since then have the same key have the same ratio; it is
    near the exact one.
    """
    frame = pd.concat(
        [visits(0).assign(day=f"2026-0{month}-05") for month in (1, 2)],
        ignore_index=True,
    )
    frame.loc[(frame["day"] < "2026-02") & (frame["ward"] == "B"), "ward"] = "A"
    monitor = Monitor(score="risk", outcome="died", time="day", groups=["ward"])
    monitor.add(frame)
    course = monitor.course()
    shown = json.loads(course.to_json(suppress=11))
    last = next(
        row
        for row in shown["periods"]
        if (row["period"], row["group"]) == ("2026-02", "ward=B")
    )
    alarm = next(
        alarm
        for alarm in shown["alarms"]
        if (alarm["group"], alarm["test"]) == ("ward=B", "level")
    )
    exact = next(
        alarm
        for alarm in course.alarms
        if (alarm.group, alarm.test) == ("ward=B", "level")
    )
    assert alarm["value"] == last["observed_expected"]
    assert alarm["value"] == pytest.approx(exact.value, rel=0.02)
    assert alarm["people"] is None

"""Attacks on pages over time and across sites: small counts cannot be worked out from
them.
"""

import json

import numpy as np
import pandas as pd
import pytest
from attack import FEWEST, told_counts
from scipy.optimize import Bounds, LinearConstraint, milp

from propcal import Atoms, Monitor, audit, compare_sites
from propcal.auditing.audit_tables import row_dicts
from propcal.protect.protected_audits import protected_audit
from propcal.protect.protected_courses import protected_course
from propcal.protect.protected_sites import protected_sites
from propcal.sites.site_measures import SCALES

ROLES = {"score": "risk", "outcome": "y", "time": "day", "groups": ["ward"]}
WARDS = ["A", "B", "C"]


def months(seed, n=900, share=(0.9, 0.07, 0.03)):
    rng = np.random.default_rng(seed)
    risk = rng.beta(1.3, 4, n)
    day = pd.Timestamp("2024-01-10") + pd.to_timedelta(
        31 * rng.integers(0, 3, n), unit="D"
    )
    ward = rng.choice(WARDS, n, p=share)
    return pd.DataFrame(
        {
            "risk": risk,
            "day": day,
            "ward": ward,
            "y": (rng.random(n) < risk).astype(int),
        }
    )


def course_of(frame, **settings):
    monitor = Monitor(**ROLES, gamma=0.001, **settings)
    monitor.add(frame)
    return monitor.course()


def widths(rows, exact, names):
    """How many values each small count may have; `rows` have a name, people and
    positives.

    Unknown are people of each part (a ward, a site) with the outcome, then without it.
    Any other name is that of everybody."""
    n = len(names)
    sums, low, high = [], [], []
    for row in rows:
        inside = np.array(
            [row["name"] in (name, "everybody") for name in names], dtype=float
        )
        with_it, without = (
            np.concatenate([inside, 0 * inside]),
            np.concatenate([0 * inside, inside]),
        )
        told = told_counts(row["people"], row["positives"])
        for name, each in (
            ("events", with_it),
            ("others", without),
            ("people", with_it + without),
        ):
            sums.append(each)
            low.append(told[name][0])
            high.append(told[name][1])
    limits, found = LinearConstraint(np.array(sums), low, high), []
    for place, count in enumerate(exact):
        if count >= FEWEST or exact[place] + exact[(place + n) % (2 * n)] == 0:
            continue
        ends = []
        for sign in (1, -1):
            chosen = sign * np.eye(2 * n)[place]
            solved = milp(
                chosen,
                constraints=limits,
                bounds=Bounds(0, np.inf),
                integrality=np.ones(2 * n),
            )
            ends.append(round(sign * solved.fun))
        assert ends[0] <= count <= ends[1]
        found.append(ends[1] - ends[0] + 1)
    return found


@pytest.mark.parametrize("seed", range(8))
def test_no_count_of_a_ward_in_a_month_can_be_solved_for(seed):
    """Everybody less the other wards is the smallest ward."""
    frame = months(seed)
    periods = protected_course(course_of(frame), 11).periods
    frame["period"] = frame["day"].dt.strftime("%Y-%m")
    found = []
    for period, own in frame.groupby("period"):
        rows = [
            {**row, "name": row["group"].removeprefix("ward=")}
            for row in row_dicts(periods[periods["period"] == period])
        ]
        assert len(rows) == 4
        exact = [
            int(((own["ward"] == w) & (own["y"] == y)).sum())
            for y in (1, 0)
            for w in WARDS
        ]
        found += widths(rows, exact, WARDS)
    assert found
    assert min(found) >= 3


def test_a_month_has_the_same_numbers_on_every_later_page():
    """A page a month: what is known of a month does not change, so that pages cannot be
    averaged.
    """
    frame = months(3, n=3000, share=(0.6, 0.3, 0.1))
    first = frame[frame["day"] < "2024-03-01"]
    one, two = (
        protected_course(course_of(part), 11).periods for part in (first, frame)
    )
    common = two[two["period"].isin(one["period"])].reset_index(drop=True)
    columns = ["period", "group", "people", "positives"]
    pd.testing.assert_frame_equal(one[columns].astype(str), common[columns].astype(str))


def test_means_of_a_month_do_not_tell_how_many_had_an_alert():
    """Group-months with 1 to 10 people at the high score have no predicted rate."""
    rng = np.random.default_rng(5)
    n = 6000
    ward = rng.choice(WARDS, n, p=(0.5, 0.3, 0.2))
    risk = np.where(rng.random(n) < 0.02, 0.5, 0.0078125)
    day = pd.Timestamp("2024-01-10") + pd.to_timedelta(
        31 * rng.integers(0, 12, n), unit="D"
    )
    y = (rng.random(n) < np.where(risk > 0.1, 0.5, 0.12)).astype(int)
    frame = pd.DataFrame({"risk": risk, "day": day, "ward": ward, "y": y})
    periods = protected_course(course_of(frame), 11).periods
    frame["period"] = frame["day"].dt.strftime("%Y-%m")
    checked = 0
    for row in row_dicts(periods):
        own = frame[frame["period"] == row["period"]]
        if row["group"] != "everybody":
            own = own[own["ward"] == row["group"].removeprefix("ward=")]
        alerts = int((own["risk"] > 0.1).sum())
        if 1 <= alerts < FEWEST:
            assert pd.isna(row["mean_score"])
            checked += 1
    assert checked > 20


def test_evidence_that_rests_on_few_people_is_told_in_bands():
    frame = months(1)
    shown, exact = protected_course(course_of(frame), 11), course_of(frame)
    small = shown.groups.set_index("group").loc["ward=C"]
    assert repr(small["evidence"])[0] in "<≥"
    large, true = (
        each.groups.set_index("group").loc["everybody", "evidence"]
        for each in (shown, exact)
    )
    assert large == float(f"{true:.2g}")
    assert shown.conclusion == exact.conclusion
    assert [(a.group, a.raised, a.onset) for a in shown.alarms] == [
        (a.group, a.raised, a.onset) for a in exact.alarms
    ]


@pytest.mark.parametrize("seed", range(6))
def test_no_count_of_a_site_can_be_solved_for(seed):
    """All sites together are told, too: in their section, and in the report that it is
    part of.
    """
    rng = np.random.default_rng(seed)
    n = 1500
    risk = rng.beta(1.3, 4, n)
    frame = pd.DataFrame({"risk": risk, "y": (rng.random(n) < risk).astype(int)})
    names = ["North", "South", "Tiny"]
    frame["at"] = rng.choice(names, n, p=[0.6, 0.385, 0.015])
    found = compare_sites(
        Atoms.from_frame(frame, score="risk", outcome="y", groups=[], site="at")
    )
    shown = protected_sites(found, 11)
    rows = [{**row, "name": row["site"]} for row in row_dicts(shown.sites)]
    # as the report of all sites shows everybody
    everybody = protected_audit(
        audit(frame["y"], frame["risk"], n_draws=100), 11
    ).groups.iloc[0]
    rows.append(
        {
            "name": "everybody",
            "people": everybody["people"],
            "positives": everybody["positives"],
        }
    )
    assert f"{everybody['people']:,} people" in " ".join(shown.sentences)
    exact = [
        int(((frame["at"] == site) & (frame["y"] == y)).sum())
        for y in (1, 0)
        for site in names
    ]
    widest = widths(rows, exact, names)
    assert widest
    assert min(widest) >= 3


def test_the_summary_over_sites_is_that_of_the_exact_comparison():
    rng = np.random.default_rng(2)
    n = 9000
    risk = rng.beta(1.3, 4, n)
    at = rng.choice(["N", "S", "E", "W", "T"], n, p=[0.4, 0.3, 0.2, 0.095, 0.005])
    y = (rng.random(n) < np.clip(risk * np.where(at == "E", 1.3, 1), 0, 1)).astype(int)
    frame = pd.DataFrame({"risk": risk, "y": y, "at": at})
    found = compare_sites(
        Atoms.from_frame(frame, score="risk", outcome="y", groups=[], site="at")
    )
    shown = protected_sites(found, 11)
    columns = ["mean", "prediction_low", "prediction_high", "low", "high"]
    for name, row in found.summary.iterrows():
        assert (
            shown.summary.loc[name, columns].tolist()
            == row[columns].round(SCALES[name].digits).tolist()
        )
    assert shown.sites["finding"].tolist() == found.sites["finding"].tolist()
    exact, told = (json.loads(each.to_json())["summary"] for each in (found, shown))
    assert [row["i2"] for row in told] == [round(row["i2"], 2) for row in exact]


def test_evidence_does_not_tell_the_few_events_of_a_month():
    """From month to month, evidence grows by what the events of a group add."""
    rng = np.random.default_rng(5)
    n = 9000
    risk = 1 / (1 + np.exp(-rng.normal(-2.2, 0.7, n)))
    ward = rng.choice(WARDS, n, p=[0.6, 0.346, 0.054])
    day = pd.Timestamp("2023-01-01") + pd.to_timedelta(
        rng.integers(0, 730, n), unit="D"
    )
    y = rng.random(n) < np.where(ward == "C", np.clip(2.2 * risk, 0, 0.95), risk)
    frame = pd.DataFrame({"risk": risk, "day": day, "ward": ward, "y": y.astype(int)})
    exact = course_of(frame)
    shown = protected_course(exact, FEWEST)
    of_few = shown.evidence[shown.evidence["group"] == "ward=C"]["evidence"]
    assert len(set(of_few)) > 1
    assert set(of_few) <= {0.0, 1.0, 5.0, 20.0, 100.0, 1000.0}
    both = [
        c.evidence[c.evidence["group"] == "everybody"]["evidence"].astype(float)
        for c in (shown, exact)
    ]
    np.testing.assert_allclose(*both, rtol=0.06)

"""Attacks on pages over time and across sites: small counts cannot be worked out from them."""

import json

import numpy as np
import pandas as pd
import pytest
from attack import block, both, small_one
from scipy.optimize import Bounds, LinearConstraint, milp

from propcal import Atoms, Monitor, compare_sites

ROLES = {"score": "risk", "outcome": "y", "time": "day", "groups": ["ward"]}


def months(seed, n=900, wards=("A", "B", "C"), share=(0.9, 0.07, 0.03)):
    rng = np.random.default_rng(seed)
    risk = rng.beta(1.3, 4, n)
    day = pd.Timestamp("2024-01-10") + pd.to_timedelta(31 * rng.integers(0, 3, n), unit="D")
    ward = rng.choice(list(wards), n, p=share)
    return pd.DataFrame({"risk": risk, "day": day, "ward": ward, "y": (rng.random(n) < risk).astype(int)})


def told(rows, names):
    """What a page tells of people with and without the outcome, as ranges of sums.

    Unknown are people of each part (a ward, a site) with the outcome, then without it; `names` are those of
    the parts. Any other row is of everybody.
    """
    n = len(names)
    sums, low, high = [], [], []
    for row in rows:
        inside = np.array([row["name"] in (name, "everybody") for name in names], dtype=float)
        with_it, without = np.concatenate([inside, 0 * inside]), np.concatenate([0 * inside, inside])
        people, positives = row["people"], row["positives"]
        small = small_one(people, positives)
        if small is None:
            for each, shown in zip((with_it, without), both(people, positives)):
                ends = block(shown)
                sums.append(each), low.append(ends[0]), high.append(ends[1])
        else:
            sums.append((with_it, without)[small]), low.append(0), high.append(10)
            ends = block(people)
            sums.append(with_it + without), low.append(ends[0]), high.append(ends[1])
    return LinearConstraint(np.array(sums), low, high), n


def widths(rows, exact, names):
    """How many values each count from 1 to 10 may have."""
    limits, n = told(rows, names)
    found = []
    for place, count in enumerate(exact):
        if not 0 < count < 11:
            continue
        chosen = np.eye(2 * n)[place]
        ends = []
        for sign in (1, -1):
            solved = milp(
                sign * chosen, constraints=limits, bounds=Bounds(0, np.inf), integrality=np.ones(2 * n)
            )
            ends.append(round(sign * solved.fun))
        assert ends[0] <= count <= ends[1]
        found.append(ends[1] - ends[0] + 1)
    return found


@pytest.mark.parametrize("seed", range(4))
def test_no_count_of_a_ward_in_a_month_can_be_solved_for(seed):
    """Everybody less the other wards is the smallest ward."""
    frame = months(seed)
    monitor = Monitor(**ROLES, gamma=0.001)
    monitor.add(frame)
    content = json.loads(monitor.course().to_json(11))
    frame["period"] = frame["day"].dt.strftime("%Y-%m")
    found = []
    for period, own in frame.groupby("period"):
        rows = [
            {**row, "name": row["group"].removeprefix("ward=")}
            for row in content["periods"]
            if row["period"] == period
        ]
        assert len(rows) == 4
        names = ["A", "B", "C"]
        exact = [int(((own["ward"] == w) & (own["y"] == y)).sum()) for y in (1, 0) for w in names]
        found += widths(rows, exact, names)
    assert found
    assert min(found) >= 3


def with_small_ward(events, others):
    """The same big ward in three months; a small one has people in the last."""
    day = np.repeat(["2024-01-03", "2024-02-03", "2024-03-03"], 400)
    y = np.concatenate([np.arange(400) < 40 + month for month in range(3)]).astype(int)
    big = pd.DataFrame({"risk": 0.1, "y": y, "day": day, "ward": "A"})
    y = (np.arange(events + others) < events).astype(int)
    small = pd.DataFrame({"risk": 0.1, "y": y, "day": "2024-03-03", "ward": "B"})
    monitor = Monitor(**ROLES, gamma=0.0001)
    monitor.add(pd.concat([big, small], ignore_index=True))
    return monitor.course()


def test_candidates_for_a_small_ward_give_the_same_page():
    """Evidence, pictures and sentences tell nothing that the blocks do not."""
    course = with_small_ward(2, 4)
    page, metrics = course.to_html(), course.to_metrics()
    candidates = [(2, 4), (1, 4), (3, 4), (2, 5), (1, 6), (3, 5), (2, 6)]
    same = []
    for events, others in candidates:
        other = with_small_ward(events, others)
        if other.to_html() == page and other.to_metrics() == metrics:
            same.append((events, others))
    assert (2, 4) in same
    assert len({events for events, _ in same}) >= 3
    assert len({others for _, others in same}) >= 3
    assert with_small_ward(1, 4).to_html(suppress=0) != course.to_html(suppress=0)


@pytest.mark.parametrize("seed", range(3))
def test_no_count_of_a_site_can_be_solved_for(seed):
    """All sites together are told, too: in their section, and in the report that it is part of."""
    rng = np.random.default_rng(seed)
    n = 1500
    risk = rng.beta(1.3, 4, n)
    frame = pd.DataFrame({"risk": risk, "y": (rng.random(n) < risk).astype(int)})
    names = ["North", "South", "Tiny"]
    frame["at"] = rng.choice(names, n, p=[0.6, 0.385, 0.015])
    found = compare_sites(Atoms.from_frame(frame, score="risk", outcome="y", groups=[], site="at"))
    rows = [{**row, "name": row["site"]} for row in json.loads(found.to_json(11))["sites"]]
    total = [frame["y"].sum(), n - frame["y"].sum()]
    shown = [10 * ((k - 1) // 10) + 5 for k in total]
    rows.append({"name": "everybody", "people": sum(shown), "positives": shown[0]})
    exact = [int(((frame["at"] == site) & (frame["y"] == y)).sum()) for y in (1, 0) for site in names]
    widest = widths(rows, exact, names)
    assert widest
    assert min(widest) >= 3

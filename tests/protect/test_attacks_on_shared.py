"""Attacks on pages from shared atoms, which show counts as they are: all are sums of
whole cells.
"""

import json
from itertools import combinations

import numpy as np
import pandas as pd
import pytest

from propcal import Atoms, audit, compare_sites


def people(seed, n=4000):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({
        "race": rng.choice(["A", "B", "C", "D"], n, p=[0.7, 0.25, 0.045, 0.005]),
        "sex": rng.choice(["F", "M"], n),
        "risk": rng.beta(1.3, 6, n),
        "at": rng.choice(["North", "South"], n),
    })  # fmt: skip
    return frame.assign(y=(rng.random(n) < frame.risk).astype(int))


@pytest.mark.parametrize("seed", range(4))
def test_differences_of_what_a_page_shows_are_never_of_few_people(seed):
    parts = people(seed).groupby("at")
    columns = {"score": "risk", "outcome": "y", "groups": ["race", "sex"]}
    shared = sum(
        Atoms.from_frame(frame, **columns, site=name).share() for name, frame in parts
    )
    found = audit(shared, n_draws=100)
    assert found.to_json(11) == found.to_json()
    sites = compare_sites(shared)
    assert sites.to_json(11) == sites.to_json()
    groups = json.loads(found.to_json(11))["groups"]
    rows = [(row["people"], row["positives"]) for row in groups]
    rows += [
        (row["people"], row["positives"])
        for row in json.loads(sites.to_json(11))["sites"]
    ]
    labels = [
        frozenset(row["group"].split(" & ")) - {"everybody"}
        for row in json.loads(found.to_json(11))["groups"]
    ]
    for n, events in rows:
        assert min(events, n - events) >= 11
    for i, j in combinations(range(len(labels)), 2):
        broad, narrow = (i, j) if labels[i] < labels[j] else (j, i)
        if (
            labels[broad] < labels[narrow]
        ):  # everybody less a group, a group less its part
            left = [a - b for a, b in zip(rows[broad], rows[narrow])]
            assert left == [0, 0] or min(left[1], left[0] - left[1]) >= 11

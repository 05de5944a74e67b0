"""Whole lives of a monitor: how often it is wrong, and how soon it is right."""

import numpy as np
import pytest

from propcal.core.bins import uniform
from propcal.core.grid import significant
from propcal.core.groups import Group
from propcal.core.patterns import PERIOD
from propcal.core.reduction import rescored, stack
from propcal.monitoring.course import assembled
from propcal.monitoring.findings import course_findings
from propcal.monitoring.watched_groups import WatchedGroup
from propcal.options import Identity
from propcal.reading.rows import rows_to_atoms

WATCHED = [
    WatchedGroup(Group(())),
    *(WatchedGroup(Group((("ward", str(i)),))) for i in range(10)),
]


def course(seed, months, people, *, factor=1.0, begins=99):
    rng = np.random.default_rng(seed)
    parts = {}
    for t in range(months):
        score, ward = rng.beta(2, 4, people), rng.integers(0, 10, people)
        chance = np.where(
            (ward == 3) & (t >= begins), np.minimum(score * factor, 1), score
        )
        outcome = (rng.random(people) < chance).astype(int)
        atoms = rows_to_atoms(score, outcome, {"ward": ward.astype(str)})
        parts[f"{t:03d}"] = rescored(atoms, significant(atoms.score, 7, decimals=2))
    atoms = stack(parts, PERIOD)
    identity = Identity(unit="people")
    findings = course_findings(
        atoms, WATCHED, uniform(10), identity, reference=[], settings={}
    )
    return assembled(findings)


@pytest.mark.slow
def test_a_calibrated_score_rarely_raises_an_alarm_in_its_whole_life():
    lives = 100
    alarms = sum(bool(course([11, k], 24, 3000).alarms) for k in range(lives))
    assert alarms <= 0.05 * lives + 3 * np.sqrt(0.05 * 0.95 * lives)


@pytest.mark.slow
def test_a_group_that_changes_is_named_within_three_months():
    lives, named, held = 50, 0, 0
    for k in range(lives):
        found = [
            a
            for a in course([12, k], 15, 5000, factor=1.2, begins=12).alarms
            if a.group == "ward=3"
        ]
        named += bool(found)
        held += bool(found) and found[0].onset_low <= "012" <= found[0].onset_high
    assert named >= 0.75 * lives
    assert held >= 0.85 * named

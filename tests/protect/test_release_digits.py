"""What a released audit or comparison of sites shows beside its counts."""

import numpy as np
import pandas as pd
import pytest

from propcal import Atoms, audit, compare_sites
from propcal.protect.disclosure_rule import Rule
from propcal.protect.protected_audits import protected_findings
from propcal.protect.protected_sites import protected_sites


def has_digits(values, digits):
    """Whether numbers are rounded to so many digits."""
    numbers = np.array([value for value in values if np.isfinite(value)], dtype=float)
    return len(numbers) > 0 and np.array_equal(numbers, numbers.round(digits))


@pytest.fixture(scope="module")
def released(cohort):
    features = cohort[["race", "gender"]]
    found = audit(cohort.y, cohort.score, sensitive_features=features, n_draws=100)
    (findings,) = protected_findings([found._source], Rule(11))
    return findings.shown


def test_statistics_and_design_effects_have_one_digit(released):
    assert has_digits(released.tests["statistic"], 1)
    assert has_digits(released.groups["design_effect"], 1)
    assert released.groups["design_effect"].min() >= 0.1


def test_sites_of_few_people_are_named_as_such():
    rng = np.random.default_rng(5)
    sizes = {"East": 300, "North": 40, "South": 300, "West": 300}
    parts = []
    for name, n in sizes.items():
        score = rng.uniform(0.3, 0.6, n)
        y = (rng.random(n) < score).astype(int)
        parts.append(pd.DataFrame({"score": score, "y": y, "site": name}))
    atoms = Atoms.from_frame(pd.concat(parts), score="score", outcome="y", site="site")
    shown = protected_sites(compare_sites(atoms), 11)
    assert shown._findings.withheld == frozenset({"North"})

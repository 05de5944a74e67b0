"""Corrections that the tests of SQL share."""

import pytest

from propcal import Groups, PMCBoost
from sql_corrections import fitted


@pytest.fixture(scope="session")
def plain():
    """By the paper: no smooth start, many updates."""
    groups = Groups(columns=["race", "icu"], cuts={"age": [30, 41.3]})
    correction = fitted(groups, PMCBoost.paper, alpha=0.1, gamma=0.1, n_bins=5)
    assert correction.start is None
    return correction


@pytest.fixture(scope="session")
def small():
    """A smooth start and updates, for three patterns."""
    correction = fitted(Groups(columns=["icu"]), alpha=0.02, guard=None)
    assert correction.start is not None
    assert len(correction.updates) > 0
    return correction

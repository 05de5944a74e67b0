import numpy as np
import pandas as pd
import pytest

from databases import db  # noqa: F401
from sessions import dask_client, postgres, spark  # noqa: F401

# what a test needs, by the name of the fixture it asks for, and the mark of all such
# tests
NEEDS = {
    "spark": "engines",
    "dask_client": "engines",
    "postgres": "engines",
    "browser": "browser",
}


@pytest.hookimpl(tryfirst=True)  # before -m chooses
def pytest_collection_modifyitems(items):
    """Mark the tests of engines and of the browser, and keep those of each in one
    process.
    """
    for item in items:
        parameters = item.callspec.params.values() if hasattr(item, "callspec") else ()
        asked = {
            *getattr(item, "fixturenames", ()),
            *(value for value in parameters if isinstance(value, str)),
        }
        for name in sorted(asked & NEEDS.keys()):
            item.add_marker(NEEDS[name])
            item.add_marker(pytest.mark.xdist_group(name))


@pytest.fixture(scope="session")
def cohort():
    """3,000 people of 3 x 2 groups (one level missing for some) with a score that is
    wrong for some.
    """
    rng = np.random.default_rng(20230623)
    n = 3000
    race = rng.choice(["Asian", "Black", "White", None], n, p=[0.15, 0.25, 0.5, 0.1])
    gender = rng.choice(["F", "M"], n)
    score = rng.beta(1.5, 4, n)
    factor = np.where(gender == "F", 0.7, 1.3) * np.where(race == "Asian", 1.5, 1.0)
    y = (rng.random(n) < np.clip(score * factor, 0, 1)).astype(int)
    return pd.DataFrame({"race": race, "gender": gender, "score": score, "y": y})


@pytest.fixture
def features(cohort):
    return cohort[["race", "gender"]]

"""People in files, and commands run on them in this process."""

import numpy as np
import pytest

from propcal import PMCBoost
from propcal.cli import main

CANARY = "canary-7f3a"


@pytest.fixture(scope="session")
def people(cohort):
    """People with a score, an id that nobody may see and a column to cut."""
    n = len(cohort)
    extra = {
        "age": np.arange(n) % 90,
        "zip": "02139",
        "id": [f"{CANARY}-{i}" for i in range(n)],
    }
    return cohort.rename(columns={"score": "risk"}).assign(**extra)


@pytest.fixture
def files(people):
    """These people in past.csv and past.parquet."""
    people.to_csv("past.csv", index=False)
    people.to_parquet("past.parquet")
    return people


@pytest.fixture
def run(capfd):
    """Run a command in this process: what it said, which is its error where it
    fails.
    """

    def call(*arguments, code=0):
        with pytest.raises(SystemExit) as end:
            main(list(arguments))
        out, err = capfd.readouterr()
        assert end.value.code == code, err
        assert CANARY not in out + err
        assert "Traceback" not in err
        return err if code else out

    return call


@pytest.fixture(scope="session")
def learned(people):
    """What `propcal fit` learns from these people, as test_cli_fit.py shows."""
    features = people[["race", "gender"]]
    return (
        PMCBoost().fit(people.risk, people.y, sensitive_features=features).correction_
    )


@pytest.fixture
def model(files, learned):
    """It in model.json, beside the people it was learned from."""
    learned.save("model.json")
    return learned

"""A column that looks like a patient ID, repeats and was not declared: one note with
its name.
"""

import warnings

import numpy as np
import pandas as pd
import pytest

from propcal import Atoms, Groups, PMCBoost, audit
from propcal.cli import main

ROLES = {"score": "risk", "outcome": "died", "groups": ["sex"]}
TOLD = (
    "column '{}' looks like a patient ID and repeats: 150 different values in 600 rows"
)


def visits(name="subject_id", n_patients=150, n=600):
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "risk": rng.uniform(0.1, 0.9, n),
            "died": rng.integers(0, 2, n),
            "sex": rng.choice(["F", "M"], n),
            "stay_id": np.arange(n) // 2,
            name: [f"P{i % n_patients}" for i in range(n)],
        }
    )


def from_frame(frame, cluster=None):
    return Atoms.from_frame(frame, cluster=cluster, **ROLES)


def from_files(kind):
    def read(frame, cluster=None):
        getattr(frame, f"to_{kind}")(f"visits.{kind}", index=False)
        return Atoms.from_files(f"visits.{kind}", cluster=cluster, **ROLES)

    return read


def audited(frame, cluster=None):
    ids = None if cluster is None else frame[cluster]
    return audit(
        frame.died,
        frame.risk,
        sensitive_features=frame,
        groups=Groups(["sex"]),
        cluster=ids,
    )


def fitted(frame, cluster=None):
    ids = None if cluster is None else frame[cluster]
    model = PMCBoost(groups=Groups(["sex"]), allow_reversed=True)
    return model.fit(frame.risk, frame.died, sensitive_features=frame, cluster=ids)


WAYS = {
    "frame": from_frame,
    "csv": from_files("csv"),
    "parquet": from_files("parquet"),
    "audit": audited,
    "fit": fitted,
}


def notes(read, frame, **given):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        read(frame, **given)
    return [str(one.message) for one in seen if "patient ID" in str(one.message)]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", ["subject_id", "NHS number", "id"])
def test_a_patient_id_that_repeats_and_is_not_declared_is_told(way, name):
    (told,) = notes(WAYS[way], visits(name))
    assert told.startswith(TOLD.format(name))
    passed = (
        f'cluster=frame["{name}"]' if way in ("audit", "fit") else f'cluster="{name}"'
    )
    assert (
        f"pass {passed} so that intervals and tests count patients rather than visits"
        in told
    )


@pytest.mark.parametrize("way", WAYS)
def test_nothing_is_told_where_nothing_repeats_or_the_id_is_declared(way):
    assert not notes(WAYS[way], visits(), cluster="subject_id")
    assert not notes(WAYS[way], visits(n_patients=600))
    assert not notes(WAYS[way], visits(n_patients=5))  # codes
    assert not notes(WAYS[way], visits("ward"))


@pytest.mark.filterwarnings("ignore")
def test_the_audit_its_page_and_its_json_say_so():
    frame, told = (
        visits("id"),
        "The values of the column “id”, which looks like a patient ID, repeat.",
    )
    atoms = from_frame(frame)
    found = [
        audit(atoms, n_draws=100),
        audit(from_files("csv")(frame), n_draws=100),
        audit(atoms + atoms, n_draws=100),
        audit(frame, **ROLES, n_draws=100),
        audit(frame, score="risk", outcome="died", n_draws=100),
    ]
    for a in found:
        (note,) = [note for note in a.notes if "patient ID" in note]
        assert note.startswith(told)
        assert note.vital
    assert told in found[0].to_html()
    assert told in found[0].to_json(suppress=11)
    named = audit(frame, **ROLES, cluster="id", n_draws=100)
    assert not any("patient ID" in note for note in named.notes)


def test_a_column_that_not_all_files_have_is_no_reason_to_refuse_them():
    visits().to_csv("a.csv", index=False)
    visits().drop(columns="subject_id").assign(died=1).to_csv("b.csv", index=False)
    assert Atoms.from_files(["a.csv", "b.csv"], **ROLES).n_people == 1200


def test_the_command_line_says_which_option_to_add(capfd):
    visits("NHS number").to_csv("visits.csv", index=False)
    with pytest.raises(SystemExit):
        main(
            [
                "audit",
                "visits.csv",
                "--score",
                "risk",
                "--outcome",
                "died",
                "--groups",
                "sex",
            ]
        )
    err = capfd.readouterr().err
    assert f"propcal: note: {TOLD.format('NHS number')}" in err
    assert "pass --cluster 'NHS number' so that" in err

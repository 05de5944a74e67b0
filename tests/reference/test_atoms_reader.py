"""A reader written from docs/reference/atoms-file.md finds the people, outcomes and
loss of propcal.
"""

import numpy as np
import pyarrow.parquet as pq
import pytest
from atoms_reader import AtomsReader

from propcal import Atoms, Groups, mc_loss

COLUMNS = {"score": "score", "outcome": "y"}


@pytest.fixture
def people(cohort):
    rng = np.random.default_rng(8)
    edges = np.concatenate([np.arange(11) / 10, [2**-33, 1 - 2**-40]])
    return cohort.assign(
        age=rng.integers(0, 90, len(cohort)),
        w=rng.uniform(0.5, 2, len(cohort)),
        times=rng.integers(1, 4, len(cohort)),
        soft=np.where(rng.random(len(cohort)) < 0.2, 0.3, cohort.y),
        score=np.where(
            rng.random(len(cohort)) < 0.2, rng.choice(edges, len(cohort)), cohort.score
        ),
    )


def test_people_and_outcomes_add_up_to_those_of_the_rows(people, tmp_path):
    Atoms.from_frame(people, **COLUMNS, groups=["race", "gender"]).save(
        tmp_path / "a.parquet"
    )
    found = AtomsReader(tmp_path / "a.parquet")
    assert found.header["personal_data"] is True
    assert (found.attributes, found.total("people"), found.total("positives")) == (
        ["race", "gender"],
        len(people),
        people.y.sum(),
    )
    for (_, race), (_, gender) in [
        group for group, _ in found.groups() if len(group) == 2
    ]:
        atoms = [a for a in found.atoms if (a["race"], a["gender"]) == (race, gender)]
        same = people[
            (people.race.isna() if race is None else people.race == race)
            & (people.gender == gender)
        ]
        assert sum(a["people"] for a in atoms) == len(same)
        assert sum(a["positives"] for a in atoms) == same.y.sum()
        assert sorted({a["score"] for a in atoms}) == sorted(
            {int(s * 2**32 + 0.5) for s in same.score}
        )


def test_the_loss_by_hand_is_that_of_propcal(people, tmp_path):
    groups = Groups(
        columns=["race"],
        cuts={"age": [18, 65]},
        where={"old women": "age > 75 and gender = F"},
    )
    path = tmp_path / "a.parquet"
    Atoms.from_frame(people, **COLUMNS, groups=groups).save(path)
    features = people[["race", "age", "gender"]]
    expected = mc_loss(
        people.y, people.score, sensitive_features=features, groups=groups
    )
    assert float(AtomsReader(path).mc_loss()) == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize(
    ("outcome", "weight"), [("y", "w"), ("y", "times"), ("soft", None), ("soft", "w")]
)
def test_weights_and_soft_labels_are_sums_of_the_kind_the_page_says(
    people, tmp_path, outcome, weight
):
    features = people[["race", "gender"]]
    weights = None if weight is None else people[weight]
    path = tmp_path / "a.parquet"
    Atoms.from_frame(
        people,
        score="score",
        outcome=outcome,
        groups=list(features),
        weight=weight,
        cluster="times",
    ).save(path)
    found = AtomsReader(path)
    assert found.attributes == ["race", "gender", "cluster bucket"]
    expected = mc_loss(
        people[outcome],
        people.score,
        sensitive_features=features,
        sample_weight=weights,
    )
    assert float(found.mc_loss()) == pytest.approx(
        expected, rel=1e-8
    )  # soft labels are rounded to 2**-32
    assert found.header["weighted_rows"] == (0 if weight is None else len(people))
    w = np.ones(len(people)) if weight is None else people[weight]
    assert found.total("weight") == pytest.approx(w.sum())
    assert found.total("people") == (w.sum() if weight == "times" else len(people))
    assert found.total("positives") == pytest.approx((w * people[outcome]).sum())
    squares = w if weight == "times" else w**2
    assert found.total("weight_sq") == pytest.approx(squares.sum())
    assert found.total("positives_sq") == pytest.approx(
        (squares * people[outcome]).sum()
    )
    kinds = {
        name: str(pq.read_schema(path).field(name).type)
        for name in ("people", "weight", "positives")
    }
    assert kinds["people"] == "int64"
    assert kinds["weight"] == ("double" if weight == "w" else "int64")
    assert kinds["positives"] == (
        "int64" if (outcome, weight) == ("y", "times") else "double"
    )


def test_rows_are_sorted_as_the_page_says(people, tmp_path):
    groups = Groups(columns=["race"], cuts={"age": [9, 18, 65]})
    Atoms.from_frame(people, **COLUMNS, groups=groups, resolution=2**-8).save(
        tmp_path / "a.parquet"
    )
    found = AtomsReader(tmp_path / "a.parquet")
    ranges = ["under 9", "9 to under 18", "18 to under 65", "65 or over"]
    keys = [
        (a["race"] is None, a["race"] or "", ranges.index(a["age"]), a["score"])
        for a in found.atoms
    ]
    assert keys == sorted(set(keys))
    assert found.header["resolution_bits"] == 8
    assert all(a["score"] % 2**24 == 0 for a in found.atoms)

"""Points: one person, a batch, a frame and the formula give one score; explained
exactly; saved and read.
"""

import json
import math
import warnings

import numpy as np
import pandas as pd
import pytest

from propcal import Correction, PMCBoost
from propcal.core.correction.points_table import MOST_TOTAL, FeaturePoints, PointsTable
from propcal.documents.correction import correction_document
from propcal.errors import FileFormatError, InputError, UnknownLevelWarning

VISITS = FeaturePoints("visits", (-80, 0, 120), cuts=(1.0, 4.0), missing=33, whole=True)
WARD = FeaturePoints("ward", (250, -10), levels=("A", "B"), other=-400)
LAB = FeaturePoints("lab", (7, -7), cuts=(0.1,))


def a_correction(points=(VISITS, WARD, LAB), *, updates=True, seed=0):
    rng = np.random.default_rng(seed)
    n = 4000
    sex = rng.choice(["F", "M"], n)
    risk = rng.uniform(0.05, 0.7, n)
    y = rng.random(n) < np.where(sex == "F", risk * 0.6, risk)
    how = PMCBoost.paper() if updates else PMCBoost()
    fitted = how.fit(risk, y, sensitive_features=pd.DataFrame({"sex": sex})).correction_
    return Correction(
        **{**vars_of(fitted), "points": PointsTable(points) if points else None}
    )


def vars_of(correction):
    names = (
        "patterns",
        "groups",
        "bins",
        "updates",
        "unseen",
        "about",
        "start",
        "monotone",
        "folded",
    )
    return {name: getattr(correction, name) for name in names}


def people(n=500, seed=1):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "risk": np.r_[rng.random(n - 3), 0.0, 1.0, 1e-11],
            "sex": rng.choice(["F", "M"], n),
            "visits": rng.choice([0, 1, 2, 3, 4, 9, np.nan], n),
            "ward": rng.choice(["A", "B", "C"], n),
            "lab": rng.choice([-np.inf, 0.0, 0.1, 0.25, np.inf], n),
        }
    )


def log_odds(p):
    return np.log(p) - np.log1p(-p)


def test_points_are_added_in_log_odds_after_the_curve():
    correction, frame = a_correction(updates=False), people()
    before = a_correction(points=(), updates=False).apply(frame.risk, frame[["sex"]])
    after = correction.apply(frame.risk, frame)
    inner = (before > 1e-6) & (before < 1 - 1e-6)
    visits = frame.visits.map({0: -80, 1: 0, 2: 0, 3: 0, 4: 120, 9: 120}).fillna(33)
    ward = frame.ward.map({"A": 250, "B": -10, "C": -400})
    lab = np.where(frame.lab >= 0.1, -7, 7)
    wanted = (visits + ward + lab).to_numpy() / 1000
    assert np.allclose(
        log_odds(after[inner]) - log_odds(before[inner]), wanted[inner], atol=1e-4
    )
    assert after[before == 0].tolist() == [0] * int((before == 0).sum())


@pytest.mark.parametrize("updates", [False, True])
def test_a_person_scores_the_same_alone_in_a_batch_and_in_a_frame(updates):
    correction, frame = a_correction(updates=updates), people()
    batch = correction.apply(frame.risk, frame)
    assert np.array_equal(correction.apply("risk", frame)["corrected"], batch)
    rows = frame.astype(object).where(frame.notna(), None).to_dict("records")
    alone = [correction.score_one(row.pop("risk"), **row) for row in rows]
    assert alone == batch.tolist()
    again = Correction.from_json(correction.to_json())
    assert np.array_equal(again.apply(frame.risk, frame), batch)


def test_an_explanation_adds_up_exactly_and_names_the_ranges():
    correction, frame = a_correction(), people(60)
    explanation = correction.explain(frame.risk, frame)
    batch = correction.apply(frame.risk, frame)
    assert np.array_equal(explanation.corrected, batch)
    steps = explanation.to_frame()
    moved = steps.groupby("person")["shift"].sum().reindex(range(60), fill_value=0.0)
    assert np.allclose(moved, batch - np.round(frame.risk * 2**32) / 2**32, atol=1e-12)
    one = frame.assign(visits=4, ward="B", lab=0.0, risk=0.3).iloc[[0]]
    said = a_correction(updates=False).explain(one.risk, one)
    assert "visits 4 or over" in said.sentence()
    assert "+0.120 in log-odds" in set(said.to_frame()["bin"])
    assert said.plot() is not None


def test_a_higher_score_never_becomes_a_lower_one():
    correction = a_correction()
    assert not correction.monotone
    smooth = a_correction(updates=False)
    scores = np.linspace(0, 1, 2001)
    frame = pd.DataFrame(
        {"sex": "F", "visits": 9, "ward": "A", "lab": 1.0}, index=range(len(scores))
    )
    assert np.all(np.diff(smooth.apply(scores, frame)) >= 0)


def test_values_never_seen_have_no_points_and_are_counted():
    correction = a_correction(
        (VISITS, FeaturePoints("ward", (250, -10), levels=("A", "B")))
    )
    frame = people().assign(ward="Z")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        unseen = correction.apply(frame.risk, frame)
        correction.score_one(0.2, sex="F", visits=1, ward="Z")
    told = [
        str(w.message) for w in caught if issubclass(w.category, UnknownLevelWarning)
    ]
    assert any(
        "'ward': none of the 500 values occurred" in text and "no points" in text
        for text in told
    )
    only = a_correction((VISITS,))
    assert np.array_equal(unseen, only.apply(frame.risk, frame))


def test_a_feature_that_is_missing_at_scoring_is_named():
    correction = a_correction()
    assert correction.reads == ("sex", "visits", "ward", "lab")
    with pytest.raises(InputError, match="there is no column 'lab'"):
        correction.apply([0.2], {"sex": ["F"], "visits": [1], "ward": ["A"]})
    with pytest.raises(InputError, match="'lab' is missing"):
        correction.score_one(0.2, sex="F", visits=1, ward="A")
    with pytest.raises(InputError, match="'visits' must be numeric"):
        correction.apply(
            [0.2], {"sex": ["F"], "visits": ["many"], "ward": ["A"], "lab": [0.1]}
        )


def test_points_count_as_an_update_after_the_curve():
    correction, frame = a_correction(updates=False), people()
    assert correction.n_updates == 2
    first = correction.apply(frame.risk, frame, n_updates=1)
    assert np.array_equal(
        first, a_correction(points=(), updates=False).apply(frame.risk, frame[["sex"]])
    )
    assert [update.group for update in correction.update_list()] == [
        "smooth start",
        "points",
    ]


def test_only_files_with_points_have_the_new_version():
    assert json.loads(a_correction(points=()).to_json())["version"] == 4
    content = json.loads(a_correction().to_json())
    assert content["version"] == 6
    assert len(content["points"]) == 3


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda one: one.update(points=[1, 2]), "one number for each level or range"),
        (lambda one: one.update(points=[1, 2, 10_001]), "from -10,000 to 10,000"),
        (lambda one: one.update(cuts=[4.0, 1.0]), "which increase"),
        (lambda one: one.update(cuts=[1.0, math.inf]), "Infinity"),
        (lambda one: one.update(levels=["a", "b", "c"]), "either levels or cuts"),
        (lambda one: one.update(column="ward"), "a column twice"),
        (lambda one: one.update(other=3), "no other levels"),
        (lambda one: one.pop("whole"), "tables of a column"),
    ],
)
def test_a_damaged_points_table_is_refused(change, told):
    content = json.loads(a_correction().to_json())
    del content["about"]["model_id"]
    change(content["points"][0])
    with pytest.raises(FileFormatError, match=told):
        Correction.from_json(json.dumps(content))


def test_no_product_of_factors_can_overflow():
    many = [
        FeaturePoints(f"f{k}", (10_000, -10_000), cuts=(0.0,))
        for k in range(MOST_TOTAL // 10_000 + 1)
    ]
    correction = a_correction(tuple(many), updates=False)
    with pytest.raises(FileFormatError, match="add up to at most"):
        Correction.from_json(correction.to_json())


def test_atoms_cannot_be_corrected_by_points():
    from propcal import Atoms

    frame = people().assign(y=0)
    atoms = Atoms.from_frame(frame, score="risk", outcome="y", groups=["sex"])
    with pytest.raises(
        InputError, match="needs the columns visits, ward and lab of every person"
    ):
        a_correction().apply_to_atoms(atoms)


def test_a_correction_by_points_alone_shows_no_table_of_changed_scores():
    parts = {
        **vars_of(a_correction(points=())),
        "start": None,
        "updates": np.empty((0, 3), np.int64),
    }
    document = correction_document(
        Correction(**parts, points=PointsTable((VISITS, WARD)))
    )
    _, facts, *tables = document.blocks
    assert facts.texts[-1] == "It adds points of 2 features, and adjusts no cells."
    assert [table.key for table in tables] == ["points"]


def test_points_cannot_be_shared():
    with pytest.raises(InputError, match="Fit without features"):
        a_correction().to_json(share=True)

"""Fits with features: points where they help people left out of the fit, and nowhere
else.
"""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit, logit

from propcal import Atoms, Correction, PMCBoost
from propcal.core.draws import Draws
from propcal.discovery.binned_features import Feature, FeatureTable
from propcal.discovery.points import (
    LIMIT,
    Pieces,
    PointsModel,
    PointsRows,
    _folds,
    fit_points,
)
from propcal.errors import InputError


def people(n=5000, seed=0, *, wrong=True):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "sex": rng.choice(["F", "M"], n),
            "age": rng.integers(18, 95, n),
            "visits": rng.poisson(1.0, n),
            "lab": np.where(rng.random(n) < 0.2, np.nan, rng.normal(size=n).round(2)),
            "ward": rng.choice(list("ABCD"), n),
            "noise": rng.normal(size=n),
            "level": rng.choice(["x", "y", "z"], n),
        }
    )
    frame["risk"] = expit(rng.normal(-1, 1, n))
    shift = 0.5 * (frame.age > 60) - 0.5 * (frame.visits == 0) + 0.5 * frame.lab.isna()
    shift += 0.4 * (frame.ward == "A") + 0.3 * (frame.sex == "F") - 0.4
    frame["died"] = (rng.random(n) < expit(logit(frame.risk) + shift * wrong)).astype(
        int
    )
    return frame


FEATURES = ["age", "visits", "lab", "ward", "noise", "level"]


def fitted(frame, **settings):
    model = PMCBoost(features=FEATURES, **settings)
    return model.fit(frame, score="risk", outcome="died", groups=["sex"])


@pytest.fixture(scope="module")
def model():
    return fitted(people())


def loss(y, p):
    return -np.mean(y * np.log(p) + (1 - y) * np.log1p(-p))


def test_points_are_found_where_they_are_and_help_new_people(model):
    table = {feature.column: feature for feature in model.correction_.points.features}
    assert {"age", "visits", "lab", "ward"} <= set(table)
    assert table["age"].points[-1] - table["age"].points[0] == pytest.approx(
        500, abs=170
    )
    assert table["lab"].missing > 250
    assert table["ward"].points[table["ward"].levels.index("A")] > 150
    new = people(seed=1)
    corrected = model.predict(new, score="risk")
    alone = PMCBoost().fit(people(), score="risk", outcome="died", groups=["sex"])
    plain = alone.predict(new, score="risk")
    assert loss(new.died, corrected) < loss(new.died, plain) - 0.008
    assert model.fit_summary_.gains.points_z > LIMIT


def test_the_summary_says_where_the_gain_comes_from(model):
    text = " ".join(model.fit_summary_.sentences())
    assert "points of" in text
    assert "from the overall curve" in text
    assert "spread over many features: retrain the model" in text
    assert sum(model.fit_summary_.gains.shares) == pytest.approx(1)


def test_a_perfect_score_gets_no_points():
    for seed in range(3):
        model = fitted(people(3000, seed, wrong=False))
        assert model.correction_.points is None
        assert model.correction_.reads == ()
        assert "No points were added: 6 features did not" in " ".join(
            model.fit_summary_.sentences()
        )
        assert set(model.correction_.not_read) == {"sex", *FEATURES}


def test_the_order_of_rows_does_not_matter(model):
    frame = people().sample(frac=1, random_state=3)
    assert fitted(frame).correction_.model_id == model.correction_.model_id


def test_a_file_scores_as_the_model_does(model, tmp_path):
    model.correction_.save(tmp_path / "model.json")
    new = people(seed=2)
    again = Correction.load(tmp_path / "model.json")
    assert np.array_equal(again.apply(new.risk, new), model.predict(new, score="risk"))


def test_scores_of_repeat_visits_and_weights_are_fitted():
    frame = people(3000)
    frame["patient"] = np.arange(3000) // 2
    frame["weight"] = np.random.default_rng(0).choice([0.5, 1.0, 2.0], 3000)
    model = PMCBoost(features=FEATURES)
    model.fit(
        frame,
        score="risk",
        outcome="died",
        groups=["sex"],
        weight="weight",
        cluster="patient",
    )
    assert model.correction_.points is not None


def test_groups_and_discovery_go_together_with_points():
    frame = people(4000)
    model = PMCBoost(features=["visits", "lab"], discover=["age", "ward"])
    model.fit(frame, score="risk", outcome="died", groups=["sex"])
    assert model.correction_.points.columns == ("visits", "lab")


def test_bad_features_are_refused():
    frame = people(600)
    roles = {"score": "risk", "outcome": "died", "groups": ["sex"]}
    for features, told in (
        ([], "name at least one column"),
        ("age", "must be a list of names"),
        (["agee"], "no column 'agee'"),
        (["risk", "age"], "column 'risk' is the score"),
        (["died", "age"], "is the outcome"),
    ):
        with pytest.raises(InputError, match=told):
            PMCBoost(features=features).fit(frame, **roles)
    infinite = frame.assign(lab=np.inf)
    with pytest.raises(InputError, match="600 of 600 values of 'lab' are infinite"):
        PMCBoost(features=["lab", "age"]).fit(infinite, **roles)
    with pytest.raises(InputError, match="need a smooth curve"):
        PMCBoost.paper(features=["age"]).fit(frame, **roles)
    atoms = Atoms.from_frame(frame, score="risk", outcome="died", groups=["sex"])
    with pytest.raises(InputError, match="atoms do not hold"):
        PMCBoost(features=["age"]).fit_atoms(atoms)


def test_a_feature_that_tells_the_outcome_is_left_out():
    frame = people(2000)
    frame["noise"] = frame.died * 10.0
    with pytest.warns(UserWarning, match="a leak"):
        model = fitted(frame)
    assert "noise" not in model.correction_.reads


def test_a_spike_and_missing_values_are_pieces_of_their_own():
    rng = np.random.default_rng(0)
    codes = np.where(rng.random(10_000) < 0.5, 0, rng.integers(1, 101, 10_000)).astype(
        np.uint8
    )
    feature = Feature("gain", cuts=np.arange(1.0, 101.0))
    pieces = Pieces.of(feature, codes)
    assert Pieces.of(feature, codes, 32).n_pieces <= 32 < pieces.n_pieces
    assert pieces.apart == (0, pieces.n_pieces - 1)
    assert np.flatnonzero(pieces.place == 0).tolist() == [0]
    people = np.bincount(pieces.place[codes])
    assert people.min() >= 20


def bent(n, seed=0):
    """Risk is U-shaped in age, which determines the score; so the calibration curve
    falls, then rises.
    """
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {"age": rng.integers(18, 95, n), "ward": rng.choice(list("uvwxyz"), n)}
    )
    frame["sex"] = rng.choice(["F", "M"], n)
    frame["risk"] = expit(-3 + 0.03 * (frame.age - 50)).round(4)
    frame["truth"] = expit(
        -2.2 + 0.0016 * (frame.age - 60) ** 2 + 1.2 * frame.ward.isin(["u", "v"])
    )
    frame["died"] = (rng.random(n) < frame.truth).astype(int)
    return frame


@pytest.mark.parametrize("features", [None, ["ward"], ["age", "ward"]])
def test_a_curve_that_falls_leaves_the_sum_of_scores_as_it_was_fitted(features):
    frame, new = bent(8000), bent(8000, 1)
    model = PMCBoost(features=features).fit(
        frame, score="risk", outcome="died", groups=["sex"]
    )
    assert model.predict(frame, score="risk").mean() == pytest.approx(
        frame.died.mean(), rel=0.01
    )
    corrected = model.predict(new, score="risk")
    level = np.full(len(new), frame.died.mean())
    assert loss(new.truth, corrected) < loss(new.truth, level) + 0.001
    if features:
        text = " ".join(model.fit_summary_.sentences())
        assert f"also depend on {' and '.join(features)}, which" in text
        assert loss(new.truth, corrected) < loss(new.truth, level) - 0.02


def points_rows(codes, outcome):
    """Rows of numbers with these codes, and scores of 0.5."""
    table = FeatureTable(
        tuple(
            Feature(f"x{k}", cuts=np.arange(0.5, own.max()))
            for k, own in enumerate(codes)
        ),
        np.array(codes, dtype=np.uint8),
        {},
    )
    even = np.zeros(len(outcome))
    return PointsRows(
        even, even, outcome.astype(float), np.ones(len(outcome)), [], table
    )


def test_narrow_ranges_that_matter_get_points_of_their_own():
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 100, 30_000)
    effect = np.where(np.arange(100) % 8 < 4, 1.0, 0.0)
    fitted = fit_points(points_rows([codes], rng.random(30_000) < expit(effect[codes])))
    found = fitted.table.features[0]
    points = np.array(found.points)[
        np.searchsorted(found.cuts, np.arange(100), side="right")
    ]
    assert np.mean(points[effect == 1]) - np.mean(points[effect == 0]) > 500
    assert np.corrcoef(points, effect)[0, 1] > 0.8


def test_many_features_share_pieces_and_effects():
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 200, (100, 8_000))
    rows = points_rows(codes, rng.random(8_000) < 0.5)
    first = rows.table.without({f"x{k}": "another model" for k in range(5, 100)})
    few, many = PointsModel(replace(rows, table=first)), PointsModel(rows)
    assert max(len(term.columns) for term in many.terms[1:]) <= 33
    assert min(len(term.columns) for term in few.terms[1:]) > 100
    assert few.terms[1].columns.shape[1] - many.terms[1].columns.shape[1] == 20


def test_folds_are_random_also_among_equal_rows_and_rows_of_a_person_share_one():
    rows = points_rows([np.arange(5_000) % 7], np.ones(5_000))
    draws = Draws(0)
    first, second = _folds(rows, draws), _folds(rows, draws)
    assert np.bincount(first).tolist() == [1_000] * 5
    for other in (second, np.roll(first, 1)):
        assert np.mean(first == other) == pytest.approx(0.2, abs=0.03)
    persons = replace(rows, cluster=np.arange(5_000) // 3)
    fold = _folds(persons, draws)
    assert all(len(set(fold[k : k + 3])) == 1 for k in range(0, 4_998, 3))


def test_a_fit_with_a_search_and_points_checks_the_rows_once(monkeypatch):
    from propcal.reading import checked_people

    calls = []
    check_rows = checked_people.check_rows

    def counted(*args, **how):
        calls.append(args)
        return check_rows(*args, **how)

    monkeypatch.setattr(checked_people, "check_rows", counted)
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.integers(20, 90, 600), "ward": "A"})
    risk = rng.uniform(0.1, 0.5, 600)
    died = (rng.random(600) < risk).astype(int)
    PMCBoost(discover=["age"], features=["age"]).fit(
        risk, died, sensitive_features=frame
    )
    assert len(calls) == 1

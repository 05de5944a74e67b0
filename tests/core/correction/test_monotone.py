"""Monotone corrections: within a combination of attributes, a higher score never
becomes a lower one.
"""

from dataclasses import replace

import numpy as np
import pytest

from propcal import Correction, MCBoost, PMCBoost
from propcal.core.correction.update_pieces import non_decreasing
from propcal.core.grid import UNIT, from_grid, to_grid
from reference.correction_reader import Reader


def bumpy(seed=0, **kw):
    """A fit with many adjustments, most of them out of order."""
    rng = np.random.default_rng(seed)
    n = 3000
    score = rng.random(n)
    group = rng.choice(["a", "b"], n)
    y = (
        rng.random(n)
        < np.clip(
            score + 0.15 * np.sin(25 * score) * np.where(group == "a", 1, -1), 0, 1
        )
    ).astype(int)
    model = PMCBoost(start="identity", guard=None, alpha=0.02, n_bins=20, **kw)
    return model.fit(score, y, sensitive_features={"g": group}).correction_


def units(correction):
    """Scores at which a map could turn: where pieces and knots begin, the units around
    them, and others.
    """
    near = correction.maps.begin[:, None] + np.arange(-2, 3)
    some = np.random.default_rng(1).integers(0, UNIT + 1, 20_000)
    from propcal.core.correction.smooth_map import knots

    return np.unique(
        np.clip(
            np.concatenate(
                [near.ravel(), some, (knots()[:, None] + [-1, 0, 1]).ravel()]
            ),
            0,
            UNIT,
        )
    )


@pytest.mark.parametrize("start", ["identity", "smooth"])
def test_corrected_scores_rise_at_every_unit(start):
    rng = np.random.default_rng(3)
    score = rng.random(2000)
    y = (rng.random(2000) < np.clip(score + 0.2 * np.sin(30 * score), 0, 1)).astype(int)
    group = rng.choice(["a", "b"], 2000)
    model = PMCBoost(start=start, guard=None, alpha=0.02, n_bins=20).fit(
        score, y, sensitive_features={"g": group}
    )
    correction = model.correction_
    assert correction.monotone
    at = units(correction)
    for level in ("a", "b", "new"):
        corrected = correction.apply(from_grid(at), {"g": [level] * len(at)})
        assert np.all(np.diff(to_grid(corrected)) >= 0)
        free = replace(correction, monotone=False)
        if level != "new":
            assert np.any(
                np.diff(to_grid(free.apply(from_grid(at), {"g": [level] * len(at)})))
                < 0
            )


def test_the_map_is_the_running_maximum_of_the_adjustments():
    correction = bumpy()
    free = replace(correction, monotone=False)
    at = units(correction)
    for level in "ab":
        features = {"g": [level] * len(at)}
        ordered = to_grid(correction.apply(from_grid(at), features))
        assert np.array_equal(
            ordered, np.maximum.accumulate(to_grid(free.apply(from_grid(at), features)))
        )


def test_a_running_maximum_by_hand():
    table = np.array(
        [[0, 1, 0], [100, 1, -30], [150, 0, 90], [200, 1, 5]], dtype=np.int64
    )
    # up to 99; then 70..119 is held at 99 until 129; 90 is below 119; 205 is above
    expected = [[0, 1, 0], [100, 0, 99], [129, 1, -30], [150, 0, 119], [200, 1, 5]]
    assert non_decreasing(table).tolist() == expected
    alone = np.array([[0, 1, 0]], dtype=np.int64)
    assert non_decreasing(alone) is alone


def test_the_file_keeps_the_order_and_its_reader_agrees():
    correction = bumpy(1)
    again = Correction.from_json(correction.to_json())
    assert again.monotone
    reader, at = Reader(correction.to_json()), units(correction)[::97]
    for level in "ab":
        expected = correction.apply(from_grid(at), {"g": [level] * len(at)})
        assert (
            again.apply(from_grid(at), {"g": [level] * len(at)}).tolist()
            == expected.tolist()
        )
        assert [
            reader.score(s, {"g": level}) for s in from_grid(at).tolist()
        ] == expected.tolist()
        ones = [correction.score_one(s, g=level) for s in from_grid(at[:50]).tolist()]
        assert ones == expected[:50].tolist()


def test_sql_keeps_the_order():
    import duckdb
    import pandas as pd

    correction = bumpy(2)
    at = from_grid(units(correction)[::31])
    people = pd.DataFrame(
        {
            "id": np.arange(2 * len(at)),
            "g": np.repeat(["a", "b"], len(at)),
            "risk": np.tile(at, 2),
        }
    )
    export = correction.to_sql("duckdb", score="risk", table="people")
    con = duckdb.connect()
    con.register("people", people)
    for statement in export.setup:
        con.execute(statement)
    found = con.execute(
        f"select * from ({export.query.rstrip().rstrip(';')}) order by id"
    ).df()
    assert found["corrected"].tolist() == correction.apply(people.risk, people).tolist()


def test_an_explanation_adds_up_and_names_what_was_held():
    correction = bumpy(3)
    at = from_grid(units(correction)[::211])
    told = correction.explain(at, {"g": ["a"] * len(at)})
    assert (
        told.corrected.tolist() == correction.apply(at, {"g": ["a"] * len(at)}).tolist()
    )
    table = told.to_frame("groups")
    change = table.groupby("person").change.sum()
    assert change.to_numpy() == pytest.approx(
        (told.corrected - told.score)[change.index], abs=1e-9
    )
    assert "order of scores" in set(table.group)


def test_the_paper_is_as_it_was():
    for cls in (PMCBoost, MCBoost):
        assert cls.paper().monotone is False
        assert cls().monotone is True


def test_the_fit_summary_is_that_of_the_scores_non_decreasing():
    rng = np.random.default_rng(0)
    score = rng.random(3000)
    y = (rng.random(3000) < np.clip(score + 0.2 * np.sin(25 * score), 0, 1)).astype(int)
    model = PMCBoost(start="identity", guard=None, alpha=0.02, n_bins=20).fit(score, y)
    summary, corrected = model.fit_summary_, model.predict(score)
    cell = np.minimum((corrected * 20).astype(int), 19)
    for j, mean in zip(summary.bin, summary.mean_score):
        assert corrected[cell == j].mean() == pytest.approx(mean, abs=1e-6)
    assert "a higher score must not become a lower one" in repr(summary)


def test_scores_kept_in_order_are_nowhere_further_off_than_before():
    """A few people with low scores had the outcome: to lift everybody above them would
    do harm.
    """
    rng = np.random.default_rng(2)
    score = rng.uniform(0.05, 0.6, 4000)
    ward = np.where(np.arange(4000) < 200, "x", "y")
    y = (rng.random(4000) < score).astype(int)
    small = (ward == "x") & (score < 0.12)
    y[small] = 1
    model = PMCBoost().fit(score, y, sensitive_features={"ward": ward})
    corrected = model.predict(score, sensitive_features={"ward": ward})
    for name in ("x", "y"):
        own = ward == name
        assert np.mean((corrected - y)[own] ** 2) <= np.mean((score - y)[own] ** 2)

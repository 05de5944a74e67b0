"""Folded levels: a correction fitted on shared atoms reads every unlisted level as
"other levels".
"""

import json
import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from databases import DuckDb, Sqlite
from propcal import Atoms, Correction, Groups, PMCBoost
from propcal.core.patterns import OTHER
from propcal.errors import FileFormatError, UnknownLevelWarning
from propcal.scoring.scorer import Scorer, Tally
from reference.correction_reader import Reader
from sql_corrections import bits, score_in

RARE = ["Inuit", "Maori", None]


def visits(n, seed):
    rng = np.random.default_rng(seed)
    race = rng.choice(
        np.array(["Asian", "Black", "White", *RARE], dtype=object),
        n,
        p=[0.2, 0.3, 0.47, 0.01, 0.01, 0.01],
    )
    frame = pd.DataFrame(
        {"race": race, "sex": rng.choice(["F", "M"], n), "age": rng.integers(20, 90, n)}
    )
    frame["score"] = rng.beta(1.3, 3, n)
    odd = np.isin(race, ["Asian", "Black", "White"])
    chance = frame.score * np.where(race == "Black", 0.7, np.where(odd, 1.0, 0.4))
    return frame.assign(y=(rng.random(n) < chance).astype(int))


@pytest.fixture(scope="module")
def shared():
    groups = Groups(columns=["race", "sex"], cuts={"age": [21, 60]})
    return Atoms.from_frame(
        visits(12_000, 1), score="score", outcome="y", groups=groups
    ).share()


@pytest.fixture(scope="module")
def correction(shared):
    found = (
        PMCBoost.paper(alpha=0.05, gamma=0.01, n_bins=5).fit_atoms(shared).correction_
    )
    assert "race" in found.folded
    assert any(("race", OTHER) in group.conditions for group in found.groups)
    return found


@pytest.fixture(scope="module")
def folded_by_hand(correction):
    """New people, and the same people with the levels that the correction does not list
    named as it does.
    """
    new = visits(3000, 2)
    listed = dict(zip(correction.attributes, correction.patterns.levels))["race"]
    hand = new.assign(race=[level if level in listed else OTHER for level in new.race])
    assert (hand.race == OTHER).sum() > 20
    return new, hand


def test_an_unlisted_level_is_corrected_as_other_levels_without_a_warning(
    correction, folded_by_hand
):
    new, hand = folded_by_hand
    rare = (hand.race == OTHER).to_numpy()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ours = correction.apply(new.score, new)
        assert ours.tolist() == correction.apply(new.score, hand).tolist()
        for policy in ("keep", "error"):
            assert (
                correction.apply(new.score, new, unseen=policy).tolist()
                == ours.tolist()
            )
        one = [
            correction.score_one(score, race=race, sex=sex, age=age)
            for score, race, sex, age in new[rare][
                ["score", "race", "sex", "age"]
            ].itertuples(index=False)
        ]
    assert one == ours[rare].tolist()
    content = json.loads(correction.to_json()) | {"about": {}, "version": 4}
    del content["folded"]
    without = Correction.from_json(json.dumps(content))
    with pytest.warns(UnknownLevelWarning):
        assert (without.apply(new.score, new)[rare] != ours[rare]).any()


def test_unlisted_levels_are_unseen_only_where_there_are_no_others(
    correction, folded_by_hand
):
    new, _ = folded_by_hand
    groups = Groups(columns=["race", "sex"], cuts={"age": [21, 60]})
    for frame, share in ((new, 0), (new.assign(race=new.race.str.lower() + "?"), 1)):
        tally = Tally(Scorer(correction, "score", "corrected"))
        for start in (0, 1000):  # batches
            rows = slice(start, 1000 if start == 0 else None)
            tally_of = {
                name: frame[name].to_numpy()[rows]
                for name in ("score", "race", "sex", "age")
            }
            Scorer(correction, "score", "corrected").correct(tally_of, tally)
        counted = tally.summary()
        assert (counted.unseen_rows, counted.unseen) == (
            share * 3000,
            {"race": 3000} if share else {},
        )
        atoms = Atoms.from_frame(frame, score="score", outcome="y", groups=groups)
        assert correction.unseen_share(atoms) == share


def test_atoms_frames_explanations_and_files_agree(correction, folded_by_hand):
    new, _ = folded_by_hand
    ours = correction.apply(new.score, new)
    assert correction.explain(new.score, new).corrected.tolist() == ours.tolist()
    assert correction.apply("score", new)["corrected"].tolist() == ours.tolist()
    groups = Groups(columns=["race", "sex"], cuts={"age": [21, 60]})
    atoms = Atoms.from_frame(new.assign(w=1), score="score", outcome="y", groups=groups)
    table = dict(zip(new.score, ours))
    on_grid = {np.floor(score * 2**32 + 0.5): value for score, value in table.items()}
    for score, value in zip(
        atoms.score.tolist(), correction.apply_to_atoms(atoms).tolist()
    ):
        assert value == pytest.approx(on_grid[score], abs=2**-31)
    text = correction.to_json()
    assert json.loads(text)["version"] == 5
    again = Correction.from_json(text)
    assert again.folded == correction.folded
    assert again.apply(new.score, new).tolist() == ours.tolist()
    rows = new.drop(columns="y").to_dict("records")
    reader = Reader(text)
    assert [reader.score(row["score"], row) for row in rows] == ours.tolist()
    handed_on = correction.shared()
    assert handed_on.folded == correction.folded
    reader = Reader(handed_on.to_json())
    assert [reader.score(row["score"], row) for row in rows] == handed_on.apply(
        new.score, new
    ).tolist()


@pytest.mark.parametrize("database", [DuckDb, Sqlite])
@pytest.mark.parametrize("unseen", ["replay", "keep", "error"])
def test_sql_gives_the_same(correction, folded_by_hand, database, unseen):
    new = folded_by_hand[0].drop(columns="y").rename(columns={"score": "risk"})
    people = pa.table({"id": pa.array(np.arange(len(new)))} | {
        name: pa.array(new[name], from_pandas=True) for name in ("risk", "race", "sex", "age")
    })  # fmt: skip
    db = database()
    for form in ("lookup", "values"):
        export = correction.to_sql(db.name, score="risk", form=form, unseen=unseen)
        raw, found = score_in(db, export, people)
        assert bits(found) == bits(
            correction.apply(np.array(raw), new, unseen=unseen).tolist()
        )
        assert "count as other levels in: race" in export.header


def test_a_column_that_is_coded_differently_is_still_warned_of(correction):
    new = visits(500, 3).assign(race=lambda f: f.race.fillna("none").str.upper())
    with pytest.warns(
        UnknownLevelWarning,
        match=r"none of the 500 values is listed.*coded differently",
    ):
        correction.apply(new.score, new)


def test_a_file_folds_only_attributes_that_it_has(correction):
    content = json.loads(correction.to_json())
    for wrong in (["height"], "race", [1], ["race", "race"]):
        with pytest.raises(FileFormatError, match="folded"):
            Correction.from_json(json.dumps(content | {"folded": wrong}))
    with pytest.raises(FileFormatError, match='version 4 has no "folded"'):
        Correction.from_json(json.dumps(content | {"version": 4}))


def test_ordinary_fits_fold_nothing():
    frame = visits(3000, 4)
    fit = (
        PMCBoost.paper()
        .fit(frame.score, frame.y, sensitive_features=frame[["race"]])
        .correction_
    )
    assert fit.folded == ()
    assert json.loads(fit.to_json())["version"] == 4

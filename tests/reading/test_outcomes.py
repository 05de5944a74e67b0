"""Outcomes in words, and people without a score or an outcome: alike in memory, in
files and in engines.
"""

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from propcal import Atoms, MCBoost, PMCBoost, audit, compare, mc_loss
from propcal.core.atoms import LeftOut, LeftOutReport
from propcal.errors import InputError

COLUMNS = {"score": "s", "outcome": "y", "groups": ["g"]}
SCORES = [0.1, 0.4, 0.6, 0.9]
DOORS = ["pandas", "polars", "lazy", "duckdb", "csv", "parquet", "clusters"]


def people(outcomes, scores=None, groups=None):
    n = len(outcomes)
    return pd.DataFrame(
        {
            "s": SCORES[:n] if scores is None else scores,
            "y": outcomes,
            "g": list("aabb")[:n] if groups is None else groups,
            "id": np.arange(n),
        }
    )


def reduced(frame, door, **settings):
    """The atoms of a frame by one of the ways in."""
    columns = COLUMNS | settings
    if door in ("csv", "clusters"):
        frame.to_csv("people.csv", index=False)
        return Atoms.from_files(
            "people.csv", **columns, **({"cluster": "id"} if door == "clusters" else {})
        )
    if door == "parquet":
        frame.to_parquet("people.parquet")
        return Atoms.from_files("people.parquet", **columns)
    if door == "duckdb":
        return Atoms.from_frame(duckdb.from_df(frame), **columns)
    made = {"pandas": lambda: frame, "polars": lambda: pl.from_pandas(frame)}
    made["lazy"] = lambda: pl.from_pandas(frame).lazy()
    return Atoms.from_frame(made[door](), **columns)


def events(atoms):
    """The outcome of each score."""
    table = atoms.to_frame().sort_values("score")
    return table["positives"].astype(int).tolist()


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize(
    "words",
    [
        ["yes", "No", "YES", " no"],
        ["Y", "n", "y", "N"],
        ["True", "FALSE", "true", "false"],
        ["t", "F", "T", "f"],
        ["1", "0", "1.0", "0"],
        ["yes", "0", "1", "no"],
        [True, False, True, False],
    ],
)
def test_yes_and_no_are_understood_in_their_usual_spellings(door, words):
    assert events(reduced(people(words), door)) == [1, 0, 1, 0]


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize(
    ("outcomes", "positive"),
    [
        (["EXPIRED", "HOME", "EXPIRED", "SNF"], "EXPIRED"),
        (["EXPIRED", "HOME", "EXPIRED", "SNF"], "expired "),
        ([2, 1, 2, 1], 2),
        ([2, 1, 2, 1], "2"),
        ([0, 1, 0, 1], 0),
        ([True, False, True, False], "true"),
        ([True, False, True, False], 1),
        (["no", "yes", "no", "yes"], "no"),
        ([2.5, 1.5, 2.5, 1.5], 2.5),
    ],
)
def test_one_value_can_mean_the_event(door, outcomes, positive):
    assert events(reduced(people(outcomes), door, positive=positive)) == [1, 0, 1, 0]


@pytest.mark.parametrize("door", DOORS)
def test_two_other_texts_ask_for_the_event(door):
    with pytest.raises(InputError) as error:
        reduced(people(["EXPIRED", "ALIVE", "EXPIRED", "ALIVE"]), door)
    assert str(error.value) == (
        "column 'y' must be 0 or 1, or yes or no; it holds 'ALIVE' and 'EXPIRED'. "
        "Say which of them means the event: positive='ALIVE' or positive='EXPIRED'"
    )


@pytest.mark.parametrize("door", DOORS)
def test_more_texts_are_counted_and_not_shown(door):
    with pytest.raises(
        InputError, match="1 of its 3 different values is neither"
    ) as error:
        reduced(people(["yes", "no", "secret", "no"]), door)
    assert "secret" not in str(error.value)


@pytest.mark.parametrize("door", DOORS)
def test_an_event_that_never_occurs_is_told(door):
    with pytest.raises(
        InputError,
        match=r"column 'y': no value is 'DIED'. It holds 'ALIVE' and 'EXPIRED'.",
    ):
        reduced(people(["EXPIRED", "ALIVE", "EXPIRED", "ALIVE"]), door, positive="DIED")
    with pytest.raises(
        InputError, match=r"no value is 3. It holds 4 different values"
    ) as error:
        reduced(people([11, 12, 13, 14]), door, positive=3)
    assert "12" not in str(error.value)


@pytest.mark.parametrize("door", DOORS)
def test_a_number_that_is_no_outcome_asks_for_the_event(door):
    with pytest.raises(
        InputError,
        match=r"2 of 4 values are neither. Say which value means the event with positive",
    ):
        reduced(people([1, 2, 1, 2]), door)


@pytest.mark.parametrize("door", DOORS)
def test_deciles_as_outcome_of_a_score_of_0_and_1_are_taken_for_swapped(door):
    with pytest.raises(
        InputError,
        match=r"3 of 4 values are neither. Column 's' holds only 0 and 1. Are score and outcome sw",
    ):
        reduced(people([1, 10, 3, 7], [0, 1, 0, 1]), door)


@pytest.mark.parametrize("door", DOORS)
def test_one_text_beside_empty_cells_says_how_to_go_on(door):
    told = "it holds only 'DEAD'. Write another value where there was no event, .* positive='DEAD'"
    with pytest.raises(InputError, match=told):
        reduced(people(["DEAD", None, "DEAD", None]), door)


def test_words_in_place_of_scores_are_taken_for_swapped():
    y = np.array(["yes", "no"] * 50)
    with pytest.raises(
        InputError,
        match=r"holds only yes and no, as an outcome does. Are score and outcome s",
    ):
        audit(np.tile([0.3, 0.2], 50), y)
    with pytest.raises(
        InputError, match="score must be numeric; all 100 values are text"
    ):
        audit(np.tile([0, 1], 50), np.array(["high", "low"] * 50))
    with pytest.raises(InputError, match="score must be numeric; the value is text"):
        audit([1], ["high"])


def test_every_function_understands_words():
    y = np.array(["yes", "no"] * 500)
    score = np.tile([0.6, 0.4], 500)
    assert mc_loss(y, score) == mc_loss(np.tile([1, 0], 500), score)
    assert audit(y, score, n_draws=100).settings["positives"] == 500
    died = np.where(y == "yes", "EXPIRED", "HOME")
    assert (
        audit(died, score, positive="EXPIRED", n_draws=100).settings["positives"] == 500
    )
    assert compare(
        {"a": score, "b": score}, died, positive="EXPIRED", n_draws=100
    ).audits
    for model in (PMCBoost(), MCBoost()):
        told = [
            model.fit(score, died, positive="EXPIRED").predict(score),
            model.fit(score, y).predict(score),
        ]
        assert np.array_equal(*told)
    categories = pd.Series(died, dtype="category")
    assert np.array_equal(
        PMCBoost().fit(score, categories, positive="EXPIRED").predict(score), told[0]
    )


# who is left out


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("weighted", [False, True])
def test_rows_without_score_or_outcome_are_left_out_and_counted(door, weighted):
    frame = people(
        [1, 0, np.nan, 1, 0], [0.1, np.nan, 0.5, 0.9, 0.3], ["a", "a", None, "b", "b"]
    )
    settings = {"drop_missing": True}
    if weighted:
        frame["w"] = [1, 2, 3, 4, 0]
        settings["weight"] = "w"
    found = reduced(frame, door, **settings)
    rest = frame[frame.s.notna() & frame.y.notna()]
    assert (
        found.fingerprint()
        == reduced(rest, door, **({"weight": "w"} if weighted else {})).fingerprint()
    )
    by = {"a": 2, None: 3} if weighted else {"a": 1, None: 1}
    assert found.left_out == LeftOut(sum(by.values()), {"g": by})


@pytest.mark.parametrize("door", DOORS)
def test_missing_scores_are_refused_with_the_way_out(door):
    frame = people([1, 0, 1, 0], [0.1, np.nan, 0.6, 0.9])
    with pytest.raises(InputError) as error:
        reduced(frame, door)
    assert str(error.value) == (
        "column 's' must hold probabilities from 0 to 1; 1 of 4 values is missing. Exclude these rows "
        "with drop_missing=True (the report will say how many), or find out why their score is missing"
    )
    with pytest.raises(
        InputError, match="none of the 4 people has both a score and an outcome"
    ):
        reduced(
            frame.assign(s=[0.1, np.nan, 0.6, np.nan], y=[np.nan, 1, np.nan, 0]),
            door,
            drop_missing=True,
        )


@settings(max_examples=30, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from([0.1, 0.5, None]),
            st.sampled_from([0, 1, None]),
            st.sampled_from(["a", "b", None]),
        ),
        min_size=2,
        max_size=20,
    ),
    st.integers(1, 19),
)
def test_those_left_out_add_up_and_are_saved(tmp_path_factory, rows, cut):
    frame = pd.DataFrame([(0.2, 1, "a"), *rows, (0.2, 1, "a")], columns=["s", "y", "g"])
    parts = [
        part
        for part in (frame[:cut], frame[cut:])
        if part[["s", "y"]].notna().all(axis=1).any()
    ]
    whole = Atoms.from_frame(frame, **COLUMNS, drop_missing=True)
    lazy = Atoms.from_frame(pl.from_pandas(frame).lazy(), **COLUMNS, drop_missing=True)
    assert lazy.left_out == whole.left_out
    gone = frame[frame.s.isna() | frame.y.isna()]
    assert whole.left_out.people == len(gone)
    assert whole.left_out.by.get("g", {}) == {
        level if isinstance(level, str) else None: count
        for level, count in gone.g.value_counts(dropna=False).items()
    }
    if len(parts) == 2:
        one, other = (
            Atoms.from_frame(part, **COLUMNS, drop_missing=True) for part in parts
        )
        assert (one + other).left_out == whole.left_out
        assert (one + other).fingerprint() == whole.fingerprint()
    path = tmp_path_factory.mktemp("atoms") / "people.atoms"
    whole.save(path)
    assert Atoms.load(path).left_out == whole.left_out


def gap_people(n=3000, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "g": rng.choice(["White", "Black", "Asian"], n, p=[0.6, 0.3, 0.1]),
            "s": rng.random(n),
        }
    )
    frame["y"] = (rng.random(n) < frame.s).astype(float)
    frame.loc[frame.index[:100], "s"] = np.nan
    return frame


def test_an_audit_and_a_fit_say_who_was_left_out():
    frame = gap_people()
    gone = frame[:100]
    found = audit(
        frame.y,
        frame.s,
        sensitive_features=frame[["g"]],
        drop_missing=True,
        n_draws=100,
    )
    assert found.settings["people"] == 2900
    (note,) = [note for note in found.notes if "left out:" in note]
    assert note.startswith(
        "100 of 3,000 people (3.3 %) have no score or outcome and were left out: "
    )
    for level in ("White", "Black", "Asian"):
        share = (gone.g == level).sum() / (frame.g == level).sum()
        assert f"{level} {100 * share:.1f} %" in note
    both = compare(
        {"a": frame.s, "b": frame.s / 2},
        frame.y,
        sensitive_features=frame[["g"]],
        drop_missing=True,
        n_draws=100,
    )
    assert note in both.audits["b"].notes
    model = PMCBoost().fit(
        frame.s, frame.y, sensitive_features=frame[["g"]], drop_missing=True
    )
    assert any("100 of 3,000 people" in text for text in model.certificate_.sentences())
    corrected = compare(
        {"a": frame.s, "b": model},
        frame.y,
        sensitive_features=frame[["g"]],
        drop_missing=True,
        n_draws=100,
    )
    assert corrected.audits["b"].settings["fitted_on_these"]


def test_small_numbers_of_people_left_out_are_suppressed():
    frame = gap_people()
    few = frame[95:]  # five without a score
    found = audit(
        few.y, few.s, sensitive_features=few[["g"]], drop_missing=True, n_draws=100
    )
    assert "5 of 2,905 people" in found.to_json()
    assert "5 of 2,905 people" not in found.to_json(suppress=11)
    assert (
        "Fewer than 11 people have no score or outcome and were left out."
        in found.to_json(suppress=11)
    )


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(0, 40), min_size=1, max_size=6))
def test_a_small_count_cannot_be_worked_out_from_the_others(counts):
    rows = [(f"level {i}", count, count + 1000) for i, count in enumerate(counts)]
    text = LeftOutReport(sum(counts), 10_000, {"g": rows}).sentence(11)
    hidden = [count for (name, count, _) in rows if f"{name} " not in text and count]
    if sum(counts) >= 11 and any(0 < count < 11 for count in counts):
        assert all(count in hidden for count in counts if 0 < count < 11)
        assert len(hidden) > 1 or len([count for count in counts if count]) == 1
        assert sum(hidden) >= 11


# score and outcome swapped


@pytest.mark.parametrize("door", DOORS)
def test_swapped_columns_are_refused(door):
    with pytest.raises(
        InputError,
        match=r"holds only 0 and 1, and column 'y' holds values between them. Are score",
    ):
        reduced(
            people([0.1, 0.4, 0.6, 0.9] * 5, [0, 1, 0, 1] * 5, list("aabb") * 5), door
        )


def test_swapped_arguments_are_refused_everywhere():
    score, y = np.random.default_rng(0).random(100), np.tile([0, 1], 50)
    for call in (
        lambda: audit(score, y),
        lambda: mc_loss(score, y),
        lambda: PMCBoost().fit(y, score),
        lambda: compare({"a": y, "b": y}, score),
    ):
        with pytest.raises(InputError, match="Are score and outcome swapped"):
            call()
    assert mc_loss(score, np.zeros(100)) > 0  # a constant is no outcome


# a score that ranks the wrong way round


def reversed_people(n=2000):
    rng = np.random.default_rng(1)
    risk = rng.random(n)
    return 1 - risk, (rng.random(n) < risk).astype(int)


def test_a_reversed_score_is_refused_by_a_fit_and_noted_by_an_audit():
    survival, y = reversed_people()
    with pytest.raises(
        InputError,
        match=r"wrong way round \(AUROC 0\.1\d\). Check that the right value of the outcome",
    ):
        PMCBoost().fit(survival, y)
    assert PMCBoost(allow_reversed=True).fit(survival, y).correction_
    told = "THE SCORE RANKS PEOPLE THE WRONG WAY ROUND"
    verdict = audit(y, survival, n_draws=100).verdict
    assert verdict.sentences[0].startswith(told)
    assert verdict.ranks_backwards
    assert "WRONG WAY" not in audit(y, 1 - survival, n_draws=100).verdict.text
    assert (
        audit(np.where(y == 1, 0.9, 0.1), survival, n_draws=100)
        .notes[0]
        .startswith(told)
    )  # not tested


def test_few_events_do_not_make_a_score_reversed():
    score = np.r_[np.full(49, 0.1), np.full(49, 0.9)]
    assert PMCBoost().fit(score, np.r_[np.ones(49), np.zeros(49)]).correction_


def test_a_score_that_ranks_a_little_backwards_is_fitted():
    # AUROC 0.45, with an interval below 0.5: a poor score, but no survival probability
    score = np.repeat([0.6, 0.4, 0.6, 0.4], [900, 1100, 1100, 900])
    y = np.repeat([1, 0], 2000)
    assert PMCBoost().fit(score, y).correction_
    assert "WRONG WAY" not in audit(y, score, n_draws=100).verdict.text


def test_levels_of_whom_nobody_was_left_out_are_not_listed():
    report = LeftOutReport(
        30, 1000, {"age": [(f"{i}", 15 if i < 2 else 0, 50) for i in range(20)]}
    )
    told = report.sentence(unit="visits", labels={"age": {"0": "newborn"}})
    assert (
        told
        == "30 of 1,000 visits (3.0 %) have no score or outcome and were left out: newborn 30.0 %, 1 30.0 %."
    )
    assert "others not listed" not in report.sentence(11)
    small = LeftOutReport(
        30, 1000, {"age": [("a", 15, 50), ("b", 12, 50), ("c", 3, 50), ("d", 0, 50)]}
    )
    assert small.sentence(11).endswith("left out: a 30.0 %, others not listed.")

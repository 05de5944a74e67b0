"""Scores side by side: paired intervals, and what is said of the fitting people."""

import json

import numpy as np
import pandas as pd
import pytest

from propcal import Atoms, MCBoost, PMCBoost, audit, compare
from propcal.disclosure.protected import protected_comparison
from propcal.errors import InputError


def test_side_by_side_with_paired_intervals(cohort):
    frame = cohort[["race", "gender"]]
    half = len(cohort) // 2
    past, new = cohort[:half], cohort[half:]
    cal = PMCBoost.paper(alpha=0.2).fit(past.score, past.y, sensitive_features=frame[:half])
    also = MCBoost.paper(alpha=0.2).fit(past.score, past.y, sensitive_features=frame[:half])
    scores = {"base": new.score, "PMCBoost": cal, "MCBoost": also.correction_}
    c = compare(scores, new.y, sensitive_features=frame[half:])
    assert list(c.audits) == ["base", "PMCBoost", "MCBoost"]
    alone = audit(new.y, new.score, sensitive_features=frame[half:])
    assert c.audits["base"].to_json() == alone.to_json()
    table = c.differences.set_index(["score", "measure", "group"])
    corrected = cal.predict(new.score, sensitive_features=frame[half:])
    loss = (corrected - new.y) ** 2 - (new.score - new.y) ** 2
    row = table.loc[("PMCBoost", "brier", "everybody")]
    assert row.difference == pytest.approx(loss.mean())
    assert (row.high - row.low) / 2 == pytest.approx(
        1.959964 * loss.std(ddof=0) / np.sqrt(len(new)), rel=1e-6
    )
    women = (new.gender == "F").to_numpy()
    assert table.loc[("PMCBoost", "brier", "gender=F")].difference == pytest.approx(loss[women].mean())
    assert table.loc[("PMCBoost", "pmc", "all categories")].value == pytest.approx(
        c.audits["PMCBoost"].losses.loc["pmc", "value"]
    )
    assert table.loc[("PMCBoost", "observed_expected", "gender=F")].value == pytest.approx(
        new.y[women].sum() / corrected[women].sum()
    )
    assert (table.low <= table.difference + 1e-12).all()
    assert (table.difference <= table.high + 1e-12).all()
    assert c.notes[0].startswith("PMCBoost was not fitted to exactly these people")
    assert "PMCBoost" in repr(c)
    assert "PMCBoost" in c._repr_html_()


def test_a_score_compared_with_itself_does_not_differ(cohort):
    c = compare({"a": cohort.score, "b": cohort.score}, cohort.y, sensitive_features=cohort[["gender"]])
    each = c.differences[c.differences.group != "all categories"]
    assert (each.difference == 0).all()
    assert np.allclose(each.low, 0, atol=1e-12)
    assert np.allclose(each.high, 0, atol=1e-12)
    assert (c.differences.low <= 0).all()
    assert (c.differences.high >= 0).all()


def test_a_comparison_says_when_it_looks_at_the_fitting_data(cohort):
    frame = cohort[["race", "gender"]]
    cal = PMCBoost.paper().fit(cohort.score, cohort.y, sensitive_features=frame)
    rows = compare({"base": cohort.score, "PMCBoost": cal}, cohort.y, sensitive_features=frame)
    assert rows.notes[0].startswith("PMCBoost was fitted to these very people")
    atoms = Atoms.from_frame(cohort, score="score", outcome="y", groups=["race", "gender"])
    of_atoms = compare({"base": None, "PMCBoost": cal.correction_}, atoms)
    assert of_atoms.notes == rows.notes
    pd.testing.assert_frame_equal(of_atoms.differences, rows.differences, rtol=1e-6, atol=1e-9)


def test_wrong_comparisons_are_told(cohort):
    atoms = Atoms.from_frame(cohort, score="score", outcome="y")
    cal = PMCBoost().fit(cohort.score, cohort.y)
    for scores, y, message in (
        ({"a": cohort.score}, cohort.y, "two or more"),
        ([cohort.score], cohort.y, "two or more"),
        ({"a": cal, "b": cohort.score}, cohort.y, "must be an array"),
        ({"a": cohort.score, "b": cal}, atoms, "with atoms"),
        ({"a": cohort.score, "b": cohort.score[:5]}, cohort.y, "same number of rows"),
        ({"a": cohort.score, "b": cohort.score * 100}, cohort.y, "score 'b'"),
    ):
        with pytest.raises(InputError, match=message):
            compare(scores, y)


@pytest.fixture(scope="module")
def harmed():
    """A score that is right for women and men, and another that is wrong for women."""
    rng = np.random.default_rng(5)
    n = 6000
    sex, risk = rng.choice(["F", "M"], n), rng.beta(2, 5, n)
    y = (rng.random(n) < risk).astype(int)
    other = np.where(sex == "F", risk * 0.6, risk)
    scores = {"before": risk, "after": other}
    return compare(scores, y, sensitive_features={"sex": sex}, unit="stays", labels={"sex": {"F": "women"}})


def test_groups_that_a_score_is_further_off_for_are_named_everywhere(harmed):
    found = harmed.further_off("after")
    assert found["label"].tolist() == ["women"]
    assert found["value"].iloc[0] > 1.4
    (sentence,) = harmed.worse()
    told = "With after, 1 group is further off than with before, with a 95 % CI that excludes 1: women (O/E "
    assert sentence.startswith(told)
    assert told in " ".join(repr(harmed).split())
    assert json.loads(harmed.to_json())["notes"][0] == sentence
    assert told in harmed._repr_html_()
    assert "Further off than before, with a 95 % CI of the O/E ratio that excludes 1: women (O/E" in (
        harmed.to_markdown()
    )


def test_a_group_is_not_called_worse_because_of_protected_counts(harmed):
    exact = {"after": harmed.further_off("after")["group"].tolist()}
    for suppress in (5, 11, 25):
        shown = protected_comparison(harmed, suppress)
        assert {"after": shown.further_off("after")["group"].tolist()} == exact
    same = compare(
        {"a": np.full(500, 0.2), "b": np.full(500, 0.21)}, np.arange(500) % 5 == 0, sensitive_features=None
    )
    assert same.worse() == []


def test_an_estimate_of_a_mean_square_is_not_printed_below_0(cohort):
    frame = cohort[["race", "gender"]]
    for seed in range(3):
        y = np.random.default_rng(seed).random(len(cohort)) < cohort.score
        c = compare({"a": cohort.score, "b": cohort.score**1.02}, y, sensitive_features=frame, n_draws=100)
        table = c.differences
        squares = table[table["measure"].str.endswith("_mean_square")]
        if (squares["base"] < 0).any():
            rows = [line.split() for line in repr(c).splitlines() if line.startswith("mean squared")]
            assert rows
            for row in rows:
                assert row[-5][0] != "-"
                assert row[-4][0] != "-"
            break
    else:
        raise AssertionError("no estimate was below 0: the test shows nothing")

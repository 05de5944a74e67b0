"""Scores side by side: paired intervals, and what is said of the fitting people."""

import json
import pickle
import re
from html import unescape

import numpy as np
import pandas as pd
import pytest

from propcal import Atoms, MCBoost, PMCBoost, audit, compare
from propcal.core.logistic import expit
from propcal.errors import InputError
from propcal.numbers import Limit
from propcal.protect.protected_comparisons import protected_comparison


def test_side_by_side_with_paired_intervals(cohort):
    frame = cohort[["race", "gender"]]
    half = len(cohort) // 2
    past, new = cohort[:half], cohort[half:]
    cal = PMCBoost.paper(alpha=0.2).fit(
        past.score, past.y, sensitive_features=frame[:half]
    )
    also = MCBoost.paper(alpha=0.2).fit(
        past.score, past.y, sensitive_features=frame[:half]
    )
    scores = {"base": new.score, "PMCBoost": cal, "MCBoost": also.correction_}
    c = compare(scores, new.y, sensitive_features=frame[half:])
    assert list(c.audits) == ["base", "PMCBoost", "MCBoost"]
    alone = audit(new.y, new.score, sensitive_features=frame[half:])
    assert c.audits["base"].to_json().replace("“base”", "The score") == alone.to_json()
    table = c.differences.set_index(["score", "measure", "group"])
    corrected = cal.predict(new.score, sensitive_features=frame[half:])
    loss = (corrected - new.y) ** 2 - (new.score - new.y) ** 2
    row = table.loc[("PMCBoost", "brier", "everybody")]
    assert row.difference == pytest.approx(loss.mean())
    assert (row.high - row.low) / 2 == pytest.approx(
        1.959964 * loss.std(ddof=0) / np.sqrt(len(new)), rel=1e-6
    )
    women = (new.gender == "F").to_numpy()
    assert table.loc[("PMCBoost", "brier", "gender=F")].difference == pytest.approx(
        loss[women].mean()
    )
    assert table.loc[("PMCBoost", "pmc", "all categories")].value == pytest.approx(
        c.audits["PMCBoost"].losses.loc["pmc", "value"]
    )
    assert table.loc[
        ("PMCBoost", "observed_expected", "gender=F")
    ].value == pytest.approx(new.y[women].sum() / corrected[women].sum())
    assert (table.low <= table.difference + 1e-12).all()
    assert (table.difference <= table.high + 1e-12).all()
    assert c.notes[0].startswith("PMCBoost was not fitted to exactly these people")
    assert "PMCBoost" in repr(c)
    assert "PMCBoost" in c._repr_html_()


def test_a_score_compared_with_itself_does_not_differ(cohort):
    c = compare(
        {"a": cohort.score, "b": cohort.score},
        cohort.y,
        sensitive_features=cohort[["gender"]],
    )
    each = c.differences[c.differences.group != "all categories"]
    assert (each.difference == 0).all()
    assert np.allclose(each.low, 0, atol=1e-12)
    assert np.allclose(each.high, 0, atol=1e-12)
    assert (c.differences.low <= 0).all()
    assert (c.differences.high >= 0).all()


def test_a_comparison_says_when_it_looks_at_the_fitting_data(cohort):
    frame = cohort[["race", "gender"]]
    cal = PMCBoost.paper().fit(cohort.score, cohort.y, sensitive_features=frame)
    rows = compare(
        {"base": cohort.score, "PMCBoost": cal}, cohort.y, sensitive_features=frame
    )
    assert rows.sentences("PMCBoost")[0].startswith(
        "“PMCBoost” was fitted to these very people"
    )
    assert len(rows.sentences("PMCBoost")) <= 4
    for shown in (repr(rows), rows._repr_html_(), rows.to_markdown(), rows.to_html()):
        assert "ot evidence, because fitted to these very people" in " ".join(
            shown.split()
        )
    assert "✓" not in rows.to_html()
    assert '"verdict few"' in rows.to_html()
    atoms = Atoms.from_frame(
        cohort, score="score", outcome="y", groups=["race", "gender"]
    )
    of_atoms = compare({"base": None, "PMCBoost": cal.correction_}, atoms)
    assert of_atoms.notes == rows.notes
    pd.testing.assert_frame_equal(
        of_atoms.differences, rows.differences, rtol=1e-6, atol=1e-9
    )


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
    return compare(
        scores,
        y,
        sensitive_features={"sex": sex},
        unit="stays",
        labels={"sex": {"F": "women"}},
    )


def test_groups_that_a_score_is_further_off_for_are_named_everywhere(harmed):
    assert [(one.who, one.direction) for one in harmed.claims] == [
        ("everybody", "further off"),
        ("sex=F", "further off"),
    ]
    women = harmed.claims[1]
    assert women.ratio_after > 1.4
    assert women.p_value < 0.001
    told = harmed.sentences("after")
    assert told[0].startswith("“after” is further off than “before” overall (observed ")
    assert told[0].endswith(
        f" 2 subgroups compared: women (O/E {women.ratio_before:.2f} before, {women.ratio_after:.2f} after)."
    )
    assert harmed.worse_groups("after")[1].startswith("women (O/E ")
    for shown in (repr(harmed), harmed._repr_html_()):
        assert told[0] in " ".join(unescape(shown).split())
    assert "“after” is further off than “before” overall" in harmed.to_markdown()
    assert "Do not use this correction: no group is shown to be closer" in unescape(
        harmed.to_html()
    )
    content = json.loads(harmed.to_json())
    assert content["sentences"] == {"after": told}
    assert [one["who"] for one in content["claims"]] == ["everybody", "sex=F"]


def test_ratios_and_their_changes_have_two_decimals_and_agree_as_printed():
    rng = np.random.default_rng(6)
    n = 5000
    race, risk = rng.choice(list("ABCD"), n), rng.beta(2, 5, n)
    y = (rng.random(n) < risk).astype(int)
    scores = {"before": risk, "after": risk * 1.006}
    shown = compare(
        scores, y, sensitive_features={"race": race}, n_draws=100
    ).to_markdown(suppress=0)
    lines = [
        line.strip("| ").split(" | ") for line in shown.splitlines() if " to " in line
    ]
    ratios = [
        line[:4]
        for line in lines
        if line[0] in ("O/E ratio", *"ABCD") and len(line) in (4, 5)
    ]
    assert len(ratios) == 5
    for _, *values in ratios:
        assert re.fullmatch(
            r"[\d.]{4} [\d.]{4} [+−]?0\.\d\d to [+−]?0\.\d\d", " ".join(values)
        ), values
        before, after = map(float, values[:2])
        low, high = (float(end.replace("−", "-")) for end in values[2].split(" to "))
        assert low - 1e-9 <= after - before <= high + 1e-9


def test_a_threshold_does_not_take_the_place_of_the_verdict():
    rng = np.random.default_rng(5)
    n = 6000
    sex, risk = rng.choice(["F", "M"], n), rng.beta(2, 5, n)
    y = (rng.random(n) < np.where(sex == "F", risk * 1.4, risk).clip(0, 1)).astype(int)
    scores = {
        "before": risk,
        "after": np.where(sex == "F", risk * 1.15, risk * 0.995).clip(0, 1),
    }
    for thresholds in ([], [0.5]):
        found = compare(
            scores,
            y,
            sensitive_features={"sex": sex},
            thresholds=thresholds,
            n_draws=100,
        )
        shown = " ".join(repr(found).partition("\n\n")[2].split())
        assert "It predicts too low for F" in shown, shown
        assert ("newly flagged" in found.to_markdown()) == bool(thresholds)


def test_a_new_error_of_the_score_as_a_whole_comes_first():
    rng = np.random.default_rng(5)
    sex, risk = rng.choice(["F", "M"], 6000), rng.beta(2, 5, 6000)
    y = (rng.random(6000) < risk).astype(int)
    scores = {"before": risk, "after": risk * 0.7}
    both = compare(scores, y, sensitive_features={"sex": sex}, n_draws=100)
    assert (
        both.sentences("after")[0]
        == "“after” predicts too low overall; “before” is not shown to."
    )
    back = compare(
        dict(reversed(scores.items())), y, sensitive_features={"sex": sex}, n_draws=100
    )
    assert "overall; " not in back.sentences("before")[0]


def test_changes_of_the_brier_score_are_told_with_certainty(harmed):
    found = harmed.changes.set_index("group")
    assert found.brier_change.to_dict() == {
        "everybody": "higher",
        "sex=F": "higher",
        "sex=M": "could be chance",
    }
    assert found.brier_p_value["sex=F"] < 0.001
    assert found.brier_p_value["sex=M"] == 1  # the scores of men are the same
    assert "The Brier score is higher overall and for women." in harmed.sentences(
        "after"
    )
    assert "brier_p_value" in protected_comparison(harmed, 11).changes
    rows = harmed.differences.query("measure == 'brier'").set_index("group")
    assert (rows.low > 0).to_dict() == {
        "everybody": True,
        "sex=F": True,
        "sex=M": False,
    }


def test_what_a_comparison_found_is_protected_once(harmed):
    shown = protected_comparison(harmed, 11)
    assert shown is not harmed
    assert protected_comparison(shown, 11) is shown
    assert protected_comparison(harmed, 0) is harmed
    kept = pickle.loads(pickle.dumps(harmed))
    assert protected_comparison(kept, 11).to_json() == shown.to_json()
    # what is kept for this has neither people nor draws
    for findings in harmed._source.by_score.values():
        assert findings.profiles == []
        assert not len(findings.noise.rates)


def test_a_group_is_not_called_worse_because_of_protected_counts(harmed):
    for suppress in (5, 11, 25):
        shown = protected_comparison(harmed, suppress)
        assert [(one.who, one.direction) for one in shown.claims] == [
            (one.who, one.direction) for one in harmed.claims
        ]
    same = compare(
        {"a": np.full(500, 0.2), "b": np.full(500, 0.21)},
        np.arange(500) % 5 == 0,
        sensitive_features=None,
    )
    assert same.claims == ()
    assert same.sentences("b")[0].startswith("“b” is not shown to be closer")


def test_a_score_that_is_put_right_is_nearer_for_those_concerned():
    rng = np.random.default_rng(6)
    group, risk = rng.choice(["A", "B"], 8000), rng.beta(2, 5, 8000)
    y = (rng.random(8000) < risk).astype(int)
    wrong = np.where(group == "A", 0.6 * risk, risk)
    found = compare({"old": wrong, "new": risk}, y, sensitive_features={"g": group})
    assert {(one.who, one.direction) for one in found.claims} == {
        ("everybody", "nearer"),
        ("g=A", "nearer"),
    }
    unchanged = found.changes.set_index("group")["change"]
    assert unchanged["g=B"] == "hardly changed"


@pytest.mark.slow
def test_few_changes_are_claimed_where_both_scores_are_as_far_off():
    """The observed rate is at the midpoint of two scores: neither is nearer, but for
    chance.
    """
    rng = np.random.default_rng(7)
    n, claimed = 3000, 0
    group, risk = rng.choice(list("ABCD"), n), rng.beta(2, 5, n)
    for _ in range(200):
        y = (rng.random(n) < risk).astype(int)
        found = compare(
            {"low": risk * 0.9, "high": risk * 1.1},
            y,
            sensitive_features={"g": group},
            n_draws=100,
        )
        claimed += bool(found.claims)
    assert claimed <= 16  # 5 % are 10


@pytest.mark.slow
def test_few_changes_of_the_brier_score_are_claimed_where_both_scores_are_as_good():
    """Both scores add noise of one size to the true risk."""
    rng = np.random.default_rng(17)
    n, claimed = 3000, 0
    group, risk = rng.choice(list("ABCD"), n), rng.beta(2, 5, n)
    for _ in range(200):
        y = (rng.random(n) < risk).astype(int)
        noise = rng.choice([-0.5, 0.5], n) * risk * (1 - risk)
        found = compare(
            {"one": risk + noise, "two": risk - noise},
            y,
            sensitive_features={"g": group},
            n_draws=100,
        )
        claimed += bool(found.changes.brier_change.isin(["lower", "higher"]).any())
    assert claimed <= 16  # 5 % are 10


def test_a_correction_that_changes_nobody_says_so_first_and_shows_no_zeros():
    rng = np.random.default_rng(8)
    risk = rng.beta(2, 5, 4000)
    y = (rng.random(4000) < risk).astype(int)
    sex = {"sex": rng.choice(["F", "M"], 4000)}
    cal = PMCBoost().fit(risk, y, sensitive_features=sex)
    assert cal.n_updates_ == 0
    wrong = (rng.random(4000) < 0.6 * risk).astype(int)
    found = compare(
        {"risk": risk, "fixed": cal}, wrong, sensitive_features=sex, thresholds=[0.3]
    )
    assert found.unchanged == ("fixed",)
    assert found.sentences("fixed") == [
        "“fixed” changes nobody: all scores are those of “risk”."
    ]
    page, text = found.to_html(correction=cal), repr(found)
    assert "Fixed changes nobody: miscalibrated" in page
    assert "The correction reads no columns, and changes nobody&#39;s score." in page
    assert "Some error remains" not in page
    assert "What the correction does" not in page  # an identity plot
    for shown in (page, text, found._repr_html_(), found.to_markdown()):
        assert "“fixed” changes nobody" in unescape(shown)
        assert "0.0000 to 0.0000" not in shown
        assert "newly flagged" not in shown


def test_who_crosses_a_threshold_is_counted_by_group(harmed):
    rng = np.random.default_rng(9)
    n = 5000
    sex, before, after = (
        rng.choice(["F", "M"], n),
        rng.uniform(0, 1, n),
        rng.uniform(0, 1, n),
    )
    after = np.where(sex == "F", np.maximum(before, after), before)
    y = (rng.random(n) < before).astype(int)
    scores = {"before": before, "after": after}
    found = compare(
        scores, y, sensitive_features={"sex": sex}, thresholds=[0.3, 0.5], n_draws=100
    )
    counts = found.flags.set_index(["threshold", "group"])
    for t in (0.3, 0.5):
        newly = (after >= t) & (before < t)
        assert counts.loc[(t, "everybody"), "newly_flagged"] == newly.sum()
        assert counts.loc[(t, "sex=F"), "newly_flagged"] == newly.sum()
        assert (counts.loc[t][["no_longer_flagged"]] == 0).all(axis=None)
    told = found.sentences("after")[-2]
    n = counts.loc[(0.3, "everybody"), "newly_flagged"]
    assert told.startswith(
        f"At a threshold of 30 %, {n:,} people are newly flagged; at a threshold of 50 %, "
    )
    assert "no longer" not in told
    shown = protected_comparison(found, 11).flags.set_index(["threshold", "group"])
    known_ = [not isinstance(x, Limit) and x == x for x in shown["newly_flagged"]]
    moved = (shown["newly_flagged"] - counts["newly_flagged"])[known_]
    assert len(moved) >= 2
    assert moved.abs().max() <= 2
    assert {repr(x) for x in shown["no_longer_flagged"]} == {"< 21"}  # nobody, or a few
    assert "newly flagged" in found.to_html()
    assert harmed.flags.empty


def test_small_numbers_of_those_who_cross_a_threshold_are_withheld():
    rng = np.random.default_rng(10)
    n = 3000
    ward, before = rng.choice(["A", "B", "C"], n), rng.uniform(0, 0.29, n)
    after = before.copy()
    after[np.flatnonzero(ward == "A")[:6]] = 0.35
    after[np.flatnonzero(ward == "B")[:200]] = 0.35
    after[np.flatnonzero(ward == "C")[:150]] = 0.35
    y = (rng.random(n) < np.maximum(before, after)).astype(int)
    scores = {"before": before, "after": after}
    found = compare(
        scores, y, sensitive_features={"ward": ward}, thresholds=[0.3], n_draws=100
    )
    shown = protected_comparison(found, 11).flags.set_index("group")
    assert [
        repr(x) for x in shown.loc["ward=A", ["newly_flagged", "no_longer_flagged"]]
    ] == ["< 21"] * 2
    # nor does subtraction from all people give it away: each count may be off by 2
    total, *others = shown.loc[
        ["everybody", "ward=B", "ward=C"], "newly_flagged"
    ].astype(float)
    rest = total - sum(others) + np.arange(-6, 7)
    assert np.sum((rest >= 0) & (rest <= 10)) >= 5


def test_an_estimate_of_a_mean_square_is_not_printed_below_0(cohort):
    frame = cohort[["race", "gender"]]
    for seed in range(3):
        y = np.random.default_rng(seed).random(len(cohort)) < cohort.score
        c = compare(
            {"a": cohort.score, "b": cohort.score**1.02},
            y,
            sensitive_features=frame,
            n_draws=100,
        )
        table = c.differences
        squares = table[table["measure"].str.endswith("_mean_square")]
        if (squares["base"] < 0).any():
            rows = [
                line.split()
                for line in repr(c).splitlines()
                if line.startswith("mean squared")
            ]
            assert rows
            for row in rows:
                assert row[-5][0] != "-"
                assert row[-4][0] != "-"
            break
    else:
        raise AssertionError("no estimate was below 0: the test shows nothing")


def test_a_correction_that_lowers_the_brier_score_is_not_advised_against_for_a_small_change_elsewhere():
    """Only D is wrong and put right; chance alone has B, F off, whose prediction falls
    by 2 %.
    """
    rng = np.random.default_rng(5)
    n = 8000
    race, sex = (
        rng.choice(list("ABCD"), n, p=[0.5, 0.2, 0.2, 0.1]),
        rng.choice(["F", "M"], n),
    )
    risk = expit(rng.normal(-1.5, 1, n))
    y = (
        rng.random(n) < np.where(race == "D", np.clip(1.5 * risk, 0, 0.98), risk)
    ).astype(int)
    y[(race == "B") & (sex == "F") & (rng.random(n) < 0.06)] = 1
    after = np.where(
        race == "D", np.clip(1.5 * risk, 0, 0.98), risk * np.where(race == "B", 0.98, 1)
    )
    c = compare(
        {"before": risk, "after": after},
        y,
        sensitive_features={"race": race, "sex": sex},
    )
    assert "further off" not in {one.direction for one in c.claims}
    assert "Do not use this correction" not in c.to_html()

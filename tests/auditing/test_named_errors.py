"""Who is named: everybody, the shape of the curve, groups, or their difference from the
overall error.
"""

import re

import numpy as np
import pandas as pd
import pytest
from scipy import optimize

from propcal import Groups, audit
from propcal.auditing.statistics.hypothesis_tests import SLOPE
from propcal.core.logistic import expit, log_odds
from propcal.documents.risk_ranges import heat_rows
from propcal.errors import InputError


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(11)
    n = 12_000
    frame = pd.DataFrame(
        {
            "race": rng.choice(["A", "B", "C"], n, p=[0.5, 0.3, 0.2]),
            "sex": rng.choice(["F", "M"], n),
        }
    )
    return frame.assign(risk=rng.beta(2, 5, n), draw=rng.random(n))


def audited(people, logit, **settings):
    """An audit where the log-odds of the truth are the given ones."""
    y = (people.draw < expit(np.asarray(logit, dtype=float))).astype(int)
    return audit(
        y,
        people.risk,
        sensitive_features=people[["race", "sex"]],
        n_draws=200,
        **settings,
    )


def named(a):
    return [(claim.kind, claim.label, claim.direction) for claim in a.verdict.claims]


def test_an_overall_error_is_one_claim_and_explains_the_groups(people):
    a = audited(people, log_odds(people.risk) - 0.5)
    assert (
        a.groups.finding[a.groups.kept] == "too high"
    ).all()  # every subgroup, and yet:
    assert named(a) == [("overall", "All people", "too high")]
    assert a.verdict.sentences[1].startswith("Overall, it predicts too high: observed ")
    assert (a.groups.explained_by.iloc[1:] == "All people").mean() > 0.8
    assert np.allclose(a.groups.left_over.iloc[1:], 1, atol=0.1)


def test_a_shape_is_told_by_where_the_curve_errs(people):
    a = audited(people, 0.6 * log_odds(people.risk) - 0.2)
    (shape,) = [claim for claim in a.verdict.claims if claim.kind == "shape"]
    assert [region.direction for region in shape.where] == ["too low", "too high"]
    assert shape.where[0].low == 0
    assert shape.where[1].high == 1
    assert "It predicts too high at predicted risks above " in a.verdict.text
    right = audited(people, log_odds(people.risk) - 0.5)
    assert not right.verdict.tests.set_index("test").rejected[
        SLOPE
    ]  # a wrong level is no wrong slope


def test_a_few_scores_of_exactly_one_do_not_decide_the_shape(people):
    """They have no log-odds, and are told by themselves."""
    score = people.risk.to_numpy().copy()
    score[:200] = 1.0
    y = np.where(
        np.arange(len(score)) < 200, people.draw < 0.9, people.draw < people.risk
    ).astype(int)
    a = audit(y, score, n_draws=200)
    (shape,) = [c for c in a.verdict.claims if c.kind == "shape"] or [None]
    assert shape is None or {region.low for region in shape.where} <= {1.0}
    others = audit(y[200:], score[200:], n_draws=200).groups.iloc[0]
    assert a.groups.slope[0] == pytest.approx(others.slope, abs=1e-6)
    assert any(
        "intercept and slope are those of the others" in note for note in a.notes
    )


def test_a_group_is_named_and_what_it_explains_is_not(people):
    a = audited(people, log_odds(people.risk) - 0.9 * (people.race == "B"))
    assert a.groups.finding.iloc[0] == "too high"  # everybody taken together, and yet:
    assert named(a) == [("group", "B", "too high")]
    rows = a.groups.set_index("label")
    assert rows.finding["B, F"] == "too high"
    assert rows.explained_by["B, F"] == "B"
    assert rows.left_over["B, F"] == pytest.approx(1, abs=0.15)
    assert rows.left_over_low["B, F"] < 1 < rows.left_over_high["B, F"]
    left = f"(leaves O/E {rows.left_over['B, F']:.2f}, 95 % CI {rows.left_over_low['B, F']:.2f} to "
    assert left in a.to_html(suppress=0)
    others = people.race != "B"
    y = people.draw < expit(log_odds(people.risk) - 0.9 * (people.race == "B"))
    assert a.verdict.claims[0].others == pytest.approx(
        y[others].sum() / people.risk[others].sum()
    )
    assert (
        f"For the other people, O/E is {a.verdict.claims[0].others:.2f}"
        in a.verdict.text
    )
    both = audited(people, log_odds(people.risk) - 0.3 - 0.9 * (people.race == "B"))
    assert named(both)[0][:2] == ("overall", "All people")  # the others are wrong, too


def test_an_intersection_that_alone_is_wrong_is_named_and_not_its_parents(people):
    a = audited(
        people,
        log_odds(people.risk) + 0.7 * ((people.race == "B") & (people.sex == "F")),
    )
    assert named(a) == [("group", "B, F", "too low")]
    two = np.select([people.race != "A", people.sex == "F"], [0, 0.8], -0.8)
    assert {
        label for _, label, _ in named(audited(people, log_odds(people.risk) + two))
    } == {"A, F", "A, M"}


def test_a_group_is_compared_with_the_overall_error(people):
    """Less so for women than for men: with an overall error, a group is told by its
    difference from it.
    """
    a = audited(people, log_odds(people.risk) + np.where(people.sex == "F", 0.25, 0.65))
    assert named(a)[0] == ("overall", "All people", "too low")
    ((kind, label, direction),) = named(a)[1:]
    assert (kind, direction) == ("beyond", {"F": "lower", "M": "higher"}[label])
    claim, ratio = a.verdict.claims[1], a.groups.set_index("label").observed_expected
    word, other = ("less", "M") if label == "F" else ("more", "F")
    assert (claim.others_label, claim.others) == (other, ratio[other])
    assert (
        f", {word} so for {label} (O/E {ratio[label]:.2f}) than for {other} (O/E {ratio[other]:.2f})."
        in a.verdict.sentences[1]
    )
    rows = a.groups.set_index("label")
    assert (
        rows.loc[["F", "M"], "rank"].gt(0).all()
    )  # both are in the sentence, so both are marked as named
    assert rows.loc[["F", "M"], "explained_by"].eq("").all()
    assert rows.loc[f"A, {other}", "explained_by"] == other
    assert "(too low)" not in [
        cells(line)[-1] for line in repr(a).splitlines() if line[:2] in ("F ", "M ")
    ]


def cells(line):
    return re.split("  +", line.strip())


def test_a_group_that_is_off_the_other_way_than_everybody_is_told_by_itself(people):
    a = audited(people, log_odds(people.risk) + np.where(people.sex == "F", 0.45, -0.3))
    assert named(a) == [
        ("overall", "All people", "too low"),
        ("group", "M", "too high"),
    ]
    ratio = a.groups.set_index("label").observed_expected
    assert "It predicts too high for M: observed " in a.verdict.text
    assert f"For F, O/E is {ratio['F']:.2f} (95 % CI " in a.verdict.text


def test_those_who_are_compared_with_are_named(people):
    more = np.select([people.race == "B", people.race == "C"], [1.0, 0.2], 0.5)
    text = audited(people, log_odds(people.risk) + more).verdict.text
    assert (
        "Compared with the error of the people in none of these groups, O/E is higher for B ("
        in text
    )


def test_findings_that_the_verdict_does_not_name_are_in_brackets_everywhere(people):
    a = audited(people, log_odds(people.risk) + 0.7 * (people.race == "B"))
    assert named(a) == [("group", "B", "too low")]
    lines = [
        cells(line.replace("|", "  "))
        for line in a.to_markdown(suppress=0).splitlines()
    ]
    marks = {line[0]: line[6].partition(" (exp")[0] for line in lines if len(line) == 9}
    assert (marks["B"], marks["B, F"], marks["B, M"]) == (
        "too low",
        "(too low)",
        "(too low)",
    )
    assert "not named by the verdict" in a.to_markdown(suppress=0)
    assert "(too low)" in a.to_html(suppress=0)


def test_a_group_that_differs_from_the_overall_error_is_marked_though_it_is_right(
    people,
):
    free = audited(people, log_odds(people.risk) - 0.6 * (people.race != "C"))
    assert named(free) == [
        ("overall", "All people", "too high"),
        ("beyond", "C", "higher"),
    ]
    claim, row = free.verdict.claims[1], free.groups.set_index("label").loc["C"]
    assert (row.finding, row.compared) == ("could be chance", "higher")
    shown = f"O/E is {claim.estimate:.2f} for C, and {claim.others:.2f} for all other people."
    assert shown in free.verdict.text
    assert "O/E higher than the errors of everybody else explain" in free.to_html(
        suppress=0
    )
    marked = [
        line.split()
        for line in repr(free).splitlines()
        if line.strip().startswith("C ")
    ]
    assert any("higher" in words for words in marked)


@pytest.mark.parametrize("seed", range(4))
def test_groups_that_are_everybody_are_not_named_in_place_of_everybody(seed):
    """Everybody is 20 % too low but D: men and women are both off, and neither is
    named.
    """
    rng = np.random.default_rng(seed + 3)
    frame = pd.DataFrame(
        {"race": rng.choice(list("ABCD"), 9000), "sex": rng.choice(["F", "M"], 9000)}
    )
    score = expit(rng.normal(-1.4, 1.1, 9000))
    y = rng.random(9000) < np.where(
        frame.race == "D", score, np.minimum(1.2 * score, 0.98)
    )
    a = audit(y.astype(int), score, sensitive_features=frame, n_draws=100)
    assert named(a)[0] == ("overall", "All people", "too low")
    assert {"F", "M"}.isdisjoint(claim.label for claim in a.verdict.claims)


def test_every_rejected_test_is_told_or_part_of_a_claim(people):
    x = log_odds(people.risk)
    shifts = {
        "slopes": np.where(people.sex == "F", 0.5, -0.3) * (x - x.mean())
        + 0.8 * (people.race == "B"),
        "level and slopes": 0.4
        + np.where(people.sex == "F", 0.3, -0.3) * (x - x.mean()),
        "against the others": 0.25 - 0.7 * ((people.race == "C") & (people.sex == "M")),
        "nothing": 0.0,
    }
    for shift in shifts.values():
        a = audited(people, x + shift)
        found = set(a.verdict.tests.test[a.verdict.tests.rejected])
        kinds = {claim.kind for claim in a.verdict.errors}
        assert bool(found) == bool(kinds)
        if "slopes and curves of groups" in found:
            told = {claim.test for claim in a.verdict.errors}
            assert told & {
                "slopes and curves of groups",
                "largest gap of all categories",
            }
        if "differences between groups" in found:
            assert kinds & {"group", "beyond"}
        off = a.groups[a.groups.finding.isin(["too high", "too low"])]
        everybody = {
            claim.direction for claim in a.verdict.claims if claim.kind == "overall"
        }
        for row in off[(off["rank"] == 0) & (off.explained_by == "")].itertuples():
            assert (
                row.group == "everybody"
                or row.finding in everybody
                or kinds & {"group", "beyond"}
            )


def test_a_bend_that_all_share_is_no_difference_between_groups():
    wrong = 0
    for seed in range(10):
        rng = np.random.default_rng(seed)
        x = rng.normal(-1.5, 1.2, 6000)
        y = (rng.random(6000) < expit(x + 0.5 * np.sin(1.5 * x))).astype(int)
        groups = pd.DataFrame(
            {
                "race": rng.choice(list("ABCDE"), 6000),
                "sex": rng.choice(["F", "M"], 6000),
            }
        )
        a = audit(y, expit(x), sensitive_features=groups, n_draws=100)
        assert "shape" in {claim.kind for claim in a.verdict.claims}
        wrong += bool({"group", "beyond"} & {claim.kind for claim in a.verdict.claims})
    assert wrong <= 1


def test_differences_that_no_group_can_be_named_for(people):
    """Slopes differ, and levels do not."""
    x = log_odds(people.risk)
    steep = np.where(people.sex == "F", 0.3, -0.3)

    def level(centre, own):
        return (expit(x + steep * (x - centre)) - people.risk)[own].sum()

    centre = {
        s: optimize.brentq(level, -5, 5, args=(people.sex == s,)) for s in ("F", "M")
    }
    a = audited(people, x + steep * (x - people.sex.map(centre)))
    assert named(a)[0] == ("beyond", "", "")
    assert "by more than chance explains. The clearest gap is in" in a.verdict.text


def test_a_verdict_is_short_and_states_no_more_than_its_claims(people):
    shift = 1.2 * ((people.race == "B") * 1.0 - (people.race == "A")) + np.where(
        people.sex == "F", -0.3, 0.3
    )
    a = audited(people, 1.1 * log_odds(people.risk) + shift)
    assert len(a.verdict.sentences) <= 5
    for word in ("because", "also makes", "explains", "No error was found", "1 more"):
        assert word not in a.verdict.text


def test_a_group_that_the_user_names_is_shown_whatever_its_size(people):
    some = people.assign(age=np.where(np.arange(len(people)) < 40, 95, 50))
    y = (people.draw < people.risk).astype(int)
    a = audit(
        y,
        people.risk,
        sensitive_features=some[["race", "age"]],
        groups=Groups(columns=["race"], where={"very old": "age > 90"}),
        n_draws=200,
    )
    row = a.groups.set_index("label").loc["very old"]
    assert row.kept
    assert (row.people, row.finding, row.reason) == (
        40,
        "not enough data",
        "fewer than 50 people",
    )
    assert np.isfinite(row.observed_expected)
    assert "very old" not in set(a.verdict.tests.test)


def test_small_groups_are_judged_by_counts_not_by_shares(people):
    risk = np.where(people.race == "C", 0.3, 0.2)
    some = people.assign(
        site=np.where(np.arange(len(people)) % 60 == 0, "small", "large")
    )
    y = (people.draw < np.where(some.site == "small", 0.55, risk)).astype(int)
    a = audit(y, risk, sensitive_features=some[["site"]], n_draws=200)
    row = a.groups.set_index("label").loc["small"]
    assert row.share < 0.05  # below gamma
    assert row.finding == "too low"
    assert named(a) == [
        ("group", "small", "too low"),
        ("beyond", "", ""),
    ]  # 0.55 at any score: another slope
    assert not (
        a.categories.group == "site=small"
    ).any()  # risk ranges are for larger groups


@pytest.mark.slow
def test_a_perfect_score_passes_the_test_of_its_slope():
    rng, wrong = np.random.default_rng(3), 0
    for _ in range(400):
        risk = rng.beta(1, rng.choice([2, 20]), int(rng.choice([300, 2000])))
        a = audit((rng.random(len(risk)) < risk).astype(int), risk, n_draws=100)
        tests = a.verdict.tests.set_index("test")
        wrong += bool(SLOPE in tests.index and tests.p_value[SLOPE] <= 0.05)
    assert wrong <= 32  # 5 % of 400, and three standard errors


def test_a_certificate_says_how_far_off_the_score_can_be(people):
    a = audited(people, log_odds(people.risk))
    assert a.verdict.conclusion == "no miscalibration found"
    within = a.groups["certain_within"]
    assert (within >= a.groups["shown_within"]).all()
    assert (
        f"right to within {np.ceil(100 * within[0]):.0f} % of the expected events overall"
        in a.verdict.text
    )
    assert (
        f"to within {np.ceil(100 * within[1:].max()):.0f} % in each of them"
        in a.verdict.text
    )


def test_within_asks_the_other_way_round(people):
    a = audited(people, log_odds(people.risk), within=0.25)
    assert a.verdict.conclusion == "shown to be within 25 %"
    assert a.verdict.sentences[0].startswith(
        "With 95 % confidence, the score is right to within 25 %, overall and"
    )
    tight = audited(people, log_odds(people.risk), within=0.06)
    assert tight.verdict.conclusion == "not shown to be within 6 %"
    assert "If O/E is 1, that takes about " in tight.verdict.text
    rows = tight.groups.set_index("group")
    for claim in (
        tight.verdict.claims
    ):  # each is shown with all groups together, and none but these
        assert (claim.kind, claim.within, rows.finding[claim.who]) == (
            "within",
            0.06,
            "could be chance",
        )
        assert rows.certain_within[claim.who] <= 0.06
    assert {claim.who for claim in a.verdict.claims} == set(
        a.groups.group[a.groups.kept]
    )
    assert not a.verdict.errors


def test_groups_that_are_shown_one_by_one_allow_for_their_number(people):
    """With all groups, any of 12 tests could be wrong; the certificate of the table
    allows for that.
    """
    a = audited(people, log_odds(people.risk), within=0.09)
    assert a.verdict.conclusion == "not shown to be within 9 %"
    tested = a.groups[a.groups.kept & a.groups.certain_within.notna()].iloc[1:]
    n = int((tested.certain_within <= 0.09).sum())
    assert 0 < n < int((tested.shown_within <= 0.09).sum())
    assert f"and for {n} of {len(tested)} subgroups" in a.verdict.text


def test_within_is_refused_where_it_cannot_be_answered(people):
    for value in (0, 1e-200, 1, 1.5, float("nan"), "20%"):
        with pytest.raises(InputError, match="within must be"):
            audited(people, log_odds(people.risk), within=value)
    few = people.iloc[:150]
    with pytest.raises(
        InputError,
        match=r"it takes about \d+ expected events or more .*; there are \d+",
    ):
        audited(few, log_odds(few.risk), within=0.2)


def test_a_group_of_everybody_or_nearly_everybody_does_not_take_the_place_of_everybody(
    people,
):
    y = (people.draw < expit(0.6 * log_odds(people.risk) - 0.4)).astype(int)
    for level in (["x"] * len(people), ["x"] * (len(people) - 3) + ["z"] * 3):
        a = audit(
            y, people.risk, sensitive_features=pd.DataFrame({"g": level}), n_draws=200
        )
        assert [claim.kind for claim in a.verdict.claims] == ["overall", "shape"]


def test_an_alert_of_0_or_1_is_told_by_its_two_values(people):
    score = (people.risk > 0.4).astype(float)
    y = (people.draw < people.risk).astype(int)
    a = audit(y, score, sensitive_features=people[["race"]], n_draws=200)
    (shape,) = [claim for claim in a.verdict.claims if claim.kind == "shape"]
    assert [(region.low, region.direction) for region in shape.where] == [
        (0.0, "too low"),
        (1.0, "too high"),
    ]
    assert "too high at a predicted risk of 100 %" in a.verdict.text


def test_scores_of_exactly_1_are_not_told_beside_a_range_that_they_are_in(people):
    score = np.where(people.risk > 0.7, 1.0, np.clip(1.4 * people.risk, 0, 0.98))
    y = (people.draw < people.risk).astype(int)
    (shape,) = [
        c for c in audit(y, score, n_draws=100).verdict.claims if c.kind == "shape"
    ]
    assert [(region.high, region.direction) for region in shape.where].count(
        (1.0, "too high")
    ) == 1
    assert shape.where[-1].low < 1


def test_too_few_events_are_told_before_what_was_not_found():
    rng = np.random.default_rng(3)
    risk = rng.beta(1, 400, 6000)
    a = audit((rng.random(6000) < risk).astype(int), risk, n_draws=100)
    assert a.verdict.conclusion == "not enough data"
    assert a.verdict.sentences[0] == "There are not enough data to judge the score."
    assert a.verdict.sentences[1].startswith(
        "Overall, no miscalibration was found among 6,000 people: "
    )


def test_an_alert_of_two_risks_is_told_by_these_and_its_clearest_cell_is_not_lost():
    rng = np.random.default_rng(9)
    rng.normal(size=6000)
    people = pd.DataFrame(
        {"race": rng.choice(list("ABCD"), 6000, p=[0.5, 0.25, 0.15, 0.1])}
    )
    people["sex"], score = (
        rng.choice(["F", "M"], 6000),
        np.where(rng.random(6000) < 0.2, 0.6, 0.1),
    )
    y = rng.random(6000) < score * np.where(
        (score == 0.6) & (people.sex == "F"), 0.7, 1
    )
    a = audit(y.astype(int), score, sensitive_features=people, n_draws=200)
    assert [claim.kind for claim in a.verdict.claims][-1] == "cell"
    assert {"overall", "shape"} < {claim.kind for claim in a.verdict.claims}
    assert "It predicts too high at a predicted risk of 60 %." in a.verdict.text
    assert (
        "he clearest gap is in F at predicted risk 60-70 %: observed " in a.verdict.text
    )
    assert len(a.verdict.sentences) <= 4


def test_nothing_is_certified_of_a_score_that_was_fitted_to_these_people(people):
    from propcal import PMCBoost

    y = (people.draw < expit(log_odds(people.risk) - 0.5)).astype(int)
    cal = PMCBoost().fit(people.risk, y, sensitive_features=people[["race", "sex"]])
    a = audit(
        y,
        people.risk,
        sensitive_features=people[["race", "sex"]],
        correction=cal,
        n_draws=200,
        within=0.2,
    )
    assert "confidence" not in a.verdict.text


def rare_outcome(n=20_000):
    rng = np.random.default_rng(8)
    risk, sex = (
        1 / (1 + np.exp(5 - 0.8 * rng.normal(size=n))),
        rng.choice(["F", "M"], n),
    )
    y = rng.random(n) < risk * np.where(sex == "M", 1.6, 1)
    return audit(
        pd.DataFrame({"risk": risk, "sex": sex, "y": y}),
        score="risk",
        outcome="y",
        groups=["sex"],
    )


def test_rates_below_the_floor_of_ratios_are_not_called_alike():
    found = rare_outcome()
    assert found.losses.loc["dc", "value"] == 0
    assert found.losses.loc["dc", "where"] == "all rates are below 10 %"


def test_a_small_gap_that_is_found_has_a_decimal_in_the_heat_map():
    cells = [
        cell
        for _, cells in heat_rows(rare_outcome())[1]
        for cell in cells
        if "*" in cell.mark
    ]
    assert cells
    assert all(re.fullmatch(r"[+−]0\.[1-9] \*", cell.mark) for cell in cells), cells

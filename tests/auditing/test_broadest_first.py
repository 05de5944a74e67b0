"""The verdict: overall error first, then shape, then subgroups that are wrong in their own right."""

import numpy as np
import pandas as pd
import pytest

from propcal import Groups, audit
from propcal.auditing.hypothesis_tests import SLOPE
from propcal.core.logistic import expit, log_odds


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(11)
    n = 12_000
    frame = pd.DataFrame(
        {"race": rng.choice(["A", "B", "C"], n, p=[0.5, 0.3, 0.2]), "sex": rng.choice(["F", "M"], n)}
    )
    return frame.assign(risk=rng.beta(2, 5, n), draw=rng.random(n))


def audited(people, logit, **settings):
    """An audit where the log-odds of the truth are the given ones."""
    y = (people.draw < expit(np.asarray(logit, dtype=float))).astype(int)
    return audit(y, people.risk, sensitive_features=people[["race", "sex"]], n_draws=200, **settings)


def named(a):
    chosen = a.groups[a.groups["rank"] > 0].sort_values("rank")
    return chosen["label"].tolist()


def test_an_overall_error_is_one_finding(people):
    a = audited(people, log_odds(people.risk) - 0.5)
    assert (a.groups.finding[a.groups.kept] == "too high").all()  # every subgroup, and yet:
    assert named(a) == ["All people"]
    assert a.verdict.sentences[1].startswith("Overall, it predicts too high: observed ")
    assert "Beyond that" not in a.verdict.text


def test_a_shape_is_told_after_the_level(people):
    a = audited(people, 0.6 * log_odds(people.risk) - 0.2)
    assert a.verdict.tests.set_index("test").rejected[SLOPE]
    assert "too extreme (calibration slope 0." in a.verdict.text
    other = audited(people, 1.7 * log_odds(people.risk) + 0.4)
    assert "not extreme enough (calibration slope 1." in other.verdict.text
    right = audited(people, log_odds(people.risk) - 0.5)
    assert not right.verdict.tests.set_index("test").rejected[SLOPE]  # a wrong level is no wrong slope


def test_a_group_is_named_and_its_intersections_are_not(people):
    a = audited(people, log_odds(people.risk) - 0.9 * (people.race == "B"))
    assert named(a)[0] == "B"
    assert not [label for label in named(a) if label.startswith("B, ")]
    assert a.groups.set_index("label").finding["B, F"] == "too high"
    assert "also off, because they overlap with this group" in a.verdict.text


def test_an_intersection_is_named_if_no_parent_explains_it(people):
    wrong = (people.race == "A") & (people.sex == "F")
    other = (people.race == "A") & (people.sex == "M")
    a = audited(people, log_odds(people.risk) + 0.8 * wrong - 0.8 * other)
    assert {"A, F", "A, M"} <= set(named(a))
    assert "A" not in named(a)


def test_a_group_beyond_the_overall_error(people):
    a = audited(people, log_odds(people.risk) - 0.4 - 0.8 * (people.race == "C"))
    assert "Beyond that, it predicts too high for C: observed" in a.verdict.text


def test_groups_without_the_overall_error_are_told(people):
    a = audited(people, log_odds(people.risk) - 0.6 * (people.race != "C"))
    assert a.verdict.sentences[1].startswith("Overall, it predicts too high: ")
    assert "No error was found in " in a.verdict.text


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
    assert (row.people, row.finding, row.reason) == (40, "not enough data", "fewer than 50 people")
    assert np.isfinite(row.observed_expected)
    assert "very old" not in set(a.verdict.tests.test)


def test_small_groups_are_judged_by_counts_not_by_shares(people):
    risk = np.where(people.race == "C", 0.3, 0.2)
    some = people.assign(site=np.where(np.arange(len(people)) % 60 == 0, "small", "large"))
    y = (people.draw < np.where(some.site == "small", 0.55, risk)).astype(int)
    a = audit(y, risk, sensitive_features=some[["site"]], n_draws=200)
    row = a.groups.set_index("label").loc["small"]
    assert row.share < 0.05  # below gamma
    assert row.finding == "too low"
    assert named(a) == ["small"]
    assert not (a.categories.group == "site=small").any()  # risk ranges are for larger groups


@pytest.mark.slow
def test_a_perfect_score_passes_the_test_of_its_slope():
    rng, wrong = np.random.default_rng(3), 0
    for _ in range(400):
        risk = rng.beta(1, rng.choice([2, 20]), int(rng.choice([300, 2000])))
        a = audit((rng.random(len(risk)) < risk).astype(int), risk, n_draws=100)
        tests = a.verdict.tests.set_index("test")
        wrong += bool(SLOPE in tests.index and tests.p_value[SLOPE] <= 0.05)
    assert wrong <= 32  # 5 % of 400, and three standard errors


def test_a_large_group_that_explains_the_overall_error_is_named_in_its_place(people):
    a = audited(people, log_odds(people.risk) - 0.9 * (people.race == "B"))
    assert a.groups.finding.iloc[0] == "too high"  # everybody taken together, and yet:
    assert named(a) == ["B"]
    assert "This error also makes the score too high" in a.verdict.text
    assert "No error was found in the other people" in a.verdict.text
    both = audited(people, log_odds(people.risk) - 0.3 - 0.9 * (people.race == "B"))
    assert named(both)[0] == "All people"  # the others are wrong, too


def test_errors_of_subgroups_come_before_a_small_overall_error(people):
    shift = 1.2 * ((people.race == "B") * 1.0 - (people.race == "A")) + np.where(people.sex == "F", -0.3, 0.3)
    a = audited(people, 1.1 * log_odds(people.risk) + shift)
    assert "All people" in named(a)
    told = [a.verdict.text.find(start) for start in ("It predicts too high for A", "Overall, it predicts")]
    assert 0 < told[0] < told[1]
    assert "Beyond that" not in a.verdict.text


def test_nothing_is_said_of_others_where_there_are_none(people):
    some = audited(
        people, log_odds(people.risk) + np.select([people.race == "A", people.race == "B"], [-0.8, 0.5], 0)
    )
    assert "No error was found in the other people." in some.verdict.text
    everybody = audited(
        people, log_odds(people.risk) + np.select([people.race == "A", people.race == "B"], [-1, 0.4], 0.2)
    )
    assert named(everybody) == ["A", "B", "C"]
    assert "other people" not in everybody.verdict.text


def test_an_error_of_no_single_subgroup_has_a_size(people):
    x = log_odds(people.risk)
    centre = x.mean()
    turn = np.where(people.sex == "F", 0.25, -0.25)
    a = audited(people, x + turn * (x - centre))
    assert not [label for label in named(a) if label != "All people"]
    assert "no single subgroup is clearly wrong" in a.verdict.text
    assert " percentage points." in a.verdict.text

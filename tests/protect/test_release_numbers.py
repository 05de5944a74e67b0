"""Numbers of audits, comparisons and courses for release, worked out by hand."""

from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from propcal.auditing.headcount import Headcount, ScoreValues
from propcal.core.atoms import LeftOutReport
from propcal.core.bins import uniform
from propcal.core.groups import Group
from propcal.numbers import About, Limit
from propcal.protect.disclosure_rule import Rule, moved
from propcal.protect.protected_audits import (
    _left_out,
    _printed_mean_squares,
    _ProtectedFindings,
)
from propcal.protect.protected_comparisons import (
    _differences,
    _flag_counts,
    _is_number,
    _without_turned_losses,
)
from propcal.protect.protected_courses import (
    _protected_evidence,
    _protected_strengths,
    _shown_evidence,
    _shown_reference,
    band,
)

EVERYBODY = Group(())


def key_moved_by(move):
    """A key whose count of people is moved by so much."""
    return next(k for k in range(1, 1000) if moved(np.uint64(k), 0) == move)


def test_the_largest_error_is_rounded_up_to_three_digits():
    findings = SimpleNamespace(large=np.array([True, True, True, False, False]))
    exact = pd.Series([0.12301, 0.5, np.nan, 0.12301, np.nan])
    errors = _ProtectedFindings._largest_errors(findings, exact)
    assert errors == pytest.approx([0.124, 0.5, np.nan, np.inf, np.nan], nan_ok=True)


def equal_scores(n, people, events):
    """So many different scores, each of as many people, of whom so many have the
    outcome.
    """
    score = np.linspace(0.1, 0.9, n)
    counts = np.full(n, people, float)
    key = np.zeros(n, dtype=np.uint64)
    return ScoreValues(score, counts, np.full(n, events, float), counts, key)


def test_measures_of_up_to_four_scores_with_a_small_count_are_those_of_few():
    values = [
        equal_scores(3, 40, 10),
        equal_scores(4, 40, 10),
        equal_scores(5, 40, 10),
        equal_scores(4, 40, 11),
        equal_scores(4, 40, 29),
        equal_scores(4, 40, 30),
    ]
    counts = SimpleNamespace(values=values)
    findings = SimpleNamespace(n_groups=6, counts=counts, rule=Rule(11))
    saturated = _ProtectedFindings._saturated(findings)
    assert saturated.tolist() == [True, True, False, False, False, True]


def decision_curve(flagged, flagged_events, withheld):
    """Of 100 people 40 have the outcome; thresholds are 0.2, 0.4 and 0.6."""
    findings = SimpleNamespace(
        counts=SimpleNamespace(thresholds=np.array([0.2, 0.4, 0.6])),
        shown=SimpleNamespace(people=np.array([100.0]), events=np.array([40.0])),
        _flagged=lambda g: (np.array(flagged), np.array(flagged_events)),
        _withheld_thresholds=lambda g: np.array(withheld),
    )
    curve = _ProtectedFindings._decision_curve(findings, 0, 1.0)
    return pd.DataFrame(curve)


def test_a_decision_curve_treats_no_more_people_than_there_are():
    """Moved counts: at the first threshold 98 are treated, 35 of them with the outcome,
    which leaves 63 of 60 without it; 102 are more than all.
    """
    curve = decision_curve([98.0, 80, 81], [35.0, 36, 20], [False] * 3)
    right = np.array([35.0, 35, 20])  # never more at a higher threshold
    wrong = np.array([60.0, 45, 45])  # 80 are treated at 0.6 as well, and 60 wrongly
    assert curve["sensitivity"].tolist() == pytest.approx((right / 40).tolist())
    assert curve["specificity"].tolist() == pytest.approx((1 - wrong / 60).tolist())
    assert curve["treated"].tolist() == pytest.approx(((right + wrong) / 100).tolist())
    odds = np.array([0.2 / 0.8, 0.4 / 0.6, 0.6 / 0.4])
    benefit = (right - odds * wrong) / 100
    assert curve["net_benefit"].tolist() == pytest.approx(benefit.tolist())


def test_a_decision_curve_has_no_number_at_thresholds_that_are_withheld():
    curve = decision_curve([102.0, 80, 60], [45.0, 36, 20], [False, True, False])
    assert curve["treated"].tolist() == pytest.approx([1.0, np.nan, 0.6], nan_ok=True)
    assert curve["sensitivity"].tolist() == pytest.approx([1, np.nan, 0.5], nan_ok=True)
    assert np.isnan(curve["net_benefit"][1])
    assert (curve["low"] < curve["net_benefit"])[[0, 2]].all()


def test_thresholds_are_withheld_between_the_middles_of_the_ranges_beside_an_edge():
    """Four ranges of 0.25: thresholds from 0.375 to 0.625 are near the edge at 0.5."""
    thresholds = np.array([0.3, 0.375, 0.5, 0.625, 0.7, 0.9])
    different = np.full((2, 1, 6), 50.0)
    different[0, 0, 5] = 10  # few with the outcome at or above 0.9
    findings = SimpleNamespace(
        rule=Rule(11),
        counts=SimpleNamespace(
            bins=uniform(4),
            thresholds=thresholds,
            flagged=SimpleNamespace(different=different),
        ),
        hidden_edges=np.array([[False, True, False]]),
    )
    withheld = _ProtectedFindings._withheld_thresholds(findings, 0)
    assert withheld.tolist() == [False, True, True, True, False, True]


def test_people_left_out_are_given_in_fives():
    by = {"sex": [("F", 20, 313), ("M", 10, 300), ("X", 290, 300), ("Y", 11, 22)]}
    report = LeftOutReport(33, 1036, by)
    found = _left_out(report, About(1003), Rule(11))
    assert (found.left, found.total) == (35, 1005 + 35)
    assert found.by == {"sex": [("F", 20, 315), ("Y", 10, 20)]}
    withheld = _left_out(report, np.nan, Rule(11))
    assert (withheld.left, withheld.total) == (35, 35)
    few = _left_out(LeftOutReport(4, 1007, {}), About(1003), Rule(11))
    assert isinstance(few.left, Limit)
    assert few.total == 1005 + 11


def test_typical_gaps_have_three_digits_and_mean_squares_four():
    typical = pd.Series([0.123456], name="typical_gap")
    squares = pd.Series([0.123456], name="mean_square")
    assert _printed_mean_squares(typical) == [0.123]
    assert _printed_mean_squares(squares) == [0.1235]


def test_evidence_of_few_people_is_a_band():
    lower_ends = [(0.99, 1, "below"), (1, 1, "at least"), (4.9, 1, "at least")]
    lower_ends += [(5, 5, "at least"), (19.9, 5, "at least"), (20, 20, "at least")]
    lower_ends += [(99, 20, "at least"), (100, 100, "at least")]
    lower_ends += [(999, 100, "at least"), (1000, 1000, "at least")]
    for evidence, end, side in lower_ends:
        found = band(evidence)
        assert (float(found), found.side) == (end, side)


def test_evidence_of_many_people_has_two_digits():
    assert _shown_evidence(123.4, "a", frozenset()) == 120
    assert _shown_evidence(0.0123, "a", frozenset("b")) == 0.012
    assert isinstance(_shown_evidence(123.4, "b", frozenset("b")), Limit)


def test_evidence_over_time_of_few_people_has_the_lower_ends_of_bands():
    table = pd.DataFrame({"evidence": [0.5, 7.0, 123.4], "group": ["b", "b", "a"]})
    found = _protected_evidence(table, frozenset("b"))
    assert found["evidence"].tolist() == [0.0, 5.0, 120.0]


def test_limits_of_ratios_are_rounded_outwards_and_shown_of_many_people():
    table = pd.DataFrame(
        {
            "group": ["a", "b"],
            "evidence": [123.4, 123.4],
            "highest": [150.0, 150.0],
            "ratio_low": [0.987, 0.987],
            "ratio_high": [1.231, 1.231],
        }
    )
    found = _protected_strengths(table, frozenset("b"))
    assert found["ratio_low"].tolist() == pytest.approx([0.98, np.nan], nan_ok=True)
    assert found["ratio_high"].tolist() == pytest.approx([1.24, np.nan], nan_ok=True)
    assert found["evidence"].tolist() == [120, 100]
    assert found["highest"].tolist() == [150, 100]


@pytest.mark.parametrize(
    ("value", "reference", "shown_value", "shown_reference", "is_shown"),
    [
        (1.2, 1.0, 1.2, 1.1, True),  # it has risen
        (1.2, 1.0, 1.1, 1.1, False),
        (0.8, 1.0, 0.8, 0.9, True),  # it has fallen
        (0.8, 1.0, 1.0, 0.9, False),
    ],
)
def test_a_reference_is_shown_if_moved_counts_do_not_reverse_the_change(
    value, reference, shown_value, shown_reference, is_shown
):
    alarm = SimpleNamespace(
        group="a", test="level", value=value, reference_value=reference
    )
    sets = SimpleNamespace(of_reference={("a", "level"): 0})
    shown = SimpleNamespace(ratio=lambda place, ends: [shown_reference, 0.0, 9.0])
    found = _shown_reference(alarm, shown_value, sets, shown)
    assert found == pytest.approx(shown_reference if is_shown else np.nan, nan_ok=True)
    sets.of_reference = {}
    assert np.isnan(_shown_reference(alarm, shown_value, sets, shown))


@dataclass(frozen=True)
class Tables:
    """What a comparison reads of the tables of an audit with protected counts."""

    losses: pd.DataFrame
    groups: pd.DataFrame


@dataclass(frozen=True)
class ShownAudit:
    """Findings with these tables."""

    shown: Tables


def shown_audit(ratio, loss):
    losses = pd.DataFrame(
        {"value": [loss], "low": [0.0], "high": [1.0]}, index=["pmc"], dtype=object
    )
    groups = pd.DataFrame({"group": ["everybody"], "observed_expected": [ratio]})
    return ShownAudit(Tables(losses, groups))


def differences(measure, base, value, difference, low, high):
    row = {
        "measure": measure,
        "group": "everybody",
        "score": "new",
        "base": base,
        "value": value,
        "difference": difference,
        "low": low,
        "high": high,
    }
    return SimpleNamespace(base="old", differences=pd.DataFrame([row]))


def shown_difference(comparison, old, new):
    (row,) = _differences(comparison, {"old": old, "new": new}).to_dict("records")
    return [row[name] for name in ("base", "value", "difference", "low", "high")]


def test_a_difference_of_ratios_goes_with_the_ratio_that_is_shown():
    """The base is shown as 1.1 in place of 1.0, and the difference of 0.2 as 0.22; its
    interval has the same width.
    """
    comparison = differences("observed_expected", 1.0, 1.2, 0.2, 0.1, 0.3)
    found = shown_difference(comparison, shown_audit(1.1, 0.2), shown_audit(1.3, 0.1))
    assert found == pytest.approx([1.1, 1.3, 0.22, 0.12, 0.32])


def test_a_difference_of_ratios_is_larger_by_as_much_as_the_base():
    """The base is shown as 2.2 in place of 2.0: a tenth more."""
    comparison = differences("observed_expected", 2.0, 2.4, 0.4, 0.2, 0.6)
    found = shown_difference(comparison, shown_audit(2.2, 0.2), shown_audit(2.6, 0.1))
    assert found == pytest.approx([2.2, 2.6, 0.44, 0.24, 0.64])


@pytest.mark.parametrize(
    ("value", "is_shown"), [(1.31, True), (1.32, False), (1.09, True), (1.08, False)]
)
def test_ratios_that_moved_more_than_their_interval_have_no_difference(value, is_shown):
    """An interval from 0.1 to 0.3, and 0.01 more as both ratios are rounded."""
    comparison = differences("observed_expected", 1.0, 1.2, 0.2, 0.1, 0.3)
    found = shown_difference(comparison, shown_audit(1.0, 0.2), shown_audit(value, 0.1))
    assert np.isfinite(found[2:]).all() == is_shown
    assert found[:2] == [1.0, value]


def test_a_difference_of_losses_is_between_those_that_are_shown():
    comparison = differences("pmc", 0.21, 0.12, -0.09, -0.15, -0.03)
    found = shown_difference(comparison, shown_audit(1.0, 0.2), shown_audit(1.0, 0.1))
    assert found == pytest.approx([0.2, 0.1, -0.1, -0.16, -0.04])
    hidden = shown_difference(
        comparison, shown_audit(1.0, 0.2), shown_audit(1.0, np.nan)
    )
    assert hidden == pytest.approx([0.2, *[np.nan] * 4], nan_ok=True)


@pytest.mark.parametrize(
    ("after", "is_shown"), [(0.1, True), (0.2, True), (0.21, False)]
)
def test_a_loss_is_not_shown_if_its_difference_has_turned(after, is_shown):
    """The exact loss becomes smaller; the loss before is shown as 0.2."""
    comparison = differences("pmc", 0.21, 0.12, -0.09, -0.15, -0.03)
    audits = {"old": shown_audit(1.0, 0.2), "new": shown_audit(1.0, after)}
    found = _without_turned_losses(comparison, audits).shown.losses.loc["pmc"]
    assert (found["value"] == 0.2) == is_shown
    assert found.isna().tolist() == [not is_shown] * 3


def test_limits_and_missing_numbers_are_not_numbers():
    assert _is_number(0.0)
    assert not _is_number(np.nan)
    assert not _is_number(Limit(11, "below"))


def flag_counts(newly, no_longer, *, move=0, key=None):
    """What is shown of those newly and no longer flagged; `move` is that of the people
    flagged by the new score, and 0 by the old one.
    """

    def headcount(people, key):
        events = np.array([people // 2, people - people // 2], dtype=float)[:, None]
        key = np.array([key], dtype=np.uint64)
        return Headcount(events, events, np.array([0.2]), key)

    def audit(move):
        counts = SimpleNamespace(
            groups=[EVERYBODY],
            thresholds=np.array([0.1, 0.5]),
            flagged=SimpleNamespace(
                key=np.array([[key_moved_by(1), key_moved_by(move)]], dtype=np.uint64)
            ),
        )
        return SimpleNamespace(counts=counts)

    changes = SimpleNamespace(
        groups=[EVERYBODY],
        score="new",
        threshold=0.5,
        newly=headcount(newly, 1),
        no_longer=headcount(no_longer, key_moved_by(0) if key is None else key),
    )
    by_score = {"old": audit(0), "new": audit(move)}
    comparison = SimpleNamespace(base="old", by_score=by_score)
    (newly_flagged,), (no_longer_flagged,) = _flag_counts(changes, comparison, Rule(11))
    return newly_flagged, no_longer_flagged


def test_both_counts_of_flags_are_shown_if_the_small_one_stays_unknown():
    newly, no_longer = flag_counts(8, 100)
    assert (float(newly), newly.side) == (21, "below")
    assert no_longer == 100
    assert flag_counts(60, 100)[1] == 100


def test_the_other_count_of_flags_is_withheld_if_the_small_one_would_follow():
    """20 newly flagged, as few as can be said to be below 21. If moves add 4, only 20
    is left: 20 + 4 - 6 to 20.
    """
    assert flag_counts(20, 100)[1] == 100  # 14 to 20
    added = key_moved_by(2)
    newly, no_longer = flag_counts(20, 100, move=2, key=added)
    assert (float(newly), newly.side) == (21, "below")
    assert np.isnan(no_longer)
    # 2 more: 20 + 2 - 6 to 20 are five values
    assert flag_counts(20, 100, move=2)[1] == 100
    # 3 more: four values
    assert np.isnan(flag_counts(20, 100, move=2, key=key_moved_by(1))[1])


def test_a_small_count_of_flags_near_0_follows_as_well():
    """Nobody newly flagged; moves take 2 and 1 away: 0 to 3 are four values."""
    assert np.isnan(flag_counts(0, 100, move=-2, key=key_moved_by(-1))[1])
    assert flag_counts(0, 100, move=-2)[1] == 100

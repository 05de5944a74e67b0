"""What is claimed, from tables worked out by hand, and which groups are tested."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm
from small_samples import rows_of, sample_of

from propcal.auditing.audit_claims import (
    _is_outside,
    _runs_of_errors,
    events_needed,
    largest_errors,
    shown_within,
    too_few_events,
)
from propcal.auditing.audit_tables import (
    _at_threshold,
    _share_intervals,
    stacked_columns,
)
from propcal.auditing.claims import Claim, Region, with_numbers, with_others
from propcal.auditing.compare import _part
from propcal.auditing.findings import AuditSettings, _untested
from propcal.auditing.headcount import Headcount, everybody, score_values
from propcal.auditing.names import TOO_HIGH, TOO_LOW
from propcal.auditing.profile import JudgedGroups, dominated
from propcal.auditing.statistics.measures import ratio_intervals
from propcal.auditing.statistics.sample import Sample
from propcal.errors import InputError
from propcal.reading.rows import rows_to_atoms

NAN = float("nan")


def test_how_many_events_an_answer_takes():
    """The logarithm of 1.2 in units of 1.645 errors of the root of the events."""
    rare = (norm.ppf(0.95) / np.log(1.2)) ** 2
    assert events_needed(0.2) == np.ceil(rare)
    assert events_needed(0.2, rate=0.5, effect=3.0) == np.ceil(1.5 * rare)


@pytest.mark.parametrize(("expected", "enough"), [(82, True), (81.9, False)])
def test_82_expected_events_can_show_that_a_rare_score_is_right_to_a_fifth(
    expected, enough
):
    why = too_few_events(0.2, expected, 0.0, 1.0)
    assert (why == "") == enough
    assert enough or why.startswith("it takes about 82 expected events")


def test_the_largest_error_is_that_of_the_further_limit():
    samples = [sample_of((0.5, 400, 150)), sample_of((0.5, 400, 250))]
    found = largest_errors(samples)
    for sample, errors in zip(samples, found):
        limits = ratio_intervals(sample, 0.975, 0.9)
        expected = [max(1 - low, high - 1) for low, high in limits]
        assert errors == pytest.approx(expected)


def row_of_group(name="g", **changes):
    """A group in which the score was found to be too low."""
    row = {
        "group": name,
        "label": name,
        "finding": TOO_LOW,
        "observed_expected": 1.5,
        "observed_expected_low": 1.3,
        "observed_expected_high": 1.7,
        "p_value": 0.01,
        "people": 100,
        "positives": 30,
        "outcome_rate": 0.3,
        "mean_score": 0.2,
        "kept": True,
        "certain_within": 0.7,
        "shown_within": 0.6,
    }
    return row | changes


@pytest.mark.parametrize(
    ("low", "high", "outside"),
    [
        (1.26, 2.0, True),
        (1.25, 2.0, False),
        (0.5, 0.74, True),
        (0.5, 0.75, False),
        (0.9, 1.1, False),
    ],
)
def test_a_group_is_off_by_more_than_a_quarter_if_its_interval_is(low, high, outside):
    row = row_of_group(observed_expected_low=low, observed_expected_high=high)
    assert _is_outside(row, 0.25) == outside
    assert not _is_outside(row | {"finding": "could be chance"}, 0.25)


def test_what_is_shown_of_each_group():
    groups = pd.DataFrame(
        [
            row_of_group("off"),
            row_of_group("right", finding="could be chance", certain_within=0.25),
            row_of_group("unclear", finding="could be chance", certain_within=0.26),
            row_of_group("small", kept=False),
        ]
    )
    everywhere, claims = shown_within(groups, 0.25)
    assert not everywhere
    assert [(one.kind, one.who) for one in claims] == [
        ("outside", "off"),
        ("within", "right"),
    ]
    assert (claims[0].direction, claims[0].p_value) == (TOO_LOW, 0.01)
    everywhere, claims = shown_within(groups, 0.6)
    assert everywhere
    assert [one.kind for one in claims] == ["within"] * 3
    assert not shown_within(groups, 0.59)[0]


def test_runs_of_errors_begin_at_0_and_end_at_1():
    scores = np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.6])
    sign = np.array([1.0, 1.0, 0.0, -1.0, -1.0, 1.0])
    expected = [
        Region(0.0, 0.2, TOO_LOW),
        Region(0.4, 0.5, TOO_HIGH),
        Region(0.6, 1.0, TOO_LOW),
    ]
    assert _runs_of_errors(sign, scores) == expected


GROUPS = pd.DataFrame(
    [
        row_of_group("everybody", people=100, outcome_rate=0.3, mean_score=0.4),
        row_of_group("sex=F", people=40, outcome_rate=0.45, mean_score=0.25),
        row_of_group("sex=M", people=60, outcome_rate=0.2, mean_score=0.5),
    ]
)


def claim_of(**numbers):
    return Claim("group", "sex=F", "women", TOO_LOW, **numbers)


def test_the_others_are_everybody_less_the_group():
    """30 - 18 events where 40 - 10 are expected; limits move in proportion."""
    claim = with_others(claim_of(others=0.8, others_low=0.6, others_high=1.2), GROUPS)
    assert claim.others == pytest.approx(12 / 30)
    assert (claim.others_low, claim.others_high) == pytest.approx((0.3, 0.6))


def test_others_of_whom_nothing_is_known_stay_as_they_are():
    for claim in (claim_of(), claim_of(others=0.8, others_are="sex=M")):
        assert with_others(claim, GROUPS) is claim


@pytest.mark.parametrize(
    ("rate", "score", "others"),
    [
        (0.75, 0.25, 0.0),  # no event is left
        (0.775, 0.25, NAN),  # rounded: fewer than none
        (0.45, 1.0, NAN),  # nothing is expected
        (0.45, 1.1, NAN),
    ],
)
def test_others_without_events_or_expected_events(rate, score, others):
    groups = GROUPS.copy()
    groups.loc[1, ["outcome_rate", "mean_score"]] = rate, score
    claim = with_others(claim_of(others=0.8, others_low=0.6, others_high=1.2), groups)
    assert claim.others == pytest.approx(others, nan_ok=True)
    assert np.isnan([claim.others_low, claim.others_high]).all()


def test_a_claim_has_the_numbers_of_its_group_and_of_the_others():
    claim = with_numbers(claim_of(others_are="sex=M"), GROUPS, pd.DataFrame())
    assert (claim.people, claim.observed, claim.predicted) == (40, 0.45, 0.25)
    assert (claim.estimate, claim.low, claim.high) == (1.5, 1.3, 1.7)
    assert (claim.others, claim.others_low, claim.others_high) == (1.5, 1.3, 1.7)
    shape = Claim("shape", "", "", "")
    assert with_numbers(shape, GROUPS, pd.DataFrame()) is shape


def test_shares_of_people_have_intervals_of_those_they_are_shares_of():
    """Of 100 people worth 50: 50 may be flagged, 10 have the outcome, 40 do not, and
    20 are flagged.
    """
    table = pd.DataFrame(
        {"people": [100], "design_effect": [2.0], "outcome_rate": [0.2]}
    )
    shares = np.array([[0.4], [0.7], [0.6], [0.3]])
    low, high = _share_intervals(table, shares)
    z = norm.ppf(0.975)
    for row, n in enumerate([50, 10, 40, 20]):
        share = shares[row, 0]
        middle = (share + z**2 / (2 * n)) / (1 + z**2 / n)
        reach = (
            z / (1 + z**2 / n) * np.sqrt(share * (1 - share) / n + z**2 / (4 * n**2))
        )
        assert low[row, 0] == pytest.approx(middle - reach)
        assert high[row, 0] == pytest.approx(middle + reach)


def test_a_share_of_part_of_a_person_has_an_interval_and_one_of_nobody_has_none():
    table = pd.DataFrame({"people": [4], "design_effect": [8.0], "outcome_rate": [0.0]})
    low, high = _share_intervals(table, np.array([[0.0], [NAN], [0.5], [NAN]]))
    known = [True, False, True, False]
    assert (~np.isnan(low[:, 0])).tolist() == known
    assert (~np.isnan(high[:, 0])).tolist() == known


def test_columns_of_groups_are_put_under_one_another():
    found = stacked_columns({"a": {"x": [1, 2]}, "b": {"x": [3]}})
    assert found.to_numpy().tolist() == [["a", 1], ["a", 2], ["b", 3]]
    assert stacked_columns({}).empty


def test_everybody_is_in_the_table_of_a_threshold_even_if_there_are_too_few():
    groups = pd.DataFrame(
        {"group": ["everybody", "a", "b"], "kept": [False, True, False]}
    )
    nothing = pd.DataFrame({"group": []})
    found = _at_threshold(groups, nothing, 0.2)
    assert found["group"].tolist() == ["everybody", "a"]
    assert found["threshold"].tolist() == [0.2, 0.2]


JUDGED = JudgedGroups(people=50, events=10, rate=0.2)


@pytest.mark.parametrize(
    ("numbers", "why"),
    [
        ((50, 50, 10, 50), ""),
        ((49, 49, 10, 49), "fewer than 50 people"),
        ((50, 30, 10, 50), ""),
        ((50, 29.9, 10, 50), "weights worth fewer than 30 people"),
        # at the rate of everybody, 50 people have 10 events, whatever the score expects
        ((50, 50, 0, 50), ""),
        ((50, 50, 49, 50), ""),
        # without weight the score expects nothing: the rate of everybody decides
        ((50, 50, 0, 0), ""),
    ],
)
def test_a_group_is_tested_if_it_has_enough_people_and_expected_events(numbers, why):
    assert JUDGED.too_few_of(*numbers) == why


@pytest.mark.parametrize(
    ("rate", "expected", "why"),
    [
        (0.0, 10, ""),
        (0.0, 9.9, "fewer than 10 expected events"),
        (1.0, 70, ""),
        (1.0, 70.1, "fewer than 10 expected non-events"),
        (0.85, 80, ""),  # 12 non-events at the rate of everybody
    ],
)
def test_expected_events_are_those_of_the_score_or_of_everybody(rate, expected, why):
    judged = JudgedGroups(people=50, events=10, rate=rate)
    assert judged.too_few_of(80, 80, expected, 80) == why


def test_people_without_weight_have_no_expected_events_of_their_own():
    never = JudgedGroups(people=50, events=10, rate=0.0)
    assert never.too_few_of(100, 100, 0.0, 0.0) == "fewer than 10 expected events"
    always = JudgedGroups(people=50, events=10, rate=1.0)
    assert always.too_few_of(100, 100, 0.0, 0.0) == ""


def test_few_people_are_dominated_if_their_weights_differ():
    assert not dominated(20, 20)
    assert not dominated(20, 20 * (1 - 1e-12))  # rounding
    assert dominated(20, 19.9)
    assert dominated(1000, 29.9)
    assert not dominated(1000, 30)


def test_groups_are_judged_by_the_rate_of_everybody():
    atoms = rows_to_atoms(*rows_of((0.5, 20, 5)), None)
    assert JudgedGroups.of(atoms) == JudgedGroups(50, 10, 0.25)
    assert JudgedGroups.of(atoms, 20, 5).too_few(Sample.of(atoms)) == ""
    assert JudgedGroups.of(atoms, 21, 5).too_few(Sample.of(atoms)) != ""


@pytest.mark.parametrize("within", [0.001, 0.999])
def test_a_share_to_be_shown_is_between_a_thousandth_and_1(within):
    assert AuditSettings(within=within).within == within


@pytest.mark.parametrize("within", [0.0009, 1, 1.5])
def test_any_other_share_is_refused(within):
    with pytest.raises(InputError, match="within"):
        AuditSettings(within=within)


def untested(score, soft=True, **people):
    atoms = SimpleNamespace(soft_labels=soft, score=np.array(score) * 2**32)
    return _untested(atoms, SimpleNamespace(**people))


def test_scores_of_0_and_1_beside_soft_labels_look_swapped():
    assert "swapped" in untested([0, 1])
    assert "swapped" in untested([0])
    assert "swapped" in untested([1])
    for score in ([0, 0.5], [0.5, 1], [0, 0.5, 1]):
        assert untested(score).endswith("whose noise is not known")


def test_fewer_than_ten_patients_are_not_tested():
    clusters = np.arange(9)
    assert "9 different values" in untested(
        [0.5], False, cluster=clusters, n_clusters=9
    )
    assert untested([0.5], False, cluster=clusters, n_clusters=10) == ""
    assert untested([0.5], False, cluster=None, n_clusters=0) == ""


def test_progress_of_the_second_of_three_audits_is_part_of_the_whole():
    reported = []
    part = _part(lambda done, total: reported.append((done, total)), 1, 3)
    part(2, 10)
    part(10, 10)
    assert reported == [(12, 30), (20, 30)]
    assert _part(None, 1, 3) is None


def half_of(atoms):
    """The part of each atom: below one half, or not."""
    return (atoms.score >= 2**31).astype(np.int64)


def test_people_are_counted_with_and_without_the_outcome_in_each_part():
    atoms = rows_to_atoms(*rows_of((0.2, 10, 3), (0.4, 10, 0), (0.8, 5, 5)), None)
    found = Headcount.of(atoms, everybody, half_of, 2)
    assert found.people.tolist() == [[[3, 5]], [[17, 0]]]
    assert found.different.tolist() == found.people.tolist()
    assert found.score[0] == pytest.approx([0.3, 0.8])
    top = found.from_top()
    assert top.people.tolist() == [[[8, 5]], [[17, 0]]]
    assert top.score[0] == pytest.approx([(6 + 4) / 25, 0.8])
    assert top.key[0, 1] == found.key[0, 1] != top.key[0, 0]


def test_patients_are_counted_once_in_each_part_that_they_visit():
    """Ten patients have two visits below one half, without the outcome; three have the
    outcome at a third one, above.
    """
    person = np.r_[np.repeat(np.arange(10), 2), np.arange(3)]
    score = np.r_[np.full(20, 0.2), np.full(3, 0.8)]
    outcome = np.r_[np.zeros(20, int), np.ones(3, int)]
    atoms = rows_to_atoms(score, outcome, None, cluster=person)
    cluster = Sample.of(atoms).cluster
    found = Headcount.of(atoms, everybody, half_of, 2)
    assert found.people.tolist() == [[[0, 3]], [[20, 0]]]
    below = len(np.unique(cluster[atoms.score < 2**31]))
    above = len(np.unique(cluster[atoms.score >= 2**31]))
    assert found.different.tolist() == [[[0, above]], [[below, 0]]]
    # together at least as many as in any of the parts
    assert found.from_top().different.tolist() == [[[above, above]], [[below, 0]]]


def test_weights_make_people_worth_fewer_different_ones():
    """Four people of weights 1.5 and 4.5: 12² / 45 are 3.2."""
    weight = np.array([1.5, 4.5, 1.5, 4.5])
    atoms = rows_to_atoms(np.full(4, 0.2), np.zeros(4, int), None, weight)
    found = Headcount.of(atoms, everybody)
    assert found.people[:, 0, 0].tolist() == [0, 4]
    assert found.different[:, 0, 0] == pytest.approx([0, 3.2])


def test_scores_that_many_people_have_are_listed():
    """As many scores as half of the people are few enough, and more are not."""
    atoms = rows_to_atoms(*rows_of((0.2, 3, 1), (0.4, 1, 1)), None)
    (values,) = score_values(atoms, np.ones((1, 1), bool))
    assert values.score == pytest.approx([0.2, 0.4])
    assert values.people.tolist() == [3, 1]
    assert values.events.tolist() == [1, 1]
    assert values.between(0.1, values.score[1]).people.tolist() == [3]
    assert values.between(values.score[0], 0.5).people.tolist() == [3, 1]
    single = rows_to_atoms(*rows_of((0.2, 1, 0), (0.3, 1, 0), (0.4, 1, 1)), None)
    assert score_values(single, np.ones((1, 1), bool)) is None

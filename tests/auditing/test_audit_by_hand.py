"""Counts, tests and claims of small groups of people, worked out by hand."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom
from small_samples import rows_of, sample_of

from propcal import audit
from propcal.auditing.audit_claims import CERTAIN, _shape_claims
from propcal.auditing.audit_tables import _group_row
from propcal.auditing.claims import Region
from propcal.auditing.decision import gap_test, group_tests
from propcal.auditing.findings import AuditedPeople, AuditSettings
from propcal.auditing.headcount import Counts, Headcount
from propcal.auditing.named_errors import LEVEL_ONLY, NamedErrors, _GroupErrors, _Model
from propcal.auditing.names import TOO_LOW
from propcal.auditing.profile import MEASURES, JudgedGroups, Profile, audited_groups
from propcal.auditing.score_changes import ScorePair
from propcal.auditing.statistics.chance import score_cells
from propcal.auditing.statistics.hypothesis_tests import SLOPE, CalibrationTest
from propcal.auditing.statistics.measures import UNKNOWN, auroc
from propcal.auditing.statistics.sample import Sample
from propcal.core.bins import uniform
from propcal.core.groups import EVERYBODY, Group, Groups, GroupSize, membership
from propcal.metrics import CategoryRule
from propcal.reading.rows import rows_to_atoms

WARD_A = Group((("ward", "a"),))
WARD_B = Group((("ward", "b"),))


def wards(a, b):
    """People of one score in ward a and in ward b, each by (score, people, events)."""
    names = np.repeat(["a", "b"], [a[1], b[1]])
    return rows_to_atoms(*rows_of(a, b), {"ward": names})


@pytest.mark.parametrize(
    ("weight", "rate", "mean_score"),
    [(0.01, 0.4, 0.5), (1.0, 0.4, 0.5), (0.0, np.nan, np.nan)],
)
def test_a_group_has_a_rate_if_it_has_any_weight(weight, rate, mean_score):
    """20 of 50 people have the outcome; of a weight of 0.01 each, they weigh 0.5."""
    size = GroupSize(EVERYBODY, 50, 1.0)
    sample = sample_of((0.5, 50, 20), weight=weight)
    unknown = dict.fromkeys(MEASURES, UNKNOWN)
    profile = Profile(size, sample, "", unknown, {}, {}, {})
    decisions = SimpleNamespace(claims=(), certain={}, left={})
    row = _group_row(profile, decisions, {})
    found = row["outcome_rate"], row["mean_score"]
    assert found == pytest.approx((rate, mean_score), nan_ok=True)


def test_only_the_same_people_have_the_same_key():
    atoms = wards((0.2, 10, 3), (0.2, 8, 1))

    def members(patterns):
        return membership([EVERYBODY, WARD_A, WARD_B, WARD_A], patterns)

    everybody, a, b, again = Headcount.of(atoms, members).key.ravel()
    assert a == again
    assert len({everybody.item(), a.item(), b.item()}) == 3
    assert everybody == a + b


@pytest.mark.parametrize(
    ("people", "why"), [(49, "fewer than 50 people"), (50, ""), (99, "")]
)
def test_a_group_of_fifty_is_tested_unless_told_otherwise(people, why):
    atoms = rows_to_atoms(*rows_of((0.5, people, people // 2)), None)
    assert JudgedGroups.of(atoms).too_few(Sample.of(atoms)) == why


def test_a_gap_is_in_standard_errors_of_coin_tosses():
    """24 of 100 people have the outcome, where 20 are expected: a variance of 100 * 0.2
    * 0.8, and that of half a person.
    """
    atoms = rows_to_atoms(*rows_of((0.2, 100, 24)), None)
    table = CategoryRule(gamma=0.1).table(atoms)
    n_bins = len(table.bins)
    cells = score_cells(atoms, table.bins)
    found = gap_test(cells, table, atoms.patterns, np.ones(n_bins))
    assert found.statistic == pytest.approx(4 / np.sqrt(16 + 0.25))


@pytest.mark.parametrize(("n_levels", "exact"), [(199, True), (200, False)])
def test_up_to_200_groups_have_an_exact_p_value(n_levels, exact):
    """One of the four people of each ward has the outcome, as expected; everybody is
    one more group.
    """
    levels = np.repeat([f"w{i}" for i in range(n_levels)], 4)
    outcome = np.arange(4 * n_levels) % 4 == 0
    score = np.full(4 * n_levels, 0.25)
    atoms = rows_to_atoms(score, outcome.astype(int), {"ward": levels})
    cells = score_cells(atoms, uniform(1))
    judged = JudgedGroups(people=1, events=0, rate=0.25)
    sizes = audited_groups(atoms, Groups())
    found = group_tests(atoms, atoms, Sample.of(atoms), cells, sizes, judged)
    assert len(found) == n_levels + 1
    tail = binom.sf(1, 4, 0.25) + binom.pmf(1, 4, 0.25) / 2
    p_of_wards = [p for size, (_, p) in found if size.group != EVERYBODY]
    expected = 2 * tail if exact else 1.0
    assert p_of_wards == pytest.approx([expected] * n_levels)


def test_people_with_a_missing_value_are_counted_for_each_attribute():
    """The ward of three people is missing, and the sex of one."""
    ward = ["a"] * 7 + [None] * 3
    sex = [None] + ["F"] * 5 + ["M"] * 4
    frame = pd.DataFrame({"ward": ward, "sex": sex})
    atoms = rows_to_atoms(np.full(10, 0.5), np.arange(10) % 2, frame)
    counts = Counts.of(atoms, [EVERYBODY], uniform(1), ())
    people = AuditedPeople.of(atoms, counts, 0, None)
    assert people.missing == {"ward": 3, "sex": 1}


def test_a_wrong_curve_and_wrong_certain_scores_have_no_direction():
    regions = (Region(0.0, 0.0, TOO_LOW),)
    curve = NamedErrors(level=False, curve=True, named=(), left={})
    slope = CalibrationTest(SLOPE, 4.0, 1e-5, 1e-4, rejected=True)
    (claim,) = _shape_claims({SLOPE: slope}, curve, ())
    assert (claim.test, claim.p_value, claim.direction) == (SLOPE, 1e-4, "")
    nothing = NamedErrors(level=False, curve=False, named=(), left={})
    (claim,) = _shape_claims({}, nothing, regions)
    assert (claim.test, claim.p_value, claim.direction) == (CERTAIN, 0, "")
    assert claim.where == regions
    assert _shape_claims({}, nothing, ()) == []


def test_edges_of_risk_ranges_have_nine_digits():
    score, outcome = rows_of((0.2, 30, 6), (0.5, 30, 15), (0.8, 30, 24))
    found = audit(outcome, score, n_bins=3, binning="uniform", n_draws=100)
    assert found.settings["edges"] == [0.0, 0.333333333, 0.666666667, 1.0]


@pytest.mark.parametrize(
    ("before", "after", "brier_change"), [(0.3, 0.5, "lower"), (0.5, 0.3, "higher")]
)
def test_a_brier_score_becomes_lower_or_higher(before, after, brier_change):
    """100 of 200 have the outcome: a Brier score of 0.29 at 0.3, and 0.25 at 0.5."""
    joint = rows_to_atoms(*rows_of((0.5, 200, 100)), None)
    profile = SimpleNamespace(size=GroupSize(EVERYBODY, 200, 1.0), measured=True)
    found = SimpleNamespace(
        untested="",
        rule=AuditSettings(),
        table=SimpleNamespace(bins=uniform(1)),
        profiles=[profile],
    )
    scores = np.array([before]), np.array([after])
    pair = ScorePair("new", joint, scores, (found, found))
    (row,) = pair.changes().to_dict("records")
    assert row["group"] == "everybody"
    assert row["change"] == ("nearer" if after > before else "further off")
    assert row["brier_change"] == brier_change


def test_two_events_are_enough_for_the_interval_of_an_auroc():
    """Of the events one is above 0.25 of the others, and one above 0.75; four of the
    eight others are below 0.75 of the events, and four below 0.25.
    """
    sample = sample_of((0.2, 5, 1), (0.6, 5, 1))
    variance = 2 * 0.25**2 / (2 * 1) + 8 * 0.25**2 / (8 * 7)
    reach = sample.quantile * np.sqrt(variance) / 0.25
    low, high = 1 / (1 + np.exp([reach, -reach]))
    assert auroc(sample) == pytest.approx((0.5, low, high))


@pytest.mark.parametrize(
    ("n_others", "one_way", "p_value"), [(10, True, 1), (8, True, 0), (8, False, 1)]
)
def test_a_tenth_of_all_people_are_enough_others(n_others, one_way, p_value):
    """Others are as expected: half of them have the outcome."""
    atoms = wards((0.5, 90, 60), (0.5, n_others, n_others // 2))
    model = _Model(atoms, (WARD_A,))
    assert model.others_p([0], one_way=one_way) == pytest.approx(p_value)


def test_a_group_is_compared_with_what_the_error_of_the_others_would_give():
    """80 of 100 have the outcome in ward a, and 60 of 100 in ward b; 50 are expected.

    With the error of ward b, ward a would have 60; and 70 with the error of all.
    """
    atoms = wards((0.5, 100, 80), (0.5, 100, 60))
    model = _Model(atoms, (WARD_A, WARD_B))
    errors = _GroupErrors(model, LEVEL_ONLY, np.ones(2))
    fit = errors.fitted([0])
    assert fit is not None
    named = errors.named(0, [0], fit)
    assert (named.group, named.beyond, named.sign) == (WARD_A, True, 1)
    assert named.given == pytest.approx(60 / 50)
    tail = binom.sf(80, 100, 0.7) + binom.pmf(80, 100, 0.7) / 2
    # on both sides, and for both groups
    assert named.p_value == pytest.approx(4 * tail)

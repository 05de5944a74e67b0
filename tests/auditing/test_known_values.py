"""Values that a small change of a formula would change, each worked out in another
way.
"""

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import brentq
from scipy.special import expit, logit
from scipy.stats import chi2, norm

from propcal import Atoms, audit
from propcal.auditing.audit_claims import _where_scores_are, certain_regions
from propcal.auditing.audit_tables import detectable
from propcal.auditing.bin_free import _smooth_p, bin_free_measures
from propcal.auditing.claims import Region
from propcal.auditing.loss_intervals import DEBIASED_COLUMNS, _noisy
from propcal.auditing.named_errors import _Model, errors_to_name
from propcal.auditing.statistics.chance import design_effect, score_cells
from propcal.auditing.statistics.hypothesis_tests import events_p_value, slope_test
from propcal.auditing.statistics.measures import (
    ratio_intervals,
    reversed_area,
    reversed_ranking,
    surely_not_reversed,
)
from propcal.auditing.statistics.rate_intervals import (
    accepted_range,
    exact_interval,
    possible_truths,
)
from propcal.auditing.statistics.sample import Sample
from propcal.core.bins import uniform
from propcal.core.fit.evidence import repeat_effect
from propcal.core.fit.log_odds_cells import Basis, _triangles, count_cells
from propcal.core.groups import EVERYBODY, Group
from propcal.datasets import make_ed_visits
from propcal.protect.disclosure_rule import shown_p
from propcal.reading.rows import rows_to_atoms


def test_typical_gaps_are_roots_of_mean_squares():
    visits = make_ed_visits(2_000, seed=1)
    for score in (visits.true_risk, np.sqrt(visits.true_risk)):
        found = audit(
            visits.admitted, score, sensitive_features=visits[["gender"]], n_draws=100
        ).debiased
        squares, roots = np.split(found[list(DEBIASED_COLUMNS)].to_numpy(), 2, axis=1)
        np.testing.assert_allclose(roots, np.sqrt(np.maximum(squares, 0)), rtol=1e-15)


@pytest.mark.parametrize(
    ("p", "shown"),
    [
        (0.0005, "< 0.05"),
        (0.001, "< 0.05"),
        (0.03, "< 0.05"),
        (0.049999, "< 0.05"),
        (0.05, "> 0.05"),
        (0.9, "> 0.05"),
    ],
)
def test_p_values_of_few_people_are_limits(p, shown):
    assert repr(shown_p(p, large=False)) == shown


def rows(*cells):
    """Scores and outcomes of (score, people, events)."""
    score = np.concatenate([np.full(n, s) for s, n, _ in cells])
    return score, np.concatenate(
        [np.arange(n) < events for _, n, events in cells]
    ).astype(int)


def test_rows_that_come_in_equal_pairs_have_a_design_effect_of_two():
    """Sums of pairs are +-1: 10 of them vary by 10 / 9, and 20 single residuals of
    +-1/2 by 20 / 4.
    """
    frame = pd.DataFrame(
        {"id": np.repeat(np.arange(10), 2), "s": 0.5, "y": np.repeat([0, 1] * 5, 2)}
    )
    atoms = Atoms.from_frame(frame, score="s", outcome="y", groups=[], cluster="id")
    assert Sample.of(atoms).n_clusters == 10
    assert repeat_effect(atoms) == pytest.approx(10 * (10 / 9) / 5)


def test_an_alert_is_judged_by_the_variation_of_its_events():
    """80 events where 100 alerts were: people who are scored alike vary as 200 of the
    same risk would.
    """
    sample = Sample.of(rows_to_atoms(*rows((0.0, 100, 10), (1.0, 100, 70)), None))
    z = (80 - 100) / np.sqrt(200 * 0.4 * 0.6)
    assert events_p_value(sample) == pytest.approx((z, 2 * norm.cdf(z)))


def test_the_slope_test_is_the_score_test_of_a_logistic_regression():
    score, y = rows((0.1, 200, 30), (0.3, 100, 35), (0.6, 80, 40))
    x = logit(score)
    level = brentq(lambda shift: np.sum(y - expit(x + shift)), -5, 5)
    p = expit(x + level)
    spread = p * (1 - p)
    distance = x - spread @ x / spread.sum()
    z = distance @ (y - p) / np.sqrt(spread @ distance**2)
    found = slope_test(Sample.of(rows_to_atoms(score, y, None)))
    assert found == pytest.approx((z, 2 * norm.sf(abs(z))), rel=1e-6)
    assert z < 0


@pytest.mark.parametrize(
    ("n_tests", "errors"), [(0, 2.8016), (1, 2.8016), (10, 3.6487)]
)
def test_what_is_found_with_a_chance_of_80_percent(n_tests, errors):
    assert detectable(n_tests) == pytest.approx(errors, abs=1e-4)


def test_truths_are_tried_four_times_as_far_as_the_noise_goes():
    path = possible_truths(
        np.array([0.3, -0.4]), np.array([[0.03, 0.04], [0.04, -0.03]])
    )
    np.testing.assert_allclose(path, np.linspace(0.6, 1.4, 17))
    assert possible_truths(np.array([0.1]), np.array([[0.1], [-0.1]]))[
        [0, -1]
    ].tolist() == [0.0, 5.0]


def test_limits_are_where_a_fortieth_of_the_draws_is_as_large_or_as_small():
    path, values = np.array([0.0, 1.0, 2.0]), np.array([0.0, 0.1, 0.3])
    found = accepted_range(
        path, values, np.array([0.0, 0.05, 1.0]), np.array([1.0, 0.05, 0.0])
    )
    assert found == pytest.approx((0.05, 0.2))


def test_nobody_with_the_outcome_leaves_room_for_three_events():
    """And everybody with it, for three without: the mid-p limit of a count of 0."""
    three = -np.log(0.05)
    for events, ends in ((0, (0, three)), (100, (100 - three, 100))):
        sample = Sample.of(rows_to_atoms(*rows((0.5, 100, events)), None))
        assert ratio_intervals(sample, 0.95)[0] == pytest.approx(np.array(ends) / 50)


@pytest.mark.parametrize(
    ("score", "events", "wrong"),
    [(0.0, 6, False), (0.0, 7, True), (1.0, 194, False), (1.0, 193, True)],
)
def test_scores_of_0_and_1_are_wrong_if_their_rate_is_surely_off_by_a_hundredth(
    score, events, wrong
):
    """Clopper and Pearson's lower limit at 2.5 % is below 1 % for 6 of 200, and above
    it for 7.
    """
    assert (
        any(certain_regions(rows_to_atoms(*rows((score, 200, events)), None))) == wrong
    )


def test_columns_of_a_curve_are_uncorrelated_with_variance_1():
    rng = np.random.default_rng(0)
    score = rng.beta(2, 3, 2000)
    cells = count_cells(
        rows_to_atoms(score, rng.random(2000) < score, None), (EVERYBODY,), 16
    )
    columns = Basis(cells)(cells.log_odds)
    np.testing.assert_allclose(
        columns.T @ (cells.n[:, None] * columns) / 2000, np.eye(5), atol=1e-9
    )
    # triangles: 1 at their knot, 0 at its neighbours, constant beyond the ends
    found = _triangles(np.array([-1.0, 0.5, 2.0, 9.0]), np.array([0.0, 1.0, 3.0]))
    assert found.tolist() == [[1, 0, 0], [0.5, 0.5, 0], [0, 0.5, 0.5], [0, 0, 1]]


def test_what_a_named_error_leaves_is_counted_under_the_score_without_it():
    """The score is wrong for women alone; wards are off only because of them."""
    parts = [
        ("F", "a", 900, 360),
        ("F", "b", 100, 40),
        ("M", "a", 300, 62),
        ("M", "b", 900, 178),
    ]
    frames = [
        pd.DataFrame({"sex": sex, "ward": ward, "s": 0.2, "y": np.arange(n) < events})
        for sex, ward, n, events in parts
    ]
    people = pd.concat(frames, ignore_index=True)
    found = audit(
        people, score="s", outcome="y", groups=["sex", "ward"], n_draws=100
    ).groups
    ward = found.set_index("group").loc["ward=a"]
    assert ward["explained_by"] == "F"
    # expected: 900 * 0.4 + 300 * 0.2; the variance is that of the ward, less what
    # fitting the women explains
    reach = norm.ppf(0.975) * np.sqrt(216 + 48 - 216**2 / 240)
    assert ward["left_over"] == pytest.approx(422 / 420, rel=1e-6)
    assert ward["left_over_high"] == pytest.approx((422 + reach) / 420, rel=1e-6)


def test_a_region_in_which_nobody_scores_is_told_as_it_is():
    atoms = Atoms.from_frame(
        pd.DataFrame({"risk": [0.1, 0.6] * 100, "y": [0, 1] * 100}),
        score="risk",
        outcome="y",
    )
    between, around = Region(0.3, 0.5, "too low"), Region(0.3, 0.9, "too low")
    assert _where_scores_are(between, atoms) == [between]
    assert [round(one.low, 6) for one in _where_scores_are(around, atoms)] == [0.6]


@pytest.mark.parametrize(
    ("events", "others", "known", "reversed_"),
    [
        # a share of the people with the outcome, and of those without it, has the
        # higher of two scores: the AUROC is one half and half of the difference
        ((350, 1000), (650, 1000), 0.35, True),
        (
            (450, 1000),
            (550, 1000),
            0.45,
            False,
        ),  # below one half for sure, but not by much
        ((550, 1000), (450, 1000), 0.55, False),
        ((10, 50), (700, 1000), 0.25, True),
        (
            (10, 49),
            (700, 1000),
            0.5 * (1 + 10 / 49 - 0.7),
            False,
        ),  # 49 events may be chance
        ((700, 1000), (10, 50), 0.75, False),
    ],
)
def test_a_ranking_is_reversed_below_an_area_of_four_tenths(
    events, others, known, reversed_
):
    (high_one, one), (high_zero, zero) = events, others
    low = (0.2, one - high_one + zero - high_zero, one - high_one)
    atoms = rows_to_atoms(*rows(low, (0.7, high_one + high_zero, high_one)), None)
    found = reversed_ranking(Sample.of(atoms))
    assert (found is not None) == reversed_
    if reversed_:
        assert found.value == pytest.approx(known)
    # in ranges that are far apart, pairs with equal scores count as ranked wrongly
    right = high_one * (zero - high_zero)
    assert surely_not_reversed(atoms) == (right > 0.4 * one * zero)


def test_one_event_of_ten_has_the_exact_limits_of_a_binomial_count():
    """At the lower limit p, one event or more has a probability of 2.5 %: 1 - (1 -
    p)^10.
    """
    low, high = exact_interval(np.array([0.1, 0.9]), np.array([10.0, 10.0]), 0.05)
    assert low[0] == pytest.approx(1 - 0.975**0.1)
    assert high[1] == pytest.approx(0.975**0.1)


def test_knots_are_the_first_scores_that_have_enough_people_below_or_at_them():
    """Of 100 people with scores of their own, 5 % are the first five, and 27.5 % need
    the 28th.
    """
    place = np.arange(1, 101)
    score = expit((place - 50) / 10)  # far enough apart not to share a cell
    cells = count_cells(rows_to_atoms(score, place % 2 == 0, None), (EVERYBODY,), 16)
    assert (10 * Basis(cells).knots + 50).round().tolist() == [5, 28, 50, 73, 95]


def test_bumps_stand_at_the_ends_and_the_middles_of_equal_parts_of_the_people():
    """The middle of the first of eight parts is at 6.25 % of the people: of 100, the
    7th.
    """
    place = np.arange(1, 101)
    cells = count_cells(
        rows_to_atoms(expit((place - 50) / 10), place % 2 == 0, None), (EVERYBODY,), 16
    )
    found = 10 * Basis(cells, n_bumps=8).bumps + 50
    assert found.round().tolist() == [1, 7, 19, 32, 44, 57, 69, 82, 94, 100]


def test_cells_in_which_chance_is_drawn_are_parts_of_every_bin():
    atoms = rows_to_atoms(
        *rows((0.05, 9, 1), (0.09, 9, 1), (0.91, 9, 8), (0.99, 9, 9)), None
    )
    cells = score_cells(atoms, uniform(10))
    assert cells.bin_index.tolist() == [0, 0, 9, 9]
    assert cells.score == pytest.approx([0.05, 0.09, 0.91, 0.99])


def test_chance_drawn_at_a_score_is_as_wide_as_that_of_the_true_rate():
    """The standard deviation of an outcome is 0.5 at a score of 0.5, and 0.4 at a rate
    of 0.2.
    """
    truth, score, chance = (
        np.array([0.5, 0.2, 0.2]),
        np.full(3, 0.5),
        np.array([0.1, 0.1, -0.3]),
    )
    assert _noisy(truth, score, chance) == pytest.approx([0.6, 0.28, 0.0])


class Endless:
    """Errors of which there is always another one."""

    def clearest(self, named):
        return len(named)

    def whole_of(self, part, others):
        return None

    def remains(self, one, others):
        return True

    def size(self, one):
        return 1.0


def test_as_many_errors_are_named_as_asked_for():
    assert errors_to_name(Endless(), 3) == [0, 1, 2]


@pytest.mark.parametrize(
    ("high", "fewest", "wrong_way"),
    [(0.49, 50, True), (0.51, 50, False), (0.49, 49, False)],
)
def test_a_ranking_is_reversed_only_if_chance_is_excluded(high, fewest, wrong_way):
    everybody = {
        "positives": fewest,
        "outcome_rate": 0.5,
        "auroc": 0.35,
        "auroc_low": 0.2,
        "auroc_high": high,
    }
    assert (reversed_area(everybody) is not None) == wrong_way


def test_smooth_errors_are_compared_in_units_of_what_chance_does_to_each_group():
    """One group's error varies ten times as much: 16.5 of 0 to 19 and 1.65 of 0 to 1.9
    are equally rare.
    """
    ranks = np.arange(20.0)
    drawn = np.stack([ranks, ranks[::-1] / 10], axis=1)
    (p, adjusted), (small_p, small_adjusted) = _smooth_p(drawn, np.array([16.5, 1.65]))
    assert p == pytest.approx(small_p) == pytest.approx((3 + 1) / (20 + 1))
    assert (
        adjusted == pytest.approx(small_adjusted) == pytest.approx((6 + 1) / (20 + 1))
    )


def test_a_group_that_cannot_be_wrong_has_no_error_in_standard_errors():
    """Scores of 0 and nobody with the outcome."""
    group = np.repeat(["never", "some"], [400, 600])
    score = np.where(group == "never", 0.0, 0.5)
    y = np.where(group == "never", 0, np.arange(1000) % 2)
    table = bin_free_measures(
        y, score, sensitive_features={"group": group}, n_draws=100
    )
    row = table[(table.group == "group=never") & (table.measure == "ecce")].iloc[0]
    assert (row.value, row.sigma, row.p_value) == (0, 0, 1)


def test_the_others_are_right_by_a_score_test():
    """At one score, its statistic is the squared difference of events over the variance
    of tosses.
    """
    score, y = rows((0.2, 300, 75), (0.6, 200, 130))
    atoms = rows_to_atoms(score, y, {"ward": np.where(score > 0.5, "high", "low")})
    model = _Model(atoms, (Group((("ward", "high"),)),))
    expected = chi2.sf((75 - 60) ** 2 / (300 * 0.2 * 0.8), 1)
    assert model.others_p([0], one_way=False) == pytest.approx(expected, rel=1e-6)


def test_cells_of_rows_in_equal_pairs_have_a_design_effect_of_two():
    """Half of 150 pairs have the outcome; a few pairs share a cluster, which changes
    nothing in the mean.
    """
    y, person = np.repeat(np.arange(150) % 2, 2), np.repeat(np.arange(150), 2)
    atoms = rows_to_atoms(np.full(300, 0.5), y, cluster=person)
    assert design_effect(atoms, uniform(1)) == pytest.approx([2], rel=0.35)

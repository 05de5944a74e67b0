"""What changes between two scores of the same people, worked out by hand."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import norm, t
from small_samples import rows_of, sample_of

from propcal.auditing.flag_changes import FlagChanges, flag_table
from propcal.auditing.loss_intervals import losses
from propcal.auditing.score_changes import (
    GroupChange,
    ScorePair,
    _chance_square,
    _change,
    _loss_change,
    brier_test,
    person_differences,
)
from propcal.auditing.statistics.chance import Chance
from propcal.core.bins import uniform
from propcal.core.categories import categories
from propcal.core.criterion import multicalibration, proportional
from propcal.core.grid import from_grid
from propcal.core.groups import EVERYBODY, Groups
from propcal.reading.rows import rows_to_atoms

NORMAL = norm.ppf(0.975)


def findings_of(atoms, *, rates, n_bins=1, rho=0.1, min_share=0.0):
    """What an audit found, as far as a comparison of all cells reads it."""
    groups = Groups().collect(atoms, gamma=0.0)
    table = categories(atoms, groups, uniform(n_bins), min_share=min_share)
    people = table.people.astype(float)
    rates = np.reshape(rates, (-1, *people.shape))
    noise = Chance(people, people, rates, people, np.ones(n_bins))
    return SimpleNamespace(table=table, noise=noise, rule=SimpleNamespace(rho=rho))


def mean_square(rate, table, rho):
    """The mean squared gap of the eligible cells, relative to what `rho` allows."""
    allowed = np.maximum(rate, rho) if rho else 1.0
    return np.mean((((rate - table.mean_score) / allowed) ** 2)[table.eligible])


@pytest.mark.parametrize("rho", [0, 0.4])
def test_an_outcome_pulls_at_the_mean_squared_gap_by_its_derivative(rho):
    """Cells with rates 0.3, 0.5, 1 / 7 and 1, of which the last is not eligible."""
    rows = rows_of((0.2, 10, 3), (0.6, 10, 5), (0.4, 14, 2), (0.9, 6, 6))
    wards = np.repeat(["a", "a", "b", "b"], [10, 10, 14, 6])
    atoms = rows_to_atoms(*rows, {"ward": wards})
    found = findings_of(atoms, rates=[], n_bins=2, min_share=0.2)
    criterion = proportional(rho) if rho else multicalibration()
    score = from_grid(atoms.score)
    pair = ScorePair("new", atoms, (score, score), (found, found))
    if_positive, if_negative = pair._pull(found.table, score, criterion)

    rate = found.table.outcome_rate
    people = np.array([10, 10, 14, 6])
    for cell in range(4):
        step = 1e-6 * (np.arange(4).reshape(2, 2) == cell)
        higher = mean_square(rate + step, found.table, rho)
        lower = mean_square(rate - step, found.table, rho)
        slope = (higher - lower) / 2e-6
        with_outcome = slope * (1 - rate.flat[cell]) / people[cell]
        without = slope * -rate.flat[cell] / people[cell]
        assert if_positive[cell] == pytest.approx(with_outcome, rel=1e-6, abs=1e-12)
        assert if_negative[cell] == pytest.approx(without, rel=1e-6, abs=1e-12)
    assert if_positive[3] == 0
    assert np.count_nonzero(if_positive) == 3


def pair_of(before, after, rates_before, rates_after):
    """Two scores of 20 people in one cell, ten of whom have the outcome."""
    outcome = np.arange(20) % 2
    joint = rows_to_atoms(np.full(20, 0.5), outcome, None)
    found = []
    for score, rates in ((before, rates_before), (after, rates_after)):
        atoms = rows_to_atoms(np.full(20, score), outcome, None)
        found.append(findings_of(atoms, rates=rates))
    scores = np.array([before]), np.array([after])
    return ScorePair("new", joint, scores, tuple(found))


def test_a_change_of_mean_squares_has_the_error_of_outcomes_and_of_noise():
    """Gaps 0 and 0.1. Drawn gaps of 0 and 0.2 have squares with a variance of 0.02²,
    for either score.
    """
    pair = pair_of(0.5, 0.4, [0.5, 0.7], [0.4, 0.6])
    first, second, change, low, high = pair._mean_square_differences()["mc_mean_square"]
    # a person pulls by 2 * 0.1 / 20, times 1/2
    paired = 0.005 * np.sqrt(20)
    reach = NORMAL * np.sqrt(paired**2 + 2 * 0.02**2)
    assert change == pytest.approx(second - first)
    assert (low, high) == pytest.approx((change - reach, change + reach), rel=1e-6)


def test_the_mean_squares_of_the_same_score_do_not_differ():
    pair = pair_of(0.4, 0.4, [0.4, 0.6], [0.4, 0.6])
    for first, second, *difference in pair._mean_square_differences().values():
        assert first == second
        assert difference == [0, 0, 0]


def test_a_change_of_losses_reaches_from_limit_to_limit():
    pair = pair_of(0.5, 0.3, [0.5], [0.3])
    before, after = (
        losses(found.table, found.noise, 0.1, confidence=0.975).loc["mc"]
        for found in pair.found
    )
    first, second, change, low, high = pair._loss_differences()["mc"]
    assert (first, second, change) == pytest.approx((0.0, 0.2, 0.2))
    assert low == pytest.approx(after.low - before.high)
    assert high == pytest.approx(after.high - before.low)


def test_the_variance_of_what_a_perfect_score_shows():
    """Gaps of 0 and 0.2 at rates of 0.4 and 0.6: squares of 0 and 0.04, and relative
    ones of 0 and 1/9.
    """
    found = pair_of(0.5, 0.4, [0.5], [0.4, 0.6]).found[1]
    assert _chance_square(found, multicalibration()) == pytest.approx(0.02**2)
    assert _chance_square(found, proportional(0.1)) == pytest.approx((1 / 18) ** 2)
    unknown = pair_of(0.5, 0.4, [0.5], []).found[1]
    assert np.isnan(_chance_square(unknown, multicalibration()))


def test_the_change_of_a_brier_score_of_different_people():
    """5 of 20 have the outcome, scored 0.5 before and 0.3 after: 0.25 and 0.19.

    The change of a person with the outcome is 0.24, and of one without it -0.16; both
    are taken from the mean of -0.06.
    """
    before = sample_of((0.5, 20, 5))
    after = sample_of((0.3, 20, 5))
    error = np.sqrt(5 * 0.3**2 + 15 * 0.1**2) / 20
    expected = (-0.06, 2 * norm.sf(0.06 / error))
    assert brier_test(before, after) == pytest.approx(expected)


def test_the_change_of_a_brier_score_of_repeat_visits():
    """Ten patients with two visits, of whom five have the outcome at one: the sums of
    patients are 0.2 and -0.2, with 9 degrees of freedom.
    """
    cells = [(2, 1)] * 5 + [(2, 0)] * 5
    before, after = (
        sample_of(*[(score, *cell) for cell in cells], cluster=range(10))
        for score in (0.5, 0.3)
    )
    error = np.sqrt(10 * 0.2**2 * 10 / 9) / 20
    expected = (-0.06, 2 * t.sf(0.06 / error, 9))
    assert brier_test(before, after) == pytest.approx(expected)


def test_the_same_score_has_the_same_brier_score():
    sample = sample_of((0.5, 20, 5))
    assert brier_test(sample, sample) == (0.0, 1.0)


def test_measures_that_one_score_does_not_have_do_not_change():
    """Without any outcome there is no AUROC; the O/E ratio is 0 for both."""
    found = person_differences(sample_of((0.5, 20, 0)), sample_of((0.2, 20, 0)))
    assert np.isnan(found["auroc"]).all()
    assert found["observed_expected"] == (0, 0, 0, 0, 0)
    assert found["brier"] == pytest.approx((0.25, 0.04, -0.21, -0.21, -0.21))


def test_the_change_of_an_expected_number_has_the_error_of_the_same_people():
    """10 of 20 have the outcome; O/E ratios are 1 and 2, of 10 and 5 expected."""
    found = person_differences(sample_of((0.5, 20, 10)), sample_of((0.25, 20, 10)))
    # a person with the outcome adds 1/10 - 1/20 before, and 1/5 - 2/20 after
    error = np.sqrt(20) * 0.05
    expected = (1, 2, 1, 1 - NORMAL * error, 1 + NORMAL * error)
    assert found["observed_expected"] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("z", "p", "before", "after", "change"),
    [
        (2.0, 0.05, 100, 110, "nearer"),
        (2.0, 0.0501, 100, 110, "could be chance"),
        (-2.0, 0.01, 100, 110, "further off"),
        (2.0, 0.01, 110, 100, "further off"),
        (-2.0, 0.01, 110, 100, "nearer"),
        # a logarithm of 0.0296 does not matter, and one of 0.0305 does
        (2.0, 0.01, 100, 103.0, "hardly changed"),
        (2.0, 0.01, 100, 103.1, "nearer"),
        (2.0, 0.01, 103.0, 100, "hardly changed"),
        (2.0, 0.01, 103.1, 100, "further off"),
        # expected events below 1 count as 1
        (2.0, 0.01, 0.0, 1.0, "hardly changed"),
    ],
)
def test_what_a_test_of_the_midpoint_shows(z, p, before, after, change):
    assert _change(z, p, before, after) == change


@pytest.mark.parametrize(
    ("change", "p", "shown"),
    [
        (-0.1, 0.05, "lower"),
        (0.1, 0.05, "higher"),
        (-0.1, 0.051, "could be chance"),
        (0.1, float("nan"), "could be chance"),
    ],
)
def test_what_a_test_of_a_loss_shows(change, p, shown):
    assert _loss_change(change, p) == shown


def test_a_person_is_flagged_at_the_threshold():
    """Of six people, two are newly flagged at 0.5, and one is no longer."""
    joint = rows_to_atoms(np.arange(6) / 8, [0, 1, 0, 1, 0, 1], None)
    before = np.array([0.4, 0.2, 0.5, 0.5, 0.1, 0.9])
    after = np.array([0.5, 0.6, 0.5, 0.4, 0.2, 0.7])
    pair = ScorePair("new", joint, (before, after), (None, None))
    changes = FlagChanges.of(pair, 0.5, [EVERYBODY])
    assert changes.exact() == ([2], [1])
    table = flag_table([changes], [changes.exact()])
    assert table.to_numpy().tolist() == [["new", 0.5, "everybody", 2, 1]]


def change_of(**numbers):
    """A group whose predicted rate goes from 20 % to 30 %."""
    known = {"before": 0.2, "after": 0.3, "ratio_before": 1.5, "ratio_after": 1.0}
    return GroupChange(
        score="new",
        base="old",
        who="sex=F",
        label="women",
        direction="nearer",
        observed=0.3,
        test="",
        p_value=0.01,
        people=100,
        events=30,
        **(known | numbers),
    )


def test_the_size_of_a_change_is_that_of_the_predicted_rate():
    assert change_of().size == pytest.approx(0.1)
    assert change_of(after=float("nan")).size == 0
    assert change_of().words == "women (O/E 1.50 before, 1.00 after)"
    assert change_of(ratio_after=float("nan")).words == "women"
    assert change_of(ratio_before=float("nan")).words == "women"

"""Evidence that may be checked at any time, verified by hand and by trying everything."""

from itertools import combinations, product
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.special import expit, logit

from propcal import Atoms
from propcal.core.bins import uniform
from propcal.core.groups import Group
from propcal.core.patterns import PERIOD
from propcal.core.reduction import stack
from propcal.monitoring import e_processes as ep
from propcal.monitoring.alarms import (
    Onset,
    _right_before,
    onset_of,
    ratio_of,
    ratio_since,
)
from propcal.monitoring.watched_groups import PeriodCounts

EVERYBODY = Group(())


def months(frames, groups=(EVERYBODY,), columns=()):
    parts = {
        f"2025-{i + 1:02d}": Atoms.from_frame(
            f, score="s", outcome="y", groups=list(columns)
        )
        for i, f in enumerate(frames)
    }
    return PeriodCounts.of(stack(parts, PERIOD), list(groups), uniform(10))


def people(scores, outcomes):
    import pandas as pd

    return pd.DataFrame({"s": scores, "y": outcomes})


def test_gains_are_the_log_likelihood_ratio_of_shifted_scores():
    rng = np.random.default_rng(1)
    frames = [
        people(
            s := np.repeat(rng.choice([0.05, 0.33, 0.61], 40), 1), rng.random(40) < s
        )
        for _ in "ab"
    ]
    sums = months(frames)
    for shift in (-0.5, 0.2):
        found = ep.shift_gains(sums, np.array([shift]))[:, 0, :, 0].sum(axis=1)
        for gain, frame in zip(found, frames):
            tilted = expit(logit(frame.s) + shift)
            ratio = np.where(
                frame.y, np.log(tilted / frame.s), np.log((1 - tilted) / (1 - frame.s))
            )
            assert gain == pytest.approx(ratio.sum(), abs=1e-7)


def test_evidence_is_1_on_average_whatever_the_time():
    """All outcomes of six people over three periods, each with its probability under a
    perfect score.
    """
    scores = [[0.2, 0.7], [0.4, 0.4], [0.05, 0.9]]
    total = {name: np.zeros(3) for name in ("level", "slope", "cells")}
    for outcomes in product([0, 1], repeat=6):
        pairs = list(zip(np.ravel(scores), outcomes))
        chance = np.prod([s if y else 1 - s for s, y in pairs])
        sums = months(
            [people(s, list(outcomes[2 * t : 2 * t + 2])) for t, s in enumerate(scores)]
        )
        gain = ep.shift_gains(sums, ep.BETS)
        total["level"] += chance * np.exp(ep.mixture(gain.sum(axis=2)))[:, 0]
        total["cells"] += chance * np.exp(ep.mixture(gain))[:, 0].mean(axis=1)
        total["slope"] += (
            chance * np.exp(ep.mixture(ep.slope_gains(sums, ep.TILTS)))[:, 0]
        )
    for name, mean in total.items():
        assert mean == pytest.approx(np.ones(3), abs=1e-7), name


def test_evidence_of_people_taken_together_is_no_larger_than_of_each():
    """Scores of one range are taken at their mean: that may only lower the evidence."""
    rng = np.random.default_rng(2)
    scores = rng.uniform(0.3, 0.325, 200)
    outcomes = (rng.random(200) < scores + 0.1).astype(int)
    sums = months([people(scores, outcomes)])
    for shift in (-0.4, 0.3, 0.8):
        (gain,) = (
            ep.shift_gains(sums, np.array([shift]))[:, 0].sum(axis=1)[:, 0:1].ravel()
        )
        exact = (shift * outcomes - np.log1p(scores * np.expm1(shift))).sum()
        assert exact - 0.02 < gain <= exact + 1e-12


def test_evidence_against_a_reference_is_at_most_1_on_average():
    """For any shift that the score may have had at the reference, and still has."""
    reference = np.array([True, False, False])
    scores = [[0.3, 0.6], [0.4], [0.7]]
    for shift in (-1.0, 0.5):
        mean = np.zeros(3)
        for outcomes in product([0, 1], repeat=4):
            pairs = [
                (expit(logit(s) + shift), y)
                for s, y in zip(np.concatenate(scores), outcomes)
            ]
            chance = np.prod([p if y else 1 - p for p, y in pairs])
            frames = [
                people(s, list(y)) for s, y in zip(scores, np.split(outcomes, [2, 3]))
            ]
            level, _ = ep.changed_evidence(months(frames), reference)
            mean += chance * np.exp(level[:, 0])
        assert mean[0] == pytest.approx(1)
        assert np.all(mean <= 1 + 1e-9)


def test_a_change_from_the_reference_is_noticed_and_a_lasting_error_is_not():
    rng = np.random.default_rng(3)

    def month(factor):
        s = rng.beta(2, 4, 3000)
        return people(s, (rng.random(3000) < np.minimum(s * factor, 1)).astype(int))

    reference = np.array([True] * 2 + [False] * 8)
    lasting = months([month(1.2) for _ in range(10)])
    changed = months([month(1.2 if t < 5 else 0.95) for t in range(10)])
    assert ep.changed_evidence(lasting, reference)[0].max() < np.log(20)
    assert ep.changed_evidence(changed, reference)[0][-1, 0] > np.log(1000)
    assert ep.mixture(ep.shift_gains(lasting, ep.BETS).sum(axis=2))[-1, 0] > np.log(1e6)


def test_adjusting_is_closed_testing_over_every_set_of_tests():
    rng = np.random.default_rng(4)
    for _ in range(20):
        log_e, stakes = rng.normal(0, 3, 6), rng.dirichlet(np.ones(6))
        found = ep.adjusted_evidence(log_e[None, :], stakes)[0]
        for k in range(6):
            least = np.inf
            others = [i for i in range(6) if i != k]
            for size in range(6):
                for chosen in combinations(others, size):
                    rows = [k, *chosen]
                    least = min(
                        least, np.average(np.exp(log_e[rows]), weights=stakes[rows])
                    )
            assert np.exp(found[k]) == pytest.approx(least)


def test_large_evidence_does_not_overflow():
    gain = np.full((5, 1, 4), 4000.0)
    found = ep.mixture(gain)
    assert np.isfinite(found).all()
    assert np.isfinite(
        ep.adjusted_evidence(np.hstack([found, -found]), np.array([0.5, 0.5]))
    ).all()


def test_the_onset_is_where_the_gains_begin():
    gain = np.full((20, 3), -0.5)
    gain[12:, 1] = 4.0
    shown, hidden = (onset_of(gain, always, 20) for always in (4.0, 31.0))
    assert (shown.place, shown.shown, hidden.place, hidden.shown) == (
        12,
        True,
        12,
        False,
    )
    assert 0 < shown.low <= 12 <= shown.high
    assert hidden.low == 0


def test_an_error_of_one_size_from_the_start_has_no_onset_but_in_1_of_20():
    """All outcomes of four periods with the same error: the mean of the ratio is at
    most 1, so that it rarely reaches 20."""
    scores, shift = [0.3, 0.5], 0.7
    mean = 0.0
    for outcomes in product([0, 1], repeat=8):
        pairs = zip(expit(logit(np.tile(scores, 4)) + shift), outcomes)
        chance = np.prod([p if y else 1 - p for p, y in pairs])
        sums = months(
            [people(scores, list(outcomes[2 * t : 2 * t + 2])) for t in range(4)]
        )
        gain = ep.shift_gains(sums, ep.BETS).sum(axis=2)[:, 0]
        always = ep.best_always(sums, "level", np.zeros(1))
        later = np.exp(np.cumsum(gain[::-1], axis=0)[::-1]).mean(
            axis=1
        ) * ep.onset_stakes(4)
        ratio = later[1:].sum() / np.exp(always)
        mean += chance * ratio
        grid = ep.shift_gains(sums, np.linspace(-2, 2, 81)).sum(axis=(0, 2))[0]
        assert grid.max() - 1e-4 <= always <= grid.max() + 0.01
        for line in (0.9 * ratio, 1.1 * ratio):
            assert onset_of(gain, always, line).shown == (line < ratio)
    assert mean <= 1


def test_limits_of_the_true_events_hold_at_every_look():
    """Risks that change over time; the limits may miss their sum, at any time, in 1 of
    20 cases.
    """
    rng = np.random.default_rng(6)
    risk = np.where(np.arange(400) < 200, 0.1, 0.6)
    sums, missed = np.cumsum(risk), 0
    for _ in range(200):
        seen = np.cumsum(rng.random(400) < risk)
        limits = np.array([ep.true_events(float(n), 20.0) for n in seen[9::10]])
        missed += bool(
            ((sums[9::10] < limits[:, 0]) | (sums[9::10] > limits[:, 1])).any()
        )
    assert missed <= 10


def test_ratios_are_those_of_an_audit():
    import propcal

    rng = np.random.default_rng(5)
    frame = people(s := rng.beta(2, 5, 800), (rng.random(800) < s).astype(int))
    row = propcal.audit(frame.y, frame.s).groups.iloc[0]
    sums = months([frame, frame])
    found = ratio_of(
        *(part[0, 0] for part in (sums.people, sums.positives, sums.score))
    )
    names = ("observed_expected", "observed_expected_low", "observed_expected_high")
    # scores of a narrow range are taken at their mean
    assert list(found) == pytest.approx([row[name] for name in names], rel=0.0005)
    assert ratio_since(sums, 0, Onset(0, 0, 1))[0] == pytest.approx(
        row["observed_expected"]
    )


def test_nobody_had_the_outcome():
    sums = months([people([0.1] * 30, [0] * 30)])
    ratio, low, high = ratio_of(
        *(part[0, 0] for part in (sums.people, sums.positives, sums.score))
    )
    assert (ratio, low) == (0, 0)
    assert high == pytest.approx(-np.log(0.05) / 3)


@pytest.mark.parametrize(
    ("events", "right"), [(87, True), (86, False), (113, True), (114, False)]
)
def test_a_group_was_right_before_an_onset_if_its_events_vary_as_tosses_do(
    events, right
):
    """Predicted 20 %, shifted to 50 %: of 200 people before the onset 100 +- 1.96 *
    sqrt(50) have events.
    """
    people = np.full((4, 1, 2), 100.0)
    # the second and the third period count, and of these the first range
    positives = np.array(
        [[100, 100], [50, 90], [events - 50, 90], [100, 100]], dtype=float
    )[:, None, :]
    sums = PeriodCounts(
        ("a", "b", "c", "d"),
        (Group(()),),
        np.array([0, 1]),
        np.array([0.0, 0.5, 1.0]),
        people,
        positives,
        0.2 * people,
    )
    assert _right_before(sums, np.array([True, False]), 1, 3, np.log(4)) == right


def test_the_stake_is_shared_and_not_raised():
    assert ep.BET_STAKES.sum() == pytest.approx(1)
    assert (
        ep.BET_STAKES.tolist() == ep.BET_STAKES[::-1].tolist()
    )  # as much on either direction
    assert ep.TILTS.tolist() == (-ep.TILTS[::-1]).tolist()
    # the first million beginnings leave (24 + 1) / (a million + 25) of it
    assert 1 - ep.onset_stakes(10**6).sum() == pytest.approx(25 / 1_000_025)


def test_the_maximum_of_a_parabola_lies_between_the_points_of_a_grid():
    x = np.arange(-5.0, 6.0)
    tops = np.array([0.0, 100.0, -100.0])
    assert ep._highest(tops[:, None] - (x - 0.3) ** 2) == pytest.approx(tops)
    assert ep._highest(-np.abs(x)[None] - 3.0) == pytest.approx(
        [-3.0]
    )  # at a point of the grid
    near_ends = np.array([-3.7, -2.3, 2.3, 3.7])
    assert ep._highest(7.0 - (x - near_ends[:, None]) ** 2) == pytest.approx(
        np.full(4, 7.0)
    )


def test_periods_without_anybody_are_no_evidence_against_the_reference():
    """What is staked on errors that began, and what is left for later ones, add up to 1
    in each period.
    """
    grid = 2 * (ep._grid_steps(ep.LARGEST_SHIFT) + ep._grid_steps(ep.SHIFTS[-1])) + 1
    found = ep._against_reference(
        np.zeros((6, 2, grid)), np.array([True, True, False, False, False, False])
    )
    assert found == pytest.approx(np.zeros((6, 2)), abs=1e-12)


def test_a_group_with_nobody_at_the_reference_is_not_shifted():
    people = np.zeros((3, 2, 4))  # periods, groups, ranges
    people[:, 0] = 50.0
    mean = np.where(people > 0, 0.2, 0.0)
    sums = SimpleNamespace(people=people, positives=0.3 * people, mean=mean)
    shift = ep._reference_shift(sums, np.full(3, True))
    assert shift == pytest.approx([logit(0.3) - logit(0.2), 0], abs=1e-6)


def test_the_shift_at_the_reference_has_a_normal_prior():
    """The mean of a likelihood of standard deviation s under a prior of P is s over the
    root of s² + P², in relation to its largest value. Nobody came afterwards.
    """
    steps = ep._grid_steps(ep.LARGEST_SHIFT) + ep._grid_steps(ep.SHIFTS[-1])
    shifts = np.arange(-steps, steps + 1) * ep.GRID_STEP
    for spread in (0.1, 0.25, 0.5):
        at_reference = -0.5 * (shifts / spread) ** 2
        gain = np.stack([at_reference, 0 * shifts])[:, None, :]
        (_, found) = ep._against_reference(gain, np.array([True, False]))[:, 0]
        mean = spread / np.hypot(spread, ep.PRIOR_SPREAD)
        assert found == pytest.approx(np.log(mean), abs=0.001)

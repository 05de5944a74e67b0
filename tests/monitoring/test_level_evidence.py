"""Evidence that gives up what lies beyond the alarm line, over all outcomes that there
can be.
"""

from itertools import product

import numpy as np
import pytest
from scipy.stats import binom

from propcal.core.groups import Group
from propcal.monitoring import e_processes as ep
from propcal.monitoring.e_processes import level_evidence, poisson_binomial, spread_out
from propcal.monitoring.watched_groups import PeriodCounts

PEOPLE, SCORES, RANGES = 8, np.array([0.1, 0.3, 0.45]), np.array([0.1, 0.3, 0.45, 0.46])


@pytest.fixture(scope="module")
def lives():
    """All numbers of events that three periods of eight people can have, as groups; and
    their chances.
    """
    events = np.array(list(product(range(PEOPLE + 1), repeat=3)), dtype=float).T
    place = np.eye(3)[
        :, None, :
    ]  # the people of each period are all at the lower end of a range of its own
    positives = events[:, :, None] * place
    everybody = np.full(events.shape, float(PEOPLE))[:, :, None] * place
    sums = PeriodCounts(
        ("1", "2", "3"),
        (Group(()),) * events.shape[1],
        np.zeros(3, dtype=int),
        RANGES,
        everybody,
        positives,
        everybody * SCORES,
    )
    return sums, binom.pmf(events, PEOPLE, SCORES[:, None]).prod(axis=0)


@pytest.fixture
def bold(monkeypatch):
    """Nearly everything is bet at once and on large shifts, so that eight people are
    enough.
    """
    monkeypatch.setattr(ep, "onset_stakes", lambda n: np.array([0.7, 0.1, 0.1]))
    monkeypatch.setattr(ep, "LEAST_BOOSTED", -1.0)
    stakes = np.array([0.3, 0.1, 0.05, 0.05, 0.05, 0.05, 0.1, 0.3])
    monkeypatch.setattr(ep, "BET_STAKES", stakes)
    return stakes


def test_the_mean_is_1_and_the_cap_is_reached_more_often_but_no_more_than_promised(
    lives, bold
):
    sums, chance = lives
    gain = ep.shift_gains(sums, ep.BETS).sum(axis=2)
    cap = 2.0
    found = np.exp(level_evidence(sums, gain, np.full(len(chance), np.log(cap))))
    plain = np.exp(ep.mixture(gain, bold))
    assert plain @ chance == pytest.approx(np.ones(3), abs=1e-9)
    assert np.all(found @ chance <= 1 + 1e-9)
    assert found @ chance == pytest.approx(np.ones(3), abs=0.04)
    reached = float(chance @ (found.max(axis=0) >= cap - 1e-9))
    assert float(chance @ (plain.max(axis=0) >= cap)) < reached <= 1 / cap


def test_without_a_near_cap_it_is_the_mixture_of_bets(lives, bold):
    sums, chance = lives
    gain = ep.shift_gains(sums, ep.BETS).sum(axis=2)
    found = level_evidence(sums, gain, np.full(len(chance), np.log(1e12)))
    assert found == pytest.approx(ep.mixture(gain, bold), abs=1e-9)


def test_evidence_grows_on_after_the_cap():
    positives = np.full((8, 1, 1), 160.0)
    everybody = np.full((8, 1, 1), 400.0)
    periods = tuple("abcdefgh")
    ends = np.array([0.29, 0.31])
    sums = PeriodCounts(
        periods,
        (Group(()),),
        np.zeros(1, dtype=int),
        ends,
        everybody,
        positives,
        everybody * 0.3,
    )
    found = level_evidence(
        sums, ep.shift_gains(sums, ep.BETS).sum(axis=2), np.log([300.0])
    )[:, 0]
    assert np.any(found == np.log(300.0))
    assert found[-1] > np.log(1e6)


def test_the_number_of_events_of_many_people():
    events, mass = poisson_binomial(
        np.array([3000.0, 2000.0]), np.array([[0.2, 0.2], [0.9, 0.9]])
    )
    assert mass[0] == pytest.approx(binom.pmf(events[0], 5000, 0.2), abs=1e-14)
    assert mass[1] == pytest.approx(binom.pmf(events[1], 5000, 0.9), abs=1e-14)


def test_people_at_the_ends_of_their_range_have_its_mean_and_the_least_spread():
    rng = np.random.default_rng(9)
    scores = rng.uniform(0.3, 0.4, 60)
    counts, chance = spread_out(
        np.array([60.0]), np.array([scores.mean()]), np.array([0.3, 0.4])
    )
    assert counts.sum() == 60
    assert counts @ chance == pytest.approx(scores.sum())
    ends = poisson_binomial(counts, chance[None, :])
    inside = poisson_binomial(np.ones(60), scores[None, :])
    for k in range(10, 30):
        excess = [
            float((np.maximum(x[0] - k, 0) * p[0]).sum()) for x, p in (ends, inside)
        ]
        assert excess[0] <= excess[1] + 1e-12

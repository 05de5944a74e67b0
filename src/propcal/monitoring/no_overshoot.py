"""Evidence of levels that wastes nothing beyond the alarm line.

An alarm needs evidence of `cap`, and evidence beyond it is of no use. Whatever a bet may win beyond the cap
in the next period is therefore given up beforehand, and everything else is raised by the factor b >= 1 that
makes up for it: if f is the evidence after the period, min(b f, cap) has the same mean as f under a
calibrated score. The result is still a non-negative supermartingale that begins at 1, so Ville's inequality
holds, and it reaches the cap sooner ("boosting", Fischer and Ramdas).

That mean is known because the level bets depend on outcomes only through the number of events, which has a
Poisson-binomial distribution. Scores within a narrow range are not known one by one; they are taken as far
apart as the range allows with their mean. This makes what lies beyond the cap, a convex function of the
number of events, as small as it can be (the number of events is then smallest in the convex order), so b is
never too large. Once at the cap, evidence grows on in the ordinary way.
"""

from __future__ import annotations

import numpy as np

from propcal.core.grid import FloatArray
from propcal.monitoring.e_processes import BET_STAKES, BETS, onset_stakes
from propcal.monitoring.group_months import GroupMonths

AT_LEAST = 0.0  # log evidence from which on it pays to look at what lies beyond the cap
REACH = 9.0  # standard deviations on either side of the mean that the number of events may take
NEGLIGIBLE = 40.0  # the characteristic function is left out where it is below exp(-40)
HALVINGS = 40


def level_evidence(sums: GroupMonths, gains: FloatArray, caps: FloatArray) -> FloatArray:
    """Log evidence of (periods, groups) from gains of (periods, groups, bets) and log caps of groups."""
    stakes = onset_stakes(len(gains))
    kept = 1 - np.concatenate([[0.0], np.cumsum(stakes)])  # on beginnings still to come
    running = np.full(gains.shape[1:], -np.inf)
    waiting, before = np.zeros(gains.shape[1]), np.zeros(gains.shape[1])
    found = np.empty(gains.shape[:2])
    for t, gain in enumerate(gains):
        fresh = waiting + np.log(stakes[t] / kept[t])
        placed = np.logaddexp(running, fresh[:, None] + np.log(BET_STAKES))
        waiting = waiting + np.log(kept[t + 1] / kept[t])
        after = np.logaddexp(np.logaddexp.reduce(placed + gain, axis=1), waiting)
        raised = after.copy()
        for g in np.flatnonzero((before >= AT_LEAST) & (before < caps)).tolist():
            raised[g] += _factor(sums, t, g, placed[g], waiting[g], before[g], caps[g])
        now = np.where(before < caps, np.minimum(raised, caps), after)
        running, waiting = placed + gain + (now - after)[:, None], waiting + now - after
        found[t] = before = now
    return found


def _factor(
    sums: GroupMonths, period: int, group: int, placed: FloatArray, waiting: float, before: float, cap: float
) -> float:
    """Log of the factor that makes up for what is given up beyond the cap; at most what reaches the cap."""
    people, mean = sums.people[period, group], sums.mean[period, group]
    grown = (people * np.log1p(mean * np.expm1(BETS)[:, None])).sum(axis=1)
    counts, chance = spread_out(people, mean, sums.ends)
    if not len(counts):
        return 0.0
    odds = 1 + chance * np.expm1(BETS)[:, None]
    own = (counts * np.log(odds)).sum(axis=1)
    events, mass = poisson_binomial(counts, chance * np.exp(BETS)[:, None] / odds)
    parts = placed[:, None, None] + BETS[:, None, None] * events - grown[:, None, None]
    evidence = np.logaddexp(np.logaddexp.reduce(parts, axis=0), waiting)
    share = mass * np.exp(placed + own - grown - before)[:, None]  # of the evidence before, of each outcome
    low, high = 0.0, cap - before
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        beyond = float((share * -np.expm1(np.minimum(cap - middle - evidence, 0.0))).sum())
        if beyond < 1 and middle + np.log1p(-beyond) < 0:
            low = middle
        else:
            high = middle
    return low


def spread_out(people: FloatArray, mean: FloatArray, ends: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Counts and scores of people who are at the ends of their range, but for one, with the mean given.

    >>> spread_out(np.array([4.0, 0.0]), np.array([0.1125, 0.0]), np.array([0.1, 0.2, 0.3]))
    (array([3., 1.]), array([0.1 , 0.15]))
    """
    some = people > 0
    n, low, high = people[some], ends[:-1][some], ends[1:][some]
    above = np.clip(n * (mean[some] - low) / (high - low), 0, n)
    whole = np.minimum(np.floor(above), n - 1)
    middle = low + (above - whole) * (high - low)
    counts = np.concatenate([n - whole - 1, whole, np.ones(len(n))])
    return counts[counts > 0], np.concatenate([low, high, middle])[counts > 0]


def poisson_binomial(counts: FloatArray, chance: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Numbers of events and their probabilities; rows of `chance` are different chances of the same people.

    >>> events, mass = poisson_binomial(np.array([2.0, 1.0]), np.array([[0.5, 0.2]]))
    >>> {int(n): round(float(p), 12) for n, p in zip(events[0], mass[0]) if p > 1e-12}
    {0: 0.2, 1: 0.45, 2: 0.3, 3: 0.05}
    """
    mean, variance = chance @ counts, (chance * (1 - chance)) @ counts
    width = 2 * int(np.ceil(REACH * np.sqrt(variance.max()) + 12)) + 1  # odd
    angle = 2 * np.pi * np.arange(1, width // 2 + 1) / width
    angle = angle[variance.min() * (1 - np.cos(angle)) <= NEGLIGIBLE]
    events: FloatArray = np.floor(mean)[:, None] - width // 2 + np.arange(float(width))
    share = chance[:, :, None]
    size = 0.5 * np.log1p(-2 * share * (1 - share) * (1 - np.cos(angle)))
    turn = np.arctan2(share * np.sin(angle), 1 - share + share * np.cos(angle))
    wave = np.zeros((len(chance), width // 2 + 1), dtype=np.complex128)
    wave[:, 0] = 1.0
    turned = np.einsum("p,spa->sa", counts, turn) - events[:, :1] * angle
    wave[:, 1 : len(angle) + 1] = np.exp(np.einsum("p,spa->sa", counts, size) - 1j * turned)
    return events, np.maximum(np.fft.irfft(wave, width, axis=1), 0.0)

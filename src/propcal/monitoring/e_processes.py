"""Evidence that may be looked at as often as one likes: e-processes of level, slope and
cells.

If the score is calibrated, a person scored s has the outcome with probability s,
whatever happened before. A bet against that, by which log-odds are shifted by some d
from some period on, multiplies its stake by a likelihood ratio, which is 1 on average.
Nobody knows d nor when it begins, so the stake is divided over many shifts and over all
beginnings, present and future. The total is a non-negative martingale that begins at 1:
the chance that it ever reaches 20 is at most 1 in 20 (Ville's inequality), however
often one looks.

The state of the score at an earlier period can be the reference instead. The shift at
that time is unknown: the bet is then divided over its possible values, and is compared
with the best of them (universal inference), which is valid too, and somewhat slower.

An alarm needs evidence of `cap`, and evidence beyond it is of no use. Whatever a bet
may win beyond the cap in the next period is therefore given up beforehand, and
everything else is raised by the factor b >= 1 that makes up for it: if f is the
evidence after the period, min(b f, cap) has the same mean as f under a calibrated
score. The result is still a non-negative supermartingale that begins at 1, so Ville's
inequality holds, and it reaches the cap sooner ("boosting", Fischer and Ramdas).

That mean is known because the level bets depend on outcomes only through the number of
events, which has a Poisson-binomial distribution. Scores within a narrow range are not
known one by one; they are taken as far apart as the range allows with their mean. This
makes what lies beyond the cap, a convex function of the number of events, as small as
it can be (the number of events is then smallest in the convex order), so b is never too
large. Once at the cap, evidence grows on in the ordinary way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import brentq, minimize_scalar
from scipy.special import gammaln

from propcal.auditing.statistics.rate_intervals import bisected
from propcal.core.grid import BoolArray, FloatArray
from propcal.core.logistic import log_odds
from propcal.monitoring.watched_groups import CHANGE_TESTS, TESTS, PeriodCounts

# evidence at which an alarm is raised: in at most 1 of 20 monitors of calibrated scores
ALARM = 20.0
# shifts of the log-odds that are bet on, and the share of the stake on each, half of it
# in either direction; most is on errors of about a fifth: larger ones show soon anyway,
# and smaller ones after a long time only
SHIFTS = np.array([0.12, 0.24, 0.5, 0.8])
SHIFT_STAKES = np.array([0.15, 0.6, 0.15, 0.1])
BETS = np.concatenate([-SHIFTS[::-1], SHIFTS])
BET_STAKES = np.concatenate([SHIFT_STAKES[::-1], SHIFT_STAKES]) / 2
TILTS = np.array(
    [-0.6, -0.35, -0.2, -0.1, 0.1, 0.2, 0.35, 0.6]
)  # slopes differ from 1 by this
BEGIN = 24  # beginnings within about this many periods have most of the stake
NEAREST = (
    1e-6  # scores of 0 and 1 have no log-odds; they are taken as this far from the end
)
# grid of the unknown shift at the reference
STEP = 0.02
FURTHEST = 2.0
# of the factors by which true risks may differ from what was observed: a variance of 1
# in 50
SPREAD = 50.0
AT_LEAST = 0.0  # log evidence from which on it pays to look at what lies beyond the cap
# standard deviations on either side of the mean that the number of events may take
REACH = 9.0
NEGLIGIBLE = 40.0  # the characteristic function is left out where it is below exp(-40)
HALVINGS = 40


def onset_stakes(n: int) -> FloatArray:
    """The share of the stake on each of the first `n` beginnings: together less than 1,
    as others follow.

    >>> onset_stakes(3).round(4).tolist(), float(onset_stakes(10**6).sum().round(3))
    ([0.0385, 0.0356, 0.0331], 1.0)
    """
    t = np.arange(1, n + 1)
    return (BEGIN + 1) / ((t + BEGIN) * (t + BEGIN + 1))


def mixture(gain: FloatArray, share: FloatArray | None = None) -> FloatArray:
    """Log of an e-process over time (first axis) from log-likelihood ratios of shifts
    (last axis).

    `share` has the share of the stake on each shift; equal shares by default.
    """
    stakes = onset_stakes(len(gain))
    placed = np.log(
        np.full(gain.shape[-1], 1 / gain.shape[-1]) if share is None else share
    )
    waiting = 1 - np.cumsum(stakes)  # on beginnings still to come
    running = np.full(gain.shape[1:], -np.inf)
    found = np.empty(gain.shape[:-1])
    for t, step in enumerate(gain):
        running = np.logaddexp(running, np.log(stakes[t]) + placed) + step
        found[t] = np.logaddexp(
            np.logaddexp.reduce(running, axis=-1), np.log(waiting[t])
        )
    return found


def shift_gains(
    sums: PeriodCounts, shifts: FloatArray, own: FloatArray | None = None
) -> FloatArray:
    """Log-likelihood ratios of shifted log-odds, for (periods, groups, bins, shifts).

    `own` has a shift of each group that the scores already have.
    """
    mean = sums.mean
    if own is not None:
        factor = np.exp(own)[None, :, None]
        mean = mean * factor / (1 - mean + mean * factor)
    gains = []
    for shift in shifts:
        grown = sums.people * np.log1p(mean * np.expm1(shift))
        gains.append(sums.by_bin(shift * sums.positives - grown))
    return np.stack(gains, axis=-1)


def slope_gains(sums: PeriodCounts, tilts: FloatArray) -> FloatArray:
    """Log-likelihood ratios of scores too extreme, or not extreme enough: (periods,
    groups, tilts).
    """
    x = log_odds(np.clip(sums.mean, NEAREST, 1 - NEAREST))
    spread = sums.people * sums.mean * (1 - sums.mean)
    total = np.maximum(spread.sum(axis=2, keepdims=True), 1e-300)
    distance = x - (spread * x).sum(axis=2, keepdims=True) / total
    gains = []
    for tilt in tilts:
        grown = sums.people * np.log1p(sums.mean * np.expm1(tilt * distance))
        gains.append((tilt * distance * sums.positives - grown).sum(axis=2))
    return np.stack(gains, axis=-1)


def best_always(
    own: PeriodCounts, kind: str, shift: FloatArray, bin_index: int = 0
) -> float:
    """Log-likelihood ratio of the error of a single group that fits best if it was the
    same all the time.

    `shift` is what its scores already have; `bin_index` is the bin of "cells".
    """

    def worse(size: float) -> float:
        sizes = np.array([size])
        if kind == "slope":
            return -float(slope_gains(own, sizes).sum())
        gain = shift_gains(own, sizes, shift)
        return -float((gain[:, :, bin_index] if kind == "cells" else gain).sum())

    return max(
        0.0,
        -float(
            minimize_scalar(worse, bounds=(-FURTHEST, FURTHEST), method="bounded").fun
        ),
    )


def changed_evidence(
    sums: PeriodCounts, reference: BoolArray
) -> tuple[FloatArray, FloatArray]:
    """Log evidence that groups, and their bins, differ from the reference periods (True
    in `reference`).

    Shapes (periods, groups) and (periods, groups, bins). Periods up to the last
    reference have no evidence.
    """
    grid = np.arange(
        -_places(FURTHEST) - _places(SHIFTS[-1]),
        _places(FURTHEST) + _places(SHIFTS[-1]) + 1,
    )
    gain = shift_gains(sums, np.asarray(grid * STEP, dtype=np.float64))
    cells = [_against_reference(gain[:, :, b], reference) for b in range(sums.n_bins)]
    return _against_reference(gain.sum(axis=2), reference), np.stack(cells, axis=2)


def _places(shift: float) -> int:
    return round(shift / STEP)


def _against_reference(gain: FloatArray, reference: BoolArray) -> FloatArray:
    """Log evidence for (periods, groups) from log-likelihoods of (periods, groups, grid
    of shifts).
    """
    n = _places(FURTHEST)
    wide = _places(SHIFTS[-1])
    jumps = [_places(bet) for bet in BETS]
    own = slice(
        wide, wide + 2 * n + 1
    )  # the part of the grid that the shift at the reference may have
    before = gain[np.flatnonzero(reference)].sum(axis=0)
    after = [t for t in range(len(gain)) if t > np.flatnonzero(reference)[-1]]
    prior = -0.5 * (np.arange(-n, n + 1) * STEP / 0.5) ** 2
    prior -= np.logaddexp.reduce(prior)
    found = np.zeros(gain.shape[:2])
    stakes = onset_stakes(len(after))
    waiting = 1 - np.cumsum(stakes)
    same = prior + before[:, own]
    running = np.full((len(jumps), *same.shape), -np.inf)
    placed = np.log(BET_STAKES)[:, None, None]
    total = before.copy()
    for k, t in enumerate(after):
        running = np.logaddexp(running, same + np.log(stakes[k]) + placed)
        for j, jump in enumerate(jumps):
            running[j] += gain[t][:, wide + jump : wide + jump + 2 * n + 1]
        same = same + gain[t][:, own]
        total += gain[t]
        bets = np.logaddexp.reduce(
            running.swapaxes(0, 1).reshape(len(same), -1), axis=1
        )
        stay = np.logaddexp.reduce(same, axis=1) + np.log(waiting[k])
        found[t] = np.logaddexp(bets, stay) - _highest(total[:, own])
    return found


def _highest(values: FloatArray) -> FloatArray:
    """The maximum of smooth functions on a grid (last axis), between its points too."""
    place = np.clip(np.argmax(values, axis=-1), 1, values.shape[-1] - 2)
    left, middle, right = (
        np.take_along_axis(values, (place + i)[..., None], -1)[..., 0]
        for i in (-1, 0, 1)
    )
    bend = np.minimum(left - 2 * middle + right, -1e-12)
    peak = middle - (right - left) ** 2 / (8 * bend)
    best = np.maximum(values.max(axis=-1), middle)
    return np.asarray(
        np.where(np.abs(right - left) <= -2 * bend, np.maximum(peak, best), best)
    )


def true_events(observed: float, line: float) -> tuple[float, float]:
    """Limits of the sum of the true risks of people, from how many had the outcome, at
    every look.

    If a person's true risk is p, the mean of r to the power of the outcome is at most
    exp(p (r - 1)), for any r. So a mixture over r, by a gamma distribution, is a
    supermartingale whatever the risks are and however they change; sums of risks with
    which it would have reached `line` are excluded.

    >>> [round(end) for end in true_events(1000, 20)], true_events(0, 20)[0]
    ([906, 1100], 0.0)
    """
    n = SPREAD + observed
    fixed = SPREAD * np.log(SPREAD) + gammaln(n) - gammaln(SPREAD) - np.log(line)

    def beyond(total: float) -> float:
        return float(fixed + total - n * np.log(SPREAD + total))

    low = brentq(beyond, 0.0, observed) if beyond(0.0) > 0 else 0.0
    return low, brentq(beyond, observed, 2 * (n + 10 * np.log(line)))


def adjusted_evidence(evidence: FloatArray, stakes: FloatArray) -> FloatArray:
    """Log evidence of each test (last axis), adjusted for the number of tests.

    Closed testing with weighted means (Vovk and Wang): the chance that any test whose
    hypothesis is true ever reaches 20 is at most 1 in 20. A test is held against the
    least convincing set of tests that has it.

    >>> evidence = np.log([[80.0, 1.0], [80.0, 100.0]])
    >>> adjusted_evidence(evidence, np.array([0.5, 0.5])).round(2).tolist()
    [[3.7, 0.0], [4.38, 4.5]]
    """
    found = np.empty(evidence.shape)
    for t, row in enumerate(evidence):
        order = np.argsort(row, kind="stable")
        value = row[order]
        stake = stakes[order]
        parts = value + np.log(stake)
        lower = np.concatenate([[-np.inf], np.logaddexp.accumulate(parts)[:-1]])
        weight = np.concatenate([[0.0], np.cumsum(stake)[:-1]])
        table = np.logaddexp(lower[None, :], parts[:, None]) - np.log(
            weight[None, :] + stake[:, None]
        )
        table[np.triu_indices(len(row), 1)] = (
            np.inf
        )  # only tests with less evidence make it less convincing
        found[t, order] = table.min(axis=1)
    return found


def level_evidence(
    sums: PeriodCounts, gains: FloatArray, caps: FloatArray
) -> FloatArray:
    """Log evidence of (periods, groups) from gains of (periods, groups, bets) and log
    caps of groups.
    """
    stakes = onset_stakes(len(gains))
    kept = 1 - np.concatenate([[0.0], np.cumsum(stakes)])  # on beginnings still to come
    running = np.full(gains.shape[1:], -np.inf)
    waiting = np.zeros(gains.shape[1])
    before = np.zeros(gains.shape[1])
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
        running = placed + gain + (now - after)[:, None]
        waiting = waiting + now - after
        found[t] = before = now
    return found


def _factor(
    sums: PeriodCounts,
    period: int,
    group: int,
    placed: FloatArray,
    waiting: float,
    before: float,
    cap: float,
) -> float:
    """Log of the factor that makes up for what is given up beyond the cap; at most what
    reaches the cap.
    """
    people = sums.people[period, group]
    mean = sums.mean[period, group]
    grown = (people * np.log1p(mean * np.expm1(BETS)[:, None])).sum(axis=1)
    counts, chance = spread_out(people, mean, sums.ends)
    if not len(counts):
        return 0.0
    odds = 1 + chance * np.expm1(BETS)[:, None]
    own = (counts * np.log(odds)).sum(axis=1)
    events, mass = poisson_binomial(counts, chance * np.exp(BETS)[:, None] / odds)
    parts = placed[:, None, None] + BETS[:, None, None] * events - grown[:, None, None]
    evidence = np.logaddexp(np.logaddexp.reduce(parts, axis=0), waiting)
    share = (
        mass * np.exp(placed + own - grown - before)[:, None]
    )  # of the evidence before, of each outcome

    def too_small(factor: float) -> bool:
        beyond = float(
            (share * -np.expm1(np.minimum(cap - factor - evidence, 0.0))).sum()
        )
        return beyond < 1 and bool(factor + np.log1p(-beyond) < 0)

    return float(bisected(too_small, 0.0, cap - before, HALVINGS)[0])


def spread_out(
    people: FloatArray, mean: FloatArray, ends: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Counts and scores of people who are at the ends of their range, but for one, with
    the mean given.

    >>> spread_out(np.array([4.0, 0.0]), np.array([0.1125, 0.0]), np.array([0.1, 0.2, 0.3]))
    (array([3., 1.]), array([0.1 , 0.15]))
    """
    some = people > 0
    n = people[some]
    low = ends[:-1][some]
    high = ends[1:][some]
    above = np.clip(n * (mean[some] - low) / (high - low), 0, n)
    whole = np.minimum(np.floor(above), n - 1)
    middle = low + (above - whole) * (high - low)
    counts = np.concatenate([n - whole - 1, whole, np.ones(len(n))])
    return counts[counts > 0], np.concatenate([low, high, middle])[counts > 0]


def poisson_binomial(
    counts: FloatArray, chance: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Numbers of events and their probabilities; rows of `chance` are different chances
    of the same people.

    >>> events, mass = poisson_binomial(np.array([2.0, 1.0]), np.array([[0.5, 0.2]]))
    >>> {int(n): round(float(p), 12) for n, p in zip(events[0], mass[0]) if p > 1e-12}
    {0: 0.2, 1: 0.45, 2: 0.3, 3: 0.05}
    """
    mean = chance @ counts
    variance = (chance * (1 - chance)) @ counts
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
    wave[:, 1 : len(angle) + 1] = np.exp(
        np.einsum("p,spa->sa", counts, size) - 1j * turned
    )
    return events, np.maximum(np.fft.irfft(wave, width, axis=1), 0.0)


@dataclass(frozen=True, eq=False)
class CourseEvidence:
    """Log evidence after each period, adjusted, of shape (periods, tests, groups), and
    the bets behind it.

    `shift` is that of each group's log-odds at the reference; 0 if the reference is
    perfect calibration.
    """

    kinds: tuple[str, ...]
    adjusted: FloatArray
    gains: dict[str, FloatArray]
    cells: FloatArray
    shift: FloatArray


def evidence_over_time(
    sums: PeriodCounts, share: Any, reference: Sequence[str]
) -> CourseEvidence:
    """The evidence of all groups; `share` is that of each in the 5 %."""
    if reference:
        chosen = np.array([period in reference for period in sums.periods])
        level, cells = changed_evidence(sums, chosen)
        shares = CHANGE_TESTS
        evidence = {"level": level}
        shift = _reference_shift(sums, chosen, sums.positives[chosen].sum(axis=0))
        gain = shift_gains(sums, BETS, shift)
        gain[: np.flatnonzero(chosen)[-1] + 1] = 0.0
        gains = {"level": gain.sum(axis=2), "cells": gain}
    else:
        shift = np.zeros(len(sums.groups))
        gain = shift_gains(sums, BETS)
        slope = slope_gains(sums, TILTS)
        gains = {"level": gain.sum(axis=2), "slope": slope, "cells": gain}
        cells = mixture(gain, BET_STAKES)
        shares = TESTS
        caps = (
            np.log(ALARM / (shares["level"] * np.asarray(share))) + 1e-9
        )  # enough, whatever others have
        evidence = {
            "level": level_evidence(sums, gains["level"], caps),
            "slope": mixture(slope),
        }
    evidence["cells"] = np.logaddexp.reduce(cells, axis=2) - np.log(cells.shape[2])
    stakes = np.concatenate([shares[kind] * np.asarray(share) for kind in shares])
    table = np.concatenate([evidence[kind] for kind in shares], axis=1)
    # what is kept for groups that may still come counts as a test without evidence
    kept = np.zeros((len(table), 1))
    adjusted = adjusted_evidence(
        np.append(table, kept, axis=1), np.append(stakes, 1 - stakes.sum())
    )[:, :-1]
    return CourseEvidence(
        tuple(shares),
        adjusted.reshape(len(table), len(shares), -1),
        gains,
        cells,
        shift,
    )


def _reference_shift(
    sums: PeriodCounts, chosen: Any, positives: FloatArray
) -> FloatArray:
    """The shift of each group's log-odds at the reference, by bisection; 0 where nobody
    was.
    """
    people = sums.people[chosen]
    mean = sums.mean[chosen]
    total = positives.sum(axis=1)

    def too_small(shift: FloatArray) -> BoolArray:
        factor = np.exp(shift)[None, :, None]
        return np.asarray(
            (people * mean * factor / (1 - mean + mean * factor)).sum(axis=(0, 2))
            < total
        )

    low, high = bisected(
        too_small, np.full(len(total), -6.0), np.full(len(total), 6.0), 50
    )
    return np.where(people.sum(axis=(0, 2)) > 0, (low + high) / 2, 0.0)

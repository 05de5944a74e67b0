"""Evidence that may be checked at any time: e-processes of level, slope and cells.

If the score is calibrated, a person scored s has the outcome with probability s,
whatever happened before. A bet against that, by which log-odds are shifted by some d
from some period on, multiplies its stake by a likelihood ratio, which is 1 on average.
Nobody knows d nor when it begins, so the stake is divided over many shifts and over all
beginnings, present and future. The total is a non-negative martingale that begins at 1:
the chance that it ever reaches 20 is at most 1 in 20 (Ville's inequality), at whatever
times one looks.

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
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq, minimize_scalar
from scipy.special import gammaln

from propcal.auditing.statistics.rate_intervals import bisected
from propcal.core.grid import BoolArray, FloatArray
from propcal.core.logistic import log_odds
from propcal.monitoring.watched_groups import PeriodCounts

# evidence at which an alarm is raised: in at most 1 of 20 monitors of calibrated scores
ALARM = 20.0
# the share of the stake of each kind of test, and where an earlier period is the
# reference
TEST_SHARES = {"level": 0.8, "slope": 0.1, "cells": 0.1}
CHANGE_TEST_SHARES = {"level": 0.85, "cells": 0.15}
# shifts of the log-odds that are bet on, and the share of the stake on each, half of it
# in either direction; most is on errors of about a fifth: larger ones show soon anyway,
# and smaller ones after a long time only
SHIFTS = np.array([0.12, 0.24, 0.5, 0.8])
SHIFT_STAKES = np.array([0.15, 0.6, 0.15, 0.1])
BETS = np.concatenate([-SHIFTS[::-1], SHIFTS])
BET_STAKES = np.concatenate([SHIFT_STAKES[::-1], SHIFT_STAKES]) / 2
# slopes that are bet on differ from 1 by these
TILTS = np.array([-0.6, -0.35, -0.2, -0.1, 0.1, 0.2, 0.35, 0.6])
EARLY_PERIODS = 24  # beginnings within about so many periods have most of the stake
NEAREST = 1e-6  # scores of 0 and 1, which have no log-odds, count as so far from there
# grid of the unknown shift at the reference, in log-odds
GRID_STEP = 0.02
LARGEST_SHIFT = 2.0
PRIOR_SPREAD = 0.5  # of that shift
# shape and rate of the gamma distribution of the factors by which true risks may differ
# from what was observed: a variance of 1 in 50
GAMMA_SHAPE = 50.0
LEAST_BOOSTED = 0.0  # log evidence from which on boosting is worth its time
REACH_SD = 9.0  # how far from its mean the number of events may be
LEAST_REACH = 12  # events
NEGLIGIBLE_LOG = 40.0  # the characteristic function is left out below exp(-40)
HALVINGS = 40
REFERENCE_HALVINGS = 50
LARGEST_REFERENCE_SHIFT = 6.0  # in log-odds
CAP_SLACK = 1e-9


def onset_stakes(n: int) -> FloatArray:
    """The share of the stake on each of the first `n` beginnings: together less than 1,
    as others follow.

    >>> onset_stakes(3).round(4).tolist(), float(onset_stakes(10**6).sum().round(3))
    ([0.0385, 0.0356, 0.0331], 1.0)
    """
    t = np.arange(1, n + 1)
    periods_since_start = t + EARLY_PERIODS
    return (EARLY_PERIODS + 1) / (periods_since_start * (periods_since_start + 1))


def mixture(gain: FloatArray, share: FloatArray | None = None) -> FloatArray:
    """Log of an e-process over time (first axis) from log-likelihood ratios of shifts
    (last axis).

    `share` has the share of the stake on each shift; equal shares by default.
    """
    n_shifts = gain.shape[-1]
    if share is None:
        share = np.full(n_shifts, 1 / n_shifts)
    log_share = np.log(share)
    stakes = onset_stakes(len(gain))
    waiting = 1 - np.cumsum(stakes)  # on beginnings still to come

    running = np.full(gain.shape[1:], -np.inf)
    evidence = np.empty(gain.shape[:-1])
    for t, step in enumerate(gain):
        placed = np.log(stakes[t]) + log_share
        running = np.logaddexp(running, placed) + step
        won = np.logaddexp.reduce(running, axis=-1)
        not_begun = np.log(waiting[t])
        evidence[t] = np.logaddexp(won, not_begun)
    return evidence


def shift_gains(
    sums: PeriodCounts, shifts: FloatArray, own: FloatArray | None = None
) -> FloatArray:
    """Log-likelihood ratios of shifted log-odds, for (periods, groups, bins, shifts).

    `own` has a shift of each group that the scores already have.
    """
    mean = sums.mean
    if own is not None:
        mean = _shifted(mean, own)
    gains = []
    for shift in shifts:
        growth = np.expm1(shift)
        normalizer = sums.people * np.log1p(mean * growth)
        log_gain = shift * sums.positives - normalizer
        gains.append(sums.by_bin(log_gain))
    return np.stack(gains, axis=-1)


def _shifted(mean: FloatArray, shift: FloatArray) -> FloatArray:
    """Mean scores of (periods, groups, ranges) with the log-odds of groups shifted."""
    factor = np.exp(shift)[None, :, None]
    others = 1 - mean
    return np.asarray(mean * factor / (others + mean * factor))


def slope_gains(sums: PeriodCounts, tilts: FloatArray) -> FloatArray:
    """Log-likelihood ratios of scores too extreme, or not extreme enough: (periods,
    groups, tilts).
    """
    clipped_mean = np.clip(sums.mean, NEAREST, 1 - NEAREST)
    x = log_odds(clipped_mean)
    spread = sums.people * sums.mean * (1 - sums.mean)
    total_spread = np.maximum(spread.sum(axis=2, keepdims=True), 1e-300)
    weighted_x = (spread * x).sum(axis=2, keepdims=True)
    center = weighted_x / total_spread
    distance = x - center

    gains = []
    for tilt in tilts:
        shift = tilt * distance
        growth = np.expm1(shift)
        normalizer = sums.people * np.log1p(sums.mean * growth)
        log_gain = shift * sums.positives - normalizer
        gains.append(log_gain.sum(axis=2))
    return np.stack(gains, axis=-1)


def best_always(
    own: PeriodCounts, kind: str, shift: FloatArray, bin_index: int = 0
) -> float:
    """Log-likelihood ratio of the error of a single group that fits best if it was the
    same all the time.

    `shift` is what its scores already have; `bin_index` is the bin of "cells".
    """

    def loss(size: float) -> float:
        sizes = np.array([size])
        if kind == "slope":
            return -float(slope_gains(own, sizes).sum())
        gain = shift_gains(own, sizes, shift)
        if kind == "cells":
            gain = gain[:, :, bin_index]
        return -float(gain.sum())

    bounds = (-LARGEST_SHIFT, LARGEST_SHIFT)
    best = minimize_scalar(loss, bounds=bounds, method="bounded")
    return max(0.0, -float(best.fun))


def changed_evidence(
    sums: PeriodCounts, reference: BoolArray
) -> tuple[FloatArray, FloatArray]:
    """Log evidence that groups, and their bins, differ from the reference periods (True
    in `reference`).

    Shapes (periods, groups) and (periods, groups, bins). Periods up to the last
    reference have no evidence.
    """
    reach = _grid_steps(LARGEST_SHIFT) + _grid_steps(SHIFTS[-1])
    steps = np.arange(-reach, reach + 1, dtype=np.float64)
    shifts = GRID_STEP * steps
    gain = shift_gains(sums, shifts)
    level = _against_reference(gain.sum(axis=2), reference)
    cells = []
    for b in range(sums.n_bins):
        cells.append(_against_reference(gain[:, :, b], reference))
    return level, np.stack(cells, axis=2)


def _grid_steps(shift: float) -> int:
    return round(shift / GRID_STEP)


def _against_reference(gain: FloatArray, reference: BoolArray) -> FloatArray:
    """Log evidence for (periods, groups) from log-likelihoods of (periods, groups, grid
    of shifts).
    """
    n_side = _grid_steps(LARGEST_SHIFT)
    margin = _grid_steps(SHIFTS[-1])
    # the part of the grid that the shift at the reference may have
    n_shifts = 2 * n_side + 1
    inner = slice(margin, margin + n_shifts)
    shifts = np.arange(-n_side, n_side + 1) * GRID_STEP
    prior = -0.5 * (shifts / PRIOR_SPREAD) ** 2
    prior -= np.logaddexp.reduce(prior)

    reference_periods = np.flatnonzero(reference)
    total = gain[reference_periods].sum(axis=0)
    first_later = int(reference_periods[-1]) + 1
    later = range(first_later, len(gain))
    stakes = onset_stakes(len(later))
    waiting = 1 - np.cumsum(stakes)
    jumps = [_grid_steps(bet) for bet in BETS]
    log_share = np.log(BET_STAKES)[:, None, None]

    unchanged = prior + total[:, inner]
    running = np.full((len(jumps), *unchanged.shape), -np.inf)
    evidence = np.zeros(gain.shape[:2])
    for k, t in enumerate(later):
        begun = np.log(stakes[k])
        placed = unchanged + begun + log_share
        running = np.logaddexp(running, placed)
        for j, jump in enumerate(jumps):
            first = margin + jump
            last = first + n_shifts
            running[j] += gain[t][:, first:last]
        unchanged = unchanged + gain[t][:, inner]
        total += gain[t]

        by_group = running.swapaxes(0, 1).reshape(len(unchanged), -1)
        won = np.logaddexp.reduce(by_group, axis=1)
        kept = np.logaddexp.reduce(unchanged, axis=1) + np.log(waiting[k])
        best_unchanged = _highest(total[:, inner])
        evidence[t] = np.logaddexp(won, kept) - best_unchanged
    return evidence


def _highest(values: FloatArray) -> FloatArray:
    """The maximum of smooth functions on a grid (last axis), between its points too."""
    last = values.shape[-1] - 1
    highest = np.argmax(values, axis=-1)
    place = np.clip(highest, 1, last - 1)

    def value_at(offset: int) -> FloatArray:
        return np.take_along_axis(values, (place + offset)[..., None], -1)[..., 0]

    left = value_at(-1)
    middle = value_at(0)
    right = value_at(1)
    bend = np.minimum(left - 2 * middle + right, -1e-12)
    slope = right - left
    peak = middle - slope**2 / (8 * bend)
    on_grid = np.maximum(values.max(axis=-1), middle)
    near = np.abs(right - left) <= -2 * bend  # whether the peak is between these points
    return np.asarray(np.where(near, np.maximum(peak, on_grid), on_grid))


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
    shape = GAMMA_SHAPE
    later_shape = shape + observed
    constant = shape * np.log(shape) + gammaln(later_shape) - gammaln(shape)
    constant -= np.log(line)

    def beyond_line(total: float) -> float:
        log_rate = np.log(shape + total)
        return float(constant + total - later_shape * log_rate)

    low = brentq(beyond_line, 0.0, observed) if beyond_line(0.0) > 0 else 0.0
    furthest = 2 * (later_shape + 10 * np.log(line))
    return low, brentq(beyond_line, observed, furthest)


def adjusted_evidence(evidence: FloatArray, stakes: FloatArray) -> FloatArray:
    """Log evidence of each test (last axis), adjusted for the number of tests.

    Closed testing with weighted means (Vovk and Wang): the chance that any test whose
    hypothesis is true ever reaches 20 is at most 1 in 20. A test is held against the
    least convincing set of tests that has it.

    >>> evidence = np.log([[80.0, 1.0], [80.0, 100.0]])
    >>> adjusted_evidence(evidence, np.array([0.5, 0.5])).round(2).tolist()
    [[3.7, 0.0], [4.38, 4.5]]
    """
    adjusted = np.empty(evidence.shape)
    for t, row in enumerate(evidence):
        order = np.argsort(row, kind="stable")
        stake = stakes[order]
        part = row[order] + np.log(stake)
        # of all tests with less evidence
        accumulated = np.logaddexp.accumulate(part)
        parts_below = np.concatenate([[-np.inf], accumulated[:-1]])
        accumulated_stakes = np.cumsum(stake)
        stakes_below = np.concatenate([[0.0], accumulated_stakes[:-1]])

        # rows are tests; columns are how many tests with less evidence are added
        joint_stake = stakes_below[None, :] + stake[:, None]
        joint_parts = np.logaddexp(parts_below[None, :], part[:, None])
        joint = joint_parts - np.log(joint_stake)
        # only tests with less evidence make it less convincing
        joint[np.triu_indices(len(row), 1)] = np.inf
        adjusted[t, order] = joint.min(axis=1)
    return adjusted


def level_evidence(
    sums: PeriodCounts, gains: FloatArray, caps: FloatArray
) -> FloatArray:
    """Log evidence of (periods, groups) from gains of (periods, groups, bets) and log
    caps of groups.
    """
    n_groups = gains.shape[1]
    stakes = onset_stakes(len(gains))
    # the share of the stake on beginnings still to come, before each period
    placed_stakes = np.concatenate([[0.0], np.cumsum(stakes)])
    kept = 1 - placed_stakes

    running = np.full(gains.shape[1:], -np.inf)
    waiting = np.zeros(n_groups)
    before = np.zeros(n_groups)
    evidence = np.empty(gains.shape[:2])
    for t, gain in enumerate(gains):
        share_begun = stakes[t] / kept[t]
        begun = waiting + np.log(share_begun)
        log_bets = begun[:, None] + np.log(BET_STAKES)
        placed = np.logaddexp(running, log_bets)
        share_kept = kept[t + 1] / kept[t]
        waiting = waiting + np.log(share_kept)
        won = np.logaddexp.reduce(placed + gain, axis=1)
        plain = np.logaddexp(won, waiting)

        below_cap = before < caps
        boosted = plain.copy()
        for g in np.flatnonzero((before >= LEAST_BOOSTED) & below_cap).tolist():
            bets = Bets(placed[g], waiting[g], before[g])
            boosted[g] += _log_boost(sums, t, g, bets, caps[g])
        now = np.where(below_cap, np.minimum(boosted, caps), plain)

        running = placed + gain + (now - plain)[:, None]
        waiting = waiting + now - plain
        evidence[t] = now
        before = now
    return evidence


class Bets(NamedTuple):
    """Logarithms of the stakes of one group at the beginning of a period.

    They are on each shift, and on beginnings still to come; `total` is the evidence
    before the period.
    """

    placed: FloatArray
    waiting: float
    total: float


def _log_boost(
    sums: PeriodCounts, period: int, group: int, bets: Bets, cap: float
) -> float:
    """Log of the factor that makes up for what is given up beyond the cap; at most what
    reaches the cap.
    """
    people = sums.people[period, group]
    mean = sums.mean[period, group]
    counts, chance = spread_out(people, mean, sums.ends)
    if not len(counts):
        return 0.0

    factor = np.exp(BETS)[:, None]
    growth = np.expm1(BETS)[:, None]
    log_growth = np.log1p(mean * growth)
    normalizer = (people * log_growth).sum(axis=1)
    odds = 1 + chance * growth
    normalizer_spread = (counts * np.log(odds)).sum(axis=1)

    # the number of events, and its chances under each bet
    shifted_chance = chance * factor / odds
    events, mass = poisson_binomial(counts, shifted_chance)
    log_gain = BETS[:, None, None] * events
    gained = bets.placed[:, None, None] + log_gain
    gained -= normalizer[:, None, None]
    won = np.logaddexp.reduce(gained, axis=0)
    evidence = np.logaddexp(won, bets.waiting)
    # the part of the evidence before that each outcome stands for
    log_part = bets.placed + normalizer_spread - normalizer - bets.total
    share = mass * np.exp(log_part)[:, None]

    def too_small(factor: float) -> bool:
        kept = np.minimum(cap - factor - evidence, 0.0)
        lost = share * -np.expm1(kept)
        beyond = float(lost.sum())
        return beyond < 1 and bool(factor + np.log1p(-beyond) < 0)

    most_boost = cap - bets.total
    return float(bisected(too_small, 0.0, most_boost, HALVINGS)[0])


def spread_out(
    people: FloatArray, mean: FloatArray, ends: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Counts and scores of people who are at the ends of their range, but for one, with
    the mean given.

    >>> people, mean = np.array([4.0, 0.0]), np.array([0.1125, 0.0])
    >>> spread_out(people, mean, np.array([0.1, 0.2, 0.3]))
    (array([3., 1.]), array([0.1 , 0.15]))
    """
    occupied = people > 0
    n = people[occupied]
    low = ends[:-1][occupied]
    high = ends[1:][occupied]
    width = high - low
    place = n * (mean[occupied] - low) / width
    above = np.clip(place, 0, n)
    n_high = np.minimum(np.floor(above), n - 1)
    between = low + (above - n_high) * width

    n_low = n - n_high - 1
    counts = np.concatenate([n_low, n_high, np.ones(len(n))])
    scores = np.concatenate([low, high, between])
    return counts[counts > 0], scores[counts > 0]


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
    widest = REACH_SD * np.sqrt(variance.max())
    half = int(np.ceil(widest + LEAST_REACH))
    width = 2 * half + 1
    first = np.floor(mean)[:, None] - half
    events: FloatArray = first + np.arange(float(width))

    # the characteristic function of the number of events, at these angles
    angle = 2 * np.pi * np.arange(1, half + 1) / width
    log_damping = variance.min() * (1 - np.cos(angle))
    angle = angle[log_damping <= NEGLIGIBLE_LOG]
    sine = np.sin(angle)
    cosine = np.cos(angle)
    p = chance[:, :, None]
    log_size = 0.5 * np.log1p(-2 * p * (1 - p) * (1 - cosine))
    real_part = 1 - p + p * cosine
    turn = np.arctan2(p * sine, real_part)
    total_size = np.einsum("p,spa->sa", counts, log_size)
    total_turn = np.einsum("p,spa->sa", counts, turn)
    total_turn -= first * angle

    wave = np.zeros((len(chance), half + 1), dtype=np.complex128)
    wave[:, 0] = 1.0
    last = len(angle) + 1
    wave[:, 1:last] = np.exp(total_size - 1j * total_turn)
    density = np.fft.irfft(wave, width, axis=1)
    return events, np.maximum(density, 0.0)


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
    sums: PeriodCounts, stakes: FloatArray, reference: Sequence[str]
) -> CourseEvidence:
    """The evidence of all groups; `stakes` are their shares of the 5 %."""
    if reference:
        bets = _change_bets(sums, sums.among(reference))
        shares = CHANGE_TEST_SHARES
    else:
        bets = _calibration_bets(sums, stakes)
        shares = TEST_SHARES
    sum_of_cells = np.logaddexp.reduce(bets.cells, axis=2)
    mean_of_cells = sum_of_cells - np.log(sums.n_bins)
    evidence = bets.evidence | {"cells": mean_of_cells}

    table = np.concatenate([evidence[kind] for kind in shares], axis=1)
    stakes_of_tests = np.concatenate([shares[kind] * stakes for kind in shares])
    # what is kept for groups that may still come counts as a test without evidence
    kept = np.zeros((len(table), 1))
    with_kept = np.append(table, kept, axis=1)
    stake_kept = 1 - stakes_of_tests.sum()
    stakes_with_kept = np.append(stakes_of_tests, stake_kept)
    adjusted = adjusted_evidence(with_kept, stakes_with_kept)[:, :-1]
    adjusted_of_tests = adjusted.reshape(len(table), len(shares), -1)
    return CourseEvidence(
        kinds=tuple(shares),
        adjusted=adjusted_of_tests,
        gains=bets.gains,
        cells=bets.cells,
        shift=bets.shift,
    )


class GroupBets(NamedTuple):
    """Log evidence of (periods, groups) of each kind of test, before it is adjusted;
    log-likelihood ratios of the bets, log evidence of cells, and shifts of groups.
    """

    evidence: dict[str, FloatArray]
    gains: dict[str, FloatArray]
    cells: FloatArray
    shift: FloatArray


def _calibration_bets(sums: PeriodCounts, stakes: FloatArray) -> GroupBets:
    """Bets against perfect calibration."""
    gain = shift_gains(sums, BETS)
    slope = slope_gains(sums, TILTS)
    gains = {"level": gain.sum(axis=2), "slope": slope, "cells": gain}
    # enough for an alarm, whatever evidence other tests have
    stake_of_level = TEST_SHARES["level"] * stakes
    caps = np.log(ALARM / stake_of_level) + CAP_SLACK
    evidence = {
        "level": level_evidence(sums, gains["level"], caps),
        "slope": mixture(slope),
    }
    cells = mixture(gain, BET_STAKES)
    no_shift = np.zeros(len(sums.groups))
    return GroupBets(evidence, gains, cells, no_shift)


def _change_bets(sums: PeriodCounts, reference: BoolArray) -> GroupBets:
    """Bets against the state of the score at the reference."""
    level, cells = changed_evidence(sums, reference)
    shift = _reference_shift(sums, reference)
    gain = shift_gains(sums, BETS, shift)
    gain[: np.flatnonzero(reference)[-1] + 1] = 0.0
    gains = {"level": gain.sum(axis=2), "cells": gain}
    return GroupBets({"level": level}, gains, cells, shift)


def _reference_shift(sums: PeriodCounts, reference: BoolArray) -> FloatArray:
    """The shift of each group's log-odds at the reference, by bisection; 0 for groups
    without people then.
    """
    people = sums.people[reference]
    mean = sums.mean[reference]
    events = sums.positives[reference].sum(axis=0).sum(axis=1)

    def too_small(shift: FloatArray) -> BoolArray:
        factor = np.exp(shift)[None, :, None]
        odds = 1 - mean + mean * factor
        expected = people * mean * factor / odds
        return np.asarray(expected.sum(axis=(0, 2)) < events)

    furthest = np.full(len(events), LARGEST_REFERENCE_SHIFT)
    low, high = bisected(too_small, -furthest, furthest, REFERENCE_HALVINGS)
    anybody = people.sum(axis=(0, 2)) > 0
    return np.where(anybody, (low + high) / 2, 0.0)

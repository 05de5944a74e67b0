"""Evidence that may be looked at as often as one likes: e-processes of level, slope and cells.

If the score is calibrated, a person scored s has the outcome with probability s, whatever happened before.
A bet against that, by which log-odds are shifted by some d from some period on, multiplies its stake by a
likelihood ratio, which is 1 on average. Nobody knows d nor when it begins, so the stake is divided over many
shifts and over all beginnings, present and future. The total is a non-negative martingale that begins at 1:
the chance that it ever reaches 20 is at most 1 in 20 (Ville's inequality), however often one looks.

The state of the score at an earlier period can be the reference instead. The shift at that time is unknown:
the bet is then divided over its possible values, and is compared with the best of them (universal inference),
which is valid too, and somewhat slower.
"""

from __future__ import annotations

import numpy as np

from propcal.core.grid import BoolArray, FloatArray
from propcal.core.logistic import log_odds
from propcal.monitoring.group_months import GroupMonths

# shifts of the log-odds that are bet on, and the share of the stake on each, half of it in either direction;
# most is on errors of about a fifth: larger ones show soon anyway, and smaller ones after a long time only
SHIFTS = np.array([0.12, 0.24, 0.5, 0.8])
SHIFT_STAKES = np.array([0.15, 0.6, 0.15, 0.1])
BETS = np.concatenate([-SHIFTS[::-1], SHIFTS])
BET_STAKES = np.concatenate([SHIFT_STAKES[::-1], SHIFT_STAKES]) / 2
TILTS = np.array([0.1, 0.2, 0.35, 0.6])  # slopes differ from 1 by this
BEGIN = 24  # beginnings within about so many periods have most of the stake
NEAREST = 1e-6  # scores of 0 and 1 have no log-odds; they are taken as this far from the end
STEP, FURTHEST = 0.02, 2.0  # grid of the unknown shift at the reference


def onset_stakes(n: int) -> FloatArray:
    """The share of the stake on each beginning, of which there is no last: together less than 1.

    >>> onset_stakes(3).round(4).tolist(), float(onset_stakes(10**6).sum().round(3))
    ([0.0385, 0.0356, 0.0331], 1.0)
    """
    t = np.arange(1, n + 1)
    return (BEGIN + 1) / ((t + BEGIN) * (t + BEGIN + 1))


def mixture(gain: FloatArray, share: FloatArray | None = None) -> FloatArray:
    """Log of an e-process over time (first axis) from log-likelihood ratios of shifts (last axis).

    `share` has the share of the stake on each shift; equal shares by default.
    """
    stakes = onset_stakes(len(gain))
    placed = np.log(np.full(gain.shape[-1], 1 / gain.shape[-1]) if share is None else share)
    waiting = 1 - np.cumsum(stakes)  # on beginnings still to come
    running = np.full(gain.shape[1:], -np.inf)
    found = np.empty(gain.shape[:-1])
    for t, step in enumerate(gain):
        running = np.logaddexp(running, np.log(stakes[t]) + placed) + step
        found[t] = np.logaddexp(np.logaddexp.reduce(running, axis=-1), np.log(waiting[t]))
    return found


def level_gains(sums: GroupMonths) -> FloatArray:
    """Log-likelihood ratios of shifted log-odds, for (periods, groups, bins, shifts)."""
    return shift_gains(sums, BETS)


def shift_gains(sums: GroupMonths, shifts: FloatArray) -> FloatArray:
    """The same for any shifts."""
    made = []
    for shift in shifts:
        grown = sums.people * np.log1p(sums.mean * np.expm1(shift))
        made.append(sums.by_bin(shift * sums.positives - grown))
    return np.stack(made, axis=-1)


def slope_gains(sums: GroupMonths) -> FloatArray:
    """Log-likelihood ratios of scores too extreme, or not extreme enough: (periods, groups, tilts)."""
    x = log_odds(np.clip(sums.mean, NEAREST, 1 - NEAREST))
    spread = sums.people * sums.mean * (1 - sums.mean)
    total = np.maximum(spread.sum(axis=2, keepdims=True), 1e-300)
    distance = x - (spread * x).sum(axis=2, keepdims=True) / total
    made = []
    for tilt in np.concatenate([-TILTS[::-1], TILTS]):
        grown = sums.people * np.log1p(sums.mean * np.expm1(tilt * distance))
        made.append((tilt * distance * sums.positives - grown).sum(axis=2))
    return np.stack(made, axis=-1)


def changed_evidence(sums: GroupMonths, reference: BoolArray) -> tuple[FloatArray, FloatArray]:
    """Log evidence that groups, and their bins, differ from the reference periods (True in `reference`).

    Shapes (periods, groups) and (periods, groups, bins). Periods up to the last reference have no evidence.
    """
    shapes = sums.people.shape[1], sums.n_bins
    grid = np.arange(-_places(FURTHEST) - _places(SHIFTS[-1]), _places(FURTHEST) + _places(SHIFTS[-1]) + 1)
    gain = shift_gains(sums, np.asarray(grid * STEP, dtype=np.float64))
    level, cells = np.zeros((len(gain), shapes[0])), np.zeros((len(gain), *shapes))
    level[:] = _against_reference(gain.sum(axis=2), reference)
    for b in range(shapes[1]):
        cells[:, :, b] = _against_reference(gain[:, :, b], reference)
    return level, cells


def _places(shift: float) -> int:
    return round(shift / STEP)


def _against_reference(gain: FloatArray, reference: BoolArray) -> FloatArray:
    """Log evidence for (periods, groups) from log-likelihoods of (periods, groups, grid of shifts)."""
    n, wide = _places(FURTHEST), _places(SHIFTS[-1])
    jumps = [_places(bet) for bet in BETS]
    own = slice(wide, wide + 2 * n + 1)  # the part of the grid that the shift at the reference may have
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
        bets = np.logaddexp.reduce(running.swapaxes(0, 1).reshape(len(same), -1), axis=1)
        stay = np.logaddexp.reduce(same, axis=1) + np.log(waiting[k])
        found[t] = np.logaddexp(bets, stay) - _highest(total[:, own])
    return found


def _highest(values: FloatArray) -> FloatArray:
    """The maximum of smooth functions on a grid (last axis), between its points too."""
    place = np.clip(np.argmax(values, axis=-1), 1, values.shape[-1] - 2)
    left, middle, right = (np.take_along_axis(values, (place + i)[..., None], -1)[..., 0] for i in (-1, 0, 1))
    bend = np.minimum(left - 2 * middle + right, -1e-12)
    peak = middle - (right - left) ** 2 / (8 * bend)
    highest = np.maximum(values.max(axis=-1), middle)
    return np.asarray(np.where(np.abs(right - left) <= -2 * bend, np.maximum(peak, highest), highest))


def adjusted(evidence: FloatArray, stakes: FloatArray) -> FloatArray:
    """Log evidence of each test (last axis), adjusted for the number of tests.

    Closed testing with weighted means (Vovk and Wang): the chance that any test whose hypothesis is true ever
    reaches 20 is at most 1 in 20. A test is held against the least convincing set of tests that has it.

    >>> adjusted(np.log(np.array([[80.0, 1.0], [80.0, 100.0]])), np.array([0.5, 0.5])).round(2).tolist()
    [[3.7, 0.0], [4.38, 4.5]]
    """
    found = np.empty(evidence.shape)
    for t, row in enumerate(evidence):
        order = np.argsort(row, kind="stable")
        value, stake = row[order], stakes[order]
        parts = value + np.log(stake)
        lower = np.concatenate([[-np.inf], np.logaddexp.accumulate(parts)[:-1]])
        weight = np.concatenate([[0.0], np.cumsum(stake)[:-1]])
        table = np.logaddexp(lower[None, :], parts[:, None]) - np.log(weight[None, :] + stake[:, None])
        table[np.triu_indices(len(row), 1)] = np.inf  # only tests with less evidence make it less convincing
        found[t, order] = table.min(axis=1)
    return found

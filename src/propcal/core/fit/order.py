"""Keeps a recalibration from falling, without raising the scores of anybody on the whole.

A correction gives no score less than a lower one: a curve that falls is applied as its own running maximum,
which only ever raises scores. So a fitted curve that falls is pooled first, as isotonic regression does, and
then the constants of everybody and of every group bring the sums of the scores back to those that were
fitted.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import isotonic_regression

from propcal.core.correction.smooth_map import SHIFT_UNIT, SmoothStart, knot_log_odds, knots
from propcal.core.grid import UNIT, BoolArray, FloatArray, IntArray
from propcal.core.groups.group import EVERYBODY
from propcal.core.logistic import expit, log_odds

MOST_STEPS, LARGEST_STEP = 8, 1.0  # of the constants, in log-odds
FEWEST = 1e-6  # people at a knot, so that a knot without any follows its neighbours


def without_falls(
    start: SmoothStart, units: IntArray, row: IntArray, inside: BoolArray, people: FloatArray
) -> SmoothStart:
    """The recalibration with everybody's curve pooled where it falls, and with the sums that were fitted.

    A recalibration that lowers no higher score of these people below a lower one is returned as it is.

    Parameters
    ----------
    units, row, people : arrays
        Raw scores of the fitting people (in units), the combination of terms of each, and how many they are.
    inside : array of bool, shape (n_terms, n_rows)
        Which terms apply to which combinations.
    """
    free = start.values_before_order(inside)
    wanted = start.apply_to_rows(units, row, free)
    if np.array_equal(wanted, start.apply_to_rows(units, row, np.maximum.accumulate(free, axis=1))):
        return start
    if EVERYBODY not in start.groups:
        start = SmoothStart((EVERYBODY, *start.groups), np.insert(start.shifts, 0, 0, axis=0))
        inside = np.insert(inside, 0, True, axis=0)
    start = _pooled(start, units, people)
    member = inside.astype(np.float64)
    moves = np.asarray(start.shifts.any(axis=0))
    moves[1:-1] = True  # scores of 0 and 1 that stay do so
    for _ in range(MOST_STEPS):
        found = start.apply_to_rows(units, row, start.values_inside(inside))
        risk = found / UNIT
        gap = np.bincount(row, people * (wanted - found) / UNIT, inside.shape[1])
        slope = np.bincount(row, people * risk * (1 - risk), inside.shape[1])
        step = np.linalg.lstsq((member * slope) @ member.T, member @ gap, rcond=1e-9)[0]
        whole = np.rint(np.clip(step, -LARGEST_STEP, LARGEST_STEP) * SHIFT_UNIT).astype(np.int64)
        if not whole.any():
            break
        start = start.moved(whole[:, None] * moves)
    return start


def _pooled(start: SmoothStart, units: IntArray, people: FloatArray) -> SmoothStart:
    """The recalibration with everybody's curve as its isotonic regression on the people at each knot."""
    place, at = start.groups.index(EVERYBODY), knot_log_odds()
    among = start.shifts[place] != 0
    among[1:-1] = True
    curve = at + start.shifts[place] / SHIFT_UNIT
    k = np.clip(np.searchsorted(knots(), units), 1, len(at) - 1)
    near = (units - knots()[k - 1]) / (knots()[k] - knots()[k - 1])
    weight = np.bincount(k, people * near, len(at)) + np.bincount(k - 1, people * (1 - near), len(at))
    risk = expit(curve[among])
    pooled = isotonic_regression(risk, weights=weight[among] + FEWEST).x
    curve[among] = np.where(pooled == risk, curve[among], log_odds(np.clip(pooled, risk.min(), risk.max())))
    change = np.zeros_like(start.shifts)
    change[place] = np.rint((curve - at) * SHIFT_UNIT).astype(np.int64) - start.shifts[place]
    return start.moved(change)

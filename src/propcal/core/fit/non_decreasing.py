"""Makes a recalibration non-decreasing, with the sums of scores that were fitted.

A correction gives no score less than a lower one: a curve that falls is applied as its
own running maximum, which only ever raises scores. So a fitted curve that falls is
pooled first, as isotonic regression does, and then the constants of everybody and of
every group bring the sums of the scores back to those that were fitted.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import isotonic_regression

from propcal.core.correction.smooth_map import (
    SHIFT_UNIT,
    SmoothStart,
    knot_log_odds,
    knots,
)
from propcal.core.grid import UNIT, BoolArray, FloatArray, IntArray
from propcal.core.groups import EVERYBODY
from propcal.core.logistic import expit, log_odds

MAX_STEPS = 8
MAX_STEP = 1.0  # of a constant, in log-odds
FEWEST_AT_KNOT = 1e-6  # people, so that a knot without any follows its neighbours


def non_decreasing(
    start: SmoothStart,
    units: IntArray,
    row: IntArray,
    inside: BoolArray,
    people: FloatArray,
) -> SmoothStart:
    """The recalibration with everybody's curve pooled where it falls, and with the sums
    that were fitted.

    A recalibration that lowers no higher score of these people below a lower one is
    returned as it is.

    Parameters
    ----------
    units, row, people : arrays
        Raw scores of the fitting people (in units), the combination of terms of each,
        and how many they are.
    inside : array of bool, shape (n_terms, n_rows)
        Which terms apply to which combinations.
    """
    fitted_values = start.values_before_order(inside)
    fitted = start.apply_to_rows(units, row, fitted_values)
    in_order = np.maximum.accumulate(fitted_values, axis=1)
    if np.array_equal(fitted, start.apply_to_rows(units, row, in_order)):
        return start
    if EVERYBODY not in start.groups:
        no_shifts = np.insert(start.shifts, 0, 0, axis=0)
        start = SmoothStart((EVERYBODY, *start.groups), no_shifts)
        inside = np.insert(inside, 0, True, axis=0)
    pooled = _pooled(start, units, people)
    return _with_sums(pooled, fitted, units, row, inside, people)


def _with_sums(
    start: SmoothStart,
    wanted: IntArray,
    units: IntArray,
    row: IntArray,
    inside: BoolArray,
    people: FloatArray,
) -> SmoothStart:
    """The recalibration with constants by which the scores of each term add up to those
    that are wanted, by Newton's method.
    """
    n_rows = inside.shape[1]
    member = inside.astype(np.float64)
    movable = np.asarray(start.shifts.any(axis=0))
    movable[1:-1] = True  # scores of 0 and 1 that stay do so
    for _ in range(MAX_STEPS):
        corrected = start.apply_to_rows(units, row, start.values_inside(inside))
        risk = corrected / UNIT
        gap = np.bincount(row, people * (wanted - corrected) / UNIT, n_rows)
        slope = np.bincount(row, people * risk * (1 - risk), n_rows)
        information = (member * slope) @ member.T
        step = np.linalg.lstsq(information, member @ gap, rcond=1e-9)[0]
        shift = np.clip(step, -MAX_STEP, MAX_STEP) * SHIFT_UNIT
        whole_shift = np.rint(shift).astype(np.int64)
        if not whole_shift.any():
            break
        start = start.moved(whole_shift[:, None] * movable)
    return start


def _pooled(start: SmoothStart, units: IntArray, people: FloatArray) -> SmoothStart:
    """The recalibration with everybody's curve as its isotonic regression on the people
    at each knot.
    """
    place = start.groups.index(EVERYBODY)
    at = knot_log_odds()
    curve = at + start.shifts[place] / SHIFT_UNIT
    among = start.shifts[place] != 0
    among[1:-1] = True

    after = np.clip(np.searchsorted(knots(), units), 1, len(at) - 1)
    before = after - 1
    near = (units - knots()[before]) / (knots()[after] - knots()[before])
    weight = np.bincount(after, people * near, len(at))
    weight = weight + np.bincount(before, people * (1 - near), len(at))

    risk = expit(curve[among])
    pooled = isotonic_regression(risk, weights=weight[among] + FEWEST_AT_KNOT).x
    level = log_odds(np.clip(pooled, risk.min(), risk.max()))
    curve[among] = np.where(pooled == risk, curve[among], level)

    change = np.zeros_like(start.shifts)
    pooled_shifts = np.rint((curve - at) * SHIFT_UNIT).astype(np.int64)
    change[place] = pooled_shifts - start.shifts[place]
    return start.moved(change)

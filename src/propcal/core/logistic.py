"""Log-odds, restricted cubic splines and logistic regression, for recalibration and
calibration curves.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy import special

from propcal.core.grid import FloatArray

MOST_STEPS = 50
ENOUGH = 1e-8  # stop when the next step can gain no more log-likelihood than this
FLAT = 25.0  # fitted log-odds beyond this mean that the data are separated


class LogisticFit(NamedTuple):
    """Coefficients, fitted probabilities and the information matrix; None if there is
    no maximum.
    """

    coefficients: FloatArray
    fitted: FloatArray
    information: FloatArray


def log_odds(score: FloatArray) -> FloatArray:
    """Log-odds of scores strictly between 0 and 1.

    >>> log_odds(np.array([0.5, 0.8])).round(3).tolist()
    [0.0, 1.386]
    """
    return np.asarray(np.log(score) - np.log1p(-score))


def expit(values: FloatArray) -> FloatArray:
    """Probabilities with the given log-odds.

    >>> expit(np.array([0.0, -1000.0, 1000.0])).tolist()
    [0.5, 0.0, 1.0]
    """
    return np.asarray(special.expit(values))


def fit_logistic(
    design: FloatArray,
    offset: FloatArray,
    weight: FloatArray,
    positives: FloatArray,
    start: FloatArray | None = None,
) -> LogisticFit | None:
    """Fit by Newton's method to machine precision, halving steps that do not improve
    the likelihood.

    Parameters
    ----------
    design : array of shape (n, k)
    offset, weight, positives : arrays of shape (n,)
        For each row: known log-odds, sum of weights, and sum of weights times outcome.
    start : array of shape (k,), optional
        Coefficients to start from; zeros otherwise, or if that leads nowhere (known
        log-odds may be far from the truth) those that come closest to one rate for all.
    """
    if start is not None:
        return _newton(design, offset, weight, positives, start)
    found = _newton(design, offset, weight, positives, np.zeros(design.shape[1]))
    rate = float(positives.sum() / weight.sum())
    if found is None and 0 < rate < 1:
        level = np.log(rate) - np.log1p(-rate)
        start = np.linalg.lstsq(design, level - offset, rcond=None)[0]
        found = _newton(design, offset, weight, positives, start)
    return found


def _newton(
    design: FloatArray,
    offset: FloatArray,
    weight: FloatArray,
    positives: FloatArray,
    start: FloatArray,
) -> LogisticFit | None:
    coefficients = start
    value = offset + design @ coefficients
    loss = _loss(value, weight, positives)
    for _ in range(MOST_STEPS):
        fitted = expit(value)
        curvature = weight * fitted * (1 - fitted)
        information = design.T @ (curvature[:, None] * design)
        gradient = design.T @ (positives - weight * fitted)
        try:
            step = np.linalg.solve(information, gradient)
        except np.linalg.LinAlgError:
            return None
        if not np.all(np.isfinite(step)):
            return None
        if (
            gradient @ step <= ENOUGH
        ):  # the last Newton step squares the remaining error
            return LogisticFit(
                coefficients + step, expit(value + design @ step), information
            )
        for _ in range(30):
            tried = offset + design @ (coefficients + step)
            lower = _loss(tried, weight, positives)
            if lower <= loss:
                break
            step = step / 2
        coefficients = coefficients + step
        value = tried
        loss = lower
        if np.abs(value - offset).max() > FLAT:
            return None  # the data are separated: the likelihood has no maximum
    return None


def _loss(value: FloatArray, weight: FloatArray, positives: FloatArray) -> float:
    """Minus the log-likelihood."""
    return float(weight @ np.logaddexp(0, value) - positives @ value)


def spline_columns(x: FloatArray, knots: FloatArray) -> Iterator[FloatArray]:
    """Restricted cubic spline: 1, x, and a cubic term for each knot but two; linear
    beyond the outer knots.

    With two knots it is a straight line, with fewer a constant.
    """
    yield np.ones_like(x)
    if len(knots) >= 2:
        yield x
    if len(knots) >= 3:
        last = knots[-1]
        before = knots[-2]
        ends = [_cube(x - knot) for knot in (before, last)]
        for knot in knots[:-2]:
            term = _cube(x - knot)
            term -= ends[0] * ((last - knot) / (last - before))
            term += ends[1] * ((before - knot) / (last - before))
            term /= (last - knots[0]) ** 2
            yield term


def spline_basis(x: FloatArray, knots: FloatArray) -> FloatArray:
    """The columns of the spline as one matrix."""
    return np.stack(list(spline_columns(x, knots)), axis=1)


def _cube(x: FloatArray) -> FloatArray:
    """The cube of the positive part, as a product because powers are slow."""
    x = np.maximum(x, 0.0)
    return np.asarray(x * x * x)

"""Log-odds, restricted cubic splines and logistic regression."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy import special

from propcal.core.grid import FloatArray

MAX_STEPS = 50
MAX_HALVINGS = 30
MIN_GAIN = 1e-8  # stop when the next step can gain no more log-likelihood than this
MAX_LOG_ODDS = 25.0  # of a shift that is fitted; beyond it the data are separated
# a column is dropped if less than this is left of it without the earlier ones
MIN_INDEPENDENT = 1e-4


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
    fit = _newton(design, offset, weight, positives, np.zeros(design.shape[1]))
    rate = float(positives.sum() / weight.sum())
    if fit is None and 0 < rate < 1:
        level = np.log(rate) - np.log1p(-rate)
        start = np.linalg.lstsq(design, level - offset, rcond=None)[0]
        fit = _newton(design, offset, weight, positives, start)
    return fit


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
    for _ in range(MAX_STEPS):
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
        if gradient @ step <= MIN_GAIN:
            # the last Newton step squares the remaining error
            fitted = expit(value + design @ step)
            return LogisticFit(coefficients + step, fitted, information)
        for _ in range(MAX_HALVINGS):
            tried = offset + design @ (coefficients + step)
            lower = _loss(tried, weight, positives)
            if lower <= loss:
                break
            step = step / 2
        coefficients = coefficients + step
        value = tried
        loss = lower
        if np.abs(value - offset).max() > MAX_LOG_ODDS:
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
        before = knots[-2]
        last = knots[-1]
        from_before = _cube(x - before)
        from_last = _cube(x - last)
        for knot in knots[:-2]:
            term = _cube(x - knot)
            term -= from_before * ((last - knot) / (last - before))
            term += from_last * ((before - knot) / (last - before))
            term /= (last - knots[0]) ** 2
            yield term


def spline_basis(x: FloatArray, knots: FloatArray) -> FloatArray:
    """The columns of the spline as one matrix."""
    return np.stack(list(spline_columns(x, knots)), axis=1)


def _cube(x: FloatArray) -> FloatArray:
    """The cube of the positive part, as a product because powers are slow."""
    x = np.maximum(x, 0.0)
    return np.asarray(x * x * x)


class UncorrelatedSpline:
    """The columns of a restricted cubic spline, mixed so that they are uncorrelated and
    have variance 1 over the people.

    Beyond `low` and `high` every column is constant, so that nothing is extrapolated.
    Columns that the earlier ones nearly determine are dropped, with all that follow.
    """

    def __init__(
        self,
        values: FloatArray,
        people: FloatArray,
        knots: FloatArray,
        low: float,
        high: float,
    ) -> None:
        self.knots = knots
        self.low = low
        self.high = high
        columns = self._plain_columns(values)
        root = np.sqrt(people / people.sum())[:, None]
        # rows of zeros, because there may be fewer values than columns
        padding = np.zeros((columns.shape[1], columns.shape[1]))
        _, mixing = np.linalg.qr(np.concatenate([columns * root, padding]))
        independent = np.abs(np.diag(mixing)) > MIN_INDEPENDENT
        self.n_columns = int(np.logical_and.accumulate(independent).sum())
        self._unmix = np.linalg.inv(mixing[: self.n_columns, : self.n_columns])

    def _plain_columns(self, values: FloatArray) -> FloatArray:
        return spline_basis(np.clip(values, self.low, self.high), self.knots)

    def __call__(self, values: FloatArray) -> FloatArray:
        """The columns at the given values."""
        return self._plain_columns(values)[:, : self.n_columns] @ self._unmix

"""Calibration of one group by logistic regression: intercept, slope, the smooth curve
and its distances.

Distances between curve and diagonal (ICI, E50, E90, Emax) are never negative; their
intervals come from test inversion (`propcal.auditing.statistics.rate_intervals`). Possible truths
lie on the way from the diagonal through the fitted curve, or the fitted straight line,
and beyond.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from propcal.auditing.statistics.measures import UNKNOWN, Estimate
from propcal.auditing.statistics.rate_intervals import (
    TAIL,
    accepted_range,
    possible_truths,
    t_quantile,
    wilson_interval,
)
from propcal.auditing.statistics.sample import NEAREST, Sample
from propcal.core.draws import Draws, symmetric_root
from propcal.core.grid import BoolArray, FloatArray
from propcal.core.logistic import (
    LogisticFit,
    expit,
    fit_logistic,
    log_odds,
    spline_basis,
    spline_columns,
)

DISTANCES = ("ici", "e50", "e90", "emax")
SHARES = (0.5, 0.9)  # of the people within the distances E50 and E90
# Knots of the restricted cubic spline as quantiles of the score, by how many events
# there are
KNOTS = {
    100: (0.05, 0.275, 0.5, 0.725, 0.95),
    50: (0.05, 0.35, 0.65, 0.95),
    0: (0.1, 0.5, 0.9),
}
N_DRAWS = 250
N_CELLS = 40  # of equally many people each, on which distances are simulated
CURVE_POINTS = 41
FURTHEST = 600.0  # log-odds whose exponential is finite
MANY = 0.01  # share of the people whose score is exactly 0, or exactly 1


class Calibration(NamedTuple):
    """Intercept with the slope fixed at 1, the slope (fitted with an intercept),
    distances and the curve.

    `curve` has the columns score, outcome rate, and its interval, over the middle 98 %
    of the scores. A row with a score of exactly 0 or 1 is a point by itself.
    """

    intercept: Estimate = UNKNOWN
    slope: Estimate = UNKNOWN
    ici: Estimate = UNKNOWN
    e50: Estimate = UNKNOWN
    e90: Estimate = UNKNOWN
    emax: Estimate = UNKNOWN
    curve: FloatArray | None = None


def calibration(sample: Sample, rng: Draws) -> Calibration:
    """Every measure of calibration of one group; those that its data do not determine
    are NaN.
    """
    if not 0 < sample.observed < sample.total:
        return Calibration()
    line = _fit(sample, np.zeros(2))  # two knots: a straight line
    intercept, slope = _intercept_and_slope(sample, line)
    knots = _knots(sample)
    curve = _fit(sample, knots, start=line)
    if curve is None:
        return Calibration(intercept, slope)
    fitted = expit(_value(sample.x, knots, curve.coefficients))
    values = weighted_distances(np.abs(fitted - sample.score), sample.weight)
    # a truth may be as simple as a straight line
    if line is not None and len(knots) >= 2:
        fits = [curve, line]
    else:
        fits = [curve]
    ends = _intervals(sample, knots, fits, rng)
    found = {
        name: _estimate(value, *ends[i])
        for i, (name, value) in enumerate(zip(DISTANCES, values))
    }
    return Calibration(intercept, slope, **found, curve=_drawn(sample, knots, curve))


def _intercept_and_slope(
    sample: Sample, line: _Fit | None
) -> tuple[Estimate, Estimate]:
    """Of people with log-odds: a few scores of exactly 0 or 1 would decide the slope.
    `line` is of all.
    """
    inside = (sample.score > 0) & (sample.score < 1)
    if not inside.all():
        sample = sample.where(inside)
        if not 0 < sample.observed < sample.total:
            return UNKNOWN, UNKNOWN
        line = _fit(sample, np.zeros(2))
    shift = _fit(sample, None, offset=True)
    intercept = UNKNOWN if shift is None else _coefficient(sample, shift, 0)
    return intercept, UNKNOWN if line is None else _coefficient(sample, line, 1)


class _Fit(NamedTuple):
    """Coefficients of a logistic regression on the score's log-odds, and their
    covariance.
    """

    coefficients: FloatArray
    covariance: FloatArray


def _fit(
    sample: Sample,
    knots: FloatArray | None,
    *,
    start: _Fit | None = None,
    offset: bool = False,
) -> _Fit | None:
    """Fit a spline with these knots, on narrow cells and then, to the last digit, on
    all scores.

    With `offset` a constant is fitted on top of the log-odds of the score.
    """
    cells = sample.cells
    known = cells.x if offset else np.zeros(len(cells.x))
    if knots is None:
        design = np.ones((len(cells.x), 1))
    else:
        design = spline_basis(cells.x, knots)
    first = np.zeros(design.shape[1])
    if not offset and len(first) > 1:
        first[:2] = (0.0, 1.0) if start is None else start.coefficients
    fit = fit_logistic(design, known, cells.weight, cells.positives, first)
    if fit is None:
        return None
    coefficients = fit.coefficients
    if cells is not sample:
        if offset:
            value = sample.x + coefficients[0]
        else:
            value = _value(sample.x, knots, coefficients)
        residual = sample.positives - sample.weight * expit(value)
        if knots is None:
            columns = [np.ones(1)]
        else:
            columns = spline_columns(sample.x, knots)
        gradient = np.array([np.sum(column * residual) for column in columns])
        coefficients = coefficients + np.linalg.solve(fit.information, gradient)
    return _Fit(coefficients, _covariance(cells, design, fit))


def _value(
    x: FloatArray, knots: FloatArray | None, coefficients: FloatArray
) -> FloatArray:
    """Fitted log-odds."""
    assert knots is not None
    value = np.zeros(len(x))
    for coefficient, column in zip(coefficients, spline_columns(x, knots)):
        value += coefficient * column
    return value


def _coefficient(sample: Sample, fit: _Fit, place: int) -> Estimate:
    """A coefficient and its interval; few events (or non-events) make it wider, by
    Student's t.
    """
    value = float(fit.coefficients[place])
    quantile = np.maximum(
        sample.quantile, t_quantile(1 - TAIL, max(_events(sample), 1.0))
    )
    reach = float(quantile * np.sqrt(fit.covariance[place, place]))
    return Estimate(value, value - reach, value + reach)


def _estimate(value: float, low: float, high: float) -> Estimate:
    """A distance and its range, which holds it even where it is smaller than chance
    alone would have it.
    """
    return Estimate(float(value), low, max(high, float(value)) if low == low else high)


def _covariance(sample: Sample, design: FloatArray, fit: LogisticFit) -> FloatArray:
    """Covariance of the coefficients that holds whether or not the regression is the
    truth (sandwich).
    """
    influence = np.linalg.solve(fit.information, design.T).T
    residual = fit.fitted[:, None]
    n = sample.effective
    k = design.shape[1]
    small = n / (n - k) if n > k else np.nan
    return sample.covariance(influence * (1 - residual), -influence * residual) * small


def _events(sample: Sample) -> float:
    """How many people of equal weight had the outcome, or did not, whichever are
    fewer.
    """
    share = sample.observed / sample.total
    return sample.effective * min(share, 1 - share)


def _knots(sample: Sample) -> FloatArray:
    """Knots at quantiles of the score; fewer where there are few events or few
    different scores.
    """
    wanted = next(
        quantiles for least, quantiles in KNOTS.items() if _events(sample) >= least
    )
    return np.unique(_quantiles(sample.cells, np.array(wanted)))


def _quantiles(cells: Sample, at: FloatArray) -> FloatArray:
    """Weighted quantiles of the log-odds: the value at which the given share of the
    weight is reached.
    """
    order = cells.order
    reached = np.cumsum(cells.weight[order])
    place = np.searchsorted(reached, at * reached[-1] * (1 - 1e-12))
    return np.asarray(cells.x[order[np.minimum(place, len(order) - 1)]])


def weighted_distances(distance: FloatArray, weight: FloatArray) -> FloatArray:
    """Mean, median, 90th percentile and maximum of distances, weighted.

    >>> weighted_distances(np.array([0.1, 0.2, 0.3, 0.4]), np.ones(4)).round(3).tolist()
    [0.25, 0.2, 0.4, 0.4]
    """
    n = len(weight)
    if n and np.all(weight == weight[0]):  # ranks are known without sorting
        ranks = np.maximum(
            np.ceil(np.array(SHARES) * n * (1 - 1e-12)).astype(np.int64) - 1, 0
        )
        ranked = np.partition(distance, [*ranks, n - 1])
        return np.array([distance.sum() / n, *ranked[ranks], ranked[-1]])
    order = np.argsort(distance)
    ranked = distance[order]
    reached = np.cumsum(weight[order])
    place = np.searchsorted(reached, np.array(SHARES) * reached[-1] * (1 - 1e-12))
    return np.array(
        [np.sum(distance * weight) / reached[-1], *ranked[place], ranked[-1]]
    )


def _distances(cells: FloatArray, bend: FloatArray) -> FloatArray:
    """Distances of curves whose log-odds differ by `bend` (last axis) from the score's;
    cells count alike.
    """
    ranked = np.sort(np.abs(expit(cells + bend) - expit(cells)), axis=-1)
    places = [
        ranked[..., int(np.ceil(share * N_CELLS)) - 1] for share in (*SHARES, 1.0)
    ]
    return np.stack([ranked.mean(axis=-1), *places], axis=-1)


def _intervals(
    sample: Sample, knots: FloatArray, fits: list[_Fit], rng: Draws
) -> list[tuple[float, float]]:
    """For each distance the range of those at which the one found would not be
    surprising.
    """
    covariance = fits[0].covariance
    if sample.soft or not np.all(np.isfinite(covariance)):
        return [(np.nan, np.nan)] * len(DISTANCES)
    at = (np.arange(N_CELLS) + 0.5) / N_CELLS
    # the largest distance is often at an end
    at[0] = 0.0
    at[-1] = 1.0
    cells = _quantiles(sample.cells, at)
    design = spline_basis(cells, knots)
    noise = (
        rng.standard_normal((N_DRAWS, design.shape[1]))
        @ symmetric_root(covariance)
        @ design.T
    )
    bends = [
        design[:, : len(fit.coefficients)] @ fit.coefficients - cells for fit in fits
    ]
    observed = _distances(cells, bends[0])
    ranges = np.array([_accepted(cells, bend, noise, observed) for bend in bends])
    return [
        (float(ranges[:, i, 0].min()), float(ranges[:, i, 1].max()))
        for i in range(len(DISTANCES))
    ]


def _accepted(
    cells: FloatArray, bend: FloatArray, noise: FloatArray, observed: FloatArray
) -> FloatArray:
    """Ranges of the distances over truths that are a multiple of `bend`.

    Truths are tried from the smallest on; those beyond the upper ends of all ranges
    change nothing.
    """
    path = possible_truths(bend, noise)
    values = _distances(cells, path[:, None] * bend)
    score = (1 / (1 + _odds_against(cells)))[:, None]
    start = (
        np.ascontiguousarray(noise.T) + cells[:, None]
    )  # sums over cells are quickest that way round
    against = _odds_against(start)
    # odds multiply, which saves an exponential for every truth, unless they are too
    # large for it
    product = float(np.abs(start).max() + path[-1] * np.abs(bend).max()) < FURTHEST
    # of draws at least, and at most, as far off as observed
    shares = np.empty((len(path), 2, len(DISTANCES)))
    now = np.empty(shares.shape[1:])
    undecided = np.ones(shares.shape[1:], dtype=bool)
    for i, share in enumerate(path):
        away = (share * bend)[:, None]
        if product:
            distance = against * _odds_against(away)
        else:
            distance = _odds_against(start + away)
        np.add(distance, 1, out=distance)
        np.reciprocal(distance, out=distance)
        np.subtract(distance, score, out=distance)
        np.abs(distance, out=distance)
        for side, which in np.argwhere(undecided).tolist():
            now[side, which] = _share_of_draws(
                distance, which, observed[which], at_most=side == 1
            )
        shares[i:] = now
        undecided[0] &= now[0] <= TAIL
        undecided[1] &= now[1] >= TAIL
        if not undecided.any():
            break
    each = range(len(DISTANCES))
    return np.array(
        [accepted_range(path, values[:, i], *shares[:, :, i].T) for i in each]
    )


def _share_of_draws(
    distance: FloatArray, which: int, observed: float, *, at_most: bool
) -> float:
    """Share of draws (columns) whose distance `DISTANCES[which]` is at least, or at
    most, as large as this.

    It is what `_distances` of each draw would give, without sorting: a quantile is at
    most the one observed if enough cells are.
    """
    if 0 < which <= len(SHARES):
        rank = int(np.ceil(SHARES[which - 1] * N_CELLS))
        if at_most:
            met = _count(distance <= observed) >= rank
        else:
            met = _count(distance < observed) < rank
    else:
        if which:
            of_draw = np.maximum.reduce(distance, axis=0)
        else:
            of_draw = np.add.reduce(distance, axis=0) / N_CELLS
        met = of_draw <= observed if at_most else of_draw >= observed
    return float(np.count_nonzero(met) / distance.shape[1])


def _count(cells: BoolArray) -> Any:
    """How many cells of each draw; bytes add up quickest."""
    return np.add.reduce(cells.view(np.int8), axis=0, dtype=np.int8)


def _odds_against(values: FloatArray) -> FloatArray:
    """Odds of not having the outcome, by log-odds of having it."""
    with np.errstate(over="ignore"):
        return np.exp(-values)


def _curve(sample: Sample, knots: FloatArray, fit: _Fit) -> FloatArray:
    """The smooth curve with its pointwise interval where the scores are."""
    low, high = expit(_quantiles(sample.cells, np.array([0.01, 0.99])))
    if high > low:
        score = np.linspace(low, high, CURVE_POINTS)
    else:
        score = np.array([low])
    design = spline_basis(log_odds(score), knots)
    value = design @ fit.coefficients
    reach = sample.quantile * np.sqrt(
        np.sum((design @ fit.covariance) * design, axis=1)
    )
    return np.stack(
        [score, expit(value), expit(value - reach), expit(value + reach)], axis=1
    )


def _drawn(sample: Sample, knots: FloatArray, fit: _Fit) -> FloatArray:
    """The curve to draw; a score of 0 or 1 that many people have is a point by itself,
    and not a hook.
    """
    first, last = _end(sample, 0.0), _end(sample, 1.0)
    if first or last:
        inside = sample.where(np.abs(sample.score - 0.5) < 0.5 - 2 * NEAREST)
    else:
        inside = sample
    if inside is sample or not 0 < inside.observed < inside.total:
        return _curve(sample, knots, fit)
    own = _knots(inside)
    line = _fit(inside, own)
    if line is not None:
        between = _curve(inside, own, line)
    else:
        between = np.empty((0, 4))
    return np.array([*first, *between, *last])


def _end(sample: Sample, at: float) -> list[tuple[float, float, float, float]]:
    """The rate of the people whose score is 0 or 1 and its interval, if they are
    many.
    """
    there = np.abs(sample.score - at) <= 2 * NEAREST
    weight = float(sample.weight[there].sum())
    squares = float(sample.weight_sq[there].sum())
    if weight < MANY * sample.total or squares <= 0:
        return []
    rate = float(sample.positives[there].sum()) / weight
    low, high = wilson_interval(
        np.array(rate), np.array(weight**2 / squares), sample.quantile
    )
    return [(at, rate, float(low), float(high))]

"""Calibration of one group by logistic regression: slope, curve and its distances.

Distances between curve and diagonal (ICI, E50, E90, Emax) are never negative; their
intervals come from test inversion (`propcal.auditing.statistics.rate_intervals`).
Possible truths lie on the way from the diagonal through the fitted curve, or the fitted
straight line, and beyond.
"""

from __future__ import annotations

from collections.abc import Iterator
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
MAX_LOG_ODDS = 600.0  # whose exponential is finite
MIN_END_SHARE = 0.01  # of people scored exactly 0, or exactly 1, to be drawn as a point


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
    distance = np.abs(fitted - sample.score)
    values = weighted_distances(distance, sample.weight)
    fits = [curve]
    if line is not None and len(knots) >= 2:
        fits.append(line)  # the truth may be as simple as a straight line
    ends = _intervals(sample, knots, fits, rng)
    distances = {}
    for name, value, (low, high) in zip(DISTANCES, values, ends):
        distances[name] = _estimate(value, low, high)
    drawn = _drawn_curve(sample, knots, curve)
    return Calibration(intercept, slope, **distances, curve=drawn)


def _intercept_and_slope(
    sample: Sample, line: _Regression | None
) -> tuple[Estimate, Estimate]:
    """Intercept and slope of the people whose score is not exactly 0 or 1: a few of
    the others would decide the slope. `line` was fitted to everybody.
    """
    inside = (sample.score > 0) & (sample.score < 1)
    if not inside.all():
        sample = sample.where(inside)
        if not 0 < sample.observed < sample.total:
            return UNKNOWN, UNKNOWN
        line = _fit(sample, np.zeros(2))
    shift = _fit(sample, None, offset=True)
    intercept = _coefficient(sample, shift, 0)
    slope = _coefficient(sample, line, 1)
    return intercept, slope


class _Regression(NamedTuple):
    """Coefficients of a logistic regression on the score's log-odds, and their
    covariance.
    """

    coefficients: FloatArray
    covariance: FloatArray


def _fit(
    sample: Sample,
    knots: FloatArray | None,
    *,
    start: _Regression | None = None,
    offset: bool = False,
) -> _Regression | None:
    """Fit a spline with these knots, on narrow cells and then, to the last digit, on
    all scores.

    With `offset` a constant is fitted on top of the log-odds of the score.
    """
    cells = sample.cells
    if offset:
        known = cells.x
    else:
        known = np.zeros(len(cells.x))
    design = np.stack(list(_design_columns(cells.x, knots)), axis=1)
    first = np.zeros(design.shape[1])
    if not offset and len(first) > 1:
        first[:2] = (0.0, 1.0) if start is None else start.coefficients
    fit = fit_logistic(design, known, cells.weight, cells.positives, first)
    if fit is None:
        return None

    coefficients = fit.coefficients
    if cells is not sample:
        # one more step of Newton's method, on all scores
        if offset:
            value = sample.x + coefficients[0]
        else:
            value = _value(sample.x, knots, coefficients)
        expected = sample.weight * expit(value)
        residual = sample.positives - expected
        columns = _design_columns(sample.x, knots)
        of_columns = [np.sum(column * residual) for column in columns]
        gradient = np.array(of_columns)
        step = np.linalg.solve(fit.information, gradient)
        coefficients = coefficients + step
    return _Regression(coefficients, _covariance(cells, design, fit))


def _design_columns(x: FloatArray, knots: FloatArray | None) -> Iterator[FloatArray]:
    """The columns of the spline, or a constant without knots."""
    if knots is None:
        return iter([np.ones_like(x)])
    return spline_columns(x, knots)


def _value(
    x: FloatArray, knots: FloatArray | None, coefficients: FloatArray
) -> FloatArray:
    """Fitted log-odds."""
    assert knots is not None
    value = np.zeros(len(x))
    columns = spline_columns(x, knots)
    for coefficient, column in zip(coefficients, columns):
        value += coefficient * column
    return value


def _coefficient(sample: Sample, fit: _Regression | None, place: int) -> Estimate:
    """A coefficient and its interval; few events (or non-events) make it wider, by
    Student's t.
    """
    if fit is None:
        return UNKNOWN
    value = float(fit.coefficients[place])
    n_events = max(_events(sample), 1.0)
    of_events = t_quantile(1 - TAIL, n_events)
    variance = fit.covariance[place, place]
    error = np.sqrt(variance)
    quantile = np.maximum(sample.quantile, of_events)
    reach = float(quantile * error)
    return Estimate(value, value - reach, value + reach)


def _estimate(value: float, low: float, high: float) -> Estimate:
    """A distance and its range, which includes it even where it is smaller than chance
    alone would make it.
    """
    if not np.isnan(low):
        high = max(high, float(value))
    return Estimate(float(value), low, high)


def _covariance(sample: Sample, design: FloatArray, fit: LogisticFit) -> FloatArray:
    """Covariance of the coefficients that holds whether or not the regression is the
    truth (sandwich).
    """
    solved = np.linalg.solve(fit.information, design.T)
    influence = solved.T
    fitted = fit.fitted[:, None]
    if_positive = influence * (1 - fitted)
    if_negative = -influence * fitted
    covariance = sample.covariance(if_positive, if_negative)
    n = sample.effective
    k = design.shape[1]
    small_sample = n / (n - k) if n > k else np.nan
    return covariance * small_sample


def _events(sample: Sample) -> float:
    """How many people of equal weight had the outcome, or did not, whichever is
    smaller.
    """
    share = sample.observed / sample.total
    return sample.effective * min(share, 1 - share)


def _knots(sample: Sample) -> FloatArray:
    """Knots at quantiles of the score; fewer where there are few events or few
    different scores.
    """
    events = _events(sample)
    shares = next(shares for least, shares in KNOTS.items() if events >= least)
    return np.unique(_quantiles(sample.cells, np.array(shares)))


def _quantiles(cells: Sample, at: FloatArray) -> FloatArray:
    """Weighted quantiles of the log-odds: the value at which the given share of the
    weight is reached.
    """
    order = cells.order
    reached = np.cumsum(cells.weight[order])
    wanted = at * reached[-1] * (1 - 1e-12)
    place = np.searchsorted(reached, wanted)
    cell_of_quantile = order[np.minimum(place, len(order) - 1)]
    return np.asarray(cells.x[cell_of_quantile])


def weighted_distances(distance: FloatArray, weight: FloatArray) -> FloatArray:
    """Mean, median, 90th percentile and maximum of distances, weighted.

    >>> weighted_distances(np.array([0.1, 0.2, 0.3, 0.4]), np.ones(4)).round(3).tolist()
    [0.25, 0.2, 0.4, 0.4]
    """
    n = len(weight)
    if n and np.all(weight == weight[0]):  # ranks are known without sorting
        ranks = np.ceil(np.array(SHARES) * n * (1 - 1e-12)).astype(np.int64) - 1
        ranks = np.maximum(ranks, 0)
        ranked = np.partition(distance, [*ranks, n - 1])
        return np.array([distance.sum() / n, *ranked[ranks], ranked[-1]])

    order = np.argsort(distance)
    ranked = distance[order]
    reached = np.cumsum(weight[order])
    total = reached[-1]
    wanted = np.array(SHARES) * total * (1 - 1e-12)
    place = np.searchsorted(reached, wanted)
    weighted = np.sum(distance * weight)
    mean = weighted / total
    return np.array([mean, *ranked[place], ranked[-1]])


def _distances(cells: FloatArray, bend: FloatArray) -> FloatArray:
    """Distances of curves whose log-odds differ by `bend` (last axis) from the score's;
    all cells count equally.
    """
    moved = expit(cells + bend) - expit(cells)
    distance = np.sort(np.abs(moved), axis=-1)
    ranks = [int(np.ceil(share * N_CELLS)) for share in (*SHARES, 1.0)]
    quantiles = [distance[..., rank - 1] for rank in ranks]
    mean = distance.mean(axis=-1)
    return np.stack([mean, *quantiles], axis=-1)


def _intervals(
    sample: Sample, knots: FloatArray, fits: list[_Regression], rng: Draws
) -> list[tuple[float, float]]:
    """For each distance the range of truths under which the distance found would not be
    surprising.
    """
    covariance = fits[0].covariance
    finite = np.all(np.isfinite(covariance))
    if sample.soft or not finite:
        return [(np.nan, np.nan)] * len(DISTANCES)

    at = (np.arange(N_CELLS) + 0.5) / N_CELLS
    # the largest distance is often at an end
    at[0] = 0.0
    at[-1] = 1.0
    cells = _quantiles(sample.cells, at)
    design = spline_basis(cells, knots)
    n_columns = design.shape[1]
    normal = rng.standard_normal((N_DRAWS, n_columns))
    root = symmetric_root(covariance)
    noise = normal @ root @ design.T

    bends = []
    for fit in fits:
        used = design[:, : len(fit.coefficients)]
        value = used @ fit.coefficients
        bends.append(value - cells)
    observed = _distances(cells, bends[0])
    accepted = [_accepted(cells, bend, noise, observed) for bend in bends]
    ranges = np.array(accepted)
    lows = ranges[:, :, 0].min(axis=0)
    highs = ranges[:, :, 1].max(axis=0)
    return list(zip(lows.tolist(), highs.tolist()))


def _accepted(
    cells: FloatArray, bend: FloatArray, noise: FloatArray, observed: FloatArray
) -> FloatArray:
    """Ranges of the distances over truths that are a multiple of `bend`.

    Truths are tried from the smallest on; those beyond the upper ends of all ranges
    change nothing.
    """
    path = possible_truths(bend, noise)
    simulated = _SimulatedOdds.of(cells, bend, noise, path[-1])
    # of draws at least, and at most, as far off as observed
    shares = np.empty((len(path), 2, len(DISTANCES)))
    current = np.empty(shares.shape[1:])
    undecided = np.ones(shares.shape[1:], dtype=bool)
    for i, multiple in enumerate(path):
        distance = simulated.distances(multiple)
        for side, which in np.argwhere(undecided).tolist():
            current[side, which] = _share_of_draws(
                distance, which, observed[which], at_most=side == 1
            )
        shares[i:] = current
        undecided[0] &= current[0] <= TAIL
        undecided[1] &= current[1] >= TAIL
        if not undecided.any():
            break

    bends = path[:, None] * bend
    values = _distances(cells, bends)
    ranges = []
    for which in range(len(DISTANCES)):
        at_least, at_most = shares[:, :, which].T
        values_at = values[:, which]
        ranges.append(accepted_range(path, values_at, at_least, at_most))
    return np.array(ranges)


class _SimulatedOdds(NamedTuple):
    """Odds against the outcome in each cell (rows) of each draw (columns), before a
    truth is added.
    """

    start: FloatArray  # log-odds of having the outcome
    against: FloatArray
    bend: FloatArray
    score: FloatArray
    odds_multiply: bool

    @classmethod
    def of(
        cls, cells: FloatArray, bend: FloatArray, noise: FloatArray, most: float
    ) -> _SimulatedOdds:
        """Of truths up to `most` times the bend."""
        # sums over cells are quickest that way round
        noise_of_cells = np.ascontiguousarray(noise.T)
        start = noise_of_cells + cells[:, None]
        # odds multiply, which saves an exponential for every truth, unless they are too
        # large for it
        furthest = most * np.abs(bend).max()
        largest = float(np.abs(start).max() + furthest)
        score_of_cells = 1 / (1 + _odds_against(cells))
        score = score_of_cells[:, None]
        against = _odds_against(start)
        return cls(start, against, bend, score, largest < MAX_LOG_ODDS)

    def distances(self, multiple: float) -> FloatArray:
        """How far each draw is from the score, if the truth is so many bends away."""
        bend = (multiple * self.bend)[:, None]
        if self.odds_multiply:
            distance = self.against * _odds_against(bend)
        else:
            distance = _odds_against(self.start + bend)
        # in place: 1 / (1 + odds) is the risk
        np.add(distance, 1, out=distance)
        np.reciprocal(distance, out=distance)
        np.subtract(distance, self.score, out=distance)
        np.abs(distance, out=distance)
        return distance


def _share_of_draws(
    distance: FloatArray, which: int, observed: float, *, at_most: bool
) -> float:
    """Share of draws (columns) whose distance `DISTANCES[which]` is at least, or at
    most, as large as this.

    It is what `_distances` of each draw would give, without sorting: a quantile is at
    most the one observed if enough cells are.
    """
    if 0 < which <= len(SHARES):
        share = SHARES[which - 1]
        rank = int(np.ceil(share * N_CELLS))
        if at_most:
            draws = _count(distance <= observed) >= rank
        else:
            draws = _count(distance < observed) < rank
    else:
        if which == 0:
            of_draw = np.add.reduce(distance, axis=0) / N_CELLS
        else:
            of_draw = np.maximum.reduce(distance, axis=0)
        draws = of_draw <= observed if at_most else of_draw >= observed
    n_draws = np.count_nonzero(draws)
    return float(n_draws / distance.shape[1])


def _count(cells: BoolArray) -> Any:
    """How many cells of each draw; bytes add up quickest."""
    return np.add.reduce(cells.view(np.int8), axis=0, dtype=np.int8)


def _odds_against(values: FloatArray) -> FloatArray:
    """Odds of not having the outcome, by log-odds of having it."""
    with np.errstate(over="ignore"):
        return np.exp(-values)


def _curve(sample: Sample, knots: FloatArray, fit: _Regression) -> FloatArray:
    """The smooth curve with its pointwise interval where the scores are."""
    ends = _quantiles(sample.cells, np.array([0.01, 0.99]))
    low, high = expit(ends)
    if high > low:
        score = np.linspace(low, high, CURVE_POINTS)
    else:
        score = np.array([low])
    design = spline_basis(log_odds(score), knots)
    value = design @ fit.coefficients
    products = (design @ fit.covariance) * design
    variance = np.sum(products, axis=1)
    reach = sample.quantile * np.sqrt(variance)
    columns = [score, expit(value), expit(value - reach), expit(value + reach)]
    return np.stack(columns, axis=1)


def _drawn_curve(sample: Sample, knots: FloatArray, fit: _Regression) -> FloatArray:
    """The curve to draw; a score of 0 or 1 that many people have is a point by itself,
    which would otherwise bend the curve.
    """
    first = _end_point(sample, 0.0)
    last = _end_point(sample, 1.0)
    if not first and not last:
        return _curve(sample, knots, fit)
    from_middle = np.abs(sample.score - 0.5)
    inside = sample.where(from_middle < 0.5 - 2 * NEAREST)
    if not 0 < inside.observed < inside.total:
        return _curve(sample, knots, fit)

    inside_knots = _knots(inside)
    inside_fit = _fit(inside, inside_knots)
    if inside_fit is None:
        between = np.empty((0, 4))
    else:
        between = _curve(inside, inside_knots, inside_fit)
    return np.array([*first, *between, *last])


def _end_point(sample: Sample, score: float) -> list[tuple[float, float, float, float]]:
    """The rate of the people whose score is 0 or 1 and its interval, if they are
    many.
    """
    distance = np.abs(sample.score - score)
    at_end = distance <= 2 * NEAREST
    weight = float(sample.weight[at_end].sum())
    squares = float(sample.weight_sq[at_end].sum())
    if weight < MIN_END_SHARE * sample.total or squares <= 0:
        return []
    events = float(sample.positives[at_end].sum())
    rate = events / weight
    effective = np.array(weight**2 / squares)
    low, high = wilson_interval(np.array(rate), effective, sample.quantile)
    return [(score, rate, float(low), float(high))]

"""P-values of single tests of calibration, and how they are adjusted for their number.

Tests form families: overall (level and slope), the number of events of each group, how
errors vary (between groups and along the curve), and the largest gap of all cells.
Within a family Holm's adjustment applies. Each family has a share of the 5 %; the level
of a family that rejects passes to the others (weighted Holm).

How errors vary: level and slope of everybody have tests of their own, and are taken out
first. So is the whole curve of everybody before groups are compared, so that an error
that all share does not look like differences, and the level of each group before slopes
are. What is left is compared with chance by score tests of variance components: the
gain in log-likelihood that effects of a typical size would bring. Under the null
hypothesis it is a sum of squares of normal numbers with different weights, whose tail
is approximated from three moments (Hall, Buckley, Eagleson).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import chdtrc

from propcal.auditing.statistics.chance import ENOUGH_OUTCOMES, ScoreCells
from propcal.auditing.statistics.rate_intervals import (
    normal_density,
    normal_quantile,
    normal_tail,
    t_tail,
)
from propcal.auditing.statistics.sample import FEWEST_CLUSTERS, Sample
from propcal.core.atoms import Atoms
from propcal.core.fit.log_odds_cells import (
    COARSE,
    CONSTANT,
    CURVE,
    FEWEST_PEOPLE,
    TYPICAL,
    Basis,
    LogOddsCells,
    count_cells,
    smooth_terms,
)
from propcal.core.grid import BoolArray, FloatArray, IntArray
from propcal.core.groups import Collection
from propcal.core.logistic import expit, fit_logistic

SIGNIFICANCE = 0.05
SMALL_VARIANCE = (
    25.0  # of the number of outcomes, below which its distribution is computed exactly
)
ENOUGH_CLUSTERS = 50  # of repeated people, for the design effect of a group
MOST_SCORES = 50_000  # of more different scores, narrow cells are enough
CATEGORIES = "largest gap of all categories"
SLOPE = "calibration slope of everybody"
DIFFERENCES = "differences between groups"
GROUP_SLOPES = "slopes and curves of groups"
BENDS = "calibration curve of everybody"
SITE_DIFFERENCES = "differences between sites"
NOT_OF_GROUPS = (SLOPE, DIFFERENCES, GROUP_SLOPES, BENDS, CATEGORIES)
# The families and their shares of the 5 %: groups have many tests, and the level and
# slope of everybody pay first. Together they use 4 %, because some of the p-values are
# approximations.
OVERALL = "overall"
GROUPS = "groups"
SHAPE = "shape"
CELLS = "cells"
SHARES = {OVERALL: 0.26, GROUPS: 0.34, SHAPE: 0.14, CELLS: 0.06}
# Few people show little else than errors of everybody, for which most of the level is
# kept then. What they tell is the variance of their number of events: 240 with 1,500
# people at risks around 1/4, 800 with 5,000.
SHARES_OF_FEW = {OVERALL: 0.56, GROUPS: 0.14, SHAPE: 0.07, CELLS: 0.03}
FEW = 240.0
ENOUGH = 800.0
TOGETHER = 0.8
# Levels of tests whose p-values are approximations, however much level other tests pass
# on to them.
MOST_LEVEL = {DIFFERENCES: 0.0075, GROUP_SLOPES: 0.0075, SITE_DIFFERENCES: 0.03}


@dataclass(frozen=True)
class CalibrationTest:
    """One test: of a group's observed against expected, or one of those in
    `NOT_OF_GROUPS`.
    """

    test: str
    statistic: float
    p_value: float
    adjusted_p: float
    rejected: bool


def group_p_value(
    cells: ScoreCells,
    inside: BoolArray,
    observed: float,
    *,
    exact: bool = True,
    effect: float = 1.0,
) -> tuple[float, float]:
    """Standardised excess of outcomes over the score's expectation, and its two-sided
    p-value.

    The number of outcomes is a sum of unequal coin tosses. Its tails (half of the point
    itself counted: mid-p) are exact where it varies little, and otherwise a saddlepoint
    approximation (Lugannani and Rice): a normal one raises false alarms in small
    groups, for rare outcomes and under uneven weights. Unless `exact`, an excess of
    less than a standard error has a normal one. A design effect of repeat visits makes
    the tosses fewer and heavier, and never the p-value smaller.
    """
    if effect > 1:
        alone = group_p_value(cells, inside, observed, exact=exact)[1]
        heavier = replace(cells, typical=cells.typical * effect)
        z, p = group_p_value(heavier, inside, observed, exact=exact)
        return z, max(p, alone)
    some = cells.score[inside]
    if (
        len(some)
        and some.min() <= 0
        and some.max() >= 1
        and np.all((some <= 0) | (some >= 1))
    ):
        return _certain_p_value(cells, inside, observed)
    sure = inside & (cells.score >= 1)  # a score of 0 or 1 leaves nothing to chance
    observed = observed - float(np.sum(cells.weight[sure]))
    inside = inside & (cells.score > 0) & (cells.score < 1)
    n, score, typical = (
        column[inside] for column in (cells.n, cells.score, cells.typical)
    )
    mean = float(np.sum(n * score * typical))
    variance = float(np.sum(n * score * (1 - score) * typical**2))
    most = float(np.sum(n * typical))
    if not -1e-9 * (1 + most) <= observed <= most + 1e-9 * (1 + most):
        return float(np.inf * np.sign(observed - mean)), 0.0  # the score ruled this out
    if variance <= 0:
        return 0.0, 1.0
    z = (observed - mean) / np.sqrt(variance)
    if not exact and abs(z) < 1:
        return float(z), 2 * normal_tail(abs(float(z)))
    if (
        z < 0
    ):  # the same for those without the outcome: a small tail is computed, never 1 less a large one
        score = 1 - score
        observed = most - observed
        mean = most - mean
    if np.all(typical == 1) and variance < SMALL_VARIANCE:
        tail = _exact_tail(n, score, observed, mean, np.sqrt(variance))
    elif abs(z) < 1e-3:
        tail = 0.5
    elif observed >= (1 - 1e-9) * most:
        tail = float(np.exp(np.sum(n * np.log(score)))) / 2
    else:
        tail = _saddlepoint_tail(n, score, typical, observed, abs(z))
    return float(z), float(np.clip(2 * min(tail, 1 - tail), 0.0, 1.0))


def _certain_p_value(
    cells: ScoreCells, inside: BoolArray, observed: float
) -> tuple[float, float]:
    """The level of a score that is 0 for some people and 1 for all others, such as an
    alert.

    Any outcome on the wrong side shows that such a score is wrong, but not in which
    direction. The events of people who are scored alike vary by at most as much as if
    all had the same risk.
    """
    weight = cells.weight[inside]
    typical = cells.typical[inside]
    total = float(weight.sum())
    expected = float(weight @ cells.score[inside])
    excess = observed - expected
    if excess == 0:
        return 0.0, 1.0
    variance = observed * (1 - observed / total) * float(weight @ typical) / total
    if variance > 0:
        z = excess / np.sqrt(variance)
    else:
        z = float(np.inf * np.sign(excess))
    return float(z), 2 * normal_tail(abs(float(z)))


def _exact_tail(
    n: FloatArray, score: FloatArray, observed: float, mean: float, deviation: float
) -> float:
    """Chance of more outcomes than observed, and half of as many: by a Fourier
    transform around the mean.
    """
    first = int(np.floor(mean - 12 * deviation - 30))
    size = int(np.ceil(24 * deviation + 60))
    if not first <= observed < first + size:
        return 0.0
    angle = 2j * np.pi * np.arange(size) / size
    grown = np.log1p(score[:, None] * np.expm1(angle))
    mass = np.fft.fft(np.exp(n @ grown - angle * first)).real / size
    place = round(observed) - first
    return float(np.clip(mass[place + 1 :].sum() + mass[place] / 2, 0.0, 1.0))


def _saddlepoint_tail(
    n: FloatArray, score: FloatArray, typical: FloatArray, observed: float, z: float
) -> float:
    """Chance of more outcomes than observed, which are more than expected."""
    most = float(typical.max())

    def tilted(tilt: float) -> FloatArray:
        grown = score * np.exp(np.minimum(tilt * typical, 700.0))
        return np.asarray(grown / (1 - score + grown))

    # find the tilt that makes the observed number the mean: Newton's method, within
    # limits that close in
    low = 0.0
    high = np.inf
    tilt = 0.0
    for _ in range(200):
        share = tilted(tilt)
        missing = observed - float(np.sum(n * typical * share))
        low, high = (tilt, high) if missing > 0 else (low, tilt)
        if abs(missing) <= 1e-10 * observed or (
            np.isfinite(high) and high - low <= 1e-14 * high
        ):
            break
        slope = float(np.sum(n * typical**2 * share * (1 - share)))
        step = tilt + missing / slope if slope > 0 else np.inf
        if not low < step < high or step > tilt + 5 / most:
            step = (low + high) / 2 if np.isfinite(high) else tilt + 5 / most
        tilt = step
    share = tilted(tilt)
    grown = np.logaddexp(np.log1p(-score), np.log(score) + tilt * typical)
    distance = np.sqrt(max(2 * (tilt * observed - float(np.sum(n * grown))), 0.0))
    curvature = tilt * np.sqrt(float(np.sum(n * typical**2 * share * (1 - share))))
    if distance < 1e-6 or not np.isfinite(curvature) or curvature == 0:
        return normal_tail(z)
    return float(
        normal_tail(distance)
        + normal_density(distance) * (1 / curvature - 1 / distance)
    )


def events_p_value(sample: Sample) -> tuple[float, float]:
    """The excess of events of a whole sample, whose people may occur several times, and
    its p-value.
    """
    some = sample.cells if len(sample.score) > MOST_SCORES else sample
    nowhere: IntArray = np.zeros(len(some.score), dtype=np.int64)
    typical: FloatArray = np.nan_to_num(some.weight_sq / some.weight, nan=1.0)
    cells = ScoreCells(nowhere, nowhere, some.weight, typical, some.score)
    everyone = np.ones(len(some.score), dtype=np.bool_)
    if sample.cluster is None:
        return group_p_value(cells, everyone, some.observed)
    return clustered_p_value(cells, everyone, sample, sample)


def clustered_p_value(
    cells: ScoreCells, inside: BoolArray, sample: Sample, everybody: Sample
) -> tuple[float, float]:
    """`group_p_value` of a sample whose people occur several times.

    The variance is that of a right score times a design effect of at least 1: one from
    the events observed would be small where they happen to be few. In a group of few
    clusters or expected events, the design effect is not taken to be below that of
    everybody. It is an estimate: hence Student's t.
    """
    if sample.n_clusters < FEWEST_CLUSTERS:
        return float("nan"), float("nan")
    fewer = (
        min(sample.expected, sample.total - sample.expected)
        / sample.total
        * sample.n_people
    )
    effect = sample.repeat_effect
    if fewer < ENOUGH_OUTCOMES or sample.n_clusters < ENOUGH_CLUSTERS:
        effect = max(effect, everybody.repeat_effect)
    z, p = group_p_value(cells, inside, sample.observed, effect=effect)
    return z, 2 * t_tail(-normal_quantile(p / 2), sample.n_clusters - 1)


def slope_test(people: Sample) -> tuple[float, float]:
    """Score test of a calibration slope of 1, allowing for an error of the level.

    Returns the statistic in standard errors, negative if predictions are too extreme,
    and its p-value. People with a score of exactly 0 or 1 are left out: they have no
    log-odds.
    """
    sample = people.cells
    inside = (sample.score > 0) & (sample.score < 1)
    if not inside.any() or not 0 < sample.observed < sample.total:
        return float("nan"), float("nan")
    ones = np.ones((int(inside.sum()), 1))
    level = fit_logistic(
        ones, sample.x[inside], sample.weight[inside], sample.positives[inside]
    )
    if level is None:
        return float("nan"), float("nan")
    expected = np.zeros(len(inside))
    expected[inside] = expit(sample.x[inside] + level.coefficients[0])
    spread = expected * (1 - expected)
    centre = float(
        np.sum(sample.weight * spread * sample.x) / np.sum(sample.weight * spread)
    )
    distance = np.where(inside, sample.x - centre, 0.0)
    one = distance * (1 - expected)
    zero = -distance * expected
    total = float(np.sum(sample.positives * one + sample.negatives * zero))
    variance = float(np.sum(sample.weight_sq * spread * distance**2))
    repeated = sample.cluster is not None
    if repeated and sample.n_clusters < FEWEST_CLUSTERS:
        return float("nan"), float("nan")
    if repeated:
        variance *= sample.repeat_effect_of(one, zero)
    z = total / np.sqrt(variance) if variance > 0 else 0.0
    return z, 2 * (
        t_tail(abs(z), sample.n_clusters - 1) if repeated else normal_tail(abs(z))
    )


NamedTest = tuple[
    str, tuple[float, float]
]  # the name of a test, its statistic and its p-value


def shares_for(everybody: Sample) -> dict[str, float]:
    """The share of each family, by how much the people tell; their outcomes play no
    part in it.
    """
    variance = float(
        np.average(everybody.score * (1 - everybody.score), weights=everybody.weight)
    )
    few = float(
        np.interp(
            np.log(max(variance * everybody.effective, 1.0)),
            np.log([FEW, ENOUGH]),
            [1, 0],
        )
    )
    return {
        family: share + few * (SHARES_OF_FEW[family] - share)
        for family, share in SHARES.items()
    }


def adjust(
    families: Mapping[str, Sequence[NamedTest]], shares: Mapping[str, float] = SHARES
) -> list[CalibrationTest]:
    """Adjusted p-values; at most 5 % of perfect scores have one below 0.05.

    Shares of families without tests go to the others in proportion.
    """
    found = {family: tests for family, tests in families.items() if tests}
    inner = {
        family: holm(np.array([p for _, (_, p) in tests]))
        for family, tests in found.items()
    }
    left = sorted(found, key=lambda family: float(inner[family].min()) / shares[family])
    whole = sum(shares[family] for family in found)
    least = 0.0
    adjusted = {}
    for family in left:  # the smallest p-value in relation to its share first
        factor = whole / shares[family] / TOGETHER
        adjusted[family] = np.maximum(inner[family] * factor, least)
        least = float(adjusted[family].min())
        whole -= shares[family]
    return [
        _adjusted(name, z, p, final)
        for family in shares
        if family in found
        for (name, (z, p)), final in zip(found[family], adjusted[family])
    ]


def _adjusted(
    name: str, statistic: float, p: float, adjusted_p: float
) -> CalibrationTest:
    final = min(
        max(adjusted_p, p * SIGNIFICANCE / MOST_LEVEL.get(name, SIGNIFICANCE)), 1.0
    )
    return CalibrationTest(
        name, statistic, float(p), float(final), bool(final <= SIGNIFICANCE)
    )


def holm(p_values: FloatArray) -> FloatArray:
    """Holm's adjusted p-values.

    >>> holm(np.array([0.01, 0.04, 0.03])).round(2).tolist()
    [0.03, 0.06, 0.06]
    """
    order = np.argsort(p_values)
    factors = np.arange(len(p_values), 0, -1)
    adjusted = np.empty(len(p_values))
    adjusted[order] = np.minimum(np.maximum.accumulate(factors * p_values[order]), 1.0)
    return adjusted


def shape_tests(
    atoms: Atoms, collection: Collection
) -> list[tuple[str, tuple[float, float]]]:
    """The statistic (in units of its expectation by chance) and p-value of each test
    that can be made.
    """
    terms, _ = smooth_terms(collection)
    cells = count_cells(atoms, terms, COARSE)
    if cells.n.sum() < FEWEST_PEOPLE:
        return []
    basis = Basis(cells)
    columns = basis(cells.log_odds)
    everybody = np.repeat(np.arange(len(terms)) == 0, len(basis.kinds))
    kind = np.tile(basis.kinds, len(terms))
    overall = everybody & (kind != CURVE)
    constants = kind == CONSTANT
    tests = [
        (BENDS, everybody & (kind == CURVE), overall),
        (DIFFERENCES, ~everybody & constants, everybody),
        (GROUP_SLOPES, ~everybody & ~constants, everybody | constants),
    ]
    fits = [
        fit_logistic(own, cells.log_odds, cells.n, cells.positives)
        for own in (columns[:, basis.kinds != CURVE], columns)
    ]
    straight, curved = (
        fit and _derivatives(cells, columns, fit.fitted) for fit in fits
    )
    return [
        (name, _quadratic(*derivatives, some, taken_out))
        for name, some, taken_out in tests
        if some.any()
        and (
            derivatives := straight if name == BENDS else curved
        )  # else data are separated
    ]


def _derivatives(
    cells: LogOddsCells, columns: FloatArray, risk: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Gradient and information of the log-likelihood, for an effect of each term on
    each column.
    """
    n_terms = cells.members.shape[1]
    n_columns = columns.shape[1]
    starts = cells.starts[:-1]
    by_row = np.add.reduceat(
        (cells.positives - cells.n * risk)[:, None] * columns, starts
    )
    gradient = cells.members.T.astype(np.float64) @ by_row
    row, term = np.nonzero(cells.members)
    # every pair of terms that apply to the same row: each row has only a few
    count = np.bincount(row, minlength=len(starts))[row]
    first = np.repeat(np.arange(len(row)), count)
    begin = np.searchsorted(row, row)
    second = (
        np.repeat(begin, count)
        + np.arange(len(first))
        - np.repeat(np.cumsum(count) - count, count)
    )
    place = term[first] * n_terms + term[second]
    information = np.empty((n_terms, n_columns, n_terms, n_columns))
    spread = cells.n * risk * (1 - risk)
    for j in range(n_columns):
        for k in range(j + 1):
            bend = np.add.reduceat(spread * columns[:, j] * columns[:, k], starts)[
                row[first]
            ]
            block = np.bincount(place, bend, n_terms**2).reshape(n_terms, n_terms)
            information[:, j, :, k] = information[:, k, :, j] = block
    size = n_terms * n_columns
    return gradient.reshape(size), information.reshape(size, size)


def _quadratic(
    gradient: FloatArray, information: FloatArray, some: BoolArray, overall: BoolArray
) -> tuple[float, float]:
    """The gain of some effects beyond the overall ones, divided by its expectation, and
    its p-value.
    """
    across = information[np.ix_(some, overall)]
    inner = np.linalg.pinv(information[np.ix_(overall, overall)])
    left = gradient[some] - across @ inner @ gradient[overall]
    covariance = information[np.ix_(some, some)] - across @ inner @ across.T
    size = 1 / np.sqrt(np.diag(information)[some] + 1 / TYPICAL)
    matrix = covariance * size[:, None] * size
    squared = matrix @ matrix
    first = np.trace(matrix)
    second = np.trace(squared)
    third = float(np.sum(squared * matrix))
    if not first > 0 or not third > 0:
        return 0.0, 1.0
    value = float(np.sum((left * size) ** 2))
    freedom = second**3 / third**2
    place = freedom + (value - first) * np.sqrt(freedom / second)
    return value / first, float(chdtrc(freedom, max(place, 0.0)))

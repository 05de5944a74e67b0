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
from propcal.auditing.statistics.coin_tosses import CoinTosses
from propcal.auditing.statistics.rate_intervals import (
    normal_quantile,
    normal_tail,
    t_tail,
)
from propcal.auditing.statistics.sample import Sample
from propcal.core.atoms import Atoms
from propcal.core.fit.evidence import FEWEST_CLUSTERS
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
# of the number of outcomes, below which its distribution is computed exactly
SMALL_VARIANCE = 25.0
ENOUGH_CLUSTERS = 50  # of repeat visits, for the design effect of a group
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
# kept then. The measure is the variance of their number of events: 240 with 1,500
# people at risks around 1/4, 800 with 5,000.
SHARES_OF_FEW = {OVERALL: 0.56, GROUPS: 0.14, SHAPE: 0.07, CELLS: 0.03}
FEW_VARIANCE = 240.0
ENOUGH_VARIANCE = 800.0
SUM_OF_SHARES = 0.8
# Levels of tests whose p-values are approximations, however much level other tests pass
# on to them.
MOST_LEVEL = {DIFFERENCES: 0.0075, GROUP_SLOPES: 0.0075, SITE_DIFFERENCES: 0.03}

TestResult = tuple[float, float]  # a statistic and its p-value
NamedTest = tuple[str, TestResult]


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
) -> TestResult:
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
        p_of_rows = group_p_value(cells, inside, observed, exact=exact)[1]
        heavier = replace(cells, typical=cells.typical * effect)
        z, p = group_p_value(heavier, inside, observed, exact=exact)
        return z, max(p, p_of_rows)
    if _only_0_and_1(cells.score[inside]):
        return _certain_p_value(cells, inside, observed)

    # a score of 0 or 1 leaves nothing to chance
    certain = inside & (cells.score >= 1)
    certain_events = float(np.sum(cells.weight[certain]))
    observed = observed - certain_events
    open_to_chance = inside & (cells.score > 0) & (cells.score < 1)
    tosses = CoinTosses(
        weight=cells.weight[open_to_chance],
        size=cells.typical[open_to_chance],
        probability=cells.score[open_to_chance],
    )
    return _tosses_p_value(tosses, observed, exact=exact)


def _only_0_and_1(scores: FloatArray) -> bool:
    """Whether the score is 0 for some people and 1 for all others."""
    if not len(scores) or scores.min() > 0 or scores.max() < 1:
        return False
    certain = (scores <= 0) | (scores >= 1)
    return bool(np.all(certain))


def _tosses_p_value(tosses: CoinTosses, observed: float, *, exact: bool) -> TestResult:
    """The excess of a sum of coin tosses in standard deviations, and its two-sided
    p-value.
    """
    n = tosses.n
    score = tosses.probability
    size = tosses.size
    expected = n * score * size
    mean = float(np.sum(expected))
    variances = n * score * (1 - score) * size**2
    variance = float(np.sum(variances))
    most = float(np.sum(n * size))
    rounding = 1e-9 * (1 + most)
    if not -rounding <= observed <= most + rounding:
        side = np.sign(observed - mean)
        return float(np.inf * side), 0.0  # the score ruled this out
    if variance <= 0:
        return 0.0, 1.0
    deviation = np.sqrt(variance)
    z = (observed - mean) / deviation
    if not exact and abs(z) < 1:
        return float(z), 2 * normal_tail(abs(float(z)))

    if z < 0:
        # that of people without the outcome: a small tail is computed, never 1 less a
        # large one
        score = 1 - score
        tosses = replace(tosses, probability=score)
        observed = most - observed
        mean = most - mean
    if np.all(size == 1) and variance < SMALL_VARIANCE:
        tail = tosses.exact_tail(observed, mean, deviation)
    elif abs(z) < 1e-3:
        tail = 0.5
    elif observed >= (1 - 1e-9) * most:
        log_probability = np.sum(n * np.log(score))
        tail = float(np.exp(log_probability)) / 2
    else:
        tail = tosses.tail(observed, abs(z))
    p_value = np.clip(2 * min(tail, 1 - tail), 0.0, 1.0)
    return float(z), float(p_value)


def _certain_p_value(
    cells: ScoreCells, inside: BoolArray, observed: float
) -> TestResult:
    """The level of a score that is 0 for some people and 1 for all others, such as an
    alert.

    Any outcome on the wrong side shows that such a score is wrong, but not in which
    direction. The events of people who are scored alike vary by at most as much as if
    all had the same risk.
    """
    weight = cells.weight[inside]
    total = float(weight.sum())
    expected = float(weight @ cells.score[inside])
    excess = observed - expected
    if excess == 0:
        return 0.0, 1.0
    weight_sq = float(weight @ cells.typical[inside])
    variance_of_one = observed * (1 - observed / total)
    variance = variance_of_one * weight_sq / total
    if variance > 0:
        z = excess / np.sqrt(variance)
    else:
        z = float(np.inf * np.sign(excess))
    return float(z), 2 * normal_tail(abs(float(z)))


def events_p_value(sample: Sample) -> TestResult:
    """The excess of events of a whole sample, which may have repeat visits, and its
    p-value.
    """
    people = sample.cells if len(sample.score) > MOST_SCORES else sample
    nowhere: IntArray = np.zeros(len(people.score), dtype=np.int64)
    mean_weight = people.weight_sq / people.weight
    typical: FloatArray = np.nan_to_num(mean_weight, nan=1.0)
    cells = ScoreCells(nowhere, nowhere, people.weight, typical, people.score)
    everyone = np.ones(len(people.score), dtype=np.bool_)
    if sample.cluster is None:
        return group_p_value(cells, everyone, people.observed)
    return clustered_p_value(cells, everyone, sample, sample)


def clustered_p_value(
    cells: ScoreCells, inside: BoolArray, sample: Sample, everybody: Sample
) -> TestResult:
    """`group_p_value` of a sample with repeat visits.

    The variance is that of a right score times a design effect of at least 1: a
    variance of the observed events would be small where they happen to be few. In a
    group of few clusters or expected events, the design effect is not taken to be below
    that of everybody. It is an estimate: hence Student's t.
    """
    if sample.n_clusters < FEWEST_CLUSTERS:
        return float("nan"), float("nan")
    expected_others = sample.total - sample.expected
    rarer = min(sample.expected, expected_others)
    expected_outcomes = rarer / sample.total * sample.n_people
    effect = sample.repeat_effect
    if expected_outcomes < ENOUGH_OUTCOMES or sample.n_clusters < ENOUGH_CLUSTERS:
        effect = max(effect, everybody.repeat_effect)
    z, p = group_p_value(cells, inside, sample.observed, effect=effect)
    normal = normal_quantile(p / 2)
    return z, 2 * t_tail(-normal, sample.n_clusters - 1)


def slope_test(people: Sample) -> TestResult:
    """Score test of a calibration slope of 1, allowing for an error of the level.

    Returns the statistic in standard errors, negative if predictions are too extreme,
    and its p-value. People with a score of exactly 0 or 1 are left out: they have no
    log-odds.
    """
    sample = people.cells
    clustered = sample.cluster is not None
    inside = (sample.score > 0) & (sample.score < 1)
    both_outcomes = 0 < sample.observed < sample.total
    if not inside.any() or not both_outcomes:
        return float("nan"), float("nan")
    if clustered and sample.n_clusters < FEWEST_CLUSTERS:
        return float("nan"), float("nan")

    n_inside = int(inside.sum())
    ones = np.ones((n_inside, 1))
    x = sample.x[inside]
    weight = sample.weight[inside]
    positives = sample.positives[inside]
    level = fit_logistic(ones, x, weight, positives)
    if level is None:
        return float("nan"), float("nan")
    expected = np.zeros(len(inside))
    corrected = sample.x[inside] + level.coefficients[0]
    expected[inside] = expit(corrected)
    curvature = expected * (1 - expected)
    information = sample.weight * curvature
    weighted_x = np.sum(information * sample.x)
    centre = float(weighted_x / np.sum(information))
    distance = np.where(inside, sample.x - centre, 0.0)

    if_positive = distance * (1 - expected)
    if_negative = -distance * expected
    of_positives = sample.positives * if_positive
    of_negatives = sample.negatives * if_negative
    total = float(np.sum(of_positives + of_negatives))
    variances = sample.weight_sq * curvature * distance**2
    variance = float(np.sum(variances))
    if clustered:
        variance *= sample.repeat_effect_of(if_positive, if_negative)
    z = total / np.sqrt(variance) if variance > 0 else 0.0
    if clustered:
        return z, 2 * t_tail(abs(z), sample.n_clusters - 1)
    return z, 2 * normal_tail(abs(z))


def shares_for(everybody: Sample) -> dict[str, float]:
    """The share of each family, by how much information the people carry; their
    outcomes play no part in it.
    """
    spread = everybody.score * (1 - everybody.score)
    of_person = float(np.average(spread, weights=everybody.weight))
    variance = max(of_person * everybody.effective, 1.0)
    limits = np.log([FEW_VARIANCE, ENOUGH_VARIANCE])
    few = float(np.interp(np.log(variance), limits, [1, 0]))

    shares = {}
    for family, share in SHARES.items():
        share_if_few = SHARES_OF_FEW[family]
        shares[family] = share + few * (share_if_few - share)
    return shares


def adjust(
    families: Mapping[str, Sequence[NamedTest]], shares: Mapping[str, float] = SHARES
) -> list[CalibrationTest]:
    """Adjusted p-values; at most 5 % of perfect scores have one below 0.05.

    Shares of families without tests go to the others in proportion.
    """
    tested = {family: tests for family, tests in families.items() if tests}
    within_family = {}
    for family, tests in tested.items():
        p_values = [p for _, (_, p) in tests]
        within_family[family] = holm(np.array(p_values))

    def urgency(family: str) -> float:
        smallest = float(within_family[family].min())
        return smallest / shares[family]

    remaining_share = sum(shares[family] for family in tested)
    least = 0.0
    adjusted = {}
    # the smallest p-value in relation to its share first
    for family in sorted(tested, key=urgency):
        factor = remaining_share / shares[family] / SUM_OF_SHARES
        adjusted[family] = np.maximum(within_family[family] * factor, least)
        least = float(adjusted[family].min())
        remaining_share -= shares[family]

    results = []
    for family in shares:
        tests_of_family = tested.get(family, ())
        for test, p in zip(tests_of_family, adjusted.get(family, ())):
            results.append(_calibration_test(test, p))
    return results


def _calibration_test(test: NamedTest, adjusted_p: float) -> CalibrationTest:
    name, (statistic, p) = test
    level = MOST_LEVEL.get(name, SIGNIFICANCE)
    own_limit = p * SIGNIFICANCE / level
    final = min(max(adjusted_p, own_limit), 1.0)
    rejected = bool(final <= SIGNIFICANCE)
    return CalibrationTest(name, statistic, float(p), float(final), rejected)


def holm(p_values: FloatArray) -> FloatArray:
    """Holm's adjusted p-values.

    >>> holm(np.array([0.01, 0.04, 0.03])).round(2).tolist()
    [0.03, 0.06, 0.06]
    """
    order = np.argsort(p_values)
    factors = np.arange(len(p_values), 0, -1)
    adjusted = np.empty(len(p_values))
    increasing = np.maximum.accumulate(factors * p_values[order])
    adjusted[order] = np.minimum(increasing, 1.0)
    return adjusted


def shape_tests(atoms: Atoms, collection: Collection) -> list[NamedTest]:
    """The statistic (in units of its expectation by chance) and p-value of each test
    that can be made.
    """
    terms, _ = smooth_terms(collection)
    cells = count_cells(atoms, terms, COARSE)
    if cells.n.sum() < FEWEST_PEOPLE:
        return []
    basis = Basis(cells)
    columns = basis(cells.log_odds)
    straight_columns = columns[:, basis.kinds != CURVE]
    straight = _derivatives(cells, columns, straight_columns)
    curved = _derivatives(cells, columns, columns)

    is_everybody = np.arange(len(terms)) == 0
    everybody = np.repeat(is_everybody, len(basis.kinds))
    kind = np.tile(basis.kinds, len(terms))
    curve = kind == CURVE
    level = kind == CONSTANT
    tests = [
        (BENDS, straight, everybody & curve, everybody & ~curve),
        (DIFFERENCES, curved, ~everybody & level, everybody),
        (GROUP_SLOPES, curved, ~everybody & ~level, everybody | level),
    ]
    results = []
    for name, derivatives, tested, taken_out in tests:
        if derivatives is not None and tested.any():
            result = _quadratic(*derivatives, tested, taken_out)
            results.append((name, result))
    return results


def _derivatives(
    cells: LogOddsCells, columns: FloatArray, fitted_columns: FloatArray
) -> tuple[FloatArray, FloatArray] | None:
    """Gradient and information of the log-likelihood, for an effect of each term on
    each column, after a fit for everybody; None if the data are separated.
    """
    fit = fit_logistic(fitted_columns, cells.log_odds, cells.n, cells.positives)
    if fit is None:
        return None
    starts = cells.starts[:-1]
    expected = cells.n * fit.fitted
    excess = cells.positives - expected
    of_rows = np.add.reduceat(excess[:, None] * columns, starts)
    gradient = cells.members.T.astype(np.float64) @ of_rows

    # every pair of terms that apply to the same row: each row has only a few
    row, term = np.nonzero(cells.members)
    n_terms_in = np.bincount(row, minlength=len(starts))
    n_terms_of_row = n_terms_in[row]
    first = np.repeat(np.arange(len(row)), n_terms_of_row)
    first_place = np.searchsorted(row, row)
    first_of_row = np.repeat(first_place, n_terms_of_row)
    before = np.cumsum(n_terms_of_row) - n_terms_of_row
    pairs_before = np.repeat(before, n_terms_of_row)
    second = first_of_row + np.arange(len(first)) - pairs_before

    n_terms = cells.members.shape[1]
    n_columns = columns.shape[1]
    place = term[first] * n_terms + term[second]
    information = np.empty((n_terms, n_columns, n_terms, n_columns))
    curvature = cells.n * fit.fitted * (1 - fit.fitted)
    for j in range(n_columns):
        for k in range(j + 1):
            products = curvature * columns[:, j] * columns[:, k]
            of_row = np.add.reduceat(products, starts)
            of_pairs = of_row[row[first]]
            block = np.bincount(place, of_pairs, n_terms**2)
            block = block.reshape(n_terms, n_terms)
            information[:, j, :, k] = block
            information[:, k, :, j] = block
    size = n_terms * n_columns
    return gradient.reshape(size), information.reshape(size, size)


def _quadratic(
    gradient: FloatArray,
    information: FloatArray,
    tested: BoolArray,
    taken_out: BoolArray,
) -> TestResult:
    """The gain of some effects beyond those taken out, divided by its expectation, and
    its p-value.
    """
    across = information[np.ix_(tested, taken_out)]
    of_taken_out = information[np.ix_(taken_out, taken_out)]
    inverse = np.linalg.pinv(of_taken_out)
    explained = across @ inverse @ gradient[taken_out]
    remaining = gradient[tested] - explained
    of_tested = information[np.ix_(tested, tested)]
    covariance = of_tested - across @ inverse @ across.T

    variances = np.diag(information)[tested]
    scale = 1 / np.sqrt(variances + 1 / TYPICAL)
    matrix = covariance * scale[:, None] * scale
    squared = matrix @ matrix
    first_moment = np.trace(matrix)
    second_moment = np.trace(squared)
    third_moment = float(np.sum(squared * matrix))
    if not first_moment > 0 or not third_moment > 0:
        return 0.0, 1.0

    standardized = remaining * scale
    gain = float(np.sum(standardized**2))
    freedom = second_moment**3 / third_moment**2
    excess = gain - first_moment
    spread = np.sqrt(freedom / second_moment)
    chi_squared = freedom + excess * spread
    p_value = float(chdtrc(freedom, max(chi_squared, 0.0)))
    return gain / first_moment, p_value

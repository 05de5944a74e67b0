"""Compiled counting for the search: the strongest box within each pair of features.

A box is a conjunction of conditions. For each box the search needs six sums over its
people: the residual (outcome minus score), its variance if the score is right, the same
two times the log-odds and the variance times its square, and the third central moment.
They give two statistics: of the level (too high or too low) and of the slope (too
extreme or not extreme enough).

There are more small boxes than large ones, so that chance makes more of them look
wrong. Boxes are therefore compared by their evidence: the square of the statistic plus
twice the logarithm of the size.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from propcal.core.compiled import compiled
from propcal.core.grid import BoolArray, IntArray

RESIDUAL = 0
VARIANCE = 1
SLOPED = 2
MIXED = 3
SQUARED = 4
THIRD = 5
N_SUMS = 6
N_MOMENTS = 4  # the sums without residuals
LEVEL = 0
SLOPE = 1
N_KINDS = 2
OF_LEVEL = np.array(
    [RESIDUAL, VARIANCE, THIRD]
)  # the sums that each kind of statistic needs
OF_SLOPE = np.array([RESIDUAL, VARIANCE, SLOPED, MIXED, SQUARED])
# rows whose sums, or simulated residuals, stay in the cache while pairs are counted
BLOCK = 4096
DRAWN = 256
SLOPE_SIZE = 1.5  # the slope needs so many times the smallest variance
FLAT = 0.02  # and log-odds that vary at least this much


class Pairs(NamedTuple):
    """Pairs of features, how many codes the second has, where the table of a pair
    begins, and all cells.
    """

    first: IntArray
    second: IntArray
    width: IntArray
    offset: IntArray
    n_cells: int


class Conditions(NamedTuple):
    """Coarse codes of each feature, how many are recorded, and its conditions, which
    start at `begin`.
    """

    n_codes: IntArray
    recorded: IntArray
    begin: IntArray
    low: IntArray
    high: IntArray
    negated: BoolArray


@compiled
def add_rows(codes: Any, columns: Any, pairs: Pairs, table: Any, block: int) -> None:
    """Add the columns of each row (sums, or residuals of simulated data) to its cell in
    each pair's table.
    """
    first, second, width, offset, _ = pairs
    n, n_columns = columns.shape
    for begin in range(0, n, block):
        end = min(n, begin + block)
        for k in range(len(first)):
            a = codes[first[k]]
            b = codes[second[k]]
            w = width[k]
            o = offset[k]
            for i in range(begin, end):
                cell = o + np.int64(a[i]) * w + np.int64(b[i])
                for d in range(n_columns):
                    table[cell, d] += columns[i, d]


@compiled
def evidence(z: Any, variance: Any, third: Any) -> Any:
    """The square of a standardised sum, adjusted for skewness as if it were a shifted
    Poisson count.
    """
    skewness = third / variance**1.5
    if abs(skewness) < 1e-6:
        return z * z
    ratio = max(1.0 + z * skewness, 1e-12)
    return 2.0 / (skewness * skewness) * (ratio * np.log(ratio) - ratio + 1.0)


@compiled
def slope_parts(
    v0: float, v01: float, v11: float, smallest: float
) -> tuple[float, float]:
    """The regression of the slope's score on the level's, and 1 / standard deviation
    (0: too few).
    """
    share = v01 / v0
    rest = v11 - v01 * share
    if v0 < SLOPE_SIZE * smallest or rest < FLAT * v0:
        return 0.0, 0.0
    return share, 1.0 / np.sqrt(rest)


@compiled
def box_statistic(x: Any, smallest: float, kind: int) -> Any:
    """The statistic of a box from its six sums, with its sign; 0 if it is too small."""
    v0 = x[VARIANCE]
    if v0 < smallest:
        return 0.0
    if kind == LEVEL:
        z = x[RESIDUAL] / np.sqrt(v0)
        return np.sqrt(max(evidence(z, v0, x[THIRD]), 0.0)) * np.sign(z)
    share, scale = slope_parts(v0, x[MIXED], x[SQUARED], smallest)
    return (x[SLOPED] - share * x[RESIDUAL]) * scale


@compiled
def box_evidence(x: Any, smallest: float, kind: int) -> Any:
    """The square of a box's statistic with the allowance for its size; -1 if it is too
    small.
    """
    if x[VARIANCE] < smallest:
        return -1.0
    z = box_statistic(x, smallest, kind)
    return z * z + 2.0 * np.log(x[VARIANCE] / smallest)


class Selected(NamedTuple):
    """Which running sums make up those of a condition: the sums of a range of codes, or
    all that are recorded less those of the range.
    """

    high: int
    low: int
    recorded: int
    sign: float
    whole: float


@compiled
def selected_by(conditions: Conditions, feature: int, c: int) -> Any:
    """What a condition on a feature selects."""
    sign = 1.0
    whole = 0.0
    if conditions.negated[c]:
        sign = -1.0
        whole = 1.0
    recorded = conditions.recorded[feature]
    return Selected(conditions.high[c], conditions.low[c], recorded, sign, whole)


@compiled
def selected_sum(running: Any, column: int, selected: Selected) -> Any:
    """The sum of a condition, of one column of running sums."""
    in_range = running[selected.high, column] - running[selected.low, column]
    recorded = running[selected.recorded, column]
    return selected.sign * in_range + selected.whole * recorded


@compiled
def sum_over_first(
    table: Any, n_columns: int, first_cell: int, n_codes: int, width: int, running: Any
) -> None:
    """Fill in the running sums over the codes of a pair's first feature, for each code
    of the second.
    """
    for i in range(n_codes):
        for j in range(width):
            cell = first_cell + i * width + j
            for d in range(n_columns):
                running[i + 1, j, d] = running[i, j, d] + table[cell, d]


@compiled
def sum_over_second(
    over_first: Any, n_columns: int, selected: Selected, width: int, run: Any
) -> None:
    """Fill in the running sums over the codes of the second feature, of the rows that
    meet a condition on the first.
    """
    high = selected.high
    low = selected.low
    for j in range(width):
        for d in range(n_columns):
            difference = over_first[high, j, d] - over_first[low, j, d]
            in_range = selected.sign * difference
            recorded = selected.whole * over_first[selected.recorded, j, d]
            run[j + 1, d] = run[j, d] + in_range + recorded


@compiled
def scan_pairs(
    residuals: Any,
    moments: Any,
    pairs: Pairs,
    conditions: Conditions,
    smallest: float,
    skewed: bool,
    best: Any,
    where: Any,
) -> None:
    """The strongest box of each pair of features, for each data set and each of the two
    statistics.

    `residuals` has a column for the level and then one for the slope of each data set;
    `moments` has the variance, mixed, squared and third sums, which all data sets
    share. `best` and `where` are filled with the evidence and the number of the box
    (condition of the first feature x conditions of the second).
    """
    first, second, widths, first_cells, _ = pairs
    n_codes = conditions.n_codes
    begin = conditions.begin
    n_columns = residuals.shape[1]
    n_draws = n_columns // 2
    widest = n_codes.max()
    rows = np.zeros((widest + 1, widest, n_columns), dtype=residuals.dtype)
    rows_v = np.zeros((widest + 1, widest, N_MOMENTS))
    run = np.zeros((widest + 1, n_columns), dtype=residuals.dtype)
    run_v = np.zeros((widest + 1, N_MOMENTS))
    level = np.zeros(n_draws)
    slope = np.zeros(n_draws)

    for k in range(len(first)):
        a = first[k]
        b = second[k]
        width = widths[k]
        n_first = n_codes[a]
        cell = first_cells[k]
        sum_over_first(residuals, n_columns, cell, n_first, width, rows)
        sum_over_first(moments, N_MOMENTS, cell, n_first, width, rows_v)

        n_second = begin[b + 1] - begin[b]
        for ca in range(begin[a], begin[a + 1]):
            of_first = selected_by(conditions, a, ca)
            sum_over_second(rows, n_columns, of_first, width, run)
            sum_over_second(rows_v, N_MOMENTS, of_first, width, run_v)
            if run_v[width, 0] < smallest:
                continue

            for cb in range(begin[b], begin[b + 1]):
                of_box = selected_by(conditions, b, cb)
                v0 = selected_sum(run_v, 0, of_box)
                if v0 < smallest:
                    continue
                v01 = selected_sum(run_v, 1, of_box)
                v11 = selected_sum(run_v, 2, of_box)
                v3 = selected_sum(run_v, 3, of_box)

                level_scale = 1.0 / np.sqrt(v0)
                size = 2.0 * np.log(v0 / smallest)
                share, slope_scale = slope_parts(v0, v01, v11, smallest)
                for d in range(n_draws):
                    residual = selected_sum(run, d, of_box)
                    sloped = selected_sum(run, n_draws + d, of_box)
                    level[d] = residual * level_scale
                    slope[d] = (sloped - share * residual) * slope_scale

                box = (ca - begin[a]) * n_second + cb - begin[b]
                for d in range(n_draws):
                    found = level[d] * level[d] + size
                    if skewed and 1.6 * found > best[k, LEVEL, d]:
                        found = evidence(level[d], v0, v3) + size
                    if found > best[k, LEVEL, d]:
                        best[k, LEVEL, d] = found
                        where[k, LEVEL, d] = box
                    found = slope[d] * slope[d] + size
                    if found > best[k, SLOPE, d]:
                        best[k, SLOPE, d] = found
                        where[k, SLOPE, d] = box


@compiled
def sum_rows(rows: Any, sums: Any) -> Any:
    """The six sums of some rows."""
    found = np.zeros(N_SUMS)
    for i in rows:
        for s in range(N_SUMS):
            found[s] += sums[i, s]
    return found


@compiled
def sums_by_code(codes: Any, rows: Any, sums: Any, n_codes: int, kind: int) -> Any:
    """The running sums of some rows by code: row k is of the codes below k.

    Only the sums that a kind of statistic needs are counted.
    """
    table = np.zeros((n_codes + 1, N_SUMS))
    needed = OF_LEVEL if kind == LEVEL else OF_SLOPE
    for i in rows:
        cell = np.int64(codes[i]) + 1
        for s in needed:
            table[cell, s] += sums[i, s]
    for k in range(1, n_codes + 1):
        for s in range(N_SUMS):
            table[k, s] += table[k - 1, s]
    return table


@compiled
def extend(
    codes: Any,
    rows: Any,
    sums: Any,
    used: Any,
    conditions: Conditions,
    smallest: float,
    kind: int,
    best: Any,
    where: Any,
) -> None:
    """For each feature that a box does not use, the condition that makes it
    strongest.
    """
    n_codes, recorded, begin, low, high, negated = conditions
    x = np.empty(N_SUMS)
    for j in range(codes.shape[0]):
        best[j] = -1.0
        if used[j]:
            continue
        run = sums_by_code(codes[j], rows, sums, n_codes[j], kind)
        for c in range(begin[j], begin[j + 1]):
            for s in range(N_SUMS):
                x[s] = run[high[c], s] - run[low[c], s]
                if negated[c]:
                    x[s] = run[recorded[j], s] - x[s]
            found = box_evidence(x, smallest, kind)
            if found > best[j]:
                best[j] = found
                where[j] = c


@compiled
def best_range(
    run: Any, lows: Any, highs: Any, smallest: float, kind: int
) -> tuple[float, int, int]:
    """The strongest range of codes, with ends among some."""
    x = np.empty(N_SUMS)
    best = -1.0
    at_low = -1
    at_high = -1
    for a in lows:
        for b in highs:
            if b <= a:
                continue
            for s in range(N_SUMS):
                x[s] = run[b, s] - run[a, s]
            found = box_evidence(x, smallest, kind)
            if found > best:
                best = found
                at_low = a
                at_high = b
    return best, at_low, at_high

"""The test of the largest gap of all cells (a group within a score bin), for audit and fit alike.

The gap of each cell has an exact p-value, which is turned into standard errors of a normal number. The
largest of them is compared with the largest of normal numbers that are correlated as the cells are: cells of
overlapping groups share people, cells of different bins do not.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from propcal.auditing.chance import HALF, ScoreCells
from propcal.auditing.distributions import normal_quantile
from propcal.auditing.hypothesis_tests import group_p_value
from propcal.core.categories import Categories
from propcal.core.grid import BoolArray, FloatArray
from propcal.core.groups.collection import membership
from propcal.core.patterns import Patterns

DRAWS, SEED = 2000, 0
# the largest gaps get an exact p-value, unless they are far from or beyond what chance gives
MOST_EXACT, EXACT = 12, (1.5, 6.0)
LIMIT = 0.02  # how often a perfect score has a gap beyond `limit`
UNTESTED = 100.0  # the limit if no cell can be tested: a fit then leaves cells to the smooth curve


class GapTest(NamedTuple):
    """The largest gap in standard errors, its p-value, and what few perfect scores exceed."""

    statistic: float
    p_value: float
    limit: float


NOT_TESTED = GapTest(float("nan"), float("nan"), UNTESTED)


def gap_test(cells: ScoreCells, table: Categories, patterns: Patterns, effect: FloatArray) -> GapTest:
    """Test the categories of a table that are large enough; `effect` is each bin's design effect."""
    groups, bins = np.nonzero(table.eligible)
    if not len(groups) or not np.all(np.isfinite(effect)):
        return NOT_TESTED
    inside = membership(table.collection.groups, patterns)
    variance = _sums(
        cells.n * cells.score * (1 - cells.score) * cells.typical**2, cells, table, len(patterns)
    )
    weight = table.weight[groups, bins].astype(np.float64)
    # half a person more or less: outcomes are whole, and rare ones jump
    typical = (_sums(cells.weight * cells.typical, cells, table, len(patterns)) @ inside.T)[
        bins, groups
    ] / weight
    spread = (variance @ inside.T)[bins, groups] + HALF * typical**2
    z = table.gap[groups, bins] * weight / np.sqrt(spread * effect[bins])
    for i in np.argsort(-np.abs(z), kind="stable")[:MOST_EXACT]:
        if effect[bins[i]] > 1 or not EXACT[0] <= abs(z[i]) <= EXACT[1]:
            continue  # repeat visits have no exact distribution
        members = inside[groups[i]][cells.pattern] & (cells.bin_index == bins[i])
        _, p = group_p_value(cells, members, float(table.positives[groups[i], bins[i]]))
        z[i] = np.sign(z[i]) * normal_quantile(1 - max(p, 1e-300) / 2) if p > 1e-15 else z[i]
    found = float(np.abs(z).max())
    drawn = _largest_by_chance(variance, inside, table.eligible)
    p_value = float((1 + np.sum(drawn >= found)) / (1 + len(drawn)))
    return GapTest(found, p_value, float(np.quantile(drawn, 1 - LIMIT, method="higher")))


def _sums(column: FloatArray, cells: ScoreCells, table: Categories, n_patterns: int) -> FloatArray:
    """Sums of a column of the cells within each bin and pattern."""
    found = np.zeros((len(table.bins), n_patterns))
    np.add.at(found, (cells.bin_index, cells.pattern), column)
    return found


def _largest_by_chance(variance: FloatArray, inside: BoolArray, eligible: BoolArray) -> FloatArray:
    """The largest of all cells, in standard errors, in each of many simulated data sets."""
    rng = np.random.default_rng(SEED)
    largest = np.zeros(DRAWS)
    for own, chosen in zip(variance, eligible.T):
        part, members = own[own > 0], inside[chosen][:, own > 0]
        members = members[members.any(axis=1)]  # scores of exactly 0 or 1 leave nothing to chance
        if not len(members):
            continue
        covariance = (members * part) @ members.T
        error = np.sqrt(np.diag(covariance))
        if len(part) > len(error):
            values, vectors = np.linalg.eigh(covariance / error[:, None] / error)
            root = vectors * np.sqrt(np.maximum(values, 0))
        else:
            root = members * np.sqrt(part) / error[:, None]
        found = rng.standard_normal((DRAWS, root.shape[1])) @ root.T
        np.maximum(largest, np.abs(found).max(axis=1), out=largest)
    return largest

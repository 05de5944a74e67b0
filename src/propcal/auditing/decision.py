"""Is the score miscalibrated? One set of tests, one null model, one level: for the
audit and for the fit.

One of the tests is that of the largest gap of all cells (a group within a score bin).
The gap of each cell has an exact p-value, which is turned into standard errors of a
normal number. The largest of them is compared with the largest of normal numbers that
are correlated as the cells are: cells of overlapping groups share people, cells of
different bins do not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from propcal.auditing.audit_claims import CERTAIN, certain_regions
from propcal.auditing.profile import JudgedGroups, audited_groups
from propcal.auditing.statistics import chance
from propcal.auditing.statistics import hypothesis_tests as ht
from propcal.auditing.statistics.rate_intervals import normal_quantile
from propcal.auditing.statistics.sample import Sample
from propcal.core.atoms import Atoms
from propcal.core.bins import category_min_share
from propcal.core.categories import Categories, categories
from propcal.core.draws import Draws, symmetric_root
from propcal.core.fit.evidence import (
    FEWEST_CLUSTERS,
    FoundErrors,
    repeat_effect,
    with_effect,
)
from propcal.core.grid import BoolArray, FloatArray
from propcal.core.groups import EVERYBODY, GroupSize, membership
from propcal.core.patterns import CLUSTER, Patterns
from propcal.core.reduction import without_clusters

if TYPE_CHECKING:
    from propcal.core.fit.boost import (
        FittingData,
        Settings,
    )  # which imports numba; an audit does not need it

DRAWS = 2000
SEED = 0
# the largest gaps get an exact p-value, unless they are far from or beyond what chance
# gives
MOST_EXACT = 12
EXACT = (1.5, 6.0)
LIMIT = 0.02  # how often a perfect score has a gap beyond `limit`
# the limit if no cell can be tested: a fit then leaves cells to the smooth curve
UNTESTED = 100.0


class GapTest(NamedTuple):
    """The largest gap in standard errors, its p-value, and what few perfect scores
    exceed.
    """

    statistic: float
    p_value: float
    limit: float


NOT_TESTED = GapTest(float("nan"), float("nan"), UNTESTED)


def gap_test(
    cells: chance.ScoreCells, table: Categories, patterns: Patterns, effect: FloatArray
) -> GapTest:
    """Test the categories of a table that are large enough; `effect` is each bin's
    design effect.
    """
    groups, bins = np.nonzero(table.eligible)
    if not len(groups) or not np.all(np.isfinite(effect)):
        return NOT_TESTED
    inside = membership(table.collection.groups, patterns)
    tosses = cells.n * cells.score * (1 - cells.score) * cells.typical**2
    variance = _sums(tosses, cells, table, len(patterns))
    weight = table.weight[groups, bins].astype(np.float64)
    # half a person more or less: outcomes are whole, and rare ones jump
    heavy = _sums(cells.weight * cells.typical, cells, table, len(patterns)) @ inside.T
    typical = heavy[bins, groups] / weight
    spread = (variance @ inside.T)[bins, groups] + chance.HALF_OUTCOME_SQ * typical**2
    z = table.gap[groups, bins] * weight / np.sqrt(spread * effect[bins])
    for i in np.argsort(-np.abs(z), kind="stable")[:MOST_EXACT]:
        if not EXACT[0] <= abs(z[i]) <= EXACT[1]:
            continue
        members = inside[groups[i]][cells.pattern] & (cells.bin_index == bins[i])
        positives = float(table.positives[groups[i], bins[i]])
        _, p = ht.group_p_value(
            cells, members, positives, effect=float(effect[bins[i]])
        )
        z[i] = (
            np.sign(z[i]) * normal_quantile(1 - max(p, 1e-300) / 2)
            if p > 1e-15
            else z[i]
        )
    found = float(np.abs(z).max())
    drawn = _largest_by_chance(variance, inside, table.eligible)
    p_value = float((1 + np.sum(drawn >= found)) / (1 + len(drawn)))
    limit = float(np.quantile(drawn, 1 - LIMIT, method="higher"))
    return GapTest(
        found, p_value, round(limit, 9)
    )  # the last digits differ between machines


def _sums(
    column: FloatArray, cells: chance.ScoreCells, table: Categories, n_patterns: int
) -> FloatArray:
    """Sums of a column of the cells within each bin and pattern."""
    found = np.zeros((len(table.bins), n_patterns))
    np.add.at(found, (cells.bin_index, cells.pattern), column)
    return found


def _largest_by_chance(
    variance: FloatArray, inside: BoolArray, eligible: BoolArray
) -> FloatArray:
    """The largest of all cells, in standard errors, in each of many simulated data
    sets.
    """
    rng = Draws(SEED)
    largest = np.zeros(DRAWS)
    for own, chosen in zip(variance, eligible.T):
        part = own[own > 0]
        members = inside[chosen][:, own > 0]
        members = members[
            members.any(axis=1)
        ]  # scores of exactly 0 or 1 leave nothing to chance
        if not len(members):
            continue
        covariance = (members * part) @ members.T
        error = np.sqrt(np.diag(covariance))
        if len(part) > len(error):
            root = symmetric_root(covariance / error[:, None] / error)
        else:
            root = members * np.sqrt(part) / error[:, None]
        found = rng.standard_normal((DRAWS, root.shape[1])) @ root.T
        np.maximum(largest, np.abs(found).max(axis=1), out=largest)
    return largest


MANY = 200  # groups; of more, those that are as expected get no exact p-value
MIN_PEOPLE = 30  # what a cell needs to be tested, by default


def decide(
    atoms: Atoms,
    everybody: Sample,
    table: Categories,
    sizes: Sequence[GroupSize],
    judged: JudgedGroups,
    bin_effects: FloatArray,
    effect: float | None = None,
) -> tuple[list[ht.CalibrationTest], float]:
    """Test everything, from atoms that may have clusters of repeated people, and the
    sample of them all.

    `bin_effects` are the design effects of repeat visits in each bin; that of everybody
    is computed, unless it is known. Returns the tests, and the gap of a cell in
    standard errors that few perfect scores exceed.
    """
    bare = without_clusters(atoms)
    cells = chance.score_cells(bare, table.bins)
    repeated = CLUSTER in atoms.patterns.attributes
    families: dict[str, list[ht.NamedTest]] = {ht.OVERALL: [], ht.GROUPS: []}
    for size, test in group_tests(atoms, bare, everybody, cells, sizes, judged):
        families[ht.OVERALL if size.group == EVERYBODY else ht.GROUPS].append(
            (size.group.name, test)
        )
    if not judged.too_few(everybody):
        families[ht.OVERALL].append((ht.SLOPE, ht.slope_test(everybody)))
        if not repeated or everybody.n_clusters >= FEWEST_CLUSTERS:
            effect = repeat_effect(atoms) if effect is None else effect
            families[ht.SHAPE] = ht.shape_tests(
                with_effect(bare, effect), table.collection
            )
    largest = gap_test(cells, table, bare.patterns, bin_effects)
    families[ht.CELLS] = [(ht.CATEGORIES, largest[:2])]
    known = {
        family: [t for t in tests if not np.isnan(t[1][1])]
        for family, tests in families.items()
    }
    return ht.adjust(known, ht.shares_for(everybody)), largest.limit


def errors_found_in(data: FittingData, settings: Settings) -> FoundErrors:
    """What an audit with the settings of a fit would find in the data of the fit."""
    atoms = data.atoms
    bins = data.bins
    share = category_min_share(settings.alpha, settings.gamma, bins)
    table = categories(
        atoms, data.collection, bins, min_share=share, inside=data.inside
    )
    sizes = audited_groups(atoms, settings.definition())
    everybody = Sample.of(data.rows)
    judged = JudgedGroups.of(atoms)
    people = chance.different_people(data.rows, table)
    effects = chance.design_effect(data.rows, bins)
    enough = chance.enough_people(people, table.people, effects, MIN_PEOPLE)
    table = replace(table, eligible=table.eligible & enough)
    tests, limit = decide(
        data.rows, everybody, table, sizes, judged, effects, data.effect
    )
    found = tuple(
        test.test
        for test in sorted(tests, key=lambda test: test.adjusted_p)
        if test.rejected
    )
    overall = EVERYBODY.name in found or ht.SLOPE in found
    certain = any(
        certain_regions(atoms)
    )  # they leave nothing to chance, so that there is no test
    found += (CERTAIN,) * certain
    return FoundErrors(bool(tests), found, overall, limit, certain)


def group_tests(
    atoms: Atoms,
    bare: Atoms,
    everybody: Sample,
    cells: chance.ScoreCells,
    sizes: Sequence[GroupSize],
    judged: JudgedGroups,
) -> list[tuple[GroupSize, tuple[float, float]]]:
    """Each group that is large enough, with the standardised excess of its events and
    the p-value.
    """
    inside = membership([size.group for size in sizes], bare.patterns)
    group, pattern = np.nonzero(inside)
    columns = (bare.people, bare.positives, bare.weight, bare.weight_sq)
    by_pattern = (
        *(bare.pattern_sums(column) for column in columns),
        np.bincount(cells.pattern, cells.weight * cells.score, len(bare.patterns)),
    )
    people, positives, weight, squares, expected = (
        np.bincount(group, np.asarray(column, dtype=np.float64)[pattern], len(sizes))
        for column in by_pattern
    )
    effective = np.divide(
        weight**2, squares, out=np.zeros(len(sizes)), where=squares > 0
    )
    numbers = zip(
        people.astype(int).tolist(),
        effective.tolist(),
        expected.tolist(),
        weight.tolist(),
    )
    chosen = [
        i
        for i, (size, own) in enumerate(zip(sizes, numbers))
        if not size.left_out and not judged.too_few_of(*own)
    ]
    # a group of everybody is tested once, as everybody
    chosen = [
        i
        for i in chosen
        if not sizes[i].group.conditions or sizes[i].people < bare.n_people
    ]
    found = []
    if bare is not atoms:
        clustered = membership([sizes[i].group for i in chosen], atoms.patterns)
        pattern_of_atom = atoms.pattern_index()
    else:
        clustered = None
    for place, i in enumerate(chosen):
        members = inside[i][cells.pattern]
        if clustered is None:
            test = ht.group_p_value(
                cells, members, float(positives[i]), exact=len(chosen) <= MANY
            )
        else:
            sample = everybody.where(clustered[place][pattern_of_atom])
            test = ht.clustered_p_value(cells, members, sample, everybody)
        found.append((sizes[i], test))
    return found

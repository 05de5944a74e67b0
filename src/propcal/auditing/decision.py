"""Is the score miscalibrated? One set of tests decides, for audits and for fits.

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
from propcal.core.grid import BoolArray, FloatArray, SumArray, ratio
from propcal.core.groups import EVERYBODY, GroupSize, membership
from propcal.core.patterns import CLUSTER, Patterns
from propcal.core.reduction import without_clusters

if TYPE_CHECKING:
    # which imports numba; an audit does not need it
    from propcal.core.fit.boost import FittingData, Settings

DRAWS = 2000
SEED = 0
# the largest gaps get an exact p-value, unless they are so small or so large (in
# standard errors) that it is not needed
MOST_EXACT = 12
EXACT_FROM = 1.5
EXACT_UP_TO = 6.0
BEYOND_LIMIT = 0.02  # how often a perfect score has a gap beyond `limit`
# the limit if no cell can be tested: a fit then leaves cells to the smooth curve
LIMIT_UNTESTED = 100.0
MANY_GROUPS = 200  # of more groups, those that are as expected get no exact p-value
MIN_PEOPLE = 30  # what a cell needs to be tested, by default


class GapTest(NamedTuple):
    """The largest gap in standard errors, its p-value, and what few perfect scores
    exceed.
    """

    statistic: float
    p_value: float
    limit: float


NOT_TESTED = GapTest(float("nan"), float("nan"), LIMIT_UNTESTED)


def gap_test(
    cells: chance.ScoreCells, table: Categories, patterns: Patterns, effect: FloatArray
) -> GapTest:
    """Test the categories of a table that are large enough; `effect` is each bin's
    design effect.
    """
    if not table.eligible.any() or not np.all(np.isfinite(effect)):
        return NOT_TESTED
    inside = membership(table.collection.groups, patterns)
    tosses = cells.n * cells.score * (1 - cells.score) * cells.typical**2
    variance = _pattern_sums(tosses, cells, table, len(patterns))
    z = _gaps_in_errors(cells, table, inside, variance, effect)
    _refine_largest(z, cells, table, inside, effect)

    found = float(np.abs(z).max())
    by_chance = _largest_by_chance(variance, inside, table.eligible)
    n_reached = 1 + np.sum(by_chance >= found)
    p_value = float(n_reached / (1 + len(by_chance)))
    limit_by_chance = np.quantile(by_chance, 1 - BEYOND_LIMIT, method="higher")
    limit = float(limit_by_chance)
    # the last digits differ between machines
    return GapTest(found, p_value, round(limit, 9))


def _gaps_in_errors(
    cells: chance.ScoreCells,
    table: Categories,
    inside: BoolArray,
    variance: FloatArray,
    effect: FloatArray,
) -> FloatArray:
    """The gap of each eligible category in standard errors; `variance` is that of the
    events of each bin and pattern.
    """
    groups, bins = np.nonzero(table.eligible)
    n_patterns = inside.shape[1]
    weight = table.weight[groups, bins].astype(np.float64)
    weighted_sizes = cells.weight * cells.typical
    squares = _pattern_sums(weighted_sizes, cells, table, n_patterns)
    squares_of_groups = squares @ inside.T
    typical = squares_of_groups[bins, groups] / weight
    # half a person more or less: outcomes are whole, and rare ones jump
    half_person = chance.HALF_OUTCOME_SQ * typical**2
    variance_of_groups = variance @ inside.T
    spread = variance_of_groups[bins, groups] + half_person
    error = np.sqrt(spread * effect[bins])
    return table.gap[groups, bins] * weight / error


def _refine_largest(
    z: FloatArray,
    cells: chance.ScoreCells,
    table: Categories,
    inside: BoolArray,
    effect: FloatArray,
) -> None:
    """Replace the largest gaps (in place) by normal numbers of their exact p-value."""
    groups, bins = np.nonzero(table.eligible)
    largest_first = np.argsort(-np.abs(z), kind="stable")
    for i in largest_first[:MOST_EXACT]:
        if not EXACT_FROM <= abs(z[i]) <= EXACT_UP_TO:
            continue
        patterns_inside = inside[groups[i]]
        in_bin = cells.bin_index == bins[i]
        members = patterns_inside[cells.pattern] & in_bin
        positives = float(table.positives[groups[i], bins[i]])
        effect_of_bin = float(effect[bins[i]])
        _, p = ht.group_p_value(cells, members, positives, effect=effect_of_bin)
        if p > 1e-15:
            z[i] = np.sign(z[i]) * normal_quantile(1 - p / 2)


def _pattern_sums(
    column: FloatArray, cells: chance.ScoreCells, table: Categories, n_patterns: int
) -> FloatArray:
    """Sums of a column of the cells within each bin and pattern."""
    shape = (len(table.bins), n_patterns)
    sums = np.zeros(shape)
    np.add.at(sums, (cells.bin_index, cells.pattern), column)
    return sums


def _largest_by_chance(
    variance: FloatArray, inside: BoolArray, eligible: BoolArray
) -> FloatArray:
    """The largest gap of all cells, in standard errors, in each of many simulated data
    sets.
    """
    rng = Draws(SEED)
    largest = np.zeros(DRAWS)
    for of_patterns, chosen in zip(variance, eligible.T):
        # scores of exactly 0 or 1 leave nothing to chance
        uncertain = of_patterns > 0
        part = of_patterns[uncertain]
        members = inside[chosen][:, uncertain]
        members = members[members.any(axis=1)]
        if not len(members):
            continue

        covariance = (members * part) @ members.T
        error = np.sqrt(np.diag(covariance))
        if len(part) > len(error):
            correlation = covariance / error[:, None] / error
            root = symmetric_root(correlation)
        else:
            root = members * np.sqrt(part) / error[:, None]
        normal = rng.standard_normal((DRAWS, root.shape[1]))
        gaps = normal @ root.T
        largest_of_draw = np.abs(gaps).max(axis=1)
        np.maximum(largest, largest_of_draw, out=largest)
    return largest


def decide(
    atoms: Atoms,
    everybody: Sample,
    table: Categories,
    sizes: Sequence[GroupSize],
    judged: JudgedGroups,
    bin_effects: FloatArray,
    effect: float | None = None,
) -> tuple[list[ht.CalibrationTest], float]:
    """Test everything, from atoms that may have clusters of repeat visits, and the
    sample of them all.

    `bin_effects` are the design effects of repeat visits in each bin; that of everybody
    is computed, unless it is known. Returns the tests, and the gap of a cell in
    standard errors that few perfect scores exceed.
    """
    bare = without_clusters(atoms)
    cells = chance.score_cells(bare, table.bins)
    families: dict[str, list[ht.NamedTest]] = {ht.OVERALL: [], ht.GROUPS: []}
    for size, test in group_tests(atoms, bare, everybody, cells, sizes, judged):
        family = ht.OVERALL if size.group == EVERYBODY else ht.GROUPS
        families[family].append((size.group.name, test))

    if not judged.too_few(everybody):
        slope = ht.slope_test(everybody)
        families[ht.OVERALL].append((ht.SLOPE, slope))
        repeated = CLUSTER in atoms.patterns.attributes
        if not repeated or everybody.n_clusters >= FEWEST_CLUSTERS:
            effect = repeat_effect(atoms) if effect is None else effect
            heavier = with_effect(bare, effect)
            families[ht.SHAPE] = ht.shape_tests(heavier, table.collection)

    largest = gap_test(cells, table, bare.patterns, bin_effects)
    gap_result = (largest.statistic, largest.p_value)
    families[ht.CELLS] = [(ht.CATEGORIES, gap_result)]
    known = {}
    for family, tests in families.items():
        known[family] = [(name, (z, p)) for name, (z, p) in tests if not np.isnan(p)]
    shares = ht.shares_for(everybody)
    return ht.adjust(known, shares), largest.limit


def errors_found_in(data: FittingData, settings: Settings) -> FoundErrors:
    """What an audit with the settings of a fit would find in the data of the fit."""
    rows = data.rows
    bins = data.bins
    min_share = category_min_share(settings.alpha, settings.gamma, bins)
    table = categories(
        data.atoms, data.collection, bins, min_share=min_share, inside=data.inside
    )
    people = chance.different_people(rows, table)
    effects = chance.design_effect(rows, bins)
    enough = chance.enough_people(people, table.people, effects, MIN_PEOPLE)
    table = replace(table, eligible=table.eligible & enough)

    groups = settings.definition()
    everybody = Sample.of(rows)
    sizes = audited_groups(data.atoms, groups)
    judged = JudgedGroups.of(data.atoms)
    tests, limit = decide(
        rows,
        everybody,
        table,
        sizes,
        judged,
        effects,
        data.effect,
    )
    rejected = [test for test in tests if test.rejected]
    rejected.sort(key=lambda test: test.adjusted_p)
    found = [test.test for test in rejected]
    overall = EVERYBODY.name in found or ht.SLOPE in found
    # these regions leave nothing to chance, so that there is no test
    certain = any(certain_regions(data.atoms))
    if certain:
        found.append(CERTAIN)
    return FoundErrors(bool(tests), tuple(found), overall, limit, certain)


def group_tests(
    atoms: Atoms,
    bare: Atoms,
    everybody: Sample,
    cells: chance.ScoreCells,
    sizes: Sequence[GroupSize],
    judged: JudgedGroups,
) -> list[tuple[GroupSize, ht.TestResult]]:
    """Each group that is large enough, with the standardised excess of its events and
    the p-value.
    """
    groups = [size.group for size in sizes]
    inside = membership(groups, bare.patterns)
    sums = _GroupSums(inside)
    positives = sums(bare.pattern_sums(bare.positives))
    chosen = _tested_groups(bare, sums, cells, sizes, judged)
    repeated = bare is not atoms
    if repeated:
        chosen_groups = [sizes[i].group for i in chosen]
        clustered = membership(chosen_groups, atoms.patterns)
        pattern_of_atom = atoms.pattern_index()

    tests = []
    for place, i in enumerate(chosen):
        members = inside[i][cells.pattern]
        if repeated:
            atoms_inside = clustered[place][pattern_of_atom]
            sample = everybody.where(atoms_inside)
            test = ht.clustered_p_value(cells, members, sample, everybody)
        else:
            exact = len(chosen) <= MANY_GROUPS
            events = float(positives[i])
            test = ht.group_p_value(cells, members, events, exact=exact)
        tests.append((sizes[i], test))
    return tests


class _GroupSums:
    """Adds up columns over the patterns of each group."""

    def __init__(self, inside: BoolArray) -> None:
        self.n_groups = len(inside)
        self.group, self.pattern = np.nonzero(inside)

    def __call__(self, of_pattern: SumArray) -> FloatArray:
        column = np.asarray(of_pattern, dtype=np.float64)
        sums = np.bincount(self.group, column[self.pattern], self.n_groups)
        return np.asarray(sums, dtype=np.float64)


def _tested_groups(
    atoms: Atoms,
    sums: _GroupSums,
    cells: chance.ScoreCells,
    sizes: Sequence[GroupSize],
    judged: JudgedGroups,
) -> list[int]:
    """The places of the groups that count, and are large enough to be tested."""
    people_of_pattern = atoms.pattern_sums(atoms.people)
    people = sums(people_of_pattern).astype(int)
    weight = sums(atoms.pattern_sums(atoms.weight))
    squares = sums(atoms.pattern_sums(atoms.weight_sq))
    effective = ratio(weight**2, squares, 0.0)
    score_sums = cells.weight * cells.score
    expected_of_pattern = np.bincount(cells.pattern, score_sums, len(atoms.patterns))
    expected = sums(expected_of_pattern)

    columns = (people, effective, expected, weight)
    numbers = zip(*(column.tolist() for column in columns))
    chosen = []
    for i, (size, numbers_of_group) in enumerate(zip(sizes, numbers)):
        # a group of everybody is tested once, as everybody
        duplicate = size.group.conditions and size.people >= atoms.n_people
        if size.left_out or duplicate or judged.too_few_of(*numbers_of_group):
            continue
        chosen.append(i)
    return chosen

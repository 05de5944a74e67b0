"""Is the score miscalibrated? One set of tests, one null model, one level: for the audit and for the fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from propcal.auditing.chance import ScoreCells, design_effect, different_people, enough_people, score_cells
from propcal.auditing.gap_test import NOT_TESTED, GapTest, gap_test
from propcal.auditing.hypothesis_tests import (
    CATEGORIES,
    CELLS,
    GROUPS,
    OVERALL,
    SHAPE,
    SLOPE,
    CalibrationTest,
    NamedTest,
    adjust,
    clustered_p_value,
    group_p_value,
    slope_test,
)
from propcal.auditing.profile import EVERYBODY, JudgedGroups, audited_groups
from propcal.auditing.sample import FEWEST_CLUSTERS, Sample
from propcal.auditing.shape_tests import shape_tests
from propcal.core.atoms import Atoms
from propcal.core.boosting.found_errors import FoundErrors
from propcal.core.boosting.repeat_effect import repeat_effect, with_effect
from propcal.core.categories import Categories
from propcal.core.grid import FloatArray
from propcal.core.groups.collection import GroupSize, membership
from propcal.core.reduction import CLUSTER, without_clusters
from propcal.metrics import CategoryRule

if TYPE_CHECKING:
    from propcal.core.boosting.boost import Settings  # which imports numba; an audit does not need it

MANY = 200  # groups; of more, those that are as expected get no exact p-value
MIN_PEOPLE, MIN_GROUP, MIN_EVENTS = 30, 50, 10  # what a cell and a group need to be tested, by default


@dataclass(frozen=True, eq=False)
class Decision:
    """The tests, the gap in standard errors that few perfect scores exceed, and the cells tested."""

    tests: tuple[CalibrationTest, ...]
    limit: float

    @property
    def rejected(self) -> tuple[str, ...]:
        """The names of the tests that found an error, the most significant first."""
        found = sorted((test for test in self.tests if test.rejected), key=lambda test: test.adjusted_p)
        return tuple(test.test for test in found)


def decide(
    atoms: Atoms,
    everybody: Sample,
    table: Categories,
    sizes: Sequence[GroupSize],
    judged: JudgedGroups,
    min_people: int,
) -> Decision:
    """Test everything, from atoms that may have clusters of repeated people, and the sample of them all."""
    bare = without_clusters(atoms)
    cells = score_cells(bare, table.bins)
    repeated = CLUSTER in atoms.patterns.attributes
    families: dict[str, list[NamedTest]] = {OVERALL: [], GROUPS: []}
    for size, test in _group_tests(atoms, bare, cells, sizes, judged):
        families[OVERALL if size.group == EVERYBODY else GROUPS].append((size.group.name, test))
    if not judged.too_few_of(bare.n_people, *_expected(bare)):
        families[OVERALL].append((SLOPE, slope_test(everybody)))
        if not repeated or everybody.n_clusters >= FEWEST_CLUSTERS:
            families[SHAPE] = shape_tests(with_effect(bare, repeat_effect(atoms)), table.collection)
    largest = _gap_test(atoms, bare, cells, table, min_people)
    families[CELLS] = [(CATEGORIES, largest[:2])]
    known = {family: [t for t in tests if not np.isnan(t[1][1])] for family, tests in families.items()}
    return Decision(tuple(adjust(known)), largest.limit)


def errors_found_in(atoms: Atoms, settings: Settings, everybody: Sample | None = None) -> FoundErrors:
    """What an audit with the settings of a fit would find in the data of the fit."""
    everybody = Sample.of(atoms) if everybody is None else everybody
    bare = without_clusters(atoms)
    rule = CategoryRule(
        alpha=settings.alpha,
        gamma=settings.gamma,
        rho=settings.rho,
        n_bins=settings.n_bins,
        binning=settings.binning,
        groups=settings.definition(),
    )
    judged = JudgedGroups(MIN_GROUP, MIN_EVENTS, float(bare.positives.sum() / bare.weight.sum()))
    decision = decide(
        atoms,
        everybody,
        rule.table(bare, or_everybody=True),
        audited_groups(bare, rule.words()),
        judged,
        MIN_PEOPLE,
    )
    found = decision.rejected
    overall = EVERYBODY.name in found or SLOPE in found
    return FoundErrors(bool(decision.tests), found, overall, decision.limit)


def _expected(atoms: Atoms) -> tuple[float, float]:
    """The number of events that the score expects, and the sum of the weights."""
    expected = np.sum(atoms.weight * (atoms.score / 2.0**32))
    return float(expected), float(atoms.weight.sum())


def _group_tests(
    atoms: Atoms, bare: Atoms, cells: ScoreCells, sizes: Sequence[GroupSize], judged: JudgedGroups
) -> list[tuple[GroupSize, tuple[float, float]]]:
    """Each group that is large enough, with the standardised excess of its events and the p-value."""
    inside = membership([size.group for size in sizes], bare.patterns)
    group, pattern = np.nonzero(inside)
    by_pattern = (
        *(bare.pattern_sums(column) for column in (bare.people, bare.positives, bare.weight)),
        np.bincount(cells.pattern, cells.weight * cells.score, len(bare.patterns)),
    )
    people, positives, weight, expected = (
        np.bincount(group, np.asarray(column, dtype=np.float64)[pattern], len(sizes)) for column in by_pattern
    )
    chosen = [
        i
        for i, size in enumerate(sizes)
        if not size.left_out and not judged.too_few_of(int(people[i]), float(expected[i]), float(weight[i]))
    ]
    if any(sizes[i].people == bare.n_people for i in chosen[1:]):
        chosen = chosen[1:]  # a group of everybody is tested once
    found = []
    clustered = membership([sizes[i].group for i in chosen], atoms.patterns) if bare is not atoms else None
    for place, i in enumerate(chosen):
        if clustered is None:
            exact = len(chosen) <= MANY
            test = group_p_value(cells, inside[i][cells.pattern], float(positives[i]), exact=exact)
        else:
            test = clustered_p_value(Sample.of(atoms, np.flatnonzero(clustered[place])))
        found.append((sizes[i], test))
    return found


def _gap_test(atoms: Atoms, bare: Atoms, cells: ScoreCells, table: Categories, min_people: int) -> GapTest:
    effect: FloatArray | None = design_effect(atoms, table.bins)
    if effect is None:
        return NOT_TESTED
    enough = enough_people(different_people(atoms, table), table.people, effect, min_people)
    return gap_test(cells, replace(table, eligible=table.eligible & enough), bare.patterns, effect)

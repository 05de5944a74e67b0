"""Counts over time: people, outcomes and scores of each group and period, in narrow ranges of the score."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from propcal.core.atoms import Atoms
from propcal.core.bins import Bins
from propcal.core.categories import bucket_sums
from propcal.core.grid import UNIT, BoolArray, FloatArray, IntArray, from_grid, to_grid
from propcal.core.groups.collection import Group, membership
from propcal.core.patterns import PERIOD

PARTS = 4  # of each bin
# cuts between low scores, and between high ones, where log-odds change fast
TAILS = (0.0005, 0.001, 0.002, 0.004, 0.007, 0.0125, 0.025)


@dataclass(frozen=True, eq=False)
class GroupMonths:
    """Sums of shape (periods, groups, ranges); `bin_of` has the bin of each range, `ends` the ends of all.

    `score_positives` and `score_square`, of shape (periods, groups), are sums of scores of people with the
    outcome and of squared scores, from which standard errors are computed.

    Within a range everybody is taken at the range's mean score. Log-likelihood ratios of tilted scores are
    then a little too small, never too large (Jensen's inequality), so that tests remain valid.
    """

    periods: tuple[str, ...]
    groups: tuple[Group, ...]
    bin_of: IntArray
    ends: FloatArray
    people: FloatArray
    positives: FloatArray
    score: FloatArray
    score_positives: FloatArray
    score_square: FloatArray

    @classmethod
    def of(
        cls, atoms: Atoms, groups: Sequence[Group], bins: Bins, inside: BoolArray | None = None
    ) -> GroupMonths:
        """Add up atoms with periods; `inside` has the patterns of each group, if not all of its own."""
        fine = evidence_ranges(bins)
        place = atoms.patterns.attributes.index(PERIOD)
        periods = tuple(str(level) for level in atoms.patterns.levels[place])
        of_pattern = atoms.patterns.table[:, place]
        chosen = (membership(groups, atoms.patterns) if inside is None else inside).astype(np.float64)
        score = from_grid(atoms.score)

        def by_period(sums: Any) -> FloatArray:
            table = np.zeros((len(periods), len(groups), *sums.shape[1:]))
            for t in range(len(periods)):
                rows = of_pattern == t
                table[t] = chosen[:, rows] @ sums[rows]
            return table

        columns = (atoms.people, atoms.positives, atoms.weight * atoms.score)
        people, positives, units = (by_period(bucket_sums(atoms, fine, column)) for column in columns)
        squares = (atoms.positives * score, atoms.weight * score**2)
        return cls(
            periods,
            tuple(groups),
            bins.index(fine.edges[:-1]),
            from_grid(fine.edges),
            people,
            positives,
            units / UNIT,
            *(by_period(atoms.pattern_sums(column)) for column in squares),
        )

    @property
    def n_bins(self) -> int:
        """How many bins the ranges are parts of."""
        return int(self.bin_of[-1]) + 1

    @cached_property
    def mean(self) -> FloatArray:
        """Mean score of each range; 0 where nobody is."""
        nobody = np.zeros(self.people.shape)
        ratio = np.divide(self.score, self.people, out=nobody, where=self.people > 0)
        return np.clip(ratio, 0.0, 1.0)

    def by_bin(self, values: FloatArray) -> FloatArray:
        """Add up the ranges (last axis) of each bin."""
        first = np.flatnonzero(np.concatenate([[True], np.diff(self.bin_of) > 0]))
        return np.asarray(np.add.reduceat(values, first, axis=-1))


def evidence_ranges(bins: Bins) -> Bins:
    """Every bin cut into a few parts, and more of them near 0 and 1."""
    steps = np.diff(bins.edges)[:, None] * np.arange(PARTS) // PARTS
    tails = to_grid(np.array([*TAILS, *(1 - cut for cut in TAILS)]))
    edges = np.unique(np.concatenate([(bins.edges[:-1, None] + steps).ravel(), tails, [UNIT]]))
    return Bins(edges.astype(np.int64), bins.kind, bins.divisor)

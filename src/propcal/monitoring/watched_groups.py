"""Watched groups: which groups are tested over time, their share of the 5 %, and their
counts by period.

People, outcomes and scores of each group and period are added up in narrow ranges of
the score.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from propcal.core.atoms import Atoms
from propcal.core.bins import Bins
from propcal.core.categories import bucket_sums
from propcal.core.grid import (
    UNIT,
    BoolArray,
    FloatArray,
    IntArray,
    from_grid,
    ratio,
    to_grid,
)
from propcal.core.groups import MISSING, Group, Groups, membership
from propcal.core.patterns import PERIOD
from propcal.core.reduction import without_keys

# the share of groups that are there from the start; groups that come later share the
# rest
FOUNDERS = 0.9
TESTS = {"level": 0.8, "slope": 0.1, "cells": 0.1}  # what each kind of test may spend
CHANGE_TESTS = {
    "level": 0.85,
    "cells": 0.15,
}  # the same where an earlier period is the reference
PARTS = 4  # of each bin
# cuts between low scores, and between high ones, where log-odds change fast
TAILS = (0.0005, 0.001, 0.002, 0.004, 0.007, 0.0125, 0.025)


@dataclass(frozen=True)
class WatchedGroup:
    """A group, and the run in which it was first large enough: 0 for the groups of the
    first run.
    """

    group: Group
    later: int = 0


def watch(
    atoms: Atoms, words: Groups, gamma: float, known: Sequence[WatchedGroup]
) -> list[WatchedGroup]:
    """The groups to watch: those already watched, and others that are large enough by
    now, in order.

    Sizes alone decide, never outcomes, so that the choice cannot favour an alarm.
    """
    collection = words.collect(without_keys(atoms), gamma=gamma, or_everybody=True)
    seen = {one.group for one in known}
    later = max([one.later for one in known], default=-1)
    found = [Group(()), *(group for group in collection.groups if group.conditions)]
    new = [group for group in found if group not in seen]
    return [
        *known,
        *(
            WatchedGroup(group, later + 1 + i if known else 0)
            for i, group in enumerate(new)
        ),
    ]


def not_watched(
    atoms: Atoms, words: Groups, gamma: float, known: Sequence[WatchedGroup]
) -> list[Group]:
    """The groups that are not watched, because they have too small a share of all
    people.
    """
    sizes = words.sizes(without_keys(atoms), gamma=gamma)
    seen = {one.group for one in known}
    return [
        size.group
        for size in sizes
        if size.left_out not in ("", MISSING) and size.group not in seen
    ]


def stakes_of(watched: Sequence[WatchedGroup]) -> FloatArray:
    """The share of each group; all that ever come together have less than 1.

    >>> stakes_of([WatchedGroup(Group(())), WatchedGroup(Group((("sex", "F"),)), 1)]).round(3).tolist()
    [0.9, 0.05]
    """
    founders = sum(one.later == 0 for one in watched)
    of_later = [
        (1 - FOUNDERS) / (one.later * (one.later + 1)) if one.later else 0.0
        for one in watched
    ]
    return np.array([share or FOUNDERS / founders for share in of_later])


@dataclass(frozen=True, eq=False)
class PeriodCounts:
    """Sums of shape (periods, groups, ranges); `bin_of` has the bin of each range,
    `ends` the ends of all.

    Within a range everybody is taken at the range's mean score. Log-likelihood ratios
    of tilted scores are then a little too small, never too large (Jensen's inequality),
    so that tests remain valid.
    """

    periods: tuple[str, ...]
    groups: tuple[Group, ...]
    bin_of: IntArray
    ends: FloatArray
    people: FloatArray
    positives: FloatArray
    score: FloatArray

    @classmethod
    def of(
        cls,
        atoms: Atoms,
        groups: Sequence[Group],
        bins: Bins,
        inside: BoolArray | None = None,
    ) -> PeriodCounts:
        """Add up atoms with periods; `inside` has the patterns of each group, if not
        all of its own.
        """
        fine = evidence_ranges(bins)
        place = atoms.patterns.attributes.index(PERIOD)
        periods = tuple(str(level) for level in atoms.patterns.levels[place])
        of_pattern = atoms.patterns.table[:, place]
        chosen = (
            membership(groups, atoms.patterns) if inside is None else inside
        ).astype(np.float64)

        def by_period(sums: Any) -> FloatArray:
            table = np.zeros((len(periods), len(groups), *sums.shape[1:]))
            for t in range(len(periods)):
                rows = of_pattern == t
                table[t] = chosen[:, rows] @ sums[rows]
            return table

        columns = (atoms.people, atoms.positives, atoms.weight * atoms.score)
        people, positives, units = (
            by_period(bucket_sums(atoms, fine, column)) for column in columns
        )
        bin_of = bins.index(fine.edges[:-1])
        ends = from_grid(fine.edges)
        return cls(
            periods, tuple(groups), bin_of, ends, people, positives, units / UNIT
        )

    def one(self, group: int, first: int = 0) -> PeriodCounts:
        """The sums of one group (by number) from a period (by number) on."""
        parts = {
            name: getattr(self, name)[first:, [group]]
            for name in ("people", "positives", "score")
        }
        return replace(
            self, periods=self.periods[first:], groups=(self.groups[group],), **parts
        )

    @property
    def n_bins(self) -> int:
        """How many bins the ranges are parts of."""
        return int(self.bin_of[-1]) + 1

    @cached_property
    def mean(self) -> FloatArray:
        """Mean score of each range; 0 where nobody is."""
        return np.clip(ratio(self.score, self.people, 0.0), 0.0, 1.0)

    def by_bin(self, values: FloatArray) -> FloatArray:
        """Add up the ranges (last axis) of each bin."""
        first = np.flatnonzero(np.concatenate([[True], np.diff(self.bin_of) > 0]))
        return np.asarray(np.add.reduceat(values, first, axis=-1))


def evidence_ranges(bins: Bins) -> Bins:
    """Every bin cut into four parts, and more of them near 0 and 1.

    >>> from propcal.core.bins import uniform
    >>> edges = evidence_ranges(uniform(10)).edges / UNIT
    >>> edges[7:13].round(4).tolist(), edges[-4:].round(4).tolist()
    ([0.025, 0.05, 0.075, 0.1, 0.125, 0.15], [0.998, 0.999, 0.9995, 1.0])
    """
    return bins.cut(
        PARTS, to_grid(np.array([*TAILS, *(1 - cut for cut in TAILS)])).tolist()
    )

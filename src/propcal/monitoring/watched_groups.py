"""Watched groups: those tested over time, their share of the 5 %, and their counts.

People, outcomes and scores of each group and period are added up in narrow ranges of
the score.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

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
FOUNDERS_SHARE = 0.9
PARTS_OF_BIN = 4
# cuts between low scores, and between high ones, where log-odds change fast
TAIL_CUTS = (0.0005, 0.001, 0.002, 0.004, 0.007, 0.0125, 0.025)


@dataclass(frozen=True)
class WatchedGroup:
    """A group; `later` is 0 for the groups of the first run, and numbers those that
    were large enough only later.
    """

    group: Group
    later: int = 0


def watch(
    atoms: Atoms, definition: Groups, gamma: float, known: Sequence[WatchedGroup]
) -> list[WatchedGroup]:
    """The groups to watch: those already watched, and others that are large enough by
    now, in order.

    Sizes alone decide, never outcomes, so that the choice cannot favour an alarm.
    """
    collection = definition.collect(without_keys(atoms), gamma=gamma, or_everybody=True)
    large = [group for group in collection.groups if group.conditions]
    seen = {watched.group for watched in known}
    new = [group for group in (Group(()), *large) if group not in seen]
    if not known:
        return [WatchedGroup(group) for group in new]
    next_number = max(watched.later for watched in known) + 1
    later = [WatchedGroup(group, i) for i, group in enumerate(new, next_number)]
    return [*known, *later]


def not_watched(
    atoms: Atoms, definition: Groups, gamma: float, known: Sequence[WatchedGroup]
) -> list[Group]:
    """The groups that are not watched, because they have too small a share of all
    people.
    """
    seen = {watched.group for watched in known}
    small = []
    for size in definition.sizes(without_keys(atoms), gamma=gamma):
        if size.left_out not in ("", MISSING) and size.group not in seen:
            small.append(size.group)
    return small


def stakes_of(watched: Sequence[WatchedGroup]) -> FloatArray:
    """The share of each group; all that ever come together have less than 1.

    >>> sex = Group((("sex", "F"),))
    >>> stakes_of([WatchedGroup(Group(())), WatchedGroup(sex, 1)]).round(3).tolist()
    [0.9, 0.05]
    """
    later = np.array([each.later for each in watched])
    n_founders = int(np.count_nonzero(later == 0))
    of_founders = FOUNDERS_SHARE / max(n_founders, 1)
    of_later = (1 - FOUNDERS_SHARE) / np.maximum(later * (later + 1), 1)
    return np.where(later == 0, of_founders, of_later)


@dataclass(frozen=True, eq=False)
class Watching:
    """What is watched: groups, with their labels and their share of the 5 %, in risk
    ranges, compared with the periods of the reference, if there are any.
    """

    groups: tuple[Group, ...]
    labels: tuple[str, ...]
    stakes: FloatArray
    bins: Bins
    reference: tuple[str, ...]

    def only(self, number: int) -> Watching:
        """One of the groups alone."""
        return replace(
            self,
            groups=(self.groups[number],),
            labels=(self.labels[number],),
            stakes=self.stakes[[number]],
        )


class RangeCounts(NamedTuple):
    """People, events and sums of scores of one group, of shape (periods, ranges)."""

    people: FloatArray
    positives: FloatArray
    score: FloatArray


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
        if inside is None:
            inside = membership(groups, atoms.patterns)
        members = inside.astype(np.float64)
        ranges = evidence_ranges(bins)
        place = atoms.patterns.attributes.index(PERIOD)
        periods = tuple(str(level) for level in atoms.patterns.levels[place])
        of_pattern = atoms.patterns.table[:, place]

        def by_period(column: Any) -> FloatArray:
            of_patterns: Any = bucket_sums(atoms, ranges, column)
            n_ranges = of_patterns.shape[1]
            table = np.zeros((len(periods), len(groups), n_ranges))
            for t in range(len(periods)):
                rows = of_pattern == t
                table[t] = members[:, rows] @ of_patterns[rows]
            return table

        bin_of = bins.index(ranges.edges[:-1])
        people = by_period(atoms.people)
        positives = by_period(atoms.positives)
        weighted_score = atoms.weight * atoms.score
        return cls(
            periods=periods,
            groups=tuple(groups),
            bin_of=bin_of,
            ends=from_grid(ranges.edges),
            people=people,
            positives=positives,
            score=by_period(weighted_score) / UNIT,
        )

    def one(self, group: int, first: int = 0) -> PeriodCounts:
        """The sums of one group (by number) from a period (by number) on."""
        people = self.people[first:, [group]]
        positives = self.positives[first:, [group]]
        score = self.score[first:, [group]]
        return replace(
            self,
            periods=self.periods[first:],
            groups=(self.groups[group],),
            people=people,
            positives=positives,
            score=score,
        )

    def of_group(self, group: int, inside: Any = slice(None)) -> RangeCounts:
        """The sums of one group (by number) in some ranges."""
        people = self.people[:, group]
        positives = self.positives[:, group]
        score = self.score[:, group]
        return RangeCounts(people[:, inside], positives[:, inside], score[:, inside])

    def among(self, periods: Sequence[str]) -> BoolArray:
        """Which periods are among these."""
        is_among = [period in periods for period in self.periods]
        return np.array(is_among, dtype=np.bool_)

    @property
    def n_bins(self) -> int:
        """How many bins the ranges are parts of."""
        return int(self.bin_of[-1]) + 1

    @cached_property
    def mean(self) -> FloatArray:
        """Mean score of each range; 0 where nobody is."""
        mean = ratio(self.score, self.people, 0.0)
        return np.clip(mean, 0.0, 1.0)

    def by_bin(self, values: FloatArray) -> FloatArray:
        """Add up the ranges (last axis) of each bin."""
        is_later_first = np.diff(self.bin_of) > 0
        is_first = np.concatenate([[True], is_later_first])
        first = np.flatnonzero(is_first)
        return np.asarray(np.add.reduceat(values, first, axis=-1))


def evidence_ranges(bins: Bins) -> Bins:
    """Every bin cut into four parts, and into more near 0 and 1.

    >>> from propcal.core.bins import uniform
    >>> edges = evidence_ranges(uniform(10)).edges / UNIT
    >>> edges[7:13].round(4).tolist(), edges[-4:].round(4).tolist()
    ([0.025, 0.05, 0.075, 0.1, 0.125, 0.15], [0.998, 0.999, 0.9995, 1.0])
    """
    low_cuts = np.array(TAIL_CUTS)
    cuts = to_grid(np.concatenate([low_cuts, 1 - low_cuts]))
    return bins.cut(PARTS_OF_BIN, cuts.tolist())

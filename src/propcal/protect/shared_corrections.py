"""Prepare a correction for sharing with another site: leave out what few people
determine, round the rest.

The shift of an update is the gap of a category, (outcomes - sum of scores) / people. If
the scores are round numbers, an exact shift is a fraction whose denominator reveals the
number of people. A shared correction therefore leaves out shifts that fewer than 11
people determine, and rounds all others to a multiple of at least 1 / people. One
outcome more or less then changes the shift by no more than the rounding does, so that
it fits other numbers of people as well as the true one.

A fit counts the fewest different people behind each of its numbers. To a reader who
looks for a person, all rows of that person are one person, and so is a row that counts
several times. If patient IDs are known (hashed into clusters), different clusters are
different people. If rows are weighted, there is at least one person for each
combination of attributes, score and outcome.

This protects people in one shared correction. Two of them, fitted with and without a
person, tell that person's outcome by their difference.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from propcal.core.arguments import FEWEST_SHOWN
from propcal.core.atoms import Atoms
from propcal.core.bins import Bins
from propcal.core.correction.smooth_map import SHIFT_UNIT, SmoothStart
from propcal.core.correction.traced_steps import traced_updates
from propcal.core.grid import UNIT, BoolArray, IntArray
from propcal.core.groups import Group, membership
from propcal.core.patterns import CLUSTER, Level, Patterns, patterns_of, sort_levels
from propcal.core.reduction import fewer_attributes
from propcal.errors import refused

if TYPE_CHECKING:
    from propcal.core.correction.correction import Correction

FINEST_BITS = 10  # no shared shift is finer than 2**-10
LEFT_OUT = -1
_GRID_BITS = UNIT.bit_length() - 1


@dataclass(frozen=True, eq=False)
class Sharing:
    """What a shared correction leaves out and how coarsely it rounds the rest. It
    contains no counts.

    Attributes
    ----------
    patterns, groups : arrays of bool
        Whether each of them has at least 11 people.
    update_bits, start_bits : arrays of int64
        The number of binary digits that are kept of each update's shift, and of each
        term's shifts in the recalibration; -1 leaves it out.
    """

    patterns: BoolArray
    groups: BoolArray
    update_bits: IntArray
    start_bits: IntArray


def sharing_of(
    atoms: Atoms,
    groups: Sequence[Group],
    bins: Bins,
    start: SmoothStart | None,
    updates: IntArray,
) -> Sharing:
    """Decide from the people behind each number of a fit; `updates` have the weight
    that each moved.

    Where rows are not all of different people, the people behind the updates are
    counted.
    """
    behind = PeopleBehind(atoms)
    moved = updates[:, 3]
    if 0 < atoms.weighted_rows < atoms.n_people or behind.clustered:
        moved = np.minimum(moved, behind.in_updates(groups, bins, updates, start))
    return Sharing(
        behind.in_patterns() >= FEWEST_SHOWN,
        behind.in_groups(groups) >= FEWEST_SHOWN,
        shared_bits(moved),
        shared_bits(behind.in_terms(start)),
    )


def shared_bits(people: IntArray) -> IntArray:
    """The number of binary digits to keep of a shift, so that it is rounded to at least
    1 / people.

    -1 leaves the shift out.

    >>> shared_bits(np.array([10, 11, 16, 100, 5000])).tolist()
    [-1, 3, 4, 6, 10]
    """
    bits = np.minimum(
        np.floor(np.log2(np.maximum(people, 1))).astype(np.int64), FINEST_BITS
    )
    return np.where(people < FEWEST_SHOWN, LEFT_OUT, bits)


def shared(correction: Correction) -> Correction:
    """The correction in the form that may be shared, once: a second one of nearly the
    same people may not.
    """
    if correction.is_shared:
        return correction
    sharing = correction.sharing
    if correction.points is not None:
        raise refused("share points")
    if sharing is None:
        raise refused("share from a file")
    groups = tuple(
        group for group, kept in zip(correction.groups, sharing.groups) if kept
    )
    start = _rounded_start(correction.start, sharing.start_bits)
    about = {
        name: value for name, value in correction.about.items() if name != "fingerprint"
    }
    if isinstance(about.get("guard"), float):
        about["guard"] = round(about["guard"], 2)
    return replace(
        correction,
        patterns=_common_patterns(
            correction.patterns,
            sharing.patterns,
            (*groups, *(start.groups if start else ())),
        ),
        groups=groups or (Group(()),),
        bins=_rounded_bins(correction.bins),
        updates=_rounded_updates(correction.updates, sharing),
        start=start,
        about={**about, "shared": True},
        sharing=None,
    )


def _round(values: IntArray, bits: IntArray, unit_bits: int) -> IntArray:
    """Round integers in units of 2**-unit_bits to multiples of 2**-bits, halves
    upwards.
    """
    step = np.int64(1) << (unit_bits - np.maximum(bits, 0))
    return np.asarray((values + step // 2) // step * step)


def _rounded_updates(updates: IntArray, sharing: Sharing) -> IntArray:
    """The updates that at least 11 people determine, rounded; those that round to zero
    are dropped.
    """
    number = (
        np.cumsum(sharing.groups) - 1
    )  # index of each group among those that are kept
    shift = _round(updates[:, 2], sharing.update_bits, _GRID_BITS)
    kept = (sharing.update_bits != LEFT_OUT) & (shift != 0)
    return np.stack(
        [number[updates[kept, 0]], updates[kept, 1], shift[kept]], axis=1
    ).reshape(-1, 3)


def _rounded_start(start: SmoothStart | None, bits: IntArray) -> SmoothStart | None:
    """The terms of the recalibration, rounded; those that fewer than 11 people
    determine are left out.
    """
    if start is None:
        return None
    shifts = _round(start.shifts, bits[:, None], SHIFT_UNIT.bit_length() - 1)
    left = np.flatnonzero(shifts.any(axis=1) & (bits != LEFT_OUT))
    if len(left):
        return SmoothStart(tuple(start.groups[t] for t in left), shifts[left])
    return None


def _rounded_bins(bins: Bins) -> Bins:
    """Round the edges of quantile bins, which are scores of single people, while they
    stay distinct.
    """
    if bins.kind != "quantile":
        return bins
    for bits in range(FINEST_BITS, _GRID_BITS):
        edges = _round(bins.edges, np.int64(bits), _GRID_BITS)  # type: ignore[arg-type]  # one for all
        if np.all(np.diff(edges) > 0):
            return replace(bins, edges=edges)
    return bins


def _common_patterns(
    patterns: Patterns, common: BoolArray, groups: tuple[Group, ...]
) -> Patterns:
    """The patterns of at least 11 people, and further rows so that every level used by
    a group is listed.

    A group may be large although each of its patterns is small. Its level is then
    listed in one added row, built from levels that the file shows anyway, whether or
    not anyone had that combination.
    """
    rows = [patterns.key(int(p)) for p in np.flatnonzero(common)]
    needed = dict.fromkeys(
        condition for group in groups for condition in group.conditions
    )
    first: dict[str, Level] = {}
    for name, level in needed:
        first.setdefault(name, level)
    if rows:
        base = rows[0]
    else:
        base = tuple(first.get(name) for name in patterns.attributes)
    rows = rows or [base]
    for name, level in needed:
        a = patterns.attributes.index(name)
        if all(row[a] != level for row in rows):
            rows.append((*base[:a], level, *base[a + 1 :]))
    levels = tuple(
        sort_levels([*{row[a] for row in rows}])
        for a in range(len(patterns.attributes))
    )
    codes = [
        np.array([known.index(row[a]) for row in rows])
        for a, known in enumerate(levels)
    ]
    return patterns_of(patterns.attributes, levels, codes, len(rows), patterns.derived)[
        0
    ]


class PeopleBehind:
    """How many people each number of a fit comes from, at least: clusters if patient
    IDs are known.
    """

    def __init__(self, atoms: Atoms) -> None:
        names = atoms.patterns.attributes
        self.atoms = atoms
        self.patterns = atoms.patterns
        self.clustered = CLUSTER in names
        self.weighted = atoms.frequencies and 0 < atoms.weighted_rows < atoms.n_people
        if self.clustered:
            self.patterns, self.code = fewer_attributes(
                atoms, [name for name in names if name != CLUSTER]
            )
            self.cluster = atoms.patterns.table[
                atoms.pattern_index(), names.index(CLUSTER)
            ]
            self.by_pattern = np.zeros(
                (len(self.patterns), int(self.cluster.max()) + 1), dtype=np.int64
            )
            self.by_pattern[self.code, self.cluster] = (
                1  # which clusters each pattern occurs in
            )
        else:
            self.people = atoms.people
            if self.weighted:
                self.people = (atoms.positives > 0).astype(np.int64) + (
                    atoms.positives < atoms.weight
                )
            self.by_pattern = np.asarray(atoms.pattern_sums(self.people))[
                :, None
            ].astype(np.int64)

    def in_patterns(self) -> IntArray:
        """The fewest people with each pattern."""
        return np.asarray(self.by_pattern.sum(axis=1))

    def in_groups(self, groups: Sequence[Group]) -> IntArray:
        """The fewest people in each group."""
        found = membership(groups, self.patterns).astype(np.int64) @ self.by_pattern
        return np.asarray(
            (np.minimum(found, 1) if self.clustered else found).sum(axis=1)
        )

    def in_terms(self, start: SmoothStart | None) -> IntArray:
        """The fewest people behind each term of the recalibration: a level of 0 or 1 is
        theirs alone.
        """
        if start is None:
            return np.empty(0, dtype=np.int64)
        found = self.in_groups(start.groups)
        for knot, score in ((0, 0), (-1, UNIT)):
            everybody = [not group.conditions for group in start.groups]
            level = everybody & (start.shifts[:, knot] != 0)
            found[level] = np.minimum(
                found[level], self._among(np.flatnonzero(self.atoms.score == score))
            )
        return found

    def _among(self, who: IntArray) -> int:
        if self.clustered:
            return len(np.unique(self.cluster[who]))
        return int(self.people[who].sum())

    def in_updates(
        self,
        groups: Sequence[Group],
        bins: Bins,
        updates: IntArray,
        start: SmoothStart | None,
    ) -> IntArray:
        """The fewest people that each update moved, in the order of a fit."""
        code = (self.code if self.clustered else self.atoms.pattern_index()).astype(
            np.int64
        )
        if start is None:
            score = self.atoms.score
        else:
            score = start.apply(self.atoms.score, code, self.patterns)
        counted = np.zeros(len(updates), dtype=np.int64)
        inside = membership(groups, self.patterns)
        traced = traced_updates(score.copy(), code, inside, updates, bins.edges)
        for u, who, *_ in traced:
            counted[u] = self._among(who)
        return counted

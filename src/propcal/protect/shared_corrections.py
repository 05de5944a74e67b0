"""Corrections for another site: what few people determine is left out or rounded.

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
person, reveal that person's outcome by their difference.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import compress
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
GUARD_DIGITS = 2
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
        in_updates = behind.in_updates(groups, bins, updates, start)
        moved = np.minimum(moved, in_updates)
    enough_in_patterns = behind.in_patterns() >= FEWEST_SHOWN
    enough_in_groups = behind.in_groups(groups) >= FEWEST_SHOWN
    return Sharing(
        enough_in_patterns,
        enough_in_groups,
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
    log_people = np.log2(np.maximum(people, 1))
    bits = np.floor(log_people).astype(np.int64)
    bits_kept = np.minimum(bits, FINEST_BITS)
    return np.where(people < FEWEST_SHOWN, LEFT_OUT, bits_kept)


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
    groups = tuple(compress(correction.groups, sharing.groups))
    start = _rounded_start(correction.start, sharing.start_bits)
    named_groups = groups if start is None else groups + start.groups
    patterns = _common_patterns(correction.patterns, sharing.patterns, named_groups)
    about = dict(correction.about)
    about.pop("fingerprint", None)
    if isinstance(about.get("guard"), float):
        about["guard"] = round(about["guard"], GUARD_DIGITS)
    bins = _rounded_bins(correction.bins)
    updates = _rounded_updates(correction.updates, sharing)
    return replace(
        correction,
        patterns=patterns,
        groups=groups or (Group(()),),
        bins=bins,
        updates=updates,
        start=start,
        about={**about, "shared": True},
        sharing=None,
    )


def _round(values: IntArray, bits: IntArray, unit_bits: int) -> IntArray:
    """Round integers in units of 2**-unit_bits to multiples of 2**-bits, halves
    upwards.
    """
    dropped_bits = unit_bits - np.maximum(bits, 0)
    step = np.int64(1) << dropped_bits
    n_steps = (values + step // 2) // step
    return np.asarray(n_steps * step)


def _rounded_updates(updates: IntArray, sharing: Sharing) -> IntArray:
    """The updates that at least 11 people determine, rounded; those that round to zero
    are dropped.
    """
    group, bin_index, exact_shift, *_ = updates.T
    shift = _round(exact_shift, sharing.update_bits, _GRID_BITS)
    place = np.cumsum(sharing.groups) - 1  # of each group among those that are kept
    kept = (sharing.update_bits != LEFT_OUT) & (shift != 0)
    columns = [place[group[kept]], bin_index[kept], shift[kept]]
    return np.stack(columns, axis=1).reshape(-1, 3)


def _rounded_start(start: SmoothStart | None, bits: IntArray) -> SmoothStart | None:
    """The terms of the recalibration, rounded; those that fewer than 11 people
    determine are left out.
    """
    if start is None:
        return None
    unit_bits = SHIFT_UNIT.bit_length() - 1
    shifts = _round(start.shifts, bits[:, None], unit_bits)
    any_shift = shifts.any(axis=1)
    kept = np.flatnonzero(any_shift & (bits != LEFT_OUT))
    if len(kept):
        return SmoothStart(tuple(start.groups[term] for term in kept), shifts[kept])
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
    names = patterns.attributes
    needed: dict[tuple[str, Level], None] = {}
    for group in groups:
        needed |= dict.fromkeys(group.conditions)
    rows = [patterns.key(int(p)) for p in np.flatnonzero(common)]
    if not rows:
        first: dict[str, Level] = {}
        for name, level in needed:
            first.setdefault(name, level)
        rows = [tuple(first.get(name) for name in names)]
    base = rows[0]
    for name, level in needed:
        a = names.index(name)
        if all(row[a] != level for row in rows):
            rows.append((*base[:a], level, *base[a + 1 :]))

    levels = []
    codes = []
    for column in zip(*rows):
        listed = sort_levels([*set(column)])
        levels.append(listed)
        codes.append(np.array([listed.index(level) for level in column]))
    built, _ = patterns_of(names, tuple(levels), codes, len(rows), patterns.derived)
    return built


class PeopleBehind:
    """How many people each number of a fit comes from, at least: clusters if patient
    IDs are known.
    """

    def __init__(self, atoms: Atoms) -> None:
        names = atoms.patterns.attributes
        self.atoms = atoms
        self.clustered = CLUSTER in names
        pattern = atoms.pattern_index()
        if self.clustered:
            others = [name for name in names if name != CLUSTER]
            self.patterns, self.code = fewer_attributes(atoms, others)
            self.cluster = atoms.patterns.table[pattern, names.index(CLUSTER)]
            n_clusters = int(self.cluster.max()) + 1
            occurs = np.zeros((len(self.patterns), n_clusters), dtype=np.int64)
            occurs[self.code, self.cluster] = 1
            self.by_pattern = occurs
        else:
            self.patterns = atoms.patterns
            self.code = pattern
            self.people = atoms.people
            if atoms.frequencies and 0 < atoms.weighted_rows < atoms.n_people:
                with_outcome = (atoms.positives > 0).astype(np.int64)
                self.people = with_outcome + (atoms.positives < atoms.weight)
            people = np.asarray(atoms.pattern_sums(self.people))
            self.by_pattern = people[:, None].astype(np.int64)

    def in_patterns(self) -> IntArray:
        """The fewest people with each pattern."""
        return np.asarray(self.by_pattern.sum(axis=1))

    def in_groups(self, groups: Sequence[Group]) -> IntArray:
        """The fewest people in each group."""
        inside = membership(groups, self.patterns).astype(np.int64)
        people = inside @ self.by_pattern
        if self.clustered:
            people = np.minimum(people, 1)
        return np.asarray(people.sum(axis=1))

    def in_terms(self, start: SmoothStart | None) -> IntArray:
        """The fewest people behind each term of the recalibration: a level of 0 or 1 is
        theirs alone.
        """
        if start is None:
            return np.empty(0, dtype=np.int64)
        people = self.in_groups(start.groups)
        of_everybody = np.array([not group.conditions for group in start.groups])
        for knot, score in ((0, 0), (-1, UNIT)):
            scored = np.flatnonzero(self.atoms.score == score)
            with_score = self._among(scored)
            shifted = start.shifts[:, knot] != 0
            level = of_everybody & shifted
            people[level] = np.minimum(people[level], with_score)
        return people

    def _among(self, who: IntArray) -> int:
        """How many people these atoms have, at least."""
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
        code = self.code.astype(np.int64)
        score = self.atoms.score
        if start is not None:
            score = start.apply(score, code, self.patterns)
        people = np.zeros(len(updates), dtype=np.int64)
        inside = membership(groups, self.patterns)
        traced = traced_updates(score.copy(), code, inside, updates, bins.edges)
        for update, moved, *_ in traced:
            people[update] = self._among(moved)
        return people

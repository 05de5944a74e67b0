"""Sharing: what of a correction may be handed to another site, decided where its people are counted.

An update's shift is the gap of a category, (outcomes - sum of scores) / people. Written exactly, and with
scores that are round, it is a fraction whose denominator can be found: the number of people. So a shared
correction leaves out what fewer than 11 people decided, and rounds every other shift to a step of at least
1 / people. One outcome more or less does not change such a number by more than its step: it is as likely
under any other number of people as under the true one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from propcal.core.bins import Bins
from propcal.core.correction.smooth_map import SHIFT_UNIT, SmoothStart
from propcal.core.grid import UNIT, BoolArray, IntArray
from propcal.core.groups.collection import Collection, Group, membership
from propcal.core.patterns import Level, Patterns, patterns_of, sort_levels
from propcal.errors import InputError

if TYPE_CHECKING:
    from propcal.core.atoms import Atoms
    from propcal.core.correction.correction import Correction

FEWEST_SHARED = 11
FINEST_BITS = 10  # no shared shift is finer than 2**-10
LEFT_OUT = -1
_GRID_BITS = UNIT.bit_length() - 1


@dataclass(frozen=True, eq=False)
class Sharing:
    """What a shared correction leaves out, and how coarsely it rounds. It holds no counts.

    Attributes
    ----------
    patterns, groups : arrays of bool
        Which of them at least 11 people have.
    update_bits, start_bits : arrays of int64
        To how many binary digits the shift of each update, of each term, is rounded; -1: left out.
    """

    patterns: BoolArray
    groups: BoolArray
    update_bits: IntArray
    start_bits: IntArray

    @classmethod
    def of_fit(
        cls, atoms: Atoms, collection: Collection, start: SmoothStart | None, people: IntArray
    ) -> Sharing:
        """What the counts of a fit decide; `people` are those of each update's category."""
        of_patterns: Any = atoms.pattern_sums(atoms.people)
        of_groups = np.array([size.people for size in collection.kept], dtype=np.int64)
        of_terms = np.empty(0, dtype=np.int64)
        if start is not None:
            of_terms = membership(start.groups, atoms.patterns) @ of_patterns
        return cls(
            of_patterns >= FEWEST_SHARED,
            of_groups >= FEWEST_SHARED,
            shared_bits(people),
            shared_bits(of_terms),
        )


def shared_bits(people: IntArray) -> IntArray:
    """How many binary digits of a shift are kept, so that its step is at least 1 / people; -1: none at all.

    >>> shared_bits(np.array([10, 11, 16, 100, 5000])).tolist()
    [-1, 3, 4, 6, 10]
    """
    bits = np.minimum(np.floor(np.log2(np.maximum(people, 1))).astype(np.int64), FINEST_BITS)
    return np.where(people < FEWEST_SHARED, LEFT_OUT, bits)


def shared(correction: Correction) -> Correction:
    """The correction as it may be handed on."""
    if correction.about.get("shared") is True:
        return correction
    sharing = correction.sharing
    if sharing is None:
        raise InputError(
            "a correction that was read from a file does not know how many people its numbers come from, so "
            "it cannot be made ready to share",
            argument="share",
            next_step="fit it again, and save it with share=True (propcal fit --share)",
        )
    groups = tuple(group for group, kept in zip(correction.groups, sharing.groups) if kept)
    start = _rounded_start(correction.start, sharing.start_bits)
    about = {name: value for name, value in correction.about.items() if name != "fingerprint"}
    if isinstance(about.get("guard"), float):
        about["guard"] = round(about["guard"], 2)
    return replace(
        correction,
        patterns=_common_patterns(
            correction.patterns, sharing.patterns, (*groups, *(start.groups if start else ()))
        ),
        groups=groups or (Group(()),),
        bins=_rounded_bins(correction.bins),
        updates=_rounded_updates(correction.updates, sharing),
        start=start,
        about={**about, "shared": True},
        sharing=None,
    )


def _round(values: IntArray, bits: IntArray, unit_bits: int) -> IntArray:
    """Whole numbers of 2**-unit_bits, to the nearest of 2**-bits; halves upwards."""
    step = np.int64(1) << (unit_bits - np.maximum(bits, 0))
    return np.asarray((values + step // 2) // step * step)


def _rounded_updates(updates: IntArray, sharing: Sharing) -> IntArray:
    """Those that 11 people or more decided, rounded; a shift that rounds to nothing is no update."""
    number = np.cumsum(sharing.groups) - 1  # of a group among those that are left
    shift = _round(updates[:, 2], sharing.update_bits, _GRID_BITS)
    kept = (sharing.update_bits != LEFT_OUT) & (shift != 0)
    return np.stack([number[updates[kept, 0]], updates[kept, 1], shift[kept]], axis=1).reshape(-1, 3)


def _rounded_start(start: SmoothStart | None, bits: IntArray) -> SmoothStart | None:
    """The terms, rounded; every one has 50 people or more, so that none is left out for its size."""
    if start is None:
        return None
    shifts = _round(start.shifts, bits[:, None], SHIFT_UNIT.bit_length() - 1)
    left = np.flatnonzero(shifts.any(axis=1) & (bits != LEFT_OUT))
    return SmoothStart(tuple(start.groups[t] for t in left), shifts[left]) if len(left) else None


def _rounded_bins(bins: Bins) -> Bins:
    """Edges of quantile bins are the scores of single people: rounded as far as they stay apart."""
    if bins.kind != "quantile":
        return bins
    for bits in range(FINEST_BITS, _GRID_BITS):
        edges = _round(bins.edges, np.int64(bits), _GRID_BITS)  # type: ignore[arg-type]  # one for all
        if np.all(np.diff(edges) > 0):
            return replace(bins, edges=edges)
    return bins


def _common_patterns(patterns: Patterns, common: BoolArray, groups: tuple[Group, ...]) -> Patterns:
    """The combinations that 11 people or more have, and what the levels of groups need to be known.

    A group may be large and each of its combinations small. Its level is then listed once, in a line that
    is made of what the file says anyway, whether or not somebody had that combination.
    """
    rows = [patterns.key(int(p)) for p in np.flatnonzero(common)]
    needed = dict.fromkeys(condition for group in groups for condition in group.conditions)
    first: dict[str, Level] = {}
    for name, level in needed:
        first.setdefault(name, level)
    base = rows[0] if rows else tuple(first.get(name) for name in patterns.attributes)
    rows = rows or [base]
    for name, level in needed:
        a = patterns.attributes.index(name)
        if all(row[a] != level for row in rows):
            rows.append((*base[:a], level, *base[a + 1 :]))
    return _patterns_of_rows(patterns, rows)


def _patterns_of_rows(patterns: Patterns, rows: list[tuple[Level, ...]]) -> Patterns:
    """Patterns with these combinations alone."""
    levels = tuple(sort_levels([*{row[a] for row in rows}]) for a in range(len(patterns.attributes)))
    places = [{level: i for i, level in enumerate(known)} for known in levels]
    codes = [np.array([place[row[a]] for row in rows]) for a, place in enumerate(places)]
    return patterns_of(patterns.attributes, levels, codes, len(rows), patterns.derived)[0]

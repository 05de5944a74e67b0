"""Patterns: the combinations of attribute values that occur in the data."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from propcal.core.conditions import Recipe, level_order, refuse_no_unicode
from propcal.core.grid import IntArray

Level = str | None  # None is the level of people whose value is missing
# Prefix of attributes that only a correction reads; in an audit they define no groups.
BESIDE = "correction: "
# Attributes that say when or where people were scored, or in which file they came; they
# define no groups.
KEY = "key: "
PERIOD = f"{KEY}period"
SITE = f"{KEY}site"
SHARE = f"{KEY}share"
# The attribute that holds the hashed patient ID where there are repeat visits; it
# defines no groups.
CLUSTER = "cluster bucket"
TRUTHS = {"1": "true", "0": "false"}  # how truth values are often coded
# the level that stands for rare ones in atoms that may be shared
OTHER = "other levels"


def level_places(levels: Sequence[Level]) -> dict[Level, int]:
    """The place of each level among those of an attribute, and of 1 and 0 if all levels
    are truth values.

    >>> level_places(("false", "true", None))
    {'false': 0, 'true': 1, None: 2, '1': 1, '0': 0}
    >>> level_places(("maybe", "true"))
    {'maybe': 0, 'true': 1}
    """
    places = {level: i for i, level in enumerate(levels)}
    recorded = set(levels) - {None}
    if recorded and recorded <= set(TRUTHS.values()):
        for code, truth in TRUTHS.items():
            if truth in places:
                places[code] = places[truth]
    return places


@dataclass(frozen=True, eq=False)
class Patterns:
    """The combinations of attribute values that occur. A person's pattern determines
    all of their groups.

    Attributes
    ----------
    attributes : tuple of str
    levels : tuple of tuples of str or None
        The levels of each attribute as canonical text, sorted, with a missing value
        (None) last.
    table : array of int64, shape (n_patterns, n_attributes)
        Indices into `levels`; rows are sorted. The index len(levels[a]) stands for a
        level that is not in the list (this can happen when scoring, never when
        fitting).
    derived : dict
        How the attributes that are not columns themselves are made from columns.
    """

    attributes: tuple[str, ...]
    levels: tuple[tuple[Level, ...], ...]
    table: IntArray
    derived: Mapping[str, Recipe] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in self.attributes:
            refuse_no_unicode(name)

    def __len__(self) -> int:
        return len(self.table)

    @property
    def reads(self) -> tuple[str, ...]:
        """The columns from which the attributes are read, without duplicates."""
        columns: dict[str, None] = {}
        for name in self.attributes:
            if name in self.derived:
                columns.update(dict.fromkeys(self.derived[name].columns))
            else:
                columns[name] = None
        return tuple(columns)

    def places(self, a: int) -> dict[Level, int]:
        """The place of each level of an attribute; where all are truth values, 1 and 0
        are true and false.
        """
        return level_places(self.levels[a])

    def key(self, pattern: int) -> tuple[Level, ...]:
        """The level of each attribute in one pattern; "(other)" stands for one that is
        not in the list.
        """
        key = []
        for levels, code in zip(self.levels, self.table[pattern]):
            key.append(levels[code] if code < len(levels) else "(other)")
        return tuple(key)

    def same_attributes(self, other: Patterns) -> bool:
        """Whether both have the same attributes, made in the same way."""
        same_names = self.attributes == other.attributes
        return same_names and dict(self.derived) == dict(other.derived)

    def equals(self, other: Patterns) -> bool:
        """Whether both have the same attributes, levels and combinations."""
        same = self.same_attributes(other) and self.levels == other.levels
        return same and np.array_equal(self.table, other.table)


def sort_levels(levels: Sequence[Level]) -> tuple[Level, ...]:
    """Sort levels as text, ranges of numbers by their lower end, and the missing value
    last.

    >>> sort_levels(["b", None, "a"])
    ('a', 'b', None)
    >>> sort_levels(["65 or over", "9 to under 65", "under 9"])
    ('under 9', '9 to under 65', '65 or over')
    """
    texts = sorted((level for level in levels if level is not None), key=level_order)
    return (*texts, None) if None in levels else tuple(texts)


def combinations_present(
    codes: list[Any], radix: list[int], n_rows: int
) -> tuple[IntArray, Any]:
    """Find the combinations of codes that occur, sorted, and the one of each row.

    For each attribute, `codes` holds one number per row, smaller than the attribute's
    `radix`.
    """
    if not codes:
        return np.zeros((1, 0), dtype=np.int64), np.zeros(n_rows, dtype=np.int32)
    n_possible = math.prod(radix)
    combined = codes[0].astype(np.int32 if n_possible < 1 << 31 else np.int64)
    size = radix[0]
    for code, base in zip(codes[1:], radix[1:]):
        if size * base >= 1 << 62:
            # too many for one integer: renumber the combinations found so far
            present, combined = np.unique(combined, return_inverse=True)
            size = len(present)
        combined *= base
        combined += code.astype(combined.dtype, copy=False)
        size *= base
    if n_possible <= max(1 << 16, n_rows):
        occurs = np.bincount(combined, minlength=n_possible) > 0
        present_codes = np.unravel_index(np.flatnonzero(occurs), radix)
        table = np.stack(present_codes, axis=1).astype(np.int64)
        place = np.cumsum(occurs, dtype=np.int32) - np.int32(1)
        return table, place[combined]
    _, first, combined = np.unique(combined, return_index=True, return_inverse=True)
    # transposed, because it is read by column
    columns = np.empty((len(codes), len(first)), dtype=np.int64)
    for column, code in zip(columns, codes):
        column[:] = code[first]
    return columns.T, combined.astype(np.int32)


def patterns_of(
    attributes: tuple[str, ...],
    levels: tuple[tuple[Level, ...], ...],
    codes: list[Any],
    n_rows: int,
    derived: Mapping[str, Recipe],
) -> tuple[Patterns, Any]:
    """Find the patterns that occur, and the pattern of each row.

    For each attribute, `codes` holds the index of each row's level. Levels that occur
    in no row are dropped, so that the result depends only on the rows.
    """
    table, code = combinations_present(codes, [len(level) for level in levels], n_rows)
    kept: list[tuple[Level, ...]] = []
    for column, levels_of_attribute in zip(table.T, levels):
        n = len(levels_of_attribute)
        occurs = np.bincount(column, minlength=n) > 0
        kept.append(tuple(itertools.compress(levels_of_attribute, occurs)))
        if not occurs.all():
            column[:] = (np.cumsum(occurs) - 1)[column]
    return Patterns(attributes, tuple(kept), table, derived), code


def as_listed(patterns: Patterns, folded: Sequence[str]) -> Patterns:
    """Patterns, row by row, with levels of folded attributes that are not listed read
    as "other levels".

    Where rare levels were folded before a fit, every unlisted level counts as one of
    them: atoms that may be shared name no rare level, so a correction fitted on them
    cannot list it.
    """
    table = patterns.table.copy()
    for name in folded:
        a = patterns.attributes.index(name)
        levels = patterns.levels[a]
        if OTHER in levels:
            table[table[:, a] == len(levels), a] = levels.index(OTHER)
    return replace(patterns, table=table)


def with_unlisted(patterns: Patterns, folded: Sequence[str]) -> Patterns:
    """Patterns, and for each with "other levels" also one with a level that is not
    listed.
    """
    table = patterns.table
    for name in folded:
        a = patterns.attributes.index(name)
        if OTHER in patterns.levels[a]:
            of_others = table[:, a] == patterns.levels[a].index(OTHER)
            unlisted = table[of_others].copy()
            unlisted[:, a] = len(patterns.levels[a])
            table = np.concatenate([table, unlisted])
    if folded:
        return replace(patterns, table=np.unique(table, axis=0))
    return patterns

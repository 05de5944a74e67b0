"""Folded levels: where rare levels were folded before a fit, every unlisted level counts as one of them.

Atoms that may be shared name no rare level, so a correction fitted on them cannot list it. In their
attributes, a level that the correction does not list is read as "other levels".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from propcal.core.patterns import OTHER, Patterns


def as_listed(patterns: Patterns, known: Patterns, folded: Sequence[str]) -> Patterns:
    """The same patterns, row by row, with unlisted levels of folded attributes read as "other levels"."""
    if not folded:
        return patterns
    levels, table = list(patterns.levels), patterns.table.copy()
    for name in folded:
        a = patterns.attributes.index(name)
        listed = known.levels[known.attributes.index(name)]
        places = {level: i for i, level in enumerate(listed)}
        other = places.get(OTHER, len(listed))
        place = np.array([*(places.get(level, other) for level in levels[a]), other], dtype=np.int64)
        levels[a], table[:, a] = listed, place[table[:, a]]
    return replace(patterns, levels=tuple(levels), table=table)


def with_unlisted(patterns: Patterns, folded: Sequence[str]) -> Patterns:
    """Patterns, and beside each with "other levels" the same with any level that is not listed."""
    table = patterns.table
    for name in folded:
        a = patterns.attributes.index(name)
        if OTHER in patterns.levels[a]:
            more = table[table[:, a] == patterns.levels[a].index(OTHER)].copy()
            more[:, a] = len(patterns.levels[a])
            table = np.concatenate([table, more])
    return replace(patterns, table=np.unique(table, axis=0)) if folded else patterns

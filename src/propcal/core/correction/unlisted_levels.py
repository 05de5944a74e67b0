"""Levels that a correction does not list: warns of them, and reads them as "other levels" where it may.

Where rare levels were folded before a fit, every unlisted level counts as one of them: atoms that may be
shared name no rare level, so a correction fitted on them cannot list it. In their attributes, a level that
the correction does not list is read as "other levels".
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from propcal.core.grid import IntArray, SumArray
from propcal.core.patterns import OTHER, Patterns
from propcal.errors import Message, UnknownLevelWarning

if TYPE_CHECKING:
    from propcal.core.correction.definition import Definition


def count_unlisted(
    correction: Definition, patterns: Patterns, people: SumArray, codes: Sequence[Any] = ()
) -> IntArray:
    """How many values of each attribute, and of each feature with points, the correction does not list.

    `people` is the number of people with each pattern; `codes` has the codes of each feature.
    """
    counts = []
    for a, (own, levels) in enumerate(zip(patterns.levels, correction.patterns.levels)):
        # the last entry is for levels that are in neither list
        strange = np.array([level not in levels for level in own] + [True])
        counts.append(int(people[strange[patterns.table[:, a]]].sum()))
    if correction.points is not None and len(codes):
        counts += correction.points.unseen(codes).tolist()
    return np.array(counts, dtype=np.int64)


def warn_of_unlisted(correction: Definition, counts: IntArray, n: int) -> None:
    """Warn how many of n values of each attribute and feature are not listed, without showing them."""
    for message in unlisted_messages(correction, counts, n):
        warnings.warn(message, UnknownLevelWarning, stacklevel=4)


def unlisted_messages(correction: Definition, counts: Sequence[int] | IntArray, n: int) -> list[Message]:
    """What to warn of.

    A shared correction leaves out values that few people had, and cannot tell the two apart. Where rare
    levels were folded, unlisted ones are expected, unless all are.
    """
    messages = []
    names = (*correction.attributes, *(feature.column for feature in correction.features))
    coded = "Is the column coded differently?"
    for i, (name, count) in enumerate(zip(names, counts)):
        has_groups = i < len(correction.attributes)
        if has_groups and name in correction.folded:
            if 1 < count == n:
                none = f"none of the {n:,} values is listed in this correction, so all of them count as"
                messages.append(Message(f'{name!r}: {none} "{OTHER}"', argument=name, next_step=coded))
        elif count:
            told = (_not_listed if correction.is_shared and has_groups else _not_seen)(int(count), n)
            rest = f"no group of {name!r} applies to these rows"
            problem = f"{name!r}: {told}, so {rest if has_groups else 'these rows have no points for it'}"
            step = coded if 1 < count == n else None
            messages.append(Message(problem, argument=name, next_step=step))
    return messages


def _not_seen(count: int, n: int) -> str:
    if count < n:
        return f"{count:,} of {n:,} values did not occur in the fitting data"
    none = "the value did not occur" if n == 1 else f"none of the {n:,} values occurred"
    return f"{none} in the fitting data"


def _not_listed(count: int, n: int) -> str:
    """The same of a shared correction."""
    these = f"{count:,} of {n:,} values {'is' if count == 1 else 'are'} not"
    if count == n:
        these = "the value is not" if n == 1 else f"none of the {n:,} values is"
    return f"{these} listed in this shared correction, which omits values that few people had"


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

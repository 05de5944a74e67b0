"""Finds the map for each pattern, including patterns not seen in fitting, and warns of unknown levels.

Where rare levels were folded before a fit, every unlisted level counts as one of them: atoms that may be
shared name no rare level, so a correction fitted on them cannot list it. In their attributes, a level that
the correction does not list is read as "other levels".
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from propcal.core.correction.limits import MOST_AT_ONCE
from propcal.core.correction.maps import PatternMaps
from propcal.core.grid import IntArray, SumArray
from propcal.core.patterns import OTHER, Level, Patterns
from propcal.errors import Argument, Message, UnknownLevelWarning, UnseenError
from propcal.numbers import plural

if TYPE_CHECKING:
    from propcal.core.correction.correction import Correction

MOST_RECENT = 16  # sets of patterns whose maps are cached
MOST_CACHED_PARTS = 2  # the maps of patterns seen in fitting, and one part for others


class Part(NamedTuple):
    """Maps of some of the patterns, and for every pattern its place among them (-1 if it has none here)."""

    maps: PatternMaps
    place: IntArray


class Lookup:
    """Finds the maps of patterns, and caches the most recent.

    Rows are scored in batches, which usually have the same patterns.
    """

    def __init__(self, correction: Correction) -> None:
        self._correction = correction
        self._recent: dict[Any, tuple[IntArray, list[Part]]] = {}

    def find(
        self, patterns: Patterns, n_updates: int | None, *, keep: bool
    ) -> tuple[IntArray, Iterable[Part]]:
        """The index of each pattern among fitted ones (-1 if unseen), and the maps of all, in parts.

        `keep` leaves unseen patterns without a map.
        """
        if patterns.levels is not self._correction.patterns.levels or len(patterns) > MOST_AT_ONCE:
            known = self.known(patterns)
            return known, self._parts(patterns, n_updates, known, keep)
        key = (n_updates, keep, patterns.table.tobytes())
        found = self._recent.get(key)
        if found is None:
            known = self.known(patterns)
            parts = self._parts(patterns, n_updates, known, keep)
            some = list(islice(parts, MOST_CACHED_PARTS + 1))
            if len(some) > MOST_CACHED_PARTS:
                return known, chain(some, parts)
            found = known, some
            if len(self._recent) >= MOST_RECENT:
                self._recent.clear()
            self._recent[key] = found
        return found

    def known(self, patterns: Patterns) -> IntArray:
        """The index of each pattern among those seen in fitting; -1 if unseen."""
        patterns = as_listed(patterns, self._correction.patterns, self._correction.folded)
        rows = zip(*[_keys(patterns, a) for a in range(len(patterns.attributes))])
        keys = rows if patterns.attributes else [()]
        return np.array([self._seen.get(key, -1) for key in keys], dtype=np.int64)

    def refuse_unseen(self, people: IntArray, known: IntArray) -> None:
        """Raise an error if anyone has a pattern that was not seen in fitting."""
        count = int(people[known < 0].sum())
        if count:
            where = "did not occur in the fitting data"
            if self._correction.is_shared:
                where = "is not listed in this shared correction, which omits combinations of few people"
            raise UnseenError(
                f"{plural(count, 'row')} {'has' if count == 1 else 'have'} a combination of "
                f"{list(self._correction.attributes)} that {where}",
                next_step="Set "
                + Argument("unseen", "replay")
                + " to apply the adjustments of the groups that they do belong to, or "
                + Argument("unseen", "keep")
                + " to leave their scores unchanged.",
                between=". ",
            )

    def _parts(
        self, patterns: Patterns, n_updates: int | None, known: IntArray, keep: bool
    ) -> Iterator[Part]:
        seen = known >= 0
        if n_updates is None and np.any(seen):
            yield Part(self._correction.maps, known)
        other, done = np.flatnonzero((~seen & (not keep)) | (seen & (n_updates is not None))), 0
        for maps in self._correction.replay_in_parts(
            replace(patterns, table=patterns.table[other]), n_updates
        ):
            place = np.full(len(patterns), -1)
            place[other[done : done + len(maps)]] = np.arange(len(maps))
            done += len(maps)
            yield Part(maps, place)

    @cached_property
    def _seen(self) -> dict[tuple[Level, ...], int]:
        known = self._correction.patterns
        return {known.key(p): p for p in range(len(known))}


def unknown_levels(patterns: Patterns, known: Sequence[tuple[Level, ...]], people: SumArray) -> IntArray:
    """For each attribute, the number of people whose level is not among the known ones.

    `people` is the number of people with each pattern.
    """
    counts = []
    for a, (own, levels) in enumerate(zip(patterns.levels, known)):
        # the last entry is for levels that are in neither list
        strange = np.array([level not in levels for level in own] + [True])
        counts.append(int(people[strange[patterns.table[:, a]]].sum()))
    return np.array(counts, dtype=np.int64)


def warn_of_unknown(
    attributes: Sequence[str],
    counts: IntArray,
    n: int,
    *,
    shared: bool = False,
    folded: Sequence[str] = (),
    points: bool = False,
) -> None:
    """Warn how many values of each attribute did not occur in fitting, without showing them."""
    for message in told_of_unknown(attributes, counts, n, shared=shared, folded=folded, points=points):
        warnings.warn(message, UnknownLevelWarning, stacklevel=4)


def told_of_unknown(
    attributes: Sequence[str],
    counts: IntArray,
    n: int,
    *,
    shared: bool = False,
    folded: Sequence[str] = (),
    points: bool = False,
) -> list[Message]:
    """What to warn of.

    A shared correction leaves out values that few people had, and cannot tell the two apart. Where rare
    levels were folded, unlisted ones are expected, unless all are. `points`: of features.
    """
    messages = []
    coded = "Is the column coded differently?"
    for name, count in zip(attributes, counts):
        if name in folded:
            if 1 < count == n:
                none = f"none of the {n:,} values is listed in this correction, so all of them count as"
                messages.append(Message(f'{name!r}: {none} "{OTHER}"', argument=name, next_step=coded))
        elif count:
            told = (_not_listed if shared else _not_seen)(int(count), n)
            rest = (
                "these rows have no points for it"
                if points
                else f"no group of {name!r} applies to these rows"
            )
            problem = f"{name!r}: {told}, so {rest}"
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


def _keys(patterns: Patterns, a: int) -> list[Level | int]:
    """The level of one attribute in each pattern; -1 stands for a level that is not in the list."""
    levels = patterns.levels[a]
    return [levels[i] if i < len(levels) else -1 for i in patterns.table[:, a]]


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

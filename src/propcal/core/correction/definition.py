"""The definition of a correction, and what it amounts to: the map of any pattern, seen in fitting or not."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, islice
from math import nan
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict, Unpack

import numpy as np

from propcal.core.arguments import Unseen, check_choice, check_number
from propcal.core.bins import Bins
from propcal.core.conditions import Recipe
from propcal.core.correction.maps import MOST_STEPS, PatternMaps, refuse_work, steps_by_pattern
from propcal.core.correction.points_table import FeaturePoints, PointsTable
from propcal.core.correction.smooth_map import SmoothStart
from propcal.core.grid import BoolArray, FloatArray, IntArray, SumArray, WithoutCaches, from_grid
from propcal.core.groups import Group, membership
from propcal.core.patterns import BESIDE, OTHER, TRUTHS, Level, Patterns, as_listed, patterns_of, sort_levels
from propcal.errors import Message, UnknownLevelWarning, UnseenError, refused
from propcal.numbers import plural

if TYPE_CHECKING:
    from propcal.core.atoms import Atoms
    from propcal.protect.shared_corrections import Sharing

MOST_AT_ONCE = 1 << 12  # unseen patterns whose maps are composed together
STEPS_ON_LOADING = 1 << 20  # steps that loading a file may spend on checks; about a second
MOST_RECENT = 16  # sets of patterns whose maps are cached
MOST_CACHED_PARTS = 2  # the maps of patterns seen in fitting, and one part for others


class Part(NamedTuple):
    """Maps of some of the patterns, and for every pattern its place among them (-1 if it has none here)."""

    maps: PatternMaps
    place: IntArray


class ScoringRows(NamedTuple):
    """Rows to be scored: scores, patterns in terms of known levels, the pattern of each row, and its codes.

    `codes` has, for each feature with points, the level or range of each row.
    """

    score: FloatArray
    patterns: Patterns
    code: Any
    codes: list[Any]


class How(TypedDict, total=False):
    """How many updates are applied, and what is done about patterns that were not seen in fitting."""

    n_updates: int | None
    unseen: str | None


@dataclass(frozen=True, eq=False)
class Definition(WithoutCaches):
    """What a correction consists of, and what it does to patterns and arrays; see `Correction`."""

    patterns: Patterns
    groups: tuple[Group, ...]
    bins: Bins
    updates: IntArray
    unseen: Unseen = "replay"
    about: Mapping[str, Any] = field(default_factory=dict)
    start: SmoothStart | None = None
    sharing: Sharing | None = None
    monotone: bool = False
    folded: tuple[str, ...] = ()
    points: PointsTable | None = None

    def __post_init__(self) -> None:
        check_choice("unseen", self.unseen, ("replay", "keep", "error"))

    @property
    def attributes(self) -> tuple[str, ...]:
        """What groups are made of: columns, ranges of columns, named conditions."""
        return self.patterns.attributes

    @property
    def features(self) -> tuple[FeaturePoints, ...]:
        """The features with points; none without `points`."""
        return () if self.points is None else self.points.features

    @property
    def reads(self) -> tuple[str, ...]:
        """Columns that scoring reads."""
        return tuple(dict.fromkeys([*self.patterns.reads, *(feature.column for feature in self.features)]))

    @property
    def numeric(self) -> list[str]:
        """Columns that are cut or compared by size, and so must be numbers."""
        sized = [column for recipe in self.patterns.derived.values() for column in recipe.sized]
        return list(dict.fromkeys([*sized, *(one.column for one in self.features if one.is_number)]))

    @property
    def not_read(self) -> tuple[str, ...]:
        """Columns that were given to the fit, and that scoring does not read: no effect of them was found."""
        return tuple(self.about.get("not_read", ()))

    @property
    def n_updates(self) -> int:
        """Number of updates; a smooth start is one, and so are points."""
        return len(self.updates) + (self.start is not None) + (self.points is not None)

    @property
    def is_shared(self) -> bool:
        """Whether it was prepared for sharing, and so omits what few people determined."""
        return self.about.get("shared") is True

    def fitted_to(self, atoms: Atoms) -> bool:
        """Whether these are the very people, with their raw scores, that the correction was fitted to.

        Other groups of the same people do not matter; a part of them, or other weights, are not noticed.
        """
        return self.about.get("fingerprint") == atoms.people_fingerprint()

    @cached_property
    def maps(self) -> PatternMaps:
        """The map of each pattern that was seen in fitting."""
        return self.replay(self.patterns)

    def refuse_overgrown(self) -> None:
        """Refuse what no fit makes: maps that would exhaust memory or time, as a file could ask for.

        Composes as many maps as can be had in about a second; whatever it leaves out is refused, if need
        be, when it is asked for.
        """
        inside = membership(self.groups, self.patterns)
        steps = steps_by_pattern(inside, self.updates, self.bins.edges)
        refuse_work(len(self.updates), len(self.patterns), int(steps.sum()))
        if self.start is not None:
            self.start.refuse_overgrown(len(self.patterns))
        first = int(np.searchsorted(np.cumsum(steps), STEPS_ON_LOADING, side="right"))
        if first == len(self.patterns):
            _ = self.maps  # which are needed anyway
        elif first:
            PatternMaps.of_updates(inside[:, :first], self.updates, self.bins.edges)

    def replay(self, patterns: Patterns, n_updates: int | None = None) -> PatternMaps:
        """Maps of any patterns, from the updates of the groups that they belong to."""
        return PatternMaps.of_updates(*self._to_replay(patterns, n_updates))

    def _to_replay(self, patterns: Patterns, n_updates: int | None) -> tuple[Any, ...]:
        """Which groups contain which patterns, the updates, the bins, and the recalibrated scores."""
        if n_updates is None:
            n_updates = self.n_updates
        check_number("n_updates", n_updates, at_least=0, whole=True)
        patterns = as_listed(patterns, self.patterns, self.folded)
        inside = membership(self.groups, patterns)
        smooth = None
        if self.start is not None and n_updates > 0:
            smooth = self.start.values(patterns)
            n_updates -= 1
        n_updates = max(n_updates - (self.points is not None), 0)
        return inside, self.updates[:n_updates], self.bins.edges, smooth, self.monotone

    def _replay_in_parts(self, patterns: Patterns, n_updates: int | None) -> Iterator[PatternMaps]:
        """Like `replay`, in consecutive parts. How many patterns there are does not matter to the limits."""
        terms = 0 if self.start is None else len(self.start.groups)
        at_once = min(MOST_AT_ONCE, MOST_STEPS // max(len(self.groups), terms, 1) or 1)
        for first in range(0, len(patterns), at_once):
            some = replace(patterns, table=patterns.table[first : first + at_once])
            yield from PatternMaps.in_parts(*self._to_replay(some, n_updates))

    def maps_of(
        self,
        patterns: Patterns,
        people: IntArray | None = None,
        *,
        n_updates: int | None = None,
        unseen: str | None = None,
    ) -> Iterable[Part]:
        """Maps of any patterns, in parts; the scores of a pattern that is in none stay as they are.

        `people` counts those of each pattern (one each by default), for the error about unseen ones. The most
        recent maps are cached: rows are scored in batches, which usually have the same patterns.
        """
        policy = self.unseen if unseen is None else unseen
        check_choice("unseen", policy, ("replay", "keep", "error"))
        if n_updates is not None:
            check_number("n_updates", n_updates, at_least=0, whole=True)
        cached = patterns.levels is self.patterns.levels and len(patterns) <= MOST_AT_ONCE
        key = (n_updates, policy == "keep", patterns.table.tobytes()) if cached else None
        known, parts = self._recent.get(key) or (self.known(patterns), None)
        if policy == "error":
            self.refuse_unseen(np.ones(len(patterns), dtype=np.int64) if people is None else people, known)
        if parts is not None:
            return parts
        found = self._parts(patterns, n_updates, known, keep=policy == "keep")
        some = list(islice(found, MOST_CACHED_PARTS + 1)) if cached else []
        if not cached or len(some) > MOST_CACHED_PARTS:
            return chain(some, found)
        if len(self._recent) >= MOST_RECENT:
            self._recent.clear()
        self._recent[key] = known, some
        return some

    @cached_property
    def _recent(self) -> dict[Any, tuple[IntArray, list[Part]]]:
        return {}

    def _parts(
        self, patterns: Patterns, n_updates: int | None, known: IntArray, *, keep: bool
    ) -> Iterator[Part]:
        seen = known >= 0
        if n_updates is None and np.any(seen):
            yield Part(self.maps, known)
        other, done = np.flatnonzero((~seen & (not keep)) | (seen & (n_updates is not None))), 0
        for maps in self._replay_in_parts(replace(patterns, table=patterns.table[other]), n_updates):
            place = np.full(len(patterns), -1)
            place[other[done : done + len(maps)]] = np.arange(len(maps))
            done += len(maps)
            yield Part(maps, place)

    def known(self, patterns: Patterns) -> IntArray:
        """The index of each pattern among those seen in fitting; -1 if unseen."""
        keys = as_listed(patterns, self.patterns, self.folded).keys()
        return np.array([self._seen.get(key, -1) for key in keys], dtype=np.int64)

    @cached_property
    def _seen(self) -> dict[Any, int]:
        return {key: p for p, key in enumerate(self.patterns.keys())}

    def refuse_unseen(self, people: IntArray, known: IntArray) -> None:
        """Raise an error if anyone has a pattern that was not seen in fitting."""
        count = int(people[known < 0].sum())
        if count:
            key = "not listed combination" if self.is_shared else "unseen combination"
            have = f"{plural(count, 'row')} {'has' if count == 1 else 'have'}"
            raise refused(key, UnseenError, have=have, attributes=list(self.attributes))

    def apply_to_rows(self, rows: ScoringRows, *, invalid: str = "error", **how: Unpack[How]) -> FloatArray:
        """Correct checked rows, as `apply_to_patterns` does."""
        odds, n_updates = None, how.get("n_updates")
        if self.points is not None and (n_updates is None or n_updates > (self.start is not None)):
            odds = self.points.odds(rows.codes)
        return self.apply_to_patterns(rows.score, rows.code, rows.patterns, odds=odds, invalid=invalid, **how)

    def apply_to_patterns(
        self,
        score: FloatArray,
        code: IntArray,
        patterns: Patterns,
        *,
        odds: FloatArray | None = None,
        invalid: str = "error",
        **how: Unpack[How],
    ) -> FloatArray:
        """Correct checked scores of people whose pattern is row `code` of `patterns`.

        `odds` is what their points multiply their odds by; a correction without points needs none.
        """
        valid = np.ones(0) if invalid == "error" else (score >= 0) & (score <= 1)
        if not np.all(valid):
            corrected = np.full(len(score), nan) if invalid == "null" else score.copy()
            some = None if odds is None else odds[valid]
            corrected[valid] = self.apply_to_patterns(score[valid], code[valid], patterns, odds=some, **how)
            return corrected
        people = np.bincount(code, minlength=len(patterns))
        corrected = score
        for maps, place in self.maps_of(patterns, people, **how):
            if corrected is score and np.all(place >= 0):  # usually there is one part
                return np.asarray(maps.apply(score, place[code], odds))
            corrected = score.copy() if corrected is score else corrected
            rows = np.flatnonzero(place[code] >= 0)
            some = None if odds is None else odds[rows]
            corrected[rows] = maps.apply(score[rows], place[code[rows]], some)
        return corrected.copy() if corrected is score else corrected

    def apply_to_atoms(self, atoms: Atoms) -> FloatArray:
        """Corrected score of each atom, whose attributes must be those of the correction (or more)."""
        if self.points is not None:
            raise refused("points of groups", columns=list(self.points.columns))
        patterns, code = self._patterns_in(atoms.patterns)
        people = np.bincount(code, weights=atoms.pattern_sums(atoms.people), minlength=len(patterns))
        warn_of_unlisted(self, count_unlisted(self, patterns, people), atoms.n_people)
        return self.apply_to_patterns(from_grid(atoms.score), code[atoms.pattern_index()], patterns)

    def unseen_share(self, atoms: Atoms) -> float:
        """The share of people with a level that did not occur in fitting."""
        patterns, code = self._patterns_in(atoms.patterns)
        new = np.zeros(len(patterns), dtype=bool)
        for name, own in zip(self.attributes, unlisted(self, patterns)):
            new |= own & (name not in self.folded or np.all(own))
        return float(atoms.pattern_sums(atoms.people)[new[code]].sum() / atoms.n_people)

    def _patterns_in(self, theirs: Patterns) -> tuple[Patterns, IntArray]:
        """Patterns of the attributes of the correction, and which of them each of `theirs` is."""
        levels, codes = [], []
        for a, place in enumerate(self._places_in(theirs)):
            own, code = self._as_truths(a, theirs.levels[place], theirs.table[:, place])
            levels.append(own)
            codes.append(code)
        return patterns_of(self.attributes, tuple(levels), codes, len(theirs), self.patterns.derived)

    def _as_truths(
        self, a: int, levels: tuple[Level, ...], code: IntArray
    ) -> tuple[tuple[Level, ...], IntArray]:
        """Levels with 1 and 0 as truth values where the attribute has no others, and each row's place."""
        places = self.patterns.places(a)
        if len(places) == len(self.patterns.levels[a]):
            return levels, code
        read = [TRUTHS[level] if level in places and level in TRUTHS else level for level in levels]
        kept = sort_levels([*{*read}])
        return kept, np.array([kept.index(level) for level in read])[code]

    def _places_in(self, patterns: Patterns) -> list[int]:
        """Where these patterns have the attributes of the correction, made alike; an error if they do not."""
        places, absent = [], []
        for a in self.attributes:
            name = f"{BESIDE}{a}" if f"{BESIDE}{a}" in patterns.attributes else a
            if name in patterns.attributes and self.patterns.derived.get(a) == patterns.derived.get(name):
                places.append(patterns.attributes.index(name))
            else:
                absent.append(a)
        if absent:
            raise refused("other attributes", attributes=list(self.attributes), absent=absent)
        return places

    def beside(self, own: Mapping[str, Recipe | str]) -> dict[str, Recipe | str]:
        """The attributes that it reads beside `own` (or makes in another way), under names of their own."""
        mine = {name: self.patterns.derived.get(name, name) for name in self.attributes}
        return {f"{BESIDE}{name}": made for name, made in mine.items() if own.get(name) != made}


def count_unlisted(
    correction: Definition, patterns: Patterns, people: SumArray, codes: Sequence[Any] = ()
) -> IntArray:
    """How many values of each attribute, and of each feature with points, the correction does not list.

    `people` is the number of people with each pattern; `codes` has the codes of each feature.
    """
    counts = [int(people[new].sum()) for new in unlisted(correction, patterns)]
    if correction.points is not None and len(codes):
        counts += correction.points.unseen(codes).tolist()
    return np.array(counts, dtype=np.int64)


def unlisted(correction: Definition, patterns: Patterns) -> list[BoolArray]:
    """For each attribute, which patterns have a level that the correction does not list."""
    levels = zip(patterns.levels, correction.patterns.levels, patterns.table.T)
    # the last entry is for levels that are in neither list
    return [np.array([*(level not in known for level in own), True])[place] for own, known, place in levels]


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

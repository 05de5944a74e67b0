"""The definition of a correction, and the maps that it is compiled to.

`Definition` holds what was fitted (updates of groups, recalibration, points). Its maps
of patterns, seen in fitting or not, are compiled by `map_compiler` when scores need
them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, islice
from math import nan
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from propcal.core.arguments import Unseen, check_choice, check_number
from propcal.core.bins import Bins
from propcal.core.conditions import Recipe
from propcal.core.correction.map_compiler import MapCompiler
from propcal.core.correction.maps import PatternMaps
from propcal.core.correction.points_table import FeaturePoints, PointsTable
from propcal.core.correction.smooth_map import SmoothStart
from propcal.core.correction.unlisted import Unlisted
from propcal.core.grid import FloatArray, IntArray, WithoutCaches, from_grid
from propcal.core.groups import Group, membership
from propcal.core.patterns import BESIDE, Patterns, as_listed, combinations_present
from propcal.errors import UnseenError, refused
from propcal.numbers import listed, plural

if TYPE_CHECKING:
    from propcal.core.atoms import Atoms
    from propcal.protect.shared_corrections import Sharing

MAX_PATTERNS_AT_ONCE = 1 << 12  # unseen patterns whose maps are compiled together
MAX_MEMBERSHIPS_AT_ONCE = 1 << 26  # groups times unseen patterns; 64 MB
MAX_STEPS_ON_LOADING = 1 << 24  # for compiling maps while a file is checked; 0.5 s
MAX_CACHED_PATTERN_SETS = 16  # sets of patterns whose maps are cached
MAX_CACHED_PARTS = 2  # maps of patterns seen in fitting, and one part for others


class Part(NamedTuple):
    """Maps of some of the patterns, and for every pattern its place among them (-1 if
    it has none here).
    """

    maps: PatternMaps
    place: IntArray


class ScoringRows(NamedTuple):
    """Rows to be scored: scores, patterns in terms of known levels, the pattern of each
    row, and its codes.

    `codes` has, for each feature with points, the level or range of each row.
    """

    score: FloatArray
    patterns: Patterns
    code: Any
    codes: list[Any]


@dataclass(frozen=True, eq=False)
class Definition(WithoutCaches):
    """What a correction consists of, and what it does to patterns and arrays; see
    `Correction`.
    """

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
        features = [feature.column for feature in self.features]
        return tuple(dict.fromkeys([*self.patterns.reads, *features]))

    @property
    def numeric(self) -> list[str]:
        """Columns that are cut or compared by size, and so must be numbers."""
        columns: list[str] = []
        for recipe in self.patterns.derived.values():
            columns += recipe.sized
        columns += [feature.column for feature in self.features if feature.is_number]
        return list(dict.fromkeys(columns))

    @property
    def not_read(self) -> tuple[str, ...]:
        """Columns that were given to the fit, and that scoring does not read: no effect
        of them was found.
        """
        return tuple(self.about.get("not_read", ()))

    @property
    def n_updates(self) -> int:
        """Number of updates; a smooth start is one, and so are points."""
        return len(self.updates) + (self.start is not None) + (self.points is not None)

    @property
    def is_shared(self) -> bool:
        """Whether it was prepared for sharing, and so omits what few people
        determined.
        """
        return self.about.get("shared") is True

    def fitted_to(self, atoms: Atoms) -> bool:
        """Whether these are the very people, with their raw scores, that the correction
        was fitted to.

        Other groups of the same people do not matter; a part of them, or other weights,
        are not noticed.
        """
        return self.about.get("fingerprint") == atoms.people_fingerprint()

    @cached_property
    def maps(self) -> PatternMaps:
        """The map of each pattern that was seen in fitting."""
        return self.replay(self.patterns)

    def refuse_overgrown(self) -> None:
        """Refuse maps that would exhaust memory or time, as a malicious file could ask
        for.

        Compiles the maps if that takes less than about a second; otherwise they are
        compiled, or refused, when a score needs them.
        """
        maps = self._compiler(self.patterns, None).maps_within(MAX_STEPS_ON_LOADING)
        if maps is not None:
            vars(self)["maps"] = maps  # which scoring needs anyway

    def replay(self, patterns: Patterns) -> PatternMaps:
        """Maps of any patterns, compiled from the updates of their groups."""
        return self._compiler(patterns, None).maps()

    def _compiler(self, patterns: Patterns, n_updates: int | None) -> MapCompiler:
        """Compiles the first updates (by default all) to the maps of patterns.

        A smooth start is the first update, and points are the next.
        """
        if n_updates is None:
            n_updates = self.n_updates
        patterns = as_listed(patterns, self.folded)
        inside = membership(self.groups, patterns)

        smooth = None
        if self.start is not None and n_updates > 0:
            smooth = self.start.values(patterns)
            n_updates -= 1
        if self.points is not None and n_updates > 0:
            n_updates -= 1
        updates = self.updates[:n_updates]
        return MapCompiler(
            inside, updates, self.bins.edges, smooth, monotone=self.monotone
        )

    def maps_of(
        self,
        patterns: Patterns,
        people: IntArray | None = None,
        *,
        n_updates: int | None = None,
        unseen: str | None = None,
    ) -> Iterable[Part]:
        """Maps of any patterns, in parts; the scores of a pattern that is in none stay
        as they are.

        `people` counts those of each pattern (one each by default), for the error about
        unseen ones. The most recent maps are cached: rows are scored in batches, which
        usually have the same patterns.
        """
        policy = self.unseen if unseen is None else unseen
        check_choice("unseen", policy, ("replay", "keep", "error"))
        if n_updates is not None:
            check_number("n_updates", n_updates, at_least=0, whole=True)
        known = self.known(patterns)
        if policy == "error":
            if people is None:
                people = np.ones(len(patterns), dtype=np.int64)
            self.refuse_unseen(people, known)

        key = (n_updates, policy == "keep", patterns.table.tobytes())
        cached_parts = self._recent.get(key)
        if cached_parts:
            return cached_parts
        parts = self._parts(patterns, n_updates, known, keep=policy == "keep")
        first_parts = list(islice(parts, MAX_CACHED_PARTS + 1))
        is_large = len(patterns) > MAX_PATTERNS_AT_ONCE
        if is_large or len(first_parts) > MAX_CACHED_PARTS:
            return chain(first_parts, parts)
        if len(self._recent) >= MAX_CACHED_PATTERN_SETS:
            self._recent.clear()
        self._recent[key] = first_parts
        return first_parts

    @cached_property
    def _recent(self) -> dict[tuple[int | None, bool, bytes], list[Part]]:
        return {}

    def _parts(
        self, patterns: Patterns, n_updates: int | None, known: IntArray, *, keep: bool
    ) -> Iterator[Part]:
        """Maps of patterns seen in fitting, then of others. How many there are does not
        matter to limits.
        """
        is_seen = known >= 0
        if n_updates is None and np.any(is_seen):
            yield Part(self.maps, known)

        needs_maps = np.zeros(len(patterns), dtype=np.bool_)
        if n_updates is not None:
            needs_maps |= is_seen
        if not keep:
            needs_maps |= ~is_seen
        others = np.flatnonzero(needs_maps)
        at_once = self._max_patterns_at_once()
        for begin in range(0, len(others), at_once):
            some = others[begin : begin + at_once]
            these = replace(patterns, table=patterns.table[some])
            for maps in self._compiler(these, n_updates).in_parts():
                place = np.full(len(patterns), -1)
                place[some[: len(maps)]] = np.arange(len(maps))
                some = some[len(maps) :]
                yield Part(maps, place)

    def _max_patterns_at_once(self) -> int:
        """How many unseen patterns fit into memory with their memberships in groups."""
        n_terms = 0 if self.start is None else len(self.start.groups)
        most_groups = max(len(self.groups), n_terms, 1)
        in_memory = max(MAX_MEMBERSHIPS_AT_ONCE // most_groups, 1)
        return min(MAX_PATTERNS_AT_ONCE, in_memory)

    def known(self, patterns: Patterns) -> IntArray:
        """The index of each pattern among those seen in fitting; -1 if unseen."""
        rows = as_listed(patterns, self.folded).table.tolist()
        places = [self._seen.get(tuple(row), -1) for row in rows]
        return np.array(places, dtype=np.int64)

    @cached_property
    def _seen(self) -> dict[Any, int]:
        return {tuple(row): p for p, row in enumerate(self.patterns.table.tolist())}

    def refuse_unseen(self, people: IntArray, known: IntArray) -> None:
        """Raise an error if anyone has a pattern that was not seen in fitting."""
        n_unseen = int(people[known < 0].sum())
        if not n_unseen:
            return
        key = "not listed combination" if self.is_shared else "unseen combination"
        verb = "has" if n_unseen == 1 else "have"
        have = f"{plural(n_unseen, 'row')} {verb}"
        raise refused(key, UnseenError, have=have, attributes=list(self.attributes))

    def apply_to_rows(
        self,
        rows: ScoringRows,
        *,
        n_updates: int | None = None,
        unseen: str | None = None,
        invalid: str = "error",
    ) -> FloatArray:
        """Correct checked rows."""
        score = rows.score
        code = rows.code
        n_patterns = len(rows.patterns)
        corrected = score.copy()
        if invalid != "error":
            is_valid = (score >= 0) & (score <= 1)
            if invalid == "null":
                corrected[~is_valid] = nan
            code = np.where(is_valid, code, n_patterns)  # behind the last pattern
        odds = self._odds_of(rows, n_updates)
        people = np.bincount(code, minlength=n_patterns)[:n_patterns]

        for maps, place in self.maps_of(
            rows.patterns, people, n_updates=n_updates, unseen=unseen
        ):
            map_of_row = np.append(place, -1)[code]
            has_map = map_of_row >= 0
            some: Any = slice(None) if np.all(has_map) else np.flatnonzero(has_map)
            some_odds = None if odds is None else odds[some]
            corrected[some] = maps.apply(score[some], map_of_row[some], some_odds)
        return corrected

    def _odds_of(self, rows: ScoringRows, n_updates: int | None) -> FloatArray | None:
        """What points multiply the odds of each row by; None if they are not
        applied.
        """
        if self.points is None:
            return None
        n_before = 0 if self.start is None else 1
        if n_updates is not None and n_updates <= n_before:
            return None
        return self.points.odds(rows.codes)

    def apply_to_atoms(self, atoms: Atoms) -> FloatArray:
        """Corrected score of each atom, whose attributes must be those of the
        correction (or more).
        """
        if self.points is not None:
            raise refused("points of groups", columns=listed(list(self.points.columns)))
        rows = self._rows_of(atoms)
        Unlisted(self).add(rows, atoms.people).warn()
        return self.apply_to_rows(rows)

    def unseen_share(self, atoms: Atoms) -> float:
        """The share of people with a level that did not occur in fitting."""
        unlisted = Unlisted(self).add(self._rows_of(atoms), atoms.people)
        return unlisted.unseen_rows / atoms.n_people

    def _rows_of(self, atoms: Atoms) -> ScoringRows:
        """Atoms as rows to be scored, without features."""
        return self.rows_in_known_levels(
            from_grid(atoms.score), atoms.pattern_index(), atoms.patterns
        )

    def rows_in_known_levels(
        self, score: FloatArray, code: IntArray, theirs: Patterns
    ) -> ScoringRows:
        """Rows of other data, in terms of the attributes and levels of the correction,
        without features.
        """
        known = self.patterns
        known_codes = []
        for a, place in enumerate(self._places_in(theirs)):
            place_of_level = known.places(a)
            other = len(known.levels[a])
            known_code = [
                place_of_level.get(level, other) for level in theirs.levels[place]
            ]
            their_code = theirs.table[:, place]
            known_codes.append(np.array(known_code, dtype=np.int64)[their_code])
        sizes = [len(levels) + 1 for levels in known.levels]
        table, of_pattern = combinations_present(known_codes, sizes, len(theirs))
        return ScoringRows(score, replace(known, table=table), of_pattern[code], [])

    def _places_in(self, patterns: Patterns) -> list[int]:
        """Where these patterns have the attributes of the correction, defined alike; an
        error if they do not.
        """
        places = []
        absent = []
        for attribute in self.attributes:
            name = f"{BESIDE}{attribute}"
            if name not in patterns.attributes:
                name = attribute
            own_recipe = self.patterns.derived.get(attribute)
            if name in patterns.attributes and patterns.derived.get(name) == own_recipe:
                places.append(patterns.attributes.index(name))
            else:
                absent.append(attribute)
        if absent:
            raise refused(
                "other attributes", attributes=list(self.attributes), absent=absent
            )
        return places

    def beside(self, own: Mapping[str, Recipe | str]) -> dict[str, Recipe | str]:
        """The attributes that it reads and that `own` lacks or defines differently,
        under names of their own.
        """
        others: dict[str, Recipe | str] = {}
        for name in self.attributes:
            recipe = self.patterns.derived.get(name, name)
            if own.get(name) != recipe:
                others[f"{BESIDE}{name}"] = recipe
        return others

"""Columns by name: which of a frame or of files is taken for what; and the sites of people.

A site is a column, or one name for everybody; each site has one spelling only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cached_property
from typing import Any

from propcal.core.atoms import Atoms
from propcal.core.groups.groups import Groups
from propcal.core.groups.recipes import Recipe
from propcal.core.patterns import SITE
from propcal.core.periods_and_sites import keyed
from propcal.data.levels import folded
from propcal.data.rows_to_atoms import resolution_bits, rows_to_atoms, wanted_columns
from propcal.errors import Argument, Column, InputError


@dataclass(frozen=True)
class NamedColumns:
    """What the columns are taken for, as in `Atoms.from_frame`, and how they are reduced.

    `beside` are attributes that make no groups, for a correction: how each is made, or from which column
    it is taken. `site` is the column with the site of each person, which makes no groups either.
    """

    score: str
    outcome: str
    groups: Any = ()
    weight: str | None = None
    cluster: str | None = None
    resolution: float | None = None
    weight_kind: str = "auto"
    beside: Mapping[str, Recipe | str] = field(default_factory=dict)
    positive: Any = None
    drop_missing: bool = False
    site: str | None = None

    def __post_init__(self) -> None:
        for argument in ("score", "outcome", "weight", "cluster", "site"):
            name = getattr(self, argument)
            if not (isinstance(name, str) or (name is None and argument in ("weight", "cluster", "site"))):
                raise InputError(
                    f"{argument} must be the name of a column; got {type(name).__name__}", argument=argument
                )
        if self.site is not None and SITE not in self.beside:
            object.__setattr__(self, "beside", {**self.beside, SITE: self.site})
        wanted = wanted_columns(self.words)
        if wanted is None:
            raise InputError(
                Argument("groups") + ": name the columns that are groups",
                next_step='Groups(columns=["race", ...])',
                between=", ",
            )
        # a score that is its own outcome is always right, and a group made of the outcome always wrong
        if self.score == self.outcome:
            raise InputError(
                f"column {self.score!r} is named as the score and as the outcome", argument="score"
            )
        for argument in ("score", "outcome"):
            if self.site == getattr(self, argument):
                raise InputError(f"column {self.site!r} is the {argument}, not the site", argument="site")
        if self.outcome in wanted:
            raise InputError(
                f"column {self.outcome!r} is the outcome and cannot define groups as well", argument="outcome"
            )

    @cached_property
    def words(self) -> Groups:
        """The groups, said in one way."""
        if isinstance(self.groups, Groups):
            return self.groups
        return Groups(columns=[self.groups] if isinstance(self.groups, str) else list(self.groups))

    @cached_property
    def attributes(self) -> dict[str, Recipe | str]:
        """Every attribute by name: how it is made, or the column that it is."""
        recipes = self.words.recipes()
        return {name: recipes.get(name, name) for name in self.words.attributes([])} | dict(self.beside)

    @property
    def features(self) -> list[str]:
        """The columns that attributes are made of."""
        return wanted_columns(self.words, self.beside) or []

    @property
    def roles(self) -> list[str]:
        """The columns that must hold numbers: score, outcome and, if there is one, weight."""
        return [name for name in (self.score, self.outcome, self.weight) if name is not None]

    @property
    def wanted(self) -> list[str]:
        """All columns that are read."""
        also = [] if self.cluster is None else [self.cluster]
        return list(dict.fromkeys([*self.roles, *self.features, *also]))

    @property
    def titles(self) -> tuple[str, str, str]:
        """Score, outcome and weight as errors call them."""
        return Column(self.score), Column(self.outcome), Column(str(self.weight))

    @property
    def bits(self) -> int:
        """How many binary digits of the score are kept."""
        return resolution_bits(self.resolution)

    def atoms(self, columns: Mapping[str, Any]) -> Atoms:
        """The atoms of rows in memory, of which these are the wanted columns."""
        return rows_to_atoms(
            columns[self.score],
            columns[self.outcome],
            {name: columns[name] for name in self.features},
            None if self.weight is None else columns[self.weight],
            cluster=None if self.cluster is None else columns[self.cluster],
            groups=self.words,
            beside=self.beside,
            names=self.titles,
            resolution=self.resolution,
            weight_kind=self.weight_kind,
            positive=self.positive,
            drop_missing=self.drop_missing,
        )


def named_column(site: str, columns: Sequence[str]) -> str | None:
    """The column of the sites, or None if it is the name of one site; refuses a column that is misspelt."""
    if site in columns:
        return site
    near = get_close_matches(site.lower(), [name.lower() for name in columns], n=1, cutoff=0.8)
    if near:
        name = next(column for column in columns if column.lower() == near[0])
        raise InputError(
            f"there is no column {site!r}, but there is {name!r}",
            argument="site",
            next_step="Name that column. If it is the name of the one site, use another spelling",
        )
    return None


def with_site(atoms: Atoms, site: str) -> Atoms:
    """Atoms with the sites of a column, checked; or with this one site for everybody."""
    if SITE not in atoms.patterns.attributes:
        if not site.strip():
            raise InputError(Argument("site") + " must be a column, or the name of a site")
        return keyed({site.strip(): atoms}, SITE)
    place = atoms.patterns.attributes.index(SITE)
    levels = atoms.patterns.levels[place]
    if None in levels:
        people = atoms.pattern_sums(atoms.people)
        n = int(people[atoms.patterns.table[:, place] == levels.index(None)].sum())
        raise InputError(
            f"column {site!r}, the site, is missing for {n:,} of {atoms.n_people:,} people",
            argument=site,
            next_step="Fill it in, or leave these people out",
        )
    refuse_other_spellings([("these data", atoms)])
    return atoms


def refuse_other_spellings(parts: Sequence[tuple[str, Atoms]]) -> None:
    """Refuse sites that differ only in case or spaces, within one file or between files."""
    seen: dict[str, tuple[str, str]] = {}
    for where, atoms in parts:
        if SITE not in atoms.patterns.attributes:
            continue
        for level in atoms.patterns.levels[atoms.patterns.attributes.index(SITE)]:
            name = str(level)
            first, there = seen.setdefault(folded(name), (name, where))
            if first != name:
                both = f"{where}" if there == where else f"{there} and {where}"
                raise InputError(
                    f"a site has two spellings, {first!r} and {name!r}, in {both}",
                    argument="site",
                    next_step="Use one of them everywhere",
                )

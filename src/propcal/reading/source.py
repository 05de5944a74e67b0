"""Source: rows of people with named columns, read by column or reduced to atoms.

A source is a frame in memory, a frame of an engine, or files
(`propcal.reading.file_source`). `NamedColumns` says what the columns are taken for. A
site is a column, or one name for everybody; each site has one spelling only.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from propcal.core.atoms import Atoms
from propcal.core.conditions import Recipe
from propcal.core.grid import BoolArray
from propcal.core.groups import Groups
from propcal.core.patterns import SITE
from propcal.core.reduction import stack
from propcal.errors import Argument, ColumnTitle, InputError, refused
from propcal.reading.frames import (
    Columns,
    frame_columns,
    frame_names,
    is_engine_frame,
    nw,
    require,
)
from propcal.reading.levels import folded
from propcal.reading.patient_ids import count_values, warn_of_undeclared
from propcal.reading.role_columns import RoleNames
from propcal.reading.rows import resolution_bits, rows_to_atoms, wanted_columns


@dataclass(frozen=True)
class NamedColumns:
    """What the columns are taken for, as in `Atoms.from_frame`, and how they are
    reduced.

    `beside` are attributes that make no groups, for a correction: how each is made, or
    from which column it is taken. `site` is the column with the site of each person,
    which makes no groups either.
    """

    score: str
    outcome: str
    groups: Any = ()
    weight: str | None = None
    cluster: str | None = None
    resolution: float | None = None
    weight_kind: str = "auto"
    positive: Any = None
    drop_missing: bool = False
    beside: Mapping[str, Recipe | str] = field(default_factory=dict)
    site: str | None = None

    def __post_init__(self) -> None:
        for argument in ("score", "outcome", "weight", "cluster", "site"):
            self._refuse_no_name(argument)
        if self.site is not None and SITE not in self.beside:
            object.__setattr__(self, "beside", {**self.beside, SITE: self.site})
        wanted = wanted_columns(self.definition)
        if wanted is None:
            raise refused("groups not named")

        # a score that is its own outcome is always right, and a group made of the
        # outcome always wrong
        if self.score == self.outcome:
            raise refused("score is outcome", name=self.score)
        for argument in ("score", "outcome"):
            if self.site == getattr(self, argument):
                problem = f"column {self.site!r} is the {argument}, not the site"
                raise InputError(problem, argument="site")
        if self.outcome in wanted:
            raise refused("outcome in groups", name=self.outcome)

    def _refuse_no_name(self, argument: str) -> None:
        """Refuse anything but the name of a column; only some arguments may be
        missing.
        """
        name = getattr(self, argument)
        if isinstance(name, str):
            return
        if name is None and argument in ("weight", "cluster", "site"):
            return
        kind = type(name).__name__
        raise refused("not a column name", argument=argument, of="", kind=kind)

    @cached_property
    def definition(self) -> Groups:
        """The definition of the groups, however they were given."""
        if isinstance(self.groups, Groups):
            return self.groups
        if isinstance(self.groups, str):
            return Groups(columns=[self.groups])
        return Groups(columns=list(self.groups))

    @cached_property
    def attributes(self) -> dict[str, Recipe | str]:
        """Every attribute by name: how it is made, or the column that it is."""
        names = self.definition.attributes([])
        return dict(zip(names, names)) | self.definition.recipes() | {**self.beside}

    @property
    def features(self) -> list[str]:
        """The columns that attributes are made of."""
        return wanted_columns(self.definition, self.beside) or []

    @property
    def roles(self) -> list[str]:
        """The columns that must hold numbers: score, outcome and, if there is one,
        weight.
        """
        if self.weight is None:
            return [self.score, self.outcome]
        return [self.score, self.outcome, self.weight]

    @property
    def wanted(self) -> list[str]:
        """All columns that are read."""
        wanted = [*self.roles, *self.features]
        if self.cluster is not None:
            wanted.append(self.cluster)
        return list(dict.fromkeys(wanted))

    @property
    def titles(self) -> RoleNames:
        """Score, outcome and weight as errors call them."""
        return RoleNames(
            ColumnTitle(self.score),
            ColumnTitle(self.outcome),
            ColumnTitle(str(self.weight)),
        )

    @property
    def bits(self) -> int:
        """How many binary digits of the score are kept."""
        return resolution_bits(self.resolution)

    def atoms(self, columns: Mapping[str, Any]) -> Atoms:
        """The atoms of rows in memory, from their wanted columns."""
        weight = None if self.weight is None else columns[self.weight]
        cluster = None if self.cluster is None else columns[self.cluster]
        return rows_to_atoms(
            columns[self.score],
            columns[self.outcome],
            {name: columns[name] for name in self.features},
            weight,
            cluster=cluster,
            groups=self.definition,
            beside=self.beside,
            names=self.titles,
            resolution=self.resolution,
            weight_kind=self.weight_kind,
            positive=self.positive,
            drop_missing=self.drop_missing,
        )


def named_column(site: str, columns: Sequence[str]) -> str | None:
    """The column of the sites, or None if it is the name of one site; refuses a column
    that is misspelt.
    """
    if site in columns:
        return site
    lower_names = [name.lower() for name in columns]
    near = get_close_matches(site.lower(), lower_names, n=1, cutoff=0.8)
    if near:
        name = columns[lower_names.index(near[0])]
        raise refused("site misspelt", site=site, name=name)
    return None


def with_site(atoms: Atoms, site: str) -> Atoms:
    """Atoms with the sites of a column, checked; or with this one site for
    everybody.
    """
    if SITE not in atoms.patterns.attributes:
        if not site.strip():
            problem = Argument("site") + " must be a column, or the name of a site"
            raise InputError(problem)
        return stack({site.strip(): atoms}, SITE)
    place = atoms.patterns.attributes.index(SITE)
    levels = atoms.patterns.levels[place]
    if None in levels:
        without_site = atoms.patterns.table[:, place] == levels.index(None)
        n = int(atoms.pattern_sums(atoms.people)[without_site].sum())
        raise refused("site missing", site=site, n=n, people=atoms.n_people)
    refuse_other_spellings([("these data", atoms)])
    return atoms


def refuse_other_spellings(parts: Sequence[tuple[str, Atoms]]) -> None:
    """Refuse sites that differ only in case or spaces, within one file or between
    files.
    """
    first_seen: dict[str, tuple[str, str]] = {}
    for part, atoms in parts:
        if SITE not in atoms.patterns.attributes:
            continue
        place = atoms.patterns.attributes.index(SITE)
        for level in atoms.patterns.levels[place]:
            name = str(level)
            first, first_part = first_seen.setdefault(folded(name), (name, part))
            if first != name:
                both = " and ".join(dict.fromkeys([first_part, part]))
                raise refused("site twice", first=first, name=name, both=both)


@dataclass(frozen=True, eq=False)
class LazyColumns:
    """Columns with the same rows, which `read` gives when they are needed; only the
    rows in `keep`, if it is not None.

    `lengths` are those of columns in memory, which callers may have given and should
    compare.
    """

    names: tuple[str, ...]
    n: int
    read: Callable[[Sequence[str]], Columns]
    keep: BoolArray | None = None
    lengths: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, columns: Columns) -> LazyColumns:
        """Columns that are in memory."""
        lengths = {name: len(column) for name, column in columns.items()}
        n = next(iter(lengths.values()), 0)
        return cls(
            tuple(columns),
            n,
            lambda names: {name: columns[name] for name in names},
            lengths=lengths,
        )

    def kept(self, keep: BoolArray | None) -> LazyColumns:
        """Only the rows for which `keep` is true; None keeps all."""
        if keep is None:
            return self
        return replace(self, n=int(np.count_nonzero(keep)), keep=keep)

    def columns(self, names: Sequence[str] | None = None) -> Columns:
        """Some of the columns, or all, in memory."""
        columns = self.read(self.names if names is None else names)
        if self.keep is None:
            return columns
        return {name: chosen(column, self.keep) for name, column in columns.items()}


def chosen(column: Any, rows: Any) -> Any:
    """Some rows of a column, given by truth values or by place."""
    if isinstance(column, np.ndarray):
        return column[rows]
    if rows.dtype == np.bool_:
        return column.filter(pa.array(rows))
    return column.take(pa.array(rows))


class Source(ABC):
    """Rows of people with named columns; `title` is what errors call them."""

    title: str

    @property
    @abstractmethod
    def names(self) -> list[str]:
        """The names of the columns."""

    @abstractmethod
    def columns(self, wanted: Sequence[str], kinds: Mapping[str, str] = ...) -> Columns:
        """The wanted columns in memory; `kinds` says how text is read (see
        `PeopleFiles.query`).
        """

    @abstractmethod
    def reduce(self, columns: NamedColumns) -> Atoms:
        """The atoms of the named columns."""

    def atoms(
        self, columns: NamedColumns, *, site: str | None = None, correction: Any = None
    ) -> Atoms:
        """The atoms of the named columns, including attributes that only a correction
        reads.

        `site` is a column, or the name of the one site that all people are from.
        """
        if site is not None:
            columns = replace(columns, site=named_column(site, self.names))
        if correction is not None:
            columns = replace(columns, beside=correction.beside(columns.attributes))
        atoms = self.reduce(columns)
        return atoms if site is None else with_site(atoms, site)


class FrameSource(Source):
    """A data frame in memory."""

    def __init__(self, frame: Any, title: str = "frame") -> None:
        self.frame = frame
        self.title = title

    @property
    def names(self) -> list[str]:
        """The names of the columns."""
        return frame_names(self.frame)

    def columns(self, wanted: Sequence[str], *_: Any) -> Columns:
        """The wanted columns."""
        return frame_columns(self.frame, self.title, wanted)

    def reduce(self, columns: NamedColumns) -> Atoms:
        """The atoms of the named columns, with a warning of an unused column that looks
        like a patient ID.
        """
        wanted = columns.wanted
        atoms = columns.atoms(self.columns(wanted))
        if columns.cluster is not None:
            return atoms
        return replace(atoms, unused_id=self.warn_of_unused_id(wanted))

    def warn_of_unused_id(self, wanted: Sequence[str]) -> str:
        """Warn of a column other than the wanted ones that looks like a patient ID; its
        name, or "".
        """
        return warn_of_undeclared(
            self.names, wanted, lambda name: count_values(self.columns([name])[name])
        )


class EngineSource(FrameSource):
    """A frame of DuckDB, Spark, Dask or lazy polars, which reduces its rows itself."""

    def columns(self, wanted: Sequence[str], *_: Any) -> Columns:
        """The wanted columns, read into memory."""
        lazy: Any = nw.from_native(self.frame)
        require(lazy.collect_schema().names(), wanted)
        table = lazy.select(*wanted).collect(backend="pyarrow").to_native()
        return frame_columns(table, "data", wanted)

    def reduce(self, columns: NamedColumns) -> Atoms:
        """The atoms of the named columns."""
        from propcal.reading.engine_frames import atoms_of_engine

        if columns.cluster is not None:
            raise refused("cluster in an engine")
        return atoms_of_engine(self.frame, columns)


def frame_source(frame: Any, title: str = "frame") -> FrameSource:
    """A frame of any kind."""
    if is_engine_frame(frame):
        return EngineSource(frame, title)
    return FrameSource(frame, title)

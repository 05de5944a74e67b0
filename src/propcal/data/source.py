"""Source: rows of people with named columns, read by column or reduced to atoms; in a frame or in an engine.

Files are a source as well (`propcal.data.files.file_source`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from propcal.core.atoms import Atoms
from propcal.core.grid import BoolArray, IntArray
from propcal.data.frames import Columns, collected_columns, frame_columns, frame_names, is_engine_frame
from propcal.data.named_columns import NamedColumns, named_column, with_site
from propcal.data.repeat_visits import count_values, warn_of_undeclared
from propcal.errors import InputError


@dataclass(frozen=True, eq=False)
class Table:
    """Columns with the same rows, in memory or read in batches; `read` gives some of the columns.

    `lengths` are those of columns in memory, which callers may have given and should compare.
    """

    names: tuple[str, ...]
    n: int
    read: Callable[[Sequence[str]], Iterator[Columns]]
    lengths: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, columns: Columns) -> Table:
        """Columns that are in memory."""
        lengths = {name: len(column) for name, column in columns.items()}

        def read(names: Sequence[str]) -> Iterator[Columns]:
            yield {name: columns[name] for name in names}

        return cls(tuple(columns), _rows(columns), read, lengths)

    def __len__(self) -> int:
        return self.n

    def only(self, names: Sequence[str]) -> Table:
        """Only some of the columns."""
        return replace(self, names=tuple(names))

    def batches(self) -> Iterator[Columns]:
        """All rows, a part of them at a time."""
        return self.read(self.names)

    def columns(self) -> Columns:
        """All rows in memory."""
        return self._joined(self.batches())

    def kept(self, keep: BoolArray) -> Table:
        """Only the rows for which `keep` is true."""

        def read(names: Sequence[str]) -> Iterator[Columns]:
            begin = 0
            for batch in self.read(names):
                own = keep[begin : begin + _rows(batch)]
                begin += len(own)
                yield {name: _filtered(column, own) for name, column in batch.items()}

        return replace(self, n=int(np.count_nonzero(keep)), read=read)

    def take(self, rows: IntArray) -> Columns:
        """Some rows, in increasing order, in memory."""

        def parts() -> Iterator[Columns]:
            begin = 0
            for batch in self.batches():
                end = begin + _rows(batch)
                own = rows[np.searchsorted(rows, begin) : np.searchsorted(rows, end)] - begin
                yield {name: _taken(column, own) for name, column in batch.items()}
                begin = end

        return self._joined(parts())

    def _joined(self, parts: Iterator[Columns]) -> Columns:
        found = list(parts)
        if len(found) == 1:
            return found[0]
        kind = None if found else pa.null()  # without rows
        return {name: pa.chunked_array([part[name] for part in found], kind) for name in self.names}


def _rows(batch: Columns) -> int:
    return len(next(iter(batch.values()))) if batch else 0


def _filtered(column: Any, keep: BoolArray) -> Any:
    return column[keep] if isinstance(column, np.ndarray) else column.filter(pa.array(keep))


def _taken(column: Any, rows: IntArray) -> Any:
    return column[rows] if isinstance(column, np.ndarray) else column.take(pa.array(rows))


class Source(ABC):
    """Rows of people with named columns; `title` is what errors call them."""

    title: str

    @property
    @abstractmethod
    def names(self) -> list[str]:
        """The names of the columns."""

    @abstractmethod
    def table(self, wanted: Sequence[str], kinds: Mapping[str, str] = ...) -> AbstractContextManager[Table]:
        """Open the wanted columns; `kinds` tells how a text file is read (see `PeopleFiles.query`)."""

    @abstractmethod
    def reduce(self, columns: NamedColumns) -> Atoms:
        """The atoms of the named columns."""

    def atoms(self, columns: NamedColumns, *, site: str | None = None, correction: Any = None) -> Atoms:
        """The atoms of the named columns, including attributes that only a correction reads.

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
        self.frame, self.title = frame, title

    @property
    def names(self) -> list[str]:
        """The names of the columns."""
        return frame_names(self.frame)

    def columns(self, wanted: Sequence[str]) -> Columns:
        """The wanted columns."""
        return frame_columns(self.frame, self.title, wanted)

    def table(self, wanted: Sequence[str], *_: Any) -> AbstractContextManager[Table]:
        """The wanted columns."""
        return nullcontext(Table.of(self.columns(wanted)))

    def reduce(self, columns: NamedColumns) -> Atoms:
        """The atoms of the named columns, with a warning of an unused column that looks like a patient ID."""
        wanted = columns.wanted
        atoms = columns.atoms(self.columns(wanted))
        if columns.cluster is None:
            unused = (name for name in self.names if name not in wanted)
            warn_of_undeclared(unused, lambda name: count_values(self.columns([name])[name]))
        return atoms


class EngineSource(FrameSource):
    """A frame of DuckDB, Spark, Dask or lazy polars, which reduces its rows itself."""

    def columns(self, wanted: Sequence[str]) -> Columns:
        """The wanted columns, read into memory."""
        return collected_columns(self.frame, wanted)

    def reduce(self, columns: NamedColumns) -> Atoms:
        """The atoms of the named columns."""
        from propcal.data.engines.frames_to_atoms import atoms_of_engine

        if columns.cluster is not None:
            raise InputError(
                "cluster: ids are hashed in memory, which an engine cannot do in the same way",
                argument="cluster",
                next_step="use Atoms.from_files, or add up the atoms of parts in memory, "
                "Atoms.from_frame(part, cluster=...)",
            )
        return atoms_of_engine(self.frame, columns)


def frame_source(frame: Any, title: str = "frame") -> FrameSource:
    """A frame of any kind."""
    return EngineSource(frame, title) if is_engine_frame(frame) else FrameSource(frame, title)

"""Feature rows: the columns to be searched, in memory or in files that are read in batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from propcal.core.grid import BoolArray, IntArray
from propcal.data.derive import Columns
from propcal.data.files.file_columns import FileColumns


class FeatureRows(Protocol):
    """Columns with the same rows."""

    @property
    def names(self) -> tuple[str, ...]:
        """Of the columns."""

    def __len__(self) -> int: ...

    @property
    def lengths(self) -> dict[str, int]:
        """The length of each column, for an error if they differ."""

    def kept(self, keep: BoolArray) -> FeatureRows:
        """Only the rows for which `keep` is true."""

    def only(self, names: Sequence[str]) -> FeatureRows:
        """Only some of the columns."""

    def take(self, rows: IntArray) -> Columns:
        """Some rows, in increasing order, in memory."""

    def batches(self) -> Iterator[Columns]:
        """All rows, a part of them at a time."""


@dataclass(frozen=True, eq=False)
class MemoryRows:
    """Columns that are in memory."""

    columns: Columns

    @property
    def names(self) -> tuple[str, ...]:
        """Of the columns."""
        return tuple(self.columns)

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()))) if self.columns else 0

    @property
    def lengths(self) -> dict[str, int]:
        """The length of each column."""
        return {f"feature {name!r}": len(column) for name, column in self.columns.items()}

    def kept(self, keep: BoolArray) -> MemoryRows:
        """Only the rows for which `keep` is true."""
        return MemoryRows({name: _kept(column, keep) for name, column in self.columns.items()})

    def only(self, names: Sequence[str]) -> MemoryRows:
        """Only some of the columns."""
        return MemoryRows({name: self.columns[name] for name in names})

    def take(self, rows: IntArray) -> Columns:
        """Some rows."""
        return {name: _taken(column, rows) for name, column in self.columns.items()}

    def batches(self) -> Iterator[Columns]:
        """All rows at once."""
        yield self.columns


@dataclass(frozen=True, eq=False)
class FileRows:
    """Columns of files, `n` rows of which count; `keep` says which, if not all."""

    file: FileColumns
    names: tuple[str, ...]
    n: int
    keep: BoolArray | None = None

    def __len__(self) -> int:
        return self.n

    @property
    def lengths(self) -> dict[str, int]:
        """Columns of files are alike long."""
        return {}

    def kept(self, keep: BoolArray) -> FileRows:
        """Only the rows for which `keep` is true."""
        return replace(self, keep=keep, n=int(np.count_nonzero(keep)))

    def only(self, names: Sequence[str]) -> FileRows:
        """Only some of the columns."""
        return replace(self, names=tuple(names))

    def take(self, rows: IntArray) -> Columns:
        """Some rows."""
        found: dict[str, list[Any]] = {name: [] for name in self.names}
        begin = 0
        for batch in self.batches():
            end = begin + len(next(iter(batch.values())))
            own = rows[np.searchsorted(rows, begin) : np.searchsorted(rows, end)] - begin
            for name, column in batch.items():
                found[name].append(_taken(column, own))
            begin = end
        return {name: pa.chunked_array(parts) for name, parts in found.items()}

    def batches(self) -> Iterator[Columns]:
        """All rows, a part of them at a time."""
        begin = 0
        for batch in self.file.batches(self.names):
            if self.keep is None:
                yield batch
                continue
            end = begin + len(next(iter(batch.values())))
            own = self.keep[begin:end]
            yield {name: _kept(column, own) for name, column in batch.items()}
            begin = end


def _kept(column: Any, keep: BoolArray) -> Any:
    return column[keep] if isinstance(column, np.ndarray) else column.filter(pa.array(keep))


def _taken(column: Any, rows: IntArray) -> Any:
    return column[rows] if isinstance(column, np.ndarray) else column.take(pa.array(rows))

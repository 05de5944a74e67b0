"""Reads chosen columns of files through DuckDB: whole, or in batches, always in the order of the rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import duckdb

from propcal.data.files.duckdb_setup import disk_full, limited, memory_bytes, no_room, watched
from propcal.data.files.file_sets import Files, find_files
from propcal.data.files.file_table import Source, open_files, relation
from propcal.data.sql_quotes import named
from propcal.errors import Argument, InputError
from propcal.interrupts import check as check_stop

BATCH_ROWS = 1 << 18


class FileColumns:
    """The wanted columns of files that are open."""

    def __init__(self, rows: Any, source: Source, wanted: Sequence[str]) -> None:
        self._rows, self._source, self._wanted = rows, source, list(wanted)

    def whole(self, names: Sequence[str]) -> dict[str, Any]:
        """Some of the columns in memory."""
        with _told(self._source, self._wanted):
            table = self._chosen(names).to_arrow_table()
        return {name: table[name] for name in names}

    def batches(self, names: Sequence[str]) -> Iterator[dict[str, Any]]:
        """Some of the columns, a part of the rows at a time."""
        with _told(self._source, self._wanted):
            for batch in self._chosen(names).to_arrow_reader(BATCH_ROWS):
                check_stop()
                yield dict(zip(names, batch.columns))

    def _chosen(self, names: Sequence[str]) -> Any:
        return self._rows.project(", ".join(named(name) for name in names))


@contextmanager
def open_columns(
    files: Files,
    wanted: Sequence[str],
    *,
    numeric: Sequence[str] = (),
    lenient: Sequence[str] = (),
    na: Sequence[str] = (),
    memory_limit: str | int | None = None,
    progress: Callable[[float], None] | None = None,
) -> Iterator[FileColumns]:
    """Open the wanted columns of files; those in `numeric` must hold numbers."""
    memory = memory_bytes(memory_limit)
    paths = find_files(files)
    with limited(memory, None) as engine, watched(engine, progress):
        engine.execute("SET preserve_insertion_order = true")  # rows of several queries go together
        source = open_files(paths, engine, missing=na)
        with _told(source, wanted):
            rows = relation(engine, source, wanted, numeric=numeric, lenient=lenient)
        yield FileColumns(rows, source, wanted)


@contextmanager
def _told(source: Source, wanted: Sequence[str]) -> Iterator[None]:
    """Say why files could not be read, without showing any of their content."""
    try:
        yield
    except duckdb.OutOfMemoryException as error:
        if disk_full(error):
            raise no_room() from None
        raise InputError(
            f"the {len(wanted)} columns do not fit into memory",
            next_step="Name fewer features, or increase " + Argument("memory_limit"),
        ) from None
    except duckdb.Error as error:
        raise source.trouble(error, wanted) from None

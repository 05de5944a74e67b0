"""Reads chosen columns of files into memory, through DuckDB."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import duckdb

from propcal.data.files.duckdb_setup import disk_full, limited, memory_bytes, no_room, watched
from propcal.data.files.file_sets import Files, find_files
from propcal.data.files.file_table import open_files, relation
from propcal.errors import Argument, InputError


def columns_of_files(
    files: Files,
    wanted: Sequence[str],
    *,
    numeric: Sequence[str] = (),
    lenient: Sequence[str] = (),
    na: Sequence[str] = (),
    memory_limit: str | int | None = None,
    progress: Callable[[float], None] | None = None,
) -> dict[str, Any]:
    """The wanted columns of files as Arrow columns; those in `numeric` must hold numbers."""
    memory = memory_bytes(memory_limit)
    paths = find_files(files)
    with limited(memory, None) as engine, watched(engine, progress):
        source = open_files(paths, engine, missing=na)
        try:
            rows = relation(engine, source, wanted, numeric=numeric, lenient=lenient)
            table = rows.to_arrow_table()
        except duckdb.OutOfMemoryException as error:
            if disk_full(error):
                raise no_room() from None
            raise InputError(
                f"the {len(wanted)} columns do not fit into memory",
                next_step="Name fewer features, or increase " + Argument("memory_limit"),
            ) from None
        except duckdb.Error as error:
            raise source.trouble(error, wanted) from None
    return {name: table[name] for name in wanted}

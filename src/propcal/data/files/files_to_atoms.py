"""Reduces files of any size to atoms by one DuckDB aggregation, within a memory limit."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from math import log2
from typing import Any

import duckdb
import numpy as np

from propcal.core.atoms import Atoms
from propcal.core.grid import check_number
from propcal.data.derive import fitting_values, numeric_columns
from propcal.data.engines.frames_to_atoms import complete_rows, totals, with_events
from propcal.data.engines.totals import atoms_of_totals
from propcal.data.files.duckdb_setup import (
    disk_full,
    fewer_threads,
    limited,
    memory_bytes,
    no_room,
    setting,
    watched,
)
from propcal.data.files.file_sets import Files, find_files
from propcal.data.files.file_table import Source, open_files, relation
from propcal.data.named_columns import NamedColumns
from propcal.errors import Argument, InputError
from propcal.interrupts import check as check_stop

FIRST_ROWS = 20_000
BATCH_ROWS = 1 << 20
ATOM_BYTES = 100  # memory that DuckDB needs per atom while it aggregates and spills to disk (measured: 80)


def atoms_from_files(
    files: Files,
    columns: NamedColumns,
    *,
    na: Sequence[str] = (),
    memory_limit: str | int | None = None,
    threads: int | None = None,
    progress: Callable[[float], None] | None = None,
    correction: Any = None,
) -> Atoms:
    """Reduce the named columns of files to atoms, including attributes that only a correction reads."""
    bits, memory = columns.bits, memory_bytes(memory_limit)
    if correction is not None:
        columns = replace(columns, beside=correction.beside(columns.attributes))
    if threads is not None:
        check_number("threads", threads, at_least=1, whole=True)
    paths = find_files(files)
    with limited(memory, threads) as engine, watched(engine, progress):
        source = open_files(paths, engine, missing=na)

        def coarsest() -> Atoms:
            return atoms_of_totals(*totals(rows, replace(columns, resolution=0.5)))

        try:
            rows = fewer_threads(engine, lambda: people_relation(engine, source, columns))
            rows, columns = with_events(rows, columns)
            refuse_identifiers(rows, columns)
            if columns.cluster is None:
                found, shape = fewer_threads(engine, lambda: totals(rows, columns))
            else:
                whole = coarsest()  # so that errors count the problems in all rows
                if columns.weight is not None:
                    columns = replace(columns, weight_kind="frequency" if whole.frequencies else "survey")
                made = _with_clusters(complete_rows(rows, columns), columns)
                return replace(made, left_out=whole.left_out)
        except duckdb.OutOfMemoryException as error:
            if disk_full(error):
                raise no_room() from None
            found = None  # the error is raised below, without the engine's traceback
        except duckdb.Error as error:
            raise reading_trouble(error, source, columns.wanted) from None
        if found is None:
            raise _would_fit(engine, lambda: len(coarsest().patterns), bits)
    # after DuckDB has freed its memory, which lowers the peak by a third
    return atoms_of_totals(found, shape)


def people_relation(engine: Any, source: Source, columns: NamedColumns, also: Sequence[str] = ()) -> Any:
    """The wanted columns, and others, as a relation; those that are compared or summed must be numeric."""
    attributes = columns.attributes
    recipes = {name: made for name, made in attributes.items() if not isinstance(made, str)}
    made_numbers = [name for name in numeric_columns(recipes, [*attributes]) if name not in _plain(columns)]
    must = [name for name in columns.roles if name != columns.outcome]
    wanted = list(dict.fromkeys([*columns.wanted, *also]))
    return relation(engine, source, wanted, numeric=[*must, *made_numbers], lenient=[columns.outcome])


def _plain(columns: NamedColumns) -> list[str]:
    """The columns that are attributes themselves."""
    return [made for made in columns.attributes.values() if isinstance(made, str)]


def refuse_identifiers(rows: Any, columns: NamedColumns) -> None:
    """Refuse identifiers and measurements by the first rows, before all rows are aggregated."""
    own = [name for name in columns.words.attributes([]) if name in _plain(columns)]
    if not own:
        return
    first = rows.limit(FIRST_ROWS).to_arrow_table()
    for name in own:
        seen, codes_too = f"the first {len(first):,} rows", name in columns.words.as_levels
        fitting_values(name, None, {name: first[name]}, None, seen=seen, as_levels=codes_too)


def _with_clusters(rows: Any, columns: NamedColumns) -> Atoms:
    """Atoms in batches, because the patient IDs are hashed in Python; the atoms of batches are then added.

    Atoms of similar size are added first, so that each atom is added only a few times, not once per batch.
    """
    sums: list[Atoms] = []
    for batch in rows.to_arrow_reader(BATCH_ROWS):
        check_stop()
        with warnings.catch_warnings():  # of all rows together, they were warned of before
            warnings.simplefilter("ignore")
            sums.append(columns.atoms(dict(zip(batch.schema.names, batch.columns))))
        while len(sums) > 1 and len(sums[-1]) >= len(sums[-2]) / 2:
            last = sums.pop()
            sums[-1] = sums[-1] + last
    return sum(sums[1:], sums[0])


def reading_trouble(error: Exception, source: Source, columns: Sequence[str]) -> Exception:
    """Why DuckDB could not read the files, without showing any of their content."""
    text = str(error).lower()
    if "interrupt" in text:
        return error
    if disk_full(error):
        return no_room()
    return source.trouble(error, columns)


def _would_fit(engine: Any, patterns: Callable[[], int], bits: int) -> InputError:
    """The error if memory is not enough, with a resolution for which it would be."""
    memory = memory_bytes(setting(engine, "memory_limit")) or 0
    told = f"the table of atoms does not fit into {memory / 1e9:.2g} GB of memory"
    more = "increase " + Argument("memory_limit")
    try:
        n_patterns = patterns()
    except duckdb.Error:
        return InputError(told, next_step="Use fewer groups, or " + more)
    fits = int(np.clip(log2(max(memory / (ATOM_BYTES * n_patterns), 1.0)), 0, bits - 1))
    if fits < 4:
        many = f"{told}: there are {n_patterns:,} combinations of groups"
        return InputError(many, next_step="Use fewer groups, or " + more)
    return InputError(
        f"{told}, even with one thread",
        next_step="Round the scores with "
        + Argument("resolution", f"2**-{fits}")
        + " (the audit reports how little this can change the results), or "
        + more,
    )

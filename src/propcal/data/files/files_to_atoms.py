"""Atoms from files of any size: through DuckDB, in one aggregation, within a limit of memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import log2
from typing import Any

import duckdb
import numpy as np

from propcal.core.atoms import Atoms
from propcal.core.grid import check_number
from propcal.core.groups.groups import Groups
from propcal.core.groups.recipes import Recipe
from propcal.data.derive import fitting_values, numeric_columns
from propcal.data.engines.frames_to_atoms import totals
from propcal.data.engines.totals import Shape, atoms_of_totals
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
from propcal.data.rows_to_atoms import chosen_groups, made_of, resolution_bits, rows_to_atoms, wanted_columns
from propcal.errors import InputError
from propcal.interrupts import check as check_stop

FIRST_ROWS = 20_000
BATCH_ROWS = 1 << 20
ATOM_BYTES = 100  # what DuckDB needs for a total while it adds up and puts the rest aside; measured: 80


def atoms_from_files(
    files: Files,
    *,
    score: str,
    outcome: str,
    groups: Any = (),
    weight: str | None = None,
    cluster: str | None = None,
    resolution: float | None = None,
    weight_kind: str = "auto",
    na: Sequence[str] = (),
    memory_limit: str | int | None = None,
    threads: int | None = None,
    progress: Callable[[float], None] | None = None,
    correction: Any = None,
) -> Atoms:
    """Reduce the named columns of files to atoms, with what a correction reads beside the groups."""
    groups = chosen_groups(score, outcome, groups, weight, cluster)
    bits, memory = resolution_bits(resolution), memory_bytes(memory_limit)
    beside = {} if correction is None else correction.beside(made_of(groups, {}))
    attributes = made_of(groups, beside)
    wanted = wanted_columns(groups, beside) or []
    roles = [name for name in (score, outcome, weight) if name is not None]
    columns = list(dict.fromkeys([*roles, *wanted, *([] if cluster is None else [cluster])]))
    recipes = {name: made for name, made in attributes.items() if not isinstance(made, str)}
    plain = {made for made in attributes.values() if isinstance(made, str)}
    numeric = [*roles, *(name for name in numeric_columns(recipes, [*attributes]) if name not in plain)]
    if threads is not None:
        check_number("threads", threads, at_least=1, whole=True)
    paths = find_files(files)
    named: dict[str, Any] = {"score": score, "outcome": outcome, "weight": weight}
    with limited(memory, threads) as engine, watched(engine, progress):
        source = open_files(paths, engine, missing=na)

        def added(bits: int) -> tuple[Any, Shape]:
            return totals(rows, attributes=attributes, bits=bits, weight_kind=weight_kind, **named)

        try:
            rows = fewer_threads(engine, lambda: relation(engine, source, columns, numeric=numeric))
            _refuse_identifiers(rows, [name for name in groups.attributes([]) if name in plain])
            if cluster is None:
                found, shape = fewer_threads(engine, lambda: added(bits))
            else:
                whole = atoms_of_totals(*added(1))  # what is wrong with the rows is told of all of them
                kind = weight_kind if weight is None else "frequency" if whole.frequencies else "survey"
                return _with_clusters(rows, groups, beside, cluster, bits=bits, weight_kind=kind, **named)
        except duckdb.OutOfMemoryException as error:
            if disk_full(error):
                raise InputError(no_room()) from None
            found = None  # told below, without the trace of the engine
        except duckdb.Error as error:
            raise _trouble(error, source, columns) from None
        if found is None:
            raise InputError(_would_fit(engine, lambda: len(atoms_of_totals(*added(1)).patterns), bits))
    # only now, when DuckDB has given its memory back: with that the peak is a third lower
    return atoms_of_totals(found, shape)


def _refuse_identifiers(rows: Any, plain: Sequence[str]) -> None:
    """Identifiers and measurements show in the first rows: refuse them before a table of all is made."""
    if not plain:
        return
    first = rows.limit(FIRST_ROWS).to_arrow_table()
    for name in plain:
        fitting_values(name, None, {name: first[name]}, None, seen=f"the first {len(first):,} rows")


def _with_clusters(
    rows: Any,
    groups: Groups,
    beside: Mapping[str, Recipe | str],
    cluster: str,
    *,
    score: str,
    outcome: str,
    weight: str | None,
    bits: int,
    weight_kind: str,
) -> Atoms:
    """In batches: ids are hashed by Python, and the atoms of batches add up.

    Atoms of equal size are added first, so that each is added up a few times and not as often as there
    are batches.
    """
    sums: list[Atoms] = []
    reader = rows.to_arrow_reader(BATCH_ROWS)
    for batch in reader:
        check_stop()
        columns = dict(zip(batch.schema.names, batch.columns))
        part = rows_to_atoms(
            columns[score],
            columns[outcome],
            {name: columns[name] for name in wanted_columns(groups, beside) or []},
            None if weight is None else columns[weight],
            cluster=columns[cluster],
            groups=groups,
            beside=beside,
            resolution=2.0**-bits,
            weight_kind=weight_kind,
        )
        sums.append(part)
        while len(sums) > 1 and len(sums[-1]) >= len(sums[-2]) / 2:
            last = sums.pop()
            sums[-1] = sums[-1] + last
    return sum(sums[1:], sums[0])


def _trouble(error: Exception, source: Source, columns: Sequence[str]) -> Exception:
    text = str(error).lower()
    if "interrupt" in text:
        return error
    if disk_full(error):
        return InputError(no_room())
    return source.trouble(error, columns)


def _would_fit(engine: Any, patterns: Callable[[], int], bits: int) -> str:
    """Which resolution the memory would do for."""
    memory = memory_bytes(setting(engine, "memory_limit")) or 0
    told = f"the totals do not fit into {memory / 1e9:.2g} GB of memory"
    try:
        n_patterns = patterns()
    except duckdb.Error:
        return f"{told}; name fewer groups, or raise memory_limit"
    fits = int(np.clip(log2(max(memory / (ATOM_BYTES * n_patterns), 1.0)), 0, bits - 1))
    if fits < 4:
        return f"{told}: there are {n_patterns:,} combinations of groups; name fewer, or raise memory_limit"
    return (
        f"{told}, even with one thread. About {n_patterns:,} x 2**{fits} would: resolution=2**-{fits} rounds "
        "scores to that, and the audit says how little it can change; or raise memory_limit"
    )

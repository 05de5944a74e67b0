"""Files of any size as a source: DuckDB reduces them to atoms, or reads columns, in little memory."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from math import log2
from os import PathLike
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from propcal.core.atoms import Atoms
from propcal.core.grid import check_number
from propcal.data.derive import fitting_values, numeric_columns
from propcal.data.engines.frames_to_atoms import atoms_of_totals, complete_rows, totals, with_events
from propcal.data.files import duckdb_setup as duck
from propcal.data.files.file_sets import Files, find_files, open_files
from propcal.data.files.people_files import ANY, LENIENT, NUMBER, TEXT, Kinds, PeopleFiles
from propcal.data.frames import Columns
from propcal.data.repeat_visits import MOST_COUNTED, warn_of_undeclared
from propcal.data.source import NamedColumns, Source, frame_source
from propcal.errors import Argument, InputError, refused
from propcal.interrupts import check as check_stop
from propcal.numbers import listed
from propcal.plain_text import named

FIRST_ROWS = 20_000
BATCH_ROWS = 1 << 20  # reduced in memory at a time
COLUMN_ROWS = 1 << 18  # read at a time
ATOM_BYTES = 100  # memory that DuckDB needs per atom while it aggregates and spills to disk (measured: 80)


def are_paths(data: Any) -> bool:
    """Whether data are given as a path, a pattern, or a list of these."""
    several = data if isinstance(data, (list, tuple)) else [data]
    return all(isinstance(one, (str, PathLike)) for one in several)


def source_of(data: Any, title: str = "frame", **options: Any) -> Source:
    """Files with the options of `FileSource`, or a frame of any kind."""
    return FileSource(data, **options) if are_paths(data) else frame_source(data, title)


class FileSource(Source):
    """Files of people; `na`, `memory_limit`, `threads` and `progress` as for `Atoms.from_files`."""

    def __init__(
        self,
        files: Files,
        *,
        na: Sequence[str] = (),
        memory_limit: str | int | None = None,
        threads: int | None = None,
        progress: Callable[[float], None] | None = None,
    ) -> None:
        self.memory, self.threads = duck.memory_bytes(memory_limit), threads
        if threads is not None:
            check_number("threads", threads, at_least=1, whole=True)
        self.paths, self.na, self.progress = find_files(files), na, progress
        self.title = listed([str(path) for path in self.paths])

    @property
    def names(self) -> list[str]:
        """The columns of the first file."""
        return self._files.names

    @cached_property
    def _files(self) -> PeopleFiles:
        return open_files(self.paths, missing=self.na)

    @contextmanager
    def opened(
        self, wanted: Sequence[str], too_large: Callable[[Any], InputError]
    ) -> Iterator[tuple[Any, PeopleFiles]]:
        """A connection, and the files opened in it; says why they cannot be read, without their content.

        `too_large` makes the error if memory is not enough.
        """
        with duck.limited(self.memory, self.threads) as engine, duck.watched(engine, self.progress):
            files = self._files.read_by(engine)
            try:
                yield engine, files
                return
            except duckdb.OutOfMemoryException as error:
                if duck.disk_full(error):
                    raise duck.no_room() from None
            except duckdb.InterruptException:
                raise
            except duckdb.Error as error:
                raise duck.no_room() if duck.disk_full(error) else files.trouble(error, wanted) from None
            raise too_large(engine) from None

    def columns(self, wanted: Sequence[str], kinds: Kinds = ANY) -> Columns:
        """The wanted columns, in the order of the rows."""

        def too_large(_: Any) -> InputError:
            step = "Name fewer features, or increase " + Argument("memory_limit")
            return InputError(f"the {len(wanted)} columns do not fit into memory", next_step=step)

        with self.opened(wanted, too_large) as (engine, files):
            engine.execute("SET preserve_insertion_order = true")  # rows of several queries go together
            reader = relation(engine, files, wanted, kinds).to_arrow_reader(COLUMN_ROWS)
            batches = []
            for batch in reader:
                check_stop()
                batches.append(batch)
            return dict(zip(wanted, pa.Table.from_batches(batches, reader.schema).columns))

    def reduce(self, columns: NamedColumns) -> Atoms:
        """The atoms of the named columns, by one aggregation."""
        bits, wanted = columns.bits, columns.wanted
        rows: Any = None

        def coarsest() -> Atoms:
            return atoms_of_totals(*totals(rows, replace(columns, resolution=0.5)))

        def too_large(engine: Any) -> InputError:
            return _would_fit(engine, coarsest if rows is not None else None, bits)

        with self.opened(wanted, too_large) as (engine, files):
            unused = [name for name in files.names if name not in wanted]
            rows = duck.fewer_threads(engine, lambda: people_relation(engine, files, columns))
            rows, columns = with_events(rows, columns)
            refuse_identifiers(rows, columns)
            if columns.cluster is not None:
                whole = coarsest()  # so that errors count the problems in all rows
                if columns.weight is not None:
                    columns = replace(columns, weight_kind="frequency" if whole.frequencies else "survey")
                atoms = _with_clusters(complete_rows(rows, columns), columns)
                return replace(atoms, left_out=whole.left_out)
            found = duck.fewer_threads(engine, lambda: totals(rows, columns))
            unused_id = warn_of_undeclared(unused, lambda name: count_file_values(engine, files, name))
        # after DuckDB has freed its memory, which lowers the peak by a third
        return replace(atoms_of_totals(*found), unused_id=unused_id)


def relation(engine: Any, files: PeopleFiles, wanted: Sequence[str], kinds: Kinds) -> Any:
    """The wanted columns of the files as a relation of DuckDB."""
    alike: dict[str, str] = {}
    for name in wanted:
        if not name:
            raise InputError("a column without a name cannot be used", next_step="Give it a name")
        if (other := alike.setdefault(name.casefold(), name)) != name:
            raise refused("columns by case", other=other, name=name)
    columns = ", ".join(f"w{k} AS {named(name)}" for k, name in enumerate(wanted))
    return engine.sql(f"SELECT {columns} FROM ({files.query(wanted, kinds)})")


def count_file_values(engine: Any, files: PeopleFiles, name: str) -> tuple[int, int]:
    """How many rows have a value in an unused column, and how many different values these have.

    A column that cannot be read, or that some files do not have, is no reason to refuse them.
    """
    try:
        column = f"SELECT w0 FROM ({files.query([name], {name: TEXT})}) LIMIT {MOST_COUNTED}"
        rows, different = engine.sql(f"SELECT count(w0), count(DISTINCT w0) FROM ({column})").fetchall()[0]
    except duckdb.InterruptException:
        raise
    except (duckdb.Error, InputError, ValueError):
        return 0, 0
    return rows, different


def people_relation(engine: Any, files: PeopleFiles, columns: NamedColumns, also: Sequence[str] = ()) -> Any:
    """The wanted columns, and others, as a relation; those that are compared or summed must be numeric."""
    attributes = columns.attributes
    recipes = {name: made for name, made in attributes.items() if not isinstance(made, str)}
    made_of = [name for name in numeric_columns(recipes, [*attributes]) if name not in _plain(columns)]
    kinds = dict.fromkeys([*columns.roles, *made_of], NUMBER) | {columns.outcome: LENIENT}
    return relation(engine, files, list(dict.fromkeys([*columns.wanted, *also])), kinds)


def _plain(columns: NamedColumns) -> list[str]:
    """The columns that are attributes themselves."""
    return [made for made in columns.attributes.values() if isinstance(made, str)]


def refuse_identifiers(rows: Any, columns: NamedColumns) -> None:
    """Refuse identifiers and measurements by the first rows, before all rows are aggregated."""
    own = [name for name in columns.words.attributes([]) if name in _plain(columns)]
    first: Any = rows.limit(FIRST_ROWS).to_arrow_table() if own else None
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


def _would_fit(engine: Any, coarsest: Callable[[], Atoms] | None, bits: int) -> InputError:
    """The error if memory is not enough, with a resolution for which it would be."""
    memory = duck.memory_bytes(duck.setting(engine, "memory_limit")) or 0
    told = f"the table of atoms does not fit into {memory / 1e9:.2g} GB of memory"
    more = "increase " + Argument("memory_limit")
    try:
        n_patterns = 0 if coarsest is None else len(coarsest().patterns)
    except duckdb.Error:
        n_patterns = 0
    if not n_patterns:
        return InputError(told, next_step="Use fewer groups, or " + more)
    fits = int(np.clip(log2(max(memory / (ATOM_BYTES * n_patterns), 1.0)), 0, bits - 1))
    if fits < 4:
        many = f"{told}: there are {n_patterns:,} combinations of groups"
        return InputError(many, next_step="Use fewer groups, or " + more)
    step = "Round the scores with " + Argument("resolution", f"2**-{fits}")
    step += " (the audit reports how little this can change the results), or " + more
    return InputError(f"{told}, even with one thread", next_step=step)

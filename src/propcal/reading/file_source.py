"""Reading files of any size: DuckDB reduces them to atoms, or reads some columns.

They are found by path or pattern. Their content, not their name, decides the format:
Parquet, CSV (plain, gzip, zstd) or Excel, or atoms.
"""

from __future__ import annotations

import glob
import hashlib
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from difflib import get_close_matches
from functools import cached_property
from math import log2
from os import PathLike, fspath
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile

import duckdb
import numpy as np
import pyarrow as pa

from propcal.core.arguments import check_number, refuse_special
from propcal.core.atoms import Atoms
from propcal.errors import FileFormatError, InputError, PropcalError, named, refused
from propcal.interrupts import check as check_stop
from propcal.numbers import listed
from propcal.reading import duckdb_setup as duck
from propcal.reading import people_files as formats
from propcal.reading.csv_parquet_excel import (
    CsvFile,
    ExcelFile,
    ParquetFile,
    atoms_header,
)
from propcal.reading.derived_columns import fitting_values, numeric_columns, recipes_of
from propcal.reading.engine_frames import (
    atoms_of_totals,
    complete_rows,
    totals,
    with_events,
)
from propcal.reading.frames import Columns
from propcal.reading.patient_ids import MOST_COUNTED, warn_of_undeclared
from propcal.reading.people_files import Kinds, ParquetFiles, PeopleFiles, TextFiles
from propcal.reading.source import NamedColumns, Source, frame_source

FIRST_ROWS = 20_000
BATCH_ROWS = 1 << 20  # reduced in memory at a time
COLUMN_ROWS = 1 << 18  # read at a time
# memory that DuckDB needs per atom while it aggregates and spills to disk (measured:
# 80)
ATOM_BYTES = 100
FEWEST_BITS = 4  # of scores, to suggest as a coarser resolution
FIRST_BYTES = 4096  # from which the format is recognised
_MAGIC = {
    b"PAR1": "parquet",
    b"\x1f\x8b": "gzip",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"PK\x03\x04": "zip",
}
_MAGIC |= {b"\xd0\xcf\x11\xe0": "xls", b"\xff\xfe": "utf16", b"\xfe\xff": "utf16"}
ENDINGS = [
    ".parquet",
    ".csv",
    ".csv.gz",
    ".csv.zst",
    ".tsv",
    ".xlsx",
    ".atoms",
]  # by which a folder is read
Files = str | PathLike[str] | Sequence[str | PathLike[str]]


def find_files(files: Files) -> list[Path]:
    """The files that match paths and patterns such as ``visits/*.parquet``, without
    duplicates.
    """
    patterns = [files] if isinstance(files, (str, PathLike)) else list(files)
    if not patterns:
        raise InputError("files: at least one file is needed", argument="files")
    paths: list[Path] = []
    for pattern in patterns:
        paths += _matches(fspath(pattern))

    seen: dict[Path, Path] = {}
    for path in paths:
        if "://" in fspath(path) or ":/" in fspath(path)[1:]:
            raise refused("not local", path=path)
        if not path.is_dir():
            # a folder is refused with the files in it when it is opened
            refuse_special(path)
        if seen.setdefault(path.resolve(), path) is not path:
            problem = f"{path} is named twice, so its people would be counted twice"
            raise InputError(problem, argument="files")
    return paths


def _matches(pattern: str) -> list[Path]:
    """The files that match a pattern, or the one file that it names."""
    if not glob.has_magic(pattern) or Path(pattern).exists():
        return [Path(pattern)]
    matches = map(Path, glob.glob(pattern, recursive=True))
    found = sorted(filter(Path.is_file, matches))
    if not found:
        raise InputError(f"no file matches {pattern}", argument="files")
    return found


def refuse_same_content(paths: Sequence[Path]) -> None:
    """Refuse copies of a file under another name; only files of the same size are
    read.
    """
    sizes: dict[int, list[Path]] = {}
    for path in paths:
        if path.is_file():
            sizes.setdefault(path.stat().st_size, []).append(path)
    for same_size in sizes.values():
        if len(same_size) == 1:
            continue
        seen: dict[bytes, Path] = {}
        for path in same_size:
            with open(path, "rb") as file:
                content = hashlib.file_digest(file, "sha256").digest()
            same = seen.setdefault(content, path)
            if same is not path:
                raise refused("same content", path=path, same=same)


def open_file(
    path: str | PathLike[str], *, missing: Sequence[str] = ()
) -> PeopleFiles | Atoms:
    """Recognise a file by its content; an atoms file is loaded. `missing` as for
    `PeopleFiles`.
    """
    path = Path(path)
    kind = _kind(path)
    if kind == "parquet":
        parquet = ParquetFile(path)
        if atoms_header(parquet.schema) is None:
            return ParquetFiles([parquet])
        return Atoms.load(path)
    if kind == "zip":
        return TextFiles([ExcelFile(path)], missing=missing)
    if path.suffix.lower() in (".parquet", ".pq"):
        raise FileFormatError(
            f"{path} is not a Parquet file, despite its name. Is it cut off?"
        )
    return TextFiles([CsvFile(path, compression=kind)], missing=missing)


def _kind(path: Path) -> str:
    """What the first bytes say: parquet, gzip, zstd, zip for Excel, or none for
    text.
    """
    if path.is_dir():
        raise InputError(
            f"{path} is a folder",
            next_step=f'name files in it, say "{path}/*{_ending_in(path)}"',
        )
    refuse_special(path)
    if not path.exists():
        raise _no_file(path)
    with path.open("rb") as file:
        start = file.read(FIRST_BYTES)
    if not start.strip():
        raise FileFormatError(f"{path} is empty")
    kind = "none"
    for magic, kind_of_magic in _MAGIC.items():
        if start.startswith(magic):
            kind = kind_of_magic
    _refuse_unreadable(path, kind, start)
    return kind


def _ending_in(folder: Path) -> str:
    """How the names of files in a folder end."""
    for ending in ENDINGS:
        if any(folder.glob(f"*{ending}")):
            return ending
    return ENDINGS[0]


def _refuse_unreadable(path: Path, kind: str, start: bytes) -> None:
    """Refuse files of known formats that hold no table that propcal can read."""
    if kind == "zip" and not _is_workbook(path):
        what = "a zip archive"
        step = "unpack it"
    elif kind == "xls":
        what = "an Excel workbook in the old format (.xls)"
        step = "save it as .xlsx or CSV"
    elif kind == "utf16":
        what = "UTF-16 text"
        step = "save it as UTF-8 (in Excel: CSV UTF-8)"
    elif kind == "none" and b"\0" in start:
        what = "neither text nor Parquet"
        step = "save the table as CSV or Parquet"
    else:
        return
    raise FileFormatError(f"{path} is {what}", next_step=step)


def _is_workbook(path: Path) -> bool:
    try:
        with ZipFile(path) as archive:
            return "xl/workbook.xml" in archive.namelist()
    except BadZipFile:
        return path.suffix.lower() == ".xlsx"  # cut off


def _no_file(path: Path) -> InputError:
    if not path.parent.is_dir():
        return InputError(f"there is no file {path}, nor a folder {path.parent}")
    names = [other.name for other in path.parent.iterdir()]
    similar = get_close_matches(path.name, names, n=1)
    hint = f"Did you mean {path.parent / similar[0]}?" if similar else None
    return InputError(f"there is no file {path}", next_step=hint)


def open_people(
    paths: Sequence[Path], *, missing: Sequence[str] = (), advice: str
) -> list[PeopleFiles]:
    """Open files with one row per person; files of atoms are refused with this
    advice.
    """
    sources = []
    for path in paths:
        people = open_file(path, missing=missing)
        if isinstance(people, Atoms):
            raise InputError(
                f"{path} is an atoms file; this needs one row per person",
                next_step=advice,
            )
        sources.append(people)
    return sources


def open_files(paths: Sequence[Path], *, missing: Sequence[str] = ()) -> PeopleFiles:
    """Open files as one table; they must be either all Parquet or all text, and the
    content decides.
    """
    opened = open_people(
        paths, missing=missing, advice="Load it, or merge it with propcal merge"
    )
    first = opened[0]
    parts = []
    for path, files in zip(paths, opened):
        if type(files) is not type(first):
            raise refused(
                "other format",
                first=paths[0],
                kind=first.format,
                path=path,
                other=files.format,
            )
        parts += files.parts
    return type(first)(parts, missing=missing)


def check_same_columns(
    sources: Sequence[PeopleFiles], *, as_text: bool, only: Sequence[str] | None = None
) -> None:
    """Refuse files whose columns differ from the first file's (all of them in order, or
    those in `only`).
    """
    if len(sources) < 2:
        return
    first = sources[0]
    types = _types(first, as_text=as_text)
    if only is not None:
        types = {name: types[name] for name in types if name in only}
    for other in sources[1:]:
        other_types = _types(other, as_text=as_text)
        for name, kind in types.items():
            if name not in other_types:
                raise InputError(
                    f"{other.path} has no column {name!r}, but {first.path} has one"
                )
            if other_types[name] != kind:
                raise refused(
                    "other type",
                    name=name,
                    found=other_types[name],
                    kind=kind,
                    path=other.path,
                    first=first.path,
                )
        if only is None and other.names != first.names:
            raise _other_columns(other, first)


def _types(files: PeopleFiles, *, as_text: bool) -> dict[str, Any]:
    return {field.name: field.type for field in files.schema(as_text=as_text)}


def _other_columns(other: PeopleFiles, first: PeopleFiles) -> InputError:
    """The error of files that have all columns of the first, and more or in another
    order.
    """
    more = [name for name in other.names if name not in first.names]
    if more:
        problem = f"{other.path} has a column {more[0]!r}, but {first.path} does not"
        return InputError(problem)
    return InputError(
        f"{other.path} has its columns in a different order from {first.path}"
    )


def are_paths(data: Any) -> bool:
    """Whether data are given as a path, a pattern, or a list of these."""
    if isinstance(data, (list, tuple)):
        return all(isinstance(path, (str, PathLike)) for path in data)
    return isinstance(data, (str, PathLike))


def source_of(data: Any, title: str = "frame", **options: Any) -> Source:
    """Files with the options of `FileSource`, or a frame of any kind."""
    if are_paths(data):
        return FileSource(data, **options)
    return frame_source(data, title)


class FileSource(Source):
    """Files of people; `na`, `memory_limit`, `threads` and `progress` as for
    `Atoms.from_files`.
    """

    def __init__(
        self,
        files: Files,
        *,
        na: Sequence[str] = (),
        memory_limit: str | int | None = None,
        threads: int | None = None,
        progress: Callable[[float], None] | None = None,
    ) -> None:
        self.memory = duck.memory_bytes(memory_limit)
        self.threads = threads
        if threads is not None:
            check_number("threads", threads, at_least=1, whole=True)
        self.paths = find_files(files)
        self.na = na
        self.progress = progress
        self.title = listed(list(map(str, self.paths)))

    @property
    def names(self) -> list[str]:
        """The columns of the first file."""
        return self._files.names

    @cached_property
    def _files(self) -> PeopleFiles:
        return open_files(self.paths, missing=self.na)

    @contextmanager
    def opened(
        self, wanted: Sequence[str], too_large: Callable[[Any], PropcalError]
    ) -> Iterator[tuple[Any, PeopleFiles]]:
        """A connection, and the files opened in it; says why they cannot be read,
        without their content.

        `too_large` makes the error if memory is not enough.
        """
        with (
            duck.limited(self.memory, self.threads) as engine,
            duck.watched(engine, self.progress),
        ):
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
                if duck.disk_full(error):
                    raise duck.no_room() from None
                raise files.trouble(error, wanted) from None
            raise too_large(engine) from None

    def columns(self, wanted: Sequence[str], kinds: Kinds = formats.ANY) -> Columns:
        """The wanted columns, in the order of the rows."""

        def too_large(_: Any) -> PropcalError:
            return refused("columns too large", n=len(wanted))

        with self.opened(wanted, too_large) as (engine, files):
            # rows of several queries go together
            engine.execute("SET preserve_insertion_order = true")
            reader = relation(engine, files, wanted, kinds).to_arrow_reader(COLUMN_ROWS)
            batches = []
            for batch in reader:
                check_stop()
                batches.append(batch)
            table = pa.Table.from_batches(batches, reader.schema)
            return dict(zip(wanted, table.columns))

    def reduce(self, columns: NamedColumns) -> Atoms:
        """The atoms of the named columns, by one aggregation."""
        bits = columns.bits
        wanted = columns.wanted
        rows: Any = None

        def coarsest() -> Atoms:
            return atoms_of_totals(*totals(rows, replace(columns, resolution=0.5)))

        def too_large(engine: Any) -> PropcalError:
            if rows is None:
                return _would_fit(engine, None, bits)
            return _would_fit(engine, coarsest, bits)

        with self.opened(wanted, too_large) as (engine, files):
            rows = duck.fewer_threads(
                engine, lambda: people_relation(engine, files, columns)
            )
            rows, columns = with_events(rows, columns)
            refuse_identifiers(rows, columns)
            if columns.cluster is not None:
                # first all rows together, so that errors count the problems in all
                whole = coarsest()
                if columns.weight is not None:
                    kind = "frequency" if whole.frequencies else "survey"
                    columns = replace(columns, weight_kind=kind)
                atoms = _with_clusters(complete_rows(rows, columns), columns)
                return replace(atoms, left_out=whole.left_out)
            table = duck.fewer_threads(engine, lambda: totals(rows, columns))
            unused_id = warn_of_undeclared(
                files.names, wanted, lambda name: count_file_values(engine, files, name)
            )
        # after DuckDB has freed its memory, which lowers the peak by a third
        return replace(atoms_of_totals(*table), unused_id=unused_id)


def relation(
    engine: Any, files: PeopleFiles, wanted: Sequence[str], kinds: Kinds
) -> Any:
    """The wanted columns of the files as a relation of DuckDB."""
    names_by_letters: dict[str, str] = {}
    for name in wanted:
        if not name:
            problem = "a column without a name cannot be used"
            raise InputError(problem, next_step="Give it a name")
        other = names_by_letters.setdefault(name.casefold(), name)
        if other != name:
            raise refused("columns by case", other=other, name=name)
    columns = ", ".join(f"w{k} AS {named(name)}" for k, name in enumerate(wanted))
    return engine.sql(f"SELECT {columns} FROM ({files.query(wanted, kinds)})")


def count_file_values(engine: Any, files: PeopleFiles, name: str) -> tuple[int, int]:
    """How many rows have a value in an unused column, and how many different values
    these have.

    A column that cannot be read, or that some files do not have, is no reason to refuse
    them.
    """
    try:
        query = files.query([name], {name: formats.TEXT})
        column = f"SELECT w0 FROM ({query}) LIMIT {MOST_COUNTED}"
        counts = f"SELECT count(w0), count(DISTINCT w0) FROM ({column})"
        rows, different = engine.sql(counts).fetchall()[0]
    except duckdb.InterruptException:
        raise
    except (duckdb.Error, InputError, ValueError):
        return 0, 0
    return rows, different


def people_relation(
    engine: Any, files: PeopleFiles, columns: NamedColumns, also: Sequence[str] = ()
) -> Any:
    """The wanted columns, and others, as a relation; those that are compared or summed
    must be numeric.
    """
    attributes = columns.attributes
    by_size = set(numeric_columns(recipes_of(attributes), list(attributes)))
    numbers = [*columns.roles, *by_size.difference(_columns_of_levels(columns))]
    kinds = dict.fromkeys(numbers, formats.NUMBER)
    kinds[columns.outcome] = formats.LENIENT
    wanted = list(dict.fromkeys([*columns.wanted, *also]))
    return relation(engine, files, wanted, kinds)


def _columns_of_levels(columns: NamedColumns) -> list[str]:
    """The columns that are attributes themselves."""
    return [made for made in columns.attributes.values() if isinstance(made, str)]


def refuse_identifiers(rows: Any, columns: NamedColumns) -> None:
    """Refuse identifiers and measurements by the first rows, before all rows are
    aggregated.
    """
    of_levels = _columns_of_levels(columns)
    of_groups = columns.definition.attributes([])
    own = [name for name in of_groups if name in of_levels]
    if not own:
        return
    first = rows.limit(FIRST_ROWS).to_arrow_table()
    seen = f"the first {len(first):,} rows"
    for name in own:
        fitting_values(
            name,
            None,
            {name: first[name]},
            None,
            seen=seen,
            as_levels=name in columns.definition.as_levels,
        )


def _with_clusters(rows: Any, columns: NamedColumns) -> Atoms:
    """Atoms in batches, because the patient IDs are hashed in Python; the atoms of
    batches are then added.

    Atoms of similar size are added first, so that each atom is added only a few times,
    not once per batch.
    """
    sums: list[Atoms] = []
    for batch in rows.to_arrow_reader(BATCH_ROWS):
        check_stop()
        people = dict(zip(batch.schema.names, batch.columns))
        # the same warnings were given before, for all rows together
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            sums.append(columns.atoms(people))
        while len(sums) > 1 and len(sums[-1]) >= len(sums[-2]) / 2:
            last = sums.pop()
            sums[-1] = sums[-1] + last
    return sum(sums[1:], sums[0])


def _would_fit(
    engine: Any, coarsest: Callable[[], Atoms] | None, bits: int
) -> PropcalError:
    """The error if memory is not enough, with a resolution for which it would be."""
    memory = duck.memory_bytes(duck.setting(engine, "memory_limit")) or 0
    problem = f"the table of atoms does not fit into {memory / 1e9:.2g} GB of memory"
    n_patterns = 0
    if coarsest is not None:
        with suppress(duckdb.Error):
            n_patterns = len(coarsest().patterns)
    if not n_patterns:
        return refused("no memory", told=problem)

    atoms_per_pattern = max(memory / (ATOM_BYTES * n_patterns), 1.0)
    bits_that_fit = int(np.clip(log2(atoms_per_pattern), 0, bits - 1))
    if bits_that_fit < FEWEST_BITS:
        problem += f": there are {n_patterns:,} combinations of groups"
        return refused("no memory", told=problem)
    return refused("coarser scores", told=problem, resolution=f"2**-{bits_that_fit}")

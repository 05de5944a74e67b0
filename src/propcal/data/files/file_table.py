"""Combines many Parquet or text files into one DuckDB table, from which only totals are read.

Parquet files keep their types. They may have their columns in a different order and use numeric types of
other widths, but a column must have the same kind of values in all files. The type of a text column is
determined from all values in all files: a single ``02139`` makes it a column of codes everywhere. Columns are
addressed by position, because DuckDB does not distinguish ``Age`` from ``age``.
"""

from __future__ import annotations

import glob
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import duckdb
import pyarrow as pa

from propcal.data.derive import is_record
from propcal.data.files.file_sets import open_people
from propcal.data.files.formats import ParquetFile, check_names
from propcal.data.files.text_file import TextFile
from propcal.data.sql_quotes import named, quoted
from propcal.errors import FileFormatError, InputError


class Source(Protocol):
    """Several files that form one table."""

    paths: list[Path]
    names: list[str]

    def query(
        self, wanted: Sequence[str], *, numeric: Sequence[str] = (), lenient: Sequence[str] = ()
    ) -> str:
        """The wanted columns, called w0, w1, ..., as SQL; those named in `numeric` must hold numbers.

        Those in `lenient` are numbers if all of their values are, and otherwise text.
        """

    def trouble(self, error: Exception, wanted: Sequence[str]) -> Exception:
        """Why the files could not be read, without showing any of their content."""


def open_files(paths: Sequence[Path], engine: Any, *, missing: Sequence[str] = ()) -> Source:
    """Open files, which must be either all Parquet or all text; the content decides."""
    opened = open_people(paths, missing=missing, advice="Load it, or merge it with propcal merge")
    first = opened[0]
    for file in opened[1:]:
        if isinstance(file, ParquetFile) is not isinstance(first, ParquetFile):
            kinds = ["Parquet" if isinstance(f, ParquetFile) else "text" for f in (first, file)]
            raise InputError(
                f"{paths[0]} is a {kinds[0]} file, but {file.path} is a {kinds[1]} file",
                next_step="Use files of the same format",
            )
    if isinstance(first, ParquetFile):
        return ParquetFiles([file for file in opened if isinstance(file, ParquetFile)])
    return TextFiles([file for file in opened if isinstance(file, TextFile)], engine)


class ParquetFiles:
    """Parquet files with one row per person."""

    def __init__(self, files: Sequence[ParquetFile]) -> None:
        self.paths = [file.path for file in files]
        self.schemas = [file.schema(as_text=False) for file in files]
        self.names = list(self.schemas[0].names)

    def query(
        self,
        wanted: Sequence[str],
        *,
        numeric: Sequence[str] = (),  # noqa: ARG002
        lenient: Sequence[str] = (),  # noqa: ARG002
    ) -> str:
        """The wanted columns as SQL: files of the same columns and types are read together."""
        alike: dict[tuple[Any, ...], list[Path]] = {}
        for path, schema in zip(self.paths, self.schemas):
            _check_names(self.paths[0], path, schema.names, wanted)
            _refuse_records(path, schema, wanted)
            self._refuse_other_kinds(path, schema, wanted)
            key = tuple(schema.names), tuple(str(schema.field(name).type) for name in wanted)
            alike.setdefault(key, []).append(path)
        parts = []
        for (names, types), paths in alike.items():
            listed = ", ".join(quoted(glob.escape(str(path))) for path in paths)
            places = ", ".join(f"c{i}" for i in range(len(names)))
            read = [_read(f"c{names.index(name)}", kind) for name, kind in zip(wanted, types)]
            chosen = ", ".join(f"{column} AS w{k}" for k, column in enumerate(read))
            source = f"read_parquet([{listed}], hive_partitioning=false, can_have_nan=true) AS t({places})"
            parts.append(f"SELECT {chosen or '1'} FROM {source}")
        return " UNION ALL ".join(parts)

    def _refuse_other_kinds(self, path: Path, schema: Any, wanted: Sequence[str]) -> None:
        for name in wanted:
            for other, theirs in zip(self.paths, self.schemas):
                kinds = kind_of(theirs.field(name).type), kind_of(schema.field(name).type)
                if other == path:
                    break
                if "nothing" not in kinds and kinds[0] != kinds[1]:
                    raise InputError(
                        f"column {name!r} has different types: {kinds[0]} in {other}, {kinds[1]} in {path}",
                        argument=name,
                        next_step="Write both files with the same type",
                    )

    def trouble(self, error: Exception, wanted: Sequence[str]) -> Exception:
        """Find the damaged file by reading each one to its end."""
        for path in self.paths:
            try:
                for _ in ParquetFile(path).batches(list(wanted)):
                    pass
            except (FileFormatError, InputError) as found:
                return found
        return FileFormatError(
            f"DuckDB could not read {self.paths[0]}{' or another file' * (len(self.paths) > 1)} "
            f"({type(error).__name__})",
            next_step="Write the file again, if necessary with another program",
        )


def _read(place: str, kind: str) -> str:
    """A column as it is, but a duration as an interval: DuckDB would take it for a whole number.

    The unit does not matter, for an interval is neither a group nor a number; it may only be missing.
    """
    return f"to_microseconds({place})" if "duration[" in kind else place


def _refuse_records(path: Path, schema: Any, wanted: Sequence[str]) -> None:
    for name in wanted:
        if is_record(schema.field(name).type):
            raise InputError(
                f"column {name!r} of {path} contains lists or records; it must have one value per person",
                argument=name,
            )


def _check_names(first: Path, path: Path, names: Sequence[str], wanted: Sequence[str]) -> None:
    """Refuse missing columns; the error names the file if it is not the first."""
    lacking = [name for name in wanted if name not in names]
    if lacking and path != first:
        raise InputError(
            f"{path} has no column {lacking[0]!r}, but {first} has one; all files must have the same columns"
        )
    check_names(path, names, wanted)


def kind_of(arrow_type: Any) -> str:
    """The kind of values in a column, on which all files must agree."""
    kind = arrow_type.value_type if pa.types.is_dictionary(arrow_type) else arrow_type
    if pa.types.is_null(kind):
        return "nothing"
    if pa.types.is_boolean(kind):
        return "truth values"
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return "numbers"
    if pa.types.is_temporal(kind):
        return "dates or times"
    return "text" if "string" in str(kind) else str(kind)


class TextFiles(TextFile):
    """Text files with one row per person; column types are determined from all files."""

    def __init__(self, files: Sequence[TextFile], engine: Any) -> None:
        self.files = list(files)
        self.paths = [file.path for file in files]
        self.path, self.missing = files[0].path, files[0].missing
        self.names = files[0].names
        self._kinds: dict[tuple[int, str], str] = {}
        self._engine = engine
        self._wanted: list[str] = []

    def query(
        self, wanted: Sequence[str], *, numeric: Sequence[str] = (), lenient: Sequence[str] = ()
    ) -> str:
        """The wanted columns as SQL."""
        for file in self.files:
            _check_names(self.path, file.path, file.names, wanted)
            file.refuse_truncated()
        self.names = self._wanted = list(wanted)
        return self.typed_query(wanted, numeric=numeric, lenient=lenient)

    def source(self, *, null: bool) -> str:
        """SQL that reads the wanted columns of all files."""
        parts = []
        for file in self.files:
            places = [f"c{file.names.index(name)} AS w{i}" for i, name in enumerate(self._wanted)]
            parts.append(f"SELECT {', '.join(places) or '1'} FROM {file.source(null=null)}")
        columns = ", ".join(f"c{i}" for i in range(len(self._wanted))) or "c0"
        return f"({' UNION ALL '.join(parts)}) AS t({columns})"

    def count(self) -> int:
        """Unknown: rows are counted by the query itself."""
        return -1

    def trouble(self, error: Exception, wanted: Sequence[str]) -> Exception:  # noqa: ARG002
        """Find the damaged file by reading each one to its end."""
        for file in self.files:
            try:
                file.count()
            except (FileFormatError, InputError) as found:
                return found
        return FileFormatError(f"{self.path} cannot be read as CSV ({type(error).__name__})")

    def _told(self, step: Any) -> Any:
        trouble: Exception | None = None
        try:
            return step()
        except duckdb.OutOfMemoryException:
            raise
        except (duckdb.Error, pa.ArrowException, OSError) as error:
            trouble = self.trouble(error, self._wanted)
        raise trouble


def relation(
    engine: Any,
    source: Source,
    wanted: Sequence[str],
    *,
    numeric: Sequence[str],
    lenient: Sequence[str] = (),
) -> Any:
    """The wanted columns of the files as a relation of DuckDB."""
    alike: dict[str, str] = {}
    for name in wanted:
        if not name:
            raise InputError("a column without a name cannot be used", next_step="Give it a name")
        other = alike.setdefault(name.casefold(), name)
        if other != name:
            raise InputError(
                f"the columns {other!r} and {name!r} differ only in case, which DuckDB ignores",
                argument=name,
                next_step="Rename one of them",
            )
    columns = ", ".join(f"w{k} AS {named(name)}" for k, name in enumerate(wanted))
    return engine.sql(f"SELECT {columns} FROM ({source.query(wanted, numeric=numeric, lenient=lenient)})")

"""Many files, Parquet or text: together one table of DuckDB, in which only totals leave the files.

Parquet keeps its types; files may order their columns differently and write numbers in other widths, but a
column must be of one kind in all. Text is typed by all values of all files: one ``02139`` makes a column of
codes everywhere. Columns are addressed by their place, so that DuckDB, which does not tell ``Age`` from
``age``, cannot mix them up.
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
    """Files that are one table."""

    paths: list[Path]
    names: list[str]

    def query(self, wanted: Sequence[str], *, numeric: Sequence[str] = ()) -> str:
        """The wanted columns, called w0, w1, ..., as SQL; those named in `numeric` must hold numbers."""

    def trouble(self, error: Exception, wanted: Sequence[str]) -> Exception:
        """What went wrong while the files were read, without a word of what stands in them."""


def open_files(paths: Sequence[Path], engine: Any, *, missing: Sequence[str] = ()) -> Source:
    """Recognise files by their content: all Parquet, or all text."""
    opened = open_people(paths, missing=missing, advice="load it, or add it up with propcal merge")
    first = opened[0]
    for file in opened[1:]:
        if type(file) is not type(first):
            kinds = ["Parquet" if isinstance(f, ParquetFile) else "text" for f in (first, file)]
            raise InputError(
                f"{paths[0]} is {kinds[0]} and {file.path} is {kinds[1]}", next_step="name files of one kind"
            )
    if isinstance(first, ParquetFile):
        return ParquetFiles([file for file in opened if isinstance(file, ParquetFile)])
    return TextFiles([file for file in opened if isinstance(file, TextFile)], engine)


class ParquetFiles:
    """Parquet files of people."""

    def __init__(self, files: Sequence[ParquetFile]) -> None:
        self.paths = [file.path for file in files]
        self.schemas = [file.schema(as_text=False) for file in files]
        self.names = list(self.schemas[0].names)

    def query(self, wanted: Sequence[str], *, numeric: Sequence[str] = ()) -> str:  # noqa: ARG002
        """The wanted columns as SQL: files of the same columns and types are read together."""
        alike: dict[tuple[Any, ...], list[Path]] = {}
        for path, schema in zip(self.paths, self.schemas):
            _check_names(self.paths[0], path, schema.names, wanted)
            _refuse_records(path, schema, wanted)
            self._refuse_other_kinds(path, schema, wanted)
            key = tuple(schema.names), tuple(str(schema.field(name).type) for name in wanted)
            alike.setdefault(key, []).append(path)
        parts = []
        for (names, _), paths in alike.items():
            listed = ", ".join(quoted(glob.escape(str(path))) for path in paths)
            places = ", ".join(f"c{i}" for i in range(len(names)))
            chosen = ", ".join(f"c{names.index(name)} AS w{k}" for k, name in enumerate(wanted))
            source = f"read_parquet([{listed}], hive_partitioning=false) AS t({places})"
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
                        f"column {name!r} changes its type: it holds {kinds[0]} in {other} and {kinds[1]} in "
                        f"{path}",
                        argument=name,
                        next_step="write both alike",
                    )

    def trouble(self, error: Exception, wanted: Sequence[str]) -> Exception:
        """Find the damaged file by reading each to its end."""
        for path in self.paths:
            try:
                for _ in ParquetFile(path).batches(list(wanted)):
                    pass
            except (FileFormatError, InputError) as found:
                return found
        return FileFormatError(
            f"DuckDB could not read {self.paths[0]}{' or another file' * (len(self.paths) > 1)} "
            f"({type(error).__name__})",
            next_step="write it again, with another program if need be",
        )


def _refuse_records(path: Path, schema: Any, wanted: Sequence[str]) -> None:
    for name in wanted:
        if is_record(schema.field(name).type):
            raise InputError(
                f"column {name!r} of {path} holds lists or records; it must hold one value for each person",
                argument=name,
            )


def _check_names(first: Path, path: Path, names: Sequence[str], wanted: Sequence[str]) -> None:
    """Every wanted column must be there; of further files say which of them has it not."""
    lacking = [name for name in wanted if name not in names]
    if lacking and path != first:
        raise InputError(f"{path} has no column {lacking[0]!r}, which {first} has; files must have the same")
    check_names(path, names, wanted)


def kind_of(arrow_type: Any) -> str:
    """What a column holds, as far as files must agree on it."""
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
    """Text files of people, typed by what stands in all of them."""

    def __init__(self, files: Sequence[TextFile], engine: Any) -> None:
        self.files = list(files)
        self.paths = [file.path for file in files]
        self.path, self.missing = files[0].path, files[0].missing
        self.names = files[0].names
        self._kinds: dict[tuple[int, bool], str] = {}
        self._engine = engine
        self._wanted: list[str] = []

    def query(self, wanted: Sequence[str], *, numeric: Sequence[str] = ()) -> str:
        """The wanted columns as SQL."""
        for file in self.files:
            _check_names(self.path, file.path, file.names, wanted)
            file.refuse_truncated()
        self.names = self._wanted = list(wanted)
        return self.typed_query(wanted, numeric=numeric)

    def source(self, *, null: bool) -> str:
        """All files as DuckDB reads them, the wanted columns alone."""
        parts = []
        for file in self.files:
            places = [f"c{file.names.index(name)} AS w{i}" for i, name in enumerate(self._wanted)]
            parts.append(f"SELECT {', '.join(places) or '1'} FROM {file.source(null=null)}")
        columns = ", ".join(f"c{i}" for i in range(len(self._wanted))) or "c0"
        return f"({' UNION ALL '.join(parts)}) AS t({columns})"

    def count(self) -> int:
        """Rows are counted with everything else."""
        return -1

    def trouble(self, error: Exception, wanted: Sequence[str]) -> Exception:  # noqa: ARG002
        """Find the damaged file by reading each to its end."""
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


def relation(engine: Any, source: Source, wanted: Sequence[str], *, numeric: Sequence[str]) -> Any:
    """The wanted columns of the files as a relation of DuckDB."""
    alike: dict[str, str] = {}
    for name in wanted:
        if not name:
            raise InputError("a column without a name cannot be used", next_step="name it", between=": ")
        other = alike.setdefault(name.casefold(), name)
        if other != name:
            raise InputError(
                f"DuckDB cannot tell the columns {other!r} and {name!r} apart",
                argument=name,
                next_step="rename one",
                between=": ",
            )
    columns = ", ".join(f"w{k} AS {named(name)}" for k, name in enumerate(wanted))
    return engine.sql(f"SELECT {columns} FROM ({source.query(wanted, numeric=numeric)})")

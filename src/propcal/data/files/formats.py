"""Files of people, of which several of one format are read as one table; Parquet files.
 DuckDB reads text, and reduces files of either format;
Arrow copies Parquet, because it keeps every type. Parquet files may have their columns in a different order
and use numeric types of other widths, but a column must have the same kind of values in all files. Columns
are addressed by position, because DuckDB does not distinguish ``Age`` from ``age``.
"""

from __future__ import annotations

import glob
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from propcal.data.derive import is_record
from propcal.data.frames import require
from propcal.errors import FileFormatError, InputError
from propcal.plain_text import quoted

ATOMS_FORMAT = "propcal-atoms"
BATCH_ROWS = 1 << 17
SAMPLE_ROWS = 1 << 14
PAGE_BYTES = 1 << 20
_NUMBER_LIKE = re.compile(r"\s*[-+]?(\d+[.,]?\d*|[.,]\d+)([eE][-+]?\d+)?\s*%?\s*")


class PeopleFiles(ABC):
    """Files of one format with a row for each person and named columns, read as one table.

    Parameters
    ----------
    parts : list
        The files, each with its `path`, `names` and `delimiter`.
    missing : list of str
        Texts that mean a missing value in a text file, beside the empty cell.
    engine : DuckDB connection, optional
        Where text files are read; by default a connection of their own.
    """

    def __init__(self, parts: Sequence[Any], *, missing: Sequence[str] = (), engine: Any = None) -> None:
        self.parts, self.missing, self.engine = list(parts), list(missing), engine
        self.paths: list[Path] = [part.path for part in parts]
        self.path, self.names, self.delimiter = self.paths[0], parts[0].names, parts[0].delimiter

    @abstractmethod
    def count(self) -> int:
        """How many rows there are."""

    @abstractmethod
    def schema(self, *, as_text: bool) -> Any:
        """Names and types of all columns as `batches` gives them."""

    @abstractmethod
    def query(
        self, wanted: Sequence[str], *, numeric: Sequence[str] = (), lenient: Sequence[str] = ()
    ) -> str:
        """The wanted columns, called w0, w1, ..., as SQL; those named in `numeric` must hold numbers.

        Those in `lenient` are numbers if all of their values are, and otherwise text.
        """

    @abstractmethod
    def values(self, name: str) -> str:
        """One column, called w0, as SQL; without looking for its type in all rows of a text file."""

    @abstractmethod
    def read(self, wanted: Sequence[str], *, numeric: Sequence[str] = ()) -> Any:
        """The wanted columns as a pyarrow Table; those named in `numeric` must hold numbers."""

    @abstractmethod
    def batches(
        self,
        wanted: Sequence[str],
        *,
        numeric: Sequence[str] = (),
        texts: Sequence[str] = (),
        as_text: bool = False,
    ) -> Iterator[tuple[Any, Any]]:
        """In order: some rows with all columns of the file, and the wanted columns of these rows.

        Those named in `texts` are read as text from a text file, which has no types. `as_text` leaves all
        columns of a text file as they are written in it. A column of texts may come as a dictionary, in all
        batches or in none.
        """

    @abstractmethod
    def trouble(self, error: Exception, wanted: Sequence[str]) -> Exception:
        """Why the files could not be read, without showing any of their content."""

    def check(self, wanted: Sequence[str]) -> None:
        """Refuse missing columns; the error names the file if it is not the first."""
        for part in self.parts:
            lacking = [name for name in wanted if name not in part.names]
            if lacking and part.path != self.path:
                raise InputError(
                    f"{part.path} has no column {lacking[0]!r}, but {self.path} has one; all files must have "
                    "the same columns"
                )
            check_names(part.path, part.names, wanted)

    def check_rows(self, wanted: Sequence[str]) -> None:
        """Refuse missing columns, and files without rows."""
        self.check(wanted)
        if not self.count():  # reading a damaged file fails here
            raise InputError(f"{self.path} has a header but no rows")


def check_names(path: Path, names: Sequence[str], wanted: Sequence[str]) -> None:
    """Every wanted column must be there, once; a first line that holds no names is not shown."""
    if any(name not in names for name in wanted):
        if len(names) == 1 and re.search(r"[^\w .-]", names[0]):
            raise FileFormatError(
                f"{path} seems to have one column: its first line has none of the separators that propcal "
                "knows (comma, semicolon, tab, bar)",
                next_step="Save it with commas",
            )
        if looks_like_values(names):
            raise FileFormatError(
                f"the first line of {path} seems to hold values: it must name the columns",
                next_step="Add such a line",
            )
    require(names, wanted)
    twice = sorted({name for name in wanted if list(names).count(name) > 1})
    if twice:
        raise InputError(f"{path} has several columns named {twice}", next_step="rename them")


def looks_like_values(names: Sequence[str]) -> bool:
    """Whether the first line of a file is a person's: every row has a score, and columns have names."""
    return any(_NUMBER_LIKE.fullmatch(name) for name in names)


def is_atoms_file(path: str | PathLike[str]) -> bool:
    """Whether a Parquet file says that it holds atoms."""
    return atoms_header(_opened(Path(path)).schema_arrow) is not None


def atoms_header(schema: Any, wanted: str = ATOMS_FORMAT) -> dict[str, Any] | None:
    """What a Parquet file of atoms (or of another format of ours) says of them; None if it is none."""
    try:
        content = json.loads((schema.metadata or {}).get(b"propcal", b"{}"))
    except (ValueError, RecursionError):
        return None
    atoms = isinstance(content, dict) and content.get("format") == wanted
    return content if atoms else None


def check_dictionaries(table: Any) -> None:
    """Refuse places in a dictionary that it does not have: Arrow does not look when it reads a file.

    Raises Arrow's own error, which tells that the file is damaged.
    """
    for column in table.columns:
        if pa.types.is_dictionary(column.type):
            column.validate(full=True)


def _opened(path: Path) -> Any:
    try:
        return pq.ParquetFile(path)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise FileFormatError(
            f"{path} is not a complete Parquet file. Is it cut off?", next_step="Copy it again", between=" "
        ) from error


class ParquetFile:
    """One Parquet file."""

    delimiter = ","

    def __init__(self, path: Path) -> None:
        self.path, self.file = path, _opened(path)
        self.schema = self.file.schema_arrow
        self.names = list(self.schema.names)

    def repeated_texts(self) -> list[str]:
        """Columns of texts that have few different values, judged by the first rows."""
        plain = [
            field for field in self.schema if self.names.count(field.name) == 1 and "." not in field.name
        ]
        texts = [field.name for field in plain if str(field.type) in ("string", "large_string")]
        if not texts:
            return []
        first = next(self.file.iter_batches(SAMPLE_ROWS, columns=texts))
        return [name for name in texts if len(first[name].unique()) <= len(first) // 4]

    def damaged(self) -> FileFormatError:
        """The error for a file that cannot be read to its end."""
        return FileFormatError(
            f"{self.path} is damaged: it cannot be read to its end", next_step="Copy it again"
        )


class ParquetFiles(PeopleFiles):
    """Parquet files of people; their columns have types already."""

    def count(self) -> int:
        """How many rows there are."""
        return sum(int(part.file.metadata.num_rows) for part in self.parts)

    def schema(self, *, as_text: bool) -> Any:  # noqa: ARG002
        """Names and types of all columns."""
        return self.parts[0].schema

    def query(self, wanted: Sequence[str], **_: Any) -> str:
        """The wanted columns as SQL: files of the same columns and types are read together."""
        alike: dict[tuple[Any, ...], list[Path]] = {}
        kinds: dict[str, tuple[str, Path]] = {}
        self.check(wanted)
        for part in self.parts:
            types = [part.schema.field(name).type for name in wanted]
            for name, kind in zip(wanted, types):
                if is_record(kind):
                    raise InputError(
                        f"column {name!r} of {part.path} contains lists or records; it must have one value "
                        "per person",
                        argument=name,
                    )
                if (now := kind_of(kind)) == "nothing":
                    continue
                before, other = kinds.setdefault(name, (now, part.path))
                if before != now:
                    raise InputError(
                        f"column {name!r} has different types: {before} in {other}, {now} in {part.path}",
                        argument=name,
                        next_step="Write both files with the same type",
                    )
            alike.setdefault((tuple(part.names), tuple(map(str, types))), []).append(part.path)
        parts = []
        for (names, types), paths in alike.items():
            listed = ", ".join(quoted(glob.escape(str(path))) for path in paths)
            places = ", ".join(f"c{i}" for i in range(len(names)))
            read = [_read(f"c{names.index(name)}", kind) for name, kind in zip(wanted, types)]
            chosen = ", ".join(f"{column} AS w{k}" for k, column in enumerate(read))
            source = f"read_parquet([{listed}], hive_partitioning=false, can_have_nan=true) AS t({places})"
            parts.append(f"SELECT {chosen or '1'} FROM {source}")
        return " UNION ALL ".join(parts)

    def values(self, name: str) -> str:
        """One column as SQL."""
        return self.query([name])

    def read(self, wanted: Sequence[str], **_: Any) -> Any:
        """The wanted columns of the first file as a pyarrow Table."""
        self.check_rows(wanted)
        try:
            table = self.parts[0].file.read(columns=list(wanted)).select(list(wanted))
            check_dictionaries(table)
            return table
        except (pa.ArrowException, OSError) as error:
            raise self.parts[0].damaged() from error

    def batches(self, wanted: Sequence[str], **_: Any) -> Iterator[tuple[Any, Any]]:
        """Some rows with all columns, and the wanted columns of these rows."""
        self.check_rows(wanted)
        for part in self.parts:
            try:
                # what is a dictionary in the file is neither decoded nor looked up row by row, and a row
                # group of any size is read page by page
                repeated = part.repeated_texts()
                file = pq.ParquetFile(
                    part.path, read_dictionary=repeated, pre_buffer=False, buffer_size=PAGE_BYTES
                )
                for batch in file.iter_batches(BATCH_ROWS):
                    check_dictionaries(batch)
                    yield batch, pa.Table.from_batches([batch.select(list(wanted))])
            except (pa.ArrowException, OSError) as error:
                raise part.damaged() from error

    def trouble(self, error: Exception, wanted: Sequence[str]) -> Exception:
        """Find the damaged file by reading each one to its end."""
        try:
            for part in self.parts:
                for _ in ParquetFiles([part]).batches(wanted):
                    pass
        except (FileFormatError, InputError) as found:
            return found
        return FileFormatError(
            f"DuckDB could not read {self.path}{' or another file' * (len(self.paths) > 1)} "
            f"({type(error).__name__})",
            next_step="Write the file again, if necessary with another program",
        )


def _read(place: str, kind: str) -> str:
    """A column as it is, but a duration as an interval: DuckDB would take it for a whole number.

    The unit does not matter, for an interval is neither a group nor a number; it may only be missing.
    """
    return f"to_microseconds({place})" if "duration[" in kind else place


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

"""Files of people: CSV (plain, gzip, zstd), Parquet or Excel, told apart by their content, or atoms.

Text is read by DuckDB, which streams it in parallel; Parquet by Arrow, which keeps every type and
tells columns apart that differ in capitals only. Both give the columns asked for as one Arrow
table, or all columns in batches beside those asked for.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, Protocol
from zipfile import BadZipFile, ZipFile

import pyarrow as pa
import pyarrow.parquet as pq

from propcal.core.atoms import Atoms
from propcal.data.frames import require
from propcal.errors import FileFormatError, InputError

ATOMS_FORMAT = "propcal-atoms"
BATCH_ROWS = 1 << 17
SAMPLE_ROWS = 1 << 14
PAGE_BYTES = 1 << 20
_MAGIC = {b"PAR1": "parquet", b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd", b"PK\x03\x04": "zip"}
_NUMBER_LIKE = re.compile(r"\s*[-+]?(\d+[.,]?\d*|[.,]\d+)([eE][-+]?\d+)?\s*%?\s*")


class PeopleFile(Protocol):
    """A file with a row for each person and named columns."""

    path: Path
    names: list[str]
    delimiter: str

    def count(self) -> int:
        """How many rows there are."""

    def read(self, wanted: Sequence[str], *, numeric: Sequence[str] = ()) -> Any:
        """The wanted columns as a pyarrow Table; those named in `numeric` must hold numbers."""

    def schema(self, *, as_text: bool) -> Any:
        """Names and types of all columns as `batches` gives them."""

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


def open_file(path: str | PathLike[str], *, missing: Sequence[str] = ()) -> PeopleFile | Atoms:
    """Recognise a file by its content; an atoms file is loaded.

    Parameters
    ----------
    path : path
    missing : list of str
        Texts that mean a missing value in a CSV file, beside the empty cell.
    """
    from propcal.data.files.excel_file import ExcelFile
    from propcal.data.files.text_file import TextFile

    path = Path(path)
    kind = _kind(path)
    if kind == "parquet":
        return ParquetFile(path) if not is_atoms_file(path) else Atoms.load(path)
    if kind == "zip":
        return ExcelFile(path, missing=missing)
    if path.suffix.lower() in (".parquet", ".pq"):
        raise FileFormatError(f"{path} is not a Parquet file, despite its name. Is it cut off?")
    return TextFile(path, compression=kind, missing=missing)


def _common_ending(folder: Path) -> str:
    """An ending that files of a folder have."""
    endings = [".parquet", ".csv", ".csv.gz", ".csv.zst", ".tsv", ".xlsx", ".atoms"]
    return next((ending for ending in endings if any(folder.glob(f"*{ending}"))), endings[0])


def _kind(path: Path) -> str:
    """What the first bytes say: parquet, gzip, zstd, zip for Excel, or none for text."""
    if path.is_dir():
        raise InputError(
            f"{path} is a folder", next_step=f'name files in it, say "{path}/*{_common_ending(path)}"'
        )
    if not path.exists():
        raise _no_file(path)
    if not path.is_file():
        raise InputError(
            f"{path} is a pipe or a device, which can be read only once",
            next_step="save them first",
            between=": ",
        )
    with path.open("rb") as file:
        start = file.read(4096)
    if not start.strip():
        raise FileFormatError(f"{path} is empty")
    kind = next((kind for magic, kind in _MAGIC.items() if start.startswith(magic)), "none")
    if kind == "zip" and not _is_workbook(path):
        raise FileFormatError(f"{path} is a zip archive", next_step="unpack it")
    if start.startswith(b"\xd0\xcf\x11\xe0"):
        raise FileFormatError(
            f"{path} is an Excel workbook in the old format (.xls)", next_step="save it as .xlsx or CSV"
        )
    if start.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise FileFormatError(f"{path} is UTF-16 text", next_step="save it as UTF-8 (in Excel: CSV UTF-8)")
    if kind == "none" and b"\0" in start:
        raise FileFormatError(
            f"{path} is neither text nor Parquet", next_step="save the table as CSV or Parquet"
        )
    return kind


def _is_workbook(path: Path) -> bool:
    try:
        with ZipFile(path) as archive:
            return "xl/workbook.xml" in archive.namelist()
    except BadZipFile:
        return path.suffix.lower() == ".xlsx"  # cut off


def _no_file(path: Path) -> InputError:
    from difflib import get_close_matches

    if not path.parent.is_dir():
        return InputError(f"there is no file {path}, nor a folder {path.parent}")
    close = get_close_matches(path.name, [other.name for other in path.parent.iterdir()], n=1)
    hint = f"Did you mean {path.parent / close[0]}?" if close else None
    return InputError(f"there is no file {path}", next_step=hint)


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
    """A Parquet file of people."""

    delimiter = ","

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = _opened(path)
        self.names = list(self._file.schema_arrow.names)

    def count(self) -> int:
        """How many rows there are."""
        return int(self._file.metadata.num_rows)

    def schema(self, *, as_text: bool) -> Any:  # noqa: ARG002  # its columns have types already
        """Names and types of all columns."""
        return self._file.schema_arrow

    def read(self, wanted: Sequence[str], *, numeric: Sequence[str] = ()) -> Any:  # noqa: ARG002
        """The wanted columns as a pyarrow Table."""
        self._check(wanted)
        try:
            table = self._file.read(columns=list(wanted)).select(list(wanted))
            check_dictionaries(table)
            return table
        except (pa.ArrowException, OSError) as error:
            raise self._damaged() from error

    def batches(
        self,
        wanted: Sequence[str],
        *,
        numeric: Sequence[str] = (),  # noqa: ARG002
        texts: Sequence[str] = (),  # noqa: ARG002
        as_text: bool = False,  # noqa: ARG002
    ) -> Iterator[tuple[Any, Any]]:
        """Some rows with all columns, and the wanted columns of these rows."""
        self._check(wanted)
        try:
            # what is a dictionary in the file is neither decoded nor looked up row by row, and a row
            # group of any size is read page by page
            repeated = self._repeated_texts()
            file = pq.ParquetFile(
                self.path, read_dictionary=repeated, pre_buffer=False, buffer_size=PAGE_BYTES
            )
            for batch in file.iter_batches(BATCH_ROWS):
                check_dictionaries(batch)
                yield batch, pa.Table.from_batches([batch.select(list(wanted))])
        except (pa.ArrowException, OSError) as error:
            raise self._damaged() from error

    def _repeated_texts(self) -> list[str]:
        """Columns of texts that have few different values, judged by the first rows."""
        schema = self._file.schema_arrow
        plain = [field for field in schema if self.names.count(field.name) == 1 and "." not in field.name]
        texts = [field.name for field in plain if str(field.type) in ("string", "large_string")]
        if not texts:
            return []
        first = next(self._file.iter_batches(SAMPLE_ROWS, columns=texts))
        return [name for name in texts if len(first[name].unique()) <= len(first) // 4]

    def _check(self, wanted: Sequence[str]) -> None:
        check_names(self.path, self.names, wanted)
        if not self.count():
            raise InputError(f"{self.path} has a header but no rows")

    def _damaged(self) -> FileFormatError:
        return FileFormatError(
            f"{self.path} is damaged: it cannot be read to its end", next_step="Copy it again"
        )

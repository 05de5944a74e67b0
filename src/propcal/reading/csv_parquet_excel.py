"""Reading one CSV file (plain, gzip, zstd), Parquet file or Excel workbook of people.

Columns are addressed by position, because DuckDB does not distinguish ``Age`` from
``age``. `people_files` reads several files as one table.
"""

from __future__ import annotations

import csv
import glob
import io
import json
import re
from collections.abc import Sequence
from datetime import date, datetime, time
from os import PathLike
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import Any
from weakref import finalize

import pyarrow as pa
import pyarrow.parquet as pq

from propcal.errors import (
    FileFormatError,
    InputError,
    PropcalError,
    quoted,
    refused,
    warn_user,
)
from propcal.extras import how_to_install
from propcal.numbers import agreeing
from propcal.reading.frames import require

ATOMS_FORMAT = "propcal-atoms"
SAMPLE_ROWS = 1 << 14
DELIMITERS = ",;\t|"
# names of columns mostly take less than a megabyte
FIRST_LINE = 1 << 20
LONGEST_LINE = 1 << 24
READ_BYTES = 1 << 22  # of a file at a time
MOST_COLUMNS = 1 << 15  # DuckDB takes half a minute for so many
_NUMBER_LIKE = re.compile(r"\s*[-+]?(\d+[.,]?\d*|[.,]\d+)([eE][-+]?\d+)?\s*%?\s*")


def check_names(path: Path, names: Sequence[str], wanted: Sequence[str]) -> None:
    """Every wanted column must be there, once; a first line that holds no names is not
    shown.
    """
    if any(name not in names for name in wanted):
        if len(names) == 1 and re.search(r"[^\w .-]", names[0]):
            raise refused("one column", FileFormatError, path=path)
        if looks_like_values(names):
            raise refused("values for names", FileFormatError, path=path)
    require(names, wanted)
    if twice := sorted({name for name in wanted if list(names).count(name) > 1}):
        raise InputError(
            f"{path} has several columns named {twice}", next_step="rename them"
        )


def looks_like_values(names: Sequence[str]) -> bool:
    """Whether the first line of a file is a person's: every row has a score, and
    columns have names.
    """
    return any(_NUMBER_LIKE.fullmatch(name) for name in names)


def is_atoms_file(path: str | PathLike[str]) -> bool:
    """Whether a Parquet file says that it holds atoms."""
    return atoms_header(ParquetFile(Path(path)).schema) is not None


def atoms_header(schema: Any, wanted: str = ATOMS_FORMAT) -> dict[str, Any] | None:
    """What a Parquet file of atoms (or of another format of ours) says of them; None if
    it is none.
    """
    metadata = schema.metadata or {}
    try:
        content = json.loads(metadata.get(b"propcal", b"{}"))
    except (ValueError, RecursionError):
        return None
    if isinstance(content, dict) and content.get("format") == wanted:
        return content
    return None


def check_dictionaries(table: Any) -> None:
    """Refuse places in a dictionary that it does not have: Arrow does not look when it
    reads a file.

    Raises Arrow's own error, which says that the file is damaged.
    """
    for column in table.columns:
        if pa.types.is_dictionary(column.type):
            column.validate(full=True)


class ParquetFile:
    """One Parquet file."""

    delimiter = ","

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self.file = pq.ParquetFile(path)
        except (pa.ArrowException, OSError, ValueError) as error:
            raise refused("cut off", FileFormatError, path=path) from error
        self.schema = self.file.schema_arrow
        self.names = list(self.schema.names)

    def repeated_texts(self) -> list[str]:
        """Columns of texts that have few different values, judged by the first rows."""
        texts = []
        for field in self.schema:
            is_text = str(field.type) in ("string", "large_string")
            addressable = "." not in field.name and self.names.count(field.name) == 1
            if is_text and addressable:
                texts.append(field.name)
        if not texts:
            return []
        first = next(self.file.iter_batches(SAMPLE_ROWS, columns=texts))
        return [name for name in texts if len(first[name].unique()) <= len(first) // 4]


class CsvFile:
    """One CSV file: its separator, the names in its first line, and how DuckDB reads
    it.

    `content` is the CSV to read, if `path` is its source in another format.
    """

    def __init__(
        self, path: Path, *, compression: str = "none", content: Path | None = None
    ) -> None:
        self.path = path
        self._content = content or path
        self._compression = compression
        self._known_complete = False
        self.delimiter, self.names = self._first_line()

    def _first_line(self) -> tuple[str, list[str]]:
        """The separator and the names of the columns."""
        try:
            compression = None if self._compression == "none" else self._compression
            with pa.input_stream(str(self._content), compression=compression) as stream:
                start = stream.read(FIRST_LINE)
                if b"\n" not in start and b"\r" not in start:
                    start += stream.read(LONGEST_LINE)
        except OSError as error:
            raise self._truncated() from error
        text = self._decoded(start)
        names_by_delimiter = {d: self._names(text, d) for d in DELIMITERS}
        delimiter = max(DELIMITERS, key=lambda d: len(names_by_delimiter[d] or []))
        names = names_by_delimiter[delimiter]

        problem = f"{self.path} is not a CSV file: its first line"
        endless = len(start) >= LONGEST_LINE and "\n" not in text and "\r" not in text
        if names is None or endless:
            raise FileFormatError(f"{problem} cannot be read")
        if not names:
            raise FileFormatError(f"{problem} is empty and must name the columns")
        if len(names) > MOST_COLUMNS:
            raise refused(
                "many columns",
                FileFormatError,
                path=self.path,
                n=len(names),
                most=MOST_COLUMNS,
            )
        return delimiter, names

    def _decoded(self, start: bytes) -> str:
        """The beginning of the file as text."""
        try:
            return start.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            # at the very end a letter may be cut in two
            if error.start < len(start) - 4:
                raise self._no_utf8() from None
            return start[: error.start].decode("utf-8-sig")

    @staticmethod
    def _names(text: str, delimiter: str) -> list[str] | None:
        """The names in the first line, if this is what separates them; None if it
        cannot be.
        """
        try:
            return next(csv.reader(io.StringIO(text), delimiter=delimiter), [])
        except csv.Error:  # one name of more than 131,072 letters
            return None

    def sql(self, missing: Sequence[str]) -> str:
        """The file as DuckDB reads it, every column (c0, c1, ...) as text; some texts
        are missing values.
        """
        path = quoted(glob.escape(str(self._content)))
        columns = ", ".join(f"c{i}: 'VARCHAR'" for i in range(len(self.names)))
        null = ", ".join(map(quoted, missing))
        return (
            f"read_csv({path}, auto_detect=false, header=true, columns={{{columns}}}, "
            f"delim={quoted(self.delimiter)}, quote='\"', escape='\"', "
            f"compression='{self._compression}', nullstr=[{null}])"
        )

    def check_complete(self) -> None:
        """Refuse a zstd file that was cut off, which DuckDB takes for a shorter one."""
        if self._compression != "zstd" or self._known_complete:
            return
        try:
            with pa.input_stream(str(self.path), compression="zstd") as stream:
                while stream.read(READ_BYTES):
                    pass
        except OSError as error:
            raise self._truncated() from error
        self._known_complete = True

    def why(self, trouble: str) -> PropcalError:
        """What is wrong with the file: DuckDB's errors quote the line; say where it is,
        not what is in it.
        """
        line = re.search(r"CSV Error on Line: (\d+)", trouble)
        where = f"line {int(line[1]):,}" if line else "a line"
        text = trouble.lower()
        fields = re.search(r"Expected Number of Columns: (\d+) Found: (\d+)", trouble)
        known: dict[str, Any] = {"path": self.path, "where": where}
        if "GZIP" in trouble or "ZSTD" in trouble:
            return self._truncated()
        if "unicode" in text or "utf-8" in text:
            return self._no_utf8()
        if fields:
            return refused(
                "uneven lines", FileFormatError, n=fields[2], columns=fields[1], **known
            )
        if "quote" in text.split("possible")[0]:
            return refused("open quote", FileFormatError, **known)
        if "out of memory" in text:
            return refused("large csv", FileFormatError, **known)
        return refused("malformed", FileFormatError, **known)

    def _truncated(self) -> PropcalError:
        return refused("truncated", FileFormatError, path=self.path)

    def _no_utf8(self) -> PropcalError:
        return refused("no utf-8", FileFormatError, path=self.path)


class ExcelFile(CsvFile):
    """The first sheet of a workbook, written as CSV; its first row names the
    columns.
    """

    def __init__(self, path: Path) -> None:
        folder = mkdtemp(prefix="propcal-")
        finalize(
            self, rmtree, folder, ignore_errors=True
        )  # with this object, or at the end
        content = Path(folder) / "sheet.csv"
        with content.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows(_first_sheet(path))
        super().__init__(path, content=content)


def _first_sheet(path: Path) -> list[list[str]]:
    """The first sheet as texts, in rows of one length; rows without any value are
    skipped.
    """
    try:
        from openpyxl import load_workbook
    except ImportError:
        raise refused(
            "excel needs openpyxl", path=path, install=how_to_install("excel")
        ) from None
    try:
        book = load_workbook(path, read_only=True, data_only=True)
        sheets = book.worksheets
        sheets[0].reset_dimensions()  # the size that the file states may be out of date
        rows = [row for row in sheets[0].iter_rows(values_only=True) if _has_value(row)]
        title = sheets[0].title
        others = len(sheets) - 1
        book.close()
    except Exception:  # openpyxl raises errors of many kinds, and some quote cells
        raise refused("no workbook", FileFormatError, path=path) from None
    if others:
        there = agreeing(others, "is 1", f"are {others}")
        warn_user(refused("first sheet", path=path, title=title, there=there).message)
    if not rows:
        raise FileFormatError(f"{path}: its first sheet, {title!r}, is empty")

    width = max(i for i, name in enumerate(rows[0], start=1) if name is not None)
    if any(_has_value(row[width:]) for row in rows):
        problem = "a column of its first sheet has values and no name in the first row"
        raise FileFormatError(f"{path}: {problem}")
    texts = []
    for row in rows:
        cells = list(map(_text, row[:width]))
        texts.append(cells + [""] * (width - len(row)))
    return texts


def _has_value(cells: Sequence[Any]) -> bool:
    return any(cell is not None for cell in cells)


def _text(cell: Any) -> str:
    """A cell as CSV has it: ISO dates, truth values, numbers with as many digits as
    distinguish them.
    """
    if isinstance(cell, datetime):
        if cell.time() == time():
            return cell.date().isoformat()
        return cell.isoformat(sep=" ")
    if isinstance(cell, (date, time)):
        return cell.isoformat()
    if cell is None:
        return ""
    if isinstance(cell, bool):
        return str(cell).lower()
    return str(cell)

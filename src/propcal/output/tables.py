"""Tables written as they stream by: CSV (plain, gzip, zstd) or Parquet, by the ending of the name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from propcal.errors import InputError
from propcal.output.storage import whole_file

TEXT = (".csv", ".tsv", ".txt")
COMPRESSION = {".gz": "gzip", ".zst": "zstd"}
PARQUET = (".parquet", ".pq")


def writes_text(path: str | PathLike[str]) -> bool:
    """Whether a name asks for CSV; refuses endings that ask for nothing known."""
    suffixes = [suffix.lower() for suffix in Path(path).suffixes]
    if suffixes and suffixes[-1] in PARQUET:
        return False
    if suffixes and suffixes[-1] in COMPRESSION:
        suffixes.pop()
    if suffixes and suffixes[-1] in TEXT:
        return True
    raise InputError(f"{path}: the name must end in .csv, .csv.gz, .csv.zst, .tsv or .parquet")


class Writer(Protocol):
    """Takes record batches of one schema."""

    def write(self, batch: Any) -> None:
        """Append the rows of a record batch."""


@contextmanager
def open_table(path: str | PathLike[str], schema: Any, *, delimiter: str = ",") -> Iterator[Writer]:
    """Write batches to a file that appears when the last one is written, whole."""
    text = writes_text(path)
    if text:
        delimiter = "\t" if ".tsv" in str(path).lower() else delimiter
        _refuse_nested(schema)
    with whole_file(path) as part:
        if not text:
            with pq.ParquetWriter(part, schema, compression="zstd") as rows:
                yield _Rows(rows)
            return
        compression = COMPRESSION.get(Path(path).suffix.lower())
        with pa.output_stream(str(part), compression=compression) as stream:
            lines = _Lines(stream, delimiter)
            lines.write_names(schema.names)
            yield lines


def _refuse_nested(schema: Any) -> None:
    for field in schema:
        if pa.types.is_nested(field.type) or "binary" in str(field.type):
            raise InputError(
                f"column {field.name!r} holds {field.type}, which CSV cannot hold; name a .parquet file"
            )


class _Rows:
    def __init__(self, writer: Any) -> None:
        self._writer = writer

    def write(self, batch: Any) -> None:
        self._writer.write_batch(batch)


def _text(text: str) -> Any:
    return pa.scalar(text, pa.large_string())


class _Lines:
    """CSV with quotes only where they are needed, and numbers in as many digits as tell them apart.

    Arrow's own writer puts every text in quotes.
    """

    def __init__(self, stream: Any, delimiter: str) -> None:
        self._stream = stream
        self._delimiter, self._quote, self._nothing = (_text(text) for text in (delimiter, '"', ""))
        self._special = f'["\n\r{delimiter}]'

    def write_names(self, names: list[str]) -> None:
        self.write(pa.RecordBatch.from_arrays([pa.array([name]) for name in names], names=names))

    def write(self, batch: Any) -> None:
        columns = [self._texts(column) for column in batch.columns]
        if len(columns) == 1:  # an empty line would be no row
            columns = [pc.if_else(pc.equal(columns[0], self._nothing), _text('""'), columns[0])]
        lines = pc.binary_join_element_wise(*columns, self._delimiter)
        self._stream.write("".join(f"{line}\n" for line in lines.to_pylist()).encode())

    def _texts(self, column: Any) -> Any:
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        plain = "string" in str(column.type)
        text = column.cast(pa.large_string()).fill_null("")
        if not plain:
            return text
        quoted = pc.binary_join_element_wise(
            self._quote, pc.replace_substring(text, '"', '""'), self._quote, self._nothing
        )
        return pc.if_else(pc.match_substring_regex(text, self._special), quoted, text)

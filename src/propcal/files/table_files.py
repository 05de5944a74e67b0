"""Writes tables in batches as CSV (plain, gzip, zstd) or Parquet, depending on the file name."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from propcal.data.files.formats import SAMPLE_ROWS
from propcal.errors import InputError

TEXT = (".csv", ".tsv", ".txt")
COMPRESSION = {".gz": "gzip", ".zst": "zstd"}
PARQUET = (".parquet", ".pq")


def writes_text(path: str | PathLike[str]) -> bool:
    """Whether a file name ends like CSV (not Parquet); refuses unknown endings."""
    suffixes = [suffix.lower() for suffix in Path(path).suffixes]
    if suffixes and suffixes[-1] in PARQUET:
        return False
    if suffixes and suffixes[-1] in COMPRESSION:
        suffixes.pop()
    if suffixes and suffixes[-1] in TEXT:
        return True
    if suffixes and suffixes[-1] in (".xlsx", ".xls"):
        raise InputError(
            f"{path}: propcal reads Excel files but does not write them",
            next_step="name a .csv or .parquet file",
        )
    raise InputError(f"{path}: the name must end in .csv, .csv.gz, .csv.zst, .tsv or .parquet")


class Writer(Protocol):
    """Accepts record batches with one schema."""

    def write(self, batch: Any) -> None:
        """Append the rows of a record batch."""


@contextmanager
def table_writer(
    part: Path, path: str | PathLike[str], schema: Any, *, delimiter: str = ","
) -> Iterator[Writer]:
    """Write batches to `part`, in the format that the name `path` indicates."""
    if not writes_text(path):
        with _Rows(part, schema) as rows:
            yield rows
        return
    delimiter = "\t" if ".tsv" in str(path).lower() else delimiter
    _refuse_nested(schema)
    compression = COMPRESSION.get(Path(path).suffix.lower())
    with pa.output_stream(str(part), compression=compression) as stream:
        lines = _Lines(stream, delimiter)
        lines.write_names(schema.names)
        yield lines


def _refuse_nested(schema: Any) -> None:
    for field in schema:
        if pa.types.is_nested(field.type) or "binary" in str(field.type):
            raise InputError(
                f"column {field.name!r} has the type {field.type}, which CSV does not support",
                argument=field.name,
                next_step="Write a .parquet file instead",
            )


class _Rows:
    """Parquet with the types of `schema`, one row group for each batch.

    Dictionary-encoded texts are written as they are, which is several times faster than decoding every
    row; readers still see the types of `schema`, which Arrow stores in the file.
    """

    def __init__(self, path: Path, schema: Any) -> None:
        self._path, self._schema = path, schema
        self._writer: Any = None

    def __enter__(self) -> _Rows:
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if self._writer is None and error is None:  # write a valid file even without rows
            self._open(self._schema, self._schema.empty_table())
        if self._writer is not None:
            self._writer.close()

    def write(self, batch: Any) -> None:
        if self._writer is None:
            self._open(batch.schema, batch)
        self._writer.write_batch(_in_form(batch, self._writer.schema))

    def _open(self, schema: Any, first: Any) -> None:
        repeated = [name for name, column in zip(schema.names, first.columns) if _repeats(column)]
        nested = any(pa.types.is_nested(field.type) for field in schema)
        self._writer = pq.ParquetWriter(
            self._path,
            schema.remove_metadata(),
            compression="zstd",
            # a dictionary of distinct scores would take longer than all other writing
            use_dictionary=True if nested else repeated,
            store_schema=False,
        )
        note = {b"ARROW:schema": b64encode(self._schema.serialize())}
        self._writer.add_key_value_metadata({**(self._schema.metadata or {}), **note})


def _in_form(batch: Any, schema: Any) -> Any:
    """A batch of another file, dictionary-encoded in the same columns as the first file."""
    columns = []
    for column, field in zip(batch.columns, schema):
        if column.type != field.type:
            column = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column  # noqa: PLW2901
            column = column.dictionary_encode() if pa.types.is_dictionary(field.type) else column  # noqa: PLW2901
        columns.append(column)
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _repeats(column: Any) -> bool:
    """Whether values are often repeated, judged by the first rows."""
    if pa.types.is_dictionary(column.type):
        return True
    first = column.slice(0, SAMPLE_ROWS)
    try:
        return len(first.unique()) <= len(first) // 2
    except pa.ArrowNotImplementedError:
        return True


def _text(text: str) -> Any:
    return pa.scalar(text, pa.large_string())


class _Lines:
    """CSV with quotes only where needed, and numbers with as many digits as distinguish them.

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
        if len(columns) == 1:  # an empty line would not be read as a row
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

"""Writes tables in batches as CSV (plain, gzip, zstd) or Parquet.

The name of the file decides which.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from propcal.errors import InputError, refused
from propcal.formats.transaction import whole_file
from propcal.reading.csv_parquet_excel import SAMPLE_ROWS

TEXT = (".csv", ".tsv", ".txt")
COMPRESSION = {".gz": "gzip", ".zst": "zstd"}
PARQUET = (".parquet", ".pq")


def writes_text(path: str | PathLike[str]) -> bool:
    """Whether a file name ends like CSV (not Parquet); refuses unknown endings."""
    suffixes = list(map(str.lower, Path(path).suffixes))
    if suffixes and suffixes[-1] in PARQUET:
        return False
    if suffixes and suffixes[-1] in COMPRESSION:
        suffixes.pop()
    if suffixes and suffixes[-1] in TEXT:
        return True
    if suffixes and suffixes[-1] in (".xlsx", ".xls"):
        raise refused("writes no excel", path=path)
    raise InputError(
        f"{path}: the name must end in .csv, .csv.gz, .csv.zst, .tsv or .parquet"
    )


Write = Callable[[Any], None]  # appends the rows of a record batch


@contextmanager
def table_writer(
    path: str | PathLike[str], schema: Any, *, delimiter: str = ","
) -> Iterator[Write]:
    """Write batches to a file, whole or not at all, in the format that its name
    indicates.
    """
    if not writes_text(path):
        with whole_file(path) as part, _parquet(part, schema) as write:
            yield write
        return
    for field in schema:
        if pa.types.is_nested(field.type) or "binary" in str(field.type):
            raise refused("type in csv", column=field.name, kind=field.type)
    delimiter = "\t" if ".tsv" in str(path).lower() else delimiter
    compression = COMPRESSION.get(Path(path).suffix.lower())
    with (
        whole_file(path) as part,
        pa.output_stream(str(part), compression=compression) as stream,
    ):
        names = [pa.array([name]) for name in schema.names]
        stream.write(_lines(names, delimiter))
        yield lambda batch: stream.write(_lines(batch.columns, delimiter))


@contextmanager
def _parquet(path: Path, schema: Any) -> Iterator[Write]:
    """Parquet with the types of `schema`, one row group for each batch.

    Dictionary-encoded texts are written as they are, which is several times faster than
    decoding every row; readers still see the types of `schema`, which Arrow stores in
    the file.
    """
    writers: list[Any] = []

    def writer_for(first: Any) -> Any:
        if not writers:
            writer = pq.ParquetWriter(
                path,
                first.schema.remove_metadata(),
                compression="zstd",
                use_dictionary=_as_dictionaries(first),
                store_schema=False,
            )
            note = {b"ARROW:schema": b64encode(schema.serialize())}
            writer.add_key_value_metadata({**(schema.metadata or {}), **note})
            writers.append(writer)
        return writers[0]

    def write(batch: Any) -> None:
        writer = writer_for(batch)
        writer.write_batch(_in_form(batch, writer.schema))

    try:
        yield write
        writer_for(schema.empty_table())  # a valid file even without rows
    finally:
        for writer in writers:
            writer.close()


def _as_dictionaries(batch: Any) -> list[str] | bool:
    """The columns to write as dictionaries, or all: of distinct scores, a dictionary
    would take longer than all other writing.
    """
    if any(pa.types.is_nested(field.type) for field in batch.schema):
        return True
    columns = zip(batch.schema.names, batch.columns)
    return [name for name, column in columns if _repeats(column)]


def _in_form(batch: Any, schema: Any) -> Any:
    """A batch of another file, dictionary-encoded in the same columns as the first
    file.
    """
    columns = []
    for column, field in zip(batch.columns, schema):
        if column.type != field.type:
            converted = _decoded(column)
            if pa.types.is_dictionary(field.type):
                converted = converted.dictionary_encode()
            columns.append(converted)
        else:
            columns.append(column)
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _decoded(column: Any) -> Any:
    if pa.types.is_dictionary(column.type):
        return column.cast(column.type.value_type)
    return column


def _repeats(column: Any) -> bool:
    """Whether values are often repeated, judged by the first rows."""
    if pa.types.is_dictionary(column.type):
        return True
    first = column.slice(0, SAMPLE_ROWS)
    try:
        return len(first.unique()) <= len(first) // 2
    except pa.ArrowNotImplementedError:
        return True


def _lines(columns: list[Any], delimiter: str) -> bytes:
    """CSV with quotes only where needed, and numbers with as many digits as distinguish
    them.

    Arrow's own writer puts every text in quotes.
    """
    texts = [_texts(_decoded(column), f'["\n\r{delimiter}]') for column in columns]
    if len(texts) == 1:  # an empty line would not be read as a row
        texts = [pc.if_else(pc.equal(texts[0], _text("")), _text('""'), texts[0])]
    lines = pc.binary_join_element_wise(*texts, _text(delimiter))
    return "".join(f"{line}\n" for line in lines.to_pylist()).encode()


def _texts(column: Any, special: str) -> Any:
    text = column.cast(pa.large_string()).fill_null("")
    if "string" not in str(column.type):
        return text
    doubled = pc.replace_substring(text, '"', '""')
    quoted = pc.binary_join_element_wise(_text('"'), doubled, _text('"'), _text(""))
    return pc.if_else(pc.match_substring_regex(text, special), quoted, text)


def _text(text: str) -> Any:
    return pa.scalar(text, pa.large_string())

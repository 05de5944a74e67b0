"""Reads and writes files of atoms (Parquet, marked as personal data)."""

from __future__ import annotations

import json
from os import PathLike
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from propcal.core.atoms import SUMS, Atoms
from propcal.core.reduction import relevelled
from propcal.data.files.formats import ATOMS_FORMAT, atoms_header, check_dictionaries
from propcal.data.files.machine_memory import machine_memory
from propcal.data.levels import text_key
from propcal.errors import Argument, FileFormatError, InputError, Text
from propcal.output.files.atoms_of_table import ATTRIBUTE, atoms_of_table
from propcal.output.files.correction_file import need, recipes
from propcal.output.files.whole_file import write_whole
from propcal.plain_text import plain
from propcal.regular_file import refuse_special

ATOMS_VERSION = 1
ROW_BYTES, ATTRIBUTE_BYTES = 128, 16  # peak memory per row, and per attribute (measured: 95 and 10)
MEMORY_SHARE = 0.8  # the share of the machine's memory that reading may use
NUMBERS = ("int64", "double")
_NO_ATOMS = "is not an atoms file: " + Argument("Atoms.save", written="write one with Atoms.save")


def save_atoms(
    atoms: Atoms,
    path: str | PathLike[str],
    *,
    kind: tuple[str, int] = (ATOMS_FORMAT, ATOMS_VERSION),
    more: dict[str, Any] | None = None,
) -> None:
    """Write atoms as Parquet: one column for each attribute, then the score (in units) and the sums.

    `kind` is the format and its version, for other files that hold atoms; `more` has entries of their own.
    """
    index = atoms.pattern_index()
    columns: list[Any] = []
    for a, levels in enumerate(atoms.patterns.levels):
        codes = atoms.patterns.table[index, a]
        texts = [level for level in levels if level is not None]
        indices = pa.array(codes.astype(np.int32), mask=codes >= len(texts))
        columns.append(pa.DictionaryArray.from_arrays(indices, pa.array(texts, pa.string())))
    names = [f"{ATTRIBUTE}{name}" for name in atoms.patterns.attributes]
    for name in ("score", *SUMS):
        columns.append(pa.array(getattr(atoms, name)))
        names.append(name)
    header = {
        "format": kind[0],
        "version": kind[1],
        "personal_data": atoms.shared is None,
        "unit": "2**-32",
        "resolution_bits": atoms.resolution_bits,
        "weighted_rows": atoms.weighted_rows,
        **({"left_out": atoms.left_out.to_json()} if atoms.left_out.people else {}),
        **({} if atoms.shared is None else {"shared": atoms.shared.to_json()}),
        "derived": recipes(atoms.patterns),
        "fingerprint": atoms.fingerprint(),
        **(more or {}),
    }
    table = pa.Table.from_arrays(columns, names=names).replace_schema_metadata(
        {"propcal": json.dumps(header)}
    )
    write_whole(path, lambda part: pq.write_table(table, part, compression="zstd"))


def load_atoms(path: str | PathLike[str]) -> Atoms:
    """Read atoms; refuse anything that `save_atoms` would not write."""
    atoms, _ = read_atoms(path, (ATOMS_FORMAT, ATOMS_VERSION), _NO_ATOMS)
    return relevelled(atoms, text_key)  # older files contain TRUE and 1.0 as in the data


def read_atoms(path: str | PathLike[str], kind: tuple[str, int], other: Text) -> tuple[Atoms, dict[str, Any]]:
    """Read the atoms of a file of this format, and its header; `other` says what a file is not."""
    refuse_special(path)
    with open(path, "rb"):  # raises the usual error if the file is missing or unreadable
        pass
    file = _opened(path, other)
    header = atoms_header(file.schema_arrow, kind[0])
    if header is None:
        raise FileFormatError(f"{path} " + other)
    if type(header.get("version")) is not int or header["version"] > kind[1]:
        raise FileFormatError(
            f"{path} has version {plain(header.get('version'), 9)}, but this propcal reads only up to "
            f"version {kind[1]}",
            next_step="Upgrade propcal",
        )
    try:
        _check_columns(file.schema_arrow)
        _refuse_too_large(path, file)
        atoms = atoms_of_table(_read(path, file), header)
        need(atoms.fingerprint() == header.get("fingerprint"), "its content was changed")
    except _TooLargeError as error:
        raise FileFormatError(error.problem, next_step=error.next_step) from None
    except (FileFormatError, InputError) as error:
        raise FileFormatError(f"{path} is damaged: {error}", next_step="Save the atoms again") from None
    except (pa.ArrowException, OSError, ValueError) as error:  # also a text that is not UTF-8
        raise FileFormatError(f"{path} is damaged: it cannot be read to its end") from error
    return atoms, header


class _TooLargeError(FileFormatError):
    """The file may be valid, but this machine has too little memory for it."""


def _opened(path: str | PathLike[str], other: Text) -> Any:
    try:
        return pq.ParquetFile(path)
    except (pa.ArrowException, OSError, ValueError) as error:
        what = str(other).split(":")[0]
        raise FileFormatError(f"{path} {what}: it is not a complete Parquet file") from error


def _read(path: str | PathLike[str], file: Any) -> Any:
    """All rows, with texts as dictionaries, so that long texts are not repeated in memory."""
    texts = [name for name in file.schema_arrow.names if name.startswith(ATTRIBUTE)]
    table = pq.ParquetFile(path, read_dictionary=texts).read()
    check_dictionaries(table)
    return table


def _check_columns(schema: Any) -> None:
    """Check names and types of the columns before reading any row."""
    attributes = [name for name in schema.names if name.startswith(ATTRIBUTE)]
    need(schema.names == [*attributes, "score", *SUMS], "its columns are not those of atoms")
    need(len({*attributes}) == len(attributes), "an attribute occurs twice")
    kinds = [field.type for field in schema]
    texts = [kind.value_type if pa.types.is_dictionary(kind) else kind for kind in kinds[: len(attributes)]]
    need(all(str(kind) in ("string", "large_string") for kind in texts), "an attribute is not text")
    score, people, weight, weight_sq, positives, positives_sq = map(str, kinds[len(attributes) :])
    need(score == people == "int64", "scores and people must be whole numbers")
    need(
        weight in NUMBERS and weight_sq == weight and positives in NUMBERS and positives_sq == positives,
        "its sums are not numbers",
    )
    need(weight == "int64" or positives == "double", "its sums have inconsistent types")


def _refuse_too_large(path: str | PathLike[str], file: Any) -> None:
    """Refuse a file whose rows would not fit into memory; a small file can contain very many rows."""
    about = file.metadata
    need(about.num_rows > 0, "it has no rows")
    parts = [about.row_group(i) for i in range(about.num_row_groups)]
    need(sum(part.num_rows for part in parts) == about.num_rows, "its parts have the wrong number of rows")
    per_row = ROW_BYTES + ATTRIBUTE_BYTES * (len(file.schema_arrow.names) - len(SUMS) - 1)
    needed = max(about.num_rows * per_row, sum(part.total_byte_size for part in parts))
    memory = machine_memory()
    if needed > MEMORY_SHARE * memory:
        raise _TooLargeError(
            f"{path} has {about.num_rows:,} rows, which need {needed / 1e9:,.1f} GB of memory; "
            f"this machine has {memory / 1e9:,.1f} GB",
            next_step="Make the atoms again with "
            + Argument("resolution", "2**-16")
            + " or a coarser one, or read them on a larger machine",
        )

"""Reads and writes files of atoms (Parquet, marked as personal data)."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from propcal.core.arguments import refuse_special
from propcal.core.atoms import SUMS, Atoms, LeftOut, Shared
from propcal.core.grid import UNIT
from propcal.core.patterns import Level, patterns_of, sort_levels
from propcal.core.reduction import relevelled
from propcal.errors import Argument, FileFormatError, InputError, Text, refused
from propcal.formats.correction_content import derived, recipes
from propcal.formats.possible_sums import check_sums
from propcal.formats.strict_json import (
    check_of,
    distinct,
    need,
    refuse_newer,
    schema_of,
)
from propcal.formats.transaction import whole_file
from propcal.reading.csv_parquet_excel import (
    ATOMS_FORMAT,
    atoms_header,
    check_dictionaries,
)
from propcal.reading.levels import text_key

ATOMS_VERSION = 1
# peak memory per row, and per attribute (measured: 95 and 10)
ROW_BYTES = 128
ATTRIBUTE_BYTES = 16
MEMORY_SHARE = 0.8  # the share of the machine's memory that reading may use
NUMBERS = ("int64", "double")
ATTRIBUTE = "attribute:"
_NO_ATOMS = "is not an atoms file: " + Argument(
    "Atoms.save", written="write one with Atoms.save"
)
UNKNOWN_MEMORY = 8 << 30  # assumed if the system does not report it
CGROUPS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def save_atoms(
    atoms: Atoms,
    path: str | PathLike[str],
    *,
    kind: tuple[str, int] = (ATOMS_FORMAT, ATOMS_VERSION),
    more: dict[str, Any] | None = None,
) -> None:
    """Write atoms as Parquet: one column for each attribute, then the score (in units)
    and the sums.

    `kind` is the format and its version, for other files that hold atoms; `more` has
    entries of their own.
    """
    table = pa.table(_columns_of(atoms))
    header = {
        "format": kind[0],
        "version": kind[1],
        "personal_data": atoms.shared is None,
        "unit": "2**-32",
        "resolution_bits": atoms.resolution_bits,
        "weighted_rows": atoms.weighted_rows,
    }
    if atoms.left_out.people:
        header["left_out"] = atoms.left_out.to_json()
    if atoms.shared is not None:
        header["shared"] = atoms.shared.to_json()
    header["derived"] = recipes(atoms.patterns)
    header["fingerprint"] = atoms.fingerprint()
    header |= more or {}
    table = table.replace_schema_metadata({"propcal": json.dumps(header)})
    with whole_file(path) as part:
        pq.write_table(table, part, compression="zstd")


def _columns_of(atoms: Atoms) -> dict[str, Any]:
    """The columns of the file: the attributes as dictionaries, the score and the
    sums.
    """
    columns: dict[str, Any] = {}
    index = atoms.pattern_index()
    for a, name in enumerate(atoms.patterns.attributes):
        codes = atoms.patterns.table[index, a]
        texts = [level for level in atoms.patterns.levels[a] if level is not None]
        indices = pa.array(codes.astype(np.int32), mask=codes >= len(texts))
        dictionary = pa.array(texts, pa.string())
        columns[ATTRIBUTE + name] = pa.DictionaryArray.from_arrays(indices, dictionary)
    for name in ("score", *SUMS):
        columns[name] = pa.array(getattr(atoms, name))
    return columns


def load_atoms(path: str | PathLike[str]) -> Atoms:
    """Read atoms; refuse anything that `save_atoms` would not write."""
    atoms, _ = read_atoms(path, (ATOMS_FORMAT, ATOMS_VERSION), _NO_ATOMS)

    def level_now(_: str, level: Level) -> Level:
        return None if level is None else text_key(level)

    return relevelled(
        atoms, level_now
    )  # older files contain TRUE and 1.0 as in the data


def read_atoms(
    path: str | PathLike[str], kind: tuple[str, int], other: Text
) -> tuple[Atoms, dict[str, Any]]:
    """Read the atoms of a file of this format, and its header; `other` says what a file
    is not.
    """
    refuse_special(path)
    # raises the usual error if the file is missing or unreadable
    with open(path, "rb"):
        pass
    file = _opened(path, other)
    header = atoms_header(file.schema_arrow, kind[0])
    if header is None:
        raise FileFormatError(f"{path} " + other)
    refuse_newer(path, header.get("version"), kind[1])
    try:
        _check_columns(file.schema_arrow)
        _refuse_too_large(path, file)
        atoms = atoms_of_table(_read(path, file), header)
        same_content = atoms.fingerprint() == header.get("fingerprint")
        need(same_content, "its content was changed")
    except _TooLargeError:
        raise
    except (FileFormatError, InputError) as error:
        raise FileFormatError(
            f"{path} is damaged: {error}", next_step="Save the atoms again"
        ) from None
    except (pa.ArrowException, OSError, ValueError) as error:
        # also a text that is not UTF-8
        problem = f"{path} is damaged: it cannot be read to its end"
        raise FileFormatError(problem) from error
    return atoms, header


class _TooLargeError(FileFormatError):
    """The file may be valid, but this machine has too little memory for it."""


def _opened(path: str | PathLike[str], other: Text) -> Any:
    try:
        return pq.ParquetFile(path)
    except (pa.ArrowException, OSError, ValueError) as error:
        what = str(other).split(":")[0]
        problem = f"{path} {what}: it is not a complete Parquet file"
        raise FileFormatError(problem) from error


def _read(path: str | PathLike[str], file: Any) -> Any:
    """All rows, with texts as dictionaries, so that long texts are not repeated in
    memory.
    """
    texts = _attribute_columns(file.schema_arrow.names)
    table = pq.ParquetFile(path, read_dictionary=texts).read()
    check_dictionaries(table)
    return table


def _attribute_columns(names: list[str]) -> list[str]:
    return [name for name in names if name.startswith(ATTRIBUTE)]


def _check_columns(schema: Any) -> None:
    """Check names and types of the columns before reading any row."""
    attributes = _attribute_columns(schema.names)
    as_of_atoms = schema.names == [*attributes, "score", *SUMS]
    need(as_of_atoms, "its columns are not those of atoms")
    need(distinct(attributes), "an attribute occurs twice")
    for name in attributes:
        kind = schema.field(name).type
        if pa.types.is_dictionary(kind):
            kind = kind.value_type
        need(str(kind) in ("string", "large_string"), "an attribute is not text")

    kinds = {name: str(schema.field(name).type) for name in ("score", *SUMS)}
    whole = kinds["score"] == kinds["people"] == "int64"
    need(whole, "scores and people must be whole numbers")
    of_weights = kinds["weight"]
    of_positives = kinds["positives"]
    numeric = (
        of_weights in NUMBERS
        and kinds["weight_sq"] == of_weights
        and of_positives in NUMBERS
        and kinds["positives_sq"] == of_positives
    )
    need(numeric, "its sums are not numbers")
    consistent = of_weights == "int64" or of_positives == "double"
    need(consistent, "its sums have inconsistent types")


def _refuse_too_large(path: str | PathLike[str], file: Any) -> None:
    """Refuse a file whose rows would not fit into memory; a small file can contain very
    many rows.
    """
    about = file.metadata
    n_rows = about.num_rows
    need(n_rows > 0, "it has no rows")
    parts = [about.row_group(i) for i in range(about.num_row_groups)]
    n_rows_of_parts = sum(part.num_rows for part in parts)
    need(n_rows_of_parts == n_rows, "its parts have the wrong number of rows")

    n_attributes = len(file.schema_arrow.names) - len(SUMS) - 1
    bytes_of_rows = n_rows * (ROW_BYTES + ATTRIBUTE_BYTES * n_attributes)
    needed = max(bytes_of_rows, sum(part.total_byte_size for part in parts))
    memory = machine_memory()
    if needed > MEMORY_SHARE * memory:
        raise refused(
            "too large",
            _TooLargeError,
            path=path,
            rows=n_rows,
            needed=needed / 1e9,
            memory=memory / 1e9,
        )


def machine_memory() -> int:
    """The memory of this machine in bytes, used or not; or the limit of a container or
    of the process.
    """
    limits = [UNKNOWN_MEMORY]
    with suppress(AttributeError, OSError, ValueError):  # Windows has no sysconf
        limits = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    for path in CGROUPS:
        with suppress(OSError, ValueError):  # no such limit, or "max"
            limits.append(int(Path(path).read_text()))
    with suppress(ImportError, OSError, ValueError):
        import resource

        of_process = resource.getrlimit(resource.RLIMIT_AS)[0]
        if of_process != resource.RLIM_INFINITY:
            limits.append(of_process)
    return min(limits)


def atoms_of_table(table: Any, header: dict[str, Any]) -> Atoms:
    """Rebuild atoms from the table in a file; its rows must be sorted and its sums
    possible.
    """
    _check_header(header)
    names = []
    levels = []
    codes = []
    for column in _attribute_columns(table.column_names):
        names.append(column.removeprefix(ATTRIBUTE))
        levels_of_column, code_of_column = _levels(table[column])
        levels.append(levels_of_column)
        codes.append(code_of_column)
    sums = {}
    for column in ("score", *SUMS):
        need(table[column].null_count == 0, "a number is missing")
        sums[column] = table[column].to_numpy()
    check_sums(**sums)

    score = sums["score"]
    recipes_of_file = derived(header.get("derived"), names)
    patterns, code = patterns_of(
        tuple(names), tuple(levels), codes, len(score), recipes_of_file
    )
    order = code.astype(np.int64) * (2 * UNIT) + score
    need(np.all(np.diff(order) > 0), "rows are not sorted by pattern and score")
    bits = header.get("resolution_bits", 32)
    finer_bits = (1 << (32 - bits)) - 1
    too_fine = np.any(score & finer_bits)
    need(not too_fine, "a score is finer than the stated resolution")
    return Atoms(
        patterns,
        np.searchsorted(code, np.arange(len(patterns) + 1)),
        **sums,
        resolution_bits=bits,
        weighted_rows=header.get("weighted_rows", 0),
        left_out=_left_out(header, names),
        shared=_shared(header, names),
    )


def _check_header(header: dict[str, Any]) -> None:
    """Refuse entries of the header that have another shape than the schema says."""
    schema = schema_of("atoms")
    for key in ("resolution_bits", "weighted_rows", "left_out", "shared"):
        if key in header:
            shape = schema["properties"][key]
            fits = check_of(shape, schema["$defs"])(header[key])
            need(fits, f"{key} {shape['description']}")


def _left_out(header: dict[str, Any], attributes: list[str]) -> LeftOut:
    """Who was left out for want of a score or an outcome, by group."""
    if "left_out" not in header:
        return LeftOut(0, {})
    content = header["left_out"]
    need({*content["by"]} <= {*attributes}, "left_out names other attributes")
    by_level = {}
    for name, counts in content["by"].items():
        need(distinct([level for level, _ in counts]), "left_out names a level twice")
        by_level[name] = dict(counts)
    return LeftOut(content["people"], by_level)


def _shared(header: dict[str, Any], attributes: list[str]) -> Shared | None:
    """How atoms were changed to be shared; None if they were not."""
    content = header.get("shared")
    if content is None:
        return None
    need({*content["folded"]} <= {*attributes}, "shared names other attributes")
    return Shared(**content)


def _levels(column: Any) -> tuple[tuple[Level, ...], Any]:
    """The sorted levels of an attribute, and the level of each row."""
    whole = column.unify_dictionaries().combine_chunks()
    parts = whole.chunks if isinstance(whole, pa.ChunkedArray) else [whole]
    texts: list[Level] = parts[0].dictionary.to_pylist() if parts else []
    need(None not in texts and distinct(texts), "a level occurs twice")
    indices = np.concatenate(list(map(_indices, parts)))

    occurring = texts
    if np.any(indices < 0):
        occurring = [*texts, None]
    levels = sort_levels(occurring)
    places = dict(zip(levels, range(len(levels))))
    # index -1 looks up the last entry
    place_of_text = [places[text] for text in texts]
    place_of_text.append(places.get(None, -1))
    return levels, np.array(place_of_text, dtype=np.int32)[indices]


def _indices(part: Any) -> Any:
    """The place of each row's text in the dictionary; -1 if it is missing."""
    return part.indices.cast(pa.int32()).fill_null(-1).to_numpy(zero_copy_only=False)

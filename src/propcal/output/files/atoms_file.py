"""The file of atoms: Parquet, marked as personal data, written whole or not at all."""

from __future__ import annotations

import json
from os import PathLike
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from propcal.core.atoms import SUMS, Atoms
from propcal.core.grid import UNIT
from propcal.core.patterns import patterns_of
from propcal.data.levels import distinct, encode
from propcal.errors import Argument, FileFormatError, InputError
from propcal.output.files.correction_file import derived as read_derived
from propcal.output.files.correction_file import need, recipes
from propcal.output.files.whole_file import write_whole

ATOMS_FORMAT, ATOMS_VERSION = "propcal-atoms", 1


def save_atoms(atoms: Atoms, path: str | PathLike[str]) -> None:
    """Write atoms as Parquet: a column for each attribute, then score (in units) and sums."""
    index = atoms.pattern_index()
    columns: list[Any] = []
    for a, levels in enumerate(atoms.patterns.levels):
        codes = atoms.patterns.table[index, a]
        texts = [level for level in levels if level is not None]
        indices = pa.array(codes.astype(np.int32), mask=codes >= len(texts))
        columns.append(pa.DictionaryArray.from_arrays(indices, pa.array(texts, pa.string())))
    names = [f"attribute:{name}" for name in atoms.patterns.attributes]
    for name in ("score", *SUMS):
        columns.append(pa.array(getattr(atoms, name)))
        names.append(name)
    header = {
        "format": ATOMS_FORMAT,
        "version": ATOMS_VERSION,
        "personal_data": True,
        "unit": "2**-32",
        "resolution_bits": atoms.resolution_bits,
        "weighted_rows": atoms.weighted_rows,
        "derived": recipes(atoms.patterns),
        "fingerprint": atoms.fingerprint(),
    }
    table = pa.Table.from_arrays(columns, names=names).replace_schema_metadata(
        {"propcal": json.dumps(header)}
    )
    write_whole(path, lambda part: pq.write_table(table, part, compression="zstd"))


def load_atoms(path: str | PathLike[str]) -> Atoms:
    """Read atoms, refusing whatever is not exactly what `save_atoms` writes."""
    with open(path, "rb"):  # a missing or unreadable file is told as such
        pass
    try:
        table = pq.read_table(path)
    except (pa.ArrowException, OSError) as error:
        raise FileFormatError(f"{path} is not an atoms file: it is no complete Parquet file") from error
    try:
        header = json.loads((table.schema.metadata or {}).get(b"propcal", b"{}"))
    except ValueError:
        header = {}
    if not isinstance(header, dict) or header.get("format") != ATOMS_FORMAT:
        raise FileFormatError(
            f"{path} is not an atoms file",
            next_step=Argument("Atoms.save", written="write one with Atoms.save"),
            between=": ",
        )
    if type(header.get("version")) is not int or header["version"] > ATOMS_VERSION:
        raise FileFormatError(
            f"{path} has version {header.get('version')}, this propcal reads up to {ATOMS_VERSION}",
            next_step="upgrade propcal",
        )
    try:
        atoms = _atoms(table, header)
        need(atoms.fingerprint() == header.get("fingerprint"), "its content was changed")
    except (FileFormatError, InputError, pa.ArrowException) as error:
        raise FileFormatError(f"{path} is damaged: {error}", next_step="Save the atoms again") from None
    return atoms


def _atoms(table: Any, header: dict[str, Any]) -> Atoms:
    """Rebuild atoms from the table of a file; rows must be sorted and sums possible."""
    bits, rows = header.get("resolution_bits", 32), header.get("weighted_rows", 0)
    need(type(bits) is int and 1 <= bits <= 32, "resolution_bits must be from 1 to 32")
    need(type(rows) is int and rows >= 0, "weighted_rows must be a whole number")
    attributes = [name for name in table.column_names if name.startswith("attribute:")]
    need(table.column_names == [*attributes, "score", *SUMS], "its columns are not those of atoms")
    encoded = [encode(*distinct(table[name])) for name in attributes]
    sums = {name: table[name].to_numpy() for name in ("score", *SUMS)}
    need(
        all(len(column) > 0 and column.dtype.kind in "if" for column in sums.values()),
        "it has no rows or no numbers",
    )
    score, people = sums["score"], sums["people"]
    need(
        score.dtype.kind == "i" and people.dtype.kind == "i",
        "scores and people must be whole numbers",
    )
    need(
        bool(score.min() >= 0 and score.max() <= UNIT and people.min() >= 1),
        "a score or a count is out of range",
    )
    need(
        bool(np.all(np.isfinite(sums["weight"])) and sums["weight"].min() > 0),
        "a weight is out of range",
    )
    if sums["weight"].dtype.kind == "i":
        same = np.array_equal(people, sums["weight"]) and np.array_equal(people, sums["weight_sq"])
        need(same and np.array_equal(sums["positives"], sums["positives_sq"]), "its weights disagree")
    excess = sums["positives"] - sums["weight"]
    need(
        bool(sums["positives"].min() >= 0 and np.all(excess <= 1e-9 * sums["weight"])),
        "positives exceed people",
    )
    names = tuple(name.removeprefix("attribute:") for name in attributes)
    levels, codes = [found for found, _ in encoded], [code for _, code in encoded]
    derived = read_derived(header.get("derived"), list(names))
    patterns, code = patterns_of(names, tuple(levels), codes, len(score), derived)
    key = code.astype(np.int64) * (2 * UNIT) + score
    need(bool(np.all(np.diff(key) > 0)), "rows are not sorted by pattern and score")
    starts = np.searchsorted(code, np.arange(len(patterns) + 1))
    need(not np.any(score & ((1 << (32 - bits)) - 1)), "a score is finer than its resolution")
    return Atoms(patterns, starts, **sums, resolution_bits=bits, weighted_rows=rows)

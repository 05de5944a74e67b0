"""Reads and writes files of atoms (Parquet, marked as personal data); refuses what is
impossible.

The state of a monitor is a file of atoms by period, whose header has its settings as
well.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import asdict
from os import PathLike
from os.path import realpath
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from propcal.core.arguments import refuse_special
from propcal.core.atoms import SUMS, Atoms, LeftOut, Shared
from propcal.core.grid import MAX_PEOPLE, UNIT, FloatArray
from propcal.core.groups import Group
from propcal.core.patterns import PERIOD, Level, patterns_of, sort_levels
from propcal.core.reduction import people_by, relevelled
from propcal.errors import Argument, FileFormatError, InputError, Text, refused
from propcal.formats.correction_file import derived, recipes
from propcal.formats.strict_json import (
    check_of,
    distinct,
    need,
    refuse_newer,
    schema_of,
)
from propcal.formats.transaction import Look, look_of, outputs, whole_file
from propcal.options import Identity, given
from propcal.reading.csv_parquet_excel import (
    ATOMS_FORMAT,
    atoms_header,
    check_dictionaries,
)
from propcal.reading.levels import text_key
from propcal.reading.role_columns import LARGEST_WEIGHT

if TYPE_CHECKING:
    from propcal.monitoring.monitor import Monitor

ATOMS_VERSION = 1
# peak memory per row, and per attribute (measured: 95 and 10)
ROW_BYTES = 128
ATTRIBUTE_BYTES = 16
MEMORY_SHARE = 0.8  # the share of the machine's memory that reading may use
NUMBERS = ("int64", "double")
ATTRIBUTE = "attribute:"
ROUNDING = 1e-6  # relative rounding error allowed in sums of billions of weights
SMALLEST = 1e-300  # squares of very small weights underflow to 0
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
    index = atoms.pattern_index()
    columns: list[Any] = []
    for a, levels in enumerate(atoms.patterns.levels):
        codes = atoms.patterns.table[index, a]
        texts = [level for level in levels if level is not None]
        indices = pa.array(codes.astype(np.int32), mask=codes >= len(texts))
        columns.append(
            pa.DictionaryArray.from_arrays(indices, pa.array(texts, pa.string()))
        )
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
    with whole_file(path) as part:
        pq.write_table(table, part, compression="zstd")


def load_atoms(path: str | PathLike[str]) -> Atoms:
    """Read atoms; refuse anything that `save_atoms` would not write."""
    atoms, _ = read_atoms(path, (ATOMS_FORMAT, ATOMS_VERSION), _NO_ATOMS)
    # older files contain TRUE and 1.0 as in the data
    return relevelled(
        atoms, lambda _, level: level if level is None else text_key(level)
    )


def read_atoms(
    path: str | PathLike[str], kind: tuple[str, int], other: Text
) -> tuple[Atoms, dict[str, Any]]:
    """Read the atoms of a file of this format, and its header; `other` says what a file
    is not.
    """
    refuse_special(path)
    with open(
        path, "rb"
    ):  # raises the usual error if the file is missing or unreadable
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
        need(
            atoms.fingerprint() == header.get("fingerprint"), "its content was changed"
        )
    except _TooLargeError:
        raise
    except (FileFormatError, InputError) as error:
        raise FileFormatError(
            f"{path} is damaged: {error}", next_step="Save the atoms again"
        ) from None
    except (
        pa.ArrowException,
        OSError,
        ValueError,
    ) as error:  # also a text that is not UTF-8
        raise FileFormatError(
            f"{path} is damaged: it cannot be read to its end"
        ) from error
    return atoms, header


class _TooLargeError(FileFormatError):
    """The file may be valid, but this machine has too little memory for it."""


def _opened(path: str | PathLike[str], other: Text) -> Any:
    try:
        return pq.ParquetFile(path)
    except (pa.ArrowException, OSError, ValueError) as error:
        what = str(other).split(":")[0]
        raise FileFormatError(
            f"{path} {what}: it is not a complete Parquet file"
        ) from error


def _read(path: str | PathLike[str], file: Any) -> Any:
    """All rows, with texts as dictionaries, so that long texts are not repeated in
    memory.
    """
    texts = [name for name in file.schema_arrow.names if name.startswith(ATTRIBUTE)]
    table = pq.ParquetFile(path, read_dictionary=texts).read()
    check_dictionaries(table)
    return table


def _check_columns(schema: Any) -> None:
    """Check names and types of the columns before reading any row."""
    attributes = [name for name in schema.names if name.startswith(ATTRIBUTE)]
    need(
        schema.names == [*attributes, "score", *SUMS],
        "its columns are not those of atoms",
    )
    need(len({*attributes}) == len(attributes), "an attribute occurs twice")
    kinds = [field.type for field in schema]
    texts = [
        kind.value_type if pa.types.is_dictionary(kind) else kind
        for kind in kinds[: len(attributes)]
    ]
    need(
        all(str(kind) in ("string", "large_string") for kind in texts),
        "an attribute is not text",
    )
    score, people, weight, weight_sq, positives, positives_sq = map(
        str, kinds[len(attributes) :]
    )
    need(score == people == "int64", "scores and people must be whole numbers")
    need(
        weight in NUMBERS
        and weight_sq == weight
        and positives in NUMBERS
        and positives_sq == positives,
        "its sums are not numbers",
    )
    need(weight == "int64" or positives == "double", "its sums have inconsistent types")


def _refuse_too_large(path: str | PathLike[str], file: Any) -> None:
    """Refuse a file whose rows would not fit into memory; a small file can contain very
    many rows.
    """
    about = file.metadata
    need(about.num_rows > 0, "it has no rows")
    parts = [about.row_group(i) for i in range(about.num_row_groups)]
    need(
        sum(part.num_rows for part in parts) == about.num_rows,
        "its parts have the wrong number of rows",
    )
    per_row = ROW_BYTES + ATTRIBUTE_BYTES * (
        len(file.schema_arrow.names) - len(SUMS) - 1
    )
    needed = max(about.num_rows * per_row, sum(part.total_byte_size for part in parts))
    memory = machine_memory()
    if needed > MEMORY_SHARE * memory:
        sizes = {"needed": needed / 1e9, "memory": memory / 1e9}
        raise refused(
            "too large", _TooLargeError, path=path, rows=about.num_rows, **sizes
        )


def machine_memory() -> int:
    """The memory of this machine in bytes, used or not; or the limit of a container or
    of the process.
    """
    found = [UNKNOWN_MEMORY]
    with suppress(AttributeError, OSError, ValueError):  # Windows has no sysconf
        found = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    for path in CGROUPS:
        with suppress(OSError, ValueError):  # no such limit, or "max"
            found.append(int(Path(path).read_text()))
    with suppress(ImportError, OSError, ValueError):
        import resource

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        found += [limit] if limit != resource.RLIM_INFINITY else []
    return min(found)


def atoms_of_table(table: Any, header: dict[str, Any]) -> Atoms:
    """Rebuild atoms from the table in a file; its rows must be sorted and its sums
    possible.
    """
    schema = schema_of("atoms")
    for key in ("resolution_bits", "weighted_rows", "left_out", "shared"):
        shape = schema["properties"][key]
        fits = key not in header or check_of(shape, schema["$defs"])(header[key])
        need(fits, f"{key} {shape['description']}")
    bits = header.get("resolution_bits", 32)
    shared = header.get("shared")
    left_out = header.get("left_out", {"people": 0, "by": {}})
    attributes = [name for name in table.column_names if name.startswith(ATTRIBUTE)]
    encoded = [_levels(table[name]) for name in attributes]
    need(
        all(table[name].null_count == 0 for name in ("score", *SUMS)),
        "a number is missing",
    )
    sums = {name: table[name].to_numpy() for name in ("score", *SUMS)}
    _check_sums(**sums)
    score = sums["score"]
    names = tuple(name.removeprefix(ATTRIBUTE) for name in attributes)
    levels = [found for found, _ in encoded]
    codes = [code for _, code in encoded]
    made_of = derived(header.get("derived"), list(names))
    patterns, code = patterns_of(names, tuple(levels), codes, len(score), made_of)
    key = code.astype(np.int64) * (2 * UNIT) + score
    need(np.all(np.diff(key) > 0), "rows are not sorted by pattern and score")
    starts = np.searchsorted(code, np.arange(len(patterns) + 1))
    need(
        not np.any(score & ((1 << (32 - bits)) - 1)),
        "a score is finer than the stated resolution",
    )
    need({*left_out["by"]} <= {*names}, "left_out names other attributes")
    need(
        shared is None or {*shared["folded"]} <= {*names},
        "shared names other attributes",
    )
    for counts in left_out["by"].values():
        need(distinct([level for level, _ in counts]), "left_out names a level twice")
    return Atoms(
        patterns,
        starts,
        **sums,
        resolution_bits=bits,
        weighted_rows=header.get("weighted_rows", 0),
        left_out=LeftOut(
            left_out["people"], {name: dict(by) for name, by in left_out["by"].items()}
        ),
        shared=None if shared is None else Shared(**shared),
    )


def _levels(column: Any) -> tuple[tuple[Level, ...], Any]:
    """The sorted levels of an attribute, and the level of each row."""
    whole = column.unify_dictionaries().combine_chunks()
    if isinstance(whole, pa.ChunkedArray):
        parts = whole.chunks
    else:
        parts = [whole]
    texts: list[Level] = parts[0].dictionary.to_pylist() if parts else []
    need(None not in texts and len({*texts}) == len(texts), "a level occurs twice")
    indices = np.concatenate(
        [
            part.indices.cast(pa.int32()).fill_null(-1).to_numpy(zero_copy_only=False)
            for part in parts
        ]
    )
    levels = sort_levels([*texts, None] if np.any(indices < 0) else texts)
    places = {level: i for i, level in enumerate(levels)}
    found = [places[text] for text in texts] + [
        places.get(None, -1)
    ]  # index -1 looks up the last entry
    return levels, np.array(found, dtype=np.int32)[indices]


def _check_sums(
    score: Any,
    people: Any,
    weight: Any,
    weight_sq: Any,
    positives: Any,
    positives_sq: Any,
) -> None:
    """Refuse sums that are impossible for any people."""
    need(score.min() >= 0 and score.max() <= UNIT, "a score is out of range")
    total = float(np.sum(people, dtype=np.float64))
    need(people.min() >= 1 and total <= MAX_PEOPLE, "a count of people is out of range")
    sums = (weight, weight_sq, positives, positives_sq)
    need(all(np.isfinite(column).all() for column in sums), "a sum is not a number")
    need(weight.min() > 0, "a weight is out of range")
    need(all(column.min() >= 0 for column in sums), "a sum is negative")
    frequencies = weight.dtype.kind == "i"
    if frequencies:
        same = np.array_equal(people, weight) and np.array_equal(people, weight_sq)
        need(
            same and np.array_equal(positives, positives_sq),
            "its weights are inconsistent",
        )
    # sums of integers are exact
    if positives.dtype.kind == "i":
        room = 0.0
    elif frequencies:
        room = 1e-9
    else:
        room = ROUNDING
    need(np.all(positives - weight <= room * weight), "positives exceed people")
    if not frequencies:
        _check_squares(people, weight, weight_sq, positives, positives_sq)


def _check_squares(
    people: Any,
    weight: FloatArray,
    weight_sq: FloatArray,
    positives: FloatArray,
    positives_sq: FloatArray,
) -> None:
    """Refuse sums of weights and of squared weights that the same people cannot
    have.
    """
    need(
        np.all(weight <= people * LARGEST_WEIGHT * (1 + ROUNDING)),
        "a weight is too large",
    )
    need(_at_most(weight_sq, weight * weight), "squares of weights are too large")
    need(
        _at_most(weight * weight, people * weight_sq),
        "squares of weights are too small",
    )
    need(
        _at_most(positives_sq, weight_sq), "squares of positives exceed those of people"
    )
    need(
        _at_most(positives * positives, people * positives_sq),
        "squares of positives are too small",
    )
    need(
        _at_most(positives_sq, positives * weight), "squares of positives are too large"
    )


def _at_most(small: FloatArray, large: FloatArray) -> bool:
    return bool(np.all(small <= large * (1 + ROUNDING) + SMALLEST))


MONITOR = ("propcal-monitor", 1)
_NO_STATE = "is not the state of a monitor: " + Argument(
    "Monitor.save", written="write one with Monitor.save"
)
# what the file looked like when a monitor was read from it
_looked: WeakKeyDictionary[Monitor, tuple[str, Look | None]] = WeakKeyDictionary()


def save_monitor(monitor: Monitor, path: str | PathLike[str]) -> None:
    """Write the state, whole or not at all; refuse if another run has changed the file
    meanwhile.
    """
    if monitor.atoms is None:
        raise InputError("the monitor has no people yet, so there is nothing to save")
    content = {
        "settings": monitor.settings,
        "identity": asdict(monitor.identity),
        "periods": {
            period: asdict(monitor.records[period]) for period in monitor.periods
        },
        "watched": [
            {"group": [list(pair) for pair in one.group.conditions], "later": one.later}
            for one in monitor.watched
        ],
        "edges": monitor.edges,
    }
    known = _looked.get(monitor)
    again = known is not None and known[0] == realpath(path)
    with outputs() as out:
        save_atoms(monitor.atoms, path, kind=MONITOR, more={"monitor": content})
        if known is not None and again:
            out.unless_changed(path, known[1])
    if again:
        _looked[monitor] = realpath(path), look_of(path)


def load_monitor(path: str | PathLike[str]) -> Monitor:
    """Read a state; refuse anything that `save_monitor` would not write."""
    before = look_of(path)
    atoms, header = read_atoms(path, MONITOR, _NO_STATE)
    try:
        monitor = _restored(header.get("monitor"), atoms)
    except (
        FileFormatError,
        InputError,
        TypeError,
        KeyError,
        ValueError,
        AttributeError,
    ) as error:
        if isinstance(error, (FileFormatError, InputError)):
            told = str(error)
        else:
            told = "its header is malformed"
        raise refused("state damaged", FileFormatError, path=path, told=told) from None
    _looked[monitor] = realpath(path), before
    return monitor


def _restored(content: Any, atoms: Any) -> Monitor:
    from propcal.monitoring.monitor import (
        Monitor,
        PeriodRecord,
    )  # not needed for atoms alone
    from propcal.monitoring.watched_groups import WatchedGroup

    need(isinstance(content, dict), "it has no settings")
    monitor = Monitor(**content["settings"], **given(Identity(**content["identity"])))
    records = {
        str(name): PeriodRecord(**record) for name, record in content["periods"].items()
    }
    for name, record in records.items():
        monitor.calendar.start(name)
        need(type(record.people) is int and record.people > 0, "a period has nobody")
    people = people_by(atoms, PERIOD)
    need(
        people == {name: record.people for name, record in records.items()},
        "its periods do not add up",
    )
    own = [name for name in atoms.patterns.attributes if name != PERIOD]
    need(
        own == list(monitor.columns.attributes),
        "its groups are not those of its settings",
    )
    watched = [
        WatchedGroup(
            Group(tuple((str(a), level) for a, level in one["group"])),
            int(one["later"]),
        )
        for one in content["watched"]
    ]
    need(
        bool(watched)
        and {a for one in watched for a, _ in one.group.conditions} <= {*own},
        "its groups",
    )
    monitor.edges = [float(edge) for edge in content["edges"]]
    monitor.atoms = atoms
    monitor.records = records
    monitor.watched = watched
    return monitor

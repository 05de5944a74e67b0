"""Files: corrections as versioned JSON, atoms as Parquet. Written whole or not at all; no pickle."""

from __future__ import annotations

import itertools
import json
import os
import tempfile
from collections.abc import Callable
from contextlib import suppress
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from propcal.core.atoms import SUMS, Atoms
from propcal.core.bins import Bins
from propcal.core.correction import Correction
from propcal.core.grid import UNIT
from propcal.core.groups import Group
from propcal.core.patterns import Patterns, sort_levels
from propcal.core.recipes import Recipe, recipe_from_json
from propcal.errors import FileFormatError, InputError

CORRECTION_FORMAT, CORRECTION_VERSION = "propcal-correction", 1
ATOMS_FORMAT, ATOMS_VERSION = "propcal-atoms", 1


def write_whole(path: str | PathLike[str], write: Callable[[Path], None]) -> None:
    """Let `write` fill a new file beside `path`, then put it in place: all of it or nothing."""
    target = Path(os.path.realpath(path))  # through a link, not over it
    if target.is_dir():
        raise IsADirectoryError(f"cannot write {target}: it is a folder")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"cannot write {target}: there is no folder {target.parent}")
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=".propcal-", suffix=".part")
    os.close(handle)
    part = Path(name)
    try:
        write(part)
        mask = os.umask(0)
        os.umask(mask)
        part.chmod(0o666 & ~mask)  # as any new file; mkstemp's are private
        part.replace(target)
    except BaseException:
        with suppress(OSError):
            part.unlink()
        raise


def correction_to_json(correction: Correction) -> str:
    """The file's text: one line for each group, pattern and update."""
    patterns = correction.patterns
    content: dict[str, Any] = {
        "format": CORRECTION_FORMAT,
        "version": CORRECTION_VERSION,
        "unit": "2**-32",
        "about": dict(correction.about),
        "attributes": list(patterns.attributes),
        "derived": _recipes(patterns),
        "bins": {
            "kind": correction.bins.kind,
            "divisor": correction.bins.divisor,
            "edges": correction.bins.edges.tolist(),
        },
        "groups": [[list(condition) for condition in group.conditions] for group in correction.groups],
        "patterns": [list(patterns.key(p)) for p in range(len(patterns))],
        "unseen": correction.unseen,
        "updates": correction.updates.tolist(),
    }
    lines = []
    for key, value in content.items():
        if key in ("groups", "patterns", "updates") and value:
            rows = ",\n".join("    " + json.dumps(row, ensure_ascii=False, allow_nan=False) for row in value)
            lines.append(f"  {json.dumps(key)}: [\n{rows}\n  ]")
        else:
            lines.append(f"  {json.dumps(key)}: {json.dumps(value, ensure_ascii=False, allow_nan=False)}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def save_correction(correction: Correction, path: str | PathLike[str]) -> None:
    """Write a correction as JSON."""
    text = correction_to_json(correction)

    def write(part: Path) -> None:
        part.write_text(text, encoding="utf-8")

    write_whole(path, write)


def load_correction(path: str | PathLike[str]) -> Correction:
    """Read a correction, refusing whatever is not exactly one."""
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
        content = json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise FileFormatError(
            f"{path} is not a correction file: it is no complete JSON text. Is it cut off?"
        ) from error
    if not isinstance(content, dict) or content.get("format") != CORRECTION_FORMAT:
        raise FileFormatError(f'{path} is not a correction file: its "format" is not "{CORRECTION_FORMAT}"')
    version = content.get("version")
    if type(version) is not int or version < 1:
        raise FileFormatError(f'{path}: "version" must be a whole number from 1')
    if version > CORRECTION_VERSION:
        raise FileFormatError(
            f"{path} has version {version}, this propcal reads up to {CORRECTION_VERSION}; upgrade propcal"
        )
    try:
        return _correction(content)
    except FileFormatError as error:
        raise FileFormatError(f"{path} is damaged: {error}. Save the correction again") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({key for key, _ in pairs}) < len(pairs):
        raise ValueError("an entry stands twice")
    return dict(pairs)


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number")


def _need(condition: bool, text: str) -> None:
    if not condition:
        raise FileFormatError(text)


def _whole(value: Any, low: int, high: int) -> bool:
    return type(value) is int and low <= value <= high


def _rows(content: dict[str, Any], key: str, width: int | None) -> list[list[Any]]:
    rows = content.get(key)
    _need(
        isinstance(rows, list) and all(isinstance(row, list) for row in rows),
        f'"{key}" must be a list of lists',
    )
    assert isinstance(rows, list)
    if width is not None:
        _need(all(len(row) == width for row in rows), f'each of "{key}" must have {width} entries')
    return rows


def _correction(content: dict[str, Any]) -> Correction:
    """Rebuild a correction from the checked content of a file."""
    expected = {
        "format",
        "version",
        "unit",
        "about",
        "attributes",
        "derived",
        "bins",
        "groups",
        "patterns",
        "unseen",
        "updates",
    }
    _need(set(content) == expected, f"its entries must be {sorted(expected)}")
    _need(content["unit"] == "2**-32", '"unit" must be "2**-32"')
    about = content["about"]
    _need(isinstance(about, dict) and isinstance(about.get("method", ""), str), '"about" must name a method')
    for key in ("alpha", "gamma", "rho", "eta"):
        known = about.get(key, 1.0)
        _need(type(known) in (int, float) and 0 < known <= 2, f'"{key}" of "about" is out of range')
    _need(content["unseen"] in ("replay", "keep", "error"), '"unseen" must be replay, keep or error')
    attributes = content["attributes"]
    _need(
        isinstance(attributes, list) and all(isinstance(a, str) for a in attributes),
        '"attributes" must be texts',
    )
    _need(len(set(attributes)) == len(attributes), '"attributes" must differ')
    bins = _bins(content["bins"])
    groups = tuple(_group(row, attributes) for row in _rows(content, "groups", None))
    _need(len(groups) > 0 and len(set(groups)) == len(groups), '"groups" must be some, all different')
    updates = _rows(content, "updates", 3)
    _need(
        all(
            _whole(g, 0, len(groups) - 1) and _whole(b, 0, len(bins) - 1) and _whole(s, -2 * UNIT, 2 * UNIT)
            for g, b, s in updates
        ),
        '"updates" must hold whole numbers: a group, a bin, and a shift between -2**33 and 2**33',
    )
    patterns = _patterns(
        attributes, _rows(content, "patterns", len(attributes)), _derived(content["derived"], attributes)
    )
    levels = dict(zip(patterns.attributes, patterns.levels))
    _need(
        all(level in levels[name] for group in groups for name, level in group.conditions),
        "a group has a level that no pattern has",
    )
    return Correction(
        patterns=patterns,
        groups=groups,
        bins=bins,
        updates=np.array(updates, dtype=np.int64).reshape(-1, 3),
        unseen=content["unseen"],
        about=about,
    )


def _bins(content: Any) -> Bins:
    _need(
        isinstance(content, dict) and set(content) == {"kind", "divisor", "edges"},
        '"bins" must have kind, divisor, edges',
    )
    edges = content["edges"]
    _need(
        content["kind"] in ("uniform", "geometric", "quantile", "explicit"),
        "the kind of bins is unknown",
    )
    _need(_whole(content["divisor"], 1, UNIT), "the divisor of bins must be a whole number")
    _need(
        isinstance(edges, list) and len(edges) > 1 and all(_whole(e, 0, UNIT) for e in edges),
        "edges must be whole numbers",
    )
    _need(edges[0] == 0 and edges[-1] == UNIT, "edges must run from 0 to 2**32")
    _need(all(a < b for a, b in itertools.pairwise(edges)), "edges must ascend")
    return Bins(np.array(edges, dtype=np.int64), content["kind"], content["divisor"])


def _level(value: Any) -> bool:
    return value is None or isinstance(value, str)


def _group(row: list[Any], attributes: list[str]) -> Group:
    _need(
        all(isinstance(c, list) and len(c) == 2 for c in row),
        "a group must be a list of [attribute, level]",
    )
    _need(
        all(c[0] in attributes and _level(c[1]) for c in row),
        "a group has an unknown attribute or level",
    )
    _need(len({c[0] for c in row}) == len(row), "a group names an attribute twice")
    return Group(tuple((c[0], c[1]) for c in row))


def _recipes(patterns: Patterns) -> dict[str, Any]:
    return {name: recipe.to_json() for name, recipe in patterns.derived.items()}


def _derived(content: Any, attributes: list[str]) -> dict[str, Recipe]:
    _need(isinstance(content, dict) and set(content) <= set(attributes), '"derived" must be of attributes')
    try:
        return {name: recipe_from_json(recipe) for name, recipe in content.items()}
    except InputError as error:
        raise FileFormatError(f'"derived": {error}') from None


def _patterns(attributes: list[str], rows: list[list[Any]], derived: dict[str, Recipe]) -> Patterns:
    _need(all(_level(value) for row in rows for value in row), "a pattern has a level that is no text")
    _need(
        len(rows) > 0 and len({tuple(row) for row in rows}) == len(rows),
        '"patterns" must be some, all different',
    )
    levels = tuple(sort_levels([*{row[a] for row in rows}]) for a in range(len(attributes)))
    table = [[level.index(value) for level, value in zip(levels, row)] for row in rows]
    sorted_table = np.array(sorted(table), dtype=np.int64).reshape(len(rows), -1)
    return Patterns(tuple(attributes), levels, sorted_table, derived)


def save_atoms(atoms: Atoms, path: str | PathLike[str]) -> None:
    """Write atoms as Parquet: a column for each attribute, then score (in units) and sums."""
    import pyarrow as pa
    import pyarrow.parquet as pq

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
        "derived": _recipes(atoms.patterns),
        "fingerprint": atoms.fingerprint(),
    }
    table = pa.Table.from_arrays(columns, names=names).replace_schema_metadata(
        {"propcal": json.dumps(header)}
    )
    write_whole(path, lambda part: pq.write_table(table, part, compression="zstd"))


def load_atoms(path: str | PathLike[str]) -> Atoms:
    """Read atoms, refusing whatever is not exactly what `save_atoms` writes."""
    import pyarrow as pa
    import pyarrow.parquet as pq

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
        raise FileFormatError(f"{path} is not an atoms file: write one with Atoms.save")
    if type(header.get("version")) is not int or header["version"] > ATOMS_VERSION:
        raise FileFormatError(
            f"{path} has version {header.get('version')}, this propcal reads up to {ATOMS_VERSION}; "
            "upgrade propcal"
        )
    try:
        atoms = _atoms(table, header.get("derived"))
        _need(atoms.fingerprint() == header.get("fingerprint"), "its content was changed")
    except (FileFormatError, InputError, pa.ArrowException) as error:
        raise FileFormatError(f"{path} is damaged: {error}. Save the atoms again") from None
    return atoms


def _atoms(table: Any, derived: Any) -> Atoms:
    """Rebuild atoms from the table of a file; rows must be sorted and sums possible."""
    from propcal.core.atoms import patterns_of
    from propcal.data.levels import distinct, encode

    attributes = [name for name in table.column_names if name.startswith("attribute:")]
    _need(table.column_names == [*attributes, "score", *SUMS], "its columns are not those of atoms")
    encoded = [encode(*distinct(table[name])) for name in attributes]
    sums = {name: table[name].to_numpy() for name in ("score", *SUMS)}
    _need(
        all(len(column) > 0 and column.dtype.kind in "if" for column in sums.values()),
        "it has no rows or no numbers",
    )
    score, people = sums["score"], sums["people"]
    _need(
        score.dtype.kind == "i" and people.dtype.kind == "i",
        "scores and people must be whole numbers",
    )
    _need(
        bool(score.min() >= 0 and score.max() <= UNIT and people.min() >= 1),
        "a score or a count is out of range",
    )
    _need(
        bool(np.all(np.isfinite(sums["weight"])) and sums["weight"].min() > 0),
        "a weight is out of range",
    )
    if sums["weight"].dtype.kind == "i":
        same = np.array_equal(people, sums["weight"]) and np.array_equal(people, sums["weight_sq"])
        _need(same and np.array_equal(sums["positives"], sums["positives_sq"]), "its weights disagree")
    excess = sums["positives"] - sums["weight"]
    _need(
        bool(sums["positives"].min() >= 0 and np.all(excess <= 1e-9 * sums["weight"])),
        "positives exceed people",
    )
    names = tuple(name.removeprefix("attribute:") for name in attributes)
    levels, codes = [found for found, _ in encoded], [code for _, code in encoded]
    patterns, code = patterns_of(names, tuple(levels), codes, len(score), _derived(derived, list(names)))
    key = code.astype(np.int64) * (2 * UNIT) + score
    _need(bool(np.all(np.diff(key) > 0)), "rows are not sorted by pattern and score")
    starts = np.searchsorted(code, np.arange(len(patterns) + 1))
    return Atoms(patterns, starts, **sums)

"""Rebuilds atoms from the table in a file, and refuses sums that are impossible for any people."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from propcal.core.atoms import SUMS, Atoms
from propcal.core.grid import MAX_PEOPLE, UNIT, FloatArray
from propcal.core.left_out import LeftOut
from propcal.core.patterns import Level, patterns_of, sort_levels
from propcal.core.shared_atoms import Shared
from propcal.data.checks import LARGEST_WEIGHT
from propcal.output.files.correction_file import derived as read_derived
from propcal.output.files.correction_file import need

ATTRIBUTE = "attribute:"
ROUNDING = 1e-6  # relative rounding error allowed in sums of billions of weights
SMALLEST = 1e-300  # squares of very small weights underflow to 0


def atoms_of_table(table: Any, header: dict[str, Any]) -> Atoms:
    """Rebuild atoms from the table in a file; its rows must be sorted and its sums possible."""
    bits, rows = header.get("resolution_bits", 32), header.get("weighted_rows", 0)
    need(type(bits) is int and 1 <= bits <= 32, "resolution_bits must be from 1 to 32")
    need(type(rows) is int and 0 <= rows <= MAX_PEOPLE, "weighted_rows must be a whole number")
    attributes = [name for name in table.column_names if name.startswith(ATTRIBUTE)]
    encoded = [_levels(table[name]) for name in attributes]
    need(all(table[name].null_count == 0 for name in ("score", *SUMS)), "a number is missing")
    sums = {name: table[name].to_numpy() for name in ("score", *SUMS)}
    _check_sums(**sums)
    score = sums["score"]
    names = tuple(name.removeprefix(ATTRIBUTE) for name in attributes)
    levels, codes = [found for found, _ in encoded], [code for _, code in encoded]
    derived = read_derived(header.get("derived"), list(names))
    patterns, code = patterns_of(names, tuple(levels), codes, len(score), derived)
    key = code.astype(np.int64) * (2 * UNIT) + score
    need(bool(np.all(np.diff(key) > 0)), "rows are not sorted by pattern and score")
    starts = np.searchsorted(code, np.arange(len(patterns) + 1))
    need(not np.any(score & ((1 << (32 - bits)) - 1)), "a score is finer than the stated resolution")
    left_out = _left_out(header.get("left_out", {"people": 0, "by": {}}), names)
    shared = _shared(header["shared"], names) if "shared" in header else None
    return Atoms(
        patterns, starts, **sums, resolution_bits=bits, weighted_rows=rows, left_out=left_out, shared=shared
    )


def _shared(content: Any, attributes: tuple[str, ...]) -> Shared:
    """What was merged: whole numbers, of attributes that there are."""
    wrong = "shared must hold fewest, and how many levels of which attributes were folded"
    need(isinstance(content, dict) and {*content} == {"fewest", "folded"}, wrong)
    fewest, folded = content["fewest"], content["folded"]
    need(_is_count(fewest) and fewest > 1 and isinstance(folded, dict) and {*folded} <= {*attributes}, wrong)
    need(all(_is_count(n) for n in folded.values()), wrong)
    return Shared(fewest, folded)


def _left_out(content: Any, attributes: tuple[str, ...]) -> LeftOut:
    """The people who were left out: counts by level that add up to their number."""
    wrong = "left_out must hold people, and their number by level of some attributes"
    need(isinstance(content, dict) and {*content} == {"people", "by"}, wrong)
    people, by = content["people"], content["by"]
    need(_is_count(people) and isinstance(by, dict) and {*by} <= {*attributes}, wrong)
    for pairs in by.values():
        need(isinstance(pairs, list) and all(isinstance(p, list) and len(p) == 2 for p in pairs), wrong)
        need(all((p[0] is None or isinstance(p[0], str)) and _is_count(p[1]) for p in pairs), wrong)
        need(len({p[0] for p in pairs}) == len(pairs), wrong)
    return LeftOut(people, {name: dict(pairs) for name, pairs in by.items()})


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value <= MAX_PEOPLE


def _levels(column: Any) -> tuple[tuple[Level, ...], Any]:
    """The sorted levels of an attribute, and the level of each row."""
    whole = column.unify_dictionaries().combine_chunks()
    parts = whole.chunks if isinstance(whole, pa.ChunkedArray) else [whole]
    texts: list[Level] = parts[0].dictionary.to_pylist() if parts else []
    need(None not in texts and len({*texts}) == len(texts), "a level occurs twice")
    indices = np.concatenate(
        [part.indices.cast(pa.int32()).fill_null(-1).to_numpy(zero_copy_only=False) for part in parts]
    )
    levels = sort_levels([*texts, None] if np.any(indices < 0) else texts)
    places = {level: i for i, level in enumerate(levels)}
    found = [places[text] for text in texts] + [places.get(None, -1)]  # index -1 looks up the last entry
    return levels, np.array(found, dtype=np.int32)[indices]


def _check_sums(
    score: Any, people: Any, weight: Any, weight_sq: Any, positives: Any, positives_sq: Any
) -> None:
    """Refuse sums that are impossible for any people."""
    need(bool(score.min() >= 0 and score.max() <= UNIT), "a score is out of range")
    total = float(np.sum(people, dtype=np.float64))
    need(bool(people.min() >= 1) and total <= MAX_PEOPLE, "a count of people is out of range")
    sums = (weight, weight_sq, positives, positives_sq)
    need(all(bool(np.all(np.isfinite(column))) for column in sums), "a sum is not a number")
    need(bool(weight.min() > 0), "a weight is out of range")
    need(all(bool(column.min() >= 0) for column in sums), "a sum is negative")
    frequencies = weight.dtype.kind == "i"
    if frequencies:
        same = np.array_equal(people, weight) and np.array_equal(people, weight_sq)
        need(same and np.array_equal(positives, positives_sq), "its weights are inconsistent")
    # sums of integers are exact
    room = 0.0 if positives.dtype.kind == "i" else 1e-9 if frequencies else ROUNDING
    need(bool(np.all(positives - weight <= room * weight)), "positives exceed people")
    if not frequencies:
        _check_squares(people, weight, weight_sq, positives, positives_sq)


def _check_squares(
    people: Any, weight: FloatArray, weight_sq: FloatArray, positives: FloatArray, positives_sq: FloatArray
) -> None:
    """Refuse sums of weights and of squared weights that the same people cannot have."""
    need(bool(np.all(weight <= people * LARGEST_WEIGHT * (1 + ROUNDING))), "a weight is too large")
    need(_at_most(weight_sq, weight * weight), "squares of weights are too large")
    need(_at_most(weight * weight, people * weight_sq), "squares of weights are too small")
    need(_at_most(positives_sq, weight_sq), "squares of positives exceed those of people")
    need(_at_most(positives * positives, people * positives_sq), "squares of positives are too small")
    need(_at_most(positives_sq, positives * weight), "squares of positives are too large")


def _at_most(small: FloatArray, large: FloatArray) -> bool:
    return bool(np.all(small <= large * (1 + ROUNDING) + SMALLEST))

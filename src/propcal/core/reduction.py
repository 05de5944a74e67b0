"""Reduction: rows -> atoms, and atoms -> fewer or other atoms. One sort, and sums over runs."""

from __future__ import annotations

from typing import Any

import numpy as np

from propcal.core.atoms import SUMS, Atoms, refuse_too_many
from propcal.core.grid import FloatArray, IntArray, SumArray, check_choice, from_grid, to_grid
from propcal.core.patterns import Level, Patterns, patterns_of, sort_levels
from propcal.errors import InputError

SCORE_BITS = 33  # a score is at most 2**32
# The attribute that holds the bucket of a person who may occur several times; it makes no groups.
CLUSTER = "cluster bucket"


def atoms_of_rows(
    patterns: Patterns,
    code: Any,
    score: FloatArray,
    outcome: Any,
    weight: FloatArray | None,
    *,
    resolution_bits: int = 32,
    weight_kind: str = "auto",
) -> Atoms:
    """Reduce checked rows to atoms. Rows of weight 0 must be gone.

    `outcome` is of an integer type if every outcome is 0 or 1, and float64 if some are soft labels.
    """
    check_choice("weight_kind", weight_kind, ("auto", "frequency", "survey"))
    units = to_grid(score) if resolution_bits == 32 else _coarse(score, resolution_bits)
    hard = outcome.dtype.kind == "i"
    whole = weight is None or bool(np.all(weight == np.floor(weight)))
    if weight is not None and weight_kind == "frequency" and not whole:
        refuse_fractions()
    whole = whole and not (weight is not None and weight_kind == "survey")
    refuse_too_many(len(units) if weight is None or not whole else float(weight.sum()))
    if hard and weight is None:
        return _collapse_counts(patterns, code, units, outcome, resolution_bits)
    y: SumArray = outcome.astype(np.int64) if hard else from_grid(to_grid(outcome))
    if whole:
        w = np.ones(len(units), dtype=np.int64) if weight is None else weight.astype(np.int64)
        sums = {"people": w, "weight": w, "weight_sq": w, "positives": w * y, "positives_sq": w * y}
    else:
        assert weight is not None
        squares = weight * weight
        sums = {
            "people": np.ones(len(units), dtype=np.int64),
            "weight": weight,
            "weight_sq": squares,
            "positives": weight * y,
            "positives_sq": squares * y,
        }
    return atoms_of_sums(patterns, code, units, sums, resolution_bits=resolution_bits)


def refuse_fractions() -> None:
    """Frequencies are counts of people."""
    raise InputError("weights that are frequencies must be whole numbers; these are not")


def _coarse(score: FloatArray, bits: int) -> IntArray:
    return np.floor(score * float(1 << bits) + 0.5).astype(np.int64) << (32 - bits)


def _starts(patterns: Patterns, keys: IntArray) -> IntArray:
    return np.searchsorted(keys, np.arange(len(patterns) + 1, dtype=np.int64) << SCORE_BITS)


def _collapse_counts(patterns: Patterns, code: Any, units: IntArray, outcome: Any, bits: int) -> Atoms:
    """Count people and 0/1 outcomes: pattern, score and outcome in one number, one plain sort.

    Sorting such numbers is several times faster than sorting indices (argsort, lexsort).
    """
    keys = units
    if len(patterns) > 1:
        high = code.astype(np.int64)
        high <<= SCORE_BITS
        keys += high
        del high
    keys <<= 1
    keys += outcome
    keys.sort()
    positive = (keys & 1).astype(np.int8)
    keys >>= 1
    first = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]]))
    positives = np.add.reduceat(positive, first, dtype=np.int64)
    keys = keys[first]
    people = np.empty_like(first)
    np.subtract(first[1:], first[:-1], out=people[:-1])
    people[-1] = len(positive) - first[-1]
    starts = _starts(patterns, keys)
    keys &= (1 << SCORE_BITS) - 1
    return Atoms(patterns, starts, keys, people, people, people, positives, positives, bits)


def atoms_of_sums(
    patterns: Patterns, code: Any, units: IntArray, sums: dict[str, Any], *, resolution_bits: int
) -> Atoms:
    """Add up the given columns over rows of the same pattern and score."""
    keys = (code.astype(np.int64) << SCORE_BITS) + units
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    first = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]]))
    done: dict[int, Any] = {}  # columns that are one array before remain one array after
    for column in sums.values():
        if id(column) not in done:
            done[id(column)] = np.add.reduceat(column[order], first)
    keys = keys[first]
    added = {name: done[id(column)] for name, column in sums.items()}
    score = keys & ((1 << SCORE_BITS) - 1)
    return Atoms(patterns, _starts(patterns, keys), score, **added, resolution_bits=resolution_bits)


def merge(a: Atoms, b: Atoms) -> Atoms:
    """Atoms of both sets of people together; the attributes must be the same."""
    mine, theirs = a.patterns, b.patterns
    if not mine.same_attributes(theirs):
        raise InputError(
            f"atoms of different attributes cannot be added: {list(mine.attributes)} and "
            f"{list(theirs.attributes)}, or they are derived in different ways"
        )
    levels = tuple(sort_levels([*{*one, *other}]) for one, other in zip(mine.levels, theirs.levels))
    tables = [_translate(p, levels)[atoms.pattern_index()] for p, atoms in ((mine, a), (theirs, b))]
    sums = {name: np.concatenate([getattr(a, name), getattr(b, name)]) for name in SUMS}
    score = np.concatenate([a.score, b.score])
    patterns, code = patterns_of(
        mine.attributes, levels, list(np.concatenate(tables).T), len(score), mine.derived
    )
    bits = min(a.resolution_bits, b.resolution_bits)
    return atoms_of_sums(patterns, code, score, sums, resolution_bits=bits)


def rescored(atoms: Atoms, score: IntArray) -> Atoms:
    """The same people with other scores (in units), one for each atom."""
    bits = atoms.resolution_bits
    return atoms_of_sums(atoms.patterns, atoms.pattern_index(), score, _sums(atoms), resolution_bits=bits)


def without_clusters(atoms: Atoms) -> Atoms:
    """The same people without the buckets of repeated people; the same atoms if there are none."""
    patterns = atoms.patterns
    if CLUSTER not in patterns.attributes:
        return atoms
    keep = [a for a, name in enumerate(patterns.attributes) if name != CLUSTER]
    names, levels = tuple(patterns.attributes[a] for a in keep), tuple(patterns.levels[a] for a in keep)
    codes = [patterns.table[:, a] for a in keep]
    fewer, code = patterns_of(names, levels, codes, len(patterns), patterns.derived)
    code, bits = code[atoms.pattern_index()], atoms.resolution_bits
    return atoms_of_sums(fewer, code, atoms.score, _sums(atoms), resolution_bits=bits)


def _sums(atoms: Atoms) -> dict[str, Any]:
    return {name: getattr(atoms, name) for name in SUMS}


def _translate(patterns: Patterns, levels: tuple[tuple[Level, ...], ...]) -> IntArray:
    """The pattern table in terms of other (more) levels."""
    table = patterns.table.copy()
    for a, wanted in enumerate(levels):
        position = np.array([wanted.index(level) for level in patterns.levels[a]], dtype=np.int64)
        table[:, a] = position[table[:, a]]
    return table

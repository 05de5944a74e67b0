"""Reduce rows to atoms; merge atoms, change their scores, or drop attributes from them.

Atoms of several periods or sites have a key, one more attribute that defines no groups.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from itertools import chain, pairwise
from operator import add
from typing import Any

import numpy as np

from propcal.core.arguments import check_choice
from propcal.core.atoms import NOBODY, SUMS, Atoms, LeftOut, refuse_too_many
from propcal.core.grid import FloatArray, IntArray, SumArray, from_grid, to_grid
from propcal.core.patterns import (
    BESIDE,
    CLUSTER,
    KEY,
    SHARE,
    Level,
    Patterns,
    patterns_of,
    sort_levels,
)
from propcal.errors import InputError, refused
from propcal.numbers import noun

SCORE_BITS = 33  # a score is at most 2**32


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
    """Reduce checked rows to atoms. Rows of weight 0 must have been removed.

    `outcome` has an integer type if every outcome is 0 or 1, and is float64 if some are
    soft labels.
    """
    check_choice("weight_kind", weight_kind, ("auto", "frequency", "survey"))
    if resolution_bits == 32:
        units = to_grid(score)
    else:
        units = _coarse(score, resolution_bits)
    hard = outcome.dtype.kind == "i"
    whole = weight is None or bool(np.all(weight == np.floor(weight)))
    if weight is not None and weight_kind == "frequency" and not whole:
        raise refused("fractional frequencies")
    whole = whole and not (weight is not None and weight_kind == "survey")
    refuse_too_many(len(units) if weight is None or not whole else float(weight.sum()))
    if hard and weight is None:
        return _collapse_counts(patterns, code, units, outcome, resolution_bits)
    y: SumArray = outcome.astype(np.int64) if hard else from_grid(to_grid(outcome))
    if whole:
        if weight is None:
            w = np.ones(len(units), dtype=np.int64)
        else:
            w = weight.astype(np.int64)
        sums = sums_of_counts(w, w * y)
    else:
        assert weight is not None
        squares = weight * weight
        people = np.ones(len(units), dtype=np.int64)
        sums = dict(zip(SUMS, (people, weight, squares, weight * y, squares * y)))
    rows = 0 if weight is None else len(units)
    return atoms_of_sums(
        patterns, code, units, sums, resolution_bits=resolution_bits, weighted_rows=rows
    )


def sums_of_counts(people: Any, positives: Any) -> dict[str, Any]:
    """The sums of atoms if weights are frequencies: several of the sums are then the
    same array.
    """
    counted = dict.fromkeys(("people", "weight", "weight_sq"), people)
    return counted | dict.fromkeys(("positives", "positives_sq"), positives)


def _coarse(score: FloatArray, bits: int) -> IntArray:
    return np.floor(score * float(1 << bits) + 0.5).astype(np.int64) << (32 - bits)


def _starts(patterns: Patterns, keys: IntArray) -> IntArray:
    return np.searchsorted(
        keys, np.arange(len(patterns) + 1, dtype=np.int64) << SCORE_BITS
    )


def _collapse_counts(
    patterns: Patterns, code: Any, units: IntArray, outcome: Any, bits: int
) -> Atoms:
    """Count people and 0/1 outcomes by packing pattern, score and outcome into one
    integer and sorting once.

    Sorting integers is several times faster than sorting indices (argsort, lexsort).
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
    return Atoms(
        patterns, starts, keys, people, people, people, positives, positives, bits
    )


def atoms_of_sums(
    patterns: Patterns, code: Any, units: IntArray, sums: dict[str, Any], **about: Any
) -> Atoms:
    """Add up columns over rows with the same pattern and score; `about` has the other
    fields of Atoms.
    """
    order, keys = _sorted((code.astype(np.int64) << SCORE_BITS) + units)
    differs = keys[1:] != keys[:-1]
    alone = bool(differs.all())
    if alone:
        first = np.arange(len(keys))
    else:
        first = np.flatnonzero(np.concatenate([[True], differs]))
    done: dict[int, Any] = {}  # columns that share an array keep sharing one
    for column in sums.values():
        if id(column) not in done:
            done[id(column)] = (
                column[order] if alone else np.add.reduceat(column[order], first)
            )
    keys = keys[first]
    added = {name: done[id(column)] for name, column in sums.items()}
    score = keys & ((1 << SCORE_BITS) - 1)
    return Atoms(patterns, _starts(patterns, keys), score, **added, **about)


def _sorted(keys: IntArray) -> tuple[IntArray, IntArray]:
    """The stable sort order of the keys, and the sorted keys.

    If a key (without its trailing zero bits) and its position fit into one integer,
    those integers are sorted, which is several times faster than argsort.
    """
    every = int(np.bitwise_or.reduce(keys, initial=0))
    zeros = (every & -every).bit_length() - 1 if every else 0
    places = max(len(keys) - 1, 1).bit_length()
    if every.bit_length() - zeros + places > 63:
        order = np.argsort(keys, kind="stable")
        return order, keys[order]
    packed = ((keys >> zeros) << places) | np.arange(len(keys))
    packed.sort()
    return packed & ((1 << places) - 1), (packed >> places) << zeros


def merge(a: Atoms, b: Atoms) -> Atoms:
    """Atoms of both sets of people together; the attributes must be the same, in any
    order.

    Attributes keep the order of the first part. If their scores have different
    resolutions, the finer scores are rounded to the coarser grid.
    """
    return joined([a, aligned(b, a.patterns)])


def aligned(atoms: Atoms, to: Patterns) -> Atoms:
    """The same people with their attributes in the order of others; refuses different
    attributes.
    """
    if atoms.patterns.attributes != to.attributes and {*atoms.patterns.attributes} == {
        *to.attributes
    }:
        atoms = with_attributes(atoms, list(to.attributes))
    if not to.same_attributes(atoms.patterns):
        raise InputError(
            f"these atoms cannot be added: {_difference(to, atoms.patterns)}"
        )
    return atoms


def joined(
    parts: Sequence[Atoms], key: str | None = None, names: Sequence[Level] = ()
) -> Atoms:
    """The people of several parts with the same attributes; `key` names one more, and
    `names` its levels.
    """
    first = parts[0].patterns
    n = [len(part) for part in parts]
    attributes = first.attributes
    each = zip(*(part.patterns.levels for part in parts))
    levels = [sort_levels([*{*chain.from_iterable(own)}]) for own in each]
    tables = [_translate(part.patterns, levels)[part.pattern_index()] for part in parts]
    codes = list(np.concatenate(tables).T)
    if key is not None:
        attributes = (*attributes, key)
        levels.append(sort_levels(names))
        place = {level: i for i, level in enumerate(levels[-1])}
        codes.append(np.repeat([place[name] for name in names], n))
    bits = min(part.resolution_bits for part in parts)
    patterns, code = patterns_of(
        attributes, tuple(levels), codes, sum(n), first.derived
    )
    shared = [part.shared for part in parts]
    left_out = [part.left_out for part in parts]
    if key is not None:
        named = [(name, one) for name, one in zip(names, left_out) if one.people]
        left_out = [
            LeftOut(one.people, {**one.by, key: {name: one.people}})
            for name, one in named
        ]
    return atoms_of_sums(
        patterns,
        code,
        np.concatenate([_coarser(part, bits) for part in parts]),
        {
            name: np.concatenate([getattr(part, name) for part in parts])
            for name in SUMS
        },
        resolution_bits=bits,
        weighted_rows=sum(part.weighted_rows for part in parts),
        left_out=sum(left_out, NOBODY),
        # people who may be shared and others may not be shared together
        shared=None if None in shared else reduce(add, shared),
        unused_id=max(part.unused_id for part in parts),
    )


def _coarser(atoms: Atoms, bits: int) -> IntArray:
    """Scores rounded to a grid of 2**-bits, halves upwards as in `_coarse`."""
    if bits == atoms.resolution_bits:
        return atoms.score
    shift = 32 - bits
    return ((atoms.score + (1 << (shift - 1))) >> shift) << shift


def _difference(one: Patterns, other: Patterns) -> str:
    """Say how the attributes of two sets of patterns differ."""
    if (SHARE in one.attributes) != (SHARE in other.attributes):
        if SHARE in one.attributes:
            which = ("first", "second")
        else:
            which = ("second", "first")
        return f"the {which[0]} set may be shared and the {which[1]} is exact; share that one as well"
    for a, b, word in ((one, other, "first"), (other, one, "second")):
        alone = [name for name in a.attributes if name not in b.attributes]
        if alone:
            names = ", ".join(map(repr, alone))
            return (
                f"only the {word} set has the {noun(len(alone), 'attribute')} {names}"
            )
    for name in one.attributes:
        made = [
            p.derived[name].to_json() if name in p.derived else "a column"
            for p in (one, other)
        ]
        if made[0] != made[1]:
            return f"the attribute {name!r} is defined differently in them, as {made[0]} and as {made[1]}"
    raise AssertionError("attributes of the same names and recipes are the same")


def _by(atoms: Atoms, patterns: Patterns, code: Any, **changed: Any) -> Atoms:
    """The same people by other patterns, given the pattern of each atom; `changed` are
    other fields.
    """
    kept = SUMS if atoms.keys is None else (*SUMS, "keys")
    about = ("resolution_bits", "weighted_rows", "left_out", "shared", "unused_id")
    fields = {name: getattr(atoms, name) for name in ("score", *kept, *about)} | changed
    sums = {name: fields.pop(name) for name in kept}
    return atoms_of_sums(patterns, code, fields.pop("score"), sums, **fields)


def rescored(atoms: Atoms, score: IntArray) -> Atoms:
    """The same people with new scores (in units), one for each atom."""
    return _by(atoms, atoms.patterns, atoms.pattern_index(), score=score)


def without_clusters(atoms: Atoms) -> Atoms:
    """The same people without the hashed patient IDs; the same atoms if there are
    none.
    """
    return without(atoms, CLUSTER)


def without(atoms: Atoms, *names: str) -> Atoms:
    """The same people without some attributes; the same atoms if there are none of
    these.
    """
    left = [name for name in atoms.patterns.attributes if name not in names]
    if len(left) == len(atoms.patterns.attributes):
        return atoms
    return with_attributes(atoms, left)


def with_attributes(atoms: Atoms, names: list[str]) -> Atoms:
    """The same people by some of their attributes, in the given order."""
    return _by(atoms, *fewer_attributes(atoms, names))


def split_atoms(
    atoms: Atoms, names: list[str], part: IntArray, n_parts: int
) -> list[Atoms | None]:
    """The people of each part (the number of a part for each atom) by some of their
    attributes.

    None stands for a part that nobody belongs to.
    """
    patterns, code = fewer_attributes(atoms, names)
    order = np.argsort(part, kind="stable")
    ends = np.searchsorted(part[order], np.arange(n_parts + 1))
    if atoms.keys is None:
        columns = ("score", *SUMS)
    else:
        columns = ("score", *SUMS, "keys")
    found: list[Atoms | None] = []
    for begin, end in pairwise(ends):
        rows = order[begin:end]
        codes = list(patterns.table[code[rows]].T)
        own, of_row = patterns_of(
            patterns.attributes, patterns.levels, codes, len(rows), patterns.derived
        )
        some = {name: getattr(atoms, name)[rows] for name in columns}
        found.append(_by(atoms, own, of_row, **some) if len(rows) else None)
    return found


def numbered(atoms: Atoms) -> Atoms:
    """The same atoms without the attributes that only a correction reads, numbered in
    place of their scores.

    The numbers keep atoms apart: after a correction, one atom may stand for several
    scores.
    """
    own = [name for name in atoms.patterns.attributes if not name.startswith(BESIDE)]
    return _by(atoms, *fewer_attributes(atoms, own), score=np.arange(len(atoms)))


def fewer_attributes(atoms: Atoms, names: list[str]) -> tuple[Patterns, Any]:
    """The patterns formed by only some of the attributes, and the pattern of each
    atom.
    """
    patterns = atoms.patterns
    keep = [patterns.attributes.index(name) for name in names]
    levels = tuple(patterns.levels[a] for a in keep)
    codes = [patterns.table[:, a] for a in keep]
    derived = {
        name: recipe for name, recipe in patterns.derived.items() if name in names
    }
    fewer, code = patterns_of(tuple(names), levels, codes, len(patterns), derived)
    return fewer, code[atoms.pattern_index()]


def relevelled(atoms: Atoms, key: Callable[[str, Level], Level]) -> Atoms:
    """The same people with levels renamed by `key`; levels that become equal are
    merged.
    """
    patterns = atoms.patterns
    named = zip(patterns.attributes, patterns.levels)
    keys = [tuple(key(name, level) for level in own) for name, own in named]
    if tuple(keys) == patterns.levels:
        return atoms
    levels = [sort_levels([*{*new}]) for new in keys]
    codes = list(_translate(replace(patterns, levels=tuple(keys)), levels).T)
    fewer, code = patterns_of(
        patterns.attributes, tuple(levels), codes, len(patterns), patterns.derived
    )
    return _by(
        atoms,
        fewer,
        code[atoms.pattern_index()],
        left_out=atoms.left_out.relevelled(key),
    )


def _translate(patterns: Patterns, levels: Sequence[tuple[Level, ...]]) -> IntArray:
    """The pattern table with indices into a larger list of levels."""
    table = patterns.table.copy()
    for a, wanted in enumerate(levels):
        places = {level: i for i, level in enumerate(wanted)}
        position = np.array(
            [places[level] for level in patterns.levels[a]], dtype=np.int64
        )
        table[:, a] = position[table[:, a]]
    return table


def keyed(parts: Mapping[str, Atoms], key: str) -> Atoms:
    """The atoms of several periods or sites in one table, each with its name as one
    more attribute.
    """
    names = list(parts)
    atoms = [without(one, key) for one in parts.values()]
    if not names:
        raise InputError(f"there is no {key.removeprefix(KEY)}")
    for i, one in enumerate(atoms):
        try:
            atoms[i] = aligned(one, atoms[0].patterns)
        except InputError as error:
            raise InputError(f"{names[0]} and {names[i]}: " + error.message) from None
    return joined(atoms, key, names)


def by_key(atoms: Atoms, key: str) -> dict[str, Atoms]:
    """The atoms of each period or site, in order, without the key; people without one
    are not included.
    """
    if key not in atoms.patterns.attributes:
        return {}
    place = atoms.patterns.attributes.index(key)
    names = atoms.patterns.levels[place]
    rest = [a for a in atoms.patterns.attributes if a != key]
    of_atom = atoms.patterns.table[atoms.pattern_index(), place]
    left = atoms.left_out.by.get(key, {})
    parts = zip(names, split_atoms(atoms, rest, of_atom, len(names)))
    return {
        name: replace(one, left_out=LeftOut(left.get(name, 0)))
        for name, one in parts
        if name is not None and one is not None
    }


def people_by_key(atoms: Atoms, key: str) -> dict[str, int]:
    """How many people each period or site has."""
    place = atoms.patterns.attributes.index(key)
    people = np.bincount(
        atoms.patterns.table[:, place], weights=atoms.pattern_sums(atoms.people)
    )
    return {
        str(name): round(float(n))
        for name, n in zip(atoms.patterns.levels[place], people)
    }


def with_parts(atoms: Atoms | None, parts: Mapping[str, Atoms], key: str) -> Atoms:
    """Atoms with some periods or sites added, in the place of those that they have
    under the same name.

    The same as `keyed` of all of them together, in a fraction of the time.
    """
    new = keyed(parts, key)
    if atoms is None:
        return new
    place = atoms.patterns.attributes.index(key)
    names = atoms.patterns.levels[place]
    old = np.array([name in parts for name in names])
    if old.any():
        of_atom = old[atoms.patterns.table[atoms.pattern_index(), place]].astype(
            np.int64
        )
        kept, _ = split_atoms(atoms, list(atoms.patterns.attributes), of_atom, 2)
        if kept is None:
            return new
        left = {
            name: n
            for name, n in atoms.left_out.by.get(key, {}).items()
            if name not in parts
        }
        atoms = replace(
            kept, left_out=LeftOut(sum(left.values()), {key: left}) if left else NOBODY
        )
    return merge(atoms, new)


def without_keys(atoms: Atoms) -> Atoms:
    """The same people without period and site: one set of people, as an audit or a fit
    sees them.
    """
    return without(
        atoms, *(name for name in atoms.patterns.attributes if name.startswith(KEY))
    )

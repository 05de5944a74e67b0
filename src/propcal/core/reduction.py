"""Reduce rows to atoms; merge atoms, change their scores, or drop attributes from them.

Atoms of several periods or sites are stacked: one more attribute, which defines no
groups, says which each is from.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import chain, pairwise
from typing import Any

import numpy as np

from propcal.core.arguments import check_choice
from propcal.core.atoms import NOBODY, SUMS, Atoms, LeftOut, Shared, refuse_too_many
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
MAX_PACKED_SCORE = (1 << SCORE_BITS) - 1
# the fields of atoms that stay when their sums change
ABOUT = ("resolution_bits", "weighted_rows", "left_out", "shared", "unused_id")


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
        units = _round_to_coarse_grid(score, resolution_bits)
    frequencies = _are_frequencies(weight, weight_kind)
    if weight is not None and frequencies:
        refuse_too_many(float(weight.sum()))
    else:
        refuse_too_many(len(units))
    hard = outcome.dtype.kind == "i"
    if hard and weight is None:
        return _collapse_counts(patterns, code, units, outcome, resolution_bits)

    y: SumArray = outcome.astype(np.int64) if hard else from_grid(to_grid(outcome))
    n_weighted = 0 if weight is None else len(units)
    if weight is not None and frequencies:
        counts = weight.astype(np.int64)
        sums = sums_of_counts(counts, counts * y)
    else:
        people = np.ones(len(units), dtype=np.int64)
        if weight is None:
            sums = sums_of_counts(people, people * y)
        else:
            squares = weight * weight
            sums = dict(zip(SUMS, (people, weight, squares, weight * y, squares * y)))
    return atoms_of_sums(
        patterns,
        code,
        units,
        sums,
        resolution_bits=resolution_bits,
        weighted_rows=n_weighted,
    )


def _are_frequencies(weight: FloatArray | None, kind: str) -> bool:
    """Whether weights are counts of people, rather than survey weights."""
    if weight is None:
        return True
    whole = bool(np.all(weight == np.floor(weight)))
    if kind == "frequency" and not whole:
        raise refused("fractional frequencies")
    return whole and kind != "survey"


def sums_of_counts(people: Any, positives: Any) -> dict[str, Any]:
    """The sums of atoms if weights are frequencies: several of the sums are then the
    same array.
    """
    counted = dict.fromkeys(("people", "weight", "weight_sq"), people)
    return counted | dict.fromkeys(("positives", "positives_sq"), positives)


def _round_to_coarse_grid(score: FloatArray, bits: int) -> IntArray:
    return np.floor(score * float(1 << bits) + 0.5).astype(np.int64) << (32 - bits)


def _pattern_starts(patterns: Patterns, packed: IntArray) -> IntArray:
    """Where each pattern begins among sorted integers of pattern and score."""
    first_of_pattern = np.arange(len(patterns) + 1, dtype=np.int64) << SCORE_BITS
    return np.searchsorted(packed, first_of_pattern)


def _collapse_counts(
    patterns: Patterns, code: Any, units: IntArray, outcome: Any, bits: int
) -> Atoms:
    """Count people and 0/1 outcomes by packing pattern, score and outcome into one
    integer and sorting once.

    Sorting integers is several times faster than sorting indices (argsort, lexsort).
    """
    packed = units  # in place, because these are as many as rows
    if len(patterns) > 1:
        high = code.astype(np.int64)
        high <<= SCORE_BITS
        packed += high
        del high
    packed <<= 1
    packed += outcome
    packed.sort()

    positive = (packed & 1).astype(np.int8)
    packed >>= 1
    changes = packed[1:] != packed[:-1]
    first = np.flatnonzero(np.concatenate([[True], changes]))
    positives = np.add.reduceat(positive, first, dtype=np.int64)
    people = np.diff(first, append=len(positive))
    packed = packed[first]
    return Atoms(
        patterns,
        _pattern_starts(patterns, packed),
        packed & MAX_PACKED_SCORE,
        people,
        weight=people,
        weight_sq=people,
        positives=positives,
        positives_sq=positives,
        resolution_bits=bits,
    )


def atoms_of_sums(
    patterns: Patterns, code: Any, units: IntArray, sums: dict[str, Any], **about: Any
) -> Atoms:
    """Add up columns over rows with the same pattern and score; `about` has the other
    fields of Atoms.
    """
    order, packed = _sorted((code.astype(np.int64) << SCORE_BITS) + units)
    changes = packed[1:] != packed[:-1]
    all_differ = bool(changes.all())
    if all_differ:
        first = np.arange(len(packed))
    else:
        first = np.flatnonzero(np.concatenate([[True], changes]))

    added: dict[int, Any] = {}  # columns that share an array keep sharing one
    for column in sums.values():
        if id(column) not in added:
            in_order = column[order]
            if not all_differ:
                in_order = np.add.reduceat(in_order, first)
            added[id(column)] = in_order
    columns = {name: added[id(column)] for name, column in sums.items()}
    packed = packed[first]
    starts = _pattern_starts(patterns, packed)
    return Atoms(patterns, starts, packed & MAX_PACKED_SCORE, **columns, **about)


def _sorted(values: IntArray) -> tuple[IntArray, IntArray]:
    """The stable sort order of integers, and the sorted integers.

    If a value (without its trailing zero bits) and its position fit into one integer,
    those integers are sorted, which is several times faster than argsort.
    """
    bits_in_use = int(np.bitwise_or.reduce(values, initial=0))
    lowest_bit = bits_in_use & -bits_in_use
    n_zeros = max(lowest_bit.bit_length() - 1, 0)
    n_place_bits = max(len(values) - 1, 1).bit_length()
    if bits_in_use.bit_length() - n_zeros + n_place_bits > 63:
        order = np.argsort(values, kind="stable")
        return order, values[order]
    packed = ((values >> n_zeros) << n_place_bits) | np.arange(len(values))
    packed.sort()
    order = packed & ((1 << n_place_bits) - 1)
    return order, (packed >> n_place_bits) << n_zeros


def merge(a: Atoms, b: Atoms) -> Atoms:
    """Atoms of both sets of people together; the attributes must be the same, in any
    order.

    Attributes keep the order of the first part. If their scores have different
    resolutions, the finer scores are rounded to the coarser grid.
    """
    return joined([a, aligned(b, a.patterns)])


def aligned(atoms: Atoms, to: Patterns) -> Atoms:
    """Atoms with their attributes in the order of others; other attributes are
    refused.
    """
    names = atoms.patterns.attributes
    if names != to.attributes and set(names) == set(to.attributes):
        atoms = with_attributes(atoms, list(to.attributes))
    if not to.same_attributes(atoms.patterns):
        raise InputError(
            f"these atoms cannot be added: {_difference(to, atoms.patterns)}"
        )
    return atoms


def joined(
    parts: Sequence[Atoms], attribute: str | None = None, names: Sequence[Level] = ()
) -> Atoms:
    """The people of several parts with the same attributes, and perhaps with one more
    attribute, of which each part has a level: its name.
    """
    first = parts[0].patterns
    attributes = first.attributes
    levels = _all_levels(parts)
    tables = [_translate(part.patterns, levels)[part.pattern_index()] for part in parts]
    codes = list(np.concatenate(tables).T)
    left_out = [part.left_out for part in parts]
    if attribute is not None:
        attributes = (*attributes, attribute)
        levels.append(sort_levels(names))
        places = {level: i for i, level in enumerate(levels[-1])}
        code_of_part = [places[name] for name in names]
        codes.append(np.repeat(code_of_part, [len(part) for part in parts]))
        left_out = _with_part_names(left_out, attribute, names)
    n_atoms = sum(len(part) for part in parts)
    patterns, code = patterns_of(
        attributes, tuple(levels), codes, n_atoms, first.derived
    )

    bits = min(part.resolution_bits for part in parts)
    units = np.concatenate([_coarser(part, bits) for part in parts])
    sums = {}
    for name in SUMS:
        sums[name] = np.concatenate([getattr(part, name) for part in parts])
    return atoms_of_sums(
        patterns,
        code,
        units,
        sums,
        resolution_bits=bits,
        weighted_rows=sum(part.weighted_rows for part in parts),
        left_out=sum(left_out, NOBODY),
        shared=_all_shared(parts),
        unused_id=max(part.unused_id for part in parts),
    )


def _all_levels(parts: Sequence[Atoms]) -> list[tuple[Level, ...]]:
    """The levels of each attribute in any of the parts."""
    levels = []
    for levels_of_parts in zip(*(part.patterns.levels for part in parts)):
        levels.append(sort_levels(list(set(chain.from_iterable(levels_of_parts)))))
    return levels


def _with_part_names(
    left_out: Sequence[LeftOut], attribute: str, names: Sequence[Level]
) -> list[LeftOut]:
    """The people left out of each part, counted by its name as well."""
    named = []
    for name, left in zip(names, left_out):
        if left.people:
            by = {**left.by, attribute: {name: left.people}}
            named.append(LeftOut(left.people, by))
    return named


def _all_shared(parts: Sequence[Atoms]) -> Shared | None:
    """What was merged in any of the parts; None if one of them is exact, because atoms
    for release and others may not be released together.
    """
    merged: Shared | None = None
    for part in parts:
        if part.shared is None:
            return None
        merged = part.shared if merged is None else merged + part.shared
    return merged


def _coarser(atoms: Atoms, bits: int) -> IntArray:
    """Scores rounded to a grid of 2**-bits, halves upwards."""
    if bits == atoms.resolution_bits:
        return atoms.score
    shift = 32 - bits
    return ((atoms.score + (1 << (shift - 1))) >> shift) << shift


def _difference(one: Patterns, other: Patterns) -> str:
    """Say how the attributes of two sets of patterns differ."""
    if (SHARE in one.attributes) != (SHARE in other.attributes):
        if SHARE in one.attributes:
            merged, exact = "first", "second"
        else:
            merged, exact = "second", "first"
        return (
            f"the {merged} set may be shared and the {exact} is exact; share that one "
            "as well"
        )
    for a, b, word in ((one, other, "first"), (other, one, "second")):
        extra = [name for name in a.attributes if name not in b.attributes]
        if extra:
            names = ", ".join(map(repr, extra))
            attributes = noun(len(extra), "attribute")
            return f"only the {word} set has the {attributes} {names}"
    for name in one.attributes:
        here = _definition_of(one, name)
        there = _definition_of(other, name)
        if here != there:
            return (
                f"the attribute {name!r} is defined differently in them, as {here} and "
                f"as {there}"
            )
    raise AssertionError("attributes of the same names and recipes are the same")


def _definition_of(patterns: Patterns, name: str) -> object:
    if name in patterns.derived:
        return patterns.derived[name].to_json()
    return "a column"


def _regrouped(atoms: Atoms, patterns: Patterns, code: Any, **changed: Any) -> Atoms:
    """The atoms by other patterns, given the pattern of each; `changed` are other
    fields.
    """
    columns: tuple[str, ...] = SUMS
    if atoms.keys is not None:
        columns = (*SUMS, "keys")
    fields = {name: getattr(atoms, name) for name in ("score", *columns, *ABOUT)}
    fields |= changed
    sums = {name: fields.pop(name) for name in columns}
    return atoms_of_sums(patterns, code, fields.pop("score"), sums, **fields)


def rescored(atoms: Atoms, score: IntArray) -> Atoms:
    """The atoms with new scores (in units), one for each of them."""
    return _regrouped(atoms, atoms.patterns, atoms.pattern_index(), score=score)


def without_clusters(atoms: Atoms) -> Atoms:
    """The atoms without the hashed patient IDs; the object itself if there are none."""
    return without(atoms, CLUSTER)


def without(atoms: Atoms, *names: str) -> Atoms:
    """The atoms without some attributes; the object itself if it has none of these."""
    kept = [name for name in atoms.patterns.attributes if name not in names]
    if len(kept) == len(atoms.patterns.attributes):
        return atoms
    return with_attributes(atoms, kept)


def with_attributes(atoms: Atoms, names: list[str]) -> Atoms:
    """The atoms by some of their attributes, in the given order."""
    return _regrouped(atoms, *fewer_attributes(atoms, names))


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
    columns: tuple[str, ...] = ("score", *SUMS)
    if atoms.keys is not None:
        columns = (*columns, "keys")
    parts: list[Atoms | None] = []
    for begin, end in pairwise(ends):
        rows = order[begin:end]
        if not len(rows):
            parts.append(None)
            continue
        codes = list(patterns.table[code[rows]].T)
        present, code_of_row = patterns_of(
            patterns.attributes, patterns.levels, codes, len(rows), patterns.derived
        )
        in_part = {name: getattr(atoms, name)[rows] for name in columns}
        parts.append(_regrouped(atoms, present, code_of_row, **in_part))
    return parts


def numbered(atoms: Atoms) -> Atoms:
    """The atoms without the attributes that only a correction reads, numbered in place
    of their scores.

    The numbers keep atoms apart: after a correction, one atom may stand for several
    scores.
    """
    names = [name for name in atoms.patterns.attributes if not name.startswith(BESIDE)]
    patterns, code = fewer_attributes(atoms, names)
    return _regrouped(atoms, patterns, code, score=np.arange(len(atoms)))


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


def relevelled(atoms: Atoms, rename: Callable[[str, Level], Level]) -> Atoms:
    """The atoms with levels as `rename` spells them; equal ones are merged."""
    patterns = atoms.patterns
    renamed = []
    for name, levels in zip(patterns.attributes, patterns.levels):
        renamed.append(tuple(rename(name, level) for level in levels))
    if tuple(renamed) == patterns.levels:
        return atoms
    distinct = [sort_levels(list(set(levels))) for levels in renamed]
    table = _translate(replace(patterns, levels=tuple(renamed)), distinct)
    fewer, code = patterns_of(
        patterns.attributes,
        tuple(distinct),
        list(table.T),
        len(patterns),
        patterns.derived,
    )
    left_out = atoms.left_out.relevelled(rename)
    return _regrouped(atoms, fewer, code[atoms.pattern_index()], left_out=left_out)


def _translate(patterns: Patterns, levels: Sequence[tuple[Level, ...]]) -> IntArray:
    """The pattern table with indices into a larger list of levels."""
    table = patterns.table.copy()
    for a, wanted in enumerate(levels):
        places = {level: i for i, level in enumerate(wanted)}
        place_of_code = [places[level] for level in patterns.levels[a]]
        table[:, a] = np.array(place_of_code, dtype=np.int64)[table[:, a]]
    return table


def stack(parts: Mapping[str, Atoms], attribute: str) -> Atoms:
    """The atoms of several periods or sites in one table, each with its name as one
    more attribute.
    """
    names = list(parts)
    if not names:
        raise InputError(f"there is no {attribute.removeprefix(KEY)}")
    atoms: list[Atoms] = []
    for name, part in parts.items():
        part_without = without(part, attribute)
        first = atoms[0] if atoms else part_without
        try:
            atoms.append(aligned(part_without, first.patterns))
        except InputError as error:
            message = f"{names[0]} and {name}: " + error.message
            raise InputError(message) from None
    return joined(atoms, attribute, names)


def split_by(atoms: Atoms, attribute: str) -> dict[str, Atoms]:
    """The atoms of each period or site, in order, without the attribute that names it.

    People without a period or site are not included.
    """
    patterns = atoms.patterns
    if attribute not in patterns.attributes:
        return {}
    place = patterns.attributes.index(attribute)
    names = patterns.levels[place]
    other_attributes = [name for name in patterns.attributes if name != attribute]
    part_of_atom = patterns.table[atoms.pattern_index(), place]
    left_out = atoms.left_out.by.get(attribute, {})

    parts = {}
    split = split_atoms(atoms, other_attributes, part_of_atom, len(names))
    for name, part in zip(names, split):
        if name is not None and part is not None:
            parts[name] = replace(part, left_out=LeftOut(left_out.get(name, 0)))
    return parts


def people_by(atoms: Atoms, attribute: str) -> dict[str, int]:
    """How many people each period or site has."""
    place = atoms.patterns.attributes.index(attribute)
    name_of_pattern = atoms.patterns.table[:, place]
    by_pattern = atoms.pattern_sums(atoms.people)
    people = np.bincount(name_of_pattern, weights=by_pattern)
    return {
        str(name): round(float(n))
        for name, n in zip(atoms.patterns.levels[place], people)
    }


def replace_parts(
    atoms: Atoms | None, parts: Mapping[str, Atoms], attribute: str
) -> Atoms:
    """Atoms with some periods or sites added, in the place of those that they have
    under the same name.

    The result is that of `stack` for all of them together, in a fraction of the time.
    """
    new = stack(parts, attribute)
    if atoms is None:
        return new
    place = atoms.patterns.attributes.index(attribute)
    names = atoms.patterns.levels[place]
    replaced = np.array([name in parts for name in names])
    if replaced.any():
        replaced_atom = replaced[atoms.patterns.table[atoms.pattern_index(), place]]
        attributes = list(atoms.patterns.attributes)
        kept, _ = split_atoms(atoms, attributes, replaced_atom.astype(np.int64), 2)
        if kept is None:
            return new
        counts = dict(atoms.left_out.by.get(attribute, {}))
        for name in parts:
            counts.pop(name, None)
        left_out = NOBODY
        if counts:
            left_out = LeftOut(sum(counts.values()), {attribute: counts})
        atoms = replace(kept, left_out=left_out)
    return merge(atoms, new)


def without_keys(atoms: Atoms) -> Atoms:
    """The atoms without period and site: one set of people, as an audit or a fit sees
    them.
    """
    names = [name for name in atoms.patterns.attributes if name.startswith(KEY)]
    return without(atoms, *names)

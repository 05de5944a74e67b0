"""Keys of atoms: the period and the site that people belong to. They define no groups of their own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from propcal.core.atoms import SUMS, Atoms
from propcal.core.left_out import NOBODY, LeftOut
from propcal.core.patterns import KEY, PERIOD, SITE, patterns_of, sort_levels
from propcal.core.reduction import atoms_of_sums, merge, split_atoms, with_attributes
from propcal.errors import InputError

NAMES = {PERIOD: "period", SITE: "site"}


def keyed(parts: Mapping[str, Atoms], key: str) -> Atoms:
    """The atoms of several periods or sites in one table, each with its name as one more attribute."""
    names, atoms = list(parts), [without_key(one, key) for one in parts.values()]
    if not names:
        raise InputError(f"there is no {NAMES[key]}")
    first = atoms[0].patterns
    for name, one in zip(names, atoms):
        if not first.same_attributes(one.patterns):
            try:
                merge(atoms[0], one)  # says how they differ
            except InputError as error:
                raise InputError(f"{names[0]} and {name}: " + error.message) from None
            return keyed({**parts, name: with_attributes(one, list(first.attributes))}, key)
    levels = [
        sort_levels([*{x for one in atoms for x in one.patterns.levels[a]}]) for a in range(_width(first))
    ]
    codes: list[Any] = []
    for a, wanted in enumerate(levels):
        place = {level: i for i, level in enumerate(wanted)}
        found = [np.array([place[x] for x in one.patterns.levels[a]], dtype=np.int64) for one in atoms]
        columns = [own[one.patterns.table[one.pattern_index(), a]] for own, one in zip(found, atoms)]
        codes.append(np.concatenate(columns))
    ordered = sort_levels(names)
    place = {level: i for i, level in enumerate(ordered)}
    codes.append(np.repeat([place[name] for name in names], [len(one) for one in atoms]))
    patterns, code = patterns_of(
        (*first.attributes, key), (*levels, ordered), codes, len(codes[-1]), first.derived
    )
    bits = min(one.resolution_bits for one in atoms)
    atoms = [one if one.resolution_bits == bits else _coarser(one, bits) for one in atoms]
    left: dict[Any, int] = {
        name: one.left_out.people for name, one in zip(names, atoms) if one.left_out.people
    }
    total = sum((one.left_out for one in atoms), NOBODY)
    return atoms_of_sums(
        patterns,
        code,
        np.concatenate([one.score for one in atoms]),
        {name: np.concatenate([getattr(one, name) for one in atoms]) for name in SUMS},
        resolution_bits=bits,
        weighted_rows=sum(one.weighted_rows for one in atoms),
        left_out=LeftOut(total.people, {**total.by, key: left}) if left else NOBODY,
        shared=_shared(atoms),
    )


def by_key(atoms: Atoms, key: str) -> dict[str, Atoms]:
    """The atoms of each period or site, in order, without the key; people without one are not included."""
    if key not in atoms.patterns.attributes:
        return {}
    place = atoms.patterns.attributes.index(key)
    names, rest = atoms.patterns.levels[place], [a for a in atoms.patterns.attributes if a != key]
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
    people = np.bincount(atoms.patterns.table[:, place], weights=atoms.pattern_sums(atoms.people))
    return {str(name): round(float(n)) for name, n in zip(atoms.patterns.levels[place], people)}


def with_parts(atoms: Atoms | None, parts: Mapping[str, Atoms], key: str) -> Atoms:
    """Atoms with some periods or sites added, in the place of those that they have under the same name.

    The same as `keyed` of all of them together, in a fraction of the time.
    """
    new = keyed(parts, key)
    if atoms is None:
        return new
    place = atoms.patterns.attributes.index(key)
    names = atoms.patterns.levels[place]
    old = np.array([name in parts for name in names])
    if old.any():
        of_atom = old[atoms.patterns.table[atoms.pattern_index(), place]].astype(np.int64)
        kept, _ = split_atoms(atoms, list(atoms.patterns.attributes), of_atom, 2)
        if kept is None:
            return new
        left = {name: n for name, n in atoms.left_out.by.get(key, {}).items() if name not in parts}
        atoms = replace(kept, left_out=LeftOut(sum(left.values()), {key: left}) if left else NOBODY)
    return merge(atoms, new)


def without_key(atoms: Atoms, key: str) -> Atoms:
    """The same people without their period or site."""
    if key not in atoms.patterns.attributes:
        return atoms
    return with_attributes(atoms, [name for name in atoms.patterns.attributes if name != key])


def without_keys(atoms: Atoms) -> Atoms:
    """The same people without period and site: one set of people, as an audit or a fit sees them."""
    own = [name for name in atoms.patterns.attributes if not name.startswith(KEY)]
    return atoms if len(own) == len(atoms.patterns.attributes) else with_attributes(atoms, own)


def _shared(atoms: list[Atoms]) -> Any:
    """What was merged, if all of them may be shared; otherwise together they may not."""
    found: Any = atoms[0].shared
    for one in atoms[1:]:
        found = None if found is None or one.shared is None else found + one.shared
    return found


def _width(patterns: Any) -> int:
    return len(patterns.attributes)


def _coarser(atoms: Atoms, bits: int) -> Atoms:
    shift = 32 - bits
    score = ((atoms.score + (1 << (shift - 1))) >> shift) << shift
    return replace(atoms, score=score, resolution_bits=bits)

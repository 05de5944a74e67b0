"""Keys of atoms: the period and the site that people belong to. They define no groups of their own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from propcal.core.atoms import Atoms
from propcal.core.left_out import NOBODY, Counts, LeftOut
from propcal.core.patterns import KEY, PERIOD, SITE
from propcal.core.reduction import aligned, joined, merge, split_atoms, with_attributes
from propcal.errors import InputError

NAMES = {PERIOD: "period", SITE: "site"}


def keyed(parts: Mapping[str, Atoms], key: str) -> Atoms:
    """The atoms of several periods or sites in one table, each with its name as one more attribute."""
    names, atoms = list(parts), [without_key(one, key) for one in parts.values()]
    if not names:
        raise InputError(f"there is no {NAMES[key]}")
    for i, one in enumerate(atoms):
        try:
            atoms[i] = aligned(one, atoms[0].patterns)
        except InputError as error:
            raise InputError(f"{names[0]} and {names[i]}: " + error.message) from None
    found = joined(atoms, key, names)
    left = {name: one.left_out.people for name, one in zip(names, atoms) if one.left_out.people}
    by: Counts = {**found.left_out.by, key: left}  # type: ignore[dict-item]  # a name is a level
    return replace(found, left_out=LeftOut(found.left_out.people, by) if left else NOBODY)


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

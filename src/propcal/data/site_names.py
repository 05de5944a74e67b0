"""Sites: which site people are from, by a column or by one name, and each site under one spelling only."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

from propcal.core.atoms import Atoms
from propcal.core.keys import keyed
from propcal.core.patterns import SITE
from propcal.data.near_levels import folded
from propcal.errors import Argument, InputError


def named_column(site: str, columns: Sequence[str]) -> str | None:
    """The column of the sites, or None if it is the name of one site; refuses a column that is misspelt."""
    if site in columns:
        return site
    near = get_close_matches(site.lower(), [name.lower() for name in columns], n=1, cutoff=0.8)
    if near:
        name = next(column for column in columns if column.lower() == near[0])
        raise InputError(
            f"there is no column {site!r}, but there is {name!r}",
            argument="site",
            next_step="Name that column. If it is the name of the one site, use another spelling",
        )
    return None


def with_site(atoms: Atoms, site: str) -> Atoms:
    """Atoms with the sites of a column, checked; or with this one site for everybody."""
    if SITE not in atoms.patterns.attributes:
        if not site.strip():
            raise InputError(Argument("site") + " must be a column, or the name of a site")
        return keyed({site.strip(): atoms}, SITE)
    place = atoms.patterns.attributes.index(SITE)
    levels = atoms.patterns.levels[place]
    if None in levels:
        people = atoms.pattern_sums(atoms.people)
        n = int(people[atoms.patterns.table[:, place] == levels.index(None)].sum())
        raise InputError(
            f"column {site!r}, the site, is missing for {n:,} of {atoms.n_people:,} people",
            argument=site,
            next_step="Fill it in, or leave these people out",
        )
    refuse_other_spellings([("these data", atoms)])
    return atoms


def refuse_other_spellings(parts: Sequence[tuple[str, Atoms]]) -> None:
    """Refuse sites that differ only in case or spaces, within one file or between files."""
    seen: dict[str, tuple[str, str]] = {}
    for where, atoms in parts:
        if SITE not in atoms.patterns.attributes:
            continue
        for level in atoms.patterns.levels[atoms.patterns.attributes.index(SITE)]:
            name = str(level)
            first, there = seen.setdefault(folded(name), (name, where))
            if first != name:
                both = f"{where}" if there == where else f"{there} and {where}"
                raise InputError(
                    f"a site has two spellings, {first!r} and {name!r}, in {both}",
                    argument="site",
                    next_step="Use one of them everywhere",
                )

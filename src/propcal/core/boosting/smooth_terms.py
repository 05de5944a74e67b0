"""The terms of the smooth recalibration: everybody, and the groups that are large enough to learn from."""

from __future__ import annotations

from propcal.core.groups.collection import MISSING, Collection, Group

FEWEST_PEOPLE = 50  # in total
FEWEST_OF_A_TERM = 11  # people of a group that gets a term of its own
MOST_TERMS = 120
TYPICAL = 0.0625  # the variance of effects that tests look for and a fit begins with: 0.25 in log-odds


def smooth_terms(collection: Collection) -> tuple[tuple[Group, ...], tuple[str, ...]]:
    """Everybody, and the groups that are large enough; only the largest if there are many, with a note.

    They include groups below gamma: effects of small groups are shrunk according to their size.
    """
    sizes = [
        size
        for size in (*collection.kept, *collection.left_out)
        if size.people >= FEWEST_OF_A_TERM and size.group.conditions and size.left_out != MISSING
    ]
    notes: tuple[str, ...] = ()
    if len(sizes) >= MOST_TERMS:
        notes = (f"the recalibration uses only the {MOST_TERMS - 1} largest of {len(sizes):,} groups",)
        smallest = sorted((size.people for size in sizes), reverse=True)[MOST_TERMS - 2]
        sizes = [size for size in sizes if size.people >= smallest][: MOST_TERMS - 1]
    return (Group(()), *(size.group for size in sizes)), notes

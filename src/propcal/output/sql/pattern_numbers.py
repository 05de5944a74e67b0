"""The patterns that the SQL contains, and their numbers."""

from __future__ import annotations

from itertools import product
from math import prod

import numpy as np

from propcal.core.grid import IntArray
from propcal.core.groups.recipes import Ranges, Where
from propcal.core.patterns import Patterns
from propcal.errors import Argument, InputError

MOST_PATTERNS = 10_000


def every_combination(patterns: Patterns) -> Patterns:
    """Every combination of known levels, with one more position for any other level."""
    places = [_places(patterns, a) for a in range(len(patterns.attributes))]
    total = prod(len(found) for found in places)
    if total > MOST_PATTERNS:
        raise InputError(
            Argument("unseen", "replay")
            + f" needs every combination of levels; there are {total:,}, and at most "
            + f"{MOST_PATTERNS:,} are possible",
            next_step="For combinations that did not occur in fitting, use "
            + Argument("unseen", "keep")
            + " to leave scores unchanged or "
            + Argument("unseen", "error")
            + " for NULL; or fit with fewer attributes",
        )
    table = np.array(list(product(*places)), dtype=np.int64).reshape(total, len(places))
    return Patterns(patterns.attributes, patterns.levels, table, patterns.derived)


def _places(patterns: Patterns, a: int) -> range:
    """The positions of the levels of an attribute, with one for other levels if these are possible."""
    levels, recipe = patterns.levels[a], patterns.derived.get(patterns.attributes[a])
    possible: set[str | None] | None = None
    if isinstance(recipe, Where):
        possible = {"true", "false"}
    elif isinstance(recipe, Ranges):
        possible = {*recipe.labels, None}
    return range(len(levels) + (possible is None or not possible <= {*levels}))


def pattern_numbers(patterns: Patterns) -> IntArray:
    """The numbers of these patterns according to `Reader.pattern`."""
    numbers = np.zeros(len(patterns), dtype=np.int64)
    for levels, place in zip(patterns.levels, patterns.table.T):
        numbers = numbers * (len(levels) + 1) + place
    return numbers

"""The patterns that SQL lists, and the number that each has there."""

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
    """Every combination of known levels and any other level, for which there is one place more."""
    places = [_places(patterns, a) for a in range(len(patterns.attributes))]
    total = prod(len(found) for found in places)
    if total > MOST_PATTERNS:
        raise InputError(
            Argument("unseen", "replay")
            + f" lists every combination of levels, and there are {total:,}; at most "
            + f"{MOST_PATTERNS:,} can be",
            next_step=Argument("unseen", "keep")
            + " leaves the scores of combinations that were not seen in fitting as they are, "
            + Argument("unseen", "error")
            + " makes them NULL; or fit with fewer attributes",
            between=". ",
        )
    table = np.array(list(product(*places)), dtype=np.int64).reshape(total, len(places))
    return Patterns(patterns.attributes, patterns.levels, table, patterns.derived)


def _places(patterns: Patterns, a: int) -> range:
    """Places of the levels of an attribute, with one for any other level if there can be one."""
    levels, recipe = patterns.levels[a], patterns.derived.get(patterns.attributes[a])
    possible: set[str | None] | None = None
    if isinstance(recipe, Where):
        possible = {"true", "false"}
    elif isinstance(recipe, Ranges):
        possible = {*recipe.labels, None}
    return range(len(levels) + (possible is None or not possible <= {*levels}))


def pattern_numbers(patterns: Patterns) -> IntArray:
    """The numbers that `Reader.pattern` gives these patterns."""
    numbers = np.zeros(len(patterns), dtype=np.int64)
    for levels, place in zip(patterns.levels, patterns.table.T):
        numbers = numbers * (len(levels) + 1) + place
    return numbers

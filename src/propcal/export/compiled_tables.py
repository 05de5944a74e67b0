"""A correction compiled to tables, which SQL and one-file scorers hold and read alike.

How the place of each level is found, the combinations of places that are known, and the
correction map of each.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from math import prod
from typing import cast

import numpy as np

from propcal.core.arguments import Unseen, check_choice
from propcal.core.conditions import Ranges, Where
from propcal.core.correction.definition import Definition
from propcal.core.correction.maps import PatternMaps
from propcal.core.patterns import Patterns, with_unlisted
from propcal.errors import refused
from propcal.scoring.level_finders import Finder, attribute_finders, feature_finders

MAX_PATTERNS = 10_000


@dataclass(frozen=True, eq=False)
class CompiledTables:
    """The tables of a correction for an export.

    Attributes
    ----------
    unseen : "replay", "keep" or "error"
        What happens to a combination that is not in `patterns`.
    attributes, features : list of Finder
        How the place of a level is found.
    patterns : Patterns
        The known combinations of places.
    maps : PatternMaps
        The map of each of them.
    """

    unseen: Unseen
    attributes: list[Finder]
    features: list[Finder]
    patterns: Patterns
    maps: PatternMaps


def compiled_tables(correction: Definition, unseen: str | None) -> CompiledTables:
    """Compile a correction; `unseen` overrides its policy."""
    if unseen is None:
        unseen = correction.unseen
    check_choice("unseen", unseen, ("replay", "keep", "error"))
    patterns = known_combinations(correction, unseen)
    return CompiledTables(
        cast("Unseen", unseen),
        attribute_finders(correction),
        feature_finders(correction),
        patterns,
        correction.replay(patterns),
    )


def known_combinations(correction: Definition, unseen: str) -> Patterns:
    """The combinations of levels that an export knows.

    With "replay" these are all, with one more place for any other level; otherwise
    those of the fit.
    """
    patterns = correction.patterns
    if unseen != "replay":
        return with_unlisted(patterns, correction.folded)
    places = [_possible_places(patterns, a) for a in range(len(patterns.attributes))]
    total = prod(len(of_attribute) for of_attribute in places)
    if total > MAX_PATTERNS:
        raise refused("too many combinations", total=total, most=MAX_PATTERNS)
    table = np.array(list(product(*places)), dtype=np.int64).reshape(total, len(places))
    return Patterns(patterns.attributes, patterns.levels, table, patterns.derived)


def _possible_places(patterns: Patterns, a: int) -> range:
    """The places of the levels of an attribute, with one for other levels if these are
    possible.
    """
    levels = patterns.levels[a]
    recipe = patterns.derived.get(patterns.attributes[a])
    if isinstance(recipe, Where):
        has_others = not {"true", "false"} <= {*levels}
    elif isinstance(recipe, Ranges):
        has_others = not {*recipe.labels, None} <= {*levels}
    else:
        has_others = True
    return range(len(levels) + has_others)

"""How a person's level of each attribute is found, and its place in the tables.

This is stated once, and read by `score_one`, SQL and one-file scorers. A level has a
*place*: its number among the levels of an attribute, or of a feature with points. The
places of all attributes make the pattern, and the pattern has the correction map
(`propcal.core.correction.maps`). The place of a feature has the factor that multiplies
the odds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from propcal.core.conditions import (
    BY_SIZE,
    ColumnTest,
    Condition,
    Not,
    Ranges,
    Where,
)
from propcal.core.correction.definition import Definition
from propcal.core.correction.points_table import FeaturePoints
from propcal.core.patterns import Patterns
from propcal.reading.levels import wanted_keys

Test = list[Any]


@dataclass(frozen=True)
class Finder:
    """How the place of a person's level of an attribute, or of a feature with points,
    is found.

    Attributes
    ----------
    name : str
        The attribute or feature.
    column : str
        The column that it reads; empty with a condition, which may read several.
    places : sequence of int
        With a condition, the places of those who do not meet it and of those who do;
        with cuts, those of the ranges; otherwise those of the `texts`.
    condition : Condition, optional
    cuts : sequence of float, optional
        Increasing cut points: range k holds the numbers with k of them at or below.
    texts : sequence of str
        Levels as canonical text.
    missing, other : int
        The places of a missing value, and of any other level.
    unseen : sequence of int
        Places of levels that did not occur in fitting.
    factors : sequence of float
        Of a feature: what each place multiplies the odds by.
    """

    name: str
    column: str
    places: Sequence[int]
    condition: Condition | None = None
    cuts: Sequence[float] | None = None
    texts: Sequence[str] = ()
    missing: int = -1
    other: int = -1
    unseen: Sequence[int] = ()
    factors: Sequence[float] = ()


def attribute_finders(correction: Definition) -> list[Finder]:
    """A finder for each attribute that groups are made of."""
    patterns = correction.patterns
    finders = []
    for a, name in enumerate(patterns.attributes):
        other = len(patterns.levels[a])
        unseen = () if name in correction.folded else (other,)
        finders.append(_attribute_finder(patterns, a, unseen))
    return finders


def _attribute_finder(patterns: Patterns, a: int, unseen: Sequence[int]) -> Finder:
    """The places are those of the levels, and one behind them for any other level."""
    name = patterns.attributes[a]
    recipe = patterns.derived.get(name)
    place = patterns.places(a)
    other = len(patterns.levels[a])
    missing = place.get(None, other)

    if isinstance(recipe, Where):
        places = [place.get("false", other), place.get("true", other)]
        return Finder(name, "", places, condition=recipe.condition, unseen=unseen)

    if isinstance(recipe, Ranges):
        places = [place.get(label, other) for label in recipe.labels]
        return Finder(
            name,
            recipe.column,
            places,
            cuts=recipe.points,
            missing=missing,
            unseen=unseen,
        )

    texts = [level for level in place if level is not None]
    places = [place[text] for text in texts]
    return Finder(
        name,
        name,
        places,
        texts=texts,
        missing=missing,
        other=other,
        unseen=unseen,
    )


def feature_finders(correction: Definition) -> list[Finder]:
    """A finder for each feature with points, in the order of their factors."""
    return [feature_finder(feature) for feature in correction.features]


def feature_finder(feature: FeaturePoints) -> Finder:
    """The places are the codes of a feature: its levels or ranges, a missing value, and
    any other level.
    """
    n = len(feature.points)
    if feature.is_number:
        cuts = feature.cuts
        other = -1
    else:
        cuts = None
        other = n + 1
    return Finder(
        feature.column,
        feature.column,
        range(n),
        cuts=cuts,
        texts=feature.levels,
        missing=n,
        other=other,
        unseen=feature.unseen_codes,
        factors=feature.factors.tolist(),
    )


def canonical_test(condition: Condition) -> Test:
    """A condition on canonical texts and numbers, as nested lists.

    ``["and", ...]`` and ``["or", ...]`` hold tests, and so does ``["not", test]``.
    ``["<", column, number]`` compares by size, as do <=, > and >=. ``["in", column,
    texts]`` and ``["not in", column, texts]`` compare levels. A missing value passes
    ``["missing", column]`` alone.

    >>> from propcal.core.conditions import parse
    >>> canonical_test(parse("age >= 75 and not ward = 1.0"))
    ['and', ['>=', 'age', 75.0], ['not', ['in', 'ward', ['1', 'true']]]]
    """
    if isinstance(condition, Not):
        return ["not", canonical_test(condition.part)]
    if not isinstance(condition, ColumnTest):
        return [condition.op, *map(canonical_test, condition.parts)]
    column = condition.column
    if condition.op == "missing":
        return ["missing", column]
    if condition.op in BY_SIZE:
        return [condition.op, column, float(condition.values[0])]
    kind = "not in" if condition.op == "!=" else "in"
    return [kind, column, sorted(wanted_keys(condition))]

"""How the place of a person's level is found: stated once for one person, SQL and
one-file scorers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from propcal.core.conditions import Condition, Ranges, Where
from propcal.core.correction.points_table import FeaturePoints
from propcal.core.patterns import Patterns


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
    """

    name: str
    column: str
    places: Sequence[int]
    condition: Condition | None = None
    cuts: Sequence[float] | None = None
    texts: Sequence[str] = ()
    missing: int = -1
    other: int = -1


def attribute_finders(patterns: Patterns) -> list[Finder]:
    """Of each attribute: the places are those of its levels, and one behind them for
    any other level.
    """
    finders = []
    for a, name in enumerate(patterns.attributes):
        place = patterns.places(a)
        other = len(patterns.levels[a])
        recipe = patterns.derived.get(name)
        missing = place.get(None, other)
        if isinstance(recipe, Where):
            places = [place.get("false", other), place.get("true", other)]
            finders.append(Finder(name, "", places, condition=recipe.condition))
        elif isinstance(recipe, Ranges):
            places = [place.get(label, other) for label in recipe.labels]
            finders.append(
                Finder(name, recipe.column, places, cuts=recipe.points, missing=missing)
            )
        else:
            texts = [level for level in place if level is not None]
            places = [place[text] for text in texts]
            finders.append(
                Finder(name, name, places, texts=texts, missing=missing, other=other)
            )
    return finders


def feature_finder(feature: FeaturePoints) -> Finder:
    """Of a feature: the places are those of its factors."""
    n = len(feature.points)
    column = feature.column
    if feature.is_number:
        return Finder(column, column, range(n), cuts=feature.cuts, missing=n)
    return Finder(
        column, column, range(n), texts=feature.levels, missing=n, other=n + 1
    )

"""Points of features: thousandths of log-odds, which are added to a score.

Each level of a feature, or range of its numbers, has points. Adding them in log-odds
multiplies the odds. Each number of points has one factor, the
exponential rounded to a double; a person's factors are multiplied in the order of the
features, and the odds of the score by the product. These are single additions,
multiplications and divisions of doubles, rounded to the grid at the end, so that every
machine and every database computes the same score.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal, localcontext
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from propcal.core.conditions import range_labels
from propcal.core.grid import UNIT, FloatArray, IntArray, WithoutCaches

if TYPE_CHECKING:
    import pandas as pd

PER_UNIT = 1000  # points per unit of log-odds
MOST_POINTS = 10_000  # of one level or range
MOST_TOTAL = 600_000  # of a person, so that no product of factors overflows
NAME = "points"


@dataclass(frozen=True)
class FeaturePoints:
    """The points of one column.

    Attributes
    ----------
    column : str
    points : tuple of int
        Of each level, or of each range of numbers, in thousandths of log-odds.
    levels : tuple of str
        Levels as canonical text; empty for numbers.
    cuts : tuple of float
        Increasing cut points of numbers: range k holds the values with k cut points at
        or below them.
    missing, other : int or None
        Points of a missing value, and of levels that are not listed. None if there were
        none in fitting: then they have no points, and count as unseen.
    whole : bool
        Whether the numbers were whole in fitting, so that a range can be named by its
        last one.
    """

    column: str
    points: tuple[int, ...]
    levels: tuple[str, ...] = ()
    cuts: tuple[float, ...] = ()
    missing: int | None = None
    other: int | None = None
    whole: bool = False

    @property
    def is_number(self) -> bool:
        """Whether its pieces are ranges."""
        return not self.levels

    @property
    def pieces(self) -> tuple[int | None, ...]:
        """The points by code: of each level or range, of missing values, and of other
        levels.
        """
        return (*self.points, self.missing, self.other)

    @property
    def unseen_codes(self) -> list[int]:
        """The codes of values that did not occur in fitting."""
        return [code for code, points in enumerate(self.pieces) if points is None]

    @property
    def labels(self) -> list[str]:
        """The name of each code.

        >>> points = (0, 50, 120)
        >>> FeaturePoints("visits", points, cuts=(1.0, 4.0), whole=True).labels
        ['under 1', '1 to 3', '4 or over', 'not recorded', 'other levels']
        """
        named = self.levels or range_labels(self.cuts, whole=self.whole)
        return [*named, "not recorded", "other levels"]

    @property
    def factors(self) -> FloatArray:
        """What each code multiplies the odds by."""
        return np.array([_exponential(points or 0) for points in self.pieces])


@dataclass(frozen=True)
class PointsTable(WithoutCaches):
    """The points of every feature, in the order in which they are applied.

    Examples
    --------
    >>> points = (-80, 0, 120)
    >>> visits = FeaturePoints("visits", points, cuts=(1.0, 4.0), whole=True)
    >>> table = PointsTable((visits,))
    >>> print(table.to_frame().to_string(index=False))
    column     range  points
    visits   under 1     -80
    visits    1 to 3       0
    visits 4 or over     120
    """

    features: tuple[FeaturePoints, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it reads."""
        return tuple(feature.column for feature in self.features)

    @cached_property
    def factors(self) -> list[FloatArray]:
        """The factors of each feature by code."""
        return [feature.factors for feature in self.features]

    def odds(self, codes: Sequence[Any]) -> FloatArray:
        """What each person's odds are multiplied by, given the codes of each
        feature.
        """
        product: FloatArray = self.factors[0][codes[0]]
        for factors, code in zip(self.factors[1:], codes[1:]):
            product *= factors[code]
        return product

    def rows(self) -> Iterator[tuple[str, str, int]]:
        """Column, level or range, and points of every piece that has any."""
        for feature in self.features:
            for label, points in zip(feature.labels, feature.pieces):
                if points is not None:
                    yield feature.column, label, points

    def to_frame(self) -> pd.DataFrame:
        """The points of every level and range, as a data frame."""
        import pandas as pd

        return pd.DataFrame(list(self.rows()), columns=["column", "range", "points"])

    def plot(self, column: str | None = None, *, ax: Any = None) -> Any:
        """Draw the points of one column, by default the one whose points differ most;
        returns the axes.
        """
        from propcal.documents.correction import points_chart
        from propcal.render.matplotlib import draw

        return draw(points_chart(self, column), ax)


def _exponential(points: int) -> float:
    """The double nearest to exp(points / 1000), on every machine."""
    with localcontext() as context:
        context.prec = 40
        return float((Decimal(points) / PER_UNIT).exp())


def multiply(units: IntArray, odds: FloatArray) -> IntArray:
    """Scores (in units) with their odds multiplied; 0 and 1 stay, and no other score
    becomes 0 or 1.
    """
    is_inner = (units > 0) & (units < UNIT)
    old_odds = units / np.where(is_inner, UNIT - units, 1)
    risk = 1.0 - 1.0 / (1.0 + odds * old_odds)
    rounded = np.floor(risk * UNIT + 0.5).astype(np.int64)
    return np.where(is_inner, np.clip(rounded, 1, UNIT - 1), units)

"""Attributes made from columns: ranges of a numeric column, or a condition."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from propcal.core.groups.conditions import Condition, columns_of, parse
from propcal.errors import InputError

MOST_CUTS = 200  # database engines have limits of their own
MOST_SHOWN = 20


@dataclass(frozen=True)
class Ranges:
    """A numeric column cut into ranges: below the first point, between points, and from the last point up."""

    column: str
    points: tuple[float, ...]

    def __post_init__(self) -> None:
        finite = all(isinstance(p, float) and math.isfinite(p) for p in self.points)
        if not self.points or not finite or any(a >= b for a, b in pairwise(self.points)):
            raise InputError(
                f"cuts of {self.column!r} must be increasing numbers, such as [18, 40, 65]; "
                f"got {list(self.points[:MOST_SHOWN])}",
                argument="cuts",
            )
        if len(self.points) > MOST_CUTS:
            raise InputError(
                f"cuts of {self.column!r}: at most {MOST_CUTS} cut points are allowed; "
                f"got {len(self.points):,}",
                argument="cuts",
            )

    @property
    def columns(self) -> list[str]:
        """The columns that it reads."""
        return [self.column]

    @property
    def labels(self) -> list[str]:
        """The names of the ranges, ascending.

        >>> Ranges("age", (18.0, 65.0)).labels
        ['under 18', '18 to under 65', '65 or over']
        """
        points = [f"{point:.12g}" for point in self.points]
        if len(set(points)) < len(points):  # these differ only in later digits
            points = [repr(point) for point in self.points]
        middle = [f"{low} to under {high}" for low, high in pairwise(points)]
        return [f"under {points[0]}", *middle, f"{points[-1]} or over"]

    def to_json(self) -> dict[str, Any]:
        """The form in which it is written to files."""
        return {"column": self.column, "cuts": list(self.points)}


@dataclass(frozen=True)
class Where:
    """The people who meet a condition; the others do not form a group."""

    condition: Condition

    @property
    def columns(self) -> list[str]:
        """The columns that it reads."""
        return columns_of(self.condition)

    def to_json(self) -> dict[str, Any]:
        """The form in which it is written to files."""
        return {"where": str(self.condition)}


Recipe = Ranges | Where


def refuse_no_unicode(name: str) -> None:
    """Refuse a name with half of a surrogate pair, which cannot be written to a file."""
    try:
        name.encode()
    except UnicodeEncodeError:
        raise InputError(f"the name {name!r} contains invalid Unicode", next_step="Rename it") from None


def recipe_from_json(content: Any) -> Recipe:
    """Read a recipe from a file."""
    if isinstance(content, dict) and set(content) == {"column", "cuts"} and isinstance(content["cuts"], list):
        points = content["cuts"]
        if isinstance(content["column"], str) and all(type(point) in (int, float) for point in points):
            return make_ranges(content["column"], points)
    if isinstance(content, dict) and set(content) == {"where"}:
        return Where(parse(content["where"]))
    raise InputError("a derived attribute must have either a column with cuts or a condition")


def make_ranges(column: str, points: Any) -> Ranges:
    """Make ranges from a user's list of cut points."""
    if isinstance(points, str):
        raise InputError(
            f"cuts of {column!r} must be a list of numbers, such as [18, 40, 65]", argument="cuts"
        )
    try:
        return Ranges(column, tuple(float(point) for point in points))
    except (TypeError, ValueError, OverflowError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(
            f"cuts of {column!r} must be a list of numbers, such as [18, 40, 65]", argument="cuts"
        ) from None


_NUMBER = r"(-?\d+(?:\.\d+)?(?:e[+-]?\d+)?)"
_RANGE = re.compile(rf"under {_NUMBER}|{_NUMBER} to under {_NUMBER}|{_NUMBER} or over")


def level_order(level: str) -> tuple[float, str]:
    """Sort key: text in alphabetical order, then ranges by their lower end."""
    found = _RANGE.fullmatch(level)
    if found is None:
        return -math.inf, level
    under, low, _, over = found.groups()
    return (-1e308 if under else float(low or over)), level

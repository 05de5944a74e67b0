"""Collection: the groups that are large enough to use, those left out, and which patterns each contains."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from propcal.core.grid import BoolArray
from propcal.core.patterns import Level, Patterns
from propcal.errors import Argument, InputError
from propcal.plain_text import plain

if TYPE_CHECKING:
    import pandas as pd

MISSING = "missing value"
MOST_MEMBERSHIPS = 1 << 28  # groups times patterns, one byte each


@dataclass(frozen=True)
class Group:
    """The people who have all of these levels; a group without conditions is everybody.

    >>> Group((("race", "Asian"), ("gender", "F"))).name
    'race=Asian & gender=F'
    >>> Group((("elderly", "true"), ("race", None))).name
    'elderly & race missing'
    """

    conditions: tuple[tuple[str, Level], ...]

    @property
    def name(self) -> str:
        """The name of the group."""
        if not self.conditions:
            return "everybody"
        return " & ".join(_condition_name(attribute, level) for attribute, level in self.conditions)


@dataclass(frozen=True)
class GroupSize:
    """A group with its size, and why it is not in the collection (empty if it is)."""

    group: Group
    people: int
    share: float
    left_out: str = ""


@dataclass(frozen=True)
class Collection:
    """The collection C: the groups that are used, in order, and the groups that were left out."""

    kept: tuple[GroupSize, ...]
    left_out: tuple[GroupSize, ...]

    @property
    def groups(self) -> tuple[Group, ...]:
        """The groups of C, in the order in which a sweep visits them."""
        return tuple(size.group for size in self.kept)

    def __len__(self) -> int:
        return len(self.kept)

    def __iter__(self) -> Iterator[GroupSize]:
        return iter(self.kept)

    def to_frame(self) -> pd.DataFrame:
        """List every group with its people and share, whether it was kept, and the reason if not."""
        import pandas as pd

        rows = [
            (size.group.name, size.people, size.share, not size.left_out, size.left_out)
            for size in (*self.kept, *self.left_out)
        ]
        return pd.DataFrame(rows, columns=["group", "people", "share", "kept", "reason"])

    def __repr__(self) -> str:
        names = [plain(size.group.name) for size in self.kept[:4]]
        more = f", and {len(self.kept) - 4} more" if len(self.kept) > 4 else ""
        return (
            f"Collection of {len(self.kept)} groups ({', '.join(names)}{more}); {len(self.left_out)} left out"
        )


def _condition_name(attribute: str, level: Level) -> str:
    if level is None:
        return f"{attribute} missing"
    truths = {"true": attribute, "false": f"not {attribute}"}
    return truths.get(level, f"{attribute}={level}")


def membership(groups: Sequence[Group], patterns: Patterns) -> BoolArray:
    """Which groups (rows) contain which patterns (columns)."""
    if len(groups) * len(patterns) > MOST_MEMBERSHIPS:
        raise InputError(
            f"{len(groups):,} groups in {len(patterns):,} combinations of attributes are too many",
            next_step="Use fewer columns, or set "
            + Argument("intersections", 2)
            + " for single attributes and pairs only",
        )
    inside = np.ones((len(groups), len(patterns)), dtype=np.bool_)
    # dictionaries, because there may be as many groups and levels as a file has lines
    places = [{level: i for i, level in enumerate(levels)} for levels in patterns.levels]
    column = {attribute: a for a, attribute in enumerate(patterns.attributes)}
    codes = np.ascontiguousarray(patterns.table.T)
    for g, group in enumerate(groups):
        for attribute, level in group.conditions:
            a = column[attribute]
            inside[g] &= codes[a] == places[a].get(level, -1)
    return inside


def pattern_name(patterns: Patterns, pattern: int) -> str:
    """Write one pattern as "race=Asian & gender=F"."""
    return Group(tuple(zip(patterns.attributes, patterns.key(pattern)))).name

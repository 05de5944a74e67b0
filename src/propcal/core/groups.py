"""Groups: attributes and their intersections -> the collection C, over membership patterns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from propcal.core.grid import BoolArray, IntArray, SumArray, check_choice, check_number
from propcal.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

Level = str | None  # None: the value is missing, a level of its own


@dataclass(frozen=True, eq=False)
class Patterns:
    """The combinations of attribute values that occur; each fixes which groups a person is in.

    Attributes
    ----------
    attributes : tuple of str
    levels : for each attribute its levels as canonical text, sorted, a missing value (None) last
    table : array of int64, shape (n_patterns, n_attributes)
        Index into `levels`; rows ascend. The index len(levels[a]) stands for a level that is not
        in the list (it can occur when scoring, never when fitting).
    """

    attributes: tuple[str, ...]
    levels: tuple[tuple[Level, ...], ...]
    table: IntArray

    def __len__(self) -> int:
        return len(self.table)

    def key(self, pattern: int) -> tuple[Level, ...]:
        """Level of each attribute in one pattern."""
        return tuple(levels[i] for levels, i in zip(self.levels, self.table[pattern]))

    def name(self, pattern: int) -> str:
        """Write one pattern as "race=Asian & gender=F"."""
        return Group(tuple(zip(self.attributes, self.key(pattern)))).name

    def equals(self, other: Patterns) -> bool:
        """Whether both have the same attributes, levels and combinations."""
        return (
            self.attributes == other.attributes
            and self.levels == other.levels
            and np.array_equal(self.table, other.table)
        )


def sort_levels(levels: Sequence[Level]) -> tuple[Level, ...]:
    """Sort as text, the missing value last.

    >>> sort_levels(["b", None, "a"])
    ('a', 'b', None)
    """
    texts = sorted(level for level in levels if level is not None)
    return (*texts, None) if None in levels else tuple(texts)


@dataclass(frozen=True)
class Group:
    """People who have every one of these levels; no condition at all is everybody.

    >>> Group((("race", "Asian"), ("gender", "F"))).name
    'race=Asian & gender=F'
    """

    conditions: tuple[tuple[str, Level], ...]

    @property
    def name(self) -> str:
        """The group in words."""
        if not self.conditions:
            return "everybody"
        return " & ".join(f"{a} missing" if v is None else f"{a}={v}" for a, v in self.conditions)

    def contains(self, patterns: Patterns) -> BoolArray:
        """Which of the patterns belong to the group."""
        inside = np.ones(len(patterns), dtype=np.bool_)
        for attribute, level in self.conditions:
            column = patterns.attributes.index(attribute)
            known = patterns.levels[column]
            inside &= patterns.table[:, column] == (known.index(level) if level in known else -1)
        return inside


@dataclass(frozen=True)
class GroupSize:
    """A group with its size, and why it is not in the collection (empty if it is)."""

    group: Group
    people: int
    share: float
    left_out: str = ""


@dataclass(frozen=True)
class Collection:
    """The collection C that was used, in order, and the groups that were left out of it."""

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
        """List every group, kept or left out, with people, share and the reason."""
        import pandas as pd

        rows = [
            (size.group.name, size.people, size.share, not size.left_out, size.left_out)
            for size in (*self.kept, *self.left_out)
        ]
        return pd.DataFrame(rows, columns=["group", "people", "share", "kept", "reason"])

    def __repr__(self) -> str:
        names = [size.group.name for size in self.kept[:4]]
        more = f", and {len(self.kept) - 4} more" if len(self.kept) > 4 else ""
        return (
            f"Collection of {len(self.kept)} groups ({', '.join(names)}{more}); {len(self.left_out)} left out"
        )


@dataclass(frozen=True)
class Groups:
    """How people are divided into groups.

    Parameters
    ----------
    intersections : "all", "marginal" or int, default="all"
        How many attributes a group may combine: every number of them, one, or up to a depth.
    missing : "level", "exclude" or "error", default="level"
        A missing value is a level of its own; or makes no group (its people remain in the other
        attributes' groups); or is refused.
    """

    intersections: str | int = "all"
    missing: str = "level"

    def __post_init__(self) -> None:
        if isinstance(self.intersections, str):
            check_choice("intersections", self.intersections, ("all", "marginal"))
        else:
            check_number("intersections", self.intersections, at_least=1, whole=True)
        check_choice("missing", self.missing, ("level", "exclude", "error"))

    def depth(self, n_attributes: int) -> int:
        """Largest number of attributes that a group combines."""
        if self.intersections == "marginal":
            return 1
        if self.intersections == "all":
            return n_attributes
        return min(int(self.intersections), n_attributes)

    def collect(self, patterns: Patterns, people: IntArray, weight: SumArray, *, gamma: float) -> Collection:
        """Build the collection C: groups whose share of the weight is at least `gamma`.

        Parameters
        ----------
        patterns : Patterns
        people, weight : arrays of shape (n_patterns,)
        gamma : float
            Smallest share of people that a group may have.
        """
        self.refuse_missing(patterns, people)
        if not patterns.attributes:
            return Collection((GroupSize(Group(()), int(people.sum()), 1.0),), ())
        sizes: list[GroupSize] = []
        for depth in range(1, self.depth(len(patterns.attributes)) + 1):
            for columns in combinations(range(len(patterns.attributes)), depth):
                sizes.extend(self._sizes(patterns, columns, people, weight, gamma))
        kept = tuple(size for size in sizes if not size.left_out)
        if not kept:
            largest = max(sizes, key=lambda size: size.share)
            raise InputError(
                f"all {len(sizes)} groups have a share below gamma={gamma:g}; the largest is "
                f"{largest.group.name} with {largest.share:.3g}. Lower gamma."
            )
        return Collection(kept, tuple(size for size in sizes if size.left_out))

    def refuse_missing(self, patterns: Patterns, people: IntArray) -> None:
        """Count and refuse missing values where the setting asks for it."""
        if self.missing != "error":
            return
        for column, (attribute, levels) in enumerate(zip(patterns.attributes, patterns.levels)):
            if None in levels:
                count = int(people[patterns.table[:, column] == levels.index(None)].sum())
                raise InputError(
                    f"attribute {attribute!r} is missing for {count:,} people; "
                    'missing="level" makes them a group of their own'
                )

    def _sizes(
        self,
        patterns: Patterns,
        columns: tuple[int, ...],
        people: IntArray,
        weight: SumArray,
        gamma: float,
    ) -> Iterator[GroupSize]:
        """Every level combination of some attributes, sorted, with its size."""
        present, inverse = np.unique(patterns.table[:, columns], axis=0, return_inverse=True)
        inverse = inverse.reshape(-1)
        n_people = np.bincount(inverse, weights=people).astype(np.int64)
        shares = np.bincount(inverse, weights=weight) / weight.sum()
        for levels, count, share in zip(present, n_people, shares):
            conditions = tuple(
                (patterns.attributes[c], patterns.levels[c][i]) for c, i in zip(columns, levels)
            )
            reason = ""
            if self.missing == "exclude" and any(level is None for _, level in conditions):
                reason = "missing value"
            elif share < gamma:
                reason = f"share below gamma={gamma:g}"
            yield GroupSize(Group(conditions), int(count), float(share), reason)


def membership(groups: Sequence[Group], patterns: Patterns) -> BoolArray:
    """Which groups (rows) contain which patterns (columns)."""
    inside: Any = [group.contains(patterns) for group in groups]
    return np.array(inside, dtype=np.bool_).reshape(len(groups), len(patterns))

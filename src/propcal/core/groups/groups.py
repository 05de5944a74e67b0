"""Groups: how a user defines them, by columns, cut points and conditions -> the collection C."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb
from typing import TYPE_CHECKING, Any

import numpy as np

from propcal.core.grid import IntArray, SumArray, check_choice, check_number
from propcal.core.groups.collection import MISSING, Collection, Group, GroupSize
from propcal.core.groups.conditions import parse
from propcal.core.groups.recipes import Recipe, Where, make_ranges
from propcal.core.patterns import Patterns, combinations_present
from propcal.errors import Argument, InputError

if TYPE_CHECKING:
    import pandas as pd

MOST_COMBINATIONS = 5_000


@dataclass(frozen=True)
class Groups:
    """How people are divided into groups, in your words.

    Parameters
    ----------
    columns : list of str, optional
        Columns whose values are groups; None takes every column that is passed.
    cuts : dict, optional
        Cut points of numeric columns: ``{"age": [18, 40, 65]}`` makes the four groups under 18, 18
        to under 40, 40 to under 65, and 65 or over.
    where : dict, optional
        Named groups by a condition on columns: ``{"elderly Medicare": "age >= 75 and insurance =
        Medicare"}``. A mask is a column of truth values: ``{"intensive care": "icu"}``. The language
        is described in `propcal.core.groups.conditions`.
    intersections : "all", "marginal", int or list of lists, default="all"
        How many attributes a group may combine: every number of them, one, or up to a depth; or
        the combinations themselves, such as ``[["race"], ["race", "gender"]]``.
    depth : dict, optional
        Limits for single attributes: ``{"insurance": 1}`` takes insurance alone, never crossed.
    missing : "level", "exclude" or "error", default="level"
        A missing value is a level of its own; or makes no group (its people remain in the other
        attributes' groups); or is refused.

    Examples
    --------
    >>> import pandas as pd
    >>> people = pd.DataFrame({"sex": ["F", "M", "F", "F"], "age": [80, 30, 76, 50]})
    >>> groups = Groups(columns=["sex"], cuts={"age": [65]}, where={"old women": "age > 75 and sex = F"})
    >>> print(groups.preview(people)[["group", "people"]].head(5))
              group  people
    0         sex=F       3
    1         sex=M       1
    2  age=under 65       2
    3  age=65 or over     2
    4     old women       2
    """

    columns: Sequence[str] | None = None
    cuts: Mapping[str, Sequence[float]] | None = None
    where: Mapping[str, str] | None = None
    intersections: str | int | Sequence[Sequence[str]] = "all"
    depth: Mapping[str, int] | None = None
    missing: str = "level"

    def __post_init__(self) -> None:
        if isinstance(self.columns, str):
            raise InputError(
                f"columns must be a list of names; got the text {self.columns!r}", argument="columns"
            )
        if self.columns is not None and len(set(self.columns)) < len(self.columns):
            raise InputError(f"columns names some twice: {list(self.columns)}", argument="columns")
        if isinstance(self.intersections, str):
            check_choice("intersections", self.intersections, ("all", "marginal"))
        elif isinstance(self.intersections, Sequence):
            lists = [
                isinstance(c, Sequence) and not isinstance(c, str) and len(c) for c in self.intersections
            ]
            if not lists or not all(lists):
                raise InputError(
                    Argument("intersections") + ': a list must hold lists of attributes, such as [["race"]]'
                )
        else:
            check_number("intersections", self.intersections, at_least=1, whole=True)
        for name, value in (("cuts", self.cuts), ("where", self.where), ("depth", self.depth)):
            if value is not None and not isinstance(value, Mapping):
                raise InputError(f"{name} must be a dict; got a {type(value).__name__}", argument=name)
        if self.depth and not isinstance(self.intersections, (str, int, np.integer)):
            raise InputError("depth and a list of intersections exclude each other", argument="depth")
        for attribute, limit in (self.depth or {}).items():
            check_number(Argument("depth") + f" of {attribute!r}", limit, at_least=1, whole=True)
        check_choice("missing", self.missing, ("level", "exclude", "error"))
        self.recipes()  # checks cuts and conditions

    def recipes(self) -> dict[str, Recipe]:
        """How the attributes that are no columns are made."""
        made: dict[str, Recipe] = {}
        for column, points in (self.cuts or {}).items():
            made[column] = make_ranges(column, points)
        for name, text in (self.where or {}).items():
            if not isinstance(name, str) or not name.strip():
                raise InputError(f"a condition must have a name; got {name!r}", argument="where")
            if name in made:
                raise InputError(f"the name {name!r} is used for cuts and for a condition", argument="where")
            made[name] = Where(parse(text))
        return made

    def attributes(self, passed: Sequence[str]) -> tuple[str, ...]:
        """The attributes in order: columns (those cut in their place), other cuts, conditions."""
        own = list(passed) if self.columns is None else list(self.columns)
        names = dict.fromkeys([*own, *(self.cuts or {}), *(self.where or {})])
        for name in self.where or {}:
            if name in own:
                raise InputError(
                    f"the name {name!r} is used for a column and for a condition", argument="where"
                )
        return tuple(names)

    def combinations(self, attributes: Sequence[str]) -> Iterator[tuple[int, ...]]:
        """Which attributes are crossed, by their index: by depth, then in the given order."""
        named = () if isinstance(self.intersections, (str, int, np.integer)) else self.intersections
        for name in [*(self.depth or {}), *(name for names in named for name in names)]:
            if name not in attributes:
                raise InputError(f"there is no attribute {name!r} to cross; there are {list(attributes)}")
        if named:
            chosen = [tuple(sorted(attributes.index(name) for name in set(names))) for names in named]
            if len(set(chosen)) < len(chosen):
                raise InputError(Argument("intersections") + " lists a combination twice")
            yield from chosen
            return
        most = len(attributes)
        if not isinstance(self.intersections, str):
            most = min(int(self.intersections), most)  # type: ignore[arg-type]  # a depth by now
        elif self.intersections == "marginal":
            most = 1
        if sum(comb(len(attributes), size) for size in range(1, most + 1)) > MOST_COMBINATIONS:
            raise InputError(
                f"{len(attributes)} attributes can be crossed in more than {MOST_COMBINATIONS:,} ways",
                next_step=Argument("intersections", 2) + " takes single attributes and pairs",
            )
        limits = [(self.depth or {}).get(name, most) for name in attributes]
        for size in range(1, most + 1):
            for columns in combinations(range(len(attributes)), size):
                if all(limits[column] >= size for column in columns):
                    yield columns

    def collect(
        self,
        patterns: Patterns,
        people: IntArray,
        weight: SumArray,
        *,
        gamma: float,
        or_everybody: bool = False,
    ) -> Collection:
        """Build the collection C: groups whose share of the weight is at least `gamma`.

        Parameters
        ----------
        patterns : Patterns
        people, weight : arrays of shape (n_patterns,)
        gamma : float
            Smallest share of people that a group may have.
        or_everybody : bool, default=False
            If no group is that large, take everybody for the only group; otherwise it is an error.
        """
        sizes = self.sizes(patterns, people, weight, gamma=gamma)
        kept = tuple(size for size in sizes if not size.left_out)
        if not kept and or_everybody:
            kept = (GroupSize(Group(()), int(people.sum()), 1.0),)
        if not kept:
            if all(size.left_out == MISSING for size in sizes):
                raise InputError(
                    "no group is left: every value is missing, and " + Argument("missing", "exclude")
                )
            largest = max(sizes, key=lambda size: size.share)
            raise InputError(
                f"all {len(sizes)} groups have a share below gamma={gamma:g}; the largest is "
                f"{largest.group.name} with {largest.share:.3g}",
                argument="gamma",
                next_step="Lower gamma.",
            )
        return Collection(kept, tuple(size for size in sizes if size.left_out))

    def sizes(
        self, patterns: Patterns, people: IntArray, weight: SumArray, *, gamma: float
    ) -> list[GroupSize]:
        """Every group in the order of C, kept or not."""
        self.refuse_missing(patterns, people)
        if not patterns.attributes:
            return [GroupSize(Group(()), int(people.sum()), 1.0)]
        found = [
            size
            for columns in self.combinations(patterns.attributes)
            for size in self._sizes(patterns, columns, people, weight, gamma)
        ]
        for name, levels in zip(patterns.attributes, patterns.levels):
            if isinstance(patterns.derived.get(name), Where) and "true" not in levels:
                found.append(GroupSize(Group(((name, "true"),)), 0, 0.0, "nobody meets the condition"))
        return found

    def preview(
        self, frame: Any, outcome: Any = None, *, gamma: float = 0.05, sample_weight: Any = None
    ) -> pd.DataFrame:
        """Every group with its people, share and outcome rate, kept or left out and why.

        Parameters
        ----------
        frame : data frame, or whatever `fit` takes as sensitive_features
        outcome : column name or array-like, optional
            Without it there are no outcome rates.
        gamma : float, default=0.05
        sample_weight : array-like, optional
        """
        from propcal.data.rows_to_atoms import preview  # a door in; core itself knows no frames

        table: pd.DataFrame = preview(self, frame, outcome, gamma=gamma, sample_weight=sample_weight)
        return table

    def refuse_missing(self, patterns: Patterns, people: IntArray) -> None:
        """Count and refuse missing values where the setting asks for it."""
        if self.missing != "error":
            return
        for column, (attribute, levels) in enumerate(zip(patterns.attributes, patterns.levels)):
            if None in levels:
                count = int(people[patterns.table[:, column] == levels.index(None)].sum())
                raise InputError(
                    f"attribute {attribute!r} is missing for {count:,} people",
                    argument=attribute,
                    next_step=Argument("missing", "level") + " makes them a group of their own",
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
        codes = [patterns.table[:, column] for column in columns]
        radix = [len(patterns.levels[column]) for column in columns]
        present, inverse = combinations_present(codes, radix, len(patterns))
        n_people = np.bincount(inverse, weights=people).astype(np.int64)
        shares = np.bincount(inverse, weights=weight) / weight.sum()
        for levels, count, share in zip(present, n_people, shares):
            conditions = tuple(
                (patterns.attributes[c], patterns.levels[c][i]) for c, i in zip(columns, levels)
            )
            if any(level != "true" for a, level in conditions if isinstance(patterns.derived.get(a), Where)):
                continue  # people for whom a named condition does not hold are no group
            reason = ""
            if self.missing == "exclude" and any(level is None for _, level in conditions):
                reason = MISSING
            elif share < gamma:
                reason = f"share below gamma={gamma:g}"
            yield GroupSize(Group(conditions), int(count), float(share), reason)


def definition(groups: Any, intersections: Any, missing: str) -> Groups:
    """One definition of the groups, from `groups` or from the two short arguments, never from both."""
    short = Groups(intersections=intersections, missing=missing)
    if groups is None:
        return short
    if not isinstance(groups, Groups):
        raise InputError(Argument("groups") + f" must be a propcal.Groups; got {type(groups).__name__}")
    if short != Groups():
        raise InputError(
            "intersections and missing are given twice",
            next_step="say them in Groups(...) alone",
            between=": ",
        )
    return groups

"""Groups large enough to use, and those left out: which patterns each contains, and what people call it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from propcal.core.grid import BoolArray
from propcal.core.groups.conditions import Where
from propcal.core.patterns import Level, Patterns
from propcal.errors import Argument, InputError
from propcal.plain_text import plain

if TYPE_CHECKING:
    import pandas as pd

MISSING = "missing value"
MOST_MEMBERSHIPS = 1 << 28  # groups times patterns, one byte each
Labels = Mapping[str, Mapping[str, str]]  # by attribute, then by level

# numbers and ranges of them: 3, [80-90), 18 to 44, <65, 90+
_NUMBER = r"[+-]?[0-9][0-9.,]*"
NUMBERS = re.compile(rf"[\[(]?(?:[<>]=?|[≤≥])? ?{_NUMBER}(?: ?(?:-|–|,|;|to|\.\.) ?{_NUMBER})?[\])+]?")
# levels that say nothing without their attribute
BARE = {"yes", "no", "y", "n", "other", "unknown", "none", "missing", "not recorded", "high", "low", "normal"}


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


EVERYBODY = Group(())


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

        every = (*self.kept, *self.left_out)
        rows = [(one.group.name, one.people, one.share, not one.left_out, one.left_out) for one in every]
        return pd.DataFrame(rows, columns=["group", "people", "share", "kept", "reason"])

    def __repr__(self) -> str:
        names = [plain(size.group.name) for size in self.kept[:4]]
        more = f", and {len(self.kept) - 4} more" if len(self.kept) > 4 else ""
        kept = f"{len(self.kept)} groups ({', '.join(names)}{more})"
        return f"Collection of {kept}; {len(self.left_out)} left out"


def _condition_name(attribute: str, level: Level) -> str:
    if level is None:
        return f"{attribute} missing"
    truths = {"true": attribute, "false": f"not {attribute}"}
    return truths.get(level, f"{attribute}={level}")


def membership(groups: Sequence[Group], patterns: Patterns) -> BoolArray:
    """Which groups (rows) contain which patterns (columns)."""
    if len(groups) * len(patterns) > MOST_MEMBERSHIPS:
        problem = f"{len(groups):,} groups in {len(patterns):,} combinations of attributes are too many"
        step = (
            "Use fewer columns, or set " + Argument("intersections", 2) + " for single attributes and pairs"
        )
        raise InputError(problem, next_step=step + " only")
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


def group_labels(
    groups: Sequence[Group], patterns: Patterns, labels: Labels | None = None, *, everyone: str = "All people"
) -> list[str]:
    """What to call each group: its levels, each with its attribute only where the level alone is ambiguous.

    Two groups never share a label: where they would, both get the names that they have in code.

    Examples
    --------
    >>> import numpy as np
    >>> levels = (("A", "B", None), ("F", "M"), ("false", "true"))
    >>> patterns = Patterns(("race", "sex", "icu"), levels, np.empty((0, 3), dtype=np.int64))
    >>> groups = [Group((("race", "A"), ("sex", "F"))), Group((("icu", "false"),)), Group((("race", None),))]
    >>> group_labels(groups, patterns, {"sex": {"F": "women"}})
    ['A, women', 'not icu', 'race not recorded']
    >>> ages = Patterns(("age",), (("[80-90)", "90+", "old"),), np.empty((0, 1), dtype=np.int64))
    >>> group_labels([Group((("age", level),)) for level in ages.levels[0]], ages)
    ['age [80-90)', 'age 90+', 'old']
    """
    owners = Counter(str(level).casefold() for levels in patterns.levels for level in set(levels))
    owners.update((everyone.casefold(), Group(()).name))  # a level of that name is not everyone
    made = [plain(_label(group, patterns, labels or {}, owners, everyone)) for group in groups]
    names = [plain(group.name) for group in groups]
    while True:  # a name may be the label of another group
        times = Counter(made)
        told = [text if times[text] == 1 else name for text, name in zip(made, names)]
        if told == made:
            return told
        made = told


def _label(group: Group, patterns: Patterns, labels: Labels, owners: Counter[str], everyone: str) -> str:
    if not group.conditions:
        return everyone
    return ", ".join(
        _level_label(attribute, level, patterns, labels.get(attribute, {}), owners)
        for attribute, level in group.conditions
    )


def _level_label(
    attribute: str, level: Level, patterns: Patterns, own: Mapping[str, str], owners: Counter[str]
) -> str:
    key = "" if level is None else str(level)
    if key in own:
        return str(own[key])
    if level is None:
        return f"{attribute} not recorded"
    recipe = patterns.derived.get(attribute)
    if level == "true":
        return attribute
    if level == "false":
        return f"not {attribute}"
    if (recipe is not None and not isinstance(recipe, Where)) or NUMBERS.fullmatch(level):
        return f"{attribute} {level}"  # age 65 or over; acuity 2
    if owners[level.casefold()] > 1 or level.casefold() in BARE:
        return f"{attribute}: {level}"
    return level

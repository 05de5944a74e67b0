"""Labels: groups as people say them ("White, F"), from their levels and from labels that the user gives."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence

from propcal.core.groups.collection import Group
from propcal.core.groups.recipes import Where
from propcal.core.patterns import Level, Patterns
from propcal.plain_text import plain

Labels = Mapping[str, Mapping[str, str]]  # by attribute, then by level

NUMBER = re.compile(r"[+-]?[0-9][0-9.,]*")
# levels that say nothing without their attribute
BARE = {"yes", "no", "y", "n", "other", "unknown", "none", "missing", "not recorded", "high", "low", "normal"}


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
    """
    owners = Counter(str(level).casefold() for levels in patterns.levels for level in set(levels))
    made = [_label(group, patterns, labels or {}, owners, everyone) for group in groups]
    times = Counter(made)
    return [plain(text if times[text] == 1 else group.name) for group, text in zip(groups, made)]


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
    if (recipe is not None and not isinstance(recipe, Where)) or NUMBER.fullmatch(level):
        return f"{attribute} {level}"  # age 65 or over; acuity 2
    if owners[level.casefold()] > 1 or level.casefold() in BARE:
        return f"{attribute}: {level}"
    return level

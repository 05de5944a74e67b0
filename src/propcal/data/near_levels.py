"""Levels that differ only in case or spaces: warned of among groups, suggested where a condition fails."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from propcal.core.groups.conditions import ColumnTest, Condition, tests_of
from propcal.core.groups.recipes import Where
from propcal.core.patterns import BESIDE, KEY, Level, Patterns
from propcal.core.reduction import CLUSTER
from propcal.data.derive import wanted_keys
from propcal.errors import Message


def folded(level: str) -> str:
    """A level without its case, and with single spaces between its words.

    >>> folded(" Not  KNOWN") == folded("not known")
    True
    """
    return " ".join(level.casefold().split())


def warn_of_similar_levels(patterns: Patterns, people: Any) -> None:
    """Count, for each column of groups, the values that are another level but for case or spaces.

    `people` counts those of each pattern.
    """
    for a, name in enumerate(patterns.attributes):
        if name in patterns.derived or name == CLUSTER or name.startswith((BESIDE, KEY)):
            continue
        own = patterns.levels[a]
        counts = np.bincount(patterns.table[:, a], weights=people, minlength=len(own)).astype(np.int64)
        alike = _alike(own)
        spaced = [place for place, level in enumerate(own) if level is not None and level != level.strip()]
        if spaced and not alike:
            n = int(counts[spaced].sum())
            warnings.warn(
                Message(
                    f"{name}: {n:,} of {int(counts.sum()):,} values {'has' if n == 1 else 'have'} a space at "
                    f'the beginning or end ("{own[spaced[0]]}")',
                    argument=name,
                    next_step="The space is part of the level; remove it if that is not intended.",
                ),
                UserWarning,
                stacklevel=4,
            )
        if not alike:
            continue
        ranked = [sorted(same, key=lambda place: -counts[place]) for same in alike]
        n = int(sum(counts[place] for same in ranked for place in same[1:]))
        main, rare = ranked[0][:2]
        warnings.warn(
            Message(
                f"{name}: {n:,} of {int(counts.sum()):,} values {'differs' if n == 1 else 'differ'} from "
                f'another level only in case or spaces ("{own[rare]}" / "{own[main]}")',
                argument=name,
                next_step="They are treated as different groups; rename them if that is not intended.",
            ),
            UserWarning,
            stacklevel=4,
        )


def warn_of_new_spellings(known: Mapping[str, Sequence[Level]], patterns: Patterns) -> None:
    """Warn of new levels that are a known one but for case or spaces, as after a change of an export."""
    for name, levels in zip(patterns.attributes, patterns.levels):
        if name in patterns.derived or name.startswith((BESIDE, KEY)) or name not in known:
            continue
        before = {folded(level): level for level in known[name] if level is not None}
        for level in levels:
            if level is None or level in known[name] or folded(level) not in before:
                continue
            told = (
                f'{name}: "{level}" is new, and differs from "{before[folded(level)]}" only in case or spaces'
            )
            step = "They are watched as different groups; rename one of them if that is not intended."
            warnings.warn(Message(told, argument=name, next_step=step), UserWarning, stacklevel=4)


def _alike(levels: Sequence[Level]) -> list[list[int]]:
    """The places of levels that are the same but for case or spaces."""
    places: dict[str, list[int]] = {}
    for place, level in enumerate(levels):
        if level is not None:
            places.setdefault(folded(level), []).append(place)
    return [same for same in places.values() if len(same) > 1]


def warn_of_failed_conditions(
    conditions: Mapping[str, Where], levels_of: Callable[[str], Iterable[Level]]
) -> None:
    """Suggest other values for conditions that nobody meets; `levels_of` gives the levels of a column."""
    for name, made in conditions.items():
        for told in _suggestions(made.condition, levels_of):
            warnings.warn(Message(f"condition {name!r}: {told}"), UserWarning, stacklevel=4)


def _suggestions(condition: Condition, levels_of: Callable[[str], Iterable[Level]]) -> list[str]:
    found = []
    for test in tests_of(condition):
        if test.op not in ("=", "in"):
            continue
        known = {level for level in levels_of(test.column) if level is not None}
        for value in test.values:
            near = sorted(level for level in known if folded(level) == folded(value))
            if near and not known & wanted_keys(ColumnTest(test.column, "=", (value,))):
                found.append(f"no row has {test.column} = {value}; did you mean {near[0]}?")
    return found

"""Watched groups: which groups are tested over time, and the share of the 5 % that each may spend."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from propcal.core.atoms import Atoms
from propcal.core.grid import FloatArray
from propcal.core.groups.collection import MISSING, Group
from propcal.core.groups.groups import Groups
from propcal.core.keys import without_keys

FOUNDERS = 0.9  # the share of groups that are there from the start; groups that come later share the rest
TESTS = {"level": 0.8, "slope": 0.1, "cells": 0.1}  # what each kind of test may spend
CHANGE_TESTS = {"level": 0.85, "cells": 0.15}  # the same where an earlier period is the reference


@dataclass(frozen=True)
class WatchedGroup:
    """A group, and the run in which it was first large enough: 0 for the groups of the first run."""

    group: Group
    later: int = 0


def watch(atoms: Atoms, words: Groups, gamma: float, known: Sequence[WatchedGroup]) -> list[WatchedGroup]:
    """The groups to watch: those already watched, and others that are large enough by now, in order.

    Sizes alone decide, never outcomes, so that the choice cannot favour an alarm.
    """
    bare = without_keys(atoms)
    people: Any = bare.pattern_sums(bare.people)
    collection = words.collect(
        bare.patterns, people, bare.pattern_sums(bare.weight), gamma=gamma, or_everybody=True
    )
    found = [Group(()), *(group for group in collection.groups if group.conditions)]
    seen = {one.group for one in known}
    later = max([one.later for one in known], default=-1)
    new = [group for group in found if group not in seen]
    if not known:
        return [WatchedGroup(group) for group in new]
    return [*known, *(WatchedGroup(group, later + 1 + i) for i, group in enumerate(new))]


def not_watched(atoms: Atoms, words: Groups, gamma: float, known: Sequence[WatchedGroup]) -> list[Group]:
    """The groups that are not watched, because they have too small a share of all people."""
    bare = without_keys(atoms)
    people: Any = bare.pattern_sums(bare.people)
    sizes = words.sizes(bare.patterns, people, bare.pattern_sums(bare.weight), gamma=gamma)
    seen = {one.group for one in known}
    return [size.group for size in sizes if size.left_out not in ("", MISSING) and size.group not in seen]


def stakes_of(watched: Sequence[WatchedGroup]) -> FloatArray:
    """The share of each group; all that ever come together have less than 1.

    >>> stakes_of([WatchedGroup(Group(())), WatchedGroup(Group((("sex", "F"),)), 1)]).round(3).tolist()
    [0.9, 0.05]
    """
    founders = sum(one.later == 0 for one in watched)
    later = [
        FOUNDERS / founders if not one.later else (1 - FOUNDERS) / (one.later * (one.later + 1))
        for one in watched
    ]
    return np.array(later)

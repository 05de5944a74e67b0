"""Whom a second score flags at a threshold, and whom it flags no longer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from propcal.auditing.headcount import Headcount
from propcal.auditing.score_changes import ScorePair
from propcal.core.grid import to_grid
from propcal.core.groups import Group, membership
from propcal.core.reduction import rescored

FLAG_COLUMNS = ("score", "threshold", "group", "newly_flagged", "no_longer_flagged")
NEITHER = 0
NEWLY = 1
NO_LONGER = 2


@dataclass(frozen=True, eq=False)
class FlagChanges:
    """The people of each group who are newly and no longer flagged by a score at a
    threshold.
    """

    score: str
    threshold: float
    groups: tuple[Group, ...]
    newly: Headcount
    no_longer: Headcount

    @classmethod
    def of(
        cls, pair: ScorePair, threshold: float, groups: Sequence[Group]
    ) -> FlagChanges:
        """Who crosses a threshold in which direction."""
        grid_threshold = to_grid(np.array([threshold]))
        before, after = (to_grid(score) >= grid_threshold for score in pair.scores)
        crossed = np.full(len(before), NEITHER, dtype=np.int64)
        crossed[after & ~before] = NEWLY
        crossed[before & ~after] = NO_LONGER
        people = Headcount.of(
            rescored(pair.joint, crossed),
            lambda patterns: membership(groups, patterns),
            lambda atoms: atoms.score,
            3,
        )
        newly = people.part(NEWLY)
        no_longer = people.part(NO_LONGER)
        return cls(pair.name, threshold, tuple(groups), newly, no_longer)

    def exact(self) -> FlagCounts:
        """The exact counts."""
        counts = []
        for headcount in (self.newly, self.no_longer):
            people = np.rint(headcount.people.sum(axis=0))
            counts.append(people.astype(int).tolist())
        return FlagCounts(*counts)


class FlagCounts(NamedTuple):
    """Of each group, how many people are newly and no longer flagged."""

    newly: Sequence[Any]
    no_longer: Sequence[Any]


def flag_table(
    changes: Sequence[FlagChanges], counts: Sequence[FlagCounts]
) -> pd.DataFrame:
    """One row for each score, threshold and group; counts are objects, as some may be
    limits.
    """
    rows = []
    for change, shown in zip(changes, counts):
        for group, newly, no_longer in zip(change.groups, *shown):
            rows.append((change.score, change.threshold, group.name, newly, no_longer))
    table = pd.DataFrame(rows, columns=list(FLAG_COLUMNS))
    for name, place in (("newly_flagged", -2), ("no_longer_flagged", -1)):
        table[name] = pd.Series([row[place] for row in rows], dtype=object)
    return table

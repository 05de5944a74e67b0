"""What is found about several scores of the same people, before tables and words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from propcal.auditing.audit import Audit
from propcal.auditing.findings import Findings
from propcal.auditing.flag_changes import FlagChanges, flag_table
from propcal.auditing.score_changes import DIFFERENCE_COLUMNS, ScorePair
from propcal.core.grid import to_grid


@dataclass(frozen=True, eq=False)
class ComparisonFindings:
    """What was found about several scores of the same people: exact, or protected.

    Everything that a comparison prints is made from these, by `assembled`.

    Attributes
    ----------
    by_score : dict
        The findings about each score, by its name; the first is the base.
    differences, changes, flags : DataFrame
        Of each other score and the base, as in a `Comparison`; without labels.
    unchanged : tuple of str
        The scores that are the base's for everybody.
    crossings : tuple of FlagChanges
        The exact counts behind `flags`.
    """

    by_score: dict[str, Findings]
    differences: pd.DataFrame
    changes: pd.DataFrame
    flags: pd.DataFrame
    unchanged: tuple[str, ...]
    crossings: tuple[FlagChanges, ...]

    @property
    def base(self) -> str:
        """Name of the score that the others are compared with."""
        return next(iter(self.by_score))

    @property
    def exact(self) -> bool:
        """Whether no counts are protected."""
        return not self.by_score[self.base].fewest

    def kept(self, audits: Mapping[str, Audit]) -> ComparisonFindings:
        """What a comparison keeps, so that its counts can be protected later: of each
        score what its audit keeps.
        """
        by_score = {}
        for name, audit in audits.items():
            assert audit._source is not None
            by_score[name] = audit._source
        return replace(self, by_score=by_score)


def find_changes(
    by_score: dict[str, Findings], pairs: Sequence[ScorePair]
) -> ComparisonFindings:
    """What differs between the base and each other score, from the findings about each
    and the pairs of both.
    """
    base = pairs[0].found[0]
    groups = [one.size.group for one in base.profiles if not one.size.left_out]
    differences: list[Any] = []
    unchanged = []
    crossings = []
    for pair in pairs:
        differences += pair.differences()
        before, after = map(to_grid, pair.scores)
        if np.array_equal(before, after):
            unchanged.append(pair.name)
        for threshold in base.rule.thresholds:
            crossings.append(FlagChanges.of(pair, threshold, groups))
    flag_counts = [each.exact() for each in crossings]
    flags = flag_table(crossings, flag_counts)
    changes = [pair.changes() for pair in pairs]
    return ComparisonFindings(
        by_score=by_score,
        differences=pd.DataFrame(differences, columns=list(DIFFERENCE_COLUMNS)),
        changes=pd.concat(changes, ignore_index=True),
        flags=flags.infer_objects(),
        unchanged=tuple(unchanged),
        crossings=tuple(crossings),
    )

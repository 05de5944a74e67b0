"""Protected groups: their rows, and the choice of groups in permitted features that repair their errors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from propcal.core.grid import FloatArray, IntArray
from propcal.data.frames import require
from propcal.data.levels import distinct, encode
from propcal.discovery import box_kernels as kernels
from propcal.discovery.box_kernels import LEVEL
from propcal.discovery.box_search import Candidate, Data
from propcal.discovery.chance_maximum import ChanceMaximum
from propcal.discovery.feature_rows import FeatureRows
from propcal.discovery.rounds import Chooser
from propcal.errors import InputError

FEWEST = 100  # people in a protected group whose repair is measured
MOST_LEVELS, MOST_GROUPS = 30, 60
WORTH = 4.0  # how much less a chi-square of the protected groups a group must give


@dataclass(frozen=True, eq=False)
class ProtectedGroups:
    """The groups of protected columns: a name and the rows of each."""

    columns: tuple[str, ...]
    names: tuple[str, ...]
    rows: tuple[IntArray, ...]

    @classmethod
    def of(cls, source: FeatureRows, protect: Sequence[str]) -> ProtectedGroups:
        """Every level of every protected column with enough people."""
        require(list(source.names), protect)
        columns = source.only(protect).take(np.arange(len(source)))
        names, rows = [], []
        for column in protect:
            levels, codes = encode(*distinct(columns[column]))
            if len(levels) > MOST_LEVELS:
                raise InputError(
                    f"protect: column {column!r} has {len(levels):,} different values; at most {MOST_LEVELS} "
                    "can be protected groups",
                    argument="protect",
                    next_step="Make a column of fewer groups from it",
                )
            for code, level in enumerate(levels):
                inside = np.flatnonzero(codes == code)
                if len(inside) >= FEWEST:
                    names.append(f"{column} not recorded" if level is None else f"{column} {level}")
                    rows.append(inside)
        if len(rows) > MOST_GROUPS:
            raise InputError(
                f"protect: the columns have {len(rows)} groups together; at most {MOST_GROUPS} are possible",
                argument="protect",
            )
        return cls(tuple(protect), tuple(names), tuple(rows))

    def in_order(self, order: IntArray) -> ProtectedGroups:
        """The same groups where the rows have another order."""
        place = np.empty(len(order), dtype=np.int64)
        place[order] = np.arange(len(order))
        return replace(self, rows=tuple(np.sort(place[inside]) for inside in self.rows))

    def chooser(self) -> Chooser:
        """Of the significant candidates, the one that repairs the protected groups most."""

        def choose(
            data: Data, candidates: Sequence[Candidate], chance: ChanceMaximum, residual: FloatArray
        ) -> Candidate | None:
            sums = data.sums.astype(np.float64)
            sums[:, kernels.RESIDUAL] = residual
            member = np.zeros((len(self.rows), len(sums)), dtype=np.bool_)
            for own, rows in zip(member, self.rows):
                own[rows] = True
            now = np.array([sums[rows][:, :2].sum(axis=0) for rows in self.rows])
            best, gain = None, WORTH
            for c in sorted(candidates, key=chance.standardised, reverse=True)[:40]:
                if c.kind != LEVEL:
                    continue
                rows = data.rows_in(c.box)
                total = sums[rows][:, :2].sum(axis=0)
                shift = total[kernels.RESIDUAL] / total[kernels.VARIANCE]
                inside = member[:, rows] @ sums[rows, kernels.VARIANCE]
                after = now[:, 0] - shift * inside
                less = float(np.sum((now[:, 0] ** 2 - after**2) / np.maximum(now[:, 1], 1e-12)))
                if less > gain:
                    best, gain = c, less
            return best

        return choose

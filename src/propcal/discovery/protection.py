"""Protection: groups in permitted features that repair the errors of groups the correction must not read.

The gain is measured on people who were not used: the rows are split in two halves (all rows of a person in
one), and groups that were found and corrected in one half are applied to the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from propcal.core.grid import FloatArray, IntArray
from propcal.data.frames import require
from propcal.data.levels import distinct, encode
from propcal.discovery import box_kernels as kernels
from propcal.discovery.binned_features import FeatureTable
from propcal.discovery.box_kernels import LEVEL
from propcal.discovery.box_search import Candidate, Data, rows_inside
from propcal.discovery.chance_maximum import ChanceMaximum
from propcal.discovery.feature_rows import FeatureRows
from propcal.discovery.outcome_counts import OutcomeCounts
from propcal.discovery.people import OWN_STREAM, People, correct_for, halves
from propcal.discovery.rounds import Chooser, Search, search_rounds
from propcal.errors import InputError
from propcal.numbers import IN_TEXT, known, listed

FEWEST = 100  # people in a protected group whose repair is measured
MOST_LEVELS, MOST_GROUPS = 30, 60
WORTH = 4.0  # how much less a chi-square of the protected groups a group must give
DRAWS = 2000  # for intervals
CLEAR = 3.0  # standard errors beyond which a protected group's error is more than chance


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

    def of_rows(self, rows: IntArray, n: int) -> ProtectedGroups:
        """The same groups among some of n rows, by their place in these."""
        place = np.full(n, -1)
        place[rows] = np.arange(len(rows))
        own = [place[inside] for inside in self.rows]
        return replace(self, rows=tuple(inside[inside >= 0] for inside in own))

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


@dataclass(frozen=True, eq=False)
class Protection:
    """How much of each protected group's error is removed, on held-out people.

    Attributes
    ----------
    table : DataFrame
        For each protected group: people, `before` (observed minus predicted rate), `after` correction by the
        groups found, `reading` (after a correction that reads the protected columns), the share of the
        error that the groups remove (`removed`, with 95 % CI `removed_low` to `removed_high`), and the share
        that reading removes (`removed_reading`).
    columns : tuple of str
        The protected columns.
    """

    table: pd.DataFrame
    columns: tuple[str, ...]
    _counts: tuple[OutcomeCounts, ...] = ()

    def to_frame(self) -> pd.DataFrame:
        """The table."""
        return self.table.copy()

    @property
    def sentences(self) -> list[str]:
        """The table in sentences: of the groups whose error is more than chance explains."""
        wrong = self.table[self.table["clear"]]
        if not len(wrong):
            return [
                f"None of the groups of {listed(list(self.columns))} has an error that is more than chance "
                "explains, on held-out people."
            ]
        told = []
        for row in wrong.to_dict("records"):
            if not known(row["before"]):
                told.append(f"{row['group']}: numbers are suppressed, because a count is small.")
                continue
            points = [IN_TEXT.points(row[name]) for name in ("before", "after", "reading")]
            removed = f"{100 * row['removed']:.0f} %"
            limits = f"95 % CI {100 * row['removed_low']:.0f} to {100 * row['removed_high']:.0f} %"
            told.append(
                f"{row['group']}: observed minus predicted {points[0]} points before, {points[1]} after "
                f"({removed} of the error removed, {limits}), {points[2]} with a correction that reads "
                f"{listed(list(self.columns))}, on held-out people."
            )
        return told


def protection_of(
    protected: ProtectedGroups,
    table: FeatureTable,
    people: People,
    how: Search,
    progress: Callable[[float], None],
) -> Protection:
    """Measure the repair on held-out people: found and fitted in each half, applied to the other."""
    n = len(people)
    half = halves(people, how.seed)
    after, reading = people.raw.copy(), people.raw.copy()
    for side in (0, 1):
        fitted, held = np.flatnonzero(half == side), np.flatnonzero(half != side)
        own = people.part(fitted)
        codes = np.ascontiguousarray(table.codes[:, fitted])
        part = FeatureTable(table.features, codes, {})
        choose = protected.of_rows(fitted, n).chooser()
        progress(side / 2)
        result = search_rounds(part, own, how, lambda _: None, choose)
        groups = [rows_inside(table.features, table.codes, f.box) for f in result.groups]
        if groups or result.whole_found:
            _, score = correct_for(people, groups, whole=result.whole_found, fitted=half == side)
            after[held] = score[held]
        _, score = correct_for(people, list(protected.rows), whole=True, fitted=half == side)
        reading[held] = score[held]
    rows = [
        _repair(people, name, own, after, reading, np.random.default_rng([OWN_STREAM, how.seed]))
        for name, own in zip(protected.names, protected.rows)
    ]
    counts = tuple(OutcomeCounts.of(people, own) for own in protected.rows)
    return Protection(pd.DataFrame(rows), protected.columns, counts)


def _repair(
    people: People,
    name: str,
    rows: IntArray,
    after: FloatArray,
    reading: FloatArray,
    rng: np.random.Generator,
) -> dict[str, object]:
    """One row of the table."""
    weight, y = people.weight[rows], people.outcome[rows]
    total = float(weight.sum())
    residuals = np.stack([weight * (y - p[rows]) for p in (people.raw, after, reading)])
    if people.cluster is not None:
        residuals = np.stack([np.bincount(people.cluster[rows], own) for own in residuals])
    mean = residuals.sum(axis=1) / total
    spread = np.cov(residuals) * residuals.shape[1] / total**2
    drawn = rng.multivariate_normal(mean, spread, DRAWS)
    removed = removed_share(drawn[:, 0], drawn[:, 1])
    share = float(removed_share(mean[0], mean[1]))
    low, high = np.quantile(removed, [0.025, 0.975])
    return {
        "group": name,
        "people": total,
        "observed": float(weight @ y) / total,
        "predicted": float(weight @ people.raw[rows]) / total,
        "before": mean[0],
        "after": mean[1],
        "reading": mean[2],
        "removed": share,
        "removed_low": min(float(low), share),
        "removed_high": max(float(high), share),
        "removed_reading": float(removed_share(mean[0], mean[2])),
        "clear": bool(abs(mean[0]) > CLEAR * np.sqrt(spread[0, 0])),
    }


def removed_share(before: Any, after: Any) -> Any:
    """The share of an error that is removed; negative if it grew, at most as much as it was.

    >>> [float(removed_share(0.1, after)) for after in (0.0, -0.05, 0.3)]
    [1.0, 0.5, -1.0]
    """
    return np.maximum(1 - np.abs(after) / np.maximum(np.abs(before), 1e-12), -1.0)

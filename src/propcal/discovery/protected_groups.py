"""Errors in protected groups, and how much of them corrections of groups remove.

The error of a correction in a group is the mean of y - p over new people of the group.
The observed mean of y - p differs from it by the chance of the group's own outcomes,
and by nothing else, whatever the correction is and however it was found. So the
observed gap with the interval of the group's chance covers the error among new people
with the stated confidence. But a correction fitted to the same people follows their
chance, so that the *size* of the observed gap is too small: a correction that reads the
group leaves a gap of 0 here, and an error of one standard error elsewhere. The mean
size of the error that is left therefore allows for the share of a group's chance that
the correction has followed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from scipy import special

from propcal.auditing.audit_tables import ENDS
from propcal.auditing.claims import NAN
from propcal.core.grid import FloatArray, IntArray
from propcal.discovery.box_kernels import LEVEL, VARIANCE
from propcal.discovery.box_search import Candidate, ChanceMaximum, Data
from propcal.discovery.finding_rows import Counted, after_selection, people_headcount
from propcal.discovery.people import People, chance_followed, correct_for
from propcal.discovery.search import Outcome
from propcal.errors import refused
from propcal.reading.frames import require
from propcal.reading.levels import distinct, encode
from propcal.reading.source import LazyColumns

FEWEST_PEOPLE = 100  # in a protected group whose repair is measured
MOST_LEVELS = 30
MOST_GROUPS = 60
LEAST_GAIN = 4.0  # by which a group must lower the chi-square of the protected groups
MOST_TRIED = 40  # candidates, the strongest first
REACH_SD = 1.959964  # of a 95 % CI, on either side
# the probability of calling any group's error clear if there are none
SIGNIFICANCE = 0.05
LARGE_SD = 3.0  # standard errors of an error from which on shares of it are stated
# of a number of events: without any event the chance of some is still there
LEAST_VARIANCE = 0.5
N_CHANCES = 401  # values of chance in an interval that are tried


@dataclass(frozen=True, eq=False)
class ProtectedGroups:
    """The groups of protected columns: a name and the rows of each."""

    columns: tuple[str, ...]
    names: tuple[str, ...]
    rows: tuple[IntArray, ...]

    @classmethod
    def of(cls, source: LazyColumns, protect: Sequence[str]) -> ProtectedGroups:
        """Every level of every protected column with enough people."""
        require(list(source.names), protect)
        columns = source.columns(protect)
        names = []
        rows = []
        for column in protect:
            levels, codes = encode(*distinct(columns[column]))
            if len(levels) > MOST_LEVELS:
                raise refused(
                    "many protected levels",
                    column=column,
                    n=len(levels),
                    most=MOST_LEVELS,
                )
            for code, level in enumerate(levels):
                inside = np.flatnonzero(codes == code)
                if len(inside) < FEWEST_PEOPLE:
                    continue
                level_name = "not recorded" if level is None else level
                names.append(f"{column} {level_name}")
                rows.append(inside)
        if len(rows) > MOST_GROUPS:
            raise refused("many protected groups", n=len(rows), most=MOST_GROUPS)
        return cls(tuple(protect), tuple(names), tuple(rows))

    def in_order(self, order: IntArray) -> ProtectedGroups:
        """The groups where the rows have another order."""
        place = np.argsort(order)
        return replace(self, rows=tuple(np.sort(place[inside]) for inside in self.rows))

    def choose(
        self,
        data: Data,
        candidates: Sequence[Candidate],
        chance: ChanceMaximum,
        residual: FloatArray,
    ) -> Candidate | None:
        """Of the significant candidates, the one that repairs the protected groups
        most.
        """
        variance = data.sums[:, VARIANCE].astype(np.float64)
        members = np.zeros((len(self.rows), len(variance)), dtype=np.bool_)
        for of_group, rows in zip(members, self.rows):
            of_group[rows] = True
        errors = np.array([residual[rows].sum() for rows in self.rows])
        spread = np.array([variance[rows].sum() for rows in self.rows])
        spread = np.maximum(spread, 1e-12)

        best = None
        largest_gain = LEAST_GAIN
        strongest = sorted(candidates, key=chance.standardised, reverse=True)
        for c in strongest[:MOST_TRIED]:
            if c.kind != LEVEL:
                continue
            rows = data.rows_in(c.box)
            shift = residual[rows].sum() / variance[rows].sum()
            after = errors - shift * (members[:, rows] @ variance[rows])
            gain = float(np.sum((errors**2 - after**2) / spread))
            if gain > largest_gain:
                best = c
                largest_gain = gain
        return best


@dataclass(frozen=True, eq=False)
class Protection:
    """How much of each protected group's error is removed, estimated for new people.

    Attributes
    ----------
    table : DataFrame
        For each protected group: people, observed and predicted rate; observed minus
        predicted `before`, `after` correction for the groups found, and after a
        correction that reads the protected columns (`reading`), each with a 95 % CI
        (`before_low`, `before_high`, ...); the mean size of the error that is `left`
        among new people, and that reading would leave (`left_reading`); and the share
        of the error that is `removed`, and that reading would remove
        (`removed_reading`), with 95 % CI. Shares are missing where the group's own
        error is not `clear`, as it could be chance (5 % for all groups together), or
        smaller than three standard errors.
    columns : tuple of str
        The protected columns.
    by : "groups", "curve" or "nothing"
        What is corrected for: the groups found, the score as a whole only, or nothing,
        as nothing was found.
    """

    table: pd.DataFrame
    columns: tuple[str, ...]
    by: str = "groups"
    _source: tuple[Counted, ...] = ()

    def to_frame(self) -> pd.DataFrame:
        """The table."""
        return self.table.copy()

    def __repr__(self) -> str:
        return "\n".join(self.sentences)

    @property
    def sentences(self) -> list[str]:
        """The table in sentences."""
        from propcal.documents.discovery import repairs

        return repairs(self)


def measure_repairs(
    protected: ProtectedGroups, result: Outcome, people: People
) -> Protection:
    """Correct for the groups that were found, and for the protected groups themselves,
    and compare.
    """
    found = [group.rows for group in result.groups]
    if found:
        by = "groups"
    elif result.whole_found:
        by = "curve"
    else:
        by = "nothing"
    after = people.raw
    follows = np.zeros(len(protected.rows))
    if by != "nothing":
        _, after = correct_for(people, found, whole=result.whole_found)
        follows = chance_followed(
            people, found, protected.rows, after, whole=result.whole_found
        )
    _, reading = correct_for(people, list(protected.rows), whole=True)
    follows_reading = chance_followed(
        people, protected.rows, protected.rows, reading, whole=True
    )
    limit = clear_limit(len(protected.rows))
    scores = (people.raw, after, reading)
    table = []
    groups = zip(protected.names, protected.rows, follows, follows_reading)
    for name, rows, *followed in groups:
        repaired = _measured(people, rows, scores, followed, limit)
        table.append({"group": name, **repaired})
    counts = tuple(people_headcount(people, rows) for rows in protected.rows)
    return Protection(pd.DataFrame(table), protected.columns, by, counts)


def _measured(
    people: People,
    rows: IntArray,
    scores: tuple[FloatArray, ...],
    followed: Sequence[float],
    limit: float,
) -> dict[str, Any]:
    """One row of the table."""
    weight = people.weight[rows]
    y = people.outcome[rows]
    total = float(weight.sum())
    gaps = [float(weight @ (y - p[rows])) / total for p in scores]
    error = float(np.sqrt(_variance(people, rows) / total**2))
    shares = [float(share) for share in followed]
    return {
        "people": total if people.survey else round(total),
        "observed": float(weight @ y) / total,
        "predicted": float(weight @ people.raw[rows]) / total,
        **repair(gaps, error, shares, limit),
    }


def _variance(people: People, rows: IntArray) -> float:
    """The variance of observed minus expected events of some rows, by the raw score."""
    weight = people.weight[rows]
    residual = people.outcome[rows] - people.raw[rows]
    residual = residual - weight @ residual / weight.sum()
    mean_weight = 1.0
    if people.survey:
        mean_weight = float(weight @ weight / weight.sum())
    if people.cluster is not None:
        of_person = np.bincount(people.cluster[rows], weight * residual)
        squares = of_person**2
    elif people.survey:
        squares = weight * weight * residual**2
    else:
        squares = weight * residual**2
    return float(np.sum(squares)) + LEAST_VARIANCE * mean_weight


def clear_limit(n_groups: int) -> float:
    """Standard errors beyond which the error of one of some groups is more than chance
    explains.

    >>> round(clear_limit(3), 2)
    2.39
    """
    return float(special.ndtri(1 - SIGNIFICANCE / (2 * max(n_groups, 1))))


def repair(
    gaps: Sequence[float], error: float, followed: Sequence[float], limit: float
) -> dict[str, Any]:
    """Gaps with intervals, sizes of errors that are left, and shares removed.

    `gaps` are those before, after and with a correction that reads the group; `error`
    is the standard error of each of them: they have the chance of the same outcomes.
    Errors within `limit` could be chance.

    >>> row = repair((0.10, 0.04, 0.0), 0.01, (0.5, 1.0), 2.39)
    >>> names = ("before_low", "before_high", "left", "left_reading")
    >>> [round(row[name], 3) for name in names]
    [0.08, 0.12, 0.039, 0.008]
    >>> [round(row[name], 2) for name in ("removed", "removed_low", "removed_high")]
    [0.61, 0.5, 0.75]
    >>> [round(row[f"removed_reading{end}"], 2) for end in ("", "_low", "_high")]
    [0.92, 0.76, 1.0]
    """
    before, after, reading = gaps
    reach = REACH_SD * error
    row: dict[str, Any] = {}
    for name, gap in (("before", before), ("after", after), ("reading", reading)):
        row[name] = gap
        row[f"{name}_low"] = gap - reach
        row[f"{name}_high"] = gap + reach

    corrections = [("", after, followed[0]), ("_reading", reading, followed[1])]
    for name, gap, share in corrections:
        row[f"left{name}"] = _size(gap, error, share)
    is_clear = abs(before) > limit * error
    is_large = is_clear and abs(before) > LARGE_SD * error
    for name, gap, share in corrections:
        removed = (NAN, NAN, NAN)
        if is_large:
            removed = _shares(before, gap, error, share)
        for end, value in zip(ENDS, removed):
            row[f"removed{name}{end}"] = value
    row["clear"] = bool(is_clear)
    return row


def _size(gap: float, error: float, followed: float) -> float:
    """The mean size of the error among new people.

    The part of the group's chance that the correction has followed varies the error
    from fit to fit; the rest varies the observed gap only. The error is taken as
    normal, with what is left of the gap as its mean.
    """
    mean = float(np.sqrt(max(gap**2 - (1 - followed) * error**2, 0.0)))
    spread = float(np.sqrt(followed)) * error
    if spread < 1e-12:
        return mean
    z = mean / spread
    around_zero = spread * np.sqrt(2 / np.pi) * np.exp(-(z**2) / 2)
    return float(around_zero + mean * (1 - 2 * special.ndtr(-z)))


def _shares(
    before: float, after: float, error: float, followed: float
) -> tuple[float, float, float]:
    """The share removed, and all shares that the interval of the group's chance allows,
    at least -1.

    Both errors are the gaps less the same chance. Shares are stated of large gaps only,
    and chance made these larger, which the interval allows for.
    """
    if after == before:
        return 0.0, 0.0, 0.0
    low, high = after_selection(before / error, LARGE_SD)
    middle, _ = after_selection(before / error, LARGE_SD, confidence=0.0)
    least_chance = before - high * error
    most_chance = before - low * error
    chance = before - np.linspace(low, high, N_CHANCES) * error
    chance = np.append(chance, after)
    chance = chance[(chance >= least_chance) & (chance <= most_chance)]

    errors_before = np.maximum(np.abs(before - chance), 1e-12)
    errors_after = np.abs(after - chance)
    all_shares = np.maximum(1 - errors_after / errors_before, -1.0)
    lowest = float(all_shares.min())
    highest = float(all_shares.max())

    left = after - (before - middle * error)
    if followed:
        size_left = _size(left, error, followed)
    else:
        size_left = abs(left)
    share = 1 - size_left / max(abs(middle) * error, 1e-12)
    return min(max(share, lowest), highest), lowest, highest

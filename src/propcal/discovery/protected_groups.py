"""Protected groups: their rows, the groups that repair their errors, and how much of an
error that removes.

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

FEWEST = 100  # people in a protected group whose repair is measured
MOST_LEVELS = 30
MOST_GROUPS = 60
WORTH = 4.0  # how much less a chi-square of the protected groups a group must give
MOST_TRIED = 40  # candidates, the strongest first
Z = 1.959964  # standard errors on either side of a 95 % CI
SIGNIFICANCE = (
    0.05  # the probability of calling any group's error clear if there are none
)
SHARED = 3.0  # standard errors of an error from which on shares of it are told
LEAST_VARIANCE = (
    0.5  # of a number of events: without any event the chance of some is still there
)


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
                if len(inside) >= FEWEST:
                    names.append(
                        f"{column} not recorded"
                        if level is None
                        else f"{column} {level}"
                    )
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
        member = np.zeros((len(self.rows), len(variance)), dtype=np.bool_)
        for own, rows in zip(member, self.rows):
            own[rows] = True
        errors, spread = (
            np.array([sums[rows].sum() for rows in self.rows])
            for sums in (residual, variance)
        )
        best = None
        gain = WORTH
        for c in sorted(candidates, key=chance.standardised, reverse=True)[:MOST_TRIED]:
            if c.kind != LEVEL:
                continue
            rows = data.rows_in(c.box)
            shift = residual[rows].sum() / variance[rows].sum()
            after = errors - shift * (member[:, rows] @ variance[rows])
            less = float(np.sum((errors**2 - after**2) / np.maximum(spread, 1e-12)))
            if less > gain:
                best = c
                gain = less
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
    rows = [
        {
            "group": name,
            **_measured(people, own, (people.raw, after, reading), followed, limit),
        }
        for name, own, *followed in zip(
            protected.names, protected.rows, follows, follows_reading
        )
    ]
    counts = tuple(people_headcount(people, own) for own in protected.rows)
    return Protection(pd.DataFrame(rows), protected.columns, by, counts)


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
    return {
        "people": round(total) if not people.survey else total,
        "observed": float(weight @ y) / total,
        "predicted": float(weight @ people.raw[rows]) / total,
        **repair(gaps, error, [float(share) for share in followed], limit),
    }


def _variance(people: People, rows: IntArray) -> float:
    """The variance of observed minus expected events of some rows, by the raw score."""
    weight = people.weight[rows]
    residual = people.outcome[rows] - people.raw[rows]
    residual = residual - weight @ residual / weight.sum()
    if people.survey:
        mean_weight = float(weight @ weight / weight.sum())
    else:
        mean_weight = 1.0
    if people.cluster is not None:
        squares = float(
            np.sum(np.bincount(people.cluster[rows], weight * residual) ** 2)
        )
    else:
        squares = float(
            np.sum((weight if people.survey else 1.0) * weight * residual**2)
        )
    return squares + LEAST_VARIANCE * mean_weight


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
    >>> [round(row[name], 3) for name in ("before_low", "before_high", "left", "left_reading")]
    [0.08, 0.12, 0.039, 0.008]
    >>> [round(row[name], 2) for name in ("removed", "removed_low", "removed_high")]
    [0.61, 0.5, 0.75]
    >>> [round(row[name], 2) for name in ("removed_reading", "removed_reading_low", "removed_reading_high")]
    [0.92, 0.76, 1.0]
    """
    before, after, reading = gaps
    clear = abs(before) > limit * error
    row: dict[str, Any] = {}
    for name, gap in (("before", before), ("after", after), ("reading", reading)):
        row |= {
            name: gap,
            f"{name}_low": gap - Z * error,
            f"{name}_high": gap + Z * error,
        }
    both = [("", after, followed[0]), ("_reading", reading, followed[1])]
    row |= {f"left{name}": _size(gap, error, share) for name, gap, share in both}
    for name, gap, share in both:
        large = clear and abs(before) > SHARED * error
        if large:
            removed = _shares(before, gap, error, share)
        else:
            removed = (float("nan"),) * 3
        row |= {
            f"removed{name}{end}": value
            for end, value in zip(("", "_low", "_high"), removed)
        }
    return row | {"clear": bool(clear)}


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
    return float(
        spread * np.sqrt(2 / np.pi) * np.exp(-(z**2) / 2)
        + mean * (1 - 2 * special.ndtr(-z))
    )


def _shares(
    before: float, after: float, error: float, followed: float
) -> tuple[float, float, float]:
    """The share removed, and all shares that the interval of the group's chance allows,
    at least -1.

    Both errors are the gaps less the same chance. Shares are told of large gaps only,
    and chance made these larger, which the interval allows for.
    """
    if after == before:
        return 0.0, 0.0, 0.0
    low, high = after_selection(before / error, SHARED)
    middle = after_selection(before / error, SHARED, confidence=0.0)[0]
    chance = np.append(before - np.linspace(low, high, 401) * error, after)
    chance = chance[
        (chance >= before - high * error) & (chance <= before - low * error)
    ]
    errors = np.maximum(np.abs(before - chance), 1e-12)
    all_shares = np.maximum(1 - np.abs(after - chance) / errors, -1.0)
    lowest = float(all_shares.min())
    highest = float(all_shares.max())
    own = before - middle * error
    if followed:
        left = _size(after - own, error, followed)
    else:
        left = abs(after - own)
    share = 1 - left / max(abs(middle) * error, 1e-12)
    return min(max(share, lowest), highest), lowest, highest

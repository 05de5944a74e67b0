"""Repairs: how much of each protected group's error the groups found remove, for new people.

The error of a correction in a group is the mean of y - p over new people of the group. The observed mean of
y - p differs from it by the chance of the group's own outcomes, and by nothing else, whatever the
correction is and however it was found. So the observed gap with the interval of the group's chance covers
the error among new people with the stated confidence. But a correction fitted to the same people follows
their chance, so that the *size* of the observed gap is too small: a correction that reads the group leaves
a gap of 0 here, and an error of one standard error elsewhere. The mean size of the error that is left
therefore allows for the share of a group's chance that the correction has followed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy import special

from propcal.core.grid import FloatArray, IntArray
from propcal.discovery.outcome_counts import OutcomeCounts, binomial_variance
from propcal.discovery.people import Correcting, People, correct_for
from propcal.discovery.protection import ProtectedGroups
from propcal.discovery.rounds import Outcome
from propcal.discovery.selection_interval import after_selection
from propcal.numbers import IN_SENTENCE, known, listed

Z = 1.959964  # standard errors on either side of a 95 % CI
LEVEL = 0.05  # the probability of calling any group's error clear if there are none
SHARED = 3.0  # standard errors of an error from which on shares of it are told
LEAST_VARIANCE = 0.5  # of a number of events: without any event the chance of some is still there
PRINTED = 0.0005  # smaller differences of rates do not show in percentage points


@dataclass(frozen=True, eq=False)
class RepairBasis:
    """What a row of the table rests on beside the gaps; protected pages start from it.

    Attributes
    ----------
    counts : OutcomeCounts
    effect : float
        How many times larger the variance of the events is than that of a binomial number.
    followed, followed_reading : float
        Share of the group's chance that the correction by the groups found has followed, and that one that
        reads the protected columns has.
    """

    counts: OutcomeCounts
    effect: float
    followed: float
    followed_reading: float


@dataclass(frozen=True, eq=False)
class Protection:
    """How much of each protected group's error is removed, estimated for new people.

    Attributes
    ----------
    table : DataFrame
        For each protected group: people, observed and predicted rate; observed minus predicted `before`,
        `after` correction for the groups found, and after a correction that reads the protected columns
        (`reading`), each with a 95 % CI (`before_low`, `before_high`, ...); the mean size of the error
        that is `left` among new people, and that reading would leave (`left_reading`); and the share of the
        error that is `removed`, and that reading would remove (`removed_reading`), with 95 % CI. Shares are
        missing where the group's own error is not `clear`, as it could be chance (5 % for all groups
        together), or smaller than three standard errors.
    columns : tuple of str
        The protected columns.
    by : "groups", "curve" or "nothing"
        What is corrected for: the groups found, the score as a whole only, or nothing, as nothing was found.
    """

    table: pd.DataFrame
    columns: tuple[str, ...]
    by: str = "groups"
    _basis: tuple[RepairBasis, ...] = ()

    def to_frame(self) -> pd.DataFrame:
        """The table."""
        return self.table.copy()

    def __repr__(self) -> str:
        return "\n".join(self.sentences)

    @property
    def sentences(self) -> list[str]:
        """The table in sentences."""
        rows = [{str(name): value for name, value in row.items()} for row in self.table.to_dict("records")]
        if not rows:
            return [f"No group of {self._columns} has enough people to say how much of an error is removed."]
        told = [
            f"{row['group']}: numbers are suppressed, because a count is small."
            for row in rows
            if not known(row["before"])
        ]
        rows = [row for row in rows if known(row["before"])]
        told += [self._repair(row) for row in rows if row["clear"]]
        unclear = [row["group"] for row in rows if not row["clear"]]
        if unclear:
            told.append(
                f"The error before correction could be chance for {listed(unclear)} (5 % level for all "
                "protected groups together), so that no share of it is given."
            )
        return told + [self._worse(row) for row in rows if _grows(row)]

    @property
    def _columns(self) -> str:
        return listed(list(self.columns))

    def _repair(self, row: dict[str, Any]) -> str:
        shared = known(row["removed"])
        told = f"{row['group']}: observed minus predicted {_gap(row, 'before')}."
        how = "the groups found" if self.by == "groups" else "the score as a whole"
        if self.by == "nothing":
            told += " Nothing was found to correct for, so that nothing of it is removed."
        elif row["after"] == row["before"]:
            told += f" A correction for {how} does not change it."
        else:
            told += f" Among new people, a correction for {how} would leave {_left(row, 'after')}."
        told += f" A correction that reads {self._columns} would leave {_left(row, 'reading')}."
        return told if shared else f"{told} The error is too uncertain to say which share is removed."

    def _worse(self, row: dict[str, Any]) -> str:
        sure = row["after_low"] > PRINTED or row["after_high"] < -PRINTED
        return (
            f"{row['group']}: the correction takes predicted further from observed rates, from "
            f"{_gap(row, 'before')} to {_gap(row, 'after')}"
            + ("." if sure else "; what is left could be chance.")
        )


def _gap(row: dict[str, Any], name: str) -> str:
    low, high = (IN_SENTENCE.points(row[f"{name}_{end}"]) for end in ("low", "high"))
    return f"{IN_SENTENCE.points(row[name])} points (95 % CI {low} to {high})"


def _left(row: dict[str, Any], name: str) -> str:
    """The mean size of the error left among new people and the share removed, or the gap if that is all."""
    removed, left = ("removed", "left") if name == "after" else ("removed_reading", "left_reading")
    if not known(row[removed]):
        return _gap(row, name)
    size = IN_SENTENCE.decimal(100 * row[left], 1)
    return f"an error of about {size} points; about {_share(row, removed)} is removed"


def _share(row: dict[str, Any], name: str) -> str:
    share, low, high = (round(100 * row[key]) + 0 for key in (name, f"{name}_low", f"{name}_high"))
    return f"{share} % (95 % CI {low} to {high} %)"


def _grows(row: dict[str, Any]) -> bool:
    """Whether the observed gap becomes larger by something that shows in print."""
    return bool(abs(row["after"]) > abs(row["before"]) + PRINTED)


def measure_repairs(protected: ProtectedGroups, result: Outcome, people: People) -> Protection:
    """Correct for the groups that were found, and for the protected groups themselves, and compare."""
    found = [group.rows for group in result.groups]
    by = "groups" if found else "curve" if result.whole_found else "nothing"
    after, follows = people.raw, np.zeros(len(protected.rows))
    if by != "nothing":
        _, after = correct_for(people, found, whole=result.whole_found)
        follows = Correcting(people, found, whole=result.whole_found).followed(protected.rows, after)
    _, reading = correct_for(people, list(protected.rows), whole=True)
    follows_reading = Correcting(people, list(protected.rows), whole=True).followed(protected.rows, reading)
    rows, bases, limit = [], [], clear_limit(len(protected.rows))
    for name, own, *followed in zip(protected.names, protected.rows, follows, follows_reading):
        row, basis = _measured(people, own, (people.raw, after, reading), followed, limit)
        rows.append({"group": name, **row})
        bases.append(basis)
    return Protection(pd.DataFrame(rows), protected.columns, by, tuple(bases))


def _measured(
    people: People,
    rows: IntArray,
    scores: tuple[FloatArray, ...],
    followed: list[float],
    limit: float,
) -> tuple[dict[str, Any], RepairBasis]:
    """One row of the table, and what it rests on."""
    weight, y = people.weight[rows], people.outcome[rows]
    total = float(weight.sum())
    gaps = [float(weight @ (y - p[rows])) / total for p in scores]
    counts = OutcomeCounts.of(people, rows)
    variance = _variance(people, rows, people.raw) / total**2
    scale = (counts.people.sum() / total) ** 2 * total**2
    basis = RepairBasis(
        counts, float(variance * scale / binomial_variance(*counts.people)), *map(float, followed)
    )
    row = {
        "people": round(total) if not people.survey else total,
        "observed": float(weight @ y) / total,
        "predicted": float(weight @ people.raw[rows]) / total,
        **repair(gaps, float(np.sqrt(variance)), (basis.followed, basis.followed_reading), limit),
    }
    return row, basis


def _variance(people: People, rows: IntArray, score: FloatArray) -> float:
    """The variance of observed minus expected events of some rows."""
    weight = people.weight[rows]
    residual = people.outcome[rows] - score[rows]
    residual = residual - weight @ residual / weight.sum()
    mean_weight = float(weight @ weight / weight.sum()) if people.survey else 1.0
    if people.cluster is not None:
        squares = float(np.sum(np.bincount(people.cluster[rows], weight * residual) ** 2))
    else:
        squares = float(np.sum((weight if people.survey else 1.0) * weight * residual**2))
    return squares + LEAST_VARIANCE * mean_weight


def clear_limit(n_groups: int) -> float:
    """Standard errors beyond which the error of one of some groups is more than chance explains.

    >>> round(clear_limit(3), 2)
    2.39
    """
    return float(special.ndtri(1 - LEVEL / (2 * max(n_groups, 1))))


def repair(
    gaps: Sequence[float], error: float, followed: tuple[float, float], limit: float
) -> dict[str, Any]:
    """Gaps with intervals, sizes of errors that are left, and shares removed.

    `gaps` are those before, after and with a correction that reads the group; `error` is the standard error
    of each of them: they have the chance of the same outcomes. Errors within `limit` could be chance.

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
    made: dict[str, Any] = {}
    for name, gap in (("before", before), ("after", after), ("reading", reading)):
        made |= {name: gap, f"{name}_low": gap - Z * error, f"{name}_high": gap + Z * error}
    for name, gap, own in (("", after, followed[0]), ("_reading", reading, followed[1])):
        made[f"left{name}"] = _size(gap, error, own)
    told = clear and abs(before) > SHARED * error
    for name, gap, own in (("removed", after, followed[0]), ("removed_reading", reading, followed[1])):
        shares = _shares(before, gap, error, own) if told else (float("nan"),) * 3
        made |= dict(zip((name, f"{name}_low", f"{name}_high"), shares))
    return made | {"clear": bool(clear)}


def _size(gap: float, error: float, followed: float) -> float:
    """The mean size of the error among new people.

    The part of the group's chance that the correction has followed varies the error from fit to fit; the rest
    varies the observed gap only. The error is taken as normal, with what is left of the gap as its mean.
    """
    mean = float(np.sqrt(max(gap**2 - (1 - followed) * error**2, 0.0)))
    spread = float(np.sqrt(followed)) * error
    if spread < 1e-12:
        return mean
    z = mean / spread
    return float(spread * np.sqrt(2 / np.pi) * np.exp(-(z**2) / 2) + mean * (1 - 2 * special.ndtr(-z)))


def _shares(before: float, after: float, error: float, followed: float) -> tuple[float, float, float]:
    """The share removed, and all shares that the interval of the group's chance allows, at least -1.

    Both errors are the gaps less the same chance. Shares are told of large gaps only, and chance made these
    larger, which the interval allows for.
    """
    if after == before:
        return 0.0, 0.0, 0.0
    low, high = after_selection(before / error, SHARED)
    middle = after_selection(before / error, SHARED, confidence=0.0)[0]
    chance = np.append(before - np.linspace(low, high, 401) * error, after)
    chance = chance[(chance >= before - high * error) & (chance <= before - low * error)]
    errors = np.maximum(np.abs(before - chance), 1e-12)
    all_shares = np.maximum(1 - np.abs(after - chance) / errors, -1.0)
    lowest, highest = float(all_shares.min()), float(all_shares.max())
    own = before - middle * error
    left = _size(after - own, error, followed) if followed else abs(after - own)
    share = 1 - left / max(abs(middle) * error, 1e-12)
    return min(max(share, lowest), highest), lowest, highest

"""Rounding: how far the losses of rounded scores can be from those of the scores themselves.

A score rounded to a grid of step h has moved by at most h / 2. That moves the mean score of a category by
no more, but a person may also have come into the neighbouring bin. Who may have is known: those whose
rounded score stands within h / 2 of an edge. If a category counts N people, `leave` of whom may belong
elsewhere while `enter` of its neighbours may belong to it, its gap is known up to

    (leave + enter) * (1 + |gap|) / (N - leave) + h / 2

and its outcome rate up to (leave + enter) / (N - leave): every person added or removed moves a mean by at
most the distance to it, divided by how many remain. Categories that fall under the size rule, or come over
it, when such people change sides, are taken into account. Edges are held fixed; those of quantile bins come
from the rounded scores.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from propcal.core.atoms import Atoms
from propcal.core.categories import Categories
from propcal.core.grid import UNIT, FloatArray
from propcal.core.groups.collection import membership

Interval = tuple[float, float]


@dataclass(frozen=True)
class LossBounds:
    """Between which values the losses of the scores before rounding lie, on the same categories.

    `people` counts those whose bin is not certain, in share of all.
    """

    resolution: float
    mc: Interval
    pmc: Interval
    dc: Interval
    people: float


def loss_bounds(
    atoms: Atoms, table: Categories, *, rho: float, min_share: float, min_people: int = 1
) -> LossBounds:
    """Bounds for atoms whose raw scores were rounded, and the table of their categories."""
    uncertain, leave, enter = _movers(atoms, table)
    half = 2.0 ** -(atoms.resolution_bits + 1)
    stay = table.weight - leave
    with np.errstate(divide="ignore", invalid="ignore"):
        moved = np.where(stay > 0, (leave + enter) / stay, np.inf)
    gap = np.nan_to_num(np.abs(table.gap))
    rate = np.nan_to_num(table.outcome_rate)
    off = np.minimum(moved * (1 + gap) + half, 1.0)
    rate_off = np.minimum(moved, 1.0)
    least, floor = np.maximum(rate - rate_off, rho), np.maximum(rate, rho)
    pmc, pmc_off = gap / floor, (off + gap * rate_off / floor) / least
    total = float(np.sum(atoms.weight, dtype=np.float64))
    certain = table.eligible & _counts(table, -leave, total, min_share, min_people)
    possible = table.eligible | _counts(table, enter, total, min_share, min_people)
    log_rate, log_off = np.log(floor), np.log1p(rate_off / least)
    return LossBounds(
        resolution=atoms.resolution,
        mc=_largest(gap, off, certain, possible, most=1.0),
        pmc=_largest(pmc, pmc_off, certain, possible, most=1.0 / rho),
        dc=_widest(log_rate, log_off, certain, possible, most=float(-np.log(rho))),
        people=uncertain / total,
    )


def _movers(atoms: Atoms, table: Categories) -> tuple[float, FloatArray, FloatArray]:
    """Weight whose bin is not certain; of each category who may leave it, and who may come from outside."""
    bins = table.bins
    half = 1 << max(31 - atoms.resolution_bits, 0)
    low = bins.index(np.maximum(atoms.score - half, 0))
    high = bins.index(np.minimum(atoms.score + half, UNIT))
    unsure = np.flatnonzero(low < high) if atoms.resolution_bits < 32 else np.zeros(0, dtype=np.int64)
    own, weight = bins.index(atoms.score[unsure]), atoms.weight[unsure].astype(np.float64)
    pattern = atoms.pattern_index()[unsure]
    leave, enter = (np.zeros((len(atoms.patterns), len(bins))) for _ in range(2))
    np.add.at(leave, (pattern, own), weight)
    for b in range(len(bins)):
        may = (low[unsure] <= b) & (b <= high[unsure]) & (own != b)
        np.add.at(enter, (pattern[may], np.full(int(may.sum()), b)), weight[may])
    inside = membership(table.collection.groups, atoms.patterns).astype(np.float64)
    return float(weight.sum()), inside @ leave, inside @ enter


def _counts(table: Categories, change: Any, total: float, min_share: float, min_people: int) -> Any:
    """Which categories would count if so much weight came or went (a person weighs one, or the average)."""
    with np.errstate(divide="ignore", invalid="ignore"):
        heads = np.where(table.weight > 0, table.people / table.weight, 1.0)
    people = table.people + change * heads
    return (people >= max(min_people, 1)) & ((table.weight + change) / total >= min_share)


def _largest(value: Any, off: Any, certain: Any, possible: Any, *, most: float) -> Interval:
    """The interval of a maximum of values that are each known up to `off`."""
    low = float(np.max((value - off)[certain], initial=0.0))
    return low, min(float(np.max((value + off)[possible], initial=0.0)), most)


def _widest(value: Any, off: Any, certain: Any, possible: Any, *, most: float) -> Interval:
    """The interval of the largest difference within a bin (a column)."""
    low = high = 0.0
    for b in range(value.shape[1]):
        sure, may = certain[:, b], possible[:, b]
        if sure.sum() > 1:
            low = max(low, float((value - off)[sure, b].max() - (value + off)[sure, b].min()))
        if may.sum() > 1:
            high = max(high, float((value + off)[may, b].max() - (value - off)[may, b].min()))
    return low, min(high, most)

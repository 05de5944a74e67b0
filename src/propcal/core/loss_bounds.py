"""Bounds on how much rounding the scores can change the losses.

Rounding to a grid of step h moves a score by at most h / 2. The mean score of a
category moves by no more than that, but a person may also move to the neighbouring bin.
This can only happen to people whose rounded score is within h / 2 of an edge. If a
category has N people, of whom `leave` may belong elsewhere, while `enter` people from
neighbouring bins may belong to it, its gap is known to within

    (leave + enter) * (1 + |gap|) / (N - leave) + h / 2

and its outcome rate to within (leave + enter) / (N - leave): each person added or
removed moves a mean by at most their distance from it, divided by the number who
remain. The bounds allow for categories that become too small or large enough to be
included when people move. Edges are held fixed; those of quantile bins come from the
rounded scores.

Shared atoms are merged scores: the people of each lie between its neighbours, which
takes the place of h / 2 where people may move, while the mean of a cell is kept up to
its rounding.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from propcal.core.atoms import Atoms
from propcal.core.categories import Categories
from propcal.core.grid import (
    UNIT,
    BoolArray,
    FloatArray,
    IntArray,
    from_grid,
    significant,
)
from propcal.core.groups import membership

Interval = tuple[float, float]
SCORE_BITS = 10  # binary digits of the mean score of a shared cell
# the mean of a cell with fewer different scores is coarse, where many people have the
# same score
FEW = 40
# a coarse mean does not tell the people of a block apart; it has at least so many
BLOCK = 16


@dataclass(frozen=True)
class LossBounds:
    """Lower and upper bounds of the losses of the unrounded scores, for the same
    categories.

    `people` is the share of people whose bin is uncertain.
    """

    resolution: float
    mc: Interval
    pmc: Interval
    dc: Interval
    people: float


def loss_bounds(
    atoms: Atoms,
    table: Categories,
    *,
    rho: float,
    min_share: float,
    min_people: int = 1,
) -> LossBounds:
    """The bounds for atoms whose scores were rounded, and the table of their
    categories.
    """
    uncertain, leave, enter = _movers(atoms, table)
    half = 2.0 ** -((atoms.resolution_bits if atoms.shared is None else SCORE_BITS) + 1)
    stay = table.weight - leave
    with np.errstate(divide="ignore", invalid="ignore"):
        moved = np.where(stay > 0, (leave + enter) / stay, np.inf)
    gap = np.nan_to_num(np.abs(table.gap))
    rate = np.nan_to_num(table.outcome_rate)
    off = np.minimum(moved * (1 + gap) + half, 1.0)
    rate_off = np.minimum(moved, 1.0)
    least = np.maximum(rate - rate_off, rho)
    floor = np.maximum(rate, rho)
    pmc = gap / floor
    pmc_off = (off + gap * rate_off / floor) / least
    total = float(np.sum(atoms.weight, dtype=np.float64))
    certain = table.eligible & _counts(table, -leave, total, min_share, min_people)
    possible = table.eligible | _counts(table, enter, total, min_share, min_people)
    log_rate = np.log(floor)
    log_off = np.log1p(rate_off / least)
    return LossBounds(
        resolution=atoms.resolution,
        mc=_largest(gap, off, certain, possible, most=1.0),
        pmc=_largest(pmc, pmc_off, certain, possible, most=1.0 / rho),
        dc=_widest(log_rate, log_off, certain, possible, most=float(-np.log(rho))),
        people=uncertain / total,
    )


def _movers(atoms: Atoms, table: Categories) -> tuple[float, FloatArray, FloatArray]:
    """The weight whose bin is uncertain, and the weight that may leave or enter each
    category.
    """
    bins = table.bins
    if atoms.shared is None:
        half = 1 << max(31 - atoms.resolution_bits, 0)
        ends = np.maximum(atoms.score - half, 0), np.minimum(atoms.score + half, UNIT)
    else:
        ends = score_ranges(atoms)
    low, high = bins.index(ends[0]), bins.index(ends[1])
    exact = atoms.resolution_bits == 32 and atoms.shared is None
    if exact:
        unsure = np.zeros(0, dtype=np.int64)
    else:
        unsure = np.flatnonzero(low < high)
    own = bins.index(atoms.score[unsure])
    weight = atoms.weight[unsure].astype(np.float64)
    pattern = atoms.pattern_index()[unsure]
    leave, enter = (np.zeros((len(atoms.patterns), len(bins))) for _ in range(2))
    np.add.at(leave, (pattern, own), weight)
    for b in range(len(bins)):
        may = (low[unsure] <= b) & (b <= high[unsure]) & (own != b)
        np.add.at(enter, (pattern[may], np.full(int(may.sum()), b)), weight[may])
    inside = membership(table.collection.groups, atoms.patterns).astype(np.float64)
    return float(weight.sum()), inside @ leave, inside @ enter


def _counts(
    table: Categories, change: Any, total: float, min_share: float, min_people: int
) -> Any:
    """Which categories would be large enough if their weight changed by `change`.

    Each person has weight one, or the average weight.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        heads = np.where(table.weight > 0, table.people / table.weight, 1.0)
    people = table.people + change * heads
    return (people >= max(min_people, 1)) & (
        (table.weight + change) / total >= min_share
    )


def _largest(
    value: Any, off: Any, certain: Any, possible: Any, *, most: float
) -> Interval:
    """Bounds of the maximum of values that are each known to within `off`."""
    low = float(np.max((value - off)[certain], initial=0.0))
    return low, min(float(np.max((value + off)[possible], initial=0.0)), most)


def _widest(
    value: Any, off: Any, certain: Any, possible: Any, *, most: float
) -> Interval:
    """Bounds of the largest difference within a bin (a column)."""
    low = high = 0.0
    for b in range(value.shape[1]):
        sure = certain[:, b]
        may = possible[:, b]
        if sure.sum() > 1:
            low = max(
                low, float((value - off)[sure, b].max() - (value + off)[sure, b].min())
            )
        if may.sum() > 1:
            high = max(
                high, float((value + off)[may, b].max() - (value - off)[may, b].min())
            )
    return low, min(high, most)


def score_ranges(atoms: Atoms) -> tuple[IntArray, IntArray]:
    """Between which scores the people of each shared cell are, in units.

    Cells of one pattern do not overlap, so that its people lie between the means of its
    neighbours. Patterns of different files are kept apart by the key of the share.
    """
    first, last = atoms.starts[:-1], atoms.starts[1:] - 1
    low = np.empty_like(atoms.score)
    high = np.empty_like(atoms.score)
    low[1:] = atoms.score[:-1]
    high[:-1] = atoms.score[1:]
    low[first] = 0
    high[last] = UNIT
    slack = (
        np.minimum(atoms.score, UNIT - atoms.score) >> (SCORE_BITS - 1)
    ) + 1  # means are rounded
    return np.maximum(low - slack, 0), np.minimum(high + slack, UNIT)


def are_coarse(atoms: Atoms) -> BoolArray:
    """Which shared cells have a coarse mean: one unit more than a rounded score."""
    return np.asarray(significant(atoms.score, SCORE_BITS) != atoms.score)


def sum_off(atoms: Atoms) -> float:
    """How far the sum of all scores can be off because mean scores are coarse; 0 if
    none is.

    Where a score ends is known to the block, so that at most the people of one block
    count at another score of their cell. The scores of cells of one pattern do not
    overlap: each gap between two means counts once.
    """
    low, high = score_ranges(atoms)
    blocks = np.maximum((atoms.people - FEW) // BLOCK, 1)
    people = np.where(
        are_coarse(atoms), np.minimum(atoms.people, BLOCK * (1 + 1 / blocks)), 0.0
    )
    first, last = atoms.starts[:-1], atoms.starts[1:] - 1
    after = np.append(people[1:], 0.0)
    after[last] = 0.0
    above = np.sum(from_grid(high - atoms.score) * np.maximum(people, after))
    return float(above + np.sum(from_grid(atoms.score - low)[first] * people[first]))

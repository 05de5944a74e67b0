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
# a coarse mean does not distinguish the people of a block; it has at least so many
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
    bits = atoms.resolution_bits if atoms.shared is None else SCORE_BITS
    half_step = 2.0 ** -(bits + 1)
    stay = table.weight - leave
    with np.errstate(divide="ignore", invalid="ignore"):
        moved = np.where(stay > 0, (leave + enter) / stay, np.inf)

    # each number, and by how much it may be off
    gap = np.nan_to_num(np.abs(table.gap))
    gap_off = np.minimum(moved * (1 + gap) + half_step, 1.0)
    rate = np.nan_to_num(table.outcome_rate)
    rate_off = np.minimum(moved, 1.0)
    floored = np.maximum(rate, rho)
    lowest_floored = np.maximum(rate - rate_off, rho)
    pmc = gap / floored
    pmc_off = (gap_off + gap * rate_off / floored) / lowest_floored
    log_rate = np.log(floored)
    log_rate_off = np.log1p(rate_off / lowest_floored)

    total = float(np.sum(atoms.weight, dtype=np.float64))
    certain = _large_enough(table, -leave, total, min_share, min_people)
    certain = certain & table.eligible
    possible = _large_enough(table, enter, total, min_share, min_people)
    possible = possible | table.eligible
    log_rho = float(np.log(rho))
    return LossBounds(
        resolution=atoms.resolution,
        mc=_largest(gap, gap_off, certain, possible, most=1.0),
        pmc=_largest(pmc, pmc_off, certain, possible, most=1.0 / rho),
        dc=_widest(log_rate, log_rate_off, certain, possible, most=-log_rho),
        people=uncertain / total,
    )


def _movers(atoms: Atoms, table: Categories) -> tuple[float, FloatArray, FloatArray]:
    """The weight whose bin is uncertain, and the weight that may leave or enter each
    category.
    """
    bins = table.bins
    lowest, highest = _possible_scores(atoms)
    low = bins.index(lowest)
    high = bins.index(highest)
    unsure = np.flatnonzero(low < high)
    if atoms.resolution_bits == 32 and atoms.shared is None:
        unsure = unsure[:0]  # scores are exact

    own = bins.index(atoms.score[unsure])
    weight = atoms.weight[unsure].astype(np.float64)
    pattern = atoms.pattern_index()[unsure]
    leave = np.zeros((len(atoms.patterns), len(bins)))
    enter = np.zeros((len(atoms.patterns), len(bins)))
    np.add.at(leave, (pattern, own), weight)
    for b in range(len(bins)):
        reaches = (low[unsure] <= b) & (b <= high[unsure])
        may_enter = reaches & (own != b)
        np.add.at(enter[:, b], pattern[may_enter], weight[may_enter])
    inside = membership(table.collection.groups, atoms.patterns).astype(np.float64)
    return float(weight.sum()), inside @ leave, inside @ enter


def _possible_scores(atoms: Atoms) -> tuple[IntArray, IntArray]:
    """The lowest and highest scores that the people of each atom may have, in units."""
    if atoms.shared is not None:
        return score_ranges(atoms)
    half_step = 1 << max(31 - atoms.resolution_bits, 0)
    lowest = np.maximum(atoms.score - half_step, 0)
    return lowest, np.minimum(atoms.score + half_step, UNIT)


def _large_enough(
    table: Categories,
    change: FloatArray,
    total: float,
    min_share: float,
    min_people: int,
) -> Any:
    """Which categories would be large enough if their weight changed by `change`.

    Each person has weight one, or the average weight.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        per_weight = np.where(table.weight > 0, table.people / table.weight, 1.0)
    people = table.people + change * per_weight
    share = (table.weight + change) / total
    return (people >= max(min_people, 1)) & (share >= min_share)


def _largest(
    value: Any, off: Any, certain: Any, possible: Any, *, most: float
) -> Interval:
    """Bounds of the maximum of values that are each known to within `off`."""
    low = float(np.max((value - off)[certain], initial=0.0))
    high = float(np.max((value + off)[possible], initial=0.0))
    return low, min(high, most)


def _widest(
    value: Any, off: Any, certain: Any, possible: Any, *, most: float
) -> Interval:
    """Bounds of the largest difference within a bin (a column)."""
    lowest = value - off
    highest = value + off
    low = 0.0
    high = 0.0
    for b in range(value.shape[1]):
        sure = certain[:, b]
        if sure.sum() > 1:
            apart = lowest[sure, b].max() - highest[sure, b].min()
            low = max(low, float(apart))
        may = possible[:, b]
        if may.sum() > 1:
            apart = highest[may, b].max() - lowest[may, b].min()
            high = max(high, float(apart))
    return low, min(high, most)


def score_ranges(atoms: Atoms) -> tuple[IntArray, IntArray]:
    """The lowest and highest scores of the people of each shared cell, in units.

    Cells of one pattern do not overlap, so that its people lie between the means of its
    neighbours. Patterns of different files are kept apart by the key of the share.
    """
    first = atoms.starts[:-1]
    last = atoms.starts[1:] - 1
    low = np.empty_like(atoms.score)
    low[1:] = atoms.score[:-1]
    low[first] = 0
    high = np.empty_like(atoms.score)
    high[:-1] = atoms.score[1:]
    high[last] = UNIT
    # means are rounded
    smaller_risk = np.minimum(atoms.score, UNIT - atoms.score)
    slack = (smaller_risk >> (SCORE_BITS - 1)) + 1
    return np.maximum(low - slack, 0), np.minimum(high + slack, UNIT)


def are_coarse(atoms: Atoms) -> BoolArray:
    """Which shared cells have a coarse mean: one unit more than a rounded score."""
    return np.asarray(significant(atoms.score, SCORE_BITS) != atoms.score)


def sum_off(atoms: Atoms) -> float:
    """How far the sum of all scores can be off because mean scores are coarse; 0 if
    none is.

    In a cell with a coarse mean, the place where one score ends and the next begins is
    known up to one block of people, so at most the people of one block are counted at
    another score. Cells of one pattern do not overlap: each gap between two means
    counts once.
    """
    low, high = score_ranges(atoms)
    first = atoms.starts[:-1]
    last = atoms.starts[1:] - 1
    blocks = np.maximum((atoms.people - FEW) // BLOCK, 1)
    people_of_block = np.minimum(atoms.people, BLOCK * (1 + 1 / blocks))
    people = np.where(are_coarse(atoms), people_of_block, 0.0)
    of_next_cell = np.append(people[1:], 0.0)
    of_next_cell[last] = 0.0
    gap_above = from_grid(high - atoms.score)
    gap_below = from_grid(atoms.score - low)[first]
    above = np.sum(gap_above * np.maximum(people, of_next_cell))
    return float(above + np.sum(gap_below * people[first]))

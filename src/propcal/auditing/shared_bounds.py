"""Shared atoms: how far the numbers of an audit can be from those of the exact scores."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from propcal.core.atoms import Atoms
from propcal.core.grid import FloatArray, from_grid
from propcal.core.loss_bounds import SCORE_BITS, LossBounds, score_ranges, sum_off

RATIO = 2.0 ** -(SCORE_BITS - 1)  # relative error of any O/E ratio, if no mean score is coarse
MOST_UNSURE = 0.1  # share of people whose risk range may be uncertain for losses to be of use


def ranges_unsure(losses: LossBounds | None) -> bool:
    """Whether shared atoms leave the risk range of too many people uncertain for cells and losses."""
    return losses is not None and losses.people > MOST_UNSURE


class SharedBounds(NamedTuple):
    """How far measures of everybody can be from those of the exact scores.

    `ratio` is the relative error of the O/E ratio, infinite if there is no limit; `auroc` and `brier` are the
    lowest and highest value.
    """

    ratio: float
    auroc: tuple[float, float]
    brier: tuple[float, float]


def shared_bounds(atoms: Atoms) -> SharedBounds:
    """Bounds for everybody, from the range that the people of each cell lie in."""
    score = from_grid(atoms.score)
    low, high = (from_grid(end) for end in score_ranges(atoms))
    reach = np.maximum(score - low, high - score)
    positives = atoms.positives.astype(np.float64)
    negatives = atoms.people - positives
    people = float(atoms.n_people)
    value = float(np.sum(positives * (1 - score) ** 2 + negatives * score**2)) / people
    # moving a score by d changes (s - y)^2 by 2 d (s - y) + d^2; the moves of a cell add up to about 0
    rounding = float(np.sum(2 * atoms.people * score * (1 - score) * 2.0**-SCORE_BITS)) / people
    shift = float(np.sum(2 * reach * np.minimum(positives, negatives))) / people + rounding
    spread = (
        float(np.sum(atoms.people * (high - score) * (score - low))) / people
    )  # the most that a mean allows
    coarse, expected = sum_off(atoms), float(np.sum(atoms.people * score))
    shift, spread = shift + 2 * coarse / people, spread + coarse * float(reach.max()) / people
    return SharedBounds(
        RATIO + coarse / (expected - coarse) if coarse < expected else float("inf"),
        (_pairs(low, positives, high, negatives), _pairs(high, positives, low, negatives)),
        (max(value - shift, 0.0), min(value + shift + spread, 1.0)),
    )


def _pairs(high: FloatArray, positives: FloatArray, low: FloatArray, negatives: FloatArray) -> float:
    """Share of pairs in which the person with the outcome has the higher score; ties count half."""
    total = positives.sum() * negatives.sum()
    if total <= 0:
        return float("nan")
    order = np.argsort(low, kind="stable")
    reached = np.concatenate([[0.0], np.cumsum(negatives[order])])
    below = reached[np.searchsorted(low[order], high, side="left")]
    upto = reached[np.searchsorted(low[order], high, side="right")]
    return float(np.sum(positives * (below + upto) / 2) / total)

"""Shared atoms: how far the numbers of an audit can be from those of the exact scores."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from propcal.auditing.findings import Findings
from propcal.auditing.measure_names import LOSSES, MEASURE_NAMES
from propcal.core.atoms import Atoms
from propcal.core.grid import FloatArray, from_grid
from propcal.core.rounding import LossBounds
from propcal.core.shared_atoms import SCORE_BITS, score_ranges
from propcal.identity import Identity
from propcal.numbers import IN_TEXT, plural, rough_percent

RATIO = 2.0 ** -(SCORE_BITS - 1)  # relative error of an O/E ratio
# of benchmarks/sites.py
MEASURED = (
    "In simulated sites of 6,000 to 14,000 people, AUROCs from shared atoms were up to 0.02 too low and "
    "slopes up to 0.03 off; with fewer people, rare events or many scores near 1 it is more."
)
MOST_UNSURE = 0.1  # share of people whose risk range may be uncertain for losses to be of use


def ranges_unsure(losses: LossBounds | None) -> bool:
    """Whether shared atoms leave the risk range of too many people uncertain for cells and losses."""
    return losses is not None and losses.people > MOST_UNSURE


class SharedBounds(NamedTuple):
    """How far measures of everybody can be from those of the exact scores.

    `ratio` is the relative error of O/E ratios; `auroc` and `brier` are the lowest and highest value.
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
    return SharedBounds(
        RATIO,
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


def shared_site_notes(parts: Mapping[str, Atoms], aurocs: Iterable[Any]) -> list[str]:
    """What a reader of measures of sites must know about atoms that were shared."""
    fewest = [one.shared.fewest for one in parts.values() if one.shared is not None]
    if not fewest:
        return []
    higher = lower = 0.0
    for one, value in zip(parts.values(), aurocs):
        if one.shared is not None and value == value:
            low, high = shared_bounds(one).auroc
            higher, lower = max(higher, high - value), max(lower, value - low)
    return [
        f"These are shared atoms: scores were merged, so that every cell has at least {min(fewest)} people "
        f"with the outcome and {min(fewest)} without it. With exact scores, O/E ratios would differ by at "
        f"most {100 * RATIO:.1f} %, and the AUROC of a site would be at most {higher:.2f} higher and "
        f"{lower:.2f} lower; these limits hold for any data. There is no such limit for intercept and slope. "
        f"{MEASURED}"
    ]


def shared_notes(found: Findings, atoms: Atoms, identity: Identity) -> list[str]:
    """What was merged, and what that can have changed."""
    shared = atoms.shared
    assert shared is not None
    notes = [
        f"These are shared atoms: scores were merged, so that every cell has at least {shared.fewest} "
        f"{identity.unit} with the outcome and {shared.fewest} without it."
    ]
    for name, n in shared.folded.items():
        notes.append(
            f'{name}: {plural(n, "rare level")} {"was" if n == 1 else "were"} folded into "other levels".'
        )
    if found.protected or found.fitted_on_these is not None:
        return notes
    b, losses = shared_bounds(atoms), found.shared_losses
    assert losses is not None
    told = ", ".join(
        f"{MEASURE_NAMES[loss].name} {IN_TEXT.interval(low, high, 3)}"
        for loss, (low, high) in zip(LOSSES, (losses.mc, losses.pmc, losses.dc))
    )
    if ranges_unsure(losses):
        told = "cells and losses could differ much from the exact ones; rely on the groups"
    else:
        told = f"the losses would be: {told}"
    notes.append(
        f"With exact scores, O/E ratios would differ by at most {100 * b.ratio:.1f} %, AUROC would be from "
        f"{IN_TEXT.interval(*b.auroc, 3)} and the Brier score from {IN_TEXT.interval(*b.brier, 3)}. For "
        f"{rough_percent(losses.people)} of {identity.unit} the risk range is uncertain; {told}."
    )
    return notes

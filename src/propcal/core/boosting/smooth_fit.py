"""Learns the smooth recalibration: a random-effects logistic model, fitted to a few thousand cells.

The model corrects the log-odds of a score for everybody, for each group and for each intersection by a
constant, a slope, a curve and local bumps. What groups share is learned from everybody; a group only adds its
departure, and small groups have fewer columns. For each set of attributes, every kind of effect has one
variance, estimated by marginal likelihood, so that effects without support in the data shrink to zero. Before
that, tests of the hypothesis that the score is perfect decide whether to recalibrate at all (`FoundErrors`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from propcal.core.atoms import Atoms
from propcal.core.boosting.found_errors import FoundErrors
from propcal.core.boosting.log_odds_cells import (
    BUMPS,
    CONSTANT,
    CURVE,
    SLOPE,
    Basis,
    LogOddsCells,
    fine_cells,
)
from propcal.core.boosting.random_effects import PRIOR, Effects, fit_effects
from propcal.core.boosting.smooth_terms import FEWEST_PEOPLE, smooth_terms
from propcal.core.correction.smooth_map import KNOTS_PER_UNIT, MOST_SHIFT, N_KNOTS, SHIFT_UNIT, SmoothStart
from propcal.core.grid import UNIT, FloatArray, to_grid
from propcal.core.groups.collection import Collection, Group
from propcal.core.logistic import expit
from propcal.numbers import plural

BUMP_LEVELS = (20,)
FEWEST_FOR_SLOPE, FEWEST_FOR_CURVE, FEWEST_FOR_BUMPS = 300, 1500, 5000  # people of a group
MOST_ROWS_FOR_BUMPS = 1000  # combinations of terms, above which groups have no bumps: they would take minutes
PRIOR_OF_BUMPS = 1.0
# The smallest variance of the overall level and slope if a test found them wrong: they are two numbers, which
# hardly need to be shrunk. Where everything would be shrunk to zero although tests found an error, a second
# attempt keeps every variance above the other number.
FOUND_OVERALL, FOUND = 1.0, 0.01


@dataclass(frozen=True, eq=False)
class Learned:
    """A smooth recalibration, or the reason why there is none."""

    start: SmoothStart | None
    notes: tuple[str, ...] = ()


def learn_start(atoms: Atoms, collection: Collection, evidence: FoundErrors) -> Learned:
    """Learn a smooth recalibration, if tests found the score miscalibrated."""
    people = float(atoms.weight[(atoms.score > 0) & (atoms.score < UNIT)].sum())
    people *= float(atoms.weight.sum()) / float(atoms.weight_sq.sum())  # survey weights: effective numbers
    if people < FEWEST_PEOPLE:
        few = (
            f"not recalibrated: this needs at least {FEWEST_PEOPLE} people with scores between 0 and 1, "
            f"and there are {people:.0f}"
        )
        return Learned(None, (few,))
    if not evidence.found:
        return Learned(None)
    terms, notes = smooth_terms(collection)
    cells = fine_cells(atoms, terms)
    basis = Basis(cells, BUMP_LEVELS)
    columns = basis(cells.log_odds)
    for everything in (False, True):  # the second time, nothing is shrunk to zero
        effects = fit_effects(cells, columns, _effects(terms, cells, basis, evidence, everything=everything))
        if effects is None:
            return Learned(None, (*notes, "not recalibrated: the smooth curve did not converge"))
        start = _tabulated(terms, effects, basis)
        if start is not None and _better(start, terms, cells):
            return Learned(start, (*notes, *_notes(basis, atoms)))
    return Learned(None, (*notes, "not recalibrated: the smooth curve did not improve the fit"))


def _notes(basis: Basis, atoms: Atoms) -> tuple[str, ...]:
    """Where the recalibration had to do without a slope or a curve, and whom it leaves out."""
    notes: tuple[str, ...] = ()
    if SLOPE not in basis.kinds:
        notes = ("all scores are equal, so each group is recalibrated by a constant shift only",)
    elif CURVE not in basis.kinds:
        notes = ("there are few distinct scores, so the recalibration is a straight line in log-odds",)
    certain = int(atoms.people[(atoms.score == 0) | (atoms.score == UNIT)].sum())
    if certain:
        notes = (*notes, f"the recalibration leaves {plural(certain, 'score')} of exactly 0 or 1 unchanged")
    return notes


def _effects(
    terms: tuple[Group, ...], cells: LogOddsCells, basis: Basis, evidence: FoundErrors, *, everything: bool
) -> Effects:
    """The columns of each term, and the variance of each effect."""
    by_row = np.add.reduceat(cells.n, cells.starts[:-1])
    people = cells.members.T @ by_row
    bumps = len(cells.members) <= MOST_ROWS_FOR_BUMPS
    n_columns = np.array([_n_columns(basis, n, first=t == 0, bumps=bumps) for t, n in enumerate(people)])
    sets: dict[tuple[str, ...], int] = {}
    number = [sets.setdefault(tuple(a for a, _ in term.conditions), len(sets)) for term in terms]
    n_kinds = int(basis.kinds.max()) + 1
    key = np.concatenate([number[t] * n_kinds + basis.kinds[:n] for t, n in enumerate(n_columns)])
    found, component = np.unique(key, return_inverse=True)
    least = np.zeros(len(found))
    if everything:
        least[:] = FOUND
    if evidence.overall:
        least[(found == CONSTANT) | (found == SLOPE)] = FOUND_OVERALL  # everybody is the first set
    prior = np.where(found % n_kinds >= BUMPS, PRIOR_OF_BUMPS, PRIOR)
    return Effects(n_columns, component.reshape(-1), least, prior)


def _n_columns(basis: Basis, people: float, *, first: bool, bumps: bool) -> int:
    """How many columns a term of so many people has; the first term, everybody, has all of them."""
    if first:
        return len(basis.kinds)
    if people < FEWEST_FOR_SLOPE:
        return 1
    if people < FEWEST_FOR_CURVE:
        return min(2, basis.n_smooth)
    own = bumps and basis.bumps and people >= FEWEST_FOR_BUMPS
    return basis.n_smooth + (len(basis.bumps[0]) if own else 0)


def _tabulated(terms: tuple[Group, ...], effects: FloatArray, basis: Basis) -> SmoothStart | None:
    """The shifts in log-odds at the knots; None if all of them are zero."""
    at = (np.arange(N_KNOTS) - N_KNOTS // 2) / KNOTS_PER_UNIT
    most = MOST_SHIFT * SHIFT_UNIT
    shifts = np.clip(np.rint(effects @ basis(at).T * SHIFT_UNIT), -most, most).astype(np.int64)
    moved = np.flatnonzero(shifts.any(axis=1))
    return SmoothStart(tuple(terms[t] for t in moved), shifts[moved]) if len(moved) else None


def _better(start: SmoothStart, terms: tuple[Group, ...], cells: LogOddsCells) -> bool:
    """Whether the recalibration as applied (tabulated, non-decreasing) fits better than the raw score."""
    kept = [terms.index(group) for group in start.groups]
    values = start.values_inside(cells.members[:, kept].T)
    raw = to_grid(expit(cells.log_odds))
    row = np.repeat(np.arange(len(values)), np.diff(cells.starts))
    before, after = (
        np.clip(units, 1, UNIT - 1) / UNIT for units in (raw, start.apply_to_rows(raw, row, values))
    )
    gain = cells.positives * np.log(after / before)
    gain += (cells.n - cells.positives) * (np.log1p(-after) - np.log1p(-before))
    return float(gain.sum()) > 0

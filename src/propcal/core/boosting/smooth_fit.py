"""Learns the smooth recalibration: a random-effects logistic model, fitted to a few thousand cells.

The model corrects the log-odds of a score for everybody, for each group and for each intersection by a
constant, a slope and a curve. For each set of attributes, these three have one variance each, estimated by
marginal likelihood, so that effects without support in the data shrink to zero. Before that, a test of the
hypothesis that the score is perfect decides whether to recalibrate at all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from propcal.core.atoms import Atoms
from propcal.core.boosting.log_odds_cells import (
    CONSTANT,
    CURVE,
    N_KINDS,
    SLOPE,
    Basis,
    LogOddsCells,
    count_cells,
)
from propcal.core.boosting.null import affordable_draws, draw_outcomes, whole_people
from propcal.core.compiled import compiled
from propcal.core.correction.smooth_map import KNOTS_PER_UNIT, MOST_SHIFT, N_KNOTS, SHIFT_UNIT, SmoothStart
from propcal.core.grid import UNIT, BoolArray, FloatArray, IntArray, to_grid
from propcal.core.groups.collection import MISSING, Collection, Group
from propcal.core.logistic import expit
from propcal.numbers import plural

SIGNIFICANCE = 0.02  # how often a perfect score is recalibrated by chance
DRAWS, BLOCK = 2000, 2_000_000  # simulated data sets; random numbers drawn at once
FEWEST_PEOPLE = 50  # in total, and in each group that gets a term of its own
MOST_TERMS = 120
COARSE, FINE = 2, 16  # cells per unit of log-odds: for the test, and for the fit
GUESS = 0.0625  # initial variance, that of an effect of 0.25 in log-odds
LARGEST, SMALLEST = 9.0, 1e-5  # limits of a variance; a smaller one is set to zero
# When a variance is estimated, half an effect of zero is added to the effects. Chosen by the benchmark:
# without it, fits of slightly miscalibrated scores follow noise; with two, large errors are shrunk too much.
PRIOR = 0.5
MOST_ROUNDS, LAST_ROUNDS = 80, 30


@dataclass(frozen=True, eq=False)
class Learned:
    """A smooth recalibration, or the reason why there is none."""

    start: SmoothStart | None
    p_value: float = float("nan")
    notes: tuple[str, ...] = ()


def learn_start(atoms: Atoms, collection: Collection, rng: np.random.Generator) -> Learned:
    """Test whether the score is miscalibrated, and if so learn a smooth recalibration."""
    terms, notes = _terms(collection)
    coarse = count_cells(atoms, terms, COARSE)
    people = float(coarse.n.sum())
    if people < FEWEST_PEOPLE:
        few = (
            f"not recalibrated: this needs at least {FEWEST_PEOPLE} people with scores between 0 and 1, "
            f"and there are {people:.0f}"
        )
        return Learned(None, notes=(*notes, few))
    basis = Basis(coarse)
    p_value = score_test(coarse, basis(coarse.log_odds), _components(terms, basis.kinds), rng)
    if p_value > SIGNIFICANCE:
        return Learned(None, p_value, notes)
    fine = count_cells(atoms, terms, FINE)
    basis = Basis(fine)
    effects = fit_effects(fine, basis(fine.log_odds), _components(terms, basis.kinds))
    if effects is None:
        return Learned(None, p_value, (*notes, "not recalibrated: the smooth curve did not converge"))
    start = _tabulated(terms, effects, basis)
    if start is None:
        return Learned(None, p_value, (*notes, "not recalibrated: every effect was shrunk to zero"))
    if not _better(start, terms, fine):
        why = "not recalibrated: the smooth curve did not improve the fit"
        return Learned(None, p_value, (*notes, why))
    if SLOPE not in basis.kinds:
        notes = (*notes, "all scores are equal, so each group is recalibrated by a constant shift only")
    elif CURVE not in basis.kinds:
        notes = (*notes, "there are few distinct scores, so the recalibration is a straight line in log-odds")
    certain = int(atoms.people[(atoms.score == 0) | (atoms.score == UNIT)].sum())
    if certain:
        notes = (*notes, f"the recalibration leaves {plural(certain, 'score')} of exactly 0 or 1 unchanged")
    return Learned(start, p_value, notes)


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


def _terms(collection: Collection) -> tuple[tuple[Group, ...], tuple[str, ...]]:
    """Everybody, and the groups that are large enough to learn from; only the largest if there are many.

    They include groups below gamma: effects of small groups are shrunk according to their size.
    """
    sizes = [
        size
        for size in (*collection.kept, *collection.left_out)
        if size.people >= FEWEST_PEOPLE and size.group.conditions and size.left_out != MISSING
    ]
    notes: tuple[str, ...] = ()
    if len(sizes) >= MOST_TERMS:
        notes = (f"the recalibration uses only the {MOST_TERMS - 1} largest of {len(sizes):,} groups",)
        smallest = sorted((size.people for size in sizes), reverse=True)[MOST_TERMS - 2]
        sizes = [size for size in sizes if size.people >= smallest][: MOST_TERMS - 1]
    return (Group(()), *(size.group for size in sizes)), notes


def _components(terms: tuple[Group, ...], kinds: IntArray) -> IntArray:
    """The index of the variance that each effect (terms x columns of the basis) has."""
    sets: dict[tuple[str, ...], int] = {}
    number = [sets.setdefault(tuple(a for a, _ in term.conditions), len(sets)) for term in terms]
    return np.asarray((np.array(number)[:, None] * N_KINDS + kinds).ravel())


def score_test(
    cells: LogOddsCells, columns: FloatArray, component: IntArray, rng: np.random.Generator
) -> float:
    """The p-value of the hypothesis that the score is perfect, from outcomes simulated from the score.

    The statistics are the gains in log-likelihood for effects of the initial variance: the constants of
    each set of attributes, all slopes, and all curves; and also the group with the largest average error.
    The smallest of their p-values is compared with the smallest in each simulated data set.
    """
    members, risk = cells.members.astype(np.float64), expit(cells.log_odds)
    spread = (cells.n * risk * (1 - risk))[:, None] * columns**2
    information = (members.T @ np.add.reduceat(spread, cells.starts[:-1])).ravel()
    whole = whole_people(cells.n)
    n_draws = affordable_draws(len(cells), DRAWS)
    observed = (cells.positives - cells.n * risk)[None]
    found: list[FloatArray] = []
    for drawn in draw_outcomes(whole, risk, n_draws, rng, block=BLOCK // len(cells)):
        # the observed data come first, before the simulated ones
        block = np.concatenate([observed[: not found], drawn * (cells.n / whole) - cells.n * risk])
        slopes = [
            np.add.reduceat(block * column, cells.starts[:-1], axis=1) @ members for column in columns.T
        ]
        score = np.stack(slopes, axis=2).reshape(len(block), -1)
        found.append(_statistics(score, information, component))
    statistics = np.concatenate(found, axis=1)
    above = [len(row) - np.searchsorted(np.sort(row), row) for row in statistics]
    smallest = np.min(above, axis=0)
    return float(np.mean(smallest <= smallest[0]))


def _statistics(score: FloatArray, information: FloatArray, component: IntArray) -> FloatArray:
    """The statistics of each simulated data set, of shape (n_statistics, draws)."""
    gain = score**2 / (information + 1 / GUESS)
    kind = component % N_KINDS
    constant = kind == CONSTANT
    families = [component == c for c in np.unique(component[constant])]
    families += [kind == k for k in np.unique(kind[~constant])]
    furthest = np.abs(score[:, constant]) / np.sqrt(information[constant] + 1)
    return np.stack([furthest.max(axis=1), *(gain[:, family].sum(axis=1) for family in families)])


def fit_effects(cells: LogOddsCells, columns: FloatArray, component: IntArray) -> FloatArray | None:
    """Effects of shape (n_terms, n_columns), or None if Newton's method does not converge.

    Each round is a Newton step with the current variances, then MacKay's update of the variances. A
    variance that falls below `SMALLEST` is dropped permanently, with its effects. In the last rounds the
    variances are held fixed.
    """
    problem = _Problem(cells, columns, len(component))
    variance = np.full(int(component.max()) + 1, GUESS)
    left = np.arange(len(component))  # effects whose variance has not been dropped
    largest, hold = np.inf, False
    for number in range(MOST_ROUNDS + LAST_ROUNDS):
        hold = hold or number >= MOST_ROUNDS
        penalty = 1 / variance[component[left]]
        largest, spread = problem.newton(left, penalty)
        if hold and largest < 1e-6:
            break
        if hold or largest > 0.5:  # the effects must settle before the variances change
            continue
        free = np.bincount(component[left], 1 - spread * penalty, len(variance))
        squares = np.bincount(component[left], problem.effect[left] ** 2, len(variance))
        before, variance = variance, np.minimum(squares / (np.maximum(free, 0.0) + PRIOR), LARGEST)
        alive = variance >= SMALLEST
        left = left[alive[component[left]]]
        problem.drop(~alive[component])
        if not len(left):
            break
        hold = bool(np.all(np.abs(np.log(variance[alive] / before[alive])) < 0.02))
    settled = not len(left) or largest < 1e-3
    return problem.effect.reshape(-1, columns.shape[1]) if settled else None


class _Problem:
    """The log-likelihood of the cells at the current effects."""

    def __init__(self, cells: LogOddsCells, columns: FloatArray, n_effects: int) -> None:
        row, term = np.nonzero(cells.members)
        term_starts = np.searchsorted(row, np.arange(len(cells.members) + 1))
        self.data = cells.starts, cells.n, cells.positives, cells.log_odds, columns, term_starts, term
        self.effect = np.zeros(n_effects)
        self.derivatives = _derivatives(*self.data, self.effect)

    def drop(self, effects: BoolArray) -> None:
        """Set effects to zero permanently."""
        if np.any(self.effect[effects]):
            self.effect[effects] = 0.0
            self.derivatives = _derivatives(*self.data, self.effect)

    def newton(self, left: IntArray, penalty: FloatArray) -> tuple[float, FloatArray]:
        """One step of the effects in `left`, with a ridge penalty; its length, and posterior variances.

        The step is halved until the penalised likelihood, which is concave, does not fall.
        """
        value, gradient, information = self.derivatives
        inverse = np.linalg.inv(information[np.ix_(left, left)] + np.diag(penalty))
        step = inverse @ (gradient[left] - penalty * self.effect[left])
        value -= 0.5 * float(penalty @ self.effect[left] ** 2)
        for halvings in range(40):
            trial = self.effect.copy()
            trial[left] += step * 0.5**halvings
            found = _derivatives(*self.data, trial)
            if found[0] - 0.5 * float(penalty @ trial[left] ** 2) >= value - 1e-9 * abs(value):
                self.effect, self.derivatives = trial, found
                break
        return float(np.abs(step).max()), np.diag(inverse)


@compiled
def _derivatives(
    starts: Any,
    n: Any,
    positives: Any,
    offset: Any,
    columns: Any,
    term_starts: Any,
    term: Any,
    effect: Any,
) -> tuple[float, Any, Any]:
    """The log-likelihood, its gradient and its information matrix; each row of cells has only a few terms."""
    n_columns, total = columns.shape[1], 0.0
    gradient = np.zeros(len(effect))
    information = np.zeros((len(effect), len(effect)))
    own, slope, bend = np.zeros(n_columns), np.zeros(n_columns), np.zeros((n_columns, n_columns))
    for row in range(len(starts) - 1):
        own[:], slope[:], bend[:] = 0.0, 0.0, 0.0
        for t in term[term_starts[row] : term_starts[row + 1]]:
            for j in range(n_columns):
                own[j] += effect[t * n_columns + j]
        for cell in range(starts[row], starts[row + 1]):
            value = offset[cell]
            for j in range(n_columns):
                value += own[j] * columns[cell, j]
            small = np.exp(-abs(value))
            risk = (1.0 if value >= 0 else small) / (1.0 + small)
            total += positives[cell] * value - n[cell] * (max(value, 0.0) + np.log1p(small))
            rest, weight = positives[cell] - n[cell] * risk, n[cell] * risk * (1.0 - risk)
            for j in range(n_columns):
                slope[j] += rest * columns[cell, j]
                for k in range(j + 1):
                    bend[j, k] += weight * columns[cell, j] * columns[cell, k]
        for j in range(n_columns):
            for k in range(j):
                bend[k, j] = bend[j, k]
        for t in term[term_starts[row] : term_starts[row + 1]]:
            for j in range(n_columns):
                gradient[t * n_columns + j] += slope[j]
                for u in term[term_starts[row] : term_starts[row + 1]]:
                    for k in range(n_columns):
                        information[t * n_columns + j, u * n_columns + k] += bend[j, k]
    return total, gradient, information

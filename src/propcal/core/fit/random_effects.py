"""Fits random effects of groups to cells of log-odds, and their variances.

Newton's method finds the effects for given variances, which act as a ridge penalty;
MacKay's update then re-estimates the variances. Effects without support in the data
shrink to zero, and a variance that becomes tiny is dropped with its effects.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy import special

from propcal.core.compiled import compiled
from propcal.core.fit.additive_fit import penalised_inverse
from propcal.core.fit.log_odds_cells import TYPICAL, LogOddsCells
from propcal.core.grid import BoolArray, FloatArray, IntArray

# limits of a variance; a smaller one is set to zero
MAX_VARIANCE = 9.0
MIN_VARIANCE = 1e-4
# rounds in which variances change, and in which they are held
MAX_ROUNDS = 80
LAST_ROUNDS = 30
MAX_HALVINGS = 40
# lengths of a Newton step: the effects have converged; well enough, after all rounds;
# they have settled, so that variances may change
CONVERGED = 1e-6
NEARLY_CONVERGED = 1e-3
SETTLED = 0.5
STEADY = 0.02  # change of log variances at which they are held
# a group is wrong at this level, of all groups whose number of events varies so much,
# by Bonferroni
WRONG = 0.05
MIN_VARIANCE_OF_EVENTS = 5.0


@dataclass(frozen=True, eq=False)
class Effects:
    """Which effects there are: term t has one for each of the first ``n_columns[t]``
    columns of the basis.

    `component` has the index of each effect's variance. For each variance, `least` is
    the smallest value that it may have (0: it may be dropped), and `prior` how many
    effects of zero are added when it is estimated.
    """

    n_columns: IntArray
    component: IntArray
    least: FloatArray
    prior: FloatArray


class EffectsData(NamedTuple):
    """What the compiled likelihood reads: cells by row, the terms of each row, and the
    first effect of each term.
    """

    starts: Any
    n: Any
    positives: Any
    offset: Any
    columns: Any
    term_starts: Any
    term: Any
    effect_starts: Any


class FittedEffects:
    """Effects at the current step of a fit, and the log-likelihood of the cells there.

    `free` is how many effects the data determine.
    """

    def __init__(
        self,
        cells: LogOddsCells,
        offset: FloatArray,
        columns: FloatArray,
        effects: Effects,
    ) -> None:
        row, term = np.nonzero(cells.members)
        n_terms = len(effects.n_columns)
        n_columns = columns.shape[1]
        self._data = EffectsData(
            cells.starts,
            cells.n,
            cells.positives,
            offset,
            np.ascontiguousarray(columns),
            np.searchsorted(row, np.arange(len(cells.members) + 1)),
            term,
            np.concatenate([[0], np.cumsum(effects.n_columns)]),
        )
        # which cells of a table of terms and columns are effects
        self._in_table = np.arange(n_columns) < effects.n_columns.reshape(n_terms, 1)
        self.free = 0.0
        self._move_to(np.zeros(len(effects.component)))

    def _move_to(self, effect: FloatArray) -> None:
        self.effect = effect
        self._derivatives = _derivatives(self._data, effect)

    @property
    def table(self) -> FloatArray:
        """Effects as an array of shape (n_terms, n_columns), zero where a term has
        none.
        """
        table = np.zeros(self._in_table.shape)
        table[self._in_table] = self.effect
        return table

    @property
    def value(self) -> float:
        """The log-likelihood."""
        return float(self._derivatives[0])

    def loss_without(self, terms: BoolArray) -> float:
        """How much lower the log-likelihood is if some terms are left out and the
        others stay as they are.
        """
        n_effects = np.diff(self._data.effect_starts)
        others = np.where(np.repeat(terms, n_effects), 0.0, self.effect)
        value, _, _ = _derivatives(self._data, others)
        return self.value - float(value)

    def wrong_with(self, table: FloatArray, some: BoolArray) -> bool:
        """Whether some of the terms have other numbers of events than effects in a
        table lead to expect.
        """
        _, excess, information = _derivatives(self._data, table[self._in_table])
        constant = self._data.effect_starts[:-1]
        variance = np.diag(information)[constant]
        testable = variance >= MIN_VARIANCE_OF_EVENTS
        tested = some & testable
        if not tested.any():
            return False
        z = np.abs(excess[constant][tested]) / np.sqrt(variance[tested])
        p_value = 2 * special.ndtr(-z.max())
        return bool(p_value * testable.sum() < WRONG)

    def drop(self, effects: BoolArray) -> None:
        """Set effects to zero permanently."""
        if np.any(self.effect[effects]):
            self._move_to(np.where(effects, 0.0, self.effect))

    def newton(self, kept: IntArray, penalty: FloatArray) -> tuple[float, FloatArray]:
        """One step of the effects in `kept`, with a ridge penalty; its length, and
        posterior variances.

        The step is halved until the penalised likelihood, which is concave, does not
        fall.
        """
        value, gradient, information = self._derivatives
        inverse = penalised_inverse(information[np.ix_(kept, kept)], penalty)
        step = inverse @ (gradient[kept] - penalty * self.effect[kept])
        value -= 0.5 * float(penalty @ self.effect[kept] ** 2)
        lowest = value - 1e-9 * abs(value)
        for halvings in range(MAX_HALVINGS):
            trial = self.effect.copy()
            trial[kept] += step * 0.5**halvings
            derivatives = _derivatives(self._data, trial)
            if derivatives[0] - 0.5 * float(penalty @ trial[kept] ** 2) >= lowest:
                self.effect = trial
                self._derivatives = derivatives
                break
        return float(np.abs(step).max()), np.diag(inverse)


def fit_effects(
    cells: LogOddsCells, offset: FloatArray, columns: FloatArray, effects: Effects
) -> FittedEffects | None:
    """Fit the effects, which columns add to the offset; None if Newton's method does
    not converge.

    Each round is a Newton step with the current variances, then MacKay's update of the
    variances. A variance that falls below `MIN_VARIANCE` is dropped permanently, with
    its effects. In the last rounds the variances are held fixed.
    """
    component = effects.component
    fit = FittedEffects(cells, offset, columns, effects)
    variance = np.full(len(effects.least), TYPICAL)
    kept = np.arange(len(component))  # effects whose variance has not been dropped
    length = np.inf
    hold = False
    for number in range(MAX_ROUNDS + LAST_ROUNDS):
        hold = hold or number >= MAX_ROUNDS
        of_kept = component[kept]
        penalty = 1 / variance[of_kept]
        length, posterior = fit.newton(kept, penalty)
        determined = 1 - posterior * penalty
        fit.free = float(np.sum(determined))
        if hold and length < CONVERGED:
            break
        if hold or length > SETTLED:
            continue

        free = np.maximum(np.bincount(of_kept, determined, len(variance)), 0.0)
        squares = np.bincount(of_kept, fit.effect[kept] ** 2, len(variance))
        estimate = np.minimum(squares / (free + effects.prior), MAX_VARIANCE)
        before = variance
        variance = np.maximum(estimate, effects.least)
        alive = variance >= MIN_VARIANCE
        kept = kept[alive[of_kept]]
        fit.drop(~alive[component])
        if not len(kept):
            fit.free = 0.0
            return fit
        change = np.abs(np.log(variance[alive] / before[alive]))
        hold = bool(np.all(change < STEADY))
    return fit if length < NEARLY_CONVERGED else None


@compiled
def _derivatives(data: Any, effect: Any) -> tuple[float, Any, Any]:
    """The log-likelihood, its gradient and its information matrix; each row of cells
    has only a few terms.
    """
    n_columns = data.columns.shape[1]
    value = 0.0
    gradient = np.zeros(len(effect))
    information = np.zeros((len(effect), len(effect)))
    # of one row: the sum of the effects of its terms, and derivatives by that sum
    total = np.zeros(n_columns)
    slope = np.zeros(n_columns)
    bend = np.zeros((n_columns, n_columns))
    filled = np.zeros(n_columns, np.int64)
    for row in range(len(data.starts) - 1):
        terms = data.term[data.term_starts[row] : data.term_starts[row + 1]]
        n_used = _add_effects(terms, data.effect_starts, effect, total)
        value = _add_cells(data, row, n_used, total, value, slope, bend, filled)
        for t in terms:
            first = data.effect_starts[t]
            size = data.effect_starts[t + 1] - first
            for j in range(size):
                gradient[first + j] += slope[j]
            for u in terms:
                other = data.effect_starts[u]
                width = data.effect_starts[u + 1] - other
                for j in range(size):
                    for k in range(width):
                        information[first + j, other + k] += bend[j, k]
    return value, gradient, information


@compiled
def _add_effects(terms: Any, effect_starts: Any, effect: Any, total: Any) -> int:
    """Put the sum of the effects of some terms into `total`; return how many columns
    they have.
    """
    total[:] = 0.0
    n_used = 0
    for t in terms:
        first = effect_starts[t]
        size = effect_starts[t + 1] - first
        n_used = max(n_used, size)
        for j in range(size):
            total[j] += effect[first + j]
    return n_used


@compiled
def _add_cells(
    data: Any,
    row: int,
    n_used: int,
    total: Any,
    value: float,
    slope: Any,
    bend: Any,
    filled: Any,
) -> float:
    """Put the derivatives of a row of cells into `slope` and `bend`; return the
    log-likelihood with that of the row added.
    """
    slope[:] = 0.0
    bend[:] = 0.0
    for cell in range(data.starts[row], data.starts[row + 1]):
        log_odds = data.offset[cell]
        n_filled = 0
        for j in range(n_used):  # most columns are zero at most scores
            if data.columns[cell, j] != 0.0:
                log_odds += total[j] * data.columns[cell, j]
                filled[n_filled] = j
                n_filled += 1
        small = np.exp(-abs(log_odds))
        risk = (1.0 if log_odds >= 0 else small) / (1.0 + small)
        people = data.n[cell]
        positives = data.positives[cell]
        log_total = max(log_odds, 0.0) + np.log1p(small)
        value += positives * log_odds - people * log_total
        residual = positives - people * risk
        curvature = people * risk * (1.0 - risk)
        for a in range(n_filled):
            j = filled[a]
            column = data.columns[cell, j]
            slope[j] += residual * column
            for b in range(a + 1):
                k = filled[b]
                bend[j, k] += curvature * column * data.columns[cell, k]
    for j in range(n_used):
        for k in range(j):
            bend[k, j] = bend[j, k]
    return value

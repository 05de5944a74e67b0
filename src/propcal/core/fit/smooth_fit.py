"""Learns the smooth recalibration: a random-effects logistic model, fitted to a few
thousand cells.

The model corrects the log-odds of a score for everybody, for each group and for each
intersection by a constant, a slope, a curve and local bumps. What groups share is
learned from everybody; a group only adds its departure. Few people, all together or in
a group, have fewer columns. Scores of exactly 0 and 1 are taken to the ends of the
curve, and to a level of their own beyond them. For each set of attributes, every kind
of effect has one variance, estimated by marginal likelihood, so that effects without
support in the data shrink to zero: Newton's method finds the effects for given
variances; MacKay's update then re-estimates the variances. Before that, tests of the
hypothesis that the score is perfect decide whether to recalibrate at all
(`FoundErrors`). Afterwards, attributes are left out, one by one, if the model fits
nearly as well without them and no group is wrong then.

A correction gives no score less than a lower one: a curve that falls is applied as its
own running maximum, which only ever raises scores. So a fitted curve that falls is
pooled first, as isotonic regression does, and then the constants of everybody and of
every group bring the sums of the scores back to those that were fitted
(`without_falls`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from scipy import special
from scipy.optimize import isotonic_regression

from propcal.core.atoms import Atoms
from propcal.core.compiled import compiled
from propcal.core.correction.smooth_map import (
    SHIFT_UNIT,
    SmoothStart,
    knot_log_odds,
    knots,
)
from propcal.core.fit import log_odds_cells as lc
from propcal.core.fit.additive_fit import penalised_inverse
from propcal.core.fit.evidence import FoundErrors
from propcal.core.fit.log_odds_cells import (
    Basis,
    LogOddsCells,
    fine_cells,
    smooth_terms,
)
from propcal.core.grid import UNIT, BoolArray, FloatArray, IntArray, to_grid
from propcal.core.groups import EVERYBODY, Collection, Group
from propcal.core.logistic import expit, log_odds
from propcal.numbers import plural

N_BUMPS = 20
MANY_KNOTS = (
    0.01,
    *lc.CURVE_KNOTS,
    0.99,
)  # scores that a forest squeezed bend most at their ends
# people of a group
FEWEST_FOR_SLOPE = 300
FEWEST_FOR_CURVE = 1500
FEWEST_FOR_BUMPS = 5000
FEWEST_BESIDE_SLOPE = (
    2000  # people who get a curve together although their level or slope is wrong
)
# combinations of terms, above which groups have no bumps: they would take minutes
MOST_ROWS_FOR_BUMPS = 1000
PRIOR_OF_BUMPS = 1.0
# The smallest variance of the overall level and slope if a test found them wrong: they
# are two numbers, which need little shrinkage. Where everything would be shrunk to zero
# although tests found an error, a second attempt keeps every variance above the other
# number.
FOUND_OVERALL = 0.1
FOUND = 0.01
# the smallest variance of levels of 0 and 1, which are far from the curve if any
LEAST_OF_LEVELS = 1.0
# limits of a variance; a smaller one is set to zero
LARGEST = 9.0
SMALLEST = 1e-4
# When a variance is estimated, half an effect of zero is added to the effects. Chosen
# by the benchmark: without it, fits of slightly miscalibrated scores follow noise; with
# two, large errors are shrunk too much.
PRIOR = 0.5
MOST_ROUNDS = 80
LAST_ROUNDS = 30
# An attribute is left out if the fit without it is worse by less than chance gives this
# often, and leaves no group that the tests of an audit would call wrong. The second
# number is divided by the people (1 % for 1,500, 0.15 % for 10,000): the more there
# are, the less costs a small effect that is left out.
IDLE = 0.05
IDLE_OF_MANY = 15.0
# of all groups whose number of events varies so much, by Bonferroni
WRONG = 0.05
LEAST_VARIANCE = 5.0
# attributes that a fit tries to do without, beside those that have shrunk to zero by
# themselves
MOST_TRIALS = 8
# of the constants, in log-odds
MOST_STEPS = 8
LARGEST_STEP = 1.0
FEWEST_AT_KNOT = 1e-6  # people, so that a knot without any follows its neighbours


@dataclass(frozen=True, eq=False)
class Learned:
    """A smooth recalibration, or the reason why there is none."""

    start: SmoothStart | None
    notes: tuple[str, ...] = ()


def learn_start(atoms: Atoms, collection: Collection, evidence: FoundErrors) -> Learned:
    """Learn a smooth recalibration, if tests found the score miscalibrated."""
    people = float(atoms.weight[(atoms.score > 0) & (atoms.score < UNIT)].sum())
    people *= float(atoms.weight.sum()) / float(
        atoms.weight_sq.sum()
    )  # survey weights: effective numbers
    if people < lc.FEWEST_PEOPLE:
        few = (
            f"not recalibrated: this needs at least {lc.FEWEST_PEOPLE} people with scores between 0 and 1, "
            f"and there are {people:.0f}"
        )
        return Learned(None, (few,))
    if not evidence.found:
        return Learned(None)
    terms, notes = smooth_terms(collection)
    cells = fine_cells(atoms, terms, ends=True)
    basis = _basis(cells, people, evidence)
    columns = basis(cells.log_odds)

    def fitted(everything: bool, some: BoolArray) -> FittedEffects | None:
        part = replace(cells, members=cells.members[:, some])
        chosen = [term for term, stays in zip(terms, some) if stays]
        effects = _effects(chosen, part, basis, evidence, everything=everything)
        return fit_effects(part, basis.offset(part.log_odds), columns, effects)

    tested = len(evidence.found) > evidence.certain
    idle = min(IDLE, IDLE_OF_MANY / people)
    for everything in (False, True)[
        : 1 + tested
    ]:  # the second time, nothing is shrunk to zero
        found = fitted(everything, np.ones(len(terms), dtype=np.bool_))
        if found is None:
            return Learned(
                None, (*notes, "not recalibrated: the smooth curve did not converge")
            )
        for effects in (
            _without_idle(terms, found, partial(fitted, everything), idle),
            found.table,
        ):
            start = _tabulated(terms, effects, basis)
            start = None if start is None else _ordered(start, terms, cells)
            if start is not None and _better(start, terms, cells):
                return Learned(start, (*notes, *_notes(basis, atoms)))
    return Learned(
        None, (*notes, "not recalibrated: the smooth curve did not improve the fit")
    )


def _without_idle(
    terms: tuple[Group, ...],
    whole: FittedEffects,
    fitted: Callable[[BoolArray], FittedEffects | None],
    idle: float,
) -> FloatArray:
    """The effects without those of attributes that are not needed, which are left out
    one by one.

    Attributes that have shrunk to zero are left out first, so that chance does not
    bring them back.
    """
    has = {
        name: np.array([name in dict(term.conditions) for term in terms])
        for name in dict.fromkeys(a for term in terms for a, _ in term.conditions)
    }
    found = whole
    effects = whole.table
    alive = [name for name in has if effects[has[name]].any()]
    left = np.array(
        [all(name in alive for name, _ in term.conditions) for term in terms]
    )
    for name in sorted(alive, key=lambda name: whole.loss_without(has[name]))[
        :MOST_TRIALS
    ]:
        fewer = left & ~has[name]
        without = fitted(fewer)
        if without is None:
            continue
        worse = 2 * (found.value - without.value)
        freedom = max(found.free - without.free, 1.0)
        rest = np.zeros_like(effects)
        rest[fewer] = without.table
        if worse < special.chdtri(freedom, idle) and not whole.wrong_with(rest, ~fewer):
            left = fewer
            found = without
            effects = rest
    return effects


def _notes(basis: Basis, atoms: Atoms) -> tuple[str, ...]:
    """Where the recalibration had to do without a slope or a curve, and whom it leaves
    out.
    """
    notes = []
    if lc.SLOPE not in basis.kinds:
        notes = [
            "all scores are equal, so each group is recalibrated by a constant shift only"
        ]
    elif lc.CURVE not in basis.kinds:
        notes = [
            "there are few distinct scores, so the recalibration is a straight line in log-odds"
        ]
    for score, end in ((0, -lc.END), (1, lc.END)):
        people = int(atoms.people[atoms.score == score * UNIT].sum())
        if people and end not in basis.ends:
            notes.append(
                f"the recalibration leaves {plural(people, 'score')} of exactly {score} unchanged"
            )
    return tuple(notes)


def _basis(cells: LogOddsCells, people: float, evidence: FoundErrors) -> Basis:
    """The columns of everybody: few people whose level or slope is wrong get no curve
    beside them.
    """
    if people >= FEWEST_FOR_BUMPS:
        return Basis(cells, N_BUMPS, MANY_KNOTS)
    return Basis(
        cells,
        knots=()
        if people < FEWEST_BESIDE_SLOPE and evidence.overall
        else lc.CURVE_KNOTS,
    )


def _effects(
    terms: Sequence[Group],
    cells: LogOddsCells,
    basis: Basis,
    evidence: FoundErrors,
    *,
    everything: bool,
) -> Effects:
    """The columns of each term, and the variance of each effect."""
    by_row = np.add.reduceat(cells.n, cells.starts[:-1])
    people = cells.members.T @ by_row
    bumps = len(cells.members) <= MOST_ROWS_FOR_BUMPS
    n_columns = np.array([_n_columns(basis, n, bumps=bumps) for n in people])
    n_columns[0] = len(basis.kinds)
    sets: dict[tuple[str, ...], int] = {}
    number = [
        sets.setdefault(tuple(a for a, _ in term.conditions), len(sets))
        for term in terms
    ]
    n_kinds = int(basis.kinds.max()) + 1
    key = np.concatenate(
        [number[t] * n_kinds + basis.kinds[:n] for t, n in enumerate(n_columns)]
    )
    found, component = np.unique(key, return_inverse=True)
    least = np.zeros(len(found))
    if everything:
        least[:] = FOUND
    if evidence.overall:
        least[(found == lc.CONSTANT) | (found == lc.SLOPE)] = (
            FOUND_OVERALL  # everybody is the first set
        )
    least[found % n_kinds == lc.LEVEL] = LEAST_OF_LEVELS
    prior = np.where(found % n_kinds == lc.BUMPS, PRIOR_OF_BUMPS, PRIOR)
    return Effects(n_columns, component.reshape(-1), least, prior)


def _n_columns(basis: Basis, people: float, *, bumps: bool) -> int:
    """How many columns a group of so many people has."""
    if people < FEWEST_FOR_SLOPE:
        return 1
    if people < FEWEST_FOR_CURVE:
        return min(2, basis.n_smooth)
    return basis.n_smooth + (
        len(basis.bumps) if bumps and people >= FEWEST_FOR_BUMPS else 0
    )


def _tabulated(
    terms: tuple[Group, ...], effects: FloatArray, basis: Basis
) -> SmoothStart | None:
    """The shifts in log-odds at the knots; None if all of them are zero."""
    at = knot_log_odds()
    shifts = _in_order(effects, basis) @ basis(at).T
    shifts[0] += basis.offset(at) - at
    shifts[:, ~np.isin(at, basis.ends) & (np.abs(at) == lc.END)] = (
        0.0  # these stay 0 and 1
    )
    start = SmoothStart.of_shifts(terms, shifts, with_ends=len(basis.ends) > 0)
    return start if start.groups else None


def _in_order(effects: FloatArray, basis: Basis) -> FloatArray:
    """The effects, with levels of 0 and 1 that are not on the wrong side of the end of
    the curve.
    """
    away = np.sign(basis.levels)
    effects = effects.copy()
    levels = effects[:, basis.kinds == lc.LEVEL]
    effects[:, basis.kinds == lc.LEVEL] = away * np.maximum(away * levels, 0.0)
    return effects


def _ordered(
    start: SmoothStart, terms: tuple[Group, ...], cells: LogOddsCells
) -> SmoothStart:
    """The recalibration without falls of everybody's curve, and with the same sums of
    scores.
    """
    return without_falls(start, *_raw(cells), _members(start, terms, cells), cells.n)


def _members(
    start: SmoothStart, terms: tuple[Group, ...], cells: LogOddsCells
) -> BoolArray:
    """Which terms of the recalibration (rows) apply to which rows of the cells
    (columns).
    """
    everybody = np.ones(len(cells.members), dtype=np.bool_)
    inside = [
        cells.members[:, terms.index(group)] if group in terms else everybody
        for group in start.groups
    ]
    return np.array(inside, dtype=np.bool_)


def _raw(cells: LogOddsCells) -> tuple[IntArray, IntArray]:
    """The raw score of each cell, in units, and its row."""
    at_end = np.abs(cells.log_odds) == lc.END
    raw = np.where(at_end, UNIT * (cells.log_odds > 0), to_grid(expit(cells.log_odds)))
    return raw, np.repeat(np.arange(len(cells.members)), np.diff(cells.starts))


def _better(start: SmoothStart, terms: tuple[Group, ...], cells: LogOddsCells) -> bool:
    """Whether the recalibration as applied (tabulated, non-decreasing) fits better than
    the raw score.
    """
    values = start.values_inside(_members(start, terms, cells))
    raw, row = _raw(cells)
    both = (raw, start.apply_to_rows(raw, row, values))
    before, after = (np.clip(units, 1, UNIT - 1) / UNIT for units in both)
    gain = cells.positives * np.log(after / before)
    gain += (cells.n - cells.positives) * (np.log1p(-after) - np.log1p(-before))
    return float(gain.sum()) > 0


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
        term_starts = np.searchsorted(row, np.arange(len(cells.members) + 1))
        self._n_columns = effects.n_columns
        self._shape = (len(effects.n_columns), columns.shape[1])
        self._effect_starts = np.concatenate([[0], np.cumsum(effects.n_columns)])
        counts = (
            cells.starts,
            cells.n,
            cells.positives,
            offset,
            np.ascontiguousarray(columns),
        )
        self._data = (*counts, term_starts, term, self._effect_starts)
        self.free = 0.0
        self._at(np.zeros(len(effects.component)))

    def _at(self, effect: FloatArray) -> None:
        self.effect, self._derivatives = effect, _derivatives(self._data, effect)

    @property
    def table(self) -> FloatArray:
        """Effects as an array of shape (n_terms, n_columns), zero where a term has
        none.
        """
        found = np.zeros(self._shape)
        found[np.arange(self._shape[1]) < self._n_columns[:, None]] = self.effect
        return found

    @property
    def value(self) -> float:
        """The log-likelihood."""
        return float(self._derivatives[0])

    def loss_without(self, terms: BoolArray) -> float:
        """How much lower the log-likelihood is if some terms are left out and the
        others stay as they are.
        """
        others = np.where(
            np.repeat(terms, np.diff(self._effect_starts)), 0.0, self.effect
        )
        return self.value - float(_derivatives(self._data, others)[0])

    def wrong_with(self, table: FloatArray, some: BoolArray) -> bool:
        """Whether some of the terms have other numbers of events than effects in a
        table lead to expect.
        """
        effects = table[np.arange(self._shape[1]) < self._n_columns[:, None]]
        _, excess, information = _derivatives(self._data, effects)
        constant = self._effect_starts[:-1]
        variance = np.diag(information)[constant]
        tested = variance >= LEAST_VARIANCE
        z = np.abs(excess[constant][some & tested]) / np.sqrt(variance[some & tested])
        return bool(2 * special.ndtr(-z.max(initial=0.0)) * tested.sum() < WRONG)

    def drop(self, effects: BoolArray) -> None:
        """Set effects to zero permanently."""
        if np.any(self.effect[effects]):
            self._at(np.where(effects, 0.0, self.effect))

    def newton(self, left: IntArray, penalty: FloatArray) -> tuple[float, FloatArray]:
        """One step of the effects in `left`, with a ridge penalty; its length, and
        posterior variances.

        The step is halved until the penalised likelihood, which is concave, does not
        fall.
        """
        value, gradient, information = self._derivatives
        inverse = penalised_inverse(information[np.ix_(left, left)], penalty)
        step = inverse @ (gradient[left] - penalty * self.effect[left])
        value -= 0.5 * float(penalty @ self.effect[left] ** 2)
        for halvings in range(40):
            trial = self.effect.copy()
            trial[left] += step * 0.5**halvings
            found = _derivatives(self._data, trial)
            if found[0] - 0.5 * float(penalty @ trial[left] ** 2) >= value - 1e-9 * abs(
                value
            ):
                self.effect = trial
                self._derivatives = found
                break
        return float(np.abs(step).max()), np.diag(inverse)


def fit_effects(
    cells: LogOddsCells, offset: FloatArray, columns: FloatArray, effects: Effects
) -> FittedEffects | None:
    """Fit the effects, which columns add to the offset; None if Newton's method does
    not converge.

    Each round is a Newton step with the current variances, then MacKay's update of the
    variances. A variance that falls below `SMALLEST` is dropped permanently, with its
    effects. In the last rounds the variances are held fixed.
    """
    component = effects.component
    least = effects.least
    fit = FittedEffects(cells, offset, columns, effects)
    variance = np.full(len(least), lc.TYPICAL)
    left = np.arange(len(component))  # effects whose variance has not been dropped
    largest = np.inf
    hold = False
    for number in range(MOST_ROUNDS + LAST_ROUNDS):
        hold = hold or number >= MOST_ROUNDS
        penalty = 1 / variance[component[left]]
        largest, spread = fit.newton(left, penalty)
        fit.free = float(np.sum(1 - spread * penalty))
        if hold and largest < 1e-6:
            break
        if hold or largest > 0.5:  # the effects must settle before the variances change
            continue
        free = np.bincount(component[left], 1 - spread * penalty, len(variance))
        squares = np.bincount(component[left], fit.effect[left] ** 2, len(variance))
        found = np.minimum(squares / (np.maximum(free, 0.0) + effects.prior), LARGEST)
        before = variance
        variance = np.maximum(found, least)
        alive = variance >= SMALLEST
        left = left[alive[component[left]]]
        fit.drop(~alive[component])
        if not len(left):
            fit.free = 0.0
            break
        hold = bool(np.all(np.abs(np.log(variance[alive] / before[alive])) < 0.02))
    return fit if not len(left) or largest < 1e-3 else None


@compiled
def _derivatives(data: Any, effect: Any) -> tuple[float, Any, Any]:
    """The log-likelihood, its gradient and its information matrix; each row of cells
    has only a few terms.
    """
    starts, n, positives, offset, columns, term_starts, term, effect_starts = data
    n_columns = columns.shape[1]
    total = 0.0
    gradient = np.zeros(len(effect))
    information = np.zeros((len(effect), len(effect)))
    own = np.zeros(n_columns)
    slope = np.zeros(n_columns)
    bend = np.zeros((n_columns, n_columns))
    filled = np.zeros(n_columns, np.int64)
    scaled = np.zeros(n_columns)
    for row in range(len(starts) - 1):
        own[:] = 0.0
        slope[:] = 0.0
        bend[:] = 0.0
        most = 0
        for t in term[term_starts[row] : term_starts[row + 1]]:
            first = effect_starts[t]
            most = max(most, effect_starts[t + 1] - first)
            for j in range(effect_starts[t + 1] - first):
                own[j] += effect[first + j]
        for cell in range(starts[row], starts[row + 1]):
            value = offset[cell]
            count = 0
            for j in range(most):  # most columns are zero at most scores
                if columns[cell, j] != 0.0:
                    value += own[j] * columns[cell, j]
                    filled[count] = j
                    count += 1
            small = np.exp(-abs(value))
            risk = (1.0 if value >= 0 else small) / (1.0 + small)
            total += positives[cell] * value - n[cell] * (
                max(value, 0.0) + np.log1p(small)
            )
            rest = positives[cell] - n[cell] * risk
            weight = n[cell] * risk * (1.0 - risk)
            for a in range(count):
                j = filled[a]
                slope[j] += rest * columns[cell, j]
                scaled[j] = weight * columns[cell, j]
                for b in range(a + 1):
                    bend[j, filled[b]] += scaled[j] * columns[cell, filled[b]]
        for j in range(most):
            for k in range(j):
                bend[k, j] = bend[j, k]
        for t in term[term_starts[row] : term_starts[row + 1]]:
            first = effect_starts[t]
            size = effect_starts[t + 1] - effect_starts[t]
            for j in range(size):
                gradient[first + j] += slope[j]
            for u in term[term_starts[row] : term_starts[row + 1]]:
                other = effect_starts[u]
                width = effect_starts[u + 1] - effect_starts[u]
                for j in range(size):
                    for k in range(width):
                        information[first + j, other + k] += bend[j, k]
    return total, gradient, information


def without_falls(
    start: SmoothStart,
    units: IntArray,
    row: IntArray,
    inside: BoolArray,
    people: FloatArray,
) -> SmoothStart:
    """The recalibration with everybody's curve pooled where it falls, and with the sums
    that were fitted.

    A recalibration that lowers no higher score of these people below a lower one is
    returned as it is.

    Parameters
    ----------
    units, row, people : arrays
        Raw scores of the fitting people (in units), the combination of terms of each,
        and how many they are.
    inside : array of bool, shape (n_terms, n_rows)
        Which terms apply to which combinations.
    """
    free = start.values_before_order(inside)
    wanted = start.apply_to_rows(units, row, free)
    if np.array_equal(
        wanted, start.apply_to_rows(units, row, np.maximum.accumulate(free, axis=1))
    ):
        return start
    if EVERYBODY not in start.groups:
        start = SmoothStart(
            (EVERYBODY, *start.groups), np.insert(start.shifts, 0, 0, axis=0)
        )
        inside = np.insert(inside, 0, True, axis=0)
    start = _pooled(start, units, people)
    member = inside.astype(np.float64)
    moves = np.asarray(start.shifts.any(axis=0))
    moves[1:-1] = True  # scores of 0 and 1 that stay do so
    for _ in range(MOST_STEPS):
        found = start.apply_to_rows(units, row, start.values_inside(inside))
        risk = found / UNIT
        gap = np.bincount(row, people * (wanted - found) / UNIT, inside.shape[1])
        slope = np.bincount(row, people * risk * (1 - risk), inside.shape[1])
        step = np.linalg.lstsq((member * slope) @ member.T, member @ gap, rcond=1e-9)[0]
        whole = np.rint(np.clip(step, -LARGEST_STEP, LARGEST_STEP) * SHIFT_UNIT).astype(
            np.int64
        )
        if not whole.any():
            break
        start = start.moved(whole[:, None] * moves)
    return start


def _pooled(start: SmoothStart, units: IntArray, people: FloatArray) -> SmoothStart:
    """The recalibration with everybody's curve as its isotonic regression on the people
    at each knot.
    """
    place = start.groups.index(EVERYBODY)
    at = knot_log_odds()
    among = start.shifts[place] != 0
    among[1:-1] = True
    curve = at + start.shifts[place] / SHIFT_UNIT
    k = np.clip(np.searchsorted(knots(), units), 1, len(at) - 1)
    near = (units - knots()[k - 1]) / (knots()[k] - knots()[k - 1])
    weight = np.bincount(k, people * near, len(at)) + np.bincount(
        k - 1, people * (1 - near), len(at)
    )
    risk = expit(curve[among])
    pooled = isotonic_regression(risk, weights=weight[among] + FEWEST_AT_KNOT).x
    curve[among] = np.where(
        pooled == risk, curve[among], log_odds(np.clip(pooled, risk.min(), risk.max()))
    )
    change = np.zeros_like(start.shifts)
    change[place] = (
        np.rint((curve - at) * SHIFT_UNIT).astype(np.int64) - start.shifts[place]
    )
    return start.moved(change)

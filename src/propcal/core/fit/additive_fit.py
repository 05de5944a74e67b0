"""Fits many small effects at once: a penalised additive logistic model of codes.

Every term is a column of codes (pieces: levels, ranges of numbers, ranges of the
score), and its effects add up in log-odds to a known offset. Levels, missing values and
spikes have independent normal effects; ordered ranges follow a random walk, so that
first differences are penalised. Each variance is estimated by marginal likelihood with
the updates of Fellner and Schall (Wood and Fasiolo 2017): a term without support in the
data has variance zero and vanishes. A pass over the rows gives the quadratic
approximation at the current effects; variances and effects then follow from matrices of
a few hundred columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy.linalg import lapack

from propcal.core.compiled import compiled
from propcal.core.grid import FloatArray, IntArray
from propcal.core.logistic import expit

# effects of ordered ranges: the smoothest shapes carry nearly all of a random walk
MOST_WAVES = 32
FIRST_VARIANCE = 0.0625
MAX_VARIANCE = 9.0
MIN_VARIANCE = 1e-4  # a smaller one is set to zero
# half an effect of zero is added when a variance is estimated, as for groups
# (`smooth_fit`)
PRIOR_EFFECTS = 0.5
MAX_UPDATES = 12  # of the variances in a pass over the rows
MAX_PASSES = 12
MAX_HALVINGS = 20
STEADY = 0.02  # change of log variances at which their updates end
# changes of effects at which variances are held, and at which the fit ends
NEARLY_SETTLED = 1e-3
SETTLED = 1e-7
BLOCK_ROWS = 8192  # whose codes stay in the processor's cache

Codes = np.ndarray[Any, np.dtype[np.uint8]]


@dataclass(frozen=True, eq=False)
class Term:
    """What the codes of one column can do to the log-odds.

    Attributes
    ----------
    columns : array of shape (n_pieces, n_effects)
        Row k times the effects is the shift of people with code k.
    kinds : array of int64, shape (n_effects,)
        Effects of one kind share a variance.
    kept : bool
        Whether its variances never become zero.
    """

    columns: FloatArray
    kinds: IntArray
    kept: bool = False


def term_of_levels(n_pieces: int) -> Term:
    """A ridge: every level has an effect of its own."""
    return Term(np.eye(n_pieces), np.zeros(n_pieces, dtype=np.int64))


def term_of_ranges(
    people: FloatArray, apart: Sequence[int], waves: int = MOST_WAVES
) -> Term:
    """Ordered ranges with penalised first differences; pieces `apart` (spikes, missing)
    are on their own.

    `people` counts those of each piece. Of the random walk, the shapes that vary most
    among people are kept.
    """
    n_pieces = len(people)
    chain = np.setdiff1d(np.arange(n_pieces), apart)
    walk = np.zeros((n_pieces, 0))
    if len(chain) > 1:
        shapes = _walk_shapes(people[chain], waves)
        walk = np.zeros((n_pieces, shapes.shape[1]))
        walk[chain] = shapes
    alone = np.zeros((n_pieces, len(apart)))
    alone[list(apart), np.arange(len(apart))] = 1.0
    kinds = np.repeat([0, 1], [walk.shape[1], len(apart)])
    return Term(np.concatenate([walk, alone], axis=1), kinds)


def _walk_shapes(people: FloatArray, waves: int) -> FloatArray:
    """The shapes of a random walk that vary most among people, with variance 1 among
    them on average.
    """
    share = np.maximum(people, 1e-9) / np.maximum(people, 1e-9).sum()
    root = np.sqrt(share)[:, None]
    steps = np.tril(np.ones((len(people), len(people))))[:, 1:]
    centred = steps - share @ steps
    shapes, size, _ = np.linalg.svd(root * centred, full_matrices=False)
    shapes = shapes[:, :waves]
    size = size[:waves]
    return np.asarray(shapes / root * size / np.sqrt(np.sum(size**2)))


@dataclass(frozen=True, eq=False)
class AdditiveRows:
    """The rows of a fit: codes of shape (n_terms, n_rows), known log-odds, outcome, and
    weight.
    """

    codes: Codes
    offset: FloatArray
    outcome: FloatArray
    weight: FloatArray

    def __len__(self) -> int:
        return len(self.offset)

    def part(self, rows: slice) -> AdditiveRows:
        """Some consecutive rows."""
        return AdditiveRows(
            self.codes[:, rows],
            self.offset[rows],
            self.outcome[rows],
            self.weight[rows],
        )

    def likelihood(self, log_odds: FloatArray) -> FloatArray:
        """The log-likelihood of each row at these log-odds."""
        return self.weight * (self.outcome * log_odds - np.logaddexp(0.0, log_odds))


class AdditiveModel:
    """Terms side by side: where the pieces and the effects of each begin, and the
    variance of each effect.
    """

    def __init__(self, terms: Sequence[Term]) -> None:
        self.terms = tuple(terms)
        n_pieces = [len(term.columns) for term in terms]
        n_effects = [term.columns.shape[1] for term in terms]
        self.pieces = np.cumsum([0, *n_pieces])
        self.effects = np.cumsum([0, *n_effects])
        component = []
        kept: list[bool] = []
        for term in terms:
            kinds, kind = np.unique(term.kinds, return_inverse=True)
            component.append(len(kept) + kind.reshape(-1))
            kept += [term.kept] * len(kinds)
        self.component = np.concatenate(component).astype(np.int64)
        self.kept = np.array(kept, dtype=np.bool_)

    def _spans(self) -> Iterator[tuple[Term, slice, slice]]:
        """Each term, with the places of its pieces and of its effects."""
        for i, term in enumerate(self.terms):
            pieces = slice(self.pieces[i], self.pieces[i + 1])
            effects = slice(self.effects[i], self.effects[i + 1])
            yield term, pieces, effects

    def shifts(self, effect: FloatArray) -> list[FloatArray]:
        """For each term, the shift in log-odds of each piece."""
        return [term.columns @ effect[span] for term, _, span in self._spans()]

    def log_odds(self, rows: AdditiveRows, effect: FloatArray) -> FloatArray:
        """The log-odds of each row."""
        total = rows.offset.copy()
        for codes, shift in zip(rows.codes, self.shifts(effect)):
            if np.any(shift):
                total += shift[codes]
        return total

    def quadratic(
        self, rows: AdditiveRows, log_odds: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Gradient and information of the effects at these log-odds."""
        risk = expit(log_odds)
        residual = rows.weight * (rows.outcome - risk)
        curvature = rows.weight * risk * (1 - risk)
        sums, table = _cross_table(rows.codes, self.pieces, residual, curvature)
        n_pieces = self.pieces[-1]
        n_effects = self.effects[-1]
        half = np.empty((n_effects, n_pieces))
        gradient = np.empty(n_effects)
        information = np.empty((n_effects, n_effects))
        for term, pieces, effects in self._spans():
            half[effects] = term.columns.T @ table[pieces]
            gradient[effects] = term.columns.T @ sums[pieces]
        for term, pieces, effects in self._spans():
            information[:, effects] = half[:, pieces] @ term.columns
        return gradient, information


@dataclass(eq=False)
class AdditiveFit:
    """Effects and variances of a model; `free` is how many effects the data determine,
    by component.
    """

    effect: FloatArray
    variance: FloatArray
    free: FloatArray

    @classmethod
    def first(cls, model: AdditiveModel) -> AdditiveFit:
        """No effects, and variances to begin with."""
        n_variances = len(model.kept)
        return cls(
            effect=np.zeros(len(model.component)),
            variance=np.full(n_variances, FIRST_VARIANCE),
            free=np.zeros(n_variances),
        )


def fit_quadratic(
    model: AdditiveModel,
    right: FloatArray,
    information: FloatArray,
    variance: FloatArray,
    *,
    hold: bool = False,
) -> AdditiveFit:
    """Effects and variances for a quadratic likelihood, whose maximum solves
    information @ x = right.

    With `hold` the variances stay as they are.
    """
    component = model.component
    n_components = len(variance)
    effect = np.zeros(len(component))
    free = np.zeros(n_components)
    for _ in range(1 if hold else MAX_UPDATES):
        kept = np.flatnonzero(variance[component] > 0)
        if not len(kept):
            return AdditiveFit(np.zeros(len(component)), variance, np.zeros_like(free))
        of_kept = component[kept]
        penalty = 1 / variance[of_kept]
        inverse = penalised_inverse(information[np.ix_(kept, kept)], penalty)
        effect = np.zeros(len(component))
        effect[kept] = inverse @ right[kept]
        determined = 1 - np.diag(inverse) * penalty
        free = np.maximum(np.bincount(of_kept, determined, n_components), 0.0)
        if hold:
            break
        squares = np.bincount(of_kept, effect[kept] ** 2, n_components)
        before = variance
        variance = _updated_variance(model, before, squares, free)
        if _steady(before, variance):
            break
    return AdditiveFit(effect, variance, free)


def _updated_variance(
    model: AdditiveModel, variance: FloatArray, squares: Any, free: FloatArray
) -> FloatArray:
    """Variances after an update of Fellner and Schall, given the sums of squared
    effects and how many effects the data determine.
    """
    ratio = squares / (free + PRIOR_EFFECTS) / np.where(variance > 0, variance, 1.0)
    # the square: twice the step in log variance
    updated = np.minimum(variance * ratio**2, MAX_VARIANCE)
    updated[model.kept] = np.maximum(updated[model.kept], FIRST_VARIANCE)
    updated[(updated < MIN_VARIANCE) | (variance == 0)] = 0.0
    return np.asarray(updated)


def _steady(before: FloatArray, after: FloatArray) -> bool:
    """Whether an update changed variances so little that it may be the last."""
    if not np.array_equal(after > 0, before > 0):
        return False
    alive = after > 0
    return bool(np.all(np.abs(np.log(after[alive] / before[alive])) < STEADY))


def fit_additive(
    model: AdditiveModel,
    rows: AdditiveRows,
    start: AdditiveFit | None = None,
    *,
    passes: int = MAX_PASSES,
) -> AdditiveFit:
    """Fit effects and variances to rows, beginning with those of `start`."""
    fit = start or AdditiveFit.first(model)
    hold = False
    log_odds = model.log_odds(rows, fit.effect)
    for number in range(passes):
        gradient, information = model.quadratic(rows, log_odds)
        right = gradient + information @ fit.effect
        before = fit
        fit = fit_quadratic(model, right, information, fit.variance, hold=hold)
        # without the effects of variances that became zero
        begin = np.where(fit.variance[model.component] > 0, before.effect, 0.0)
        log_odds = _shorten_step(model, rows, fit, begin)
        change = float(np.max(np.abs(fit.effect - before.effect), initial=0.0))
        if hold and change < SETTLED:
            break
        hold = hold or change < NEARLY_SETTLED or number >= passes // 2
    return fit


def _shorten_step(
    model: AdditiveModel, rows: AdditiveRows, fit: AdditiveFit, begin: FloatArray
) -> FloatArray:
    """Halve the way from `begin` to the effects of the fit until the penalised
    likelihood, which is concave, does not fall; return the log-odds of the rows.
    """
    penalised = partial(_penalised, model, rows, fit.variance)
    value = penalised(begin, model.log_odds(rows, begin))
    lowest = value - 1e-9 * abs(value)
    for _ in range(MAX_HALVINGS):
        log_odds = model.log_odds(rows, fit.effect)
        if penalised(fit.effect, log_odds) >= lowest:
            break
        fit.effect = (fit.effect + begin) / 2
    return log_odds


def _penalised(
    model: AdditiveModel,
    rows: AdditiveRows,
    variance: FloatArray,
    effect: FloatArray,
    log_odds: FloatArray,
) -> float:
    """The log-likelihood of the rows, less the penalty of the effects."""
    of_effect = variance[model.component]
    alive = of_effect > 0
    penalty = 0.5 * np.sum(effect[alive] ** 2 / of_effect[alive])
    return float(np.sum(rows.likelihood(log_odds)) - penalty)


def penalised_inverse(information: FloatArray, penalty: FloatArray) -> FloatArray:
    """The inverse of a symmetric matrix plus a positive diagonal, by Cholesky's
    method.
    """
    information[np.diag_indices_from(information)] += penalty
    root, failed = lapack.dpotrf(information, lower=True, overwrite_a=True)
    if failed:
        return np.asarray(np.linalg.inv(information), dtype=np.float64)
    inverse, _ = lapack.dpotri(root, lower=True, overwrite_c=True)
    lower = np.tril(inverse)
    return np.asarray(lower + np.tril(inverse, -1).T)


@compiled
def _cross_table(
    codes: Any, pieces: Any, residual: Any, weight: Any
) -> tuple[Any, Any]:
    """Sums of residuals by piece, and of weights by pairs of pieces; pair by pair, in
    blocks of rows.
    """
    n_terms, n = codes.shape
    size = pieces[-1]
    sums = np.zeros(size)
    table = np.zeros((size, size))
    for low in range(0, n, BLOCK_ROWS):
        high = min(low + BLOCK_ROWS, n)
        for f in range(n_terms):
            first = pieces[f]
            for i in range(low, high):
                piece = first + codes[f, i]
                sums[piece] += residual[i]
                table[piece, piece] += weight[i]
            for g in range(f):
                other = pieces[g]
                for i in range(low, high):
                    table[first + codes[f, i], other + codes[g, i]] += weight[i]
    for i in range(size):
        for j in range(i):
            table[j, i] = table[i, j]
    return sums, table

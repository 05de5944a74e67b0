"""Fits many small effects at once: a penalised additive logistic model of codes, each
effect shrunk.

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

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import lapack

from propcal.core.compiled import compiled
from propcal.core.grid import FloatArray, IntArray
from propcal.core.logistic import expit

# effects of ordered ranges: the smoothest shapes carry nearly all of a random walk
MOST_WAVES = 32
# a variance below the last is set to zero
FIRST_VARIANCE = 0.0625
LARGEST = 9.0
SMALLEST = 1e-4
# half an effect of zero is added when a variance is estimated, as for groups
# (`smooth_fit`)
PRIOR = 0.5
# updates of variances in a pass over the rows
MOST_UPDATES = 12
MOST_PASSES = 12
# changes of log variances, and of effects, that end a loop
STEADY = 0.02
SETTLED = 1e-7
BLOCK = 8192  # rows whose codes stay in the processor's cache

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
    chain = np.array(
        [k for k in range(len(people)) if k not in {*apart}], dtype=np.int64
    )
    odd = np.zeros((len(people), len(apart)))
    odd[list(apart), np.arange(len(apart))] = 1.0
    walk = np.zeros((len(people), 0))
    if len(chain) > 1:
        share = np.maximum(people[chain], 1e-9) / np.maximum(people[chain], 1e-9).sum()
        steps = np.tril(np.ones((len(chain), len(chain))))[:, 1:]
        root = np.sqrt(share)[:, None]
        left, size, _ = np.linalg.svd(
            root * (steps - share @ steps), full_matrices=False
        )
        size = size[:waves]
        left = left[:, :waves]
        walk = np.zeros((len(people), len(size)))
        walk[chain] = (
            left / root * size / np.sqrt(np.sum(size**2))
        )  # variance 1 among people, on average
    kinds = np.repeat([0, 1], [walk.shape[1], len(apart)])
    return Term(np.concatenate([walk, odd], axis=1), kinds)


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
        self.pieces = np.cumsum([0, *(len(term.columns) for term in terms)])
        self.effects = np.cumsum([0, *(term.columns.shape[1] for term in terms)])
        component = []
        kept = []
        first = 0
        for term in terms:
            _, kind = np.unique(term.kinds, return_inverse=True)
            component.append(first + kind.reshape(-1))
            n = int(kind.max(initial=-1)) + 1
            kept += [term.kept] * n
            first += n
        self.component = np.concatenate(component).astype(np.int64)
        self.kept = np.array(kept, dtype=np.bool_)

    def shifts(self, effect: FloatArray) -> list[FloatArray]:
        """For each term, the shift in log-odds of each piece."""
        spans = zip(self.effects[:-1], self.effects[1:])
        return [term.columns @ effect[a:b] for term, (a, b) in zip(self.terms, spans)]

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
        sums, table = _cross_table(
            rows.codes,
            self.pieces,
            rows.weight * (rows.outcome - risk),
            rows.weight * risk * (1 - risk),
        )
        spans = [
            (slice(a, b), slice(c, d))
            for a, b, c, d in zip(
                self.pieces[:-1], self.pieces[1:], self.effects[:-1], self.effects[1:]
            )
        ]
        half = np.empty((self.effects[-1], self.pieces[-1]))
        gradient = np.empty(self.effects[-1])
        information = np.empty((self.effects[-1],) * 2)
        for term, (piece, effect) in zip(self.terms, spans):
            half[effect] = term.columns.T @ table[piece]
            gradient[effect] = term.columns.T @ sums[piece]
        for term, (piece, effect) in zip(self.terms, spans):
            information[:, effect] = half[:, piece] @ term.columns
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
        n = len(model.kept)
        return cls(
            np.zeros(len(model.component)), np.full(n, FIRST_VARIANCE), np.zeros(n)
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
    variance = variance.copy()
    left = np.flatnonzero(variance[component] > 0)
    effect = np.zeros(len(component))
    free = np.zeros(len(variance))
    for _ in range(1 if hold else MOST_UPDATES):
        if not len(left):
            return AdditiveFit(
                np.zeros(len(component)), variance, np.zeros(len(variance))
            )
        own = component[left]
        penalty = 1 / variance[component[left]]
        inverse = penalised_inverse(information[np.ix_(left, left)], penalty)
        effect = np.zeros(len(component))
        effect[left] = inverse @ right[left]
        free = np.maximum(
            np.bincount(own, 1 - np.diag(inverse) * penalty, len(variance)), 0.0
        )
        if hold:
            break
        squares = np.bincount(own, effect[left] ** 2, len(variance))
        ratio = squares / (free + PRIOR) / np.where(variance > 0, variance, 1.0)
        found = np.minimum(
            variance * ratio**2, LARGEST
        )  # the square: twice the step in log variance
        found[model.kept] = np.maximum(found[model.kept], FIRST_VARIANCE)
        found[(found < SMALLEST) | (variance == 0)] = 0.0
        alive = (found > 0) & (variance > 0)
        steady = np.array_equal(found > 0, variance > 0)
        steady = steady and bool(
            np.all(np.abs(np.log(found[alive] / variance[alive])) < STEADY)
        )
        variance = found
        left = left[variance[component[left]] > 0]
        if steady:
            break
    return AdditiveFit(effect, variance, free)


def fit_additive(
    model: AdditiveModel,
    rows: AdditiveRows,
    start: AdditiveFit | None = None,
    *,
    passes: int = MOST_PASSES,
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
        begin = np.where(
            fit.variance[model.component] > 0, before.effect, 0.0
        )  # without terms that are gone
        value = _penalised(
            model, rows, begin, fit.variance, model.log_odds(rows, begin)
        )
        for _ in range(
            20
        ):  # the penalised likelihood is concave: shorten a step that overshoots
            log_odds = model.log_odds(rows, fit.effect)
            if _penalised(
                model, rows, fit.effect, fit.variance, log_odds
            ) >= value - 1e-9 * abs(value):
                break
            fit.effect = (fit.effect + begin) / 2
        moved = float(np.max(np.abs(fit.effect - before.effect), initial=0.0))
        if hold and moved < SETTLED:
            break
        hold = hold or moved < 1e-3 or number >= passes // 2
    return fit


def _penalised(
    model: AdditiveModel,
    rows: AdditiveRows,
    effect: FloatArray,
    variance: FloatArray,
    log_odds: FloatArray,
) -> float:
    own = variance[model.component]
    left = own > 0
    return float(
        np.sum(rows.likelihood(log_odds)) - 0.5 * np.sum(effect[left] ** 2 / own[left])
    )


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
    for low in range(0, n, BLOCK):
        high = min(low + BLOCK, n)
        for f in range(n_terms):
            first = pieces[f]
            for i in range(low, high):
                sums[first + codes[f, i]] += residual[i]
                table[first + codes[f, i], first + codes[f, i]] += weight[i]
            for g in range(f):
                other = pieces[g]
                for i in range(low, high):
                    table[first + codes[f, i], other + codes[g, i]] += weight[i]
    for i in range(size):
        for j in range(i):
            table[j, i] = table[i, j]
    return sums, table

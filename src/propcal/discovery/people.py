"""People: score, outcome and weight of each row as the search needs them, and what was corrected for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special

from propcal.core.grid import BoolArray, FloatArray, IntArray
from propcal.core.logistic import LogisticFit, expit, fit_logistic, log_odds, spline_basis
from propcal.discovery.box_kernels import N_SUMS

NEAREST = 1e-6  # scores closer to 0 or 1 than this are taken as this close
OUTER = (0.025, 0.975)  # log-odds beyond these quantiles count as these
KNOTS = (0.05, 0.35, 0.65, 0.95)
CHUNK = 65_536  # rows whose terms of a correction are held at a time
N_BINS = 400  # of log-odds, from which corrections are fitted
OWN_STREAM = 20_260_418  # numbers unlike those that simulated data drew from the same seed
PRIOR = 1e-3  # people with and without the event in the prior of each coefficient


@dataclass(eq=False)
class People:
    """The rows of a search.

    Attributes
    ----------
    raw, score : array
        The score as it came, and after correction for what was found so far.
    outcome : array of 0 and 1
    weight : array
    survey : bool
        Whether weights are survey weights; otherwise a weight of 2 means two people.
    cluster : array or None
        Numbers of the persons behind the rows.
    """

    raw: FloatArray
    outcome: Any
    weight: FloatArray
    survey: bool
    cluster: IntArray | None = None

    def __post_init__(self) -> None:
        self.raw = np.clip(self.raw, NEAREST, 1 - NEAREST)
        self.score = self.raw.copy()
        spread = log_odds(self.raw)
        self.log_odds = spread  # of the raw score
        self.ends = np.quantile(spread, OUTER)
        self.x = np.clip(spread, *self.ends)  # log-odds without extreme values, centred
        self.x -= np.average(self.x, weights=self.weight)

    def __len__(self) -> int:
        return len(self.raw)

    def sums(self, rows: IntArray | slice = slice(None), residual: FloatArray | None = None) -> Any:
        """The six sums of each row (see `box_kernels`), by default with its own residual."""
        p, w = self.score[rows], self.weight[rows]
        x = self.x[rows]
        made = np.empty((len(p), N_SUMS), dtype=np.float32)
        variance = p * (1 - p)
        made[:, 5] = variance * (1 - 2 * p) * (w**3 if self.survey else w)
        variance *= w * w if self.survey else w
        residual = w * (self.outcome[rows] - p) if residual is None else residual
        made[:, 0], made[:, 1] = residual, variance
        made[:, 2], made[:, 3] = residual * x, variance * x
        made[:, 4] = variance * x * x
        return made

    @property
    def information(self) -> float:
        """The variance of the number of events if the score is right."""
        p = self.score
        return float(np.sum(p * (1 - p) * (self.weight**2 if self.survey else self.weight)))

    def inflation(self) -> float:
        """How much repeat visits and survey weights inflate the variance of a total, at least 1."""
        found = float(np.sum(self.weight**2) / np.sum(self.weight)) if self.survey else 1.0
        if self.cluster is None:
            return max(found, 1.0)
        residual = self.weight * (self.outcome - self.score)
        together = np.bincount(self.cluster, residual)
        return max(found * float(np.sum(together**2) / max(np.sum(residual**2), 1e-300)), 1.0)

    def part(self, rows: IntArray) -> People:
        """Some of the rows, with their raw scores."""
        cluster = None if self.cluster is None else np.unique(self.cluster[rows], return_inverse=True)[1]
        return People(self.raw[rows], self.outcome[rows], self.weight[rows], self.survey, cluster)

    def slope(self, rows: IntArray, score: FloatArray) -> tuple[float, float]:
        """The calibration slope of a score of some rows, and its standard error; NaN without an answer."""
        weight = self.weight[rows]
        design = np.stack([np.ones(len(rows)), log_odds(score)], axis=1)
        fit = fit_logistic(design, np.zeros(len(rows)), weight, weight * self.outcome[rows])
        if fit is None:
            return float("nan"), float("nan")
        variance = np.linalg.inv(fit.information)[1, 1] * self.inflation()
        return float(fit.coefficients[1]), float(np.sqrt(variance))

    def spread(self, rows: IntArray) -> float:
        """The standard error of observed minus expected events of some rows."""
        residual = self.weight[rows] * (self.outcome[rows] - self.score[rows])
        if self.cluster is not None:
            residual = np.bincount(self.cluster[rows], residual)
        centre = residual.sum() / max(len(residual), 1)
        return float(np.sqrt(max(np.sum((residual - centre) ** 2), 1e-300)))


@dataclass(frozen=True, eq=False)
class _Cells:
    """People with the same memberships and nearly the same log-odds, added up.

    `value` is the mean log-odds before a correction, `x` that of the raw score, without extreme values.
    """

    owner: IntArray
    value: FloatArray
    x: FloatArray
    weight: FloatArray
    positives: FloatArray

    @classmethod
    def of(cls, people: People, rows: Any, owner: IntArray, value: FloatArray) -> _Cells:
        weight = people.weight[rows]
        low, high = float(value.min()), float(value.max())
        step = max((high - low) / N_BINS, 1e-12)
        place = owner * (N_BINS + 1) + ((value - low) / step).astype(np.int64)
        found, cell = np.unique(place, return_inverse=True)
        total = np.bincount(cell, weight)
        return cls(
            found // (N_BINS + 1),
            np.bincount(cell, weight * value) / total,
            np.bincount(cell, weight * people.x[rows]) / total,
            np.asarray(total, dtype=np.float64),
            np.asarray(np.bincount(cell, weight * people.outcome[rows]), dtype=np.float64),
        )

    def log_likelihood(self, p: FloatArray) -> float:
        """Of everybody, if the people of each cell have one risk."""
        p = np.clip(p, 1e-12, 1 - 1e-12)
        return float(self.positives @ np.log(p) + (self.weight - self.positives) @ np.log1p(-p))


def halves(people: People, seed: int) -> IntArray:
    """0 or 1 for each row, at random; all rows of a person have the same."""
    rng = np.random.default_rng([OWN_STREAM, seed])
    if people.cluster is None:
        return rng.integers(0, 2, len(people))
    return rng.integers(0, 2, int(people.cluster.max()) + 1)[people.cluster]


def recalibrate_overall(people: People) -> tuple[float, FloatArray]:
    """Test whether one smooth curve improves the score for everybody: p-value and improved scores."""
    return correct_for(people, [], whole=True)


def correct_for(
    people: People,
    groups: list[IntArray],
    *,
    whole: bool,
    fitted: BoolArray | None = None,
) -> tuple[float, FloatArray]:
    """Correct the raw score for some groups (rows of each) together, and as a `whole` if asked.

    Each group has a constant and a slope in log-odds, the score as a whole a smooth curve. `fitted` says
    which rows the correction is learned from. Returns the p-value of that curve beside the groups (1 without
    it), and the scores.
    """
    member = np.zeros(len(people), dtype=np.int64)
    for k, rows in enumerate(groups):
        member[rows] |= 1 << k
    rows = np.arange(len(people)) if whole else np.flatnonzero(member)
    learned = rows if fitted is None else rows[fitted[rows]]
    cells = _Cells.of(people, learned, member[learned], people.log_odds[learned])
    knots = np.unique(np.quantile(people.x, KNOTS))
    own = _design(cells.owner, cells.x, len(groups))
    design = np.hstack([own, spline_basis(cells.x, knots)]) if whole else own
    fit = _fit(design, cells)
    score = people.raw.copy()
    if fit is None:
        return 1.0, score
    p_value = 1.0
    if whole:
        without = _fit(own, cells) if own.shape[1] else None
        before = expit(cells.value) if without is None else without.fitted[: len(cells.value)]
        gain = 2 * (cells.log_likelihood(fit.fitted[: len(cells.value)]) - cells.log_likelihood(before))
        p_value = float(special.chdtrc(len(knots), max(gain / people.inflation(), 0.0)))
    shift = _design(member[rows], people.x[rows], len(groups)) @ fit.coefficients[: own.shape[1]]
    if whole:
        shift = shift + spline_basis(people.x[rows], knots) @ fit.coefficients[own.shape[1] :]
    score[rows] = np.clip(expit(people.log_odds[rows] + shift), NEAREST, 1 - NEAREST)
    return p_value, score


@dataclass(frozen=True, eq=False)
class Correcting:
    """A correction for some groups, and as a `whole`: whose chance it follows."""

    people: People
    groups: list[IntArray]
    whole: bool

    def followed(self, others: Sequence[IntArray], score: FloatArray) -> FloatArray:
        """The share of the chance of other groups' outcomes that the fitted correction has followed.

        This is how much of a group's indicator the terms of the correction explain, each row with its
        variance after correction: 1 for a group that is corrected for itself, 0 for one that has nobody in
        common with the groups.
        """
        people = self.people
        member = np.zeros(len(people), dtype=np.int64)
        for k, rows in enumerate(self.groups):
            member[rows] |= 1 << k
        variance = people.weight * score * (1 - score)
        knots = np.unique(np.quantile(people.x, KNOTS))
        inside = np.zeros((len(others), len(people)), dtype=np.bool_)
        for own, rows in zip(inside, others):
            own[rows] = True
        squares: Any = 0.0
        mixed: Any = 0.0
        for start in range(0, len(people), CHUNK):
            part = slice(start, start + CHUNK)
            design = _design(member[part], people.x[part], len(self.groups))
            if self.whole:
                design = np.hstack([design, spline_basis(people.x[part], knots)])
            weighted = design * variance[part, None]
            squares = squares + design.T @ weighted
            mixed = mixed + inside[:, part] @ weighted
        explained = np.einsum("ij,ij->i", mixed, np.linalg.lstsq(squares, mixed.T, rcond=None)[0].T)
        return np.asarray(np.clip(explained / np.maximum(inside @ variance, 1e-300), 0.0, 1.0))


def _fit(design: FloatArray, cells: _Cells) -> LogisticFit | None:
    """A logistic regression with a weak prior, which keeps coefficients of separated data finite."""
    prior = np.full(design.shape[1], PRIOR)
    return fit_logistic(
        np.vstack([design, np.eye(len(prior))]),
        np.append(cells.value, 0 * prior),
        np.append(cells.weight, 2 * prior),
        np.append(cells.positives, prior),
    )


def _design(owner: IntArray, x: FloatArray, n_groups: int) -> FloatArray:
    """A constant and a slope for each group, in columns."""
    design = np.empty((len(owner), 2 * n_groups))
    for k in range(n_groups):
        design[:, 2 * k] = owner >> k & 1
        design[:, 2 * k + 1] = design[:, 2 * k] * x
    return design

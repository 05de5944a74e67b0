"""Sample: the people of one group, and how uncertain any mean over them is.

Every measure here is a mean or close to one: its error is a sum over people of small
influences. The variance of that sum is the sum of their squares if people are
independent (under survey weights, with the weights squared), and the sum of squares of
each cluster's sum if people occur several times. One mechanism thus gives the interval
of every measure.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from propcal.auditing.statistics.rate_intervals import (
    CONFIDENCE,
    normal_quantile,
    t_quantile,
)
from propcal.core.atoms import Atoms
from propcal.core.fit.evidence import FEWEST_CLUSTERS, atom_clusters
from propcal.core.grid import BoolArray, FloatArray, IntArray, WithoutCaches, from_grid
from propcal.core.logistic import expit, log_odds

# sums over the people of each atom
SUMS = ("weight", "weight_sq", "positives", "positives_sq")
MOST_SCORES = 200_000
# scores of 0 and 1 have no log-odds; they are taken as this far from the end
NEAREST = 1e-6
CELLS_PER_UNIT = 256  # of log-odds


@dataclass(frozen=True, eq=False)
class Sample(WithoutCaches):
    """Atoms of some people: scores, sums, the cluster of each atom (or None), and
    whether labels are soft.
    """

    score: FloatArray
    people: IntArray
    weight: FloatArray
    weight_sq: FloatArray
    positives: FloatArray
    positives_sq: FloatArray
    cluster: IntArray | None
    soft: bool = False

    def where(self, chosen: BoolArray) -> Sample:
        """Some of these people."""
        columns: dict[str, Any] = {}
        for name in ("score", "people", *SUMS):
            columns[name] = getattr(self, name)[chosen]

        if self.cluster is not None:
            columns["cluster"] = self.cluster[chosen]
        return replace(self, **columns)

    @classmethod
    def of(cls, atoms: Atoms) -> Sample:
        """All people of the atoms."""
        sums = {name: getattr(atoms, name).astype(np.float64) for name in SUMS}
        return cls(
            score=from_grid(atoms.score),
            people=atoms.people,
            **sums,
            cluster=atom_clusters(atoms),
            soft=atoms.soft_labels,
        )

    @cached_property
    def n_people(self) -> int:
        """People, each row counted once."""
        return int(self.people.sum())

    @cached_property
    def total(self) -> float:
        """Sum of the weights."""
        return float(self.weight.sum())

    @cached_property
    def effective(self) -> float:
        """How many people of equal weight would carry as much information (Kish)."""
        squares = float(self.weight_sq.sum())
        if squares <= 0:
            return 0.0
        return min(self.total**2 / squares, float(self.n_people))

    @cached_property
    def observed(self) -> float:
        """Weighted number of people with the outcome."""
        return float(self.positives.sum())

    @cached_property
    def expected(self) -> float:
        """Weighted number of people with the outcome that the score expects."""
        return float(np.sum(self.weight * self.score))

    @cached_property
    def negatives(self) -> FloatArray:
        """Weight of the people of each atom without the outcome."""
        return self.weight - self.positives

    @cached_property
    def negatives_sq(self) -> FloatArray:
        """`negatives` of the squared weights; rounding may not make it negative."""
        return np.maximum(self.weight_sq - self.positives_sq, 0.0)

    @cached_property
    def n_clusters(self) -> int:
        """Clusters of repeat visits that occur; 0 if every row is a person."""
        if self.cluster is None:
            return 0
        return len(np.unique(self.cluster))

    @cached_property
    def x(self) -> FloatArray:
        """Log-odds of the scores."""
        return log_odds(np.clip(self.score, NEAREST, 1 - NEAREST))

    @cached_property
    def order(self) -> IntArray:
        """The atoms by ascending score."""
        return np.argsort(self.x, kind="stable")

    @cached_property
    def cells(self) -> Sample:
        """These people in narrow cells of the log-odds, each at its mean: enough for
        any smooth fit.
        """
        cell = np.floor(self.x * CELLS_PER_UNIT).astype(np.int64)
        if self.cluster is not None or len(cell) < np.ptp(cell) + 1:
            return self

        cell -= cell.min()
        weight = np.bincount(cell, weights=self.weight)
        used = weight > 0

        def total(column: Any) -> Any:
            return np.bincount(cell, weights=column)[used]

        mean_x = total(self.weight * self.x) / weight[used]
        return Sample(
            score=expit(mean_x),
            people=total(self.people).astype(np.int64),
            **{name: total(getattr(self, name)) for name in SUMS},
            cluster=None,
            soft=self.soft,
        )

    @property
    def narrow(self) -> Sample:
        """Very many scores in narrow cells, which changes measures by less than
        0.00003; otherwise the sample itself.
        """
        if len(self.score) > MOST_SCORES:
            return self.cells
        return self

    def mean(self, if_positive: Any, if_negative: Any) -> float:
        """Weighted mean over people of a quantity that depends on score and outcome."""
        sums = self.positives * if_positive + self.negatives * if_negative
        return float(np.sum(sums) / self.total)

    def cluster_sums(self, per_atom: FloatArray) -> FloatArray:
        """Sum of a column (or several) within each cluster that occurs."""
        assert self.cluster is not None
        columns = per_atom.reshape(len(per_atom), -1)
        _, index = np.unique(self.cluster, return_inverse=True)
        sums = [np.bincount(index, weights=column) for column in columns.T]
        return np.stack(sums, axis=1)

    def covariance(
        self, if_positive: FloatArray, if_negative: FloatArray
    ) -> FloatArray:
        """Covariance of sums over people of influences, given for each atom and either
        outcome.

        Influences have the shape (n_atoms,) or (n_atoms, k); the result is (k, k).
        """
        positive = if_positive.reshape(len(if_positive), -1)
        negative = if_negative.reshape(len(if_negative), -1)
        if self.cluster is None:
            of_positives = _sum_of_squares(positive, self.positives_sq)
            return of_positives + _sum_of_squares(negative, self.negatives_sq)

        if self.n_clusters < FEWEST_CLUSTERS:
            return np.full((positive.shape[1],) * 2, np.nan)
        influence = self.positives[:, None] * positive
        influence = influence + self.negatives[:, None] * negative
        sums = self.cluster_sums(influence)
        centred = sums - sums.mean(axis=0)
        unbiased = self.n_clusters / (self.n_clusters - 1)
        return np.asarray(centred.T @ centred * unbiased)

    def error(self, if_positive: FloatArray, if_negative: FloatArray) -> float:
        """Standard error of one sum over people of influences."""
        return float(np.sqrt(self.covariance(if_positive, if_negative)[0, 0]))

    @cached_property
    def variance_ratio(self) -> float:
        """Variance of the number of events, in variances of as many independent people
        of equal weight.
        """
        if self.total <= 0:
            return 1.0
        squared = self.mean((1 - self.score) ** 2, self.score**2)
        independent = squared / max(self.n_people, 1)
        if independent <= 0:
            return 1.0
        error_of_events = self.error(1 - self.score, -self.score)
        return (error_of_events / self.total) ** 2 / independent

    def repeat_effect_of(
        self, if_positive: FloatArray, if_negative: FloatArray
    ) -> float:
        """How many times larger the variance of a sum is because of repeat visits; at
        least 1.

        Both variances come from the same events, so that few events do not make the
        ratio small.
        """
        if self.cluster is None:
            return 1.0
        clustered = self.covariance(if_positive, if_negative)[0, 0]
        rows = replace(self, cluster=None)
        independent = rows.covariance(if_positive, if_negative)[0, 0]
        if independent > 0:
            return max(float(clustered / independent), 1.0)
        return 1.0

    @cached_property
    def repeat_effect(self) -> float:
        """`repeat_effect_of` the number of events, around a score that is scaled to the
        observed number.
        """
        scaled = self.score
        if self.expected > 0:
            scaled = self.score * (self.observed / self.expected)
        return self.repeat_effect_of(1 - scaled, -scaled)

    @cached_property
    def quantile(self) -> float:
        """Standard errors that an interval reaches to either side; NaN for soft labels
        (unknown noise).
        """
        if self.soft:
            return float("nan")
        return self.quantile_of((1 + CONFIDENCE) / 2)

    def quantile_of(self, p: float) -> float:
        """Standard errors that an estimate stays below with probability `p`; Student's
        t of the clusters.
        """
        if self.cluster is None:
            return normal_quantile(p)
        return t_quantile(p, max(self.n_clusters - 1, 1))


def _sum_of_squares(influence: FloatArray, weight_sq: FloatArray) -> FloatArray:
    """Weighted sums of squares and products of the columns of a narrow table."""
    # einsum: the threads of BLAS would cost more than they save
    return np.asarray(np.einsum("ij,i,ik->jk", influence, weight_sq, influence))


def filled_clusters(atoms: Atoms, inside: FloatArray, there: FloatArray) -> FloatArray:
    """The number of clusters of repeat visits that have somebody of a group in a part.

    Parameters
    ----------
    inside : array of shape (n_groups, n_patterns)
        1 for the patterns of each group.
    there : array of shape (n_patterns, n_parts)
        People of each pattern in each part; the result is (n_groups, n_parts).
    """
    cluster = atom_clusters(atoms)
    assert cluster is not None
    of_pattern = cluster[atoms.starts[:-1]]
    filled = np.zeros((len(inside), there.shape[1]))
    for number in np.unique(of_pattern):
        rows = of_pattern == number
        filled += inside[:, rows] @ there[rows] > 0
    return filled

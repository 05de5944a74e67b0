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
from propcal.core.grid import BoolArray, FloatArray, IntArray, WithoutCaches, from_grid
from propcal.core.logistic import expit, log_odds
from propcal.core.patterns import CLUSTER

SUMS = (
    "weight",
    "weight_sq",
    "positives",
    "positives_sq",
)  # over the people of each atom
MOST_SCORES = 200_000
NEAREST = (
    1e-6  # scores of 0 and 1 have no log-odds; they are taken as this far from the end
)
CELLS_PER_UNIT = 256  # of log-odds
FEWEST_CLUSTERS = 10  # with fewer, the spread of the clusters says too little


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
        cluster = None if self.cluster is None else self.cluster[chosen]
        columns = {
            name: getattr(self, name)[chosen] for name in ("score", "people", *SUMS)
        }
        return replace(self, **columns, cluster=cluster)

    @classmethod
    def of(cls, atoms: Atoms, patterns: Any = None) -> Sample:
        """The people of the given patterns (indices), or all of them."""
        rows: Any = slice(None)
        if patterns is not None:
            runs = [np.arange(atoms.starts[p], atoms.starts[p + 1]) for p in patterns]
            rows = np.concatenate(runs) if runs else np.empty(0, dtype=np.int64)
        cluster = atom_clusters(atoms)
        sums = {name: getattr(atoms, name)[rows].astype(np.float64) for name in SUMS}
        cluster = None if cluster is None else cluster[rows]
        score = from_grid(atoms.score[rows])
        people = atoms.people[rows]
        return cls(score, people, **sums, cluster=cluster, soft=atoms.soft_labels)

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
        """People of equal weight that tell as much (Kish); all of them if weights are
        equal.
        """
        squares = float(self.weight_sq.sum())
        if squares > 0:
            return min(self.total**2 / squares, float(self.n_people))
        return 0.0

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
        """Clusters of repeated people that occur; 0 if every row is a person."""
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
        weight: FloatArray = np.bincount(cell, weights=self.weight).astype(np.float64)
        used = weight > 0

        def total(column: Any) -> Any:
            return np.bincount(cell, weights=column)[used]

        sums = {name: total(getattr(self, name)) for name in SUMS}
        score = expit(total(self.weight * self.x) / weight[used])
        people = total(self.people).astype(np.int64)
        return Sample(score, people, **sums, cluster=None, soft=self.soft)

    @property
    def narrow(self) -> Sample:
        """Narrow cells of very many scores, which change measures by less than 0.00003;
        else the sample.
        """
        return self.cells if len(self.score) > MOST_SCORES else self

    def mean(self, if_positive: Any, if_negative: Any) -> float:
        """Weighted mean over people of a quantity that depends on score and outcome."""
        return float(
            np.sum(self.positives * if_positive + self.negatives * if_negative)
            / self.total
        )

    def cluster_sums(self, per_atom: FloatArray) -> FloatArray:
        """Sum of a column (or several) within each cluster that occurs."""
        assert self.cluster is not None
        columns = per_atom.reshape(len(per_atom), -1)
        _, index = np.unique(self.cluster, return_inverse=True)
        return np.stack(
            [np.bincount(index, weights=column) for column in columns.T], axis=1
        )

    def covariance(
        self, if_positive: FloatArray, if_negative: FloatArray
    ) -> FloatArray:
        """Covariance of sums over people of influences, given for each atom and either
        outcome.

        Influences have the shape (n_atoms,) or (n_atoms, k); the result is (k, k).
        """
        one = if_positive.reshape(len(if_positive), -1)
        zero = if_negative.reshape(len(if_negative), -1)
        if (
            self.cluster is None
        ):  # einsum: in such narrow tables the threads of BLAS cost more than they save
            found = np.einsum("ij,i,ik->jk", one, self.positives_sq, one)
            return np.asarray(
                found + np.einsum("ij,i,ik->jk", zero, self.negatives_sq, zero)
            )
        sums = self.cluster_sums(
            self.positives[:, None] * one + self.negatives[:, None] * zero
        )
        if self.n_clusters < FEWEST_CLUSTERS:
            return np.full((one.shape[1],) * 2, np.nan)
        centred = sums - sums.mean(axis=0)
        return np.asarray(
            centred.T @ centred * (self.n_clusters / (self.n_clusters - 1))
        )

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
        independent = self.mean((1 - self.score) ** 2, self.score**2) / max(
            self.n_people, 1
        )
        error = self.error(1 - self.score, -self.score)  # of the number of events
        if independent > 0:
            return (error / self.total) ** 2 / independent
        return 1.0

    def repeat_effect_of(
        self, if_positive: FloatArray, if_negative: FloatArray
    ) -> float:
        """How many times larger the variance of a sum is because people occur several
        times; at least 1.

        Both variances come from the same events, so that few events do not make the
        ratio small.
        """
        if self.cluster is None:
            return 1.0
        together, apart = (
            one.covariance(if_positive, if_negative)[0, 0]
            for one in (self, replace(self, cluster=None))
        )
        return max(float(together / apart), 1.0) if apart > 0 else 1.0

    @cached_property
    def repeat_effect(self) -> float:
        """`repeat_effect_of` the number of events; residuals are about the score scaled
        to the events.
        """
        if self.expected > 0:
            scaled = self.score * (self.observed / self.expected)
        else:
            scaled = self.score
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


def filled_clusters(atoms: Atoms, inside: FloatArray, there: FloatArray) -> FloatArray:
    """In how many clusters of repeat visits somebody of each group is `there`, by
    pattern and part.

    `inside` has the patterns of each group.
    """
    cluster = atom_clusters(atoms)
    assert cluster is not None
    of_pattern = cluster[atoms.starts[:-1]]
    filled = np.zeros((len(inside), there.shape[1]))
    for number in np.unique(of_pattern):
        rows = of_pattern == number
        filled += inside[:, rows] @ there[rows] > 0
    return filled


def atom_clusters(atoms: Atoms) -> IntArray | None:
    """Cluster of repeated people of each atom, or None if every row is a person."""
    if CLUSTER not in atoms.patterns.attributes:
        return None
    place = atoms.patterns.attributes.index(CLUSTER)
    return np.asarray(atoms.patterns.table[:, place][atoms.pattern_index()])

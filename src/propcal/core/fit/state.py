"""The state of a fit: everybody's current scores and the sums of each category, for the compiled sweep."""

from __future__ import annotations

from dataclasses import astuple, dataclass
from typing import Any

import numpy as np

from propcal.core.atoms import Atoms
from propcal.core.bins import Bins
from propcal.core.criterion import Criterion
from propcal.core.fit import sweep as kernel
from propcal.core.grid import UNIT, FloatArray, IntArray, SumArray
from propcal.core.groups.group import Collection, membership


@dataclass(frozen=True)
class UpdateRule:
    """Update a category if its gap reaches both offset + slope * max(rate, rho) and z standard errors.

    `offset` and `rho` are in units of the grid; `z` is 0 without a guard.
    """

    offset: float
    slope: float
    rho: float
    z: float
    min_share: float

    @classmethod
    def of(cls, criterion: Criterion, alpha: float, *, z: float, min_share: float) -> UpdateRule:
        """The rule for a criterion and a tolerance, in the kernel's units."""
        return cls(
            offset=alpha * criterion.offset * UNIT,
            slope=alpha * criterion.slope,
            rho=criterion.rho * UNIT,
            z=z,
            min_share=min_share,
        )

    @property
    def smallest_cutoff(self) -> float:
        """The smallest gap in units that is an update, in a category in which no one had the outcome."""
        return float(kernel.within_ties(self.offset + self.slope * self.rho))


class BoostingState:
    """The current scores of all patterns as segments, with the sums of every bucket."""

    def __init__(self, atoms: Atoms, bins: Bins, collection: Collection) -> None:
        self.atoms, self.edges = atoms, bins.edges
        inside = membership(collection.groups, atoms.patterns)
        self.group_starts = np.concatenate([[0], np.cumsum(inside.sum(axis=1))])
        self.members = np.ascontiguousarray(np.nonzero(inside)[1])
        self.total = float(atoms.weight.sum())
        self.running = self.whole = running_sums(
            atoms.weight, atoms.outcome_units(), atoms.score, atoms.weight_sq
        )
        self.size: Any = np.empty(0, dtype=atoms.weight.dtype)  # empty: no resampling
        shape = len(atoms.patterns), len(bins)
        self.heads = np.full(shape, kernel.NONE, dtype=np.int64)
        self.sums = np.zeros((*shape, kernel.N_SUMS), dtype=atoms.weight.dtype)
        self.table, self.count = kernel.start_segments(
            atoms.starts, self.edges, atoms.score, self.heads, self.sums, self.size, self.running
        )

    def resample(self, rng: np.random.Generator) -> None:
        """Draw a bootstrap sample; the full data still decide which categories are large enough."""
        if not len(self.size):
            self.size = self.running[0]
        self.running = running_sums(*bootstrap(self.atoms, rng))
        kernel.fill_sums(self.table, self.heads, self.sums, self.size, self.running)

    def category_sums(self) -> Any:
        """The sums of each category in the full data, of shape (n_groups, n_bins, N_SUMS)."""
        if self.running is not self.whole:
            kernel.fill_sums(self.table, self.heads, self.sums, self.size, self.whole)
        return np.add.reduceat(self.sums[self.members], self.group_starts[:-1], axis=0)

    def worst(self, rule: UpdateRule) -> int:
        """The category that exceeds its limit by the largest factor, or -1."""
        limits, n_bins = (*astuple(rule), self.total), len(self.edges) - 1
        return int(kernel.worst_category(self.group_starts, self.members, self.sums, n_bins, limits))

    def sweep(self, order: IntArray, rule: UpdateRule, eta: float, most: int) -> IntArray:
        """Visit the categories once and return the updates as rows of group, bin, shift and people."""
        self.table, self.count, updates = kernel.sweep(
            order,
            self.group_starts,
            self.members,
            self.table,
            self.count,
            self.heads,
            self.sums,
            self.edges,
            self.atoms.score,
            self.size,
            self.running,
            (*astuple(rule), self.total),
            eta,
            most,
        )
        return np.asarray(updates)


def running_sums(weight: SumArray, outcome: SumArray, score: IntArray, squares: SumArray) -> Any:
    """Running sums of weight, outcome, score (in units) and squared weight, up to each atom."""
    running = [np.zeros(len(score) + 1, dtype=weight.dtype) for _ in range(3)]
    np.cumsum(weight, out=running[0][1:])
    np.cumsum(outcome, out=running[1][1:])
    np.multiply(weight, score, out=running[2][1:])
    np.cumsum(running[2], out=running[2])  # in place, because a fit needs the most memory here
    if squares is weight:  # frequencies
        return (*running, running[0])
    return (*running, np.concatenate([np.zeros(1, dtype=weight.dtype), np.cumsum(squares)]))


def bootstrap(atoms: Atoms, rng: np.random.Generator) -> tuple[SumArray, SumArray, IntArray, SumArray]:
    """Weights, outcomes (in units), scores and squared weights of a bootstrap sample of the same size.

    If outcomes are 0/1 and weights are frequencies, people with and without the outcome are drawn
    separately, which is equivalent to a bootstrap of the rows. Otherwise each drawn person has the mean
    weight and outcome of the atom, which is equivalent if every atom is a single person.
    """
    n = atoms.n_people
    if not atoms.soft:
        cells = np.concatenate([atoms.positives, atoms.people - atoms.positives])
        drawn = rng.multinomial(n, cells / n)
        positives, negatives = np.split(drawn, 2)
        weight = positives + negatives
        return weight, positives * np.int64(UNIT), atoms.score, weight
    drawn = rng.multinomial(n, atoms.people / n)
    scale = drawn / atoms.people
    if atoms.frequencies:
        outcome = np.rint(atoms.outcome_units() * scale).astype(np.int64)
        return drawn, outcome, atoms.score, drawn
    return atoms.weight * scale, atoms.outcome_units() * scale, atoms.score, atoms.weight_sq * scale


def standard_errors(
    weight: FloatArray, squares: FloatArray, positives: FloatArray, score: FloatArray
) -> FloatArray:
    """Standard errors of gaps if the score is calibrated; `kernel.standard_error` for arrays of sums."""
    people = weight**2 / squares
    mean = score / weight
    rate = (positives / weight * people + 1) / (people + 2)
    return np.asarray(np.sqrt(np.maximum(mean * (1 - mean), rate * (1 - rate)) / people))

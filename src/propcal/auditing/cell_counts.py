"""Counts: people with and without the outcome by group and range of scores; protected pages start here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from propcal.auditing.sample import atom_clusters
from propcal.core.atoms import Atoms
from propcal.core.bins import Bins
from propcal.core.categories import bucket_sums
from propcal.core.grid import UNIT, BoolArray, FloatArray, from_grid, to_grid
from propcal.core.groups.collection import Group, membership
from propcal.core.patterns import Patterns
from propcal.core.reduction import without_clusters
from propcal.data.repeat_visits import N_CLUSTERS

Members = Callable[[Patterns], BoolArray]  # the patterns of each group
FEW_SCORES = 40  # different values

# Steps of a fixed grid of scores, finer where risks are low or high
STEPS = (
    np.arange(0, 100) / 10_000,
    np.arange(10, 100) / 1000,
    np.arange(10, 90) / 100,
    np.arange(900, 990) / 1000,
    np.arange(9900, 10_001) / 10_000,
)
WHOLE = Bins(np.array([0, UNIT], dtype=np.int64), "explicit", 1)


def fine_ranges() -> Bins:
    """The fixed grid as ranges of scores."""
    edges = to_grid(np.concatenate(STEPS))
    return Bins(edges, "explicit", len(edges) - 1)


@dataclass(frozen=True, eq=False)
class OutcomeTally:
    """People with the outcome (first row) and without it (second), by group and range of scores.

    Attributes
    ----------
    people : array of float64, shape (2, n_groups, n_ranges)
        Rows of the data. Under survey weights: people times the weighted share with the outcome.
    different : array of float64, same shape
        At least so many different people are behind them: clusters of repeat visits that their rows fill,
        or the effective number under survey weights.
    score, angle, angle_squared : array of float64, same shape
        Sums of their scores, of the angles arcsin(sqrt(score)) and of the squares of these, on the scale of
        `people`.
    clusters : array of uint8, shape (2, n_groups, n_ranges, n_clusters / 8), or None
        Which clusters of repeat visits the rows fill, as bits; None if every row is a person.
    """

    people: FloatArray
    different: FloatArray
    score: FloatArray
    angle: FloatArray
    angle_squared: FloatArray
    clusters: Any

    def between(self, outcome: int, group: int, begin: int, end: int) -> float:
        """At least so many different people are in a run of ranges."""
        if self.clusters is None:
            return float(self.different[outcome, group, begin:end].sum())
        together = np.bitwise_or.reduce(self.clusters[outcome, group, begin:end], axis=0)
        return float(np.bitwise_count(together).sum())

    @classmethod
    def of(cls, atoms: Atoms, bare: Atoms, members: Members, bins: Bins, angle: FloatArray) -> OutcomeTally:
        """Add up the people of the patterns that `members` finds; `bare` are the atoms without clusters."""
        inside = members(bare.patterns).astype(np.float64)
        clusters = _filled_clusters(atoms, members, bins)
        filled = None if clusters is None else np.bitwise_count(clusters).sum(axis=3).astype(np.float64)

        def total(column: Any) -> FloatArray:
            if not len(inside):
                return np.zeros((0, len(bins)))
            found = inside @ np.asarray(bucket_sums(bare, bins, column), dtype=np.float64)
            return np.where(np.abs(found) < 1e-9, 0.0, found)  # rounding of running sums

        score = from_grid(bare.score)
        either = [bare.positives, bare.weight - bare.positives]
        weight = np.maximum([total(column) for column in either], 0.0)
        first, second, third = (
            np.array([total(column * each) for column in either]) for each in (score, angle, angle**2)
        )
        if bare.frequencies:
            return cls(weight, weight if filled is None else filled, first, second, third, clusters)
        squares = np.array([total(bare.positives_sq), total(bare.weight_sq - bare.positives_sq)])
        with np.errstate(invalid="ignore", divide="ignore"):
            scale = np.nan_to_num(total(bare.people) / weight.sum(axis=0), posinf=0.0)
            effective = np.nan_to_num(weight**2 / squares, posinf=0.0)
        different = effective if filled is None else np.minimum(effective, filled)
        return cls(weight * scale, different, first * scale, second * scale, third * scale, clusters)


@dataclass(frozen=True, eq=False)
class Counts:
    """All counts of an audit; groups are in the order of its table of groups.

    Attributes
    ----------
    totals, ranges, fine : OutcomeTally
        Of whole groups, by bin of the audit, and by the steps of a fixed grid of scores.
    missing : OutcomeTally
        Of the people for whom an attribute is missing, in the order of `AuditedPeople.missing`.
    few_scores : bool
        Whether scores take so few values that a sum of scores is a count in disguise.
    bins : Bins
        The bins of the audit.
    """

    totals: OutcomeTally
    ranges: OutcomeTally
    fine: OutcomeTally
    missing: OutcomeTally
    few_scores: bool
    bins: Bins

    @classmethod
    def of(cls, atoms: Atoms, groups: Sequence[Group], bins: Bins) -> Counts:
        """Add up atoms that may have clusters of repeat visits."""
        bare, fine = without_clusters(atoms), fine_ranges()
        angle = np.arcsin(np.sqrt(from_grid(bare.score)))

        def members(patterns: Patterns) -> BoolArray:
            return membership(groups, patterns)

        return cls(
            totals=OutcomeTally.of(atoms, bare, members, WHOLE, angle),
            ranges=OutcomeTally.of(atoms, bare, members, bins, angle),
            fine=OutcomeTally.of(atoms, bare, members, fine, angle),
            missing=OutcomeTally.of(atoms, bare, _without_a_value, WHOLE, angle),
            few_scores=all(len(np.unique(part)) < FEW_SCORES for part in (bare.score[:10_000], bare.score)),
            bins=bins,
        )


def _without_a_value(patterns: Patterns) -> BoolArray:
    """The patterns in which an attribute is missing, for each attribute that is missing for somebody."""
    found = [
        patterns.table[:, a] == levels.index(None)
        for a, levels in enumerate(patterns.levels)
        if None in levels
    ]
    return np.array(found, dtype=np.bool_).reshape(-1, len(patterns))


def _filled_clusters(atoms: Atoms, members: Members, bins: Bins) -> Any:
    """Which clusters the rows with and without the outcome fill, as bits; None if every row is a person."""
    cluster = atom_clusters(atoms)
    if cluster is None:
        return None
    of_pattern, inside = cluster[atoms.starts[:-1]], members(atoms.patterns).astype(np.float64)
    found = []
    for column in (atoms.positives, atoms.weight - atoms.positives):
        there = (bucket_sums(atoms, bins, column) > 1e-9).astype(np.float64)
        filled = np.zeros((len(inside), len(bins), N_CLUSTERS), dtype=np.bool_)
        for number in np.unique(of_pattern):
            rows = of_pattern == number
            filled[:, :, number] = inside[:, rows] @ there[rows] > 0
        found.append(np.packbits(filled, axis=2))
    return np.stack(found)

"""Chance: what categories show under a perfect score, and how well each is known.

Under perfect calibration a person scored r has the outcome with probability r. Drawing
such outcomes again and again, on the same people, shows how large gaps and losses
become by chance alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from propcal.auditing.statistics.sample import filled_clusters
from propcal.core.atoms import Atoms
from propcal.core.bins import Bins
from propcal.core.categories import Categories, bucket_starts, bucket_sums
from propcal.core.draws import Draws, draw_outcomes
from propcal.core.fit.evidence import (
    FEWEST_CLUSTERS,
    atom_clusters,
    squared_residuals,
)
from propcal.core.grid import (
    BoolArray,
    FloatArray,
    IntArray,
    from_grid,
    ratio,
    run_sums,
)
from propcal.core.groups import membership
from propcal.core.patterns import CLUSTER
from propcal.core.reduction import without_clusters
from propcal.reading.patient_ids import N_CLUSTERS

MOST_PARTS = 8  # of a bin: within one part all scores are taken as its mean
MOST_CELLS = 16_000
MOST_NUMBERS = 4_000_000  # drawn at a time
ENOUGH_OUTCOMES = 20
# variance of half an outcome more or less: outcomes are whole, and rare ones jump
HALF_OUTCOME_SQ = 0.25


@dataclass(frozen=True, eq=False)
class ScoreCells:
    """Parts of a bin by pattern, where there are people: their weight and mean score.

    `typical` is the weight of one person, weight_sq / weight: under survey weights a
    cell is worth weight / typical independent people.
    """

    pattern: IntArray
    bin_index: IntArray
    weight: FloatArray
    typical: FloatArray
    score: FloatArray

    @property
    def n(self) -> FloatArray:
        """Effective number of people."""
        return self.weight / self.typical


def score_cells(
    atoms: Atoms, bins: Bins, effect: FloatArray | None = None
) -> ScoreCells:
    """Cut every bin into a few parts; a design effect makes people of a bin worth
    less.
    """
    n_cells = len(atoms.patterns) * len(bins)
    n_parts = MOST_CELLS // n_cells
    n_parts_of_bin = int(np.clip(n_parts, 1, MOST_PARTS))
    parts = bins.cut(n_parts_of_bin)
    starts = bucket_starts(atoms, parts)

    def sums(column: Any) -> FloatArray:
        by_bucket = run_sums(column, starts).reshape(len(atoms.patterns), len(parts))
        return np.asarray(by_bucket, dtype=np.float64)

    weights = sums(atoms.weight)
    pattern, part = np.nonzero(weights)
    weight = weights[pattern, part]
    weight_sq = sums(atoms.weight_sq)[pattern, part]
    weighted_score = atoms.weight * from_grid(atoms.score)
    score_sum = sums(weighted_score)[pattern, part]

    bin_index = bins.index(parts.edges[part])
    typical = weight_sq / weight
    if effect is not None:
        typical = typical * effect[bin_index]
    score = np.clip(score_sum / weight, 0, 1)
    return ScoreCells(pattern, bin_index, weight, typical, score)


def _drawn_positives(
    cells: ScoreCells, n_draws: int, rng: Draws, *, block: int
) -> Iterator[FloatArray]:
    """Weight of people with the outcome in each cell, for outcomes drawn from the
    score.
    """
    at_least = np.ceil(cells.n * (1 - 1e-12))
    people = np.maximum(at_least, 1)
    # false with survey weights or repeat visits
    independent = bool(np.all(cells.n == people))
    n_people = people.astype(np.int64)
    for positives in draw_outcomes(n_people, cells.score, n_draws, rng, block=block):
        if independent:
            yield positives * cells.typical
            continue
        deviation = positives / people - cells.score
        # a cell may be worth a part of a person more than `n`
        deviation *= np.sqrt(people / cells.n)
        rate = cells.score + deviation
        yield np.asarray(cells.weight * rate)


def _drawn_rates(
    atoms: Atoms, table: Categories, effect: FloatArray, n_draws: int, rng: Draws
) -> Iterator[FloatArray]:
    """Outcome rates of all categories under a perfect score, in blocks of draws."""
    cells = score_cells(atoms, table.bins, effect)
    n_bins = len(table.bins)
    n_patterns = len(atoms.patterns)
    members_of_group = membership(table.collection.groups, atoms.patterns)
    inside = members_of_group.astype(np.float64)

    # cells of the same pattern and bin follow each other
    place = cells.pattern * n_bins + cells.bin_index
    occupied, first = np.unique(place, return_index=True)
    of_bin = [np.flatnonzero(occupied % n_bins == b) for b in range(n_bins)]
    members = [inside[:, occupied[chosen] // n_bins].T for chosen in of_bin]

    n_rates = inside.shape[0] * n_bins
    numbers_per_draw = max(len(place), n_patterns * n_bins, n_rates)
    block = MOST_NUMBERS // numbers_per_draw
    for of_cells in _drawn_positives(cells, n_draws, rng, block=block):
        positives = np.add.reduceat(of_cells, first, axis=1)
        of_groups = [
            positives[:, chosen] @ inside_bin
            for chosen, inside_bin in zip(of_bin, members)
        ]
        in_bins = np.stack(of_groups, axis=2)
        yield ratio(in_bins, table.weight)


def design_effect(atoms: Atoms, bins: Bins) -> FloatArray:
    """How many times larger the variance of each bin is because of repeat visits.

    Rows are tabulated by cluster of people and by bin; the spread of the clusters is
    compared with what independent rows would show. Not below 1; a bin with few outcomes
    takes the value of all bins together. NaN if there are too few clusters; ones if
    every row is a person.
    """
    cluster = atom_clusters(atoms)
    if cluster is None:
        return np.ones(len(bins))
    cluster_of_pattern = cluster[atoms.starts[:-1]]
    known, index = np.unique(cluster_of_pattern, return_inverse=True)
    if len(known) < FEWEST_CLUSTERS:
        return np.full(len(bins), np.nan)

    def by_cluster(column: Any) -> FloatArray:
        shape = (len(known), len(bins))
        sums = np.zeros(shape)
        np.add.at(sums, index, bucket_sums(atoms, bins, column))
        return sums

    weight = by_cluster(atoms.weight)
    positives = by_cluster(atoms.positives)
    squares = by_cluster(atoms.weight_sq).sum(axis=0)
    positive_squares = by_cluster(atoms.positives_sq).sum(axis=0)
    unbiased = len(known) / (len(known) - 1)
    with np.errstate(invalid="ignore", divide="ignore"):
        rate = positives.sum(axis=0) / weight.sum(axis=0)
        excess = positives - rate * weight
        clustered = np.sum(excess**2, axis=0) * unbiased
        independent = squared_residuals(positive_squares, squares, rate)
        effect = clustered / independent

    sum_independent = np.nansum(independent)
    pooled = float(np.nansum(clustered) / max(sum_independent, 1e-300))
    negatives = (weight - positives).sum(axis=0)
    fewer = np.minimum(positives.sum(axis=0), negatives)
    measured = np.where(fewer >= ENOUGH_OUTCOMES, effect, pooled)
    return np.maximum(measured, 1.0)


def different_people(atoms: Atoms, table: Categories) -> FloatArray:
    """How many different people each category has: its rows, or an estimate from the
    clusters they fill.

    If there are many people, some share a cluster; the estimate is the number that
    would fill as many clusters.
    """
    if CLUSTER not in atoms.patterns.attributes:
        return table.people.astype(np.float64)
    members = membership(table.collection.groups, atoms.patterns)
    inside = members.astype(np.float64)
    rows = bucket_sums(atoms, table.bins, atoms.people).astype(np.float64)
    filled = filled_clusters(atoms, inside, rows)
    below_full = np.minimum(filled, N_CLUSTERS - 0.5)
    share_filled = below_full / N_CLUSTERS
    people = -N_CLUSTERS * np.log1p(-share_filled)
    return np.where(filled < N_CLUSTERS, people, table.people)


def enough_people(
    people: FloatArray, rows: IntArray, effect: FloatArray, least: int
) -> BoolArray:
    """Categories of enough different people, also after the design effect; all if that
    is unknown.
    """
    n_different = np.minimum(people, rows / effect)
    return np.isnan(effect) | (n_different >= least)


@dataclass(frozen=True, eq=False)
class Chance:
    """How well each category is known; arrays of shape (n_groups, n_bins).

    Attributes
    ----------
    error : standard error that the outcome rate has if the score is perfect
    effective : number of independent people that a category is worth
    rates : array of shape (n_draws, n_groups, n_bins), outcome rates drawn under a
        perfect score
    people : how many different people there are, as far as clusters show
    effect : array of shape (n_bins,), the design effect of repeat visits
    """

    error: FloatArray
    effective: FloatArray
    rates: FloatArray
    people: FloatArray
    effect: FloatArray

    @classmethod
    def of(cls, atoms: Atoms, table: Categories, n_draws: int, rng: Draws) -> Chance:
        """Simulate, from atoms that may have clusters of repeat visits."""
        effect = design_effect(atoms, table.bins)
        people = different_people(atoms, table)
        atoms = without_clusters(atoms)
        if np.isnan(effect).all() or atoms.soft_labels:
            return cls._unknown(table)

        members = membership(table.collection.groups, atoms.patterns)
        inside = members.astype(np.float64)

        def total(column: Any) -> FloatArray:
            sums = bucket_sums(atoms, table.bins, column)
            return np.asarray(inside @ np.asarray(sums, dtype=np.float64))

        score = from_grid(atoms.score)
        rate = table.outcome_rate
        squares = total(atoms.weight_sq)
        positive_squares = total(atoms.positives_sq)
        with np.errstate(invalid="ignore", divide="ignore"):
            typical = squares / table.weight
            variances = atoms.weight_sq * score * (1 - score)
            spread = total(variances)
            spread = spread + HALF_OUTCOME_SQ * typical**2
            error = np.sqrt(spread * effect) / table.weight

            residuals = squared_residuals(positive_squares, squares, rate)
            variance = residuals / table.weight**2
            n_typical = table.weight / typical
            effective = _effective(rate, variance, n_typical) / effect
        rates = list(_drawn_rates(atoms, table, effect, n_draws, rng))
        return cls(error, effective, np.concatenate(rates), people, effect)

    @classmethod
    def _unknown(cls, table: Categories) -> Chance:
        """For too few clusters, or soft labels: the noise is not known."""
        unknown = np.full(table.people.shape, np.nan)
        no_rates = np.empty((0, *table.people.shape))
        unknown_effect = np.full(len(table.bins), np.nan)
        return cls(
            error=unknown,
            effective=unknown,
            rates=no_rates,
            people=unknown,
            effect=unknown_effect,
        )


def _effective(rate: FloatArray, variance: FloatArray, most: FloatArray) -> FloatArray:
    """How many people would have this variance (Korn and Graubard); at most `most`."""
    binomial = rate * (1 - rate)
    people = binomial / variance
    # a rate of 0 or 1 shows no variance
    shown = (binomial > 1e-12) & (people < most)
    return np.asarray(np.where(shown, people, most))

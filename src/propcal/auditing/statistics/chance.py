"""Chance: what the categories would show if the score were perfect, and how well each
is known.

Under perfect calibration a person scored r has the outcome with probability r. Drawing
such outcomes again and again, on the same people, shows how large gaps and losses
become by chance alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from propcal.auditing.statistics.sample import (
    FEWEST_CLUSTERS,
    atom_clusters,
    filled_clusters,
)
from propcal.core.atoms import Atoms
from propcal.core.bins import Bins
from propcal.core.categories import Categories, bucket_sums
from propcal.core.draws import Draws, draw_outcomes
from propcal.core.grid import BoolArray, FloatArray, IntArray, from_grid, ratio
from propcal.core.groups import membership
from propcal.core.patterns import CLUSTER
from propcal.core.reduction import without_clusters
from propcal.reading.patient_ids import N_CLUSTERS

MOST_PARTS = 8  # of a bin: within one part all scores are taken as its mean
MOST_CELLS = 16_000
MOST_NUMBERS = 4_000_000  # drawn at a time
ENOUGH_OUTCOMES = 20
# variance of half an outcome more or less: outcomes are whole, and rare ones jump
HALF = 0.25


@dataclass(frozen=True, eq=False)
class ScoreCells:
    """Pattern by part of a bin: weight, people as good as that, mean score; those with
    people alone.

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
    parts = int(np.clip(MOST_CELLS // (len(atoms.patterns) * len(bins)), 1, MOST_PARTS))
    fine = bins.cut(parts)
    weight, squares, score = (
        np.asarray(bucket_sums(atoms, fine, column), dtype=np.float64)
        for column in (
            atoms.weight,
            atoms.weight_sq,
            atoms.weight * from_grid(atoms.score),
        )
    )
    pattern, cell = np.nonzero(weight)
    weight, squares, score = (
        column[pattern, cell] for column in (weight, squares, score)
    )
    bin_index = bins.index(fine.edges[cell])
    typical = squares / weight
    if effect is not None:
        typical = typical * effect[bin_index]
    return ScoreCells(
        pattern, bin_index, weight, typical, np.clip(score / weight, 0, 1)
    )


def _drawn_positives(
    cells: ScoreCells, n_draws: int, rng: Draws, *, block: int
) -> Iterator[FloatArray]:
    """Weight of people with the outcome in each cell, for outcomes drawn by the
    score.
    """
    whole = np.maximum(np.ceil(cells.n * (1 - 1e-12)), 1)
    independent = bool(
        np.all(cells.n == whole)
    )  # rather than survey weights or repeat visits
    for drawn in draw_outcomes(
        whole.astype(np.int64), cells.score, n_draws, rng, block=block
    ):
        if independent:
            yield drawn * cells.typical
            continue
        deviation = drawn / whole - cells.score
        deviation *= np.sqrt(
            whole / cells.n
        )  # 1 unless survey weights make part of a person
        yield np.asarray(cells.weight * (cells.score + deviation))


def _draws(
    atoms: Atoms, table: Categories, effect: FloatArray, n_draws: int, rng: Draws
) -> Iterator[FloatArray]:
    """Outcome rates of all categories, draws first, in portions."""
    cells = score_cells(atoms, table.bins, effect)
    n_bins = len(table.bins)
    n_patterns = len(atoms.patterns)
    place = cells.pattern * n_bins + cells.bin_index
    occupied, first = np.unique(place, return_index=True)
    inside = membership(table.collection.groups, atoms.patterns).astype(np.float64)
    block = MOST_NUMBERS // max(
        len(place), n_patterns * n_bins, inside.shape[0] * n_bins
    )
    in_bin = [np.flatnonzero(occupied % n_bins == b) for b in range(n_bins)]
    members = [inside[:, occupied[chosen] // n_bins].T for chosen in in_bin]
    for drawn in _drawn_positives(cells, n_draws, rng, block=block):
        positives = np.add.reduceat(drawn, first, axis=1)
        sums = np.stack(
            [positives[:, chosen] @ who for chosen, who in zip(in_bin, members)], axis=2
        )
        yield ratio(sums, table.weight)


def design_effect(atoms: Atoms, bins: Bins) -> FloatArray:
    """How many times larger the variance of a bin is because its rows are of the same
    people.

    Rows are tabulated by cluster of people and by bin; the spread of the clusters is
    compared with what independent rows would show. Not below 1; a bin with few outcomes
    takes the value of all bins together. NaN if there are too few clusters to tell;
    ones if every row is a person.
    """
    cluster = atom_clusters(atoms)
    if cluster is None:
        return np.ones(len(bins))
    known, index = np.unique(cluster[atoms.starts[:-1]], return_inverse=True)
    if len(known) < FEWEST_CLUSTERS:
        return np.full(len(bins), np.nan)
    tables = []
    for column in (atoms.weight, atoms.positives, atoms.weight_sq, atoms.positives_sq):
        found = np.zeros((len(known), len(bins)))
        np.add.at(found, index, bucket_sums(atoms, bins, column))
        tables.append(found)
    weight, positives, squares, positive_squares = tables
    with np.errstate(invalid="ignore", divide="ignore"):
        rate = positives.sum(axis=0) / weight.sum(axis=0)
        together = np.sum((positives - rate * weight) ** 2, axis=0) * (
            len(known) / (len(known) - 1)
        )
        apart = positive_squares.sum(axis=0) * (1 - 2 * rate) + rate**2 * squares.sum(
            axis=0
        )
        effect = together / apart
    pooled = float(np.nansum(together) / max(np.nansum(apart), 1e-300))
    fewer = np.minimum(positives.sum(axis=0), (weight - positives).sum(axis=0))
    return np.maximum(np.where(fewer >= ENOUGH_OUTCOMES, effect, pooled), 1.0)


def different_people(atoms: Atoms, table: Categories) -> FloatArray:
    """How many different people each category has: its rows, or an estimate from the
    clusters they fill.

    Of many people some share a cluster; the number that would fill as many clusters is
    taken.
    """
    if CLUSTER not in atoms.patterns.attributes:
        return table.people.astype(np.float64)
    inside = membership(table.collection.groups, atoms.patterns).astype(np.float64)
    filled = filled_clusters(
        atoms, inside, bucket_sums(atoms, table.bins, atoms.people).astype(np.float64)
    )
    people = -N_CLUSTERS * np.log1p(-np.minimum(filled, N_CLUSTERS - 0.5) / N_CLUSTERS)
    return np.where(filled < N_CLUSTERS, people, table.people)


def enough_people(
    people: FloatArray, rows: IntArray, effect: FloatArray, least: int
) -> BoolArray:
    """Categories of enough different people, also after the design effect; all if that
    is unknown.
    """
    return np.isnan(effect) | (np.minimum(people, rows / effect) >= least)


@dataclass(frozen=True, eq=False)
class Chance:
    """How well each category is known; arrays of shape (n_groups, n_bins).

    Attributes
    ----------
    error : standard error that the outcome rate has if the score is perfect
    effective : number of independent people that a category is worth
    rates : array of shape (n_draws, n_groups, n_bins), outcome rates drawn under a perfect score
    people : how many different people there are, as far as clusters tell
    effect : array of shape (n_bins,), the design effect of people who come again
    """

    error: FloatArray
    effective: FloatArray
    rates: FloatArray
    people: FloatArray
    effect: FloatArray

    @classmethod
    def of(cls, atoms: Atoms, table: Categories, n_draws: int, rng: Draws) -> Chance:
        """Simulate, from atoms that may have clusters of repeated people."""
        effect = design_effect(atoms, table.bins)
        people = different_people(atoms, table)
        atoms = without_clusters(atoms)
        if np.isnan(effect).all() or atoms.soft_labels:
            # nothing can be said about noise
            nothing = np.full(table.people.shape, np.nan)
            no_draws = np.empty((0, *table.people.shape))
            return cls(
                nothing, nothing, no_draws, nothing, np.full(len(table.bins), np.nan)
            )
        inside = membership(table.collection.groups, atoms.patterns).astype(np.float64)

        def total(column: Any) -> Any:
            return inside @ np.asarray(
                bucket_sums(atoms, table.bins, column), dtype=np.float64
            )

        score = from_grid(atoms.score)
        rate = table.outcome_rate
        squares = total(atoms.weight_sq)
        positive_squares = total(atoms.positives_sq)
        with np.errstate(invalid="ignore", divide="ignore"):
            typical = squares / table.weight
            spread = total(atoms.weight_sq * score * (1 - score)) + HALF * typical**2
            variance = (
                positive_squares * (1 - 2 * rate) + rate**2 * squares
            ) / table.weight**2
            effective = _effective(rate, variance, table.weight / typical) / effect
            error = np.sqrt(spread * effect) / table.weight
        drawn = list(_draws(atoms, table, effect, n_draws, rng))
        return cls(error, effective, np.concatenate(drawn), people, effect)


def _effective(rate: FloatArray, variance: FloatArray, most: FloatArray) -> FloatArray:
    """People whose binomial variance equals the one found (Korn and Graubard), not more
    than `most`.
    """
    binomial = rate * (1 - rate)
    people = binomial / variance
    # a rate of 0 or 1 shows no variance
    return np.asarray(np.where((binomial > 1e-12) & (people < most), people, most))

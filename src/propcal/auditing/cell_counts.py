"""Counts: how many people of each pattern are in each bin; what an audit's numbers add up from.

Not shown anywhere. It is what tells which numbers must be hidden together, so that small counts cannot be
worked out from larger ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from propcal.auditing.findings import Findings
from propcal.core.atoms import Atoms
from propcal.core.bins import Bins
from propcal.core.categories import bucket_sums
from propcal.core.grid import UNIT, BoolArray, FloatArray, IntArray, from_grid
from propcal.core.groups.collection import membership
from propcal.core.left_out import LeftOutReport


@dataclass(frozen=True, eq=False)
class Counts:
    """People of every (pattern, bin), and which patterns make up which groups.

    Attributes
    ----------
    table : array of shape (n_patterns, n_attributes)
        Level of each attribute.
    inside : array of bool, shape (n_groups, n_patterns)
        Groups in the order of an audit's `groups`.
    kept : array of bool, shape (n_groups,)
        Groups that are tested, or whose cells are shown.
    category_group, category_bin : arrays of int64
        For each row of an audit's `categories` its row in `groups`, and its bin.
    missing : dict
        For each attribute that is missing for some people, in which patterns it is.
    people : array of int64, shape (n_patterns, n_bins)
    outcome : array of float64, shape (2, n_patterns, n_bins)
        People with and without the outcome; under survey weights the effective number.
    weight : array of float64, shape (2, n_patterns, n_bins)
        Their weight.
    edges : array of float64
    ends : int
        People with a score of exactly 0 or 1.
    left_out : LeftOutReport
        People left out for want of a score or an outcome.
    rows_per_person : float
        The most rows that people of any cell have on average: more than 1 if people come again.
    """

    table: IntArray
    inside: BoolArray
    kept: BoolArray
    category_group: IntArray
    category_bin: IntArray
    missing: dict[str, BoolArray]
    people: IntArray
    outcome: FloatArray
    weight: FloatArray
    edges: FloatArray
    ends: int
    left_out: LeftOutReport
    rows_per_person: float

    @classmethod
    def of(cls, found: Findings) -> Counts:
        """Add up what was found."""
        atoms, bins, patterns = found.atoms, found.table.bins, found.atoms.patterns
        sizes = [profile.size for profile in found.profiles]
        places = {size.group: i for i, size in enumerate(sizes)}
        row, bin_index = np.nonzero(found.table.people)
        with_cells = set(found.table.collection.groups)
        of_kept = np.array([places[group] for group in found.table.collection.groups], dtype=np.int64)
        outcome, weight = _by_outcome(atoms, bins)
        return cls(
            table=patterns.table,
            inside=membership([size.group for size in sizes], patterns),
            kept=np.array([not size.left_out or size.group in with_cells for size in sizes], dtype=np.bool_),
            category_group=of_kept[row],
            category_bin=bin_index,
            missing={
                name: patterns.table[:, a] == levels.index(None)
                for a, (name, levels) in enumerate(zip(patterns.attributes, patterns.levels))
                if None in levels
            },
            people=np.asarray(bucket_sums(atoms, bins, atoms.people), dtype=np.int64),
            outcome=outcome,
            weight=weight,
            edges=from_grid(bins.edges),
            ends=int(atoms.people[(atoms.score == 0) | (atoms.score == UNIT)].sum()),
            left_out=LeftOutReport.of(atoms),
            rows_per_person=found.rows_per_person,
        )


def _by_outcome(atoms: Atoms, bins: Bins) -> tuple[FloatArray, FloatArray]:
    """People with and without the outcome, and their weight."""
    columns: list[tuple[Any, Any]] = [
        (atoms.positives, atoms.positives_sq),
        (atoms.weight - atoms.positives, atoms.weight_sq - atoms.positives_sq),
    ]
    people, weights = [], []
    for plain, square in columns:
        weight = np.maximum(bucket_sums(atoms, bins, np.asarray(plain, dtype=np.float64)), 0.0)
        squares = np.maximum(bucket_sums(atoms, bins, np.asarray(square, dtype=np.float64)), 0.0)
        weight[weight < 1e-9] = 0.0  # rounding of running sums
        enough = (weight > 0) & (squares > 0)
        number = np.divide(weight**2, squares, out=np.where(weight > 0, 1.0, 0.0), where=enough)
        people.append(weight.copy() if atoms.frequencies else number)
        weights.append(weight)
    return np.stack(people), np.stack(weights)

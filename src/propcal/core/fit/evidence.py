"""Evidence before a fit: what tests found, and how much repeat visits count.

Rows of the same people carry less information than rows of different people. Residuals
(outcome minus score) are summed over clusters of people. If rows of one person are
alike, these sums vary more than those of independent rows would; the ratio of the two
variances is the design effect. A fit then works as with survey weights: the same sums,
with variances that are larger by the design effect.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from propcal.core.atoms import SUMS, Atoms
from propcal.core.grid import FloatArray, IntArray, from_grid
from propcal.core.patterns import CLUSTER
from propcal.errors import refused
from propcal.numbers import plural

FEWEST_CLUSTERS = 10  # with fewer, the variation between clusters says too little


@dataclass(frozen=True)
class FoundErrors:
    """The result of the tests, which are those of an audit
    (`propcal.auditing.decision`).

    Attributes
    ----------
    tested : bool
        Whether there were enough data for any test.
    found : tuple of str
        The names of the tests that found an error: names of groups, and other tests.
    overall : bool
        Whether level or slope of everybody are among them.
    limit : float
        The largest gap of a cell, in standard errors, that chance is likely to produce.
    certain : bool
        Whether scores of exactly 0 or 1 are wrong, which is one of `found`.
    """

    tested: bool
    found: tuple[str, ...] = ()
    overall: bool = False
    limit: float = 0.0
    certain: bool = False


def atom_clusters(atoms: Atoms) -> IntArray | None:
    """The cluster of repeat visits of each atom, or None if every row is a person."""
    if CLUSTER not in atoms.patterns.attributes:
        return None
    place = atoms.patterns.attributes.index(CLUSTER)
    return np.asarray(atoms.patterns.table[:, place][atoms.pattern_index()])


def squared_residuals(
    positive_squares: FloatArray, squares: FloatArray, rate: FloatArray
) -> FloatArray:
    """Sums of weight² · (outcome - rate)² over people, from sums of squared weights."""
    return np.asarray(positive_squares * (1 - 2 * rate) + rate**2 * squares)


def repeat_effect(atoms: Atoms) -> float:
    """The design effect of repeat visits, at least 1; exactly 1 if the rows are of
    different people.
    """
    of_atoms = atom_clusters(atoms)
    if of_atoms is None:
        return 1.0
    score = from_grid(atoms.score)
    weight, squares, positives, positive_squares = _real_sums(atoms)
    known, cluster = np.unique(of_atoms, return_inverse=True)
    n_clusters = len(known)
    if n_clusters < FEWEST_CLUSTERS:
        raise refused("few clusters", values=plural(n_clusters, "different value"))

    def cluster_sums(column: FloatArray) -> Any:
        return np.bincount(cluster, weights=column)

    residual = positives - weight * score
    mean = residual.sum() / weight.sum()
    centred = cluster_sums(residual) - mean * cluster_sums(weight)
    variance = float(np.sum(centred**2)) * n_clusters / (n_clusters - 1)
    squares_of_rows = squared_residuals(positive_squares, squares, score)
    if_independent = float(np.sum(squares_of_rows))
    if if_independent <= 0:
        return 1.0
    return max(variance / if_independent, 1.0)


def with_effect(atoms: Atoms, effect: float) -> Atoms:
    """The atoms with variances that are larger by a design effect."""
    if effect == 1:
        return atoms
    weight, squares, positives, positive_squares = _real_sums(atoms)
    squared: dict[str, Any] = {
        "weight_sq": squares * effect,
        "positives_sq": positive_squares * effect,
    }
    return replace(atoms, weight=weight, positives=positives, **squared)


def _real_sums(atoms: Atoms) -> list[FloatArray]:
    """The sums of atoms, but for people, as floats."""
    return [np.asarray(getattr(atoms, name), dtype=np.float64) for name in SUMS[1:]]


def repeat_note(effect: float) -> str:
    """What a fit summary says about repeat visits."""
    same = f"100 rows carry as much information as {100 / effect:.0f} independent rows"
    return f"repeat visits were taken into account: {same}"

"""The fewest different people behind each number of a fit, which decide whether the number may be shared.

To a reader who looks for a person, all rows of that person are one person, and so is a row that counts
several times. If patient IDs are known (hashed into clusters), different clusters are different people. If
rows are weighted, there is at least one person for each combination of attributes, score and outcome.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from propcal.core.atoms import Atoms
from propcal.core.bin_search import bin_of
from propcal.core.bins import Bins
from propcal.core.compiled import compiled
from propcal.core.correction.smooth_map import SmoothStart
from propcal.core.grid import UNIT, IntArray
from propcal.core.groups.collection import Group, membership
from propcal.core.patterns import Patterns
from propcal.core.reduction import CLUSTER, fewer_attributes


@dataclass(frozen=True, eq=False)
class PeopleBehind:
    """The atoms of a fit, and how many people each stands for at least.

    Attributes
    ----------
    patterns : Patterns
        Without clusters.
    code, score : arrays
        The pattern and the score (in units) of each atom.
    cluster : array of int64
        The cluster of each atom; 0 for all if patient IDs are not known.
    people : array of int64
        The number of people of each atom, at least; 0 if clusters are counted in place of atoms.
    """

    patterns: Patterns
    code: Any
    score: IntArray
    cluster: IntArray
    people: IntArray

    @classmethod
    def of(cls, atoms: Atoms) -> PeopleBehind:
        """Read who is behind the atoms."""
        names = atoms.patterns.attributes
        patterns, code = fewer_attributes(atoms, [name for name in names if name != CLUSTER])
        if CLUSTER in names:
            cluster = atoms.patterns.table[atoms.pattern_index(), names.index(CLUSTER)]
            return cls(patterns, code, atoms.score, cluster, np.zeros(len(atoms), dtype=np.int64))
        people = atoms.people
        if atoms.frequencies and 0 < atoms.weighted_rows < atoms.n_people:
            people = (atoms.positives > 0).astype(np.int64) + (atoms.positives < atoms.weight)
        return cls(patterns, code, atoms.score, np.zeros(len(atoms), dtype=np.int64), people)

    def in_patterns(self) -> IntArray:
        """The fewest people with each pattern."""
        counted = np.bincount(self.code, weights=self.people, minlength=len(self.patterns))
        return np.asarray(np.maximum(counted.astype(np.int64), self._clusters().sum(axis=1)))

    def in_groups(self, groups: Sequence[Group]) -> IntArray:
        """The fewest people in each group."""
        inside = membership(list(groups), self.patterns)
        counted = np.bincount(self.code, weights=self.people, minlength=len(self.patterns))
        clusters = (inside.astype(np.int64) @ self._clusters().astype(np.int64)) > 0
        return np.asarray(np.maximum(inside @ counted.astype(np.int64), clusters.sum(axis=1)))

    def in_updates(
        self, groups: Sequence[Group], bins: Bins, updates: IntArray, start: SmoothStart | None
    ) -> IntArray:
        """The fewest people that each update moved, in the order of a fit."""
        score = self.score if start is None else start.apply(self.score, self.code, self.patterns)
        inside = membership(list(groups), self.patterns)
        clusters = np.zeros((len(updates), self._n_clusters), dtype=np.bool_)
        counted = np.zeros(len(updates), dtype=np.int64)
        code = self.code.astype(np.int64)
        _replay(score, code, self.cluster, self.people, inside, updates, bins.edges, clusters, counted)
        return np.asarray(np.maximum(counted, clusters.sum(axis=1)))

    @property
    def clustered(self) -> bool:
        """Whether patient IDs are known, so that clusters are counted."""
        return not self.people.any()

    @property
    def _n_clusters(self) -> int:
        return int(self.cluster.max(initial=0)) + 1

    def _clusters(self) -> Any:
        """Which clusters each pattern occurs in."""
        found = np.zeros((len(self.patterns), self._n_clusters), dtype=np.bool_)
        found[self.code, self.cluster] = True
        return found


@compiled
def _replay(
    score: Any,
    code: Any,
    cluster: Any,
    people: Any,
    inside: Any,
    updates: Any,
    edges: Any,
    clusters: Any,
    counted: Any,
) -> None:
    """Fill in the clusters and the number of people that each update moved."""
    for atom in range(len(score)):
        value = score[atom]
        j = bin_of(value, edges)
        for u in range(len(updates)):
            if updates[u, 1] != j or not inside[updates[u, 0], code[atom]]:
                continue
            clusters[u, cluster[atom]] = True
            counted[u] += people[atom]
            value = min(max(value + updates[u, 2], 0), UNIT)
            j = bin_of(value, edges)

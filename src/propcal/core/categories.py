"""Categories (a group within a score bin): their people, outcomes and scores, and how large one must be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from propcal.core.atoms import Atoms
from propcal.core.bins import Bins
from propcal.core.criterion import proportional
from propcal.core.grid import UNIT, BoolArray, FloatArray, IntArray, SumArray, exact_fraction, to_grid
from propcal.core.groups.collection import Collection, membership
from propcal.core.patterns import Patterns

if TYPE_CHECKING:
    import pandas as pd

PORTION = 1 << 20  # rows per portion: scores of at most 2**32 units then add up to no more than 2**53


def category_min_share(alpha: float, gamma: float, bins: Bins) -> float:
    """The smallest share of all people that a category may have: alpha * lambda * gamma in Algorithm 1.

    The product uses the decimals as typed, so that a category exactly at the limit is included.

    >>> from propcal.core.bins import uniform
    >>> category_min_share(0.1, 0.05, uniform(10)) == 0.0005  # 0.1 * 0.05 / 10 is not
    True
    """
    return float(exact_fraction(alpha) * exact_fraction(gamma) / bins.divisor)


@dataclass(frozen=True, eq=False)
class Categories:
    """One row for each (group, bin), with the groups in the order of C and the bins ascending.

    Arrays have the shape (n_groups, n_bins). Sums of outcomes and scores are ordinary numbers, not units
    of the grid; means are NaN where a category is empty.
    """

    collection: Collection
    bins: Bins
    people: IntArray
    weight: SumArray
    positives: FloatArray
    score_sum: FloatArray
    gap: FloatArray
    share: FloatArray
    eligible: BoolArray

    @property
    def outcome_rate(self) -> FloatArray:
        """Share of each category that had the outcome."""
        return _ratio(self.positives, self.weight)

    @property
    def mean_score(self) -> FloatArray:
        """Mean score of each category."""
        return _ratio(self.score_sum, self.weight)

    def to_frame(self, *, rho: float = 0.1) -> pd.DataFrame:
        """List the categories that are not empty, with the gap itself and as a share of the outcome rate."""
        import pandas as pd

        g, b = np.nonzero(self.people)
        rate = self.outcome_rate[g, b]
        columns: dict[str, Any] = {
            "group": [self.collection.kept[i].group.name for i in g],
            "bin": [self.bins.label(int(j)) for j in b],
            "people": self.people[g, b],
            "positives": self.positives[g, b],
            "outcome_rate": rate,
            "mean_score": self.mean_score[g, b],
            "gap": self.gap[g, b],
            "proportional_gap": self.gap[g, b] / proportional(rho).allowance(rate),
            "eligible": self.eligible[g, b],
        }
        return pd.DataFrame(columns)


def _ratio(top: SumArray, bottom: SumArray) -> FloatArray:
    return np.asarray(np.divide(top, bottom, out=np.full(top.shape, np.nan), where=bottom > 0))


def bucket_sums(atoms: Atoms, bins: Bins, values: SumArray) -> SumArray:
    """Add up a column of the atoms within each (pattern, bin); exact for integers.

    Scores ascend within a pattern, so each bucket is a run of atoms and its sum is a difference of
    running sums.
    """
    cuts = np.empty((len(atoms.patterns), len(bins) + 1), dtype=np.int64)
    for pattern, (low, high) in enumerate(zip(atoms.starts[:-1], atoms.starts[1:])):
        cuts[pattern, 1:-1] = low + np.searchsorted(atoms.score[low:high], bins.edges[1:-1])
        cuts[pattern, 0], cuts[pattern, -1] = low, high
    running = np.zeros(len(values) + 1, dtype=values.dtype)
    np.cumsum(values, out=running[1:])
    return np.asarray(np.diff(running[cuts], axis=1))


@dataclass(frozen=True, eq=False)
class Buckets:
    """People, weight, outcomes and scores (the last two in units of the grid) of every (pattern, bin)."""

    people: Any
    weight: Any
    outcome: Any
    score: Any

    @classmethod
    def of_atoms(cls, atoms: Atoms, bins: Bins) -> Buckets:
        """Add up atoms."""
        columns = (atoms.people, atoms.weight, atoms.outcome_units(), atoms.weight * atoms.score)
        return cls(*(bucket_sums(atoms, bins, column) for column in columns))

    @classmethod
    def of_rows(cls, n_patterns: int, code: Any, score: FloatArray, outcome: Any, bins: Bins) -> Buckets:
        """Add up rows of weight 1 with 0/1 outcomes. This gives the same sums without sorting.

        Portions are small enough that the sums of scores are exact in floating point.
        """
        shape, size = (n_patterns, len(bins)), n_patterns * len(bins)
        people, positives, total = (np.zeros(size, dtype=np.int64) for _ in range(3))
        for begin in range(0, len(score), PORTION):
            rows = slice(begin, begin + PORTION)
            units = to_grid(score[rows])
            key = code[rows] * np.int64(len(bins))
            key += bins.index(units)
            total += np.bincount(key, weights=units, minlength=size).astype(np.int64)
            key *= 2
            key += outcome[rows]
            either = np.bincount(key, minlength=2 * size).reshape(-1, 2)
            people += either.sum(axis=1)
            positives += either[:, 1]
        counted = people.reshape(shape)
        return cls(counted, counted, positives.reshape(shape) * np.int64(UNIT), total.reshape(shape))


def categories(
    buckets: Buckets,
    patterns: Patterns,
    collection: Collection,
    bins: Bins,
    *,
    min_share: float,
    min_people: int = 1,
) -> Categories:
    """Tabulate every (group, bin) of a collection.

    A category is eligible if its share of the weight is at least `min_share` and it has at least
    `min_people` people.
    """
    inside = membership(collection.groups, patterns).astype(np.int64)
    people, weight, outcome, score = (
        inside @ column for column in (buckets.people, buckets.weight, buckets.outcome, buckets.score)
    )
    share = weight / buckets.weight.sum()
    return Categories(
        collection,
        bins,
        people,
        weight,
        positives=outcome / UNIT,
        score_sum=score / UNIT,
        gap=_ratio((outcome - score) / UNIT, weight),
        share=share,
        eligible=(people >= max(min_people, 1)) & (share >= min_share),
    )

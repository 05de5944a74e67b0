"""Headcount: people with and without the outcome; protected counts start here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from propcal.auditing.statistics.measures import THRESHOLDS
from propcal.auditing.statistics.sample import filled_clusters
from propcal.core.atoms import Atoms
from propcal.core.bins import Bins
from propcal.core.fit.evidence import atom_clusters
from propcal.core.grid import BoolArray, FloatArray, IntArray, from_grid, ratio, to_grid
from propcal.core.groups import Group, membership
from propcal.core.patterns import CLUSTER, Patterns
from propcal.core.reduction import without_clusters
from propcal.reading.patient_ids import N_CLUSTERS

ROUNDING = 1e-9
TINY = 1e-300  # stands for 0 in a denominator
Members = Callable[[Patterns], BoolArray]  # the patterns of each group
Place = Callable[[Atoms], IntArray]  # the part of each atom


def everybody(patterns: Patterns) -> BoolArray:
    """All people as one group."""
    return np.ones((1, len(patterns)), dtype=np.bool_)


def one_part(atoms: Atoms) -> IntArray:
    """All atoms are in one part."""
    return np.zeros(len(atoms), dtype=np.int64)


@dataclass(frozen=True, eq=False)
class ScoreValues:
    """The different scores of a set of people, and how many people (with the outcome)
    have each.
    """

    score: FloatArray
    people: FloatArray
    events: FloatArray
    different: FloatArray
    key: Any

    def between(self, low: float, high: float) -> ScoreValues:
        """The scores from `low` to below `high`."""
        inside = (self.score >= low) & (self.score < high)
        return self.where(inside)

    def where(self, chosen: BoolArray) -> ScoreValues:
        """Some of the scores."""
        return ScoreValues(*(column[chosen] for column in vars(self).values()))


@dataclass(frozen=True, eq=False)
class Headcount:
    """Sets of people: the parts (risk ranges, periods) of some groups, or any other
    shape.

    Attributes
    ----------
    people : array of float64, shape (2, ...)
        Rows with the outcome, and without it. Under survey weights: people times the
        weighted share.
    different : array of float64, same shape
        At least so many different people are behind them: clusters of repeat visits
        that their rows fill, or the effective number under survey weights.
    score : array of float64, shape (...)
        Mean score.
    key : array of uint64, shape (...)
        Tells the set from others: the same people always have the same key.
    """

    people: FloatArray
    different: FloatArray
    score: FloatArray
    key: Any

    @classmethod
    def of(
        cls, atoms: Atoms, members: Members, place: Place = one_part, n_parts: int = 1
    ) -> Headcount:
        """Of shape (groups, parts), from atoms that may have clusters of repeat
        visits.
        """
        bare = without_clusters(atoms)
        inside = members(bare.patterns).astype(np.float64)
        bucket = bare.pattern_index() * n_parts + place(bare)
        n_buckets = len(bare.patterns) * n_parts

        def total(column: Any) -> FloatArray:
            sums = np.bincount(bucket, weights=column, minlength=n_buckets)
            return np.asarray(inside @ sums.reshape(-1, n_parts))

        others = bare.weight - bare.positives
        weight = np.array([total(bare.positives), total(others)])
        weight = np.where(weight < ROUNDING, 0.0, weight)  # of running sums
        together = weight.sum(axis=0)
        score_sum = bare.weight * from_grid(bare.score)
        score = ratio(total(score_sum), together)

        sums = np.zeros(n_buckets, dtype=np.uint64)
        np.add.at(sums, bucket, bare.record_keys())  # modulo 2**64
        hashes = sums.reshape(-1, n_parts)
        of_groups = [hashes[patterns].sum(axis=0) for patterns in inside > 0]
        key = np.array(of_groups, np.uint64).reshape(-1, n_parts)

        people = weight
        different = weight
        if not bare.frequencies:
            people_per_weight = total(bare.people) / np.maximum(together, TINY)
            people = weight * people_per_weight
            other_squares = bare.weight_sq - bare.positives_sq
            squares_of_events = total(bare.positives_sq)
            squares = np.array([squares_of_events, total(other_squares)])
            different = ratio(weight**2, squares, 0.0)
        if CLUSTER in atoms.patterns.attributes:
            filled = _filled_clusters(atoms, members, place, n_parts)
            if bare.frequencies:
                different = filled
            else:
                different = np.minimum(different, filled)
        return cls(people, different, score, key)

    def part(self, parts: Any) -> Headcount:
        """Some of the parts."""
        return Headcount(*(column[..., parts] for column in vars(self).values()))

    def from_top(self) -> Headcount:
        """Of each part and all parts after it together."""

        def added(values: Any) -> Any:
            from_the_end = np.cumsum(values[..., ::-1], axis=-1)
            return from_the_end[..., ::-1]

        people = added(self.people)
        total = people.sum(axis=0)
        expected_in_part = np.nan_to_num(self.score) * self.people.sum(axis=0)
        expected = added(expected_in_part)
        mean = expected / np.maximum(total, TINY)
        score = np.where(total > 0, mean, np.nan)
        different = people
        if not np.array_equal(self.people, self.different):
            # at least as many as in any of the parts
            from_top = self.different[..., ::-1]
            largest = np.maximum.accumulate(from_top, axis=-1)
            different = largest[..., ::-1]
        return Headcount(people, different, score, added(self.key))

    @classmethod
    def joined(cls, parts: Sequence[Headcount]) -> Headcount:
        """One row of all sets."""

        def in_a_row(arrays: Sequence[Any], n_leading: int) -> Any:
            flat = [array.reshape(*array.shape[:n_leading], -1) for array in arrays]
            return np.concatenate(flat, axis=-1)

        people = in_a_row([part.people for part in parts], 1)
        different = in_a_row([part.different for part in parts], 1)
        score = in_a_row([part.score for part in parts], 0)
        key = in_a_row([part.key for part in parts], 0)
        return cls(people, different, score, key)


def _filled_clusters(
    atoms: Atoms, members: Members, place: Place, n_parts: int
) -> FloatArray:
    """How many clusters the rows with and without the outcome fill."""
    inside = members(atoms.patterns).astype(np.float64)
    bucket = atoms.pattern_index() * n_parts + place(atoms)
    n_buckets = len(atoms.patterns) * n_parts
    filled = []
    others = atoms.weight - atoms.positives
    for weight in (atoms.positives, others):
        sums = np.bincount(bucket, weights=weight, minlength=n_buckets)
        is_filled = sums > ROUNDING
        occupied = is_filled.reshape(-1, n_parts).astype(np.float64)
        filled.append(filled_clusters(atoms, inside, occupied))
    return np.array(filled)


def score_values(atoms: Atoms, inside: BoolArray) -> list[ScoreValues] | None:
    """The different scores of each group; None if scores are hardly ever the same."""
    scores = np.unique(atoms.score)
    if 2 * len(scores) > atoms.n_people:
        return None
    n_scores = len(scores)
    pattern = atoms.pattern_index()
    cluster = atom_clusters(atoms)
    hashes = atoms.record_keys()
    place = np.searchsorted(scores, atoms.score)
    values = []
    for members in inside:
        rows = np.flatnonzero(members[pattern])
        score = place[rows]
        row_people = atoms.people[rows]
        people: Any = np.bincount(score, weights=row_people, minlength=n_scores)
        row_events = atoms.positives[rows]
        events: Any = np.bincount(score, weights=row_events, minlength=n_scores)
        different = people
        if cluster is not None:
            cluster_of_score = score * N_CLUSTERS + cluster[rows]
            pairs = np.unique(cluster_of_score)
            n_clusters = np.bincount(pairs // N_CLUSTERS, minlength=n_scores)
            different = n_clusters.astype(np.float64)
        key = np.zeros(n_scores, dtype=np.uint64)
        np.add.at(key, score, hashes[rows])
        used = people > 0
        own = ScoreValues(from_grid(scores), people, events, different, key)
        values.append(own.where(used))
    return values


@dataclass(frozen=True, eq=False)
class Counts:
    """All counts of an audit; groups are in the order of its table of groups.

    Attributes
    ----------
    groups : tuple of Group
    bins : Bins
        The risk ranges of the audit.
    totals, ranges, flagged : Headcount
        Of whole groups, by risk range, and of the people at or above each threshold.
    missing, at_ends : Headcount
        Of the people for whom an attribute is missing, in the order of
        `AuditedPeople.missing`, and of those with a score of exactly 0 or 1.
    values : list of ScoreValues, or None
        The different scores of each group, if many people have the same score.
    thresholds : array of float64
    """

    groups: tuple[Group, ...]
    bins: Bins
    totals: Headcount
    ranges: Headcount
    flagged: Headcount
    missing: Headcount
    at_ends: Headcount
    values: list[ScoreValues] | None
    thresholds: FloatArray

    @classmethod
    def of(
        cls, atoms: Atoms, groups: Sequence[Group], bins: Bins, more: Sequence[float]
    ) -> Counts:
        """Add up atoms that may have clusters of repeat visits; `more` are thresholds
        of the user.
        """
        thresholds = np.union1d(THRESHOLDS, more)
        edges = to_grid(thresholds)
        certain = to_grid(np.array([0.0, 1.0]))

        def members(patterns: Patterns) -> BoolArray:
            return membership(groups, patterns)

        def risk_range(people: Atoms) -> IntArray:
            return bins.index(people.score)

        def thresholds_reached(people: Atoms) -> IntArray:
            return np.searchsorted(edges, people.score, side="right")

        def is_at_end(people: Atoms) -> IntArray:
            at_end = np.isin(people.score, certain)
            return at_end.astype(np.int64)

        between = Headcount.of(atoms, members, thresholds_reached, len(edges) + 1)
        ranges = Headcount.of(atoms, members, risk_range, len(bins))
        flagged = between.from_top().part(slice(1, None))
        at_ends = Headcount.of(atoms, everybody, is_at_end, 2)
        values = score_values(atoms, members(atoms.patterns))
        return cls(
            groups=tuple(groups),
            bins=bins,
            totals=Headcount.of(atoms, members),
            ranges=ranges,
            flagged=flagged,
            missing=Headcount.of(atoms, _without_a_value),
            at_ends=at_ends,
            values=values,
            thresholds=thresholds,
        )


def _without_a_value(patterns: Patterns) -> BoolArray:
    """The patterns in which an attribute is missing, for each attribute that is."""
    missing = [
        patterns.table[:, a] == levels.index(None)
        for a, levels in enumerate(patterns.levels)
        if None in levels
    ]
    return np.array(missing, dtype=np.bool_).reshape(-1, len(patterns))

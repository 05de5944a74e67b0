"""Headcount: people with and without the outcome in sets of people; protected counts
start here.
"""

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
        chosen = (self.score >= low) & (self.score < high)
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

        def total(column: Any) -> FloatArray:
            sums = np.bincount(
                bucket, weights=column, minlength=len(bare.patterns) * n_parts
            )
            return np.asarray(inside @ sums.reshape(-1, n_parts))

        weight = np.array([total(bare.positives), total(bare.weight - bare.positives)])
        weight = np.where(weight < 1e-9, 0.0, weight)  # rounding of running sums
        together = weight.sum(axis=0)
        score = ratio(total(bare.weight * from_grid(bare.score)), together)
        sums = np.zeros(len(bare.patterns) * n_parts, dtype=np.uint64)
        np.add.at(sums, bucket, bare.record_keys())  # modulo 2**64
        keys = sums.reshape(-1, n_parts)
        key = np.array(
            [keys[own].sum(axis=0) for own in inside > 0], np.uint64
        ).reshape(-1, n_parts)
        filled = _filled_clusters(atoms, members, place, n_parts)
        if bare.frequencies:
            return cls(weight, weight if filled is None else filled, score, key)
        squares = np.array(
            [total(bare.positives_sq), total(bare.weight_sq - bare.positives_sq)]
        )
        effective = ratio(weight**2, squares, 0.0)
        different = effective if filled is None else np.minimum(effective, filled)
        return cls(
            weight * (total(bare.people) / np.maximum(together, 1e-300)),
            different,
            score,
            key,
        )

    def part(self, parts: Any) -> Headcount:
        """Some of the parts."""
        return Headcount(*(column[..., parts] for column in vars(self).values()))

    def from_top(self) -> Headcount:
        """Of each part and all parts after it together."""

        def added(values: Any) -> Any:
            return np.cumsum(values[..., ::-1], axis=-1)[..., ::-1]

        people = added(self.people)
        total = people.sum(axis=0)
        score = added(np.nan_to_num(self.score) * self.people.sum(axis=0)) / np.maximum(
            total, 1e-300
        )
        different = people
        if not np.array_equal(
            self.people, self.different
        ):  # at least as many as in any of the parts
            different = np.maximum.accumulate(self.different[..., ::-1], axis=-1)[
                ..., ::-1
            ]
        return Headcount(
            people, different, np.where(total > 0, score, np.nan), added(self.key)
        )

    @classmethod
    def joined(cls, parts: Sequence[Headcount]) -> Headcount:
        """One row of all sets."""

        def row(name: str, lead: int) -> Any:
            columns = [getattr(part, name) for part in parts]
            return np.concatenate(
                [own.reshape(*own.shape[:lead], -1) for own in columns], axis=-1
            )

        return cls(
            row("people", 1), row("different", 1), row("score", 0), row("key", 0)
        )


def _filled_clusters(
    atoms: Atoms, members: Members, place: Place, n_parts: int
) -> FloatArray | None:
    """How many clusters the rows with and without the outcome fill; None if every row
    is a person.
    """
    if CLUSTER not in atoms.patterns.attributes:
        return None
    inside = members(atoms.patterns).astype(np.float64)
    bucket = atoms.pattern_index() * n_parts + place(atoms)
    n = len(atoms.patterns) * n_parts
    there = [
        (np.bincount(bucket, weights=column, minlength=n) > 1e-9)
        .reshape(-1, n_parts)
        .astype(np.float64)
        for column in (atoms.positives, atoms.weight - atoms.positives)
    ]
    return np.array([filled_clusters(atoms, inside, own) for own in there])


def score_values(atoms: Atoms, inside: BoolArray) -> list[ScoreValues] | None:
    """The different scores of each group; None if scores are hardly ever the same."""
    scores = np.unique(atoms.score)
    if 2 * len(scores) > atoms.n_people:
        return None
    pattern = atoms.pattern_index()
    cluster = atom_clusters(atoms)
    keys = atoms.record_keys()
    place = np.searchsorted(scores, atoms.score)
    found = []
    for members in inside:
        rows = np.flatnonzero(members[pattern])
        own = place[rows]
        n = len(scores)
        people, events = (
            np.bincount(own, weights=column[rows], minlength=n)
            for column in (atoms.people, atoms.positives)
        )
        different = people
        if cluster is not None:
            pairs = np.unique(own * N_CLUSTERS + cluster[rows])
            different = np.bincount(pairs // N_CLUSTERS, minlength=n).astype(np.float64)
        key = np.zeros(n, dtype=np.uint64)
        np.add.at(key, own, keys[rows])
        used = people > 0
        columns: tuple[Any, ...] = (from_grid(scores), people, events, different, key)
        found.append(ScoreValues(*(column[used] for column in columns)))
    return found


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

        def members(patterns: Patterns) -> BoolArray:
            return membership(groups, patterns)

        def without_a_value(patterns: Patterns) -> BoolArray:
            """The patterns in which an attribute is missing, for each that is missing
            for somebody.
            """
            levels = [
                (a, own.index(None))
                for a, own in enumerate(patterns.levels)
                if None in own
            ]
            return np.array(
                [patterns.table[:, a] == level for a, level in levels], dtype=np.bool_
            ).reshape(-1, len(patterns))

        certain = to_grid(np.array([0.0, 1.0]))
        between = Headcount.of(
            atoms,
            members,
            lambda a: np.searchsorted(edges, a.score, side="right"),
            len(edges) + 1,
        )
        return cls(
            groups=tuple(groups),
            bins=bins,
            totals=Headcount.of(atoms, members),
            ranges=Headcount.of(
                atoms, members, lambda a: bins.index(a.score), len(bins)
            ),
            flagged=between.from_top().part(slice(1, None)),
            missing=Headcount.of(atoms, without_a_value),
            at_ends=Headcount.of(
                atoms,
                everybody,
                lambda a: np.isin(a.score, certain).astype(np.int64),
                2,
            ),
            values=score_values(atoms, members(atoms.patterns)),
            thresholds=thresholds,
        )

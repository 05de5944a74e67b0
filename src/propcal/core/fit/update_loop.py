"""The compiled sweep of Algorithm 1, on current scores kept as a few linear segments.

A segment is a run of one pattern's atoms, sorted by raw score, that have had the same
updates: their score is now raw + offset (slope 1), or a constant (slope 0, after
clipping at 0 or 1). Each segment lies in exactly one bucket (pattern, bin), and each
bucket keeps the sums of its people, outcomes and scores. Checking a category means
adding the sums of its group's buckets; updating it means moving their segments and
cutting them at bin edges and at 0 and 1. The cost does not depend on the number of
people: a cut is a binary search in the sorted scores, and running sums give the counts
on either side.

All numbers are in units of the grid; sums are int64, or float64 with survey weights.
`BoostingState` holds the segments and sums of a fit between calls of the compiled
functions.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass
from typing import Any

import numpy as np

from propcal.core.atoms import Atoms
from propcal.core.bins import Bins
from propcal.core.compiled import bin_end, bin_of, compiled, first_not_below
from propcal.core.criterion import Criterion
from propcal.core.grid import UNIT, FloatArray, IntArray, SumArray
from propcal.core.groups import Collection, membership

# Columns of the segment table: it contains atoms LOW:HIGH; NEXT is the next segment in
# the same bucket.
SLOPE = 0
OFFSET = 1
LOW = 2
HIGH = 3
NEXT = 4
N_COLUMNS = 5
# Entries of a bucket's sums. SIZE is the weight in the full data, the others are of
# this sweep's sample.
SIZE = 0
WEIGHT = 1
OUTCOME = 2
SCORE = 3
SQUARES = 4
N_SUMS = 5
# Entries of a rule: when a category is updated (`UpdateRule`), and the weight of
# everybody.
CONSTANT = 0
IN_PROPORTION = 1
RHO = 2
Z = 3
MIN_SHARE = 4
TOTAL = 5
NONE = -1
# Rounding to the grid moves a gap and its cutoff by at most 1.5 units together. A gap
# that close to its cutoff may equal it in the decimals that were typed, and counts as
# reaching it.
TIE = 2.0


@compiled
def _nearest(numerator: Any, denominator: Any) -> int:
    """Numerator / denominator rounded to a whole number, halves upwards; exact for
    integers.
    """
    quotient = numerator // denominator
    remainder = numerator - quotient * denominator
    return int(quotient) + (1 if 2 * remainder >= denominator else 0)


@compiled
def _add_to_bucket(
    segments: Any,
    k: int,
    heads: Any,
    sums: Any,
    pattern: int,
    j: int,
    size: Any,
    running: Any,
) -> None:
    """Put segment k into bucket (pattern, j) and add its people to the bucket's
    sums.
    """
    segments[k, NEXT] = heads[pattern, j]
    heads[pattern, j] = k
    low, high = segments[k, LOW], segments[k, HIGH]
    weight = running[0][high] - running[0][low]
    sums[pattern, j, SIZE] += size[high] - size[low] if size.size else weight
    sums[pattern, j, WEIGHT] += weight
    sums[pattern, j, OUTCOME] += running[1][high] - running[1][low]
    sums[pattern, j, SCORE] += segments[k, OFFSET] * weight
    if segments[k, SLOPE] == 1:
        sums[pattern, j, SCORE] += running[2][high] - running[2][low]
    sums[pattern, j, SQUARES] += running[3][high] - running[3][low]


@compiled
def _room(segments: Any, needed: int) -> Any:
    """The table itself, or a copy with more rows."""
    if needed <= len(segments):
        return segments
    larger = np.empty((max(needed, 2 * len(segments)), N_COLUMNS), np.int64)
    for k in range(
        len(segments)
    ):  # a slice assignment would take four seconds longer to compile
        for column in range(N_COLUMNS):
            larger[k, column] = segments[k, column]
    return larger


@compiled
def _move_bucket(
    segments: Any,
    count: int,
    heads: Any,
    sums: Any,
    pattern: int,
    j: int,
    shift: int,
    edges: Any,
    scores: Any,
    size: Any,
    running: Any,
) -> tuple[Any, int]:
    """Add `shift` to every score in one bucket, clip to [0, 1], and put the pieces into
    their new buckets.
    """
    k = heads[pattern, j]
    heads[pattern, j] = NONE
    for entry in range(N_SUMS):
        sums[pattern, j, entry] = 0
    while k != NONE:
        following = segments[k, NEXT]
        if segments[k, SLOPE] == 0:
            value = min(max(segments[k, OFFSET] + shift, 0), UNIT)
            segments[k, OFFSET] = value
            _add_to_bucket(
                segments, k, heads, sums, pattern, bin_of(value, edges), size, running
            )
            k = following
            continue
        segments = _room(segments, count + len(edges) + 1)
        low, high = segments[k, LOW], segments[k, HIGH]
        offset = segments[k, OFFSET] + shift
        slot = k  # the first piece replaces the segment
        while low < high:
            value = scores[low] + offset
            slope = 0
            new_offset = 0
            cut = high
            if value < 0:
                target = 0
                cut = first_not_below(scores, low, high, -offset)
            elif value > UNIT:
                target = len(edges) - 2
                new_offset = UNIT
            else:
                slope = 1
                new_offset = offset
                if edges[j] <= value and value < bin_end(j, edges):
                    target = j
                else:
                    target = bin_of(value, edges)
                end = bin_end(target, edges) - offset
                if scores[high - 1] >= end:
                    cut = first_not_below(scores, low, high, end)
            if slot == NONE:
                slot = count
                count += 1
            segments[slot, SLOPE] = slope
            segments[slot, OFFSET] = new_offset
            segments[slot, LOW] = low
            segments[slot, HIGH] = cut
            _add_to_bucket(segments, slot, heads, sums, pattern, target, size, running)
            low = cut
            slot = NONE
        k = following
    return segments, count


@compiled
def _category(
    sums: Any, members: Any, first: int, last: int, j: int
) -> tuple[Any, Any, Any, Any, Any]:
    """Size, weight, outcomes, scores and squared weights of one category, summed over
    its group's buckets.
    """
    p = members[first]  # groups are never empty
    size = sums[p, j, SIZE]
    weight = sums[p, j, WEIGHT]
    outcome = sums[p, j, OUTCOME]
    score = sums[p, j, SCORE]
    squares = sums[p, j, SQUARES]
    for m in range(first + 1, last):
        p = members[m]
        size += sums[p, j, SIZE]
        weight += sums[p, j, WEIGHT]
        outcome += sums[p, j, OUTCOME]
        score += sums[p, j, SCORE]
        squares += sums[p, j, SQUARES]
    return size, weight, outcome, score, squares


@compiled
def standard_error(
    weight: float, squares: float, outcome: float, score: float
) -> float:
    """The standard error of a gap if the score is calibrated, in units.

    The larger of two binomial standard errors: at the mean score, and at the outcome
    rate after adding one person with the outcome and one without. The second prevents
    small categories, and those with scores of 0, from appearing significant.
    """
    people = weight * weight / squares
    mean = score / weight / UNIT
    rate = (outcome / weight / UNIT * people + 1.0) / (people + 2.0)
    return float(np.sqrt(max(mean * (1.0 - mean), rate * (1.0 - rate)) / people)) * UNIT


@compiled
def within_ties(cutoff: float) -> float:
    """The smallest gap in units that counts as reaching a cutoff; always above 0."""
    return max(cutoff - TIE, 0.5 * cutoff)


@compiled
def _gap_and_limits(
    weight: Any, outcome: Any, score: Any, squares: Any, rule: Any
) -> tuple[int, float, float]:
    """The gap (outcome rate minus mean score), the gap that reaches its cutoff, and z
    standard errors.
    """
    gap = _nearest(outcome - score, weight)
    rate = float(_nearest(outcome, weight))
    cutoff = within_ties(rule[CONSTANT] + rule[IN_PROPORTION] * max(rate, rule[RHO]))
    noise = 0.0
    if rule[Z] > 0:
        noise = rule[Z] * standard_error(
            float(weight), float(squares), float(outcome), float(score)
        )
    return gap, cutoff, noise


@compiled
def _shift(gap: int, noise: float, eta: float) -> int:
    """The shift of an update: eta times the gap, shrunk by the James-Stein factor.

    A gap just above the noise limit is mostly chance and shrinks a lot; a gap of three
    times the limit hardly shrinks. Without a guard the limit is 0 and nothing shrinks.
    """
    luck = noise / gap
    return int(np.floor(eta * (1.0 - luck * luck) * gap + 0.5))


@compiled
def sweep(
    order: Any,
    group_starts: Any,
    members: Any,
    segments: Any,
    count: int,
    heads: Any,
    sums: Any,
    edges: Any,
    scores: Any,
    size: Any,
    running: Any,
    rule: Any,
    eta: float,
    max_updates: int,
) -> tuple[Any, int, Any]:
    """Visit categories in the given order and update those whose gap reaches its
    limits.

    Returns the segment table, its length, and the updates as rows (group, bin, shift,
    people); with survey weights, people is the effective number.
    """
    n_bins = len(edges) - 1
    updates = np.empty((min(len(order), max_updates), 4), np.int64)
    n_updates = 0
    for category in order:
        if n_updates == max_updates:
            break
        group = category // n_bins
        j = category % n_bins
        first = group_starts[group]
        last = group_starts[group + 1]
        n, weight, outcome, score, squares = _category(sums, members, first, last, j)
        if weight <= 0 or n / rule[TOTAL] < rule[MIN_SHARE]:
            continue
        gap, cutoff, noise = _gap_and_limits(weight, outcome, score, squares, rule)
        if abs(gap) < max(cutoff, noise):
            continue
        shift = _shift(gap, noise, eta)
        if shift == 0:
            continue
        # the buckets belong to different patterns, so moving one does not affect the
        # others
        for m in range(first, last):
            segments, count = _move_bucket(
                segments,
                count,
                heads,
                sums,
                members[m],
                j,
                shift,
                edges,
                scores,
                size,
                running,
            )
        updates[n_updates, 0] = group
        updates[n_updates, 1] = j
        updates[n_updates, 2] = shift
        updates[n_updates, 3] = int(
            min(float(n), float(weight) * float(weight) / float(squares))
        )
        n_updates += 1
    return segments, count, updates[:n_updates]


@compiled
def worst_category(
    group_starts: Any, members: Any, sums: Any, n_bins: int, rule: Any
) -> int:
    """The category whose gap exceeds its limit by the largest factor; -1 if none
    reaches it.
    """
    worst = NONE
    largest = 1.0
    for group in range(len(group_starts) - 1):
        for j in range(n_bins):
            n, weight, outcome, score, squares = _category(
                sums, members, group_starts[group], group_starts[group + 1], j
            )
            if weight <= 0 or n / rule[TOTAL] < rule[MIN_SHARE]:
                continue
            gap, cutoff, noise = _gap_and_limits(weight, outcome, score, squares, rule)
            limit = max(cutoff, noise)
            if abs(gap) / limit >= largest and (
                worst == NONE or abs(gap) / limit > largest
            ):
                worst = group * n_bins + j
                largest = abs(gap) / limit
    return worst


@compiled
def fill_sums(segments: Any, heads: Any, sums: Any, size: Any, running: Any) -> None:
    """Recompute the sums of every bucket after a new sample has been drawn."""
    for pattern in range(len(heads)):
        for j in range(heads.shape[1]):
            for entry in range(N_SUMS):
                sums[pattern, j, entry] = 0
            k = heads[pattern, j]
            heads[pattern, j] = NONE
            while k != NONE:
                following = segments[k, NEXT]
                _add_to_bucket(segments, k, heads, sums, pattern, j, size, running)
                k = following


@compiled
def start_segments(
    starts: Any, edges: Any, scores: Any, heads: Any, sums: Any, size: Any, running: Any
) -> tuple[Any, int]:
    """One segment for each (pattern, bin) with people, before any update."""
    segments = np.empty((len(heads) * heads.shape[1], N_COLUMNS), np.int64)
    count = 0
    for pattern in range(len(heads)):
        low = starts[pattern]
        for j in range(heads.shape[1]):
            high = first_not_below(scores, low, starts[pattern + 1], bin_end(j, edges))
            if low < high:
                segments[count, SLOPE] = 1
                segments[count, OFFSET] = 0
                segments[count, LOW] = low
                segments[count, HIGH] = high
                _add_to_bucket(segments, count, heads, sums, pattern, j, size, running)
                count += 1
            low = high
    return segments, count


@dataclass(frozen=True)
class UpdateRule:
    """Update a category if its gap reaches both offset + slope * max(rate, rho) and z
    standard errors.

    `offset` and `rho` are in units of the grid; `z` is 0 without a guard.
    """

    offset: float
    slope: float
    rho: float
    z: float
    min_share: float

    @classmethod
    def of(
        cls, criterion: Criterion, alpha: float, *, z: float, min_share: float
    ) -> UpdateRule:
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
        """The smallest gap in units that is an update, in a category in which no one
        had the outcome.
        """
        return float(within_ties(self.offset + self.slope * self.rho))


class BoostingState:
    """The current scores of all patterns as segments, with the sums of every bucket."""

    def __init__(self, atoms: Atoms, bins: Bins, collection: Collection) -> None:
        self.atoms = atoms
        self.edges = bins.edges
        inside = membership(collection.groups, atoms.patterns)
        self.group_starts = np.concatenate([[0], np.cumsum(inside.sum(axis=1))])
        self.members = np.ascontiguousarray(np.nonzero(inside)[1])
        self.total = float(atoms.weight.sum())
        self.running = self.whole = running_sums(
            atoms.weight, atoms.outcome_units(), atoms.score, atoms.weight_sq
        )
        self.size: Any = np.empty(0, dtype=atoms.weight.dtype)  # empty: no resampling
        shape = len(atoms.patterns), len(bins)
        self.heads = np.full(shape, NONE, dtype=np.int64)
        self.sums = np.zeros((*shape, N_SUMS), dtype=atoms.weight.dtype)
        self.table, self.count = start_segments(
            atoms.starts,
            self.edges,
            atoms.score,
            self.heads,
            self.sums,
            self.size,
            self.running,
        )

    def resample(self, rng: np.random.Generator) -> None:
        """Draw a bootstrap sample; the full data still decide which categories are
        large enough.
        """
        if not len(self.size):
            self.size = self.running[0]
        self.running = running_sums(*bootstrap(self.atoms, rng))
        fill_sums(self.table, self.heads, self.sums, self.size, self.running)

    def category_sums(self) -> Any:
        """The sums of each category in the full data, of shape (n_groups, n_bins,
        N_SUMS).
        """
        if self.running is not self.whole:
            fill_sums(self.table, self.heads, self.sums, self.size, self.whole)
        return np.add.reduceat(self.sums[self.members], self.group_starts[:-1], axis=0)

    def worst(self, rule: UpdateRule) -> int:
        """The category that exceeds its limit by the largest factor, or -1."""
        limits = (*astuple(rule), self.total)
        n_bins = len(self.edges) - 1
        return int(
            worst_category(self.group_starts, self.members, self.sums, n_bins, limits)
        )

    def sweep(
        self, order: IntArray, rule: UpdateRule, eta: float, most: int
    ) -> IntArray:
        """Visit the categories once and return the updates as rows of group, bin, shift
        and people.
        """
        self.table, self.count, updates = sweep(
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


def running_sums(
    weight: SumArray, outcome: SumArray, score: IntArray, squares: SumArray
) -> Any:
    """Running sums of weight, outcome, score (in units) and squared weight, up to each
    atom.
    """
    running = [np.zeros(len(score) + 1, dtype=weight.dtype) for _ in range(3)]
    np.cumsum(weight, out=running[0][1:])
    np.cumsum(outcome, out=running[1][1:])
    np.multiply(weight, score, out=running[2][1:])
    np.cumsum(
        running[2], out=running[2]
    )  # in place, because a fit needs the most memory here
    if squares is weight:  # frequencies
        return (*running, running[0])
    return (
        *running,
        np.concatenate([np.zeros(1, dtype=weight.dtype), np.cumsum(squares)]),
    )


def bootstrap(
    atoms: Atoms, rng: np.random.Generator
) -> tuple[SumArray, SumArray, IntArray, SumArray]:
    """Weights, outcomes (in units), scores and squared weights of a bootstrap sample of
    the same size.

    If outcomes are 0/1 and weights are frequencies, people with and without the outcome
    are drawn separately, which is equivalent to a bootstrap of the rows. Otherwise each
    drawn person has the mean weight and outcome of the atom, which is equivalent if
    every atom is a single person.
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
    return (
        atoms.weight * scale,
        atoms.outcome_units() * scale,
        atoms.score,
        atoms.weight_sq * scale,
    )


def standard_errors(
    weight: FloatArray, squares: FloatArray, positives: FloatArray, score: FloatArray
) -> FloatArray:
    """Standard errors of gaps if the score is calibrated; `standard_error` for arrays
    of sums.
    """
    people = weight**2 / squares
    mean = score / weight
    rate = (positives / weight * people + 1) / (people + 2)
    return np.asarray(
        np.sqrt(np.maximum(mean * (1 - mean), rate * (1 - rate)) / people)
    )

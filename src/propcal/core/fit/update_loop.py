"""The update loop of Algorithm 1, compiled.

| Algorithm 1 | here |
| --- | --- |
| repeat until no updates to R(x) | `run_update_loop` |
| sample D | `BoostingState.resample` |
| for S, I such that P(R in I, x in S) is at least alpha * lambda * gamma | `sweep` |
| mean score, mean outcome, Delta r and the cutoff | `_gap_and_limits` |
| R(x) + Delta r, limited to [0, 1] | `_move_bucket` |

The loop does not touch single people. A segment is a run of one pattern's atoms, sorted
by raw score, that have had the same updates: their score is now raw + offset (slope 1),
or a constant (slope 0, after clipping at 0 or 1). Each segment lies in exactly one
bucket (pattern, bin), and each bucket keeps the sums of its people, outcomes and
scores. Checking a category means adding the sums of its group's buckets; updating it
means moving their segments and cutting them at bin edges and at 0 and 1. The cost does
not depend on the number of people: a cut is a binary search in the sorted scores, and
running sums give the counts on either side.

All numbers are in units of the grid; sums are int64, or float64 with survey weights.
`BoostingState` holds the segments and sums of a fit between calls of the compiled
functions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from propcal.core.arguments import Order, Parameters
from propcal.core.atoms import Atoms
from propcal.core.bins import Bins
from propcal.core.compiled import bin_end, bin_of, compiled, first_not_below
from propcal.core.criterion import Criterion
from propcal.core.grid import UNIT, BoolArray, IntArray, SumArray

# Columns of the segment table: a segment contains the atoms LOW:HIGH; NEXT is the next
# segment in the same bucket.
SLOPE = 0
OFFSET = 1
LOW = 2
HIGH = 3
NEXT = 4
N_COLUMNS = 5
# Entries of a bucket's sums, as in `CategorySums`.
SIZE = 0
WEIGHT = 1
OUTCOME = 2
SCORE = 3
SQUARES = 4
N_SUMS = 5
NONE = -1  # no segment, or no category
# Rounding to the grid moves a gap and its cutoff by at most 1.5 units together. A gap
# that close to its cutoff may equal it in the decimals that were typed, and counts as
# reaching it.
TIE = 2.0


# The loop


@dataclass(frozen=True, eq=False)
class LoopResult:
    """What a run of the loop did.

    `updates` has a row for each: group, bin, shift and people. The loop has `converged`
    if every category is within its limits at the end.
    """

    updates: IntArray
    n_sweeps: int
    converged: bool


def run_update_loop(
    state: BoostingState,
    rule: UpdateRule,
    settings: Parameters,
    *,
    max_updates: int,
    rng: np.random.Generator,
) -> LoopResult:
    """Repeat sweeps over the categories until one makes no update.

    With `max_updates` updates made, it stops as well.
    """
    eta = float(settings.eta)
    updates = [np.empty((0, 4), dtype=np.int64)]
    n_left = max_updates
    while True:
        if settings.sample == "bootstrap":
            state.resample(rng)
        order = state.visiting_order(settings.order, rule, rng)
        if n_left == 0:
            converged = state.worst(rule) == NONE
            break
        latest = state.sweep(order, rule, eta, n_left)
        updates.append(latest)
        n_left -= len(latest)
        if not len(latest):
            # a shift that rounds to zero is not an update, but it does not show
            # convergence either
            no_shift_rounds_to_zero = eta * rule.smallest_cutoff >= 1
            converged = no_shift_rounds_to_zero or state.worst(rule) == NONE
            break
    return LoopResult(np.concatenate(updates), len(updates) - 1, converged)


@compiled
def sweep(
    order: Any,
    groups: Any,
    segments: Any,
    count: int,
    buckets: Any,
    edges: Any,
    atoms: Any,
    rule: Any,
    total: float,
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
    for place in order:
        if n_updates == max_updates:
            break
        group = place // n_bins
        j = place % n_bins
        category = _category_sums(groups, buckets, group, j)
        if category.weight <= 0 or category.size / total < rule.min_share:
            continue
        gap, cutoff, noise = _gap_and_limits(category, rule)
        if abs(gap) < max(cutoff, noise):
            continue
        shift = _shift(gap, noise, eta)
        if shift == 0:
            continue
        # the buckets belong to different patterns, so moving one does not affect the
        # others
        for m in range(groups.starts[group], groups.starts[group + 1]):
            pattern = groups.patterns[m]
            segments, count = _move_bucket(
                segments, count, buckets, pattern, j, shift, edges, atoms
            )
        updates[n_updates, 0] = group
        updates[n_updates, 1] = j
        updates[n_updates, 2] = shift
        updates[n_updates, 3] = _people(category)
        n_updates += 1
    return segments, count, updates[:n_updates]


@compiled
def worst_category(
    groups: Any, buckets: Any, n_bins: int, rule: Any, total: float
) -> int:
    """The category whose gap exceeds its limit by the largest factor; -1 if none
    reaches it.
    """
    worst = NONE
    largest = 1.0
    for group in range(len(groups.starts) - 1):
        for j in range(n_bins):
            category = _category_sums(groups, buckets, group, j)
            if category.weight <= 0 or category.size / total < rule.min_share:
                continue
            gap, cutoff, noise = _gap_and_limits(category, rule)
            factor = abs(gap) / max(cutoff, noise)
            if factor > largest or (worst == NONE and factor == largest):
                worst = group * n_bins + j
                largest = factor
    return worst


# When a category is updated, and by how much


class UpdateRule(NamedTuple):
    """Update a category if its gap reaches both offset + slope * max(rate, rho) and z
    standard errors.

    `offset` and `rho` are in units of the grid; `z` is 0 without a guard. `min_share`
    is the smallest share of everybody's weight that a category may have.
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
            offset=float(alpha * criterion.offset * UNIT),
            slope=float(alpha * criterion.slope),
            rho=float(criterion.rho * UNIT),
            z=float(z),
            min_share=float(min_share),
        )

    @property
    def smallest_cutoff(self) -> float:
        """The smallest gap in units that is an update, in a category in which no one
        had the outcome.
        """
        return float(within_ties(self.offset + self.slope * self.rho))


class CategorySums(NamedTuple):
    """Sums over the people of a category.

    `size` is their weight in the full data; the others are of this sweep's sample:
    weights, outcomes and scores (in units), and squared weights.
    """

    size: Any
    weight: Any
    outcome: Any
    score: Any
    squares: Any


@compiled
def _gap_and_limits(category: Any, rule: Any) -> tuple[int, float, float]:
    """The gap (outcome rate minus mean score), the gap that reaches its cutoff, and z
    standard errors.
    """
    weight = category.weight
    gap = _nearest(category.outcome - category.score, weight)
    rate = float(_nearest(category.outcome, weight))
    cutoff = within_ties(rule.offset + rule.slope * max(rate, rule.rho))
    noise = 0.0
    if rule.z > 0:
        noise = rule.z * standard_error(
            float(weight),
            float(category.squares),
            float(category.outcome),
            float(category.score),
        )
    return gap, cutoff, noise


@compiled
def standard_error(weight: Any, squares: Any, outcome: Any, score: Any) -> Any:
    """The standard error of a gap if the score is calibrated, in units; also for arrays
    of sums, `in_python`.

    The larger of two binomial standard errors: at the mean score, and at the outcome
    rate after adding one person with the outcome and one without. The second prevents
    small categories, and those with scores of 0, from appearing significant.
    """
    people = weight * weight / squares
    mean = score / weight / UNIT
    rate = (outcome / weight / UNIT * people + 1.0) / (people + 2.0)
    variance = np.maximum(mean * (1.0 - mean), rate * (1.0 - rate)) / people
    return np.sqrt(variance) * UNIT


@compiled
def within_ties(cutoff: float) -> float:
    """The smallest gap in units that counts as reaching a cutoff; always above 0."""
    return max(cutoff - TIE, 0.5 * cutoff)


@compiled
def _shift(gap: int, noise: float, eta: float) -> int:
    """The shift of an update: eta times the gap, shrunk by the James-Stein factor.

    A gap just above the noise limit is mostly chance and shrinks a lot; a gap of three
    times the limit hardly shrinks. Without a guard the limit is 0 and nothing shrinks.
    """
    luck = noise / gap
    return int(np.floor(eta * (1.0 - luck * luck) * gap + 0.5))


@compiled
def _people(category: Any) -> int:
    """The people of a category; with survey weights, their effective number."""
    weight = float(category.weight)
    return int(min(float(category.size), weight * weight / float(category.squares)))


@compiled
def _nearest(numerator: Any, denominator: Any) -> int:
    """Numerator / denominator rounded to a whole number, halves upwards; exact for
    integers.
    """
    quotient = numerator // denominator
    remainder = numerator - quotient * denominator
    return int(quotient) + (1 if 2 * remainder >= denominator else 0)


# Groups, buckets and segments


class GroupPatterns(NamedTuple):
    """Group g contains the patterns ``patterns[starts[g]:starts[g + 1]]``."""

    starts: Any
    patterns: Any


class BucketSums(NamedTuple):
    """The first segment of each (pattern, bin), and the sums of its people."""

    heads: Any
    sums: Any


class SortedAtoms(NamedTuple):
    """The raw score of each atom, and running sums up to each atom.

    `size` adds up the weights of the full data, the others those of this sweep's
    sample: weights, outcomes, scores (in units) and squared weights.
    """

    raw_scores: Any
    size: Any
    weight: Any
    outcome: Any
    score: Any
    squares: Any


@compiled
def _category_sums(groups: Any, buckets: Any, group: int, j: int) -> Any:
    """The sums of one category, added up over the buckets of its group's patterns."""
    first = groups.starts[group]
    sums = buckets.sums
    pattern = groups.patterns[first]  # groups are never empty
    size = sums[pattern, j, SIZE]
    weight = sums[pattern, j, WEIGHT]
    outcome = sums[pattern, j, OUTCOME]
    score = sums[pattern, j, SCORE]
    squares = sums[pattern, j, SQUARES]
    for m in range(first + 1, groups.starts[group + 1]):
        pattern = groups.patterns[m]
        size += sums[pattern, j, SIZE]
        weight += sums[pattern, j, WEIGHT]
        outcome += sums[pattern, j, OUTCOME]
        score += sums[pattern, j, SCORE]
        squares += sums[pattern, j, SQUARES]
    return CategorySums(size, weight, outcome, score, squares)


@compiled
def _move_bucket(
    segments: Any,
    count: int,
    buckets: Any,
    pattern: int,
    j: int,
    shift: int,
    edges: Any,
    atoms: Any,
) -> tuple[Any, int]:
    """Add `shift` to every score in one bucket, clip to [0, 1], and put the pieces into
    their new buckets.
    """
    k = buckets.heads[pattern, j]
    _empty(buckets, pattern, j)
    while k != NONE:
        following = segments[k, NEXT]
        offset = segments[k, OFFSET] + shift
        if segments[k, SLOPE] == 0:
            value = min(max(offset, 0), UNIT)
            segments[k, OFFSET] = value
            target = bin_of(value, edges)
            _add_to_bucket(segments, k, buckets, pattern, target, atoms)
            k = following
            continue
        segments = _with_room(segments, count + len(edges) + 1)
        low = segments[k, LOW]
        high = segments[k, HIGH]
        slot = k  # the first piece replaces the segment
        while low < high:
            if slot == NONE:
                slot = count
                count += 1
            slope, new_offset, target, cut = _first_piece(
                low, high, offset, j, edges, atoms.raw_scores
            )
            segments[slot, SLOPE] = slope
            segments[slot, OFFSET] = new_offset
            segments[slot, LOW] = low
            segments[slot, HIGH] = cut
            _add_to_bucket(segments, slot, buckets, pattern, target, atoms)
            low = cut
            slot = NONE
        k = following
    return segments, count


@compiled
def _first_piece(
    low: int, high: int, offset: int, j: int, edges: Any, scores: Any
) -> tuple[int, int, int, int]:
    """How far atoms `low` to `high` that moved from bin j stay together: their slope,
    offset and bin, and the end of the piece.
    """
    value = scores[low] + offset
    if value < 0:
        return 0, 0, 0, first_not_below(scores, low, high, -offset)
    if value > UNIT:
        return 0, UNIT, len(edges) - 2, high
    target = j
    if value < edges[j] or value >= bin_end(j, edges):
        target = bin_of(value, edges)
    end = bin_end(target, edges) - offset
    cut = high
    if scores[high - 1] >= end:
        cut = first_not_below(scores, low, high, end)
    return 1, offset, target, cut


@compiled
def _empty(buckets: Any, pattern: int, j: int) -> None:
    """Leave a bucket without segments."""
    buckets.heads[pattern, j] = NONE
    for entry in range(N_SUMS):
        buckets.sums[pattern, j, entry] = 0


@compiled
def _add_to_bucket(
    segments: Any, k: int, buckets: Any, pattern: int, j: int, atoms: Any
) -> None:
    """Put segment k into bucket (pattern, j) and add its people to the bucket's
    sums.
    """
    segments[k, NEXT] = buckets.heads[pattern, j]
    buckets.heads[pattern, j] = k
    low = segments[k, LOW]
    high = segments[k, HIGH]
    weight = atoms.weight[high] - atoms.weight[low]
    sums = buckets.sums
    sums[pattern, j, SIZE] += atoms.size[high] - atoms.size[low]
    sums[pattern, j, WEIGHT] += weight
    sums[pattern, j, OUTCOME] += atoms.outcome[high] - atoms.outcome[low]
    sums[pattern, j, SCORE] += segments[k, OFFSET] * weight
    if segments[k, SLOPE] == 1:
        sums[pattern, j, SCORE] += atoms.score[high] - atoms.score[low]
    sums[pattern, j, SQUARES] += atoms.squares[high] - atoms.squares[low]


@compiled
def _with_room(segments: Any, needed: int) -> Any:
    """The table itself, or a copy with more rows."""
    if needed <= len(segments):
        return segments
    larger = np.empty((max(needed, 2 * len(segments)), N_COLUMNS), np.int64)
    # a slice assignment would take four seconds longer to compile
    for k in range(len(segments)):
        for column in range(N_COLUMNS):
            larger[k, column] = segments[k, column]
    return larger


@compiled
def start_segments(
    starts: Any, edges: Any, buckets: Any, atoms: Any
) -> tuple[Any, int]:
    """One segment for each (pattern, bin) with people, before any update."""
    n_patterns, n_bins = buckets.heads.shape
    segments = np.empty((n_patterns * n_bins, N_COLUMNS), np.int64)
    count = 0
    for pattern in range(n_patterns):
        low = starts[pattern]
        last = starts[pattern + 1]
        for j in range(n_bins):
            high = first_not_below(atoms.raw_scores, low, last, bin_end(j, edges))
            if low < high:
                segments[count, SLOPE] = 1
                segments[count, OFFSET] = 0
                segments[count, LOW] = low
                segments[count, HIGH] = high
                _add_to_bucket(segments, count, buckets, pattern, j, atoms)
                count += 1
            low = high
    return segments, count


@compiled
def fill_sums(segments: Any, buckets: Any, atoms: Any) -> None:
    """Recompute the sums of every bucket after a new sample has been drawn."""
    n_patterns, n_bins = buckets.heads.shape
    for pattern in range(n_patterns):
        for j in range(n_bins):
            k = buckets.heads[pattern, j]
            _empty(buckets, pattern, j)
            while k != NONE:
                following = segments[k, NEXT]
                _add_to_bucket(segments, k, buckets, pattern, j, atoms)
                k = following


class BoostingState:
    """The current scores of all patterns as segments, with the sums of every bucket.

    `inside` says which groups (rows) contain which patterns (columns).
    """

    def __init__(self, atoms: Atoms, bins: Bins, inside: BoolArray) -> None:
        self.atoms = atoms
        self.edges = bins.edges
        ends = np.cumsum(inside.sum(axis=1))
        self.groups = GroupPatterns(
            np.concatenate([[0], ends]), np.ascontiguousarray(np.nonzero(inside)[1])
        )
        self.total = float(atoms.weight.sum())
        self.full_data = running_sums(
            atoms.weight, atoms.outcome_units(), atoms.score, atoms.weight_sq
        )
        self.sample = self.full_data
        shape = len(atoms.patterns), len(bins)
        self.buckets = BucketSums(
            heads=np.full(shape, NONE, dtype=np.int64),
            sums=np.zeros((*shape, N_SUMS), dtype=atoms.weight.dtype),
        )
        self.segments, self.n_segments = start_segments(
            atoms.starts, self.edges, self.buckets, self.sample
        )

    @property
    def n_categories(self) -> int:
        """How many groups times bins there are."""
        return (len(self.groups.starts) - 1) * (len(self.edges) - 1)

    def resample(self, rng: np.random.Generator) -> None:
        """Draw a bootstrap sample; the full data still decide which categories are
        large enough.
        """
        drawn = running_sums(*bootstrap(self.atoms, rng))
        self.sample = drawn._replace(size=self.full_data.size)
        fill_sums(self.segments, self.buckets, self.sample)

    def category_sums(self) -> Any:
        """The sums of each category in the full data, of shape (n_groups, n_bins,
        N_SUMS).
        """
        if self.sample is not self.full_data:
            fill_sums(self.segments, self.buckets, self.full_data)
        by_member = self.buckets.sums[self.groups.patterns]
        return np.add.reduceat(by_member, self.groups.starts[:-1], axis=0)

    def visiting_order(
        self, order: Order, rule: UpdateRule, rng: np.random.Generator
    ) -> IntArray:
        """The categories that the next sweep visits, in order."""
        if order == "cyclic":
            return np.arange(self.n_categories)
        if order == "random":
            return rng.permutation(self.n_categories)
        worst = self.worst(rule)
        return np.array([] if worst == NONE else [worst], dtype=np.int64)

    def worst(self, rule: UpdateRule) -> int:
        """The category that exceeds its limit by the largest factor, or -1."""
        n_bins = len(self.edges) - 1
        return int(worst_category(self.groups, self.buckets, n_bins, rule, self.total))

    def sweep(
        self, order: IntArray, rule: UpdateRule, eta: float, max_updates: int
    ) -> IntArray:
        """Visit the categories once and return the updates as rows of group, bin, shift
        and people.
        """
        self.segments, self.n_segments, updates = sweep(
            order,
            self.groups,
            self.segments,
            self.n_segments,
            self.buckets,
            self.edges,
            self.sample,
            rule,
            self.total,
            eta,
            max_updates,
        )
        return np.asarray(updates)


def running_sums(
    weight: SumArray, outcome: SumArray, raw_score: IntArray, squares: SumArray
) -> SortedAtoms:
    """Running sums of weight, outcome, score (in units) and squared weight, up to each
    atom.
    """
    weights = np.zeros(len(raw_score) + 1, dtype=weight.dtype)
    np.cumsum(weight, out=weights[1:])
    outcomes = np.zeros_like(weights)
    np.cumsum(outcome, out=outcomes[1:])
    # in place, because a fit needs the most memory here
    score_sums = np.zeros_like(weights)
    np.multiply(weight, raw_score, out=score_sums[1:])
    np.cumsum(score_sums, out=score_sums)
    if squares is weight:  # frequencies
        squared = weights
    else:
        squared = np.zeros_like(weights)
        np.cumsum(squares, out=squared[1:])
    return SortedAtoms(raw_score, weights, weights, outcomes, score_sums, squared)


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
        positives, negatives = np.split(rng.multinomial(n, cells / n), 2)
        weight = positives + negatives
        return weight, positives * np.int64(UNIT), atoms.score, weight
    drawn = rng.multinomial(n, atoms.people / n)
    scale = drawn / atoms.people
    outcome = atoms.outcome_units() * scale
    if atoms.frequencies:
        return drawn, np.rint(outcome).astype(np.int64), atoms.score, drawn
    return atoms.weight * scale, outcome, atoms.score, atoms.weight_sq * scale

"""The people of a group as a few protected cells of scores, from which measures and curves are computed."""

from __future__ import annotations

import numpy as np

from propcal.auditing.cell_counts import Counts, OutcomeTally, fine_ranges
from propcal.auditing.distributions import normal_quantile
from propcal.auditing.sample import NEAREST, Sample
from propcal.core.grid import FloatArray, from_grid
from propcal.core.logistic import expit, log_odds
from propcal.disclosure.blocks import Blocks

MOST_CELLS = 20  # of people with the outcome, and as many of those without
CERTAIN = 10 * NEAREST
FEWEST_PARTS, SPREAD = 3, 20  # parts of cells in a range, and parts of a range without so many
# A cell is drawn as fifteen equal parts, at the quantiles of a normal distribution of variance 1
PARTS = np.array([normal_quantile((i + 0.5) / 15) for i in range(15)])
PARTS /= np.sqrt(np.mean(PARTS**2))


def protected_sample(
    counts: Counts, group: int, blocks: Blocks, *, effect: float, soft: bool
) -> tuple[Sample, bool]:
    """A sample of protected cells with protected totals, and whether either of the totals is small.

    People with and without the outcome are cut into cells by themselves, from low to high scores, each of
    them so large that its count is not small. A cell has the mean and the standard deviation of its people's
    scores, as angles arcsin(sqrt(score)), to two digits.
    """
    people, different = counts.totals.people[:, group, 0], counts.totals.different[:, group, 0]
    shown, small = blocks.pair(people, different), blocks.small(people, different)
    mean = float(counts.totals.score[:, group, 0].sum() / max(people.sum(), 1e-300))
    weight, scores = [], []
    for outcome in (0, 1):
        if small[outcome]:
            cells, own = np.array([shown[outcome]]), np.array([mean])
        else:
            cells, own = _cells(counts.fine, outcome, group, blocks, shown[outcome])
            cells, own = _as_in_ranges(cells, own, counts, outcome, group, blocks)
        weight.append(cells * (shown[outcome] / cells.sum()))
        scores.append(own)
    weights, score = np.concatenate(weight), np.concatenate(scores)
    if not counts.few_scores or small.any():
        score = shifted(score, weights, expected_events(mean, float(weights.sum())))
    score = np.clip(score, CERTAIN, 1 - CERTAIN)  # cells do not tell who has a score of exactly 0 or 1
    positives = np.where(np.arange(len(weights)) < len(weight[0]), weights, 0.0)
    sample = Sample(
        score=score,
        people=weights,
        weight=weights,
        weight_sq=effect * weights,
        positives=positives,
        positives_sq=effect * positives,
        cluster=None,
        soft=soft,
    )
    return sample, bool(small.any())


def cell_starts(fine: OutcomeTally, outcome: int, group: int, blocks: Blocks) -> tuple[list[int], float]:
    """Where the cells of a group begin on the fixed grid of scores, and the number that each exceeds.

    A cell ends as soon as it has more people than that number: a twentieth of the group, in whole blocks.
    What is left over belongs to the last cell. How many cells there are must not tell how many people: it
    is what the fewest people of the group's block would fill.
    """
    people = fine.people[outcome, group]
    reached = np.concatenate([[0.0], np.cumsum(people)])
    total = blocks.shown(reached[-1], reached[-1])
    least = float(blocks.width * max(np.ceil(reached[-1] / blocks.width / MOST_CELLS), 1))
    most = max(int(blocks.lowest(total) // (least + 1)), 1)
    starts = [0]
    while True:
        end = int(np.searchsorted(reached, reached[starts[-1]] + least + 1e-9))
        while end < len(reached) and fine.between(outcome, group, starts[-1], end) < blocks.fewest:
            end += 1
        if end >= len(reached):
            return (starts[:-1] or [0])[:most], least
        starts.append(end)


def _cells(
    fine: OutcomeTally, outcome: int, group: int, blocks: Blocks, total: float
) -> tuple[FloatArray, FloatArray]:
    """Protected people and scores of the parts of cells; `total` is the protected number of all.

    A cell counts as the fewest people that it may have, or as its block where many have equal scores; what
    is left of the total belongs to the last cell, so that nothing but the total tells how many these are.
    """
    starts, least = cell_starts(fine, outcome, group, blocks)
    people = fine.people[outcome, group]
    ends = [*starts[1:], len(people)]
    sums = np.add.reduceat(people, starts)
    mean, square = (
        np.add.reduceat(each[outcome, group], starts) / np.maximum(sums, 1e-300)
        for each in (fine.angle, fine.angle_squared)
    )
    spread = two_digits(np.sqrt(np.maximum(square - mean**2, 0.0)))
    shown = np.where(sums > least + blocks.width, blocks.shown(sums, sums), least + 1)
    shown[-1] = max(total - float(shown[:-1].sum()), least + 1)
    edges = np.arcsin(np.sqrt(from_grid(fine_ranges().edges)))
    angles = two_digits(mean)[:, None] + spread[:, None] * PARTS
    angles = np.clip(angles, edges[starts][:, None], edges[ends][:, None])
    return np.repeat(shown / len(PARTS), len(PARTS)), np.sin(angles.ravel()) ** 2


def _as_in_ranges(
    weight: FloatArray, score: FloatArray, counts: Counts, outcome: int, group: int, blocks: Blocks
) -> tuple[FloatArray, FloatArray]:
    """Cells with as many people in each risk range as its block allows.

    Within a range people lie where the cells are, or evenly spread if these are few there.
    """
    people, different = counts.ranges.people[:, group], counts.ranges.different[:, group]
    shown = blocks.pair(people, different)[outcome]
    nobody = people.sum(axis=0) <= 0
    edges = from_grid(counts.bins.edges)
    place = np.clip(np.searchsorted(edges, score, side="right") - 1, 0, len(shown) - 1)
    there = np.bincount(place, weights=weight, minlength=len(shown))
    wanted = np.where(nobody, 0.0, np.clip(there, blocks.lowest(shown), blocks.highest(shown)))
    sparse = np.bincount(place, minlength=len(shown)) < FEWEST_PARTS
    parts = (np.arange(SPREAD) + 0.5) / SPREAD
    chosen = np.flatnonzero(sparse & (wanted > 0)) if not counts.few_scores else np.empty(0, dtype=np.int64)
    added = [edges[j] + parts * (edges[j + 1] - edges[j]) for j in chosen]
    share = np.divide(wanted, there, out=np.zeros_like(wanted), where=there > 0)
    share[chosen] = 0.0
    new = [np.full(SPREAD, wanted[j] / SPREAD) for j in chosen]
    weights, scores = np.concatenate([weight * share[place], *new]), np.concatenate([score, *added])
    kept = weights > 0
    return (weights[kept], scores[kept]) if kept.any() else (weight, score)


def two_digits(angles: FloatArray) -> FloatArray:
    """Angles to two significant digits; those near a right angle by what they lack of it.

    >>> two_digits(np.array([0.123, 0.0051, 1e-8])).tolist()
    [0.12, 0.0051, 0.0]
    """
    near = np.minimum(angles, np.pi / 2 - angles)
    rounded = np.round([float(f"{angle:.2g}") for angle in near], 4)  # no last digits of exact sums
    return np.where(angles > np.pi / 4, np.pi / 2 - rounded, rounded)


def expected_events(mean: float, people: float) -> float:
    """Expected events among protected people: whole, or one digit if less than one.

    >>> expected_events(0.104, 165), expected_events(0.0031, 60)
    (17.0, 0.2)
    """
    expected = mean * people
    return float(round(expected)) if expected >= 1 else float(f"{expected:.1g}")


def shifted(score: FloatArray, weight: FloatArray, expected: float) -> FloatArray:
    """Scores whose log-odds are shifted by a constant, so that they expect so many events."""
    if not 0 < expected < weight.sum():
        return np.full(len(score), np.clip(expected / weight.sum(), 0.0, 1.0))
    x = log_odds(np.clip(score, NEAREST, 1 - NEAREST))
    low, high = -40.0, 40.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if float(weight @ expit(x + middle)) < expected else (low, middle)
    return expit(x + (low + high) / 2)

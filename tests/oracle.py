"""Algorithm 1 and the losses, read row by row from the paper, in Python's whole
numbers.

Slow and plain on purpose; shares no code with the package. A person is a tuple of
levels (None is missing), a score in units of 2**-32, an outcome in the same units, and
a whole weight."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import combinations, pairwise

UNIT = 2**32


@dataclass
class Person:
    levels: tuple[str | None, ...]
    score: int
    outcome: int
    weight: int = 1


def to_units(value: float) -> int:
    return math.floor(value * UNIT + 0.5)


def people(levels, scores, outcomes, weights=None) -> list[Person]:
    weights = [1] * len(scores) if weights is None else weights
    rows = zip(levels, scores, outcomes, weights)
    return [
        Person(tuple(k), to_units(s), to_units(y), int(w))
        for k, s, y, w in rows
        if w > 0
    ]


def typed(value: float) -> Fraction:
    return Fraction(repr(value))


def collect(persons: list[Person], gamma: float, depth: int) -> list[tuple]:
    """The collection C: tuples of (attribute index, level), in the order of the
    design.
    """
    total = sum(p.weight for p in persons)
    n_attributes = len(persons[0].levels)
    if n_attributes == 0:
        return [()]
    groups = []
    for size in range(1, depth + 1):
        for columns in combinations(range(n_attributes), size):
            present = {tuple(p.levels[c] for c in columns) for p in persons}
            for levels in sorted(
                present, key=lambda k: [(v is None, v or "") for v in k]
            ):
                group = tuple(zip(columns, levels))
                inside = sum(p.weight for p in persons if belongs(p.levels, group))
                if Fraction(inside, total) >= typed(gamma):
                    groups.append(group)
    return groups


def belongs(levels: tuple, group: tuple) -> bool:
    return all(levels[column] == level for column, level in group)


def uniform_edges(m: int) -> list[int]:
    return [math.floor(Fraction(j * UNIT, m) + Fraction(1, 2)) for j in range(m + 1)]


def in_bin(score: int, edges: list[int], j: int) -> bool:
    last = j == len(edges) - 2
    return edges[j] <= score and (
        score < edges[j + 1] or (last and score == edges[j + 1])
    )


def nearest(numerator: int, denominator: int) -> int:
    return math.floor(Fraction(numerator, denominator) + Fraction(1, 2))


def boost(
    persons: list[Person],
    *,
    alpha,
    gamma,
    rho,
    edges,
    m,
    eta=1.0,
    proportional=True,
    own_cutoff=None,
    depth=99,
    max_updates=10**6,
    z=0.0,
):
    """Run Algorithm 1; changes nothing in `persons`. Returns (updates, scores, groups).

    With a guard, a gap must also reach z standard errors, and shrinks by what they say
    is luck. A criterion that is not the paper's comes as `own_cutoff`, a function of
    the outcome rate, both in units."""
    depth = min(depth, len(persons[0].levels))
    groups = collect(persons, gamma, depth)
    scores = [p.score for p in persons]
    total = sum(p.weight for p in persons)
    min_share = typed(alpha) * typed(gamma) / m
    updates = []
    changed = True
    while changed and len(updates) < max_updates:
        changed = False
        for g, group in enumerate(groups):
            for j in range(len(edges) - 1):
                chosen = [
                    i
                    for i, p in enumerate(persons)
                    if belongs(p.levels, group) and in_bin(scores[i], edges, j)
                ]
                n = sum(persons[i].weight for i in chosen)
                if (
                    n == 0
                    or Fraction(n, total) < min_share
                    or len(updates) == max_updates
                ):
                    continue
                outcome = sum(persons[i].weight * persons[i].outcome for i in chosen)
                score = sum(persons[i].weight * scores[i] for i in chosen)
                gap = nearest(outcome - score, n)
                cutoff = (
                    alpha * max(nearest(outcome, n), rho * UNIT)
                    if proportional
                    else alpha * UNIT
                )
                if own_cutoff is not None:
                    cutoff = own_cutoff(nearest(outcome, n))
                cutoff = max(cutoff - 2, cutoff / 2)  # rounding to units may hide a tie
                noise = z * standard_error(n, outcome, score)
                if abs(gap) < max(cutoff, noise):
                    continue
                luck = noise / gap
                shift = math.floor(eta * (1 - luck * luck) * gap + 0.5)
                if shift == 0:
                    continue
                for i in chosen:
                    scores[i] = min(max(scores[i] + shift, 0), UNIT)
                updates.append((g, j, shift))
                changed = True
    return updates, scores, groups


def standard_error(n: int, outcome: int, score: int) -> float:
    """The larger of the binomial ones at the mean score and at the rate of two people
    more, in units.
    """
    mean = score / n / UNIT
    rate = (outcome / n / UNIT * n + 1) / (n + 2)
    return math.sqrt(max(mean * (1 - mean), rate * (1 - rate)) / n) * UNIT


def logistic(x: Fraction) -> int:
    """The logistic curve at a multiple of 1/64 in units, from 60 decimal digits."""
    with localcontext() as context:
        context.prec = 60
        odds = (Decimal(x.numerator) / Decimal(x.denominator)).exp()
        return int((UNIT * odds / (1 + odds)).to_integral_value())


def smooth_start(levels: tuple, score: int, terms) -> int:
    """One person's score after a smooth start; terms are (group, 195 shifts in 2**-20
    of log-odds).
    """
    own = [shifts for group, shifts in terms if belongs(levels, group)]
    most = 22 if any(shifts[0] or shifts[-1] for _, shifts in terms) else 10
    corners = []
    for k in range(-1, 194):
        at = Fraction(k - 96, 8)
        shift = max(
            min(sum(shifts[k + 1] for shifts in own), most * 2**20), -most * 2**20
        )
        place = max(min(at + Fraction(shift, 2**20), Fraction(22)), Fraction(-22))
        below = Fraction(math.floor(place * 64), 64)
        low, high = logistic(below), logistic(below + Fraction(1, 64))
        value = math.floor(low + (high - low) * (place - below) * 64 + Fraction(1, 2))
        raw = {-1: 0, 193: UNIT}.get(k, logistic(at))
        value = raw if k in (-1, 193) and shift == 0 else value
        corners.append((raw, max(value, corners[-1][1]) if corners else value))
    for (x0, y0), (x1, y1) in pairwise(corners):
        if x0 <= score <= x1:
            return math.floor(
                y0 + Fraction((y1 - y0) * (score - x0), x1 - x0) + Fraction(1, 2)
            )
    raise AssertionError("a score lies between 0 and 1")


def replay(levels: tuple, score: int, updates, groups, edges) -> int:
    """Apply updates to one person, one after the other."""
    for g, j, shift in updates:
        if belongs(levels, groups[g]) and in_bin(score, edges, j):
            score = min(max(score + shift, 0), UNIT)
    return score


def losses(
    persons: list[Person], *, alpha, gamma, rho, edges, m, depth=99
) -> tuple[float, float, float]:
    """MC, PMC and all-pairs DC loss."""
    groups = collect(persons, gamma, min(depth, len(persons[0].levels)))
    total = sum(p.weight for p in persons)
    min_share = typed(alpha) * typed(gamma) / m
    mc = pmc = dc = 0.0
    for j in range(len(edges) - 1):
        rates = []
        for group in groups:
            chosen = [
                p
                for p in persons
                if belongs(p.levels, group) and in_bin(p.score, edges, j)
            ]
            n = sum(p.weight for p in chosen)
            if n == 0 or Fraction(n, total) < min_share:
                continue
            rate = Fraction(sum(p.weight * p.outcome for p in chosen), n * UNIT)
            gap = abs(
                rate - Fraction(sum(p.weight * p.score for p in chosen), n * UNIT)
            )
            mc = max(mc, float(gap))
            pmc = max(pmc, float(gap / max(rate, typed(rho))))
            rates.append(math.log(max(rate, typed(rho))))
        for a in rates:
            for b in rates:
                dc = max(dc, abs(a - b))
    return mc, pmc, dc


def boost_in_floats(
    levels, scores, outcomes, groups, *, alpha, gamma, rho, n_bins, max_sweeps=10_000
):
    """PMCBoost in plain floating point with numpy masks: what a first reading of the
    paper gives.
    """
    import numpy as np

    score, outcome = np.array(scores, dtype=float), np.array(outcomes, dtype=float)
    inside = [np.array([belongs(k, group) for k in levels]) for group in groups]
    edges = np.arange(n_bins + 1) / n_bins
    for _ in range(max_sweeps):
        changed = False
        for members in inside:
            for j in range(n_bins):
                upper = score <= 1 if j == n_bins - 1 else score < edges[j + 1]
                chosen = members & (score >= edges[j]) & upper
                if not chosen.any() or chosen.mean() < alpha * gamma / n_bins:
                    continue
                rate = outcome[chosen].mean()
                gap = rate - score[chosen].mean()
                if abs(gap) >= alpha * max(rate, rho):
                    score[chosen] = np.clip(score[chosen] + gap, 0, 1)
                    changed = True
        if not changed:
            break
    return score

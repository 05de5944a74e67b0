"""Algorithm 1 as the paper's public code runs it, written from a description.

Within a sweep the bins are frozen: a person stays in the bin of the score with which
the sweep began, however far updates move it. Scores are clipped to [0, 1] at the end of
the sweep. The limit counts visits to categories, whether they are updated or not. DC
loss compares full intersections with the next one in order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from propcal.building_blocks import BoolArray, FloatArray, compiled


def single_and_full(attributes: Sequence[str]) -> list[list[str]]:
    """The combinations of attributes that define groups: each by itself, and all
    together.

    >>> single_and_full(["race", "gender", "insurance"])
    [['race'], ['gender'], ['insurance'], ['race', 'gender', 'insurance']]
    """
    combinations = [[name] for name in attributes]
    if len(attributes) > 1:
        combinations.append([*attributes])
    return combinations


@dataclass(frozen=True, eq=False)
class FrozenFit:
    """A fit with frozen bins: for each sweep, the shift of every (group, bin)."""

    shifts: Sequence[FloatArray]
    n_updates: int
    converged: bool

    @property
    def n_sweeps(self) -> int:
        """The number of sweeps over all categories; the last one of a fit that
        converged changes nothing.
        """
        return len(self.shifts)

    def apply(self, score: FloatArray, code: Any, inside: BoolArray) -> FloatArray:
        """Corrected scores of people by their patterns; each depends on that person
        alone.

        `inside` says which groups of the fit contain which patterns; these may be new
        ones.
        """
        for shift in self.shifts:
            score = _moved(score, code, inside, shift)
        return score


def fit_frozen(
    score: FloatArray,
    outcome: Any,
    code: Any,
    inside: BoolArray,
    *,
    alpha: float,
    rho: float | None,
    min_share: float,
    eta: float,
    n_bins: int,
    max_visits: int,
) -> FrozenFit:
    """Sweep until nothing is updated, or until the limit.

    Parameters
    ----------
    score, outcome, code : arrays of shape (n,)
        The score, the outcome (0 or 1) and the pattern of each person.
    inside : array of bool, shape (n_groups, n_patterns)
        Which groups contain which patterns, in the order of the sweep.
    alpha, rho : float
        The cutoff is alpha * max(outcome rate, rho) for PMCBoost, and alpha for MCBoost
        (`rho` None).
    min_share : float
        The smallest share of all people that a category may have.
    eta : float
        The share of a gap that an update closes.
    n_bins, max_visits : int
    """
    floor = -1.0 if rho is None else rho
    rule = np.array([alpha, floor, min_share * len(score), eta])
    n_updates = 0
    visits_left = max_visits
    changed = 1
    shifts = list[FloatArray]()
    while changed and visits_left > 0:
        sums = _sums(score, outcome, code, inside.shape[1], n_bins)
        shift, changed = _sweep(*sums, inside, rule, visits_left)
        visits_left -= len(inside) * n_bins
        n_updates += changed
        shifts.append(shift)
        score = _moved(score, code, inside, shift)
    after_a_whole_sweep = visits_left >= 0
    return FrozenFit(shifts, n_updates, not changed and after_a_whole_sweep)


def _moved(
    score: FloatArray, code: Any, inside: BoolArray, shift: FloatArray
) -> FloatArray:
    """Each score with the shifts of the groups that contain its pattern, clipped."""
    shift_of_pattern = inside.T.astype(np.float64) @ shift
    bin_index = _bins(score, shift.shape[1])
    moved = score + shift_of_pattern[code, bin_index]
    return np.asarray(np.clip(moved, 0.0, 1.0))


def _bins(score: FloatArray, n_bins: int) -> Any:
    """The bins of scores: half-open, the last one closed."""
    return np.minimum((score * n_bins).astype(np.int64), n_bins - 1)


def _sums(
    score: FloatArray, outcome: Any, code: Any, n_patterns: int, n_bins: int
) -> list[FloatArray]:
    """People, outcomes and scores of every (pattern, bin)."""
    place = code * n_bins + _bins(score, n_bins)
    n_places = n_patterns * n_bins
    sums = []
    for weights in (None, outcome, score):
        counted = np.bincount(place, weights, n_places)
        sums.append(counted.reshape(-1, n_bins).astype(float))
    return sums


@compiled
def _sweep(
    people: Any, positives: Any, total: Any, inside: Any, rule: Any, visits: int
) -> tuple[Any, int]:
    """One sweep: the shift of every (group, bin), and the number of updates."""
    by_group = np.zeros((len(inside), people.shape[1]))
    shift = np.zeros(people.shape)
    n_updates = 0
    for g in range(len(inside)):
        for j in range(people.shape[1]):
            if visits == 0:
                return by_group, n_updates
            visits -= 1
            n = 0.0
            events = 0.0
            scores = 0.0
            for p in range(len(people)):
                if inside[g, p]:
                    n += people[p, j]
                    events += positives[p, j]
                    scores += total[p, j] + people[p, j] * shift[p, j]
            if n == 0 or n < rule[2]:
                continue
            gap = (events - scores) / n
            cutoff = rule[0] if rule[1] < 0 else rule[0] * max(events / n, rule[1])
            if abs(gap) < cutoff:
                continue
            n_updates += 1
            by_group[g, j] = rule[3] * gap
            for p in range(len(people)):
                if inside[g, p]:
                    shift[p, j] += by_group[g, j]
    return by_group, n_updates


def neighbours_dc(table: Any, rho: float, depth: int) -> float:
    """DC loss over full intersections of `depth` attributes, each compared with the
    next one in order.
    """
    is_full = [len(group.conditions) == depth for group in table.collection.groups]
    rates = np.maximum(table.outcome_rate, rho)
    rates = np.where(table.eligible, rates, np.nan)[is_full]
    if np.isnan(rates).all():
        return float("nan")

    largest = 0.0
    for of_bin in rates.T:
        known = of_bin[~np.isnan(of_bin)]
        if len(known) > 1:
            log_ratios = np.abs(np.diff(np.log(known)))
            largest = max(largest, float(log_ratios.max()))
    return largest

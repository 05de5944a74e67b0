"""Broadest first: who is to be named, everybody or subgroups, so that one finding does not look like many.

A score that is too high for everyone is too high for every subgroup, and one that is too high for women is
too high for Black women. So the overall error (level and slope) is taken out first, then the error of
subgroups of one attribute, then of two, and so on: a subgroup is named if it is still wrong after the broader
ones that are named. But if a score is wrong for one large group alone, it is a little wrong for everybody
taken together. Where fewer subgroups explain the overall error as well, they are named in its place.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from propcal.auditing.chance import ScoreCells
from propcal.auditing.distributions import normal_quantile
from propcal.auditing.hypothesis_tests import (
    OVERALL,
    SHARES,
    SIGNIFICANCE,
    SLOPE,
    TOGETHER,
    CalibrationTest,
)
from propcal.auditing.profile import Profile
from propcal.auditing.sample import NEAREST, Sample
from propcal.core.grid import BoolArray, FloatArray
from propcal.core.groups.collection import membership
from propcal.core.logistic import expit, fit_logistic, log_odds
from propcal.core.patterns import Patterns

MOST_NAMED = 20
STEPS = 60  # of the bisection for a shift in log-odds
WIDEST = 30.0
ROUNDING = 1e-6  # of a sum over all people, in events


def distinct_groups(
    cells: ScoreCells, patterns: Patterns, profiles: Sequence[Profile], tests: Sequence[CalibrationTest]
) -> dict[str, int]:
    """Groups that are wrong in their own right, numbered from 1 in the order in which to name them.

    Only subgroups that their own test calls miscalibrated are named, and only in the direction of that test.
    Level and slope of everybody are fitted by logistic regression if their tests reject; the error of a named
    subgroup is a shift of its log-odds.
    """
    rejected = {test.test: test for test in tests if test.rejected}
    chosen = [profile for profile in profiles[1:] if profile.size.group.name in rejected]
    everybody = profiles[0]
    level, slope = everybody.size.group.name in rejected, SLOPE in rejected
    first = {everybody.size.group.name: 1} if level or slope else {}
    if not chosen:
        return first
    change = _overall_change(everybody.sample, level=level, slope=slope)
    x = log_odds(np.clip(cells.score, NEAREST, 1 - NEAREST))
    inside = membership([profile.size.group for profile in chosen], patterns)[:, cells.pattern]
    wrong = [
        _Wrong(
            members=members,
            observed=profile.sample.observed,
            error=profile.count_error,
            sign=float(np.sign(rejected[profile.size.group.name].statistic)),
            depth=len(profile.size.group.conditions),
        )
        for profile, members in zip(chosen, inside)
    ]
    limit = normal_quantile(1 - SIGNIFICANCE / (2 * len(tests)))
    named, _ = _named(wrong, change[0] + change[1] * x, cells.weight, limit)
    if first:
        alone, corrected = _named(wrong, x, cells.weight, limit)
        simpler = 0 < len(alone) < len(named) + level + slope
        only = _Named(chosen[alone[0]], inside[alone[0]]) if len(alone) == 1 else None
        if simpler and _explains_all(everybody, cells, x, corrected, only):
            first, named = {}, alone
    return first | {chosen[i].size.group.name: rank for rank, i in enumerate(named, start=1 + len(first))}


def _explains_all(
    everybody: Profile, cells: ScoreCells, score: FloatArray, corrected: FloatArray, only: _Named | None
) -> bool:
    """Whether level and slope are right once scores are corrected (both are log-odds).

    If a single group is named (`only`), those of all others are looked at, whatever the shape of its error.
    """
    sample = everybody.sample
    outside = np.ones(len(score), dtype=np.bool_) if only is None else ~only.members
    observed, tilted = sample.observed, float(sample.positives @ sample.x)
    if only is not None:
        own = only.profile.sample
        observed, tilted = observed - own.observed, tilted - float(own.positives @ own.x)
    if not outside.any():
        return True
    weight, x, rate = cells.weight[outside], score[outside], expit(corrected[outside])
    spread = weight * rate * (1 - rate)
    centre = float(spread @ x / spread.sum())
    level = observed - float(weight @ rate)
    tilt = tilted - float((weight * rate) @ x) - centre * level
    effect = 1.0 if sample.cluster is None else everybody.variance_ratio
    errors = [
        np.sqrt(effect * float((spread * cells.typical[outside]) @ distance**2))
        for distance in (np.ones(len(x)), x - centre)
    ]
    share = SIGNIFICANCE * TOGETHER * SHARES[OVERALL] / 2  # of each of two tests, as in their family
    limit = normal_quantile(1 - share / 2)
    return all(abs(left) <= limit * error + ROUNDING for left, error in zip((level, tilt), errors))


class _Named(NamedTuple):
    """A group, and its cells of scores."""

    profile: Profile
    members: BoolArray


class _Wrong(NamedTuple):
    """A subgroup that its own test calls miscalibrated."""

    members: BoolArray  # of the cells of scores
    observed: float
    error: float
    sign: float
    depth: int

    def excess(self, value: FloatArray, weight: FloatArray) -> float:
        """Events beyond those expected by these log-odds, in standard errors; 0 in the other direction."""
        left = self.observed - float(weight[self.members] @ expit(value[self.members]))
        if left * self.sign <= 0:
            return 0.0
        return abs(left) / self.error if self.error > 0 else np.inf


def _overall_change(sample: Sample, *, level: bool, slope: bool) -> tuple[float, float]:
    """Intercept and slope, in log-odds, that take out the overall error that was found."""
    cells = sample.cells
    if slope:
        design = np.stack([np.ones(len(cells.x)), cells.x], axis=1)
        fit = fit_logistic(
            design, np.zeros(len(cells.x)), cells.weight, cells.positives, np.array([0.0, 1.0])
        )
        return (0.0, 1.0) if fit is None else (float(fit.coefficients[0]), float(fit.coefficients[1]))
    if level:
        return _shift(cells.x, cells.weight, sample.observed), 1.0
    return 0.0, 1.0


def _named(
    wrong: list[_Wrong], start: FloatArray, weight: FloatArray, limit: float
) -> tuple[list[int], FloatArray]:
    """Places of the subgroups to name, and the log-odds (from `start` on) without their errors.

    At each depth the most significant is named first, until none is left.
    """
    found: list[int] = []
    value = start.copy()
    for depth in sorted({group.depth for group in wrong}):
        left = [i for i, group in enumerate(wrong) if group.depth == depth]
        while left and len(found) < MOST_NAMED:
            excess = [wrong[i].excess(value, weight) for i in left]
            best = int(np.argmax(excess))
            if excess[best] < limit:
                break
            group = wrong[left[best]]
            found.append(left.pop(best))
            value[group.members] += _shift(value[group.members], weight[group.members], group.observed)
    return found, value


def _shift(value: FloatArray, weight: FloatArray, observed: float) -> float:
    """The shift of log-odds after which as many events are expected as were observed."""
    low, high = -WIDEST, WIDEST
    for _ in range(STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if float(weight @ expit(value + middle)) < observed else (low, middle)
    return (low + high) / 2

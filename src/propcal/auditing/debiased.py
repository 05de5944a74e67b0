"""The debiased measure: the mean squared gap over categories, less what noise adds to it.

Unlike a maximum it uses every category, so that it finds small errors, and for a perfect score it is
zero on average (it may come out negative). Its root is the typical gap of a category.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from propcal.auditing.chance import Chance
from propcal.auditing.intervals import accepted, possible_truths
from propcal.core.categories import Categories
from propcal.core.criterion import Criterion, multicalibration, proportional
from propcal.core.grid import FloatArray


@dataclass(frozen=True)
class Debiased:
    """Mean squared gap ("mc") or gap as a share of the rate ("pmc") without noise, with an interval."""

    name: str
    mean_square: float
    mean_square_low: float
    mean_square_high: float

    @property
    def rms(self) -> float:
        """Typical gap: the root, or 0 where noise explains all of it."""
        return float(np.sqrt(max(self.mean_square, 0.0)))

    @property
    def low(self) -> float:
        """Lower limit of `rms`."""
        return float(np.sqrt(max(self.mean_square_low, 0.0)))

    @property
    def high(self) -> float:
        """Upper limit of `rms`."""
        return float(np.sqrt(max(self.mean_square_high, 0.0)))


def debiased(table: Categories, noise: Chance, rho: float) -> list[Debiased]:
    """Both measures over the eligible categories.

    Possible truths have a share of the gaps found. The one under which the mean square would on
    average be as large as the one found is taken for the truth, which also takes off what dividing by
    a noisy rate adds; the interval comes from test inversion.
    """
    chosen = table.eligible
    if not chosen.any() or not len(noise.rates):
        return [Debiased(name, *[float("nan")] * 3) for name in ("mc", "pmc")]
    score, gap = table.mean_score[chosen], table.gap[chosen]
    chance = noise.rates[:, chosen] - score
    criteria = {"mc": multicalibration(), "pmc": proportional(rho)}
    return [_estimate(name, score, gap, chance, criterion) for name, criterion in criteria.items()]


def _mean_square(rate: FloatArray, score: FloatArray, criterion: Criterion) -> FloatArray:
    return np.asarray(np.mean(((rate - score) / criterion.allowance(rate)) ** 2, axis=-1))


def _estimate(
    name: str, score: FloatArray, gap: FloatArray, chance: FloatArray, criterion: Criterion
) -> Debiased:
    found = float(_mean_square(score + gap, score, criterion))
    path = np.append(0.0, possible_truths(gap, chance))
    truths = np.clip(score + path[:, None] * gap, 0, 1)
    values = _mean_square(truths, score, criterion)
    drawn = np.array([_mean_square(_noisy(truth, score, chance), score, criterion) for truth in truths])
    means = np.maximum.accumulate(drawn.mean(axis=1))
    value = float(np.interp(found, means, values)) if found >= means[0] else found - float(means[0])
    low, high = accepted(path, values, drawn, found)
    return Debiased(name, value, min(low, value), max(high, value))


def _noisy(truth: FloatArray, score: FloatArray, chance: FloatArray) -> FloatArray:
    """Outcome rates around a truth. Chance was drawn at the score, and differs at another rate."""
    scale = np.sqrt(truth * (1 - truth) / np.maximum(score * (1 - score), 1e-12))
    return np.clip(truth + chance * np.minimum(scale, 10.0), 0, 1)

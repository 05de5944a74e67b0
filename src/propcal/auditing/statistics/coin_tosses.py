"""The distribution of a sum of independent, unequal coin tosses: its tails and limits.

Every person is a toss that shows the outcome with some probability, and counts by a
weight. Where such a sum varies little its tail is computed exactly; otherwise
saddlepoint approximations hold: that of Lugannani and Rice for the probability of a
tail, and that of Barndorff-Nielsen (r*) for the mean at which the tail has a given
probability. Both tilt the tosses exponentially, so that another number of outcomes
becomes the expected one. The observed number itself counts half (mid-p).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from propcal.auditing.statistics.rate_intervals import normal_density, normal_tail
from propcal.core.grid import FloatArray
from propcal.core.logistic import expit, log_odds

MOST_TAIL_STEPS = 200
MOST_LIMIT_STEPS = 30
CLOSE = 1e-7  # standard errors
MAX_EXPONENT = 700.0  # whose exponential is finite
MAX_MOVE = 5.0  # of a tilt, times the weight of the heaviest toss


@dataclass(frozen=True, eq=False)
class CoinTosses:
    """Kinds of tosses: the weight of all of a kind, the `size` of one (its weight), and
    its probability of the outcome.
    """

    weight: FloatArray
    size: FloatArray
    probability: FloatArray

    @cached_property
    def n(self) -> FloatArray:
        """Tosses of each kind."""
        return self.weight / self.size

    @cached_property
    def x(self) -> FloatArray:
        """Log-odds of the probabilities."""
        return log_odds(self.probability)

    def exact_tail(self, observed: float, mean: float, deviation: float) -> float:
        """Chance of more outcomes than observed, and half of as many, if all tosses
        have the size 1: by a Fourier transform around the mean.
        """
        first = int(np.floor(mean - 12 * deviation - 30))
        length = int(np.ceil(24 * deviation + 60))
        if not first <= observed < first + length:
            return 0.0
        angle = 2j * np.pi * np.arange(length) / length
        growth = np.log1p(self.probability[:, None] * np.expm1(angle))
        transform = np.exp(self.n @ growth - angle * first)
        mass = np.fft.fft(transform).real / length

        place = round(observed) - first
        tail = mass[place + 1 :].sum() + mass[place] / 2
        return float(np.clip(tail, 0.0, 1.0))

    def tail(self, observed: float, z: float) -> float:
        """Chance of a larger sum than the observed one, which is `z` standard
        deviations above the mean (Lugannani and Rice).
        """
        tilt = self._tilt_to(observed)
        cumulant = float(np.sum(self.n * self._log_growth(tilt)))
        root = np.sqrt(max(2 * (tilt * observed - cumulant), 0.0))
        wald = tilt * np.sqrt(self._variance(self._tilted(tilt)))
        if root < 1e-6 or not np.isfinite(wald) or wald == 0:
            return normal_tail(z)
        correction = normal_density(root) * (1 / wald - 1 / root)
        return float(normal_tail(root) + correction)

    def limit(
        self, observed: float, error: float, quantile: float, sign: float
    ) -> float:
        """The expected sum from which the observed one is `quantile` standard errors
        away: above it with `sign` 1, below it with -1 (Barndorff-Nielsen).

        The observed sum is the mean of the tosses, and `error` their standard error.
        """
        tilt = sign * quantile / error
        for _ in range(MOST_LIMIT_STEPS):
            # r* = w + log(u / w) / w, with the root w of the likelihood ratio and
            # Wald's statistic u
            cumulant = float(self.n @ self._log_growth(tilt))
            w = np.sqrt(2 * max(cumulant - tilt * observed, 1e-300))
            u = abs(tilt) * error
            expected = float(self.weight @ expit(self.x + tilt * self.size))
            missing = quantile - w - np.log(u / w) / w
            if abs(missing) < CLOSE:
                break

            step = missing * w / (expected - observed)
            if (tilt + step) * sign > 0:
                tilt = tilt + step
            else:
                tilt = tilt / 2
        return expected

    def _log_growth(self, tilt: float) -> FloatArray:
        """Cumulants of one toss of each kind: log of the mean of exp(tilt * sum)."""
        without = np.log1p(-self.probability)
        outcome = np.log(self.probability) + tilt * self.size
        return np.asarray(np.logaddexp(without, outcome))

    def _tilted(self, tilt: float) -> FloatArray:
        """Probabilities of the outcome after tilting."""
        growth = np.exp(np.minimum(tilt * self.size, MAX_EXPONENT))
        grown = self.probability * growth
        return np.asarray(grown / (1 - self.probability + grown))

    def _variance(self, probability: FloatArray) -> float:
        """Variance of the sum if the outcome has these probabilities."""
        of_kinds = self.n * self.size**2 * probability * (1 - probability)
        return float(np.sum(of_kinds))

    def _tilt_to(self, observed: float) -> float:
        """The tilt that makes the observed sum the mean: Newton's method, within limits
        that close in.
        """
        max_move = MAX_MOVE / float(self.size.max())
        low = 0.0
        high = np.inf
        tilt = 0.0
        for _ in range(MOST_TAIL_STEPS):
            tilted = self._tilted(tilt)
            missing = observed - float(np.sum(self.n * self.size * tilted))
            if missing > 0:
                low = tilt
            else:
                high = tilt
            closed_in = np.isfinite(high) and high - low <= 1e-14 * high
            if closed_in or abs(missing) <= 1e-10 * observed:
                break

            slope = self._variance(tilted)
            newton = tilt + missing / slope if slope > 0 else np.inf
            if low < newton < high and newton <= tilt + max_move:
                tilt = newton
            elif np.isfinite(high):
                tilt = (low + high) / 2
            else:
                tilt = tilt + max_move
        return tilt

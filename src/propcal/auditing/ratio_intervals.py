"""Intervals of O/E ratios, by inverting the test of the number of events.

Scores are moved on the log-odds until as many events are expected as were observed, and from there on, by
exponential tilting, until that number would be at the end of the middle 95 %. Its tails are those of a sum
of unequal coin tosses, by the saddlepoint approximation in the form of Barndorff-Nielsen (r*), which is
close to the mid-p value even for one event. The robust variance of the number of events decides how many
tosses the people are worth: it allows for survey weights, for repeat visits, and for scores whose spread is
wrong.
"""

from __future__ import annotations

import numpy as np

from propcal.auditing.rate_intervals import most_of_none
from propcal.auditing.sample import FEWEST_CLUSTERS, Sample
from propcal.core.grid import FloatArray
from propcal.core.logistic import expit, fit_logistic, log_odds

MOST_STEPS, CLOSE = 30, 1e-7
Limits = tuple[float, float]
NONE: Limits = (float("nan"), float("nan"))


def ratio_intervals(sample: Sample, *confidences: float) -> list[Limits]:
    """Limits of sum of true risks / sum of scores; NaN if nothing is expected or the noise is not known.

    Without events, or with events only, one limit is that of a count of 0 (Poisson, mid-p) in people of
    typical weight; the other is the end of what is possible.
    """
    known = not sample.soft and (sample.cluster is None or sample.n_clusters >= FEWEST_CLUSTERS)
    if not known or sample.expected <= 0:
        return [NONE] * len(confidences)
    total, expected = sample.total, sample.expected
    if not 0 < sample.observed < total:
        heavy = float(sample.weight_sq.sum()) / total
        most = [min(most_of_none(confidence) * heavy, total) for confidence in confidences]
        ends = [(0.0, none) if sample.observed <= 0 else (total - none, total) for none in most]
        return [(low / expected, high / expected) for low, high in ends]
    tosses = _Tosses.of(sample)
    if tosses is None:
        return [NONE] * len(confidences)
    quantiles = [sample.quantile_of((1 + confidence) / 2) for confidence in confidences]
    return [(tosses.limit(q, -1.0) / expected, tosses.limit(q, 1.0) / expected) for q in quantiles]


def _rates_of_an_alert(cells: Sample) -> FloatArray | None:
    """The observed rates of people scored 0 and of those scored 1; None if that leaves nothing to chance."""
    high = (cells.x > 0).astype(np.int64)
    weight, positives = (np.bincount(high, column, 2) for column in (cells.weight, cells.positives))
    rate = np.divide(positives, weight, out=np.zeros(2), where=weight > 0)
    return rate[high] if np.all(weight > 0) and np.any((rate > 0) & (rate < 1)) else None


class _Tosses:
    """Independent tosses, fewer and heavier than people, that vary as the number of events does."""

    @classmethod
    def of(cls, sample: Sample) -> _Tosses | None:
        """Scores moved to the events observed; None if the data do not say how far."""
        cells = sample.cells
        fitted = _rates_of_an_alert(cells) if np.all((sample.score <= 0) | (sample.score >= 1)) else None
        if fitted is None:
            fit = fit_logistic(np.ones((len(cells.x), 1)), cells.x, cells.weight, cells.positives)
            if fit is None:
                return None
            fitted = fit.fitted
        return cls(cells, np.clip(fitted, np.finfo(np.float64).tiny, 1 - np.finfo(np.float64).eps))

    def __init__(self, sample: Sample, risk: FloatArray) -> None:
        model = float(sample.weight_sq @ (risk * (1 - risk)))
        one, zero = 1 - risk, -risk
        robust = float(sample.positives_sq @ one**2 + sample.negatives_sq @ zero**2)
        effect = sample.repeat_effect_of(one, zero) * robust / model
        self.sample, self.risk, self.x = sample, risk, log_odds(risk)
        self.heavy = np.where(sample.weight > 0, sample.weight_sq / np.maximum(sample.weight, 1e-300), 1.0)
        self.heavy *= effect
        self.error = float(np.sqrt(model * effect))

    def limit(self, quantile: float, sign: float) -> float:
        """The expected number under which the observed one is so many standard errors away."""
        weight, observed = self.sample.weight, self.sample.observed
        tilt = sign * quantile / self.error
        for _ in range(MOST_STEPS):
            # r* = w + log(u / w) / w, with the root w of the likelihood ratio and Wald's statistic u
            grown = np.logaddexp(np.log1p(-self.risk), np.log(self.risk) + tilt * self.heavy)
            w = np.sqrt(2 * max(float((weight / self.heavy) @ grown) - tilt * observed, 1e-300))
            u = abs(tilt) * self.error
            expected = float(weight @ expit(self.x + tilt * self.heavy))
            missing = quantile - w - np.log(u / w) / w
            if abs(missing) < CLOSE:
                break
            step = missing * w / (expected - observed)
            tilt = tilt + step if (tilt + step) * sign > 0 else tilt / 2
        return expected

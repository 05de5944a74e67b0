"""Measures of one group that need no model: O/E ratio, Brier score, log loss, AUROC;
reversed rankings.

The interval of an O/E ratio inverts the test of the number of events. Scores are moved
on the log-odds until as many events are expected as were observed, and from there on,
by exponential tilting, until that number would be at the end of the middle 95 %. Its
tails are those of a sum of unequal coin tosses, by the saddlepoint approximation in the
form of Barndorff-Nielsen (r*), which is close to the mid-p value even for one event.
The robust variance of the number of events decides how many tosses the people are
worth: it allows for survey weights, for repeat visits, and for scores whose spread is
wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import isnan
from typing import Any, NamedTuple

import numpy as np

from propcal.auditing.statistics.rate_intervals import CONFIDENCE, most_of_none
from propcal.auditing.statistics.sample import FEWEST_CLUSTERS, Sample
from propcal.core.arguments import check_number
from propcal.core.atoms import Atoms
from propcal.core.grid import FloatArray, ratio, to_grid
from propcal.core.logistic import expit, fit_logistic, log_odds

FEWEST_EVENTS = 50  # with fewer, an AUROC far below one half may be chance
REVERSED = 0.4
RANGE_BITS = 26  # of 32: 64 ranges of scores
Columns = dict[str, FloatArray]
SMALLEST = np.finfo(
    np.float64
).eps  # as scikit-learn's log loss, for scores of exactly 0 or 1


class Estimate(NamedTuple):
    """A number and its interval; NaN where there is none."""

    value: float
    low: float = float("nan")
    high: float = float("nan")


UNKNOWN = Estimate(float("nan"))


def observed_expected(sample: Sample) -> Estimate:
    """People with the outcome for each one that the score expects: above 1 the score is
    too low.
    """
    if sample.expected <= 0:
        return UNKNOWN
    return Estimate(
        sample.observed / sample.expected, *ratio_intervals(sample, CONFIDENCE)[0]
    )


MOST_STEPS = 30
CLOSE = 1e-7
Limits = tuple[float, float]
NONE: Limits = (float("nan"), float("nan"))


def ratio_intervals(sample: Sample, *confidences: float) -> list[Limits]:
    """Limits of sum of true risks / sum of scores; NaN if nothing is expected or the
    noise is not known.

    Without events, or with events only, one limit is that of a count of 0 (Poisson,
    mid-p) in people of typical weight; the other is the end of what is possible.
    """
    known = not sample.soft and (
        sample.cluster is None or sample.n_clusters >= FEWEST_CLUSTERS
    )
    if not known or sample.expected <= 0:
        return [NONE] * len(confidences)
    total = sample.total
    expected = sample.expected
    if not 0 < sample.observed < total:
        heavy = float(sample.weight_sq.sum()) / total
        most = [
            min(most_of_none(confidence) * heavy, total) for confidence in confidences
        ]
        ends = [
            (0.0, none) if sample.observed <= 0 else (total - none, total)
            for none in most
        ]
        return [(low / expected, high / expected) for low, high in ends]
    tosses = _Tosses.of(sample)
    if tosses is None:
        return [NONE] * len(confidences)
    quantiles = [sample.quantile_of((1 + confidence) / 2) for confidence in confidences]
    return [
        (tosses.limit(q, -1.0) / expected, tosses.limit(q, 1.0) / expected)
        for q in quantiles
    ]


def _rates_of_an_alert(cells: Sample) -> FloatArray | None:
    """The observed rates of people scored 0 and of those scored 1; None if that leaves
    nothing to chance.
    """
    high = (cells.x > 0).astype(np.int64)
    weight, positives = (
        np.bincount(high, column, 2) for column in (cells.weight, cells.positives)
    )
    rate = ratio(positives, weight, 0.0)
    if np.all(weight > 0) and np.any((rate > 0) & (rate < 1)):
        return rate[high]
    return None


class _Tosses:
    """Independent tosses, fewer and heavier than people, that vary as the number of
    events does.
    """

    @classmethod
    def of(cls, sample: Sample) -> _Tosses | None:
        """Scores moved to the events observed; None if the data do not say how far."""
        cells = sample.cells
        if np.all((sample.score <= 0) | (sample.score >= 1)):
            fitted = _rates_of_an_alert(cells)
        else:
            fitted = None
        if fitted is None:
            fit = fit_logistic(
                np.ones((len(cells.x), 1)), cells.x, cells.weight, cells.positives
            )
            if fit is None:
                return None
            fitted = fit.fitted
        return cls(
            cells,
            np.clip(fitted, np.finfo(np.float64).tiny, 1 - np.finfo(np.float64).eps),
        )

    def __init__(self, sample: Sample, risk: FloatArray) -> None:
        model = float(sample.weight_sq @ (risk * (1 - risk)))
        one = 1 - risk
        zero = -risk
        robust = float(sample.positives_sq @ one**2 + sample.negatives_sq @ zero**2)
        effect = sample.repeat_effect_of(one, zero) * robust / model
        self.sample = sample
        self.risk = risk
        self.x = log_odds(risk)
        self.heavy = np.where(
            sample.weight > 0, sample.weight_sq / np.maximum(sample.weight, 1e-300), 1.0
        )
        self.heavy *= effect
        self.error = float(np.sqrt(model * effect))

    def limit(self, quantile: float, sign: float) -> float:
        """The expected number from which the observed one is `quantile` standard errors
        away.
        """
        weight = self.sample.weight
        observed = self.sample.observed
        tilt = sign * quantile / self.error
        for _ in range(MOST_STEPS):
            # r* = w + log(u / w) / w, with the root w of the likelihood ratio and
            # Wald's statistic u
            grown = np.logaddexp(
                np.log1p(-self.risk), np.log(self.risk) + tilt * self.heavy
            )
            w = np.sqrt(
                2 * max(float((weight / self.heavy) @ grown) - tilt * observed, 1e-300)
            )
            u = abs(tilt) * self.error
            expected = float(weight @ expit(self.x + tilt * self.heavy))
            missing = quantile - w - np.log(u / w) / w
            if abs(missing) < CLOSE:
                break
            step = missing * w / (expected - observed)
            tilt = tilt + step if (tilt + step) * sign > 0 else tilt / 2
        return expected


def squared_losses(score: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Squared difference of score and outcome, with the outcome and without it."""
    return (1 - score) ** 2, score**2


def log_losses(score: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Minus the logarithm of the probability that the score gave to what happened, for
    either outcome.
    """
    return -np.log(np.maximum(score, SMALLEST)), -np.log(
        np.maximum(1 - score, SMALLEST)
    )


# a measure, and what each atom's people with and without the outcome contribute to its
# error
Influence = tuple[float, FloatArray, FloatArray]


def _ratio_influence(sample: Sample) -> Influence:
    """O/E ratio."""
    if sample.expected <= 0:
        return UNKNOWN.value, sample.score, sample.score
    ratio = sample.observed / sample.expected
    shared = ratio * sample.score / sample.expected
    return ratio, 1 / sample.expected - shared, -shared


def _mean_influence(sample: Sample, losses: tuple[FloatArray, FloatArray]) -> Influence:
    """Mean of a loss, given for either outcome."""
    mean = sample.mean(*losses)
    if_positive, if_negative = ((loss - mean) / sample.total for loss in losses)
    return mean, if_positive, if_negative


def auroc_influence(sample: Sample) -> Influence:
    """AUROC.

    A person with the outcome contributes by the share of people without it whose score
    is lower (ties count half), and the other way round: DeLong's components, with his m
    - 1 and n - 1.
    """
    if not 0 < sample.observed < sample.total:
        return UNKNOWN.value, sample.score, sample.score
    order = np.argsort(sample.score, kind="stable")
    score, positives, negatives = (
        x[order] for x in (sample.score, sample.positives, sample.negatives)
    )
    first = np.flatnonzero(np.concatenate([[True], score[1:] != score[:-1]]))
    tie = np.repeat(np.arange(len(first)), np.diff(np.append(first, len(score))))
    one = np.add.reduceat(positives, first)
    zero = np.add.reduceat(negatives, first)
    n_one = one.sum()
    n_zero = zero.sum()
    lower = (np.cumsum(zero) - zero / 2) / n_zero
    higher = (n_one - np.cumsum(one) + one / 2) / n_one
    area = float(one @ lower / n_one)
    if_positive = np.empty(len(order))
    if_negative = np.empty(len(order))
    if_positive[order] = ((lower - area) / n_one * _unbiased(n_one, sample))[tie]
    if_negative[order] = ((higher - area) / n_zero * _unbiased(n_zero, sample))[tie]
    return area, if_positive, if_negative


def _unbiased(total: float, sample: Sample) -> float:
    """Square root of m / (m - 1), m being the number of people behind a weight."""
    people = total * sample.n_people / sample.total
    if people > 1:
        return float(np.sqrt(people / (people - 1)))
    return float("nan")


def auroc(sample: Sample) -> Estimate:
    """Chance that of two people the one with the outcome has the higher score, with
    DeLong's interval.
    """
    area, if_positive, if_negative = auroc_influence(sample)
    error = sample.error(if_positive, if_negative)
    if not 0 < area < 1 or not error > 0:
        return Estimate(area)
    # on the log-odds scale the interval stays within 0 and 1
    reach = np.exp(sample.quantile * error / (area * (1 - area)))
    odds = area / (1 - area)
    return Estimate(
        area,
        float(odds / reach / (1 + odds / reach)),
        float(odds * reach / (1 + odds * reach)),
    )


INFLUENCES: dict[str, Callable[[Sample], Influence]] = {
    "observed_expected": _ratio_influence,
    "brier": lambda sample: _mean_influence(sample, squared_losses(sample.score)),
    "log_loss": lambda sample: _mean_influence(sample, log_losses(sample.score)),
    "auroc": auroc_influence,
}


def _mean_loss(sample: Sample, name: str) -> Estimate:
    mean, *influence = INFLUENCES[name](sample)
    reach = sample.quantile * sample.error(*influence)
    return Estimate(mean, max(mean - reach, 0.0), mean + reach)


def brier(sample: Sample) -> Estimate:
    """Mean squared difference of score and outcome."""
    return _mean_loss(sample, "brier")


def log_loss(sample: Sample) -> Estimate:
    """Mean of minus the logarithm of the probability that the score gave to what
    happened.
    """
    return _mean_loss(sample, "log_loss")


# the measures of each group, beside those of a fitted curve
FORMULAS: dict[str, Callable[[Sample], Estimate]] = {
    "observed_expected": observed_expected,
    "brier": brier,
    "log_loss": log_loss,
    "auroc": auroc,
}


def reversed_area(everybody: Any) -> Estimate | None:
    """The AUROC of a score that ranks people the wrong way round; None if it does not,
    or may not.
    """
    events = float(everybody["positives"])
    rate = float(everybody["outcome_rate"])
    without = events / rate - events if rate > 0 else 0.0
    area = Estimate(*(float(everybody[f"auroc{end}"]) for end in ("", "_low", "_high")))
    return _if_reversed(area, min(events, without))


def reversed_ranking(sample: Sample) -> Estimate | None:
    """`reversed_area` of a sample."""
    return _if_reversed(
        auroc(sample), min(sample.observed, sample.total - sample.observed)
    )


def _if_reversed(area: Estimate, fewest: float) -> Estimate | None:
    """An AUROC that is below one half for sure; `fewest` are the events or the
    non-events.
    """
    sure = isnan(area.high) or area.high < 0.5
    if fewest >= FEWEST_EVENTS and area.value < REVERSED and sure:
        return area
    return None


def surely_not_reversed(atoms: Atoms) -> bool:
    """Whether 64 ranges of scores are enough to see that the ranking is not reversed,
    as it nearly always is.

    Pairs of people in the same range count as if they were ranked wrongly, and those in
    neighbouring ranges as ties, so that a finer count only gives a larger AUROC.
    """
    place = atoms.score >> RANGE_BITS
    events, total = (
        np.bincount(place, column) for column in (atoms.positives, atoms.weight)
    )
    others = total - events
    below = np.cumsum(
        np.concatenate([[0.0, 0.0], others])
    )  # those at least two ranges lower
    right = np.sum(events * (below[: len(events)] + below[1 : len(events) + 1])) / 2
    return bool(right > REVERSED * events.sum() * others.sum())


THRESHOLDS = np.round(np.arange(0.01, 1.0, 0.01), 2)
BARS = np.round(np.arange(0, 1.025, 0.05), 2)


def checked_thresholds(values: Any) -> tuple[float, ...]:
    """Thresholds that the user gave, in order: one number or several, between 0 and 1.

    >>> checked_thresholds([0.3, 0.075]), checked_thresholds(0.2)
    ((0.075, 0.3), (0.2,))
    """
    given = tuple(np.atleast_1d(np.asarray(values, dtype=object)).tolist())
    for value in given:
        check_number("thresholds", value, above=0, at_most=0.999999)
    return tuple(sorted({float(value) for value in given}))


def odds_of(threshold: FloatArray) -> FloatArray:
    """How many people treated wrongly weigh as much as one treated rightly."""
    with np.errstate(divide="ignore"):
        return np.asarray(threshold / (1 - threshold))


def net_benefit(
    right: Any, wrong: Any, total: float, threshold: FloatArray
) -> FloatArray:
    """People treated rightly less people treated wrongly, by the odds of the threshold,
    for each of all.

    >>> float(net_benefit(30, 10, 100, np.array(0.5)))
    0.2
    """
    with np.errstate(invalid="ignore"):
        return np.asarray((right - odds_of(threshold) * wrong) / total)


def threshold_columns(
    threshold: FloatArray,
    right: FloatArray,
    wrong: FloatArray,
    positives: float,
    total: float,
    reach: Any,
) -> dict[str, FloatArray]:
    """What it does to treat everybody scored at least as high as each threshold.

    `right` and `wrong` are the people treated who have the outcome, and who have not;
    `positives` those of all the `total`; `reach` is how far the interval of the net
    benefit goes.
    """
    negatives = total - positives
    benefit = net_benefit(right, wrong, total, threshold)
    with np.errstate(invalid="ignore", divide="ignore"):
        return {
            "threshold": threshold,
            "net_benefit": benefit,
            "low": benefit - reach,
            "high": benefit + reach,
            "treat_all": net_benefit(positives, negatives, total, threshold),
            "sensitivity": np.divide(right, positives),
            "specificity": 1 - np.divide(wrong, negatives),
            "treated": (right + wrong) / total,
        }


def net_benefit_variance(
    threshold: FloatArray, right: Any, wrong: Any, total: float, benefit: Any = None
) -> FloatArray:
    """Variance of `total` times the net benefit, if people are independent.

    Under survey weights, counts are those of squared weights, and `benefit` is given.
    """
    odds = odds_of(threshold)
    if benefit is None:
        benefit = net_benefit(right, wrong, total, threshold)
    square = right + odds**2 * wrong - 2 * benefit * (right - odds * wrong)
    return np.asarray(np.maximum(square + benefit**2 * total, 0.0))  # rounding


def decision_curve(
    sample: Sample, more: Sequence[float] = ()
) -> tuple[Columns, Columns]:
    """`threshold_columns` at whole percents and `more` thresholds; and how the scores
    are spread.

    The latter are columns over twentieths of the score: people, and people with the
    outcome (weighted).
    """
    thresholds = np.union1d(THRESHOLDS, more)
    # on the grid, where 0.7 reaches 0.7
    part = np.searchsorted(to_grid(thresholds), to_grid(sample.score), side="right")

    def sums(column: FloatArray, rows: Any = slice(None)) -> Any:
        """Of the people between neighbouring thresholds."""
        return np.bincount(part[rows], column[rows], len(thresholds) + 1)

    def at_least(column: FloatArray, rows: Any = slice(None)) -> Any:
        """Of the people at or above each threshold."""
        return np.cumsum(sums(column, rows)[::-1])[::-1][1:]

    right = at_least(sample.positives)
    wrong = at_least(sample.negatives)
    benefit = net_benefit(right, wrong, sample.total, thresholds)
    if sample.cluster is None:
        squares = at_least(sample.positives_sq), at_least(sample.negatives_sq)
        variance = net_benefit_variance(
            thresholds, *squares, float(sample.weight_sq.sum()), benefit
        )
    elif sample.n_clusters < FEWEST_CLUSTERS:
        variance = np.full(len(thresholds), np.nan)
    else:
        of_clusters = []
        for cluster in np.unique(sample.cluster):
            rows = sample.cluster == cluster
            excess = at_least(sample.positives, rows) - odds_of(thresholds) * at_least(
                sample.negatives, rows
            )
            of_clusters.append(excess - benefit * sample.weight[rows].sum())
        variance = np.var(of_clusters, axis=0, ddof=1) * sample.n_clusters
    reach = sample.quantile * np.sqrt(variance) / sample.total
    columns = threshold_columns(
        thresholds, right, wrong, sample.observed, sample.total, reach
    )
    begin = np.searchsorted(thresholds, BARS[:-1], side="right")
    positives, negatives = (
        np.add.reduceat(sums(x), begin) for x in (sample.positives, sample.negatives)
    )
    people = positives + negatives
    bars = {
        "score_from": BARS[:-1],
        "score_to": BARS[1:],
        "people": people,
        "positives": positives,
    }
    return columns, bars

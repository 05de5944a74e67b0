"""Measures of one group that need no model, such as O/E ratio, Brier score and AUROC.

The interval of an O/E ratio inverts the test of the number of events. Scores are moved
on the log-odds until as many events are expected as were observed, and from there on,
by exponential tilting, until that number would be at the end of the middle 95 %. Its
tails are those of a sum of unequal coin tosses, by a saddlepoint approximation that is
close to the mid-p value even for one event. The robust variance of the number of events
decides how many tosses the people are worth: it allows for survey weights, for repeat
visits, and for scores whose spread is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import isnan
from typing import Any, NamedTuple

import numpy as np

from propcal.auditing.statistics.coin_tosses import CoinTosses
from propcal.auditing.statistics.rate_intervals import CONFIDENCE, Limits, most_of_none
from propcal.auditing.statistics.sample import Sample
from propcal.core.arguments import check_number
from propcal.core.atoms import Atoms
from propcal.core.fit.evidence import FEWEST_CLUSTERS
from propcal.core.grid import FloatArray, IntArray, ratio, to_grid
from propcal.core.logistic import fit_logistic

FEWEST_EVENTS = 50  # with fewer, an AUROC far below one half may be chance
REVERSED = 0.4
RANGE_BITS = 26  # of 32: 64 ranges of scores
Columns = dict[str, FloatArray]
# as in scikit-learn's log loss, for scores of exactly 0 or 1
SMALLEST = np.finfo(np.float64).eps


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
    low, high = ratio_intervals(sample, CONFIDENCE)[0]
    return Estimate(sample.observed / sample.expected, low, high)


NO_LIMITS: Limits = (float("nan"), float("nan"))


def ratio_intervals(sample: Sample, *confidences: float) -> list[Limits]:
    """Limits of sum of true risks / sum of scores; NaN if nothing is expected or the
    noise is not known.

    Without events, or with events only, one limit is that of a count of 0 (Poisson,
    mid-p) in people of typical weight; the other is the end of what is possible.
    """
    too_few = sample.cluster is not None and sample.n_clusters < FEWEST_CLUSTERS
    if sample.soft or too_few or sample.expected <= 0:
        return [NO_LIMITS] * len(confidences)
    if not 0 < sample.observed < sample.total:
        return [
            _limits_without_events(sample, confidence) for confidence in confidences
        ]
    risk = _observed_risk(sample)
    if risk is None:
        return [NO_LIMITS] * len(confidences)

    tosses, error = _tosses_of_events(sample.cells, risk)
    intervals = []
    for confidence in confidences:
        quantile = sample.quantile_of((1 + confidence) / 2)
        observed = sample.cells.observed
        low = tosses.limit(observed, error, quantile, -1.0)
        high = tosses.limit(sample.cells.observed, error, quantile, 1.0)
        intervals.append((low / sample.expected, high / sample.expected))
    return intervals


def _limits_without_events(sample: Sample, confidence: float) -> Limits:
    """Limits of the O/E ratio without events, or with events only."""
    total = sample.total
    typical = float(sample.weight_sq.sum()) / total
    most = min(most_of_none(confidence) * typical, total)
    if sample.observed <= 0:
        return 0.0 / sample.expected, most / sample.expected
    return (total - most) / sample.expected, total / sample.expected


def _observed_risk(sample: Sample) -> FloatArray | None:
    """The scores of `sample.cells`, moved on the log-odds to the observed events; None
    if the data do not show how far.
    """
    cells = sample.cells
    fitted = None
    certain = (sample.score <= 0) | (sample.score >= 1)
    if np.all(certain):
        fitted = _rates_of_an_alert(cells)
    if fitted is None:
        constant = np.ones((len(cells.x), 1))
        fit = fit_logistic(constant, cells.x, cells.weight, cells.positives)
        if fit is None:
            return None
        fitted = fit.fitted
    limits = np.finfo(np.float64)
    return np.clip(fitted, limits.tiny, 1 - limits.eps)


def _rates_of_an_alert(cells: Sample) -> FloatArray | None:
    """The observed rates of people scored 0 and of those scored 1; None if that leaves
    nothing to chance.
    """
    high = (cells.x > 0).astype(np.int64)
    weight = np.bincount(high, cells.weight, 2)
    positives = np.bincount(high, cells.positives, 2)
    rate = ratio(positives, weight, 0.0)
    in_between = (rate > 0) & (rate < 1)
    if np.all(weight > 0) and np.any(in_between):
        return rate[high]
    return None


def _tosses_of_events(cells: Sample, risk: FloatArray) -> tuple[CoinTosses, float]:
    """Independent tosses, fewer and heavier than people, that vary as the number of
    events does; and the standard error of that number.
    """
    if_positive = 1 - risk
    if_negative = -risk
    of_positives = float(cells.positives_sq @ if_positive**2)
    of_negatives = float(cells.negatives_sq @ if_negative**2)
    robust = of_positives + of_negatives
    variance = risk * (1 - risk)
    model = float(cells.weight_sq @ variance)
    repeat_effect = cells.repeat_effect_of(if_positive, if_negative)
    effect = repeat_effect * robust / model

    weight = np.maximum(cells.weight, 1e-300)
    typical = cells.weight_sq / weight
    size = np.where(cells.weight > 0, typical, 1.0)
    tosses = CoinTosses(weight=cells.weight, size=size * effect, probability=risk)
    return tosses, float(np.sqrt(model * effect))


def squared_losses(score: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Squared difference of score and outcome, with the outcome and without it."""
    return (1 - score) ** 2, score**2


def log_losses(score: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Minus the logarithm of the probability that the score gave to what happened, for
    either outcome.
    """
    if_positive = -np.log(np.maximum(score, SMALLEST))
    if_negative = -np.log(np.maximum(1 - score, SMALLEST))
    return if_positive, if_negative


# a measure, and what a person of each atom contributes to its error: with the outcome,
# and without it
Influence = tuple[float, FloatArray, FloatArray]


def _ratio_influence(sample: Sample) -> Influence:
    """O/E ratio."""
    if sample.expected <= 0:
        return UNKNOWN.value, sample.score, sample.score
    observed_expected = sample.observed / sample.expected
    of_score = observed_expected * sample.score / sample.expected
    of_event = 1 / sample.expected - of_score
    return observed_expected, of_event, -of_score


def _mean_influence(sample: Sample, losses: tuple[FloatArray, FloatArray]) -> Influence:
    """Mean of a loss, given for either outcome."""
    mean = sample.mean(*losses)
    loss_if_positive, loss_if_negative = losses
    if_positive = (loss_if_positive - mean) / sample.total
    if_negative = (loss_if_negative - mean) / sample.total
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
    score = sample.score[order]
    is_new = score[1:] != score[:-1]
    first = np.flatnonzero(np.concatenate([[True], is_new]))
    n_equal = np.diff(np.append(first, len(score)))
    tie = np.repeat(np.arange(len(first)), n_equal)
    positives = np.add.reduceat(sample.positives[order], first)
    negatives = np.add.reduceat(sample.negatives[order], first)
    n_positives = positives.sum()
    n_negatives = negatives.sum()

    negatives_up_to = np.cumsum(negatives)
    lower = (negatives_up_to - negatives / 2) / n_negatives
    positives_up_to = np.cumsum(positives)
    higher = (n_positives - positives_up_to + positives / 2) / n_positives
    area = float(positives @ lower / n_positives)
    positive_influence = (lower - area) / n_positives
    of_positive = positive_influence * _unbiased(n_positives, sample)
    negative_influence = (higher - area) / n_negatives
    of_negative = negative_influence * _unbiased(n_negatives, sample)
    if_positive = np.empty(len(order))
    if_negative = np.empty(len(order))
    if_positive[order] = of_positive[tie]
    if_negative[order] = of_negative[tie]
    return area, if_positive, if_negative


def _unbiased(total: float, sample: Sample) -> float:
    """Square root of m / (m - 1), m being the number of people behind a weight."""
    people = total * sample.n_people / sample.total
    if people <= 1:
        return float("nan")
    return float(np.sqrt(people / (people - 1)))


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
    low = odds / reach
    high = odds * reach
    low_area = float(low / (1 + low))
    high_area = float(high / (1 + high))
    return Estimate(area, low_area, high_area)


INFLUENCES: dict[str, Callable[[Sample], Influence]] = {
    "observed_expected": _ratio_influence,
    "brier": lambda sample: _mean_influence(sample, squared_losses(sample.score)),
    "log_loss": lambda sample: _mean_influence(sample, log_losses(sample.score)),
    "auroc": auroc_influence,
}


def _mean_loss(sample: Sample, name: str) -> Estimate:
    mean, *influence = INFLUENCES[name](sample)
    reach = sample.quantile * sample.error(*influence)
    low = max(mean - reach, 0.0)
    return Estimate(mean, low, mean + reach)


def brier(sample: Sample) -> Estimate:
    """Mean squared difference of score and outcome."""
    return _mean_loss(sample, "brier")


def log_loss(sample: Sample) -> Estimate:
    """Mean of minus the logarithm of the probability that the score gave to what
    happened.
    """
    return _mean_loss(sample, "log_loss")


# the measures of each group, without those of a fitted curve
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
    non_events = events / rate - events if rate > 0 else 0.0
    value = float(everybody["auroc"])
    low = float(everybody["auroc_low"])
    high = float(everybody["auroc_high"])
    area = Estimate(value, low, high)
    return _if_reversed(area, min(events, non_events))


def reversed_ranking(sample: Sample) -> Estimate | None:
    """`reversed_area` of a sample."""
    non_events = sample.total - sample.observed
    fewest = min(sample.observed, non_events)
    return _if_reversed(auroc(sample), fewest)


def _if_reversed(area: Estimate, fewest: float) -> Estimate | None:
    """An AUROC that is surely below one half; `fewest` is the number of events or of
    non-events, whichever is smaller.
    """
    surely_below = isnan(area.high) or area.high < 0.5
    if fewest >= FEWEST_EVENTS and area.value < REVERSED and surely_below:
        return area
    return None


def surely_not_reversed(atoms: Atoms) -> bool:
    """Whether 64 ranges of scores are enough to see that the ranking is not reversed,
    as it nearly always is.

    Pairs of people in the same range count as if they were ranked wrongly, and those in
    neighbouring ranges as ties, so that a finer count only gives a larger AUROC.
    """
    place = atoms.score >> RANGE_BITS
    events = np.bincount(place, atoms.positives)
    total = np.bincount(place, atoms.weight)
    others = total - events
    # those at least two ranges lower
    padded = np.concatenate([[0.0, 0.0], others])
    below = np.cumsum(padded)
    n_ranges = len(events)
    below_both = below[:n_ranges] + below[1 : n_ranges + 1]
    ranked_right = events * below_both
    right = np.sum(ranked_right) / 2
    return bool(right > REVERSED * events.sum() * others.sum())


THRESHOLDS = np.round(np.arange(0.01, 1.0, 0.01), 2)
BAR_EDGES = np.round(np.arange(0, 1.025, 0.05), 2)


def checked_thresholds(values: Any) -> tuple[float, ...]:
    """Thresholds that the user gave, in order: one number or several, between 0 and 1.

    >>> checked_thresholds([0.3, 0.075]), checked_thresholds(0.2)
    ((0.075, 0.3), (0.2,))
    """
    as_array = np.asarray(values, dtype=object)
    given = tuple(np.atleast_1d(as_array).tolist())
    for value in given:
        check_number("thresholds", value, above=0, at_most=0.999999)
    different = {float(value) for value in given}
    return tuple(sorted(different))


def odds_of(threshold: FloatArray) -> FloatArray:
    """Odds of a threshold: how much one false positive weighs against a true one."""
    with np.errstate(divide="ignore"):
        return np.asarray(threshold / (1 - threshold))


def net_benefit(
    right: Any, wrong: Any, total: float, threshold: FloatArray
) -> FloatArray:
    """True positives (`right`) minus false positives (`wrong`) weighted by the odds of
    the threshold, per person.

    >>> float(net_benefit(30, 10, 100, np.array(0.5)))
    0.2
    """
    with np.errstate(invalid="ignore"):
        net_right = right - odds_of(threshold) * wrong
        return np.asarray(net_right / total)


def threshold_columns(
    threshold: FloatArray,
    right: FloatArray,
    wrong: FloatArray,
    positives: float,
    total: float,
    reach: Any,
) -> dict[str, FloatArray]:
    """What happens if everybody scored at or above each threshold is treated.

    `right` and `wrong` are the people treated who have the outcome, and those who do
    not; `positives` are all people with the outcome among the `total`; `reach` is half
    the width of the interval of the net benefit.
    """
    negatives = total - positives
    benefit = net_benefit(right, wrong, total, threshold)
    with np.errstate(invalid="ignore", divide="ignore"):
        treat_all = net_benefit(positives, negatives, total, threshold)
        sensitivity = np.divide(right, positives)
        specificity = 1 - np.divide(wrong, negatives)
        treated = (right + wrong) / total
        return {
            "threshold": threshold,
            "net_benefit": benefit,
            "low": benefit - reach,
            "high": benefit + reach,
            "treat_all": treat_all,
            "sensitivity": sensitivity,
            "specificity": specificity,
            "treated": treated,
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
    excess = right - odds * wrong
    weighted_counts = right + odds**2 * wrong
    around_mean = 2 * benefit * excess
    squares = weighted_counts - around_mean + benefit**2 * total
    return np.asarray(np.maximum(squares, 0.0))  # rounding may make it negative


def decision_curve(
    sample: Sample, more: Sequence[float] = ()
) -> tuple[Columns, Columns]:
    """`threshold_columns` at whole percents and `more` thresholds; and how the scores
    are spread.

    The latter are columns over twentieths of the score: people, and people with the
    outcome (weighted).
    """
    thresholds = np.union1d(THRESHOLDS, more)
    parts = _ThresholdParts.of(sample, thresholds)
    right = parts.at_or_above(sample.positives)
    wrong = parts.at_or_above(sample.negatives)
    variance = _benefit_variance(sample, thresholds, parts, right, wrong)
    reach = sample.quantile * np.sqrt(variance) / sample.total
    columns = threshold_columns(
        thresholds, right, wrong, sample.observed, sample.total, reach
    )

    first_part = np.searchsorted(thresholds, BAR_EDGES[:-1], side="right")
    positives_of_part = parts.sums(sample.positives)
    positives = np.add.reduceat(positives_of_part, first_part)
    negatives_of_part = parts.sums(sample.negatives)
    negatives = np.add.reduceat(negatives_of_part, first_part)
    bars = {
        "score_from": BAR_EDGES[:-1],
        "score_to": BAR_EDGES[1:],
        "people": positives + negatives,
        "positives": positives,
    }
    return columns, bars


class _ThresholdParts(NamedTuple):
    """Between which of the thresholds the score of each atom is."""

    part: IntArray
    n_parts: int

    @classmethod
    def of(cls, sample: Sample, thresholds: FloatArray) -> _ThresholdParts:
        # on the grid, where 0.7 reaches 0.7
        edges = to_grid(thresholds)
        score = to_grid(sample.score)
        part = np.searchsorted(edges, score, side="right")
        return cls(part, len(thresholds) + 1)

    def sums(self, column: FloatArray, rows: Any = slice(None)) -> Any:
        """Of the people between neighbouring thresholds."""
        return np.bincount(self.part[rows], column[rows], self.n_parts)

    def at_or_above(self, column: FloatArray, rows: Any = slice(None)) -> Any:
        """Sums over the people at or above each threshold."""
        from_top = np.cumsum(self.sums(column, rows)[::-1])
        return from_top[::-1][1:]


def _benefit_variance(
    sample: Sample,
    thresholds: FloatArray,
    parts: _ThresholdParts,
    right: FloatArray,
    wrong: FloatArray,
) -> FloatArray:
    """Variance of the net benefit, times the squared number of people; NaN with too few
    clusters.
    """
    benefit = net_benefit(right, wrong, sample.total, thresholds)
    if sample.cluster is None:
        right_sq = parts.at_or_above(sample.positives_sq)
        wrong_sq = parts.at_or_above(sample.negatives_sq)
        total_sq = float(sample.weight_sq.sum())
        return net_benefit_variance(thresholds, right_sq, wrong_sq, total_sq, benefit)
    if sample.n_clusters < FEWEST_CLUSTERS:
        return np.full(len(thresholds), np.nan)

    of_clusters = []
    for cluster in np.unique(sample.cluster):
        rows = sample.cluster == cluster
        cluster_right = parts.at_or_above(sample.positives, rows)
        cluster_wrong = parts.at_or_above(sample.negatives, rows)
        excess = cluster_right - odds_of(thresholds) * cluster_wrong
        weight = sample.weight[rows].sum()
        of_clusters.append(excess - benefit * weight)
    variance = np.var(of_clusters, axis=0, ddof=1)
    return np.asarray(variance * sample.n_clusters)

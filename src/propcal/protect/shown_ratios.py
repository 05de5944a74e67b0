"""O/E ratios from the counts that are shown: every protected one comes from here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from propcal.auditing.statistics.rate_intervals import NORMAL_REACH
from propcal.core.grid import FloatArray
from propcal.numbers import RATIO_DIGITS, excludes_one
from propcal.protect.disclosure_rule import VARIANCE

APART = 0.0051  # from 1, where an interval that excludes it ends
# O/E ratios and the ends of their intervals
Ratio = tuple[FloatArray, FloatArray, FloatArray]


class RatioParts(NamedTuple):
    """What O/E ratios are made of: shown counts, mean scores, and the variance that
    moved counts add to these.
    """

    people: FloatArray
    events: FloatArray
    mean: FloatArray
    mean_variance: FloatArray


def moved_ratios(
    exact: Sequence[FloatArray], counts: FloatArray, shown: RatioParts, moves: int = 1
) -> Ratio:
    """O/E ratios with 95 % intervals from shown counts, as they are printed; NaN where
    these are.

    `exact` is the ratio with its interval, `counts` are the people with the outcome and
    without it. How much wider or narrower the interval is, on either side, than that of
    independent people with equal scores is kept, to one digit; moved counts make it
    wider. It excludes 1 if the exact one does.
    """
    exact_ratio, exact_low, exact_high = exact
    people, events, mean, mean_variance = shown
    exact_events, exact_others = counts
    with np.errstate(invalid="ignore", divide="ignore"):
        moved_ratio = events / (people * mean)
        value = np.where(np.isfinite(exact_ratio), moved_ratio, np.nan)
        share_of_others = exact_others / (exact_events + exact_others)
        binomial = share_of_others / exact_events
        of_counts = events**-2.0 + people**-2.0
        of_moves = moves * VARIANCE * of_counts
        added = mean_variance / mean**2 + of_moves

        def reach(exact_end: FloatArray) -> FloatArray:
            log_distance = np.log(exact_end / exact_ratio)
            exact_error = log_distance / NORMAL_REACH
            exact_effect = np.round(exact_error**2 / binomial, 1)
            effect = np.maximum(exact_effect, 0.1)
            of_rate = effect * (1 - events / people)
            variance = of_rate / events + added
            return np.asarray(NORMAL_REACH * np.sqrt(variance))

        reach_low = reach(exact_low)
        low = value * np.exp(-reach_low)
        reach_high = reach(exact_high)
        high = value * np.exp(reach_high)
        return _agreeing((value, low, high), exact_low, exact_high)


def _agreeing(ratio: Ratio, exact_low: FloatArray, exact_high: FloatArray) -> Ratio:
    """Rounded numbers that say of 1 what the exact interval says."""
    value, low, high = ratio
    exact_ends = zip(exact_low, exact_high)
    excluded = np.array([excludes_one(*ends) for ends in exact_ends], dtype=np.bool_)
    above = excluded & (exact_low > 1)
    below = excluded & (exact_high < 1)
    too_low = above & (value <= 1)
    too_high = below & (value >= 1)
    unlike = too_low | too_high  # too near to 1 to tell

    at_most_one = np.minimum(low, 1.0)
    low = np.where(excluded, low, at_most_one)
    above_one = np.maximum(low, 1 + APART)
    low = np.where(above, above_one, low)
    at_least_one = np.maximum(high, 1.0)
    high = np.where(excluded, high, at_least_one)
    below_one = np.minimum(high, 1 - APART)
    high = np.where(below, below_one, high)
    value = np.where(above, np.maximum(value, 1 + APART), value)
    value = np.where(below, np.minimum(value, 1 - APART), value)

    low = np.where(unlike, np.nan, low)
    high = np.where(unlike, np.nan, high)
    return value.round(RATIO_DIGITS), low.round(RATIO_DIGITS), high.round(RATIO_DIGITS)

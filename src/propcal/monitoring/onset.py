"""When a change began, and how large it is since: estimates with intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from propcal.auditing.distributions import most_of_none, normal_quantile
from propcal.auditing.intervals import CONFIDENCE
from propcal.core.grid import FloatArray
from propcal.monitoring.e_processes import onset_stakes
from propcal.monitoring.group_months import GroupMonths


@dataclass(frozen=True)
class Onset:
    """The period (by number) in which a change most likely began, and the first and last plausible one."""

    place: int
    low: int
    high: int


def onset_of(gain: FloatArray) -> Onset:
    """The beginning of a change, from log-likelihood ratios of (periods, shifts) up to now.

    Beginnings are weighed like the stakes on them; the interval holds 95 % of that weight.

    >>> onset_of(np.array([[-2.0], [-3.0], [4.0], [5.0]]))
    Onset(place=2, low=1, high=2)
    """
    after = np.cumsum(gain[::-1], axis=0)[::-1]
    weight = np.log(onset_stakes(len(gain))) + np.logaddexp.reduce(after, axis=1)
    share = np.exp(weight - np.logaddexp.reduce(weight))
    order = np.argsort(-share, kind="stable")
    enough = int(np.searchsorted(np.cumsum(share[order]), CONFIDENCE - 1e-12)) + 1
    chosen = order[:enough]
    return Onset(int(order[0]), int(chosen.min()), int(chosen.max()))


def ratios(
    observed: FloatArray, expected: FloatArray, score_positives: FloatArray, score_square: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """O/E ratios with 95 % intervals, as `propcal.auditing.measures.observed_expected` has them."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(expected > 0, observed / expected, np.nan)
        squares = observed - 2 * ratio * score_positives + ratio**2 * score_square
        error = np.sqrt(np.maximum(squares, 0.0)) / expected
        reach = np.exp(normal_quantile((1 + CONFIDENCE) / 2) * error / ratio)
        none = most_of_none((1 + CONFIDENCE) / 2) / expected
    zero = ratio == 0
    return ratio, np.where(zero, 0.0, ratio / reach), np.where(zero, none, ratio * reach)


def ratio_since(sums: GroupMonths, group: int, onset: Onset) -> tuple[float, float, float]:
    """O/E ratio of a group since the onset; its interval allows for every plausible onset."""
    found = []
    for first in range(onset.low, onset.high + 1):
        parts = [
            np.atleast_1d(part[first:, group].sum())
            for part in (sums.positives, sums.score, sums.score_positives, sums.score_square)
        ]
        found.append(np.array(ratios(*parts))[:, 0])
    table = np.array(found)
    value = table[onset.place - onset.low, 0]
    return float(value), float(table[:, 1].min()), float(table[:, 2].max())


def cell_ratio_since(
    sums: GroupMonths, group: int, bin_index: int, onset: Onset
) -> tuple[float, float, float]:
    """The same within one bin, where all scores are nearly the same."""
    inside = sums.bin_of == bin_index
    found = []
    for first in range(onset.low, onset.high + 1):
        people, observed, expected = (
            part[first:, group][:, inside] for part in (sums.people, sums.positives, sums.score)
        )
        mean = np.divide(expected, people, out=np.zeros(people.shape), where=people > 0)
        totals = (observed.sum(), expected.sum(), (observed * mean).sum(), (people * mean**2).sum())
        found.append(np.array(ratios(*(np.atleast_1d(total) for total in totals)))[:, 0])
    table = np.array(found)
    value = table[onset.place - onset.low, 0]
    return float(value), float(table[:, 1].min()), float(table[:, 2].max())


def reference_ratio(sums: GroupMonths, group: int, inside: Any, reference: Sequence[str]) -> float:
    """O/E ratio of some ranges (`inside`) of a group in the reference periods; missing without people."""
    then = [period in reference for period in sums.periods]
    observed, expected = (float(part[then, group][:, inside].sum()) for part in (sums.positives, sums.score))
    return observed / expected if expected > 0 else float("nan")

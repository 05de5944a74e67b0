"""Findings as numbers and words: who, how many, observed, predicted, interval after selection."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from propcal.core.logistic import fit_logistic
from propcal.discovery.binned_features import Feature
from propcal.discovery.box_kernels import LEVEL
from propcal.discovery.descriptions import clause, label
from propcal.discovery.people import People
from propcal.discovery.rounds import Found
from propcal.discovery.selection_interval import after_selection
from propcal.identity import Identity
from propcal.numbers import IN_TEXT, p_equals

PREDICTS_HIGH, PREDICTS_LOW = "too high", "too low"
TOO_EXTREME, NOT_EXTREME = "too extreme", "not extreme enough"
RATIO, CALIBRATION_SLOPE = "O/E ratio", "calibration slope"


@dataclass(frozen=True)
class FoundGroup:
    """A group for whom the score is wrong.

    Attributes
    ----------
    name : str
        The group in words; the name of the condition in `Discovery.groups`.
    condition : str
        The same as a condition on columns.
    error : "too high", "too low", "too extreme" or "not extreme enough"
        How the score predicts for this group.
    people, events : float
    share : float
        Share of all people.
    observed, predicted : float
        Rates. `predicted` is the mean score.
    measure : "O/E ratio" or "calibration slope"
        What `value`, `low` and `high` are of: the slope for scores that are (not) extreme.
    value, low, high : float
        95 % CI, allowing for the fact that the group was found by a search.
    p_value : float
        Adjusted for the whole search.
    again : float
        Share of resamples in which mostly the same people were found.
    also : tuple of str
        Other descriptions of mostly the same people.
    """

    name: str
    condition: str
    error: str
    people: float
    share: float
    events: float
    observed: float
    predicted: float
    measure: str
    value: float
    low: float
    high: float
    p_value: float
    again: float
    also: tuple[str, ...] = ()

    def sentence(self, identity: Identity) -> str:
        """The finding in a sentence."""
        rates = f"observed {IN_TEXT.percent(self.observed)}, predicted {IN_TEXT.percent(self.predicted)}"
        measure = f"{self.measure} {IN_TEXT.decimal(self.value)}"
        interval = f"95 % CI after selection {IN_TEXT.interval(self.low, self.high)}"
        sure = f"adjusted {p_equals(self.p_value)}, found again in {100 * self.again:.0f} % of resamples"
        return (
            f"{self.name} ({identity.count(round(self.people))}): the score is {self.error}. "
            f"{rates[0].upper()}{rates[1:]} ({measure}, {interval}; {sure})."
        )


def group_found(
    found: Found, features: Sequence[Feature], people: People, identity: Identity, taken: Sequence[str]
) -> FoundGroup:
    """Put a finding into numbers and words; its name differs from those that are taken."""
    rows, weight = found.rows, people.weight[found.rows]
    total = float(weight.sum())
    events, expected = float(weight @ people.outcome[rows]), float(weight @ people.raw[rows])
    condition = str(clause(features, found.box))
    name = label(features, found.box, identity.labels)
    if found.kind == LEVEL:
        value, low, high = _ratio(found, people, events, expected)
        error, measure = PREDICTS_LOW if found.statistic > 0 else PREDICTS_HIGH, RATIO
    else:
        value, low, high = _slope(found, people)
        error, measure = NOT_EXTREME if found.statistic > 0 else TOO_EXTREME, CALIBRATION_SLOPE
    return FoundGroup(
        name if name not in taken else condition,
        condition,
        error,
        total,
        total / float(people.weight.sum()),
        events,
        events / total,
        expected / total,
        measure,
        value,
        low,
        high,
        found.p_value,
        found.again,
        tuple(label(features, box, identity.labels) for box in found.also),
    )


def _ratio(found: Found, people: People, events: float, expected: float) -> tuple[float, float, float]:
    """O/E ratio with its interval; the selection concerned the events beyond what was expected then."""
    beyond = events - found.predicted
    error = people.spread(found.rows)
    model = abs(beyond / found.statistic) if found.statistic else error
    scale = max(error / max(model, 1e-12), 1e-6)  # repeat visits make the statistic vary more
    low, high = after_selection(beyond / error, abs(found.limit) / scale)
    added = np.sign(beyond) * found.added / scale
    low, high = low - max(added, 0.0), high - min(added, 0.0)
    ends = [max((found.predicted + end * error) / expected, 0.0) for end in (low, high)]
    return events / expected, ends[0], ends[1]


def _slope(found: Found, people: People) -> tuple[float, float, float]:
    """The calibration slope with its interval."""
    rows = found.rows
    x = people.log_odds[rows]
    weight = people.weight[rows]
    design = np.stack([np.ones(len(rows)), x], axis=1)
    fit = fit_logistic(design, np.zeros(len(rows)), weight, weight * people.outcome[rows])
    if fit is None:
        return float("nan"), float("nan"), float("nan")
    slope = float(fit.coefficients[1])
    error = float(np.sqrt(np.linalg.inv(fit.information)[1, 1] * people.inflation()))
    low, high = after_selection((slope - 1) / error, found.limit)
    return slope, 1 + low * error, 1 + high * error

"""Findings as numbers and words: who, how many, observed, predicted, interval after selection."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from propcal.core.logistic import fit_logistic
from propcal.discovery.binned_features import Feature
from propcal.discovery.box_kernels import LEVEL
from propcal.discovery.descriptions import clause, label
from propcal.discovery.outcome_counts import Counted, IntervalBasis, OutcomeCounts, binomial_variance
from propcal.discovery.people import People
from propcal.discovery.rounds import Found
from propcal.discovery.selection_interval import after_selection
from propcal.identity import Identity
from propcal.numbers import IN_SENTENCE, Limit, known, p_equals

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
    people, events : int, or float where weights make a fraction of them
    share : float
        Share of all people.
    observed, predicted : float
        Rates. `predicted` is the mean score.
    predicted_then : float
        The predicted rate after correction for earlier findings, and for the score as a whole, when this
        group was found: the error that was tested is the observed rate less this one.
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
    predicted_then: float
    measure: str
    value: float
    low: float
    high: float
    p_value: float
    again: float
    also: tuple[str, ...] = ()

    @property
    def digits(self) -> int:
        """Digits after the point of `value`, `low` and `high` in print: slopes on pages have one."""
        coarse = all(round(number, 1) == number for number in (self.value, self.low, self.high))
        return 1 if self.measure == CALIBRATION_SLOPE and coarse else 2

    def sentence(self, identity: Identity) -> str:
        """The finding in a sentence."""
        told = [f"adjusted {p_equals(self.p_value)}, found again in {100 * self.again:.0f} % of resamples"]
        if known(self.low):
            told.insert(
                0, f"95 % CI after selection {IN_SENTENCE.interval(self.low, self.high, self.digits)}"
            )
        measure = (
            f"{self.measure} {IN_SENTENCE.decimal(self.value, self.digits)}, " if known(self.value) else ""
        )
        rates = (
            f" Observed {IN_SENTENCE.percent(self.observed)}, predicted {IN_SENTENCE.percent(self.predicted)}"
            if known(self.observed)
            else " Rates are suppressed"
        )
        return (
            f"{self.name} ({identity.count(whole(self.people))}): the score is {self.error}."
            f"{rates} ({measure}{'; '.join(told)}).{self._corrected()}{self._uncertain()}"
        )

    def _corrected(self) -> str:
        """What was tested, where the rates of the group do not show an error by themselves."""
        if self.measure != RATIO or not (known(self.low) and known(self.predicted_then)):
            return ""
        then = IN_SENTENCE.percent(self.predicted_then)
        if not self.low <= 1 <= self.high or then == IN_SENTENCE.percent(self.predicted):
            return ""
        return f" The error is beyond what is named above: corrected for that, predicted would be {then}."

    def _uncertain(self) -> str:
        """A word where the interval includes no error at all, though the test found one."""
        if self.measure != RATIO or not (known(self.low) and known(self.predicted_then)):
            return ""
        none = self.predicted_then / self.predicted
        if not self.low <= none <= self.high:
            return ""
        return (
            " How large the error is remains uncertain, because the search picked this group for its error."
        )


def whole(people: float) -> float:
    """A number of people to print; weights may make it a fraction, and protection a limit."""
    return people if isinstance(people, Limit) or not known(people) else round(people)


def counted(people: float) -> float:
    """A number of people as an integer, unless weights make it a fraction.

    >>> counted(2342.0), counted(2341.5)
    (2342, 2341.5)
    """
    return int(people) if float(people).is_integer() else people


def group_found(
    found: Found, features: Sequence[Feature], people: People, identity: Identity, taken: Sequence[str]
) -> tuple[FoundGroup, Counted]:
    """Put a finding into numbers and words, and count its people; its name differs from those taken."""
    rows, weight = found.rows, people.weight[found.rows]
    total = float(weight.sum())
    events, expected = float(weight @ people.outcome[rows]), float(weight @ people.raw[rows])
    condition = str(clause(features, found.box))
    name = label(features, found.box, identity.labels)
    counts = OutcomeCounts.of(people, rows)
    basis = _basis(found, people, counts)
    if found.kind == LEVEL:
        value = events / expected
        low, high = basis.ends(counts.people[0], counts.people[1], counts.score * counts.people.sum())
        error, measure = PREDICTS_LOW if found.statistic > 0 else PREDICTS_HIGH, RATIO
    else:
        value, low, high = _slope(found, people)
        error, measure = NOT_EXTREME if found.statistic > 0 else TOO_EXTREME, CALIBRATION_SLOPE
    group = FoundGroup(
        name if name not in taken else condition,
        condition,
        error,
        counted(total),
        total / float(people.weight.sum()),
        counted(events),
        events / total,
        expected / total,
        found.predicted / total,
        measure,
        float(value),
        float(low),
        float(high),
        float(found.p_value),
        float(found.again),
        tuple(label(features, box, identity.labels) for box in found.also),
    )
    return group, (counts, basis)


def _basis(found: Found, people: People, counts: OutcomeCounts) -> IntervalBasis:
    """What the interval rests on; the selection concerned the events beyond what was expected then."""
    rows, weight = found.rows, people.weight[found.rows]
    error = people.spread(rows)
    beyond = float(weight @ people.outcome[rows]) - found.predicted
    model = abs(beyond / found.statistic) if found.statistic else error
    scale = max(error / max(model, 1e-12), 1e-6)  # repeat visits make the statistic vary more
    total = float(weight.sum())
    unit = float(counts.people.sum()) / total
    return IntervalBasis(
        then=found.predicted / max(counts.score * total, 1e-300),
        effect=(unit * error) ** 2 / binomial_variance(*counts.people),
        limit=abs(found.limit) / scale,
        added=found.added / scale,
    )


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

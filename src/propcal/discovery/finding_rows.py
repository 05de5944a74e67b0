"""Findings as numbers and words: who, how many, observed, predicted, interval after selection."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

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
COULD_BE_CHANCE = "could be chance"
AFTER = " after correction"
CLEAR = 3.0  # standard errors from which on an error of the raw score is called one
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
    error : str
        "too high", "too low", "too extreme" or "not extreme enough". Followed by "after correction" if this
        is so after correction for the errors named before, but not clearly so for the raw score.
    raw_error : str
        The same of the raw score; "could be chance" if its error is less than three standard errors.
    corrected_for : str
        What the score was corrected for when the group was found; empty if its scores were not changed.
        `predicted_after`, `value`, `low`, `high` and `p_value` are of the score after this correction.
    people, events : int, or float where weights make a fraction of them
    share : float
        Share of all people.
    observed, predicted : float
        Rates. `predicted` is the mean raw score.
    predicted_after : float
        The predicted rate after the correction that `corrected_for` names.
    measure : "O/E ratio" or "calibration slope"
        What `value`, `low` and `high` are of: the slope for scores that are (not) extreme.
    value, low, high : float
        With a 95 % CI that allows for the fact that the group was found by a search.
    raw_value : float
        The O/E ratio or slope of the raw score.
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
    raw_error: str
    corrected_for: str
    people: float
    share: float
    events: float
    observed: float
    predicted: float
    predicted_after: float
    measure: str
    value: float
    low: float
    high: float
    raw_value: float
    p_value: float
    again: float
    also: tuple[str, ...] = ()

    @property
    def digits(self) -> int:
        """Digits after the point of `value`, `low` and `high` in print: slopes on pages have one."""
        coarse = all(round(number, 1) == number for number in (self.value, self.low, self.high))
        return 1 if self.measure == CALIBRATION_SLOPE and coarse else 2

    @property
    def words(self) -> str:
        """The error in a cell of a table, with that of the raw score if it differs."""
        return f"{self.error} (raw score: {self.raw_error})" if AFTER in self.error else self.error

    @property
    def two_scores(self) -> bool:
        """Whether the numbers after correction differ in print from those of the raw score."""
        if not (self.corrected_for and known(self.predicted_after)):
            return False
        rates = {IN_SENTENCE.percent(rate) for rate in (self.predicted, self.predicted_after)}
        values = {IN_SENTENCE.decimal(value, self.digits) for value in (self.raw_value, self.value)}
        return AFTER in self.error or len(rates) + len(values) > 2

    def sentence(self, identity: Identity) -> str:
        """The finding in a sentence."""
        return (
            f"{self.name} ({identity.count(whole(self.people))}): {self._direction()}. {self._rates()}."
            f"{self._uncertain()}"
        )

    def _direction(self) -> str:
        if AFTER not in self.error:
            return f"the score is {self.error}"
        chance = self.raw_error == COULD_BE_CHANCE
        raw = "the error of the raw score could be chance" if chance else f"the raw score is {self.raw_error}"
        return f"after {self.corrected_for}, the score would be {self.error.removesuffix(AFTER)}; {raw}"

    def _rates(self) -> str:
        told = [f"adjusted {p_equals(self.p_value)}, found again in {100 * self.again:.0f} % of resamples"]
        if known(self.low):
            told.insert(
                0, f"95 % CI after selection {IN_SENTENCE.interval(self.low, self.high, self.digits)}"
            )
        evidence = "; ".join(told)
        measure = f"{self._measured(self.value)}, " if known(self.value) else ""
        if not known(self.observed):
            return f"Rates are suppressed ({measure}{evidence})"
        rates = (
            f"Observed {IN_SENTENCE.percent(self.observed)}, predicted {IN_SENTENCE.percent(self.predicted)}"
        )
        if not self.two_scores:
            return f"{rates} ({measure}{evidence})"
        raw = f" ({self._measured(self.raw_value)})" if known(self.raw_value) else ""
        after = f"after {self.corrected_for}, predicted {IN_SENTENCE.percent(self.predicted_after)}"
        return f"{rates}{raw}; {after} ({measure}{evidence})"

    def _measured(self, value: float) -> str:
        return f"{self.measure} {IN_SENTENCE.decimal(value, self.digits)}"

    def _uncertain(self) -> str:
        """A word where the interval includes no error at all, though the test found one."""
        if self.measure != RATIO or not known(self.low) or not self.low <= 1 <= self.high:
            return ""
        return (
            " How large the error is remains uncertain, because the search picked this group for its error."
        )


def directions(positive: bool, kind: str, raw: float, corrected_for: str) -> tuple[str, str]:
    """The words for an error, and for that of the raw score, which is given in standard errors.

    >>> directions(True, RATIO, 9.0, "")
    ('too low', 'too low')
    >>> directions(True, RATIO, -3.7, "recalibration of the whole score")
    ('too low after correction', 'too high')
    >>> directions(True, RATIO, 1.2, "recalibration of the whole score")
    ('too low after correction', 'could be chance')
    """
    high, low = (PREDICTS_HIGH, PREDICTS_LOW) if kind == RATIO else (TOO_EXTREME, NOT_EXTREME)
    error = low if positive else high
    if not corrected_for:
        return error, error
    raw_error = (low if raw > 0 else high) if abs(raw) >= CLEAR else COULD_BE_CHANCE
    return (error if raw_error == error else error + AFTER), raw_error


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
        measure, value, raw_value = RATIO, events / found.predicted, events / expected
        scale = counts.people.sum() / total
        low, high = basis.ends(counts.people[0], counts.people[1], scale * found.predicted)
        raw = (events - expected) / people.spread(rows)
    else:
        (value, error), (raw_value, raw_spread) = found.slopes or ((np.nan, np.nan), (np.nan, np.nan))
        measure, (low, high) = CALIBRATION_SLOPE, after_selection((value - 1) / error, found.limit)
        low, high = 1 + low * error, 1 + high * error
        raw = (raw_value - 1) / raw_spread
    wrong, raw_error = directions(found.statistic > 0, measure, raw, found.corrected_for)
    group = FoundGroup(
        name if name not in taken else condition,
        condition,
        wrong,
        raw_error,
        found.corrected_for,
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
        float(raw_value),
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

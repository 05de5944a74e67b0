"""Findings in numbers: who, how many, observed, predicted, interval after selection.

A statistic that was looked at because it is large overstates the error, so that its
interval allows for the selection. The counts behind a finding are of people with and
without the outcome; protected pages start from them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy import special

from propcal.auditing.claims import NAN, Claim
from propcal.auditing.headcount import Headcount, ScoreValues
from propcal.auditing.statistics.rate_intervals import bisected
from propcal.core.grid import IntArray
from propcal.discovery.binned_features import Box, Feature, label, name_and_condition
from propcal.discovery.people import TINY, People
from propcal.numbers import IN_SENTENCE, About, Limit, known
from propcal.options import Identity

PREDICTS_HIGH = "too high"
PREDICTS_LOW = "too low"
TOO_EXTREME = "too extreme"
NOT_EXTREME = "not extreme enough"
COULD_BE_CHANCE = "could be chance"
AFTER = " after correction"
CLEAR_SD = 3.0  # of an error of the raw score, from which on it is called one
RATIO = "O/E ratio"
CALIBRATION_SLOPE = "calibration slope"
# people, and their scores if many have the same one
Counted = tuple[Headcount, ScoreValues | None]
# by how much a statistic is beyond its limit; its description may have lost a little
LEAST_BEYOND = 0.2
FURTHEST_SD = 40.0  # on either side, in which the mean of a statistic is sought
HALVINGS = 80


@dataclass(eq=False)
class Found:
    """One finding: the rows of a box, which statistic, and how sure.

    Attributes
    ----------
    box : tuple of Condition
    kind : LEVEL or SLOPE
    rows : array
    statistic : float
        Standardised; positive if there are more events than predicted, or the slope is
        too flat.
    limit : float
        The smallest statistic that would have been significant.
    p_value : float
        Adjusted for the whole search.
    predicted : float
        Expected events by the score after correction for earlier findings.
    corrected_for : str
        What the score of these people was corrected for when they were found; the
        statistic is of that score.
    slopes : tuple of two pairs, or None
        Of a finding of kind SLOPE: calibration slope and standard error of that score,
        and of the raw score.
    again : float
        Share of resampled data sets in which mostly the same people were found.
    added : float
        What the choice of the strongest box adds to its statistic, on average.
    """

    box: Box
    kind: int
    rows: IntArray
    statistic: float = 0.0
    limit: float = 0.0
    p_value: float = 1.0
    predicted: float = 0.0
    corrected_for: str = ""
    slopes: tuple[tuple[float, float], tuple[float, float]] | None = None
    again: float = 0.0
    added: float = 0.0
    also: list[Box] = field(default_factory=list)


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
        "too high", "too low", "too extreme" or "not extreme enough". Followed by "after
        correction" if this is so after correction for the errors named before, but not
        clearly so for the raw score.
    raw_error : str
        The same of the raw score; "could be chance" if its error is less than three
        standard errors.
    corrected_for : str
        What the score was corrected for when the group was found; empty if its scores
        were not changed. `predicted_after`, `value`, `low`, `high` and `p_value` are of
        the score after this correction.
    people, events : int, or float where weights make a fraction of them
    share : float
        Share of all people.
    observed, predicted : float
        Rates. `predicted` is the mean raw score.
    predicted_after : float
        The predicted rate after the correction that `corrected_for` names.
    measure : "O/E ratio" or "calibration slope"
        What `value`, `low` and `high` are of: the slope for scores that are (not)
        extreme.
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
        """Digits after the point of `value`, `low` and `high` in print: slopes on pages
        have one.
        """
        numbers = (self.value, self.low, self.high)
        is_coarse = all(round(number, 1) == number for number in numbers)
        return 1 if self.measure == CALIBRATION_SLOPE and is_coarse else 2

    @property
    def words(self) -> str:
        """The error in a cell of a table, with that of the raw score if it differs."""
        if AFTER in self.error:
            return f"{self.error} (raw score: {self.raw_error})"
        return self.error

    @property
    def two_scores(self) -> bool:
        """Whether the numbers after correction differ in print from those of the raw
        score.
        """
        if not (self.corrected_for and known(self.predicted_after)):
            return False
        if AFTER in self.error:
            return True
        raw_rate = IN_SENTENCE.percent(self.predicted)
        raw_value = IN_SENTENCE.decimal(self.raw_value, self.digits)
        rate = IN_SENTENCE.percent(self.predicted_after)
        value = IN_SENTENCE.decimal(self.value, self.digits)
        return (raw_rate, raw_value) != (rate, value)

    def claim(self) -> Claim:
        """The finding as a claim; the O/E ratio of a wrong slope has no interval."""
        claim = Claim(
            kind="group",
            who=self.name,
            label=self.name,
            direction=self.error.removesuffix(AFTER),
            estimate=self.value,
            low=self.low,
            high=self.high,
            test=f"search of all groups, {self.measure}",
            p_value=self.p_value,
            people=self.people,
            events=self.events,
            predicted=self.predicted_after,
        )
        if self.measure == RATIO:
            return claim
        ratio = self.observed / self.predicted_after
        return replace(claim, direction="", estimate=ratio, low=NAN, high=NAN)


def directions(
    positive: bool, kind: str, raw: float, corrected_for: str
) -> tuple[str, str]:
    """The words for an error, and for that of the raw score, which is given in standard
    errors.

    >>> directions(True, RATIO, 9.0, "")
    ('too low', 'too low')
    >>> directions(True, RATIO, -3.7, "recalibration of the whole score")
    ('too low after correction', 'too high')
    >>> directions(True, RATIO, 1.2, "recalibration of the whole score")
    ('too low after correction', 'could be chance')
    """
    if kind == RATIO:
        of_positive, of_negative = PREDICTS_LOW, PREDICTS_HIGH
    else:
        of_positive, of_negative = NOT_EXTREME, TOO_EXTREME
    error = of_positive if positive else of_negative
    if not corrected_for:
        return error, error
    raw_error = of_positive if raw > 0 else of_negative
    if abs(raw) < CLEAR_SD:
        raw_error = COULD_BE_CHANCE
    if raw_error != error:
        error += AFTER
    return error, raw_error


def whole(people: float) -> float:
    """A number of people to print; weights may make it a fraction, and protection a
    limit.
    """
    if isinstance(people, (About, Limit)) or not known(people):
        return people
    return round(people)


def counted(people: float) -> float:
    """A number of people as an integer, unless weights make it a fraction.

    >>> counted(2342.0), counted(2341.5)
    (2342, 2341.5)
    """
    return int(people) if float(people).is_integer() else people


def group_found(
    found: Found,
    features: Sequence[Feature],
    people: People,
    identity: Identity,
    taken: Sequence[str],
) -> FoundGroup:
    """Measure a finding; its name differs from those taken."""
    rows = found.rows
    weight = people.weight[rows]
    total = float(weight.sum())
    events = float(weight @ people.outcome[rows])
    expected = float(weight @ people.raw[rows])
    name, condition = name_and_condition(features, found.box, identity.labels, taken)
    if found.slopes is None:
        measure = RATIO
        value = events / found.predicted
        raw_value = events / expected
        low, high = _interval(found, people, events)
        raw_z = (events - expected) / people.spread(rows)
    else:
        measure = CALIBRATION_SLOPE
        (value, error), (raw_value, raw_error) = found.slopes
        low_z, high_z = after_selection((value - 1) / error, found.limit)
        low = 1 + low_z * error
        high = 1 + high_z * error
        raw_z = (raw_value - 1) / raw_error
    error_now, error_raw = directions(
        found.statistic > 0, measure, raw_z, found.corrected_for
    )
    return FoundGroup(
        name=name,
        condition=condition,
        error=error_now,
        raw_error=error_raw,
        corrected_for=found.corrected_for,
        people=counted(total),
        share=total / float(people.weight.sum()),
        events=counted(events),
        observed=events / total,
        predicted=expected / total,
        predicted_after=found.predicted / total,
        measure=measure,
        value=float(value),
        low=float(low),
        high=float(high),
        raw_value=float(raw_value),
        p_value=found.p_value,
        again=found.again,
        also=tuple(label(features, box, identity.labels) for box in found.also),
    )


def _interval(found: Found, people: People, events: float) -> tuple[float, float]:
    """The interval of an O/E ratio after selection, which concerned the events beyond
    what was expected.
    """
    error = people.spread(found.rows)
    beyond = events - found.predicted
    model_error = abs(beyond / found.statistic) if found.statistic else error
    # repeat visits make the statistic vary more
    scale = max(error / max(model_error, 1e-12), 1e-6)
    low, high = after_selection(beyond / error, abs(found.limit) / scale)
    # by the choice of the strongest group
    added = np.sign(beyond) * found.added / scale
    low -= max(added, 0.0)
    high -= min(added, 0.0)
    ratio_low = 1 + low * error / found.predicted
    ratio_high = 1 + high * error / found.predicted
    return max(ratio_low, 0.0), max(ratio_high, 0.0)


def people_headcount(people: People, rows: IntArray) -> Counted:
    """Count some rows, and the scores among them if many people have the same one.

    Under survey weights, counts are rows times the weighted share with the outcome.
    """
    weight = people.weight[rows]
    outcome = people.outcome[rows] == 1
    keys = people.keys[rows]
    with_and_without = [outcome, ~outcome]
    total = np.array([weight[side].sum() for side in with_and_without])
    mean = float(weight @ people.raw[rows] / max(total.sum(), TINY))
    different = total.copy()
    if people.survey:
        squares = np.array([np.sum(weight[side] ** 2) for side in with_and_without])
        different = total**2 / np.maximum(squares, TINY)
        total = total * (len(rows) / max(total.sum(), TINY))
    else:
        keys = keys * weight.astype(np.uint64)
    if people.cluster is not None:
        persons = people.cluster[rows]
        n_persons = [len(np.unique(persons[side])) for side in with_and_without]
        different = np.minimum(different, n_persons)
    record_hash = np.array([np.sum(keys, dtype=np.uint64)])
    headcount = Headcount(
        total[:, None], different[:, None], np.array([mean]), record_hash
    )
    return headcount, _values(people, rows, keys)


def _values(people: People, rows: IntArray, keys: Any) -> ScoreValues | None:
    """The different scores of some rows; None if scores are hardly ever the same."""
    score, place = np.unique(people.raw[rows], return_inverse=True)
    if 2 * len(score) > len(rows):
        return None
    counts = np.bincount(place).astype(np.float64)
    events = np.bincount(place, weights=people.outcome[rows]).astype(np.float64)
    record_hash = np.zeros(len(score), dtype=np.uint64)
    np.add.at(record_hash, place, keys)
    return ScoreValues(score, counts, events, counts, record_hash)


def after_selection(
    statistic: float, limit: float, confidence: float = 0.95
) -> tuple[float, float]:
    """An interval of the mean of a normal statistic that was reported because it is
    beyond +-limit.

    >>> [round(end, 2) for end in after_selection(10.0, 5.0)]
    [8.04, 11.96]
    >>> [round(end, 2) for end in after_selection(5.2, 5.0)]
    [-0.24, 6.66]
    >>> [round(end, 2) for end in after_selection(-10.0, 5.0)]
    [-11.96, -8.04]
    """
    if statistic < 0:
        low, high = after_selection(-statistic, limit, confidence)
        return -high, -low
    tail = (1 - confidence) / 2
    limit = min(limit, statistic - LEAST_BEYOND)
    return _solve(statistic, limit, tail), _solve(statistic, limit, 1 - tail)


def _solve(statistic: float, limit: float, wanted: float) -> float:
    """The mean for which a selected statistic is at least this large with the wanted
    probability.
    """

    def too_small(mean: float) -> bool:
        return _beyond(statistic, limit, mean) < wanted

    lowest = statistic - FURTHEST_SD
    highest = statistic + FURTHEST_SD
    low, high = bisected(too_small, lowest, highest, HALVINGS)
    return float(low + high) / 2


def _beyond(statistic: float, limit: float, mean: float) -> float:
    """The probability of at least the statistic, given that it is beyond the limit on
    either side.
    """
    upper = special.log_ndtr(mean - statistic)
    selected = special.log_ndtr(mean - limit)
    below = special.log_ndtr(-limit - mean)
    return float(np.exp(upper - np.logaddexp(selected, below)))

"""Counts behind a finding: people with and without the outcome; protected pages start from them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from propcal.core.grid import FloatArray, IntArray
from propcal.discovery.people import People
from propcal.discovery.selection_interval import after_selection


@dataclass(frozen=True, eq=False)
class OutcomeCounts:
    """People with the outcome, then without it.

    Attributes
    ----------
    people : array of shape (2,)
        Rows, or what they stand for. Under survey weights: rows times the weighted share with the outcome.
    different : array of shape (2,)
        Different people behind them; under survey weights at most the effective number.
    score : float
        Their mean score.
    """

    people: FloatArray
    different: FloatArray
    score: float

    @classmethod
    def of(cls, people: People, rows: IntArray) -> OutcomeCounts:
        """Count some rows."""
        weight, outcome = people.weight[rows], people.outcome[rows] == 1
        either = [outcome, ~outcome]
        total = np.array([weight[own].sum() for own in either])
        mean = float(weight @ people.raw[rows] / max(total.sum(), 1e-300))
        different = total.copy()
        if people.survey:
            squares = np.array([np.sum(weight[own] ** 2) for own in either])
            different = total**2 / np.maximum(squares, 1e-300)
            total = total * (len(rows) / max(total.sum(), 1e-300))
        if people.cluster is not None:
            persons = [len(np.unique(people.cluster[rows][own])) for own in either]
            different = np.minimum(different, persons)
        return cls(total, different, mean)


@dataclass(frozen=True)
class IntervalBasis:
    """What the interval of an O/E ratio rests on beside observed and expected events.

    Attributes
    ----------
    then : float
        Events that were expected when the group was found, for each that the raw score expects.
    effect : float
        How many times larger the variance of the events is than that of a binomial number.
    limit : float
        The smallest significant error, in standard errors.
    added : float
        What the choice of the strongest group adds, in standard errors.
    """

    then: float
    effect: float
    limit: float
    added: float

    def ends(self, events: float, others: float, expected: float) -> tuple[float, float]:
        """The interval of the O/E ratio after selection; `expected` are the events expected then."""
        error = float(np.sqrt(self.effect * binomial_variance(events, others)))
        beyond = events - expected
        low, high = after_selection(beyond / error, self.limit)
        added = np.sign(beyond) * self.added
        low, high = low - max(added, 0.0), high - min(added, 0.0)
        return max(1 + low * error / expected, 0.0), max(1 + high * error / expected, 0.0)


def binomial_variance(events: float, others: float) -> float:
    """The variance of a number of events; half a person on either side keeps it above 0."""
    return (events + 0.5) * (others + 0.5) / (events + others + 1)


Counted = tuple[OutcomeCounts, IntervalBasis]


@dataclass(frozen=True, eq=False)
class DiscoverySource:
    """The counts of everybody, and of each finding with what its interval rests on."""

    everybody: OutcomeCounts
    groups: tuple[Counted, ...]

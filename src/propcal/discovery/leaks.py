"""Leaks: features that give away the outcome, and are left out of the search for it."""

from __future__ import annotations

import warnings

import numpy as np

from propcal.core.outcome_as_group import BY_CHANCE, NEARLY
from propcal.discovery.binned_features import FeatureTable
from propcal.discovery.people import People
from propcal.errors import Argument, Message

LEAK = "a leak"


def without_leaks(table: FeatureTable, people: People) -> FeatureTable:
    """Leave out features by which the outcome can be told, and warn of them."""
    found = {}
    events = people.outcome.astype(np.float64)
    total = float(events.sum())
    guessed, rate = min(total, len(events) - total), total / len(events)
    for feature, codes in zip(table.features, table.codes):
        rows = np.bincount(codes)
        positives = np.bincount(codes, events)
        wrong = float(np.minimum(positives, rows - positives).sum())
        pure = np.logaddexp(rows * np.log(rate), rows * np.log1p(-rate))[rows > 0]  # by chance
        if wrong <= NEARLY * guessed and pure.sum() < np.log(BY_CHANCE):
            found[feature.name] = f"it tells the outcome of nearly everybody, which makes it {LEAK}"
    for name, why in found.items():
        warnings.warn(
            Message(
                Argument("features") + f": {name!r} is left out: {why}",
                next_step="Was it known when the score was computed? If not, remove it",
            ),
            UserWarning,
            stacklevel=3,
        )
    return table.without(found)

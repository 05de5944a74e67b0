"""Row order: rows sorted by what they hold, so that results do not depend on the order they came in."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from propcal.core.grid import IntArray
from propcal.discovery.binned_features import FeatureTable
from propcal.discovery.people import People

ODD = np.uint64(0x9E3779B97F4A7C15)  # multiplies well into all bits
HALF = np.uint64(32)


def in_own_order(table: FeatureTable, people: People) -> tuple[FeatureTable, People, IntArray]:
    """The same rows in an order of their own, and where each of them was.

    Rows are sorted by a number that is mixed from everything they hold. Persons are numbered by their rows.
    """
    mixed = _mix(people.raw.view(np.uint64))
    for column in (people.outcome, people.weight.view(np.uint64), *table.codes):
        mixed = _mix(mixed ^ column.astype(np.uint64))
    if people.cluster is None:
        order = np.argsort(mixed, kind="stable")
        return _taken(table, order), people.part(order), order
    behind = np.zeros(int(people.cluster.max()) + 1, dtype=np.uint64)
    np.add.at(behind, people.cluster, mixed)
    number = np.argsort(np.argsort(behind, kind="stable"), kind="stable")
    persons = number[people.cluster]
    numbered = replace(people, cluster=persons)
    order = np.lexsort((persons, mixed))
    return _taken(table, order), numbered.part(order), order


def _taken(table: FeatureTable, order: IntArray) -> FeatureTable:
    return replace(table, codes=np.stack([own[order] for own in table.codes]))


def _mix(values: Any) -> Any:
    """Spread every bit over all others."""
    values = values * ODD
    values ^= values >> HALF
    values *= ODD
    return values ^ (values >> HALF)

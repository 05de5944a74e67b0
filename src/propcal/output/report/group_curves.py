"""The curves of a group as arrays, for the pictures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from propcal.auditing.audit_tables import row_dicts
from propcal.core.grid import FloatArray
from propcal.numbers import Limit

POINT = ("threshold", "net_benefit", "treat_all", "sensitivity", "specificity")
BAR = ("score_from", "score_to", "people", "positives")
CURVE = ("score", "outcome_rate", "low", "high")


@dataclass(frozen=True, eq=False)
class Thresholds:
    """What acting on the score would do, by threshold."""

    threshold: FloatArray
    net_benefit: FloatArray
    treat_all: FloatArray
    sensitivity: FloatArray
    specificity: FloatArray


@dataclass(frozen=True, eq=False)
class GroupCurves:
    """One group: its row, its thresholds, its smooth curve, its histogram.

    `bars` has numbers or limits (objects), `heights` numbers to draw: half of a limit.
    """

    row: Any
    thresholds: Thresholds
    curve: FloatArray
    bars: Any
    heights: FloatArray


def group_curves(groups: pd.DataFrame, tables: dict[str, pd.DataFrame]) -> list[GroupCurves]:
    """The curves of everybody and of every group that counts."""
    points, bars, curves = (
        _blocks(tables[name], columns)
        for name, columns in (("net_benefit", POINT), ("distribution", BAR), ("curves", CURVE))
    )
    found = []
    for i, row in enumerate(row_dicts(groups)):
        if i and not row["kept"]:
            continue
        own = bars.get(row["group"], np.empty((0, len(BAR)), dtype=object))
        heights = [float(value) / (2 if isinstance(value, Limit) else 1) for value in own[:, 2]]
        thresholds = points.get(row["group"], np.empty((0, len(POINT)))).astype(np.float64)
        curve = curves.get(row["group"], np.empty((0, len(CURVE)))).astype(np.float64)
        found.append(GroupCurves(row, Thresholds(*thresholds.T), curve, own, np.array(heights)))
    return found


def _blocks(table: pd.DataFrame, columns: tuple[str, ...]) -> dict[str, Any]:
    """The rows of each group as an array, in the order of the columns."""
    if not len(table):
        return {}
    values = table[list(columns)].astype(object).to_numpy()
    return {str(name): values[places] for name, places in table.groupby("group", sort=False).indices.items()}

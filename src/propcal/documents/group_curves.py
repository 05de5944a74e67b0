"""The numbers behind the pictures of each group.

By threshold, along its calibration curve, and in its histogram of scores.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from propcal.auditing.audit import Audit
from propcal.core.grid import FloatArray
from propcal.numbers import Limit

THRESHOLDS = (
    "threshold",
    "net_benefit",
    "low",
    "high",
    "treat_all",
    "treated",
    "sensitivity",
    "specificity",
)
CURVE = ("score", "outcome_rate", "low", "high")
HISTOGRAM = ("score_from", "score_to", "people", "positives")

Columns = dict[str, Any]  # arrays of equal length, by name


@dataclass(frozen=True, eq=False)
class GroupCurves:
    """One group: its row, its numbers by threshold, its smooth calibration curve, and
    its histogram, which has numbers or limits.
    """

    row: Mapping[str, Any]
    by_threshold: Columns
    curve: Columns
    histogram: Columns

    @property
    def at_ends(self) -> Columns:
        """The points of the curve at scores of exactly 0 or 1, which many people may
        have.
        """
        return where(self.curve, np.isin(self.curve["score"], [0.0, 1.0]))

    @property
    def inside(self) -> Columns:
        """The points of the curve between 0 and 1."""
        score = self.curve["score"]
        return where(self.curve, (score > 0) & (score < 1))

    @property
    def density(self) -> FloatArray:
        """The height of each bar of the histogram; half of a limit is drawn, and no bar
        where the number is withheld.
        """
        people = [
            float(n) / 2 if isinstance(n, Limit) else float(n)
            for n in self.histogram["people"]
        ]
        drawn = np.nan_to_num(np.array(people))
        width = (self.histogram["score_to"] - self.histogram["score_from"]).astype(
            np.float64
        )
        return np.asarray(drawn / max(float(drawn.sum()), 1e-9) / width)


def where(columns: Columns, rows: Any) -> Columns:
    """Some of the rows: a mask, places or a slice."""
    return {name: values[rows] for name, values in columns.items()}


def group_curves(audit: Audit, rows: Iterable[Mapping[str, Any]]) -> list[GroupCurves]:
    """The numbers of the groups in these rows of the table of groups."""
    by_threshold = _by_group(audit.net_benefit, THRESHOLDS)
    curves = _by_group(audit.curves, CURVE)
    histograms = _by_group(audit.distribution, HISTOGRAM)
    no_thresholds = _no_rows(THRESHOLDS)
    no_curve = _no_rows(CURVE)
    no_histogram = _no_rows(HISTOGRAM)

    found = []
    for row in rows:
        name = str(row["group"])
        one = GroupCurves(
            row,
            _as_numbers(by_threshold.get(name, no_thresholds)),
            _as_numbers(curves.get(name, no_curve)),
            histograms.get(name, no_histogram),
        )
        found.append(one)
    return found


def _by_group(table: pd.DataFrame, names: tuple[str, ...]) -> dict[str, Columns]:
    """These columns of each group; numbers may be limits."""
    if not len(table):
        return {}
    columns = {name: table[name].astype(object).to_numpy() for name in names}
    places = table.groupby("group", sort=False).indices
    return {str(group): where(columns, rows) for group, rows in places.items()}


def _no_rows(names: tuple[str, ...]) -> Columns:
    return {name: np.empty(0, dtype=object) for name in names}


def _as_numbers(columns: Columns) -> Columns:
    return {name: values.astype(np.float64) for name, values in columns.items()}

"""The curves of a group as arrays, from what is shown of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from propcal.auditing.decision_curve import threshold_columns
from propcal.core.grid import BoolArray, FloatArray

POINT = ("threshold", "net_benefit", "treat_all", "sensitivity", "specificity")
MOST_GUESSED = 0.15  # share of a group's people, with or without the outcome, whose bin may be guessed


@dataclass(frozen=True, eq=False)
class Thresholds:
    """What acting on the score would do, by threshold; `guessed` where hidden people were spread out."""

    threshold: FloatArray
    net_benefit: FloatArray
    treat_all: FloatArray
    sensitivity: FloatArray
    specificity: FloatArray
    guessed: BoolArray


@dataclass(frozen=True, eq=False)
class GroupCurves:
    """One group: its row, its thresholds, its smooth curve, its histogram."""

    row: Any
    thresholds: Thresholds
    curve: FloatArray
    bars: FloatArray

    @property
    def hidden_bars(self) -> BoolArray:
        """Which bars of the histogram are hidden."""
        return np.asarray(np.isnan(self.bars[:, 2])) if len(self.bars) else np.zeros(0, dtype=np.bool_)


def group_curves(groups: pd.DataFrame, tables: dict[str, pd.DataFrame]) -> list[GroupCurves]:
    """The curves of everybody and of every group that counts and is shown."""
    blocks = {name: _blocks(table) for name, table in tables.items()}
    found = []
    for i, row in enumerate(groups.to_dict("records")):
        if i and (not row["kept"] or row["people"] is None):
            continue
        bars = blocks["distribution"].get(row["group"], np.empty((0, 4)))
        exact = blocks["net_benefit"].get(row["group"], np.empty((0, 8)))
        curve = blocks["curves"].get(row["group"], np.empty((0, 4)))
        found.append(GroupCurves(row, _thresholds(exact, bars, row), curve, bars))
    return found


def _blocks(table: pd.DataFrame) -> dict[str, FloatArray]:
    """The rows of each group as an array, in the order of the columns."""
    columns = [name for name in table.columns if name != "group"]
    values = table[columns].to_numpy(dtype=np.float64)
    return {str(name): values[places] for name, places in table.groupby("group", sort=False).indices.items()}


def _thresholds(exact: FloatArray, bars: FloatArray, row: Any) -> Thresholds:
    """Exact points, and between them the edges of bins with a guess of what is hidden."""
    known = exact[:, [0, 1, 4, 5, 6]]  # the columns of a point
    guess = np.empty((0, len(POINT)))
    if len(bars) and np.isnan(bars[:, 2]).any():
        guess = _guess(bars, row)
        guess = guess[~np.isin(guess[:, 0].round(6), known[:, 0].round(6))]
    points = np.concatenate([known, guess])
    marks = np.repeat([False, True], [len(known), len(guess)])
    order = np.argsort(points[:, 0], kind="stable")
    threshold, benefit, treat_all, sensitivity, specificity = points[order].T
    return Thresholds(threshold, benefit, treat_all, sensitivity, specificity, marks[order])


def _guess(bars: FloatArray, row: Any) -> FloatArray:
    """Points at the edges of the bins, with a guess of how hidden people are spread over hidden bins.

    It uses nothing but what is shown, and so gives nothing away.
    """
    nothing = np.empty((0, len(POINT)))
    if row["positives"] is None or not np.isfinite([row["positives"], row["outcome_rate"]]).all():
        return nothing
    total = row["positives"] / row["outcome_rate"] if row["outcome_rate"] > 0 else float(row["people"])
    sums = np.array([row["positives"], total - row["positives"]])
    cells = np.stack([bars[:, 3], bars[:, 2] - bars[:, 3]])
    hidden = np.isnan(cells[0])
    rest = np.maximum(sums - np.nansum(cells, axis=1), 0.0)
    if hidden.all() or np.any(rest > MOST_GUESSED * sums) or np.any(sums <= 0):
        return nothing
    middle = bars[hidden, :2].mean(axis=1)
    like = _neighbours(bars[:, 2]) * np.stack([middle, 1 - middle])  # as if the score were right there
    cells[:, hidden] = rest[:, None] * like / like.sum(axis=1, keepdims=True)
    above = np.cumsum(cells[:, ::-1], axis=1)[:, ::-1][:, 1:]
    threshold = bars[1:, 0]
    columns = threshold_columns(threshold, *above, positives=sums[0], negatives=sums[1], total=total)
    points = np.column_stack([columns[name] for name in POINT])
    return np.asarray(points[(threshold > 0) & (threshold < 1)])


def _neighbours(people: FloatArray) -> FloatArray:
    """For each hidden bin half of its nearest shown neighbour, a quarter of the next, ..."""
    shown, hidden = np.flatnonzero(~np.isnan(people)), np.flatnonzero(np.isnan(people))
    apart = np.abs(hidden[:, None] - shown)
    nearest = shown[np.argmin(apart, axis=1)]
    return np.asarray((people[nearest] + 1.0) * 0.5 ** apart.min(axis=1))

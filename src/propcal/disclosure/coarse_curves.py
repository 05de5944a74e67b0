"""Curves over thresholds and histograms, made coarser: from cells that are shown anyway."""

from __future__ import annotations

import numpy as np
import pandas as pd

from propcal.auditing.cell_counts import Counts
from propcal.auditing.decision_curve import threshold_columns
from propcal.core.grid import BoolArray, FloatArray, IntArray


def known_edges(hidden: BoolArray) -> IntArray:
    """Inner edges with every hidden bin on one side: the people on the other side are shown anyway.

    >>> known_edges(np.array([False, False, True, True, False])).tolist()
    [1, 2, 4]
    """
    inner = np.arange(1, len(hidden))
    places = np.flatnonzero(hidden)
    if not len(places):
        return inner
    return np.asarray(inner[(inner <= places[0]) | (inner > places[-1])])


def threshold_curve(counts: Counts, row: int, hidden: BoolArray) -> pd.DataFrame:
    """Net benefit, sensitivity and specificity of a group at the edges of the bins, without intervals."""
    edges = known_edges(hidden)
    edges = edges[(counts.edges[edges] > 0) & (counts.edges[edges] < 1)]
    weight = counts.weight[:, counts.inside[row]].sum(axis=1)
    above = np.cumsum(weight[:, ::-1], axis=1)[:, ::-1]
    positives, negatives = weight.sum(axis=1)
    columns = threshold_columns(
        counts.edges[edges].round(9),
        *above[:, edges],
        positives=positives,
        negatives=negatives,
        total=positives + negatives,
    )
    return pd.DataFrame(columns)


def everybody_curve(fine: pd.DataFrame, counts: Counts, hidden: BoolArray, fewest: int) -> pd.DataFrame:
    """The same of everybody, with the thresholds between that keep enough people apart.

    Only of everybody: finer curves of several groups could be taken from one another.
    """
    coarse = threshold_curve(counts, 0, hidden)
    first = fine.iloc[:0] if not len(fine) else fine[fine["group"] == fine["group"].iloc[0]]
    first = first.drop_duplicates("threshold")
    weight = counts.weight.sum(axis=(1, 2))
    threshold = first["threshold"].to_numpy(dtype=np.float64)
    above = {0.0: tuple(weight), 1.0: (0.0, 0.0)}
    for each, sensitivity, specificity in zip(
        coarse["threshold"], coarse["sensitivity"], coarse["specificity"]
    ):
        above[float(each)] = (sensitivity * weight[0], (1 - specificity) * weight[1])
    fine_above = np.column_stack(
        [
            first["sensitivity"].to_numpy(dtype=np.float64) * weight[0],
            (1 - first["specificity"].to_numpy(dtype=np.float64)) * weight[1],
        ]
    )
    kept = np.isin(threshold.round(9), coarse["threshold"])
    edges = counts.edges.round(9)
    for bin_index in np.flatnonzero(~hidden):
        low, high = edges[bin_index], edges[bin_index + 1]
        if low not in above or high not in above:
            continue
        last = np.array(above[high])
        for i in np.flatnonzero((threshold > low) & (threshold < high))[::-1]:
            steps = np.stack([fine_above[i] - last, np.array(above[low]) - fine_above[i]])
            if _apart(steps, fewest):
                kept[i], last = True, fine_above[i]
    coarse = coarse[~coarse["threshold"].isin(threshold[kept])].assign(group="")
    parts = [part for part in (first[kept], coarse[first.columns]) if len(part)]
    if not parts:
        return pd.DataFrame(first.iloc[:0])
    curve: pd.DataFrame = pd.concat(parts, ignore_index=True)
    return curve.sort_values("threshold", ignore_index=True)


def _apart(steps: FloatArray, fewest: int) -> bool:
    """Whether nobody, or enough people, with and without the outcome lie between thresholds."""
    return bool(np.all((np.abs(steps) < 1e-6) | (steps >= fewest)))


def bars_of_bins(counts: Counts, row: int, hidden: BoolArray) -> pd.DataFrame:
    """The histogram of a group over the bins; hidden ones are not known."""
    positives, negatives = counts.weight[:, counts.inside[row]].sum(axis=1)
    return pd.DataFrame(
        {
            "score_from": counts.edges[:-1].round(9),
            "score_to": counts.edges[1:].round(9),
            "people": np.where(hidden, np.nan, positives + negatives),
            "positives": np.where(hidden, np.nan, positives),
        }
    )

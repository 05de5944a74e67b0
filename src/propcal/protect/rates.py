"""Rates and O/E ratios of a table, from the counts that are shown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import repeat
from typing import Any

import numpy as np
import pandas as pd

from propcal.auditing.intervals import CONFIDENCE, normal_quantile
from propcal.core.grid import FloatArray
from propcal.numbers import RATIO_DIGITS, beside_one, excludes_one, printed_rate
from propcal.protect.rule import VARIANCE
from propcal.protect.shown_counts import ShownCounts

APART = 0.0051  # from 1, where an interval that excludes it ends
ENDS = ("", "_low", "_high")
Ratio = tuple[FloatArray, FloatArray, FloatArray]  # O/E ratios and the ends of their intervals


def with_shown_rates(
    table: pd.DataFrame, shown: ShownCounts, first: int = 0, **others: Sequence[Any]
) -> pd.DataFrame:
    """The table of an audit with people, events, rates and O/E ratios as they are shown, and other columns.

    Its rows are the sets of `shown` from the `first` on. What is known of rates and ratios of small counts is
    among the other columns.
    """
    rows = range(first, first + len(table))
    exact = [table[f"observed_expected{end}"].to_numpy(dtype=np.float64) for end in ENDS]
    own = slice(rows.start, rows.stop)
    with np.errstate(invalid="ignore", divide="ignore"):
        rate = shown.events[own] / shown.people[own]
    columns: dict[str, Any] = {
        "people": [shown.people_at(i) for i in rows],
        "positives": [shown.events_at(i) for i in rows],
        "outcome_rate": rate.tolist(),
        "mean_score": [printed_rate(mean) for mean in shown.mean[own]],
        **{f"observed_expected{end}": x.tolist() for end, x in zip(ENDS, shown_ratios(shown, exact, own))},
        **others,
    }
    for i, limits in enumerate(columns.pop("limits", ())):
        if limits is not None:
            columns["outcome_rate"][i], columns["observed_expected"][i] = limits
    made = {
        name: pd.Series(columns[name], dtype=object) if name in columns else table[name].to_numpy()
        for name in table.columns
    }
    return pd.DataFrame(made)


def printed(values: Iterable[float], digits: int, shown: Iterable[Any] = repeat(True)) -> list[float]:
    """Numbers with so many digits after the point, as they are printed; NaN where they are not shown."""
    return [round(float(value), digits) if some else float("nan") for value, some in zip(values, shown)]


def printed_measure(
    table: pd.DataFrame, name: str, digits: int, shown: Iterable[Any] = repeat(True)
) -> dict[str, list[float]]:
    """The columns of a measure and its interval."""
    both = zip(table[f"{name}_low"], table[f"{name}_high"])
    ends = [beside_one(low, high, digits) for low, high in both]
    columns: Any = (table[name], [low for low, _ in ends], [high for _, high in ends])
    return {f"{name}{end}": printed(values, digits, shown) for end, values in zip(ENDS, columns)}


def shown_ratios(shown: ShownCounts, exact: Sequence[FloatArray], own: Any = slice(None)) -> Ratio:
    """O/E ratios with 95 % intervals, as they are printed; NaN where a count is not shown.

    `exact` are the audit's: how much wider or narrower an interval is than that of independent people with
    equal scores is kept, to one digit. Moved counts make it wider. It excludes 1 if the audit's does.
    """
    ratio, exact_low, exact_high = exact
    people, events, mean = shown.people[own], shown.events[own], shown.mean[own]
    counts, reach = shown.headcount.people[:, own], normal_quantile((1 + CONFIDENCE) / 2)
    with np.errstate(invalid="ignore", divide="ignore"):
        binomial = counts[1] / counts.sum(axis=0) / counts[0]
        spread = (np.log(exact_high / exact_low) / 2 / reach) ** 2
        effect = np.maximum(np.round(spread / binomial, 1), 0.1)
        value = np.where(np.isfinite(ratio), events / (people * mean), np.nan)
        variance = effect * (1 - events / people) / events + shown.mean_variance[own] / mean**2
        variance += VARIANCE * (events**-2.0 + people**-2.0)
        factor = np.exp(reach * np.sqrt(variance))
        return agreeing((value, value / factor, value * factor), exact_low, exact_high)


def agreeing(ratio: Ratio, exact_low: FloatArray, exact_high: FloatArray) -> Ratio:
    """Rounded numbers that say of 1 what the audit says."""
    value, low, high = ratio
    excluded = np.array([excludes_one(*ends) for ends in zip(exact_low, exact_high)], dtype=np.bool_)
    above, below = excluded & (exact_low > 1), excluded & (exact_high < 1)
    unlike = (above & (value <= 1)) | (below & (value >= 1))  # too near to 1 to tell
    low = np.where(above, np.maximum(low, 1 + APART), np.where(excluded, low, np.minimum(low, 1.0)))
    high = np.where(below, np.minimum(high, 1 - APART), np.where(excluded, high, np.maximum(high, 1.0)))
    value = np.where(above, np.maximum(value, 1 + APART), value)
    value = np.where(below, np.minimum(value, 1 - APART), value)
    low, high = (np.where(unlike, np.nan, end).round(RATIO_DIGITS) for end in (low, high))
    return value.round(RATIO_DIGITS), low, high

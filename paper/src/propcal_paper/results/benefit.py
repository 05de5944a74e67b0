"""Who gains and who loses by post-processing: errors before and after."""

from __future__ import annotations

from math import ceil, isnan
from typing import Any

import numpy as np
import pandas as pd

from propcal.building_blocks import FloatArray
from propcal_paper.results.evidence import KEYS, Evidence
from propcal_paper.results.intervals import median_interval
from propcal_paper.results.medians import in_order
from propcal_paper.settings import BASE, MC, N_BINS, OURS, PMC

# Algorithm 1 with the paper's middle settings; alpha varies. Our method has its
# defaults.
SETTING = {"gamma": 0.05, "rho": 0.1}
# the alphas of which stores have curves
ALPHA = 0.1
FINE_ALPHA = 0.01
FEWEST = 20  # shuffles for a verdict
HELPS = "helps"
HARMS = "harms"
UNCLEAR = "no clear change"
UNCHANGED = "no change"
TOO_FEW = "too few shuffles"
LARGEST = "largest error"
ALL_CELLS = "largest error, all cells"
AVERAGE = "average error"
PREDICTION = "prediction error"
# The columns of the store with the errors; the average error comes from the counts of
# the curves.
COLUMNS = {
    LARGEST: "sizes_pmc_loss",
    ALL_CELLS: "pmc_loss",
    AVERAGE: "average",
    PREDICTION: "log_loss",
}
# what is told of a comparison
COMPARED = [
    "n_seeds",
    "before",
    "after",
    "change",
    "low",
    "high",
    "better",
    "worse",
    "verdict",
]
NAMES = {BASE: "before", OURS: "propcal's default"}


def method_name(method: str, alpha: float) -> str:
    """A method with its alpha, as tables and figures call it."""
    if isnan(alpha):
        return NAMES.get(method, method)
    return f"{method}, alpha {alpha:g}"


def _with_names(frame: pd.DataFrame) -> pd.DataFrame:
    pairs = zip(frame["method"], frame["alpha"])
    return frame.assign(name=[method_name(*pair) for pair in pairs])


def _chosen(evidence: Evidence) -> pd.DataFrame:
    """The trials that are compared, in the order of the store and of the methods."""
    trials = evidence.stored
    has_setting = trials["method"].isin((MC, PMC))
    for name, value in SETTING.items():
        has_setting &= np.isclose(trials[name], value)
    without_setting = trials["method"].isin((BASE, OURS))
    chosen = trials[has_setting | without_setting]
    ordered = in_order(evidence, chosen, ["groups", "model", "method", "alpha"])
    return ordered.drop_duplicates(KEYS)


def average_errors(evidence: Evidence) -> pd.DataFrame:
    """The average error of the subgroups, for each seed, base model and setting with
    curves.
    """
    found = evidence.group_sums[evidence.group_sums["positives"] > 0]
    weighted = found.assign(error=found["people"] * found["off"] / found["positives"])
    total = weighted.groupby(KEYS)[["error", "people"]].sum()
    return (total["error"] / total["people"]).rename("average").reset_index()


def benefit(evidence: Evidence) -> pd.DataFrame:
    """How each method changes the errors of each base model, in percent of the base
    model's.

    Returns
    -------
    frame
        groups, model, method, alpha (NaN for ours), smallest (the smallest cell of the
        fit, in rows; NaN for ours), measure, n_seeds, before and after (medians),
        change (median percent) with low and high (95 % bootstrap interval over seeds),
        better and worse (share of the seeds), verdict.
    """
    trials = _chosen(evidence).merge(average_errors(evidence), on=KEYS, how="left")
    whose = ["seed", "model", "groups"]
    errors = list(COLUMNS.values())
    of_base = trials["method"] == BASE
    base = trials[of_base].drop_duplicates(whose).set_index(whose)[errors]
    treated = trials[~of_base].join(base.add_prefix("base_"), on=whose)

    names = ["groups", "model", "method", "alpha"]
    rows = []
    values: Any
    for values, part in treated.groupby(names, sort=False, dropna=False):
        known = dict(zip(names, values))
        known["smallest"] = _smallest_cell(float(values[-1]), part["n_post"].median())
        for measure, column in COLUMNS.items():
            both = part[[f"base_{column}", column]].dropna().to_numpy(dtype=float)
            if len(both):
                rows.append(known | {"measure": measure} | _compared(both))
    columns = [*names, "smallest", "measure", *COMPARED]
    return _with_names(pd.DataFrame(rows, columns=columns))


def _smallest_cell(alpha: float, n_people: float) -> float:
    """The smallest cell that a fit corrects, in rows; NaN without an alpha."""
    if isnan(alpha):
        return np.nan
    return float(max(1, ceil(n_people * alpha * SETTING["gamma"] / N_BINS)))


def _compared(both: FloatArray) -> dict[str, Any]:
    """The change from the first column to the second, over the rows (seeds)."""
    both = both[both[:, 0] > 0]
    before, after = both.T
    change = 100 * (after / before - 1)
    middle, low, high, n_seeds = median_interval(change, confidence=0.95)
    compared: dict[str, Any] = {"n_seeds": n_seeds}
    if n_seeds:
        compared["before"] = float(np.median(before))
        compared["after"] = float(np.median(after))
        compared |= {"change": middle, "low": low, "high": high}
        compared["better"] = float(np.mean(change < 0))
        compared["worse"] = float(np.mean(change > 0))
    compared["verdict"] = verdict_on(middle, low, high, n_seeds)
    return compared


def verdict_on(change: float, low: float, high: float, n_seeds: int) -> str:
    """Whether a change of an error is for the better or the worse.

    >>> verdict_on(-10, -14, -6, 30), verdict_on(12, 3, 20, 30)
    ('helps', 'harms')
    >>> verdict_on(2, -5, 9, 30)
    'no clear change'
    >>> verdict_on(-10, -14, -6, 5), verdict_on(0, 0, 0, 30)
    ('too few shuffles', 'no change')
    """
    if n_seeds < FEWEST:
        return TOO_FEW
    if change == low == high == 0:
        return UNCHANGED
    if high < 0:
        return HELPS
    if low > 0:
        return HARMS
    return UNCLEAR


def observed_to_expected(evidence: Evidence) -> pd.DataFrame:
    """O/E ratio of each subgroup before and after: median over seeds, with the range of
    most seeds.

    Returns
    -------
    frame
        groups, model, group_name, method, alpha, share (of the test set), rate
        (observed), ratio, low and high (5th and 95th percentile over seeds), n_seeds.
        Only subgroups with a share of at least gamma.
    """
    sums = _chosen(evidence)[KEYS].merge(evidence.group_sums, on=KEYS)
    sums["share"] = sums["people"] / sums["n_test"]
    sums["ratio"] = sums["positives"] / sums["score_sum"]
    names = ["groups", "model", "group_name", "method", "alpha"]
    each = sums.groupby(names, sort=False, dropna=False)
    total = each[["positives", "people"]].sum()

    ratios = pd.DataFrame({"share": each["share"].mean()})
    ratios["rate"] = total["positives"] / total["people"]
    ratios["ratio"] = each["ratio"].median()
    ratios["low"] = each["ratio"].quantile(0.05)
    ratios["high"] = each["ratio"].quantile(0.95)
    ratios["n_seeds"] = each.size()
    ratios = ratios[ratios["share"] >= SETTING["gamma"]]
    return _with_names(ratios.reset_index())

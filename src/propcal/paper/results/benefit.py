"""Who gains and who loses by post-processing: errors of the same patients before and after, by subgroup."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil

import numpy as np
import pandas as pd

from propcal.core.grid import FloatArray
from propcal.paper.experiment.settings import ALPHAS, BASE, MC, N_BINS, OURS, PMC
from propcal.paper.experiment.setups import FIXED, SIZES
from propcal.paper.results.evidence import Evidence
from propcal.paper.results.seed_intervals import median_interval

# Algorithm 1 with the paper's middle settings, and with a smaller alpha; our method has its defaults.
SETTING = {"alpha": 0.1, "gamma": 0.05, "rho": 0.1}
FINE_ALPHA = 0.01
FINE = f"{PMC}, alpha {FINE_ALPHA:g}"
METHODS = (MC, PMC, FINE, OURS)
_RUN_WITH = {(MC, SETTING["alpha"]): MC, (PMC, SETTING["alpha"]): PMC, (PMC, FINE_ALPHA): FINE}

FEWEST = 20  # shuffles for a verdict
HELPS, HARMS, UNCLEAR, UNCHANGED, TOO_FEW = (
    "helps",
    "harms",
    "no clear change",
    "no change",
    "too few shuffles",
)
VERDICTS = (HELPS, HARMS, UNCLEAR, UNCHANGED, TOO_FEW)
CONFIDENCE = 0.95
OFF = 0.05  # a subgroup is off if its O/E ratio is so far from 1
LARGEST, AVERAGE, PREDICTION = "largest error", "average error", "prediction error"
SMALLEST_CELL = SETTING["alpha"] / N_BINS  # share of the test set, by the rule of sizes
# What each measure is; "{unit}" stands for what a row is, such as stays.
MEASURES = {
    LARGEST: "the largest relative error of any cell, that is, a subgroup within one of ten risk ranges, "
    f"among cells with at least {100 * SMALLEST_CELL:g} % of the {{unit}} (PMC loss); 20 % means, for "
    "example, 24 expected events where 20 were observed",
    AVERAGE: "for each subgroup, the absolute differences between observed and expected events in ten risk "
    "ranges, added up and divided by its observed events; then averaged over subgroups, weighted by size",
    PREDICTION: "how far the predictions for all {unit} are from what happened (log loss); "
    "predictions near 0 or 1 that turn out wrong count heavily",
}


def at_setting(evidence: Evidence) -> pd.DataFrame:
    """The trials that are compared, `method` being one of METHODS or the base model."""
    trials = evidence.by(SIZES).trials
    same = np.isclose(trials["gamma"], SETTING["gamma"]) & np.isclose(trials["rho"], SETTING["rho"])
    named = trials["method"].where(trials["method"].isin((BASE, OURS)))
    for (method, alpha), name in _RUN_WITH.items():
        named = named.mask(same & (trials["method"] == method) & np.isclose(trials["alpha"], alpha), name)
    chosen = trials.assign(method=named).dropna(subset=["method"])
    return chosen.drop_duplicates(["seed", "model", "setting"])


def average_errors(evidence: Evidence) -> pd.DataFrame:
    """The average error of the subgroups, for each seed, base model, grouping and method."""
    sums = group_counts(evidence)
    off = (sums["positives"] - sums["score_sum"]).abs()
    keys = ["seed", "model", "groups", "method"]
    by_group = sums.assign(off=off).groupby([*keys, "group_name"])[["people", "positives", "off"]].sum()
    by_group = by_group[by_group["positives"] > 0].reset_index()
    weighted = by_group.assign(error=by_group["people"] * by_group["off"] / by_group["positives"])
    total = weighted.groupby(keys)[["error", "people"]].sum()
    return (total["error"] / total["people"]).rename(AVERAGE).reset_index()


def group_counts(evidence: Evidence) -> pd.DataFrame:
    """The counts of the curves at the settings that are compared, with their grouping."""
    keys = ["seed", "model", "setting"]
    chosen = at_setting(evidence)[[*keys, "method", "groups", "n_test"]]
    return evidence.curves.drop(columns="method").merge(chosen, on=keys)


def benefit(evidence: Evidence) -> pd.DataFrame:
    """How each method changes the errors of each base model, in percent of the base model's.

    Returns
    -------
    frame
        measure, model, groups, method, n_seeds, before and after (medians), change (median percent) with
        low and high (95 % bootstrap interval over seeds), better and worse (share of the seeds), verdict.
    """
    keys = ["seed", "model", "groups", "method"]
    named = {"pmc_loss": LARGEST, "log_loss": PREDICTION}
    values = at_setting(evidence)[[*keys, *named]].rename(columns=named)
    values = values.merge(average_errors(evidence), on=keys, how="left")
    rows = []
    for measure in MEASURES:
        table = values.pivot(index=["model", "groups", "seed"], columns="method", values=measure)
        for (model, groups), part in table.groupby(level=["model", "groups"], sort=False):
            for method in METHODS:
                if BASE in part and method in part:
                    both = part[[BASE, method]].dropna().to_numpy(dtype=float)
                    who = {"measure": measure, "model": model, "groups": groups, "method": method}
                    rows.append(who | _compared(both))
    columns = ["measure", "model", "groups", "method", "n_seeds", "before", "after", "change", "low", "high"]
    return in_order_of_store(evidence, pd.DataFrame(rows, columns=[*columns, "better", "worse", "verdict"]))


def _compared(both: FloatArray) -> dict[str, float | int | str]:
    """The change from the first column to the second, over the rows (seeds)."""
    both = both[both[:, 0] > 0]
    change = 100 * (both[:, 1] / both[:, 0] - 1)
    found = median_interval(change, confidence=CONFIDENCE)
    before, after = (float(np.median(column)) if len(both) else np.nan for column in both.T)
    return {
        "n_seeds": len(both),
        "before": before,
        "after": after,
        "change": found.median,
        "low": found.low,
        "high": found.high,
        "better": float(np.mean(change < 0)) if len(both) else np.nan,
        "worse": float(np.mean(change > 0)) if len(both) else np.nan,
        "verdict": verdict_on(found.median, found.low, found.high, len(both)),
    }


def verdict_on(change: float, low: float, high: float, n_seeds: int) -> str:
    """Whether a change of an error is for the better or the worse.

    >>> verdict_on(-10, -14, -6, 30), verdict_on(12, 3, 20, 30), verdict_on(2, -5, 9, 30)
    ('helps', 'harms', 'no clear change')
    >>> verdict_on(-10, -14, -6, 5), verdict_on(0, 0, 0, 30)
    ('too few shuffles', 'no change')
    """
    if n_seeds < FEWEST:
        return TOO_FEW
    if change == low == high == 0:
        return UNCHANGED
    return HELPS if high < 0 else HARMS if low > 0 else UNCLEAR


def observed_to_expected(evidence: Evidence, model: str, groups: str) -> pd.DataFrame:
    """O/E ratio of each subgroup before and after: median over seeds, with the range of most seeds.

    Returns
    -------
    frame
        group, method, share (of the test set), rate (observed), ratio, low and high (5th and 95th percentile
        over seeds), n_seeds. Only subgroups with a share of at least gamma.
    """
    counts = _of_grouping(group_counts(evidence), model, groups)
    names = ["group_name", "method", "seed"]
    sums = counts.groupby(names)[["people", "positives", "score_sum"]].sum()
    sums = sums.assign(n_test=counts.groupby(names)["n_test"].first()).reset_index()
    rows = []
    for (group, method), part in sums.groupby(["group_name", "method"]):
        share = float((part["people"] / part["n_test"]).mean())
        if share < SETTING["gamma"]:
            continue
        ratio = (part["positives"] / part["score_sum"]).to_numpy()
        low, high = np.quantile(ratio, [0.05, 0.95])
        rows.append(
            {
                "group": group,
                "method": method,
                "share": share,
                "rate": float(part["positives"].sum() / part["people"].sum()),
                "ratio": float(np.median(ratio)),
                "low": float(low),
                "high": float(high),
                "n_seeds": len(part),
            }
        )
    columns = ["group", "method", "share", "rate", "ratio", "low", "high", "n_seeds"]
    return pd.DataFrame(rows, columns=columns)


def left_out(evidence: Evidence, model: str, groups: str) -> list[str]:
    """The subgroups that `observed_to_expected` leaves out: those with a share below gamma."""
    counts = _of_grouping(group_counts(evidence), model, groups)
    counts = counts[counts["method"] == BASE]
    people = counts.groupby("group_name")["people"].sum()
    rows = counts.drop_duplicates("seed")["n_test"].sum()
    return [str(name) for name in people.index[people / rows < SETTING["gamma"]]]


def _of_grouping(counts: pd.DataFrame, model: str, groups: str) -> pd.DataFrame:
    """The counts of a base model in the subgroups of a grouping, which are by all its attributes."""
    return counts[(counts["model"] == model) & (counts["groups"] == groups)]


def all_ratios(stores: Mapping[str, Evidence]) -> pd.DataFrame:
    """The frames of `observed_to_expected` of every outcome, base model and grouping, one below the other."""
    frames = [
        observed_to_expected(evidence, model, groups).assign(outcome=outcome, model=model, groups=groups)
        for outcome, evidence in stores.items()
        for model in evidence.models
        for groups in evidence.grouping_names
    ]
    return pd.concat(frames, ignore_index=True)


def far_off(ratios: pd.DataFrame) -> pd.DataFrame:
    """The subgroups of `all_ratios` whose O/E ratio is off by at least `OFF` before correction.

    Returns
    -------
    frame
        A row for each outcome, model, groups and group (the index), a column of ratios for each method.
    """
    table = ratios.pivot(index=["outcome", "model", "groups", "group"], columns="method", values="ratio")
    table = table.reindex(columns=[BASE, *METHODS])
    return table[(table[BASE] - 1).abs() >= OFF]


# The columns of `by_alpha`: what is compared, with the rule for the sizes of its cells, and the column.
LARGER_CELLS, ALL_CELLS = f"{LARGEST}, larger cells", f"{LARGEST}, all cells"
YARDSTICKS = {
    LARGER_CELLS: (SIZES, "pmc_loss"),
    ALL_CELLS: (FIXED, "pmc_loss"),
    PREDICTION: (FIXED, "log_loss"),
}


def by_alpha(evidence: Evidence) -> pd.DataFrame:
    """How errors change at each alpha of the paper's methods, and with ours.

    Returns
    -------
    frame
        yardstick, model, groups, method, alpha (NaN for ours), smallest (the smallest cell of the fit, in
        rows; NaN for ours), and the columns of `benefit`.
    """
    rows = []
    names = ["model", "groups", "method", "alpha"]
    for yardstick, (rule, column) in YARDSTICKS.items():
        trials = evidence.by(rule).trials
        base = trials[trials["method"] == BASE].drop_duplicates(["seed", "model", "groups"])
        before = base.set_index(["seed", "model", "groups"])[column].rename("before")
        same = np.isclose(trials["gamma"], SETTING["gamma"]) & np.isclose(trials["rho"], SETTING["rho"])
        chosen = trials[(same & trials["method"].isin((MC, PMC))) | (trials["method"] == OURS)]
        chosen = chosen.join(before, on=["seed", "model", "groups"])
        for values, part in chosen.groupby(names, dropna=False, sort=False):
            both = part[["before", column]].dropna().to_numpy(dtype=float)
            alpha, n = float(part["alpha"].iloc[0]), float(part["n_post"].median())
            smallest = np.nan if np.isnan(alpha) else max(1, ceil(n * alpha * SETTING["gamma"] / N_BINS))
            named = {"yardstick": yardstick, **dict(zip(names, values)), "smallest": smallest}
            rows.append(named | _compared(both))
    return pd.DataFrame(rows)


def alpha_tally(found: Sequence[pd.DataFrame]) -> list[tuple[str, float, float, dict[str, dict[str, int]]]]:
    """For each method and alpha of `by_alpha`: the smallest cell, and the verdicts by each yardstick."""
    every = pd.concat(list(found), ignore_index=True)
    rows = []
    for method, alpha in [*((m, a) for m in (MC, PMC) for a in ALPHAS), (OURS, np.nan)]:
        own = every[every["method"] == method]
        own = own if pd.isna(alpha) else own[np.isclose(own["alpha"], alpha)]
        if own.empty:
            continue
        counts = {
            name: {v: int((own.loc[own["yardstick"] == name, "verdict"] == v).sum()) for v in VERDICTS}
            for name in YARDSTICKS
        }
        rows.append((method, alpha, float(own["smallest"].min()), counts))
    return rows


def in_order_of_store(evidence: Evidence, frame: pd.DataFrame) -> pd.DataFrame:
    """Rows by grouping and base model in the order of the store, then by method."""
    order = {
        "groups": {name: i for i, name in enumerate(evidence.grouping_names)},
        "model": {name: i for i, name in enumerate(evidence.models)},
        "method": {name: i for i, name in enumerate(METHODS)},
    }
    keys = frame[["groups", "model", "method"]].apply(lambda column: column.map(order[str(column.name)]))
    return frame.iloc[np.lexsort([keys["method"], keys["model"], keys["groups"]])].reset_index(drop=True)


def tally(found: Sequence[pd.DataFrame], method: str, measure: str) -> dict[str, int]:
    """How often a method helps, harms, and so on, over all outcomes, base models and groupings."""
    everything = pd.concat(list(found), ignore_index=True)
    own = everything[(everything["method"] == method) & (everything["measure"] == measure)]
    return {verdict: int((own["verdict"] == verdict).sum()) for verdict in VERDICTS}

"""The numbers behind Tables 4, 5 and 6 and the figures, as frames, from the trials of a
store.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations, product, zip_longest
from math import comb
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from propcal.building_blocks import FloatArray, plural
from propcal_paper import settings as s
from propcal_paper.settings import (
    ALPHAS,
    BASE,
    EQUIVALENT_ALPHAS,
    MC,
    MC_FOR_PMC,
    OURS,
    PMC,
    PUBLISHED,
)
from propcal_paper.trial_arrays import TrialCube
from propcal_paper.trial_store import HIGHER_IS_BETTER, LOSSES, METRICS, Evidence

METHODS = (BASE, MC, PMC, OURS)
PARAMETERS = ("alpha", "gamma", "rho", "min_share")
THREE = (BASE, MC, PMC)  # the methods of Table 6
COSTS = {"sweeps": "n_sweeps", "updates": "n_updates", "seconds": "fit_seconds"}
PRINTED_COSTS = (
    "sweeps",
    "seconds",
)  # Table 5 prints iterations, which are sweeps, and seconds
ACCURACY = ["brier", "log_loss", "true_risk_rms"]
_SETTING = ["groups", "alpha", "gamma", "rho"]
# The columns that identify a "trial" in the caption of Table 6, by interpretation.
_TRIAL = dict(
    zip(s.READINGS, (["seed"], ["seed", "model"], ["seed", "model", *_SETTING]))
)


def in_order(
    evidence: Evidence, frame: pd.DataFrame, by: Sequence[str]
) -> pd.DataFrame:
    """The rows in the order of groupings, models and methods of the paper."""
    order = {
        "groups": evidence.grouping_names,
        "model": evidence.models,
        "method": METHODS,
    }
    return frame.sort_values(
        [*by],
        key=lambda c: c.map(list(order[c.name]).index) if c.name in order else c,
        kind="stable",
    )


def medians(
    trials: pd.DataFrame, by: Sequence[str], columns: Mapping[str, str]
) -> pd.DataFrame:
    """Medians of columns with 99 % intervals over seeds: by, metric, median, low, high,
    n_seeds, n_trials.
    """
    rows = []
    for values, part in trials.groupby([*by], sort=False, dropna=False):
        for name, column in columns.items():
            found = median_interval(by_seed(part, column))
            rows.append((*values, name, *found, len(part)))
    return pd.DataFrame(
        rows, columns=[*by, "metric", "median", "low", "high", "n_seeds", "n_trials"]
    )


def method_medians(trials: pd.DataFrame) -> pd.DataFrame:
    """The medians of AUROC and losses for each base model and method."""
    chosen = trials[trials["method"].isin(METHODS)]
    return medians(chosen, ["model", "method"], {metric: metric for metric in METRICS})


def percent_change(trials: pd.DataFrame, by: Sequence[str] = ()) -> pd.DataFrame:
    """Table 4: median percent changes from the base model of the same seed and
    grouping.

    Returns
    -------
    frame
        method, model, the columns of `by`, metric, change (percent), low, high (99 %
        interval), n_seeds, n_trials and published (NaN if the paper has none).
    """
    treated = trials[
        trials["method"].isin((MC, PMC, OURS)) & trials["base_auroc"].notna()
    ]
    treated = treated.dropna(subset=[*by])
    before = {
        metric: treated[f"base_{metric}"].replace(0.0, np.nan) for metric in METRICS
    }
    changed = treated.assign(
        **{f"{m}_change": 100 * (treated[m] - before[m]) / before[m] for m in METRICS}
    )
    found = medians(
        changed,
        ["method", "model", *by],
        {metric: f"{metric}_change" for metric in METRICS},
    )
    printed = pd.DataFrame(PUBLISHED["table_4"], columns=["method", "model", *METRICS])
    printed = printed.melt(
        ["method", "model"], var_name="metric", value_name="published"
    )
    return found.merge(printed, how="left").rename(columns={"median": "change"})


def cells(evidence: Evidence, name: str = "cells") -> pd.DataFrame:
    """The tolerance apart from the smallest cell, or gamma and rho: changes from the
    base model.

    The base model is that of the same seed and grouping; `name` is "cells" or
    "gamma_and_rho".

    Returns
    -------
    frame
        method, model, alpha, gamma, rho, min_share (NaN: as printed), metric, median,
        low, high (99 % interval), n_seeds, n_trials. The metrics are losses (percent,
        cells of at least 1 % of the test set), AUROC and log loss (times 10,000), and
        small_groups: how far O/E ratios of small groups are from 1 (mean, percent, of
        all seeds together; the base model has it, too).
    """
    by = ["method", "model", *PARAMETERS]
    whose = ["seed", "model", "groups"]
    trials = evidence.by(s.SIZES).trials
    base = (
        trials[trials["method"] == BASE]
        .set_index(whose)["log_loss"]
        .rename("base_log_loss")
    )
    treated = trials[trials["method"] != BASE].join(base, on=whose)
    changes = {
        loss: 100 * (treated[loss] / treated[f"base_{loss}"] - 1) for loss in LOSSES
    }
    changes |= {
        name: 1e4 * (treated[name] - treated[f"base_{name}"])
        for name in ("auroc", "log_loss")
    }
    found = medians(treated.assign(**changes), by, {name: name for name in changes})
    sums = ["positives", "score_sum", "people", "n_test"]
    total = evidence.group_sums.groupby([*by, "groups", "group_name"], dropna=False)[
        sums
    ].sum()
    small = total[
        (total["people"] / total["n_test"]).between(*s.DATA["cells"]["small"])
    ]
    off = 100 * (small["positives"] / small["score_sum"] - 1).abs()
    mean = off.groupby(level=by, dropna=False).mean().rename("median").reset_index()
    mean = mean.assign(metric="small_groups", n_seeds=evidence.n_seeds)
    found = pd.concat([found, mean], ignore_index=True)
    fixed = s.DATA["cells"]["fixed"][name]
    return found[
        found["alpha"].isna() | (found[[*fixed]] == pd.Series(fixed)).all(axis=1)
    ]


def over_alpha(trials: pd.DataFrame, column: str) -> pd.DataFrame:
    """Medians of a column for each base model, grouping, method and alpha (NaN: base
    model and ours).
    """
    chosen = trials[trials["method"].isin(METHODS)]
    found = medians(chosen, ["model", "groups", "method", "alpha"], {column: column})
    return found.rename(columns={"median": column}).drop(columns=["metric", "n_trials"])


def best_alphas(evidence: Evidence) -> pd.DataFrame:
    """The alpha of each method with the best median by every metric, with its median
    updates and seconds.

    The best alpha is chosen on the test sets, like the paper's "lowest loss on test".
    Among equals it is the largest alpha, which needs the fewest updates.
    """
    cube = TrialCube.of(evidence, evidence.models)
    rows = []
    for metric in METRICS:
        for method in (MC, PMC):
            place, there = cube.best(metric, method)
            for (m, g), alpha in np.ndenumerate(place):
                names = (
                    metric,
                    cube.models[m],
                    cube.groupings[g],
                    method,
                    ALPHAS[alpha],
                )
                rows.append((*names, *(values[m, g] for values in there.values())))
    panel = ["metric", "model", "groups", "method"]
    found = pd.DataFrame(
        rows, columns=[*panel, "alpha", "median", "n_updates", "fit_seconds"]
    )
    order = found["metric"].map([*METRICS].index).rename("order")
    found = found.set_index(order).dropna(subset=["median"])
    return found.sort_values(["order", *panel[1:]]).reset_index(drop=True)


def equivalent(trials: pd.DataFrame) -> pd.DataFrame:
    """The trials that aim at the same PMC, of both methods, of which neither stopped at
    its limit.
    """
    chosen = trials[
        trials["method"].isin((MC_FOR_PMC, PMC))
        & trials["alpha"].isin(EQUIVALENT_ALPHAS)
    ]
    keys = ["seed", "model", "groups", "alpha", "gamma", "rho"]
    pairs = chosen[chosen["converged"] == 1]
    return pairs[pairs.groupby(keys)["method"].transform("nunique") == 2]


def mean_costs(cube: TrialCube) -> dict[str, FloatArray]:
    """Mean sweeps, updates and seconds of both methods by base model and alpha, and the
    fits left out.

    Pairs of fits count if both have been run and neither stopped at its limit;
    "stopped" is the number of pairs in which one did.
    """
    where = [ALPHAS.index(alpha) for alpha in EQUIVALENT_ALPHAS]
    ended = [
        cube.of_method("converged", method)[:, :, :, where]
        for method in (MC_FOR_PMC, PMC)
    ]
    counts = (ended[0] == 1) & (ended[1] == 1)
    over = (0, 2, 4, 5)
    n = counts.sum(axis=over)
    there = ~np.isnan(ended[0] + ended[1])
    found: dict[str, FloatArray] = {"stopped": (there & ~counts).sum(axis=over)}
    for what, column in COSTS.items():
        for name, method in (("mc", MC_FOR_PMC), ("pmc", PMC)):
            values = cube.of_method(column, method)[:, :, :, where]
            total = np.sum(np.where(counts, values, 0.0), axis=over)
            found[f"{name}_{what}"] = np.divide(
                total, n, out=np.full(total.shape, np.nan), where=n > 0
            )
    return found


def updates_and_time(evidence: Evidence) -> pd.DataFrame:
    """Table 5: means for each base model and alpha, for MCBoost and PMCBoost, with
    their ratios.

    Returns
    -------
    frame
        model, alpha, n_seeds, stopped (pairs of fits left out), then for sweeps,
        updates and seconds those of MCBoost (mc_sweeps), of PMCBoost (pmc_sweeps) and
        their ratio (sweeps_ratio), and the published numbers with the prefix
        ``published_``.
    """
    by = ["model", "alpha"]
    costs = mean_costs(TrialCube.of(evidence, evidence.models))
    keys = pd.MultiIndex.from_product([evidence.models, EQUIVALENT_ALPHAS], names=by)
    means = pd.DataFrame({name: values.ravel() for name, values in costs.items()}, keys)
    seeds = (
        equivalent(evidence.trials)
        .groupby(by)["seed"]
        .nunique()
        .reindex(keys)
        .rename("n_seeds")
    )
    pairs = [
        f"published_{name}_{cost}" for cost in PRINTED_COSTS for name in ("mc", "pmc")
    ]
    printed = (
        pd.DataFrame(PUBLISHED["table_5"], columns=[*by, *pairs])
        .set_index(by)
        .reindex(keys)
    )
    found = (
        pd.concat([seeds, means, printed], axis=1)
        .dropna(subset="n_seeds")
        .astype({"n_seeds": int})
    )
    for prefix, names in (("", COSTS), ("published_", PRINTED_COSTS)):
        for name in names:
            fewer = found[f"{prefix}pmc_{name}"].replace(0, np.nan)
            found[f"{prefix}{name}_ratio"] = found[f"{prefix}mc_{name}"] / fewer
    return found.reset_index()


def convergence(trials: pd.DataFrame) -> pd.DataFrame:
    """Median updates to reach a PMC of alpha, for each base model, alpha, rho and
    method.
    """
    found = medians(
        equivalent(trials),
        ["model", "alpha", "rho", "method"],
        {"updates": "n_updates"},
    )
    return found.rename(columns={"median": "updates"}).drop(
        columns=["metric", "n_trials"]
    )


def wins_of_seeds(trials: pd.DataFrame, methods: Sequence[str] = THREE) -> pd.DataFrame:
    """The wins of each method and the number of comparisons, by interpretation, metric
    and seed.

    Only comparisons that include all methods count; equal best values share a win.
    """
    chosen = _at_every_setting(trials[trials["method"].isin([*methods])])
    parts = []
    for reading, keys in _TRIAL.items():
        for metric in METRICS:
            sign = -1 if metric in HIGHER_IS_BETTER else 1
            best = (
                (sign * chosen.set_index([*keys, "method"])[metric])
                .groupby(level=[*keys, "method"])
                .min()
            )
            table = best.unstack("method").reindex(columns=[*methods]).dropna()
            first = table.eq(table.min(axis=1), axis=0)
            shares = first.div(first.sum(axis=1), axis=0).assign(comparisons=1)
            found = shares.groupby(level="seed").sum().reset_index()
            parts.append(found.assign(reading=reading, metric=metric))
    return pd.concat(parts, ignore_index=True)


def wins(trials: pd.DataFrame, methods: Sequence[str] = THREE) -> pd.DataFrame:
    """Table 6: the share of comparisons that each method wins, for each interpretation
    and metric.

    Returns
    -------
    frame
        reading (the interpretation), metric, method, wins (ties shared), comparisons,
        percent, published (NaN if not).
    """
    by = ["reading", "metric"]
    printed = PUBLISHED["table_6"]
    total = wins_of_seeds(trials, methods).groupby(by)[[*methods, "comparisons"]].sum()
    rows = []
    for reading, metric in product(s.READINGS, printed):
        row = total.reindex([(reading, metric)], fill_value=0).iloc[0]
        n = int(row["comparisons"])
        published = printed[metric] if tuple(methods) == THREE else []
        for method, number in zip_longest(methods, published, fillvalue=np.nan):
            won = float(row[method])
            rows.append(
                (
                    reading,
                    metric,
                    method,
                    won,
                    n,
                    100 * won / n if n else np.nan,
                    float(number),
                )
            )
    return pd.DataFrame(
        rows, columns=[*by, "method", "wins", "comparisons", "percent", "published"]
    )


def _at_every_setting(trials: pd.DataFrame) -> pd.DataFrame:
    """The trials, with the base model and our method repeated for each setting of their
    grouping.
    """
    keys = ["seed", "model"]
    fixed = trials["method"].isin((BASE, OURS)) & trials["alpha"].isna()
    settings = trials.loc[~fixed, [*keys, *_SETTING]].drop_duplicates()
    columns = [*keys, "groups", "method", *METRICS]
    repeated = trials.loc[fixed, columns].merge(settings, on=[*keys, "groups"])
    return pd.concat(
        [trials.loc[~fixed, [*columns, *_SETTING[1:]]], repeated], ignore_index=True
    )


def accuracy(trials: pd.DataFrame) -> pd.DataFrame:
    """Medians of `ACCURACY` for each base model and method, with n_seeds."""
    chosen = trials[trials["method"].isin(METHODS)].groupby(["model", "method"])
    return (
        chosen[ACCURACY].median().assign(n_seeds=chosen["seed"].nunique()).reset_index()
    )


def base_on_both_sets(trials: pd.DataFrame) -> pd.DataFrame:
    """Median MC and PMC loss of the base models on fitting data and test sets: model,
    groups, four losses.
    """
    names = ["train_mc_loss", "mc_loss", "train_pmc_loss", "pmc_loss"]
    base = trials[trials["method"] == BASE]
    return base.groupby(["model", "groups"])[names].median().reset_index()


CONFIDENCE = 0.99
N_DRAWS = 1000
# From the caption of the published figure, which has no mark for 0.01 < p <= 0.05.
MARKS = ((1e-4, "****"), (1e-3, "***"), (1e-2, "**"), (1.0, "ns"))
LEGEND = "ns: p > 1e-2; **: 1e-3 < p <= 1e-2; ***: 1e-4 < p <= 1e-3; ****: p <= 1e-4"


def median_interval(
    values: ArrayLike, *, confidence: float = CONFIDENCE, n_draws: int = N_DRAWS
) -> tuple[float, float, float, int]:
    """The median of all values, its percentile bootstrap interval over seeds, and the
    number of seeds.

    The limits are NaN with a single seed.

    Parameters
    ----------
    values : array of shape (n_seeds,) or (n_seeds, n_settings)
        The settings of a seed share a split of the data, so they are resampled
        together; NaN is ignored.
    confidence : float
        The share of bootstrap medians within the interval.
    n_draws : int
        The number of bootstrap samples.

    Examples
    --------
    >>> median_interval([3.0, 1.0, 2.0])
    (2.0, 1.0, 3.0, 3)
    """
    table = np.asarray(values, dtype=np.float64)
    if len(table):
        table = table.reshape(len(table), -1)
    else:
        table = np.empty((0, 1))
    table = table[~np.isnan(table).all(axis=1)]
    n = len(table)
    if n == 0:
        return np.nan, np.nan, np.nan, 0
    if n == 1:
        return float(np.nanmedian(table)), np.nan, np.nan, 1
    drawn = np.random.default_rng(0).integers(n, size=(n_draws, n))
    # the first is much slower
    if np.isnan(table).any():
        several = np.nanmedian
    else:
        several = np.median
    medians = several(table[drawn].reshape(n_draws, -1), axis=1)
    low, high = np.quantile(medians, [(1 - confidence) / 2, (1 + confidence) / 2])
    return float(np.nanmedian(table)), float(low), float(high), n


def by_seed(trials: pd.DataFrame, column: str) -> Any:
    """One row for each seed with the values of its trials; missing ones are NaN."""
    place = trials.groupby("seed").cumcount()
    return (
        trials.assign(place=place)
        .pivot(index="seed", columns="place", values=column)
        .to_numpy()
    )


def signed_rank(a: ArrayLike, b: ArrayLike) -> float:
    """The p-value of the two-sided signed-rank test for pairs; 1 if no pair differs."""
    from scipy.stats import wilcoxon

    difference = np.asarray(a, dtype=np.float64) - np.asarray(b, dtype=np.float64)
    # pairs without a difference carry no information about its direction
    if difference.any():
        return float(wilcoxon(difference[difference != 0]).pvalue)
    return 1.0


def smallest_rank_sum(n: int) -> float:
    """The smallest p-value that a rank-sum test of n values against n values can give.

    >>> smallest_rank_sum(3)
    0.1
    """
    return min(1.0, 2 / comb(2 * n, n))


def mark(p: float) -> str:
    """The mark for a p-value in the published figure; none if there is no p-value."""
    return next((sign for most, sign in MARKS if p <= most), "")


TEST_COLUMNS = [
    *(
        "metric",
        "model",
        "method_a",
        "method_b",
        "n_seeds",
        "comparisons",
        "rank_sum_p",
    ),
    *(
        "rank_sum_corrected",
        "mark",
        "signed_rank_p",
        "signed_rank_corrected",
        "smallest_possible_corrected",
    ),
    *("trials_corrected", "trials_mark"),
]


def tests(trials: pd.DataFrame) -> pd.DataFrame:
    """Both tests for every pair of methods of a base model and every metric, with
    Bonferroni correction.

    A method's value for a seed is the median over its settings. The p-values of a
    metric are multiplied by the number of pairs compared; pairs with our method are
    counted separately from the published ones. `trials_mark` is the mark of the paper's
    notebook, which counts every setting of every seed as a case of its own, the base
    model's as often as there are settings.
    """
    from scipy.stats import mannwhitneyu

    def p_of(a: ArrayLike, b: ArrayLike) -> float:
        return float(
            mannwhitneyu(a, b, alternative="two-sided", nan_policy="omit").pvalue
        )

    each = dict([*_at_every_setting(trials).groupby(["model", "method"])])
    middle = (
        trials.groupby(["model", "method", "seed"])[[*METRICS]].median().reset_index()
    )
    rows: list[tuple[Any, ...]] = []
    for metric in METRICS:
        wide = middle.pivot(index=["model", "seed"], columns="method", values=metric)
        for family in ([*combinations(THREE, 2)], [(method, OURS) for method in THREE]):
            asked = product(
                wide.index.unique("model"),
                (pair for pair in family if {*pair} <= {*wide}),
            )
            pairs = {
                (model, *pair): wide.loc[model, [*pair]].dropna()
                for model, pair in asked
            }
            pairs = {names: both for names, both in pairs.items() if len(both)}
            for names, both in pairs.items():
                (model, *pair), (a, b) = names, both.to_numpy().T
                p = p_of(a, b)
                paired = signed_rank(a, b)
                least = smallest_rank_sum(len(a))
                cases = [
                    each[model, method][metric]
                    for method in pair
                    if (model, method) in each
                ]
                of_trials = p_of(*cases) if len(cases) == 2 else np.nan
                corrected = [
                    min(1.0, value * len(pairs))
                    for value in (p, paired, least, of_trials)
                ]
                tested = (
                    p,
                    corrected[0],
                    mark(corrected[0]),
                    paired,
                    *corrected[1:],
                    mark(corrected[3]),
                )
                rows.append((metric, *names, len(a), len(pairs), *tested))
    return pd.DataFrame(rows, columns=TEST_COLUMNS)


def too_few(found: pd.DataFrame) -> str:
    """A sentence if there are too few seeds for a significant result; otherwise an
    empty text.
    """
    if found.empty:
        return "There are no two methods to compare yet."
    hopeless = found["smallest_possible_corrected"] > MARKS[-2][0]
    if not hopeless.any():
        return ""
    fewest = int(found["n_seeds"].min())
    comparisons = int(found["comparisons"].max())
    which = "no test can" if hopeless.all() else "some tests cannot"
    known = {
        "seeds": plural(fewest, "seed"),
        "comparisons": comparisons,
        "which": which,
    }
    return str(s.toml_file("words.toml")["tests"]["few"]).format(**known)

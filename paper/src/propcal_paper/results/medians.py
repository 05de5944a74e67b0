"""The numbers behind Tables 4 and 5 and the figures, as frames, from trials."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product

import numpy as np
import pandas as pd

from propcal.building_blocks import FloatArray
from propcal_paper import settings as s
from propcal_paper.results.evidence import LOSSES, METRICS, Evidence
from propcal_paper.results.intervals import by_seed, median_interval
from propcal_paper.results.trial_arrays import TrialCube
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

METHODS = (BASE, MC, PMC, OURS)
TREATED = (MC, PMC, OURS)
PARAMETERS = ("alpha", "gamma", "rho", "min_share")
COSTS = {"sweeps": "n_sweeps", "updates": "n_updates", "seconds": "fit_seconds"}
# Table 5 prints iterations, which are sweeps, and seconds
PRINTED_COSTS = ("sweeps", "seconds")
ACCURACY = ["brier", "log_loss", "true_risk_rms"]


def in_order(
    evidence: Evidence, frame: pd.DataFrame, by: Sequence[str]
) -> pd.DataFrame:
    """The rows in the order of groupings, models and methods of the paper."""
    order = {
        "groups": list(evidence.grouping_names),
        "model": list(evidence.models),
        "method": list(METHODS),
    }

    def place(column: pd.Series) -> pd.Series:
        if column.name not in order:
            return column
        return column.map(order[str(column.name)].index)

    return frame.sort_values([*by], key=place, kind="stable")


def medians(
    trials: pd.DataFrame, by: Sequence[str], columns: Mapping[str, str]
) -> pd.DataFrame:
    """Medians of columns with 99 % intervals over seeds: by, metric, median, low, high,
    n_seeds, n_trials.
    """
    rows = []
    for values, part in trials.groupby([*by], sort=False, dropna=False):
        for name, column in columns.items():
            interval = median_interval(by_seed(part, column))
            rows.append((*values, name, *interval, len(part)))
    columns_of_interval = ["median", "low", "high", "n_seeds"]
    names = [*by, "metric", *columns_of_interval, "n_trials"]
    return pd.DataFrame(rows, columns=names)


def method_medians(trials: pd.DataFrame) -> pd.DataFrame:
    """The medians of AUROC and losses for each base model and method."""
    chosen = trials[trials["method"].isin(METHODS)]
    return medians(chosen, ["model", "method"], dict(zip(METRICS, METRICS)))


def percent_change(trials: pd.DataFrame, by: Sequence[str] = ()) -> pd.DataFrame:
    """Table 4: median percent changes from the base model of the same seed and
    grouping.

    Returns
    -------
    frame
        method, model, the columns of `by`, metric, change (percent), low, high (99 %
        interval), n_seeds, n_trials and published (NaN if the paper has none).
    """
    has_base = trials["base_auroc"].notna()
    changed = trials[trials["method"].isin(TREATED) & has_base].dropna(subset=[*by])
    names = {metric: f"{metric}_change" for metric in METRICS}
    for metric, name in names.items():
        base = changed[f"base_{metric}"].replace(0.0, np.nan)
        changed = changed.assign(**{name: 100 * (changed[metric] - base) / base})
    changes = medians(changed, ["method", "model", *by], names)

    whose = ["method", "model"]
    printed = pd.DataFrame(PUBLISHED["table_4"], columns=[*whose, *METRICS])
    printed = printed.melt(whose, var_name="metric", value_name="published")
    return changes.merge(printed, how="left").rename(columns={"median": "change"})


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
    whose = ["seed", "model", "groups"]
    trials = evidence.by(s.SIZES).trials
    of_base = trials["method"] == BASE
    base = trials[of_base].set_index(whose)["log_loss"].rename("base_log_loss")
    treated = trials[~of_base].join(base, on=whose)
    changes = {}
    for loss in LOSSES:
        changes[loss] = 100 * (treated[loss] / treated[f"base_{loss}"] - 1)
    for metric in ("auroc", "log_loss"):
        changes[metric] = 1e4 * (treated[metric] - treated[f"base_{metric}"])
    by = ["method", "model", *PARAMETERS]
    of_trials = medians(treated.assign(**changes), by, dict(zip(changes, changes)))

    found = pd.concat([of_trials, _small_groups(evidence, by)], ignore_index=True)
    fixed = s.DATA["cells"]["fixed"][name]
    same = (found[[*fixed]] == pd.Series(fixed)).all(axis=1)
    return found[same | found["alpha"].isna()]


def _small_groups(evidence: Evidence, by: list[str]) -> pd.DataFrame:
    """How far O/E ratios of small groups are from 1, in percent, on average."""
    each = evidence.group_sums.groupby([*by, "groups", "group_name"], dropna=False)
    total = each[["positives", "score_sum", "people", "n_test"]].sum()
    share = total["people"] / total["n_test"]
    small = total[share.between(*s.DATA["cells"]["small"])]
    off = 100 * (small["positives"] / small["score_sum"] - 1).abs()
    mean = off.groupby(level=by, dropna=False).mean().rename("median").reset_index()
    return mean.assign(metric="small_groups", n_seeds=evidence.n_seeds)


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
    panel = ["metric", "model", "groups", "method"]
    rows = []
    for metric, method in product(METRICS, (MC, PMC)):
        places, at_best = cube.best(metric, method)
        for place, alpha in np.ndenumerate(places):
            whose = (cube.models[place[0]], cube.groupings[place[1]], method)
            values = [medians_there[place] for medians_there in at_best.values()]
            rows.append((metric, *whose, ALPHAS[alpha], *values))
    columns = [*panel, "alpha", "median", "n_updates", "fit_seconds"]
    found = pd.DataFrame(rows, columns=columns).dropna(subset=["median"])

    def place_of(column: pd.Series) -> pd.Series:
        return column.map([*METRICS].index) if column.name == "metric" else column

    return found.sort_values(panel, key=place_of).reset_index(drop=True)


def equivalent(trials: pd.DataFrame) -> pd.DataFrame:
    """The trials that aim at the same PMC, of both methods, of which neither stopped at
    its limit.
    """
    compared = trials["method"].isin((MC_FOR_PMC, PMC))
    aimed = trials["alpha"].isin(EQUIVALENT_ALPHAS)
    converged = trials[compared & aimed & (trials["converged"] == 1)]
    keys = ["seed", "model", "groups", "alpha", "gamma", "rho"]
    n_methods = converged.groupby(keys)["method"].transform("nunique")
    return converged[n_methods == 2]


def mean_costs(cube: TrialCube) -> dict[str, FloatArray]:
    """Mean sweeps, updates and seconds of both methods by base model and alpha, and the
    fits left out.

    Pairs of fits count if both have been run and neither stopped at its limit;
    "stopped" is the number of pairs in which one did.
    """
    alphas = [ALPHAS.index(alpha) for alpha in EQUIVALENT_ALPHAS]
    all_but_model_and_alpha = (0, 2, 4, 5)

    def values(column: str, method: str) -> FloatArray:
        return cube.of_method(column, method)[:, :, :, alphas]

    mc_ended = values("converged", MC_FOR_PMC)
    pmc_ended = values("converged", PMC)
    counts = (mc_ended == 1) & (pmc_ended == 1)
    both_run = ~np.isnan(mc_ended + pmc_ended)
    stopped = (both_run & ~counts).sum(axis=all_but_model_and_alpha)
    n_pairs = counts.sum(axis=all_but_model_and_alpha)

    costs: dict[str, FloatArray] = {"stopped": stopped}
    for cost, column in COSTS.items():
        for name, method in (("mc", MC_FOR_PMC), ("pmc", PMC)):
            counted = np.where(counts, values(column, method), 0.0)
            total = np.sum(counted, axis=all_but_model_and_alpha)
            mean = np.full(total.shape, np.nan)
            costs[f"{name}_{cost}"] = np.divide(total, n_pairs, mean, where=n_pairs > 0)
    return costs


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
    keys = pd.MultiIndex.from_product([evidence.models, EQUIVALENT_ALPHAS], names=by)
    means = pd.DataFrame(index=keys)
    costs = mean_costs(TrialCube.of(evidence, evidence.models))
    for name, values in costs.items():
        means[name] = values.ravel()
    each = equivalent(evidence.trials).groupby(by)
    seeds = each["seed"].nunique().reindex(keys).rename("n_seeds")

    found = pd.concat([seeds, means, _published_costs(by).reindex(keys)], axis=1)
    found = found.dropna(subset="n_seeds").astype({"n_seeds": int})
    for prefix, names in (("", COSTS), ("published_", PRINTED_COSTS)):
        for name in names:
            fewer = found[f"{prefix}pmc_{name}"].replace(0, np.nan)
            found[f"{prefix}{name}_ratio"] = found[f"{prefix}mc_{name}"] / fewer
    return found.reset_index()


def _published_costs(by: list[str]) -> pd.DataFrame:
    """The published means of Table 5, by base model and alpha."""
    columns = []
    for cost in PRINTED_COSTS:
        columns += [f"published_mc_{cost}", f"published_pmc_{cost}"]
    printed = pd.DataFrame(PUBLISHED["table_5"], columns=[*by, *columns])
    return printed.set_index(by)


def convergence(trials: pd.DataFrame) -> pd.DataFrame:
    """Median updates to reach a PMC of alpha, for each base model, alpha, rho and
    method.
    """
    by = ["model", "alpha", "rho", "method"]
    found = medians(equivalent(trials), by, {"updates": "n_updates"})
    renamed = found.rename(columns={"median": "updates"})
    return renamed.drop(columns=["metric", "n_trials"])


def accuracy(trials: pd.DataFrame) -> pd.DataFrame:
    """Medians of `ACCURACY` for each base model and method, with n_seeds."""
    each = trials[trials["method"].isin(METHODS)].groupby(["model", "method"])
    middle = each[ACCURACY].median()
    return middle.assign(n_seeds=each["seed"].nunique()).reset_index()


def base_on_both_sets(trials: pd.DataFrame) -> pd.DataFrame:
    """Median MC and PMC loss of the base models on fitting data and test sets: model,
    groups, four losses.
    """
    losses = ["train_mc_loss", "mc_loss", "train_pmc_loss", "pmc_loss"]
    each = trials[trials["method"] == BASE].groupby(["model", "groups"])
    return each[losses].median().reset_index()

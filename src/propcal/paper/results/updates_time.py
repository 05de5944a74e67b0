"""Table 5: updates and seconds needed to reach the same PMC; also the numbers of the convergence figure."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from propcal.core.grid import FloatArray
from propcal.paper.experiment.settings import ALPHAS, EQUIVALENT_ALPHAS, MC, MC_FOR_PMC, PMC
from propcal.paper.published import UPDATES_AND_TIME
from propcal.paper.results.evidence import Evidence
from propcal.paper.results.seed_intervals import by_seed, median_interval
from propcal.paper.results.trial_cube import TrialCube

READING = (
    "MCBoost is run at alpha * rho, which reaches a PMC of alpha, as PMCBoost does at alpha. Mean updates "
    "and seconds of a fit over seeds, groupings, gamma and rho. The paper has no DNN here."
)


MEANS = ("mc_updates", "pmc_updates", "mc_seconds", "pmc_seconds")


def equivalent(trials: pd.DataFrame) -> pd.DataFrame:
    """The trials that aim at the same PMC and have been run with both methods."""
    wanted = trials["method"].isin((MC_FOR_PMC, PMC)) & trials["alpha"].isin(EQUIVALENT_ALPHAS)
    chosen = trials[wanted]
    keys = ["seed", "model", "groups", "alpha", "gamma", "rho"]
    both = chosen.groupby(keys)["method"].transform("nunique") == 2
    return chosen[both]


def means(cube: TrialCube) -> dict[str, FloatArray]:
    """Mean updates and seconds of both methods by base model and alpha, of the trials that both have run."""
    where = [ALPHAS.index(alpha) for alpha in EQUIVALENT_ALPHAS]
    found = {}
    for what, column in (("updates", "n_updates"), ("seconds", "fit_seconds")):
        both = [cube.of_method(column, method)[:, :, :, where] for method in (MC_FOR_PMC, PMC)]
        alone = np.isnan(both[0]) | np.isnan(both[1])
        n = np.sum(~alone, axis=(0, 2, 4, 5))
        for name, values in zip(("mc", "pmc"), both):
            total = np.sum(np.where(alone, 0.0, values), axis=(0, 2, 4, 5))
            found[f"{name}_{what}"] = np.divide(total, n, out=np.full(total.shape, np.nan), where=n > 0)
    return found


def updates_and_time(evidence: Evidence) -> pd.DataFrame:
    """Means for each base model and alpha, for MCBoost and PMCBoost, with their ratios.

    Returns
    -------
    frame
        model, alpha, n_seeds, mc_updates, pmc_updates, updates_ratio, mc_seconds, pmc_seconds,
        seconds_ratio, and the published numbers with the prefix ``published_``.
    """
    trials = evidence.trials
    found = means(TrialCube.of(trials, evidence.models, evidence.grouping_names))
    seeds = equivalent(trials).groupby(["model", "alpha"])["seed"].nunique()
    rows = []
    for m, model in enumerate(evidence.models):
        for a, alpha in enumerate(EQUIVALENT_ALPHAS):
            own = {name: float(values[m, a]) for name, values in found.items()}
            if np.isnan(own["mc_updates"]):
                continue
            printed: list[tuple[float, float]] = [
                UPDATES_AND_TIME.get((model, alpha, method), (np.nan, np.nan)) for method in (MC, PMC)
            ]
            row: dict[str, Any] = {"model": model, "alpha": alpha, "n_seeds": int(seeds[model, alpha])}
            row |= _with_ratios("", *(own[name] for name in MEANS))
            row |= _with_ratios("published_", printed[0][0], printed[1][0], printed[0][1], printed[1][1])
            rows.append(row)
    names = [*_with_ratios("", 1, 1, 1, 1)]
    columns = ["model", "alpha", "n_seeds", *names, *(f"published_{name}" for name in names)]
    return pd.DataFrame(rows, columns=columns)


def _with_ratios(
    prefix: str, mc_updates: float, pmc_updates: float, mc_seconds: float, pmc_seconds: float
) -> dict[str, float]:
    return {
        f"{prefix}mc_updates": mc_updates,
        f"{prefix}pmc_updates": pmc_updates,
        f"{prefix}updates_ratio": mc_updates / pmc_updates if pmc_updates else np.nan,
        f"{prefix}mc_seconds": mc_seconds,
        f"{prefix}pmc_seconds": pmc_seconds,
        f"{prefix}seconds_ratio": mc_seconds / pmc_seconds if pmc_seconds else np.nan,
    }


def convergence(trials: pd.DataFrame) -> pd.DataFrame:
    """Median updates to reach a PMC of alpha, for each base model, alpha, rho and method."""
    names = ["model", "alpha", "rho", "method"]
    rows = []
    for values, part in equivalent(trials).groupby(names, sort=False):
        found = median_interval(by_seed(part, "n_updates"))
        rows.append(
            dict(zip(names, values))
            | {"updates": found.median, "low": found.low, "high": found.high, "n_seeds": found.n_seeds}
        )
    return pd.DataFrame(rows, columns=[*names, "updates", "low", "high", "n_seeds"])

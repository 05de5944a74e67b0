"""Metrics and updates by alpha, and the alpha at which each method is best."""

from __future__ import annotations

import numpy as np
import pandas as pd

from propcal.paper.experiment.settings import ALPHAS, BASE, MC, OURS, PMC
from propcal.paper.results.evidence import METRICS, Evidence
from propcal.paper.results.seed_intervals import by_seed, median_interval
from propcal.paper.results.trial_cube import TrialCube

PANEL = ["model", "groups"]
READING = "Medians over seeds, gamma and rho. The base model and our method do not use the alphas of Table 3."


def over_alpha(trials: pd.DataFrame, column: str) -> pd.DataFrame:
    """Medians of a column for each base model, grouping, method and alpha (NaN: base model and ours)."""
    chosen = trials[trials["method"].isin((BASE, MC, PMC, OURS))]
    names = [*PANEL, "method", "alpha"]
    rows = []
    for values, part in chosen.groupby(names, sort=False, dropna=False):
        found = median_interval(by_seed(part, column))
        rows.append(
            dict(zip(names, values))
            | {column: found.median, "low": found.low, "high": found.high, "n_seeds": found.n_seeds}
        )
    return pd.DataFrame(rows, columns=[*names, column, "low", "high", "n_seeds"])


def best_alpha(evidence: Evidence, metric: str) -> pd.DataFrame:
    """The alpha with the best median for each panel and method, with its median updates and seconds.

    The best alpha is chosen on the test sets, like the paper's "lowest loss on test". Among equals it is the
    largest alpha, which needs the fewest updates.
    """
    cube = TrialCube.of(evidence.trials, evidence.models, evidence.grouping_names)
    rows = []
    for method in (MC, PMC):
        place, there = cube.best(metric, method)
        for m, model in enumerate(cube.models):
            for g, groups in enumerate(cube.groupings):
                row = {name: values[m, g] for name, values in there.items()}
                if not np.isnan(row[metric]):
                    rows.append(
                        {
                            "model": model,
                            "groups": groups,
                            "method": method,
                            "alpha": ALPHAS[place[m, g]],
                            **row,
                        }
                    )
    columns = [*PANEL, "method", "alpha", metric, "n_updates", "fit_seconds"]
    return pd.DataFrame(rows, columns=columns).sort_values([*PANEL, "method"]).reset_index(drop=True)


def best_alphas(evidence: Evidence) -> pd.DataFrame:
    """`best_alpha` for every metric in one frame."""
    parts = [
        best_alpha(evidence, metric).rename(columns={metric: "median"}).assign(metric=metric)
        for metric in METRICS
    ]
    columns = ["metric", *PANEL, "method", "alpha", "median", "n_updates", "fit_seconds"]
    return pd.concat(parts, ignore_index=True)[columns]

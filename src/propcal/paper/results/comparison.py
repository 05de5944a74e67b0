"""The four-panel comparison: each method's median by every metric, with its interval."""

from __future__ import annotations

import pandas as pd

from propcal.paper.admissions.settings import BASE, MC, OURS, PMC
from propcal.paper.results.evidence import METRICS
from propcal.paper.results.seed_intervals import by_seed, median_interval

METHODS = (BASE, MC, PMC, OURS)
READING = (
    "Medians over all of a method's settings and seeds. Tests compare the seeds' medians over settings, "
    "every pair of methods of a base model: two-sided rank-sum, p values multiplied by the number of pairs "
    "in the panel (Bonferroni), as published; the signed-rank test, paired by seed, is in the CSV. Test "
    "sets of different seeds overlap, so p values are smaller than new patients would give."
)


def method_medians(trials: pd.DataFrame) -> pd.DataFrame:
    """Medians for each base model, method and metric.

    Returns
    -------
    frame
        model, method, metric, median, low, high, n_seeds, n_trials.
    """
    rows = []
    names = ["model", "method"]
    for values, part in trials[trials["method"].isin(METHODS)].groupby(names, sort=False):
        for metric in METRICS:
            found = median_interval(by_seed(part, metric))
            rows.append(
                dict(zip(names, values))
                | {"metric": metric, "median": found.median, "low": found.low, "high": found.high}
                | {"n_seeds": found.n_seeds, "n_trials": len(part)}
            )
    return pd.DataFrame(rows)

"""The numbers of the four-panel comparison: each method's median and interval for every metric."""

from __future__ import annotations

import pandas as pd

from propcal.paper.experiment.settings import BASE, MC, OURS, PMC
from propcal.paper.results.evidence import METRICS
from propcal.paper.results.seed_intervals import by_seed, median_interval

METHODS = (BASE, MC, PMC, OURS)
READING = (
    "Medians over all of a method's settings and seeds. For every pair of base model, MCBoost and PMCBoost, "
    "a two-sided rank-sum test compares the seeds' medians over settings; p-values are multiplied by the "
    "number of pairs in the panel (Bonferroni), as in the paper. The signed-rank test, paired by seed, is "
    "in the CSV. Test sets of different seeds overlap, so p-values are smaller than they would be with new "
    "patients."
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

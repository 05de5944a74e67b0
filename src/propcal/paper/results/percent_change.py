"""Table 4: the percent change in AUROC and losses through post-processing."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from propcal.paper.experiment.settings import MC, OURS, PMC
from propcal.paper.published import PERCENT_CHANGE
from propcal.paper.results.evidence import METRICS
from propcal.paper.results.seed_intervals import by_seed, median_interval

READING = (
    "Each trial is compared with the base model of the same seed and grouping. The number is the median "
    "percent change over all of a method's settings (alpha, gamma, rho, groupings) and seeds. The paper "
    "does not say over which settings it takes the median. No setting is selected by its test loss."
)


def trial_changes(trials: pd.DataFrame) -> pd.DataFrame:
    """The percent change of every metric for each post-processed trial whose base model is in the store."""
    treated = trials[trials["method"].isin((MC, PMC, OURS)) & trials["base_auroc"].notna()]
    before = {
        metric: treated[f"base_{metric}"].replace(0.0, np.nan) for metric in METRICS
    }  # not divided by 0
    return treated.assign(**{f"{m}_change": 100 * (treated[m] - before[m]) / before[m] for m in METRICS})


def percent_change(trials: pd.DataFrame, by: Sequence[str] = ()) -> pd.DataFrame:
    """Median percent changes, one row for each method, base model and metric; `by` splits further.

    Returns
    -------
    frame
        method, model, the columns of `by`, metric, change (percent), low, high (99 % interval), n_seeds,
        n_trials and published (NaN if the paper has none).
    """
    names = ["method", "model", *by]
    rows = []
    for values, part in trial_changes(trials).groupby(names, sort=False):
        for place, metric in enumerate(METRICS):
            found = median_interval(by_seed(part, f"{metric}_change"))
            printed = PERCENT_CHANGE.get((str(values[0]), str(values[1])))
            rows.append(
                dict(zip(names, values))
                | {"metric": metric, "change": found.median, "low": found.low, "high": found.high}
                | {"n_seeds": found.n_seeds, "n_trials": len(part)}
                | {"published": printed[place] if printed else np.nan}
            )
    columns = [*names, "metric", "change", "low", "high", "n_seeds", "n_trials", "published"]
    return pd.DataFrame(rows, columns=columns)

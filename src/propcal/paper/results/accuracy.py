"""Brier score, log loss and error against the true risk, if known (not in the paper)."""

from __future__ import annotations

import pandas as pd

from propcal.auditing.measure_names import MEASURE_NAMES
from propcal.paper.experiment.settings import BASE
from propcal.paper.results.comparison import METHODS

COLUMNS = {name: MEASURE_NAMES[name].symbol for name in ("brier", "log_loss")} | {
    "true_risk_rms": "error against true risk"
}
READING = (
    "Medians over all of a method's settings and seeds, on the test sets; lower is better. The root mean "
    "square error against the true risk is known only for simulated visits."
)


def accuracy(trials: pd.DataFrame) -> pd.DataFrame:
    """Medians for each base model and method.

    Returns
    -------
    frame
        model, method, n_seeds, and each of `COLUMNS`.
    """
    chosen = trials[trials["method"].isin(METHODS)]
    numbers = chosen.astype(dict.fromkeys(COLUMNS, float))
    found = numbers.groupby(["model", "method"])[[*COLUMNS]].median()
    return found.assign(n_seeds=chosen.groupby(["model", "method"])["seed"].nunique()).reset_index()


TRAINING_READING = (
    "The losses of the base models themselves, by our fixed rule. If they are much lower on the fitting "
    "data, post-processing learns errors that differ from those in new data. The fitting data have "
    "more rows than the test set, so that their losses are somewhat lower by chance alone."
)


def base_on_both_sets(trials: pd.DataFrame) -> pd.DataFrame:
    """Median MC and PMC loss of the base models on fitting data and test sets: model, groups, four losses."""
    names = ["train_mc_loss", "mc_loss", "train_pmc_loss", "pmc_loss"]
    base = trials[trials["method"] == BASE].astype(dict.fromkeys(names, float))
    return base.groupby(["model", "groups"])[names].median().reset_index()

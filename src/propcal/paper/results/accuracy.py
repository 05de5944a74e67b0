"""Brier score, log loss, and the distance to the true risk where it is known: not in the paper."""

from __future__ import annotations

import pandas as pd

from propcal.auditing.measure_names import MEASURE_NAMES
from propcal.paper.admissions.settings import BASE
from propcal.paper.results.comparison import METHODS

COLUMNS = {name: MEASURE_NAMES[name].symbol for name in ("brier", "log_loss")} | {
    "true_risk_rms": "error against true risk"
}
READING = (
    "Medians over all of a method's settings and seeds, on the test sets; lower is better. The error "
    "against the true risk, a root mean square, is known for generated visits only."
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
    "The base models' own losses, by the rule that judges all trials: where they are much lower on the "
    "training set, post-processing, which is fitted there, sees other errors than new visits have. A "
    "training set has three times the visits, so chance alone makes its losses somewhat lower."
)


def base_on_both_sets(trials: pd.DataFrame) -> pd.DataFrame:
    """Median MC and PMC loss of the base models on training and test sets: model, groups, four losses."""
    names = ["train_mc_loss", "mc_loss", "train_pmc_loss", "pmc_loss"]
    base = trials[trials["method"] == BASE].astype(dict.fromkeys(names, float))
    return base.groupby(["model", "groups"])[names].median().reset_index()

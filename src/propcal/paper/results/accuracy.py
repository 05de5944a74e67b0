"""Brier score, log loss, and the distance to the true risk where it is known: not in the paper."""

from __future__ import annotations

import pandas as pd

from propcal.paper.results.comparison import METHODS

COLUMNS = {"brier": "Brier", "log_loss": "log loss", "true_risk_rms": "error against true risk"}
READING = (
    "Medians over all of a method's settings and seeds, on the test sets; lower is better. The error "
    "against the true risk, a root mean square, is known for generated visits only."
)


def accuracy(trials: pd.DataFrame) -> pd.DataFrame:
    """Medians for each base model and method, in one frame.

    Returns
    -------
    frame
        model, method, n_seeds, and each of `COLUMNS`.
    """
    chosen = trials[trials["method"].isin(METHODS)]
    numbers = chosen.astype(dict.fromkeys(COLUMNS, float))
    found = numbers.groupby(["model", "method"])[[*COLUMNS]].median()
    return found.assign(n_seeds=chosen.groupby(["model", "method"])["seed"].nunique()).reset_index()

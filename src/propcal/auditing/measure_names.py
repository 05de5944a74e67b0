"""What the measures are called: one table for the terminal, the notebook, the page and the paper."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class MeasureName:
    """A measure in words.

    Attributes
    ----------
    key : str
        As in tables and files.
    symbol : str
        In the first column of a narrow table.
    name : str
        In sentences and in tables of the terminal.
    page_name : str
        On the page, which also says what it means.
    digits : int
        After the point, in tables of measures.
    """

    key: str
    symbol: str
    name: str
    page_name: str
    digits: int = 3


_NAMES = (
    MeasureName("mc", "MC", "MC loss", "MC loss: largest gap of a category"),
    MeasureName("pmc", "PMC", "PMC loss", "PMC loss: largest gap as a share of the rate"),
    MeasureName("dc", "DC", "DC loss", "DC loss: largest log-ratio of two groups' rates"),
    MeasureName("mc_mean_square", "MC", "MC, mean square without noise", "mean squared gap, noise taken off"),
    MeasureName(
        "pmc_mean_square", "PMC", "PMC, mean square without noise", "mean squared share, noise taken off"
    ),
    MeasureName("observed_expected", "O/E", "observed / expected", "outcomes for each one expected"),
    MeasureName("brier", "Brier", "Brier score", "Brier score"),
    MeasureName("log_loss", "log loss", "log loss", "log loss"),
    MeasureName("auroc", "AUROC", "AUROC", "AUROC"),
)
MEASURE_NAMES = {measure.key: measure for measure in _NAMES}
LOSSES = ("mc", "pmc", "dc")

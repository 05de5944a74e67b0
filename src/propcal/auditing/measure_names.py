"""What the measures are called, and their digits: one table for terminal, notebook, page and plots."""

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
        In sentences and tables.
    meaning : str
        What it measures, where there is room to say it.
    digits : int
        After the point, wherever the measure is printed.
    """

    key: str
    symbol: str
    name: str
    meaning: str = ""
    digits: int = 3

    def shown(self, value: float) -> float:
        """The value as it is printed: an estimate of a mean square may fall below 0, which is shown as 0."""
        return max(value, 0.0) if self.key.endswith("_mean_square") and value == value else value


_NAMES = (
    MeasureName("mc", "MC", "MC loss", "largest gap between observed and predicted rate of a cell"),
    MeasureName("pmc", "PMC", "PMC loss", "largest gap of a cell as a share of its observed rate"),
    MeasureName("dc", "DC", "DC loss", "largest log-ratio of the observed rates of two groups"),
    MeasureName(
        "mc_mean_square", "MC", "mean squared gap", "over all cells, without what chance adds", digits=4
    ),
    MeasureName(
        "pmc_mean_square",
        "PMC",
        "mean squared relative gap",
        "over all cells, without what chance adds",
        digits=4,
    ),
    MeasureName("observed_expected", "O/E", "O/E ratio", "observed over expected events", digits=2),
    MeasureName("intercept", "intercept", "calibration intercept", digits=2),
    MeasureName("slope", "slope", "calibration slope", digits=2),
    MeasureName("brier", "Brier", "Brier score"),
    MeasureName("log_loss", "log loss", "log loss"),
    MeasureName("auroc", "AUROC", "AUROC", digits=3),
)
MEASURE_NAMES = {measure.key: measure for measure in _NAMES}
LOSSES = ("mc", "pmc", "dc")

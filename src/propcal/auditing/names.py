"""What findings and measures are called, in terminal, notebook, pages and plots."""

from __future__ import annotations

from dataclasses import dataclass

from propcal.core.criterion import CRITERIA, MEAN_SQUARES, MEANINGS

TYPICAL = "over all cells, without what chance adds"
LOSSES = (*CRITERIA, "dc")
# conclusions on the score as a whole
MISCALIBRATED = "miscalibrated"
NONE_FOUND = "no miscalibration found"
# and then a number of percent
SHOWN = "shown to be within"
NOT_SHOWN = "not shown to be within"
# Both of the score and of a group or a cell.
NOT_ENOUGH = "not enough data"
UNTESTED = "not tested"
# Findings on a group or a cell; the last one on groups that are listed without a test.
TOO_LOW = "too low"
TOO_HIGH = "too high"
CHANCE = "could be chance"
LEFT_OUT = "shown but not tested"
WRONG = (TOO_HIGH, TOO_LOW)
# The O/E ratio of a group in comparison with the others; also said of a Brier score.
HIGHER = "higher"
LOWER = "lower"
AS_COMPARED = {TOO_LOW: HIGHER, TOO_HIGH: LOWER}


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
    reading : str
        How to read it in a word or two. Measures that have one are key figures of a
        page.
    of_groups : bool
        Whether the table of groups has a column for it.
    in_terminal : bool
        Whether that column is in the terminal, too, which has room for few.
    """

    key: str
    symbol: str
    name: str
    meaning: str = ""
    digits: int = 3
    reading: str = ""
    of_groups: bool = False
    in_terminal: bool = False

    def shown(self, value: float) -> float:
        """The value as it is printed: an estimate of a mean square may fall below 0,
        which is shown as 0.
        """
        if self.key.endswith("_mean_square") and value == value:
            return max(value, 0.0)
        return value


_LOSSES = [
    MeasureName(key, key.upper(), f"{key.upper()} loss", text)
    for key, text in MEANINGS.items()
]
_MEAN_SQUARES = [
    MeasureName(f"{key}_mean_square", key.upper(), name, TYPICAL, 4)
    for key, name in MEAN_SQUARES.items()
]
_NAMES = (
    *_LOSSES,
    MeasureName(
        "dc", "DC", "DC loss", "largest log-ratio of the observed rates of two groups"
    ),
    *_MEAN_SQUARES,
    MeasureName(
        "observed_expected",
        "O/E",
        "O/E ratio",
        "observed over expected events",
        digits=2,
        reading="1 is right on average",
    ),
    MeasureName("intercept", "intercept", "calibration intercept", digits=2),
    MeasureName(
        "slope",
        "slope",
        "calibration slope",
        digits=2,
        reading="below 1: too extreme",
    ),
    MeasureName(
        "auroc", "AUROC", "AUROC", reading="0.5 is chance, 1 is perfect", of_groups=True
    ),
    MeasureName("brier", "Brier", "Brier score", reading="lower is better"),
    MeasureName("log_loss", "log loss", "log loss"),
)
MEASURE_NAMES = {measure.key: measure for measure in _NAMES}

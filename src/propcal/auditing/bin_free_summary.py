"""What measures without bins say, in a sentence and a table: a part of an audit that is made if asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pandas as pd

from propcal.auditing.hypothesis_tests import SIGNIFICANCE
from propcal.numbers import IN_SENTENCE, p_equals

SHOWN = ["label", "measure", "value", "chance_95", "adjusted_p", "low", "high", "direction"]


@dataclass(frozen=True, eq=False)
class BinFree:
    """Measures of calibration that need no bins, of everybody and of each group tested.

    Attributes
    ----------
    sentence : str
        Whether any of them is more than chance explains, and where.
    table : DataFrame
        As `bin_free_measures` returns it, with the `label` of each group; empty if nothing was tested.
    """

    sentence: str
    table: pd.DataFrame

    def to_frame(self) -> pd.DataFrame:
        """The table."""
        return self.table.copy()

    def of(self, measure: str) -> pd.DataFrame:
        """The rows of one measure ("ecce", "smooth_ece" or "mce"), by group."""
        return self.table[self.table["measure"] == measure].set_index("group")

    def __repr__(self) -> str:
        if self.table.empty:
            return self.sentence
        shown = self.table[SHOWN].round(3).to_string(index=False, na_rep="-")
        return f"{self.sentence}\n\n{shown}"


def bin_free_summary(table: pd.DataFrame | None, labels: dict[str, str], untested: str) -> BinFree:
    """Put the measures into words; `untested` says why there are none, where the audit has no tests."""
    if table is None:
        why = untested or "there are not enough data to judge anybody"
        return BinFree(f"No measures without bins: {why}.", pd.DataFrame(columns=["group", "measure"]))
    named = table.assign(label=[labels.get(name, name) for name in table["group"]])
    return BinFree(_sentence(named), named)


def _sentence(table: pd.DataFrame) -> str:
    ecce, smooth = (table[table["measure"] == name] for name in ("ecce", "smooth_ece"))
    worst = ecce.iloc[int(ecce["sigma"].argmax())]
    found = f"{worst['label']}, predicted risk {_range(worst)}"
    against = f"cumulative error {_against_chance(worst)}"
    if worst["adjusted_p"] <= SIGNIFICANCE:
        return (
            f"Without bins, the clearest error is for {found}: the score is {worst['direction']} ({against})."
        )
    lowest = smooth.iloc[int(smooth["adjusted_p"].argmin())]
    if lowest["adjusted_p"] <= SIGNIFICANCE:
        return (
            f"Without bins, the clearest error is for {lowest['label']} "
            f"(smooth calibration error {_against_chance(lowest)})."
        )
    return f"Without bins, no error is more than chance explains. The largest is for {found} ({against})."


def _against_chance(row: Any) -> str:
    value, chance = (IN_SENTENCE.decimal(row[name], 4) for name in ("value", "chance_95"))
    return f"{value}, in 95 % of perfect scores up to {chance}; adjusted {p_equals(row['adjusted_p'])}"


def _range(row: Any) -> str:
    low, high = IN_SENTENCE.percent(row["low"]), IN_SENTENCE.percent(row["high"])
    return low if low == high else f"{low} to {high}"

"""Cells and losses of an audit, from the counts that are shown."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from propcal.auditing.audit_tables import categories_table
from propcal.auditing.findings import Findings
from propcal.auditing.loss_intervals import loss_places, loss_values, losses
from propcal.auditing.names import CHANCE, LOSSES, TOO_HIGH, TOO_LOW
from propcal.auditing.statistics.chance import Chance
from propcal.core.categories import Categories
from propcal.core.grid import BoolArray, FloatArray, IntArray
from propcal.numbers import Limit
from propcal.protect.disclosure_rule import P_DIGITS, VARIANCE
from propcal.protect.shown_counts import CURVE_DIGITS, ShownCounts, shown_table

# columns of cells that follow from their counts
MADE_OF_COUNTS = ("rate_low", "rate_high", "proportional_gap", "cutoff")


class ShownCells:
    """The cells of an audit with the counts that are shown; cells without have no
    numbers.

    Findings, the cells that are named, and what chance would show are the audit's.
    """

    def __init__(self, exact: Findings, shown: ShownCounts, first: int) -> None:
        """`first` is the place of the first cell among the sets that are shown."""
        self.exact = exact
        self.shown = shown
        self.places = first + _cells_of_rows(exact)
        self.table = self._table()
        self.noise = self._noise()

    def _table(self) -> Categories:
        """The counts of cells, as they are shown."""
        known = self.shown.known[self.places]
        shown_people = self.shown.people[self.places]
        people = np.where(known, shown_people, np.nan)
        shown_events = self.shown.events[self.places]
        events = np.where(known, shown_events, np.nan)
        mean = self.shown.mean[self.places]
        with np.errstate(invalid="ignore", divide="ignore"):
            gap = events / people - mean
        sums: Any = {
            "weight": people,
            "positives": events,
            "score_sum": mean * people,
            "gap": gap,
        }
        return replace(self.exact.table, **sums)

    def _noise(self) -> Chance:
        """How well cells are known: moved counts make a cell worth fewer independent
        people.
        """
        exact = self.exact
        people = self.table.weight
        mean_variance = self.shown.mean_variance[self.places]
        with np.errstate(invalid="ignore", divide="ignore"):
            rate = self.table.positives / people
            exact_effect = exact.table.people / exact.noise.effective
            effect = np.round(exact_effect, 1)
            of_moves = VARIANCE * (1 + rate**2) / people
            added = of_moves + mean_variance * people
            share_added = added / (rate * (1 - rate))
            at_least = np.maximum(effect, 0.1)
            effective = people / (at_least + share_added)
        no_rates = exact.noise.rates[:0]
        return replace(exact.noise, effective=effective, rates=no_rates)

    def categories(self) -> pd.DataFrame:
        """The table of cells: numbers by the code of the audit, findings are the
        audit's.
        """
        findings = self.exact
        exact = findings.shown.categories
        cells = categories_table(
            self.table, self.noise, findings.rule, findings.min_share, any_error=False
        )
        low = cells["low"].to_numpy().round(CURVE_DIGITS)
        high = cells["high"].to_numpy().round(CURVE_DIGITS)
        agree = _agree_with_findings(exact["finding"], low, high)
        columns: dict[str, Any] = {
            name: cells[name].to_numpy() for name in MADE_OF_COUNTS
        }
        columns["low"] = np.where(agree, low, np.nan)
        columns["high"] = np.where(agree, high, np.nan)
        detectable_gap = exact["detectable_gap"].to_numpy()
        columns["detectable_gap"] = detectable_gap.round(CURVE_DIGITS)

        rates = cells["outcome_rate"].tolist()
        gaps = cells["gap"].tolist()
        places = self.places[findings.table.people > 0]
        small = self.shown.small[:, places].any(axis=0)
        for row in np.flatnonzero(small).tolist():
            place = places[row]
            finding = exact["finding"].iloc[row]
            rate, _ = self.shown.limits_at(place, finding)
            rates[row] = rate
            gaps[row] = np.nan
            if isinstance(rate, Limit):
                gap = rate - self.shown.mean[place]
                gaps[row] = Limit(gap, rate.side)
        return shown_table(
            exact, self.shown, places, outcome_rate=rates, gap=gaps, **columns
        )

    def losses(self) -> pd.DataFrame:
        """The losses of the audit, each from the shown counts of its cells; no number
        if these are hidden.

        What chance would show is the audit's, and so is the cell that is named. An
        interval is over all cells; without the hidden ones it has no upper end.
        """
        exact = self.exact.table
        rho = self.exact.rule.rho
        measured = np.isfinite(self.table.gap)
        known = measured & (exact.people > 0)
        value = self._loss_values(known)

        eligible = exact.eligible & known
        table = replace(self.table, eligible=eligible)
        intervals = losses(table, self.noise, rho)
        low = intervals["low"].to_numpy()
        high = intervals["high"].to_numpy()
        if (exact.eligible & ~known).any():
            high = np.full(len(LOSSES), np.nan)
        hidden = np.isnan(value)
        low = np.where(hidden, np.nan, low)
        high = np.where(hidden, np.nan, high)
        shown = self.exact.shown.losses.assign(value=value, low=low, high=high)
        return shown.round(P_DIGITS)

    def _loss_values(self, known: BoolArray) -> FloatArray:
        """Each loss at the cells that set it in the audit; NaN if one of these is
        hidden.
        """
        rho = self.exact.rule.rho
        values = np.full(len(LOSSES), np.nan)
        for name, places in loss_places(self.exact.table, rho).items():
            chosen = np.zeros(known.shape, dtype=np.bool_)
            chosen.flat[list(places)] = True
            if places and known[chosen].all():
                rate = self.table.outcome_rate
                mean_score = self.table.mean_score
                i = LOSSES.index(name)
                values[i] = loss_values(rate, mean_score, chosen, rho)[i]
        return values


def _cells_of_rows(exact: Findings) -> IntArray:
    """For each cell of the audit's table, its place among the cells of all groups."""
    counts = exact.counts
    row_of = {group: row for row, group in enumerate(counts.groups)}
    groups = exact.table.collection.groups
    rows = np.array([row_of[group] for group in groups], dtype=np.int64)
    n_ranges = len(counts.bins)
    first_cell = rows[:, None] * n_ranges
    return np.asarray(first_cell + np.arange(n_ranges))


def _agree_with_findings(
    finding: pd.Series, low: FloatArray, high: FloatArray
) -> BoolArray:
    """Whether the limits of each gap say of 0 what the finding of the cell says."""
    too_low = finding == TOO_LOW
    too_high = finding == TOO_HIGH
    by_chance = finding == CHANCE
    cases = [too_low, too_high, by_chance]
    includes_zero = (low <= 0) & (high >= 0)
    agree = [low > 0, high < 0, includes_zero]
    return np.select(cases, agree, True).astype(bool)

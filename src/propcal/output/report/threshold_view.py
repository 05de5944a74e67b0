"""At your threshold: what acting on the score comes to in every group, as a table that a slider moves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from propcal.auditing.audit import Audit
from propcal.auditing.audit_tables import row_dicts
from propcal.numbers import ON_PAGE, known


@dataclass(frozen=True)
class ThresholdRow:
    """A group at a threshold; each cell has a number and its interval."""

    group: str
    name: str
    cells: list[tuple[str, str]]


@dataclass(frozen=True)
class ThresholdTable:
    """All groups at one threshold."""

    threshold: float
    label: str
    rows: list[ThresholdRow]


@dataclass(frozen=True)
class ThresholdView:
    """The tables of the user's thresholds, or of the overall rate if there are none."""

    tables: list[ThresholdTable]
    chosen: bool
    slider: int


COLUMNS = ("flagged", "sensitivity", "specificity", "ppv", "net_benefit", "avoided")


def threshold_view(audit: Audit) -> ThresholdView | None:
    """None if no group has enough people for these numbers."""
    if not len(audit.net_benefit):
        return None
    given = audit.settings["thresholds"]
    rate = audit.groups["outcome_rate"].iloc[0]
    usual = float(np.clip(round(100 * float(rate)), 1, 99)) / 100 if known(rate) else 0.5
    thresholds = given or [usual]
    table = audit.at_threshold(*thresholds)
    tables = [
        ThresholdTable(
            t, threshold_label(t), [_row(row) for row in row_dicts(table) if abs(row["threshold"] - t) < 1e-9]
        )
        for t in thresholds
    ]
    return ThresholdView(tables, bool(given), round(100 * thresholds[0]))


def threshold_label(threshold: float) -> str:
    """A threshold as people say it.

    >>> threshold_label(0.075), threshold_label(0.2)
    ('7.5 %', '20 %')
    """
    return f"{100 * threshold:.4g} %"


def _row(row: dict[str, Any]) -> ThresholdRow:
    cells = [_cell(row, name) for name in COLUMNS]
    return ThresholdRow(row["group"], row["label"], cells)


def _cell(row: dict[str, Any], name: str) -> tuple[str, str]:
    """Per 100 people, to one digit: shares are percents."""
    ends = [row.get(f"{name}_{end}", np.nan) for end in ("low", "high")]
    interval = ON_PAGE.interval(100 * ends[0], 100 * ends[1], 1) if all(map(known, ends)) else ""
    return ON_PAGE.decimal(100 * row[name], 1), interval

"""What acting on a score at a threshold comes to, group by group, with intervals."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from propcal.auditing.audit_tables import row_dicts
from propcal.auditing.decision_curve import checked_thresholds, odds_of
from propcal.auditing.intervals import CONFIDENCE, normal_quantile, wilson_interval
from propcal.errors import InputError

SHARES = ("flagged", "sensitivity", "specificity", "ppv")
NEAR = 1e-9


def threshold_table(
    groups: pd.DataFrame, net_benefit: pd.DataFrame, thresholds: Iterable[float]
) -> pd.DataFrame:
    """One row for each threshold and group: everybody and the groups that count.

    Shares have Wilson intervals for as many independent people as the group is worth (`design_effect`).
    """
    chosen = checked_thresholds(thresholds)
    known = net_benefit["threshold"].to_numpy() if len(net_benefit) else np.empty(0)
    rows = []
    for t in chosen:
        if len(known) and not np.any(np.abs(known - t) < NEAR):
            raise InputError(
                f"there are no numbers at a threshold of {t:g}",
                argument="thresholds",
                next_step=f"audit(..., thresholds=[{t:g}])",
            )
        here = net_benefit[np.abs(known - t) < NEAR] if len(known) else net_benefit
        found = {row["group"]: row for row in row_dicts(here)}
        rows += [
            _row(group, found.get(group["group"]), t)
            for i, group in enumerate(row_dicts(groups))
            if i == 0 or group["kept"]
        ]
    return pd.DataFrame(rows, columns=_columns())


def _columns() -> list[str]:
    ends = ("", "_low", "_high")
    shares = [f"{name}{end}" for name in (*SHARES, "net_benefit") for end in ends]
    return ["threshold", "group", "label", *shares, "avoided"]


def _row(group: dict[str, Any], at: dict[str, Any] | None, t: float) -> dict[str, Any]:
    row: dict[str, Any] = dict.fromkeys(_columns(), np.nan)
    row |= {"threshold": t, "group": group["group"], "label": group["label"]}
    if at is None:
        return row
    people = float(group["people"]) / float(group["design_effect"])
    rate, flagged, sensitivity = float(group["outcome_rate"]), at["treated"], at["sensitivity"]
    values = {
        "flagged": (flagged, people),
        "sensitivity": (sensitivity, people * rate),
        "specificity": (at["specificity"], people * (1 - rate)),
        "ppv": (sensitivity * rate / flagged if flagged > 0 else np.nan, people * flagged),
    }
    for name, (value, n) in values.items():
        row[name], row[f"{name}_low"], row[f"{name}_high"] = (value, *_wilson(value, n))
    row |= {
        "net_benefit": at["net_benefit"],
        "net_benefit_low": at["low"],
        "net_benefit_high": at["high"],
        "avoided": float((at["net_benefit"] - at["treat_all"]) / odds_of(np.array(t))),
    }
    return row


def _wilson(share: float, n: float) -> Sequence[float]:
    if not np.isfinite(share) or n <= 0:
        return np.nan, np.nan
    low, high = wilson_interval(np.array(share), np.array(n), normal_quantile((1 + CONFIDENCE) / 2))
    return float(low), float(high)

"""Does a correction transfer? Fitted on all other sites and tested at each (leave-one-site-out)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from propcal.auditing.compare import Comparison, compare, loss_of_everybody
from propcal.auditing.finding_names import TOO_HIGH, TOO_LOW
from propcal.core.atoms import Atoms
from propcal.core.keys import without_keys
from propcal.estimators import PMCBoost
from propcal.numbers import excludes_one, listed

BETTER, WORSE, ALIKE, NONE = "better", "worse", "no clear change", "not corrected"
LOG_LOSS = {BETTER: "lower log loss", WORSE: "higher log loss"}
N_DRAWS = 100
MOST_LISTED = 5


@dataclass(frozen=True, eq=False)
class Travel:
    """One row for each site: O/E ratio and log loss before and after, the change, and the finding.

    The finding is about the log loss; `level` says whether the corrected score is too high or too low there.
    `comparisons` has, for each site, the score and its correction there.
    """

    table: pd.DataFrame
    sentence: str
    comparisons: dict[str, Comparison] = field(repr=False)


def leave_one_site_out(parts: Mapping[str, Atoms], **settings: Any) -> Travel:
    """Fit a correction on all other sites and test it at each site (internal-external cross-validation)."""
    found, changed = {}, {}
    for name, own in parts.items():
        others: Any = sum(without_keys(one) for other, one in parts.items() if other != name)
        correction = PMCBoost(**settings).fit_atoms(others).correction_
        changed[name] = correction.n_updates > 0
        found[name] = compare({"score": None, "corrected": correction}, without_keys(own), n_draws=N_DRAWS)
    table = pd.DataFrame([{"site": name, **judged(one)} for name, one in found.items()])
    table.loc[~table["site"].map(changed).astype(bool), "finding"] = NONE
    return Travel(table, _sentence(table), found)


def judged(found: Comparison) -> dict[str, Any]:
    """What a correction does to the people of one site; limits where a count is small."""
    loss = loss_of_everybody(found)
    row: dict[str, Any] = {"people": next(iter(found.audits.values())).groups["people"].iloc[0]}
    for when, audit in zip(("before", "after"), found.audits.values()):
        everybody = audit.groups.iloc[0]
        for end in ("", "_low", "_high"):
            row[f"observed_expected_{when}{end}"] = everybody[f"observed_expected{end}"]
    row |= {
        "log_loss_before": float(loss["base"]),
        "log_loss_after": float(loss["value"]),
        "change": float(loss["difference"]),
        "change_low": float(loss["low"]),
        "change_high": float(loss["high"]),
    }
    row["finding"] = BETTER if row["change_high"] < 0 else WORSE if row["change_low"] > 0 else ALIKE
    low, high = row["observed_expected_after_low"], row["observed_expected_after_high"]
    row["level"] = (TOO_LOW if low > 1 else TOO_HIGH) if excludes_one(low, high) else ""
    return row


def finding_text(row: Any) -> str:
    """The finding on the log loss, and whether the corrected score is too high or too low."""
    told = LOG_LOSS.get(row["finding"], str(row["finding"]))
    if not row["level"] or row["finding"] == NONE:
        return told
    was = TOO_LOW if row["observed_expected_before"] > 1 else TOO_HIGH
    return f"{told}; {'still' if was == row['level'] else 'now'} {row['level']}"


def _sentence(table: pd.DataFrame) -> str:
    n = len(table)
    count = {word: int(np.sum(table["finding"] == word)) for word in (BETTER, WORSE, ALIKE, NONE)}
    if count[NONE] == n:
        return "At no site did the other sites show an error to correct."
    parts = [
        f"{verb} the score at {_sites(count[word], n)}"
        for word, verb in ((BETTER, "improves"), (WORSE, "worsens"), (ALIKE, "does not clearly change"))
        if count[word]
    ]
    others = "site" if n == 2 else "sites"
    told = f"A correction fitted on the other {others} {' and '.join(parts)} (log loss)."
    for side in (TOO_HIGH, TOO_LOW):
        off = table["site"][(table["level"] == side) & (table["finding"] != NONE)].tolist()
        if off:
            more = [f"{len(off) - MOST_LISTED} more"] if len(off) > MOST_LISTED else []
            told += f" The corrected score is {side} at {listed([*off[:MOST_LISTED], *more])}."
    if count[NONE]:
        told += f" At {_sites(count[NONE], n)}, the other {others} showed no error to correct."
    return told


def _sites(some: int, n: int) -> str:
    if some == n:
        return "both sites" if n == 2 else f"all {n} sites"
    return f"{some} of {n} sites"

"""Will a correction travel? Fitted on all other sites, and judged at each: before and after."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from propcal.auditing.compare import Comparison, compare, loss_of_everybody
from propcal.core.atoms import Atoms
from propcal.core.keys import without_keys
from propcal.estimators import PMCBoost
from propcal.numbers import plural

BETTER, WORSE, ALIKE = "better", "worse", "no clear change"
N_DRAWS = 100


@dataclass(frozen=True, eq=False)
class Travel:
    """One row for each site: O/E ratio and log loss before and after, the change, and the finding.

    `comparisons` has, for each site, the score and its correction there.
    """

    table: pd.DataFrame
    sentence: str
    comparisons: dict[str, Comparison] = field(repr=False)


def leave_one_site_out(parts: Mapping[str, Atoms], **settings: Any) -> Travel:
    """Correct each site by what is learned from all the others, and judge it there."""
    found = {}
    for name, own in parts.items():
        others: Any = sum(without_keys(one) for other, one in parts.items() if other != name)
        correction = PMCBoost(**settings).fit_atoms(others).correction_
        found[name] = compare({"score": None, "corrected": correction}, without_keys(own), n_draws=N_DRAWS)
    table = pd.DataFrame([{"site": name, **judged(one)} for name, one in found.items()])
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
    return row


def _sentence(table: pd.DataFrame) -> str:
    count = {word: int(np.sum(table["finding"] == word)) for word in (BETTER, WORSE, ALIKE)}
    return (
        f"Corrected by what the other sites teach, the score is better at {plural(count[BETTER], 'site')}, "
        "worse at "
        f"{count[WORSE]}, and not clearly changed at {count[ALIKE]} (log loss)."
    )

"""Does a correction transfer? Fitted on all other sites and tested at each (leave-one-site-out)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from propcal.auditing.compare import Comparison, compare, loss_of_everybody
from propcal.auditing.finding_names import TOO_HIGH, TOO_LOW, UNTESTED
from propcal.auditing.hypothesis_tests import SIGNIFICANCE, holm
from propcal.auditing.intervals import CONFIDENCE, normal_quantile, normal_tail
from propcal.auditing.measures import Estimate
from propcal.core.atoms import Atoms
from propcal.core.grid import BoolArray
from propcal.core.periods_and_sites import without_keys

BETTER, WORSE, ALIKE, NONE = "better", "worse", "no clear change", "not corrected"
NEARER, FURTHER = "nearer to 1", "further from 1"
N_DRAWS = 100


@dataclass(frozen=True, eq=False)
class Travel:
    """One row for each site: O/E ratio and log loss before and after, the change, and what was found.

    `finding` is about the log loss, `moved` says whether the correction brings the O/E ratio nearer to 1 or
    further from it, and `level` whether the corrected score is too high or too low. All tests of all sites
    are one family at 5 % (Holm). `pooled` is the O/E ratio of all sites together after their corrections.
    `comparisons` has, for each site, the score and its correction there.
    """

    table: pd.DataFrame
    pooled: Estimate
    comparisons: dict[str, Comparison] = field(repr=False)

    @property
    def sentence(self) -> str:
        """What was found, in words."""
        from propcal.documents.site_sentences import travel_sentence

        return travel_sentence(self)


def leave_one_site_out(parts: Mapping[str, Atoms], **settings: Any) -> Travel:
    """Fit a correction on all other sites and test it at each site (internal-external cross-validation)."""
    from propcal.estimators import PMCBoost  # which takes long to import, and pages only read results

    found, changed = {}, {}
    for name, own in parts.items():
        others: Any = sum(without_keys(one) for other, one in parts.items() if other != name)
        correction = PMCBoost(**settings).fit_atoms(others).correction_
        changed[name] = correction.n_updates > 0
        found[name] = compare({"score": None, "corrected": correction}, without_keys(own), n_draws=N_DRAWS)
    table = pd.DataFrame([{"site": name, **site_change(one)} for name, one in found.items()])
    table = with_findings(table, np.array(list(changed.values())))
    return Travel(table, _pooled(found), found)


def site_change(found: Comparison) -> dict[str, Any]:
    """What a correction does to the people of one site; limits where a count is small."""
    loss = loss_of_everybody(found)
    row: dict[str, Any] = {"people": next(iter(found.audits.values())).groups["people"].iloc[0]}
    for when, audit in zip(("before", "after"), found.audits.values()):
        everybody = audit.groups.iloc[0]
        for end in ("", "_low", "_high"):
            row[f"observed_expected_{when}{end}"] = everybody[f"observed_expected{end}"]
    return row | {
        "log_loss_before": float(loss["base"]),
        "log_loss_after": float(loss["value"]),
        "change": float(loss["difference"]),
        "change_low": float(loss["low"]),
        "change_high": float(loss["high"]),
    }


def with_findings(table: pd.DataFrame, changed: BoolArray) -> pd.DataFrame:
    """What was found at each site, from p-values adjusted for the number of tests.

    The O/E ratio moves nearer to 1 if the events observed are on the same side as the corrected score of the
    (geometric) mean of the events expected before and after.
    """
    with np.errstate(divide="ignore", invalid="ignore"):  # a site without events has no logarithm: not tested
        before, after, low, high = (
            np.log(table[f"observed_expected_{end}"].to_numpy(dtype=np.float64))
            for end in ("before", "after", "after_low", "after_high")
        )
        error = _error(low, high)
        tests = (
            (table["change"], _error(table["change_low"], table["change_high"])),
            (before + after, 2 * error),
            (after, error),
        )
        z = np.array([np.asarray(value / of, dtype=np.float64) for value, of in tests])
    z[:, ~changed] = np.nan
    tested, clear = np.isfinite(z), np.zeros(z.shape, dtype=np.bool_)
    clear[tested] = holm(np.array([2 * normal_tail(abs(x)) for x in z[tested]])) <= SIGNIFICANCE
    loss, middle, level = z
    nearer = (middle > 0) == (before > after)
    table["finding"] = np.where(~clear[0], ALIKE, np.where(loss < 0, BETTER, WORSE))
    table.loc[~tested.any(axis=0), "finding"] = UNTESTED
    table.loc[~changed, "finding"] = NONE
    table["moved"] = np.where(~clear[1], "", np.where(nearer, NEARER, FURTHER))
    table["level"] = np.where(~clear[2], "", np.where(level > 0, TOO_LOW, TOO_HIGH))
    return table


def _error(low: Any, high: Any) -> Any:
    """Standard error from the interval."""
    return (high - low) / (2 * normal_quantile((1 + CONFIDENCE) / 2))


def _pooled(found: Mapping[str, Comparison]) -> Estimate:
    """The O/E ratio of all sites together, each after its correction."""
    rows = [list(one.audits.values())[-1].groups.iloc[0] for one in found.values()]
    observed, expected = (
        np.array([float(row["people"] * row[name]) for row in rows])
        for name in ("outcome_rate", "mean_score")
    )
    with np.errstate(invalid="ignore", divide="ignore"):
        ends = [np.log([float(row[f"observed_expected_{end}"]) for row in rows]) for end in ("low", "high")]
        own = observed * _error(*ends)
        own = np.where(np.isfinite(own) & (observed > 0), own, np.sqrt(expected))  # few people or events
    error = float(np.sqrt(np.sum(own**2)) / observed.sum()) if observed.sum() > 0 else float("nan")
    ratio = float(observed.sum() / expected.sum())
    reach = np.exp(normal_quantile((1 + CONFIDENCE) / 2) * error)
    return Estimate(ratio, float(ratio / reach), float(ratio * reach))

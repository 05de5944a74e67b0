"""Held-out corrections: fitted on some people and judged on others, who came later or
are at another site.

Would recalibrating help? Fitted on recent periods except the last ones, and judged on
those. Does a correction transfer? Fitted on all other sites, and judged at each
(leave-one-site-out).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from propcal.auditing.compare import Comparison, compare, loss_of_everybody
from propcal.auditing.names import TOO_HIGH, TOO_LOW, UNTESTED
from propcal.auditing.statistics.hypothesis_tests import SIGNIFICANCE, holm
from propcal.auditing.statistics.measures import Estimate
from propcal.auditing.statistics.rate_intervals import NORMAL_REACH, normal_tail
from propcal.core.atoms import Atoms
from propcal.core.grid import BoolArray
from propcal.core.groups import Groups
from propcal.core.reduction import without_keys
from propcal.errors import refused
from propcal.options import Identity

if TYPE_CHECKING:
    from propcal.core.correction.correction import Correction

HELPS = "it would help"
HARMS = "it would do harm"
UNCLEAR = "no clear gain"
NOTHING = "nothing to correct"
EARLY = "too early to say"
RECALIBRATED = "recalibrated"
FEWEST_FITTED = 2  # periods
USUAL = 12  # periods that are used if it is not known since when the score is wrong
BETTER = "better"
WORSE = "worse"
ALIKE = "no clear change"
NONE = "not corrected"
NEARER = "nearer to 1"
FURTHER = "further from 1"


def held_out_comparison(
    fitted: Iterable[Atoms],
    judged: Iterable[Atoms],
    name: str,
    settings: Mapping[str, Any],
    **how: Any,
) -> tuple[Correction, Comparison]:
    """Fit a correction to some people, and compare it with the score among others;
    `how` as for `compare`.
    """
    from propcal.estimators import (
        PMCBoost,
    )  # which takes long to import, and pages only read results

    past: Any = sum(fitted)
    correction = PMCBoost(**settings).fit_atoms(past).correction_
    return correction, compare({"score": None, name: correction}, sum(judged), **how)


@dataclass(frozen=True, eq=False)
class Recalibration:
    """A correction fitted on some periods, and what it does on later ones.

    Attributes
    ----------
    answer : str
        "it would help", "it would do harm", "no clear gain", "nothing to correct" or
        "too early to say".
    fitted, judged : tuple of str
        Periods.
    comparison : Comparison
        The score and its correction on the periods that were held out.
    correction : Correction
        Fitted on `fitted` only; to use one, fit it on all recent periods.
    """

    answer: str
    fitted: tuple[str, ...]
    judged: tuple[str, ...]
    comparison: Comparison
    correction: Correction

    @property
    def sentence(self) -> str:
        """The answer in words."""
        from propcal.documents.course import recalibration_sentence

        return recalibration_sentence(self)


def would_recalibrating_help(
    periods: Mapping[str, Atoms],
    *,
    since: str = "",
    held_out: int | None = None,
    gamma: float = 0.05,
    groups: Groups | None = None,
    identity: Identity | None = None,
) -> Recalibration:
    """Fit on all but the last periods since the onset (or of the last year), and judge
    on those.
    """
    recent = [name for name in sorted(periods) if since and name >= since]
    early = bool(since) and len(recent) <= FEWEST_FITTED
    if len(recent) <= FEWEST_FITTED:
        recent = sorted(periods)[-USUAL:]
    n = max(len(recent) // 4, 1) if held_out is None else held_out
    if not 1 <= n < len(recent):
        raise refused("few periods", periods=len(recent), others=n)
    fitted = recent[:-n]
    judged = recent[-n:]
    past, later = ([periods[name] for name in names] for names in (fitted, judged))
    settings = {"gamma": gamma, "groups": groups}
    names = identity or Identity(unit="people")
    how: dict[str, Any] = settings | {
        "n_draws": 200,
        "labels": names.labels,
        "unit": names.unit,
    }
    correction, comparison = held_out_comparison(
        past, later, RECALIBRATED, settings, **how
    )
    row = loss_of_everybody(comparison)
    if row["high"] < 0:
        answer = HELPS
    elif row["low"] > 0:
        answer = HARMS
    else:
        answer = UNCLEAR
    if not np.isfinite([row["low"], row["high"]]).all():
        answer = UNCLEAR
    if early:
        answer = EARLY
    elif not correction.n_updates:
        answer = NOTHING
    return Recalibration(answer, tuple(fitted), tuple(judged), comparison, correction)


@dataclass(frozen=True, eq=False)
class Travel:
    """One row for each site: O/E ratio and log loss before and after, the change, and
    what was found.

    `finding` is about the log loss, `moved` says whether the correction brings the O/E
    ratio nearer to 1 or further from it, and `level` whether the corrected score is too
    high or too low. All tests of all sites are one family at 5 % (Holm). `pooled` is
    the O/E ratio of all sites together after their corrections. `comparisons` has, for
    each site, the score and its correction there.
    """

    table: pd.DataFrame
    pooled: Estimate
    comparisons: dict[str, Comparison] = field(repr=False)

    @property
    def sentence(self) -> str:
        """What was found, in words."""
        from propcal.documents.sites import travel_sentence

        return travel_sentence(self)


def leave_one_site_out(parts: Mapping[str, Atoms], **settings: Any) -> Travel:
    """Fit a correction on all other sites and test it at each site (internal-external
    cross-validation).
    """
    people = {name: without_keys(one) for name, one in parts.items()}
    found = {}
    changed = []
    for name, own in people.items():
        others = [one for other, one in people.items() if other != name]
        correction, found[name] = held_out_comparison(
            others, [own], "corrected", settings, n_draws=100
        )
        changed.append(correction.n_updates > 0)
    table = pd.DataFrame(
        [{"site": name, **site_change(one)} for name, one in found.items()]
    )
    return Travel(with_findings(table, np.array(changed)), _pooled(found), found)


def site_change(comparison: Comparison) -> dict[str, Any]:
    """What a correction does to the people of one site; limits where a count is
    small.
    """
    loss = loss_of_everybody(comparison)
    audits = [audit.groups.iloc[0] for audit in comparison.audits.values()]
    row: dict[str, Any] = {"people": audits[0]["people"]}
    for when, everybody in zip(("before", "after"), audits):
        for end in ("", "_low", "_high"):
            row[f"observed_expected_{when}{end}"] = everybody[f"observed_expected{end}"]
    columns = {
        "log_loss_before": "base",
        "log_loss_after": "value",
        "change": "difference",
    }
    columns |= {"change_low": "low", "change_high": "high"}
    return row | {name: float(loss[column]) for name, column in columns.items()}


def with_findings(table: pd.DataFrame, changed: BoolArray) -> pd.DataFrame:
    """What was found at each site, from p-values adjusted for the number of tests.

    The O/E ratio moves nearer to 1 if the events observed are on the same side as the
    corrected score of the (geometric) mean of the events expected before and after.
    """
    with np.errstate(
        divide="ignore", invalid="ignore"
    ):  # a site without events has no logarithm: not tested
        ends = (
            f"observed_expected_{end}"
            for end in ("before", "after", "after_low", "after_high")
        )
        before, after, low, high = (
            np.log(table[end].to_numpy(dtype=np.float64)) for end in ends
        )
        error = _error(low, high)
        tests = (
            (table["change"], _error(table["change_low"], table["change_high"])),
            (before + after, 2 * error),
            (after, error),
        )
        z = np.array([np.asarray(value / of, dtype=np.float64) for value, of in tests])
    z[:, ~changed] = np.nan
    tested = np.isfinite(z)
    clear = np.zeros(z.shape, dtype=np.bool_)
    clear[tested] = (
        holm(np.array([2 * normal_tail(abs(x)) for x in z[tested]])) <= SIGNIFICANCE
    )
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
    return (high - low) / (2 * NORMAL_REACH)


def _pooled(comparisons: Mapping[str, Comparison]) -> Estimate:
    """The O/E ratio of all sites together, each after its correction."""
    rows = pd.DataFrame(
        [list(one.audits.values())[-1].groups.iloc[0] for one in comparisons.values()]
    )
    names = (
        "people",
        "outcome_rate",
        "mean_score",
        "observed_expected_low",
        "observed_expected_high",
    )
    people, rate, mean, low, high = (
        rows[name].to_numpy(dtype=np.float64) for name in names
    )
    observed, expected = people * rate, people * mean
    with np.errstate(invalid="ignore", divide="ignore"):
        own = observed * _error(np.log(low), np.log(high))
    own = np.where(
        np.isfinite(own) & (observed > 0), own, np.sqrt(expected)
    )  # few people or events
    if observed.sum() > 0:
        error = float(np.sqrt(np.sum(own**2)) / observed.sum())
    else:
        error = float("nan")
    ratio = float(observed.sum() / expected.sum())
    reach = float(np.exp(NORMAL_REACH * error))
    return Estimate(ratio, ratio / reach, ratio * reach)

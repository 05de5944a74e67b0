"""Held-out corrections: fitted on some people and judged on others.

The others came later, or are at another site.

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

from propcal.auditing.audit_tables import ENDS
from propcal.auditing.claims import NAN
from propcal.auditing.compare import Comparison, compare, loss_of_everybody
from propcal.auditing.names import TOO_HIGH, TOO_LOW, UNTESTED
from propcal.auditing.statistics.hypothesis_tests import SIGNIFICANCE, holm
from propcal.auditing.statistics.measures import Estimate
from propcal.auditing.statistics.rate_intervals import NORMAL_REACH, normal_tail
from propcal.core.atoms import Atoms
from propcal.core.grid import BoolArray, FloatArray
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
USUAL_PERIODS = 12  # if it is not known since when the score is wrong
RECALIBRATION_DRAWS = 200
TRAVEL_DRAWS = 100
BETTER = "better"
WORSE = "worse"
ALIKE = "no clear change"
NOT_CORRECTED = "not corrected"
NEARER = "nearer to 1"
FURTHER = "further from 1"


def held_out_comparison(
    fitted: Iterable[Atoms],
    judged: Iterable[Atoms],
    name: str,
    settings: Mapping[str, Any],
    **comparison: Any,
) -> tuple[Correction, Comparison]:
    """Fit a correction to some people, and compare it with the score among others;
    `comparison` has settings of `compare`.
    """
    # takes long to import, and pages only read results
    from propcal.estimators import PMCBoost

    fitting_data: Any = sum(fitted)
    correction = PMCBoost(**settings).fit_atoms(fitting_data).correction_
    scores = {"score": None, name: correction}
    return correction, compare(scores, sum(judged), **comparison)


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
        recent = sorted(periods)[-USUAL_PERIODS:]
    n = max(len(recent) // 4, 1) if held_out is None else held_out
    if not 1 <= n < len(recent):
        raise refused("few periods", periods=len(recent), others=n)
    fitted = recent[:-n]
    judged = recent[-n:]

    names = identity or Identity(unit="people")
    fit_settings = {"gamma": gamma, "groups": groups}
    correction, comparison = held_out_comparison(
        [periods[name] for name in fitted],
        [periods[name] for name in judged],
        RECALIBRATED,
        fit_settings,
        n_draws=RECALIBRATION_DRAWS,
        labels=names.labels,
        unit=names.unit,
        **fit_settings,
    )
    if early:
        answer = EARLY
    elif not correction.n_updates:
        answer = NOTHING
    else:
        change = loss_of_everybody(comparison)
        answer = _answer(change["low"], change["high"])
    return Recalibration(answer, tuple(fitted), tuple(judged), comparison, correction)


def _answer(low: float, high: float) -> str:
    """Whether a change of the loss with this interval is a gain."""
    if not np.isfinite([low, high]).all():
        return UNCLEAR
    if high < 0:
        return HELPS
    if low > 0:
        return HARMS
    return UNCLEAR


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
    people = {name: without_keys(part) for name, part in parts.items()}
    comparisons = {}
    changed = []
    rows = []
    for name, own in people.items():
        others = [people[other] for other in people if other != name]
        correction, comparison = held_out_comparison(
            others, [own], "corrected", settings, n_draws=TRAVEL_DRAWS
        )
        comparisons[name] = comparison
        changed.append(correction.n_updates > 0)
        rows.append({"site": name, **site_change(comparison)})
    table = with_findings(pd.DataFrame(rows), np.array(changed))
    return Travel(table, _pooled(comparisons), comparisons)


def site_change(comparison: Comparison) -> dict[str, Any]:
    """What a correction does to the people of one site; limits where a count is
    small.
    """
    before, after = (audit.groups.iloc[0] for audit in comparison.audits.values())
    loss = loss_of_everybody(comparison)
    row: dict[str, Any] = {"people": before["people"]}
    for when, everybody in (("before", before), ("after", after)):
        for end in ENDS:
            row[f"observed_expected_{when}{end}"] = everybody[f"observed_expected{end}"]
    row["log_loss_before"] = float(loss["base"])
    row["log_loss_after"] = float(loss["value"])
    row["change"] = float(loss["difference"])
    row["change_low"] = float(loss["low"])
    row["change_high"] = float(loss["high"])
    return row


def with_findings(table: pd.DataFrame, changed: BoolArray) -> pd.DataFrame:
    """What was found at each site, from p-values adjusted for the number of tests.

    The O/E ratio moves nearer to 1 if the events observed are on the same side as the
    corrected score of the (geometric) mean of the events expected before and after.
    """

    def log_ratio(name: str) -> FloatArray:
        ratio = table[f"observed_expected_{name}"].to_numpy(dtype=np.float64)
        return np.asarray(np.log(ratio))

    # a site without events has no logarithm: not tested
    with np.errstate(divide="ignore", invalid="ignore"):
        before = log_ratio("before")
        after = log_ratio("after")
        error = _error(log_ratio("after_low"), log_ratio("after_high"))
        loss_error = _error(table["change_low"], table["change_high"])
        of_loss = table["change"] / loss_error
        of_middle = (before + after) / (2 * error)
        z = np.array([of_loss, of_middle, after / error], dtype=np.float64)
    z[:, ~changed] = np.nan
    tested = np.isfinite(z)
    p_values = np.array([2 * normal_tail(abs(x)) for x in z[tested]])
    clear = np.zeros(z.shape, dtype=np.bool_)
    clear[tested] = holm(p_values) <= SIGNIFICANCE

    (loss_z, middle_z, level_z), (loss_is_clear, has_moved, is_off) = z, clear
    side = np.where(loss_z < 0, BETTER, WORSE)
    finding = np.where(loss_is_clear, side, ALIKE)
    finding = np.where(tested.any(axis=0), finding, UNTESTED)
    table["finding"] = np.where(changed, finding, NOT_CORRECTED)

    is_nearer = (middle_z > 0) == (before > after)
    table["moved"] = np.where(has_moved, np.where(is_nearer, NEARER, FURTHER), "")
    table["level"] = np.where(is_off, np.where(level_z > 0, TOO_LOW, TOO_HIGH), "")
    return table


def _error(low: Any, high: Any) -> Any:
    """Standard error from the interval."""
    return (high - low) / (2 * NORMAL_REACH)


def _pooled(comparisons: Mapping[str, Comparison]) -> Estimate:
    """The O/E ratio of all sites together, each after its correction."""
    audits = [list(each.audits.values())[-1] for each in comparisons.values()]
    rows = pd.DataFrame([audit.groups.iloc[0] for audit in audits])

    def column(name: str) -> FloatArray:
        return rows[name].to_numpy(dtype=np.float64)

    people = column("people")
    observed = people * column("outcome_rate")
    expected = people * column("mean_score")
    low = column("observed_expected_low")
    high = column("observed_expected_high")
    with np.errstate(invalid="ignore", divide="ignore"):
        of_site = observed * _error(np.log(low), np.log(high))
    # of few people or events, the error of the events expected
    has_error = np.isfinite(of_site) & (observed > 0)
    of_site = np.where(has_error, of_site, np.sqrt(expected))

    error = NAN
    if observed.sum() > 0:
        error = float(np.sqrt(np.sum(of_site**2)) / observed.sum())
    ratio = float(observed.sum() / expected.sum())
    reach = float(np.exp(NORMAL_REACH * error))
    return Estimate(ratio, ratio / reach, ratio * reach)

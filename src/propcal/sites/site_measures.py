"""Measures of each site, and over all sites: O/E ratio, calibration intercept and slope, AUROC."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from propcal.auditing.decision import MIN_PEOPLE
from propcal.auditing.finding_names import NOT_ENOUGH
from propcal.auditing.logistic_calibration import calibration
from propcal.auditing.measures import UNKNOWN, Estimate, auroc, observed_expected
from propcal.auditing.profile import event_effect
from propcal.auditing.sample import Sample
from propcal.auditing.shared_notes import shared_site_notes
from propcal.core.atoms import Atoms
from propcal.core.grid import FloatArray
from propcal.core.keys import by_key, without_keys
from propcal.core.patterns import SITE
from propcal.data.site_names import refuse_other_spellings
from propcal.errors import InputError
from propcal.identity import Identity
from propcal.numbers import Limit, known, without_limits
from propcal.sites.between_sites import FEWEST_SITES, random_effects
from propcal.sites.site_verdict import site_conclusion, site_findings, summary_sentences, verdict_sentences

if TYPE_CHECKING:
    from propcal.sites.travel import Travel


@dataclass(frozen=True)
class Scale:
    """On which scale a measure of sites is roughly normal: there, and back."""

    name: str
    there: Callable[[Any], Any]
    back: Callable[[Any], Any]
    right: float
    digits: int = 2


def _same(value: Any) -> Any:
    return value


def _logit(value: Any) -> Any:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.log(np.asarray(value) / (1 - np.asarray(value)))


def _expit(value: Any) -> Any:
    return 1 / (1 + np.exp(-np.asarray(value)))


def _log(value: Any) -> Any:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.log(np.asarray(value))


SCALES = {
    "observed_expected": Scale("O/E ratio", _log, np.exp, 1.0),
    "intercept": Scale("Calibration intercept", _same, _same, 0.0),
    "slope": Scale("Calibration slope", _same, _same, 1.0),
    "auroc": Scale("AUROC", _logit, _expit, 0.5),
}


@dataclass(frozen=True, eq=False)
class Sites:
    """How a score does at each site, and what to expect at a new one.

    Attributes
    ----------
    sites : DataFrame
        One row for each site: people, events, each measure with its 95 % interval and its standard error on
        the scale on which sites are summarised, and the finding on the O/E ratio, adjusted for the number
        of sites: "too high", "too low", "could be chance" or "not enough data".
    summary : DataFrame
        One row for each measure: the mean over sites with its 95 % interval (Hartung-Knapp), tau squared and
        I squared, and the 95 % prediction interval for a new site. Empty with fewer than 3 sites.
    conclusion : "miscalibrated", "no miscalibration found" or "not enough data"
        Whether any site has a finding.
    sentences : tuple of str
        What was found, in words; the verdict first.
    travel : Travel, optional
        Corrections fitted on the other sites, tested at each.
    notes : tuple of str
        What a reader must know: limits of shared atoms, protected counts.
    identity : Identity
    """

    sites: pd.DataFrame
    summary: pd.DataFrame
    sentences: tuple[str, ...]
    conclusion: str
    travel: Travel | None = None
    notes: tuple[str, ...] = ()
    identity: Identity = field(default_factory=lambda: Identity(unit="people"))
    _parts: dict[str, Atoms] | None = field(default=None, repr=False)

    def to_json(self, suppress: int | None = None) -> str:
        """Everything as JSON; with `suppress=11` from protected counts: see the guide to the report."""
        from propcal.output.sites.sites_json import sites_to_json

        return sites_to_json(self, suppress)

    def to_html(self, path: Any = None, *, suppress: int = 11, title: str | None = None) -> str:
        """A page with the sites, forest and funnel pictures, and the summary."""
        from propcal.output.sites.sites_page import write_sites_page

        return write_sites_page(self, path, suppress=suppress, title=title)

    def __repr__(self) -> str:
        from propcal.output.sites.sites_text import sites_text
        from propcal.output.text_blocks import as_text

        return as_text(sites_text(self))


def compare_sites(
    atoms: Atoms, *, travel: bool = False, identity: Identity | None = None, **settings: Any
) -> Sites:
    """Is a score right at each site, and what can a new site expect?

    Parameters
    ----------
    atoms : Atoms
        With sites: ``Atoms.from_frame(..., site="hospital")``, or atoms of several sites added up.
    travel : bool, default=False
        Also fit a correction on all other sites and test it at each site (leave-one-site-out).
    identity : Identity, optional
        What things are called.
    **settings
        As for `PMCBoost`, for the corrections.
    """
    parts = by_key(atoms, SITE)
    refuse_one_site(parts)
    refuse_other_spellings([("these data", atoms)])
    named = identity or Identity(unit="people")
    own = {name: without_keys(one) for name, one in parts.items()}
    samples = {name: Sample.of(one) for name, one in own.items()}
    table = pd.DataFrame([{"site": name, **site_row(sample)} for name, sample in samples.items()])
    table["finding"] = site_findings(list(samples.values()))
    summary = site_summary(table)
    found = None
    if travel:  # which brings the estimators along
        from propcal.sites.travel import leave_one_site_out

        found = leave_one_site_out(parts, **settings)
    sentences = site_sentences(table, int(table["people"].sum()), summary, found, named)
    conclusion = site_conclusion(table["finding"].tolist())
    notes = tuple(shared_site_notes(parts, table["auroc"]))
    return Sites(table, summary, sentences, conclusion, found, notes, named, own)


def refuse_one_site(parts: Mapping[str, Atoms]) -> None:
    """At least two sites are needed."""
    if not parts:
        raise InputError(
            "these data have no sites",
            argument="site",
            next_step='Name their column: Atoms.from_frame(..., site="hospital")',
        )
    if len(parts) == 1:
        raise InputError(
            f"only one site ({next(iter(parts))}) was found; at least two are needed", argument="site"
        )


def site_row(sample: Sample) -> dict[str, Any]:
    """The measures of one site, as far as it has enough people."""
    found = dict.fromkeys(SCALES, UNKNOWN)
    if sample.n_people >= MIN_PEOPLE:
        fitted = calibration(sample, np.random.default_rng(0))
        found = {
            "observed_expected": observed_expected(sample),
            "intercept": fitted.intercept,
            "slope": fitted.slope,
            "auroc": auroc(sample),
        }
    row: dict[str, Any] = {"people": sample.n_people, "positives": sample.observed}
    for name, estimate in found.items():
        row |= {name: estimate.value, f"{name}_low": estimate.low, f"{name}_high": estimate.high}
        row[f"{name}_error"] = _error(estimate, SCALES[name], sample.quantile)
    if known(row["observed_expected_error"]):
        row["observed_expected_error"] = _ratio_error(sample)
    return row


def _ratio_error(sample: Sample) -> float:
    """Standard error of log(O/E) if the score is right.

    One from the events observed would be smaller where there happen to be many of them. Such a site would
    count for more, and the mean over sites would be too high.
    """
    variance = float(sample.weight_sq @ (sample.score * (1 - sample.score)))
    effect = 1.0 if sample.cluster is None else event_effect(sample)
    return float(np.sqrt(effect * variance) / sample.expected)


def _error(estimate: Estimate, scale: Scale, quantile: float) -> float:
    """Standard error on the scale of the summary, from the interval."""
    low, high = scale.there(estimate.low), scale.there(estimate.high)
    error = float((high - low) / (2 * quantile))
    return error if np.isfinite(error) and error > 0 else float("nan")


def site_summary(table: pd.DataFrame) -> pd.DataFrame:
    """The summary over the sites that are judged and whose measures are known."""
    rows, table = {}, table[table["finding"] != NOT_ENOUGH]
    for name, scale in SCALES.items():
        value: FloatArray = np.asarray(scale.there(np.array(without_limits(table[name]))))
        variance = table[f"{name}_error"].to_numpy(dtype=np.float64) ** 2
        usable = np.isfinite(value) & np.isfinite(variance)
        if not usable.any():
            continue
        if name == "observed_expected":  # with fewer events than a right score expects, errors are larger
            variance = variance / np.exp(np.average(value[usable], weights=1 / variance[usable]))
            value = value + variance / 2  # the mean of a logarithm is so much below the logarithm of the mean
        found = random_effects(value, variance)
        if found.n_sites < FEWEST_SITES:
            continue
        back = [found.mean, found.low, found.high, found.prediction_low, found.prediction_high]
        mean, low, high, prediction_low, prediction_high = (float(scale.back(x)) for x in back)
        rows[name] = {
            "mean": mean,
            "low": low,
            "high": high,
            "tau2": found.tau2,
            "i2": found.i2,
            "p_alike": found.p_alike,
            "prediction_low": prediction_low,
            "prediction_high": prediction_high,
            "n_sites": found.n_sites,
        }
    return pd.DataFrame.from_dict(rows, orient="index")


def site_sentences(
    table: pd.DataFrame, people: Any, summary: pd.DataFrame, travel: Travel | None, identity: Identity
) -> tuple[str, ...]:
    """What was found, in words; `people` is the number of all people, or a limit of it."""
    told = verdict_sentences(table, identity)
    told += summary_sentences(table, people, _pooled(table), summary, identity)
    return (*told, *([] if travel is None else [travel.sentence]))


def _pooled(table: pd.DataFrame) -> float:
    """O/E ratio of everybody; NaN if it is not known at some site."""
    events, ratio = table["positives"].tolist(), table["observed_expected"].tolist()
    if any(isinstance(x, Limit) or not known(x) or float(x) <= 0 for x in (*events, *ratio)):
        return float("nan")
    return float(sum(events)) / sum(float(n) / float(r) for n, r in zip(events, ratio))

"""Measures of each site, and over all sites: O/E ratio, calibration intercept and slope, AUROC."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from propcal.auditing.logistic_calibration import calibration
from propcal.auditing.measures import Estimate, auroc, observed_expected
from propcal.auditing.sample import Sample
from propcal.core.atoms import Atoms
from propcal.core.grid import FloatArray
from propcal.core.keys import by_key, without_keys
from propcal.core.patterns import SITE
from propcal.errors import InputError
from propcal.identity import Identity
from propcal.numbers import IN_TEXT, without_limits
from propcal.sites.between_sites import FEWEST_SITES, random_effects

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
        One row for each site: people, events, and each measure with its 95 % interval and its standard error
        on the scale on which sites are summarised.
    summary : DataFrame
        One row for each measure: the mean over sites with its 95 % interval (Hartung-Knapp), tau squared and
        I squared, and the 95 % prediction interval for a new site.
    travel : Travel, optional
        Corrections fitted on the other sites, judged at each.
    sentences : tuple of str
    identity : Identity
    """

    sites: pd.DataFrame
    summary: pd.DataFrame
    sentences: tuple[str, ...]
    travel: Travel | None = None
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
        from propcal.output.terminal import as_text

        return as_text(sites_text(self))


def compare_sites(
    atoms: Atoms, *, travel: bool = False, identity: Identity | None = None, **settings: Any
) -> Sites:
    """How does a score do at each site, and what is to be expected at a new one?

    Parameters
    ----------
    atoms : Atoms
        With sites: ``Atoms.from_frame(..., site="hospital")``, or atoms of several sites added up.
    travel : bool, default=False
        Also correct the score of each site by what is learned from the others.
    identity : Identity, optional
        What things are called.
    **settings
        As for `PMCBoost`, for the corrections.
    """
    parts = by_key(atoms, SITE)
    if len(parts) < 2:
        raise InputError(
            "at least two sites are needed" if parts else "these atoms have no sites",
            argument="site",
            next_step='Name their column: Atoms.from_frame(..., site="hospital")',
        )
    named = identity or Identity(unit="people")
    own = {name: without_keys(one) for name, one in parts.items()}
    table = pd.DataFrame([{"site": name, **site_row(Sample.of(one))} for name, one in own.items()])
    summary = site_summary(table)
    found = None
    if travel:  # which brings the estimators along
        from propcal.sites.travel import leave_one_site_out

        found = leave_one_site_out(parts, **settings)
    sentences = site_sentences(len(table), int(table["people"].sum()), summary, found, named)
    return Sites(table, summary, sentences, found, named, own)


def site_row(sample: Sample) -> dict[str, Any]:
    """The measures of one site."""
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
    return row


def _error(estimate: Estimate, scale: Scale, quantile: float) -> float:
    """Standard error on the scale of the summary, from the interval."""
    low, high = scale.there(estimate.low), scale.there(estimate.high)
    error = float((high - low) / (2 * quantile))
    return error if np.isfinite(error) and error > 0 else float("nan")


def site_summary(table: pd.DataFrame) -> pd.DataFrame:
    """The summary over the sites whose measures are known."""
    rows = {}
    for name, scale in SCALES.items():
        value: FloatArray = np.asarray(scale.there(np.array(without_limits(table[name]))))
        variance = table[f"{name}_error"].to_numpy(dtype=np.float64) ** 2
        if not np.any(np.isfinite(value) & np.isfinite(variance)):
            continue
        found = random_effects(value, variance)
        back = [found.mean, found.low, found.high, found.prediction_low, found.prediction_high]
        mean, low, high, prediction_low, prediction_high = (float(scale.back(x)) for x in back)
        rows[name] = {
            "mean": mean,
            "low": low,
            "high": high,
            "tau2": found.tau2,
            "i2": found.i2,
            "prediction_low": prediction_low,
            "prediction_high": prediction_high,
            "n_sites": found.n_sites,
        }
    return pd.DataFrame.from_dict(rows, orient="index")


def site_sentences(
    n: int, people: Any, summary: pd.DataFrame, travel: Travel | None, identity: Identity
) -> tuple[str, ...]:
    """What was found, in words; `people` is the number of all people, or a limit of it."""
    told = [f"{n} sites, {identity.count(people)}."]
    if "observed_expected" in summary.index:
        row: Any = summary.loc["observed_expected"]
        mean = f"O/E ratio over all sites {IN_TEXT.decimal(row['mean'])}"
        if row["n_sites"] < FEWEST_SITES:
            told.append(f"{mean}; intervals need at least {FEWEST_SITES} sites.")
        else:
            expected = IN_TEXT.interval(row["prediction_low"], row["prediction_high"])
            told += [
                f"{mean} (95 % CI {IN_TEXT.interval(row['low'], row['high'])}).",
                f"At a new site, an O/E ratio from {expected} is to be expected (95 % prediction interval); "
                f"{100 * float(row['i2']):.0f} % of the variation is between sites (I²).",
            ]
    if travel is not None:
        told.append(travel.sentence)
    return tuple(told)

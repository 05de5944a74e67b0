"""Measures of each site, and their summary over sites."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from scipy import special

from propcal.auditing.decision import MIN_PEOPLE
from propcal.auditing.names import MEASURE_NAMES, NOT_ENOUGH
from propcal.auditing.statistics.logistic_calibration import calibration
from propcal.auditing.statistics.measures import FORMULAS, UNKNOWN, Estimate
from propcal.auditing.statistics.sample import Sample
from propcal.core.draws import Draws
from propcal.core.grid import FloatArray
from propcal.numbers import known
from propcal.sites.between_sites import (
    RandomEffects,
    SiteCounts,
    random_effects,
    ratio_effects,
)

RATIO = "observed_expected"
# of a summary, what is on the scale of its measure
ON_SCALE = ("mean", "low", "high", "prediction_low", "prediction_high")


@dataclass(frozen=True)
class SummaryScale:
    """What a measure of sites is called, its value for a perfect score, and how sites
    are summarised.

    On its scale a measure is roughly normal; `inverse` leads back from it. O/E ratios
    have a model of their own.
    """

    name: str
    right: float
    transform: Callable[[Any], Any] = lambda value: value
    inverse: Callable[[Any], Any] = lambda value: value
    digits: int = 2


AUROC_DIGITS = MEASURE_NAMES["auroc"].digits
SCALES = {
    RATIO: SummaryScale("O/E ratio", 1.0),
    "intercept": SummaryScale("Calibration intercept", 0.0),
    "slope": SummaryScale("Calibration slope", 1.0),
    "auroc": SummaryScale("AUROC", 0.5, special.logit, special.expit, AUROC_DIGITS),
}


def site_estimates(sample: Sample) -> dict[str, Estimate]:
    """The measures of one site, if it has enough people."""
    if sample.n_people < MIN_PEOPLE:
        return dict.fromkeys(SCALES, UNKNOWN)
    fitted = calibration(sample, Draws(0))
    estimates = {}
    for name in SCALES:
        if name in FORMULAS:
            estimates[name] = FORMULAS[name](sample)
        else:
            estimates[name] = getattr(fitted, name)
    return estimates


def people_row(sample: Sample, estimates: Mapping[str, Estimate]) -> dict[str, Any]:
    """People, events, and estimates with their intervals and standard errors on the
    scale of the summary.
    """
    row: dict[str, Any] = {"people": sample.n_people, "positives": sample.observed}
    for name, (value, low, high) in estimates.items():
        transform = SCALES[name].transform
        width = float(transform(high) - transform(low))
        error = width / (2 * sample.quantile)
        if not (np.isfinite(error) and error > 0):
            error = np.nan
        row[name] = value
        row[f"{name}_low"] = low
        row[f"{name}_high"] = high
        row[f"{name}_error"] = error
    return row


def site_summary(
    table: pd.DataFrame, counts: SiteCounts, *, soft: bool
) -> pd.DataFrame:
    """The summary: O/E ratios of all sites, and other measures of those that are
    judged.
    """
    effects = {}
    if not soft and counts.observed.sum() > 0 and counts.expected.sum() > 0:
        effects[RATIO] = ratio_effects(counts)
    judged = table[table["finding"] != NOT_ENOUGH]
    for name, scale in SCALES.items():
        if name != RATIO:
            of_measure = _measure_effects(judged, name, scale)
            if of_measure is not None:
                effects[name] = of_measure

    rows = {name: asdict(found) for name, found in effects.items() if known(found.low)}
    summary = pd.DataFrame.from_dict(rows, orient="index")
    return summary.drop(columns="error", errors="ignore")


def _measure_effects(
    judged: pd.DataFrame, name: str, scale: SummaryScale
) -> RandomEffects | None:
    """The summary of one measure; None if no site has it."""
    values = judged[name].to_numpy(dtype=np.float64)
    value: FloatArray = np.asarray(scale.transform(values))
    variance = judged[f"{name}_error"].to_numpy(dtype=np.float64) ** 2
    if not (np.isfinite(value) & np.isfinite(variance)).any():
        return None

    effects = random_effects(value, variance)
    on_scale = {name: getattr(effects, name) for name in ON_SCALE}
    measured: dict[str, Any] = {
        name: float(scale.inverse(end)) for name, end in on_scale.items()
    }
    return replace(effects, **measured)

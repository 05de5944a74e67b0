"""Trials as arrays by seed, so that seeds can be resampled quickly."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from propcal.building_blocks import FloatArray, IntArray
from propcal_paper.results.evidence import HIGHER_IS_BETTER, METRICS, Evidence
from propcal_paper.settings import (
    ALPHAS,
    GAMMAS,
    MC,
    MC_FOR_PMC,
    PMC,
    RHOS,
)

METHODS = (MC, PMC, MC_FOR_PMC)
OVER_SEEDS_GAMMA_RHO = (0, 4, 5)  # axes of the values of a method
COLUMNS = [
    *METRICS,
    *(f"base_{metric}" for metric in METRICS),
    "own_mc_loss",
    "train_mc_loss",
    "n_sweeps",
    "n_updates",
    "fit_seconds",
    "converged",
]


def arranged(
    frame: pd.DataFrame,
    axes: Mapping[str, Sequence[Any]],
    columns: Sequence[str],
    missing: float,
) -> dict[str, FloatArray]:
    """Columns as arrays with an axis for each key; rows that are on none of the places
    are left out.
    """
    keys = list(axes)
    places = pd.MultiIndex.from_product(list(axes.values()), names=keys)
    placed = places.to_frame(index=False).merge(frame, how="left", on=keys)
    arrays = {}
    for name in columns:
        values = placed[name].fillna(missing).to_numpy(dtype=float)
        arrays[name] = values.reshape(places.levshape)
    return arrays


@dataclass(frozen=True, eq=False)
class TrialCube:
    """Arrays of seeds, models, methods, groupings, alphas, gammas, rhos; NaN where a
    trial is missing.
    """

    models: tuple[str, ...]
    groupings: tuple[str, ...]
    values: Mapping[str, FloatArray]

    @classmethod
    def of(cls, evidence: Evidence, models: Sequence[str]) -> TrialCube:
        """Arrange the trials of some base models; others than those of Table 3 are left
        out.
        """
        groupings = evidence.grouping_names
        axes: dict[str, Sequence[Any]] = {"seed": evidence.seeds, "model": models}
        axes |= {"method": METHODS, "groups": groupings}
        axes |= {"alpha": ALPHAS, "gamma": GAMMAS, "rho": RHOS}
        values = arranged(evidence.trials, axes, COLUMNS, np.nan)
        for metric in METRICS:
            base = values[f"base_{metric}"]
            base = np.where(base == 0, np.nan, base)
            values[f"{metric}_change"] = 100 * (values[metric] - base) / base
        return cls(tuple(models), tuple(groupings), values)

    def drawn(self, places: IntArray) -> TrialCube:
        """The trials of some seeds, each as often as it was drawn."""
        values = {name: array[places] for name, array in self.values.items()}
        return replace(self, values=values)

    def of_method(
        self, column: str, method: str, model: str | None = None
    ) -> FloatArray:
        """The values of a method, of one base model or of all: (seeds, [models],
        groupings, alphas, ...).
        """
        chosen = self.values[column][:, :, METHODS.index(method)]
        if model is None:
            return chosen
        return chosen[:, self.models.index(model)]

    def by_alpha(self, column: str, method: str) -> FloatArray:
        """Medians over seeds, gamma and rho, by base model, grouping and alpha."""
        return np.asarray(
            median(self.of_method(column, method), axis=OVER_SEEDS_GAMMA_RHO)
        )

    def best(self, metric: str, method: str) -> tuple[IntArray, dict[str, FloatArray]]:
        """The alpha of the best median for each base model and grouping, and the
        medians there.

        Among equals it is the largest alpha, which needs the fewest updates. Updates
        and seconds are those of fits that did not stop at their limit.
        """
        medians = {metric: self.by_alpha(metric, method)}
        ended = self.of_method("converged", method) == 1
        for name in ("n_updates", "fit_seconds"):
            of_ended = np.where(ended, self.of_method(name, method), np.nan)
            medians[name] = median(of_ended, axis=OVER_SEEDS_GAMMA_RHO)

        best = largest_alpha_of_best(metric, medians[metric])
        at_best = {}
        for name, values in medians.items():
            taken = np.take_along_axis(values, best[..., None], axis=-1)
            at_best[name] = taken[..., 0]
        return best, at_best


def largest_alpha_of_best(metric: str, medians: FloatArray) -> IntArray:
    """The place of the best value along the last axis; the last one among equals."""
    badness = -medians if metric in HIGHER_IS_BETTER else medians
    badness = np.where(np.isnan(medians), np.inf, badness)
    from_the_end = np.argmin(badness[..., ::-1], axis=-1)
    return np.asarray(medians.shape[-1] - 1 - from_the_end)


def median(values: FloatArray, axis: Any = None) -> Any:
    """The median of what is there; NaN if nothing is."""
    if not np.isnan(values).any():
        return np.median(values, axis=axis)  # much faster
    with warnings.catch_warnings():
        warnings.filterwarnings(
            "ignore", "All-NaN slice|Mean of empty slice", RuntimeWarning
        )
        return np.nanmedian(values, axis=axis)

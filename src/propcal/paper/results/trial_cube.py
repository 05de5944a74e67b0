"""Trials as arrays by seed, base model, method and setting, so that seeds can be resampled quickly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from propcal.core.grid import FloatArray, IntArray
from propcal.paper.experiment.settings import ALPHAS, GAMMAS, MC, MC_FOR_PMC, PMC, RHOS
from propcal.paper.results.evidence import HIGHER_IS_BETTER, METRICS

METHODS = (MC, PMC, MC_FOR_PMC)
COLUMNS = (
    *METRICS,
    *(f"base_{metric}" for metric in METRICS),
    "n_updates",
    "fit_seconds",
    "own_mc_loss",
    "train_mc_loss",
)


@dataclass(frozen=True, eq=False)
class TrialCube:
    """Arrays of seeds, models, methods, groupings, alphas, gammas, rhos; NaN where a trial is missing."""

    models: tuple[str, ...]
    groupings: tuple[str, ...]
    values: Mapping[str, FloatArray]

    @classmethod
    def of(cls, trials: pd.DataFrame, models: Sequence[str], groupings: Sequence[str]) -> TrialCube:
        """Arrange the trials; others than those of Table 3 are left out."""
        axes: list[Sequence[Any]] = [
            sorted(trials["seed"].unique()),
            models,
            METHODS,
            groupings,
            ALPHAS,
            GAMMAS,
            RHOS,
        ]
        names = ("seed", "model", "method", "groups", "alpha", "gamma", "rho")
        places = [pd.Index(axis).get_indexer(trials[name]) for name, axis in zip(names, axes)]
        there = np.all([place >= 0 for place in places], axis=0)
        where = tuple(place[there] for place in places)
        values = {}
        for column in COLUMNS:
            values[column] = np.full([len(axis) for axis in axes], np.nan)
            values[column][where] = trials.loc[there, column].to_numpy(dtype=float)
        for metric in METRICS:
            base = np.where(values[f"base_{metric}"] == 0, np.nan, values[f"base_{metric}"])
            values[f"{metric}_change"] = 100 * (values[metric] - base) / base
        return cls(tuple(models), tuple(groupings), values)

    @property
    def n_seeds(self) -> int:
        """The number of seeds."""
        return len(self.values["auroc"])

    def drawn(self, places: IntArray) -> TrialCube:
        """The trials of some seeds, each as often as it was drawn."""
        return replace(self, values={name: array[places] for name, array in self.values.items()})

    def of_method(self, column: str, method: str, model: str | None = None) -> FloatArray:
        """The values of a method, of one base model or of all: (seeds, [models], groupings, alphas, ...)."""
        chosen = self.values[column][:, :, METHODS.index(method)]
        return chosen if model is None else chosen[:, self.models.index(model)]

    def by_alpha(self, column: str, method: str) -> FloatArray:
        """Medians over seeds, gamma and rho, by base model, grouping and alpha."""
        return np.asarray(median(self.of_method(column, method), axis=(0, 4, 5)))

    def best(self, metric: str, method: str) -> tuple[IntArray, dict[str, FloatArray]]:
        """The alpha of the best median for each base model and grouping, and the medians there.

        Among equals it is the largest alpha, which needs the fewest updates.
        """
        found = self.by_alpha(metric, method)
        sign = -1 if metric in HIGHER_IS_BETTER else 1
        worst_if_missing = np.where(np.isnan(found), np.inf, sign * found)
        place = found.shape[-1] - 1 - np.argmin(worst_if_missing[..., ::-1], axis=-1)
        columns = (metric, "n_updates", "fit_seconds")
        there = {
            name: np.take_along_axis(self.by_alpha(name, method), place[..., None], axis=-1)[..., 0]
            for name in columns
        }
        return place, there


def median(values: FloatArray, axis: Any = None) -> Any:
    """The median of what is there; NaN if nothing is."""
    gone = np.isnan(values)
    if not gone.any():
        return np.median(values, axis=axis)
    if axis is None:
        return np.median(values[~gone]) if not gone.all() else np.nan
    axes = axis if isinstance(axis, tuple) else (axis,)
    kept = [i for i in range(values.ndim) if i not in axes]
    flat = np.moveaxis(values, axes, range(values.ndim - len(axes), values.ndim))
    shape = [values.shape[i] for i in kept]
    # missing values sort to the end, so that the middle of the others is easy to find
    ordered = np.sort(flat.reshape(*shape, -1), axis=-1)
    n = np.sum(~np.isnan(ordered), axis=-1)
    low, high = (np.maximum((n - 1) // 2, 0), np.minimum(n // 2, ordered.shape[-1] - 1))
    ends = [np.take_along_axis(ordered, i[..., None], axis=-1)[..., 0] for i in (low, high)]
    return np.where(n > 0, (ends[0] + ends[1]) / 2, np.nan)

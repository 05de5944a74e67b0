"""The trials of a store in the form that tests of claims need."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np

from propcal.building_blocks import FloatArray, IntArray, plural
from propcal_paper.results.curve_counts import CurveCounts
from propcal_paper.results.evidence import METRICS, Evidence
from propcal_paper.results.trial_arrays import TrialCube, median
from propcal_paper.results.wins import THREE, wins_of_seeds
from propcal_paper.settings import BASE, MODELS, PMC

LEAST_SEEDS = 20  # fewer shuffles give no verdict

NOT_YET = "cannot be judged yet"
NOT_ASKED = "cannot be asked here"
NOT_SETTLED = "cannot be settled without MIMIC"


class NoVerdictError(Exception):
    """The store does not yet contain something that a test needs, or the cohort has
    nothing of the kind.
    """

    def __init__(self, why: str, verdict: str = NOT_YET) -> None:
        super().__init__(why)
        self.verdict = verdict


def require(values: Any, why: str) -> None:
    """No verdict if a number is missing."""
    if np.isnan(values).any():
        raise NoVerdictError(why)


@dataclass(eq=False)
class Case:
    """The trials by one rule for losses: all seeds, or a resample of them."""

    evidence: Evidence
    cube: TrialCube
    places: IntArray  # which seeds
    whole: Case | None = None  # with all seeds, if this is a resample
    _medians: dict[Any, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, evidence: Evidence) -> Case:
        """All seeds of a store."""
        cube = TrialCube.of(evidence, MODELS)
        return cls(evidence, cube, np.arange(evidence.n_seeds))

    def drawn(self, places: IntArray) -> Case:
        """A resample of the seeds."""
        return Case(self.evidence, self.cube.drawn(places), places, self)

    @cached_property
    def wins_by_seed(self) -> dict[tuple[str, str], FloatArray]:
        """By interpretation and metric: wins of the methods of Table 6 and comparisons,
        for each seed.
        """
        counts = {}
        each = wins_of_seeds(self.evidence.trials).groupby(["reading", "metric"])
        for (reading, metric), wins in each:
            of_seeds = wins.set_index("seed")[[*THREE, "comparisons"]]
            of_seeds = of_seeds.reindex(self.evidence.seeds).fillna(0.0)
            counts[str(reading), str(metric)] = of_seeds.to_numpy(dtype=float)
        return counts

    @cached_property
    def curve_counts(self) -> CurveCounts | None:
        """The counts behind the calibration curves of RF."""
        if self.whole is None:
            return CurveCounts.of(self.evidence)
        counts = self.whole.curve_counts
        if counts is None:
            return None
        return counts.drawn(self.places)

    def change(self, method: str, model: str, metric: str) -> float:
        """The median percent change from the base model (Table 4)."""

        def median_change() -> float:
            return float(median(self.cube.of_method(f"{metric}_change", method, model)))

        name = METRICS[metric]
        why = f"there is no {name} of {method} with {model} and its base model"
        return float(self._once((method, model, metric), median_change, why))

    def _once(self, key: Any, compute: Callable[[], Any], why: str) -> Any:
        """Medians, computed when they are first asked for; no verdict if there are
        none.
        """
        if key not in self._medians:
            self._medians[key] = compute()
        require(self._medians[key], why)
        return self._medians[key]

    def idle(self, method: str, model: str, metric: str, *, holds: bool) -> bool:
        """Whether the median change is 0 only because it is that of a fit that made no
        update.

        If a condition `holds` with a median of 0, this must be so because half of the
        fits made none; otherwise, as many rose as fell, which is a result.
        """
        if self.change(method, model, metric) != 0:
            return False
        changes = self.cube.of_method(f"{metric}_change", method, model)
        updates = self.cube.of_method("n_updates", method, model)
        idle_share = np.mean(updates[~np.isnan(changes)] == 0)
        if idle_share < 0.5 and (holds or idle_share == 0):
            return False
        change_of_active = median(np.where(updates > 0, changes, np.nan))
        return bool(change_of_active != 0)  # also if no fit made an update: NaN

    def by_alpha(self, column: str, method: str) -> FloatArray:
        """Medians over seeds, gamma and rho: base models, groupings, alphas. The base
        model has none.
        """
        if method == BASE:
            whose = (f"base_{column}", PMC)
        else:
            whose = (column, method)

        def medians() -> FloatArray:
            return self.cube.by_alpha(*whose)

        why = f"{column} is not available for every base model, grouping and alpha"
        return np.asarray(self._once((column, method), medians, why))

    def wins(self, reading: str, metric: str) -> dict[str, float]:
        """Table 6: the percent of comparisons that each method wins."""
        by_seed = (self.whole or self).wins_by_seed.get((reading, metric))
        if by_seed is None:
            raise NoVerdictError("no seed with all three methods")
        *wins, comparisons = by_seed[self.places].sum(axis=0).tolist()
        if not comparisons:
            raise NoVerdictError("no seed with all three methods")
        percents = [100 * won / comparisons for won in wins]
        return dict(zip(THREE, percents))

    def need(self, models: Sequence[str], methods: Sequence[str]) -> int:
        """The number of seeds behind a test: the fewest of the base models and methods
        that it uses.
        """
        each = self.evidence.stored.groupby(["model", "method"])
        n_seeds = each["seed"].nunique()
        fewest = self.evidence.n_seeds
        for model, method in product(models, methods):
            n = int(n_seeds.get((model, method), 0))
            if n < LEAST_SEEDS:
                there = plural(n, "seed") if n else "no trials"
                need = f"{LEAST_SEEDS} seeds are needed"
                raise NoVerdictError(f"{there} of {method} with {model}; {need}")
            fewest = min(fewest, n)
        return fewest

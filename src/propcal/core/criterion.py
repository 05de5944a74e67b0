"""Criterion: the cutoff of Algorithm 1 for a category's gap, and the loss that goes with it.

A tolerance of alpha allows a category a gap of ``alpha * (offset + slope * max(outcome rate, rho))``. A loss
is the tolerance that the worst category would need. Boosting, fit summaries, losses and audits all ask here.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import numpy as np

from propcal.core.grid import FloatArray
from propcal.errors import InputError


@dataclass(frozen=True)
class Criterion:
    """What a gap is measured against: offset + slope * max(outcome rate, rho).

    `method` is the name of the algorithm that boosts towards it, as it stands in files and reports.

    >>> proportional(rho=0.1).cutoff(np.array([0.02, 0.4]), alpha=0.5).tolist()
    [0.05, 0.2]
    >>> multicalibration().cutoff(np.array([0.02, 0.4]), alpha=0.5).tolist()
    [0.5, 0.5]
    """

    method: str
    offset: float
    slope: float
    rho: float

    def __post_init__(self) -> None:
        ends = [self.offset + self.slope * rate for rate in (self.rho, 1.0)]
        if not all(0 < end < inf for end in ends):  # NaN is not between
            raise InputError(
                f"{self.method}: offset + slope * rate must be above 0 for every rate from rho to 1",
                argument="offset",
            )

    def allowance(self, outcome_rate: FloatArray) -> FloatArray:
        """The gap that a tolerance of 1 allows."""
        return np.asarray(self.offset + self.slope * np.maximum(outcome_rate, self.rho))

    def cutoff(self, outcome_rate: FloatArray, alpha: float) -> FloatArray:
        """Smallest gap that triggers an update (Algorithm 1)."""
        return np.asarray(alpha * self.allowance(outcome_rate))

    def loss(self, gap: FloatArray, outcome_rate: FloatArray) -> FloatArray:
        """The tolerance that the worst category needs (last axis); NaN if there is no category.

        >>> gap, rate = np.array([-0.1, 0.1]), np.array([0.4, 0.8])
        >>> multicalibration().loss(gap, rate).item(), proportional(rho=0.1).loss(gap, rate).item()
        (0.1, 0.25)
        """
        if not gap.shape[-1]:
            return np.full(gap.shape[:-1], np.nan)
        return np.asarray(np.max(np.abs(gap) / self.allowance(outcome_rate), axis=-1))


def multicalibration() -> Criterion:
    """MC: the same absolute tolerance for everyone."""
    return Criterion("MCBoost", offset=1.0, slope=0.0, rho=1.0)


def proportional(rho: float) -> Criterion:
    """PMC: a tolerance in proportion to the category's own rate, or to `rho` where that is lower.

    The paper assumes that every rate is at least rho; below it, Algorithm 1 compares with rho.
    """
    return Criterion("PMCBoost", offset=0.0, slope=1.0, rho=rho)

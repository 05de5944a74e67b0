"""How large a category's gap may be: the cutoff of Algorithm 1 for MC and PMC, and the matching loss.

A tolerance of alpha allows a category a gap of ``alpha * (offset + slope * max(outcome rate, rho))``. The
loss is the tolerance that the worst category would need. Boosting, fit summaries, losses and audits all use
this module.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf

import numpy as np

from propcal.core.grid import FloatArray
from propcal.errors import InputError


@dataclass(frozen=True)
class Criterion:
    """The scale on which a gap is measured: offset + slope * max(outcome rate, rho).

    `method` is the name of the algorithm that aims for this criterion, as written in files and reports.

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
        if not all(0 < end < inf for end in ends):  # also false for NaN
            raise InputError(
                f"{self.method}: offset + slope * rate must be above 0 for every rate from rho to 1",
                argument="offset",
            )

    def allowance(self, outcome_rate: FloatArray) -> FloatArray:
        """The gap that a tolerance of 1 allows."""
        return np.asarray(self.offset + self.slope * np.maximum(outcome_rate, self.rho))

    def cutoff(self, outcome_rate: FloatArray, alpha: float) -> FloatArray:
        """The smallest gap that triggers an update (Algorithm 1)."""
        return np.asarray(alpha * self.allowance(outcome_rate))

    def loss(self, gap: FloatArray, outcome_rate: FloatArray) -> FloatArray:
        """The tolerance that the worst category (along the last axis) needs; NaN if there is no category.

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
    """PMC: a tolerance in proportion to the category's outcome rate, or to `rho` if the rate is below it.

    The paper assumes that every rate is at least rho; for lower rates Algorithm 1 uses rho.
    """
    return Criterion("PMCBoost", offset=0.0, slope=1.0, rho=rho)


# the criteria whose losses an audit shows, by the names of their losses, at a floor rho on rates
CRITERIA: dict[str, Callable[[float], Criterion]] = {"mc": lambda _: multicalibration(), "pmc": proportional}

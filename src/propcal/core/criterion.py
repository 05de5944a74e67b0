"""How large a category's gap may be: the cutoff of Algorithm 1, and the matching loss.

A tolerance of alpha allows a category a gap of ``alpha * (offset + slope * max(outcome
rate, rho))``. The loss is the tolerance that the worst category would need. Boosting,
fit summaries, losses and audits all use this module.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING

from propcal.errors import refused
from propcal.extras import Later

if TYPE_CHECKING:
    import numpy as np

    from propcal.core.grid import FloatArray
else:
    np = Later("numpy")  # the command line lists the criteria without it


@dataclass(frozen=True)
class Criterion:
    """The scale on which a gap is measured: offset + slope * max(outcome rate, rho).

    `method` is the name of the algorithm that aims for this criterion, as written in
    files and reports.

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
        for rate in (self.rho, 1.0):
            allowance = self.offset + self.slope * rate
            if not 0 < allowance < inf:  # nor NaN
                raise refused("no allowance", method=self.method)

    def allowance(self, outcome_rate: FloatArray) -> FloatArray:
        """The gap that a tolerance of 1 allows."""
        return np.asarray(self.offset + self.slope * np.maximum(outcome_rate, self.rho))

    def cutoff(self, outcome_rate: FloatArray, alpha: float) -> FloatArray:
        """The smallest gap that triggers an update (Algorithm 1)."""
        return np.asarray(alpha * self.allowance(outcome_rate))

    def loss(self, gap: FloatArray, outcome_rate: FloatArray) -> FloatArray:
        """The tolerance that the worst category (along the last axis) needs; NaN if
        there is no category.

        >>> gap, rate = np.array([-0.1, 0.1]), np.array([0.4, 0.8])
        >>> multicalibration().loss(gap, rate).item()
        0.1
        >>> proportional(rho=0.1).loss(gap, rate).item()
        0.25
        """
        if not gap.shape[-1]:
            return np.full(gap.shape[:-1], np.nan)
        return np.asarray(np.max(np.abs(gap) / self.allowance(outcome_rate), axis=-1))

    def largest_loss(self) -> float:
        """The loss of a cell with a gap of 1 at the rate where the criterion allows
        least.

        >>> multicalibration().largest_loss(), proportional(rho=0.1).largest_loss()
        (1.0, 10.0)
        """
        at_lowest_rate = self.offset + self.slope * self.rho
        at_highest_rate = self.offset + self.slope
        return 1 / min(at_lowest_rate, at_highest_rate)


def multicalibration() -> Criterion:
    """MC: the same absolute tolerance for everyone."""
    return Criterion("MCBoost", offset=1.0, slope=0.0, rho=1.0)


def proportional(rho: float) -> Criterion:
    """PMC: a tolerance in proportion to the category's outcome rate, or to `rho` if the
    rate is below it.

    The paper assumes that every rate is at least rho; for lower rates Algorithm 1 uses
    rho.
    """
    return Criterion("PMCBoost", offset=0.0, slope=1.0, rho=rho)


# The criteria that users choose, by the names of their losses, at a floor rho on rates.
# Each is a class of `propcal.estimators` (and --method), a function of
# `propcal.metrics`, and rows of every audit.
CRITERIA: dict[str, Callable[[float], Criterion]] = {
    "mc": lambda _: multicalibration(),
    "pmc": proportional,
}
METHODS = {key: criterion(1.0).method for key, criterion in CRITERIA.items()}
# what a method limits, what its loss is, and the mean square of all cells, in words
AIMS = {"mc": "the difference itself", "pmc": "errors relative to the observed rate"}
MEANINGS = {"mc": "largest gap between observed and predicted rate of a cell"}
MEANINGS["pmc"] = "largest gap of a cell as a share of its observed rate"
MEAN_SQUARES = {"mc": "mean squared gap", "pmc": "mean squared relative gap"}

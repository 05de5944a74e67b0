"""The rule by which a count of people is protected: it is told in blocks of ten.

Up to 10 people are "fewer than 11". From 11 to 20 people are shown as 15, from 21 to 30 as 25, and so on: the
middle of a block that is as wide as the first one. Because all blocks have the same width and the same
edges, the difference of two shown counts says little about a small one: see benchmarks/disclosure.py.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from propcal.core.grid import BoolArray, FloatArray, check_number
from propcal.numbers import Limit


@dataclass(frozen=True)
class Blocks:
    """Protects counts below `fewest`, which is 11 unless the user wants another number."""

    fewest: int = 11

    def __post_init__(self) -> None:
        check_number("suppress", self.fewest, at_least=0, at_most=1_000_000, whole=True)

    @property
    def width(self) -> int:
        """Of a block."""
        return self.fewest - 1

    @property
    def stand_in(self) -> int:
        """What a small count adds to sums: the middle of the first block."""
        return self.fewest // 2

    def small(self, count: FloatArray, different: FloatArray) -> BoolArray:
        """Whether a count is small: of few people, or of few different ones behind many visits."""
        return np.asarray((count < self.fewest - 1e-9) | (different < self.fewest - 1e-9))

    def shown(self, count: FloatArray, different: FloatArray) -> FloatArray:
        """The middle of each count's block.

        >>> count = np.array([0.0, 10, 11, 20, 21, 1494])
        >>> Blocks(11).shown(count, count).tolist()
        [5.0, 5.0, 15.0, 15.0, 25.0, 1495.0]
        """
        block = np.maximum(np.ceil((count - 1e-9) / self.width) - 1, 0)
        return np.where(self.small(count, different), 0, block) * self.width + self.stand_in

    def people(self, count: FloatArray, different: FloatArray) -> int | Limit:
        """How many people a count is, for a sentence; in rows, with and without the outcome."""
        small = self.small(count, different)
        if small.all():
            return Limit(2 * self.width + 1, "below")
        return int(self.shown(count, different).sum())

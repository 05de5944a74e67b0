"""The rule by which a count of people is protected: it is told in blocks of ten.

Up to 10 people are "fewer than 11". From 11 to 20 people are shown as 15, from 21 to 30 as 25, and so on: the
middle of a block that is as wide as the first one. Because all blocks have the same width and the same
edges, the difference of two shown counts says little about a small one: see benchmarks/disclosure.py.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from propcal.core.grid import BoolArray, FloatArray, check_number
from propcal.errors import InputError
from propcal.numbers import Limit

LEAST = 5  # narrower blocks can be subtracted from each other


@dataclass(frozen=True)
class Blocks:
    """Protects counts below `fewest`, which is 11 unless the user wants another number."""

    fewest: int = 11

    def __post_init__(self) -> None:
        check_number("suppress", self.fewest, at_least=0, at_most=1_000_000, whole=True)
        if 1 < self.fewest < LEAST:
            raise InputError(
                f"suppress must be 0, or at least {LEAST}; got {self.fewest}",
                argument="suppress",
                next_step="smaller blocks protect nobody",
            )

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

    def pair(self, count: FloatArray, different: FloatArray) -> FloatArray:
        """People with the outcome (first row) and without it (second), as they are shown.

        If only one of the two is small, the block is that of both together: who knows how many there are
        must not find the small count by subtraction.

        >>> count = np.array([[10.0], [190.0]])
        >>> Blocks(11).pair(count, count).ravel().tolist()
        [5.0, 190.0]
        """
        shown, small = self.shown(count, different), self.small(count, different)
        total = count.sum(axis=0)
        rest = np.maximum(self.shown(total, total), 2 * self.stand_in) - self.stand_in
        return np.where((small.sum(axis=0) == 1) & ~small, rest, shown)

    def undecided(self, count: FloatArray, different: FloatArray, limit: float) -> BoolArray:
        """Whether what is shown leaves open if they are at least `limit` people; no page may tell it then."""
        pair, one = self.pair(count, different), self.small(count, different).sum(axis=0) == 1
        total = pair.sum(axis=0)
        low = np.where(one, self.lowest(total), self.lowest(pair).sum(axis=0))
        high = np.where(one, self.highest(total), self.highest(pair).sum(axis=0))
        return np.asarray((low < limit) & (limit <= high))

    def lowest(self, shown: FloatArray) -> FloatArray:
        """The fewest people that are shown as this number."""
        return np.where(shown <= self.stand_in, 0.0, shown - self.stand_in + 1)

    def highest(self, shown: FloatArray) -> FloatArray:
        """The most people that are shown as this number."""
        return np.where(shown <= self.stand_in, float(self.width), shown + self.width - self.stand_in)

    def people(self, count: FloatArray, different: FloatArray) -> int | Limit:
        """How many people a count is, for a sentence; in rows, with and without the outcome."""
        small = self.small(count, different)
        if small.all():
            return Limit(2 * self.width + 1, "below")
        return int(self.pair(count, different).sum())

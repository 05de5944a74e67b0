"""Random numbers that are the same on every machine and with any version of a library.

A number is a hash of a seed and of its place in the sequence, computed in integers.
Normal and binomial numbers are quantiles at such uniform numbers. What a library's own
generator draws may change with its version. Audits compare the data with what chance
alone would show, in cells in which a whole number of people share a risk.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import special

from propcal.core.grid import FloatArray, IntArray, mix

# of splitmix64: the odd number next to 2**64 divided by the golden ratio
STEP = 0x9E3779B97F4A7C15
MAX_UINT64 = (1 << 64) - 1
# standard errors, and outcomes, beyond which no number of outcomes is drawn
REACH = 9.0


class Draws:
    """A sequence of random numbers, from a seed: a whole number, a numpy generator, or
    None for any seed.

    >>> Draws(0).uniform((2,)).round(6).tolist()
    [0.652448, 0.701212]
    >>> Draws(0).standard_normal((2,)).round(6).tolist()
    [0.391939, 0.52789]
    """

    def __init__(
        self, seed: int | np.integer[Any] | np.random.Generator | None
    ) -> None:
        if not isinstance(seed, (int, np.integer)):
            seed = int(np.random.default_rng(seed).integers(1 << 62))
        start = np.array([int(seed) & MAX_UINT64], dtype=np.uint64)
        self._key = int(mix(start + np.uint64(STEP))[0])
        self._place = 0

    def uniform(self, shape: tuple[int, ...]) -> FloatArray:
        """Numbers between 0 and 1, neither of which occurs."""
        n = int(np.prod(shape))
        begin = (self._key + STEP * (self._place + 1)) & MAX_UINT64
        self._place += n
        with np.errstate(over="ignore"):
            steps = np.arange(n, dtype=np.uint64) * np.uint64(STEP)
            mixed = mix(steps + np.uint64(begin))
        numbers = ((mixed >> np.uint64(11)) + 0.5) * 2.0**-53
        return np.asarray(numbers).reshape(shape)

    def standard_normal(self, shape: tuple[int, ...]) -> FloatArray:
        """Numbers with a standard normal distribution."""
        return np.asarray(special.ndtri(self.uniform(shape)))


def draw_outcomes(
    people: IntArray, risk: FloatArray, n_draws: int, draws: Draws, *, block: int
) -> Iterator[IntArray]:
    """Simulate how many people in each cell have the outcome, `block` data sets at a
    time.

    Blocks have the shape (draws, n_cells); their size does not affect the numbers
    drawn.

    >>> people, risk = np.array([10, 1000]), np.array([0.5, 0.1])
    >>> [drawn.shape for drawn in draw_outcomes(people, risk, 5, Draws(0), block=2)]
    [(2, 2), (2, 2), (1, 2)]
    """
    expected = people * risk
    spread = REACH * (np.sqrt(expected * (1 - risk)) + 1)
    low = np.maximum(np.floor(expected - spread), 0).astype(np.int64)
    high = np.minimum(np.ceil(expected + spread), people).astype(np.int64)
    # the numbers of outcomes of all cells, one cell after the other
    n_numbers = high - low + 1
    ends = np.cumsum(n_numbers)
    starts = ends - n_numbers
    cell = np.repeat(np.arange(len(people)), n_numbers)
    outcomes = np.arange(len(cell)) - starts[cell] + low[cell]
    chance = np.exp(_log_chance(outcomes, people[cell], risk[cell]))
    running = np.cumsum(chance)
    before = np.concatenate([[0.0], running[ends[:-1] - 1]])
    total = running[ends - 1] - before
    # the chance of at most so many outcomes, plus the number of the cell
    table = cell + np.minimum((running - before[cell]) / total[cell], 1.0)
    table[ends - 1] = np.arange(len(people)) + 1.0
    block = max(block, 1)
    for begin in range(0, n_draws, block):
        shape = (min(block, n_draws - begin), len(people))
        uniform = draws.uniform(shape)
        place = np.searchsorted(table, uniform + np.arange(len(people)))
        yield np.asarray(np.clip(place - starts + low, low, high))


def _log_chance(outcomes: IntArray, n: IntArray, risk: FloatArray) -> FloatArray:
    """The logarithm of the binomial probability of so many outcomes of n people."""
    log_chance = (
        special.xlogy(outcomes, risk)
        + special.xlog1py(n - outcomes, -risk)
        + special.gammaln(n + 1.0)
    )
    log_chance -= special.gammaln(outcomes + 1.0) + special.gammaln(n - outcomes + 1.0)
    return np.asarray(log_chance)


def symmetric_root(covariance: FloatArray) -> FloatArray:
    """The symmetric matrix whose square is the covariance.

    Eigenvectors may have any sign, and any direction if values are equal; this matrix
    is the same for all of them. Rounding may make a covariance a little indefinite, so
    that the smallest values count as zero.

    >>> symmetric_root(np.array([[2.0, 1.0], [1.0, 2.0]])).round(3).tolist()
    [[1.366, 0.366], [0.366, 1.366]]
    """
    values, vectors = np.linalg.eigh(covariance)
    values = np.where(values > 1e-10 * values.max(initial=0.0), values, 0.0)
    return np.asarray((vectors * np.sqrt(values)) @ vectors.T)

"""Simulates outcomes under the null hypothesis that the score is calibrated.

Audits and protected pages compare the data with what chance alone would show. Each uses its own cells, in
which a whole number of people share a risk.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from propcal.core.grid import FloatArray, IntArray


def draw_outcomes(
    people: IntArray, risk: FloatArray, n_draws: int, rng: np.random.Generator, *, block: int
) -> Iterator[IntArray]:
    """Simulate how many people in each cell have the outcome, `block` data sets at a time.

    Blocks have the shape (draws, n_cells); their size does not affect the numbers drawn.

    >>> people, risk = np.array([10, 1000]), np.array([0.5, 0.1])
    >>> [drawn.shape for drawn in draw_outcomes(people, risk, 5, np.random.default_rng(0), block=2)]
    [(2, 2), (2, 2), (1, 2)]
    """
    for begin in range(0, n_draws, max(block, 1)):
        yield rng.binomial(people, risk, (min(max(block, 1), n_draws - begin), len(people)))

"""The null model, "the score is right": outcomes drawn as the scores say, again and again.

Guard, test of the smooth fit and audit each ask what chance alone would show, on cells of their own: some
people, in whole numbers, who share a risk. All of them draw here.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from propcal.core.grid import FloatArray, IntArray

MOST_DRAWN, FEWEST_DRAWS = 20_000_000, 200  # numbers drawn in all; data sets, however many cells they have


def whole_people(n: FloatArray) -> IntArray:
    """The nearest whole number of people, at least one; survey weights make parts of people."""
    return np.maximum(np.rint(n), 1).astype(np.int64)


def affordable_draws(n_cells: int, wanted: int) -> int:
    """How many data sets to draw: fewer where each has many cells."""
    return int(np.clip(MOST_DRAWN // n_cells, FEWEST_DRAWS, wanted))


def draw_outcomes(
    people: IntArray, risk: FloatArray, n_draws: int, rng: np.random.Generator, *, block: int
) -> Iterator[IntArray]:
    """How many people of each cell have the outcome, `block` data sets at a time.

    Blocks have the shape (draws, n_cells); how large they are does not change what is drawn.

    >>> people, risk = np.array([10, 1000]), np.array([0.5, 0.1])
    >>> [drawn.shape for drawn in draw_outcomes(people, risk, 5, np.random.default_rng(0), block=2)]
    [(2, 2), (2, 2), (1, 2)]
    """
    for begin in range(0, n_draws, max(block, 1)):
        yield rng.binomial(people, risk, (min(max(block, 1), n_draws - begin), len(people)))

"""Round scores to a few significant digits, so that the number of different scores has a limit."""

from __future__ import annotations

import numpy as np

from propcal.core.grid import UNIT, IntArray


def significant(score: IntArray, bits: int, *, decimals: int = 3) -> IntArray:
    """Keep so many binary digits of the risk, or of 1 minus the risk if that is smaller.

    Small risks thus keep their relative size. Scores of at most so many decimals stay as they are.

    >>> from propcal.core.grid import from_grid, to_grid
    >>> from_grid(significant(to_grid(np.array([0.0001234567, 0.1, 0.345678])), 6)).round(7).tolist()
    [0.0001221, 0.1, 0.34375]
    """
    small = np.minimum(score, UNIT - score)
    length = np.frexp(small.astype(np.float64))[1].astype(np.int64)  # binary digits
    shift = np.maximum(length - bits, 0)
    half = (np.int64(1) << shift) >> 1
    rounded = ((small + half) >> shift) << shift
    coarse = np.where(score <= UNIT - score, rounded, UNIT - rounded)
    parts = 10**decimals
    nearest = (2 * parts * score + UNIT) // (2 * UNIT)
    decimal = (2 * UNIT * nearest + parts) // (2 * parts)
    return np.where(decimal == score, score, coarse)

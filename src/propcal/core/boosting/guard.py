"""How large a gap may be by chance: the standard errors of gaps, for arrays of sums."""

from __future__ import annotations

import numpy as np

from propcal.core.grid import FloatArray


def standard_errors(
    weight: FloatArray, squares: FloatArray, positives: FloatArray, score: FloatArray
) -> FloatArray:
    """Standard errors of gaps if the score is calibrated; `kernel.standard_error` for arrays of sums."""
    people = weight**2 / squares
    mean = score / weight
    rate = (positives / weight * people + 1) / (people + 2)
    return np.asarray(np.sqrt(np.maximum(mean * (1 - mean), rate * (1 - rate)) / people))

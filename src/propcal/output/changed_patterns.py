"""Finds the patterns that a correction changes most, and their curves, for two plots."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from propcal.core.grid import FloatArray

if TYPE_CHECKING:
    from propcal.core.correction.correction import Correction

SCORES = np.linspace(0, 1, 501)


@dataclass(frozen=True, eq=False)
class PatternCurve:
    """The corrected score at each of `SCORES`, and the patterns that share it."""

    patterns: list[int]
    corrected: FloatArray


def most_changed(correction: Correction, most: int) -> list[PatternCurve]:
    """The curves that differ most from no change, the largest difference first."""
    found: dict[bytes, PatternCurve] = {}
    for pattern in range(len(correction.patterns)):
        curve = correction.maps.apply(SCORES, np.full(len(SCORES), pattern))
        found.setdefault(curve.tobytes(), PatternCurve([], curve)).patterns.append(pattern)
    return sorted(found.values(), key=lambda each: -float(np.abs(each.corrected - SCORES).mean()))[:most]

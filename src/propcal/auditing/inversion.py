"""Intervals of distances by test inversion: every truth at which the distance found would not be surprising.

A distance is never negative, so noise alone makes it positive, and value plus or minus something
misses a true zero. Instead possible truths are tried, from "no error" on through the error found and
beyond, and each gives the distances that it would show under noise.
"""

from __future__ import annotations

import numpy as np

from propcal.core.grid import FloatArray

CONFIDENCE = 0.95
POINTS, REACH = 17, 4  # truths tried, and how many times the noise they reach around the error found


def possible_truths(error: FloatArray, noise: FloatArray) -> FloatArray:
    """Multiples of the error found, from 0 or well below 1, to well above it, as far as the noise goes."""
    loud = np.sqrt(np.mean(noise**2)) / max(float(np.sqrt(np.mean(error**2))), 1e-9)
    return np.linspace(max(0.0, 1 - REACH * loud), 1 + REACH * loud, POINTS)


def accepted(path: FloatArray, values: FloatArray, drawn: FloatArray, observed: float) -> tuple[float, float]:
    """Smallest and largest of the true values under which the observed one lies in the middle 95 %.

    Parameters
    ----------
    path : array of shape (n_truths,)
        Multiples of the error found.
    values : array of shape (n_truths,)
        The distance of each truth.
    drawn : array of shape (n_truths, n_draws)
        Distances that each truth shows under noise.
    observed : float
    """
    tail = (1 - CONFIDENCE) / 2
    rises = np.maximum.accumulate(np.mean(drawn >= observed, axis=1))
    falls = np.minimum.accumulate(np.mean(drawn <= observed, axis=1))
    low = np.interp(np.interp(tail, rises, path), path, values)
    high = np.interp(np.interp(-tail, -falls, path), path, values)
    return float(low), float(high)

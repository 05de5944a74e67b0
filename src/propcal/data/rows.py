"""Rows: scores, outcomes and weights as checked numbers. Errors count the trouble, never show it."""

from __future__ import annotations

from typing import Any

import numpy as np

from propcal.core.grid import BoolArray, FloatArray
from propcal.errors import InputError

LARGEST_WEIGHT = 1e15


def check_lengths(sizes: dict[str, int]) -> None:
    """All columns must have the same number of rows, at least one."""
    if len(set(sizes.values())) > 1:
        listed = ", ".join(f"{name} has {size:,}" for name, size in sizes.items())
        raise InputError(f"the inputs must have the same number of rows: {listed}")
    if next(iter(sizes.values())) == 0:
        raise InputError(f"{next(iter(sizes))} is empty: there are no rows")


def check_scores(score: FloatArray, name: str) -> None:
    """Scores must be probabilities."""
    low, high = float(score.min()), float(score.max())  # NaN spreads to both
    if low >= 0 and high <= 1:
        return
    n = len(score)
    missing = int(np.count_nonzero(np.isnan(score)))
    if missing:
        raise InputError(
            f"{name} must hold probabilities in [0, 1]; {missing:,} of {n:,} values are missing (NaN). "
            "Drop those rows or fill them in"
        )
    endless = int(np.count_nonzero(np.isinf(score)))
    if endless:
        raise InputError(
            f"{name} must hold probabilities in [0, 1]; {endless:,} of {n:,} values are infinite"
        )
    outside = int(np.count_nonzero((score < 0) | (score > 1)))
    hint = "Log-odds? Take 1 / (1 + exp(-score))." if low < -0.01 else "Rounding? Clip them to [0, 1]."
    if low >= 0 and high > 1.01:
        hint = "Percentages? Divide by 100." if high <= 100 and outside > n / 10 else ""
    raise InputError(
        f"{name} must hold probabilities in [0, 1]; {outside:,} of {n:,} values lie outside. {hint}".rstrip()
    )


def compact_outcomes(outcome: FloatArray, name: str) -> Any:
    """Outcomes must be 0 or 1, which a byte each can hold, or soft labels between, which stay floats."""
    low, high = float(outcome.min()), float(outcome.max())
    if low >= 0 and high <= 1:
        whole = outcome.astype(np.int8)
        return whole if np.array_equal(whole, outcome) else outcome
    n = len(outcome)
    missing = int(np.count_nonzero(np.isnan(outcome)))
    if missing:
        raise InputError(
            f"{name} must be 0 or 1; {missing:,} of {n:,} values are missing (NaN). "
            "Leave out people whose outcome is not known"
        )
    outside = int(np.count_nonzero((outcome < 0) | (outcome > 1)))
    raise InputError(
        f"{name} must be 0 or 1 (or a soft label between); {outside:,} of {n:,} values lie outside. "
        "Recode it, for example with (outcome == code_of_the_event)"
    )


def check_weights(weight: FloatArray, name: str) -> BoolArray:
    """Weights must be finite and not negative. Returns which rows count: a weight of 0 is no row."""
    n = len(weight)
    for trouble, found in (
        ("missing (NaN)", np.isnan(weight)),
        ("infinite", np.isinf(weight)),
        ("negative", weight < 0),
    ):
        count = int(np.count_nonzero(found))
        if count:
            raise InputError(f"{name} must be 0 or more; {count:,} of {n:,} values are {trouble}")
    if float(weight.max()) > LARGEST_WEIGHT:
        raise InputError(f"{name}: weights above {LARGEST_WEIGHT:g} cannot be added up; divide them all")
    counts = weight > 0
    if not counts.any():
        raise InputError(f"{name}: all {n:,} weights are 0, so there are no rows")
    return np.asarray(counts)

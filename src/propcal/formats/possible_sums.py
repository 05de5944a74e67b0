"""Sums of atoms that some people can have: everything else in a file is refused."""

from __future__ import annotations

from typing import Any

import numpy as np

from propcal.core.grid import MAX_PEOPLE, UNIT, FloatArray
from propcal.formats.strict_json import need
from propcal.reading.role_columns import LARGEST_WEIGHT

ROUNDING = 1e-6  # relative rounding error allowed in sums of billions of weights
ROUNDING_OF_COUNTS = 1e-9  # where weights are counts of people
SMALLEST = 1e-300  # squares of very small weights underflow to 0


def check_sums(
    score: Any,
    people: Any,
    weight: Any,
    weight_sq: Any,
    positives: Any,
    positives_sq: Any,
) -> None:
    """Refuse sums that are impossible for any people."""
    need(score.min() >= 0 and score.max() <= UNIT, "a score is out of range")
    total = float(np.sum(people, dtype=np.float64))
    need(people.min() >= 1 and total <= MAX_PEOPLE, "a count of people is out of range")
    sums = (weight, weight_sq, positives, positives_sq)
    for column in sums:
        need(np.isfinite(column).all(), "a sum is not a number")
    need(weight.min() > 0, "a weight is out of range")
    for column in sums:
        need(column.min() >= 0, "a sum is negative")

    are_counts = weight.dtype.kind == "i"
    if are_counts:
        consistent = (
            np.array_equal(people, weight)
            and np.array_equal(people, weight_sq)
            and np.array_equal(positives, positives_sq)
        )
        need(consistent, "its weights are inconsistent")
    if positives.dtype.kind == "i":
        rounding = 0.0  # sums of integers are exact
    elif are_counts:
        rounding = ROUNDING_OF_COUNTS
    else:
        rounding = ROUNDING
    excess = positives - weight
    need(np.all(excess <= rounding * weight), "positives exceed people")
    if not are_counts:
        _check_squares(people, weight, weight_sq, positives, positives_sq)


def _check_squares(
    people: Any,
    weight: FloatArray,
    weight_sq: FloatArray,
    positives: FloatArray,
    positives_sq: FloatArray,
) -> None:
    """Refuse sums of weights and of squared weights that the same people cannot
    have.
    """
    largest = people * LARGEST_WEIGHT * (1 + ROUNDING)
    need(np.all(weight <= largest), "a weight is too large")
    # one after the other: what is too large would overflow in the checks that follow
    need(_at_most(weight_sq, weight**2), "squares of weights are too large")
    need(_at_most(weight**2, people * weight_sq), "squares of weights are too small")
    exceeding = "squares of positives exceed those of people"
    need(_at_most(positives_sq, weight_sq), exceeding)
    too_small = "squares of positives are too small"
    need(_at_most(positives**2, people * positives_sq), too_small)
    too_large = "squares of positives are too large"
    need(_at_most(positives_sq, positives * weight), too_large)


def _at_most(small: FloatArray, large: FloatArray) -> bool:
    return bool(np.all(small <= large * (1 + ROUNDING) + SMALLEST))

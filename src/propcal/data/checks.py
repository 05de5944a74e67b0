"""Checks of scores, outcomes and weights. Errors count the trouble and never show a value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from propcal.core.grid import BoolArray, FloatArray
from propcal.errors import InputError

LARGEST_WEIGHT = 1e15
INVALID = ("error", "null", "keep")  # what may be done about a score that is missing or no probability


def check_lengths(sizes: dict[str, int], *, may_be_empty: bool = False) -> None:
    """All columns must have the same number of rows, at least one unless nothing is learned from them."""
    if len(set(sizes.values())) > 1:
        listed = ", ".join(f"{name} has {size:,}" for name, size in sizes.items())
        raise InputError(f"the inputs must have the same number of rows: {listed}")
    if next(iter(sizes.values())) == 0 and not may_be_empty:
        raise InputError(f"{next(iter(sizes))} is empty: there are no rows", argument=next(iter(sizes)))


@dataclass
class ScoreTally:
    """Counts what is wrong with scores, batch by batch, so that it can be told once and in all."""

    n: int = 0
    missing: int = 0
    endless: int = 0
    outside: int = 0
    low: float = 1.0
    high: float = 0.0

    @property
    def invalid(self) -> int:
        """How many are missing or no probability; what is infinite lies outside, too."""
        return self.missing + self.outside

    def add(self, score: FloatArray) -> bool:
        """Count a batch; returns whether all scores so far are probabilities."""
        self.n += len(score)
        if len(score) and not (float(score.min()) >= 0 and float(score.max()) <= 1):  # NaN spreads to both
            self.missing += int(np.count_nonzero(np.isnan(score)))
            self.endless += int(np.count_nonzero(np.isinf(score)))
            self.outside += int(np.count_nonzero((score < 0) | (score > 1)))
            score = score[np.isfinite(score)]
        if len(score):
            self.low, self.high = min(self.low, float(score.min())), max(self.high, float(score.max()))
        return not self.invalid

    def check(self, name: str) -> None:
        """Refuse what was counted."""
        if self.missing:
            raise InputError(
                f"{name} must hold probabilities in [0, 1]; {self.missing:,} of {self.n:,} values are "
                "missing (NaN)",
                argument=name,
                next_step="Drop those rows or fill them in",
            )
        if self.endless:
            raise InputError(
                f"{name} must hold probabilities in [0, 1]; {self.endless:,} of {self.n:,} values are "
                "infinite",
                argument=name,
            )
        if not self.outside:
            return
        log_odds = self.low < -0.01
        hint: str | None = (
            "Log-odds? Take 1 / (1 + exp(-score))." if log_odds else "Rounding? Clip them to [0, 1]."
        )
        if self.low >= 0 and self.high > 1.01:
            percents = self.high <= 100 and self.outside > self.n / 10
            hint = "Percentages? Divide by 100." if percents else None
        raise InputError(
            f"{name} must hold probabilities in [0, 1]; {self.outside:,} of {self.n:,} values lie outside.",
            argument=name,
            next_step=hint,
            between=" ",
        )


def check_scores(score: FloatArray, name: str) -> None:
    """Scores must be probabilities."""
    if float(score.min()) >= 0 and float(score.max()) <= 1:  # NaN spreads to both
        return
    tally = ScoreTally()
    tally.add(score)
    tally.check(name)


def compact_outcomes(outcome: FloatArray, name: str) -> Any:
    """Outcomes must be 0 or 1, which a byte each can hold, or soft labels between, which stay floats."""
    low, high = float(outcome.min()), float(outcome.max())
    if low >= 0 and high <= 1:
        whole = outcome.astype(np.int8)
        return whole if np.array_equal(whole, outcome) else outcome
    missing = int(np.count_nonzero(np.isnan(outcome)))
    outside = int(np.count_nonzero((outcome < 0) | (outcome > 1)))
    refuse_outcomes(missing, outside, len(outcome), name)
    raise AssertionError("an outcome is neither inside, outside nor missing")


def refuse_outcomes(missing: int, outside: int, n: int, name: str) -> None:
    """Refuse the outcomes that were counted, if any."""
    if missing:
        raise InputError(
            f"{name} must be 0 or 1; {missing:,} of {n:,} values are missing (NaN)",
            argument=name,
            next_step="Leave out people whose outcome is not known",
        )
    if outside:
        raise InputError(
            f"{name} must be 0 or 1 (or a soft label between); {outside:,} of {n:,} values lie outside",
            argument=name,
            next_step="Recode it, for example with (outcome == code_of_the_event)",
        )


def check_weights(weight: FloatArray, name: str) -> BoolArray:
    """Weights must be finite and not negative. Returns which rows count: a weight of 0 is no row."""
    counts = weight > 0
    refuse_weights(
        {
            "missing (NaN)": int(np.count_nonzero(np.isnan(weight))),
            "infinite": int(np.count_nonzero(np.isinf(weight))),
            "negative": int(np.count_nonzero(weight < 0)),
        },
        len(weight),
        name,
        too_large=float(weight.max()) > LARGEST_WEIGHT,
        all_zero=not counts.any(),
    )
    return np.asarray(counts)


def refuse_weights(counted: dict[str, int], n: int, name: str, *, too_large: bool, all_zero: bool) -> None:
    """Refuse the weights that were counted by their trouble, if any."""
    for trouble, count in counted.items():
        if count:
            raise InputError(
                f"{name} must be 0 or more; {count:,} of {n:,} values are {trouble}", argument=name
            )
    if too_large:
        raise InputError(
            f"{name}: weights above {LARGEST_WEIGHT:g} cannot be added up",
            argument=name,
            next_step="divide them all",
        )
    if all_zero:
        raise InputError(f"{name}: all {n:,} weights are 0, so there are no rows", argument=name)

"""Checks of scores, outcomes and weights. Errors count the trouble and never show a value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from propcal.core.grid import BoolArray, FloatArray
from propcal.errors import Argument, InputError, Text

LARGEST_WEIGHT = 1e15
MOST_POINTS = 20  # scores of whole numbers up to here are points or deciles, and no percentages
INVALID = ("error", "null", "keep")  # what may be done about a score that is missing or no probability
CODES = (-1.0, -9.0, -99.0, -999.0, -9999.0, 99.0, 999.0, 9999.0)  # beside probabilities, usually "missing"
EXCLUDE = (
    "Exclude these rows with "
    + Argument("drop_missing", written="drop_missing=True")
    + " (the report will say how many), or find out why their "
)
MISSING_CODES = (
    "Codes such as -1 or 999 beside probabilities usually mean missing. Recode them as missing ("
    + Argument("na", "-1", written="NaN")
    + ") and leave these rows out ("
    + Argument("drop_missing", written="drop_missing=True")
    + "), or find out why their score is missing"
)
SCORING = Argument("invalid", "null") + " leaves their corrected score empty"
CODES_IN_SCORING = "Codes such as -1 or 999 beside probabilities usually mean missing; " + SCORING
POINTS = (
    f"Whole numbers up to {MOST_POINTS} look like points or deciles. Use the predicted risk that they were "
    "made from; if there is none, replace each by the event rate that it had in earlier data"
)
SWAPPED = "Are score and outcome swapped?"
MANY = 0.1  # share of the values from which a hint takes all of them to be on another scale


def check_lengths(sizes: dict[str, int], *, may_be_empty: bool = False) -> None:
    """All columns must have the same number of rows, at least one unless nothing is learned from them."""
    if len(set(sizes.values())) > 1:
        listed = ", ".join(f"{name} has {size:,}" for name, size in sizes.items())
        raise InputError(f"the inputs must have the same number of rows: {listed}")
    if next(iter(sizes.values())) == 0 and not may_be_empty:
        raise InputError(f"{next(iter(sizes))} is empty: there are no rows", argument=next(iter(sizes)))


@dataclass
class ScoreTally:
    """Counts what is wrong with scores, batch by batch, so that one message can give the totals.

    Finite scores outside of 0 to 1 are counted by what they look like, so that a hint fits the values:
    `codes` such as -1 or 999, `points` (whole numbers up to 20), `whole` numbers up to 100, `percents` (other
    numbers up to 100), `large` ones, `negative` ones, and those `near` 0 or 1.
    """

    n: int = 0
    missing: int = 0
    endless: int = 0
    codes: int = 0
    points: int = 0
    whole: int = 0
    percents: int = 0
    large: int = 0
    negative: int = 0
    near: int = 0

    @property
    def outside(self) -> int:
        """How many are outside of 0 to 1, infinite ones included."""
        scale = self.points + self.whole + self.percents + self.large
        return self.endless + self.codes + scale + self.negative + self.near

    @property
    def invalid(self) -> int:
        """How many are missing or no probability."""
        return self.missing + self.outside

    def add(self, score: FloatArray) -> bool:
        """Count a batch; returns whether all scores so far are probabilities."""
        self.n += len(score)
        if len(score) and not (float(score.min()) >= 0 and float(score.max()) <= 1):  # NaN spreads to both
            self.missing += int(np.count_nonzero(np.isnan(score)))
            self.endless += int(np.count_nonzero(np.isinf(score)))
            off = score[np.isfinite(score) & ((score < 0) | (score > 1))]
            is_whole = off == np.floor(off)
            kinds = [
                np.isin(off, CODES),
                is_whole & (off <= MOST_POINTS),
                is_whole & (off <= 100),
                off > 100,
                off > 1.01,
                off < -0.01,
            ]
            kind = np.select(kinds, range(len(kinds)), default=len(kinds))
            for place, name in enumerate(OFF_SCALE):
                setattr(self, name, getattr(self, name) + int(np.count_nonzero(kind == place)))
        return not self.invalid

    def check(self, name: str, *, missing: str | Text | None = None, scoring: bool = False) -> None:
        """Refuse what was counted; `missing` is what to do about missing scores.

        In `scoring`, rows need not be refused, and cannot be left out.
        """
        missing = SCORING if scoring else missing
        form = f"{name} must hold probabilities from 0 to 1"
        if self.missing:
            raise InputError(
                f"{form}; {_values(self.missing, self.n)} missing", argument=name, next_step=missing
            )
        if self.endless:
            raise InputError(
                f"{form}; {_values(self.endless, self.n)} infinite",
                argument=name,
                next_step=SCORING if scoring else None,
            )
        if self.outside:
            raise InputError(
                f"{form}; {_values(self.outside, self.n)} outside that range",
                argument=name,
                next_step=self.hint(scoring=scoring) or (SCORING if scoring else None),
            )

    def hint(self, *, scoring: bool = False) -> str | Text | None:
        """What the values outside of 0 to 1 probably are; None unless they themselves say so."""
        others = self.outside - self.codes
        many = others > MANY * self.n
        if not others and scoring:
            return CODES_IN_SCORING if self.codes < self.n / 2 else None
        if not others:
            return MISSING_CODES if self.codes < self.n / 2 else None
        if others == self.near:
            return "If this is rounding, clip the scores to the range from 0 to 1"
        if self.large:
            return None
        if self.negative:
            return "If these are log-odds, take 1 / (1 + exp(-score))" if many else None
        if self.percents:
            return "If these are percentages, divide them by 100" if many else None
        if self.whole:
            return (
                "If these are percentages, divide them by 100; if they are points, use the predicted risk"
                if many
                else None
            )
        return POINTS if many else None


OFF_SCALE = ("codes", "points", "whole", "large", "percents", "negative", "near")


def _values(count: int, n: int) -> str:
    return f"{count:,} of {n:,} values {'is' if count == 1 else 'are'}"


def check_scores(
    score: FloatArray, name: str, *, missing: str | Text | None = None, scoring: bool = False
) -> None:
    """Scores must be probabilities; `missing` is what to do about missing ones."""
    if float(score.min()) >= 0 and float(score.max()) <= 1:  # NaN spreads to both
        return
    tally = ScoreTally()
    tally.add(score)
    tally.check(name, missing=missing, scoring=scoring)


def advice(drop_missing: bool | None, what: str) -> str | Text:
    """What to do about missing scores or outcomes; None: there is no argument that leaves them out."""
    if drop_missing is None:
        return f"Exclude these people, or find out why their {what} is missing"
    return EXCLUDE + f"{what} is missing"


FEWEST_SWAPPED = 10


def refuse_swapped(score: Any, one: float, soft: int, n: int, names: tuple[str, str]) -> None:
    """Refuse scores that are all 0 or `one`, both of which occur, beside outcomes mostly between.

    `soft` says how many of the `n` outcomes lie strictly between 0 and 1. A few rows, such as a small
    chunk of a file, may look like that by chance.
    """
    if soft <= max(n / 2, FEWEST_SWAPPED):
        return
    zeros, ones = np.any(score == 0), np.any(score == one)
    if zeros and ones and bool(np.all((score == 0) | (score == one))):
        raise InputError(
            f"{names[0]} holds only 0 and 1, and {names[1]} holds values between them",
            argument=names[0],
            next_step=SWAPPED,
        )


def compact_outcomes(
    outcome: FloatArray, name: str, *, drop_missing: bool | None = None, swapped: str = ""
) -> Any:
    """Outcomes must be 0 or 1, which a byte each can hold, or soft labels between, which stay floats.

    `swapped` names the score if all scores are 0 or 1, as outcomes are.
    """
    low, high = float(outcome.min()), float(outcome.max())
    if low >= 0 and high <= 1:
        whole = outcome.astype(np.int8)
        return whole if np.array_equal(whole, outcome) else outcome
    missing = int(np.count_nonzero(np.isnan(outcome)))
    outside = int(np.count_nonzero((outcome < 0) | (outcome > 1)))
    refuse_outcomes(missing, outside, len(outcome), name, drop_missing=drop_missing, swapped=swapped)
    raise AssertionError("an outcome is neither inside, outside nor missing")


def refuse_outcomes(
    missing: int,
    outside: int,
    n: int,
    name: str,
    *,
    drop_missing: bool | None = None,
    swapped: str = "",
) -> None:
    """Refuse the outcomes that were counted, if any; `swapped` as for `compact_outcomes`."""
    if missing:
        raise InputError(
            f"{name} must be 0 or 1; {_values(missing, n)} missing",
            argument=name,
            next_step=advice(drop_missing, "outcome"),
        )
    if outside:
        step = "Say which value means the event with " + Argument("positive") + ", or recode it to 0 and 1"
        if swapped:
            step = Text(f"{swapped[0].upper()}{swapped[1:]} holds only 0 and 1. {SWAPPED}")
        raise InputError(
            f"{name} must be 0 or 1 (or a soft label between); {_values(outside, n)} neither",
            argument=name,
            next_step=step,
        )


def check_weights(weight: FloatArray, name: str) -> BoolArray:
    """Weights must be finite and not negative. Returns which rows count: those with a weight above 0."""
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

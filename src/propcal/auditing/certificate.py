"""Certificates: to within how much a score is shown to be right, overall and in each group tested.

Simultaneous intervals turn "not found" into "right to within 8 %": those of everybody and of all groups hold
together with 95 % confidence (Bonferroni). Asked the other way round, a score is shown to be within 20 % if
the interval of every group excludes larger errors; each of these tests has 5 %, because all of them must pass
(intersection-union test). Which groups are, if not all of them, is read from the simultaneous intervals.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, log1p
from typing import Any

import numpy as np
import pandas as pd

from propcal.auditing.claims import Claim, Kind, numbers_of
from propcal.auditing.finding_names import CHANCE, TOO_HIGH, TOO_LOW
from propcal.auditing.intervals import CONFIDENCE, normal_quantile
from propcal.auditing.measures import Limits, ratio_intervals
from propcal.auditing.sample import Sample
from propcal.numbers import known

TOGETHER, EACH = "simultaneous intervals of O/E ratios", "intervals of the O/E ratio of every group"


def largest_errors(samples: Sequence[Sample]) -> list[Limits]:
    """The largest relative error that each group may have: with all groups together, and alone; or NaN.

    The first is of intervals that hold together. The second is of intervals whose ends are one-sided limits
    at 95 % each: a claim about all groups must pass each.
    """
    confidences = 1 - (1 - CONFIDENCE) / max(len(samples), 1), 2 * CONFIDENCE - 1
    ends = np.array([ratio_intervals(one, *confidences) for one in samples]).reshape(-1, 2, 2)
    return [(together, alone) for together, alone in np.maximum(1 - ends[..., 0], ends[..., 1] - 1).tolist()]


def events_needed(within: float, rate: float = 0.0, effect: float = 1.0) -> int:
    """About how many expected events show that a score is right to within a share, if its O/E ratio is 1.

    Common outcomes vary less than rare ones; repeat visits and uneven weights vary more, by a design effect.

    >>> events_needed(0.2), events_needed(0.1), events_needed(0.2, rate=0.5, effect=3.0)
    (82, 298, 123)
    """
    return ceil((normal_quantile(CONFIDENCE) / log1p(within)) ** 2 * (1 - rate) * effect)


def too_few_events(within: float, expected: float, rate: float, effect: float) -> str:
    """Why these people could not answer a question even if the score were right; empty if they could."""
    needed = events_needed(within, rate, effect)
    if expected >= needed:
        return ""
    share, events = f"{100 * within:g} %", f"about {needed:,} expected events or more"
    return f"a score is shown to be right to within {share} by {events}; there are {expected:,.0f}"


def certificate(groups: pd.DataFrame) -> tuple[Claim, ...]:
    """How far off the score can be, for everybody and each group in which no error was found."""
    tested = groups[groups["finding"] == CHANCE]
    return tuple(_claim("within", row, row["certain_within"], TOGETHER) for row in _judged(tested))


def shown_within(groups: pd.DataFrame, within: float) -> tuple[bool, tuple[Claim, ...]]:
    """Whether the score is shown to be right to within a share everywhere, and what is shown of each group.

    A group is off by more if its test calls it wrong, and its interval excludes all errors up to the share.
    """
    rows = _judged(groups)
    if all(row["shown_within"] <= within for row in rows):
        return True, tuple(_claim("within", row, within, EACH) for row in rows)
    outside = [_claim("outside", row, within, row["group"]) for row in rows if _surely_outside(row, within)]
    inside = [_claim("within", row, within, TOGETHER) for row in rows if row["certain_within"] <= within]
    return False, (*outside, *inside)


def _judged(groups: pd.DataFrame) -> list[Any]:
    """The rows of the groups tested."""
    tested = groups[groups["kept"].astype(bool) & groups["certain_within"].notna()]
    return [row for _, row in tested.iterrows()]


def _surely_outside(row: Any, within: float) -> bool:
    wrong = row["finding"] in (TOO_HIGH, TOO_LOW)
    low, high = row["observed_expected_low"], row["observed_expected_high"]
    return bool(wrong and (low > 1 + within or high < 1 - within))


def _claim(kind: Kind, row: Any, within: float, test: str) -> Claim:
    direction = row["finding"] if kind == "outside" else ""
    p_value = row["p_value"] if kind == "outside" and known(row["p_value"]) else float("nan")
    numbers = numbers_of(row)
    return Claim(
        kind, row["group"], row["label"], direction, test=test, p_value=p_value, within=within, **numbers
    )

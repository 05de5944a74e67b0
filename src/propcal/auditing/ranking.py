"""Whether a score ranks people the wrong way round."""

from __future__ import annotations

from math import isnan
from typing import Any

import numpy as np

from propcal.auditing.measures import Estimate, auroc
from propcal.auditing.sample import Sample
from propcal.core.atoms import Atoms

FEWEST_EVENTS = 50  # with fewer, an AUROC far below one half may be chance
REVERSED = 0.4
RANGE_BITS = 26  # of 32: 64 ranges of scores


def reversed_area(everybody: Any) -> tuple[float, float, float] | None:
    """The AUROC of a score that ranks people the wrong way round; None if it does not, or may not."""
    events, rate = float(everybody["positives"]), float(everybody["outcome_rate"])
    value, low, high = (float(everybody[f"auroc{end}"]) for end in ("", "_low", "_high"))
    without = events / rate - events if rate > 0 else 0.0
    return (value, low, high) if is_reversed(min(events, without), value, high) else None


def reversed_ranking(sample: Sample) -> Estimate | None:
    """The AUROC of people whom the score ranks the wrong way round; None if it does not, or may not."""
    fewest = min(sample.observed, sample.total - sample.observed)
    if fewest < FEWEST_EVENTS:
        return None
    area = auroc(sample)
    return area if is_reversed(fewest, area.value, area.high) else None


def surely_not_reversed(atoms: Atoms) -> bool:
    """Whether 64 ranges of scores are enough to see that the ranking is not reversed, as it nearly always is.

    Pairs of people in the same range count as if they were ranked wrongly, and those in neighbouring ranges
    as ties, so that a finer count only gives a larger AUROC.
    """
    place = atoms.score >> RANGE_BITS
    events, total = (np.bincount(place, column) for column in (atoms.positives, atoms.weight))
    others = total - events
    below = np.cumsum(np.concatenate([[0.0, 0.0], others]))  # those at least two ranges lower
    right = np.sum(events * (below[: len(events)] + below[1 : len(events) + 1])) / 2
    return bool(right > REVERSED * events.sum() * others.sum())


def is_reversed(events: float, area: float, area_high: float) -> bool:
    """Whether an AUROC is so low that the score ranks the wrong way round.

    `events` is the number of events or of non-events, whichever is smaller.
    """
    return events >= FEWEST_EVENTS and area < REVERSED and (isnan(area_high) or area_high < 0.5)

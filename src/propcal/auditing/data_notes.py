"""Notes on the data themselves: a score that ranks the wrong way round, and people who were left out."""

from __future__ import annotations

from math import isnan

from propcal.auditing.findings import Findings
from propcal.auditing.measures import Estimate, auroc
from propcal.auditing.sample import Sample

FEWEST_EVENTS = 50  # with fewer, an AUROC far below one half may be chance
REVERSED = 0.4


def data_notes(found: Findings) -> list[str]:
    """What a reader must know of the data before any number."""
    area = reversed_ranking(found.profiles[0].sample)
    left_out = found.people.left_out.sentence()
    return [note for note in ("" if area is None else reversed_note(area), left_out) if note]


def reversed_ranking(sample: Sample) -> Estimate | None:
    """The AUROC of a score that ranks people the wrong way round; None if it does not, or may not."""
    if min(sample.observed, sample.total - sample.observed) < FEWEST_EVENTS:
        return None
    area = auroc(sample)
    reversed_ = area.value < REVERSED and (isnan(area.high) or area.high < 0.5)
    return area if reversed_ else None


def reversed_note(area: Estimate) -> str:
    """The same in words."""
    interval = "" if isnan(area.high) else f", 95 % CI {area.low:.2f} to {area.high:.2f}"
    return (
        f"THE SCORE RANKS PEOPLE THE WRONG WAY ROUND (AUROC {area.value:.2f}{interval}): people with higher "
        "scores had the outcome less often. It is probably a survival probability; use 1 - score."
    )

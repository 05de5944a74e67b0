"""Notes on the data themselves: people who were left out, and a score that ranks the wrong way round."""

from __future__ import annotations

from math import isnan

from propcal.auditing.findings import Findings
from propcal.auditing.measures import Estimate, auroc
from propcal.auditing.sample import Sample
from propcal.identity import Identity
from propcal.numbers import IN_SENTENCE

FEWEST_EVENTS = 50  # with fewer, an AUROC far below one half may be chance
REVERSED = 0.4


def data_notes(found: Findings, identity: Identity) -> list[str]:
    """What a reader must know of the data before any number."""
    notes = []
    if found.untested and (area := reversed_ranking(found.profiles[0].sample)):  # else, the verdict says so
        notes.append(reversed_sentence(*area, identity.subject, identity.unit))
    if left_out := found.people.left_out.sentence(unit=identity.unit, labels=identity.labels):
        notes.append(left_out)
    return notes


def reversed_ranking(sample: Sample) -> Estimate | None:
    """The AUROC of a score that ranks people the wrong way round; None if it does not, or may not."""
    fewest = min(sample.observed, sample.total - sample.observed)
    if fewest < FEWEST_EVENTS:
        return None
    area = auroc(sample)
    return area if is_reversed(fewest, area.value, area.high) else None


def is_reversed(events: float, area: float, area_high: float) -> bool:
    """Whether an AUROC is so low that the score ranks the wrong way round.

    `events` is the number of events or of non-events, whichever is smaller.
    """
    return events >= FEWEST_EVENTS and area < REVERSED and (isnan(area_high) or area_high < 0.5)


def reversed_sentence(value: float, low: float, high: float, subject: str, unit: str) -> str:
    """The same in words, given the AUROC."""
    limits = IN_SENTENCE.interval(low, high)
    interval = f", 95 % CI {limits}" if limits != IN_SENTENCE.unknown else ""
    return (
        f"{subject.upper()} RANKS {unit.upper()} THE WRONG WAY ROUND (AUROC {IN_SENTENCE.decimal(value)}"
        f"{interval}): {unit} with higher scores had the outcome less often. Check that the right value of "
        "the outcome means the event (positive=, --positive). If it does, the score is probably a survival "
        "probability; use 1 - score."
    )

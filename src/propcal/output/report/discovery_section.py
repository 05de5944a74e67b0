"""The report's section on groups that a search found: sentences and a table, from protected counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from propcal.disclosure.protected_discovery import protected_discovery
from propcal.discovery.finding_rows import RATIO, whole
from propcal.numbers import ON_PAGE, Limit, known

if TYPE_CHECKING:
    from propcal.discovery.discovery import Discovery
    from propcal.discovery.finding_rows import FoundGroup

NOTE = (
    "Groups were found by a search; intervals and p-values allow for it, so that intervals are wider than in "
    "other tables. Found again: share of resamples in which the search described mostly the same people; a "
    "low share means that the description is uncertain, not that the error is. A group that is found is not "
    "the cause of an error."
)
BLOCKS = "Counts are shown in blocks of ten, and other numbers are computed from these. "
AFTER_NOTE = (
    "Predicted: by the raw score. After correction: predicted by the score once errors named before are "
    "corrected for (the whole score, and the groups above in the table); O/E ratio or slope, interval and "
    "p-value are of that score. "
)


@dataclass(frozen=True)
class DiscoverySection:
    """What the page shows: sentences, and a table of texts."""

    sentences: tuple[str, ...]
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str


def discovery_section(found: Discovery, suppress: int = 11) -> DiscoverySection:
    """The section of a discovery, from protected counts; 0 protects nothing."""
    shown = protected_discovery(found, suppress)
    unit = shown.identity.unit
    groups = {group.sentence(shown.identity) for group in shown.found}
    small = any(isinstance(group.value, Limit) or not known(group.value) for group in shown.found)
    hidden = f"Numbers are limited or left out where fewer than {suppress} {unit} had (or did not have) "
    corrected = any(group.two_scores for group in shown.found)
    protected = shown is not found and bool(shown.found)
    return DiscoverySection(
        tuple(sentence for sentence in shown.sentences if sentence not in groups),
        (
            "Group",
            "The score is",
            unit[:1].upper() + unit[1:],
            "Observed",
            "Predicted",
            *(["After correction"] if corrected else []),
            "O/E ratio or slope",
            "95 % CI after selection",
            "p, adjusted for the search",
            "Found again",
        ),
        tuple(_row(group, corrected) for group in shown.found),
        (BLOCKS if protected else "")
        + (f"{hidden}the outcome. " if small and protected else "")
        + (AFTER_NOTE if corrected else "")
        + NOTE,
    )


def _row(group: FoundGroup, corrected: bool) -> tuple[str, ...]:
    value = ON_PAGE.decimal(group.value, group.digits)
    if group.measure != RATIO and known(group.value):
        value = f"slope {value}"
    return (
        group.name,
        group.words,
        ON_PAGE.count(whole(group.people)),
        ON_PAGE.percent(group.observed),
        ON_PAGE.percent(group.predicted),
        *([ON_PAGE.percent(group.predicted_after)] if corrected else []),
        value,
        ON_PAGE.interval(group.low, group.high, group.digits),
        ON_PAGE.p_value(group.p_value),
        f"{100 * group.again:.0f} %",
    )

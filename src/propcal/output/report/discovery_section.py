"""The report's section on groups that a search found: sentences and a table, small counts suppressed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from propcal.numbers import ON_PAGE

if TYPE_CHECKING:
    from propcal.discovery.discovery import Discovery
    from propcal.discovery.finding_rows import FoundGroup

HEADINGS = (
    "Group",
    "The score is",
    "People",
    "Observed",
    "Predicted",
    "O/E ratio or slope",
    "95 % CI",
    "Adjusted p",
    "Found again",
)


@dataclass(frozen=True)
class DiscoverySection:
    """What the page shows: sentences, and a table of texts."""

    sentences: tuple[str, ...]
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str


def discovery_section(found: Discovery, suppress: int = 11) -> DiscoverySection:
    """The section of a discovery; counts of 1 to `suppress` - 1 people are withheld."""
    groups = {group.sentence(found.identity) for group in found.found}
    hidden = [group for group in found.found if _small(group, suppress)]
    note = (
        f"Rates and counts are suppressed where fewer than {suppress} {found.identity.unit} had, or did not "
        "have, the outcome. "
        if hidden
        else ""
    )
    return DiscoverySection(
        tuple(sentence for sentence in found.sentences if sentence not in groups),
        HEADINGS,
        tuple(_row(group, hide=group in hidden) for group in found.found),
        note + "Groups were found by a search; intervals and p-values allow for it. A group that is found is "
        "not the cause of an error.",
    )


def _small(group: FoundGroup, suppress: int) -> bool:
    return any(0 < count < suppress for count in (group.events, group.people - group.events, group.people))


def _row(group: FoundGroup, *, hide: bool) -> tuple[str, ...]:
    numbers = (
        ON_PAGE.count(round(group.people)),
        ON_PAGE.percent(group.observed),
        ON_PAGE.percent(group.predicted),
        ON_PAGE.decimal(group.value),
        ON_PAGE.interval(group.low, group.high),
    )
    shown = ("suppressed",) * len(numbers) if hide else numbers
    return (group.name, group.error, *shown, ON_PAGE.p_value(group.p_value), f"{100 * group.again:.0f} %")

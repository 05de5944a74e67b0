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
    "Groups were found by a search; intervals and p-values allow for it. A group that is found is not the "
    "cause of an error."
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
    return DiscoverySection(
        tuple(sentence for sentence in shown.sentences if sentence not in groups),
        (
            "Group",
            "The score is",
            unit[:1].upper() + unit[1:],
            "Observed",
            "Predicted",
            "O/E ratio",
            "95 % CI",
            "Adjusted p",
            "Found again",
        ),
        tuple(_row(group) for group in shown.found),
        (f"{hidden}the outcome. " if small and shown is not found else "") + NOTE,
    )


def _row(group: FoundGroup) -> tuple[str, ...]:
    value = ON_PAGE.decimal(group.value, group.digits)
    if group.measure != RATIO and known(group.value):
        value = f"slope {value}"
    return (
        group.name,
        group.error,
        ON_PAGE.count(whole(group.people)),
        ON_PAGE.percent(group.observed),
        ON_PAGE.percent(group.predicted),
        value,
        ON_PAGE.interval(group.low, group.high, group.digits),
        ON_PAGE.p_value(group.p_value),
        f"{100 * group.again:.0f} %",
    )

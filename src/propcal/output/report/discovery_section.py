"""The report's section on groups that a search found: sentences and a table, from protected counts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from propcal.disclosure.blocks import Blocks
from propcal.disclosure.protected_sample import expected_events
from propcal.disclosure.small_counts import p_band
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
    """The section of a discovery, from protected counts; 0 protects nothing."""
    groups = {group.sentence(found.identity) for group in found.found}
    shown = [_protected(group, Blocks(suppress)) if suppress > 1 else group for group in found.found]
    note = (
        f"Numbers are left out where fewer than {suppress} {found.identity.unit} had, or did not have, the "
        "outcome. "
        if None in shown
        else ""
    )
    return DiscoverySection(
        tuple(sentence for sentence in found.sentences if sentence not in groups),
        HEADINGS,
        tuple(_row(group, own) for group, own in zip(found.found, shown)),
        note + "Groups were found by a search; intervals and p-values allow for it. A group that is found is "
        "not the cause of an error.",
    )


def _protected(group: FoundGroup, blocks: Blocks) -> FoundGroup | None:
    """The group with protected counts and what follows from them; None if a count is small."""
    counts = np.array([[group.events], [group.people - group.events]], dtype=np.float64)
    if blocks.small(counts, counts).any():
        return None
    events, others = blocks.pair(counts, counts)[:, 0].tolist()
    expected = expected_events(group.predicted, events + others)
    scale = 1.0
    if group.measure == "O/E ratio" and group.value > 0 and expected > 0:
        scale = events / expected / group.value
    value, low, high = (float(f"{scale * number:.2g}") for number in (group.value, group.low, group.high))
    return replace(
        group,
        people=events + others,
        observed=events / (events + others),
        predicted=expected / (events + others),
        value=value,
        low=low,
        high=high,
        p_value=p_band(group.p_value),
    )


def _row(group: FoundGroup, shown: FoundGroup | None) -> tuple[str, ...]:
    again = f"{100 * group.again:.0f} %"
    if shown is None:
        return (
            group.name,
            group.error,
            *(ON_PAGE.unknown,) * 5,
            ON_PAGE.p_value(p_band(group.p_value)),
            again,
        )
    return (
        group.name,
        group.error,
        ON_PAGE.count(round(shown.people)),
        ON_PAGE.percent(shown.observed),
        ON_PAGE.percent(shown.predicted),
        ON_PAGE.decimal(shown.value),
        ON_PAGE.interval(shown.low, shown.high),
        ON_PAGE.p_value(shown.p_value),
        again,
    )

"""What a search for groups found, as a page of its own or a section of a report."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from propcal.auditing.audit_tables import row_dicts
from propcal.core.arguments import FEWEST_SHOWN
from propcal.discovery.discovery import Discovery
from propcal.discovery.finding_rows import RATIO, FoundGroup, whole
from propcal.discovery.protected_groups import Protection
from propcal.documents.blocks import (
    At,
    Block,
    Document,
    Items,
    Paragraphs,
    Section,
    VerdictBlock,
    named_texts,
)
from propcal.documents.charts import SIDES, Chart, Forest, ForestRow, ratio_axis
from propcal.documents.sentences import discovery as wording
from propcal.documents.words import table, words
from propcal.numbers import Limit, capital, known, listed, without_limits
from propcal.options import Identity
from propcal.protect.protected_discovery import protected_discovery

NOBODY = (
    "No group described by the searched columns was found for whom the score is wrong "
    "by more than chance explains."
)
NO_RATIO = "No group has an O/E ratio to show."
AFTER_CORRECTION = "once the errors named before are corrected for"


def discovery_document(
    discovery: Discovery, suppress: int = 0, title: str | None = None
) -> Document:
    """The document of a search, from protected counts; 0 protects nothing."""
    shown = protected_discovery(discovery, suppress)
    identity = shown.identity
    findings = [finding(group, identity) for group in shown.found]
    groups = _table(discovery, shown, suppress)
    blocks: list[Block] = [_verdict(shown), Paragraphs(findings, places=At.TEXT)]
    if shown.found:
        names = ("found_why", "found_correct")
        steps = Items("", [words("next_steps", name) for name in names])
        blocks.append(Section("next", "What to do next", [steps], places=At.PAGE))
    blocks.append(
        Section("groups", "Groups found", groups, places=At.PAGE | At.CARD),
    )
    blocks += _further(shown)
    return Document(
        brand="Search for groups",
        title=title or identity.title or "Groups found by a search",
        about=named_texts(Score=identity.score),
        blocks=blocks,
    )


def _verdict(shown: Discovery) -> VerdictBlock:
    if not shown.enough:
        tone = "few"
    elif shown.found or shown.overall["found"]:
        tone = "wrong"
    elif _protected_off(shown):
        tone = "few"
    else:
        tone = "noise"
    texts = [*wording.overall(shown), *wording.other_groups(shown)]
    return VerdictBlock(tone, _how_many(shown), texts, subject="")


def _further(shown: Discovery) -> list[Block]:
    """What became of protected groups, and which columns were not searched."""
    further: dict[str, Sequence[str]] = {
        "Protected groups": _repaired(shown),
        "Columns that were not searched": wording.not_searched(shown.left_out),
    }
    sections: list[Block] = []
    for place, (heading, texts) in enumerate(further.items()):
        if texts:
            sections.append(Section(f"further-{place}", heading, [Paragraphs(texts)]))
    return sections


def discovery_section(discovery: Discovery, suppress: int = FEWEST_SHOWN) -> Section:
    """The groups found as a part of the report of an audit."""
    shown = protected_discovery(discovery, suppress)
    sentences = Paragraphs(discovery_sentences(shown, []))
    blocks = [sentences, *_table(discovery, shown, suppress)]
    return Section("discovery", "Groups found by a search", blocks, "Groups found")


def _repaired(discovery: Discovery) -> Sequence[str]:
    if discovery.protection is None:
        return ()
    return discovery.protection.sentences


def _protected_off(discovery: Discovery) -> bool:
    """Whether the score is clearly wrong for a protected group, whose columns need not
    be searched.
    """
    if discovery.protection is None:
        return False
    return any(row["clear"] for row in row_dicts(discovery.protection.table))


def _table(discovery: Discovery, shown: Discovery, suppress: int) -> list[Block]:
    """The groups, with what a reader must know of their numbers; only that if there are
    none.
    """
    groups = shown.found
    withheld = [isinstance(one.value, Limit) or not known(one.value) for one in groups]
    reading = {
        "protected": shown is not discovery and bool(groups),
        "small": any(withheld),
        "corrected": any(group.two_scores for group in groups),
        "slopes": any(group.measure != RATIO for group in groups),
    }
    rows = [_row(group) for group in groups]
    about = {"unit": shown.identity.unit, "fewest": suppress}
    found_groups = table("found", rows, **about, **reading)
    if not groups:
        return [Paragraphs([found_groups.note])]
    chart = discovery_chart(shown)
    return [chart, found_groups] if isinstance(chart, Forest) else [found_groups]


def _row(group: FoundGroup) -> dict[str, Any]:
    return {
        **vars(group),
        "words": group.words,
        "people": whole(group.people),
        "digits": group.digits,
        "outcome_rate": group.observed,
        "mean_score": group.predicted,
    }


def discovery_chart(discovery: Discovery) -> Chart:
    """O/E ratios of the groups, with their intervals."""
    rows = []
    for group in discovery.found:
        value, low, high = without_limits([group.value, group.low, group.high])
        if group.measure == RATIO and known(value):
            look = "high" if value < 1 else "low"
            rows.append(ForestRow(group.name, value, low, high, look=look))
    if not rows:
        return NO_RATIO if discovery.found else NOBODY

    description = (
        "O/E ratio of each group with its 95 % confidence interval after selection"
    )
    note = ""
    if any(group.two_scores for group in discovery.found):
        description += f", {AFTER_CORRECTION}"
        note = capital(AFTER_CORRECTION)
    ends = [end for row in rows for end in (row.low, row.high)]
    return Forest(
        "forest-found",
        "O/E ratio",
        f"{description}.",
        ratio_axis(ends),
        rows,
        ends=SIDES,
        note=note,
    )


def discovery_sentences(
    discovery: Discovery, groups: Sequence[FoundGroup]
) -> tuple[str, ...]:
    """What was found, with a sentence for each of these groups."""
    return (
        *wording.overall(discovery),
        _how_many(discovery),
        *(finding(group, discovery.identity) for group in groups),
        *wording.other_groups(discovery),
        *_repaired(discovery),
        *wording.not_searched(discovery.left_out),
    )


def _how_many(discovery: Discovery) -> str:
    return wording.how_many(discovery, whole(discovery.overall["events"]))


def finding(group: FoundGroup, identity: Identity) -> str:
    """One group: what the test says, and whether interval and resamples agree with
    it.
    """
    return wording.finding(group, whole(group.people), identity)


def repairs(protection: Protection) -> list[str]:
    """How much of each protected group's error is removed."""
    columns = listed(list(protection.columns))
    return wording.repairs(row_dicts(protection.table), protection.by, columns)

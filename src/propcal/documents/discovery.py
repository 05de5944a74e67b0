"""What a search for groups found: sentences and a table, for a page of its own or a
section of a report.
"""

from __future__ import annotations

from collections.abc import Sequence

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
)
from propcal.documents.charts import SIDES, Chart, Forest, ForestRow, ratio_axis
from propcal.documents.sentences import discovery as wording
from propcal.documents.words import table, words
from propcal.numbers import Limit, capital, known, listed, without_limits
from propcal.options import Identity
from propcal.protect.results import protected_discovery

NOBODY = (
    "No group described by the searched columns was found for whom the score is wrong by more than chance "
    "explains."
)


def discovery_document(
    discovery: Discovery, suppress: int = 0, title: str | None = None
) -> Document:
    """The document of a search, from protected counts; 0 protects nothing."""
    shown = protected_discovery(discovery, suppress)
    repaired = [] if shown.protection is None else shown.protection.sentences
    further = {
        "Protected groups": repaired,
        "Columns that were not searched": wording.not_searched(shown.left_out),
    }
    steps = [
        Items(
            "", [words("next_steps", name) for name in ("found_why", "found_correct")]
        )
    ]
    if shown.found or shown.overall["found"]:
        tone = "wrong"
    elif _protected_off(shown):
        tone = "few"
    else:
        tone = "noise"
    texts = [*wording.overall(shown), *wording.other_groups(shown)]
    return Document(
        brand="Search for groups",
        title=title or shown.identity.title or "Groups found by a search",
        about=[("Score", shown.identity.score)] if shown.identity.score else [],
        blocks=[
            VerdictBlock(
                tone if shown.enough else "few", _how_many(shown), texts, subject=""
            ),
            Paragraphs(
                [finding(group, shown.identity) for group in shown.found],
                places=At.TEXT,
            ),
            *(
                [Section("next", "What to do next", steps, places=At.PAGE)]
                if shown.found
                else []
            ),
            Section(
                "groups",
                "Groups found",
                _table(discovery, shown, suppress),
                places=At.PAGE | At.CARD,
            ),
            *(
                Section(f"further-{i}", heading, [Paragraphs(texts)])
                for i, (heading, texts) in enumerate(further.items())
                if texts
            ),
        ],
    )


def discovery_section(discovery: Discovery, suppress: int = FEWEST_SHOWN) -> Section:
    """The groups found as a part of the report of an audit."""
    shown = protected_discovery(discovery, suppress)
    blocks = [
        Paragraphs(discovery_sentences(shown, [])),
        *_table(discovery, shown, suppress),
    ]
    return Section("discovery", "Groups found by a search", blocks, "Groups found")


def _protected_off(discovery: Discovery) -> bool:
    """Whether the score is clearly wrong for a protected group, whose columns need not
    be searched.
    """
    protection = discovery.protection
    return protection is not None and any(
        row["clear"] for row in row_dicts(protection.table)
    )


def _table(discovery: Discovery, shown: Discovery, suppress: int) -> list[Block]:
    """The groups, with what a reader must know of their numbers; only that if there are
    none.
    """
    groups = shown.found
    rows = [
        vars(group)
        | {"words": group.words, "people": whole(group.people), "digits": group.digits}
        | {"outcome_rate": group.observed, "mean_score": group.predicted}
        for group in groups
    ]
    said = {
        "protected": shown is not discovery and bool(groups),
        "small": any(
            isinstance(group.value, Limit) or not known(group.value) for group in groups
        ),
        "corrected": any(group.two_scores for group in groups),
        "slopes": any(group.measure != RATIO for group in groups),
    }
    found_groups = table(
        "found", rows, unit=shown.identity.unit, fewest=suppress, **said
    )
    if not groups:
        return [Paragraphs([found_groups.note])]
    forest = discovery_chart(shown)
    return [*([forest] if isinstance(forest, Forest) else []), found_groups]


def discovery_chart(discovery: Discovery) -> Chart:
    """O/E ratios of the groups, with their intervals."""
    rows = []
    for group in discovery.found:
        value, low, high = without_limits([group.value, group.low, group.high])
        if group.measure == RATIO and known(value):
            rows.append(
                ForestRow(
                    group.name, value, low, high, look="high" if value < 1 else "low"
                )
            )
    if not rows:
        if discovery.found:
            return "No group has an O/E ratio to show."
        return NOBODY
    corrected = any(group.two_scores for group in discovery.found)
    if corrected:
        after = "once the errors named before are corrected for"
    else:
        after = ""
    description = (
        "O/E ratio of each group with its 95 % confidence interval after selection"
    )
    description += f", {after}." if after else "."
    axis = ratio_axis([end for row in rows for end in (row.low, row.high)])
    return Forest(
        "forest-found",
        "O/E ratio",
        description,
        axis,
        rows,
        ends=SIDES,
        note=capital(after),
    )


def discovery_sentences(
    discovery: Discovery, groups: Sequence[FoundGroup]
) -> tuple[str, ...]:
    """What was found, with a sentence for each of these groups."""
    repaired: Sequence[str] = ()
    if discovery.protection is not None:
        repaired = discovery.protection.sentences
    return (
        *wording.overall(discovery),
        _how_many(discovery),
        *(finding(group, discovery.identity) for group in groups),
        *wording.other_groups(discovery),
        *repaired,
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

"""What a comparison of scores says: what changed from the base, and the audit of the last score."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from propcal.auditing.audit import typical_gap
from propcal.auditing.audit_tables import row_dicts
from propcal.auditing.compare import Comparison
from propcal.auditing.measure_names import MEASURE_NAMES
from propcal.documents.advice import next_steps, unchanged_steps
from propcal.documents.audit import RATIO, Around, audit_document, headline, threshold_label, verdict_block
from propcal.documents.blocks import At, Beside, Block, Column, Document, Paragraphs, Section, Table, Verdict
from propcal.documents.data import comparison_content
from propcal.numbers import IN_SENTENCE, known

OVERALL = ("all categories", "everybody")


def comparison_document(comparison: Comparison, around: Around | None = None) -> Document:
    """The document of a comparison, whose counts may be protected."""
    name, audit = [*comparison.audits.items()][-1]
    unchanged = name in comparison.unchanged
    steps = next_steps(audit, name, len(comparison.worse_groups(name)))
    compared = [
        f"For comparison, “{other}”: {one.verdict.conclusion}. {' '.join(one.verdict.sentences[1:])}"
        for other, one in comparison.audits.items()
        if other != name and not unchanged
    ]
    around = around or Around()
    given = replace(
        around,
        score=name,
        before=None if unchanged else comparison.audits[comparison.base],
        verdicts=_verdicts(comparison, around),
        steps=unchanged_steps(audit, comparison.base) if unchanged else steps,
        compared=compared,
        changed=[_changes(comparison), *around.changed],
        notes=comparison.all_notes,
        content=lambda: comparison_content(comparison),
    )
    return audit_document(audit, given)


def _verdicts(comparison: Comparison, around: Around) -> list[Block]:
    """Of each score in a terminal or a notebook; a page is about the last one."""
    name, audit = [*comparison.audits.items()][-1]
    blocks: list[Block] = []
    for other, one in comparison.audits.items():
        changes = [] if other == comparison.base else comparison.sentences(other)
        block = verdict_block(one, other)
        sentences = [*changes, *([] if other in comparison.unchanged else block.sentences)]
        blocks.append(replace(block, sentences=sentences, places=At.SCREEN | At.CARD))
    tone, words = headline(audit)
    nobody = " changes nobody" if name in comparison.unchanged else ""
    words = f"{name[0].upper()}{name[1:]}{nobody}: {words[0].lower()}{words[1:]}"
    sentences = [*comparison.sentences(name), *audit.verdict.sentences]
    return [*blocks, Verdict(tone, words, sentences, places=At.WRITTEN, links=around.links)]


def effect_sentences(comparison: Comparison, name: str) -> list[str]:
    """What changed for whom, and the typical gap of a cell before and after."""
    sentences = comparison.sentences(name)
    typical = [typical_gap(comparison.audits[each].debiased)[0] for each in (comparison.base, name)]
    if all(map(known, typical)) and name not in comparison.unchanged:
        first, second = (IN_SENTENCE.decimal(100 * value, 1) for value in typical)
        sentences.append(
            f"Typical gap of a cell (a group within a risk range), without what chance adds: {first} "
            f"percentage points before, {second} after."
        )
    return sentences


def _changes(comparison: Comparison) -> Section:
    blocks: list[Block] = []
    for i, name in enumerate([*comparison.audits][1:]):
        heading = f"{name} compared with {comparison.base}"
        blocks.append(Paragraphs(effect_sentences(comparison, name), heading, places=At.WRITTEN))
        if name not in comparison.unchanged:
            blocks += [Beside(_tables(comparison, name, i), even=True), *_flags(comparison, name, i)]
    return Section("change", "Before and after", blocks, link="Before and after", places=At.FULL)


def _tables(comparison: Comparison, name: str, i: int) -> list[Block]:
    """Measures before and after: of everybody, and of each group."""
    table = comparison.differences[comparison.differences["score"] == name]
    overall = table["group"].isin(OVERALL)
    heading = f"{name} compared with {comparison.base}"
    ends = [Column("change", "95 % CI of the change", "change")]
    columns = [Column("before", "before", "decimal"), Column("after", "after", "decimal"), *ends]
    note = "If the interval of a change includes 0, chance may explain it."
    blocks: list[Block] = [
        Table(
            f"overall-{i}",
            heading,
            [Column("measure", "measure"), *columns],
            [_change(row) for row in row_dicts(table[overall])],
            note,
        )
    ]
    brier = {row["group"]: row for row in row_dicts(table[table["measure"] == "brier"])}
    labels = comparison.audits[name].labels
    groups = [
        {name: value for name, value in _change(row).items() if name != "digits"}
        | {"label": labels.get(row["group"], row["group"])}
        | {f"brier_{end}": brier[row["group"]][end] for end in ("low", "high")}
        for row in row_dicts(table[~overall & (table["measure"] == RATIO)])
    ]
    if groups:
        columns = [
            Column("label", "group"),
            Column("before", "O/E before", "decimal"),
            Column("after", "O/E after", "decimal"),
            *ends,
            Column("brier", "change of Brier score, 95 % CI", "change", 3),
        ]
        blocks.append(Table(f"each-group-{i}", f"{heading}, group by group", columns, groups))
    return blocks


def _change(row: Mapping[str, Any]) -> dict[str, Any]:
    measure = MEASURE_NAMES[row["measure"]]
    return {
        "measure": measure.name,
        "digits": measure.digits,
        "before": measure.shown(row["base"]),
        "after": measure.shown(row["value"]),
        "change_low": row["low"],
        "change_high": row["high"],
    }


def _flags(comparison: Comparison, name: str, i: int) -> list[Block]:
    """Who is newly flagged and no longer; groups in which nobody is are left out."""
    table = comparison.flags[comparison.flags["score"] == name]
    columns = [
        Column("label", "group"),
        Column("newly_flagged", "newly flagged", "some"),
        Column("no_longer_flagged", "no longer flagged", "some"),
    ]
    blocks: list[Block] = []
    for place, threshold in enumerate(table["threshold"].unique()):
        rows = [
            row
            for row in row_dicts(table[table["threshold"] == threshold])
            if (row["newly_flagged"], row["no_longer_flagged"]) != (0, 0)
        ]
        if rows:
            title = f"{name} compared with {comparison.base} at {threshold_label(threshold)}"
            blocks.append(Table(f"flags-{i}-{place}", title, columns, rows))
    return blocks

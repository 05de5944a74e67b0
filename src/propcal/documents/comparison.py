"""What a comparison of scores says: what changed from the base for whom, and the audit of the last score."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from propcal.auditing.audit import Audit
from propcal.auditing.audit_tables import row_dicts
from propcal.auditing.compare import Comparison
from propcal.auditing.names import HIGHER, LOWER, MEASURE_NAMES, MISCALIBRATED, NONE_FOUND
from propcal.auditing.score_changes import BETTER, WORSE, GroupChange
from propcal.core.groups.collection import EVERYBODY
from propcal.documents.audit import Around, audit_document, headline, threshold_label, verdict_block
from propcal.documents.audit_notes import next_steps, unchanged_steps
from propcal.documents.blocks import RATIO, At, Beside, Block, Document, Paragraphs, Section, Verdict
from propcal.documents.data import comparison_content
from propcal.documents.words import table
from propcal.numbers import IN_SENTENCE, Limit, capital, known, listed, plural

MOST_NAMED = 3
MOST_CHANGES, MOST_SENTENCES = 3, 4  # of a verdict; what does not fit is in the section on changes
OVERALL = ("all categories", "everybody")


def comparison_document(comparison: Comparison, around: Around | None = None) -> Document:
    """The document of a comparison, whose counts may be protected."""
    name, audit = [*comparison.audits.items()][-1]
    unchanged = name in comparison.unchanged
    ways = [claim.direction for claim in comparison.claims_of(name)]
    steps = next_steps(audit, name, ways.count(WORSE), ways.count(BETTER))
    compared = [
        f"For comparison, “{other}”: {one.verdict.conclusion}. {' '.join(_besides_conclusion(one))}"
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


def _besides_conclusion(audit: Audit) -> Sequence[str]:
    """The sentences of a verdict without the first one if it only repeats the conclusion."""
    verdict = audit.verdict
    repeats = verdict.conclusion in (MISCALIBRATED, NONE_FOUND) and not verdict.ranks_backwards
    return verdict.sentences[1:] if repeats else verdict.sentences


def _verdicts(comparison: Comparison, around: Around) -> list[Block]:
    """Of each score in a terminal or a notebook; a page is about the last one."""
    name, audit = [*comparison.audits.items()][-1]
    blocks: list[Block] = []
    for other, one in comparison.audits.items():
        changes = [] if other == comparison.base else comparison.sentences(other)
        block = verdict_block(one, other)
        sentences = _brief(changes, [] if other in comparison.unchanged else block.sentences)
        blocks.append(replace(block, sentences=sentences, places=At.SCREEN | At.CARD))
    tone, told = headline(audit)
    nobody = " changes nobody" if name in comparison.unchanged else ""
    told = f"{capital(name)}{nobody}: {told[0].lower()}{told[1:]}"
    sentences = _brief(comparison.sentences(name), audit.verdict.sentences)
    return [*blocks, Verdict(tone, told, sentences, places=At.WRITTEN, links=around.links)]


def _brief(changes: Sequence[str], verdict: Sequence[str]) -> list[str]:
    """What changed, then what the audit says."""
    return [*changes[:MOST_CHANGES], *verdict][:MOST_SENTENCES]


def effect_sentences(comparison: Comparison, name: str) -> list[str]:
    """What changed for whom, and the typical gap of a cell before and after."""
    sentences = comparison.sentences(name)
    typical = [comparison.audits[each].debiased["rms"]["mc"] for each in (comparison.base, name)]
    if all(map(known, typical)) and name not in comparison.unchanged:
        first, second = (IN_SENTENCE.decimal(100 * value, 1) for value in typical)
        sentences.append(
            f"Typical gap of a cell (a group within a risk range), without what chance adds: {first} "
            f"percentage points before, {second} after.{_perhaps_chance(comparison, name)}"
        )
    return sentences


def _perhaps_chance(comparison: Comparison, name: str) -> str:
    """What to add to the typical gaps unless the interval of their change excludes 0."""
    table = comparison.differences
    change = table[(table["score"] == name) & (table["measure"] == "mc_mean_square")]
    sure = bool(((change["low"] > 0) | (change["high"] < 0)).any())
    return "" if sure else " The difference could be chance."


def _changes(comparison: Comparison) -> Section:
    blocks: list[Block] = []
    for i, name in enumerate([*comparison.audits][1:]):
        heading = f"{name} compared with {comparison.base}"
        blocks.append(Paragraphs(effect_sentences(comparison, name), heading, places=At.WRITTEN))
        verdict = comparison.audits[name].verdict.sentences
        if verdict[-1] not in _brief(comparison.sentences(name), verdict):
            blocks.append(Paragraphs(verdict, f"Verdict on {name}", places=At.WRITTEN))
        if name not in comparison.unchanged:
            blocks += [Beside(_tables(comparison, name, i), even=True), *_flags(comparison, name, i)]
    return Section("change", "Before and after", blocks, link="Before and after", places=At.FULL)


def _tables(comparison: Comparison, name: str, i: int) -> list[Block]:
    """Measures before and after: of everybody, and of each group."""
    found = comparison.differences[comparison.differences["score"] == name]
    overall = found["group"].isin(OVERALL)
    heading = f"{name} compared with {comparison.base}"
    rows = [_change(row) for row in row_dicts(found[overall])]
    blocks: list[Block] = [table("overall", rows, f"overall-{i}", heading=heading)]
    brier = {row["group"]: row for row in row_dicts(found[found["measure"] == "brier"])}
    labels = comparison.audits[name].labels
    groups = [
        {name: value for name, value in _change(row).items() if name != "digits"}
        | {"label": labels.get(row["group"], row["group"])}
        | {f"brier_{end}": brier[row["group"]][end] for end in ("low", "high")}
        for row in row_dicts(found[~overall & (found["measure"] == RATIO)])
    ]
    if groups:
        blocks.append(table("each-group", groups, f"each-group-{i}", heading=heading))
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
    """Who is newly flagged and no longer; groups in which nobody is, or too few to tell, are left out."""
    found = comparison.flags[comparison.flags["score"] == name]
    pairs = zip(found["newly_flagged"], found["no_longer_flagged"])
    found = found.loc[[any(n != 0 and not isinstance(n, Limit) for n in pair) for pair in pairs]]
    heading = f"{name} compared with {comparison.base}"
    return [
        table(
            "flags",
            row_dicts(found[found["threshold"] == threshold]),
            f"flags-{i}-{place}",
            heading=heading,
            threshold=threshold_label(threshold),
        )
        for place, threshold in enumerate(found["threshold"].unique())
    ]


def change_sentences(comparison: Comparison, name: str) -> list[str]:
    """Whether the people are those of the fit; who is better and who worse off; who is flagged."""
    unit, told = comparison.audits[name].identity.unit, []
    if name in comparison.unchanged:
        told.append(f"“{name}” changes nobody: all scores are those of “{comparison.base}”.")
    if comparison.fitted_on_these(name):
        told.append(
            f"“{name}” was fitted to these very {unit}: this is not evidence of how it does on others."
        )
    if name in comparison.unchanged:
        return told
    brier = [] if told else _brier(comparison, name)
    flags = _crossed(comparison, name)
    return [*told, *_newly_off(comparison, name), *_nearer(comparison, name), *flags, *brier]


def _newly_off(comparison: Comparison, name: str) -> list[str]:
    """An error of the score as a whole that the base is not shown to have."""
    before, after = (
        {claim.direction for claim in comparison.audits[each].verdict.claims if claim.kind == "overall"}
        for each in (comparison.base, name)
    )
    return [
        f"“{name}” predicts {side} overall; “{comparison.base}” is not shown to." for side in after - before
    ]


def _brier(comparison: Comparison, name: str) -> list[str]:
    """For whom the Brier score is lower, and for whom higher."""
    changes = comparison.changes[comparison.changes["score"] == name]
    labels = comparison.audits[comparison.base].labels
    parts = []
    for way in (LOWER, HIGHER):
        groups = changes.loc[changes["brier_change"] == way, "group"].tolist()
        some = [labels[group] for group in groups if group != EVERYBODY.name]
        where = ["overall"] if EVERYBODY.name in groups else []
        if some:
            few = len(some) <= MOST_NAMED
            where.append(f"for {listed(some)}" if few else f"in {plural(len(some), 'subgroup')}")
        if where:
            parts.append(f"{way} {' and '.join(where)}")
    return [f"The Brier score is {', and '.join(parts)}."] if parts else []


def _nearer(comparison: Comparison, name: str) -> list[str]:
    """For whom predictions are nearer to the observed rate, and for whom further off."""
    changes = comparison.changes[comparison.changes["score"] == name]
    tested = int((changes["group"] != EVERYBODY.name).sum())
    claims = comparison.claims_of(name)
    better, worse = ([one for one in claims if one.direction == way] for way in (BETTER, WORSE))
    told = []
    if better:
        told.append(
            f"“{name}” is closer to the observed rate than “{comparison.base}” {_in(better, tested)}."
        )
    if worse:
        than = "It is further off" if better else f"“{name}” is further off than “{comparison.base}”"
        told.append(f"{than} {_in(worse, tested)}.")
    if not told and len(changes):
        told.append(
            f"“{name}” is not shown to be closer to the observed rate than “{comparison.base}”, or further "
            "off, for anybody: the differences are small or could be chance."
        )
    return told


def _in(claims: list[GroupChange], tested: int) -> str:
    """Everybody, and the subgroups by number; those whose predictions change most are named."""
    everybody = [one for one in claims if one.who == EVERYBODY.name]
    parts = sorted((one for one in claims if one.who != EVERYBODY.name), key=lambda one: -abs(one.size))
    told = [f"overall ({everybody[0].rates})"] if everybody else []
    if parts:
        n = len(parts)
        of = f"all {n:,} subgroups" if 1 < n == tested else f"{n:,} of {plural(tested, 'subgroup')}"
        of += " tested"
        most = "most clearly " if n > MOST_NAMED else ""
        told.append(f"in {of}: {most}{listed([one.words for one in parts[:MOST_NAMED]])}")
    return " and ".join(told)


def _crossed(comparison: Comparison, name: str) -> list[str]:
    """How many people cross each threshold."""
    table, count, told = comparison.flags, comparison.audits[name].identity.count, []
    for row in row_dicts(table[(table["score"] == name) & (table["group"] == EVERYBODY.name)]):
        counts = [(row["newly_flagged"], "newly"), (row["no_longer_flagged"], "no longer")]
        parts = [(n, how) for n, how in counts if known(n) and n]
        if parts:
            n, how = parts[0]
            more = [f" and {IN_SENTENCE.count(other)} {which}" for other, which in parts[1:]]
            crossed = f"{count(n)} {'is' if n == 1 else 'are'} {how} flagged{''.join(more)}"
            told.append(f"at a threshold of {100 * row['threshold']:g} %, {crossed}")
    return [f"{capital('; '.join(told))}."] if told else []

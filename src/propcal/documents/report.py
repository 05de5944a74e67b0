"""The report of an audit or a comparison of scores.

What was found, what changed from the base, and for whom. Counts are protected. Groups
that a search found, sites and a fit have sections of their own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import ceil, floor
from typing import TYPE_CHECKING, Any, cast

from propcal.auditing.audit import Audit, correction_of, wrong_type
from propcal.auditing.audit_tables import row_dicts
from propcal.auditing.names import LOWER, MEASURE_NAMES, MISCALIBRATED, NONE_FOUND
from propcal.auditing.printable_results import Pages
from propcal.core.arguments import FEWEST_SHOWN
from propcal.core.groups import EVERYBODY
from propcal.documents.audit import Extras, audit_document
from propcal.documents.audit_sentences import next_steps
from propcal.documents.blocks import (
    RATIO,
    At,
    Beside,
    Block,
    Document,
    Paragraphs,
    Section,
    VerdictBlock,
)
from propcal.documents.data import comparison_content
from propcal.documents.first_screen import headline, verdict_block
from propcal.documents.sentences.claim_lists import of_kind
from propcal.documents.sentences.next_steps import unchanged as unchanged_steps
from propcal.documents.thresholds import threshold_label
from propcal.documents.words import table
from propcal.numbers import Limit, capital, known
from propcal.protect.disclosure_rule import Rule
from propcal.protect.release import protected

if TYPE_CHECKING:
    from propcal.auditing.compare import Comparison


def report(
    result: Pages,
    *,
    suppress: int = FEWEST_SHOWN,
    title: str | None = None,
    correction: Any = None,
    certificate: Any = None,
    discovery: Any = None,
    sites: Any = None,
) -> Document:
    """The report for release; counts that are protected already stay so."""
    extras = Extras(
        title=title or "",
        changed=_correction(correction, certificate),
        found=_discovery(discovery, suppress),
        suppress=suppress,
    )
    if sites is not None:
        extras = _with_sites(extras, sites, suppress)
    audit_or_comparison = cast("Audit | Comparison", result)
    shown = protected(audit_or_comparison, Rule(suppress).fewest)
    if isinstance(shown, Audit):
        return audit_document(shown, extras)
    return comparison_document(shown, extras)


def _with_sites(extras: Extras, sites: Any, suppress: int) -> Extras:
    """A section on sites, and a link to it; the verdict says so if any is wrong."""
    from propcal.documents.sites import sites_section
    from propcal.protect.protected_sites import protected_sites

    return replace(
        extras,
        last=[sites_section(protected_sites(sites, suppress))],
        links=[("sites", "Sites", f"{sites.headline}.")],
        sites=sites.headline if sites.claims else "",
    )


def _correction(correction: Any, certificate: Any) -> list[Section]:
    """What a correction does, and what its fit says of its own cells, without their
    counts.
    """
    if correction is None and certificate is None:
        return []
    from propcal.core.correction.fit_summary import FitSummary
    from propcal.documents.correction import correction_blocks, fit_blocks

    blocks: list[Block] = []
    if correction is not None:
        blocks += correction_blocks(correction_of(correction))
    summary = certificate
    if summary is None:
        summary = getattr(correction, "certificate_", None)
    if summary is not None:
        if not isinstance(summary, FitSummary):
            raise wrong_type("certificate", "a FitSummary", summary)
        blocks += fit_blocks(summary)
    if blocks:
        return [Section("correction", "The correction", blocks, "Correction", At.PAGE)]
    return []


def _discovery(found: Any, suppress: int) -> list[Section]:
    """Groups that a search found."""
    if found is None:
        return []
    # imports numba; a page without a search does not
    from propcal.discovery.discovery import Discovery
    from propcal.documents.discovery import discovery_section

    if not isinstance(found, Discovery):
        raise wrong_type("discovery", "what propcal.discover returns", found)
    return [discovery_section(found, suppress)]


# of a verdict; what does not fit is in the section on changes
MOST_CHANGES = 3
MOST_SENTENCES = 4
OVERALL = ("all categories", "everybody")


def comparison_document(
    comparison: Comparison, extras: Extras | None = None
) -> Document:
    """The document of a comparison, whose counts may be protected."""
    extras = extras or Extras()
    name, audit = _last_score(comparison)
    unchanged = name in comparison.unchanged
    if unchanged:
        steps = unchanged_steps(audit, comparison.base)
        before = None
        compared = []
    else:
        steps = _steps(comparison, name, audit)
        before = comparison.audits[comparison.base]
        compared = _other_verdicts(comparison, name)
    extended = replace(
        extras,
        score=name,
        before=before,
        verdicts=_verdicts(comparison, extras),
        steps=steps,
        compared=compared,
        changed=[_changes(comparison), *extras.changed],
        notes=comparison.all_notes,
        content=lambda: comparison_content(comparison),
    )
    return audit_document(audit, extended)


def _last_score(comparison: Comparison) -> tuple[str, Audit]:
    """The score that a page is about, with its audit."""
    return list(comparison.audits.items())[-1]


def _steps(comparison: Comparison, name: str, audit: Audit) -> list[str]:
    """What to do with a score that changes somebody; a lower Brier score counts as
    better for a group.
    """
    from propcal.auditing.score_changes import BETTER, WORSE

    directions = [claim.direction for claim in comparison.claims_of(name)]
    changes = comparison.changes[comparison.changes["score"] == name]
    lower = int((changes["brier_change"] == LOWER).sum())
    better = directions.count(BETTER) + lower
    return next_steps(audit, name, directions.count(WORSE), better)


def _other_verdicts(comparison: Comparison, name: str) -> list[str]:
    """What the audits of the other scores come to."""
    texts = []
    for other, audit in comparison.audits.items():
        if other != name:
            rest = " ".join(_besides_conclusion(audit))
            conclusion = audit.verdict.conclusion
            texts.append(f"For comparison, “{other}”: {conclusion}. {rest}")
    return texts


def _besides_conclusion(audit: Audit) -> Sequence[str]:
    """The sentences of a verdict without the first one if it only repeats the
    conclusion.
    """
    verdict = audit.verdict
    plain_conclusion = verdict.conclusion in (MISCALIBRATED, NONE_FOUND)
    if plain_conclusion and not verdict.ranks_backwards:
        return verdict.sentences[1:]
    return verdict.sentences


def _verdicts(comparison: Comparison, extras: Extras) -> list[Block]:
    """Of each score in a terminal or a notebook; a page is about the last one."""
    blocks: list[Block] = []
    for name, audit in comparison.audits.items():
        changes: Sequence[str] = []
        if name != comparison.base:
            changes = comparison.sentences(name)
        block = verdict_block(audit, name)
        rest = block.sentences
        if name in comparison.unchanged:
            rest = unchanged_steps(audit, comparison.base)
        texts = _brief(changes, rest)
        blocks.append(replace(block, sentences=texts, places=At.SCREEN | At.CARD))

    last, audit = _last_score(comparison)
    tone, text = last_headline(comparison)
    brief = _brief(comparison.sentences(last), audit.verdict.sentences)
    written = VerdictBlock(tone, text, brief, places=At.WRITTEN, links=extras.links)
    return [*blocks, written]


def last_headline(comparison: Comparison) -> tuple[str, str]:
    """Tone and words of the headline on the last score."""
    name, audit = _last_score(comparison)
    tone, text = headline(audit)
    nobody = " changes nobody" if name in comparison.unchanged else ""
    return tone, f"{capital(name)}{nobody}: {text[0].lower()}{text[1:]}"


def _brief(changes: Sequence[str], verdict: Sequence[str]) -> list[str]:
    """What changed, then what the audit says; the first two sentences of the audit are
    never left out.
    """
    room = MOST_SENTENCES - len(verdict[:2])
    texts = [*changes[: min(MOST_CHANGES, room)], *verdict]
    return texts[:MOST_SENTENCES]


def effect_sentences(comparison: Comparison, name: str) -> list[str]:
    """What changed for whom, and the typical gap of a cell before and after, which
    could be chance.
    """
    from propcal.documents.sentences import comparison as wording

    sentences = comparison.sentences(name)
    audits = comparison.audits
    before = audits[comparison.base].debiased["rms"]["mc"]
    after = audits[name].debiased["rms"]["mc"]
    if not known(before) or not known(after) or name in comparison.unchanged:
        return sentences

    changes = comparison.differences[comparison.differences["score"] == name]
    change = changes[changes["measure"] == "mc_mean_square"]
    sure = bool(((change["low"] > 0) | (change["high"] < 0)).any())
    return [*sentences, wording.typical_gap(before, after, sure=sure)]


def _changes(comparison: Comparison) -> Section:
    """Each score in comparison with the base, with its verdict if it was not shown
    whole.
    """
    blocks: list[Block] = []
    for place, name in enumerate([*comparison.audits][1:]):
        heading = f"{name} compared with {comparison.base}"
        effects = effect_sentences(comparison, name)
        blocks.append(Paragraphs(effects, heading, places=At.WRITTEN))
        verdict = comparison.audits[name].verdict.sentences
        if verdict[-1] not in _brief(comparison.sentences(name), verdict):
            blocks.append(Paragraphs(verdict, f"Verdict on {name}", places=At.WRITTEN))
        if name not in comparison.unchanged:
            about = comparison, name, place, heading
            blocks += [Beside(_tables(*about), even=True), *_flags(*about)]
    title = "Before and after"
    return Section("change", title, blocks, link=title, places=At.FULL)


def _tables(comparison: Comparison, name: str, place: int, heading: str) -> list[Block]:
    """Measures before and after: of everybody, and of each group."""
    found = comparison.differences[comparison.differences["score"] == name]
    overall = found["group"].isin(OVERALL)
    rows = [_change(row) for row in row_dicts(found[overall])]
    blocks: list[Block] = [table("overall", rows, f"overall-{place}", heading=heading)]

    brier = {row["group"]: row for row in row_dicts(found[found["measure"] == "brier"])}
    labels = comparison.audits[name].labels
    groups = []
    for row in row_dicts(found[~overall & (found["measure"] == RATIO)]):
        group = row["group"]
        change = _change(row)
        del change["digits"]  # each column has its own
        change["label"] = labels.get(group, group)
        change["brier_low"] = brier[group]["low"]
        change["brier_high"] = brier[group]["high"]
        groups.append(change)
    if groups:
        key = f"each-group-{place}"
        blocks.append(table("each-group", groups, key, heading=heading))
    return blocks


def _change(row: Mapping[str, Any]) -> dict[str, Any]:
    """A measure before and after, with the interval of its change."""
    measure = MEASURE_NAMES[row["measure"]]
    low = row["low"]
    high = row["high"]
    if measure.key == RATIO and known(low) and known(high):
        # rounded outwards, so that the difference of the two ratios as printed is in
        # the interval
        low = floor(round(100 * low, 6)) / 100
        high = ceil(round(100 * high, 6)) / 100
    return {
        "measure": measure.name,
        "digits": measure.digits,
        "before": measure.shown(row["base"]),
        "after": measure.shown(row["value"]),
        "change_low": low,
        "change_high": high,
    }


def _flags(comparison: Comparison, name: str, place: int, heading: str) -> list[Block]:
    """Who is newly flagged and no longer; groups in which nobody is, or too few to
    tell, are left out.
    """
    flags = comparison.flags[comparison.flags["score"] == name]
    rows = [row for row in row_dicts(flags) if _somebody_crosses(row)]
    thresholds = dict.fromkeys(row["threshold"] for row in rows)
    blocks: list[Block] = []
    for i, threshold in enumerate(thresholds):
        of_this = [row for row in rows if row["threshold"] == threshold]
        about = {"heading": heading, "threshold": threshold_label(threshold)}
        blocks.append(table("flags", of_this, f"flags-{place}-{i}", **about))
    return blocks


def _somebody_crosses(row: Mapping[str, Any]) -> bool:
    counts = (row["newly_flagged"], row["no_longer_flagged"])
    return any(count != 0 and not isinstance(count, Limit) for count in counts)


def change_sentences(comparison: Comparison, name: str) -> list[str]:
    """Whether the people are those of the fit; who is better and who worse off; who is
    flagged.
    """
    from propcal.documents.sentences import comparison as wording

    base = comparison.audits[comparison.base]
    audit = comparison.audits[name]
    changes = comparison.changes[comparison.changes["score"] == name]
    flags = comparison.flags[comparison.flags["score"] == name]
    claims = sorted(comparison.claims_of(name), key=lambda claim: -abs(claim.size))
    found = wording.Changes(
        name,
        comparison.base,
        claims,
        groups=row_dicts(changes),
        crossed=row_dicts(flags[flags["group"] == EVERYBODY.name]),
        newly_off=_overall_errors(audit) - _overall_errors(base),
        labels=base.labels,
        unchanged=name in comparison.unchanged,
        fitted_to_these=comparison.fitted_on_these(name),
        who=audit.identity,
    )
    return wording.change_sentences(found)


def _overall_errors(audit: Audit) -> set[str]:
    """On which sides the score is shown to be wrong overall."""
    return {claim.direction for claim in of_kind(audit.verdict.claims, "overall")}

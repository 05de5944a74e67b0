"""The report of an audit or a comparison of scores: what was found, what changed from
the base, and for whom.

Counts are protected. Groups that a search found, sites and a fit have sections of their
own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import ceil, floor
from typing import Any

from propcal.auditing.audit import Audit, correction_of, wrong_type
from propcal.auditing.audit_tables import row_dicts
from propcal.auditing.compare import Comparison
from propcal.auditing.names import LOWER, MEASURE_NAMES, MISCALIBRATED, NONE_FOUND
from propcal.auditing.printable_results import Pages
from propcal.auditing.score_changes import BETTER, WORSE
from propcal.core.arguments import FEWEST_SHOWN
from propcal.core.correction.fit_summary import FitSummary
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
from propcal.documents.correction import correction_blocks, fit_blocks
from propcal.documents.data import comparison_content
from propcal.documents.first_screen import headline, verdict_block
from propcal.documents.sentences import comparison as wording
from propcal.documents.sentences.claim_lists import of_kind
from propcal.documents.sentences.next_steps import unchanged as unchanged_steps
from propcal.documents.sites import sites_section
from propcal.documents.thresholds import threshold_label
from propcal.documents.words import table
from propcal.numbers import Limit, capital, known
from propcal.protect.disclosure_rule import Rule
from propcal.protect.protected_sites import protected_sites
from propcal.protect.results import protected


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
    """What may be handed on; counts that are protected already stay so."""
    changed = _correction(correction, certificate)
    found = _discovery(discovery, suppress)
    extras = Extras(title=title or "", changed=changed, found=found, suppress=suppress)
    if sites is not None:
        section = sites_section(protected_sites(sites, suppress))
        extras = replace(
            extras, last=[section], links=[("sites", "Sites", f"{sites.headline}.")]
        )
        extras = replace(extras, sites=sites.headline if sites.claims else "")
    assert isinstance(result, (Audit, Comparison))
    shown = protected(result, Rule(suppress).fewest)
    if isinstance(shown, Comparison):
        return comparison_document(shown, extras)
    return audit_document(shown, extras)


def _correction(correction: Any, certificate: Any) -> list[Section]:
    """What a correction does, and what its fit says of its own cells, without their
    counts.
    """
    if correction is None:
        blocks = []
    else:
        blocks = correction_blocks(correction_of(correction))
    if certificate is not None:
        summary = certificate
    else:
        summary = getattr(correction, "certificate_", None)
    if summary is not None and not isinstance(summary, FitSummary):
        raise wrong_type("certificate", "a FitSummary", summary)
    blocks += [] if summary is None else fit_blocks(summary)
    if blocks:
        return [Section("correction", "The correction", blocks, "Correction", At.PAGE)]
    return []


def _discovery(found: Any, suppress: int) -> list[Section]:
    """Groups that a search found."""
    if found is None:
        return []
    from propcal.discovery.discovery import (
        Discovery,
    )  # which imports numba; a page without one does not
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
    name, audit = [*comparison.audits.items()][-1]
    unchanged = name in comparison.unchanged
    ways = [claim.direction for claim in comparison.claims_of(name)]
    lower = (
        comparison.changes.loc[comparison.changes["score"] == name, "brier_change"]
        == LOWER
    )
    steps = next_steps(
        audit, name, ways.count(WORSE), ways.count(BETTER) + int(lower.sum())
    )
    if unchanged:
        steps = unchanged_steps(audit, comparison.base)
    compared = [
        f"For comparison, “{other}”: {one.verdict.conclusion}. {' '.join(_besides_conclusion(one))}"
        for other, one in comparison.audits.items()
        if other != name and not unchanged
    ]
    extras = extras or Extras()
    given = replace(
        extras,
        score=name,
        before=None if unchanged else comparison.audits[comparison.base],
        verdicts=_verdicts(comparison, extras),
        steps=steps,
        compared=compared,
        changed=[_changes(comparison), *extras.changed],
        notes=comparison.all_notes,
        content=lambda: comparison_content(comparison),
    )
    return audit_document(audit, given)


def _besides_conclusion(audit: Audit) -> Sequence[str]:
    """The sentences of a verdict without the first one if it only repeats the
    conclusion.
    """
    verdict = audit.verdict
    repeats = (
        verdict.conclusion in (MISCALIBRATED, NONE_FOUND)
        and not verdict.ranks_backwards
    )
    return verdict.sentences[1:] if repeats else verdict.sentences


def _verdicts(comparison: Comparison, extras: Extras) -> list[Block]:
    """Of each score in a terminal or a notebook; a page is about the last one."""
    name, audit = [*comparison.audits.items()][-1]
    blocks: list[Block] = []
    for other, one in comparison.audits.items():
        if other == comparison.base:
            changes = []
        else:
            changes = comparison.sentences(other)
        block = verdict_block(one, other)
        rest = block.sentences
        if other in comparison.unchanged:
            rest = unchanged_steps(one, comparison.base)
        blocks.append(
            replace(block, sentences=_brief(changes, rest), places=At.SCREEN | At.CARD)
        )
    tone, text = last_headline(comparison)
    brief = _brief(comparison.sentences(name), audit.verdict.sentences)
    return [
        *blocks,
        VerdictBlock(tone, text, brief, places=At.WRITTEN, links=extras.links),
    ]


def last_headline(comparison: Comparison) -> tuple[str, str]:
    """Tone and words of the headline on the last score."""
    name, audit = [*comparison.audits.items()][-1]
    tone, text = headline(audit)
    nobody = " changes nobody" if name in comparison.unchanged else ""
    return tone, f"{capital(name)}{nobody}: {text[0].lower()}{text[1:]}"


def _brief(changes: Sequence[str], verdict: Sequence[str]) -> list[str]:
    """What changed, then what the audit says; the first two sentences of the audit are
    never left out.
    """
    return [*changes[: min(MOST_CHANGES, MOST_SENTENCES - len(verdict[:2]))], *verdict][
        :MOST_SENTENCES
    ]


def effect_sentences(comparison: Comparison, name: str) -> list[str]:
    """What changed for whom, and the typical gap of a cell before and after, which
    could be chance.
    """
    typical = [
        comparison.audits[each].debiased["rms"]["mc"]
        for each in (comparison.base, name)
    ]
    if not all(map(known, typical)) or name in comparison.unchanged:
        return comparison.sentences(name)
    changes = comparison.differences
    change = changes[
        (changes["score"] == name) & (changes["measure"] == "mc_mean_square")
    ]
    sure = bool(((change["low"] > 0) | (change["high"] < 0)).any())
    return [
        *comparison.sentences(name),
        wording.typical_gap(*typical, sure=sure),
    ]


def _changes(comparison: Comparison) -> Section:
    blocks: list[Block] = []
    for i, name in enumerate([*comparison.audits][1:]):
        heading = f"{name} compared with {comparison.base}"
        blocks.append(
            Paragraphs(effect_sentences(comparison, name), heading, places=At.WRITTEN)
        )
        verdict = comparison.audits[name].verdict.sentences
        if verdict[-1] not in _brief(comparison.sentences(name), verdict):
            blocks.append(Paragraphs(verdict, f"Verdict on {name}", places=At.WRITTEN))
        if name not in comparison.unchanged:
            about = comparison, name, i, heading
            blocks += [Beside(_tables(*about), even=True), *_flags(*about)]
    return Section(
        "change", "Before and after", blocks, link="Before and after", places=At.FULL
    )


def _tables(comparison: Comparison, name: str, i: int, heading: str) -> list[Block]:
    """Measures before and after: of everybody, and of each group."""
    found = comparison.differences[comparison.differences["score"] == name]
    overall = found["group"].isin(OVERALL)
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


def _flags(comparison: Comparison, name: str, i: int, heading: str) -> list[Block]:
    """Who is newly flagged and no longer; groups in which nobody is, or too few to
    tell, are left out.
    """
    found = comparison.flags[comparison.flags["score"] == name]
    pairs = zip(found["newly_flagged"], found["no_longer_flagged"])
    found = found.loc[
        [any(n != 0 and not isinstance(n, Limit) for n in pair) for pair in pairs]
    ]
    blocks: list[Block] = []
    for place, threshold in enumerate(found["threshold"].unique()):
        rows = row_dicts(found[found["threshold"] == threshold])
        label = threshold_label(threshold)
        blocks.append(
            table("flags", rows, f"flags-{i}-{place}", heading=heading, threshold=label)
        )
    return blocks


def change_sentences(comparison: Comparison, name: str) -> list[str]:
    """Whether the people are those of the fit; who is better and who worse off; who is
    flagged.
    """
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

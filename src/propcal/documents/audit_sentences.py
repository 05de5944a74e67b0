"""What an audit says in sentences, from its findings and tables.

Verdict, notes, what the data cannot tell, what to do next, and methods. The verdict
tells claims, the broadest first; every front end prints its sentences.
"""

from __future__ import annotations

import platform
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
import scipy

from propcal.auditing import names as finding
from propcal.auditing.audit_claims import certificate, events_needed, shown_within
from propcal.auditing.audit_tables import row_dicts
from propcal.auditing.bin_free import BinFree
from propcal.auditing.claims import Claim, Note, Verdict, numbers_of
from propcal.auditing.findings import Findings
from propcal.auditing.loss_intervals import RATIO_ERROR, ranges_unsure, shared_bounds
from propcal.auditing.statistics.measures import reversed_area
from propcal.core.atoms import Atoms
from propcal.core.groups import MISSING
from propcal.documents.blocks import (
    At,
    Block,
    Details,
    Items,
    Paragraphs,
    Section,
    Table,
)
from propcal.documents.sentences import methods, notes, verdict
from propcal.documents.sentences import next_steps as steps
from propcal.documents.sentences.notes import fitting_note, reversed_ranking
from propcal.documents.words import (
    all_words,
    at_most,
    table,
    words,
)
from propcal.errors import plain
from propcal.numbers import known
from propcal.options import Identity

if TYPE_CHECKING:
    from propcal.auditing.audit import Audit

MOST_SENTENCES = 4  # what does not fit is in the tables
# if the score could be off by more than this share overall, the data cannot judge it
TOO_UNSURE = 0.3
EXACT_BITS = 32  # of scores that were not rounded


def verdict_of(
    findings: Findings,
    identity: Identity,
    claims: tuple[Claim, ...],
    groups: pd.DataFrame,
) -> Verdict:
    """Put the claims into words; if groups are protected, the conclusion is that of the
    exact ones.

    If the audit asks for a share (`within`), the first sentence says whether the score
    is shown to be right to within it. Nothing is certified of a score that was fitted
    to these people.
    """
    who = findings.subject(identity)
    tests = findings.shown.tests
    if findings.untested:
        reason = f"{who.subject} was not tested: {findings.untested}."
        return Verdict(finding.UNTESTED, (reason,), tests)

    area = reversed_area(groups.iloc[0])
    warning = []
    if area is not None:
        warning.append(reversed_ranking(area, who))
    fitted = bool(findings.fitted_on_these)
    too_small = verdict.too_small(
        findings.rule, identity.unit, frequencies=findings.people.frequencies
    )
    conclusion = findings.conclusion
    judged = _judged(claims, groups, who, too_small, conclusion, fitted=fitted)

    within = findings.rule.within
    enough = groups["finding"].iloc[0] != finding.NOT_ENOUGH
    if within is not None and enough and not fitted:
        kept = []
        if claims:
            kept = judged.sentences[:2]
        room = MOST_SENTENCES - len(warning) - len(kept)
        margin = _judged_within(within, groups, who, conclusion)
        judged = margin._replace(sentences=[*margin.sentences[:room], *kept])

    texts = [*warning, *judged.sentences]
    if judged.conclusion == finding.MISCALIBRATED and claims[-1].kind == "cell":
        texts = _with_cell_in_the_last(texts)
    return Verdict(
        judged.conclusion,
        tuple(texts[:MOST_SENTENCES]),
        tests,
        (*claims, *judged.limits),
        ranks_backwards=bool(warning),
    )


class Judged(NamedTuple):
    """A conclusion, its sentences, and claims of how far off the score can be."""

    conclusion: str
    sentences: list[str]
    limits: tuple[Claim, ...] = ()


def _with_cell_in_the_last(texts: list[str]) -> list[str]:
    """Sentences of which the last one is about a cell: if there are too many, it joins
    the last one that has room, and the tables have what is left out.
    """
    if len(texts) <= MOST_SENTENCES:
        return texts
    *others, cell = texts
    last = others[MOST_SENTENCES - 1].removesuffix(".")
    return [*others[: MOST_SENTENCES - 1], f"{last}; {cell[0].lower()}{cell[1:]}"]


def _judged(
    claims: tuple[Claim, ...],
    groups: pd.DataFrame,
    who: Identity,
    too_small: str,
    conclusion: str,
    *,
    fitted: bool,
) -> Judged:
    """What the claims come to; without any, whether anything could have been found."""
    everybody: Any = groups.iloc[0]
    if claims:
        texts = verdict.miscalibrated(claims, everybody, who)
        return Judged(finding.MISCALIBRATED, texts)

    overall = Claim(
        "overall", everybody["group"], everybody["label"], "", **numbers_of(everybody)
    )
    tested = groups[groups["kept"].astype(bool) & (groups["finding"] == finding.CHANCE)]
    judged = everybody["finding"] == finding.CHANCE
    if not judged or (len(groups) > 1 and len(tested) < 2):
        texts = verdict.not_enough(overall, who, too_small, judged=judged)
        return Judged(finding.NOT_ENOUGH, texts)

    limits = () if fitted else certificate(groups)
    error = tested["certain_within"].iloc[0]
    if error > TOO_UNSURE and conclusion != finding.NONE_FOUND:
        texts = verdict.too_few(error, overall, who)
        return Judged(finding.NOT_ENOUGH, texts, limits[:1])

    texts = verdict.none_found(len(tested) - 1, everybody["people"], limits, who)
    return Judged(finding.NONE_FOUND, texts, limits)


def _judged_within(
    share: float, groups: pd.DataFrame, who: Identity, conclusion: str
) -> Judged:
    """Whether the score is shown to be right to within a share."""
    everywhere, claims = shown_within(groups, share)
    if conclusion:
        everywhere = conclusion.startswith(finding.SHOWN)

    kept = groups["kept"].astype(bool)
    if everywhere:
        shown = finding.SHOWN
        n_subgroups = int((kept & groups["shown_within"].notna()).sum()) - 1
        untested = len(groups) - 1 - n_subgroups
        people = groups["people"].iloc[0]
        texts = verdict.shown_everywhere(n_subgroups, untested, people, share, who)
    else:
        shown = finding.NOT_SHOWN
        tested = row_dicts(groups[kept & groups["certain_within"].notna()])
        numbers = [groups[name].iloc[0] for name in ("mean_score", "design_effect")]
        events = events_needed(share, *(numbers if all(map(known, numbers)) else ()))
        texts = verdict.margins(claims, tested, events, share, who)
    return Judged(f"{shown} {at_most(share)}", texts, tuple(claims))


def notes_of(
    findings: Findings, identity: Identity, groups: pd.DataFrame
) -> tuple[str, ...]:
    """Everything that applies to these people; `groups` is the table of the audit."""
    rule = findings.rule
    people = findings.people
    everybody = groups.iloc[0]
    outcome_rate = people.outcome_rate
    reasons = groups.loc[~groups["kept"].astype(bool), "reason"]
    collection = findings.table.collection
    covered = 0
    if collection.left_out:
        covered = len(collection)

    # with tests, the verdict warns of a score that ranks people the wrong way round
    area = None
    if findings.untested:
        area = reversed_area(everybody)
    corrected = findings.fitted_on_these
    about_fit = []
    if corrected is not None:
        about_fit.append(fitting_note(corrected, unit=identity.unit))
    return (
        *notes.data_notes(people, area, identity),
        *about_fit,
        *notes.missing_notes(people, rule, identity),
        *notes.group_notes(len(reasons), sorted(set(reasons)), covered, rule, identity),
        *notes.outcome_notes(people, outcome_rate, rule, identity),
        *_notes_on_scores(findings, identity.unit),
        *notes.weight_notes(people, identity, tested=not findings.untested),
    )


def _notes_on_scores(findings: Findings, unit: str) -> list[Note]:
    """What merging or rounding scores can have changed."""
    corrected = findings.fitted_on_these is not None
    if findings.shared is None:
        if findings.people.resolution_bits < EXACT_BITS:
            return [notes.rounding_note(findings.people, unit, corrected=corrected)]
        return []

    assert findings.shared.shared is not None
    merged = notes.shared_notes(findings.shared.shared, unit)
    losses = findings.shared_losses
    if corrected or losses is None:
        return merged
    bounds = shared_bounds(findings.shared)
    unsure = ranges_unsure(losses)
    bound = notes.shared_bounds_note(
        bounds, losses, RATIO_ERROR, unit, ranges_unsure=unsure
    )
    return [*merged, bound]


def shared_site_notes(parts: Mapping[str, Atoms], aurocs: Iterable[Any]) -> list[str]:
    """What a reader of measures of sites must know about atoms that were shared."""
    fewest = []
    ratios = []
    higher = [0.0]  # how far the AUROC of the exact scores can be above the one shown
    lower = [0.0]
    for atoms, auroc in zip(parts.values(), aurocs):
        if atoms.shared is None:
            continue
        bounds = shared_bounds(atoms)
        fewest.append(atoms.shared.fewest)
        ratios.append(bounds.ratio)
        if auroc == auroc:
            higher.append(bounds.auroc[1] - auroc)
            lower.append(auroc - bounds.auroc[0])
    if not fewest:
        return []
    most = max(ratios), RATIO_ERROR, max(higher), max(lower)
    return [notes.shared_sites_note(min(fewest), *most)]


def bin_free_summary(
    table: pd.DataFrame | None, labels: dict[str, str], untested: str
) -> BinFree:
    """Put the measures into words; `untested` says why there are none, where the audit
    has no tests.
    """
    if table is None:
        why = untested or "there are not enough data to judge anybody"
        empty = pd.DataFrame(columns=["group", "measure"])
        return BinFree(f"No measures without bins: {why}.", empty)

    named = table.assign(label=[labels.get(name, name) for name in table["group"]])
    ecce = named[named["measure"] == "ecce"]
    smooth = named[named["measure"] == "smooth_ece"]
    worst: Any = ecce.iloc[int(ecce["sigma"].argmax())]
    lowest: Any = smooth.iloc[int(smooth["adjusted_p"].argmin())]
    return BinFree(notes.bin_free_sentence(worst, lowest), named)


def _unjudged(audit: Audit) -> int:
    return int((~audit.categories["eligible"].astype(bool)).sum())


def mostly_unjudged(audit: Audit) -> bool:
    """Whether nothing was found, but most cells do not have enough data."""
    nothing_found = audit.verdict.conclusion == finding.NONE_FOUND
    return nothing_found and 2 * _unjudged(audit) > len(audit.categories)


def cannot_tell(audit: Audit) -> list[str]:
    """What remains open."""
    reasons = audit.groups.loc[~audit.groups["kept"].astype(bool), "reason"]
    return steps.cannot_tell(
        audit,
        unjudged=_unjudged(audit),
        left_out=len(reasons),
        missing_excluded=MISSING in set(reasons),
    )


def next_steps(
    audit: Audit, corrected: str = "", worse: int = 0, better: int = 0
) -> list[str]:
    """What to do; `corrected` names a corrected score, which is `worse` or `better` for
    some groups.
    """
    correction = None
    if corrected:
        correction = steps.Corrected(corrected, worse, better)
    return steps.next_steps(audit, correction, mostly_unjudged=mostly_unjudged(audit))


def methods_section(audit: Audit, all_notes: Sequence[str], suppress: int) -> Section:
    """Methods, notes and settings; a short terminal has the notes that nobody may
    miss.
    """
    vital = [note for note in all_notes if isinstance(note, Note) and note.vital]
    settings = _named_values("settings", **_settings(audit, suppress))
    topics = Paragraphs([words("tables", "tripod")])
    tripod: list[Block] = [topics, _named_values("tripod")]
    blocks: list[Block] = [
        Paragraphs(["This text may be quoted."], places=At.PAGE),
        Paragraphs(paragraphs(audit), places=At.WRITTEN),
        Items("Notes", all_notes, places=At.FULL),
        Items("Notes", vital, places=At.BRIEF),
        Details("Settings and versions", [settings], places=At.WRITTEN, printed=True),
        Details("For a TRIPOD+AI checklist", tripod, printed=True),
    ]
    return Section("methods", "Methods", blocks, link="Methods")


def _named_values(part: str, **values: Any) -> Table:
    """A part of words.toml as a table of names and values."""
    rows = [
        {"name": name, "value": value}
        for name, value in all_words(part, **values).items()
    ]
    return table(part, rows)


def _settings(audit: Audit, suppress: int) -> dict[str, Any]:
    """What the table of settings and versions is filled in with."""
    versions = {one.__name__: one.__version__ for one in (np, scipy, pd)}
    versions["Python"] = platform.python_version()
    settings = audit.settings
    return {
        "s": settings,
        "attributes": _attributes(settings),
        "seed": _seed(settings),
        "unit": audit.identity.unit,
        "versions": versions,
        "suppress": suppress,
    }


def lead(audit: Audit) -> str:
    """How many people, and how many of them had the outcome."""
    return methods.lead(audit.settings, audit.identity)


def paragraphs(audit: Audit) -> list[str]:
    """What was done, in sentences for a methods section."""
    kept = audit.groups["kept"].astype(bool)
    return methods.methods(
        audit.settings,
        audit.identity,
        attributes=_attributes(audit.settings),
        seed=_seed(audit.settings),
        kept=int(kept.sum()) - 1,
        left_out=int((~kept).sum()),
    )


def _attributes(settings: dict[str, Any]) -> str:
    return ", ".join(map(plain, settings["attributes"])) or "none"


def _seed(settings: dict[str, Any]) -> Any:
    if settings["random_state"] is not None:
        return settings["random_state"]
    return "not recorded"

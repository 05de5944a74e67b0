"""What an audit says in sentences: verdict, notes, what the data cannot tell, what to
do next, and methods.

The verdict tells claims, the broadest first; every front end prints its sentences.
"""

from __future__ import annotations

import platform
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import scipy

from propcal.auditing import names as finding
from propcal.auditing.audit_claims import certificate, events_needed, shown_within
from propcal.auditing.audit_tables import row_dicts
from propcal.auditing.bin_free import BinFree
from propcal.auditing.claims import FITTING, Claim, Note, Verdict, numbers_of
from propcal.auditing.findings import Findings
from propcal.auditing.loss_intervals import RATIO_ERROR, ranges_unsure, shared_bounds
from propcal.auditing.profile import FEWEST_EFFECTIVE
from propcal.auditing.statistics.hypothesis_tests import SIGNIFICANCE
from propcal.auditing.statistics.measures import reversed_area
from propcal.core.atoms import Atoms
from propcal.core.groups import MISSING
from propcal.documents.blocks import At, Block, Details, Items, Paragraphs, Section
from propcal.documents.words import (
    VITAL,
    all_words,
    at_most,
    sentence,
    sentences,
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
    rule = findings.rule
    untested = findings.untested
    fitted = bool(findings.fitted_on_these)
    within = rule.within
    unit = identity.unit
    identity = findings.subject(identity)
    tests = findings.shown.tests
    conclusion = findings.conclusion
    too_small = sentence(
        "verdict",
        "too_small",
        rule,
        unit,
        findings.people.frequencies,
        FEWEST_EFFECTIVE,
    )
    if untested:
        return Verdict(
            finding.UNTESTED,
            (f"{identity.subject} was not tested: {untested}.",),
            tests,
        )
    area = reversed_area(groups.iloc[0])
    if area is None:
        first = []
    else:
        first = sentences("notes", "reversed", area, identity)
    judged, texts, shown = _judged(
        claims, groups, identity, too_small, conclusion, fitted=fitted
    )
    if (
        within is not None
        and groups["finding"].iloc[0] != finding.NOT_ENOUGH
        and not fitted
    ):
        everywhere, shown = shown_within(groups, within)
        if conclusion:
            everywhere = conclusion.startswith(finding.SHOWN)
        judged = (
            f"{finding.SHOWN if everywhere else finding.NOT_SHOWN} {at_most(within)}"
        )
        kept = texts[:2] if claims else []
        asked = (_everywhere if everywhere else _margins)(
            shown, groups, identity, within
        )
        texts = [*asked[: MOST_SENTENCES - len(first) - len(kept)], *kept]
    texts = [*first, *texts]
    if (
        len(texts) > MOST_SENTENCES
        and judged == finding.MISCALIBRATED
        and claims[-1].kind == "cell"
    ):
        cell = texts.pop()  # the last one; the tables have what the others leave out
        texts[MOST_SENTENCES - 1] = (
            f"{texts[MOST_SENTENCES - 1].removesuffix('.')}; {cell[0].lower()}{cell[1:]}"
        )
    texts = texts[:MOST_SENTENCES]
    return Verdict(
        judged, tuple(texts), tests, (*claims, *shown), ranks_backwards=bool(first)
    )


def _judged(
    claims: tuple[Claim, ...],
    groups: pd.DataFrame,
    identity: Identity,
    too_small: str,
    conclusion: str,
    *,
    fitted: bool,
) -> tuple[str, list[str], tuple[Claim, ...]]:
    """The conclusion, its sentences, and claims of how far off the score can be."""
    everybody = groups.iloc[0]
    if claims:
        texts = sentences("verdict", "miscalibrated", claims, everybody, identity)
        return finding.MISCALIBRATED, texts, ()
    tested = groups[groups["kept"].astype(bool) & (groups["finding"] == finding.CHANCE)]
    overall_row = Claim(
        "overall", everybody["group"], everybody["label"], "", **numbers_of(everybody)
    )
    judged = everybody["finding"] == finding.CHANCE
    if not judged or (len(groups) > 1 and len(tested) < 2):
        return (
            finding.NOT_ENOUGH,
            sentences(
                "verdict", "not_enough", judged, overall_row, identity, too_small
            ),
            (),
        )
    shown = () if fitted else certificate(groups)
    error = tested["certain_within"].iloc[0]
    if error > TOO_UNSURE and conclusion != finding.NONE_FOUND:
        return (
            finding.NOT_ENOUGH,
            sentences("verdict", "too_few", error, overall_row, identity),
            shown[:1],
        )
    texts = sentences(
        "verdict", "none_found", len(tested) - 1, everybody["people"], shown, identity
    )
    return finding.NONE_FOUND, texts, shown


def _everywhere(
    _: Sequence[Claim], groups: pd.DataFrame, identity: Identity, within: float
) -> list[str]:
    n = int((groups["kept"].astype(bool) & groups["shown_within"].notna()).sum()) - 1
    untested = len(groups) - 1 - n
    people = groups["people"].iloc[0]
    return sentences(
        "verdict", "everywhere", n, untested, people, at_most(within), identity
    )


def _margins(
    claims: Sequence[Claim], groups: pd.DataFrame, identity: Identity, within: float
) -> list[str]:
    tested = row_dicts(
        groups[groups["kept"].astype(bool) & groups["certain_within"].notna()]
    )
    numbers = [groups[name].iloc[0] for name in ("mean_score", "design_effect")]
    events = events_needed(within, *(numbers if all(map(known, numbers)) else ()))
    return sentences(
        "verdict", "margins", claims, tested, events, at_most(within), identity
    )


def notes_of(
    findings: Findings, identity: Identity, groups: pd.DataFrame
) -> tuple[str, ...]:
    """Everything that applies to these people; `groups` is the table of the audit."""
    everybody = groups.iloc[0]
    left_out = groups[~groups["kept"].astype(bool)]
    # else, the verdict says so
    if findings.untested:
        area = reversed_area(everybody)
    else:
        area = None
    notes: list[str] = [
        Note(text, vital=True)
        for text in sentences("notes", "of_data", findings.people, area, identity)
    ]
    if findings.fitted_on_these is not None:
        notes.append(fitting_note(findings.fitted_on_these, unit=identity.unit))
    if findings.table.collection.left_out:
        covered = len(findings.table.collection)
    else:
        covered = 0
    why = sorted(set(left_out["reason"]))
    rate = findings.people.outcome_rate
    about = (
        len(left_out),
        why,
        covered,
        rate,
        _of_scores(findings, identity.unit),
        not findings.untested,
    )
    more = sentences(
        "notes", "of_people", findings.people, findings.rule, *about, identity
    )
    return (
        *notes,
        *(Note(note.removeprefix(VITAL), vital=note[0] == VITAL) for note in more),
    )


def _of_scores(findings: Findings, unit: str) -> list[str]:
    """What merging or rounding scores can have changed."""
    corrected = findings.fitted_on_these is not None
    if findings.shared is None:
        rounded = findings.people.resolution_bits < 32
        if rounded:
            return sentences("notes", "rounding", findings.people, corrected, unit)
        return []
    bounds = None if corrected else shared_bounds(findings.shared)
    losses = findings.shared_losses
    unsure = losses is not None and ranges_unsure(losses)
    return sentences(
        "notes", "shared", findings.shared.shared, bounds, losses, unsure, RATIO_ERROR, unit
    )


def fitting_note(
    fitted: bool, name: str = "The correction", *, unit: str = "people"
) -> str:
    """Whether a correction is judged by the people it was fitted to."""
    return Note(
        sentence("notes", "fitting", fitted, name, unit), vital=True, about=FITTING
    )


def shared_site_notes(parts: Mapping[str, Atoms], aurocs: Iterable[Any]) -> list[str]:
    """What a reader of measures of sites must know about atoms that were shared."""
    shared = [
        (one, value)
        for one, value in zip(parts.values(), aurocs)
        if one.shared is not None
    ]
    bounds = [(shared_bounds(one), value) for one, value in shared]
    if not bounds:
        return []
    fewest = min(one.shared.fewest for one, _ in shared if one.shared is not None)
    higher = max(
        [0.0, *(bound.auroc[1] - value for bound, value in bounds if value == value)]
    )
    lower = max(
        [0.0, *(value - bound.auroc[0] for bound, value in bounds if value == value)]
    )
    ratio = max(bound.ratio for bound, _ in bounds)
    return sentences("notes", "shared_sites", fewest, ratio, RATIO_ERROR, higher, lower)


def bin_free_summary(
    table: pd.DataFrame | None, labels: dict[str, str], untested: str
) -> BinFree:
    """Put the measures into words; `untested` says why there are none, where the audit
    has no tests.
    """
    if table is None:
        why = untested or "there are not enough data to judge anybody"
        return BinFree(
            f"No measures without bins: {why}.",
            pd.DataFrame(columns=["group", "measure"]),
        )
    named = table.assign(label=[labels.get(name, name) for name in table["group"]])
    ecce, smooth = (named[named["measure"] == name] for name in ("ecce", "smooth_ece"))
    worst = ecce.iloc[int(ecce["sigma"].argmax())]
    lowest = smooth.iloc[int(smooth["adjusted_p"].argmin())]
    return BinFree(sentence("notes", "bin_free", worst, lowest, SIGNIFICANCE), named)


def _unjudged(audit: Audit) -> int:
    return int((~audit.categories["eligible"].astype(bool)).sum())


def mostly_unjudged(audit: Audit) -> bool:
    """Whether nothing was found, but most cells do not have enough data."""
    return audit.verdict.conclusion == finding.NONE_FOUND and 2 * _unjudged(
        audit
    ) > len(audit.categories)


def cannot_tell(audit: Audit) -> list[str]:
    """What remains open."""
    left_out = audit.groups.loc[~audit.groups["kept"].astype(bool), "reason"]
    about = (
        len(left_out),
        MISSING in set(left_out),
        audit.settings["fitted_on_these"],
        audit.identity.unit,
    )
    return sentences(
        "notes", "cannot_tell", _unjudged(audit), len(audit.categories), *about
    )


def next_steps(
    audit: Audit, corrected: str = "", worse: int = 0, better: int = 0
) -> list[str]:
    """What to do; `corrected` names a corrected score, which is `worse` or `better` for
    some groups.
    """
    return sentences(
        "notes", "next_steps", audit, corrected, worse, better, mostly_unjudged(audit)
    )


def methods_section(audit: Audit, notes: Sequence[str], suppress: int) -> Section:
    """Methods, notes and settings; a short terminal has the notes that nobody may
    miss.
    """
    vital = [note for note in notes if isinstance(note, Note) and note.vital]
    s = audit.settings
    versions = {one.__name__: one.__version__ for one in (np, scipy, pd)}
    values = {
        "s": s,
        "attributes": _attributes(s),
        "seed": _seed(s),
        "unit": audit.identity.unit,
    }
    values |= {
        "versions": versions | {"Python": platform.python_version()},
        "suppress": suppress,
    }
    settings, tripod = (
        table(
            key,
            [
                {"name": name, "value": value}
                for name, value in all_words(key, **values).items()
            ],
        )
        for key in ("settings", "tripod")
    )
    blocks: list[Block] = [
        Paragraphs(["This text may be quoted."], places=At.PAGE),
        Paragraphs(paragraphs(audit), places=At.WRITTEN),
        Items("Notes", notes, places=At.FULL),
        Items("Notes", vital, places=At.BRIEF),
        Details("Settings and versions", [settings], places=At.WRITTEN, printed=True),
        Details(
            "For a TRIPOD+AI checklist",
            [Paragraphs([words("tables", "tripod")]), tripod],
            printed=True,
        ),
    ]
    return Section("methods", "Methods", blocks, link="Methods")


def lead(audit: Audit) -> str:
    """How many people, and how many of them had the outcome."""
    return sentence("methods", "lead", audit.settings, audit.identity)


def paragraphs(audit: Audit) -> list[str]:
    """What was done, in sentences for a methods section."""
    kept = audit.groups["kept"].astype(bool)
    s = audit.settings
    counts = int(kept.sum()) - 1, int((~kept).sum())
    return sentences(
        "methods", "methods", s, audit.identity, _attributes(s), _seed(s), *counts
    )


def _attributes(settings: dict[str, Any]) -> str:
    return ", ".join(map(plain, settings["attributes"])) or "none"


def _seed(settings: dict[str, Any]) -> Any:
    if settings["random_state"] is not None:
        return settings["random_state"]
    return "not recorded"

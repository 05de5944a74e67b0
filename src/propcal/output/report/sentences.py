"""The top of the page: the verdict, what the data cannot tell, what to do next."""

from __future__ import annotations

from dataclasses import dataclass

from propcal.auditing.audit import Audit
from propcal.auditing.conclusions import Conclusions
from propcal.auditing.finding_names import HEADLINES, MISCALIBRATED, NONE_FOUND, NOT_ENOUGH, UNTESTED
from propcal.numbers import plural

COMPARED = {
    MISCALIBRATED: "{} is miscalibrated",
    NONE_FOUND: "no miscalibration was found in {}",
    NOT_ENOUGH: "there are not enough data to judge {}",
    UNTESTED: "{} was not tested",
}


@dataclass(frozen=True)
class Top:
    """What a reader takes away in a minute.

    `verdict` is what the verdict comes to, one sentence or two; `details` is the rest of it.
    """

    tone: str
    headline: str
    verdict: list[str]
    details: list[str]
    cannot_tell: list[str]
    next_steps: list[str]


def top_of(audit: Audit, name: str = "", before: dict[str, Audit] | None = None, worse: int = 0) -> Top:
    """The words at the top; `before` has the other scores of a comparison, whose last one is `name`.

    `worse` is the number of groups whose O/E ratio ended up further from 1.
    """
    tone, headline = HEADLINES[audit.verdict.conclusion]
    found = Conclusions.of(audit.verdict.tests, audit.groups, audit.categories)
    few = audit.verdict.conclusion == NONE_FOUND and 2 * found.unjudged_cells > found.cells
    if few:
        tone, headline = (
            HEADLINES[NOT_ENOUGH].tone,
            "No miscalibration found, but not enough data for most cells",
        )
    sentences = list(audit.verdict.sentences)
    first = _end_of_verdict(sentences)
    return Top(
        tone=tone,
        headline=f"{name[0].upper()}{name[1:]}: {_inside(headline)}" if before and name else headline,
        verdict=sentences[:first],
        details=[*(sentences[first:] if first else []), *_compared(before or {})],
        cannot_tell=_cannot_tell(audit, found),
        next_steps=_next_steps(audit, found, name if before else "", worse, few=few),
    )


def _compared(before: dict[str, Audit]) -> list[str]:
    """The conclusions on the scores that this one is compared with."""
    told = []
    for other, audit in before.items():
        sentences, miscalibrated = list(audit.verdict.sentences), audit.verdict.conclusion == MISCALIBRATED
        how = sentences[1 : _end_of_verdict(sentences)] if miscalibrated else []
        told.append(" ".join([f"For comparison: {COMPARED[audit.verdict.conclusion].format(other)}.", *how]))
    return told


def _end_of_verdict(sentences: list[str]) -> int | None:
    """Where details begin: after the second sentence, and others that say for whom, or by how much."""
    main = ("It predicts", "The typical gap")
    return next((i for i, text in enumerate(sentences) if i > 1 and not text.startswith(main)), None)


def _inside(headline: str) -> str:
    """A headline within a sentence."""
    return f"{headline[0].lower()}{headline[1:]}"


def _cannot_tell(audit: Audit, found: Conclusions) -> list[str]:
    unit = audit.identity.unit
    told = []
    if found.unjudged_cells:
        told.append(
            f"Whether the score is right in {found.unjudged_cells:,} of the {plural(found.cells, 'cell')} "
            "(subgroup and risk range): they do not have enough data."
        )
    if found.left_out:
        told.append(
            f"Whether the score is right for {plural(found.left_out, 'subgroup')} with too few {unit} or a "
            f"missing value: {'it is' if found.left_out == 1 else 'they are'} shown below but not tested."
        )
    if audit.settings["fitted_on_these"]:
        told.append(
            f"How the corrected score does on other {unit}: the correction was fitted to these very {unit}, "
            "so this page is not evidence for it."
        )
    told.append(
        "Whether the outcome was recorded equally well in every group. The audit takes the records as true."
    )
    told.append("Whether a decision based on the score is fair. Calibration is only one part of that.")
    return told


def _next_steps(audit: Audit, found: Conclusions, corrected: str, worse: int, *, few: bool) -> list[str]:
    unit = audit.identity.unit
    if audit.verdict.conclusion == MISCALIBRATED:
        if corrected:
            last = " or do not use the score for the groups named above" if found.named else ""
            return [
                f"Some error remains in {corrected}. “Before and after” shows how much is gone.",
                "Decide whether what remains is small enough. If not, fit the correction to more or more "
                f"recent data{',' if last else ''}{last}.",
            ]
        avoid = "not to use it for the groups named above" if found.named else "not to use it"
        return [
            "Decide who needs to know about this error, and whether to correct the score, to restrict its "
            f"use, or {avoid}.",
            f"A correction can be fitted (propcal fit). Audit it on {unit} that it was not fitted to "
            "(propcal audit --correction).",
            "Seek legal advice before using a correction that reads an attribute such as race or gender.",
        ]
    if audit.verdict.conclusion == NONE_FOUND:
        told = [
            "Look at how large an error could have gone unnoticed in the groups that matter most to you. If "
            f"that is too large, audit more {unit}.",
            "Repeat the audit when the score, the population or the way the outcome is recorded change.",
        ]
        if not corrected:
            first = (
                "Do not rely on this alone: most cells do not have enough data. Audit more people with known "
                "outcomes."
                if few
                else "There is no reason here to correct the score."
            )
            return [first, *told]
        first = (
            f"Before you use {corrected}, make sure that none of these {unit} were used to fit it, and check "
            "whether the attributes it reads need legal advice."
        )
        if worse:
            are = "is" if worse == 1 else "are"
            told = [f"{plural(worse, 'group')} {are} further off than before: see “Before and after”.", *told]
        return [first, *told]
    return [f"Collect more {unit} with known outcomes, or define fewer and larger groups, and audit again."]

"""The first screen of the report of an audit.

Headline and verdict, key figures, the picture of what was found, and what to do next.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from propcal.auditing import names as finding
from propcal.auditing.audit import Audit
from propcal.auditing.names import MeasureName
from propcal.documents.audit_charts import forest
from propcal.documents.audit_pictures import PerformancePictures, main_curve
from propcal.documents.audit_sentences import mostly_unjudged, next_steps
from propcal.documents.blocks import (
    At,
    Beside,
    Block,
    Figure,
    Figures,
    Fragment,
    Items,
    Paragraphs,
    Section,
    VerdictBlock,
)
from propcal.documents.charts import Chart, Forest
from propcal.numbers import IN_SENTENCE, ON_PAGE, Limit, are, capital

MOST_BARS = 7  # O/E ratios in the first picture


def headline(audit: Audit) -> tuple[str, str]:
    """Tone and words of the headline; a correction judged by the people it was fitted
    to gets no tick.
    """
    conclusion = audit.verdict.conclusion
    miscalibrated = conclusion == finding.MISCALIBRATED
    shown = conclusion.startswith(finding.SHOWN)

    if audit.settings["fitted_on_these"]:
        these = f"fitted to these very {audit.identity.unit}"
        if miscalibrated:
            return "wrong", f"Miscalibrated, although {these}"
        return "few", f"Not evidence, because {these}"
    if mostly_unjudged(audit):
        return "few", "No miscalibration found, but not enough data for most cells"
    if shown and audit.verdict.errors:
        return "few", f"{capital(conclusion)}, but miscalibrated"

    if conclusion == finding.NOT_ENOUGH:
        return "few", "Not enough data to judge"
    if miscalibrated:
        return "wrong", capital(conclusion)
    if shown or conclusion == finding.NONE_FOUND:
        return "noise", capital(conclusion)
    return "few", capital(conclusion)


def verdict_block(
    audit: Audit, subject: str = "Verdict", sites: str = ""
) -> VerdictBlock:
    """The verdict of an audit; there is no tick if the score is wrong at some
    `sites`.
    """
    tone, text = headline(audit)
    if sites and tone == "noise":
        tone = "wrong"
        text = f"{text} in groups, but {sites[0].lower()}{sites[1:]}"
    return VerdictBlock(tone, text, audit.verdict.sentences, subject)


def key_figures(audit: Audit, before: Audit | None = None) -> Figures:
    """How many people, and how good the score is overall."""
    row = audit.groups.iloc[0]
    earlier = None if before is None else before.groups.iloc[0]
    measures = [
        _key_figure(measure, row, earlier)
        for measure in finding.MEASURE_NAMES.values()
        if measure.reading
    ]
    figures = [*_counts(audit), *measures]
    return Figures(f"Key figures, all {audit.identity.unit}", figures)


def _counts(audit: Audit) -> list[Figure]:
    """How many people, and how many of them had the outcome."""
    unit = audit.identity.unit
    outcome = audit.identity.outcome
    people = ON_PAGE.count(audit.settings["people"])
    positives = ON_PAGE.count(audit.settings["positives"])
    rate = f"{IN_SENTENCE.percent(audit.groups['outcome_rate'].iloc[0])} of all"
    if outcome:
        rate = f"{outcome}: {rate}"

    is_protected = audit._source is None
    moved = "counts are changed by up to 2 for privacy" if is_protected else ""
    return [
        Figure(unit, people, meaning=moved),
        Figure("with the outcome", positives, meaning=rate),
    ]


def _key_figure(
    measure: MeasureName, row: Mapping[str, Any] | Any, earlier: Any
) -> Figure:
    """A measure of everybody with its interval, and what it was before a correction."""
    name = measure.key
    value = row[name]
    limits = ON_PAGE.interval(row[f"{name}_low"], row[f"{name}_high"], measure.digits)
    if limits == ON_PAGE.unknown or isinstance(value, Limit):
        limits = ""
    was = ""
    if earlier is not None:
        was = ON_PAGE.decimal(earlier[name], measure.digits)
    shown = ON_PAGE.decimal(value, measure.digits)
    return Figure(measure.name, shown, limits, was, measure.reading)


def picture_and_advice(
    audit: Audit,
    before: Audit | None,
    steps: Sequence[str],
    compared: Sequence[str],
    pictures: Callable[[], PerformancePictures],
) -> Beside:
    """What was found in a picture, beside what to do next: `steps`, or those of the
    audit, and what other scores come to.
    """
    items = Items("", steps or next_steps(audit))
    advice: list[Block] = [items, Paragraphs(compared)]
    return Beside(
        [
            _first_picture(audit, before, pictures),
            Section("details", "What to do next", advice, places=At.WRITTEN),
        ],
        places=At.WRITTEN,
    )


def _first_picture(
    audit: Audit, before: Audit | None, pictures: Callable[[], PerformancePictures]
) -> Section:
    """The finding: the calibration curve if the shape is wrong, and O/E ratios if
    groups are.
    """
    kinds = {claim.kind for claim in audit.verdict.errors}
    blocks: list[Block]
    if "shape" in kinds and not kinds & {"group", "beyond"}:
        title = "Observed rate by predicted risk"
        blocks = [
            Fragment(
                "main_curve.html", lambda: {"picture": main_curve(audit, pictures())}
            )
        ]
    else:
        title = "Observed over expected events (O/E)"
        chart = ratio_forest(audit, before)
        if isinstance(chart, Forest):
            blocks = [chart]
        else:
            blocks = [Paragraphs([str(chart)], places=At.PAGE)]
    return Section("picture", title, blocks, places=At.PAGE)


def ratio_forest(audit: Audit, before: Audit | None = None) -> Chart:
    """O/E ratios of everybody, then of the groups that the verdicts name and the
    largest others, by O/E.
    """
    chart = forest(audit, before=before, most=MOST_BARS - 1, measured=True)
    more = int(audit.groups["kept"].sum()) - MOST_BARS
    if isinstance(chart, Forest) and more > 0:
        others = f"{are(more, 'more group')} in the table below."
        return replace(chart, description=f"{chart.description} {others}")
    return chart

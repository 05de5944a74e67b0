"""What an audit says, as one document.

The first screen, groups, risk ranges, thresholds, pictures and methods.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import cache
from typing import Any

from propcal import __version__
from propcal.auditing.audit import Audit
from propcal.documents.audit_pictures import (
    PerformancePictures,
    curve_panels,
    performance_pictures,
)
from propcal.documents.audit_sentences import cannot_tell, lead, methods_section
from propcal.documents.blocks import (
    At,
    Block,
    Document,
    Fragment,
    Items,
    Paragraphs,
    Section,
    named_texts,
)
from propcal.documents.data import audit_content
from propcal.documents.first_screen import (
    key_figures,
    picture_and_advice,
    verdict_block,
)
from propcal.documents.group_table import group_section, look_of
from propcal.documents.risk_ranges import groups_apart, risk_ranges
from propcal.documents.thresholds import threshold_sections

TITLE = "Is this risk score right for everyone?"


@dataclass(frozen=True)
class Extras:
    """What other results add to the document of an audit.

    `before` is the audit of the score that was corrected, `verdicts` and `steps` stand
    in the place of the audit's own, and `content` is what machines read. `sites` says
    at which sites the score is wrong. `found`, `changed` and `last` are further
    sections.
    """

    title: str = ""
    score: str = ""
    before: Audit | None = None
    verdicts: Sequence[Block] = ()
    steps: Sequence[str] = ()
    compared: Sequence[str] = ()
    found: Sequence[Section] = ()
    changed: Sequence[Section] = ()
    last: Sequence[Section] = ()
    notes: Sequence[str] = ()
    sites: str = ""
    content: Callable[[], Any] | None = None
    suppress: int = 0
    links: Sequence[tuple[str, str, str]] = ()


def audit_document(audit: Audit, extras: Extras | None = None) -> Document:
    """The document of an audit, whose counts may be protected."""
    extras = extras or Extras()
    today = date.today().isoformat()
    pictures = cache(lambda: performance_pictures(audit))  # if a page is made, once
    blocks = [
        *_first_screen(audit, extras, pictures),
        group_section(audit, extras.score),
        *_panels(audit, pictures),
        *extras.found,
        risk_ranges(audit),
        *threshold_sections(audit),
        *extras.changed,
        _overall_performance(audit, pictures),
        groups_apart(audit, extras.suppress),
        methods_section(audit, extras.notes or audit.notes, extras.suppress),
        *extras.last,
    ]
    return Document(
        "Calibration audit of a risk score",
        extras.title or audit.identity.title or TITLE,
        blocks,
        about=_about(audit, today),
        data=extras.content or (lambda: audit_content(audit)),
        data_key="audit",
        made=today,
        script="report.js",
    )


def _about(audit: Audit, today: str) -> list[tuple[str, str]]:
    names = audit.identity
    return named_texts(
        Score=names.score,
        Outcome=names.outcome,
        Who=names.population,
        Where=names.institution,
        Source=names.source,
        Period=names.period,
        Made=f"{today}, propcal {__version__}",
    )


def _first_screen(
    audit: Audit, extras: Extras, pictures: Callable[[], PerformancePictures]
) -> list[Block]:
    """Verdict, key figures, what was found, what to do, and what remains open."""
    verdicts = extras.verdicts
    if not verdicts:
        verdict = verdict_block(audit, sites=extras.sites)
        verdicts = [replace(verdict, links=extras.links)]
    limits = [Items("", cannot_tell(audit))]
    return [
        Paragraphs([lead(audit)], places=At.MARKDOWN),
        *verdicts,
        key_figures(audit, extras.before),
        picture_and_advice(
            audit, extras.before, extras.steps, extras.compared, pictures
        ),
        Section("limits", "What the data cannot tell", limits, places=At.WRITTEN),
    ]


def _panels(audit: Audit, pictures: Callable[[], PerformancePictures]) -> list[Section]:
    """The calibration curve of each group."""
    if audit.curves["group"].nunique() < 2:
        return []

    def content() -> dict[str, Any]:
        drawn = pictures()
        return {
            "panels": curve_panels(audit, drawn.groups, look_of),
            "drawn": drawn,
            "unit": audit.identity.unit,
            "exact": audit._source is not None,
        }

    panels = Fragment("curve_panels.html", content)
    title = "Calibration, group by group"
    return [Section("panels", title, [panels], link="Curves", places=At.PAGE)]


def _overall_performance(
    audit: Audit, pictures: Callable[[], PerformancePictures]
) -> Section:
    """Four pictures of everybody, onto which a reader can draw a group."""
    four_pictures = Fragment(
        "performance_pictures.html",
        lambda: {"drawn": pictures(), "unit": audit.identity.unit},
    )
    title = "Overall performance"
    return Section("pictures", title, [four_pictures], link="Overall", places=At.PAGE)

"""Summary: everything a report says, as numbers and sentences, from counts that are protected already."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Any

from propcal import __version__
from propcal.auditing.audit import Audit
from propcal.auditing.compare import Comparison
from propcal.core.correction.fit_summary import FitSummary
from propcal.disclosure.protected import protected
from propcal.errors import InputError
from propcal.identity import Identity
from propcal.numbers import IN_SENTENCE, Limit
from propcal.output.json import audit_content, comparison_content, rounded
from propcal.output.report import methods
from propcal.output.report import page_tables as tables
from propcal.output.report.changes import (
    CertificateView,
    Change,
    certificate_view,
    effect_sentences,
    measure_changes,
)
from propcal.output.report.correction_picture import CorrectionView, correction_view
from propcal.output.report.curve_panels import Panel, curve_panels
from propcal.output.report.group_curves import group_curves
from propcal.output.report.key_figures import KeyFigure, key_figures
from propcal.output.report.main_picture import MainPicture, main_picture
from propcal.output.report.pictures import Four, four_pictures
from propcal.output.report.sentences import Top, top_of
from propcal.output.report.svg import Tick
from propcal.output.report.threshold_view import ThresholdView, threshold_view

if TYPE_CHECKING:
    from propcal.core.correction.correction import Correction

TITLE = "Is this risk score right for everyone?"


@dataclass(frozen=True)
class BeforeAfter:
    """One score against the base."""

    base: str
    name: str
    effect: list[str]
    overall: list[Change]
    groups: list[Change]


@dataclass(frozen=True)
class Summary:
    """What is rendered; nothing is computed after it."""

    title: str
    score: str
    about: list[tuple[str, str]]
    unit: str
    lead: str
    made: str
    top: Top
    figures: list[KeyFigure]
    main: MainPicture
    panels: list[Panel]
    thresholds: ThresholdView | None
    four: Four
    groups: list[tables.GroupRow]
    left_out: list[tables.GroupRow]
    forest_ticks: list[Tick]
    bins: list[str]
    heat: list[tables.HeatRow]
    hidden_cells: bool
    categories: list[tables.CategoryRow]
    dc: list[tables.DcRow]
    floor: str
    losses: list[list[str]]
    before_after: list[BeforeAfter]
    certificate: CertificateView | None
    correction: CorrectionView | None
    notes: list[str]
    methods: list[str]
    facts: list[tuple[str, str]]
    tripod: list[tuple[str, str]]
    suppress: int
    content: Any


def summarise(
    result: Audit | Comparison,
    *,
    suppress: int = 11,
    title: str | None = None,
    correction: Any = None,
    certificate: Any = None,
    shown: Audit | Comparison | None = None,
) -> Summary:
    """The summary of an audit, or of the last score of a comparison.

    `shown` is the protected result, where somebody has made it already.
    """
    fit, proof = _fitted(correction, certificate)
    if shown is None:
        shown = protected(result, suppress)
    if isinstance(result, Comparison):
        assert isinstance(shown, Comparison)
        name, audit = list(shown.audits.items())[-1]
        before = {other: each for other, each in shown.audits.items() if other != name}
        worse = len(shown.worse_groups(name))
        before_after = [
            BeforeAfter(shown.base, other, effect_sentences(shown, other), *measure_changes(shown, other))
            for other in list(shown.audits)[1:]
        ]
        content: Any = comparison_content(shown)
        # of each score the comparison has said already to whom it was fitted
        notes = [*shown.notes, *(note for note in audit.notes if not note.startswith("The correction was "))]
    else:
        assert isinstance(shown, Audit)
        audit = shown
        name, before_after, content, notes = "", [], audit_content(audit), list(audit.notes)
        before, worse = {}, 0
    found = group_curves(
        audit.groups,
        {kind: getattr(audit, kind) for kind in ("curves", "net_benefit", "distribution")},
    )
    base = next(iter(before.values()), None)
    kept, left_out, forest_ticks = tables.group_rows(audit.groups)
    bins, heat, categories = tables.heat_map(audit)
    exact = audit._source is not None  # protected audits have none
    four, made = four_pictures(found, audit.identity.unit), date.today().isoformat()
    return Summary(
        title=title or audit.identity.title or TITLE,
        score=name,
        about=_facts(audit.identity, made),
        unit=audit.identity.unit,
        lead=_lead(audit, exact=exact),
        made=made,
        top=top_of(audit, name, before, worse),
        figures=key_figures(audit, base, exact=exact),
        main=main_picture(audit, base),
        panels=curve_panels(audit.groups, four.groups),
        thresholds=threshold_view(audit),
        four=four,
        groups=kept,
        left_out=left_out,
        forest_ticks=forest_ticks,
        bins=bins,
        heat=heat,
        hidden_cells=any("noise hidden" in cell.look for row in heat for cell in row.cells),
        categories=categories,
        dc=tables.dc_rows(audit),
        floor=f"{100 * audit.settings['rho']:g}",
        losses=tables.loss_rows(audit),
        before_after=before_after,
        certificate=certificate_view(proof),
        correction=correction_view(fit),
        notes=list(dict.fromkeys(notes)),
        methods=methods.paragraphs(audit),
        facts=methods.facts(audit, suppress),
        tripod=methods.TRIPOD,
        suppress=suppress,
        content=rounded(content),
    )


def _fitted(correction: Any, certificate: Any) -> tuple[Correction | None, FitSummary | None]:
    """A correction and a certificate, from themselves or from what was fitted."""
    proof = certificate if certificate is not None else getattr(correction, "certificate_", None)
    fit = getattr(correction, "correction_", correction)
    if fit is not None and not hasattr(fit, "apply_to_atoms"):
        raise InputError(
            f"correction must be a Correction, or a fitted PMCBoost or MCBoost; got {type(fit).__name__}",
            argument="correction",
        )
    if proof is not None and not isinstance(proof, FitSummary):
        raise InputError(
            f"certificate must be a FitSummary; got {type(proof).__name__}", argument="certificate"
        )
    return fit, proof


def _lead(audit: Audit, *, exact: bool) -> str:
    who = audit.identity
    outcome = f"the outcome ({who.outcome})" if who.outcome else "the outcome"
    people, positives = audit.settings["people"], audit.settings["positives"]

    def about(number: Any) -> str:
        return "" if exact or isinstance(number, Limit) else "about "

    return (
        f"An audit of {about(people)}{who.count(people)} whose score and outcome are known; "
        f"{about(positives)}{IN_SENTENCE.count(positives)} had {outcome}."
    )


def _facts(identity: Identity, made: str) -> list[tuple[str, str]]:
    """What the page is about, as far as it was given, and when it was made."""
    given = [
        ("Score", identity.score),
        ("Outcome", identity.outcome),
        ("Who", identity.population),
        ("Where", identity.institution),
        ("Source", identity.source),
        ("Period", identity.period),
        ("Made", f"{made}, propcal {__version__}"),
    ]
    return [(name, text) for name, text in given if text]

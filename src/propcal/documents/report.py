"""The report of an audit or a comparison: protected counts, and what was found of groups, sites and a fit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from propcal.auditing.audit import Audit
from propcal.auditing.compare import Comparison
from propcal.auditing.pages import Pages
from propcal.core.correction.fit_summary import FitSummary
from propcal.documents.audit import Around, audit_document
from propcal.documents.blocks import At, Document, Section
from propcal.documents.comparison import comparison_document
from propcal.documents.correction import correction_blocks, fit_blocks
from propcal.documents.sites import sites_section
from propcal.errors import InputError
from propcal.protect.comparisons import protected
from propcal.protect.rule import Rule
from propcal.protect.sites import protected_sites


def report(
    result: Pages,
    *,
    suppress: int = 11,
    title: str | None = None,
    correction: Any = None,
    certificate: Any = None,
    discovery: Any = None,
    sites: Any = None,
) -> Document:
    """What may be handed on; counts that are protected already stay so."""
    changed, found = _correction(correction, certificate), _discovery(discovery, suppress)
    around = Around(title=title or "", changed=changed, found=found, suppress=suppress)
    if sites is not None:
        section = sites_section(protected_sites(sites, suppress))
        around = replace(around, last=[section], links=[("sites", "Sites", f"{sites.headline}.")])
        around = replace(around, sites=sites.headline if sites.claims else "")
    assert isinstance(result, (Audit, Comparison))
    shown = protected(result, Rule(suppress).fewest)
    if isinstance(shown, Comparison):
        return comparison_document(shown, around)
    return audit_document(shown, around)


def _wrong(argument: str, expected: str, given: object) -> InputError:
    return InputError(f"{argument} must be {expected}; got {type(given).__name__}", argument=argument)


def _correction(correction: Any, certificate: Any) -> list[Section]:
    """What a correction does, and what its fit says of its own cells, without their counts."""
    summary = certificate if certificate is not None else getattr(correction, "certificate_", None)
    fitted = getattr(correction, "correction_", correction)
    if fitted is not None and not hasattr(fitted, "apply_to_atoms"):
        raise _wrong("correction", "a Correction, or a fitted PMCBoost or MCBoost", fitted)
    if summary is not None and not isinstance(summary, FitSummary):
        raise _wrong("certificate", "a FitSummary", summary)
    blocks = [] if fitted is None else correction_blocks(fitted)
    blocks += [] if summary is None else fit_blocks(summary)
    return [Section("correction", "The correction", blocks, "Correction", At.PAGE)] if blocks else []


def _discovery(found: Any, suppress: int) -> list[Section]:
    """Groups that a search found."""
    if found is None:
        return []
    from propcal.discovery.discovery import Discovery  # which imports numba; a page without one does not
    from propcal.documents.discovery import discovery_section

    if not isinstance(found, Discovery):
        raise _wrong("discovery", "what propcal.discover returns", found)
    return [discovery_section(found, suppress)]

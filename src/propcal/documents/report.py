"""The report of an audit or a comparison: protected counts, and what was found of groups, sites and a fit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from propcal.auditing.audit import Audit
from propcal.auditing.compare import Comparison
from propcal.auditing.pages import Pages
from propcal.core.correction.fit_summary import FitSummary
from propcal.documents.audit import Around, audit_document
from propcal.documents.blocks import At, Block, Document, Section
from propcal.documents.comparison import comparison_document
from propcal.documents.correction import correction_blocks
from propcal.documents.fit import fit_blocks
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
    around = Around(
        title=title or "",
        changed=_correction(correction, certificate),
        found=_discovery(discovery, suppress),
        suppress=suppress,
    )
    if sites is not None:
        section = sites_section(protected_sites(sites, suppress))
        around = replace(around, last=[section], links=[("sites", "Sites", f"{sites.headline}.")])
    assert isinstance(result, (Audit, Comparison))
    shown = protected(result, Rule(suppress).fewest)
    if isinstance(shown, Comparison):
        return comparison_document(shown, around)
    return audit_document(shown, around)


def _correction(correction: Any, certificate: Any) -> list[Section]:
    """What a correction does, and what its fit says of its own cells, without their counts."""
    summary = certificate if certificate is not None else getattr(correction, "certificate_", None)
    fitted = getattr(correction, "correction_", correction)
    if fitted is not None and not hasattr(fitted, "apply_to_atoms"):
        raise InputError(
            f"correction must be a Correction, or a fitted PMCBoost or MCBoost; got {type(fitted).__name__}",
            argument="correction",
        )
    if summary is not None and not isinstance(summary, FitSummary):
        raise InputError(
            f"certificate must be a FitSummary; got {type(summary).__name__}", argument="certificate"
        )
    blocks: list[Block] = []
    if fitted is not None:
        blocks += correction_blocks(fitted)
    if summary is not None:
        blocks += fit_blocks(summary)
    return [Section("correction", "The correction", blocks, "Correction", At.PAGE)] if blocks else []


def _discovery(found: Any, suppress: int) -> list[Section]:
    """Groups that a search found."""
    if found is None:
        return []
    from propcal.discovery.discovery import Discovery  # which imports numba; a page without one does not
    from propcal.documents.discovery import discovery_section

    if not isinstance(found, Discovery):
        raise InputError(
            f"discovery must be what propcal.discover returns; got {type(found).__name__}",
            argument="discovery",
        )
    return [discovery_section(found, suppress)]

"""Audits and comparisons for release: with protected counts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from propcal.auditing.audit import Audit
from propcal.protect.disclosure_rule import Rule

if TYPE_CHECKING:
    from propcal.auditing.compare import Comparison


def protected(result: Audit | Comparison, fewest: int | None) -> Audit | Comparison:
    """An audit or a comparison with protected counts; 0 or None protects nothing."""
    # what protects a kind of result is imported only if it is needed
    if Rule.asked(fewest) is None:
        return result
    if isinstance(result, Audit):
        from propcal.protect.protected_audits import protected_audit

        return protected_audit(result, fewest)

    from propcal.protect.protected_comparisons import protected_comparison

    return protected_comparison(result, fewest)

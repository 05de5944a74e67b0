"""Audits and comparisons as JSON (docs/reference/audit-json.md)."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

    from propcal.auditing.audit import Audit
    from propcal.auditing.compare import Comparison

AUDIT_FORMAT, COMPARISON_FORMAT, AUDIT_VERSION = "propcal-audit", "propcal-comparison", 2


def _plain(value: Any) -> Any:
    """A number, text or truth value as JSON has it; NaN and infinity, which it has not, become null."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _records(table: pd.DataFrame) -> list[dict[str, Any]]:
    """One object a row."""
    columns = {str(name): table[name].tolist() for name in table.columns}
    return [{name: _plain(column[i]) for name, column in columns.items()} for i in range(len(table))]


def _by_group(table: pd.DataFrame) -> list[dict[str, Any]]:
    """One object a group, whose columns are lists."""
    names = [str(name) for name in table.columns if name != "group"]
    return [
        {"group": group, **{name: [_plain(x) for x in part[name].tolist()] for name in names}}
        for group, part in table.groupby("group", sort=False)
    ]


def rounded(value: Any, digits: int = 6) -> Any:
    """Six digits are enough for machines too, and four for points of curves; whole numbers stay whole.

    >>> rounded({"gap": 0.123456789, "curve": [0.123456789, 20_000.0]})
    {'gap': 0.123457, 'curve': [0.1235, 20000]}
    """
    if isinstance(value, dict):
        return {key: rounded(part) for key, part in value.items()}
    if isinstance(value, list):
        return [rounded(part, 4) for part in value]
    if not isinstance(value, float):
        return value
    return int(value) if value == round(value) else float(f"{value:.{digits}g}")


def audit_content(audit: Audit) -> dict[str, Any]:
    """What an audit says, as plain lists and dicts."""
    verdict = audit.verdict
    return {
        "format": AUDIT_FORMAT,
        "version": AUDIT_VERSION,
        "settings": {name: _plain(value) for name, value in audit.settings.items()},
        "identity": asdict(audit.identity),
        "verdict": {
            "conclusion": verdict.conclusion,
            "text": verdict.text,
            "sentences": list(verdict.sentences),
            "tests": _records(verdict.tests),
        },
        "losses": _records(audit.losses.reset_index()),
        "debiased": _records(audit.debiased.reset_index()),
        "groups": _records(audit.groups),
        "categories": _records(audit.categories),
        "curves": _by_group(audit.curves),
        "net_benefit": _by_group(audit.net_benefit),
        "distribution": _by_group(audit.distribution),
        "notes": list(audit.notes),
    }


def audit_to_json(audit: Audit) -> str:
    """The JSON text of an audit."""
    return _text(audit_content(audit))


def comparison_content(comparison: Comparison) -> dict[str, Any]:
    """What a comparison says, as plain lists and dicts."""
    return {
        "format": COMPARISON_FORMAT,
        "version": AUDIT_VERSION,
        "base": comparison.base,
        "audits": {name: audit_content(audit) for name, audit in comparison.audits.items()},
        "differences": _records(comparison.differences),
        "notes": list(comparison.notes),
    }


def comparison_to_json(comparison: Comparison) -> str:
    """The JSON text of a comparison."""
    return _text(comparison_content(comparison))


def _text(content: dict[str, Any]) -> str:
    return json.dumps(content, ensure_ascii=False, allow_nan=False, indent=1)

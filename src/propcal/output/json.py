"""Audits and comparisons as JSON (docs/reference/audit-json.md)."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from propcal.numbers import Limit

if TYPE_CHECKING:
    import pandas as pd

    from propcal.auditing.audit import Audit
    from propcal.auditing.compare import Comparison
    from propcal.discovery.discovery import Discovery

AUDIT_FORMAT, COMPARISON_FORMAT, AUDIT_VERSION = "propcal-audit", "propcal-comparison", 2
DISCOVERY_FORMAT, DISCOVERY_VERSION = "propcal-discovery", 1


def plain_value(value: Any) -> Any:
    """A number, text or truth value as JSON has it; NaN, infinity and limits become null."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and (isinstance(value, Limit) or not math.isfinite(value)):
        return None
    return value


def _plain_column(column: pd.Series) -> list[Any]:
    """The same of a column."""
    values = column.tolist()
    if column.dtype.kind != "f":
        return [plain_value(value) for value in values]
    for i in np.flatnonzero(~np.isfinite(column.to_numpy())):
        values[i] = None
    return values


def table_records(table: pd.DataFrame) -> list[dict[str, Any]]:
    """One object a row."""
    columns = {str(name): _plain_column(table[name]) for name in table.columns}
    return [{name: column[i] for name, column in columns.items()} for i in range(len(table))]


def _by_group(table: pd.DataFrame) -> list[dict[str, Any]]:
    """One object a group, whose columns are lists."""
    columns = {str(name): _plain_column(table[name]) for name in table.columns if name != "group"}
    rows: dict[str, list[int]] = {}
    for i, group in enumerate(table["group"].tolist()):
        rows.setdefault(group, []).append(i)
    return [
        {"group": group, **{name: [column[i] for i in own] for name, column in columns.items()}}
        for group, own in rows.items()
    ]


LARGEST_WHOLE = (
    1e15  # larger numbers stay floating-point: readers in other languages need not have long integers
)


def rounded(value: Any, digits: int = 6) -> Any:
    """Six digits are enough for machines too, and five for points of curves; whole numbers stay whole.

    >>> rounded({"gap": 0.123456789, "curve": [0.123456789, 20_000.0]})
    {'gap': 0.123457, 'curve': [0.12346, 20000]}
    """
    if isinstance(value, dict):
        return {key: rounded(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_rounded_number(part, 5) if type(part) is float else rounded(part, 5) for part in value]
    return _rounded_number(value, digits) if isinstance(value, float) else value


def _rounded_number(value: float, digits: int) -> float:
    whole = abs(value) < LARGEST_WHOLE and value == round(value)
    return int(value) if whole else float(f"{value:.{digits}g}")


def audit_content(audit: Audit) -> dict[str, Any]:
    """What an audit says, as plain lists and dicts."""
    verdict = audit.verdict
    content = {
        "format": AUDIT_FORMAT,
        "version": AUDIT_VERSION,
        "settings": {name: plain_value(value) for name, value in audit.settings.items()},
        "identity": asdict(audit.identity),
        "verdict": {
            "conclusion": verdict.conclusion,
            "text": verdict.text,
            "sentences": list(verdict.sentences),
            "tests": table_records(verdict.tests),
        },
        "losses": table_records(audit.losses.reset_index()),
        "debiased": table_records(audit.debiased.reset_index()),
        "groups": table_records(audit.groups),
        "categories": table_records(audit.categories),
        "curves": _by_group(audit.curves),
        "net_benefit": _by_group(audit.net_benefit),
        "distribution": _by_group(audit.distribution),
        "notes": list(audit.notes),
    }
    if audit.bin_free is not None:
        found = audit.bin_free
        content["bin_free"] = {"sentence": found.sentence, "measures": table_records(found.table)}
    return content


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
        "differences": table_records(comparison.differences),
        "notes": [*comparison.worse(), *comparison.notes],
    }


def comparison_to_json(comparison: Comparison) -> str:
    """The JSON text of a comparison."""
    return _text(comparison_content(comparison))


def discovery_to_json(found: Discovery) -> str:
    """The JSON text of a discovery."""
    content: dict[str, Any] = {
        "format": DISCOVERY_FORMAT,
        "version": DISCOVERY_VERSION,
        "found": [
            {name: plain_value(value) for name, value in asdict(group).items()} for group in found.found
        ],
        "overall": {name: plain_value(value) for name, value in found.overall.items()},
        "left_out": dict(found.left_out),
        "settings": {name: plain_value(value) for name, value in found.settings.items()},
        "sentences": list(found.sentences),
    }
    if found.protection is not None:
        content["protected"] = table_records(found.protection.to_frame())
    return _text(content)


def _text(content: dict[str, Any]) -> str:
    return json.dumps(content, ensure_ascii=False, allow_nan=False, indent=1)

"""Results for machines, as plain lists and dicts (docs/reference/audit-json.md)."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from propcal.numbers import Limit

if TYPE_CHECKING:
    import pandas as pd

    from propcal.auditing.audit import Audit
    from propcal.auditing.claims import Claim
    from propcal.auditing.compare import Comparison
    from propcal.discovery.discovery import Discovery
    from propcal.monitoring.course import Course

AUDIT_FORMAT, COMPARISON_FORMAT, AUDIT_VERSION = "propcal-audit", "propcal-comparison", 3
COURSE_FORMAT, COURSE_VERSION = "propcal-course", 1
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
            "claims": [_claim(claim) for claim in verdict.claims],
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


def _claim(claim: Claim) -> dict[str, Any]:
    where = [asdict(region) for region in claim.where]
    return {name: plain_value(value) for name, value in vars(claim).items()} | {"where": where}


def comparison_content(comparison: Comparison) -> dict[str, Any]:
    """What a comparison says, as plain lists and dicts."""
    return {
        "format": COMPARISON_FORMAT,
        "version": AUDIT_VERSION,
        "base": comparison.base,
        "audits": {name: audit_content(audit) for name, audit in comparison.audits.items()},
        "unchanged": list(comparison.unchanged),
        "sentences": {name: comparison.sentences(name) for name in [*comparison.audits][1:]},
        "claims": [
            {name: plain_value(value) for name, value in asdict(claim).items()} for claim in comparison.claims
        ],
        "differences": table_records(comparison.differences),
        "flags": table_records(comparison.flags),
        "notes": list(comparison.notes),
    }


def discovery_content(found: Discovery) -> dict[str, Any]:
    """What a discovery says, as plain lists and dicts."""
    content: dict[str, Any] = {
        "format": DISCOVERY_FORMAT,
        "version": DISCOVERY_VERSION,
        "found": [
            {name: plain_value(value) for name, value in asdict(group).items()} for group in found.found
        ],
        "claims": [
            {name: plain_value(value) for name, value in asdict(claim).items()} for claim in found.claims
        ],
        "overall": {name: plain_value(value) for name, value in found.overall.items()},
        "left_out": dict(found.left_out),
        "settings": {name: plain_value(value) for name, value in found.settings.items()},
        "sentences": list(found.sentences),
    }
    if found.protection is not None:
        content["protected"] = table_records(found.protection.to_frame())
    return content


def course_content(course: Course) -> dict[str, Any]:
    """What a monitor found, as plain lists and dicts (docs/reference/monitor-file.md)."""
    found = course.recalibration
    return {
        "format": COURSE_FORMAT,
        "version": COURSE_VERSION,
        "conclusion": course.conclusion,
        "sentences": list(course.sentences),
        "notes": list(course.notes),
        "claims": [_claim(claim) for claim in course.claims],
        "alarms": [{k: plain_value(v) for k, v in asdict(alarm).items()} for alarm in course.alarms],
        "groups": table_records(course.groups),
        "periods": table_records(course.periods),
        "evidence": table_records(course.evidence),
        "recalibration": None
        if found is None
        else {
            "answer": found.answer,
            "sentence": found.sentence,
            "fitted": list(found.fitted),
            "judged": list(found.judged),
            "differences": table_records(found.comparison.differences),
        },
        "settings": course.settings,
        "identity": asdict(course.identity),
    }

"""Results for machines, as plain lists and dicts (docs/reference/audit-json.md)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from propcal.numbers import Limit

if TYPE_CHECKING:
    import pandas as pd

    from propcal.auditing.audit import Audit
    from propcal.auditing.compare import Comparison
    from propcal.discovery.discovery import Discovery
    from propcal.monitoring.course import Course
    from propcal.monitoring.held_out import Recalibration
    from propcal.sites.site_measures import Sites

AUDIT_FORMAT, COMPARISON_FORMAT, AUDIT_VERSION = "propcal-audit", "propcal-comparison", 3
COURSE_FORMAT, COURSE_VERSION = "propcal-course", 1
SITES_FORMAT, SITES_VERSION = "propcal-sites", 2
DISCOVERY_FORMAT, DISCOVERY_VERSION = "propcal-discovery", 1


def plain_value(value: Any) -> Any:
    """A value as JSON has it, also inside lists and dicts; NaN, infinity and limits become null."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, dict):
        return {str(name): plain_value(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain_value(part) for part in value]
    if isinstance(value, float) and (isinstance(value, Limit) or not math.isfinite(value)):
        return None
    return value


def records_of(claims: Iterable[Any]) -> list[dict[str, Any]]:
    """One object a claim, a group or an alarm."""
    return [plain_value(asdict(claim)) for claim in claims]


def _plain_column(column: pd.Series) -> list[Any]:
    """Values of a column as JSON has them."""
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
        "settings": plain_value(audit.settings),
        "identity": asdict(audit.identity),
        "verdict": {
            "conclusion": verdict.conclusion,
            "text": verdict.text,
            "sentences": list(verdict.sentences),
            "claims": records_of(verdict.claims),
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


def comparison_content(comparison: Comparison) -> dict[str, Any]:
    """What a comparison says, as plain lists and dicts."""
    return {
        "format": COMPARISON_FORMAT,
        "version": AUDIT_VERSION,
        "base": comparison.base,
        "audits": {name: audit_content(audit) for name, audit in comparison.audits.items()},
        "unchanged": list(comparison.unchanged),
        "sentences": {name: comparison.sentences(name) for name in [*comparison.audits][1:]},
        "claims": records_of(comparison.claims),
        "differences": table_records(comparison.differences),
        "flags": table_records(comparison.flags),
        "notes": list(comparison.notes),
    }


def discovery_content(found: Discovery) -> dict[str, Any]:
    """What a discovery says, as plain lists and dicts."""
    content: dict[str, Any] = {
        "format": DISCOVERY_FORMAT,
        "version": DISCOVERY_VERSION,
        "found": records_of(found.found),
        "claims": records_of(found.claims),
        "overall": plain_value(found.overall),
        "left_out": dict(found.left_out),
        "settings": plain_value(found.settings),
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
        "claims": records_of(course.claims),
        "alarms": records_of(course.alarms),
        "groups": table_records(course.groups),
        "periods": table_records(course.periods),
        "evidence": table_records(course.evidence),
        "recalibration": None if found is None else _recalibration(found),
        "settings": course.settings,
        "identity": asdict(course.identity),
    }


def _recalibration(found: Recalibration) -> dict[str, Any]:
    periods = {"fitted": list(found.fitted), "judged": list(found.judged)}
    told = {"answer": found.answer, "sentence": found.sentence}
    return told | periods | {"differences": table_records(found.comparison.differences)}


def sites_content(found: Sites) -> dict[str, Any]:
    """What was found across sites, as plain lists and dicts."""
    return {
        "format": SITES_FORMAT,
        "version": SITES_VERSION,
        "conclusion": found.conclusion,
        "headline": found.headline,
        "claims": records_of(found.claims),
        "sentences": list(found.sentences),
        "pooled": table_records(found.pooled.rename_axis("of").reset_index()),
        "sites": table_records(found.sites),
        "summary": table_records(found.summary.rename_axis("measure").reset_index()),
        "travel": None if found.travel is None else table_records(found.travel.table),
        "notes": list(found.notes),
        "identity": asdict(found.identity),
    }

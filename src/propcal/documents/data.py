"""Results for machines: as plain lists and dicts (docs/reference/audit-json.md), as
JSON and as OpenMetrics.

OpenMetrics are the newest numbers of a monitor, for the textfile collector of
Prometheus.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, is_dataclass
from datetime import UTC, datetime, time
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from propcal import __version__
from propcal.auditing.audit_tables import row_dicts
from propcal.documents.words import all_words
from propcal.errors import plain
from propcal.numbers import Limit, known
from propcal.reading.periods import Calendar

if TYPE_CHECKING:
    from propcal.auditing.audit import Audit
    from propcal.auditing.compare import Comparison
    from propcal.discovery.discovery import Discovery
    from propcal.monitoring.course import Course
    from propcal.sites.compare_sites import Sites

# larger numbers stay floating-point: readers in other languages need not have long
# integers
LARGEST_WHOLE = 1e15
VERSIONS = {"audit": 3, "comparison": 3, "course": 1, "sites": 2, "discovery": 1}


def plain_value(value: Any) -> Any:
    """A value as JSON has it, also inside lists, dicts, records and tables, which
    become a dict for each row.

    NaN, infinity and limits become null.
    """
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, pd.DataFrame):
        columns = _columns(value if value.index.name is None else value.reset_index())
        return [dict(zip(columns, row)) for row in zip(*columns.values())]
    if is_dataclass(value) and not isinstance(value, type):
        value = asdict(value)
    if isinstance(value, dict):
        return {str(name): plain_value(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain_value(part) for part in value]
    if isinstance(value, float) and (
        isinstance(value, Limit) or not math.isfinite(value)
    ):
        return None
    return value


def _columns(table: pd.DataFrame) -> dict[str, list[Any]]:
    """The values of each column, as JSON has them."""
    found: dict[str, list[Any]] = {}
    for name, column in table.items():
        values: Any = map(plain_value, column.tolist())
        if column.dtype.kind == "f":
            values = column.astype(object).where(np.isfinite(column), None)
        found[str(name)] = [*values]
    return found


def _by_group(table: pd.DataFrame) -> list[dict[str, Any]]:
    """One object a group, whose columns are lists."""
    columns = _columns(table.drop(columns="group"))
    rows: dict[str, list[int]] = {}
    for i, group in enumerate(table["group"].tolist()):
        rows.setdefault(group, []).append(i)
    return [
        {
            "group": group,
            **{name: [column[i] for i in places] for name, column in columns.items()},
        }
        for group, places in rows.items()
    ]


def _begin(kind: str) -> dict[str, Any]:
    return {"format": f"propcal-{kind}", "version": VERSIONS[kind]}


def _fields(result: object, names: str) -> dict[str, Any]:
    """Attributes of a result, by their names."""
    return {name: plain_value(getattr(result, name)) for name in names.split()}


def audit_content(audit: Audit) -> dict[str, Any]:
    """What an audit says, as plain lists and dicts."""
    content = _begin("audit") | _fields(audit, "settings identity")
    content["verdict"] = _fields(
        audit.verdict, "conclusion text sentences claims tests"
    )
    content |= _fields(audit, "losses debiased groups categories")
    content |= {
        name: _by_group(getattr(audit, name))
        for name in ("curves", "net_benefit", "distribution")
    }
    content |= _fields(audit, "notes")
    if audit.bin_free is not None:
        measures = plain_value(audit.bin_free.table)
        content["bin_free"] = {
            "sentence": audit.bin_free.sentence,
            "measures": measures,
        }
    return content


def comparison_content(comparison: Comparison) -> dict[str, Any]:
    """What a comparison says, as plain lists and dicts."""
    names = [*comparison.audits]
    return {
        **_begin("comparison"),
        "base": comparison.base,
        "audits": {
            name: audit_content(audit) for name, audit in comparison.audits.items()
        },
        "unchanged": list(comparison.unchanged),
        "sentences": {name: comparison.sentences(name) for name in names[1:]},
        **_fields(comparison, "claims differences flags notes"),
    }


def discovery_content(discovery: Discovery) -> dict[str, Any]:
    """What a discovery says, as plain lists and dicts."""
    content = _begin("discovery") | _fields(
        discovery, "found claims overall left_out settings sentences"
    )
    if discovery.protection is not None:
        content["protected"] = plain_value(discovery.protection.to_frame())
    return content


def course_content(course: Course) -> dict[str, Any]:
    """What a monitor found, as plain lists and dicts
    (docs/reference/monitor-file.md).
    """
    found = course.recalibration
    recalibration = None
    if found is not None:
        recalibration = _fields(found, "answer sentence fitted judged")
        recalibration["differences"] = plain_value(found.comparison.differences)
    names = "conclusion sentences notes claims alarms groups periods evidence"
    content = _begin("course") | _fields(course, names)
    return (
        content
        | {"recalibration": recalibration}
        | _fields(course, "settings identity")
    )


def sites_content(sites: Sites) -> dict[str, Any]:
    """What was found across sites, as plain lists and dicts."""
    return {
        **_begin("sites"),
        **_fields(sites, "conclusion headline claims sentences"),
        "pooled": plain_value(sites.pooled.rename_axis("of")),
        "sites": plain_value(sites.sites),
        "summary": plain_value(sites.summary.rename_axis("measure")),
        "travel": None if sites.travel is None else plain_value(sites.travel.table),
        **_fields(sites, "notes identity"),
    }


def rounded(value: Any, digits: int = 6) -> Any:
    """Six digits are enough for machines too, and five for points of curves; whole
    numbers stay whole.

    >>> rounded({"gap": 0.123456789, "curve": [0.123456789, 20_000.0]})
    {'gap': 0.123457, 'curve': [0.12346, 20000]}
    """
    if isinstance(value, dict):
        return {key: rounded(part) for key, part in value.items()}
    if isinstance(value, list):
        return [
            _rounded_number(part, 5) if type(part) is float else rounded(part, 5)
            for part in value
        ]
    if isinstance(value, float):
        return _rounded_number(value, digits)
    return value


def _rounded_number(value: float, digits: int) -> float:
    if value.is_integer() and abs(value) < LARGEST_WHOLE:
        return int(value)
    return float(f"{value:.{digits}g}")


def json_text(content: dict[str, Any]) -> str:
    """The JSON text of what a result says."""
    return json.dumps(content, ensure_ascii=False, allow_nan=False, indent=1)


def openmetrics(course: Course, state: str = "") -> str:
    """One gauge for each number, labelled by score, state and group: several monitors
    do not collide.
    """
    settings = course.settings
    about = {"score": course.identity.score or settings["score"]} | (
        {"state": state} if state else {}
    )
    # a group as it is called in code, and as people read it
    rows = [
        ({"group": row["group"], "label": row["label"]} | about, row)
        for row in row_dicts(course.groups)
    ]
    end = Calendar(settings["every"], settings["timezone"]).end(course.last)
    samples = {
        "version": [({"version": __version__} | about, 1.0)],
        "last_end": [(about, datetime.combine(end, time(), UTC).timestamp())],
    }
    lines: list[str] = []
    for column, (name, meaning) in all_words("gauges").items():
        # a gauge: the textfile collector of Prometheus does not know the type "info"
        if name.endswith("_seconds"):
            unit = [f"# UNIT propcal_{name} seconds"]
        else:
            unit = []
        lines += [
            f"# TYPE propcal_{name} gauge",
            *unit,
            f"# HELP propcal_{name} {meaning}",
        ]
        own = samples.get(column) or [(labels, row[column]) for labels, row in rows]
        shown = (
            (labels, value)
            for labels, value in own
            if known(value) and not isinstance(value, Limit)
        )
        lines += [
            f"propcal_{name}{_labels(labels)} {float(value)!r}"
            for labels, value in shown
        ]
    return "\n".join([*lines, "# EOF", ""])


def _labels(texts: dict[str, Any]) -> str:
    escaped = {
        key: plain(text).replace("\\", "\\\\").replace('"', '\\"')
        for key, text in texts.items()
    }
    return "{" + ",".join(f'{key}="{text}"' for key, text in escaped.items()) + "}"

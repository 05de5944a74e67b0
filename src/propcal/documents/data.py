"""Results for machines: as plain lists and dicts, as JSON and as OpenMetrics.

docs/reference/audit-json.md describes them. OpenMetrics are the newest numbers of a
monitor, for the textfile collector of Prometheus.
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
        return _rows(value)
    if is_dataclass(value) and not isinstance(value, type):
        value = asdict(value)
    if isinstance(value, dict):
        return {str(name): plain_value(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain_value(part) for part in value]
    if isinstance(value, Limit):
        return None
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _rows(table: pd.DataFrame) -> list[dict[str, Any]]:
    """A dict for each row, with the index if it has a name."""
    if table.index.name is not None:
        table = table.reset_index()
    columns = _columns(table)
    return [dict(zip(columns, row)) for row in zip(*columns.values())]


def _columns(table: pd.DataFrame) -> dict[str, list[Any]]:
    """The values of each column, as JSON has them."""
    columns: dict[str, list[Any]] = {}
    for name, column in table.items():
        if column.dtype.kind == "f":
            numbers = column.astype(object).where(np.isfinite(column), None)
            columns[str(name)] = list(numbers)
        else:
            columns[str(name)] = [plain_value(value) for value in column.tolist()]
    return columns


def _by_group(table: pd.DataFrame) -> list[dict[str, Any]]:
    """One object a group, whose columns are lists."""
    columns = _columns(table.drop(columns="group"))
    places_of: dict[str, list[int]] = {}
    for place, group in enumerate(table["group"].tolist()):
        places_of.setdefault(group, []).append(place)

    objects = []
    for group, places in places_of.items():
        one: dict[str, Any] = {"group": group}
        for name, column in columns.items():
            one[name] = [column[place] for place in places]
        objects.append(one)
    return objects


def _begin(kind: str) -> dict[str, Any]:
    return {"format": f"propcal-{kind}", "version": VERSIONS[kind]}


def _fields(result: object, names: str) -> dict[str, Any]:
    """Attributes of a result, by their names."""
    return {name: plain_value(getattr(result, name)) for name in names.split()}


def audit_content(audit: Audit) -> dict[str, Any]:
    """What an audit says, as plain lists and dicts."""
    content = _begin("audit")
    content |= _fields(audit, "settings identity")
    content["verdict"] = _fields(
        audit.verdict, "conclusion text sentences claims tests"
    )
    content |= _fields(audit, "losses debiased groups categories")
    for name in ("curves", "net_benefit", "distribution"):
        content[name] = _by_group(getattr(audit, name))
    content |= _fields(audit, "notes")
    if audit.bin_free is not None:
        measures = plain_value(audit.bin_free.table)
        sentence = audit.bin_free.sentence
        content["bin_free"] = {"sentence": sentence, "measures": measures}
    return content


def comparison_content(comparison: Comparison) -> dict[str, Any]:
    """What a comparison says, as plain lists and dicts."""
    audits = {name: audit_content(audit) for name, audit in comparison.audits.items()}
    compared = list(comparison.audits)[1:]
    content = _begin("comparison")
    content["base"] = comparison.base
    content["audits"] = audits
    content["unchanged"] = list(comparison.unchanged)
    content["sentences"] = {name: comparison.sentences(name) for name in compared}
    return content | _fields(comparison, "claims differences flags notes")


def discovery_content(discovery: Discovery) -> dict[str, Any]:
    """What a discovery says, as plain lists and dicts."""
    content = _begin("discovery")
    content |= _fields(discovery, "found claims overall left_out settings sentences")
    if discovery.protection is not None:
        content["protected"] = plain_value(discovery.protection.to_frame())
    return content


def course_content(course: Course) -> dict[str, Any]:
    """What a monitor found, as plain lists and dicts
    (docs/reference/monitor-file.md).
    """
    names = "conclusion sentences notes claims alarms groups periods evidence"
    content = _begin("course")
    content |= _fields(course, names)
    content["recalibration"] = None
    found = course.recalibration
    if found is not None:
        recalibration = _fields(found, "answer sentence fitted judged")
        recalibration["differences"] = plain_value(found.comparison.differences)
        content["recalibration"] = recalibration
    return content | _fields(course, "settings identity")


def sites_content(sites: Sites) -> dict[str, Any]:
    """What was found across sites, as plain lists and dicts."""
    content = _begin("sites")
    content |= _fields(sites, "conclusion headline claims sentences")
    content["pooled"] = plain_value(sites.pooled.rename_axis("of"))
    content["sites"] = plain_value(sites.sites)
    content["summary"] = plain_value(sites.summary.rename_axis("measure"))
    content["travel"] = None
    if sites.travel is not None:
        content["travel"] = plain_value(sites.travel.table)
    return content | _fields(sites, "notes identity")


def rounded(value: Any, digits: int = 6) -> Any:
    """Six digits are enough for machines too, and five for points of curves; whole
    numbers stay whole.

    >>> rounded({"gap": 0.123456789, "curve": [0.123456789, 20_000.0]})
    {'gap': 0.123457, 'curve': [0.12346, 20000]}
    """
    if isinstance(value, float):  # most of them are
        return _rounded_number(value, digits)
    if isinstance(value, dict):
        return {key: rounded(part) for key, part in value.items()}
    if isinstance(value, list):
        return [rounded(part, 5) for part in value]
    return value


def _rounded_number(value: float, digits: int) -> float:
    if value.is_integer() and abs(value) < LARGEST_WHOLE:
        return int(value)
    return float(f"{value:.{digits}g}")


def json_text(content: dict[str, Any]) -> str:
    """The JSON text of what a result says."""
    return json.dumps(content, ensure_ascii=False, allow_nan=False, indent=1)


Sample = tuple[dict[str, Any], Any]  # labels and a value


def openmetrics(course: Course, state: str = "") -> str:
    """One gauge for each number, labelled by score, state and group: several monitors
    do not collide.
    """
    settings = course.settings
    about = {"score": course.identity.score or settings["score"]}
    if state:
        about["state"] = state
    end = Calendar(settings["every"], settings["timezone"]).end(course.last)
    end_of_last = datetime.combine(end, time(), UTC).timestamp()
    samples: dict[str, list[Sample]] = {
        "version": [({"version": __version__} | about, 1.0)],
        "last_end": [(about, end_of_last)],
    }

    lines: list[str] = []
    for column, (name, meaning) in all_words("gauges").items():
        if column in samples:
            lines += _gauge(name, meaning, samples[column])
        else:
            lines += _gauge(name, meaning, _of_groups(course, column, about))
    return "\n".join([*lines, "# EOF", ""])


def _of_groups(course: Course, column: str, about: dict[str, Any]) -> list[Sample]:
    """A number of each group, which is called as in code and as people read it."""
    samples = []
    for row in row_dicts(course.groups):
        labels = {"group": row["group"], "label": row["label"]}
        samples.append((labels | about, row[column]))
    return samples


def _gauge(name: str, meaning: str, samples: list[Sample]) -> list[str]:
    """A number with its type, unit and meaning; the textfile collector of Prometheus
    does not know the type "info".
    """
    lines = [f"# TYPE propcal_{name} gauge"]
    if name.endswith("_seconds"):
        lines.append(f"# UNIT propcal_{name} seconds")
    lines.append(f"# HELP propcal_{name} {meaning}")
    for labels, value in samples:
        if known(value) and not isinstance(value, Limit):
            lines.append(f"propcal_{name}{_labels(labels)} {float(value)!r}")
    return lines


def _labels(texts: dict[str, Any]) -> str:
    pairs = []
    for key, text in texts.items():
        escaped = plain(text).replace("\\", "\\\\").replace('"', '\\"')
        pairs.append(f'{key}="{escaped}"')
    return "{" + ",".join(pairs) + "}"

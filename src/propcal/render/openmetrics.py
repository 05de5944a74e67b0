"""The newest numbers of a monitor as OpenMetrics text, for the textfile collector of Prometheus."""

from __future__ import annotations

from datetime import UTC, datetime, time
from typing import TYPE_CHECKING, Any

from propcal.data.periods import Calendar
from propcal.documents.words import all_words
from propcal.errors import plain
from propcal.numbers import Limit, known

if TYPE_CHECKING:
    from propcal.monitoring.course import Course


def openmetrics(course: Course, state: str = "") -> str:
    """One gauge for each number, labelled by score, state and group: several monitors do not collide."""
    from propcal import __version__

    lines: list[str] = []
    about = {"score": course.identity.score or course.settings["score"]}
    about |= {"state": state} if state else {}
    # a gauge: the textfile collector of Prometheus does not know the type "info"
    lines += _head("info", "The version of propcal that wrote these numbers.")
    lines.append(_sample("info", {"version": __version__} | about, 1.0))
    for column, (name, meaning) in all_words("gauges").items():
        lines += _head(name, meaning)
        for _, row in course.groups.iterrows():
            if known(row[column]) and not isinstance(row[column], Limit):
                lines.append(_sample(name, _labels(row) | about, float(row[column])))
    lines += _head("alarm", "Whether an alarm was raised for the group, by any test: 1 or 0.")
    for _, row in course.groups.iterrows():
        lines.append(_sample("alarm", _labels(row) | about, float(bool(row["alarm"]))))
    lines += _head("last_period_end_timestamp_seconds", "End of the last period, as a Unix time.", "seconds")
    calendar = Calendar(course.settings["every"], course.settings["timezone"])
    end = datetime.combine(calendar.end(course.last), time(), UTC).timestamp()
    lines.append(_sample("last_period_end_timestamp_seconds", about, end))
    return "\n".join([*lines, "# EOF", ""])


def _labels(row: Any) -> dict[str, Any]:
    """A group as it is called in code, and as people read it."""
    return {"group": row["group"], "label": row["label"]}


def _head(name: str, meaning: str, unit: str = "") -> list[str]:
    lines = [f"# TYPE propcal_{name} gauge"]
    if unit:
        lines.append(f"# UNIT propcal_{name} {unit}")
    return [*lines, f"# HELP propcal_{name} {meaning}"]


def _sample(name: str, labels: dict[str, Any], value: float) -> str:
    pairs = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
    return f"propcal_{name}{{{pairs}}} {value!r}" if pairs else f"propcal_{name} {value!r}"


def _escaped(text: Any) -> str:
    return plain(text).replace("\\", "\\\\").replace('"', '\\"')

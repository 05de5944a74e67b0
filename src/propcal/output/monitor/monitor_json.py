"""What a monitor found as JSON (docs/reference/monitor-file.md)."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from propcal.disclosure.protected_course import protected_course
from propcal.output.json import plain_value, rounded, table_records

if TYPE_CHECKING:
    from propcal.monitoring.course import Course

COURSE_FORMAT, COURSE_VERSION = "propcal-course", 1


def course_to_json(course: Course, suppress: int | None = None) -> str:
    """Everything, with small counts suppressed if that is asked."""
    content = rounded(course_content(protected_course(course, suppress)))
    return json.dumps(content, ensure_ascii=False, allow_nan=False, indent=1)


def course_content(course: Course) -> dict[str, Any]:
    """What was found, as plain lists and dicts."""
    recalibration = course.recalibration
    return {
        "format": COURSE_FORMAT,
        "version": COURSE_VERSION,
        "conclusion": course.conclusion,
        "sentences": list(course.sentences),
        "notes": list(course.notes),
        "alarms": [{k: plain_value(v) for k, v in asdict(alarm).items()} for alarm in course.alarms],
        "groups": table_records(course.groups),
        "periods": table_records(course.periods),
        "evidence": table_records(course.evidence),
        "recalibration": None
        if recalibration is None
        else {
            "answer": recalibration.answer,
            "sentence": recalibration.sentence,
            "fitted": list(recalibration.fitted),
            "judged": list(recalibration.judged),
            "differences": table_records(recalibration.comparison.differences),
        },
        "settings": course.settings,
        "identity": asdict(course.identity),
    }

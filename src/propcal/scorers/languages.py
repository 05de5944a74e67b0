"""Writes one-file scorers: a template for each language, and how it writes texts, numbers and lists."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from propcal.core.choices import Unseen
from propcal.core.correction.correction import Correction
from propcal.core.grid import check_choice
from propcal.errors import InputError
from propcal.scorers.program import program

TEMPLATES = Path(__file__).parent / "templates"
LISTED, LINES = ("attributes", "features", "vectors"), ("patterns", "maps")  # one row on each line


def _r(value: Any) -> str:
    """R for a value; lists of numbers or of texts become vectors."""
    if value is None or isinstance(value, bool):
        return {None: "NA", True: "TRUE", False: "FALSE"}[value]
    if isinstance(value, str):
        return _r_text(value)
    if isinstance(value, int) or (isinstance(value, float) and value.is_integer() and abs(value) < 1 << 53):
        return str(int(value))
    if isinstance(value, float):
        return value.hex()
    if not value:
        return "NULL"
    if isinstance(value, Mapping):
        return f"list({', '.join(f'{_r_text(key)} = {_r(one)}' for key, one in value.items())})"
    kinds = {type(one) for one in value}
    return f"{'c' if kinds == {str} or kinds <= {int, float} else 'list'}({', '.join(map(_r, value))})"


def _r_text(text: str) -> str:
    if "\0" in text:
        raise InputError(f"R cannot hold a text with a NUL character: {text[:40]!r}")
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + re.sub(r"[^ -~]", lambda found: f"\\U{ord(found[0]):08x}", escaped) + '"'


@dataclass(frozen=True)
class Language:
    """How a language is written: names of its files, values, and whether all of its numbers are doubles.

    Names and texts of a correction become values of the language, never parts of a comment, so that no file
    can bring code of its own.
    """

    title: str
    ending: str
    value: Callable[[Any], str]
    doubles: bool = True


LANGUAGES = {
    "python": Language("Python", "py", ascii, doubles=False),
    "javascript": Language("JavaScript", "js", json.dumps),
    "r": Language("R", "R", _r),
}


def export_code(correction: Correction, language: str, *, unseen: Unseen | None = None) -> str:
    """Build the result of `Correction.to_code`."""
    check_choice("language", language, tuple(LANGUAGES))
    how = LANGUAGES[language]
    tables = program(correction, unseen, doubles_in=how.title if how.doubles else "")
    parts = {name: how.value(value) for name, value in tables.items() if name not in LISTED + LINES}
    parts |= {name: ",\n".join(f"  {how.value(row)}" for row in tables[name]) for name in LISTED}
    parts |= {name: "\n".join(tables[name]) for name in LINES}
    parts["n_vectors"] = f"{len(tables['vectors']):,}"
    template = (TEMPLATES / f"scorer.{how.ending}.txt").read_text(encoding="utf-8")
    return re.sub(r"@(\w+)@", lambda found: parts[found[1]], template)

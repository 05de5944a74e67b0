"""One-file scorers: a template of a language, filled with the tables of a correction.

Each language has a template, and its way to write texts, numbers and lists.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from propcal.core.arguments import Unseen, check_choice
from propcal.core.correction.correction import Correction
from propcal.errors import InputError
from propcal.export.scorer_tables import MAX_EXACT_WHOLE, scorer_tables

TEMPLATES = Path(__file__).parent / "templates"
# tables with one row on each line
LISTS = ("attributes", "features", "vectors")
TEXTS = ("patterns", "maps")


def _r(value: Any) -> str:
    """R for a value; lists of numbers or of texts become vectors."""
    if value is None:
        return "NA"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, str):
        return _r_text(value)
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return _r_double(value)
    if isinstance(value, Mapping):
        entries = [f"{_r_text(key)} = {_r(entry)}" for key, entry in value.items()]
        return f"list({', '.join(entries)})"

    kinds = {type(entry) for entry in value}
    is_vector = kinds == {str} or kinds <= {int, float}
    function = "c" if is_vector else "list"
    return f"{function}({', '.join(map(_r, value))})"


def _r_double(value: float) -> str:
    """Exact R for a double; not every decimal is exact when R reads it."""
    if value.is_integer() and abs(value) < MAX_EXACT_WHOLE:
        return str(int(value))
    return value.hex()


def _r_text(text: str) -> str:
    if "\0" in text:
        raise InputError(f"R cannot hold a text with a NUL character: {text[:40]!r}")
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{re.sub(r"[^ -~]", _r_code_point, escaped)}"'


def _r_code_point(character: re.Match[str]) -> str:
    return f"\\U{ord(character[0]):08x}"


@dataclass(frozen=True)
class Language:
    """How a language is written: names of its files, values, and its name if all of its
    numbers are doubles.

    Names and texts of a correction become values of the language, never parts of a
    comment, so that no file can bring code of its own.
    """

    ending: str
    value: Callable[[Any], str]
    doubles_in: str = ""


LANGUAGES = {
    "python": Language("py", ascii),
    "javascript": Language("js", json.dumps, "JavaScript"),
    "r": Language("R", _r, "R"),
}
# tables of which each row is a statement, because Rscript reads long ones slowly
R_STATEMENTS = {"maps": "MAPS[{}] <- {}", "vectors": "VECTORS[[{}]] <- {}"}


def export_code(
    correction: Correction, language: str, *, unseen: Unseen | None = None
) -> str:
    """Build the result of `Correction.to_code`."""
    check_choice("language", language, tuple(LANGUAGES))
    how = LANGUAGES[language]
    tables = scorer_tables(correction, unseen, doubles_in=how.doubles_in)

    parts = {"n_vectors": f"{len(tables['vectors']):,}"}
    for name, table in tables.items():
        if language == "r" and name in R_STATEMENTS:
            parts[name] = _r_statements(R_STATEMENTS[name], table)
        elif name in LISTS:
            parts[name] = ",\n".join(f"  {how.value(row)}" for row in table)
        elif name in TEXTS:
            parts[name] = "\n".join(table)
        else:
            parts[name] = how.value(table)

    template = (TEMPLATES / f"scorer.{how.ending}.txt").read_text(encoding="utf-8")
    return re.sub(r"@(\w+)@", lambda found: parts[found[1]], template)


def _r_statements(statement: str, table: list[Any]) -> str:
    """A statement for each row of a table."""
    numbered = enumerate(table, 1)
    return "\n".join(statement.format(i, _r(row)) for i, row in numbered)

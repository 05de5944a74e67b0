"""Standing texts: what tables, pictures and methods mean, whatever was found (words.toml)."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib.resources import files
from typing import Any


@cache
def _all_words() -> dict[str, dict[str, Any]]:
    return tomllib.loads((files("propcal.documents") / "words.toml").read_text(encoding="utf-8"))


def words(part: str, name: str, /, **values: Any) -> str:
    """A text, with these values filled in.

    >>> words("tables", "ratio")
    'O/E: observed over expected events; below 1 the score is too high.'
    """
    text: str = _all_words()[part][name]
    return text.format(**values) if values else text


def all_words(part: str) -> dict[str, Any]:
    """All texts of a part, by name."""
    return _all_words()[part]

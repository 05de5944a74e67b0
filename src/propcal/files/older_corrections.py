"""Converts the content of older correction files to the current version."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from propcal.data.levels import text_key
from propcal.errors import FileFormatError


def as_present(content: dict[str, Any], version: int) -> dict[str, Any]:
    """The content of a file of any version, in the form of the newest version."""
    if version == 1:
        content = _from_version_1(content)
    if version <= 2:
        content = _from_version_2(content)
    if version <= 3:
        content = _from_version_3(content)
    return _from_version_4(content) if version <= 4 else content


def _from_version_1(content: dict[str, Any]) -> dict[str, Any]:
    """Version 1 had no smooth recalibration."""
    if "start" in content:
        raise FileFormatError('version 1 has no "start"')
    return {**content, "start": []}


def _from_version_2(content: dict[str, Any]) -> dict[str, Any]:
    """Up to version 2 the level was the text itself: "TRUE" differed from "true", and "1.0" from "1".

    Malformed content is left as it is; it is refused later.
    """
    patterns = _each(content.get("patterns"), lambda row: _each(row, _level))
    if _some_alike(patterns) and not _some_alike(content.get("patterns")):
        raise FileFormatError(
            "it distinguishes levels that are now the same, such as TRUE and true; fit the correction again"
        )
    changed = {
        "patterns": patterns,
        "groups": _each(content.get("groups"), _group),
        "start": _each(content.get("start"), _term),
    }
    return {**content, **{key: value for key, value in changed.items() if key in content}}


def _from_version_3(content: dict[str, Any]) -> dict[str, Any]:
    """Up to version 3 adjustments could make a higher score a lower one."""
    if "monotone" in content:
        raise FileFormatError('only version 4 and later have "monotone"')
    return {**content, "monotone": False}


def _from_version_4(content: dict[str, Any]) -> dict[str, Any]:
    """Up to version 4 a level that is not listed belonged to no group."""
    if "folded" in content:
        raise FileFormatError('only version 5 has "folded"')
    return {**content, "folded": []}


def _each(value: Any, change: Callable[[Any], Any]) -> Any:
    return [change(part) for part in value] if isinstance(value, list) else value


def _level(value: Any) -> Any:
    return text_key(value) if isinstance(value, str) else value


def _group(group: Any) -> Any:
    """A group as pairs of an attribute and its level."""
    return _each(group, lambda pair: [*pair[:1], *map(_level, pair[1:])] if isinstance(pair, list) else pair)


def _term(term: Any) -> Any:
    """A group and its shifts."""
    return [_group(term[0]), *term[1:]] if isinstance(term, list) and term else term


def _some_alike(rows: Any) -> bool:
    return isinstance(rows, list) and len({repr(row) for row in rows}) < len(rows)

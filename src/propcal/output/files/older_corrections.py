"""Older versions of the correction's file: their content as the present version would say it."""

from __future__ import annotations

from typing import Any

from propcal.errors import FileFormatError


def as_present(content: dict[str, Any], version: int) -> dict[str, Any]:
    """The content of a file of any version that propcal has written, in the form of the newest."""
    return _from_version_1(content) if version == 1 else content


def _from_version_1(content: dict[str, Any]) -> dict[str, Any]:
    """Version 1 had no smooth start."""
    if "start" in content:
        raise FileFormatError('version 1 has no "start"')
    return {**content, "start": []}

"""Libraries that are not always needed: imported when they are first used; and how to
install an extra.
"""

from __future__ import annotations

import json
from importlib import import_module
from typing import Any


class Later:
    """A module that is imported when something of it is first used.

    Scoring arrays needs numpy alone, in the modules that also read frames through
    Arrow.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        value = getattr(import_module(self._name), attribute)
        setattr(self, attribute, value)
        return value


def how_to_install(extra: str) -> str:
    """The command that installs an extra: from PyPI, a checkout, a repository or an
    archive.

    >>> _command("excel", None)
    'pip install "propcal[excel]"'
    >>> _command("excel", {"url": "file:///home/me/propcal", "dir_info": {"editable": True}})
    'pip install -e ".[excel]" in the folder of propcal'
    >>> _command("excel", {"url": "https://example.org/propcal", "vcs_info": {"vcs": "git"}})
    'pip install "propcal[excel] @ git+https://example.org/propcal"'
    """
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        text = distribution("propcal").read_text("direct_url.json")
        origin = json.loads(text) if text else None
    except (PackageNotFoundError, ValueError):
        origin = None
    return _command(extra, origin)


def _command(extra: str, origin: dict[str, Any] | None) -> str:
    if not isinstance(origin, dict) or not isinstance(origin.get("url"), str):
        return f'pip install "propcal[{extra}]"'
    if "dir_info" in origin:
        editable = "-e " if origin["dir_info"].get("editable") else ""
        return f'pip install {editable}".[{extra}]" in the folder of propcal'
    version_control = origin.get("vcs_info", {}).get("vcs")
    prefix = f"{version_control}+" if version_control else ""
    return f'pip install "propcal[{extra}] @ {prefix}{origin["url"]}"'

"""Extras: how to install what an optional feature needs, from where propcal itself was installed."""

from __future__ import annotations

import json
from importlib.metadata import PackageNotFoundError, distribution
from typing import Any


def how_to_install(extra: str) -> str:
    """The command that installs an extra: from PyPI, a checkout, a repository or an archive.

    >>> _command("excel", None)
    'pip install "propcal[excel]"'
    >>> _command("excel", {"url": "file:///home/me/propcal", "dir_info": {"editable": True}})
    'pip install -e ".[excel]" in the folder of propcal'
    >>> _command("excel", {"url": "https://example.org/propcal", "vcs_info": {"vcs": "git"}})
    'pip install "propcal[excel] @ git+https://example.org/propcal"'
    """
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

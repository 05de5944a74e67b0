"""Optional libraries: imported when first used, installed as extras."""

from __future__ import annotations

import json
from contextlib import suppress
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
    >>> checkout = {"url": "file:///me/propcal", "dir_info": {"editable": True}}
    >>> _command("excel", checkout)
    'pip install -e ".[excel]" in the folder of propcal'
    >>> repository = {"url": "https://example.org/propcal", "vcs_info": {"vcs": "git"}}
    >>> _command("excel", repository)
    'pip install "propcal[excel] @ git+https://example.org/propcal"'
    """
    from importlib.metadata import PackageNotFoundError, distribution

    origin = None
    with suppress(PackageNotFoundError, ValueError):
        text = distribution("propcal").read_text("direct_url.json")
        if text:
            origin = json.loads(text)
    return _command(extra, origin)


def _command(extra: str, origin: dict[str, Any] | None) -> str:
    if not isinstance(origin, dict) or not isinstance(origin.get("url"), str):
        return f'pip install "propcal[{extra}]"'
    if "dir_info" in origin:
        editable = origin["dir_info"].get("editable")
        where = f'-e ".[{extra}]"' if editable else f'".[{extra}]"'
        return f"pip install {where} in the folder of propcal"
    url = origin["url"]
    version_control = origin.get("vcs_info", {}).get("vcs")
    if version_control:
        url = f"{version_control}+{url}"
    return f'pip install "propcal[{extra}] @ {url}"'

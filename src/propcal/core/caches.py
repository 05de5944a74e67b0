"""Cached values are left out of copies, pickles and files."""

from __future__ import annotations

from functools import cached_property
from typing import Any


class WithoutCaches:
    """What an object with cached properties inherits; a copy of it computes them when they are asked for."""

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if not _is_cache(type(self), name)}


def _is_cache(cls: type, name: str) -> bool:
    return isinstance(getattr(cls, name, None), cached_property)

"""A base class that leaves cached properties out of copies, pickles and files."""

from __future__ import annotations

from functools import cached_property
from typing import Any


class WithoutCaches:
    """Base class of objects with cached properties; a copy computes them again when needed."""

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if not _is_cache(type(self), name)}


def _is_cache(cls: type, name: str) -> bool:
    return isinstance(getattr(cls, name, None), cached_property)

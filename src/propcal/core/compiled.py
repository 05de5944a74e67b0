"""Compile a function with numba, and cache the result on disk where a folder is writable."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import njit


def compiled(function: Callable[..., Any]) -> Any:
    """Compile a function when it is first called.

    If there is no writable folder for the result, each process compiles it again.
    """
    try:
        # release Python's lock, so that files can be read and written while scores are corrected
        return njit(cache=True, nogil=True)(function)
    except RuntimeError:  # numba found no writable folder, as in some containers
        return njit(nogil=True)(function)

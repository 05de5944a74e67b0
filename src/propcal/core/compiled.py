"""Compiling with numba, kept on disk where there is a place for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import njit


def compiled(function: Callable[..., Any]) -> Any:
    """Compile a function when it is first called; without a folder for the result, in each process anew."""
    try:
        # without Python's lock, so that files are read and written while scores are corrected
        return njit(cache=True, nogil=True)(function)
    except RuntimeError:  # numba finds no folder it may write to, as in some containers
        return njit(nogil=True)(function)

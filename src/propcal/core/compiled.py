"""Compile a function with numba, and cache the result on disk where a folder is writable."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from numba import njit

logger = logging.getLogger("propcal")


def compiled(function: Callable[..., Any]) -> Any:
    """Compile a function when it is first called.

    If there is no writable folder for the result, each process compiles it again.
    """
    try:
        # release Python's lock, so that files can be read and written while scores are corrected
        return njit(cache=True, nogil=True)(function)
    except RuntimeError:  # numba found no writable folder, as in some containers
        return njit(nogil=True)(function)


def say_if_compiling(function: Any) -> None:
    """Tell the user once that the first use of a compiled function on a machine takes longer."""
    folder, source = function.stats.cache_path, Path(function.py_func.__code__.co_filename)
    names = f"{source.stem}.{function.py_func.__name__}-*.nbi"
    written = [file.stat().st_mtime for file in Path(folder).glob(names)] if folder else []
    if not written or max(written) < source.stat().st_mtime:
        _say()


@cache
def _say() -> None:
    logger.warning(
        "propcal is compiling its code; this happens once on each machine and takes about 10 seconds"
    )

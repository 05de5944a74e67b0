"""Compile functions with numba, cached on disk where a folder is writable; and compiled binary search."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from numba import njit

from propcal.core.grid import UNIT

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


@compiled
def first_not_below(sorted_values: Any, low: int, high: int, value: int) -> int:
    """The position in sorted_values[low:high] of the first entry >= value."""
    while low < high:
        middle = (low + high) >> 1
        if sorted_values[middle] < value:
            low = middle + 1
        else:
            high = middle
    return low


@compiled
def bin_of(value: int, edges: Any) -> int:
    """The bin of one score; the same as `Bins.index`."""
    j: int = first_not_below(edges, 1, len(edges) - 1, value + 1) - 1
    return j


@compiled
def bin_end(j: int, edges: Any) -> int:
    """The first value above a bin; the last bin includes its upper edge."""
    return edges[j + 1] if j < len(edges) - 2 else UNIT + 1

"""Functions that numba compiles when first called, or Python runs if work is small.

Loading and scoring a correction needs numpy alone: importing numba takes longer than
most corrections take, and compiling takes seconds on a machine where nothing is cached.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import cache, cached_property, update_wrapper
from pathlib import Path
from types import FunctionType
from typing import Any

from propcal.core.grid import UNIT

logger = logging.getLogger("propcal")


class compiled:  # noqa: N801  # a decorator
    """A function that is compiled when it is first called; `in_python` runs the same
    code without compiling.

    Functions that it calls are compiled, or run, along with it.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function: Any = function
        update_wrapper(self, function)

    def __call__(self, *arguments: Any) -> Any:
        """Call the compiled function."""
        return self.machine_code(*arguments)

    @cached_property
    def machine_code(self) -> Any:
        """The compiled function; without a writable folder for it, each process
        compiles it again.
        """
        from numba import njit

        function = self._with(lambda called: called.machine_code)
        try:
            # release Python's lock, so that files can be read and written while scores
            # are corrected
            return njit(cache=True, nogil=True)(function)
        except RuntimeError:  # numba found no writable folder, as in some containers
            return njit(nogil=True)(function)

    @cached_property
    def in_python(self) -> Any:
        """The function as Python runs it."""
        return self._with(lambda called: called.in_python)

    def _with(self, form: Callable[[compiled], Any]) -> Any:
        """The function with one form of the functions that it calls."""
        function = self._function
        names = dict(function.__globals__)
        for name in function.__code__.co_names:
            called = names.get(name)
            if isinstance(called, compiled):
                names[name] = form(called)
        copy = FunctionType(
            function.__code__, names, function.__name__, function.__defaults__
        )
        return update_wrapper(copy, function)


def say_if_compiling(function: compiled) -> None:
    """Tell the user once that the first use of a compiled function takes longer; it is
    called just before.
    """
    code = function.machine_code
    folder = code.stats.cache_path
    source = Path(code.py_func.__code__.co_filename)
    names = f"{source.stem}.{code.py_func.__name__}-*.nbi"
    written: list[float] = []
    if folder:
        written = [file.stat().st_mtime for file in Path(folder).glob(names)]
    if max(written, default=0.0) < source.stat().st_mtime:
        _say()


@cache
def _say() -> None:
    logger.warning(
        "propcal is compiling its code for a first use, which takes about 10 seconds; "
        "later uses are faster"
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
    """The bin of one score, as in `Bins.index`."""
    following: int = first_not_below(edges, 1, len(edges) - 1, value + 1)
    return following - 1


@compiled
def bin_end(j: int, edges: Any) -> int:
    """The first value above a bin; the last bin includes its upper edge."""
    return edges[j + 1] if j < len(edges) - 2 else UNIT + 1

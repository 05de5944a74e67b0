"""Compiled binary search: the bin of a single score, and where a bin ends."""

from __future__ import annotations

from typing import Any

from propcal.core.compiled import compiled
from propcal.core.grid import UNIT


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

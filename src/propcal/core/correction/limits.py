"""Limits: how much memory and time the maps of a correction may take, told before either is spent.

A correction comes in a file, and a file can be written to do harm. What fitting makes stays far below.
"""

from __future__ import annotations

import numpy as np

from propcal.core.grid import UNIT, BoolArray, IntArray
from propcal.errors import InputError

MOST_PIECES = 1 << 22  # of all maps together; 100 MB
MOST_STEPS = 1 << 26  # of composing all maps; about a minute
MOST_SMOOTH_VALUES = 1 << 26  # of the smooth start, at all knots of all patterns; 500 MB
UPDATES_PER_STEP = 64  # looked at in the time of a step
AT_ONCE = 1 << 20  # steps that loading a file may spend on finding out; about a second
MOST_TRACED = 1 << 34  # updates times people of an explanation; about half a minute
MOST_TRACED_STEPS = 1 << 24  # steps of an explanation; 500 MB
NOISE = "Such a correction follows noise: fit it again with a larger alpha"


def steps_by_pattern(inside: BoolArray, updates: IntArray, edges: IntArray) -> IntArray:
    """What composing the map of each pattern (a column of `inside`) costs.

    A step is one bin that one update leads to; a map begins with its bins, and to look for the updates that
    concern a pattern costs something too.
    """
    begin, end = (np.clip(edges[updates[:, 1] + i] + updates[:, 2], 0, UNIT) for i in (0, 1))
    inner = edges[1:-1]
    reached = np.searchsorted(inner, end) - np.searchsorted(inner, begin, side="right")
    by_group = np.bincount(updates[:, 0], 1 + np.maximum(reached, 0), minlength=len(inside)).astype(np.int64)
    steps = np.full(inside.shape[1], len(inner) + 1 + len(updates) // UPDATES_PER_STEP, dtype=np.int64)
    for g in np.flatnonzero(by_group):  # no product: it would take eight times the memory of `inside`
        steps += by_group[g] * inside[g]
    return steps


def refuse_work(n_updates: int, n_patterns: int, steps: int) -> None:
    """Refuse to compose maps that would take more than a minute or so."""
    if steps > MOST_STEPS:
        raise InputError(
            f"the {n_updates:,} updates of this correction would take {steps:,} steps for {n_patterns:,} "
            f"patterns; at most {MOST_STEPS:,} are taken",
            next_step=NOISE,
        )


def refuse_values(n_terms: int, n_patterns: int, n_knots: int) -> None:
    """Refuse the values of a smooth start that would take too much memory or time."""
    if n_patterns * n_knots > MOST_SMOOTH_VALUES or n_patterns * n_terms > MOST_STEPS:
        raise InputError(
            f"the smooth start has {n_terms:,} terms for {n_patterns:,} patterns, which are too many",
            next_step="Fit it again with fewer groups",
        )


def refuse_pieces(n_updates: int) -> None:
    """Refuse maps of more pieces than there may be."""
    raise InputError(
        f"the {n_updates:,} updates of this correction make more than {MOST_PIECES:,} pieces", next_step=NOISE
    )

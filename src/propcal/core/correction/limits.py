"""Limits on the memory and time that a correction may take, checked before either is used.

A correction can come from a file, and a file can be malicious. Fitted corrections stay far below the limits.
They apply to all patterns seen in fitting together, and to each other pattern by itself, so that the rows
scored together with a person do not matter.
"""

from __future__ import annotations

import numpy as np

from propcal.core.grid import UNIT, BoolArray, IntArray
from propcal.errors import InputError
from propcal.numbers import plural

MOST_PIECES = 1 << 22  # pieces of all maps together; 100 MB
MOST_STEPS = 1 << 26  # steps for composing all maps; about a minute
MOST_SMOOTH_VALUES = 1 << 26  # values of the smooth recalibration, at all knots of all patterns; 500 MB
MOST_AT_ONCE = 1 << 12  # unseen patterns whose maps are composed together
UPDATES_PER_STEP = 64  # updates that can be checked in the time of one step
AT_ONCE = 1 << 20  # steps that loading a file may spend on checks; about a second
MOST_TRACED = 1 << 34  # updates times people in an explanation; about half a minute
MOST_TRACED_STEPS = 1 << 24  # steps of an explanation; 500 MB
NOISE = "Such a correction follows noise; fit it again with a larger alpha"


class TooLargeError(InputError):
    """A correction has too many updates to be composed into maps."""


def steps_by_pattern(inside: BoolArray, updates: IntArray, edges: IntArray) -> IntArray:
    """The number of steps for composing the map of each pattern (a column of `inside`).

    A step is one bin reached by one update. The bins themselves and the search for the updates that apply
    to a pattern also count.
    """
    begin, end = (np.clip(edges[updates[:, 1] + i] + updates[:, 2], 0, UNIT) for i in (0, 1))
    inner = edges[1:-1]
    reached = np.searchsorted(inner, end) - np.searchsorted(inner, begin, side="right")
    by_group = np.bincount(updates[:, 0], 1 + np.maximum(reached, 0), minlength=len(inside)).astype(np.int64)
    steps = np.full(inside.shape[1], len(inner) + 1 + len(updates) // UPDATES_PER_STEP, dtype=np.int64)
    for g in np.flatnonzero(by_group):  # a matrix product would take eight times the memory of `inside`
        steps += by_group[g] * inside[g]
    return steps


def refuse_work(n_updates: int, n_patterns: int, steps: int) -> None:
    """Refuse to compose maps that would take more than about a minute."""
    if steps > MOST_STEPS:
        raise TooLargeError(
            f"this correction is too large: its {plural(n_updates, 'adjustment')} would take {steps:,} steps "
            f"for {plural(n_patterns, 'pattern')}, and at most {MOST_STEPS:,} are allowed",
            next_step=NOISE,
        )


def refuse_values(n_terms: int, n_patterns: int, n_knots: int) -> None:
    """Refuse a smooth recalibration that would take too much memory or time."""
    if n_patterns * n_knots > MOST_SMOOTH_VALUES or n_patterns * n_terms > MOST_STEPS:
        raise InputError(
            f"this correction is too large: its recalibration has {n_terms:,} terms for {n_patterns:,} "
            "patterns",
            next_step="Fit it again with fewer groups",
        )


def refuse_pieces(n_updates: int, n_patterns: int) -> None:
    """Refuse maps with too many pieces."""
    raise TooLargeError(
        f"this correction is too large: its {plural(n_updates, 'adjustment')} would give more than "
        f"{MOST_PIECES:,} pieces for {plural(n_patterns, 'pattern')}",
        next_step=NOISE,
    )

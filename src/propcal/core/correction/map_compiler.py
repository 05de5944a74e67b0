"""Compiles a correction to the maps of patterns, within limits on work.

Memory and time are limited, because a correction can come from a file, and a file can
be malicious. Fitted corrections stay far below the limits. They apply to all patterns
seen in fitting together, and to each other pattern by itself, so that the rows scored
together with a person do not matter.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from propcal.core.correction.maps import PatternMaps
from propcal.core.correction.update_pieces import (
    NO_CHANGE,
    move_segments,
    non_decreasing,
    pieces_of_segments,
)
from propcal.core.grid import BoolArray, IntArray
from propcal.errors import InputError, PropcalError, refused
from propcal.numbers import plural

# A step is one segment that one update moves, or a part into which it is cut.
MAX_PYTHON_STEPS = 1 << 17  # take Python about as long as importing numba: 0.3 s
MAX_STEPS = 1 << 30  # of all maps; about half a minute
MAX_PIECES = 1 << 22  # of all maps together; 100 MB


class TooLargeError(InputError):
    """A correction has too many updates to be compiled to maps."""


class MapCompiler:
    """Compiles the updates of a correction to the maps of some patterns.

    Parameters
    ----------
    inside : array of bool, shape (n_groups, n_patterns)
        Which groups contain which patterns.
    updates : array of int64, shape (n_updates, 3)
        Group, bin and shift.
    edges : array of int64
        Of the bins.
    smooth : array of int64, optional
        Each pattern's recalibrated scores at the knots.
    monotone : bool
        Whether each map is made non-decreasing.
    """

    def __init__(
        self,
        inside: BoolArray,
        updates: IntArray,
        edges: IntArray,
        smooth: IntArray | None = None,
        *,
        monotone: bool = False,
    ) -> None:
        self._inside = inside
        self._updates = updates
        self._edges = edges
        self._smooth = smooth
        self._monotone = monotone
        self._python_steps_left = MAX_PYTHON_STEPS

        by_group = np.argsort(updates[:, 0], kind="stable")
        groups, starts = np.unique(updates[by_group, 0], return_index=True)
        self._changed_groups = groups
        self._updates_of_group = np.split(by_group, starts[1:])

    def maps(self) -> PatternMaps:
        """The maps of all patterns; the limits apply to them together."""
        maps = self.maps_within(MAX_STEPS)
        if maps is None:
            raise self._too_many_steps(MAX_STEPS + 1, self._n_patterns)
        return maps

    def maps_within(self, max_steps: int) -> PatternMaps | None:
        """The maps of all patterns; None if they take more steps than this."""
        fewest_steps = self._n_updates_of_patterns()
        if fewest_steps > MAX_STEPS:
            raise self._too_many_steps(fewest_steps, self._n_patterns)

        tables = []
        steps_left = max_steps
        pieces_left = MAX_PIECES
        for pattern in range(self._n_patterns):
            pieces, n_steps = self._pieces_of(pattern, steps_left)
            steps_left -= n_steps
            pieces_left -= len(pieces)
            if steps_left < 0:
                return None
            if pieces_left < 0:
                raise self._too_many_pieces(self._n_patterns)
            tables.append(pieces)
        return self._maps_of(tables, 0)

    def in_parts(self) -> Iterator[PatternMaps]:
        """Consecutive parts of the maps; the limits apply to each pattern by itself."""
        first = 0
        tables: list[IntArray] = []
        n_pieces = 0
        for pattern in range(self._n_patterns):
            pieces, n_steps = self._pieces_of(pattern, MAX_STEPS)
            if n_steps > MAX_STEPS:
                raise self._too_many_steps(n_steps, 1)
            if n_pieces + len(pieces) > MAX_PIECES:
                yield self._maps_of(tables, first)
                first = pattern
                tables = []
                n_pieces = 0
            tables.append(pieces)
            n_pieces += len(pieces)
        if tables:
            yield self._maps_of(tables, first)

    @property
    def _n_patterns(self) -> int:
        return int(self._inside.shape[1])

    def _n_updates_of_patterns(self) -> int:
        """The number of pairs of an update and a pattern that it applies to."""
        patterns_of_group = np.count_nonzero(self._inside, axis=1)
        return int(patterns_of_group[self._updates[:, 0]].sum())

    def _pieces_of(self, pattern: int, max_steps: int) -> tuple[IntArray, int]:
        """The pieces of one pattern, and the steps that they took.

        The pieces are incomplete if these are more than `max_steps`.
        """
        own_groups = np.flatnonzero(self._inside[self._changed_groups, pattern])
        if not len(own_groups):
            return NO_CHANGE, 1

        own_updates = np.concatenate([self._updates_of_group[g] for g in own_groups])
        own_updates.sort()
        moves = np.ascontiguousarray(self._updates[own_updates, 1:])
        segments, n_steps = self._segments_after(moves, max_steps)
        if len(segments) > MAX_PIECES:
            raise self._too_many_pieces(1)
        return pieces_of_segments(segments), n_steps

    def _segments_after(self, moves: IntArray, max_steps: int) -> tuple[IntArray, int]:
        """The segments after all moves, and the steps that these took.

        Python takes the first steps of a correction, which few corrections exceed.
        """
        max_python_steps = min(self._python_steps_left, max_steps)
        if max_python_steps > 0:
            segments, n_steps = move_segments.in_python(
                moves, self._edges, MAX_PIECES, max_python_steps
            )
            self._python_steps_left -= n_steps
            if n_steps <= max_python_steps:
                return segments, n_steps
        segments, n_steps = move_segments(moves, self._edges, MAX_PIECES, max_steps)
        return segments, int(n_steps)

    def _maps_of(self, tables: list[IntArray], first: int) -> PatternMaps:
        """The maps of patterns from the first on, given the pieces of each."""
        if self._monotone:
            tables = [non_decreasing(pieces) for pieces in tables]
        if self._smooth is None:
            return PatternMaps.of_tables(tables, None)
        return PatternMaps.of_tables(tables, self._smooth[first : first + len(tables)])

    def _too_many_steps(self, n_steps: int, n_patterns: int) -> PropcalError:
        return self._too_large("many steps", n_patterns, steps=n_steps, most=MAX_STEPS)

    def _too_many_pieces(self, n_patterns: int) -> PropcalError:
        return self._too_large("many pieces", n_patterns, most=MAX_PIECES)

    def _too_large(self, key: str, n_patterns: int, **limits: int) -> PropcalError:
        counts = {
            "updates": plural(len(self._updates), "adjustment"),
            "patterns": plural(n_patterns, "pattern"),
        }
        return refused(key, TooLargeError, **counts, **limits)

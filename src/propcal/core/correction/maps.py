"""The correction map: the corrected score of every raw score, in tables of integers.

A raw score goes through the smooth recalibration (linear between knots), then through
the points of the person's features, and then through the straight pieces to which the
updates were compiled (`update_pieces`). Everything that scores people reads these
tables: `PatternMaps.apply` for batches, `scoring.one_person`, and the SQL and one-file
scorers of `export`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from propcal.core.correction.points_table import multiply
from propcal.core.correction.smooth_map import (
    SCORES_AT_ONCE,
    knots,
    smooth_values,
)
from propcal.core.grid import UNIT, FloatArray, IntArray, from_grid

SPAN = 2 * UNIT  # more than any score
SAME_LINE = 1e-12  # slopes or intercepts this close belong to one line


@dataclass(frozen=True, eq=False)
class PatternMaps:
    """The maps of several patterns: pieces ``starts[p]:starts[p + 1]`` belong to
    pattern p.

    From score ``begin`` up to the beginning of the next piece, a piece gives ``slope *
    score + offset`` (slope 0 or 1), in units of the grid. `smooth` has each pattern's
    recalibrated scores at the knots, to which the pieces then apply; it has no columns
    if there is no recalibration.
    """

    starts: IntArray
    begin: IntArray
    slope: IntArray
    offset: IntArray
    smooth: IntArray

    def __len__(self) -> int:
        return len(self.starts) - 1

    @classmethod
    def of_tables(
        cls, tables: Sequence[IntArray], smooth: IntArray | None
    ) -> PatternMaps:
        """The maps whose pieces are these, rows of begin, slope and offset."""
        starts = np.cumsum([0, *map(len, tables)])
        begin, slope, offset = np.concatenate(tables).T.copy()
        if smooth is None:
            smooth = np.empty((len(tables), 0), dtype=np.int64)
        return cls(starts, begin, slope, offset, smooth)

    def table(self, pattern: int) -> IntArray:
        """The pieces of one pattern's updates: rows of begin, slope and offset."""
        own = slice(self.starts[pattern], self.starts[pattern + 1])
        return np.stack([self.begin[own], self.slope[own], self.offset[own]])

    def apply(
        self, score: Any, code: Any, odds: FloatArray | None = None
    ) -> FloatArray:
        """Correct each score by the map of its pattern; a negative code leaves the
        score unchanged.

        So does a score whose place on the grid does not change: it is returned to the
        last bit. Between recalibration and pieces, `odds` multiply the odds of each
        score, if there are points; then every score is rounded to the grid.
        """
        corrected = np.array(score, dtype=np.float64)
        code = np.asarray(code)
        for begin in range(0, len(corrected), SCORES_AT_ONCE):
            some = slice(begin, begin + SCORES_AT_ONCE)
            some_odds = None if odds is None else odds[some]
            self._correct(corrected[some], code[some].astype(np.int64), some_odds)
        return corrected

    def _correct(
        self, score: FloatArray, pattern: IntArray, odds: FloatArray | None
    ) -> None:
        """Correct a few scores in place."""
        raw = np.floor(score * UNIT + 0.5).astype(np.int64)
        value = raw
        if self.smooth.shape[1]:
            value = smooth_values(value, pattern, self.smooth)
        if odds is not None:
            value = multiply(value, odds)
        piece = self._piece_of(pattern, value)
        value = self.slope[piece] * value + self.offset[piece]

        changed = pattern >= 0
        if odds is None:
            changed &= value != raw
        score[changed] = value[changed] / UNIT

    def _piece_of(self, pattern: IntArray, value: IntArray) -> IntArray:
        """The piece of each pattern that a value is in."""
        if len(self.begin) == len(self):
            return pattern
        place = pattern * SPAN + value
        return np.searchsorted(self._begin_by_pattern, place, side="right") - 1

    @cached_property
    def _begin_by_pattern(self) -> IntArray:
        """The beginnings of all pieces as one ascending list: those of a pattern follow
        the one before.
        """
        return self._pattern_of_piece * SPAN + self.begin

    @property
    def _pattern_of_piece(self) -> IntArray:
        return np.repeat(np.arange(len(self)), np.diff(self.starts))

    def pieces(self) -> tuple[IntArray, IntArray, FloatArray, FloatArray]:
        """The pieces of recalibration and updates together, as arrays.

        For each piece: its pattern, its first raw score (in units), slope and
        intercept. Slope and intercept are those of the lines, before rounding to units.
        """
        if not self.smooth.shape[1]:
            slope = self.slope.astype(np.float64)
            return self._pattern_of_piece, self.begin, slope, from_grid(self.offset)

        of_patterns = [self._pieces_with_curve(p) for p in range(len(self))]
        n_pieces = [len(begin) for begin, _, _ in of_patterns]
        owner = np.repeat(np.arange(len(self)), n_pieces)
        begin, slope, intercept = map(np.concatenate, zip(*of_patterns))
        return owner, begin, slope, intercept

    def _pieces_with_curve(
        self, pattern: int
    ) -> tuple[IntArray, FloatArray, FloatArray]:
        """The pieces of one pattern's recalibration and updates together."""
        at = knots()
        values = self.smooth[pattern]
        begin, knot, piece = self.lines(pattern)
        rise = (np.diff(values) / np.diff(at))[knot]
        curve_at_0 = values[knot] - rise * at[knot]
        slope = self.slope[piece] * rise
        intercept = (self.slope[piece] * curve_at_0 + self.offset[piece]) / UNIT

        other_slope = np.abs(np.diff(slope)) > SAME_LINE
        other_intercept = np.abs(np.diff(intercept)) > SAME_LINE
        is_new = np.append(True, other_slope | other_intercept)
        return begin[is_new], slope[is_new], intercept[is_new]

    def lines(self, pattern: int) -> tuple[IntArray, IntArray, IntArray]:
        """One pattern's recalibration, cut at the knots and where it enters another
        piece of the updates.

        For each line: the raw score at which it begins, the knot before it, and the
        index of its piece.
        """
        at = knots()
        first = self.starts[pattern]
        piece_begins = self.begin[first : self.starts[pattern + 1]]
        enters = start_reaches(piece_begins, at, self.smooth[pattern])
        begin = np.union1d(at[:-1], enters)

        # a score of 1 belongs to the last line
        knot = np.minimum(np.searchsorted(at, begin, side="right") - 1, len(at) - 2)
        value = smooth_values(begin, pattern, self.smooth)
        piece = np.searchsorted(piece_begins, value, side="right") - 1
        return begin, knot, first + piece


def start_reaches(targets: IntArray, at: IntArray, values: IntArray) -> IntArray:
    """The first raw score that the recalibration takes to each target or above it;
    exact.
    """
    k = np.searchsorted(values[1:-1], targets) + 1
    width = at[k] - at[k - 1]
    rise = values[k] - values[k - 1]
    missing = targets - values[k - 1]
    steps = -((width - 2 * width * missing) // (2 * np.maximum(rise, 1)))  # rounded up
    return np.asarray(np.clip(at[k - 1] + np.maximum(steps, 0), 0, UNIT))

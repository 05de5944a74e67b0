"""Applies the smooth recalibration exactly: shifts in log-odds, added up over a
person's groups.

Every term (everybody, or a group) has a shift in log-odds at each of a fixed set of
knots. The shifts of a pattern's terms are added, and a table of the logistic curve
turns them into corrected scores at the knots; between knots the map is linear. The
first and the last knot are scores of exactly 0 and 1, which stay unchanged unless a
term shifts them. Everything is computed in integers, so that the map is the same on
every machine, for patterns seen in fitting and for others.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from propcal.core.grid import (
    TABLE_PER_UNIT,
    TABLE_REACH,
    UNIT,
    BoolArray,
    FloatArray,
    IntArray,
    logistic_table,
)
from propcal.core.groups import Group, membership
from propcal.core.patterns import Patterns
from propcal.errors import refused

SHIFT_UNIT = 1 << 20  # shifts are integers in units of 2**-20 in log-odds
# 8 knots per unit of log-odds, from -12 (a risk of 6 in a million) to 12
KNOTS_PER_UNIT = 8
REACH = 12
TABLE_STEP = SHIFT_UNIT // TABLE_PER_UNIT
N_INNER = 2 * KNOTS_PER_UNIT * REACH + 1
N_KNOTS = (
    N_INNER + 2
)  # with scores of exactly 0 and 1, which count as log-odds one step further out
# the largest shift, of a term and of a pattern: a larger one is needed only where
# scores of 0 and 1 move
MOST_SHIFT = (TABLE_REACH - REACH) * SHIFT_UNIT
MOST_WITH_ENDS = TABLE_REACH * SHIFT_UNIT
MOST_VALUES = (
    1 << 26
)  # values at all knots of all patterns, 500 MB; also terms times patterns
PATTERNS_AT_ONCE = 4096
AT_ONCE = (
    1 << 14
)  # scores looked up together, so that all of their columns are in the processor's cache
NAME = "smooth start"


@cache
def knots() -> IntArray:
    """The raw scores at which the map is tabulated: 0, the knots, and 1."""
    every = TABLE_PER_UNIT // KNOTS_PER_UNIT
    middle = TABLE_PER_UNIT * TABLE_REACH
    half = TABLE_PER_UNIT * REACH
    inner = logistic_table()[middle - half : middle + half + 1 : every]
    return np.concatenate([[0], inner, [UNIT]]).astype(np.int64)


def knot_log_odds() -> FloatArray:
    """The log-odds of the knots; scores of 0 and 1 count as one step further out."""
    return (np.arange(N_KNOTS) - N_KNOTS // 2) / KNOTS_PER_UNIT


@dataclass(frozen=True, eq=False)
class SmoothStart:
    """A smooth recalibration, applied before the updates.

    Attributes
    ----------
    groups : tuple of Group
        The terms; a group without conditions is everybody.
    shifts : array of int64, shape (n_groups, 195)
        The shift in log-odds of each term, in units of 2**-20, at a raw score of 0, at
        raw scores with log-odds of -12, -11.875, ..., 12, and at a raw score of 1.
    """

    groups: tuple[Group, ...]
    shifts: IntArray

    @classmethod
    def of_shifts(
        cls, groups: tuple[Group, ...], shifts: FloatArray, *, with_ends: bool
    ) -> SmoothStart:
        """Terms with these shifts in log-odds at the knots; those without any shift are
        left out.
        """
        most = MOST_WITH_ENDS if with_ends else MOST_SHIFT
        units = np.clip(np.rint(shifts * SHIFT_UNIT), -most, most).astype(np.int64)
        moved = np.flatnonzero(units.any(axis=1))
        return cls(tuple(groups[t] for t in moved), units[moved])

    def values(self, patterns: Patterns) -> IntArray:
        """Corrected scores of each pattern at the knots, in units of the grid; they
        never decrease.

        Where shifts add up to 0, 0 stays 0 and 1 stays 1. The scores of a pattern to
        which no term applies do not change.
        """
        self.refuse_overgrown(len(patterns))
        return self.values_inside(membership(self.groups, patterns))

    def refuse_overgrown(self, n_patterns: int) -> None:
        """Refuse this many patterns if their values would take too much memory or
        time.
        """
        n_terms = len(self.groups)
        if n_patterns * N_KNOTS > MOST_VALUES or n_patterns * n_terms > MOST_VALUES:
            raise refused("many terms", terms=n_terms, patterns=n_patterns)

    def values_inside(self, inside: BoolArray) -> IntArray:
        """Like `values`, given which terms (rows) apply to which patterns (columns)."""
        return np.maximum.accumulate(self.values_before_order(inside), axis=1)

    def values_before_order(self, inside: BoolArray) -> IntArray:
        """Like `values_inside`, before values are kept from falling."""
        n = inside.shape[1]
        values = np.empty((n, N_KNOTS), dtype=np.int64)
        for begin in range(
            0, n, PATTERNS_AT_ONCE
        ):  # intermediate arrays are several times as large
            some = slice(begin, begin + PATTERNS_AT_ONCE)
            values[some] = self._unordered(
                inside[:, some].astype(np.int64).T @ self.shifts
            )
        return values

    def moved(self, change: IntArray) -> SmoothStart:
        """The same terms with this added to their shifts."""
        return SmoothStart(
            self.groups, np.clip(self.shifts + change, -self.most, self.most)
        )

    @property
    def moves_ends(self) -> bool:
        """Whether scores of exactly 0 or 1 are shifted for anybody."""
        return bool(self.shifts[:, [0, -1]].any())

    @property
    def most(self) -> int:
        """The largest shift of a term and of a pattern."""
        return MOST_WITH_ENDS if self.moves_ends else MOST_SHIFT

    def _unordered(self, shift: IntArray) -> IntArray:
        """Scores at the knots for sums of shifts, before they are kept from falling."""
        shift = np.clip(shift, -self.most, self.most)
        place = (np.arange(N_KNOTS) - N_KNOTS // 2) * (
            SHIFT_UNIT // KNOTS_PER_UNIT
        ) + shift
        place = np.clip(place, -TABLE_REACH * SHIFT_UNIT, TABLE_REACH * SHIFT_UNIT)
        cell, part = np.divmod(place + TABLE_REACH * SHIFT_UNIT, TABLE_STEP)
        table = logistic_table()
        low = table[cell]
        high = table[np.minimum(cell + 1, len(table) - 1)]
        found = low + ((high - low) * part + TABLE_STEP // 2) // TABLE_STEP
        ends = np.array([0, -1])
        found[:, ends] = np.where(shift[:, ends] == 0, knots()[ends], found[:, ends])
        return np.asarray(found)

    def parts(self, score: IntArray, code: Any, patterns: Patterns) -> IntArray:
        """By how many units each term moves each score, of shape (n_people, n_terms +
        1).

        Terms add up in log-odds. In probability, a term's part is its shift times the
        mean slope of the logistic curve on the way from the score to where all terms
        together lead. So terms with the same shift have the same part, in whatever
        order they are listed; terms that cancel each other have opposite parts; and the
        parts of a person add up to what `apply` does, exactly, because the last
        fractions of a unit go to the parts with the largest remainders. The last column
        is what keeps higher scores from falling below lower ones, which no term can
        answer for; it is nearly always 0.
        """
        inside = membership(self.groups, patterns)
        total = inside.astype(np.int64).T @ self.shifts
        free = self._unordered(total)
        slope = self._mean_slope(total, free)
        at = knots()
        k = np.clip(np.searchsorted(at, score), 1, len(at) - 1)
        near = (score - at[k - 1]) / (at[k] - at[k - 1])
        before = (1 - near) * slope[code, k - 1] * self.shifts[:, k - 1]
        exact = before + near * slope[code, k] * self.shifts[:, k]
        unordered = self.apply_to_rows(score, code, free)
        found = whole_parts(
            (exact * inside[:, code]).T, inside[:, code].T, unordered - score
        )
        ordered = self.apply_to_rows(score, code, np.maximum.accumulate(free, axis=1))
        return np.column_stack([found, ordered - unordered])

    @staticmethod
    def _mean_slope(total: IntArray, free: IntArray) -> FloatArray:
        """Units of score for each unit of shift, on average over the way that the sums
        of shifts lead.
        """
        table = logistic_table()
        at = knots()
        here = np.searchsorted(
            table, at[1:-1]
        )  # knots are among the places of the table
        after, before = (
            np.pad(step, 1) / TABLE_STEP
            for step in (table[here + 1] - at[1:-1], at[1:-1] - table[here - 1])
        )
        short = np.where(
            total < 0, before, after
        )  # within one step of the table it is straight
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(np.abs(total) < TABLE_STEP, short, (free - at) / total)

    def apply(self, score: IntArray, code: Any, patterns: Patterns) -> IntArray:
        """Recalibrated scores (in units) of people whose pattern is row `code` of
        `patterns`.
        """
        return self.apply_to_rows(score, code, self.values(patterns))

    @staticmethod
    def apply_to_rows(score: IntArray, row: Any, values: IntArray) -> IntArray:
        """Recalibrated scores (in units), given for each person a row of values at the
        knots.
        """
        corrected = np.empty(len(score), dtype=np.int64)
        for begin in range(0, len(score), AT_ONCE):
            some = slice(begin, begin + AT_ONCE)
            corrected[some] = smooth_values(
                score[some], np.asarray(row)[some].astype(np.int64), values
            )
        return corrected


def whole_parts(parts: FloatArray, inside: BoolArray, total: IntArray) -> IntArray:
    """Parts (a row for each person) as whole numbers with the given totals, by the
    largest remainders.
    """
    if not parts.shape[1]:
        return parts.astype(np.int64)
    whole = np.floor(parts).astype(np.int64)
    left = total - whole.sum(axis=1)
    remainder = np.where(inside, parts - whole, -1.0)
    rank = np.argsort(np.argsort(-remainder, axis=1, kind="stable"), axis=1)
    whole += inside & (rank < left[:, None])
    # rounding in floating point may leave a unit or two
    largest = np.argmax(np.abs(parts), axis=1)
    whole[np.arange(len(parts)), largest] += total - whole.sum(axis=1)
    return whole


def smooth_values(raw: IntArray, row: Any, values: IntArray) -> IntArray:
    """Recalibrated scores, each by its row of `values` at the knots; between two knots
    halves round up.
    """
    at = knots()
    k = np.searchsorted(at[1:-1], raw) + 1
    begin = at[k - 1]
    flat = values.ravel()
    place = row * values.shape[1] + k
    width = at[k] - begin
    low = flat[place - 1]
    return np.asarray(
        low + (2 * (flat[place] - low) * (raw - begin) + width) // (2 * width)
    )

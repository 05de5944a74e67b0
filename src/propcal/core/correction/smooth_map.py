"""The smooth recalibration: shifts in log-odds, added up over a person's groups.

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
SHIFT_PER_KNOT = SHIFT_UNIT // KNOTS_PER_UNIT
N_INNER = 2 * KNOTS_PER_UNIT * REACH + 1
# with scores of exactly 0 and 1, which count as log-odds one step further out
N_KNOTS = N_INNER + 2
ENDS = [0, -1]  # the knots of these scores
SHIFT_PER_TABLE_STEP = SHIFT_UNIT // TABLE_PER_UNIT
TABLE_END = TABLE_REACH * SHIFT_UNIT
# the largest shift, of a term and of a pattern: a larger one is needed only where
# scores of 0 and 1 move
MOST_SHIFT = (TABLE_REACH - REACH) * SHIFT_UNIT
MOST_WITH_ENDS = TABLE_END
MAX_VALUES = 1 << 26  # at all knots of all patterns, 500 MB; also terms times patterns
PATTERNS_AT_ONCE = 4096
# scores looked up together, so that all of their columns are in the processor's cache
SCORES_AT_ONCE = 1 << 14
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
        if n_patterns * max(N_KNOTS, n_terms) > MAX_VALUES:
            raise refused("many terms", terms=n_terms, patterns=n_patterns)

    def values_inside(self, inside: BoolArray) -> IntArray:
        """Like `values`, given which terms (rows) apply to which patterns (columns)."""
        return np.maximum.accumulate(self.values_before_order(inside), axis=1)

    def values_before_order(self, inside: BoolArray) -> IntArray:
        """Like `values_inside`, before values are kept from falling."""
        n_patterns = inside.shape[1]
        values = np.empty((n_patterns, N_KNOTS), dtype=np.int64)
        # intermediate arrays are several times as large
        for begin in range(0, n_patterns, PATTERNS_AT_ONCE):
            some = slice(begin, begin + PATTERNS_AT_ONCE)
            total_shift = inside[:, some].astype(np.int64).T @ self.shifts
            values[some] = self._unordered(total_shift)
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
        knot_place = (np.arange(N_KNOTS) - N_KNOTS // 2) * SHIFT_PER_KNOT
        place = np.clip(knot_place + shift, -TABLE_END, TABLE_END)

        # linear between the entries of the table, halves upwards
        table = logistic_table()
        entry, part = np.divmod(place + TABLE_END, SHIFT_PER_TABLE_STEP)
        low = table[entry]
        rise = table[np.minimum(entry + 1, len(table) - 1)] - low
        half = SHIFT_PER_TABLE_STEP // 2
        values = low + (rise * part + half) // SHIFT_PER_TABLE_STEP

        stays = shift[:, ENDS] == 0
        values[:, ENDS] = np.where(stays, knots()[ENDS], values[:, ENDS])
        return np.asarray(values)

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
        total_shift = inside.astype(np.int64).T @ self.shifts
        free = self._unordered(total_shift)
        unordered = self.apply_to_rows(score, code, free)
        ordered = self.apply_to_rows(score, code, np.maximum.accumulate(free, axis=1))

        # a term's part at each of the two knots around a score, by their nearness
        slope = self._mean_slope(total_shift, free)
        at = knots()
        k = np.clip(np.searchsorted(at, score), 1, len(at) - 1)
        nearness = (score - at[k - 1]) / (at[k] - at[k - 1])
        part_before = (1 - nearness) * slope[code, k - 1] * self.shifts[:, k - 1]
        exact = part_before + nearness * slope[code, k] * self.shifts[:, k]

        applies = inside[:, code]
        of_terms = whole_parts((exact * applies).T, applies.T, unordered - score)
        return np.column_stack([of_terms, ordered - unordered])

    @staticmethod
    def _mean_slope(total_shift: IntArray, free: IntArray) -> FloatArray:
        """Units of score for each unit of shift, on average over the way that the sums
        of shifts lead.
        """
        at = knots()
        with np.errstate(divide="ignore", invalid="ignore"):
            of_long_ways = (free - at) / total_shift

        # within one step of the table it is straight; knots are among its entries
        table = logistic_table()
        inner = at[1:-1]
        entry = np.searchsorted(table, inner)
        slope_after = np.pad(table[entry + 1] - inner, 1) / SHIFT_PER_TABLE_STEP
        slope_before = np.pad(inner - table[entry - 1], 1) / SHIFT_PER_TABLE_STEP
        of_short_ways = np.where(total_shift < 0, slope_before, slope_after)

        is_short = np.abs(total_shift) < SHIFT_PER_TABLE_STEP
        return np.where(is_short, of_short_ways, of_long_ways)

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
        for begin in range(0, len(score), SCORES_AT_ONCE):
            some = slice(begin, begin + SCORES_AT_ONCE)
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
    units_left = total - whole.sum(axis=1)
    remainder = np.where(inside, parts - whole, -1.0)
    by_remainder = np.argsort(-remainder, axis=1, kind="stable")
    rank = np.argsort(by_remainder, axis=1)
    whole += inside & (rank < units_left[:, None])
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
    width = at[k] - begin

    every_value = values.ravel()
    place = row * values.shape[1] + k
    low = every_value[place - 1]
    rise = every_value[place] - low
    return np.asarray(low + (2 * rise * (raw - begin) + width) // (2 * width))

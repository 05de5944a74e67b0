"""Fit summary: how far each cell (a group within a range of scores) still is off after a fit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from propcal.core.bins import Bins
from propcal.core.grid import FloatArray, IntArray, from_grid
from propcal.core.groups.collection import Collection
from propcal.numbers import IN_TEXT, noun, plural
from propcal.plain_text import plain

if TYPE_CHECKING:
    import pandas as pd

WITHIN_ALPHA, WITHIN_NOISE, OUTSIDE = "within tolerance", "could be chance", "exceeds tolerance"
MOST_LISTED = 6
ROUNDING = 2.0**-31  # fitting compares gaps that are rounded to the grid


@dataclass(frozen=True, eq=False)
class FitSummary:
    """How far each cell of the fitting data is off after the correction.

    A cell is a group within a range of scores (a category, in the paper). The summary only describes the
    people used to fit; audit other people to see how well the correction works for them.

    Attributes
    ----------
    collection : Collection
    bins : Bins
    group, bin : arrays of int64, shape (n_cells,)
        The index of each cell's group in `collection` and of its range in `bins`. Cells that are too small
        to be adjusted are left out.
    people : array of float64
        The number of people; with survey weights, the effective number.
    outcome_rate, mean_score, cutoff, standard_error : arrays of float64
        The observed and the predicted rate; the gap that alpha allows; the standard error of the gap.
    z : float
        A gap of less than z standard errors could be chance; 0 without a guard.
    n_people : int
    n_updates : int
        The number of adjustments; a smooth recalibration counts as one.
    smooth : bool
        Whether there is a smooth recalibration.
    why : str
        Why cells may still exceed the tolerance.
    calm : bool
        Whether a test found no miscalibration in the score.
    found : tuple of str
        The tests that found an error before the fit, the most significant first.
    notes : tuple of str
        Where the fit departed from what was asked for.
    unit : str
        Plural noun for those who were used to fit.
    labels : dict
        What to call groups in sentences, by their names.
    """

    collection: Collection
    bins: Bins
    group: Any
    bin: Any
    people: FloatArray
    outcome_rate: FloatArray
    mean_score: FloatArray
    cutoff: FloatArray
    standard_error: FloatArray
    z: float
    n_people: int
    n_updates: int
    smooth: bool
    why: str
    calm: bool
    found: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    unit: str = "people"
    labels: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def gap(self) -> FloatArray:
        """Observed minus predicted rate."""
        return np.asarray(self.outcome_rate - self.mean_score)

    @property
    def status(self) -> Any:
        """The status of each cell: "within tolerance", "could be chance" or "exceeds tolerance"."""
        size = np.abs(self.gap) - ROUNDING
        noise = (self.z > 0) & (size < np.maximum(self.cutoff, self.z * self.standard_error)) | self.calm
        return np.where(size < self.cutoff, WITHIN_ALPHA, np.where(noise, WITHIN_NOISE, OUTSIDE))

    def count(self, status: str) -> int:
        """The number of cells with a status."""
        return int(np.sum(self.status == status))

    def to_frame(self) -> pd.DataFrame:
        """One row for each cell, starting with those that exceed the tolerance."""
        import pandas as pd

        status = self.status
        names = [size.group.name for size in self.collection.kept]
        noise = f"less than {self.z:.2f} standard errors"
        reason = {WITHIN_ALPHA: "", WITHIN_NOISE: noise, OUTSIDE: self.why}
        columns: dict[str, Any] = {
            "group": [names[g] for g in self.group],
            "bin": [self.bins.label(int(b)) for b in self.bin],
            "people": self.people,
            "outcome_rate": self.outcome_rate,
            "mean_score": self.mean_score,
            "gap": self.gap,
            "cutoff": self.cutoff,
            "standard_error": self.standard_error,
            "status": status,
            "why": [reason[s] for s in status],
        }
        order = self._worst_first()
        return pd.DataFrame(columns).iloc[order].reset_index(drop=True)

    def _worst_first(self) -> IntArray:
        """The order of the cells: by status, then by how far each exceeds its tolerance."""
        ranks = (OUTSIDE, WITHIN_NOISE, WITHIN_ALPHA)
        rank = np.array([ranks.index(status) for status in self.status], dtype=np.int64)
        return np.asarray(np.lexsort((-np.abs(self.gap) / self.cutoff, rank)))

    def sentences(self) -> list[str]:
        """The summary in sentences."""
        told = [self._what_was_done(), *self._what_was_found(), self._how_cells_are()]
        return [*told, *(plain(f"{note[0].upper()}{note[1:]}.") for note in self.notes)]

    def _what_was_found(self) -> list[str]:
        """Why the score was changed: what tests found in the fitting data."""
        if not self.n_updates or not self.found:
            return []
        more = len(self.found) - MOST_LISTED // 2
        names = [plain(self.labels.get(name, name)) for name in self.found[: MOST_LISTED // 2]]
        names += [f"and {more:,} more"] if more > 0 else []
        return [f"Tests found the raw score miscalibrated ({'; '.join(names)})."]

    def _how_cells_are(self) -> str:
        """How many cells are within tolerance."""
        n, noise, outside = len(self.people), self.count(WITHIN_NOISE), self.count(OUTSIDE)
        if n == 0:
            return "No cell has enough data to judge."
        if noise == outside == 0:
            every = {1: "The only cell is", 2: "Both cells are"}.get(n, f"All {n:,} cells are")
            return f"{every} within tolerance."
        why = f" ({self.why})" if outside else ""
        within = n - noise - outside
        inside = f"{_number(within)} of {plural(n, 'cell')} {'is' if within == 1 else 'are'} within tolerance"
        first = f"In the fitting data, {inside} (a cell is a subgroup within a risk range)"
        if self.z == 0:  # without a guard, nothing is put down to chance
            return f"{first}; {_number(outside)} {_exceed(outside)} it{why}."
        rest = "" if outside else "all " if not within else "the other " if noise > 1 else "the other one "
        by_chance = f"{rest}{_number(noise) if noise > 1 or outside else ''}".strip()
        told = f"{first}; {by_chance} {_exceed(noise)} it by no more than chance explains"
        return (
            f"{told}, and {_number(outside)} {_exceed(outside)} it by more{why}." if outside else f"{told}."
        )

    def _what_was_done(self) -> str:
        if not self.n_updates:
            return f"No change: {self._why_no_change()}."
        adjustments = self.n_updates - self.smooth
        told = "Recalibrated with a smooth curve" if self.smooth else "Corrected"
        if adjustments:
            also = " and " if self.smooth else " by "
            told += f"{also}{plural(adjustments, 'adjustment')} of {noun(adjustments, 'cell')}"
        return f"{told}, fitted to {self.n_people:,} {self.unit}."

    def _why_no_change(self) -> str:
        """Why the fit changed nothing; this does not always mean that it found nothing wrong."""
        if not len(self.people):
            return "not enough data to judge"
        if self.calm:
            return f"no miscalibration found in the {self.n_people:,} {self.unit} used to fit"
        if self.count(OUTSIDE):
            return self.why
        if self.count(WITHIN_NOISE):
            limit = f"off by less than {self.z:.3g} standard errors"
            return f"every cell is within tolerance or {limit}; smaller errors were not looked for"
        return "every cell is within tolerance; smaller errors were not looked for"

    def listed(self) -> list[str]:
        """The worst of the cells that are not within tolerance, one line each."""
        off = [int(i) for i in self._worst_first() if self.status[i] != WITHIN_ALPHA]
        lines = [self._line(i) for i in off[:MOST_LISTED]]
        more = len(off) - len(lines)
        return [*lines, f"... and {more:,} more; see to_frame()"] if more else lines

    def _line(self, i: int) -> str:
        """One cell with its numbers."""
        name = self.collection.kept[self.group[i]].group.name
        name = plain(self.labels.get(name, name))
        low, high = from_grid(self.bins.edges[self.bin[i] : self.bin[i] + 2])
        observed, predicted, error = (
            IN_TEXT.percent(values[i]) for values in (self.outcome_rate, self.mean_score, self.standard_error)
        )
        return (
            f"{self.status[i]}: {name}, predicted risk {100 * low:.3g}-{100 * high:.3g} %: "
            f"{IN_TEXT.whole(self.people[i])} people, observed {observed}, predicted {predicted} "
            f"(standard error {error})"
        )

    def _repr_html_(self) -> str:
        from propcal.output.notebook import certificate_html

        return certificate_html(self)

    def __repr__(self) -> str:
        return "\n".join([*self.sentences(), *(f"  {line}" for line in self.listed())])


def _number(n: int) -> str:
    """A number of cells in a sentence."""
    return f"{n:,}" if n else "none"


def _exceed(n: int) -> str:
    """The verb that goes with `_number`."""
    return "exceed" if n > 1 else "exceeds"

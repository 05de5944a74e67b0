"""Fit summary: what a fit can say about each category it looked at, in words and as a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from propcal.core.bins import Bins
from propcal.core.grid import FloatArray
from propcal.core.groups.collection import Collection
from propcal.numbers import IN_TEXT, plural
from propcal.plain_text import plain

if TYPE_CHECKING:
    import pandas as pd

WITHIN_ALPHA, WITHIN_NOISE, OUTSIDE = "within alpha", "within noise", "outside"
MOST_LISTED = 6
ROUNDING = 2.0**-31  # fitting compares gaps that are rounded to the grid


@dataclass(frozen=True, eq=False)
class FitSummary:
    """The categories of the fitting people after the correction, and how far each is off.

    It describes the people that the correction was fitted to; how well it serves others is for an
    audit of others to say.

    Attributes
    ----------
    collection : Collection
    bins : Bins
    group, bin : arrays of int64, shape (n_categories,)
        Of each category that counts, its place in `collection` and in `bins`.
    people : array of float64
        How many; under survey weights the effective number.
    outcome_rate, mean_score, cutoff, standard_error : arrays of float64
        `cutoff` is the gap that alpha allows.
    z : float
        A gap of less than z standard errors is taken for noise; 0 without a guard.
    n_people : int
    n_updates : int
        Of which a smooth start is one.
    smooth : bool
        Whether there is a smooth start.
    why : str
        Why categories may be outside.
    calm : bool
        Whether error was looked for beyond single categories and told from noise, and none was found.
    notes : tuple of str
        What the fit did otherwise than asked for.
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
    notes: tuple[str, ...] = ()

    @property
    def gap(self) -> FloatArray:
        """Outcome rate minus mean score."""
        return np.asarray(self.outcome_rate - self.mean_score)

    @property
    def status(self) -> Any:
        """Of each category: "within alpha", "within noise" or "outside"."""
        size = np.abs(self.gap) - ROUNDING
        noise = (self.z > 0) & (size < np.maximum(self.cutoff, self.z * self.standard_error))
        return np.where(size < self.cutoff, WITHIN_ALPHA, np.where(noise, WITHIN_NOISE, OUTSIDE))

    def count(self, status: str) -> int:
        """How many categories have a status."""
        return int(np.sum(self.status == status))

    def to_frame(self) -> pd.DataFrame:
        """One row for each category, those outside first, then those within noise."""
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
        rank = np.array([(OUTSIDE, WITHIN_NOISE, WITHIN_ALPHA).index(s) for s in status], dtype=np.int64)
        order = np.lexsort((-np.abs(self.gap) / self.cutoff, rank))
        return pd.DataFrame(columns).iloc[order].reset_index(drop=True)

    def sentences(self) -> list[str]:
        """The certificate in words."""
        n, noise, outside = len(self.people), self.count(WITHIN_NOISE), self.count(OUTSIDE)
        told = [self._what_was_done()]
        if n == 0:
            told.append("No category is large enough to say anything about.")
        elif noise == outside == 0:
            every = "The one category is" if n == 1 else f"All {n:,} categories are"
            told.append(f"{every} within alpha.")
        else:
            why = f" ({self.why})" if outside else ""
            told.append(
                f"Of {n:,} categories {n - noise - outside:,} are within alpha, "
                f"{noise:,} further off but within noise, {outside:,} outside{why}."
            )
        return [*told, *(plain(f"{note[0].upper()}{note[1:]}.") for note in self.notes)]

    def _what_was_done(self) -> str:
        if not self.n_updates:
            return f"No change: {self._why_no_change()}."
        updates = self.n_updates - self.smooth
        steps = ["a smooth start"] * self.smooth
        if updates or not self.smooth:
            steps.append(plural(updates, "update"))
        return f"Changed by {' and '.join(steps)}, fitted to {self.n_people:,} people."

    def _why_no_change(self) -> str:
        """Not every fit that changes nothing has found that nothing is wrong."""
        if self.count(OUTSIDE):
            return self.why
        if self.calm and len(self.people):
            return f"the score is calibrated as far as these {self.n_people:,} people can tell"
        if not len(self.people):
            return "too few people to tell"
        if self.count(WITHIN_NOISE):
            limit = f"{self.z:.3g} standard errors"
            return f"every category is within alpha or {limit}; a smaller error was not sought"
        return "every category is within alpha; a smaller error was not sought"

    def listed(self) -> list[str]:
        """The worst of the categories that are not within alpha, a line each."""
        frame = self.to_frame()
        frame = frame[frame["status"] != WITHIN_ALPHA]
        lines = [_line(row) for row in frame.head(MOST_LISTED).to_dict("records")]
        more = len(frame) - len(lines)
        return [*lines, f"... and {more:,} more; see to_frame()"] if more else lines

    def _repr_html_(self) -> str:
        from propcal.output.notebook import certificate_html

        return certificate_html(self)

    def __repr__(self) -> str:
        return "\n".join([*self.sentences(), *(f"  {line}" for line in self.listed())])


def _line(category: dict[Any, Any]) -> str:
    """A category with its numbers."""
    rate, score, error = (
        IN_TEXT.decimal(category[name], 3) for name in ("outcome_rate", "mean_score", "standard_error")
    )
    return (
        f"{category['status']:<12}  {plain(category['group'])}, scores in {category['bin']}: "
        f"{IN_TEXT.whole(category['people'])} people, rate {rate}, score {score} +- {error}"
    )

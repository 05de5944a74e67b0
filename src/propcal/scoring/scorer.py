"""Computes corrected scores for batches of columns, for frames and for files.

Each batch is scored by `Correction.apply_to_patterns`. Scoring a row needs no other row, so that the data can
be divided into batches anywhere.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from propcal.core.correction.correction import Correction
from propcal.core.correction.definition import ScoringRows, count_unlisted, unlisted, warn_of_unlisted
from propcal.core.grid import UNIT, FloatArray, to_grid
from propcal.data.derive import numeric_columns, sized_columns
from propcal.data.frames import frame_columns, numbers
from propcal.data.role_columns import FEWEST_SWAPPED, ScoreTally
from propcal.data.rows import refuse_truths, rows_to_score
from propcal.errors import Column, Message, TooManyUnseenError, refused


@lru_cache(maxsize=16)
def _loaded(text: str) -> Correction:
    return Correction.from_json(text)


@dataclass(frozen=True)
class Scorer:
    """How to score a batch.

    `source` is the correction. When sent to other processes, it is the correction's text or an object with
    the text as its `value` (a Spark broadcast), so that no compiled code is sent.
    """

    source: Any
    score: str
    column: str
    n_updates: int | None = None
    unseen: str | None = None
    invalid: str = "error"

    @property
    def correction(self) -> Correction:
        """The correction, read from its text once per process."""
        if isinstance(self.source, Correction):
            return self.source
        return _loaded(self.source if isinstance(self.source, str) else self.source.value)

    @property
    def wanted(self) -> list[str]:
        """The columns to read, beginning with the score."""
        return list(dict.fromkeys([self.score, *self.correction.reads]))

    @property
    def numeric(self) -> list[str]:
        """The columns that must be numeric."""
        known = self.correction.patterns
        return [self.score, *numeric_columns(known.derived, known.attributes), *self._features(numbers=True)]

    @property
    def texts(self) -> list[str]:
        """The columns of which only levels are used: nothing compares them by size."""
        known = self.correction.patterns
        sized = {self.score, *self.numeric, *sized_columns(known.derived)}
        levels = dict.fromkeys([*known.reads, *self._features(numbers=False)])
        return [name for name in levels if name not in sized]

    def _features(self, *, numbers: bool) -> list[str]:
        """The columns with points that are numbers, or that are levels."""
        return [f.column for f in self.correction.features if f.is_number == numbers]

    def correct(self, columns: Any, tally: Tally | None = None) -> FloatArray:
        """The corrected scores of a batch of columns (a mapping or a table); the batch may be empty.

        Without a tally, the batch is one part of a frame, and invalid scores are refused at once. A tally
        counts them instead; if they are to be refused, nothing is corrected after the first.
        """
        rows = self._checked(columns, tally)
        corrected = self._corrected(rows)
        if tally is not None and rows is not None:
            tally.add_changes(rows.score, corrected)
        return corrected

    def correct_all(self, columns: Any) -> FloatArray:
        """The corrected scores of all rows at once, with a warning if levels did not occur in fitting."""
        tally = Tally(self)
        rows = self._checked(columns, tally)
        tally.tell()
        return self._corrected(rows)

    def _checked(self, columns: Any, tally: Tally | None) -> ScoringRows | None:
        if not len(columns[self.score]):
            return None
        name = Column(self.score)
        if tally is None:
            name = Column(self.score, f"{name} (in one part of the frame)")
        refuse_truths(columns[self.score], name)
        raw = numbers(columns[self.score], name)
        if tally is not None and not tally.add_scores(raw) and self.invalid == "error":
            return None
        rows = rows_to_score(raw, columns, self.correction, name, invalid=self.invalid)
        if tally is not None:
            tally.add_levels(rows)
        return rows

    def _corrected(self, rows: ScoringRows | None) -> FloatArray:
        if rows is None:
            return np.empty(0)
        return self.correction.apply_to_rows(
            rows, n_updates=self.n_updates, unseen=self.unseen, invalid=self.invalid
        )

    def arrow(self, corrected: FloatArray) -> Any:
        """The corrected scores as an Arrow array, in which missing values are null, not NaN."""
        return pa.array(corrected, from_pandas=self.invalid != "error")

    def frame(self, frame: Any) -> FloatArray:
        """The corrected scores of a part of a frame in memory."""
        return self.correct(frame_columns(frame, "frame", self.wanted))

    def series(self, part: Any) -> Any:
        """The corrected scores of a part as a pandas series with the same index."""
        import pandas as pd

        return pd.Series(self.frame(part), index=part.index, name=self.column)

    def batches(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Record batches with one more column."""
        for batch in batches:
            yield self.batch(batch)

    def batch(self, batch: Any) -> Any:
        """One record batch with one more column."""
        return self.appended(batch, self.correct({name: batch.column(name) for name in self.wanted}))

    def appended(self, batch: Any, corrected: FloatArray) -> Any:
        """A record batch with its corrected scores."""
        columns = [*batch.columns, self.arrow(corrected)]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema(batch.schema))

    def schema(self, schema: Any) -> Any:
        """The schema with one more column."""
        return schema.append(pa.field(self.column, pa.float64()))


@dataclass(frozen=True)
class ScoringSummary:
    """What scoring did.

    Attributes
    ----------
    rows, invalid : int
        All rows, and those whose score is missing or outside [0, 1].
    unseen_rows : int
        Rows with at least one value that did not occur in the fitting data.
    unseen : dict
        The number of such values in each attribute that has any.
    changed : int
        Rows whose corrected score differs from the score.
    mean_shift : float or None
        The mean of corrected score minus score, over all rows with a valid score.
    """

    rows: int
    invalid: int
    unseen_rows: int
    unseen: dict[str, int]
    changed: int
    mean_shift: float | None


class Tally(ScoreTally):
    """Also counts what happened to the rows of many batches, so that it can be reported once."""

    def __init__(self, scorer: Scorer) -> None:
        super().__init__()
        self._name, self._correction = Column(scorer.score), scorer.correction
        self._between = False  # whether a score lies between 0 and 1
        self._invalid = scorer.invalid
        features = [feature.column for feature in self._correction.features]
        self._names = (*self._correction.attributes, *features)
        self._unlisted = np.zeros(len(self._names), dtype=np.int64)
        self._unseen_rows = self._changed = self._shift = 0  # the shift in units of the grid

    def add_scores(self, scores: FloatArray) -> bool:
        """Count a batch; returns whether all scores so far are in [0, 1]."""
        self._between |= bool(np.any((scores > 0) & (scores < 1)))
        return self.add(scores)

    def add_levels(self, rows: ScoringRows) -> None:
        """Count the levels that did not occur in fitting."""
        patterns, folded = rows.patterns, self._correction.folded
        people = np.bincount(rows.code, minlength=len(patterns))
        self._unlisted += count_unlisted(self._correction, patterns, people, rows.codes)
        new = np.zeros(len(patterns), dtype=bool)
        for name, own in zip(patterns.attributes, unlisted(self._correction, patterns)):
            new |= own & (name not in folded)
        strange = new[rows.code]
        for feature, codes in zip(self._correction.features, rows.codes):
            strange |= np.isin(codes, feature.unseen_codes)
        self._unseen_rows += int(np.count_nonzero(strange))

    def add_changes(self, scores: FloatArray, corrected: FloatArray) -> None:
        """Count how many scores a batch changes, and by how much."""
        moved = (scores >= 0) & (scores <= 1) & (corrected != scores)
        self._changed += int(np.count_nonzero(moved))
        self._shift += int((to_grid(corrected[moved]) - to_grid(scores[moved])).sum())

    def summary(self) -> ScoringSummary:
        """What was counted."""
        valid, unseen = self.n - self.invalid, dict[str, int]()
        unseen_rows = self._unseen_rows
        for i, (name, count) in enumerate(zip(self._names, self._unlisted.tolist())):
            folded = i < len(self._correction.attributes) and name in self._correction.folded
            if folded and 1 < count == self.n:  # some other levels are expected there, but not only others
                unseen_rows = count
            elif folded or not count:
                continue
            unseen[name] = unseen.get(name, 0) + count
        shift = self._shift / UNIT / valid if valid else None
        return ScoringSummary(self.n, self.invalid, unseen_rows, unseen, self._changed, shift)

    def refuse_unseen(self, most: float | None) -> None:
        """Refuse rows of which more than this share have values that did not occur in fitting."""
        counted = self.summary()
        if most is None or not self.n or counted.unseen_rows <= most * self.n:
            return
        values = ", ".join(f"{name}: {count:,}" for name, count in counted.unseen.items())
        about = {"unseen": counted.unseen_rows, "rows": self.n, "share": 100 * counted.unseen_rows / self.n}
        error: Any = refused("too many unseen", TooManyUnseenError, values=values, **about)
        error.summary = counted
        raise error

    def tell(self, *, count_invalid: bool = False) -> None:
        """Refuse invalid scores if asked to, or count them; warn of levels that did not occur in fitting."""
        if not self.n:
            return
        if self._invalid == "error":
            self.check(self._name, scoring=True)
        if self.n - self.invalid >= FEWEST_SWAPPED and not self._between:
            self._warn("holds only 0 and 1", "is it the outcome instead of the score?")
        warn_of_unlisted(self._correction, self._unlisted, self.n)
        if self.invalid and count_invalid:
            kept = self._invalid == "keep"
            become = "they are returned unchanged" if kept else "their corrected score is missing"
            self._warn(f": {self.invalid:,} of {self.n:,} values are missing or outside [0, 1]", become)

    def _warn(self, problem: str, next_step: str) -> None:
        space = "" if problem.startswith(":") else " "
        message = Message(f"{self._name}{space}{problem}", argument=self._name.name, next_step=next_step)
        warnings.warn(message, UserWarning, stacklevel=4)

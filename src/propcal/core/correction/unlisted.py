"""Counts values that a correction does not list, over batches of people to be scored.

What was counted is reported once, after the last batch.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from propcal.core.grid import IntArray
from propcal.core.patterns import OTHER
from propcal.errors import Message, UnknownLevelWarning

if TYPE_CHECKING:
    from propcal.core.correction.definition import Definition, ScoringRows


class UnseenColumn(NamedTuple):
    """A column with values that count as unseen, and how many they are."""

    name: str
    n_values: int
    makes_groups: bool
    folded: bool


@dataclass
class Unlisted:
    """Counts values that did not occur in fitting, batch by batch.

    Where rare levels were folded before the fit, unlisted ones are expected, unless all
    are.

    Attributes
    ----------
    correction : Definition
    n : int
        The number of rows (or people) so far.
    rows : int
        How many of them have at least one of these values.
    counts : array of int64
        How many values of each attribute, and then of each feature with points, are not
        listed.
    """

    correction: Definition
    n: int = 0
    rows: int = 0
    counts: IntArray = field(init=False)

    def __post_init__(self) -> None:
        n_columns = len(self.correction.attributes) + len(self.correction.features)
        self.counts = np.zeros(n_columns, dtype=np.int64)

    def add(self, rows: ScoringRows, people: IntArray | None = None) -> Unlisted:
        """Count a batch of rows, each of which stands for one person or for so many
        `people`.
        """
        correction = self.correction
        patterns = rows.patterns
        people_by_pattern = np.bincount(rows.code, people, len(patterns))
        people_by_pattern = people_by_pattern.astype(np.int64)

        is_unseen = np.zeros(len(patterns), dtype=np.bool_)
        for a, name in enumerate(correction.attributes):
            is_other = patterns.table[:, a] == len(patterns.levels[a])
            self.counts[a] += people_by_pattern[is_other].sum()
            if name not in correction.folded:
                is_unseen |= is_other

        row_is_unseen = is_unseen[rows.code]
        first_feature = len(correction.attributes)
        features = zip(correction.features, rows.codes)
        for f, (feature, codes) in enumerate(features, first_feature):
            has_no_points = np.isin(codes, feature.unseen_codes)
            self.counts[f] += has_no_points.sum()
            row_is_unseen |= has_no_points

        self.n += int(people_by_pattern.sum())
        if people is None:
            self.rows += int(np.count_nonzero(row_is_unseen))
        else:
            self.rows += int(people[row_is_unseen].sum())
        return self

    def _unseen_columns(self) -> Iterator[UnseenColumn]:
        """Columns with values that count as unseen.

        Values that were folded do so only if all are.
        """
        attributes = self.correction.attributes
        features = [feature.column for feature in self.correction.features]
        counts = self.counts.tolist()
        for i, (name, count) in enumerate(zip([*attributes, *features], counts)):
            makes_groups = i < len(attributes)
            folded = makes_groups and name in self.correction.folded
            if count and (not folded or 1 < count == self.n):
                yield UnseenColumn(name, count, makes_groups, folded)

    @property
    def unseen(self) -> dict[str, int]:
        """The number of values that count as unseen, by column."""
        counts: dict[str, int] = {}
        for column in self._unseen_columns():
            counts[column.name] = counts.get(column.name, 0) + column.n_values
        return counts

    @property
    def unseen_rows(self) -> int:
        """The number of rows with such a value."""
        if any(column.folded for column in self._unseen_columns()):
            return self.n
        return self.rows

    def messages(self) -> list[Message]:
        """What to warn of, without showing values."""
        messages = []
        for column in self._unseen_columns():
            text = f"{column.name!r}: {self._description(column)}"
            step = None
            if 1 < column.n_values == self.n:
                step = "Is the column coded differently?"
            messages.append(Message(text, argument=column.name, next_step=step))
        return messages

    def _description(self, column: UnseenColumn) -> str:
        """How many values are unseen, and what that means for scores."""
        if column.folded:
            none = f"none of the {self.n:,} values is listed in this correction"
            return f'{none}, so all of them count as "{OTHER}"'
        values = self._unseen_values(column)
        if column.makes_groups:
            return f"{values}, so no group of {column.name!r} applies to these rows"
        return f"{values}, so these rows have no points for it"

    def _unseen_values(self, column: UnseenColumn) -> str:
        """How many values are unseen; levels that a shared correction leaves out may
        have been there in fitting.
        """
        count = column.n_values
        none_is_known = count == self.n > 1
        if self.n == 1:
            values = "the value"
        elif none_is_known:
            values = f"none of the {self.n:,} values"
        else:
            values = f"{count:,} of {self.n:,} values"

        if not (column.makes_groups and self.correction.is_shared):
            verb = "occurred" if none_is_known else "did not occur"
            return f"{values} {verb} in the fitting data"
        if none_is_known:
            verb = "is"
        elif count == 1:
            verb = "is not"
        else:
            verb = "are not"
        return (
            f"{values} {verb} listed in this shared correction, "
            "which omits values that few people had"
        )

    def warn(self) -> None:
        """Warn of them."""
        for message in self.messages():
            warnings.warn(message, UnknownLevelWarning, stacklevel=4)

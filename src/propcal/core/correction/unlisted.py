"""Values of people to be scored that a correction does not list: counted over batches,
and told once.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from propcal.core.grid import IntArray
from propcal.core.patterns import OTHER
from propcal.errors import Message, UnknownLevelWarning

if TYPE_CHECKING:
    from propcal.core.correction.definition import Definition, ScoringRows


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
        known = self.correction
        patterns = rows.patterns
        by_pattern = np.bincount(rows.code, people, len(patterns)).astype(np.int64)
        strange = np.zeros(len(patterns), dtype=np.bool_)
        for a, (name, levels, place) in enumerate(
            zip(known.attributes, patterns.levels, patterns.table.T)
        ):
            new = place == len(levels)
            self.counts[a] += by_pattern[new].sum()
            strange |= new & (name not in known.folded)
        strange_rows = strange[rows.code]
        for f, (feature, codes) in enumerate(
            zip(known.features, rows.codes), len(known.attributes)
        ):
            new = np.isin(codes, feature.unseen_codes)
            self.counts[f] += new.sum()
            strange_rows |= new
        self.n += int(by_pattern.sum())
        self.rows += int(
            np.count_nonzero(strange_rows)
            if people is None
            else people[strange_rows].sum()
        )
        return self

    def _told(self) -> Iterator[tuple[str, int, bool, bool]]:
        """Columns with values that count as unseen: how many, whether it makes groups,
        and was folded.
        """
        attributes = self.correction.attributes
        names = (*attributes, *(feature.column for feature in self.correction.features))
        for i, (name, count) in enumerate(zip(names, self.counts.tolist())):
            makes_groups = i < len(attributes)
            folded = makes_groups and name in self.correction.folded
            if count and (not folded or 1 < count == self.n):
                yield name, count, makes_groups, folded

    @property
    def unseen(self) -> dict[str, int]:
        """The number of values that count as unseen, by column."""
        counts: dict[str, int] = {}
        for name, count, *_ in self._told():
            counts[name] = counts.get(name, 0) + count
        return counts

    @property
    def unseen_rows(self) -> int:
        """The number of rows with such a value."""
        if any(folded for *_, folded in self._told()):
            return self.n
        return self.rows

    def messages(self) -> list[Message]:
        """What to warn of, without showing values."""
        messages = []
        for name, count, makes_groups, folded in self._told():
            rest = f"no group of {name!r} applies to these rows"
            rest = rest if makes_groups else "these rows have no points for it"
            told = f"{self._values(count, makes_groups=makes_groups)}, so {rest}"
            if folded:
                none = f"none of the {self.n:,} values is listed in this correction"
                told = f'{none}, so all of them count as "{OTHER}"'
            if 1 < count == self.n:
                step = "Is the column coded differently?"
            else:
                step = None
            messages.append(Message(f"{name!r}: {told}", argument=name, next_step=step))
        return messages

    def _values(self, count: int, *, makes_groups: bool) -> str:
        """How many values; levels that a shared correction leaves out may have been
        there in fitting.
        """
        none = count == self.n > 1
        if none:
            these = f"none of the {self.n:,} values"
        else:
            these = f"{count:,} of {self.n:,} values"
        these = "the value" if self.n == 1 else these
        if not (makes_groups and self.correction.is_shared):
            return (
                f"{these} {'occurred' if none else 'did not occur'} in the fitting data"
            )
        if none:
            verb = "is"
        elif count == 1:
            verb = "is not"
        else:
            verb = "are not"
        return f"{these} {verb} listed in this shared correction, which omits values that few people had"

    def warn(self) -> None:
        """Warn of them."""
        for message in self.messages():
            warnings.warn(message, UnknownLevelWarning, stacklevel=4)

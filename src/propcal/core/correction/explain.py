"""Explanation: which updates moved a person's score, in order, in words and numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from propcal.core.bin_search import bin_of
from propcal.core.compiled import compiled
from propcal.core.correction.limits import MOST_TRACED, MOST_TRACED_STEPS
from propcal.core.correction.smooth_map import NAME as START
from propcal.core.grid import UNIT, BoolArray, FloatArray, IntArray, check_number, from_grid, to_grid
from propcal.errors import InputError
from propcal.numbers import IN_TEXT, noun
from propcal.plain_text import plain

if TYPE_CHECKING:
    import pandas as pd

PERSON, UPDATE, BEFORE, AFTER, N_COLUMNS = 0, 1, 2, 3, 4
MOST_IN_A_SENTENCE = 4


@dataclass(frozen=True, eq=False)
class Explanation:
    """Why the scores of some people moved.

    Attributes
    ----------
    score, corrected : arrays of shape (n_people,)
    steps : array of int64, shape (n_steps, 4)
        Person, index of the update, and the score before and after it in units of 2**-32.
    groups, bins : for each update of the correction its group and its bin in words; a smooth start
        is the first update
    unseen : array of bool, shape (n_people,)
        Whose combination of attributes was not seen in fitting.
    """

    score: FloatArray
    corrected: FloatArray
    steps: IntArray
    groups: tuple[str, ...]
    bins: tuple[str, ...]
    unseen: BoolArray

    def __len__(self) -> int:
        return len(self.score)

    def to_frame(self) -> pd.DataFrame:
        """One row for each step of each person, in order."""
        import pandas as pd

        update = self.steps[:, UPDATE]
        before, after = from_grid(self.steps[:, BEFORE]), from_grid(self.steps[:, AFTER])
        columns: dict[str, Any] = {
            "person": self.steps[:, PERSON],
            "update": update + 1,
            "group": np.array(self.groups, dtype=object)[update],
            "bin": np.array(self.bins, dtype=object)[update],
            "score_before": before,
            "shift": after - before,
            "score_after": after,
        }
        return pd.DataFrame(columns)

    def steps_of(self, person: int) -> list[tuple[str, str, float]]:
        """Group, bin and shift of each step of one person."""
        check_number("person", person, at_least=0, at_most=len(self) - 1, whole=True)
        low, high = np.searchsorted(self.steps[:, PERSON], [person, person + 1])
        rows = self.steps[low:high]
        shifts = from_grid(rows[:, AFTER] - rows[:, BEFORE])
        return [(plain(self.groups[u]), self.bins[u], float(s)) for u, s in zip(rows[:, UPDATE], shifts)]

    def sentence(self, person: int = 0) -> str:
        """What happened to one person's score, for a reader who does not know the algorithm."""
        steps = self.steps_of(person)
        raw, corrected = (IN_TEXT.decimal(score[person], 3) for score in (self.score, self.corrected))
        new = " This combination of attributes was not seen in fitting." if self.unseen[person] else ""
        if not steps:
            return f"The score of {raw} stays as it is: no update applies to it.{new}"
        told = sorted(range(len(steps)), key=lambda i: -abs(steps[i][2]))[:MOST_IN_A_SENTENCE]
        parts = [_reason(*steps[i]) for i in sorted(told)]
        rest = sum(step[2] for i, step in enumerate(steps) if i not in told)
        story = "; then ".join(parts)
        if len(steps) > len(told):
            many = len(steps) - len(told)
            story += (
                f"; {many} smaller {noun(many, 'change')} between them made {IN_TEXT.decimal(rest, 3, '+')}"
            )
        return f"The score of {raw} becomes {corrected}. It is {story}.{new}"

    def sentences(self) -> list[str]:
        """The sentence of each person."""
        return [self.sentence(person) for person in range(len(self))]

    def plot(self, person: int = 0, *, ax: Any = None) -> Any:
        """Draw one person's way from raw to corrected score; returns the matplotlib axes."""
        from propcal.output.plots.correction_plots import plot_explanation

        return plot_explanation(self, person, ax=ax)

    def _repr_html_(self) -> str:
        from propcal.output.notebook import explanation_html

        return explanation_html(self)

    def __repr__(self) -> str:
        shown = [f"{person}: {self.sentence(person)}" for person in range(min(len(self), 5))]
        more = [f"... and {len(self) - 5:,} more people; see to_frame()"] if len(self) > 5 else []
        return "\n".join(shown + more)


def _reason(group: str, label: str, shift: float) -> str:
    direction, rate = ("raised", "more") if shift > 0 else ("lowered", "less")
    by = IN_TEXT.decimal(abs(shift), 3)
    if group == START:
        return (
            f"{direction} by {by} by the smooth start, because people with such scores in this "
            f"person's groups, large and small, had the outcome {rate} often than scored"
        )
    return (
        f"{direction} by {by} because people in the group {group} with scores in {label} had "
        f"the outcome {rate} often than scored"
    )


def trace(
    score: FloatArray,
    code: Any,
    inside: BoolArray,
    updates: IntArray,
    edges: IntArray,
    started: IntArray | None = None,
) -> tuple[FloatArray, IntArray]:
    """Corrected scores, and every step on the way, by replaying the updates person by person.

    `started` holds the scores after the smooth start, where there is one; it is update 0 then, and
    the others count from 1.
    """
    raw = to_grid(score)
    _refuse_if(len(score) * len(updates) > MOST_TRACED, len(score), len(updates))
    before = raw if started is None else started
    final, steps = _trace(before, code.astype(np.int64), inside, updates, edges, MOST_TRACED_STEPS)
    _refuse_if(len(steps) > MOST_TRACED_STEPS, len(score), len(updates))
    if started is not None:
        steps[:, UPDATE] += 1
        moved = np.flatnonzero(started != raw)
        own = np.stack([moved, np.zeros_like(moved), raw[moved], started[moved]], axis=1)
        steps = np.concatenate([own, steps])
        steps = steps[np.argsort(steps[:, PERSON], kind="stable")]
    return np.where(final == raw, score, from_grid(final)), steps


def _refuse_if(too_much: bool, n_people: int, n_updates: int) -> None:
    if too_much:
        raise InputError(
            f"{n_people:,} people and {n_updates:,} updates are too many to explain at once",
            argument="score",
            next_step="explain fewer people",
        )


@compiled
def _trace(raw: Any, code: Any, inside: Any, updates: Any, edges: Any, most: int) -> tuple[Any, Any]:
    """Final scores and steps; ends early where there are more than `most` steps."""
    final = raw.copy()
    steps = np.empty((1024, N_COLUMNS), np.int64)
    n = 0
    for person in range(len(raw)):
        value = raw[person]
        j = bin_of(value, edges)
        for u in range(len(updates)):
            if updates[u, 1] != j or not inside[updates[u, 0], code[person]]:
                continue
            after = min(max(value + updates[u, 2], 0), UNIT)
            if after == value:
                continue
            if n > most:
                return final, steps[:n]
            if n == len(steps):
                larger = np.empty((2 * n, N_COLUMNS), np.int64)
                for i in range(n):
                    for column in range(N_COLUMNS):
                        larger[i, column] = steps[i, column]
                steps = larger
            steps[n, PERSON], steps[n, UPDATE], steps[n, BEFORE], steps[n, AFTER] = person, u, value, after
            n += 1
            value = after
            j = bin_of(value, edges)
        final[person] = value
    return final, steps[:n].copy()

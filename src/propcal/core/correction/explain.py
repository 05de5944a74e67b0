"""Explanation: which groups moved a person's score, and by how much, in words and numbers that add up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from propcal.core.bin_search import bin_of
from propcal.core.compiled import compiled
from propcal.core.correction.limits import MOST_TRACED, MOST_TRACED_STEPS
from propcal.core.grid import (
    UNIT,
    BoolArray,
    FloatArray,
    IntArray,
    check_choice,
    check_number,
    from_grid,
    to_grid,
)
from propcal.core.groups.collection import Group
from propcal.errors import InputError
from propcal.numbers import IN_TEXT, adding_up, plural

if TYPE_CHECKING:
    import pandas as pd

    from propcal.core.correction.smooth_map import SmoothStart
    from propcal.core.patterns import Patterns

PERSON, REASON, BEFORE, AFTER, N_COLUMNS = 0, 1, 2, 3, 4
MOST_IN_A_SENTENCE = 4
PEOPLE_AT_ONCE = 4096
DIGITS = 3
ALL_SCORES = "all scores"
KEPT_IN_ORDER = "order of scores"


class Reason(NamedTuple):
    """What can move a score: a group, by the smooth curve (at all scores) or by an update (in a bin).

    Without a group, it is what keeps a higher score from becoming a lower one. `update` counts from 1; the
    whole smooth curve is the first update.
    """

    update: int
    group: Group | None
    bin: str = ALL_SCORES


def _people(group: Group, label: str, unit: str) -> str:
    """The people of a group in a sentence: "White patients", "patients (White, F)", "all patients"."""
    if not group.conditions:
        return f"all {unit}"
    alone = len(group.conditions) == 1 and group.conditions[0][1] == label
    return f"{label} {unit}" if alone else f"{unit} ({label})"


@dataclass(frozen=True, eq=False)
class Explanation:
    """Why the scores of some people moved.

    Every change has a reason, a group, and the changes of a person add up to the whole change exactly. The
    smooth curve adds the shifts of a person's groups in log-odds; each group's part of the change
    is its shift times the mean slope of the logistic curve on the way (`SmoothStart.parts`). An update
    moves the score by its shift, as far as 0 or 1.

    Attributes
    ----------
    score, corrected : arrays of shape (n_people,)
    steps : array of int64, shape (n_steps, 4)
        Person, index of the reason, and the score before and after it in units of 2**-32. The smooth curve
        has a step for each group, from the broadest to the narrowest; they happen at once, so that what lies
        between them is a running total, not a score.
    reasons : tuple of Reason
    unseen : array of bool, shape (n_people,)
        Whose combination of attributes was not seen in fitting.
    labels : dict
        What sentences and pictures call each group.
    unit : str
        What they call people.
    """

    score: FloatArray
    corrected: FloatArray
    steps: IntArray
    reasons: tuple[Reason, ...]
    unseen: BoolArray
    labels: Mapping[Group, str]
    unit: str = "people"

    def __len__(self) -> int:
        return len(self.score)

    def to_frame(self, kind: str = "steps") -> pd.DataFrame:
        """The changes as a table, with exact values.

        Parameters
        ----------
        kind : "steps" or "groups"
            "steps": one row for each step of each person, in order. "groups": one row for each group that
            moved a person's score, its steps added up, the largest change first.
        """
        import pandas as pd

        check_choice("kind", kind, ("steps", "groups"))
        if kind == "groups":
            rows = [(i, _name(g), units / UNIT) for i in range(len(self)) for g, units in self._changes(i)]
            return pd.DataFrame(rows, columns=["person", "group", "change"])
        reason = self.steps[:, REASON]
        before, after = from_grid(self.steps[:, BEFORE]), from_grid(self.steps[:, AFTER])
        update = np.array([r.update for r in self.reasons], dtype=np.int64)[reason]
        name = np.array([_name(r.group) for r in self.reasons], dtype=object)[reason]
        bins = np.array([r.bin for r in self.reasons], dtype=object)[reason]
        columns: dict[str, Any] = {
            "person": self.steps[:, PERSON],
            "update": update,
            "group": name,
            "bin": bins,
            "score_before": before,
            "shift": after - before,
            "score_after": after,
        }
        return pd.DataFrame(columns)

    def steps_of(self, person: int) -> list[tuple[str, str, float]]:
        """Group (as people call it), bin and shift of each step of one person."""
        rows = self._rows(person)
        shifts = from_grid(rows[:, AFTER] - rows[:, BEFORE])
        reasons = [self.reasons[r] for r in rows[:, REASON]]
        return [(self._label(r.group), r.bin, float(shift)) for r, shift in zip(reasons, shifts)]

    def changes_of(self, person: int) -> list[tuple[str, float]]:
        """Each group that moved one person's score, and by how much in all; the largest change first."""
        return [(self._label(group), units / UNIT) for group, units in self._changes(person)]

    def sentence(self, person: int = 0) -> str:
        """What happened to one person's score, for a reader who does not know the algorithm.

        The numbers are rounded so that they add up as they are printed.
        """
        changes = self._changes(person)
        before, after = (IN_TEXT.decimal(score[person], DIGITS) for score in (self.score, self.corrected))
        first = f"{before} becomes {after}" if before != after else f"{before} stays {after}"
        new = "this combination of attributes was not seen in fitting"
        if not changes:
            why = new if self.unseen[person] else "no adjustment applies to such a score"
            return f"{before} stays: {why}."
        told, rest = changes[:MOST_IN_A_SENTENCE], changes[MOST_IN_A_SENTENCE:]
        moved = [units for _, units in told] + [sum(units for _, units in rest)]
        scale = 10**DIGITS
        total = round(float(after) * scale) - round(float(before) * scale)
        printed = adding_up([units / UNIT * scale for units in moved], total)
        story = self._story([(group, n) for (group, _), n in zip(told, printed) if n])
        if printed[-1]:
            story.append(f"{_signed(printed[-1])} from {plural(len(rest), 'smaller adjustment')}")
        if not story:
            return f"{first}: the adjustments come to less than {10**-DIGITS}."
        text = f"{first}: {story[0]}" + (f"; also {', '.join(story[1:])}" if story[1:] else "") + "."
        if self.corrected[person] in (0, 1):
            text += f" A risk cannot be {'below 0' if self.corrected[person] == 0 else 'above 1'}."
        if self.unseen[person]:
            text += f" T{new[1:]}; only groups that it belongs to apply."
        return text

    def sentences(self) -> list[str]:
        """The sentence of each person."""
        return [self.sentence(person) for person in range(len(self))]

    def plot(self, person: int = 0, *, ax: Any = None) -> Any:
        """Draw one person's way from raw to corrected score; returns the matplotlib axes."""
        from propcal.output.plots.correction_plots import plot_explanation

        return plot_explanation(self, person, ax=ax)

    def _rows(self, person: int) -> IntArray:
        check_number("person", person, at_least=0, at_most=len(self) - 1, whole=True)
        low, high = np.searchsorted(self.steps[:, PERSON], [person, person + 1])
        return self.steps[low:high]

    def _changes(self, person: int) -> list[tuple[Group | None, int]]:
        """Groups and what they changed in units, the largest first."""
        changes: Counter[Group | None] = Counter()
        for _, reason, before, after in self._rows(person).tolist():
            changes[self.reasons[reason].group] += after - before
        return sorted(((g, n) for g, n in changes.items() if n), key=lambda change: -abs(change[1]))

    def _label(self, group: Group | None) -> str:
        return KEPT_IN_ORDER if group is None else self.labels[group]

    def _story(self, changes: list[tuple[Group | None, int]]) -> list[str]:
        """The changes (in thousandths) with their reasons; the first reason is told in full."""
        story: list[str] = []
        full = True
        for group, n in changes:
            if group is None:
                story.append(f"{_signed(n)} to keep higher scores higher")
                continue
            who, often = (
                _people(group, self.labels[group], self.unit),
                "more often" if n > 0 else "less often",
            )
            why = f"because {who} with such scores had the outcome {often} than predicted"
            story.append(f"{_signed(n)} {why if full else f'for {who}'}")
            full = False
        return story

    def _repr_html_(self) -> str:
        from propcal.output.notebook import explanation_html

        return explanation_html(self)

    def __repr__(self) -> str:
        shown = [f"{person}: {self.sentence(person)}" for person in range(min(len(self), 5))]
        more = [f"... and {len(self) - 5:,} more {self.unit}; see to_frame()"] if len(self) > 5 else []
        return "\n".join(shown + more)


def _name(group: Group | None) -> str:
    return KEPT_IN_ORDER if group is None else group.name


def _signed(thousandths: int) -> str:
    return IN_TEXT.decimal(thousandths / 10**DIGITS, DIGITS, "+")


def trace(
    score: FloatArray, code: Any, inside: BoolArray, updates: IntArray, edges: IntArray, begun: Begun | None
) -> tuple[FloatArray, IntArray]:
    """Corrected scores, and every step on the way, by replaying the updates person by person.

    `begun` has what the smooth start did, if there is one; the reasons of updates count from behind its own.
    """
    raw = to_grid(score)
    refuse_if(len(score) * len(updates) > MOST_TRACED, len(score), len(updates))
    before = raw if begun is None else begun.score
    final, steps = _trace(before, code.astype(np.int64), inside, updates, edges, MOST_TRACED_STEPS)
    refuse_if(len(steps) > MOST_TRACED_STEPS, len(score), len(updates))
    if begun is not None:
        steps[:, REASON] += begun.n_reasons
        steps = np.concatenate([begun.steps, steps])
        steps = steps[np.argsort(steps[:, PERSON], kind="stable")]
    return np.where(final == raw, score, from_grid(final)), steps


def held_in_order(corrected: FloatArray, steps: IntArray, ordered: FloatArray, reason: int) -> IntArray:
    """The steps, and one more for each person whose score is held at what lower scores have."""
    before, after = to_grid(corrected), to_grid(ordered)
    held = np.flatnonzero(before != after)
    more = np.stack([held, np.full(len(held), reason), before[held], after[held]], axis=1)
    steps = np.concatenate([steps, more])
    return np.asarray(steps[np.argsort(steps[:, PERSON], kind="stable")])


class Begun(NamedTuple):
    """What the smooth start did: scores after it, its steps (in units), and how many reasons it has."""

    score: IntArray
    steps: IntArray
    n_reasons: int


def begin(start: SmoothStart, raw: IntArray, code: IntArray, patterns: Patterns, kept: BoolArray) -> Begun:
    """Steps of the smooth start for all people but those `kept` as they are.

    Its reasons are its terms, and then what keeps it from falling.
    """
    n_terms = len(start.groups)
    order = [*sorted(range(n_terms), key=lambda t: len(start.groups[t].conditions)), n_terms]
    refuse_if(len(raw) * len(order) > MOST_TRACED, len(raw), len(order))
    score, found, n = raw.copy(), [np.empty((0, N_COLUMNS), dtype=np.int64)], 0
    for low in range(0, len(raw), PEOPLE_AT_ONCE):
        some = slice(low, low + PEOPLE_AT_ONCE)
        parts = start.parts(raw[some], code[some], patterns)[:, order]
        parts[kept[some]] = 0
        after = raw[some, None] + np.cumsum(parts, axis=1)
        score[some] = after[:, -1]
        person, place = np.nonzero(parts)
        steps = (person + low, np.array(order)[place], (after - parts)[person, place], after[person, place])
        found.append(np.stack(steps, axis=1))
        n += len(person)
        refuse_if(n > MOST_TRACED_STEPS, len(raw), len(order))
    return Begun(score, np.concatenate(found), len(order))


def refuse_if(too_much: bool, n_people: int, n_updates: int) -> None:
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
            steps[n, PERSON], steps[n, REASON], steps[n, BEFORE], steps[n, AFTER] = person, u, value, after
            n += 1
            value = after
            j = bin_of(value, edges)
        final[person] = value
    return final, steps[:n].copy()

"""Explanation: which groups moved a person's score, and by how much, in words and numbers that add up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from propcal.core.bins import Bins
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

if TYPE_CHECKING:
    import pandas as pd

    from propcal.core.correction.smooth_map import SmoothStart
    from propcal.core.patterns import Patterns

PERSON, REASON, BEFORE, AFTER, N_COLUMNS = 0, 1, 2, 3, 4
PEOPLE_AT_ONCE = 4096
ALL_SCORES = "all scores"
KEPT_IN_ORDER = "order of scores"
FEATURE = "points: "  # before the name of a column with points, which may be an attribute of groups too
LOG_ODDS = "in log-odds"


class Reason(NamedTuple):
    """What can move a score: a group, by the smooth curve (at all scores) or by an update (in a bin).

    Points of a feature are a group of those with that level or range. Without a group, it is what keeps a
    higher score from becoming a lower one. `update` counts from 1; the whole smooth curve is the first.
    """

    update: int
    group: Group | None
    bin: str = ALL_SCORES


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
            rows = [(i, _name(g), units / UNIT) for i in range(len(self)) for g, units in self.changes(i)]
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
        reasons = zip(self.reasons_of(person), shifts)
        return [(self._label(reason.group), reason.bin, float(shift)) for reason, shift in reasons]

    def changes_of(self, person: int) -> list[tuple[str, float]]:
        """Each group that moved one person's score, and by how much in all; the largest change first."""
        return [(self._label(group), units / UNIT) for group, units in self.changes(person)]

    def sentence(self, person: int = 0) -> str:
        """What happened to one person's score, for a reader who does not know the algorithm.

        It says what the fitted curves and adjustments do at this score, not how often people had the outcome:
        a correction holds no rates. The numbers are rounded so that they add up as they are printed.
        """
        from propcal.documents.explanation import explanation_sentence

        return explanation_sentence(self, person)

    def sentences(self) -> list[str]:
        """The sentence of each person."""
        return [self.sentence(person) for person in range(len(self))]

    def plot(self, person: int = 0, *, ax: Any = None) -> Any:
        """Draw one person's way from raw to corrected score; returns the matplotlib axes."""
        from propcal.documents.explanation import explanation_chart
        from propcal.render.matplotlib import draw

        return draw(explanation_chart(self, person), ax)

    def _rows(self, person: int) -> IntArray:
        check_number("person", person, at_least=0, at_most=len(self) - 1, whole=True)
        low, high = np.searchsorted(self.steps[:, PERSON], [person, person + 1])
        return self.steps[low:high]

    def changes(self, person: int) -> list[tuple[Group | None, int]]:
        """Groups and what they changed in units, the largest first."""
        changes: Counter[Group | None] = Counter()
        for _, reason, before, after in self._rows(person).tolist():
            changes[self.reasons[reason].group] += after - before
        return sorted(((g, n) for g, n in changes.items() if n), key=lambda change: -abs(change[1]))

    def reasons_of(self, person: int) -> list[Reason]:
        """What moved one person's score, in order."""
        return [self.reasons[reason] for reason in self._rows(person)[:, REASON]]

    def _label(self, group: Group | None) -> str:
        return KEPT_IN_ORDER if group is None else self.labels[group]

    def _repr_html_(self) -> str:
        from propcal.documents.explanation import explanation_document
        from propcal.render.html import card

        return card(explanation_document(self))

    def __repr__(self) -> str:
        shown = [f"{person}: {self.sentence(person)}" for person in range(min(len(self), 5))]
        more = [f"... and {len(self) - 5:,} more {self.unit}; see to_frame()"] if len(self) > 5 else []
        return "\n".join(shown + more)


def is_feature(group: Group) -> bool:
    """Whether a reason's group stands for a level or range of a feature with points."""
    return any(name.startswith(FEATURE) for name, _ in group.conditions)


def _name(group: Group | None) -> str:
    return KEPT_IN_ORDER if group is None else group.name


def trace(
    score: FloatArray, code: IntArray, inside: BoolArray, updates: IntArray, edges: IntArray, begun: Begun
) -> tuple[FloatArray, IntArray]:
    """Corrected scores, and every step on the way, by replaying the updates.

    `begun` has what the smooth start did; the reasons of updates count from behind its own.
    """
    refuse_if(len(score) * len(updates) > MOST_TRACED, len(score), len(updates))
    raw, value, steps, n = to_grid(score), begun.score.copy(), [begun.steps], 0
    for u, who, before, after in replay(value, code, inside, updates, edges):
        moved = before != after
        reason = np.full(int(moved.sum()), begun.n_reasons + u)
        steps.append(np.stack([who[moved], reason, before[moved], after[moved]], axis=1))
        n += len(reason)
        refuse_if(n > MOST_TRACED_STEPS, len(score), len(updates))
    return np.where(value == raw, score, from_grid(value)), _by_person(steps)


def replay(
    score: IntArray, code: IntArray, inside: BoolArray, updates: IntArray, edges: IntArray
) -> Iterator[tuple[int, IntArray, IntArray, IntArray]]:
    """Apply the updates to scores (in units, in place) of people whose pattern is `code`, in order.

    For each update that can apply to any of them: its index, whom it applies to, and their scores before and
    after it.
    """
    bins = Bins(edges, "explicit", 1)
    place = bins.index(score).astype(np.int16)
    reached = np.any(inside[:, np.unique(code)], axis=1)[updates[:, 0]]
    for u in np.flatnonzero(reached).tolist():
        group, j, shift = updates[u, :3]
        who = np.flatnonzero(place == j)
        who = who[inside[group, code[who]]]
        before = score[who]
        after = np.clip(before + shift, 0, UNIT)
        score[who], place[who] = after, bins.index(after)
        yield u, who, before, after


def _by_person(steps: list[IntArray]) -> IntArray:
    """All steps, person by person, each person's in order."""
    together = np.concatenate(steps)
    return np.asarray(together[np.argsort(together[:, PERSON], kind="stable")])


def held_in_order(corrected: FloatArray, steps: IntArray, ordered: FloatArray, reason: int) -> IntArray:
    """The steps, and one more for each person whose score is held at what lower scores have."""
    before, after = to_grid(corrected), to_grid(ordered)
    held = np.flatnonzero(before != after)
    more = np.stack([held, np.full(len(held), reason), before[held], after[held]], axis=1)
    return _by_person([steps, more])


class Begun(NamedTuple):
    """What the smooth start did: scores after it, its steps (in units), and how many reasons it has."""

    score: IntArray
    steps: IntArray
    n_reasons: int


def begin(
    start: SmoothStart | None, raw: IntArray, code: IntArray, patterns: Patterns, kept: BoolArray
) -> Begun:
    """Steps of the smooth start, if there is one, for all people but those `kept` as they are.

    Its reasons are its terms, and then what keeps it from falling.
    """
    if start is None:
        return Begun(raw, np.empty((0, N_COLUMNS), dtype=np.int64), 0)
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

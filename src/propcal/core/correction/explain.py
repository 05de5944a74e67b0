"""Explains which groups moved a person's score, in words and numbers that add up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from propcal.core.arguments import Axes, check_choice, check_number
from propcal.core.grid import UNIT, BoolArray, FloatArray, IntArray, from_grid
from propcal.core.groups import Group

if TYPE_CHECKING:
    import pandas as pd

# Columns of the steps
PERSON, REASON, BEFORE, AFTER = range(4)
MAX_PRINTED = 5  # people in the terminal
ALL_SCORES = "all scores"
KEPT_IN_ORDER = "order of scores"
# before the name of a column with points, which may be an attribute of groups too
FEATURE = "points: "
LOG_ODDS = "in log-odds"


class Reason(NamedTuple):
    """What can move a score: a group, by the smooth curve (at all scores) or by an
    update (in a bin).

    Points of a feature are a group of those with that level or range. Without a group,
    it is what keeps a higher score from becoming a lower one. `update` counts from 1;
    the whole smooth curve is the first.
    """

    update: int
    group: Group | None
    bin: str = ALL_SCORES


@dataclass(frozen=True, eq=False)
class Explanation:
    """Why the scores of some people moved.

    Every change has a reason, a group, and the changes of a person add up to the whole
    change exactly. The smooth curve adds the shifts of a person's groups in log-odds;
    each group's part of the change is its shift times the mean slope of the logistic
    curve on the way (`SmoothStart.parts`). An update moves the score by its shift, as
    far as 0 or 1.

    Attributes
    ----------
    score, corrected : arrays of shape (n_people,)
    steps : array of int64, shape (n_steps, 4)
        Person, index of the reason, and the score before and after it in units of
        2**-32. The smooth curve has a step for each group, from the broadest to the
        narrowest; they happen at once, so that what lies between them is a running
        total, not a score.
    reasons : tuple of Reason
    unseen : array of bool, shape (n_people,)
        Whose combination of attributes was not seen in fitting.
    labels : dict
        What sentences and pictures call each group.
    unit : str
        What they call people.

    Examples
    --------
    >>> import pandas as pd
    >>> from propcal import PMCBoost
    >>> race = ["A", "B"] * 500
    >>> past = pd.DataFrame({"race": race, "risk": 0.2, "y": [0, 1, 0, 0] * 250})
    >>> model = PMCBoost.paper()
    >>> c = model.fit(past.risk, past.y, sensitive_features=past.race).correction_
    >>> why = c.explain([0.25, 0.2], {"race": ["B", "A"]})
    >>> print(why.sentence(1))
    0.200 becomes 0.000: -0.200 by the adjustment of A people. A risk cannot be below 0.
    >>> why.corrected.round(6).tolist()
    [0.55, 0.0]
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
            "steps": one row for each step of each person, in order. "groups": one row
            for each group that moved a person's score, its steps added up, the largest
            change first.
        """
        import pandas as pd

        check_choice("kind", kind, ("steps", "groups"))
        if kind == "groups":
            rows = []
            for person in range(len(self)):
                for group, units in self.changes(person):
                    rows.append((person, _name(group), units / UNIT))
            return pd.DataFrame(rows, columns=["person", "group", "change"])

        updates = np.array([r.update for r in self.reasons], dtype=np.int64)
        groups = np.array([_name(r.group) for r in self.reasons], dtype=object)
        bins = np.array([r.bin for r in self.reasons], dtype=object)
        reason = self.steps[:, REASON]
        before = from_grid(self.steps[:, BEFORE])
        after = from_grid(self.steps[:, AFTER])
        columns: dict[str, Any] = {
            "person": self.steps[:, PERSON],
            "update": updates[reason],
            "group": groups[reason],
            "bin": bins[reason],
            "score_before": before,
            "shift": after - before,
            "score_after": after,
        }
        return pd.DataFrame(columns)

    def steps_of(self, person: int) -> list[tuple[str, str, float]]:
        """Group (as people call it), bin and shift of each step of one person."""
        rows = self._rows(person)
        shifts = from_grid(rows[:, AFTER] - rows[:, BEFORE]).tolist()
        return [
            (self._label(reason.group), reason.bin, shift)
            for reason, shift in zip(self.reasons_of(person), shifts)
        ]

    def changes_of(self, person: int) -> list[tuple[str, float]]:
        """Each group that moved one person's score, and by how much in all; the largest
        change first.
        """
        return [
            (self._label(group), units / UNIT) for group, units in self.changes(person)
        ]

    def sentence(self, person: int = 0) -> str:
        """What happened to one person's score, for a reader who does not know the
        algorithm.

        It says what the fitted curves and adjustments do at this score, not how often
        people had the outcome: a correction holds no rates. The numbers are rounded so
        that they add up as they are printed.
        """
        from propcal.documents.correction import explanation_sentence

        return explanation_sentence(self, person)

    def sentences(self) -> list[str]:
        """The sentence of each person."""
        return [self.sentence(person) for person in range(len(self))]

    def plot(self, person: int = 0, *, ax: Axes | None = None) -> Axes:
        """Draw one person's way from raw to corrected score; returns the matplotlib
        axes.
        """
        from propcal.documents.correction import explanation_chart
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
        moved = [(group, units) for group, units in changes.items() if units]
        return sorted(moved, key=lambda change: -abs(change[1]))

    def reasons_of(self, person: int) -> list[Reason]:
        """What moved one person's score, in order."""
        return [self.reasons[reason] for reason in self._rows(person)[:, REASON]]

    def _label(self, group: Group | None) -> str:
        return KEPT_IN_ORDER if group is None else self.labels[group]

    def _repr_html_(self) -> str:
        from propcal.documents.correction import explanation_document
        from propcal.render.html import card

        return card(explanation_document(self))

    def __repr__(self) -> str:
        n_shown = min(len(self), MAX_PRINTED)
        lines = [f"{person}: {self.sentence(person)}" for person in range(n_shown)]
        n_more = len(self) - n_shown
        if n_more:
            lines.append(f"... and {n_more:,} more {self.unit}; see to_frame()")
        return "\n".join(lines)


def is_feature(group: Group) -> bool:
    """Whether a reason's group stands for a level or range of a feature with points."""
    return any(name.startswith(FEATURE) for name, _ in group.conditions)


def _name(group: Group | None) -> str:
    return KEPT_IN_ORDER if group is None else group.name

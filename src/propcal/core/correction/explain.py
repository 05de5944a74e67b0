"""Explanation: which groups moved a person's score, and by how much, in words and
numbers that add up.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from propcal.core.arguments import Axes, check_choice, check_number
from propcal.core.bins import Bins
from propcal.core.correction.points_table import PER_UNIT, PointsTable, multiply
from propcal.core.correction.smooth_map import SmoothStart, whole_parts
from propcal.core.grid import UNIT, BoolArray, FloatArray, IntArray, from_grid, to_grid
from propcal.core.groups import Group, Labels, group_labels, membership
from propcal.core.patterns import Patterns, as_listed
from propcal.errors import refused

if TYPE_CHECKING:
    import pandas as pd

    from propcal.core.correction.definition import Definition, ScoringRows

PERSON, REASON, BEFORE, AFTER = range(4)
PEOPLE_AT_ONCE = 4096
MOST_TRACED = (
    1 << 34
)  # people times what can move a score, in an explanation; about half a minute
MOST_TRACED_STEPS = 1 << 24  # steps of an explanation; 500 MB
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
    >>> past = pd.DataFrame({"race": ["A", "B"] * 500, "risk": 0.2, "y": [0, 1, 0, 0] * 250})
    >>> c = PMCBoost.paper().fit(past.risk, past.y, sensitive_features=past[["race"]]).correction_
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
            rows = [
                (i, _name(g), units / UNIT)
                for i in range(len(self))
                for g, units in self.changes(i)
            ]
            return pd.DataFrame(rows, columns=["person", "group", "change"])
        reason = self.steps[:, REASON]
        before = from_grid(self.steps[:, BEFORE])
        after = from_grid(self.steps[:, AFTER])
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
        return [
            (self._label(reason.group), reason.bin, float(shift))
            for reason, shift in reasons
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
        return sorted(
            ((g, n) for g, n in changes.items() if n),
            key=lambda change: -abs(change[1]),
        )

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
        shown = [
            f"{person}: {self.sentence(person)}" for person in range(min(len(self), 5))
        ]
        if len(self) > 5:
            more = [f"... and {len(self) - 5:,} more {self.unit}; see to_frame()"]
        else:
            more = []
        return "\n".join(shown + more)


def is_feature(group: Group) -> bool:
    """Whether a reason's group stands for a level or range of a feature with points."""
    return any(name.startswith(FEATURE) for name, _ in group.conditions)


def _name(group: Group | None) -> str:
    return KEPT_IN_ORDER if group is None else group.name


def explained(
    correction: Definition, rows: ScoringRows, unit: str, labels: Labels | None
) -> Explanation:
    """Replay the correction of some people, step by step."""
    code = rows.code.astype(np.int64)
    corrected = correction.apply_to_rows(rows)
    patterns = as_listed(rows.patterns, correction.folded)
    new = correction.known(patterns) < 0
    kept = new & (correction.unseen == "keep")
    inside = membership(correction.groups, patterns) & ~kept
    reasons = _reasons(correction)
    steps = _Steps(to_grid(rows.score), len(reasons) - 1)
    if correction.start is not None:
        steps.add_start(correction.start, code, patterns, kept[code])
    if correction.points is not None:
        steps.add_points(correction.points, rows.codes, kept[code])
    for u, who, before, after in replay(
        steps.score, code, inside, correction.updates, correction.bins.edges
    ):
        steps.add(
            who,
            np.full(len(who), len(reasons) - 1 - len(correction.updates) + u),
            before,
            after,
        )
    # some are held at what lower scores have
    steps.add(
        np.arange(len(code)),
        np.full(len(code), len(reasons) - 1),
        steps.score,
        to_grid(corrected),
    )
    groups = list(
        dict.fromkeys(reason.group for reason in reasons if reason.group is not None)
    )
    own = [group for group in groups if not is_feature(group)]
    named = dict(
        zip(own, group_labels(own, correction.patterns, labels, everyone=f"All {unit}"))
    )
    named |= {
        group: _feature_label(group, labels) for group in groups if is_feature(group)
    }
    return Explanation(
        rows.score, corrected, steps.by_person(), reasons, new[code], named, unit
    )


def _reasons(correction: Definition) -> tuple[Reason, ...]:
    """What can move a score: terms of the smooth start, points, updates, and what keeps
    either in order.
    """
    if correction.start is None:
        smooth = ()
    else:
        smooth = (*correction.start.groups, None)
    found = [Reason(1, group) for group in smooth]
    first = 1 + (correction.start is not None)
    for feature in correction.features:
        for label, own in zip(feature.labels, feature.pieces):
            group = Group(((f"{FEATURE}{feature.column}", label),))
            found.append(
                Reason(first, group, f"{(own or 0) / PER_UNIT:+.3f} {LOG_ODDS}")
            )
    first += correction.points is not None
    bins = correction.bins.labels
    for i, (g, j) in enumerate(correction.updates[:, :2].tolist()):
        found.append(Reason(first + i, correction.groups[g], bins[j]))
    return (*found, Reason(correction.n_updates, None))


def _feature_label(group: Group, labels: Labels | None) -> str:
    """What sentences call a level or range of a feature."""
    (name, level), *_ = group.conditions
    column = name.removeprefix(FEATURE)
    return (labels or {}).get(column, {}).get(str(level)) or f"{column} {level}"


class _Steps:
    """The scores of some people (in units) on the way, and the steps so far: rows as in
    `Explanation`.

    Reasons are numbered as they are added; `n_reasons` is how many there are beside the
    order of scores.
    """

    def __init__(self, score: IntArray, n_reasons: int) -> None:
        self.score = score.copy()
        self._rows = [np.empty((0, 4), dtype=np.int64)]
        self._n = 0
        self._first = 0
        self._size = len(score), n_reasons
        self._refuse_if(len(score) * n_reasons > MOST_TRACED)

    def _refuse_if(self, too_much: bool) -> None:
        if too_much:
            raise refused("many explained", people=self._size[0], updates=self._size[1])

    def add(
        self, who: IntArray, reason: IntArray, before: IntArray, after: IntArray
    ) -> None:
        """Steps of people by their reasons, but for those that change nothing."""
        moved = before != after
        self._rows.append(
            np.stack([column[moved] for column in (who, reason, before, after)], axis=1)
        )
        self._n += int(moved.sum())
        self._refuse_if(self._n > MOST_TRACED_STEPS)

    def add_start(
        self, start: SmoothStart, code: IntArray, patterns: Patterns, kept: BoolArray
    ) -> None:
        """Steps of the smooth start, the broadest terms first, and then what keeps it
        from falling.
        """
        n_terms = len(start.groups)
        order = [
            *sorted(range(n_terms), key=lambda t: len(start.groups[t].conditions)),
            n_terms,
        ]
        for low in range(0, len(code), PEOPLE_AT_ONCE):
            some = slice(low, low + PEOPLE_AT_ONCE)
            parts = start.parts(self.score[some], code[some], patterns)[:, order]
            self._add_parts(some, parts, np.array(order), kept[some])
        self._first += len(order)

    def add_points(
        self, points: PointsTable, codes: Sequence[Any], kept: BoolArray
    ) -> None:
        """A step for each feature that moves a score.

        A feature's part of the change is its points times the mean slope of the
        logistic curve on the way.
        """
        pairs = list(zip(points.features, codes))
        own = np.stack(
            [
                np.array([p or 0 for p in feature.pieces])[code]
                for feature, code in pairs
            ],
            axis=1,
        )
        change = multiply(self.score, points.odds(codes)) - self.score
        total = own.sum(axis=1)
        risk = self.score / UNIT
        none = total == 0
        slope = np.where(
            none, risk * (1 - risk) * UNIT / PER_UNIT, change / np.where(none, 1, total)
        )
        parts = whole_parts(own * slope[:, None], own != 0, change)
        sizes = np.cumsum([0, *(len(feature.pieces) for feature in points.features)])
        reason = self._first + np.stack(
            [first + code for first, code in zip(sizes, codes)], axis=1
        )
        self._add_parts(slice(0, None), parts, reason, kept)
        self._first += int(sizes[-1])

    def _add_parts(
        self, some: slice, parts: IntArray, reason: IntArray, kept: BoolArray
    ) -> None:
        """Parts of a change (a column for each reason) of some people, one after
        another; none if `kept`.
        """
        parts[kept] = 0
        after = self.score[some, None] + np.cumsum(parts, axis=1)
        who = np.broadcast_to(
            np.arange(some.start, some.start + len(parts))[:, None], parts.shape
        )
        columns = (who, np.broadcast_to(reason, parts.shape), after - parts, after)
        self.add(*(column.ravel() for column in columns))
        self.score[some] = after[:, -1]

    def by_person(self) -> IntArray:
        """All steps, person by person, each person's in order."""
        together = np.concatenate(self._rows)
        return np.asarray(together[np.argsort(together[:, PERSON], kind="stable")])


def replay(
    score: IntArray,
    code: IntArray,
    inside: BoolArray,
    updates: IntArray,
    edges: IntArray,
) -> Iterator[tuple[int, IntArray, IntArray, IntArray]]:
    """Apply the updates to scores (in units, in place) of people whose pattern is
    `code`, in order.

    For each update that can apply to any of them: its index, whom it applies to, and
    their scores before and after it.
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
        score[who] = after
        place[who] = bins.index(after)
        yield u, who, before, after

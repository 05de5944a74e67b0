"""Why a correction moved one person's score."""

from __future__ import annotations

import numpy as np

from propcal.core.correction.explain import ALL_SCORES, LOG_ODDS, Explanation, is_feature
from propcal.core.grid import UNIT
from propcal.core.groups.collection import Group
from propcal.documents.blocks import Document, Paragraphs
from propcal.documents.charts import Axis, Mark, Plot, row_axis
from propcal.documents.words import table
from propcal.numbers import IN_TEXT, adding_up, noun, plural

MOST_ROWS, MOST_NAMED = 10, 4
DIGITS = 3  # of explained scores
NEW = "this combination of attributes was not seen in fitting"


def explanation_sentence(explanation: Explanation, person: int) -> str:
    """What happened to one person's score, for a reader who does not know the algorithm."""
    changes = explanation.changes(person)
    corrected, unseen = explanation.corrected[person], explanation.unseen[person]
    before, after = (IN_TEXT.decimal(score, DIGITS) for score in (explanation.score[person], corrected))
    first = f"{before} becomes {after}" if before != after else f"{before} stays {after}"
    if not changes:
        return f"{before} stays: {NEW if unseen else 'no adjustment applies to such a score'}."
    told, rest = changes[:MOST_NAMED], changes[MOST_NAMED:]
    moved = [units for _, units in told] + [sum(units for _, units in rest)]
    scale = 10**DIGITS
    total = round(float(after) * scale) - round(float(before) * scale)
    printed = adding_up([units / UNIT * scale for units in moved], total)
    story = _story(explanation, person, [(group, n) for (group, _), n in zip(told, printed) if n])
    if printed[-1]:
        story.append(f"{_signed(printed[-1])} from {plural(len(rest), 'smaller adjustment')}")
    if not story:
        return f"{first}: the adjustments come to less than {10**-DIGITS}."
    text = f"{first}: {story[0]}" + (f"; also {', '.join(story[1:])}" if story[1:] else "") + "."
    if corrected in (0, 1):
        text += f" A risk cannot be {'below 0' if corrected == 0 else 'above 1'}."
    if unseen:
        text += f" T{NEW[1:]}; only groups that it belongs to apply."
    return text


def _story(explanation: Explanation, person: int, changes: list[tuple[Group | None, int]]) -> list[str]:
    """The changes (in thousandths) with what makes them; the first is told in full."""
    story: list[str] = []
    for group, n in changes:
        if group is None:
            story.append(f"{_signed(n)} to keep higher scores higher")
            continue
        if is_feature(group):
            story.append(f"{_signed(n)} for {explanation.labels[group]}")
            continue
        who = _people(group, explanation.labels[group], explanation.unit)
        full = f"by the {_means(explanation, person, group)} of {who}"
        story.append(f"{_signed(n)} {full if not story else f'for {who}'}")
    return story


def _means(explanation: Explanation, person: int, group: Group) -> str:
    """What moves this score for a group: its curve, its adjustments or both."""
    bins = [reason.bin for reason in explanation.reasons_of(person) if reason.group == group]
    adjusted = len(bins) - bins.count(ALL_SCORES)
    parts = ["recalibration curve"] * (ALL_SCORES in bins) + [noun(adjusted, "adjustment")] * bool(adjusted)
    return " and ".join(parts)


def _people(group: Group, label: str, unit: str) -> str:
    """The people of a group in a sentence: "White patients", "patients (White, F)", "all patients"."""
    if not group.conditions:
        return f"all {unit}"
    alone = len(group.conditions) == 1 and group.conditions[0][1] == label
    return f"{label} {unit}" if alone else f"{unit} ({label})"


def _signed(thousandths: int) -> str:
    return IN_TEXT.decimal(thousandths / 10**DIGITS, DIGITS, "+")


def explanation_document(explanation: Explanation) -> Document:
    """Why the scores of the first people moved."""
    n, unit = len(explanation), explanation.unit
    rows = [
        {"person": person, "score": explanation.score[person], "corrected": explanation.corrected[person]}
        | {"why": explanation.sentence(person)}
        for person in range(min(n, MOST_ROWS))
    ]
    more = [Paragraphs([f"... and {n - len(rows):,} more {unit}"])] if n > len(rows) else []
    return Document("Explanation", f"Explanation for {n:,} {unit}", [table("people", rows), *more])


def explanation_chart(explanation: Explanation, person: int = 0) -> Plot:
    """A waterfall: the raw score, each update that moved it, the corrected score."""
    steps = explanation.steps_of(person)
    raw, corrected = float(explanation.score[person]), float(explanation.corrected[person])
    shifts = np.array([shift for *_, shift in steps])
    place, last = np.cumsum([raw, *shifts]), len(steps) + 1
    moved = [
        f"{group}, {label if label == ALL_SCORES or label.endswith(LOG_ODDS) else f'scores in {label}'}"
        for group, label, _ in steps
    ]
    rows = row_axis(["raw score", *moved, "corrected score"])
    marks = [Mark("row-bars", "pale", [0.0], [0], [raw])]
    for row, shift in enumerate(shifts, start=1):
        look = "red" if shift > 0 else "blue"
        marks.append(Mark("row-bars", look, [place[row - 1]], [row], [place[row]]))
        marks.append(Mark("line", "guide", [place[row - 1]] * 2, [row - 0.7, row + 0.3]))
    marks.append(Mark("row-bars", "dark", [0.0], [last], [corrected]))
    at = [raw, *np.maximum(place[1:], place[:-1]), corrected]
    texts = [IN_TEXT.decimal(raw, 3), *(IN_TEXT.decimal(shift, 3, "+") for shift in shifts)]
    marks.append(Mark("texts", "", at, range(last + 1), names=[*texts, IN_TEXT.decimal(corrected, 3)]))
    x = Axis("risk score", 0.0, min(1.0, 1.25 * max(place.max(), corrected, 0.05)))
    description = "The raw score, each change of it, and the corrected score."
    return Plot("explanation", "", description, x, rows, marks, height=42 * (last + 1))

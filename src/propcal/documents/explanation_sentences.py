"""Why one person's score moved, in a sentence whose numbers add up as they are printed."""

from __future__ import annotations

from propcal.core.correction.explain import ALL_SCORES, Explanation
from propcal.core.grid import UNIT
from propcal.core.groups.collection import Group
from propcal.numbers import IN_TEXT, adding_up, noun, plural

MOST_IN_A_SENTENCE = 4
DIGITS = 3
NEW = "this combination of attributes was not seen in fitting"


def explanation_sentence(explanation: Explanation, person: int) -> str:
    """What happened to one person's score, for a reader who does not know the algorithm."""
    changes = explanation.changes(person)
    corrected, unseen = explanation.corrected[person], explanation.unseen[person]
    before, after = (IN_TEXT.decimal(score, DIGITS) for score in (explanation.score[person], corrected))
    first = f"{before} becomes {after}" if before != after else f"{before} stays {after}"
    if not changes:
        return f"{before} stays: {NEW if unseen else 'no adjustment applies to such a score'}."
    told, rest = changes[:MOST_IN_A_SENTENCE], changes[MOST_IN_A_SENTENCE:]
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

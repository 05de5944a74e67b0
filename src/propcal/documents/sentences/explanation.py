"""What happened to one person's score, in a sentence."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from propcal.core.correction.explain import Explanation, is_feature
from propcal.core.groups import Group
from propcal.documents.words import sentence
from propcal.numbers import noun

say = partial(sentence, "explanation")


class Change(NamedTuple):
    """What one group adds to a score, in print; without a group, what keeps higher
    scores higher.
    """

    size: str
    group: Group | None


class Story(NamedTuple):
    """What moved a score, the largest change first.

    `by_curve` and `adjustments` say whether the group of the first change has a curve
    and how many cells of it were adjusted; `smaller` sums up what is not listed.
    """

    changes: Sequence[Change]
    by_curve: bool
    adjustments: int
    smaller: str


def not_changed(before: str, *, unseen: bool) -> str:
    """Why a score stays as it is."""
    return say("unseen_and_unchanged" if unseen else "unchanged", before=before)


def changed(
    before: str,
    after: str,
    corrected: float,
    story: Story,
    explanation: Explanation,
    *,
    unseen: bool,
) -> str:
    """What moved a score; `before` and `after` are in print, `corrected` is exact."""
    parts = _changes(story, explanation)
    if parts:
        texts = [say("changes", first=parts[0], others=parts[1:])]
        if corrected == 0:
            texts.append(say("not_below_0"))
        elif corrected == 1:
            texts.append(say("not_above_1"))
        if unseen:
            texts.append(say("unseen"))
    else:
        texts = [say("hardly")]

    reasons = " ".join(texts)
    if before == after:
        return say("stays", before=before, story=reasons)
    return say("becomes", before=before, after=after, story=reasons)


def _changes(story: Story, explanation: Explanation) -> list[str]:
    """Each change in words; the first one tells by what its group is changed."""
    means = []
    if story.by_curve:
        means.append("recalibration curve")
    if story.adjustments:
        means.append(noun(story.adjustments, "adjustment"))

    parts = []
    for place, one in enumerate(story.changes):
        by = " and ".join(means) if place == 0 else ""
        parts.append(_change(one, explanation, by))
    if story.smaller:
        parts.append(story.smaller)
    return parts


def _change(change: Change, explanation: Explanation, by: str) -> str:
    """One change, `by` the curve or adjustments of its group."""
    size, group = change
    if group is None:
        return say("keeps_order", size=size)
    if is_feature(group):
        return say("change_for", size=size, whom=explanation.labels[group])
    whom = _whom(group, explanation)
    if by:
        return say("change_by", size=size, by=by, whom=whom)
    return say("change_for", size=size, whom=whom)


def _whom(group: Group, explanation: Explanation) -> str:
    """A group; the label of a single level stands before the noun."""
    unit = explanation.unit
    label = explanation.labels[group]
    if not group.conditions:
        return say("all_people", unit=unit)
    if len(group.conditions) == 1 and group.conditions[0][1] == label:
        return say("such_people", label=label, unit=unit)
    return say("people_who_are", label=label, unit=unit)

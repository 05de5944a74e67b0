"""What a monitor found, in sentences.

`reference` names the periods that others are compared with; it is empty if they are
compared with perfect calibration.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from propcal.auditing.names import MEASURE_NAMES
from propcal.documents.sentences.claim_lists import split
from propcal.documents.words import sentence
from propcal.monitoring.course import ALARM_RAISED, Course
from propcal.monitoring.course_claims import CourseClaim
from propcal.monitoring.held_out import (
    FEWEST_FITTED,
    HARMS,
    HELPS,
    NOTHING,
    RECALIBRATED,
    UNCLEAR,
    Recalibration,
)
from propcal.numbers import known, listed, listed_some, plural
from propcal.options import Identity
from propcal.reading.periods import span_of

MOST_GROUPS = 6  # that are named in a step
MOST_CLAIMS = 3  # that have a sentence each
TOO_EXTREME = "too extreme"

say = partial(sentence, "course")


def data_notes(
    who: Identity,
    settings: Mapping[str, Any],
    reference: str = "",
    gaps: Sequence[str] = (),
    small: Sequence[str] = (),
    late: Sequence[str] = (),
) -> list[str]:
    """What a reader should know of the data: periods without people, groups that are
    too small, and periods that came late.
    """
    notes = []
    if reference:
        notes.append(say("reference_note", reference=reference))
    if gaps:
        period = settings["every"]
        notes.append(say("periods_without_people", gaps=gaps, period=period))
    if small:
        gamma = settings["gamma"]
        notes.append(say("not_watched", small=small, gamma=gamma, who=who))
    if late:
        notes.append(say("came_late", late=late))
    return notes


def no_alarm(
    course: Course, span: str, reference: str, limits: Sequence[str]
) -> list[str]:
    """That no alarm was raised, and how large an error is excluded: `limits` are those
    of everybody and of the group for which the data say least.
    """
    who = course.identity
    periods = course.settings["periods"]
    n_groups = len(course.groups)
    when = f"in {periods[0]}"
    if len(periods) > 1:
        when = f"from {span}"
    whom = f"in all {n_groups} groups"
    if n_groups == 1:
        whom = "for everyone"
    about = {"when": when, "people": who.count(course.people), "whom": whom}
    if reference:
        evidence = say("a_change", who=who)
        return [say("no_alarm", evidence=evidence, **about), say("takes_longer")]

    evidence = say("miscalibration", who=who)
    first = say("no_alarm", evidence=evidence, **about)
    if not limits:
        return [first, say("no_proof")]
    overall, *worst = limits
    groups = "group that can be judged"
    if course.withheld:
        groups = "group whose limits are shown"
    limit = say("right_to_within", overall=overall, worst="".join(worst), groups=groups)
    return [first, limit]


def alarm(
    course: Course, reference: str, others: Sequence[Mapping[str, Any]]
) -> list[str]:
    """For whom and since when the score is wrong, in at most four sentences; `others`
    are rows of groups with an alarm that are not named.
    """
    texts = [_for_whom(course, reference)]
    n_claims = MOST_CLAIMS
    if others:
        n_claims -= 1
    for claim in course.claims[:n_claims]:
        texts.append(_since_when(claim, course, reference))
    if len(others) == 1:
        left = what_is_left(others[0])
        texts.append(say("other_alarm", row=others[0], finding=left))
    elif others:
        texts.append(say("other_alarms", n=len(others)))
    return texts


def _for_whom(course: Course, reference: str) -> str:
    who = course.identity
    groups = listed_some([claim.label for claim in course.claims])
    if reference:
        return say("changed", reference=reference, who=who, groups=groups)
    if any(claim.direction for claim in course.claims):
        return say("miscalibrated", who=who, groups=groups)
    return say("once_miscalibrated", who=who, groups=groups)


def what_is_left(row: Mapping[str, Any]) -> str:
    """What is found of a row of the table of groups; nothing if there was no alarm."""
    if row["explained_by"]:
        ratio = _ratio(row["left"], row["left_low"], row["left_high"]) or "no alarm"
        return say("without_the_error", ratio=ratio, row=row)
    if row["named"]:
        return "named"
    return ""


def _ratio(value: Any, low: Any, high: Any) -> str:
    if known(value):
        return say("ratio", value=value, low=low, high=high)
    return ""


def _since_when(claim: CourseClaim, course: Course, reference: str) -> str:
    """What the error of a group is, and since when."""
    size = _ratio(claim.estimate, claim.low, claim.high)
    if not claim.direction:
        when = _since(claim) or " over the whole time"
        return say("no_error_shown", claim=claim, when=when, size=size)

    where = "".join(
        say("at_risks", range=f"[{scores.low}, {scores.high})")
        for scores in claim.where
    )
    if reference:
        since = _since(claim) or say("perhaps_from", period=_first_compared(course))
        if size:
            size = f": {size}"
            if known(claim.reference):
                size += say("against", claim=claim, reference=reference)
        return say("ratio_changed", claim=claim, where=where, since=since, size=size)

    since = _since(claim) or say("perhaps_from_the_start")
    if claim.kind == "shape":
        side = "below" if claim.direction == TOO_EXTREME else "above"
        return say("slope_wrong", claim=claim, since=since, below_or_above=side)
    if size:
        size = f": {size}"
        if not claim.since:
            size += " over the whole time"
    return say("level_wrong", claim=claim, where=where, since=since, size=size)


def _first_compared(course: Course) -> str:
    """The first period after the reference."""
    last_reference = max(course.settings["reference"])
    later = [p for p in course.settings["periods"] if p > last_reference]
    return str(later[0])


def _since(claim: CourseClaim) -> str:
    """Since when a group is wrong; nothing if the data do not show it."""
    if not claim.since:
        return ""
    if claim.since_low == claim.since_high:
        return say("since_exactly", claim=claim)
    return say("since_about", claim=claim)


def recalibration(found: Recalibration, loss: Any, worse: Sequence[str]) -> str:
    """Whether it helps: `loss` has the log loss of everybody before and after, and
    `worse` are groups that are further off.
    """
    fitted = span_of(found.fitted)
    if found.answer == NOTHING:
        return say("nothing_to_correct", fitted=fitted)
    if found.answer not in (HELPS, HARMS, UNCLEAR):
        return say("too_early", fewest=FEWEST_FITTED + 1)

    unit = found.comparison.audits[RECALIBRATED].identity.unit
    what = say("loss_of_all", unit=unit, judged=span_of(found.judged))
    change = ""
    if known(loss["difference"]):
        digits = MEASURE_NAMES["log_loss"].digits
        change = f" {say('change_of_loss', row=loss, digits=digits)}"
    if found.answer == HELPS:
        text = say("would_help", fitted=fitted, loss=what + change)
    elif found.answer == HARMS:
        text = say("would_do_harm", fitted=fitted, loss=what + change)
    else:
        text = say("not_clear", fitted=fitted, loss=what, change=change)
    if worse:
        return f"{text} {say('further_off', worse=worse)}"
    return text


def next_steps(course: Course, reference: str) -> list[str]:
    """What to do after looking."""
    answer = []
    if course.recalibration:
        answer.append(course.recalibration.sentence)
    if course.conclusion != ALARM_RAISED:
        return [say("go_on"), *answer]

    steps = []
    dated, undated = split(course.claims, lambda claim: claim.since)
    if dated:
        steps.append(say("find_out", groups=_for_each(dated, "dated_group")))
    if undated:
        groups = _for_each(undated, "undated_group")
        if reference:
            steps.append(say("change_not_dated", groups=groups))
        else:
            steps.append(say("error_not_dated", groups=groups))
    return [*steps, *(answer or [say("ask_the_analyst")]), say("start_anew")]


def _for_each(claims: Sequence[CourseClaim], kind: str) -> str:
    """Groups that each begin with "for", so that commas within their names do not
    confuse.
    """
    groups = [say(kind, claim=claim) for claim in claims[:MOST_GROUPS]]
    more = len(claims) - MOST_GROUPS
    if more > 0:
        groups.append(f"for {plural(more, 'other group')}")
    return listed(groups, commas=True)


def methods(
    course: Course, reference: str, kinds: Sequence[str], standing: Sequence[str]
) -> list[str]:
    """How evidence, alarms and onsets were computed; `standing` texts follow the first
    sentence.
    """
    compared_with = "perfect calibration"
    if reference:
        compared_with = f"the score as it was in {reference}"
    n_groups = len(course.groups)
    first = say("tests", reference=compared_with, n_groups=n_groups, kinds=kinds)
    return [first, *standing, say("period_ends", delay=course.settings["delay"])]

"""What was found over time, in sentences that are made from claims: for whom, since when and how large."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import Any

import pandas as pd

from propcal.auditing.audit_tables import row_dicts
from propcal.auditing.compare import loss_of_everybody
from propcal.auditing.names import MEASURE_NAMES
from propcal.data.periods import span_of
from propcal.documents.words import all_words, words
from propcal.monitoring.alarms import TOO_EXTREME, CourseClaim
from propcal.monitoring.course import ALARM_RAISED, Course
from propcal.monitoring.e_processes import ALARM
from propcal.monitoring.held_out import (
    EARLY,
    FEWEST_FITTED,
    HARMS,
    HELPS,
    NOTHING,
    RECALIBRATED,
    UNCLEAR,
    Recalibration,
)
from propcal.numbers import (
    IN_SENTENCE,
    IN_TEXT,
    capital,
    in_parentheses,
    known,
    listed,
    listed_some,
    plural,
    risk_range,
)

MOST = 4  # sentences
MOST_CAUSES = 6  # groups that a next step names
TEST_NAMES = {"level": "O/E ratio", "slope": "slope", "cells": "risk ranges"}


def course_sentences(course: Course) -> tuple[str, ...]:
    """At most four sentences, the verdict first."""
    identity, claims, reference = course.identity, course.claims, course.settings["reference"]
    periods, groups = course.settings["periods"], course.groups
    if not claims:
        over = f"from {span_of(periods)}" if len(periods) > 1 else f"in {periods[0]}"
        change = "a change" if reference else "miscalibration"
        score = f" {'in' if reference else 'of'} {identity.score}" if identity.score else ""
        where = "for everyone" if len(groups) == 1 else f"in all {len(groups)} groups"
        return (
            f"No alarm {over} ({identity.count(course.people)}): the evidence of {change}{score} is below "
            f"the alarm line {where}.",
            "Small changes, and changes in small groups, take longer to show."
            if reference
            else _right_to_within(groups),
        )
    names = listed_some([claim.label for claim in claims])
    is_now = "is" if any(claim.direction for claim in claims) else "was for a time"
    verdict = (
        f"Alarm: compared with {span_of(reference)}, {identity.within_sentence} has changed for {names}."
        if reference
        else f"Alarm: {identity.within_sentence} {is_now} miscalibrated for {names}."
    )
    others = _others(groups)
    details = [_claim(claim, periods, reference) for claim in claims[: MOST - 1 - len(others)]]
    return (verdict, *details, *others)


def _others(groups: pd.DataFrame) -> list[str]:
    """Alarms of groups that are not named, if there are any."""
    others = row_dicts(groups[groups["alarm"] & ~groups["named"]])
    if len(others) > 1:
        many = f"Alarms were also raised for {len(others)} other groups"
        return [f"{many}; the table shows the O/E ratio that remains in them."]
    return [f"An alarm was also raised for {row['label']}: {what_is_left(row)}." for row in others]


def what_is_left(row: Any) -> str:
    """What is found of a row of the table of groups; nothing if there was no alarm."""
    if not row["explained_by"]:
        return "named" if row["named"] else ""
    ratio = _ratio(row["left"], row["left_low"], row["left_high"]) or "no alarm"
    return f"{ratio} without the error of {row['explained_by']}"


def _ratio(value: Any, low: Any, high: Any) -> str:
    """An O/E ratio with its interval, as far as these are known."""
    ratio = f"O/E {IN_SENTENCE.decimal(value)}{in_parentheses(IN_SENTENCE.ci(low, high))}"
    return ratio if known(value) else ""


def _right_to_within(groups: pd.DataFrame) -> str:
    """How large an error is excluded over the whole time: for all people, and where the data say least."""
    ends = zip(groups["label"], groups["ratio_low"], groups["ratio_high"])
    limits = [(max(high - 1, 1 - low), label) for label, low, high in ends if known(high)]
    if not limits:
        return "This is not proof of calibration: there are too few people to say more."
    widest = max(limits, key=lambda limit: limit[0])
    sizes = [f"to within {ceil(round(100 * x, 6))} % for {label}" for x, label in (limits[0], widest)]
    both = dict.fromkeys(sizes)
    return (
        "With 95 % confidence at every look, predictions over the whole time are right on average "
        f"{' and '.join(both)}. The error of a few periods may be larger."
    )


def _claim(claim: CourseClaim, periods: Sequence[str], reference: Sequence[str]) -> str:
    """A claim in words."""
    who = f"{claim.label} (alarm in {claim.raised})"
    size = _ratio(claim.estimate, claim.low, claim.high)
    whole = "" if claim.since else " over the whole time"
    if not claim.direction:
        over = whole or _since(claim, "")
        return (
            f"{who}: the evidence has reached the alarm line, but{over} the O/E ratio shows no error: {size}."
        )
    where = "".join(
        f" at predicted risks of {risk_range(f'[{part.low}, {part.high})')}" for part in claim.where
    )
    if reference:
        first = next(period for period in periods if period > max(reference))
        then = f", against {IN_SENTENCE.decimal(claim.reference)} in {span_of(reference)}"
        size = f": {size}{then if known(claim.reference) else ''}" if size else ""
        since = _since(claim, f", possibly from {first} on")
        return f"{who}: the O/E ratio{where} {claim.direction}{since}{size}."
    since = _since(claim, ", possibly from the start")
    if claim.kind == "shape":
        side = "below" if claim.direction == TOO_EXTREME else "above"
        return f"{who}: predicted risks are {claim.direction}{since} (calibration slope {side} 1)."
    size = f": {size}{whole}" if size else ""
    return f"{who}: the score predicts {claim.direction}{where}{since}{size}."


def _since(claim: CourseClaim, unknown: str) -> str:
    """Since when, if that is shown."""
    if not claim.since:
        return unknown
    if claim.since_low == claim.since_high:
        return f" since {claim.since} (no other period is plausible)"
    return f" since about {claim.since} (95 % CI {claim.since_low} to {claim.since_high})"


def recalibration_sentence(found: Recalibration) -> str:
    """Whether it helps: the log loss of everybody before and after, and groups that are further off."""
    row, digits = loss_of_everybody(found.comparison), MEASURE_NAMES["log_loss"].digits
    unit = found.comparison.audits[RECALIBRATED].identity.unit
    on, change = f"fitted on {span_of(found.fitted)}", ""
    loss = f"the log loss of all {unit} together in {span_of(found.judged)}"
    if known(row["difference"]):
        before, after = (IN_TEXT.decimal(row[name], digits) for name in ("base", "value"))
        interval = IN_TEXT.change(row["low"], row["high"], digits)
        change = f" ({before} before and {after} after, 95 % CI of the change {interval})"
    answer = {
        HELPS: f"Overall, recalibrating would help: {on}, it would have lowered {loss}{change}. This need "
        "not hold for each group.",
        HARMS: f"Overall, recalibrating would do harm: {on}, it would have raised {loss}{change}.",
        UNCLEAR: f"Whether recalibrating would help is not clear yet: {on}, it would have changed {loss} "
        f"by no more than chance explains{change}.",
        NOTHING: "Recalibrating would change nothing: "
        f"in {span_of(found.fitted)} the score is off by no more than chance explains.",
        EARLY: "It is too early to say whether recalibrating would help: at least "
        f"{FEWEST_FITTED + 1} periods since the beginning of the error are needed.",
    }[found.answer]
    judged = found.answer in (HELPS, HARMS, UNCLEAR)
    worse = found.comparison.worse_groups(RECALIBRATED) if judged else []
    further = f" {plural(len(worse), 'group')} would be further off than now: {listed_some(worse, 5)}."
    return answer + (further if worse else "")


def next_steps(course: Course) -> list[str]:
    """What to do after looking."""
    found = course.recalibration
    if course.conclusion != ALARM_RAISED:
        steps = ["Go on: add the next period when its outcomes are known."]
        return steps if found is None else [*steps, found.sentence]
    return [
        *_causes(course.claims, course.settings["reference"]),
        "Ask the analyst whether recalibrating would help (propcal monitor --recalibrate)."
        if found is None
        else found.sentence,
        "Once the score is corrected, begin a new state: an alarm stays raised.",
    ]


def _causes(claims: Sequence[CourseClaim], reference: Sequence[str]) -> list[str]:
    """Of every named group: what to look for, if it is known when the error began, or that this is not."""
    dated = [f"for {claim.label} about {claim.since}" for claim in claims if claim.since]
    undated = [f"for {claim.label}" for claim in claims if not claim.since]
    began = "change began" if reference else "error began; it may have been there from the start"
    steps = []
    if dated:
        inputs = "coding, case mix, treatment, or the score's inputs"
        steps.append(f"Find out what changed {_each(dated)}: {inputs}.")
    if undated:
        steps.append(f"{capital(_each(undated))} the data do not show when the {began}.")
    return steps


def _each(parts: list[str]) -> str:
    """Parts that begin with "for", so that commas within names do not confuse."""
    more = len(parts) - MOST_CAUSES
    shown = [*parts[:MOST_CAUSES], f"for {plural(more, 'other group')}"] if more > 0 else parts
    return listed(shown, commas=True)


def methods(course: Course) -> list[str]:
    """How evidence, alarms and onsets were computed."""
    settings = course.settings
    reference = (
        f"the score as it was in {span_of(settings['reference'])}"
        if settings["reference"]
        else "perfect calibration"
    )
    waited = f" and {plural(settings['delay'], 'more day')} have passed" if settings["delay"] else ""
    kinds = listed([TEST_NAMES[kind] for kind in settings["tests"]])
    return [
        f"Reference: {reference}. Tests for each of {plural(len(course.groups), 'group')}: {kinds}.",
        *(words("course_methods", name, alarm=ALARM) for name in all_words("course_methods")),
        f"A period is added when it has ended{waited}. Scores are kept to 7 binary digits.",
    ]

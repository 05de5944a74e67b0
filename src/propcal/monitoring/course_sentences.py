"""What was found over time, in sentences: alarms, since when, for whom and how large."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from propcal.identity import Identity
from propcal.numbers import IN_SENTENCE, known, listed, plural

if TYPE_CHECKING:
    from propcal.monitoring.course import Alarm

MOST_NAMED = 4  # groups in a sentence


def course_sentences(
    alarms: Sequence[Alarm],
    periods: Sequence[str],
    people: Any,
    n_groups: int,
    identity: Identity,
    reference: Sequence[str],
) -> tuple[str, ...]:
    """The verdict first; `people` is the number of all people, or a limit of it."""
    first, last = periods[0], periods[-1]
    what = (
        f"{identity.subject} has changed since {reference[-1]}"
        if reference
        else f"{identity.subject} is miscalibrated"
    )
    over = f"from {first} to {last}" if first != last else f"in {first}"
    if not alarms:
        unchanged = "a change" if reference else "miscalibration"
        return (
            f"No alarm {over} ({identity.count(people)}): the evidence of {unchanged} is below the alarm "
            f"line in all {n_groups} groups.",
            "This is not proof of calibration: small errors, and errors in small groups, take longer to "
            "show.",
        )
    clearest: dict[str, Alarm] = {}
    for alarm in alarms:
        clearest.setdefault(alarm.label, alarm)
    own = [alarm for alarm in clearest.values() if not alarm.explained_by]
    what = what if identity.score else what[0].lower() + what[1:]
    told = [f"Alarm: {what} for {_some([alarm.label for alarm in own])}."]
    told += [alarm_sentence(alarm) for alarm in own[:MOST_NAMED]]
    others = [alarm for alarm in clearest.values() if alarm.explained_by]
    if others:
        names = _some([alarm.label for alarm in others])
        told.append(f"There are also alarms for {names}, which overlap with these groups.")
    return tuple(told)


def _some(names: list[str]) -> str:
    """A few names in a sentence."""
    if len(names) <= MOST_NAMED:
        return listed(names)
    return listed([*names[:MOST_NAMED], plural(len(names) - MOST_NAMED, "other group")])


def alarm_sentence(alarm: Alarm) -> str:
    """An alarm in words."""
    span = f"{alarm.onset_low} to {alarm.onset_high}"
    if alarm.onset_low == alarm.onset_high:
        span = f"{alarm.onset_low} only"
    since = f"{alarm.label}: since about {alarm.onset} (95 % interval {span})"
    raised = f"The alarm was raised with the data of {alarm.raised}."
    if alarm.test == "slope":
        return f"{since}, predicted risks are {alarm.direction} (calibration slope). {raised}"
    where = f" for predicted risks of {alarm.where}" if alarm.where else ""
    size = ""
    if known(alarm.value):
        interval = IN_SENTENCE.interval(alarm.low, alarm.high)
        size = f" (O/E {IN_SENTENCE.decimal(alarm.value)}"
        size += f", 95 % CI {interval})" if interval != IN_SENTENCE.unknown else ")"
    return f"{since}, the score is {alarm.direction}{where}{size}. {raised}"


def left_out_note(people: Any, identity: Identity) -> str:
    """How many people could not be counted."""
    return f"{identity.count(people)} without a score or an outcome were left out."

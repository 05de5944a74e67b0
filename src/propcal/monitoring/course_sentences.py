"""What was found over time, in sentences: alarms, since when, for whom and how large."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from propcal.identity import Identity
from propcal.monitoring.e_processes import BET_STAKES, onset_stakes
from propcal.numbers import IN_SENTENCE, known, listed, plural, without_limits

if TYPE_CHECKING:
    from propcal.monitoring.course import Alarm

MOST_NAMED = 6  # groups in a sentence
UNNOTICED = 12  # periods in which it is said what could have gone unnoticed


def course_sentences(
    alarms: Sequence[Alarm],
    periods: Sequence[str],
    people: Any,
    n_groups: int,
    identity: Identity,
    reference: Sequence[str],
    missed: tuple[str, float] | None = None,
) -> tuple[str, ...]:
    """The verdict first; `people` is the number of all people, or a limit of it.

    `missed` is the group in which the largest error could have gone unnoticed, and its size.
    """
    over = f"from {span_of(periods)}" if len(periods) > 1 else f"in {periods[0]}"
    if not alarms:
        unchanged = "a change" if reference else "miscalibration"
        return (
            f"No alarm {over} ({identity.count(people)}): the evidence of {unchanged} is below the alarm "
            f"line in all {n_groups} groups.",
            _not_proof(missed, len(periods)),
        )
    clearest: dict[str, Alarm] = {}
    first: dict[str, str] = {}  # the period in which the first of a group's tests raised the alarm
    for alarm in alarms:  # the level says more than the slope of the same group
        if alarm.label not in clearest or (alarm.test == "level" and clearest[alarm.label].test == "slope"):
            clearest[alarm.label] = alarm
        first[alarm.label] = min(alarm.raised, first.get(alarm.label, alarm.raised))
    own = [alarm for alarm in clearest.values() if not alarm.explained_by]
    names = _some([alarm.label for alarm in own])
    subject = identity.score or "the score"
    told = [
        f"Alarm: compared with {span_of(reference)}, {subject} has changed for {names}."
        if reference
        else f"Alarm: {subject} is miscalibrated for {names}."
    ]
    told += [alarm_sentence(alarm, first[alarm.label], reference) for alarm in own[:MOST_NAMED]]
    others = [alarm for alarm in clearest.values() if alarm.explained_by]
    if others:
        also = "An alarm was" if len(others) == 1 else "Alarms were"
        told.append(
            f"{also} also raised for {_some([alarm.label for alarm in others])}. If the score were corrected "
            f"for {names}, there would be none."
        )
    rest = n_groups - len(clearest)
    if rest:
        others_ = "the other group" if rest == 1 else f"any of the other {rest} groups"
        told.append(f"No alarm for {others_} {over} ({identity.count(people)}).")
    return tuple(told)


def _not_proof(missed: tuple[str, float] | None, n: int) -> str:
    if missed is None:
        return (
            "This is not proof of calibration: small errors, and errors in small groups, take longer to show."
        )
    label, error = missed
    time = "this period" if n == 1 else f"the last {min(n, UNNOTICED)} periods"
    size = f"smaller than about {5 * math.ceil(20 * error)} %" if error < 1 else "of any size up to 100 %"
    return (
        f"This is not proof of calibration: in {label}, an error {size} over {time} would probably have gone "
        "unnoticed."
    )


def span_of(periods: Sequence[str]) -> str:
    """The first and the last of some periods.

    >>> span_of(["2025-01"]), span_of(["2025-01", "2025-02", "2025-03"])
    ('2025-01', '2025-01 to 2025-03')
    """
    return periods[0] if len(periods) == 1 else f"{periods[0]} to {periods[-1]}"


def _some(names: list[str]) -> str:
    """A few names in a sentence."""
    if len(names) <= MOST_NAMED:
        return listed(names)
    return listed([*names[:MOST_NAMED], plural(len(names) - MOST_NAMED, "other group")])


def alarm_sentence(alarm: Alarm, first: str, reference: Sequence[str] = ()) -> str:
    """An alarm in words; `first` is the period in which any test of the group first raised it."""
    began = f"since about {alarm.onset} (95 % CI {alarm.onset_low} to {alarm.onset_high})"
    if alarm.onset_low == alarm.onset_high:
        began = f"since {alarm.onset} (no other period is plausible)"
    raised = f"The alarm was raised with the data of {first}."
    if alarm.test == "slope":
        return f"{alarm.label}: {began}, predicted risks are {alarm.direction} (calibration slope). {raised}"
    where = f" at predicted risks of {alarm.where}" if alarm.where else ""
    size = ""
    if known(alarm.value):
        interval = IN_SENTENCE.interval(alarm.low, alarm.high)
        size = f"O/E {IN_SENTENCE.decimal(alarm.value)}"
        size += f" (95 % CI {interval})" if interval != IN_SENTENCE.unknown else ""
    if reference:
        then = ""
        if size and known(alarm.reference_value):
            then = f", against {IN_SENTENCE.decimal(alarm.reference_value)} in {span_of(reference)}"
        size = f": {size}{then}" if size else ""
        return f"{alarm.label}: {began}, the O/E ratio{where} {alarm.direction}{size}. {raised}"
    size = f": {size}" if size else ""
    return f"{alarm.label}: {began}, the score predicts {alarm.direction}{where}{size}. {raised}"


def left_out_note(people: Any, identity: Identity) -> str:
    """How many people could not be counted."""
    return f"{identity.count(people)} without a score or an outcome were left out."


def unwatched_note(labels: Sequence[str], gamma: float, identity: Identity) -> str:
    """Which groups are not watched, the broader ones first."""
    told = _some(sorted(labels, key=lambda label: label.count(", ")))
    return f"Not watched, because they have less than {100 * gamma:g} % of all {identity.unit}: {told}."


def unnoticed(periods: pd.DataFrame, stake: float) -> tuple[str, float] | None:
    """The group in which the largest error could go unnoticed, and how large it is relative to the rate.

    Of the last year of periods, or fewer. An error of d in log-odds has evidence of about v d^2 / 2, if v is
    the variance of the number of events; half of the errors whose evidence is as large as an alarm needs on
    average are noticed.
    """
    last = sorted(set(periods["period"]))[-UNNOTICED:]
    needed = 2 * math.log(1 / (stake * float(onset_stakes(UNNOTICED)[-1]) * float(BET_STAKES.max())))
    worst: tuple[str, float] | None = None
    for _, own in periods[periods["period"].isin(last)].groupby("group", sort=False):
        people, mean = (np.array(without_limits(own[name])) for name in ("people", "mean_score"))
        expected = float(np.nansum(people * mean))
        variance = float(np.nansum(people * mean * (1 - mean)))
        error = math.sqrt(needed * variance) / expected if expected > 0 else math.inf
        if worst is None or error > worst[1]:
            worst = str(own["label"].iloc[0]), error
    return worst

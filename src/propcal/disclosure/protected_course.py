"""A course over time as it may be handed on: computed from protected counts; alarms stay as they were found.

People with and without the outcome are counted by group and period, and (for the size of an error) since the
beginning of an error. Evidence is told in bands.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from propcal.core.bins import Bins
from propcal.core.grid import FloatArray
from propcal.disclosure.blocks import Blocks
from propcal.disclosure.protected import protected_comparison
from propcal.disclosure.protected_findings import alone
from propcal.disclosure.protected_sample import expected_events
from propcal.disclosure.small_counts import SmallCounts, limited_ratio
from propcal.monitoring.counts_to_course import missed_errors
from propcal.monitoring.course import ALARM, FALLEN, RISEN, Alarm, Course
from propcal.monitoring.course_sentences import course_sentences, left_out_note
from propcal.monitoring.group_months import GroupMonths
from propcal.monitoring.onset import ratios
from propcal.monitoring.recalibration import Recalibration, recalibration_sentence
from propcal.numbers import known, risk_range

BANDS = (0.0, 1.0, 5.0, ALARM, 100.0, 1000.0)  # evidence is shown as the lower end of its band
OF_A_PERIOD = (
    "people",
    "outcome_rate",
    "mean_score",
    "observed_expected",
    "observed_expected_low",
    "observed_expected_high",
)


def protected_course(course: Course, fewest: int | None) -> Course:
    """Compute a course again, from protected counts; 0 or None protects nothing."""
    if fewest is None or Blocks(fewest).fewest <= 1 or course._source is None:
        return course
    blocks, source = Blocks(fewest), course._source
    sums = GroupMonths.of(source.atoms, course.watched, source.bins)
    periods = _periods(course.periods, sums, blocks)
    alarms = tuple(_alarm(alarm, course, sums, source.bins, blocks) for alarm in course.alarms)
    everybody = _counts(sums.people[:, 0].sum(), sums.positives[:, 0].sum())
    identity, settings = course.identity, course.settings
    sentences = course_sentences(
        alarms,
        sums.periods,
        blocks.people(everybody, everybody),
        len(course.groups),
        identity,
        settings["reference"],
        missed_errors(periods, len(course.groups), settings["reference"]),
    )
    exact = left_out_note(source.left_out, identity)
    about = left_out_note(alone(source.left_out, blocks), identity)
    notes = [about if note == exact else note for note in course.notes]
    return replace(
        course,
        alarms=alarms,
        periods=periods,
        evidence=course.evidence.assign(evidence=in_bands(course.evidence["evidence"])),
        groups=_groups(course.groups, periods, sums.periods),
        sentences=sentences,
        notes=(*notes, _note(identity.unit, blocks)),
        settings={**settings, "evidence_bands": list(BANDS)},
        recalibration=_recalibration(course.recalibration, fewest),
        _source=None,
    )


def in_bands(evidence: Any) -> FloatArray:
    """The lower end of the band of each evidence.

    >>> in_bands([0.3, 4.9, 20.0, 5e7]).tolist()
    [0.0, 1.0, 20.0, 1000.0]
    """
    ends = np.array(BANDS)
    found = np.maximum(np.searchsorted(ends, np.asarray(evidence, dtype=np.float64), side="right") - 1, 0)
    return np.asarray(ends[found])


def _counts(people: Any, positives: Any) -> FloatArray:
    """People with the outcome (first row) and without it."""
    return np.array([positives, np.asarray(people) - positives], dtype=np.float64)


class _Protected:
    """Protected numbers of several sets of people; arrays and lists have one entry for each set."""

    def __init__(self, people: FloatArray, positives: FloatArray, score: FloatArray, blocks: Blocks) -> None:
        counts = _counts(people, positives)
        small = blocks.small(counts, counts)
        self.counts = SmallCounts(
            blocks.pair(counts, counts), small, small, blocks, np.zeros(len(people), dtype=np.bool_)
        )
        self.total = self.counts.shown.sum(axis=0)
        with np.errstate(invalid="ignore", divide="ignore"):
            mean = np.where(people > 0, score / people, 0.0)
        each = zip(mean.tolist(), self.total.tolist())
        self.expected = np.array([expected_events(mean_score, total) for mean_score, total in each])
        at_mean = self.expected / self.total
        observed = self.counts.shown[0]
        # as if all had the mean score, so that intervals are a little too wide
        self.ratios = np.array(ratios(observed, self.expected, observed * at_mean, self.total * at_mean**2))

    def row(self, i: int) -> dict[str, Any]:
        """The numbers of a set; limits where a count is small."""
        counts, unknown = self.counts, float("nan")
        if not counts.any[i]:
            numbers = (self.total[i], counts.shown[0, i] / self.total[i], self.expected[i] / self.total[i])
            ratio = self.ratios[:, i].tolist()
            return {**dict(zip(OF_A_PERIOD, (*numbers, *ratio))), "positives": counts.shown[0, i]}
        rate = counts.rate(i)
        mean = unknown if counts.small[:, i].all() else self.expected[i] / self.total[i]
        ratio = limited_ratio(rate, float(self.total[i]), float(self.expected[i]))
        values = (counts.people(i), rate, mean, ratio, unknown, unknown)
        return {**dict(zip(OF_A_PERIOD, values)), "positives": counts.events(i)}


def _periods(exact: pd.DataFrame, sums: GroupMonths, blocks: Blocks) -> pd.DataFrame:
    """The table of groups and periods; nobody stays nobody."""
    parts = [part.sum(axis=2).ravel() for part in (sums.people, sums.positives, sums.score)]
    found = _Protected(parts[0], parts[1], parts[2], blocks)
    rows = [found.row(i) for i in range(len(exact))]
    table = exact.copy()
    somebody = parts[0] > 0
    for name in ("positives", *OF_A_PERIOD):
        old = exact[name].tolist()
        table[name] = pd.Series(
            [row[name] if some else was for row, some, was in zip(rows, somebody, old)],
            dtype=object,
            index=table.index,
        )
    return table


def _groups(exact: pd.DataFrame, periods: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    """The table of groups: the last period and the one before come from protected counts."""
    table = exact.copy()
    for column in ("evidence", "highest"):
        table[column] = in_bands(exact[column])
    for start, place in (("", -1), ("before_", -2)):
        if len(names) < -place:
            continue
        own = periods[periods["period"] == names[place]].set_index("group")
        for name in OF_A_PERIOD:
            values = [own.at[group, name] for group in exact["group"]]
            table[f"{start}{name}"] = pd.Series(values, dtype=object, index=table.index)
    return table


def _alarm(alarm: Alarm, course: Course, sums: GroupMonths, bins: Bins, blocks: Blocks) -> Alarm:
    """The same alarm with the O/E ratio of protected counts since each plausible beginning."""
    evidence = float(in_bands([alarm.evidence])[0])
    if alarm.test == "slope":
        return replace(alarm, evidence=evidence)
    group = course.groups["group"].tolist().index(alarm.group)
    inside: Any = slice(None)
    if alarm.where:
        names = [risk_range(bins.label(b)) for b in range(len(bins))]
        inside = sums.bin_of == names.index(alarm.where)
    low, place, high = (sums.periods.index(p) for p in (alarm.onset_low, alarm.onset, alarm.onset_high))
    parts = [
        np.array([part[first:, group][:, inside].sum() for first in range(low, high + 1)])
        for part in (sums.people, sums.positives, sums.score)
    ]
    found = _Protected(parts[0], parts[1], parts[2], blocks)
    rows = [found.row(i) for i in range(len(parts[0]))]
    value, ends = rows[place - low]["observed_expected"], (np.nan, np.nan)
    if not found.counts.any.any():
        ends = float(found.ratios[1].min()), float(found.ratios[2].max())
    then: Any = np.nan
    if alarm.direction in (RISEN, FALLEN):
        chosen = [period in course.settings["reference"] for period in sums.periods]
        own = [
            np.array([part[chosen, group][:, inside].sum()])
            for part in (sums.people, sums.positives, sums.score)
        ]
        then = _Protected(own[0], own[1], own[2], blocks).row(0)["observed_expected"]
    limit: Any = then if alarm.direction in (RISEN, FALLEN) else 1.0
    fewer = alarm.direction in ("too high", FALLEN)
    if known(value) and known(limit) and fewer != (float(value) <= float(limit)):
        # nothing is said that contradicts what was found
        value, then, ends = np.nan, np.nan, (np.nan, np.nan)
    return replace(alarm, evidence=evidence, value=value, low=ends[0], high=ends[1], reference_value=then)


def _recalibration(found: Recalibration | None, fewest: int) -> Recalibration | None:
    if found is None:
        return None
    comparison = protected_comparison(found.comparison, fewest)
    sentence = recalibration_sentence(found.answer, found.fitted, found.judged, comparison)
    return replace(found, comparison=comparison, sentence=sentence)


def _note(unit: str, blocks: Blocks) -> str:
    n, width = blocks.fewest, blocks.width
    return (
        f"Small counts are protected. From 0 to {width} {unit} with the outcome, or without it, are shown as "
        f"“fewer than {n}” or “< {n}”, and larger counts as the middle of a block of {width}, so that counts "
        "need not add up. All numbers and intervals are computed from these counts. Where a group has few "
        "events in a period, they can differ from the exact ones by up to a third. Evidence is shown in "
        "bands. Alarms, and when an error began, come from the exact counts."
    )
